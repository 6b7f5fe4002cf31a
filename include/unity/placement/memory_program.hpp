// The plan with the fewest loaded bytes, by dynamic programming over states of execution and cached tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>

namespace unity::placement {

// Live tensors: used by an operator of the set and read by one outside it. Inputs that were not read yet do not count.
// Complexity: linear in operands and results.
// Source: table 4.3 of Jia's thesis (Automated discovery of machine learning optimizations, 2020).
[[nodiscard]] tensor_set live_tensors(const memory_graph& g, const operator_set& done);

// The operator that ran last, and the state before it.
struct state_step {
  operator_id operation{};
  std::uint32_t before = 0;

  friend bool operator==(const state_step&, const state_step&) = default;
};

// Regular.
struct execution_state {
  operator_set done{};
  std::vector<tensor_id> live{};   // ascending
  std::vector<state_step> last{};  // one step for each operator that can have run last

  friend bool operator==(const execution_state&, const execution_state&) = default;
};

// All states: the down-sets of the operators' partial order, from the empty set to all operators, ordered by size.
// Nothing if there are more than `most`; n independent operators have 2^n states. Complexity: states times operators
// and tensors.
[[nodiscard]] std::optional<std::vector<execution_state>> execution_states(const memory_graph& g, std::size_t most);

struct memory_program_limits {
  std::size_t states = std::size_t{1} << 14;
  std::uint64_t alternatives = std::uint64_t{1} << 23;  // about a second and 100 MB
};

// A decomposition for dynamic programming that keeps decisions and numbers its goals. A goal is a state of execution
// and the set T of its live tensors that stay on the device after it. An alternative is the operator o that ran last
// and the set T' that stayed in the state S' before it. T' has the tensors of T that o neither reads nor writes, and
// any of o's operands that are live in S'. (Other tensors in T' would leave the device before o runs, so a smaller T'
// is as good.) T, IN(o) and OUT(o) must fit on the device together; o loads IN(o) minus T'.
// Among plans with equal loads, prefers the one that evicts the fewest bytes of computed tensors that are read again,
// because these have to be stored.
// Source: Jia's thesis, algorithm 3, except for line 16. There, T' = (T minus OUT(o)) in A(S'). As the last T is empty,
// every T before it is empty too, so nothing would ever be cached. Here T' is chosen.
class memory_program {
 public:
  struct goal_type {
    std::uint32_t state = 0;
    std::uint64_t cached = 0;  // bit i: the state's live tensor i
  };
  // Lexicographic. A goal that does not fit has the largest value.
  struct value_type {
    std::int64_t loaded = 0;  // bytes
    std::int64_t left = 0;    // bytes of computed tensors that are evicted and read again

    friend auto operator<=>(const value_type&, const value_type&) = default;
  };
  struct decision_type {
    std::uint32_t last = 0;  // index of one of the state's steps
    std::uint64_t cached = 0;
  };

  // Nothing if there are more states or alternatives than the limits allow.
  // Throws: unity::error as require_capacity.
  [[nodiscard]] static std::optional<memory_program> make(const memory_graph& g, bytes capacity,
                                                          const memory_program_limits& limits = {});

  [[nodiscard]] fingerprint fingerprint_of(const goal_type& goal) const;
  [[nodiscard]] std::uint32_t number_of(const goal_type& goal) const;
  [[nodiscard]] std::vector<goal_type> subgoals(const goal_type& goal) const;
  [[nodiscard]] value_type combine(const goal_type& goal, std::span<const value_type* const> values,
                                   decision_type& decision) const;

  // All operators have run, and nothing stays.
  [[nodiscard]] goal_type last() const { return {static_cast<std::uint32_t>(states_.size() - 1), 0}; }
  [[nodiscard]] const std::vector<execution_state>& states() const noexcept { return states_; }
  [[nodiscard]] std::uint64_t goals() const { return first_.back(); }

