// Helpers for the tests of operators.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::test {

inline const algebra& standard() {
  static const auto a = standard_algebra();
  return a;
}

inline tensor_type type(shape dims, dtype element = dtype::float32) {
  return {element, layout::row_major, false, std::move(dims)};
}

using attributes = std::initializer_list<named_attribute>;
using types = std::vector<tensor_type>;

// The shapes of the results; none if the operands are refused.
inline std::vector<shape> shapes(std::string_view name, attributes a, const types& inputs) {
  std::vector<shape> dims;
  if (const auto results = standard().infer(standard().make_operation(name, a), inputs)) {
    for (const auto& t : *results) {
      dims.push_back(t.dims);
    }
  }
  return dims;
}

// Why the operands are refused; empty if they are not.
inline std::string refusal_of(std::string_view name, attributes a, const types& inputs) {
  const auto op = standard().make_operation(name, a);
  const auto reason = standard().why_not(op, inputs);
  CHECK(standard().infer(op, inputs).has_value() == reason.empty());
  CHECK(reason.find('\n') == std::string::npos);
  return reason;
}

// Uniform in [-1, 1).
inline dense<double> random_tensor(shape dims, random_engine& random) {
  dense<double> t{std::move(dims)};
  for (auto& x : t.data) {
    x = 2 * random.unit() - 1;
  }
  return t;
}

inline types types_of(const std::vector<dense<double>>& inputs) {
  types all;
  for (const auto& t : inputs) {
    all.push_back(type(t.dims));
  }
  return all;
}

// Runs an operator with all operands of type float32.
inline std::vector<dense<double>> run_all(std::string_view name, attributes a,
                                          const std::vector<dense<double>>& inputs) {
  return evaluate<double>(standard(), standard().make_operation(name, a), inputs, types_of(inputs));
}
inline dense<double> run(std::string_view name, attributes a, const std::vector<dense<double>>& inputs) {
  return run_all(name, a, inputs)[0];
}

// The largest difference relative to the largest element; infinite where the shapes differ.
inline double distance(const dense<double>& a, const dense<double>& b) {
  double difference = 0;
  double scale = 1e-300;
  if (a.dims != b.dims || a.data.size() != b.data.size()) {
    return HUGE_VAL;
  }
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const auto d = std::abs(a.data[i] - b.data[i]);
    difference = std::isnan(d) ? HUGE_VAL : std::max(difference, d);
    scale = std::max(scale, std::abs(b.data[i]));
  }
  return difference / scale;
}

using named_values = std::map<std::string, dense<double>>;

// Evaluates a graph with values for its sources by name.
inline std::vector<dense<double>> run_on(const algebra& a, const tensor_graph& g, const named_values& values) {
  return evaluate<double>(a, g, [&](const operation& op, const tensor_type&) -> std::optional<dense<double>> {
    if (a.definition_of(op.kind).source == source_kind::none) {
      return std::nullopt;
    }
    return values.at(a.read(op).word("name"));
  });
}

// A tensor of `dims` whose element at each position is value(position): for implementations to compare with.
template <class Value>
dense<double> tabulate(shape dims, const Value& value) {
  dense<double> t{std::move(dims), {}};
  for_each_position(t.dims, [&](const shape& at) { t.data.push_back(value(at)); });
  return t;
}

// The element at a position, one number per dimension.
inline double at(const dense<double>& t, std::initializer_list<std::int64_t> position) {
  std::int64_t offset = 0;
  std::size_t d = 0;
  for (const auto p : position) {
    offset = offset * t.dims[d++] + p;
  }
  return t.data[static_cast<std::size_t>(offset)];
}

}  // namespace unity::tensor::test
