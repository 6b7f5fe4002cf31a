// One function per tensor operator, named after it, for substitutions written in C++:
//
//   using namespace unity::tensor::terms;
//   const variable x{"x"}, y{"y"}, z{"z"};
//   const auto associative = matmul(x, matmul(y, z)) == matmul(matmul(x, y), z);
//
// Each accepts any operands and attributes in any order, split(x, axis = 1, sizes = {2, 3}); compiling the rule checks
// that it fits the algebra (rewrite/compile.hpp). They are functions, not objects, so that they overload with those of
// <cmath>.
#pragma once

#include <unity/rewrite/terms.hpp>
#include <unity/tensor/function_terms.hpp>

namespace unity::tensor::terms {

using namespace unity::terms;  // NOLINT: one vocabulary on top of the other

template <argument... A>
[[nodiscard]] term input(const A&... a) {
  return apply("input", a...);
}
template <argument... A>
[[nodiscard]] term weight(const A&... a) {
  return apply("weight", a...);
}
template <argument... A>
[[nodiscard]] term constant(const A&... a) {
  return apply("constant", a...);
}
template <argument... A>
[[nodiscard]] term fill(const A&... a) {
  return apply("fill", a...);
}
template <argument... A>
[[nodiscard]] term pool_kernel(const A&... a) {
  return apply("pool_kernel", a...);
}
template <argument... A>
[[nodiscard]] term identity_kernel(const A&... a) {
  return apply("identity_kernel", a...);
}
template <argument... A>
[[nodiscard]] term identity_matrix(const A&... a) {
  return apply("identity_matrix", a...);
}

template <argument... A>
[[nodiscard]] term matmul(const A&... a) {
  return apply("matmul", a...);
}
template <argument... A>
[[nodiscard]] term linear(const A&... a) {
  return apply("linear", a...);
}
template <argument... A>
[[nodiscard]] term conv2d(const A&... a) {
  return apply("conv2d", a...);
}
template <argument... A>
[[nodiscard]] term attention(const A&... a) {
  return apply("attention", a...);
}
template <argument... A>
[[nodiscard]] term lstm_cell(const A&... a) {
  return apply("lstm_cell", a...);
}

template <argument... A>
[[nodiscard]] term max_pool(const A&... a) {
  return apply("max_pool", a...);
}
template <argument... A>
[[nodiscard]] term average_pool(const A&... a) {
  return apply("average_pool", a...);
}
template <argument... A>
[[nodiscard]] term global_average_pool(const A&... a) {
  return apply("global_average_pool", a...);
}
template <argument... A>
[[nodiscard]] term global_max_pool(const A&... a) {
  return apply("global_max_pool", a...);
}

template <argument... A>
[[nodiscard]] term relu(const A&... a) {
  return apply("relu", a...);
}
template <argument... A>
[[nodiscard]] term gelu(const A&... a) {
  return apply("gelu", a...);
}
template <argument... A>
[[nodiscard]] term tanh(const A&... a) {
  return apply("tanh", a...);
}
template <argument... A>
[[nodiscard]] term sigmoid(const A&... a) {
  return apply("sigmoid", a...);
}
template <argument... A>
[[nodiscard]] term exp(const A&... a) {
  return apply("exp", a...);
}
template <argument... A>
[[nodiscard]] term log(const A&... a) {
  return apply("log", a...);
}
template <argument... A>
[[nodiscard]] term erf(const A&... a) {
  return apply("erf", a...);
}
template <argument... A>
[[nodiscard]] term sqrt(const A&... a) {
  return apply("sqrt", a...);
}
template <argument... A>
[[nodiscard]] term reciprocal(const A&... a) {
  return apply("reciprocal", a...);
}
template <argument... A>
[[nodiscard]] term negate(const A&... a) {
  return apply("negate", a...);
}
template <argument... A>
[[nodiscard]] term abs(const A&... a) {
  return apply("abs", a...);
}
template <argument... A>
[[nodiscard]] term identity(const A&... a) {
  return apply("identity", a...);
}
template <argument... A>
[[nodiscard]] term cast(const A&... a) {
  return apply("cast", a...);
}
template <argument... A>
[[nodiscard]] term dropout(const A&... a) {
  return apply("dropout", a...);
}

template <argument... A>
[[nodiscard]] term add(const A&... a) {
  return apply("add", a...);
}
template <argument... A>
[[nodiscard]] term sub(const A&... a) {
  return apply("sub", a...);
}
template <argument... A>
[[nodiscard]] term mul(const A&... a) {
  return apply("mul", a...);
}
template <argument... A>
[[nodiscard]] term div(const A&... a) {
  return apply("div", a...);
}
template <argument... A>
[[nodiscard]] term pow(const A&... a) {
  return apply("pow", a...);
}
template <argument... A>
[[nodiscard]] term maximum(const A&... a) {
  return apply("maximum", a...);
}
template <argument... A>
[[nodiscard]] term minimum(const A&... a) {
  return apply("minimum", a...);
}
template <argument... A>
[[nodiscard]] term scalar_multiply(const A&... a) {
  return apply("scalar_multiply", a...);
}

template <argument... A>
[[nodiscard]] term softmax(const A&... a) {
  return apply("softmax", a...);
}
template <argument... A>
[[nodiscard]] term layer_norm(const A&... a) {
  return apply("layer_norm", a...);
}
template <argument... A>
[[nodiscard]] term batch_norm(const A&... a) {
  return apply("batch_norm", a...);
}
template <argument... A>
[[nodiscard]] term reduce_sum(const A&... a) {
  return apply("reduce_sum", a...);
}
template <argument... A>
[[nodiscard]] term reduce_mean(const A&... a) {
  return apply("reduce_mean", a...);
}
template <argument... A>
[[nodiscard]] term reduce_max(const A&... a) {
  return apply("reduce_max", a...);
}

template <argument... A>
[[nodiscard]] term concat(const A&... a) {
  return apply("concat", a...);
}
template <argument... A>
[[nodiscard]] term split(const A&... a) {
  return apply("split", a...);
}
template <argument... A>
[[nodiscard]] term slice(const A&... a) {
  return apply("slice", a...);
}
template <argument... A>
[[nodiscard]] term pad(const A&... a) {
  return apply("pad", a...);
}
template <argument... A>
[[nodiscard]] term enlarge(const A&... a) {
  return apply("enlarge", a...);
}
template <argument... A>
[[nodiscard]] term transpose(const A&... a) {
  return apply("transpose", a...);
}
template <argument... A>
[[nodiscard]] term reshape(const A&... a) {
  return apply("reshape", a...);
}
template <argument... A>
[[nodiscard]] term squeeze(const A&... a) {
  return apply("squeeze", a...);
}
template <argument... A>
[[nodiscard]] term unsqueeze(const A&... a) {
  return apply("unsqueeze", a...);
}
template <argument... A>
[[nodiscard]] term expand(const A&... a) {
  return apply("expand", a...);
}
template <argument... A>
[[nodiscard]] term embedding(const A&... a) {
  return apply("embedding", a...);
}
template <argument... A>
[[nodiscard]] term embedding_bag(const A&... a) {
  return apply("embedding_bag", a...);
}
template <argument... A>
[[nodiscard]] term incidence(const A&... a) {
  return apply("incidence", a...);
}
template <argument... A>
[[nodiscard]] term segment_sum(const A&... a) {
  return apply("segment_sum", a...);
}
template <argument... A>
[[nodiscard]] term segment_mean(const A&... a) {
  return apply("segment_mean", a...);
}
template <argument... A>
[[nodiscard]] term segment_max(const A&... a) {
  return apply("segment_max", a...);
}
template <argument... A>
[[nodiscard]] term segment_softmax(const A&... a) {
  return apply("segment_softmax", a...);
}
template <argument... A>
[[nodiscard]] term segment_weighted_sum(const A&... a) {
  return apply("segment_weighted_sum", a...);
}
template <argument... A>
[[nodiscard]] term linear_index(const A&... a) {
  return apply("linear_index", a...);
}
template <argument... A>
[[nodiscard]] term scatter_sum(const A&... a) {
  return apply("scatter_sum", a...);
}
template <argument... A>
[[nodiscard]] term gather(const A&... a) {
  return apply("gather", a...);
}
template <argument... A>
[[nodiscard]] term gather_elements(const A&... a) {
  return apply("gather_elements", a...);
}
template <argument... A>
[[nodiscard]] term gather_nd(const A&... a) {
  return apply("gather_nd", a...);
}
template <argument... A>
[[nodiscard]] term scatter_elements(const A&... a) {
  return apply("scatter_elements", a...);
}
template <argument... A>
[[nodiscard]] term scatter_nd(const A&... a) {
  return apply("scatter_nd", a...);
}
template <argument... A>
[[nodiscard]] term one_hot_values(const A&... a) {
  return apply("one_hot_values", a...);
}
template <argument... A>
[[nodiscard]] term tile(const A&... a) {
  return apply("tile", a...);
}
template <argument... A>
[[nodiscard]] term strided_slice(const A&... a) {
  return apply("strided_slice", a...);
}
template <argument... A>
[[nodiscard]] term border_pad(const A&... a) {
  return apply("border_pad", a...);
}
template <argument... A>
[[nodiscard]] term depth_to_space(const A&... a) {
  return apply("depth_to_space", a...);
}
template <argument... A>
[[nodiscard]] term space_to_depth(const A&... a) {
  return apply("space_to_depth", a...);
}
template <argument... A>
[[nodiscard]] term trilu(const A&... a) {
  return apply("trilu", a...);
}
template <argument... A>
[[nodiscard]] term eye_like(const A&... a) {
  return apply("eye_like", a...);
}
template <argument... A>
[[nodiscard]] term rnn(const A&... a) {
  return apply("rnn", a...);
}
template <argument... A>
[[nodiscard]] term gru(const A&... a) {
  return apply("gru", a...);
}
template <argument... A>
[[nodiscard]] term lstm(const A&... a) {
  return apply("lstm", a...);
}
template <argument... A>
[[nodiscard]] term conv2d_transpose(const A&... a) {
  return apply("conv2d_transpose", a...);
}
template <argument... A>
[[nodiscard]] term conv_transpose(const A&... a) {
  return apply("conv_transpose", a...);
}
template <argument... A>
[[nodiscard]] term einsum(const A&... a) {
  return apply("einsum", a...);
}
template <argument... A>
[[nodiscard]] term resize(const A&... a) {
  return apply("resize", a...);
}
template <argument... A>
[[nodiscard]] term dequantize(const A&... a) {
  return apply("dequantize", a...);
}
template <argument... A>
[[nodiscard]] term quantize(const A&... a) {
  return apply("quantize", a...);
}
template <argument... A>
[[nodiscard]] term dynamic_quantize(const A&... a) {
  return apply("dynamic_quantize", a...);
}
template <argument... A>
[[nodiscard]] term integer_matmul(const A&... a) {
  return apply("integer_matmul", a...);
}
template <argument... A>
[[nodiscard]] term integer_conv2d(const A&... a) {
  return apply("integer_conv2d", a...);
}
template <argument... A>
[[nodiscard]] term quantized_matmul(const A&... a) {
  return apply("quantized_matmul", a...);
}
template <argument... A>
[[nodiscard]] term quantized_conv2d(const A&... a) {
  return apply("quantized_conv2d", a...);
}
template <argument... A>
[[nodiscard]] term top_elements(const A&... a) {
  return apply("top_elements", a...);
}

inline constexpr attribute_name activation{"activation"};
inline constexpr attribute_name axes{"axes"};
inline constexpr attribute_name axis{"axis"};
inline constexpr attribute_name batch{"batch"};
inline constexpr attribute_name block{"block"};
inline constexpr attribute_name ceil_mode{"ceil_mode"};
inline constexpr attribute_name channels{"channels"};
inline constexpr attribute_name coordinates{"coordinates"};
inline constexpr attribute_name count_include_pad{"count_include_pad"};
inline constexpr attribute_name count{"count"};
inline constexpr attribute_name counts{"counts"};
inline constexpr attribute_name depth{"depth"};
inline constexpr attribute_name dilation{"dilation"};
inline constexpr attribute_name dims{"dims"};
inline constexpr attribute_name direction{"direction"};
inline constexpr attribute_name edges{"edges"};
inline constexpr attribute_name element{"element"};
inline constexpr attribute_name ends{"ends"};
inline constexpr attribute_name epsilon{"epsilon"};
inline constexpr attribute_name equation{"equation"};
inline constexpr attribute_name groups{"groups"};
inline constexpr attribute_name heads{"heads"};
inline constexpr attribute_name initial_c{"initial_c"};
inline constexpr attribute_name initial_h{"initial_h"};
inline constexpr attribute_name k{"k"};
inline constexpr attribute_name keep_dims{"keep_dims"};
inline constexpr attribute_name kernel{"kernel"};
inline constexpr attribute_name largest{"largest"};
inline constexpr attribute_name mode{"mode"};
inline constexpr attribute_name name{"name"};
inline constexpr attribute_name order{"order"};
inline constexpr attribute_name output_padding{"output_padding"};
inline constexpr attribute_name padding{"padding"};
inline constexpr attribute_name pads{"pads"};
inline constexpr attribute_name permutation{"permutation"};
inline constexpr attribute_name rate{"rate"};
inline constexpr attribute_name reduction{"reduction"};
inline constexpr attribute_name repeats{"repeats"};
inline constexpr attribute_name reset_after{"reset_after"};
inline constexpr attribute_name rounding{"rounding"};
inline constexpr attribute_name rows{"rows"};
inline constexpr attribute_name seed{"seed"};
inline constexpr attribute_name sizes{"sizes"};
inline constexpr attribute_name start{"start"};
inline constexpr attribute_name starts{"starts"};
inline constexpr attribute_name steps{"steps"};
inline constexpr attribute_name stride{"stride"};
inline constexpr attribute_name strides{"strides"};
inline constexpr attribute_name upper{"upper"};
inline constexpr attribute_name value{"value"};

// size(x, axis), where a negative axis counts from the back; also the attribute of that name.
inline constexpr struct size_name : attribute_name {
  using attribute_name::operator=;
  [[nodiscard]] expression operator()(const variable& v, const expression& along) const {
    return call("size", v, along);
  }
} size{{"size"}};
[[nodiscard]] inline expression rank(const variable& v) { return call("rank", v); }
[[nodiscard]] inline expression shape_of(const variable& v) { return call("shape", v); }
[[nodiscard]] inline expression dtype_of(const variable& v) { return call("dtype", v); }
[[nodiscard]] inline expression is_constant(const variable& v) { return call("constant", v); }

}  // namespace unity::tensor::terms
