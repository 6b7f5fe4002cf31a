// One optimizer step as a graph of element-wise operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::train {

// How weights change. Regular.
//   sgd        w -= learning_rate g
//   momentum   v = momentum v + g, w -= learning_rate v
//   adam       m = beta1 m + (1 - beta1) g, s = beta2 s + (1 - beta2) g g,
//              w -= learning_rate (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon), at step t = 1, 2, ...
// Sources: momentum as in PyTorch; Kingma and Ba, Adam: a method for stochastic optimization, ICLR 2015.
struct update_rule {
  parallel::optimizer updates = parallel::optimizer::sgd;
  double learning_rate = 0.01;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  friend bool operator==(const update_rule&, const update_rule&) = default;
};

// The optimizer states per element of a weight; 0 before the first step.
[[nodiscard]] std::vector<std::string_view> state_names(parallel::optimizer updates);

// The scalars that a step's graph reads after weight, gradient and states: they depend on the rule and the step; the
// graph does not.
[[nodiscard]] std::vector<std::string_view> scalar_names(parallel::optimizer updates);

// Their values at a step, counted from 0, in that order.
[[nodiscard]] std::vector<double> scalars_at(const update_rule& r, std::uint64_t step);

namespace detail {

// Declares the inputs in the order that update_graph documents.
class update_writer {
 public:
  update_writer(const tensor::algebra& a, parallel::optimizer updates, std::int64_t elements, tensor::dtype element);

  [[nodiscard]] tensor::tensor_graph write() &&;

 private:
  using values = std::vector<value_id>;

  [[nodiscard]] values sgd() { return {b_.sub(weight_, b_.mul(gradient_, scalars_[0]))}; }
  [[nodiscard]] values momentum() {
    const auto v = b_.add(b_.mul(states_[0], scalars_[1]), gradient_);
    return {b_.sub(weight_, b_.mul(v, scalars_[0])), v};
  }
  [[nodiscard]] values adam();
  [[nodiscard]] value_id mixed(value_id x, value_id of_x, value_id y, value_id of_y) {
    const auto first = b_.mul(x, of_x);
    return b_.add(first, b_.mul(y, of_y));
  }

  tensor::builder b_;
  parallel::optimizer updates_;
  value_id weight_{};
  value_id gradient_{};
  values states_{};
  values scalars_{};
};

}  // namespace detail

// A step on this number of elements of a weight. Inputs, in order: "weight", "gradient", the states, each of shape
// [elements]; then the scalars, each of shape []. Outputs: the weight and the states after the step. All operators are
// element-wise and every node without operands is an input, so that a fusing backend can run the graph as one kernel
// (backend/device_backend.hpp).
// Throws: unity::error for element types other than float32 and float64: in narrow types, steps would be too small
// relative to the weights.
[[nodiscard]] tensor::tensor_graph update_graph(const tensor::algebra& a, parallel::optimizer updates,
                                                std::int64_t elements, tensor::dtype element = tensor::dtype::float32);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_UPDATE)

#include <cmath>
#include <span>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::train {

UNITY_INLINE std::vector<std::string_view> state_names(parallel::optimizer updates) {
  switch (updates) {
    case parallel::optimizer::sgd: return {};
    case parallel::optimizer::momentum: return {"velocity"};
    case parallel::optimizer::adam: return {"first moment", "second moment"};
  }
  return {};
}

UNITY_INLINE std::vector<std::string_view> scalar_names(parallel::optimizer updates) {
  switch (updates) {
    case parallel::optimizer::sgd: return {"learning rate"};
    case parallel::optimizer::momentum: return {"learning rate", "momentum"};
    case parallel::optimizer::adam:
      return {"step size", "root scale", "epsilon", "beta1", "rest of beta1", "beta2", "rest of beta2"};
  }
  return {};
}

UNITY_INLINE std::vector<double> scalars_at(const update_rule& r, std::uint64_t step) {
  const auto t = static_cast<double>(step) + 1;
  switch (r.updates) {
    case parallel::optimizer::sgd: return {r.learning_rate};
    case parallel::optimizer::momentum: return {r.learning_rate, r.momentum};
    case parallel::optimizer::adam:
      return {r.learning_rate / (1 - std::pow(r.beta1, t)),
              1 / std::sqrt(1 - std::pow(r.beta2, t)),
              r.epsilon,
              r.beta1,
              1 - r.beta1,
              r.beta2,
              1 - r.beta2};
  }
  return {};
}

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE update_writer::update_writer(const tensor::algebra& a, parallel::optimizer updates, std::int64_t elements,
                                          tensor::dtype element)
    : b_{a}, updates_{updates} {
  weight_ = b_.input("weight", {elements}, element);
  gradient_ = b_.input("gradient", {elements}, element);
  for (const auto name : state_names(updates)) {
    states_.push_back(b_.input(name, {elements}, element));
  }
  for (const auto name : scalar_names(updates)) {
    scalars_.push_back(b_.input(name, {}, element));
  }
}

UNITY_INLINE tensor::tensor_graph update_writer::write() && {
  auto next = updates_ == parallel::optimizer::sgd        ? sgd()
              : updates_ == parallel::optimizer::momentum ? momentum()
                                                          : adam();
  return std::move(b_).finish(next);
}

UNITY_INLINE auto update_writer::adam() -> values {
  const auto m = mixed(states_[0], scalars_[3], gradient_, scalars_[4]);
  const auto s = mixed(states_[1], scalars_[5], b_.mul(gradient_, gradient_), scalars_[6]);
  const auto root = b_.mul(b_.apply("sqrt", {s})[0], scalars_[1]);
  const auto direction = b_.div(m, b_.add(root, scalars_[2]));
  return {b_.sub(weight_, b_.mul(direction, scalars_[0])), m, s};
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE tensor::tensor_graph update_graph(const tensor::algebra& a, parallel::optimizer updates,
                                               std::int64_t elements, tensor::dtype element) {
  UNITY_EXPECTS(elements > 0, "a positive number of elements");
  if (element != tensor::dtype::float32 && element != tensor::dtype::float64) {
    throw error{"optimizer", fmt::format("weights of {}", tensor::name_of(element)), "float32 or float64"};
  }
  return detail::update_writer{a, updates, elements, element}.write();
}

}  // namespace unity::train

#endif