 private:
  // What it means for memory that an operator ran last. Sets of tensors are bits of the live tensors after or before
  // it.
  struct transition {
    std::int64_t needs = 0;              // bytes: IN and OUT
    std::int64_t reads = 0;              // bytes: IN
    std::uint64_t touched_after = 0;     // IN and OUT among tensors that are live after it
    std::uint64_t written_after = 0;     // OUT
    std::uint64_t read_before = 0;       // IN among tensors that are live before it
    std::vector<std::uint8_t> before{};  // by live tensor after it: its number before it; no_tensor if it is used here
    std::vector<std::uint8_t> after{};   // by live tensor before it: its number after it
  };
  static constexpr std::uint8_t no_tensor = 255;

  memory_program(const memory_graph& g, bytes capacity, std::vector<execution_state> states);
  [[nodiscard]] transition transition_of(const memory_graph& g, const execution_state& after,
                                         const state_step& step) const;
  [[nodiscard]] std::uint64_t alternatives() const;
  // f(number of the step, T', loaded, left) for each alternative.
  template <class F>
  void for_each_alternative(const goal_type& goal, const F& f) const;
  [[nodiscard]] std::int64_t size_of(std::uint32_t state, std::uint64_t cached) const;

  std::int64_t capacity_ = 0;
  std::vector<execution_state> states_{};
  std::vector<std::uint64_t> first_{};                  // numbers of goals by state, and their count
  std::vector<std::vector<std::int64_t>> sizes_{};      // by state and live tensor
  std::vector<std::uint64_t> computed_{};               // by state: live tensors that are not inputs
  std::vector<std::vector<transition>> transitions_{};  // by state and step
};

// The plan that loads the least; nothing if the graph exceeds the limits. Complexity: the product of states, sets of
// live tensors in each, operators that can have run last, and subsets of their operands.
// Throws: unity::error as require_capacity.
[[nodiscard]] std::optional<memory_plan> optimal_memory_plan(const memory_graph& g, bytes capacity,
                                                             const memory_program_limits& limits = {});

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_MEMORY_PROGRAM)

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>
#include <utility>

#include <unity/search/dynamic_programming.hpp>

namespace unity::placement {

UNITY_INLINE tensor_set live_tensors(const memory_graph& g, const operator_set& done) {
  tensor_set seen(g.tensor_count());
  tensor_set wanted(g.tensor_count());
  for (std::size_t o = 0; o < g.operator_count(); ++o) {
    const auto& what = g.operation(operator_id{o});
    for (const auto t : what.reads) {
      (done[o] ? seen : wanted).set(t.index());
    }
    for (const auto t : what.writes) {
      seen[t.index()] = seen[t.index()] || done[o];
    }
  }
  return seen & wanted;
}

UNITY_INLINE std::optional<std::vector<execution_state>> execution_states(const memory_graph& g, std::size_t most) {
  std::vector<execution_state> states;
  std::unordered_map<fingerprint, std::uint32_t> numbers;
  const auto number_of = [&](operator_set done) {
    const auto [place, is_new] = numbers.emplace(fingerprint_of(done), static_cast<std::uint32_t>(states.size()));
    if (is_new) {
      auto& s = states.emplace_back();
      s.done = std::move(done);
      const auto live = live_tensors(g, s.done);
      for (auto t = live.find_first(); t != tensor_set::npos; t = live.find_next(t)) {
        s.live.emplace_back(t);
      }
    }
    return place->second;
  };
  number_of(operator_set(g.operator_count()));
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    for (std::size_t o = 0; o < g.operator_count(); ++o) {
      const auto before = g.predecessors(operator_id{o});
      const bool is_ready = !states[i].done[o] && std::all_of(before.begin(), before.end(), [&](operator_id p) {
        return states[i].done.test(p.index());
      });
      if (is_ready) {
        const auto after = number_of(operator_set{states[i].done}.set(o));
        if (states.size() > most) {
          return std::nullopt;
        }
        states[after].last.push_back({operator_id{o}, i});
      }
    }
  }
  return states;
}

