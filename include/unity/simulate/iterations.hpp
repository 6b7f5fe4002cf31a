// The time of one iteration among many that overlap.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tasks/repeated.hpp>

namespace unity::simulate {

// The time of an iteration between others.
struct steady_iteration {
  picoseconds first{};     // a single iteration
  picoseconds time{};      // from the end of one to the end of the next
  std::size_t before = 0;  // iterations until it is steady
  bool is_steady = false;  // if not, `time` is the average over the last half of the simulated iterations

  friend bool operator==(const steady_iteration&, const steady_iteration&) = default;
};

// Simulates `least` iterations, then twice as many, and so on, up to `most`, until they are steady: in the last ones,
// more than carried dependencies reach back, all tasks start by the same amount later than in the iteration before.
//   times_of(program) -> the times of its tasks by place, from some simulation
// Complexity: that of simulating less than four times as many iterations as needed.
// Throws: as times_of.
template <std::invocable<const tasks::program&> TimesOf>
[[nodiscard]] steady_iteration run_until_steady(const tasks::program& p,
                                                std::span<const tasks::carried_dependency> carried, std::size_t most,
                                                const TimesOf& times_of, std::size_t least = 4) {
  UNITY_EXPECTS(least >= 2, "two iterations to compare");
  steady_iteration found;
  const auto alone = times_of(p);
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const auto range = p.tasks_of(tasks::fragment_id{f});
    for (auto t = range.first; t < range.first + range.count; ++t) {
      found.first = std::max(found.first, picoseconds{alone[t].end});
    }
  }
  std::size_t reach = 1;
  for (const auto& c : carried) {
    reach = std::max<std::size_t>(reach, c.iterations);
  }
  std::vector<std::int64_t> ends;
  for (std::size_t count = least; count <= std::max(most, least); count *= 2) {
    const auto all = tasks::repeated(p, carried, count);
    const auto times = times_of(all);
    const auto start = [&](std::size_t iteration, std::size_t f, std::uint32_t t) {
      return times[all.find(tasks::fragment_id{iteration * p.fragment_count() + f}, t).index()].start;
    };
    // The amount by which all tasks of an iteration start later than in the one before; nothing if tasks differ in it.
    const auto shift = [&](std::size_t iteration) {
      std::optional<std::int64_t> by;
      for (std::size_t f = 0; f < p.fragment_count(); ++f) {
        const auto tasks = p.tasks_of(tasks::fragment_id{f}).count;
        for (std::uint32_t t = 0; t < tasks; ++t) {
          const auto here = start(iteration, f, t) - start(iteration - 1, f, t);
          if (by && *by != here) {
            return std::optional<std::int64_t>{};
          }
          by = here;
        }
      }
      return by;
    };
    const auto last = shift(count - 1);
    auto same = count - 1;  // from this one on, each iteration is later by the same amount
    while (last && same > 1 && shift(same - 1) == last) {
      --same;
    }
    if (last && count - same > reach) {
      return {found.first, picoseconds{*last}, same - 1, true};
    }
    ends.assign(count, 0);
    for (std::size_t f = 0; f < all.fragment_count(); ++f) {
      const auto range = all.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        auto& end = ends[f / p.fragment_count()];
        end = std::max(end, times[t].end);
      }
    }
    const auto half = count / 2;
    found.time = picoseconds{(ends[count - 1] - ends[half - 1]) / static_cast<std::int64_t>(count - half)};
    found.before = count;
  }
  return found;
}

// Likewise by full_simulation: each resource runs its tasks first in, first out.
// Throws: unity::error if tasks wait for each other.
[[nodiscard]] inline steady_iteration run_until_steady(const tasks::program& p,
                                                       std::span<const tasks::carried_dependency> carried,
                                                       std::size_t most = 64, std::size_t least = 4) {
  full_simulation full;
  return run_until_steady(
      p, carried, most,
      [&](const tasks::program& some) {
        full.run(some);
        return full.times();
      },
      least);
}

}  // namespace unity::simulate
