// SOAP strategies as a space of enumerable moves: beam search and descent over what chains sample from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>

namespace unity::systems {

struct strategy_state {
  parallel::strategy at{};
  cost_value cost = 0;
  unity::fingerprint fingerprint{};
};

// A unit and one of the configurations of its lead.
struct strategy_move {
  std::uint32_t unit = 0;
  std::uint32_t choice = 0;

  friend bool operator==(const strategy_move&, const strategy_move&) = default;
};

// A model of unity::search_space. States: strategies; moves: a unit gets any of its configurations on aligned blocks.
// Refers to the moves; copies the evaluator for each scratch. A scratch may be of one thread at a time.
class strategy_space {
 public:
  using state_type = strategy_state;
  using move_type = strategy_move;
  struct scratch_type {
    std::optional<strategy_evaluator> evaluator{};
  };

  strategy_space(const strategy_moves& moves, strategy_evaluator evaluator, parallel::strategy start);

  [[nodiscard]] strategy_state initial();
  [[nodiscard]] cost_value cost(const strategy_state& s) const noexcept { return s.cost; }
  [[nodiscard]] unity::fingerprint fingerprint_of(const strategy_state& s) const noexcept { return s.fingerprint; }
  [[nodiscard]] std::span<const strategy_move> moves(const strategy_state&) const noexcept { return all_; }
  [[nodiscard]] strategy_change change(strategy_move m) const {
    return moves_->change_unit(m.unit, choices_[m.unit][m.choice]);
  }

  // Complexity: as lowering, unless the scratch is of this state already.
  void prepare(const strategy_state& s, scratch_type& scratch) const;
  // Nothing where the move changes nothing. Complexity: one trial.
  [[nodiscard]] std::optional<candidate> price(const strategy_state& s, strategy_move m, scratch_type& scratch) const;
  [[nodiscard]] strategy_state apply(const strategy_state& s, strategy_move m, scratch_type& from,
                                     scratch_type& to) const;

 private:
  [[nodiscard]] static unity::fingerprint print_of(node_id n, const parallel::configuration& c);

  const strategy_moves* moves_;
  strategy_evaluator prototype_;
  parallel::strategy start_;
  std::vector<std::vector<parallel::configuration>> choices_{};  // by unit
  std::vector<strategy_move> all_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW_SPACE)

#include <limits>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE strategy_space::strategy_space(const strategy_moves& moves, strategy_evaluator evaluator,
                                            parallel::strategy start)
    : moves_{&moves}, prototype_{std::move(evaluator)}, start_{std::move(start)} {
  for (std::size_t u = 0; u < moves.units().size(); ++u) {
    choices_.push_back(moves.placements().all(moves.units()[u].lead));
    for (std::size_t c = 0; c < choices_.back().size(); ++c) {
      all_.push_back({static_cast<std::uint32_t>(u), static_cast<std::uint32_t>(c)});
    }
  }
}

UNITY_INLINE strategy_state strategy_space::initial() {
  unity::fingerprint sum{};
  for (std::size_t n = 0; n < start_.size(); ++n) {
    sum += print_of(node_id{n}, start_[n]);
  }
  return {start_, prototype_.reset(start_), sum};
}

UNITY_INLINE void strategy_space::prepare(const strategy_state& s, scratch_type& scratch) const {
  if (!scratch.evaluator) {
    scratch.evaluator = prototype_;
    scratch.evaluator->reset(s.at);
  } else if (scratch.evaluator->state() != s.at) {
    scratch.evaluator->reset(s.at);
  }
}

UNITY_INLINE std::optional<candidate> strategy_space::price(const strategy_state& s, strategy_move m,
                                                            scratch_type& scratch) const {
  const auto by = change(m);
  auto print = s.fingerprint;
  bool changes = false;
  for (const auto& r : by) {
    const auto& now = s.at[r.node.index()];
    if (now != r.to) {
      changes = true;
      print -= print_of(r.node, now);
      print += print_of(r.node, r.to);
    }
  }
  if (!changes) {
    return std::nullopt;
  }
  const auto cost = scratch.evaluator->try_move(by, std::numeric_limits<cost_value>::max());
  UNITY_EXPECTS(cost.has_value(), "a cost without a bound");
  scratch.evaluator->rollback();
  return candidate{*cost, print};
}

UNITY_INLINE strategy_state strategy_space::apply(const strategy_state& s, strategy_move m, scratch_type& from,
                                                  scratch_type& to) const {
  prepare(s, from);
  const auto priced = price(s, m, from);
  UNITY_EXPECTS(priced.has_value(), "a move that applies");
  strategy_state next{s.at, priced->cost, priced->fingerprint};
  for (auto& r : change(m)) {
    next.at[r.node.index()] = std::move(r.to);
  }
  prepare(next, to);
  return next;
}

UNITY_INLINE unity::fingerprint strategy_space::print_of(node_id n, const parallel::configuration& c) {
  hasher h{n.index()};
  h.add(c.degrees.size());
  for (const auto d : c.degrees) {
    h.add(static_cast<std::uint64_t>(d));
  }
  for (const auto d : c.devices) {
    h.add(d.index());
  }
  return h.result();
}

}  // namespace unity::systems

#endif
