// Vocabularies that the library ships.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace unity::tensor {

// TASO's default list. Source: Jia's dissertation (2020), table 2.1; sorts and parameters as in TASO's generator.
inline constexpr std::string_view taso_vocabulary = R"ops(
sizes B=2, C=2, H=5, W=5
sort activation input [B, C]
sort matrix weight [C, C]
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
operator identity_matrix{size=C}() gives weight
operator fill{value=1, dims=[B, C, H, W]}() gives input
operator enlarge{kernel=[3, 3]}(weight)
operator scalar_multiply(any, input)
operator relu(input)
operator concat{axis={0, 1}}(any, any) same_role
operator split{axis={0, 1}}(any)
operator transpose{permutation=[1, 0]}(any)
)ops";

}  // namespace unity::tensor
