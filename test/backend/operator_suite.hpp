// Checks every operator of the standard algebra on a backend, against the double reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../support/cases.hpp"
#include "../tensor/random_case.hpp"
#include "../tensor/random_edges.hpp"
#include "chain_suite.hpp"
#include "kernel_run.hpp"
#include "large_cases.hpp"

namespace unity::backend::test {

using tensor::test::standard;

// The standard operators, under the same kind numbers, plus the operators of their adjoints.
inline const tensor::algebra& training() {
  static const auto a = tensor::training_algebra();
  return a;
}

inline std::string describe(const operation& op, std::span<const tensor_type> inputs) {
  const auto& d = training().definition_of(op.kind);
  std::string text = d.signature.name + "{";
  for (std::size_t i = 0; i < d.fields.size(); ++i) {
    text += (i == 0 ? "" : ", ") + d.fields[i].signature.name + "=";
    for (const auto number : op.attributes[i]) {
      text += d.fields[i].signature.form == attribute_form::real ? std::to_string(tensor::to_real(number))
                                                                 : std::to_string(number);
      text += " ";
    }
  }
  text += op.order == tensor::layout::column_major ? "} column_major (" : "} (";
  for (const auto& t : inputs) {
    text += " " + tensor::to_string(t) + (t.constant ? " constant" : "");
  }
  return text + " )";
}

// Random values in the operator's domain, away from where it amplifies rounding errors.
inline dense<double> random_values(std::string_view kind, std::size_t operand, const tensor_type& t,
                                   random_engine& random) {
  const bool is_boolean = t.element == tensor::dtype::boolean;
  const bool is_integral = tensor::is_integral(t.element);
  const auto least = t.element == tensor::dtype::uint8 ? 0 : -2;
  const bool positive = kind == "sqrt" || kind == "log" || kind == "reduce_log_sum" ||
                        (kind == "pow" && operand == 0) || (kind == "batch_norm" && operand == 4);
  const bool divides = kind == "reciprocal" || (kind == "div" && operand == 1);
  const bool saturates = kind == "tanh" || kind == "sigmoid" || kind == "gelu" || kind == "erf" || kind == "softmax";
  const double most = saturates || kind == "cast" ? 6 : 1;
  dense<double> values{t.dims};
  for (auto& x : values.data) {
    const auto unit = 2 * random.unit() - 1;
    x = is_boolean    ? static_cast<double>(random.below(2))
        : is_integral ? static_cast<double>(random.between(least, 6))
        : positive    ? 0.125 + random.unit()
        : divides     ? std::copysign(0.125 + std::abs(unit), unit)
                      : most * unit;
  }
  return values;
}

// A case whose operands vary in layout and constness, as in graphs.
struct suite_case {
  operation op;
  std::vector<tensor_type> inputs;
  std::vector<tensor_type> outputs;
};

// Returns nothing if the operator does not accept the element type.
inline std::optional<suite_case> vary(tensor::test::random_case c, tensor::dtype element, bool packs,
                                      random_engine& random) {
  suite_case varied{std::move(c.op), std::move(c.inputs), {}};
  for (auto& t : varied.inputs) {
    t.element = t.element == tensor::dtype::float32 ? element : t.element;
    t.order = t.rank() >= 2 && random.below(3) == 0 ? tensor::layout::column_major : tensor::layout::row_major;
    t.constant = packs && random.below(2) == 0;
  }
  const auto variants = standard().variants(varied.op, varied.inputs);
  if (!variants.empty() && random.below(2) == 0) {
    varied.op = variants[0];
  }
  const auto outputs = standard().infer(varied.op, varied.inputs);
  if (!outputs) {
    return std::nullopt;
  }
  varied.outputs = *outputs;
  return varied;
}

// Whether rounding alone comes near the tolerance (cancellation), according to the evaluator in float.
inline bool is_ill_conditioned(const suite_case& c, const suite_operands& operands,
                               const std::vector<dense<double>>& expected, double tolerance) {
  if (tolerance < 1e-6) {  // not for results in float
    return false;
  }
  std::vector<dense<float>> narrow;
  for (const auto& t : operands.numbers) {
    narrow.push_back({t.dims, {t.data.begin(), t.data.end()}});
  }
  const auto found = tensor::evaluate<float>(training(), c.op, narrow, c.inputs);
  double error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error = std::max(error, relative_error(found[i], expected[i]));
  }
  return !(error < tolerance / 4);
}

