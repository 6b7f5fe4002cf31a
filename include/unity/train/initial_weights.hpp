// The initial values of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::train {

// Forms in ascending order of precedence, for weights that are used in several ways. Regular.
struct initial_value {
  enum class form : std::uint8_t { unknown, zeros, ones, spread };

  form kind = form::unknown;
  double variance = 0;  // of a spread form, which is uniform around 0

  void join(const initial_value& o) noexcept;

  friend bool operator==(const initial_value&, const initial_value&) = default;
};

namespace detail {

// Propagates initial values from users back to weights, and through the bodies of composites.
class initial_values {
 public:
  // results: the requirements of the readers of the graph's outputs.
  initial_values(const tensor::algebra& a, const tensor::tensor_graph& g, std::span<const initial_value> results = {});
  [[nodiscard]] const initial_value& of(value_id v) const { return of_[v.index()]; }

 private:
  using form = initial_value::form;
  static constexpr initial_value zeros{form::zeros, 0};
  static constexpr initial_value ones{form::ones, 0};

  [[nodiscard]] static initial_value spread(std::int64_t terms) {
    return {form::spread, 1 / static_cast<double>(terms)};
  }

  void read(node_id n);
  void read_body(node_id n, const tensor::tensor_graph& body);

  // The requirement of a value that depends only on weights, from its use as operand i of node n. Operators without
  // sums, such as views and functions of one number, pass on the requirement of their result.
  [[nodiscard]] initial_value value_for(node_id n, std::size_t i, const tensor::space& s,
                                        const tensor::scalar_kernel& kernel) const;

  // The value that leaves the other operand unchanged. If both are weights, the larger one gets the requirement of the
  // result.
  [[nodiscard]] initial_value value_for_binary(node_id n, std::size_t i, const initial_value& neutral_value) const;

  // A factor in sums is spread according to the number of terms; a value that is added to sums starts at 0.
  [[nodiscard]] initial_value value_for_sums(node_id n, std::size_t i, const tensor::space& s) const;

  // The value of operand i of two for which the result equals the other operand, up to its sign; empty if there is
  // none.
  [[nodiscard]] static std::optional<initial_value> neutral(const tensor::scalar_kernel& kernel, std::size_t i);
  // The index along which the kernel selects a row, by the row number in an operand.
  [[nodiscard]] static std::optional<std::size_t> index_of_rows(const tensor::scalar_kernel& kernel);

  // The number of points of the indices that a tensor has and the result has not; 0 if there are none.
  [[nodiscard]] static std::int64_t terms_of(const tensor::space& s, std::span<const tensor::access> dims,
                                             const std::vector<bool>& stays);

  [[nodiscard]] const initial_value& of_result(node_id n) const { return of(graph_.results(n)[0]); }

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  std::vector<initial_value> of_;
};

}  // namespace detail

// The initial values of the weights of one graph. An element is a hash of the seed, the weight's name and the element's
// index in row-major order of the whole tensor, so it is the same on any number of ranks, under any plan. The use of a
// weight, not its name, determines its form:
// - factors in sums (matrices, convolution kernels) are uniform with variance 1 / number of terms of a sum;
// - tables are uniform with variance 1 / number of elements of a row;
// - added weights are 0, and weights that multiply a signal element by element are 1, so norms begin as the identity;
// - running means are 0, running variances 1.
// Weights with an unknown use are treated as tables.
// Source: LeCun et al., Efficient BackProp, 1998, section 4.6.
class initial_weights {
 public:
  // Complexity: linear in the graph, which need not outlive this object.
  initial_weights(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed);

  // Throws: unity::error if the graph has no weight of that name.
  [[nodiscard]] const initial_value& value(std::string_view name) const;

  // Effects: writes the elements of the box in row-major order, in the element type; type: of the whole weight.
  // Complexity: linear in the box; allocates nothing.
  // Throws: unity::error if the graph has no weight of that name.
  void fill(std::string_view name, const tensor::tensor_type& type, const parallel::box& b,
            std::span<std::byte> out) const;

