// dPRO's optimizer: chooses which operators and tensors of a training job to fuse, and how to partition tensors, by the
// critical path.
// Source: Hu et al., dPRO, MLSys 2022, section 5.
#pragma once

#include <unity/core/config.hpp>
#include <unity/systems/dpro/search.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/view.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/what_if.hpp>

namespace unity::systems {

// Algorithm 1. Along the critical path, fuses operators by Theorem 1, tensors by Theorem 2, and with each what Theorem
// 3 adds; divides buckets into the best number of parts. If the premises of a theorem do not hold, decides by a replay.
// Keeps the changes of a sweep along the path if they shorten the iteration, and otherwise tries them one by one.
// Starts from the recorded buckets and, if tensors may be fused, also from separate ones. The result is never slower
// than the recorded strategy, replayed on all ranks.
// Complexity: each sweep is linear in the path, plus a replay and lookups of tensor times.
// Throws: unity::error if tasks wait for each other.
[[nodiscard]] dpro_result dpro(const trace::flow_graph& job, const trace::name_table& names,
                               const trace::fusion_time& fused, const dpro_options& options = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO)

#include <cstdint>
#include <optional>
#include <vector>

namespace unity::systems {

namespace detail {

// The maximum number of tasks to replay when improving the result of Algorithm 1: about a second.
inline constexpr std::uint64_t polishing_tasks = 4'000'000;

// All techniques together, and operators and tensors separately: steps that gain one by one can lead to a worse result
// when both are combined.
inline std::vector<dpro_techniques> subsets_of(const dpro_techniques& t) {
  std::vector<dpro_techniques> all{t};
  if (t.operator_fusion && (t.tensor_fusion || t.tensor_partition)) {
    all.push_back({true, false, false});
    all.push_back({false, t.tensor_fusion, t.tensor_partition});
  }
  return all;
}

}  // namespace detail

UNITY_INLINE dpro_result dpro(const trace::flow_graph& job, const trace::name_table& names,
                              const trace::fusion_time& fused, const dpro_options& options) {
  const search_clock clock{options};
  dpro_result all;
  const dpro_view view{job, names, fused, {options.speedups.symmetric, options.speedups.symmetric}};
  all.alike = view.is_alike();
  all.best = view.recorded();
  detail::dpro_search search{view, options, clock};
  std::vector<dpro_strategy> starts{view.recorded()};
  if (options.techniques.tensor_fusion && !(view.recorded() == view.separate())) {
    starts.push_back(view.separate());
  }
  std::vector<dpro_strategy> found;
  for (const auto& s : starts) {
    for (const auto& may : detail::subsets_of(options.techniques)) {
      found.push_back(search.run(options.speedups.coarsened ? coarsened(view, s, may) : s, may, all));
    }
  }
  found.push_back(search.run(dpro_strategy{all.best}, options.techniques, all));
  if (options.polish) {
    found.push_back(search.descend(view, all.best, detail::polishing_tasks, all));
  }
  const auto note_stop = [&] {
    if (search.is_over(all)) {
      all.stopped = clock.seconds() >= options.limits.seconds ? stop_reason::time : stop_reason::expansions;
    }
  };
  note_stop();
  // A replay of representatives may rank nearly equal strategies differently from a replay of all ranks.
  std::optional<dpro_view> whole;
  if (view.is_folded()) {
    whole.emplace(job, names, fused, view_options{true, false});
  }
  all.best = view.recorded();
  all.recorded = iteration_of(whole ? *whole : view, all.best);
  all.iteration = all.recorded;
  for (const auto& s : found) {
    ++all.replays;
    if (const auto time = iteration_of(whole ? *whole : view, s); time < all.iteration) {
      all.best = s;
      all.iteration = time;
    }
  }
  if (options.polish && whole && !search.is_over(all)) {
    all.best = search.descend(*whole, all.best, detail::polishing_tasks, all);
    note_stop();
    all.iteration = iteration_of(*whole, all.best);
  }
  all.seconds = clock.seconds();
  return all;
}

}  // namespace unity::systems

#endif
