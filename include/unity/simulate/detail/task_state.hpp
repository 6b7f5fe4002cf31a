// What delta simulation knows of a task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/program/program.hpp>

namespace unity::simulate::detail {

enum class task_status : std::uint8_t {
  idle,     // has its times of before the edit
  queued,   // there is an event for it at `want`
  waiting,  // for a predecessor whose time is not known; `want` is never
  placed,   // has its times of after the edit
  removed,
};
inline constexpr std::int64_t never = std::int64_t{1} << 62;

struct alignas(64) task_state {
  std::int64_t ready = 0;
  std::int64_t start = never;
  std::int64_t end = never;
  std::int64_t arrival = never;  // the end and the latency after it
  std::int64_t want = never;     // where it is looked at; of idle tasks `ready`
  std::int64_t end_by = 0;       // its end is not earlier: cut-through
  task_status what = task_status::idle;
  bool has_place = false;     // in the old order of its resource, and not withdrawn from it
  bool is_exact = true;       // `want` is what predecessors ask now, so is `end_by`; of idle and queued tasks
  std::uint32_t journal = 0;  // where its times of before the edit are, of tasks that had some and are not idle
};
struct saved_task_state {  // of an idle task
  std::int64_t ready = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t arrival = 0;
  std::int64_t end_by = 0;
  std::uint32_t task = 0;
};
// Whether an entry ahead in an order is not the task's place any more.
struct is_gone_in {
  const std::vector<task_state>* states;
  bool operator()(std::uint32_t t) const noexcept {
    const auto& s = (*states)[t];
    return s.what == task_status::placed || s.what == task_status::removed || !s.has_place;
  }
};
struct ties_of {
  const program::program* code;
  std::uint64_t operator()(std::uint32_t t) const noexcept { return code->tie(t); }
};

}  // namespace unity::simulate::detail
