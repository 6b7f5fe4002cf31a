// Removes operators with unread results from a rank's program.
#pragma once

#include <unity/parallel/ranks/rank_program.hpp>

namespace unity::parallel {

// The program without steps that run operators none of whose results are read. Complexity: linear in steps and their
// operands.
[[nodiscard]] rank_program without_unread(const rank_program& p);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_UNREAD_STEPS)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>

namespace unity::parallel {

namespace detail {

// By step: false if it runs an operator none of whose results are read.
UNITY_INLINE std::vector<bool> needed_steps(const rank_program& p) {
  std::vector<bool> is_read(p.graph.value_count());
  const auto read = [&](value_id v) {
    if (v.valid()) {
      is_read[v.index()] = true;
    }
  };
  for (const auto& o : p.outputs) {
    read(o.value);
  }
  for (const auto& w : p.weights) {
    read(w.gradient);
    read(w.next);
  }
  for (const auto& k : p.kept) {
    read(k.after);
  }
  std::vector<bool> needed(p.steps.size(), true);
  for (auto s = p.steps.size(); s-- > 0;) {
    const auto& step = p.steps[s];
    read(step.value);
    if (step.kind == step_kind::run) {
      const auto results = p.graph.results(step.node);
      needed[s] = std::any_of(results.begin(), results.end(), [&](value_id v) { return is_read[v.index()]; });
      for (const auto v : needed[s] ? p.graph.operands(step.node) : std::span<const value_id>{}) {
        read(v);
      }
    }
  }
  return needed;
}

}  // namespace detail

UNITY_INLINE rank_program without_unread(const rank_program& p) {
  const auto needed = detail::needed_steps(p);
  auto all = p;
  all.steps.clear();
  std::vector<std::uint32_t> places;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    places.push_back(static_cast<std::uint32_t>(all.steps.size()));
    if (needed[s]) {
      all.steps.push_back(p.steps[s]);
    }
  }
  for (auto& step : all.steps) {
    step.peer = step.kind == step_kind::wait ? places[step.peer] : step.peer;
  }
  return all;
}

}  // namespace unity::parallel

#endif
