// The part of tensor/terms.hpp for element-wise functions, comparisons and logic.
#pragma once

#include <unity/rewrite/terms.hpp>

namespace unity::tensor::terms {

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
