// Finds the cheapest options of all operators of a graph by exhaustive enumeration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mapping_core.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::systems {

// A search without the dynamic program: depth first over operators in order, options cheapest first, backtracking when
// a partial cost reaches the best. Minimizes the objective of machine_mapping. Refers to the tables.
// Source: Unger et al., Unity (OSDI 2022), section 6.5, which only says that it does not finish.
class mapping_enumeration {
 public:
  using solution = parallel::machine_mapping::solution;

  mapping_enumeration(parallel::mesh_tables& tables, const parallel::mapping_objective& o)
      : tables_{tables}, objective_{o} {}

  // Makes the first, greedy choice regardless of the time: each operator's cheapest option given those before it.
  // Complexity: the product of all operators' options, limited by the seconds.
  [[nodiscard]] solution solve(const parallel::operator_graph& g, const stopwatch& clock, double seconds);
  // Whether the last call tried all options.
  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }

 private:
  void choose(std::uint32_t op, std::int64_t cost);
  // The cost of an option, including conversions of its operands.
  [[nodiscard]] std::int64_t cost_of(std::uint32_t op, std::uint32_t option);
  [[nodiscard]] bool is_past_deadline();

  parallel::mesh_tables& tables_;
  parallel::mapping_objective objective_;
  parallel::layout_distances distances_{};
  const parallel::operator_graph* graph_ = nullptr;
  std::vector<const parallel::operator_table*> table_of_{};
  std::vector<std::uint32_t> chosen_{};
  solution best_{};
  const stopwatch* clock_ = nullptr;
  double seconds_ = 0;
  bool is_complete_ = true;
  std::uint64_t tried_ = 0;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MAPPING_ENUMERATION)

#include <algorithm>
#include <span>

#include <unity/parallel/mesh/mesh_layout.hpp>

namespace unity::systems {

UNITY_INLINE auto mapping_enumeration::solve(const parallel::operator_graph& g, const stopwatch& clock, double seconds)
    -> solution {
  graph_ = &g;
  best_ = {};
  chosen_.assign(g.size(), 0);
  table_of_.clear();
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    table_of_.push_back(&tables_.of(g.placed(i)));
  }
  clock_ = &clock;
  seconds_ = seconds;
  is_complete_ = true;
  tried_ = 0;
  choose(0, 0);
  return best_;
}

UNITY_INLINE void mapping_enumeration::choose(std::uint32_t op, std::int64_t cost) {
  if (op == graph_->size()) {
    best_ = {cost, chosen_};
    return;
  }
  std::vector<std::pair<std::int64_t, std::uint32_t>> order;
  for (std::uint32_t o = 0; o < table_of_[op]->options.size(); ++o) {
    order.emplace_back(std::min(parallel::unreachable, cost + cost_of(op, o)), o);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [sum, o] : order) {
    if (sum >= best_.cost || is_past_deadline()) {
      return;
    }
    chosen_[op] = o;
    choose(op + 1, sum);
  }
}

UNITY_INLINE std::int64_t mapping_enumeration::cost_of(std::uint32_t op, std::uint32_t option) {
  const auto& t = *table_of_[op];
  auto sum = parallel::price_of(t.options[option], objective_);
  const auto sources = graph_->sources(op);
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from == parallel::operand_source::none) {
      continue;
    }
    const auto& maker = *table_of_[sources[x].from];
    const auto state = maker.numbered[chosen_[sources[x].from]].state;
    const auto takes =
        distances_.from(*t.operands[x], maker.states[state][sources[x].result])[t.numbered[option].operands[x]];
    sum = std::min(parallel::unreachable, sum + takes);
  }
  return sum;
}

UNITY_INLINE bool mapping_enumeration::is_past_deadline() {
  constexpr std::uint64_t between_looks = 256;
  if (best_.cost < parallel::unreachable && is_complete_ && tried_++ % between_looks == 0) {
    is_complete_ = clock_->seconds() < seconds_;
  }
  return !is_complete_;
}

}  // namespace unity::systems

#endif
