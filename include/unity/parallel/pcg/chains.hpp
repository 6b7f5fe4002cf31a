// Chains of parallelization operators that convert one division of a tensor to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Each operator has one operand and one result.
using parallel_chain = std::vector<parallel_operator>;

// Whether the types differ only in how the tensor is divided: then a chain between them exists.
[[nodiscard]] inline bool are_of_one_tensor(const parallel_type& a, const parallel_type& b) noexcept {
  return a.global == b.global;
}

namespace detail {

// To change `from` to `to`, divide by `down`, then multiply by `up`.
struct degree_change {
  std::int64_t down = 1;
  std::int64_t up = 1;
};

[[nodiscard]] inline degree_change change_of(std::int64_t from, std::int64_t to) noexcept {
  const auto kept = std::gcd(from, to);
  return {from / kept, to / kept};
}

// If steps change, the dimension is combined completely first, because steps are outside of its blocks.
[[nodiscard]] inline degree_change blocks_of(const parallel_type& from, const parallel_type& to,
                                             std::size_t d) noexcept {
  return from.steps[d] == to.steps[d] ? change_of(from.degrees[d], to.degrees[d])
                                      : degree_change{from.degrees[d], to.degrees[d]};
}

void append(parallel_chain& chain, parallel_kind kind, std::size_t axis, std::int64_t degree);

}  // namespace detail

// The canonical chain from one type to another, in the order reduce, discard, combine, batch, pipeline, partition,
// replicate, inject, and ascending by dimension. The value of a chain depends only on its ends, so any other chain
// computes the same. Preconditions: are_of_one_tensor. Complexity: linear in the rank.
[[nodiscard]] parallel_chain canonical_chain(const parallel_type& from, const parallel_type& to);

// The type at the end of a chain; nothing if one of its operators does not accept the type before it.
[[nodiscard]] std::optional<parallel_type> type_behind(parallel_type t, std::span<const parallel_operator> chain);

// The canonical form of the chain; nothing if the chain does not apply to `from`.
[[nodiscard]] inline std::optional<parallel_chain> canonical(const parallel_type& from,
                                                             std::span<const parallel_operator> chain) {
  const auto to = type_behind(from, chain);
  return to ? std::optional{canonical_chain(from, *to)} : std::nullopt;
}

// Adjoints in reverse order: maps the dual of the type at the end of the chain to the dual of the type at its
// beginning.
[[nodiscard]] parallel_chain adjoint_of(std::span<const parallel_operator> chain);

// Builds parallel computation graphs node by node.

// Appends nodes to a graph, empty or given, with chains where types differ. The algebra must outlive the writer.
class pcg_writer {
 public:
  explicit pcg_writer(const pcg_algebra& a, pcg g = {}) : algebra_{a}, graph_{std::move(g)} {}

  [[nodiscard]] const pcg& graph() const noexcept { return graph_; }
  [[nodiscard]] const parallel_type& type(value_id v) const { return graph_.type(v); }

  // Converts the value to another division of its tensor; the same chain is written once.
  [[nodiscard]] value_id on(value_id v, const parallel_type& wanted);
  // Throws: unity::error if the operator does not accept the operands.
  [[nodiscard]] value_id add(const parallel_operator& p, std::span<const value_id> operands) {
    return graph_.results(add(algebra_.make(p), operands))[0];
  }
  node_id add(const tensor::operation& op, std::span<const value_id> operands);
  [[nodiscard]] pcg finish(std::span<const value_id> outputs) && {
    graph_.set_outputs(outputs);
    return std::move(graph_);
  }

 private:
  const pcg_algebra& algebra_;
  pcg graph_;
  std::map<value_id, std::vector<value_id>> converted_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_CHAINS)

#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel::detail {

UNITY_INLINE void append(parallel_chain& chain, parallel_kind kind, std::size_t axis, std::int64_t degree) {
  if (degree > 1) {
    chain.push_back({kind, static_cast<std::int64_t>(axis), degree});
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE parallel_chain canonical_chain(const parallel_type& from, const parallel_type& to) {
  UNITY_EXPECTS(are_of_one_tensor(from, to), "types of one tensor");
  const auto rank = from.global.rank();
  const auto partial = detail::change_of(from.partial, to.partial);
  const auto copies = detail::change_of(from.copies, to.copies);
  parallel_chain chain;
  detail::append(chain, parallel_kind::reduce, 0, partial.down);
  detail::append(chain, parallel_kind::discard, 0, copies.down);
  for (std::size_t d = 0; d < rank; ++d) {
    detail::append(chain, parallel_kind::combine, d, detail::blocks_of(from, to, d).down);
  }
  for (std::size_t d = 0; d < rank; ++d) {
    detail::append(chain, parallel_kind::batch, d, detail::change_of(from.steps[d], to.steps[d]).down);
  }
  for (std::size_t d = 0; d < rank; ++d) {
    detail::append(chain, parallel_kind::pipeline, d, detail::change_of(from.steps[d], to.steps[d]).up);
  }
  for (std::size_t d = 0; d < rank; ++d) {
    detail::append(chain, parallel_kind::partition, d, detail::blocks_of(from, to, d).up);
  }
  detail::append(chain, parallel_kind::replicate, 0, copies.up);
  detail::append(chain, parallel_kind::inject, 0, partial.up);
  return chain;
}

UNITY_INLINE std::optional<parallel_type> type_behind(parallel_type t, std::span<const parallel_operator> chain) {
  for (const auto& p : chain) {
    auto next = result_type(p, {&t, 1});
    if (!next) {
      return std::nullopt;
    }
    t = *std::move(next);
  }
  return t;
}

UNITY_INLINE parallel_chain adjoint_of(std::span<const parallel_operator> chain) {
  parallel_chain all;
  for (auto i = chain.size(); i-- > 0;) {
    all.push_back(adjoint_of(chain[i]));
  }
  return all;
}

UNITY_INLINE value_id pcg_writer::on(value_id v, const parallel_type& wanted) {
  if (graph_.type(v) == wanted) {
    return v;
  }
  auto& known = converted_[v];
  for (const auto made : known) {
    if (graph_.type(made) == wanted) {
      return made;
    }
  }
  const auto from = v;
  for (const auto& p : canonical_chain(graph_.type(v), wanted)) {
    v = add(p, {&v, 1});
  }
  converted_[from].push_back(v);
  return v;
}

UNITY_INLINE node_id pcg_writer::add(const tensor::operation& op, std::span<const value_id> operands) {
  std::vector<parallel_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto results = algebra_.infer(op, types);
  if (!results) {
    std::string found = "operands";
    for (const auto& t : types) {
      found += fmt::format(" {}", to_string(t));
    }
    throw error{fmt::format("operator {}", algebra_.signature(op.kind).name), found, "operands of one grid of tasks"};
  }
  return graph_.add_node(op, operands, *results);
}

}  // namespace unity::parallel

#endif