namespace detail {

inline constexpr std::size_t most_live = 40;  // larger shifts are not needed: no limit allows so many alternatives

[[nodiscard]] UNITY_INLINE std::uint64_t bits_of(const std::vector<tensor_id>& live,
                                                 const std::vector<tensor_id>& some) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    bits |= std::binary_search(some.begin(), some.end(), live[i]) ? std::uint64_t{1} << i : 0U;
  }
  return bits;
}

// For each tensor of `from` its position in `to`, or no_tensor.
[[nodiscard]] UNITY_INLINE std::vector<std::uint8_t> places_of(const std::vector<tensor_id>& from,
                                                               const std::vector<tensor_id>& to, std::uint8_t none) {
  std::vector<std::uint8_t> all;
  for (const auto t : from) {
    const auto place = std::lower_bound(to.begin(), to.end(), t);
    all.push_back(place != to.end() && *place == t ? static_cast<std::uint8_t>(place - to.begin()) : none);
  }
  return all;
}

}  // namespace detail

UNITY_INLINE memory_program::memory_program(const memory_graph& g, bytes capacity, std::vector<execution_state> states)
    : capacity_{capacity.count()}, states_{std::move(states)} {
  for (const auto& s : states_) {
    first_.push_back(first_.empty() ? 0 : first_.back() + (std::uint64_t{1} << sizes_.back().size()));
    auto& sizes = sizes_.emplace_back();
    auto& computed = computed_.emplace_back();
    for (const auto t : s.live) {
      computed |= g.writer(t).valid() ? std::uint64_t{1} << sizes.size() : 0U;
      sizes.push_back(g.tensor(t).size.count());
    }
    auto& transitions = transitions_.emplace_back();
    for (const auto& step : s.last) {
      transitions.push_back(transition_of(g, s, step));
    }
  }
  first_.push_back(first_.back() + (std::uint64_t{1} << sizes_.back().size()));
}

UNITY_INLINE memory_program::transition memory_program::transition_of(const memory_graph& g,
                                                                      const execution_state& after,
                                                                      const state_step& step) const {
  const auto& o = g.operation(step.operation);
  const auto& before = states_[step.before];
  transition t;
  t.needs = g.size_of(g.touched(step.operation)).count();
  for (const auto r : o.reads) {
    t.reads += g.tensor(r).size.count();
  }
  t.written_after = detail::bits_of(after.live, o.writes);
  t.touched_after = t.written_after | detail::bits_of(after.live, o.reads);
  t.read_before = detail::bits_of(before.live, o.reads);
  t.before = detail::places_of(after.live, before.live, no_tensor);
  t.after = detail::places_of(before.live, after.live, no_tensor);
  return t;
}

UNITY_INLINE std::uint64_t memory_program::alternatives() const {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    for (const auto& t : transitions_[s]) {
      const auto bits = sizes_[s].size() + static_cast<std::size_t>(std::popcount(t.read_before));
      sum += std::uint64_t{1} << std::min<std::size_t>(bits, detail::most_live);
    }
  }
  return sum;
}

UNITY_INLINE std::optional<memory_program> memory_program::make(const memory_graph& g, bytes capacity,
                                                                const memory_program_limits& limits) {
  require_capacity(g, capacity);
  auto states = execution_states(g, limits.states);
  const auto most = std::min(limits.alternatives, std::uint64_t{1} << 31U);
  if (!states || std::any_of(states->begin(), states->end(), [&](const execution_state& s) {
        return s.live.size() >= detail::most_live || std::uint64_t{1} << s.live.size() > most;
      })) {
    return std::nullopt;
  }
  memory_program p{g, capacity, std::move(*states)};
  if (p.goals() > most || p.alternatives() > most) {
    return std::nullopt;
  }
  return p;
}

UNITY_INLINE fingerprint memory_program::fingerprint_of(const goal_type& goal) const {
  return hasher{goal.state}.add(goal.cached).result();
}

