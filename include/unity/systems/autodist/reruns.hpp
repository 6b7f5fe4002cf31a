// Chooses the fastest of several synchronizations whose times vary between runs.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>

namespace unity::systems {

// Indices of the shortest times, at most `count`, ordered by time, then index.
[[nodiscard]] std::vector<std::size_t> fastest_of(std::span<const picoseconds> times, std::size_t count);

struct rerun_options {
  std::size_t finalists = 3;  // so many of the fastest rules run again, and as many of the fastest others
  std::size_t rounds = 5;     // runs of each finalist; 0: first runs decide
};

struct rerun_result {
  std::size_t best = 0;
  // By synchronization: its runs after the first; nullopt: it had none.
  std::vector<std::optional<measurement>> again{};
};

// The minimum of many noisy times usually belongs to a lucky candidate, so first runs only choose finalists. The
// finalists run again in turns, so that drift affects all equally, and the lowest median wins; if medians differ by
// less than 0.5%, a rule wins. first: the times of the first runs, with those of the rules at the front. run(index):
// runs that synchronization again.
// Preconditions: `first` is not empty; rules <= first.size(). Complexity: 2 * finalists * rounds runs; none if there is
// only one finalist.
// Throws: as run.
[[nodiscard]] rerun_result run_again(std::span<const picoseconds> first, std::size_t rules,
                                     const std::function<picoseconds(std::size_t)>& run, const rerun_options& o = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_RERUNS)

#include <algorithm>
#include <numeric>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/systems/autodist/trials.hpp>

namespace unity::systems {

UNITY_INLINE std::vector<std::size_t> fastest_of(std::span<const picoseconds> times, std::size_t count) {
  std::vector<std::size_t> all(times.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::sort(all.begin(), all.end(),
            [&](std::size_t x, std::size_t y) { return std::pair{times[x], x} < std::pair{times[y], y}; });
  all.resize(std::min(all.size(), count));
  return all;
}

UNITY_INLINE rerun_result run_again(std::span<const picoseconds> first, std::size_t rules,
                                    const std::function<picoseconds(std::size_t)>& run, const rerun_options& o) {
  UNITY_EXPECTS(!first.empty() && rules <= first.size(), "first runs, those of rules before all others");
  auto finalists = fastest_of(first.first(rules), o.finalists);
  for (const auto i : fastest_of(first.subspan(rules), o.finalists)) {
    finalists.push_back(rules + i);
  }
  rerun_result found;
  found.again.resize(first.size());
  std::vector<std::vector<double>> seconds(first.size());
  for (std::size_t round = 0; round < o.rounds && finalists.size() > 1; ++round) {
    for (const auto i : finalists) {
      seconds[i].push_back(to_seconds(run(i)));
    }
  }
  // The time to minimize.
  const auto time = [&](std::size_t i) {
    const auto t = to_seconds(found.again[i] ? found.again[i]->median : first[i]);
    return i < rules ? t : t * (1 + detail::least_apart);
  };
  for (const auto i : finalists) {
    if (!seconds[i].empty()) {
      found.again[i] = summarize(std::move(seconds[i]));
    }
  }
  found.best = *std::min_element(finalists.begin(), finalists.end(),
                                 [&](std::size_t x, std::size_t y) { return time(x) < time(y); });
  return found;
}

}  // namespace unity::systems

#endif
