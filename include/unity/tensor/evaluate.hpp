// Reference evaluation: computes operators and graphs on any scalar type that has scalar_traits.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/evaluate_primitive.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/loop_nest.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor {

namespace detail {

// Real numbers: inputs uniform in [-1, 1); weights and constants in [1/8, 9/8), so that a variance has a root.
template <std::floating_point Real>
[[nodiscard]] Real arbitrary_value(std::uint64_t bits, source_kind kind) noexcept {
  const auto unit = static_cast<double>(bits >> 11U) * 0x1.0p-53;
  return static_cast<Real>(kind == source_kind::input ? 2 * unit - 1 : unit + 0.125);
}
template <std::same_as<modular61> Modular>
[[nodiscard]] Modular arbitrary_value(std::uint64_t bits, source_kind) noexcept {
  return modular61::of_residue(bits);
}

}  // namespace detail

// Scalars for which arbitrary values can be generated; for all others, sources must be supplied.
template <class Scalar>
concept arbitrary_scalar = std::floating_point<Scalar> || std::same_as<Scalar, modular61>;

// Equal name, type and seed give equal values. Integers are in [0, 4), so that they can index rows; bools are 0 or 1.
template <arbitrary_scalar Scalar>
[[nodiscard]] dense<Scalar> arbitrary_source(std::string_view name, const tensor_type& type, source_kind kind,
                                             std::uint64_t seed) {
  dense<Scalar> values{type.dims};
  const auto stream = hash_combine(seed, hash_bytes(name));
  const std::uint64_t below = type.element == dtype::boolean ? 2 : 4;
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const auto bits = hash_combine(stream, i);
    values.data[i] = is_floating(type.element) ? detail::arbitrary_value<Scalar>(bits, kind)
                                               : static_cast<Scalar>(static_cast<std::int64_t>(bits % below));
  }
  return values;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

// Gives opaque operators a meaning: some fixed function of their operands.

// A number in [-1, 1).
[[nodiscard]] inline double signed_unit(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11U) * 0x1.0p-52 - 1;
}

// Four numbers that depend smoothly on all elements of a tensor, so that operands that differ only by rounding give
// results that differ little.
struct projection {
  static constexpr std::size_t count = 4;
  double at[count] = {};
};

// Replaces infinities, such as those in masks, by a large number.
[[nodiscard]] inline double finite(double x) noexcept {
  constexpr double large = 1e30;
  return std::isinf(x) ? std::copysign(large, x) : x;
}

template <class Scalar>
[[nodiscard]] projection project(std::uint64_t function, std::span<const Scalar> x) {
  projection p;
  for (std::size_t m = 0; m < projection::count; ++m) {
    const auto stream = hash_combine(function, m);
    for (std::size_t i = 0; i < x.size(); ++i) {
      p.at[m] += signed_unit(hash_combine(stream, i)) * finite(static_cast<double>(x[i]));
    }
    p.at[m] = std::asinh(p.at[m] / std::sqrt(static_cast<double>(x.size())));
  }
  return p;
}

// Real results are in [1/2, 5/2), so roots and reciprocals exist. Integers are in [0, 4), bools 0 or 1.
class opaque_function {
 public:
  explicit opaque_function(std::uint64_t identity) noexcept : identity_{identity} {}

  template <class Scalar>
  void add(std::span<const Scalar> operand) {
    const auto number = hash_combine(identity_, ++operands_);
    if constexpr (std::is_same_v<Scalar, modular61>) {
      for (const auto x : operand) {
        residues_ = hash_combine(residues_, x.residue());
      }
      residues_ = hash_combine(residues_, number);
    } else {
      projections_.push_back(project(number, operand));
    }
  }

  template <class Scalar>
  [[nodiscard]] dense<Scalar> result(std::size_t number, const tensor_type& type) const {
    dense<Scalar> out{type.dims};
    const auto stream = hash_combine(hash_combine(identity_, number), residues_);
    const std::uint64_t choices = type.element == dtype::boolean ? 2 : 4;
    for (std::size_t j = 0; j < out.data.size(); ++j) {
      const auto bits = hash_combine(stream, j);
      if constexpr (std::is_same_v<Scalar, modular61>) {
        out.data[j] = modular61::of_residue(is_floating(type.element) ? bits : bits % choices);
      } else {
        const auto wave = std::sin(phase(bits));
        out.data[j] = static_cast<Scalar>(
            is_floating(type.element) ? 1.5 + wave : std::floor((wave + 1) / 2.000001 * static_cast<double>(choices)));
      }
    }
    return out;
  }

