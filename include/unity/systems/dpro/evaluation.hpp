// Replays a strategy: the time of the iteration, and when operators and buckets run.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/systems/dpro/groups.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/view.hpp>
#include <unity/trace/replay.hpp>

namespace unity::systems {

struct time_span {
  std::int64_t start = 0;
  std::int64_t end = 0;

  friend bool operator==(const time_span&, const time_span&) = default;
};

// Times of the first rank, by the first operator of each run, and of all ranks, by the last tensor of each bucket.
struct strategy_times {
  std::int64_t iteration = 0;
  std::vector<time_span> operators{};
  std::vector<time_span> buckets{};
  // The critical path: runs in their order and buckets in theirs, each by its index.
  std::vector<std::uint32_t> path_operators{};
  std::vector<std::uint32_t> path_buckets{};

  friend bool operator==(const strategy_times&, const strategy_times&) = default;
};

// Complexity: that of a replay.
[[nodiscard]] strategy_times evaluate(const dpro_view& v, const dpro_strategy& s);
// The iteration time only.
[[nodiscard]] std::int64_t iteration_of(const dpro_view& v, const dpro_strategy& s);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_EVALUATION)

#include <algorithm>
#include <limits>

namespace unity::systems {

UNITY_INLINE std::int64_t iteration_of(const dpro_view& v, const dpro_strategy& s) {
  return trace::replay(v.apply(s).graph, v.names()).iteration;
}

UNITY_INLINE strategy_times evaluate(const dpro_view& v, const dpro_strategy& s) {
  const auto all = v.apply(s);
  const auto r = trace::replay(all.graph, v.names());
  strategy_times times;
  times.iteration = r.iteration;
  times.operators.resize(v.operators().size());
  constexpr auto never = std::numeric_limits<std::int64_t>::max();
  times.buckets.assign(v.tensors().size(), {never, 0});
  for (std::uint32_t t = 0; t < all.graph.tasks.size(); ++t) {
    if (const auto o = all.operator_of[t]; o != trace::no_index) {
      // If ranks are alike, the slowest determines the times.
      times.operators[o] =
          times.operators[o].end > r.times[t].end ? times.operators[o] : time_span{r.times[t].start, r.times[t].end};
    }
    if (const auto b = all.bucket_of[t]; b != trace::no_index) {
      auto& span = times.buckets[b];
      span = {std::min(span.start, r.times[t].start), std::max(span.end, r.times[t].end)};
    }
  }
  for (const auto& step : trace::critical_path(all.graph, r)) {
    const auto add = [](std::vector<std::uint32_t>& list, std::uint32_t place) {
      if (place != trace::no_index && (list.empty() || list.back() != place)) {
        list.push_back(place);
      }
    };
    add(times.path_operators, all.operator_of[step.task]);
    add(times.path_buckets, all.bucket_of[step.task]);
  }
  return times;
}

}  // namespace unity::systems

#endif
