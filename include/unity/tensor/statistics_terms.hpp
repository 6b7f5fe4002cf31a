// The part of tensor/terms.hpp for reductions, normalizations, losses and attention as ONNX defines them.
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

}  // namespace unity::tensor::terms
