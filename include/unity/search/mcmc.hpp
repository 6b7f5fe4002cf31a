// Markov chain Monte Carlo over moves (Metropolis-Hastings).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/search/search_space.hpp>

namespace unity::detail {

// The Metropolis-Hastings rule for accepting or rejecting a proposal.

// Accepts a proposal with probability min(1, exp(scale (here - cost) + log_ratio)), where log_ratio is log(q(back) /
// q(forth)). scale is beta divided by a reference cost: that of the start, or that of the best if it falls below a
// sixteenth of the reference (for example after a start outside a limit). The random number is drawn first, so that
// pricing can stop at a cost that would be rejected.
// Source: Hastings, Monte Carlo sampling methods using Markov chains, Biometrika 57(1), 1970.
class metropolis {
 public:
  metropolis(double beta, cost_value start) : beta_{beta} { scale_to(start); }

  void found(cost_value best) {
    if (best < reference_ / 16) {
      scale_to(best);
    }
  }

  // Draws the random number for the next proposal.
  void draw(random_engine& random) {
    drawn_ = 1 - random.unit();
    int exponent = 0;
    std::frexp(drawn_, &exponent);  // drawn_ in [2^(exponent - 1), 2^exponent)
    constexpr double log_2 = 0.693147180559945309;
    least_ = -exponent * log_2 - slack;
    most_ = (1 - exponent) * log_2 + slack;
  }
  // The largest cost that may be accepted, or nothing if no cost would be. An exact value would need a logarithm, as
  // expensive as pricing a cheap move: this may exceed what `takes` accepts by up to log(2) / scale.
  [[nodiscard]] std::optional<cost_value> bound(cost_value here, double log_ratio) const {
    return dearest(here, most_ + log_ratio);
  }
  [[nodiscard]] bool takes(cost_value here, cost_value cost, double log_ratio) const {
    const auto surely = dearest(here, least_ + log_ratio);
    if (surely && cost <= *surely) {
      return true;
    }
    const auto at_most = dearest(here, log_ratio - std::log(drawn_));
    return at_most && cost <= *at_most;
  }

 private:
  static constexpr double slack = 1e-9;  // for rounding errors

  void scale_to(cost_value reference) {
    reference_ = reference;
    scale_ = beta_ / static_cast<double>(reference > 0 ? reference : 1);
  }
  // Solves min(1, exp(scale (here - cost) + log_ratio)) > drawn for the cost; spare: log_ratio - log(drawn).
  [[nodiscard]] std::optional<cost_value> dearest(cost_value here, double spare) const {
    constexpr auto most = std::numeric_limits<cost_value>::max();
    if (scale_ == 0) {
      return spare >= 0 ? std::optional{most} : std::nullopt;
    }
    const auto above = std::floor(spare / scale_);
    if (above >= static_cast<double>(most - std::max<cost_value>(here, 0))) {
      return most;
    }
    if (above < -static_cast<double>(most / 2)) {
      return std::nullopt;
    }
    return here + static_cast<cost_value>(above);
  }

  double beta_ = 0;
  cost_value reference_ = 0;
  double scale_ = 0;
  double drawn_ = 1;
  double least_ = 0;  // least_ and most_ enclose -log(drawn_)
  double most_ = 0;
};

}  // namespace unity::detail

namespace unity {

struct mcmc_options : search_options {
  std::uint64_t seed = 0;
  // Inverse temperature: a move that increases the cost by r times the initial cost is accepted with probability
  // exp(-beta r). If the best falls below a sixteenth of the initial cost (for example after a start outside a limit),
  // it replaces the initial cost.
  double beta = 200;
  std::uint64_t proposals = 100000;
  std::uint64_t restart_after = 0;  // proposals without improvement before returning to the best; 0: never
};

namespace detail {

template <search_space Space>
class mcmc_search {
 public:
  using state = typename Space::state_type;
  using result = search_result<state, typename Space::move_type>;

  mcmc_search(Space& space, const mcmc_options& options) : space_{space}, options_{options}, random_{options.seed} {}

