// Reference evaluation: computes operators and graphs on any scalar type that has scalar_traits.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/detail/evaluate_primitive.hpp>
#include <unity/tensor/detail/loop_nest.hpp>
#include <unity/tensor/detail/opaque_values.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/modular.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/sources.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor::detail {

// Reference evaluation of views.

template <class Scalar>
void copy_piece(const piece& p, const shape& from_dims, const Scalar* from, dense<Scalar>& to) {
  const auto source = strides_of(from_dims);
  const auto target = strides_of(to.dims);
  affine_form read{0, std::vector<std::int64_t>(to.dims.size(), 0)};
  affine_form write{0, {target.begin(), target.end()}};
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    write.base += p.origin[d] * target[d];
  }
  for (std::size_t d = 0; d < source.size(); ++d) {
    read.base += p.source[d].start * source[d];
    if (p.source[d].along >= 0) {
      read.steps[static_cast<std::size_t>(p.source[d].along)] = p.source[d].step * source[d];
    }
  }
  const std::vector forms{write, read};
  loop_nest nest{forms};
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    nest.add(p.sizes[d], forms, d);
  }
  nest.coalesce();
  nest.deepen(1);
  const auto inner = nest.depth() - 1;
  nest.for_each(1, [&](std::span<const std::int64_t> at) {
    for (std::int64_t i = 0; i < nest.size(inner); ++i) {
      to.data[static_cast<std::size_t>(at[0] + i * nest.step(inner, 0))] = from[at[1] + i * nest.step(inner, 1)];
    }
  });
}

template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_view(const view_map& map, std::span<const Scalar* const> operands) {
  std::vector<dense<Scalar>> results;
  for (const auto& t : map.results()) {
    results.emplace_back(t.dims);
  }
  if (map.relabels()) {
    std::copy_n(operands[0], results[0].data.size(), results[0].data.begin());
    return results;
  }
  if (map.fill() != 0) {
    for (auto& r : results) {
      std::fill(r.data.begin(), r.data.end(), scalar_traits<Scalar>::literal(map.fill()));
    }
  }
  for (const auto& p : map.pieces()) {
    copy_piece(p, map.dims(p.operand), operands[p.operand], results[p.result]);
  }
  return results;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

namespace detail {

template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_body(const algebra& a, const tensor_graph& body,
                                                       std::span<const Scalar* const> operands);

[[nodiscard]] error cannot_evaluate(const algebra& a, const operation& op, std::span<const tensor_type> inputs);

// Operands by address; each must have as many elements as its type says.
template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_at(const algebra& a, const operation& op,
                                                     std::span<const Scalar* const> operands,
                                                     std::span<const tensor_type> types, std::uint64_t seed) {
  if (const auto s = a.iteration(op, types)) {
    const auto& d = a.definition_of(op.kind);
    if (d.source != source_kind::none) {
      if constexpr (arbitrary_scalar<Scalar>) {
        return {arbitrary_source<Scalar>(a.read(op).word("name"), s->results()[0], d.source, seed)};
      } else {
        throw error{fmt::format("evaluation of {}", a.signature(op.kind).name), "no value", "a supplied value"};
      }
    }
    return {evaluate_primitive<Scalar>(*s, std::get<primitive>(d.body).kernel(a.read(op), types), operands)};
  }
  if (const auto map = a.index_map(op, types)) {
    return evaluate_view<Scalar>(*map, operands);
  }
  if (const auto body = a.body(op, types)) {
    return evaluate_body<Scalar>(a, *body, operands);
  }
  if constexpr (std::same_as<Scalar, modular61>) {
    if (a.infer(op, types) && std::holds_alternative<opaque>(a.definition_of(op.kind).body)) {
      return evaluate_opaque<Scalar>(a, op, operands, types);
    }
  }
  throw cannot_evaluate(a, op, types);
}

// Visits the nodes that the outputs need, in order, and drops values after their last use. source(n, operands) may
// return the results of a node; if it returns nothing, the definition of the operator determines them.
template <class Scalar, class Source>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_nodes(const algebra& a, const tensor_graph& g, Source&& source,
                                                        std::uint64_t seed) {
  std::vector<std::size_t> uses(g.value_count());
  for (const auto v : g.outputs()) {
    ++uses[v.index()];
  }
  std::vector<bool> needed(g.node_count());
  for (auto n = g.node_count(); n-- > 0;) {
    for (const auto v : g.results(node_id{n})) {
      needed[n] = needed[n] || uses[v.index()] > 0;
    }
    for (const auto v : needed[n] ? g.operands(node_id{n}) : std::span<const value_id>{}) {
      ++uses[v.index()];
    }
  }
  std::vector<dense<Scalar>> values(g.value_count());
  std::vector<const Scalar*> operands;
  std::vector<tensor_type> types;
  for (const auto n : node_ids(g)) {
    if (!needed[n.index()]) {
      continue;
    }
    operands.clear();
    types.clear();
    for (const auto v : g.operands(n)) {
      operands.push_back(values[v.index()].data.data());
      types.push_back(g.type(v));
    }
    auto results = source(n, std::span<const Scalar* const>{operands});
    if (results.empty()) {
      results = evaluate_at<Scalar>(a, g.operation(n), operands, types, seed);
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      values[g.results(n)[r].index()] = std::move(results[r]);
    }
    for (const auto v : g.operands(n)) {
      if (--uses[v.index()] == 0) {
        values[v.index()] = {};
      }
    }
  }
  std::vector<dense<Scalar>> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(values[v.index()]);
  }
  return outputs;
}

template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_body(const algebra& a, const tensor_graph& body,
                                                       std::span<const Scalar* const> operands) {
  const auto operand = [&](node_id n, std::span<const Scalar* const>) {
    std::vector<dense<Scalar>> values;
    if (n.index() < operands.size()) {
      const auto& dims = body.type(body.results(n)[0]).dims;
      const auto* from = operands[n.index()];
      values.emplace_back(dims, std::vector<Scalar>(from, from + element_count(dims)));
    }
    return values;
  };
  return evaluate_nodes<Scalar>(a, body, operand, 0);
}

}  // namespace detail

