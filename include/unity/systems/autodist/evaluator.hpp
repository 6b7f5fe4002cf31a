// Simulates an iteration under a synchronization of the weights, and provides moves that change one weight or one
// group: the parts of a search for synchronizations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/systems/autodist/sampler.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::systems {

// serve        puts the weight on servers, in this many parts along the axis, each on one of the servers with the
//              fewest bytes; other: devices keep a copy
// reduce       all-reduces it in this many parts, each alone
// join         all-reduces it together with the next all-reduced weight; other: with the previous one
// split        makes a separate group of its group's weights up to this one
// rows         toggles sending its gradient as indices and rows
// relocate     moves each of its parts to the next server
enum class sync_change_kind : std::uint8_t { serve, reduce, join, split, rows, relocate };

// Regular.
struct sync_change {
  sync_change_kind kind = sync_change_kind::reduce;
  bool is_other = false;
  std::uint8_t axis = 0;
  std::uint8_t parts = 1;
  std::uint32_t weight = 0;

  friend bool operator==(const sync_change&, const sync_change&) = default;
};

// All moves of a problem. Refers to it; threads may share it.
class sync_moves {
 public:
  using move_type = sync_change;

  // of_state: the number of moves per state, drawn at random from all; 0: all. It lets a search with few trials cover
  // every weight.
  explicit sync_moves(const sync_problem& p, std::size_t of_state = 0, const sampling_guide& guide = {});

  // Includes moves that change nothing.
  [[nodiscard]] std::span<const sync_change> moves(const parallel::synchronization& s) const;
  [[nodiscard]] sync_change change(sync_change m) const { return m; }
  // Draws a weight, with probability one half uniformly and otherwise in proportion to its bytes, and a move of this
  // weight that changes something.
  [[nodiscard]] std::optional<proposed<sync_change>> sample(const parallel::synchronization& s,
                                                            random_engine& random) const;
  // The synchronization after the move; nullopt if the move changes nothing. Complexity: linear in the state.
  [[nodiscard]] std::optional<parallel::synchronization> after(const parallel::synchronization& s,
                                                               const sync_change& c) const;
  [[nodiscard]] fingerprint fingerprint_of(const parallel::synchronization& s) const;
  [[nodiscard]] std::optional<fingerprint> fingerprint_after(const parallel::synchronization& s, fingerprint,
                                                             const sync_change& c) const;

 private:
  void add_moves(std::size_t w, const sampling_guide& guide);
  [[nodiscard]] sync_change draw(random_engine& random) const;
  void serve(parallel::synchronization& s, const sync_change& c) const;
  void reduce(parallel::synchronization& s, const sync_change& c) const;
  [[nodiscard]] bool join(parallel::synchronization& s, const sync_change& c) const;
  [[nodiscard]] bool split(parallel::synchronization& s, const sync_change& c) const;
  [[nodiscard]] bool rows(parallel::synchronization& s, const sync_change& c) const;
  [[nodiscard]] bool relocate(parallel::synchronization& s, const sync_change& c) const;

  const sync_problem* problem_;
  std::vector<sync_change> all_{};
  std::vector<std::vector<sync_change>> drawn_{};  // each state uses one of these lists; empty: all moves
  std::vector<std::pair<std::size_t, std::size_t>> of_weight_{};  // begin and end of the moves of each trained weight
  std::vector<double> bytes_before_{};  // prefix sums over trained weights; the last is the total
};

// A simulated result.
struct sync_outcome {
  picoseconds iteration{};  // average over consecutive iterations
  bytes moved{};            // over links, per iteration
};

// A plan whose synchronization varies. The algebra must outlive it. Not thread-safe; copies are independent.
class sync_simulation {
 public:
  // Throws: unity::error if the plan does not fit its graph and machine.
  sync_simulation(const tensor::algebra& a, parallel::plan p, tensor::durations durations);
  // Uses the roofline of the plan's devices.
  sync_simulation(const tensor::algebra& a, parallel::plan p);

  [[nodiscard]] const parallel::plan& plan() const noexcept { return *plan_; }
  [[nodiscard]] parallel::plan plan_with(parallel::synchronization s) const;

  // The steady-state time after the first few iterations; if it stays irregular, the average over the last 4 of 8.
  // Complexity: lowering, and simulating 10 iterations.
  // Throws: unity::error if the synchronization does not fit the plan.
  [[nodiscard]] sync_outcome operator()(const parallel::synchronization& s);

  // A report on a single iteration, mainly for the memory of each device. Complexity: lowering, and one simulation.
  // Throws: unity::error if the synchronization does not fit the plan.
  [[nodiscard]] parallel::strategy_report report(const parallel::synchronization& s);

