// The part of tensor/terms.hpp for element-wise functions, comparisons and logic, and for reductions, normalizations,
// losses and attention as ONNX defines them.
#pragma once

#include <unity/rewrite/terms.hpp>

namespace unity::tensor::terms {

using unity::terms::apply;
using unity::terms::argument;
using unity::terms::attribute_name;
using unity::terms::term;

template <argument... A>
[[nodiscard]] term reduce_min(const A&... a) {
  return apply("reduce_min", a...);
}
template <argument... A>
[[nodiscard]] term reduce_prod(const A&... a) {
  return apply("reduce_prod", a...);
}
template <argument... A>
[[nodiscard]] term reduce_l1(const A&... a) {
  return apply("reduce_l1", a...);
}
template <argument... A>
[[nodiscard]] term reduce_l2(const A&... a) {
  return apply("reduce_l2", a...);
}
template <argument... A>
[[nodiscard]] term reduce_sum_square(const A&... a) {
  return apply("reduce_sum_square", a...);
}
template <argument... A>
[[nodiscard]] term reduce_log_sum(const A&... a) {
  return apply("reduce_log_sum", a...);
}
template <argument... A>
[[nodiscard]] term reduce_log_sum_exp(const A&... a) {
  return apply("reduce_log_sum_exp", a...);
}
template <argument... A>
[[nodiscard]] term arg_max(const A&... a) {
  return apply("arg_max", a...);
}
template <argument... A>
[[nodiscard]] term arg_min(const A&... a) {
  return apply("arg_min", a...);
}
template <argument... A>
[[nodiscard]] term hardmax(const A&... a) {
  return apply("hardmax", a...);
}
template <argument... A>
[[nodiscard]] term cumulative_sum(const A&... a) {
  return apply("cumulative_sum", a...);
}
template <argument... A>
[[nodiscard]] term is_position(const A&... a) {
  return apply("is_position", a...);
}
template <argument... A>
[[nodiscard]] term equal_positions(const A&... a) {
  return apply("equal_positions", a...);
}
template <argument... A>
[[nodiscard]] term log_softmax(const A&... a) {
  return apply("log_softmax", a...);
}
template <argument... A>
[[nodiscard]] term flat_softmax(const A&... a) {
  return apply("flat_softmax", a...);
}
template <argument... A>
[[nodiscard]] term instance_norm(const A&... a) {
  return apply("instance_norm", a...);
}
template <argument... A>
[[nodiscard]] term group_norm(const A&... a) {
  return apply("group_norm", a...);
}
template <argument... A>
[[nodiscard]] term rms_norm(const A&... a) {
  return apply("rms_norm", a...);
}
template <argument... A>
[[nodiscard]] term local_response_norm(const A&... a) {
  return apply("local_response_norm", a...);
}
template <argument... A>
[[nodiscard]] term lp_norm(const A&... a) {
  return apply("lp_norm", a...);
}
template <argument... A>
[[nodiscard]] term mean_variance_norm(const A&... a) {
  return apply("mean_variance_norm", a...);
}
template <argument... A>
[[nodiscard]] term negative_log_likelihood(const A&... a) {
  return apply("negative_log_likelihood", a...);
}
template <argument... A>
[[nodiscard]] term softmax_cross_entropy(const A&... a) {
  return apply("softmax_cross_entropy", a...);
}
template <argument... A>
[[nodiscard]] term dot_product_attention(const A&... a) {
  return apply("dot_product_attention", a...);
}
template <argument... A>
[[nodiscard]] term rotary_embedding(const A&... a) {
  return apply("rotary_embedding", a...);
}
template <argument... A>
[[nodiscard]] term lower_triangle(const A&... a) {
  return apply("lower_triangle", a...);
}

inline constexpr attribute_name causal{"causal"};
inline constexpr attribute_name columns{"columns"};
inline constexpr attribute_name exclusive{"exclusive"};
inline constexpr attribute_name function{"function"};
inline constexpr attribute_name ignored{"ignored"};
inline constexpr attribute_name ignores{"ignores"};
inline constexpr attribute_name interleaved{"interleaved"};
inline constexpr attribute_name key_heads{"key_heads"};
inline constexpr attribute_name last{"last"};
inline constexpr attribute_name p{"p"};
inline constexpr attribute_name reverse{"reverse"};

using unity::terms::apply;
using unity::terms::argument;
using unity::terms::attribute_name;
using unity::terms::term;

template <argument... A>
[[nodiscard]] term sin(const A&... a) {
  return apply("sin", a...);
}
template <argument... A>
[[nodiscard]] term cos(const A&... a) {
  return apply("cos", a...);
}
template <argument... A>
[[nodiscard]] term tan(const A&... a) {
  return apply("tan", a...);
}
template <argument... A>
[[nodiscard]] term sign(const A&... a) {
  return apply("sign", a...);
}
template <argument... A>
[[nodiscard]] term floor(const A&... a) {
  return apply("floor", a...);
}
template <argument... A>
[[nodiscard]] term ceil(const A&... a) {
  return apply("ceil", a...);
}
template <argument... A>
[[nodiscard]] term round(const A&... a) {
  return apply("round", a...);
}
template <argument... A>
[[nodiscard]] term clip(const A&... a) {
  return apply("clip", a...);
}
template <argument... A>
[[nodiscard]] term integer_div(const A&... a) {
  return apply("integer_div", a...);
}
template <argument... A>
[[nodiscard]] term mod(const A&... a) {
  return apply("mod", a...);
}
template <argument... A>
[[nodiscard]] term leaky_relu(const A&... a) {
  return apply("leaky_relu", a...);
}
template <argument... A>
[[nodiscard]] term prelu(const A&... a) {
  return apply("prelu", a...);
}
template <argument... A>
[[nodiscard]] term elu(const A&... a) {
  return apply("elu", a...);
}
template <argument... A>
[[nodiscard]] term selu(const A&... a) {
  return apply("selu", a...);
}
template <argument... A>
[[nodiscard]] term celu(const A&... a) {
  return apply("celu", a...);
}
template <argument... A>
[[nodiscard]] term thresholded_relu(const A&... a) {
  return apply("thresholded_relu", a...);
}
template <argument... A>
[[nodiscard]] term shrink(const A&... a) {
  return apply("shrink", a...);
}
template <argument... A>
[[nodiscard]] term hard_sigmoid(const A&... a) {
  return apply("hard_sigmoid", a...);
}
template <argument... A>
[[nodiscard]] term hard_swish(const A&... a) {
  return apply("hard_swish", a...);
}
template <argument... A>
[[nodiscard]] term softplus(const A&... a) {
  return apply("softplus", a...);
}
template <argument... A>
[[nodiscard]] term softsign(const A&... a) {
  return apply("softsign", a...);
}
template <argument... A>
[[nodiscard]] term mish(const A&... a) {
  return apply("mish", a...);
}
template <argument... A>
[[nodiscard]] term swish(const A&... a) {
  return apply("swish", a...);
}
template <argument... A>
[[nodiscard]] term gelu_tanh(const A&... a) {
  return apply("gelu_tanh", a...);
}
template <argument... A>
[[nodiscard]] term equal(const A&... a) {
  return apply("equal", a...);
}
template <argument... A>
[[nodiscard]] term less(const A&... a) {
  return apply("less", a...);
}
template <argument... A>
[[nodiscard]] term less_or_equal(const A&... a) {
  return apply("less_or_equal", a...);
}
template <argument... A>
[[nodiscard]] term greater(const A&... a) {
  return apply("greater", a...);
}
template <argument... A>
[[nodiscard]] term greater_or_equal(const A&... a) {
  return apply("greater_or_equal", a...);
}
template <argument... A>
[[nodiscard]] term logical_and(const A&... a) {
  return apply("logical_and", a...);
}
template <argument... A>
[[nodiscard]] term logical_or(const A&... a) {
  return apply("logical_or", a...);
}
template <argument... A>
[[nodiscard]] term logical_xor(const A&... a) {
  return apply("logical_xor", a...);
}
template <argument... A>
[[nodiscard]] term logical_not(const A&... a) {
  return apply("logical_not", a...);
}
template <argument... A>
[[nodiscard]] term is_nan(const A&... a) {
  return apply("is_nan", a...);
}
template <argument... A>
[[nodiscard]] term is_inf(const A&... a) {
  return apply("is_inf", a...);
}
template <argument... A>
[[nodiscard]] term where(const A&... a) {
  return apply("where", a...);
}

inline constexpr attribute_name alpha{"alpha"};
inline constexpr attribute_name beta{"beta"};
inline constexpr attribute_name bias{"bias"};
inline constexpr attribute_name high{"high"};
inline constexpr attribute_name low{"low"};
inline constexpr attribute_name negative{"negative"};
inline constexpr attribute_name positive{"positive"};
inline constexpr attribute_name scale{"scale"};
inline constexpr attribute_name threshold{"threshold"};
inline constexpr attribute_name truncated{"truncated"};

}  // namespace unity::tensor::terms