 private:
  std::map<std::string, initial_value, std::less<>> values_{};
  std::uint64_t seed_ = 0;
};

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_INITIAL_WEIGHTS)

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/loop_nest.hpp>
#include <unity/train/data.hpp>

namespace unity::train {

UNITY_INLINE void initial_value::join(const initial_value& o) noexcept {
  if (o.kind == kind) {
    variance = std::min(variance, o.variance);
  } else if (o.kind > kind) {
    *this = o;
  }
}

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE initial_values::initial_values(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            std::span<const initial_value> results)
    : algebra_{a}, graph_{g}, of_(g.value_count()) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    of_[g.outputs()[r].index()].join(results[r]);
  }
  for (auto n = g.node_count(); n-- > 0;) {
    read(node_id{n});
  }
}

UNITY_INLINE void initial_values::read(node_id n) {
  const auto operands = graph_.operands(n);
  const auto is_constant = [&](value_id v) { return graph_.type(v).constant; };
  if (std::none_of(operands.begin(), operands.end(), is_constant)) {
    return;
  }
  std::vector<tensor::tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto& op = graph_.operation(n);
  if (const auto body = algebra_.body(op, types)) {
    return read_body(n, *body);
  }
  const auto* loop = std::get_if<tensor::primitive>(&algebra_.definition_of(op.kind).body);
  const auto space = algebra_.iteration(op, types);
  const auto kernel = space ? loop->kernel(algebra_.read(op), types) : tensor::scalar_kernel{};
  const auto moved = algebra_.index_map(op, types) ? of_result(n) : initial_value{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (is_constant(operands[i])) {
      of_[operands[i].index()].join(space ? value_for(n, i, *space, kernel) : moved);
    }
  }
}

// The first values of a body are the node's operands.
UNITY_INLINE void initial_values::read_body(node_id n, const tensor::tensor_graph& body) {
  std::vector<initial_value> results;
  for (const auto v : graph_.results(n)) {
    results.push_back(of(v));
  }
  const initial_values inside{algebra_, body, results};
  const auto operands = graph_.operands(n);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (graph_.type(operands[i]).constant) {
      of_[operands[i].index()].join(inside.of(value_id{i}));
    }
  }
}

UNITY_INLINE initial_value initial_values::value_for(node_id n, std::size_t i, const tensor::space& s,
                                                     const tensor::scalar_kernel& kernel) const {
  if (const auto rows = index_of_rows(kernel)) {
    const auto has_rows = [&](const tensor::access& a) { return a.size() == 1 && a[0] == *rows; };
    const auto table = s.operand(i);
    if (std::any_of(table.begin(), table.end(), has_rows)) {
      return spread(tensor::element_count(graph_.type(graph_.operands(n)[i]).dims) / s.indices()[*rows].size);
    }
  }
  if (s.operand_count() == 2 && kernel.reduce == tensor::reduction::none) {
    if (const auto value = neutral(kernel, i)) {
      return value_for_binary(n, i, *value);
    }
  }
  return value_for_sums(n, i, s);
}

