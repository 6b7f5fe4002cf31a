// Every kind of operator on operands that can be divided, divided along each dimension and sum.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "../operators.hpp"
#include "../part_values.hpp"

namespace tests_of_operator_parts {

namespace {

using namespace unity;
using namespace unity::parallel;
using parallel::test::compare;
using parallel::test::operators;
using tensor::dtype;
using tensor::shape;
using values = tensor::dense<double>;

// An operand with elements from low to below high.
struct operand {
  shape dims{};
  double low = -1;
  double high = 1;
  dtype element = dtype::float32;
};

operand reals(shape dims) { return {std::move(dims)}; }
operand positive(shape dims) { return {std::move(dims), 0.1, 2.1}; }
operand integers(shape dims, int low, int high, dtype element = dtype::int64) {
  return {std::move(dims), static_cast<double>(low), static_cast<double>(high), element};
}
operand booleans(shape dims) { return integers(std::move(dims), 0, 2, dtype::boolean); }

struct operator_case {
  std::string name{};
  std::vector<tensor::named_attribute> attributes{};
  std::vector<operand> operands{};
};

std::vector<operator_case> cases() {
  return {
      {"group_norm", {{"groups", 4}}, {reals({4, 8, 2, 2}), positive({8}), reals({8})}},
      {"group_norm", {{"groups", 4}}, {reals({4, 8, 2, 2}), positive({4}), reals({4})}},
      {"group_norm", {{"groups", 1}}, {reals({4, 8, 2, 2}), positive({8}), reals({8})}},
      {"group_norm", {{"groups", 8}}, {reals({4, 8, 2, 2}), positive({8}), reals({8})}},
      {"instance_norm", {}, {reals({4, 8, 2, 2}), positive({8}), reals({8})}},
      {"conv_transpose",
       {{"stride", {2, 2}}, {"pads", {0, 0, 0, 0}}, {"dilation", {1, 1}}, {"output_padding", {0, 0}}, {"groups", 1}},
       {reals({4, 4, 4, 4}), reals({4, 4, 2, 2})}},
      {"conv_transpose",
       {{"stride", {2, 2}}, {"pads", {0, 0, 0, 0}}, {"dilation", {1, 1}}, {"output_padding", {0, 0}}, {"groups", 1}},
       {reals({4, 4, 4, 4}), reals({4, 4, 2, 2}), reals({4})}},
      {"conv_transpose",
       {{"stride", {2, 2}}, {"pads", {0, 0, 0, 0}}, {"dilation", {1, 1}}, {"output_padding", {0, 0}}, {"groups", 4}},
       {reals({4, 4, 4, 4}), reals({4, 2, 2, 2}), reals({8})}},
      {"conv_transpose",
       {{"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"dilation", {1, 1}}, {"output_padding", {1, 1}}, {"groups", 2}},
       {reals({4, 4, 4, 4}), reals({4, 2, 3, 3})}},
      {"conv_transpose",
       {{"stride", {2}}, {"pads", {1, 1}}, {"dilation", {1}}, {"output_padding", {1}}, {"groups", 2}},
       {reals({4, 4, 4}), reals({4, 2, 3})}},
      {"conv2d_transpose",
       {{"stride", {2, 2}}, {"padding", "same"}, {"dims", {4, 4, 14, 14}}},
       {reals({4, 8, 7, 7}), reals({8, 4, 3, 3})}},
      {"conv2d_transpose",
       {{"stride", {2, 2}}, {"padding", "same"}, {"groups", 2}, {"dims", {4, 4, 14, 14}}},
       {reals({4, 8, 7, 7}), reals({8, 2, 3, 3})}},
      {"conv2d_input_gradient",
       {{"stride", {2, 2}}, {"padding", "same"}, {"dims", {4, 4, 14, 14}}},
       {reals({4, 8, 7, 7}), reals({8, 4, 3, 3})}},
      {"conv2d_weight_gradient",
       {{"stride", {2, 2}}, {"padding", "same"}, {"dims", {8, 4, 3, 3}}},
       {reals({4, 4, 14, 14}), reals({4, 8, 7, 7})}},
      {"conv2d_weight_gradient",
       {{"stride", {2, 2}}, {"padding", "same"}, {"groups", 2}, {"dims", {8, 2, 3, 3}}},
       {reals({4, 4, 14, 14}), reals({4, 8, 7, 7})}},
      {"conv2d", {{"stride", {2, 2}}, {"padding", "same"}}, {reals({4, 4, 14, 14}), reals({8, 4, 3, 3}), reals({8})}},
      {"conv2d",
       {{"stride", {2, 2}}, {"padding", "same_lower"}, {"groups", 2}},
       {reals({4, 4, 14, 12}), reals({8, 2, 3, 4}), reals({8})}},
      {"conv2d",
       {{"stride", {2, 2}}, {"pads", {1, 0, 2, 3}}, {"dilation", {2, 1}}, {"groups", 2}},
       {reals({4, 4, 14, 12}), reals({8, 2, 3, 4}), reals({8})}},
      {"conv2d",
       {{"stride", {4, 4}}, {"pads", {1, 0, 2, 3}}, {"dilation", {1, 1}}},
       {reals({4, 4, 14, 12}), reals({8, 4, 1, 2}), reals({8})}},
      {"conv2d",
       {{"stride", {4, 4}}, {"pads", {1, 0, 2, 3}}, {"dilation", {1, 1}}},
       {reals({4, 4, 17, 25}), reals({8, 4, 1, 2}), reals({8})}},
      {"max_pool",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"ceil_mode", 1}},
       {reals({4, 4, 14, 13})}},
      {"max_pool", {{"kernel", {3, 2}}, {"stride", {2, 2}}, {"padding", "same"}}, {reals({4, 4, 15, 16})}},
      {"max_pool", {{"kernel", {2, 2}}, {"stride", {4, 4}}}, {reals({4, 4, 15, 16})}},
      {"max_pool", {{"kernel", {2, 2}}, {"dilation", {3, 3}}, {"pads", {1, 1, 1, 1}}}, {reals({4, 4, 5, 6})}},
      {"average_pool",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"ceil_mode", 1}, {"count_include_pad", 1}},
       {reals({4, 4, 14, 13})}},
      {"average_pool",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"ceil_mode", 1}, {"count_include_pad", 0}},
       {reals({4, 4, 14, 13})}},
      {"average_pool",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"padding", "same"}, {"count_include_pad", 1}},
       {reals({4, 4, 14, 15})}},
      {"average_pool",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"padding", "same_lower"}, {"count_include_pad", 1}},
       {reals({4, 4, 16, 12})}},
      {"global_average_pool", {}, {reals({4, 4, 6, 6})}},
      {"global_max_pool", {}, {reals({4, 4, 6, 6})}},
      {"pool_counts", {{"kernel", {3, 3}}, {"dims", {4, 4, 8, 8}}}, {}},
      {"resize", {{"mode", "nearest"}, {"dims", {4, 4, 8, 8}}}, {reals({4, 4, 4, 4})}},
      {"resize", {{"mode", "linear"}, {"dims", {4, 4, 8, 8}}}, {reals({4, 4, 4, 4})}},
      {"resize", {{"mode", "linear"}, {"dims", {4, 4, 8, 12}}}, {reals({4, 4, 4, 12})}},
      {"resize", {{"mode", "nearest"}, {"dims", {8, 4}}}, {reals({4, 4})}},
      {"tile", {{"repeats", {2, 1, 3}}}, {reals({4, 4, 2})}},
      {"expand", {{"dims", {4, 4, 4}}}, {reals({4, 1, 4})}},
      {"expand", {{"dims", {4, 4, 4}}}, {reals({1, 4})}},
      {"depth_to_space", {{"block", 2}, {"order", "dcr"}}, {reals({4, 16, 4, 4})}},
      {"depth_to_space", {{"block", 2}, {"order", "crd"}}, {reals({4, 16, 4, 4})}},
      {"space_to_depth", {{"block", 2}}, {reals({4, 4, 8, 8})}},
      {"trilu", {{"upper", 1}, {"k", 1}}, {reals({4, 4, 4})}},
      {"trilu", {{"upper", 0}, {"k", -1}}, {reals({4, 4})}},
      {"eye_like", {{"k", 1}, {"element", "float32"}}, {reals({4, 4})}},
      {"strided_slice", {{"axes", {1}}, {"starts", {5}}, {"counts", {3}}, {"steps", {-2}}}, {reals({4, 6, 4})}},
      {"strided_slice",
       {{"axes", {0, 1}}, {"starts", {3, 5}}, {"counts", {4, 6}}, {"steps", {-1, -1}}},
       {reals({4, 6, 4})}},
      {"border_pad", {{"mode", "reflect"}, {"pads", {0, 2, 0, 0, 1, 0}}}, {reals({4, 6, 4})}},
      {"border_pad", {{"mode", "constant"}, {"pads", {0, -2, 0, 0, 1, 0}}, {"value", 2.0}}, {reals({4, 6, 4})}},
      {"border_pad", {{"mode", "constant"}, {"pads", {0, 0, 0, 0, 0, 0}}, {"value", 2.0}}, {reals({4, 6, 4})}},
      {"border_pad", {{"mode", "wrap"}, {"pads", {0, 2, 0, 0, 1, 0}}}, {reals({4, 6, 4})}},
      {"pad", {{"pads", {0, 1, 0, 0, 2, 0}}, {"value", 3.0}}, {reals({4, 6, 4})}},
      {"slice", {{"axes", {1}}, {"starts", {1}}, {"ends", {6}}, {"steps", {2}}}, {reals({4, 6, 4})}},
      {"slice", {{"axes", {0, 1}}, {"starts", {0, 1}}, {"ends", {4, 6}}, {"steps", {1, 2}}}, {reals({4, 6, 4})}},
      {"gather", {{"axis", 0}}, {reals({6, 4}), integers({4, 2}, -6, 6)}},
      {"gather", {{"axis", 1}}, {reals({4, 6, 4}), integers({4, 2}, -6, 6)}},
      {"gather", {{"axis", 2}}, {reals({4, 6, 4}), integers({4, 2}, -4, 4, dtype::int32)}},
      {"gather_elements", {{"axis", 0}}, {reals({6, 4}), integers({4, 4}, -6, 6)}},
      {"gather_elements", {{"axis", 1}}, {reals({6, 4}), integers({4, 4}, -4, 4)}},
      {"gather_elements", {{"axis", 1}}, {reals({6, 4, 2}), integers({6, 8, 2}, -4, 4)}},
      {"gather_nd", {{"batch", 0}}, {reals({6, 4, 4}), integers({4, 2}, -4, 4)}},
      {"gather_nd", {{"batch", 1}}, {reals({4, 4, 4, 4}), integers({4, 4, 2}, -4, 4)}},
      {"gather_nd", {{"batch", 1}}, {reals({4, 4, 4, 4}), integers({4, 4, 1}, -4, 4)}},
      {"scatter_elements",
       {{"axis", 1}, {"reduction", "add"}},
       {reals({4, 6}), integers({4, 4}, -6, 6), reals({4, 4})}},
      {"scatter_elements",
       {{"axis", 0}, {"reduction", "add"}},
       {reals({4, 6}), integers({4, 4}, -4, 4), reals({4, 4})}},
      {"scatter_nd", {{"reduction", "add"}}, {reals({4, 6}), integers({4, 1}, -4, 4), reals({4, 6})}},
      {"scatter_nd", {{"reduction", "add"}}, {reals({4, 6, 4}), integers({4, 2}, -4, 4), reals({4, 4})}},
      {"one_hot_values", {{"axis", 1}, {"depth", 4}}, {integers({4, 4}, -6, 6), reals({2})}},
      {"one_hot", {{"classes", 4}, {"element", "float32"}}, {integers({4, 4}, -2, 6)}},
      {"embedding", {}, {reals({6, 4}), integers({4, 4}, -2, 8)}},
      {"embedding_bag", {}, {reals({6, 4}), integers({4, 4}, -2, 8)}},
      {"embedding_gradient", {{"rows", 6}}, {integers({4, 4}, -2, 8), reals({4, 4, 4})}},
      {"embedding_bag_gradient", {{"rows", 6}}, {integers({4, 4}, -2, 8), reals({4, 4})}},
      {"scatter_sum", {{"rows", 6}}, {integers({4, 4}, -2, 8), reals({4, 4, 4})}},
      {"reduce_mean", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_mean", {{"axes", {0, 1}}, {"keep_dims", 0}}, {reals({4, 6, 4})}},
      {"reduce_sum", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_max", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_min", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_prod", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_l1", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_l2", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_sum_square", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_log_sum_exp", {{"axes", {1}}}, {reals({4, 6, 4})}},
      {"reduce_log_sum", {{"axes", {1}}}, {positive({4, 6, 4})}},
      {"arg_max", {{"axis", 1}}, {reals({4, 6, 4})}},
      {"arg_min", {{"axis", 1}, {"keep_dims", 0}, {"last", 1}}, {reals({4, 6, 4})}},
      {"hardmax", {{"axis", 1}}, {reals({4, 6, 4})}},
      {"cumulative_sum", {{"axis", 1}}, {reals({4, 6, 4})}},
      {"cumulative_sum", {{"axis", 1}, {"exclusive", 1}, {"reverse", 1}}, {reals({4, 6, 4})}},
      {"top_elements", {{"axis", 1}, {"count", 4}}, {reals({4, 6, 4})}},
      {"top_k", {{"count", 4}}, {reals({6})}},
      {"equal_positions", {{"axis", 1}}, {reals({4, 6, 4}), reals({4, 1, 4})}},
      {"is_position", {{"axis", 1}, {"size", 6}, {"element", "float32"}}, {integers({4, 4}, -1, 8)}},
      {"einsum", {{"equation", "bij,bjk->bik"}}, {reals({4, 4, 6}), reals({4, 6, 4})}},
      {"einsum", {{"equation", "bij,bjk,k->bi"}}, {reals({4, 4, 6}), reals({4, 6, 4}), reals({4})}},
      {"einsum", {{"equation", "...ij->...ji"}}, {reals({4, 4, 6})}},
      {"einsum", {{"equation", "i,j->ij"}}, {reals({4}), reals({6})}},
      {"einsum", {{"equation", "ij->j"}}, {reals({4, 6})}},
      {"einsum", {{"equation", "ij,ij->"}}, {reals({4, 6}), reals({4, 6})}},
      {"softmax", {{"axis", 1}}, {reals({4, 6, 4})}},
      {"log_softmax", {{"axis", 1}}, {reals({4, 6, 4})}},
      {"flat_softmax", {{"axis", 1}, {"function", "softmax"}}, {reals({4, 6, 4})}},
      {"flat_softmax", {{"axis", 2}, {"function", "hardmax"}}, {reals({4, 6, 4})}},
      {"layer_norm", {{"axis", 1}}, {reals({4, 6, 4}), reals({6, 4}), reals({6, 4})}},
      {"rms_norm", {{"axis", 1}}, {reals({4, 6, 4}), reals({4})}},
      {"rms_norm", {{"axis", 2}}, {reals({4, 6, 4}), reals({4})}},
      {"local_response_norm", {{"size", 3}}, {reals({4, 6, 4, 2})}},
      {"lp_norm", {{"axis", 1}, {"p", 1}}, {reals({4, 6, 4})}},
      {"mean_variance_norm", {{"axes", {0, 2}}}, {reals({4, 6, 4})}},
      {"batch_norm", {}, {reals({4, 6, 4}), reals({6}), reals({6}), reals({6}), positive({6})}},
      {"dot_product_attention", {}, {reals({4, 4, 4, 4}), reals({4, 2, 6, 4}), reals({4, 2, 6, 4})}},
      {"dot_product_attention", {{"causal", 1}}, {reals({4, 4, 4, 4}), reals({4, 4, 6, 4}), reals({4, 4, 6, 4})}},
      {"dot_product_attention",
       {{"causal", 1}, {"heads", 4}, {"key_heads", 2}},
       {reals({4, 4, 16}), reals({4, 6, 8}), reals({4, 6, 12})}},
      {"dot_product_attention",
       {{"heads", 4}, {"key_heads", 4}},
       {reals({4, 4, 16}), reals({4, 6, 16}), reals({4, 6, 16})}},
      {"dot_product_attention",
       {{"heads", 4}, {"key_heads", 4}},
       {reals({4, 4, 16}), reals({4, 6, 16}), reals({4, 6, 16}), booleans({4, 6})}},
      {"dot_product_attention",
       {{"heads", 4}, {"key_heads", 1}},
       {reals({4, 4, 16}), reals({4, 6, 4}), reals({4, 6, 4}), reals({4, 1, 4, 6})}},
      {"dot_product_attention",
       {{"heads", 1}, {"key_heads", 1}},
       {reals({4, 4, 16}), reals({4, 6, 16}), reals({4, 6, 4}), reals({4, 1, 4, 6})}},
      {"dot_product_attention",
       {{"scale", 0.3}},
       {reals({4, 4, 4, 4}), reals({4, 4, 6, 4}), reals({4, 4, 6, 4}), reals({4, 4, 1, 6})}},
      {"dot_product_attention_gradient",
       {{"of", {0, 1, 2}}, {"causal", 1}, {"heads", 4}, {"key_heads", 2}, {"scale", 0.0}},
       {reals({4, 4, 16}), reals({4, 6, 8}), reals({4, 6, 12}), reals({4, 4, 24})}},
      {"rotary_embedding", {{"heads", 2}}, {reals({4, 6, 8}), reals({4, 6, 2}), reals({4, 6, 2})}},
      {"rotary_embedding",
       {{"heads", 2}, {"interleaved", 1}},
       {reals({4, 6, 8}), reals({6, 2}), reals({6, 2}), integers({4, 6}, 0, 6)}},
      {"rotary_embedding", {{"heads", 1}}, {reals({4, 6, 8}), reals({4, 6, 4}), reals({4, 6, 4})}},
      {"rotary_embedding", {}, {reals({4, 2, 6, 8}), reals({4, 6, 2}), reals({4, 6, 2})}},
      {"attention",
       {{"heads", 4}},
       {reals({4, 4, 6}), reals({4, 6, 6}), reals({4, 6, 6}), reals({6, 8}), reals({6, 8}), reals({6, 8}),
        reals({8, 6})}},
      {"attention_gradient",
       {{"heads", 4}, {"of", {0, 3, 4, 5, 6}}},
       {reals({4, 4, 6}), reals({4, 6, 6}), reals({4, 6, 6}), reals({6, 8}), reals({6, 8}), reals({6, 8}),
        reals({8, 6}), reals({4, 4, 6})}},
      {"lower_triangle", {{"rows", 4}, {"columns", 4}, {"element", "float32"}}, {}},
      {"lstm", {}, {reals({4, 4, 6}), reals({1, 16, 6}), reals({1, 16, 4})}},
      {"lstm",
       {{"direction", "bidirectional"}, {"bias", 1}, {"initial_h", 1}, {"initial_c", 1}},
       {reals({4, 4, 6}), reals({2, 16, 6}), reals({2, 16, 4}), reals({2, 32}), reals({2, 4, 4}), reals({2, 4, 4})}},
      {"gru",
       {{"bias", 1}, {"reset_after", 1}},
       {reals({4, 4, 6}), reals({1, 12, 6}), reals({1, 12, 4}), reals({1, 24})}},
      {"gru",
       {{"bias", 1}, {"reset_after", 0}},
       {reals({4, 4, 6}), reals({1, 12, 6}), reals({1, 12, 4}), reals({1, 24})}},
      {"rnn", {{"direction", "reverse"}}, {reals({4, 4, 6}), reals({1, 4, 6}), reals({1, 4, 4})}},
      {"lstm_cell",
       {},
       {reals({4, 6}), reals({4, 4}), reals({4, 4}), reals({4, 4, 6}), reals({4, 4, 4}), reals({4, 4})}},
      {"lstm_cell_gradient",
       {{"of", {0, 1, 2, 3, 4, 5}}},
       {reals({4, 6}), reals({4, 4}), reals({4, 4}), reals({4, 4, 6}), reals({4, 4, 4}), reals({4, 4}), reals({4, 4}),
        reals({4, 4})}},
      {"dequantize",
       {{"axis", 1}},
       {integers({4, 6}, -100, 100, dtype::int8), positive({6}), integers({6}, -5, 5, dtype::int8)}},
      {"dequantize",
       {{"axis", 1}, {"block", 3}},
       {integers({4, 12}, -100, 100, dtype::int8), positive({4, 4}), integers({4, 4}, -5, 5, dtype::int8)}},
      {"quantize",
       {{"axis", 1}, {"element", "int8"}},
       {reals({4, 6}), positive({6}), integers({6}, -5, 5, dtype::int8)}},
      {"quantize", {{"axis", 0}, {"block", 2}, {"element", "int8"}}, {reals({8, 6}), positive({4, 6})}},
      {"dynamic_quantize", {}, {reals({8, 6})}},
      {"integer_matmul",
       {},
       {integers({4, 6}, -100, 100, dtype::int8), integers({6, 4}, -100, 100, dtype::int8),
        integers({4}, -3, 3, dtype::int8), integers({4}, -3, 3, dtype::int8)}},
      {"integer_matmul", {}, {integers({4, 6}, -100, 100, dtype::int8), integers({6, 4}, -100, 100, dtype::int8)}},
      {"integer_conv2d",
       {{"pads", {1, 1, 1, 1}}},
       {integers({4, 4, 6, 6}, 0, 100, dtype::uint8), integers({8, 4, 3, 3}, -100, 100, dtype::int8),
        integers({}, 1, 3, dtype::uint8), integers({8}, -3, 3, dtype::int8)}},
      {"integer_conv2d",
       {{"pads", {1, 1, 1, 1}}, {"groups", 2}},
       {integers({4, 4, 6, 6}, 0, 100, dtype::uint8), integers({8, 2, 3, 3}, -100, 100, dtype::int8),
        integers({}, 1, 3, dtype::uint8), integers({}, -3, 3, dtype::int8)}},
      {"integer_conv2d",
       {{"padding", "same"}, {"stride", {2, 2}}},
       {integers({4, 4, 6, 6}, 0, 100, dtype::uint8), integers({8, 4, 3, 3}, -100, 100, dtype::int8)}},
      {"quantized_matmul",
       {},
       {integers({4, 6}, -100, 100, dtype::int8), positive({}), integers({}, -3, 3, dtype::int8),
        integers({6, 4}, -100, 100, dtype::int8), positive({4}), integers({4}, -3, 3, dtype::int8),
        integers({}, 1000, 1001, dtype::float32), integers({}, -3, 3, dtype::int8)}},
      {"quantized_conv2d",
       {{"padding", "same"}, {"stride", {2, 2}}},
       {integers({4, 4, 6, 6}, 0, 100, dtype::uint8), positive({}), integers({}, 1, 3, dtype::uint8),
        integers({8, 4, 3, 3}, -100, 100, dtype::int8), positive({8}), integers({8}, -3, 3, dtype::int8),
        integers({}, 1000, 1001, dtype::float32), integers({}, -3, 3, dtype::int8)}},
      {"conv2d", {{"pads", {1, 1, 1, 1}}}, {reals({4, 4, 2, 2}), reals({8, 4, 1, 1})}},
      {"negative_log_likelihood", {{"reduction", "none"}}, {reals({4, 6, 4}), integers({4, 4}, 0, 6)}},
      {"negative_log_likelihood", {{"reduction", "sum"}}, {reals({4, 6, 4}), integers({4, 4}, 0, 6)}},
      {"negative_log_likelihood",
       {{"reduction", "mean"}, {"ignores", 1}, {"ignored", 2}},
       {reals({4, 6, 4}), integers({4, 4}, 0, 6), positive({6})}},
      {"softmax_cross_entropy",
       {{"reduction", "none"}, {"ignores", 1}, {"ignored", 2}},
       {reals({4, 6, 4}), integers({4, 4}, 0, 6), positive({6})}},
      {"cross_entropy", {}, {reals({4, 6}), integers({4}, 0, 6)}},
      {"cross_entropy_gradient", {}, {reals({4, 6}), integers({4}, 0, 6), reals({4})}},
      {"where", {}, {booleans({4, 1}), reals({4, 6}), reals({6})}},
      {"prelu", {}, {reals({4, 6}), reals({6})}},
      {"linear", {{"activation", "relu"}}, {reals({4, 4, 6}), reals({6, 4}), reals({4})}},
      {"linear", {}, {reals({4, 4, 6}), reals({6, 4}), reals({4})}},
      {"matmul", {}, {reals({4, 1, 4, 6}), reals({4, 6, 4})}},
      {"concat", {{"axis", 1}}, {reals({4, 2}), reals({4, 4})}},
      {"split", {{"axis", 1}, {"sizes", {2, 4}}}, {reals({4, 6})}},
      {"reshape", {{"dims", {8, 3}}}, {reals({4, 6})}},
      {"reshape", {{"dims", {2, 12}}}, {reals({4, 6})}},
      {"reshape", {{"dims", {6, 4}}}, {reals({4, 6})}},
      {"squeeze", {{"axes", {1}}}, {reals({4, 1, 6})}},
      {"unsqueeze", {{"axes", {0, 2}}}, {reals({4, 6})}},
      {"segment_sum",
       {},
       {reals({4, 6}), integers({5}, 0, 1), integers({8}, 0, 4), integers({5}, 0, 1), integers({8}, 0, 4)}},
      {"segment_softmax", {}, {reals({8, 6}), integers({5}, 0, 8)}},
      {"max_pool_gradient",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"padding", "same"}},
       {reals({4, 4, 14, 14}), reals({4, 4, 7, 7}), reals({4, 4, 7, 7})}},
      {"average_pool_gradient",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"padding", "same"}, {"dims", {4, 4, 14, 14}}},
       {reals({4, 4, 7, 7})}},
      {"average_pool_gradient",
       {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"dims", {4, 4, 14, 14}}},
       {reals({4, 4, 7, 7})}},
      {"layer_norm_gradient",
       {{"axis", 2}, {"of", {0, 1, 2}}},
       {reals({4, 4, 6}), reals({6}), reals({6}), reals({4, 4, 6})}},
      {"batch_norm_gradient",
       {{"of", {0, 1, 2, 3, 4}}},
       {reals({4, 6, 4}), reals({6}), reals({6}), reals({6}), positive({6}), reals({4, 6, 4})}},
      {"mod", {}, {reals({4, 6}), positive({6})}},
      {"relu", {}, {reals({4, 6})}},
      {"gelu", {}, {reals({4, 6})}},
      {"tanh", {}, {reals({4, 6})}},
      {"sigmoid", {}, {reals({4, 6})}},
      {"exp", {}, {reals({4, 6})}},
      {"erf", {}, {reals({4, 6})}},
      {"negate", {}, {reals({4, 6})}},
      {"abs", {}, {reals({4, 6})}},
      {"identity", {}, {reals({4, 6})}},
      {"sin", {}, {reals({4, 6})}},
      {"cos", {}, {reals({4, 6})}},
      {"tan", {}, {reals({4, 6})}},
      {"sign", {}, {reals({4, 6})}},
      {"floor", {}, {reals({4, 6})}},
      {"ceil", {}, {reals({4, 6})}},
      {"round", {}, {reals({4, 6})}},
      {"leaky_relu", {}, {reals({4, 6})}},
      {"elu", {}, {reals({4, 6})}},
      {"selu", {}, {reals({4, 6})}},
      {"celu", {}, {reals({4, 6})}},
      {"thresholded_relu", {}, {reals({4, 6})}},
      {"shrink", {}, {reals({4, 6})}},
      {"hard_sigmoid", {}, {reals({4, 6})}},
      {"hard_swish", {}, {reals({4, 6})}},
      {"softplus", {}, {reals({4, 6})}},
      {"softsign", {}, {reals({4, 6})}},
      {"mish", {}, {reals({4, 6})}},
      {"swish", {}, {reals({4, 6})}},
      {"gelu_tanh", {}, {reals({4, 6})}},
      {"log", {}, {positive({4, 6})}},
      {"sqrt", {}, {positive({4, 6})}},
      {"reciprocal", {}, {positive({4, 6})}},
      {"add", {}, {reals({4, 1, 6}), reals({4, 6})}},
      {"sub", {}, {reals({4, 1, 6}), reals({4, 6})}},
      {"mul", {}, {reals({4, 1, 6}), reals({4, 6})}},
      {"div", {}, {reals({4, 1, 6}), reals({4, 6})}},
      {"maximum", {}, {reals({4, 1, 6}), reals({4, 6})}},
      {"minimum", {}, {reals({4, 1, 6}), reals({4, 6})}},
      {"add", {}, {reals({6}), reals({4, 6})}},
      {"sub", {}, {reals({6}), reals({4, 6})}},
      {"mul", {}, {reals({6}), reals({4, 6})}},
      {"div", {}, {reals({6}), reals({4, 6})}},
      {"maximum", {}, {reals({6}), reals({4, 6})}},
      {"minimum", {}, {reals({6}), reals({4, 6})}},
      {"pow", {}, {positive({4, 6}), reals({6})}},
      {"clip", {{"low", -0.3}, {"high", 0.5}}, {reals({4, 6})}},
      {"clip", {{"low", -0.3}, {"high", std::numeric_limits<double>::infinity()}}, {reals({4, 6})}},
      {"scalar_multiply", {}, {reals({4, 6}), reals({})}},
      {"dropout", {{"rate", 0.5}}, {reals({4, 6})}},
      {"cast", {{"element", "float64"}}, {reals({4, 6})}},
      {"einsum", {{"equation", "abc,cd,bd->a"}}, {reals({4, 2, 6}), reals({6, 4}), reals({2, 4})}},
      {"einsum", {{"equation", "ab,cd->"}}, {reals({4, 2}), reals({6, 4})}},
      {"einsum", {{"equation", "a...,...->..."}}, {reals({4, 2, 3}), reals({2, 3})}},
      {"matmul", {{"activation", "gelu"}}, {reals({4, 6}), reals({6, 4})}},
      {"linear", {{"activation", "tanh"}}, {reals({4, 6}), reals({6, 4}), reals({4})}},
      {"conv2d",
       {{"activation", "sigmoid"}, {"pads", {1, 1, 1, 1}}},
       {reals({2, 4, 4, 4}), reals({8, 4, 3, 3}), reals({8})}},
      {"pad", {{"pads", {0, 1, 0, 0, 2, 0}}, {"value", 0.0}}, {reals({4, 6, 4})}},
      {"segment_mean",
       {},
       {reals({4, 6}), integers({5}, 0, 1), integers({8}, 0, 4), integers({5}, 0, 1), integers({8}, 0, 4)}},
      {"slice", {{"axes", {0, 1}}, {"starts", {1, 1}}, {"ends", {4, 6}}, {"steps", {2, 3}}}, {reals({4, 6, 4})}},
      {"border_pad", {{"mode", "edge"}, {"pads", {2, 0, 0, 3, -1, 0}}}, {reals({4, 6, 4})}},
      {"resize", {{"mode", "linear"}, {"coordinates", "align_corners"}, {"dims", {2, 4, 3, 9}}}, {reals({2, 4, 4, 4})}},
      {"group_norm", {{"groups", 2}}, {reals({4, 8, 2, 2}), positive({2}), reals({2})}},
      {"reduce_prod", {{"axes", {0, 1}}, {"keep_dims", 0}}, {reals({3, 5})}}};
}