// Returns false if a case proves nothing: the operator or the backend does not support its types, or the result is not
// finite or mostly rounding error.
template <class Backend>
bool check_case(Backend& backend, tensor::test::random_case drawn, const suite_options& options,
                random_engine& random) {
  const auto c = vary(std::move(drawn), options.element, packing_backend<Backend>, random);
  const auto taken = [&](const tensor_type& t) {
    return options.types.empty() || std::count(options.types.begin(), options.types.end(), t.element) > 0;
  };
  if (!c || !std::all_of(c->inputs.begin(), c->inputs.end(), taken) ||
      !std::all_of(c->outputs.begin(), c->outputs.end(), taken)) {
    return false;
  }
  const auto& kind = standard().signature(c->op.kind).name;
  std::vector<dense<double>> drawn_operands;
  for (std::size_t i = 0; i < c->inputs.size(); ++i) {
    auto& values = drawn_operands.emplace_back(random_values(kind, i, c->inputs[i], random));
    if (c->outputs[0].element == tensor::dtype::uint8) {
      std::ranges::transform(values.data, values.data.begin(), [](double x) { return std::abs(x); });
    }
  }
  tensor::test::draw_lists(kind, drawn_operands, random);
  suite_operands operands;
  for (std::size_t i = 0; i < c->inputs.size(); ++i) {
    operands.add(std::move(drawn_operands[i]), c->inputs[i]);
  }
  const auto expected = tensor::evaluate<double>(standard(), c->op, operands.numbers, c->inputs);
  if (!all_finite(expected) || is_ill_conditioned(*c, operands, expected, options.tolerance)) {
    return false;
  }
  CAPTURE(describe(c->op, c->inputs));
  const auto kernel = backend.prepare(c->op, c->inputs, c->outputs);
  check_results(run_kernel(backend, kernel, c->inputs, c->outputs, operands.bytes), c->outputs, expected,
                options.tolerance);
  return true;
}

// The kinds that a backend must have kernels for: those with operands and a defined meaning.
inline std::vector<std::string> suite_kinds() {
  std::vector<std::string> kinds;
  for (std::size_t k = 0; k < standard().kind_count(); ++k) {
    const auto& d = standard().definition_of(kind_id{k});
    if (d.signature.operands != 0 && !std::holds_alternative<tensor::opaque>(d.body)) {
      kinds.push_back(d.signature.name);
    }
  }
  return kinds;
}

// make(algebra): a backend. Checks every kind with operands and a defined meaning on random shapes, attributes and
// layouts, with poisoned results. Fails if a kind ran fewer cases than were asked for.
template <class MakeBackend>
void check_operators(const MakeBackend& make, const suite_options& options = {}) {
  auto backend = make(standard());
  for (const auto& kind : suite_kinds()) {
    int ran = 0;
    for (std::uint64_t attempt = 0; ran < options.cases && attempt < 50 * static_cast<std::uint64_t>(options.cases);
         ++attempt) {
      const auto seed = hash_combine(hash_combine(options.seed, hash_bytes(kind)), attempt);
      CAPTURE(seed);
      random_engine random{seed};
      auto drawn = tensor::test::draw(kind, random);
      ran += check_case(backend, std::move(drawn), options, random) ? 1 : 0;
    }
    CAPTURE(kind);
    CHECK(ran == options.cases);
  }
}

// Integer results keep the low bits of numbers that do not fit.
template <class MakeBackend>
void check_integer_ranges(const MakeBackend& make) {
  using tensor::dtype;
  auto backend = make(standard());
  const auto result = [&](const char* name, const std::vector<tensor::named_attribute>& attributes, dtype element,
                          const std::vector<std::vector<double>>& numbers) {
    const auto op = standard().make_operation(name, attributes);
    std::vector<tensor_type> inputs;
    suite_operands operands;
    for (const auto& x : numbers) {
      inputs.push_back(tensor::test::type({static_cast<std::int64_t>(x.size())}, element));
      operands.add({inputs.back().dims, x}, inputs.back());
    }
    const auto outputs = standard().infer(op, inputs).value();
    const auto kernel = backend.prepare(op, inputs, outputs);
    const auto found = run_kernel(backend, kernel, inputs, outputs, operands.bytes);
    return decode<double>(found[0].data(), outputs[0]).data;
  };
  using list = std::vector<double>;
  CHECK(result("add", {}, dtype::uint8, {{200, 1}, {100, 2}}) == list{44, 3});
  CHECK(result("sub", {}, dtype::uint8, {{20, 9}, {100, 2}}) == list{176, 7});
  CHECK(result("negate", {}, dtype::int8, {{-128, 3}}) == list{-128, -3});
  CHECK(result("cast", {{"element", "uint8"}}, dtype::int64, {{300, -1}}) == list{44, 255});
  CHECK(result("mul", {}, dtype::int32, {{65536, 3}, {65537, 4}}) == list{65536, 12});
  CHECK(result("reduce_sum", {{"axes", {0}}}, dtype::int8, {{100, 100, 100}}) == list{44});
  CHECK(result("reduce_prod", {{"axes", {0}}}, dtype::uint8, {{20, 20, 2}}) == list{32});
}

// The same for large_cases(), in several layouts.
template <class MakeBackend>
void check_large_operators(const MakeBackend& make, const suite_options& options = {}) {
  auto backend = make(standard());
  for (const auto& c : large_cases()) {
    int ran = 0;
    for (std::uint64_t i = 0; i < 3 && ran < static_cast<int>(unity::test::cases(3)); ++i) {
      const auto seed = hash_combine(options.seed, i);
      CAPTURE(seed);
      random_engine random{seed};
      ran += check_case(backend, c, options, random) ? 1 : 0;
    }
    CAPTURE(describe(c.op, c.inputs));
    CHECK(ran > 0);
  }
}

}  // namespace unity::backend::test
