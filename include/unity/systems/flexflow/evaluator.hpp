// Evaluates strategies by delta simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::systems {

// A strategy that does not fit in memory costs its time plus this plus 1 ns per byte over the limits, so that searches
// prefer those that fit. Picoseconds: 28 hours.
inline constexpr cost_value over_memory = 100'000'000'000'000'000;

struct evaluation_counters {
  std::uint64_t moves = 0;
  std::uint64_t overloaded = 0;  // rejected before simulation: one resource alone is busy longer than the bound
  std::uint64_t simulated = 0;
  std::uint64_t profiled = 0;  // peak memory was computed exactly, buffer by buffer
};

// Models unity::evaluator: the simulated iteration time of a strategy in picoseconds. Moves replace the fragments of
// the operators that they change, of their edges and of their weights.
// - Keeps each resource's total work, which is a lower bound on the iteration. A move is rejected as soon as the new
//   tasks of operators, then edges, then weights keep one resource busy beyond the bound.
// - Memory: the sum of all buffers of a device is an upper bound on its peak, and the buffers live in each thousandth
//   of the iteration give a tighter one; the exact peak is computed only if both exceed the limit.
// Refers to what the lowering refers to. Not thread-safe; copies are independent.
// Source: Jia's dissertation (2020), sections 3.4.3 and 3.5.
class strategy_evaluator {
 public:
  using state_type = parallel::strategy;
  using move_type = strategy_change;

  // limits: the memory of each device (parallel::memory_limits), or empty.
  strategy_evaluator(parallel::lowering lowering, std::vector<bytes> limits)
      : lowering_{std::move(lowering)}, limits_{std::move(limits)} {
    edge_stamps_.resize(lowering_.training().edges().size());
    weight_stamps_.resize(lowering_.training().weights().size());
  }

  [[nodiscard]] const parallel::graph_dimensions& dimensions() const noexcept { return lowering_.dimensions(); }

  // Complexity: as lowering and a full simulation.
  // Throws: unity::error if the strategy does not fit the graph and machine.
  cost_value reset(const parallel::strategy& s);
  [[nodiscard]] const parallel::strategy& state() const noexcept { return state_; }
  [[nodiscard]] cost_value cost() const noexcept { return cost_; }
  // Precondition: reset was called.
  [[nodiscard]] const simulate::delta_simulation& simulation() const { return *simulation_; }
  [[nodiscard]] const evaluation_counters& counts() const noexcept { return counts_; }

  // Complexity: linear in the changed fragments, plus that of delta simulation.
  std::optional<cost_value> try_move(const strategy_change& change, cost_value bound);
  void commit();
  void rollback();

 private:
  void take(const strategy_change& change);
  // Finds the fragments of the changed nodes, their edges and weights, each once, in this order.
  void find_fragments();

  // False if one resource has more work than the bound allows. Checked after all operators, after each edge, and after
  // all weights.
  bool lower_all(cost_value bound);
  void add(tasks::fragment f) {
    count(f, true);
    fragments_.push_back(std::move(f));
  }
  [[nodiscard]] bool is_overloaded(std::size_t first, cost_value bound) const;

  [[nodiscard]] std::optional<cost_value> simulated(cost_value bound);
  [[nodiscard]] cost_value cost_of(picoseconds iteration);

  void count(const tasks::fragment& f, bool on);
  // Called once the simulation holds the old program again.
  void restore();

  parallel::lowering lowering_;
  std::vector<bytes> limits_;
  std::optional<simulate::delta_simulation> simulation_{};
  parallel::strategy state_{};
  cost_value cost_ = 0;
  std::vector<std::int64_t> loads_{};  // by resource: the sum of durations, in picoseconds
  parallel::buffer_sums sums_{0};
  evaluation_counters counts_{};

  // State of the trial.
  bool is_open_ = false;
  cost_value trial_ = 0;
  std::vector<reconfiguration> undo_{};  // previous configurations of changed nodes
  std::uint64_t stamp_ = 0;
  std::vector<std::uint64_t> edge_stamps_{};
  std::vector<std::uint64_t> weight_stamps_{};
  std::vector<std::uint32_t> edges_{};
  std::vector<std::uint32_t> weights_{};
  std::vector<tasks::fragment_id> touched_{};
  std::vector<tasks::fragment> fragments_{};
  std::vector<tasks::replacement> replacements_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW_EVALUATOR)

#include <algorithm>
#include <limits>
#include <span>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/simulate/timeline.hpp>

namespace unity::systems {

UNITY_INLINE cost_value strategy_evaluator::reset(const parallel::strategy& s) {
  UNITY_EXPECTS(!is_open_, "no open trial");
  simulation_.emplace(lowering_.run(s));
  state_ = s;
  const auto& p = simulation_->program();
  loads_.assign(p.resources().size(), 0);
  sums_ = parallel::buffer_sums{limits_.size()};
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    count(p[tasks::fragment_id{f}], true);
  }
  return cost_ = cost_of(simulation_->iteration_time());
}

UNITY_INLINE std::optional<cost_value> strategy_evaluator::try_move(const strategy_change& change, cost_value bound) {
  UNITY_EXPECTS(simulation_ && !is_open_, "a state, and no open trial");
  ++counts_.moves;
  lowering_.make_room();
  take(change);
  if (undo_.empty()) {
    is_open_ = cost_ <= bound;
    return is_open_ ? std::optional{cost_} : std::nullopt;
  }
  find_fragments();
  for (const auto f : touched_) {
    count(simulation_->program()[f], false);
  }
  fragments_.clear();
  if (!lower_all(bound)) {
    ++counts_.overloaded;
    restore();
    return std::nullopt;
  }
  const auto cost = simulated(bound);
  if (!cost) {
    restore();
    return std::nullopt;
  }
  trial_ = *cost;
  is_open_ = true;
  return cost;
}