  result run() {
    if constexpr (timed_space<Space>) {
      space_.end_at(end_of(options_));
    }
    result r{space_.initial()};
    r.cost = space_.cost(r.best);
    r.history.push_back({0, 0, r.cost});
    rule_.emplace(options_.beta, r.cost);
    state current = space_.initial();
    r.stopped = stop_reason::converged;
    for (std::uint64_t i = 0; i < options_.proposals; ++i) {
      if (const auto limit = reached_limit(r, i)) {
        r.stopped = *limit;
        break;
      }
      if (space_.moves(current).empty()) {
        r.stopped = stop_reason::exhausted;
        break;
      }
      propose(current, r);
      if (options_.restart_after != 0 && ++since_best_ >= options_.restart_after) {
        current = r.best;
        trail_ = r.path;
        since_best_ = 0;
      }
    }
    r.seconds = clock_.seconds();
    return r;
  }

 private:
  // One proposal: a move drawn uniformly. The correction by the number of moves on both sides makes the stationary
  // distribution of the chain proportional to exp(-beta cost) if every move has exactly one inverse.
  void propose(state& current, result& r) {
    const auto moves = static_cast<std::span<const typename Space::move_type>>(space_.moves(current));
    const auto by = moves[random_.below(moves.size())];
    const auto ways = std::log(static_cast<double>(moves.size()));
    space_.prepare(current, scratch_);
    const auto c = space_.price(current, by, scratch_);
    if (!c) {
      ++r.counts.rejected;
      return;
    }
    ++r.counts.candidates;
    rule_->draw(random_);
    const auto here = space_.cost(current);
    if (!rule_->takes(here, c->cost, ways)) {
      return;  // rejected even if the inverse were the only move back
    }
    auto next = space_.apply(current, by, scratch_, next_scratch_);
    ++r.counts.expanded;
    const auto back = std::log(static_cast<double>(std::max<std::size_t>(1, std::span{space_.moves(next)}.size())));
    if (!rule_->takes(here, c->cost, ways - back)) {
      return;
    }
    current = std::move(next);
    std::swap(scratch_, next_scratch_);
    trail_.emplace_back(by, c->cost);
    if (c->cost < r.cost) {
      r.best = current;
      r.cost = c->cost;
      rule_->found(r.cost);
      r.path = trail_;
      r.history.push_back({clock_.seconds(), r.counts.expanded, r.cost});
      since_best_ = 0;
    }
  }

  [[nodiscard]] std::optional<stop_reason> reached_limit(const result& r, std::uint64_t i) const {
    if (r.counts.expanded >= options_.limits.expansions) {
      return stop_reason::expansions;
    }
    if (i % 64 != 0) {
      return std::nullopt;
    }
    if (clock_.seconds() >= options_.limits.seconds) {
      return stop_reason::time;
    }
    if (memory(r) > options_.limits.memory) {
      return stop_reason::memory;
    }
    const bool go_on = !options_.watch || options_.watch({clock_.seconds(), r.cost, 0, r.counts});
    return go_on ? std::nullopt : std::optional{stop_reason::observer};
  }

  [[nodiscard]] std::size_t memory(const result& r) const {
    auto total = (trail_.capacity() + r.path.capacity()) * sizeof(typename decltype(trail_)::value_type);
    if constexpr (measured_space<Space>) {
      total += space_.memory();
    }
    return total;
  }

  Space& space_;
  const mcmc_options& options_;
  random_engine random_;
  typename Space::scratch_type scratch_{};
  typename Space::scratch_type next_scratch_{};
  std::optional<metropolis> rule_;
  std::uint64_t since_best_ = 0;
  decltype(result::path) trail_{};
  search_clock clock_{options_};
};

}  // namespace detail

// Walks from state to state. A single chain, so the result depends on the seed and not on threads; `expanded` counts
// states that were built.
// Complexity: per proposal, linear in the state.
inline constexpr struct mcmc_fn {
  template <search_space Space>
  [[nodiscard]] auto operator()(Space& space, const mcmc_options& options = {}) const {
    UNITY_EXPECTS(options.beta >= 0, "a temperature parameter of at least 0");
    return detail::mcmc_search<Space>{space, options}.run();
  }
} mcmc{};

}  // namespace unity
