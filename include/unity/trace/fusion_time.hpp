// The time of operators that run as one kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>

namespace unity::trace {

struct fused_part {
  name_id name{};
  std::int64_t duration = 0;  // picoseconds
};

// The time of fused operators, from their times one after another. Law: between 0 and their sum. Precondition of calls:
// at least one operator; a single one keeps its duration. Models: a profiler of fused operators, a learned model.
using fusion_time = std::function<std::int64_t(std::span<const fused_part>)>;

// Each operator except the first saves the launch overhead, at most its duration: the time that neither arithmetic nor
// data explain. Saved memory traffic does not count, because traces do not record it.
[[nodiscard]] fusion_time saved_starts(std::int64_t start);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_FUSION_TIME)

#include <algorithm>

namespace unity::trace {

UNITY_INLINE fusion_time saved_starts(std::int64_t start) {
  return [start](std::span<const fused_part> parts) {
    auto time = parts.front().duration;
    for (const auto& p : parts.subspan(1)) {
      time += p.duration - std::min(start, p.duration);
    }
    return time;
  };
}

}  // namespace unity::trace

#endif