UNITY_INLINE void strategy_evaluator::commit() {
  UNITY_EXPECTS(is_open_, "an open trial");
  is_open_ = false;
  if (!undo_.empty()) {
    simulation_->commit();
    cost_ = trial_;
  }
}

UNITY_INLINE void strategy_evaluator::rollback() {
  UNITY_EXPECTS(is_open_, "an open trial");
  is_open_ = false;
  if (!undo_.empty()) {
    simulation_->rollback();
    restore();
  }
}

UNITY_INLINE void strategy_evaluator::take(const strategy_change& change) {
  undo_.clear();
  for (const auto& r : change) {
    auto& now = state_[r.node.index()];
    if (now != r.to) {
      undo_.push_back({r.node, std::exchange(now, r.to)});
    }
  }
}

UNITY_INLINE void strategy_evaluator::find_fragments() {
  ++stamp_;
  touched_.clear();
  edges_.clear();
  weights_.clear();
  const auto& t = lowering_.training();
  const auto add = [this](std::vector<std::uint64_t>& stamps, std::span<const std::uint32_t> numbers,
                          std::vector<std::uint32_t>& all) {
    for (const auto i : numbers) {
      if (std::exchange(stamps[i], stamp_) != stamp_) {
        all.push_back(i);
      }
    }
  };
  for (const auto& r : undo_) {
    touched_.push_back(lowering_.fragment_of(r.node));
    add(edge_stamps_, t.edges_of(r.node), edges_);
    add(weight_stamps_, t.weights_of(r.node), weights_);
  }
  for (const auto e : edges_) {
    touched_.push_back(lowering_.edge_fragment(e));
  }
  for (const auto w : weights_) {
    touched_.push_back(lowering_.weight_fragment(w));
  }
}

UNITY_INLINE bool strategy_evaluator::lower_all(cost_value bound) {
  for (const auto& r : undo_) {
    add(lowering_.lowered_operator(state_, r.node));
  }
  if (is_overloaded(0, bound)) {
    return false;
  }
  for (const auto e : edges_) {
    add(lowering_.lowered_edge(state_, e));
    if (is_overloaded(fragments_.size() - 1, bound)) {
      return false;
    }
  }
  const auto first = fragments_.size();
  for (const auto w : weights_) {
    add(lowering_.lowered_weight(state_, w));
  }
  return !is_overloaded(first, bound);
}

UNITY_INLINE bool strategy_evaluator::is_overloaded(std::size_t first, cost_value bound) const {
  for (auto i = first; i < fragments_.size(); ++i) {
    for (const auto& t : fragments_[i].tasks) {
      if (t.resource.valid() && loads_[t.resource.index()] > bound) {
        return true;
      }
    }
  }
  return false;
}

UNITY_INLINE std::optional<cost_value> strategy_evaluator::simulated(cost_value bound) {
  ++counts_.simulated;
  replacements_.clear();
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    replacements_.push_back({touched_[i], &fragments_[i]});
  }
  const auto iteration = simulation_->try_replace(replacements_, picoseconds{bound});
  if (!iteration) {
    return std::nullopt;
  }
  const auto cost = cost_of(*iteration);
  if (cost > bound) {
    simulation_->rollback();
    return std::nullopt;
  }
  return cost;
}

UNITY_INLINE cost_value strategy_evaluator::cost_of(picoseconds iteration) {
  const auto time = std::min(iteration.count(), over_memory - 1);
  if (parallel::excess_over(limits_, sums_.sums()).empty()) {
    return time;
  }
  const auto& p = simulation_->program();
  const auto times = simulation_->times();
  if (parallel::excess_over(limits_, simulate::memory_bounds(p, times, limits_.size(), iteration)).empty()) {
    return time;
  }
  ++counts_.profiled;
  std::vector<bytes> peaks;
  for (const auto& profile : simulate::memory_profiles(p, times)) {
    peaks.push_back(profile.peak);
  }
  cost_value over = 0;
  for (const auto& e : parallel::excess_over(limits_, peaks)) {
    over += e.over.count();
  }
  constexpr cost_value most = 1'000'000'000'000'000;  // bytes; prevents overflow of the sum
  return over == 0 ? time : over_memory + 1000 * std::min(over, most) + time;
}

UNITY_INLINE void strategy_evaluator::count(const tasks::fragment& f, bool on) {
  for (const auto& t : f.tasks) {
    if (t.resource.valid()) {
      loads_[t.resource.index()] += on ? t.duration.count() : -t.duration.count();
    }
  }
  if (!limits_.empty()) {
    on ? sums_.add(f) : sums_.remove(f);
  }
}

UNITY_INLINE void strategy_evaluator::restore() {
  for (const auto& f : fragments_) {
    count(f, false);
  }
  for (const auto f : touched_) {
    count(simulation_->program()[f], true);
  }
  for (auto i = undo_.size(); i-- > 0;) {
    state_[undo_[i].node.index()] = std::move(undo_[i].to);
  }
}

}  // namespace unity::systems

#endif