 private:
  [[nodiscard]] double phase(std::uint64_t bits) const;

  std::uint64_t identity_;
  std::uint64_t operands_ = 0;
  std::uint64_t residues_ = 0;
  std::vector<projection> projections_;
};

// All attributes except sizes distinguish opaque operators. Precondition: the operator accepts the operands.
template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_opaque(const algebra& a, const operation& op,
                                                         std::span<const Scalar* const> operands,
                                                         std::span<const tensor_type> types) {
  const auto& fields = a.definition_of(op.kind).fields;
  std::uint64_t identity = op.kind.index();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    identity = fields[i].signature.name == "dims" ? identity : hash_combine(identity, hash_value(op.attributes[i]));
  }
  opaque_function f{identity};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    f.add(std::span{operands[i], static_cast<std::size_t>(element_count(types[i].dims))});
  }
  std::vector<dense<Scalar>> results;
  const auto made = a.infer(op, types);
  UNITY_EXPECTS(made.has_value(), "operands that the operator takes");
  for (const auto& t : *made) {
    results.push_back(f.template result<Scalar>(results.size(), t));
  }
  return results;
}

// Results of integer type are integers of that type: see to_storage.
template <class Scalar>
void keep_integers(dtype element, std::span<Scalar> numbers) {
  if constexpr (std::floating_point<Scalar>) {
    if (is_integral(element)) {
      with_storage(element, [&]<class Stored>(Stored) {
        for (auto& x : numbers) {
          x = static_cast<Scalar>(to_storage<Stored>(element, x));
        }
      });
    }
  }
}

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

}  // namespace detail

// The results of one operator, with operands by address: as many as types, each with as many elements as its type says.
// seed: for the arbitrary values of a source.
// Throws: unity::error that names the operator if it has no known meaning or does not accept the types.
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
    auto result =
        detail::evaluate_primitive<Scalar>(*s, std::get<primitive>(d.body).kernel(a.read(op), types), operands);
    detail::keep_integers<Scalar>(s->results()[0].element, result.data);
    return {std::move(result)};
  }
  if (const auto map = a.index_map(op, types)) {
    return detail::evaluate_view<Scalar>(*map, operands);
  }
  if (const auto body = a.body(op, types)) {
    return detail::evaluate_body<Scalar>(a, *body, operands);
  }
  if constexpr (std::same_as<Scalar, modular61>) {
    if (a.infer(op, types) && std::holds_alternative<opaque>(a.definition_of(op.kind).body)) {
      return detail::evaluate_opaque<Scalar>(a, op, operands, types);
    }
  }
  throw detail::cannot_evaluate(a, op, types);
}

namespace detail {

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

// Evaluates one operator. Sources get arbitrary values that depend on name and seed. Modulo a prime, functions other
// than polynomials become arbitrary functions, and so do operators without a known meaning.
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
  return evaluate_at<Scalar>(a, op, operands, input_types, seed);
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

#include <numbers>
#include <string>

namespace unity::tensor::detail {

UNITY_INLINE double opaque_function::phase(std::uint64_t bits) const {
  auto sum = std::numbers::pi * signed_unit(bits);
  std::uint64_t term = 0;
  for (const auto& p : projections_) {
    for (const auto x : p.at) {
      sum += signed_unit(hash_combine(bits, ++term)) * x;
    }
  }
  return sum;
}

UNITY_INLINE error cannot_evaluate(const algebra& a, const operation& op, std::span<const tensor_type> inputs) {
  const bool known = op.kind.index() < a.kind_count();
  std::string found = "operands";
  for (const auto& t : inputs) {
    found += fmt::format(" {}", to_string(t));
  }
  const auto reason = a.why_not(op, inputs);
  return {fmt::format("evaluation of {}", known ? a.signature(op.kind).name : "an operator of no kind"),
          inputs.empty() ? "no operands" : found,
          reason.empty() ? "an operator with a known meaning" : reason};
}

}  // namespace unity::tensor::detail

#endif