 private:
  const tensor::algebra* algebra_;
  std::shared_ptr<const parallel::plan> plan_;  // the lowering refers to it
  parallel::lowering lowering_;
};

// Models unity::evaluator: the simulated time of an iteration in picoseconds. Each trial is a full simulation, because
// a move affects links that messages of other weights share, so nearly everything changes. Refers to the moves. Not
// thread-safe; copies are independent.
class sync_evaluator {
 public:
  using state_type = parallel::synchronization;
  using move_type = sync_change;

  sync_evaluator(sync_simulation simulation, const sync_moves& moves)
      : simulation_{std::move(simulation)}, moves_{&moves} {}

  // Throws: unity::error if the synchronization does not fit the plan.
  cost_value reset(const parallel::synchronization& s);
  [[nodiscard]] const parallel::synchronization& state() const noexcept { return state_; }
  [[nodiscard]] cost_value cost() const noexcept { return cost_; }
  std::optional<cost_value> try_move(const sync_change& c, cost_value bound);
  void commit();
  void rollback() { trial_.reset(); }

 private:
  [[nodiscard]] cost_value simulated(const parallel::synchronization& s) { return simulation_(s).iteration.count(); }

  sync_simulation simulation_;
  const sync_moves* moves_;
  parallel::synchronization state_{};
  cost_value cost_ = 0;
  std::optional<parallel::synchronization> trial_{};
  cost_value trial_cost_ = 0;
  bool has_state_ = false;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_EVALUATOR)

#include <algorithm>
#include <tuple>

#include <unity/core/config.hpp>
#include <unity/parallel/lowering/next_iteration.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/iterations.hpp>

namespace unity::systems {

UNITY_INLINE sync_moves::sync_moves(const sync_problem& p, std::size_t of_state, const sampling_guide& guide)
    : problem_{&p} {
  double bytes = 0;
  for (std::size_t w = 0; w < p.weights.size(); ++w) {
    if (p.weights[w].is_trained) {
      const auto begin = all_.size();
      add_moves(w, guide);
      of_weight_.emplace_back(begin, all_.size());
      bytes_before_.push_back(bytes);
      bytes += static_cast<double>(p.weights[w].size().count());
    }
  }
  bytes_before_.push_back(bytes);
  constexpr std::size_t lists = 64;
  random_engine random{lists};
  for (std::size_t i = 0; i < lists && of_state > 0 && !all_.empty(); ++i) {
    auto& list = drawn_.emplace_back();
    while (list.size() < of_state) {
      list.push_back(draw(random));
    }
  }
}

UNITY_INLINE std::span<const sync_change> sync_moves::moves(const parallel::synchronization& s) const {
  return drawn_.empty() ? all_ : drawn_[fingerprint_of(s).low % drawn_.size()];
}

UNITY_INLINE sync_change sync_moves::draw(random_engine& random) const {
  std::size_t w = random.below(of_weight_.size());
  if (random.below(2) == 0) {
    const auto at = random.unit() * bytes_before_.back();
    const auto after = std::upper_bound(bytes_before_.begin(), bytes_before_.end() - 1, at);
    w = static_cast<std::size_t>(after - bytes_before_.begin()) - 1;
  }
  const auto [begin, end] = of_weight_[w];
  return all_[begin + random.below(end - begin)];
}

UNITY_INLINE void sync_moves::add_moves(std::size_t w, const sampling_guide& guide) {
  const auto& facts = problem_->weights[w];
  const auto number = static_cast<std::uint32_t>(w);
  const auto add = [&](sync_change_kind kind, bool is_other, std::uint32_t axis = 0, std::uint32_t parts = 1) {
    all_.push_back({kind, is_other, static_cast<std::uint8_t>(axis), static_cast<std::uint8_t>(parts), number});
  };
  const auto add_parts = [&](std::uint32_t axis, std::uint32_t parts) {
    add(sync_change_kind::serve, false, axis, parts);
    add(sync_change_kind::serve, true, axis, parts);
    add(sync_change_kind::reduce, false, axis, parts);
  };
  add_parts(0, 1);
  const auto axes = facts.is_sparse ? std::size_t{1} : facts.dims.size();
  for (std::uint32_t axis = 0; axis < axes && facts.size() >= guide.whole; ++axis) {
    const auto most = std::min<std::uint32_t>(most_parts(*problem_, guide, facts, axis), 255);
    for (std::uint32_t parts = 2; parts < most; parts *= 2) {
      add_parts(axis, parts);
    }
    if (most > 1) {
      add_parts(axis, most);
    }
  }
  for (const bool is_other : {false, true}) {
    add(sync_change_kind::join, is_other);
  }
  add(sync_change_kind::split, false);
  add(sync_change_kind::relocate, false);
  if (facts.is_sparse) {
    add(sync_change_kind::rows, false);
  }
}

UNITY_INLINE std::optional<proposed<sync_change>> sync_moves::sample(const parallel::synchronization& s,
                                                                     random_engine& random) const {
  constexpr int most = 100;
  for (int i = 0; i < most && !all_.empty(); ++i) {
    const auto c = draw(random);
    if (after(s, c)) {
      return proposed<sync_change>{c, 0};
    }
  }
  return std::nullopt;
}

UNITY_INLINE void sync_moves::serve(parallel::synchronization& s, const sync_change& c) const {
  auto& own = s.weights[c.weight];
  const auto& facts = problem_->weights[c.weight];
  parallel::synchronizer sync;
  sync.kind = parallel::sync_kind::parameter_server;
  sync.is_proxied = c.is_other;
  sync.is_per_node = problem_->is_per_node;
  sync.is_sparse = facts.is_sparse && own.parts.front().is_sparse;
  own.axis = c.parts > 1 ? c.axis : 0;
  own.parts.assign(1, {});
  const auto loads = served_bytes(*problem_, s);  // without the parts of this weight
  std::vector<std::size_t> order(loads.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return std::tuple{loads[x], x} < std::tuple{loads[y], y}; });
  own.parts.assign(c.parts, sync);
  for (std::size_t k = 0; k < own.parts.size(); ++k) {
    own.parts[k].destination = problem_->servers[order[k % order.size()]];
  }
}