UNITY_INLINE std::optional<initial_value> initial_values::neutral(const tensor::scalar_kernel& kernel, std::size_t i) {
  constexpr std::array samples{0.5, -1.25, 3.0};
  for (const auto& candidate : {zeros, ones}) {
    std::array<double, samples.size()> out{};
    bool is_known = true;
    tensor::scalar_program_runner<double> runner{kernel.outer};
    runner.run(out.data(), samples.size(), [&](const tensor::instruction& leaf, double* to) {
      const bool is_own = leaf.op == tensor::scalar_op::operand && static_cast<std::size_t>(leaf.number) == i;
      is_known = is_known && (leaf.op == tensor::scalar_op::operand || leaf.op == tensor::scalar_op::literal);
      for (std::size_t k = 0; k < samples.size(); ++k) {
        to[k] = leaf.op == tensor::scalar_op::literal ? leaf.value
                : is_own                              ? (candidate == ones ? 1.0 : 0.0)
                                                      : samples[k];
      }
    });
    const auto is_same = [](double x, double y) { return std::abs(x) == std::abs(y); };
    if (is_known && std::equal(out.begin(), out.end(), samples.begin(), is_same)) {
      return candidate;
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<std::size_t> initial_values::index_of_rows(const tensor::scalar_kernel& kernel) {
  const auto& p = kernel.inner;
  for (std::size_t i = 0; i + 2 < p.size(); ++i) {
    if (p[i].op == tensor::scalar_op::operand && p[i + 1].op == tensor::scalar_op::coordinate &&
        p[i + 2].op == tensor::scalar_op::equal) {
      return static_cast<std::size_t>(p[i + 1].number);
    }
  }
  return std::nullopt;
}

UNITY_INLINE initial_value initial_values::value_for_binary(node_id n, std::size_t i,
                                                            const initial_value& neutral_value) const {
  const auto& other = graph_.type(graph_.operands(n)[1 - i]);
  const auto own = tensor::element_count(graph_.type(graph_.operands(n)[i]).dims);
  const bool leads = other.constant && own >= tensor::element_count(other.dims);
  return leads ? of_result(n) : neutral_value;
}

UNITY_INLINE initial_value initial_values::value_for_sums(node_id n, std::size_t i, const tensor::space& s) const {
  std::vector<bool> stays(s.indices().size());
  for (const auto& access : s.result_accesses(0)) {
    for (std::size_t k = 0; k < access.size(); ++k) {
      stays[access[k]] = true;
    }
  }
  std::int64_t terms = 1;
  bool any = false;
  for (std::size_t x = 0; x < s.operand_count(); ++x) {
    const auto own = terms_of(s, s.operand(x), stays);
    any = any || own > 0;
    terms = x == i ? own : terms;
  }
  return terms > 0 ? spread(terms) : any ? zeros : of_result(n);
}

UNITY_INLINE std::int64_t initial_values::terms_of(const tensor::space& s, std::span<const tensor::access> dims,
                                                   const std::vector<bool>& stays) {
  std::int64_t points = 1;
  bool any = false;
  for (const auto& access : dims) {
    for (std::size_t k = 0; k < access.size(); ++k) {
      points *= stays[access[k]] ? 1 : s.indices()[access[k]].size;
      any = any || !stays[access[k]];
    }
  }
  return any ? points : 0;
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE initial_weights::initial_weights(const tensor::algebra& a, const tensor::tensor_graph& g,
                                              std::uint64_t seed)
    : seed_{seed} {
  const detail::initial_values values{a, g};
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == a.kind("weight")) {
      values_[a.read(g.operation(n)).word("name")].join(values.of(g.results(n)[0]));
    }
  }
}

UNITY_INLINE const initial_value& initial_weights::value(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    throw error{"weights", fmt::format("no weight \"{}\" in the graph", name), "the name of a weight"};
  }
  return found->second;
}

UNITY_INLINE void initial_weights::fill(std::string_view name, const tensor::tensor_type& type, const parallel::box& b,
                                        std::span<std::byte> out) const {
  using form = initial_value::form;
  auto v = value(name);
  if (v.kind == form::unknown) {
    v = {form::spread, type.rank() == 0 ? 1 : 1 / static_cast<double>(type.dims[type.rank() - 1])};
  }
  if (v.kind != form::spread || !tensor::is_floating(type.element)) {
    const auto all = v.kind == form::ones ? 1.0 : 0.0;
    return fill_box(type, b, out, [all](std::uint64_t) { return all; });
  }
  const auto stream = hash_combine(seed_, hash_bytes(name));
  const auto most = std::sqrt(3 * v.variance);
  // Rounded to float32, so that wider types get the same numbers.
  fill_box(type, b, out, [&](std::uint64_t i) {
    return static_cast<double>(static_cast<float>(most * (2 * uniform_of(hash_combine(stream, i)) - 1)));
  });
}

}  // namespace unity::train

#endif
