// Builds parallel computation graphs node by node.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_PCG_WRITER)

#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/parallel/pcg/chains.hpp>

namespace unity::parallel {

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
