// Markov chain Monte Carlo (Metropolis-Hastings) over moves, and over an evaluator: several chains from several states.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/random.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/search/evaluator.hpp>
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

// The time limit is divided equally among all chains; all other limits apply per chain, limits.memory to its path and
// history.
struct chain_options : mcmc_options {
  std::size_t threads = 1;  // does not affect the result unless time is limited
  std::size_t chains = 1;   // per initial state
  // A chain ends if it finds nothing better for this share of its proposals or its time. 1 or more: never.
  double patience = 0.5;
  bool keep_path = true;  // path to the best; without it, memory does not grow with accepted moves
};

struct chain_report {
  std::size_t initial = 0;  // index of its initial state
  cost_value initial_cost = 0;
  cost_value cost = 0;  // best cost
  std::uint64_t proposals = 0;
  std::uint64_t accepted = 0;
  double seconds = 0;
  stop_reason stopped = stop_reason::converged;
};

// The result of the best chain, the first among equal ones, but with counts of all chains: `expanded` are proposals,
// `candidates` accepted ones and `rejected` the others.
template <class State, class Move>
struct chains_result : search_result<State, Move> {
  std::vector<chain_report> chains{};
  std::size_t best_chain = 0;
};

namespace detail {

// State that chains share while they run; does not affect the result unless it stops them.
class chain_monitor {
 public:
  explicit chain_monitor(const search_options& o) : watch_{o.watch}, clock_{o} {}

  [[nodiscard]] double seconds() const { return clock_.seconds(); }
  // Returns false to stop. `news` are the counts since the last report.
  bool report(cost_value best, const counters& news) {
    if (!watch_) {
      return true;
    }
    const std::lock_guard lock{mutex_};
    sum_.best = any_ ? std::min(sum_.best, std::int64_t{best}) : std::int64_t{best};
    any_ = true;
    sum_.counts.expanded += news.expanded;
    sum_.counts.candidates += news.candidates;
    sum_.counts.rejected += news.rejected;
    sum_.seconds = clock_.seconds();
    go_on_ = go_on_ && watch_(sum_);
    return go_on_;
  }

 private:
  const observer& watch_;
  std::mutex mutex_;
  progress sum_{};
  bool any_ = false;
  bool go_on_ = true;
  search_clock clock_;
};

template <class Evaluator, class Proposal>
class metropolis_chain {
 public:
  using state = typename Evaluator::state_type;
  using result = search_result<state, typename Evaluator::move_type>;

  metropolis_chain(Evaluator& evaluator, const Proposal& proposal, const chain_options& options, std::uint64_t seed,
                   double seconds, chain_monitor& monitor)
      : evaluator_{evaluator},
        proposal_{proposal},
        options_{options},
        random_{seed},
        seconds_{seconds},
        monitor_{monitor} {
    if (options.patience < 1) {
      const auto most = std::min(options.proposals, options.limits.expansions);
      idle_proposals_ = static_cast<std::uint64_t>(std::ceil(options.patience * static_cast<double>(most)));
    }
  }

  result run(const state& initial) {
    result r{initial};
    r.cost = evaluator_.reset(initial);
    r.history.push_back({monitor_.seconds(), 0, r.cost});
    rule_.emplace(options_.beta, r.cost);
    r.stopped = stop_reason::converged;
    for (std::uint64_t i = 0; i < options_.proposals; ++i) {
      if (const auto limit = reached_limit(r, i)) {
        r.stopped = *limit;
        break;
      }
      const auto by = proposal_.sample(evaluator_.state(), random_);
      if (!by) {
        r.stopped = stop_reason::exhausted;
        break;
      }
      consider(*by, r);
      if (options_.restart_after != 0 && r.counts.expanded - last_return_ >= options_.restart_after) {
        evaluator_.reset(r.best);
        trail_.resize(best_length_);
        last_return_ = r.counts.expanded;
      }
    }
    trail_.resize(best_length_);
    r.path = std::move(trail_);
    r.seconds = clock_.seconds();
    monitor_.report(r.cost, since(r.counts));
    return r;
  }

 private:
  // Source: Jia, dissertation (2020), equation 3.1, with the correction of Hastings.
  void consider(const proposed<typename Evaluator::move_type>& by, result& r) {
    ++r.counts.expanded;
    rule_->draw(random_);
    const auto here = evaluator_.cost();
    const auto bound = rule_->bound(here, by.log_ratio);
    const auto cost = bound ? evaluator_.try_move(by.move, *bound) : std::nullopt;
    if (!cost) {
      ++r.counts.rejected;
      return;
    }
    if (!rule_->takes(here, *cost, by.log_ratio)) {
      ++r.counts.rejected;
      evaluator_.rollback();
      return;
    }
    evaluator_.commit();
    ++r.counts.candidates;
    if (options_.keep_path) {
      trail_.emplace_back(by.move, *cost);
    }
    if (*cost < r.cost) {
      r.best = evaluator_.state();
      r.cost = *cost;
      best_length_ = trail_.size();
      last_best_ = last_return_ = r.counts.expanded;
      last_best_seconds_ = clock_.seconds();
      r.history.push_back({monitor_.seconds(), r.counts.expanded, r.cost});
      rule_->found(r.cost);
    }
  }