values random_values(const operand& x, random_engine& random) {
  values v{x.dims};
  const auto per_unit = tensor::is_floating(x.element) && x.high < 1000 ? 500 : 1;
  for (auto& e : v.data) {
    e = x.low + static_cast<double>(random.below(static_cast<std::uint64_t>((x.high - x.low) * per_unit))) / per_unit;
  }
  return v;
}

// One configuration per degree of 2, 3 and 4 of one dimension or sum, alone and with 2 along one other dimension, and
// with partials of each linear group.
std::vector<configuration> divisions(const operator_dimensions& o) {
  std::vector<configuration> all;
  const configuration whole{
      degree_list(o.divisible.size(), 1), {}, degree_list(o.reductions.size(), 1), degree_list(o.groups.size(), 1), 1};
  const auto add = [&](configuration c) {
    c.devices.resize(static_cast<std::size_t>(c.grid().tasks()), hardware::device_id{0U});
    if (why_not(o, c, c.devices.size()).empty()) {
      all.push_back(std::move(c));
    }
  };
  for (const std::int64_t degree : {2, 3, 4}) {
    const auto along = [&](configuration c, degree_list configuration::*list, std::size_t k) {
      (c.*list)[k] = degree;
      add(c);
      for (std::size_t other = 0; other < o.divisible.size(); ++other) {
        if (c.degrees[other] == 1) {
          auto both = c;
          both.degrees[other] = 2;
          add(std::move(both));
        }
      }
    };
    for (std::size_t k = 0; k < o.divisible.size(); ++k) {
      along(whole, &configuration::degrees, k);
    }
    for (std::size_t k = 0; k < o.reductions.size(); ++k) {
      along(whole, &configuration::reductions, k);
    }
  }
  for (std::size_t g = 0; g < o.groups.size(); ++g) {
    auto c = whole;
    c.partials[g] = 2;
    const bool is_real = std::all_of(o.groups[g].begin(), o.groups[g].end(),
                                     [&](auto x) { return tensor::is_floating(o.inputs[x].element); });
    if (is_real) {
      add(std::move(c));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("the parts of every operator along every dimension and sum are parts of its result") {
  const std::uint64_t seed = 7;
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t tasks = 0;
  for (const auto& each : cases()) {
    std::vector<tensor::tensor_type> types;
    std::vector<values> operands;
    for (const auto& x : each.operands) {
      types.push_back({x.element, tensor::layout::row_major, false, x.dims});
      operands.push_back(random_values(x, random));
    }
    const auto op = operators().make_operation(each.name, each.attributes);
    CAPTURE(each.name, operators().why_not(op, types));
    const auto o = dimensions_of(operators(), op, types);
    REQUIRE(o);
    for (const auto& c : divisions(*o)) {
      CAPTURE(fmt::format("{}", c));
      CHECK(compare(*o, c, operands, tasks) < 1e-6);
    }
  }
  CHECK(tasks > 1000);
}

}  // namespace tests_of_operator_parts
