// Which nodes of a graph run, which run only once, and which results alias other values.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/elementwise_chains.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::backend {

// Per result of an operator, the part of an operand that it can alias, by the operator's definition and the layouts;
// nothing if the operator must run.
[[nodiscard]] std::optional<std::vector<tensor::shared_part>> shared_results(
    const tensor::algebra& a, const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
    std::span<const tensor::tensor_type> outputs);

// A node or chain that runs, and what it reads and writes. A chain is not copied: it must outlive the item.
struct run_item {
  node_id node{};  // of a chain: the last one
  const elementwise_chain* chain = nullptr;
  std::vector<value_id> operands{};
  std::vector<value_id> results{};
};

}  // namespace unity::backend

namespace unity::backend::detail {

// The nodes that the outputs need, in order; those that depend only on constants are listed separately. The graph must
// outlive the list.
class run_list {
 public:
  // fuses: element-wise nodes run in chains. parts: a value may alias a part of another value, not only all of it.
  // Throws: unity::error if a value of constant type depends on one that is not constant.
  run_list(const tensor::algebra& a, const tensor::tensor_graph& g, bool fuses, bool parts = false);
  run_list(const run_list&) = delete;  // items point to chains
  run_list& operator=(const run_list&) = delete;

  [[nodiscard]] std::span<const node_id> inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::span<const run_item> constants() const noexcept { return constants_; }
  [[nodiscard]] std::span<const run_item> running() const noexcept { return running_; }
  [[nodiscard]] std::size_t alias_count() const noexcept { return aliases_; }
  [[nodiscard]] std::size_t chain_count() const noexcept { return chains_.size(); }
  // The value whose memory contains `v`, and the offset of `v` in it, in bytes.
  [[nodiscard]] value_id root(value_id v) const { return roots_[v.index()]; }
  [[nodiscard]] std::size_t offset(value_id v) const { return offsets_[v.index()]; }

 private:
  void add(const tensor::algebra& a, node_id n);

  // Whether there is one result, which aliases its whole operand.
  [[nodiscard]] static bool is_whole(std::span<const tensor::shared_part> shared,
                                     std::span<const tensor::tensor_type> inputs,
                                     std::span<const tensor::tensor_type> outputs) noexcept {
    return shared.size() == 1 && shared[0].offset == bytes{} &&
           tensor::element_count(inputs[shared[0].operand].dims) == tensor::element_count(outputs[0].dims);
  }

  const tensor::tensor_graph& graph_;
  bool parts_;
  std::vector<elementwise_chain> chains_;
  std::vector<value_id> roots_;
  std::vector<std::size_t> offsets_;  // bytes
  std::vector<node_id> inputs_;
  std::vector<run_item> constants_;
  std::vector<run_item> running_;
  std::size_t aliases_ = 0;
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_RUN_LIST)

#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::backend {

UNITY_INLINE std::optional<std::vector<tensor::shared_part>> shared_results(
    const tensor::algebra& a, const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
    std::span<const tensor::tensor_type> outputs) {
  if (inputs.empty()) {
    return std::nullopt;
  }
  if (const auto map = a.index_map(op, inputs)) {
    return tensor::shared_parts(*map, inputs, outputs);
  }
  const auto program =
      inputs.size() == 1 && outputs.size() == 1 ? detail::elementwise_program(a, op, inputs) : std::nullopt;
  const bool is_copy = program && detail::is_copy(*program, inputs[0], outputs[0]);
  return is_copy ? std::optional{std::vector<tensor::shared_part>(1)} : std::nullopt;
}

}  // namespace unity::backend

namespace unity::backend::detail {

UNITY_INLINE run_list::run_list(const tensor::algebra& a, const tensor::tensor_graph& g, bool fuses, bool parts)
    : graph_{g}, parts_{parts}, offsets_(g.value_count()) {
  if (fuses) {
    chains_ = elementwise_chains(a, g);
  }
  std::vector<const elementwise_chain*> ends(g.node_count());
  std::vector<bool> inside(g.node_count());
  for (const auto& c : chains_) {
    ends[c.nodes.back().index()] = &c;
    for (const auto n : c.nodes) {
      inside[n.index()] = true;
    }
  }
  for (const auto v : value_ids(g)) {
    roots_.push_back(v);
  }
  const auto needed = needed_nodes(g);
  for (const auto i : node_ids(g)) {
    if (const auto* chain = ends[i.index()]) {
      const auto results = g.results(i);
      running_.push_back({i, chain, chain->inputs, {results.begin(), results.end()}});
    } else if (needed[i.index()] && !inside[i.index()]) {
      add(a, i);
    }
  }
}

UNITY_INLINE void run_list::add(const tensor::algebra& a, node_id n) {
  const auto operands = graph_.operands(n);
  const auto results = graph_.results(n);
  const auto inputs = types_of(graph_, operands);
  const auto outputs = types_of(graph_, results);
  bool constant = !outputs.empty();
  for (const auto& t : outputs) {
    constant = constant && t.constant;
  }
  for (const auto& t : inputs) {
    if (constant && !t.constant) {
      throw error{fmt::format("node {}", n.index()), "a constant result of an operand that is none",
                  "types as the algebra infers them"};
    }
  }
  const auto shared = shared_results(a, graph_.operation(n), inputs, outputs);
  if (shared && (is_whole(*shared, inputs, outputs) || (parts_ && !constant))) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto from = operands[(*shared)[i].operand];
      roots_[results[i].index()] = root(from);
      offsets_[results[i].index()] = offset(from) + static_cast<std::size_t>((*shared)[i].offset.count());
    }
    ++aliases_;
  } else if (operands.empty() && !constant) {
    inputs_.push_back(n);
  } else {
    (constant ? constants_ : running_)
        .push_back({n, nullptr, {operands.begin(), operands.end()}, {results.begin(), results.end()}});
  }
}

}  // namespace unity::backend::detail

#endif
