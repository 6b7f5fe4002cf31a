// Built-in vocabularies.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace unity::tensor {

// TASO's default list.
// Source: Jia's dissertation (2020), table 2.1; sorts and parameters as in TASO's generator.
inline constexpr std::string_view taso_vocabulary = R"ops(
sizes M=3, K=4, B=2, C=2, H=5, W=5
sort activation input [M, K]
sort matrix weight [K, K]
sort image input [B, C, H, W]
sort kernel weight [C, C, 3, 3]
sort kernel_1x3 weight [C, C, 1, 3]
sort kernel_3x1 weight [C, C, 3, 1]
sort pooling_kernel weight [C, 1, 3, 3]
sort scalar input []
operator matmul(any, any) rank 2
operator add(any, any) same_shape same_role
operator mul(any, any) same_shape same_role
operator conv2d{padding=same, activation={none, relu}}(input, weight)
operator average_pool{kernel=[3, 3], padding=same, count_include_pad=1}(input)
operator max_pool{kernel=[3, 3], padding=same}(input)
operator pool_kernel{channels=C, kernel=[3, 3]}() gives weight
operator identity_kernel{channels=C, kernel=[3, 3]}() gives weight
operator identity_matrix{size=K}() gives weight
operator fill{value=1, dims=[B, C, H, W]}() gives input
operator enlarge{kernel=[3, 3]}(weight)
operator scalar_multiply(any, input) gives first
operator relu(input) rank {2, 3, 4}
operator concat{axis={0, 1}}(any, any) same_role
operator split{axis={0, 1}}(any)
operator transpose{permutation=[1, 0]}(any)
)ops";

// All operators, constants and parameters of table 2.1, with inputs and weights of 2 to 4 dimensions.
inline constexpr std::string_view tensor_vocabulary = R"ops(
sizes M=3, K=4, A=2, B=2, C=2, H=5, W=5
sort activation input [M, K]
sort matrix weight [K, K]
sort batch input [A, M, K]
sort batch_matrix weight [A, K, K]
sort image input [B, C, H, W]
sort kernel weight [C, C, 3, 3]
sort kernel_1x3 weight [C, C, 1, 3]
sort pointwise weight [C, C, 1, 1]
sort pooling_kernel weight [C, 1, 3, 3]
sort scalar input []
operator matmul(any, any) rank {2, 3} same_rank
operator add(any, any) same_shape same_role
operator mul(any, any) same_shape same_role
operator conv2d{stride={[1, 1], [2, 2]}, padding=same, activation={none, relu}}(input, weight)
operator conv2d{padding=valid}(input, weight)
operator conv2d{padding=same, groups=C}(input, weight)
operator average_pool{kernel=[3, 3], padding=same, count_include_pad=1}(input)
operator average_pool{kernel=[2, 2], stride=[2, 2], padding=valid}(input)
operator max_pool{kernel=[3, 3], padding=same}(input)
operator max_pool{kernel=[2, 2], stride=[2, 2], padding=valid}(input)
operator pool_kernel{channels=C, kernel=[3, 3]}() gives weight
operator identity_kernel{channels=C, kernel=[3, 3]}() gives weight
operator identity_matrix{size=K}() gives weight
operator fill{value=1, dims={[M, K], [B, C, H, W]}}() gives input
operator enlarge{kernel=[3, 3]}(weight)
operator scalar_multiply(any, input) gives first
operator relu(input) rank {2, 3, 4}
operator concat{axis={0, 1}}(any, any) same_role
operator split{axis={0, 1}}(any)
operator transpose{permutation={[1, 0], [0, 2, 1]}}(any)
)ops";

// The parts of TASO's list for matrices and for images.
inline constexpr std::string_view matrix_vocabulary = R"ops(
sizes M=3, K=4
sort activation input [M, K]
sort matrix weight [K, K]
sort scalar input []
operator matmul(any, any)
operator add(any, any) same_shape same_role
operator mul(any, any) same_shape same_role
operator scalar_multiply(any, input) gives first
operator relu(input) rank {2, 3, 4}
operator concat{axis={0, 1}}(any, any) same_role
operator split{axis={0, 1}}(any)
operator transpose{permutation=[1, 0]}(any)
)ops";

inline constexpr std::string_view image_vocabulary = R"ops(
sizes B=2, C=2, H=7, W=7
sort image input [B, C, H, W]
sort kernel weight [C, C, 3, 3]
sort kernel_1x3 weight [C, C, 1, 3]
operator add(any, any) same_shape same_role
operator conv2d{padding=same, activation={none, relu}}(input, weight)
operator average_pool{kernel=[3, 3], padding=same, count_include_pad=1}(input)
operator max_pool{kernel=[3, 3], padding=same}(input)
operator enlarge{kernel=[3, 3]}(weight)
operator relu(input)
operator concat{axis={0, 1}}(any, any) same_role
operator split{axis={0, 1}}(any)
)ops";

// The operators over which rules are derived (rule_derivation.hpp), and the maximal size of a composition.
struct composition_list {
  std::string_view name;
  std::string_view operators;
  std::size_t most_operators = 0;
};

inline constexpr std::array<composition_list, 3> composition_lists{
    {{"convolution", "conv2d:iw conv2d:iww batch_norm:iwwww add:ii relu:i", 3},
     {"dense", "matmul:iw linear:iww add:iw relu:i scalar_multiply:iw", 3},
     {"recurrent", "matmul:iw add:ii add:iw relu:i", 4}}};

}  // namespace unity::tensor
