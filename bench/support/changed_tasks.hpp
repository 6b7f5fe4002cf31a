// What an edit did to the times of a program's tasks.
#pragma once

#include <cstddef>
#include <span>

#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace support {

// Tasks that did not have these times before; new ones among them.
inline std::size_t changed_tasks(const unity::simulate::delta_simulation& delta,
                                 std::span<const unity::simulate::task_times> before) {
  std::size_t changed = 0;
  for (std::size_t f = 0; f < delta.program().fragment_count(); ++f) {
    const auto range = delta.program().tasks_of(unity::tasks::fragment_id{f});
    for (auto t = range.first; t < range.first + range.count; ++t) {
      changed += t >= before.size() || !(before[t] == delta.times(t)) ? 1 : 0;
    }
  }
  return changed;
}

}  // namespace support
