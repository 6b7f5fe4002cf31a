// How long operators take that run as one.
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

// What operators take as one, from what they take one after the other. Law: no more than that, no less than 0.
// Precondition of calls: at least one part; of one part: its duration. A profiler of fused operators, or a learned
// model, is one.
using fusion_time = std::function<std::int64_t(std::span<const fused_part>)>;

// Each operator but the first saves what starting an operator costs, at most its duration: what neither arithmetic nor
// data explain. What data need not go through memory any more is not counted, as traces do not tell it.
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