UNITY_INLINE void sync_moves::reduce(parallel::synchronization& s, const sync_change& c) const {
  auto& own = s.weights[c.weight];
  parallel::synchronizer sync;
  sync.is_sparse = problem_->weights[c.weight].is_sparse && own.parts.front().is_sparse;
  own.axis = c.parts > 1 ? c.axis : 0;
  own.parts.assign(c.parts, sync);
}

UNITY_INLINE bool sync_moves::join(parallel::synchronization& s, const sync_change& c) const {
  const auto is_dense = [&](std::size_t w) {
    const auto& parts = s.weights[w].parts;
    return problem_->weights[w].is_trained && parts.size() == 1 &&
           parts.front().kind == parallel::sync_kind::all_reduce && !parts.front().is_sparse;
  };
  const auto step = c.is_other ? std::size_t{0} - 1 : std::size_t{1};
  auto with = c.weight + step;
  while (with < s.weights.size() && !is_dense(with)) {
    with += step;
  }
  if (with >= s.weights.size() || problem_->weights[with].element != problem_->weights[c.weight].element) {
    return false;
  }
  auto& other = s.weights[with].parts.front();
  auto& own = s.weights[c.weight];
  if (is_dense(c.weight) && own.parts.front().bucket == other.bucket &&
      other.bucket != parallel::synchronizer::no_bucket) {
    return false;
  }
  if (other.bucket == parallel::synchronizer::no_bucket) {
    other.bucket = static_cast<std::uint32_t>(s.buckets.size());  // names are set later
  }
  own = {};
  own.parts.front().bucket = other.bucket;
  return true;
}

UNITY_INLINE bool sync_moves::split(parallel::synchronization& s, const sync_change& c) const {
  const auto group = s.weights[c.weight].parts.front().bucket;
  if (group == parallel::synchronizer::no_bucket) {
    return false;
  }
  bool has_later = false;
  for (std::size_t w = c.weight + std::size_t{1}; w < s.weights.size(); ++w) {
    for (auto& part : s.weights[w].parts) {
      if (part.bucket == group) {
        has_later = true;
        part.bucket = static_cast<std::uint32_t>(s.buckets.size());
      }
    }
  }
  return has_later;
}

UNITY_INLINE bool sync_moves::rows(parallel::synchronization& s, const sync_change& c) const {
  auto& own = s.weights[c.weight];
  const bool is_sparse = !own.parts.front().is_sparse;
  for (auto& part : own.parts) {
    part.is_sparse = is_sparse;
    part.bucket = parallel::synchronizer::no_bucket;
  }
  return true;
}

UNITY_INLINE bool sync_moves::relocate(parallel::synchronization& s, const sync_change& c) const {
  auto& own = s.weights[c.weight];
  if (own.parts.front().kind != parallel::sync_kind::parameter_server || problem_->servers.size() < 2) {
    return false;
  }
  for (auto& part : own.parts) {
    const auto at = std::find(problem_->servers.begin(), problem_->servers.end(), part.destination);
    const auto next = at == problem_->servers.end() ? 0 : static_cast<std::size_t>(at - problem_->servers.begin()) + 1;
    part.destination = problem_->servers[next % problem_->servers.size()];
  }
  return true;
}

