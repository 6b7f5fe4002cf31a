// What weights are before the first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::train {

// Regular. In order of precedence, where a weight is used in several ways.
struct initial_value {
  enum class form : std::uint8_t { unknown, zeros, ones, spread };

  form how = form::unknown;
  double variance = 0;  // of what is spread, uniformly around 0

  void join(const initial_value& o) noexcept;

  friend bool operator==(const initial_value&, const initial_value&) = default;
};

namespace detail {

// Walks a graph from its users back to its weights.
class initial_values {
 public:
  initial_values(const tensor::algebra& a, const tensor::tensor_graph& g);
  [[nodiscard]] const initial_value& of(value_id v) const { return of_[v.index()]; }

 private:
  using form = initial_value::form;
  static constexpr initial_value zeros{form::zeros, 0};
  static constexpr initial_value ones{form::ones, 0};

  [[nodiscard]] static initial_value spread(std::int64_t terms) {
    return {form::spread, 1 / static_cast<double>(terms)};
  }

  void read(node_id n);

  // What its use as operand i asks of a value that depends on weights alone.
  [[nodiscard]] initial_value value_for(node_id n, std::size_t i) const;

  // What is added to a signal starts at 0, what multiplies it at 1. Of two weights the larger is what the result is.
  [[nodiscard]] initial_value value_for_binary(node_id n, std::size_t i, const initial_value& neutral) const;

  // A factor of sums is spread, by how many terms these have; what is added to them starts at 0. What has no sums, as
  // views and functions of one number, passes on what is asked of its result.
  [[nodiscard]] initial_value value_for_primitive(node_id n, std::size_t i) const;
  // The points of the indices that a tensor has and the result does not; 0 where there are none.
  [[nodiscard]] static std::int64_t terms_of(const tensor::space& s, std::span<const tensor::access> dims,
                                             const std::vector<bool>& stays);

  [[nodiscard]] const initial_value& of_result(node_id n) const { return of(graph_.results(n)[0]); }

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  std::vector<initial_value> of_;
};

}  // namespace detail

// The first values of the weights of one graph. An element is a hash of the seed, the weight's name and the element's
// number in row-major order of the whole tensor, so that it is the same on any number of ranks, under any plan. How a
// weight is used says what it is, whatever it is called:
// - factors of sums (matrices, kernels of convolutions) are uniform with variance 1 / terms of a sum;
// - tables are uniform with variance 1 / elements of a row;
// - what is added is 0, what multiplies a signal element by element 1, so norms begin as the identity;
// - running means are 0, running variances 1.
// What is used in no known way is taken for a table.
// Source: LeCun et al., Efficient BackProp, 1998, section 4.6.
class initial_weights {
 public:
  // Complexity: linear in the graph, which need not outlive this.
  initial_weights(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed);

  // Throws: unity::error where the graph has no weight of that name.
  [[nodiscard]] const initial_value& value(std::string_view name) const;

  // Effects: writes the elements of the box, in row-major order, as the type says; type: that of the whole weight.
  // Complexity: linear in the box; allocates nothing.
  // Throws: unity::error where the graph has no weight of that name.
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
#include <unity/tensor/dtype.hpp>
#include <unity/train/detail/fill_box.hpp>

namespace unity::train {

UNITY_INLINE void initial_value::join(const initial_value& o) noexcept {
  if (o.how == how) {
    variance = std::min(variance, o.variance);
  } else if (o.how > how) {
    *this = o;
  }
}

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE initial_values::initial_values(const tensor::algebra& a, const tensor::tensor_graph& g)
    : algebra_{a}, graph_{g}, of_(g.value_count()) {
  for (auto n = g.node_count(); n-- > 0;) {
    read(node_id{n});
  }
}

UNITY_INLINE void initial_values::read(node_id n) {
  const auto operands = graph_.operands(n);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (graph_.type(operands[i]).constant) {
      of_[operands[i].index()].join(value_for(n, i));
    }
  }
}

UNITY_INLINE initial_value initial_values::value_for(node_id n, std::size_t i) const {
  const auto& op = graph_.operation(n);
  const std::string_view name = algebra_.signature(op.kind).name;
  const auto& dims = graph_.type(graph_.operands(n)[i]).dims;
  if (name == "embedding" || name == "embedding_bag") {
    return spread(tensor::element_count(dims) / dims[0]);
  }
  if (name == "layer_norm" || name == "batch_norm") {
    constexpr std::array values{initial_value{}, ones, zeros, zeros, ones};
    return values[i];
  }
  if (name == "attention" && i >= 3) {
    return spread(dims[0]);
  }
  if (name == "lstm_cell") {
    return i == 5 ? zeros : spread(dims[dims.size() - 1]);
  }
  if (name == "add" || name == "sub" || name == "mul") {
    return value_for_binary(n, i, name == "mul" ? ones : zeros);
  }
  return value_for_primitive(n, i);
}

UNITY_INLINE initial_value initial_values::value_for_binary(node_id n, std::size_t i,
                                                            const initial_value& neutral) const {
  const auto& other = graph_.type(graph_.operands(n)[1 - i]);
  const auto own = tensor::element_count(graph_.type(graph_.operands(n)[i]).dims);
  const bool leads = other.constant && own >= tensor::element_count(other.dims);
  return leads ? of_result(n) : neutral;
}

UNITY_INLINE initial_value initial_values::value_for_primitive(node_id n, std::size_t i) const {
  std::vector<tensor::tensor_type> types;
  for (const auto v : graph_.operands(n)) {
    types.push_back(graph_.type(v));
  }
  const auto s = algebra_.iteration(graph_.operation(n), types);
  if (!s) {
    return algebra_.index_map(graph_.operation(n), types) ? of_result(n) : initial_value{};
  }
  std::vector<bool> stays(s->indices().size());
  for (const auto& access : s->result_accesses(0)) {
    for (std::size_t k = 0; k < access.size(); ++k) {
      stays[access[k]] = true;
    }
  }
  std::int64_t terms = 1;
  bool any = false;
  for (std::size_t x = 0; x < s->operand_count(); ++x) {
    const auto own = terms_of(*s, s->operand(x), stays);
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
  if (v.how == form::unknown) {
    v = {form::spread, type.rank() == 0 ? 1 : 1 / static_cast<double>(type.dims[type.rank() - 1])};
  }
  if (v.how != form::spread || !tensor::is_floating(type.element)) {
    const auto all = v.how == form::ones ? 1.0 : 0.0;
    return detail::fill_box(type, b, out, [all](std::uint64_t) { return all; });
  }
  const auto stream = hash_combine(seed_, hash_bytes(name));
  const auto most = std::sqrt(3 * v.variance);
  // Rounded to float32, so that wider types have the same numbers.
  detail::fill_box(type, b, out, [&](std::uint64_t i) {
    return static_cast<double>(static_cast<float>(most * (2 * detail::unit_of(hash_combine(stream, i)) - 1)));
  });
}

}  // namespace unity::train

#endif