// Evaluates one operator. Sources get arbitrary values that depend on name and seed (tensor/sources.hpp). Modulo a
// prime, functions other than polynomials become arbitrary functions, and so do operators without a known meaning.
// Throws: unity::error if the operator does not accept the inputs, or has no known meaning on such numbers.
template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate(const algebra& a, const operation& op,
                                                  std::span<const dense<Scalar>> inputs,
                                                  std::span<const tensor_type> input_types, std::uint64_t seed = 0) {
  bool fit = inputs.size() == input_types.size();
  std::vector<const Scalar*> operands;
  for (std::size_t i = 0; fit && i < inputs.size(); ++i) {
    fit = inputs[i].dims == input_types[i].dims &&
          std::optional{static_cast<std::int64_t>(inputs[i].data.size())} == checked_element_count(inputs[i].dims);
    operands.push_back(inputs[i].data.data());
  }
  UNITY_EXPECTS(fit, "values of the sizes that their types say");
  return detail::evaluate_at<Scalar>(a, op, operands, input_types, seed);
}

// Returns the values of an operator without operands, or nothing.
template <class P, class Scalar>
concept source_provider = requires(const P& provider, const operation& op, const tensor_type& type) {
  { provider(op, type) } -> std::convertible_to<std::optional<dense<Scalar>>>;
};

// The values of a graph's outputs, in order. Calls provider(op, type) for every operator without operands. If it
// returns nothing, inputs, weights and constants get arbitrary values, fills and constant kernels their exact ones.
// Throws: unity::error if an operator that the outputs need has no known meaning.
template <class Scalar, source_provider<Scalar> Provider>
[[nodiscard]] std::vector<dense<Scalar>> evaluate(const algebra& a, const tensor_graph& g, const Provider& provider,
                                                  std::uint64_t seed = 0) {
  const auto source = [&](node_id n, std::span<const Scalar* const>) {
    std::vector<dense<Scalar>> values;
    if (g.operands(n).empty() && g.results(n).size() == 1) {
      const auto& type = g.type(g.results(n)[0]);
      if (std::optional<dense<Scalar>> given = provider(g.operation(n), type)) {
        if (given->dims != type.dims || static_cast<std::int64_t>(given->data.size()) != element_count(type.dims)) {
          throw error{fmt::format("node {}", n.index()), "a supplied value of another size", to_string(type)};
        }
        values.push_back(std::move(*given));
      }
    }
    return values;
  };
  return detail::evaluate_nodes<Scalar>(a, g, source, seed);
}

// All sources get arbitrary values.
template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate(const algebra& a, const tensor_graph& g, std::uint64_t seed = 0) {
  return evaluate<Scalar>(
      a, g, [](const operation&, const tensor_type&) { return std::optional<dense<Scalar>>{}; }, seed);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_EVALUATE)

#include <string>

namespace unity::tensor::detail {

UNITY_INLINE error cannot_evaluate(const algebra& a, const operation& op, std::span<const tensor_type> inputs) {
  const bool known = op.kind.index() < a.kind_count();
  std::string found = "operands";
  for (const auto& t : inputs) {
    found += fmt::format(" {}", to_string(t));
  }
  const auto reason = a.why_not(op, inputs);
  return {fmt::format("evaluation of {}", known ? a.signature(op.kind).name : "an operator of no kind"),
          inputs.empty() ? "no operands" : found,
          reason.empty() ? "an operator with a known meaning" : reason.substr(std::string{"expected "}.size())};
}

}  // namespace unity::tensor::detail

#endif
