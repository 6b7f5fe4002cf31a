// The memory that each device holds during a simulated iteration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// The level from this time on.
struct memory_level {
  picoseconds from{};
  bytes held{};

  friend bool operator==(const memory_level&, const memory_level&) = default;
};

struct memory_profile {
  bytes peak{};
  std::vector<memory_level> levels{};  // ascending in time; consecutive levels differ

  friend bool operator==(const memory_profile&, const memory_profile&) = default;
};

namespace detail {

class memory_profiler {
 public:
  memory_profiler(const tasks::program& p, std::span<const task_times> times) : program_{p}, times_{times} {}

  [[nodiscard]] std::vector<memory_profile> run() const {
    struct change {
      tasks::device_index device;
      std::int64_t time;
      std::int64_t size;
    };
    std::vector<change> changes;
    tasks::device_index devices = 0;
    for (const auto& r : program_.resources()) {
      devices = r.kind == tasks::resource_kind::stream ? std::max(devices, r.device + 1) : devices;
    }
    for_each_buffer([&](const tasks::buffer& b, std::int64_t start, std::int64_t end) {
      devices = std::max(devices, b.device + 1);
      changes.push_back({b.device, start, b.size.count()});
      if (!b.permanent) {
        changes.push_back({b.device, end, -b.size.count()});
      }
    });
    std::sort(changes.begin(), changes.end(), [](const change& a, const change& b) {
      return a.device != b.device ? a.device < b.device : a.time < b.time;
    });
    std::vector<memory_profile> all(devices);
    std::int64_t held = 0;
    for (std::size_t k = 0; k < changes.size(); ++k) {
      const auto& c = changes[k];
      held = k > 0 && changes[k - 1].device == c.device ? held + c.size : c.size;
      const bool is_last =
          k + 1 == changes.size() || changes[k + 1].device != c.device || changes[k + 1].time != c.time;
      auto& profile = all[c.device];
      if (is_last && held != (profile.levels.empty() ? 0 : profile.levels.back().held.count())) {
        profile.levels.push_back({picoseconds{c.time}, bytes{held}});
        profile.peak = std::max(profile.peak, bytes{held});
      }
    }
    return all;
  }
  [[nodiscard]] std::vector<bytes> bounds(std::size_t devices, picoseconds iteration) const {
    constexpr std::size_t parts = 1024;
    struct change {
      std::int64_t gained = 0;
      std::int64_t freed = 0;
    };
    std::vector<change> changes(devices * parts);
    const auto length = iteration.count() / static_cast<std::int64_t>(parts) + 1;
    for_each_buffer([&](const tasks::buffer& b, std::int64_t start, std::int64_t end) {
      auto* const of_device = changes.data() + b.device * parts;
      of_device[start / length].gained += b.size.count();
      if (!b.permanent) {
        of_device[end / length].freed += b.size.count();
      }
    });
    std::vector<bytes> all(devices);
    for (std::size_t d = 0; d < devices; ++d) {
      std::int64_t held = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        held += changes[d * parts + i].gained;
        all[d] = std::max(all[d], bytes{held});
        held -= changes[d * parts + i].freed;
      }
    }
    return all;
  }

 private:
  // visit(buffer, when it is allocated, when it is freed); a permanent buffer is allocated at zero.
  template <class Visit>
  void for_each_buffer(const Visit& visit) const {
    const auto ends = last_uses();
    std::size_t i = 0;
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      for (const auto& b : program_.code(tasks::fragment_id{f}).buffers) {
        visit(b, b.permanent ? 0 : of(b.producer, tasks::fragment_id{f}).start, ends[i++]);
      }
    }
  }
  // By buffer in order of fragments.
  [[nodiscard]] std::vector<std::int64_t> last_uses() const {
    std::vector<std::size_t> first(program_.fragment_count() + 1, 0);
    std::vector<std::int64_t> ends;
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      first[f] = ends.size();
      for (const auto& b : program_.code(id).buffers) {
        ends.push_back(b.permanent ? 0 : of(b.producer, id).end);
      }
    }
    first.back() = ends.size();
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      for (const auto& read : program_.code(id).reads) {
        const auto at = first[(read.of.fragment.valid() ? read.of.fragment : id).index()] + read.of.index;
        UNITY_EXPECTS(at < ends.size(), "a buffer that is there");
        ends[at] = std::max(ends[at], of(read.reader, id).end);
      }
    }
    return ends;
  }
  [[nodiscard]] const task_times& of(const tasks::task_ref& r, tasks::fragment_id own) const {
    return times_[program_.find(r.fragment.valid() ? r.fragment : own, r.index).index()];
  }

  const tasks::program& program_;
  std::span<const task_times> times_;
};

}  // namespace detail

// By device. The times must be those of a simulation of the program, by place. Complexity: n log n in buffers, linear
// in their readers.
[[nodiscard]] inline std::vector<memory_profile> memory_profiles(const tasks::program& p,
                                                                 std::span<const task_times> times) {
  UNITY_EXPECTS(times.size() >= p.capacity(), "the times of the program's tasks");
  return detail::memory_profiler{p, times}.run();
}

// By device an upper bound on the peak: at most the peak plus what is allocated within a thousandth of the iteration.
// If that fits, profiles need not be made. The times are as above, of an iteration of that length. Complexity: linear
// in buffers, their readers and devices.
[[nodiscard]] inline std::vector<bytes> memory_bounds(const tasks::program& p, std::span<const task_times> times,
                                                      std::size_t devices, picoseconds iteration) {
  UNITY_EXPECTS(times.size() >= p.capacity(), "the times of the program's tasks");
  return detail::memory_profiler{p, times}.bounds(devices, iteration);
}

}  // namespace unity::simulate