UNITY_INLINE std::uint32_t memory_program::number_of(const goal_type& goal) const {
  return static_cast<std::uint32_t>(first_[goal.state] + goal.cached);
}

UNITY_INLINE std::int64_t memory_program::size_of(std::uint32_t state, std::uint64_t cached) const {
  std::int64_t sum = 0;
  for (; cached != 0; cached &= cached - 1) {
    sum += sizes_[state][static_cast<std::size_t>(std::countr_zero(cached))];
  }
  return sum;
}

template <class F>
void memory_program::for_each_alternative(const goal_type& goal, const F& f) const {
  const auto& steps = transitions_[goal.state];
  for (std::uint32_t k = 0; k < steps.size(); ++k) {
    const auto& t = steps[k];
    const auto beside = goal.cached & ~t.touched_after;
    if (t.needs + size_of(goal.state, beside) > capacity_) {
      continue;
    }
    std::uint64_t kept = 0;  // T' contains these, whichever operands it has
    for (auto rest = beside; rest != 0; rest &= rest - 1) {
      kept |= std::uint64_t{1} << t.before[static_cast<std::size_t>(std::countr_zero(rest))];
    }
    const auto before = states_[goal.state].last[k].before;
    const auto written = t.written_after & ~goal.cached;  // evicted at once, though read later
    for (auto chosen = t.read_before;; chosen = (chosen - 1) & t.read_before) {
      std::int64_t left = size_of(goal.state, written);
      for (auto rest = chosen & computed_[before]; rest != 0; rest &= rest - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(rest));
        const bool leaves = t.after[i] != no_tensor && (goal.cached >> t.after[i] & 1U) == 0;
        left += leaves ? sizes_[before][i] : 0;
      }
      f(k, kept | chosen, t.reads - size_of(before, chosen), left);
      if (chosen == 0) {
        break;
      }
    }
  }
}

UNITY_INLINE std::vector<memory_program::goal_type> memory_program::subgoals(const goal_type& goal) const {
  std::vector<goal_type> all;
  for_each_alternative(goal, [&](std::uint32_t step, std::uint64_t cached, std::int64_t, std::int64_t) {
    all.push_back({states_[goal.state].last[step].before, cached});
  });
  return all;
}

UNITY_INLINE memory_program::value_type memory_program::combine(const goal_type& goal,
                                                                std::span<const value_type* const> values,
                                                                decision_type& decision) const {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  if (goal.state == 0) {
    return {};
  }
  value_type best{none, none};
  std::size_t i = 0;
  for_each_alternative(goal, [&](std::uint32_t step, std::uint64_t cached, std::int64_t loaded, std::int64_t left) {
    const auto& below = *values[i++];
    if (below.loaded != none && value_type{below.loaded + loaded, below.left + left} < best) {
      best = {below.loaded + loaded, below.left + left};
      decision = {step, cached};
    }
  });
  return best;
}

UNITY_INLINE std::optional<memory_plan> optimal_memory_plan(const memory_graph& g, bytes capacity,
                                                            const memory_program_limits& limits) {
  auto problem = memory_program::make(g, capacity, limits);
  if (!problem) {
    return std::nullopt;
  }
  dynamic_program<memory_program> program{*problem};
  auto goal = problem->last();
  static_cast<void>(program.solve(goal));
  memory_plan plan;
  while (goal.state != 0) {
    const auto& state = problem->states()[goal.state];
    const auto& decision = program.decision(goal);
    auto& step = plan.emplace_back();
    step.operation = state.last[decision.last].operation;
    for (std::size_t i = 0; i < state.live.size(); ++i) {
      if ((goal.cached >> i & 1U) != 0) {
        step.kept.push_back(state.live[i]);
      }
    }
    goal = {state.last[decision.last].before, decision.cached};
  }
  std::reverse(plan.begin(), plan.end());
  return plan;
}

}  // namespace unity::placement

#endif