UNITY_INLINE std::optional<parallel::synchronization> sync_moves::after(const parallel::synchronization& s,
                                                                        const sync_change& c) const {
  auto next = s;
  next.weights.resize(problem_->weights.size());  // an empty list means one default part for each weight
  switch (c.kind) {
    case sync_change_kind::serve: serve(next, c); break;
    case sync_change_kind::reduce: reduce(next, c); break;
    case sync_change_kind::join:
      if (!join(next, c)) {
        return std::nullopt;
      }
      break;
    case sync_change_kind::split:
      if (!split(next, c)) {
        return std::nullopt;
      }
      break;
    case sync_change_kind::rows:
      if (!rows(next, c)) {
        return std::nullopt;
      }
      break;
    case sync_change_kind::relocate:
      if (!relocate(next, c)) {
        return std::nullopt;
      }
      break;
  }
  next = with_ordered_buckets(*problem_, std::move(next));
  if (next.weights == s.weights) {
    return std::nullopt;
  }
  return next;
}

UNITY_INLINE fingerprint sync_moves::fingerprint_of(const parallel::synchronization& s) const {
  hasher h{s.weights.size()};
  for (const auto& w : s.weights) {
    h.add(w.axis).add(w.parts.size());
    for (const auto& part : w.parts) {
      h.add(static_cast<std::uint64_t>(part.kind)).add(part.bucket);
      h.add(part.destination.valid() ? part.destination.index() + 1 : 0);
      h.add((part.is_proxied ? 1U : 0U) + (part.is_sparse ? 2U : 0U) + (part.is_per_node ? 4U : 0U));
      if (part.staleness > 0 || part.compressor != parallel::compressor{}) {  // no move makes such parts
        const auto& c = part.compressor;
        h.add(part.staleness).add(static_cast<std::uint64_t>(c.kind)).add(c.amount).add(c.has_feedback ? 1 : 0);
      }
    }
  }
  return h.result();
}

UNITY_INLINE std::optional<fingerprint> sync_moves::fingerprint_after(const parallel::synchronization& s, fingerprint,
                                                                      const sync_change& c) const {
  const auto next = after(s, c);
  return next ? std::optional{fingerprint_of(*next)} : std::nullopt;
}

UNITY_INLINE sync_simulation::sync_simulation(const tensor::algebra& a, parallel::plan p, tensor::durations durations)
    : algebra_{&a},
      plan_{std::make_shared<const parallel::plan>(std::move(p))},
      lowering_{a, plan_->graph, plan_->machine, std::move(durations), parallel::transfers::exchanges, plan_->updates} {
  parallel::check(a, *plan_);
}

UNITY_INLINE sync_simulation::sync_simulation(const tensor::algebra& a, parallel::plan p)
    : sync_simulation{a, p, parallel::analytic_durations(a, p.machine)} {}

UNITY_INLINE parallel::plan sync_simulation::plan_with(parallel::synchronization s) const {
  auto p = *plan_;
  p.synchronization = std::move(s);
  return p;
}

UNITY_INLINE sync_outcome sync_simulation::operator()(const parallel::synchronization& s) {
  parallel::check(*algebra_, plan_->graph, s, plan_->machine.network.device_count());
  const auto program = lowering_.run(plan_->configurations, s);
  const auto carried = parallel::carried_dependencies(*algebra_, plan_with(s), program);
  return {simulate::run_until_steady(program, carried, 8, 8).time, parallel::message_bytes(program)};
}

UNITY_INLINE parallel::strategy_report sync_simulation::report(const parallel::synchronization& s) {
  parallel::check(*algebra_, plan_->graph, s, plan_->machine.network.device_count());
  return parallel::report_on(lowering_, plan_->graph, plan_->machine, plan_->configurations, {}, s);
}

UNITY_INLINE cost_value sync_evaluator::reset(const parallel::synchronization& s) {
  trial_.reset();
  if (!has_state_ || !(s == state_)) {
    cost_ = simulated(s);
    state_ = s;
    has_state_ = true;
  }
  return cost_;
}

UNITY_INLINE std::optional<cost_value> sync_evaluator::try_move(const sync_change& c, cost_value bound) {
  trial_ = moves_->after(state_, c);
  if (!trial_) {
    return std::nullopt;
  }
  trial_cost_ = simulated(*trial_);
  if (trial_cost_ > bound) {
    trial_.reset();
    return std::nullopt;
  }
  return trial_cost_;
}

UNITY_INLINE void sync_evaluator::commit() {
  UNITY_EXPECTS(trial_.has_value(), "a trial that is open");
  state_ = std::move(*trial_);
  cost_ = trial_cost_;
  trial_.reset();
}

}  // namespace unity::systems

#endif
