// The sets of operators that may have run at some point of an iteration, and the tensors that are live then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/placement/memory_graph.hpp>

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

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_EXECUTION_STATES)

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <unity/core/hash.hpp>

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

}  // namespace unity::placement

#endif