  [[nodiscard]] std::optional<stop_reason> reached_limit(const result& r, std::uint64_t i) {
    if (i >= options_.limits.expansions) {
      return stop_reason::expansions;
    }
    if (i - last_best_ >= idle_proposals_) {
      return stop_reason::converged;
    }
    if (memory_of(trail_) + memory_of(r.history) > options_.limits.memory) {
      return stop_reason::memory;
    }
    if (!pace_.is_due()) {
      return std::nullopt;
    }
    const auto now = clock_.seconds();
    pace_.read(now);
    if (now >= seconds_) {
      return stop_reason::time;
    }
    if (options_.patience < 1 && now - last_best_seconds_ >= options_.patience * seconds_) {
      return stop_reason::converged;
    }
    return monitor_.report(r.cost, since(r.counts)) ? std::nullopt : std::optional{stop_reason::observer};
  }
  template <class T>
  [[nodiscard]] static std::size_t memory_of(const std::vector<T>& all) {
    return all.capacity() * sizeof(T);
  }
  counters since(const counters& now) {
    counters news;
    news.expanded = now.expanded - reported_.expanded;
    news.candidates = now.candidates - reported_.candidates;
    news.rejected = now.rejected - reported_.rejected;
    reported_ = now;
    return news;
  }

  Evaluator& evaluator_;
  const Proposal& proposal_;
  const chain_options& options_;
  random_engine random_;
  double seconds_;
  chain_monitor& monitor_;
  search_clock clock_{options_};
  clock_pace pace_;
  // proposals without improvement that end the chain
  std::uint64_t idle_proposals_ = std::numeric_limits<std::uint64_t>::max();
  std::optional<metropolis> rule_;
  std::uint64_t last_best_ = 0;
  std::uint64_t last_return_ = 0;
  double last_best_seconds_ = 0;
  std::size_t best_length_ = 0;
  decltype(result::path) trail_{};
  counters reported_{};
};

}  // namespace detail

// Metropolis-Hastings chains, `options.chains` from each initial state, distributed over `options.threads` threads.
// Each has its own generator and an evaluator from `make()`, which threads call concurrently; so without a time limit
// the result depends on the seed and not on threads. A chain ends when its proposals or its time are used up, or when
// its best did not improve for a share `options.patience` of either.
// Complexity: per proposal, one try_move.
// Source: Jia, dissertation (2020), sections 3.5.1 and 3.5.2.
inline constexpr struct mcmc_chains_fn {
  template <class Make, class Proposal, class Evaluator = std::invoke_result_t<const Make&>>
    requires evaluator<Evaluator> && proposal_for<Proposal, Evaluator>
  [[nodiscard]] auto operator()(const Make& make, const Proposal& proposal,
                                std::type_identity_t<std::span<const typename Evaluator::state_type>> initial,
                                const chain_options& options = {}) const {
    UNITY_EXPECTS(options.beta >= 0, "a temperature parameter of at least 0");
    UNITY_EXPECTS(!initial.empty() && options.chains > 0, "at least one chain");
    using chain = detail::metropolis_chain<Evaluator, Proposal>;
    const auto count = initial.size() * options.chains;
    const auto threads = std::max<std::size_t>(1, std::min(options.threads, count));
    const auto rounds = (count + threads - 1) / threads;
    const auto seconds = options.limits.seconds / static_cast<double>(rounds);
    random_engine seeds{options.seed};
    std::vector<std::uint64_t> seed(count);
    std::generate(seed.begin(), seed.end(), std::ref(seeds));
    std::vector<std::optional<typename chain::result>> results(count);  // a state need not be default-constructible
    detail::chain_monitor monitor{options};
    thread_pool pool{threads};
    pool.parallel_for(count, 1, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        auto evaluator = make();
        results[i] = chain{evaluator, proposal, options, seed[i], seconds, monitor}.run(initial[i / options.chains]);
      }
    });
    auto all = gather<Evaluator>(results, options.chains);
    all.seconds = monitor.seconds();
    return all;
  }

 private:
  template <class Evaluator, class Result>
  static auto gather(std::vector<std::optional<Result>>& results, std::size_t per_state) {
    counters sum;
    std::size_t best = 0;
    std::vector<chain_report> summaries;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto& r = *results[i];
      sum.expanded += r.counts.expanded;
      sum.candidates += r.counts.candidates;
      sum.rejected += r.counts.rejected;
      best = r.cost < results[best]->cost ? i : best;
      summaries.push_back({i / per_state, r.history.front().cost, r.cost, r.counts.expanded, r.counts.candidates,
                           r.seconds, r.stopped});
    }
    chains_result<typename Evaluator::state_type, typename Evaluator::move_type> all{std::move(*results[best]),
                                                                                     std::move(summaries), best};
    all.counts = sum;
    return all;
  }
} mcmc_chains{};

}  // namespace unity
