// How well the iterations of a job predict each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>

namespace unity::trace {

// A measured step, replayed with the average durations of the other steps. Picoseconds.
struct step_accuracy {
  std::int64_t number = 0;
  std::int64_t measured = 0;
  std::int64_t replayed = 0;
  // Tasks that waited for ranks without a trace also take the average of the other steps, instead of their recorded
  // time.
  std::int64_t replayed_alone = 0;
  std::int64_t coarse = 0;  // Daydream's model: communication without detail, one queue
  std::vector<std::int64_t> rank_measured{};
  std::vector<std::int64_t> rank_replayed{};
  std::size_t tasks = 0;
  std::size_t unmatched = 0;  // tasks that no other step has; they keep their durations

  friend bool operator==(const step_accuracy&, const step_accuracy&) = default;
};

// Leaves out each step that all ranks have in turn. Which operators it runs, in which order, and what was under way
// when it began are its own; durations come from the other steps. A job of one step is replayed with its own durations.
// `bytes_per_second`: of drop_communication_detail. Complexity: n log n in events, times steps.
// Throws: unity::error if tasks wait for each other.
[[nodiscard]] std::vector<step_accuracy> leave_one_out(const aligned_job& job, double bytes_per_second = 0);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_ACCURACY)

#include <utility>

#include <unity/trace/what_if.hpp>

namespace unity::trace {

UNITY_INLINE std::vector<step_accuracy> leave_one_out(const aligned_job& job, double bytes_per_second) {
  const auto& names = job.job().names;
  const auto steps = common_steps(job.job());
  step_profile profile;
  for (const auto s : steps) {
    profile.add(job.graph(s));
  }
  std::vector<step_accuracy> all;
  for (const auto s : steps) {
    step_accuracy a;
    a.number = s;
    a.measured = job.measured(s);
    const auto own = job.graph(s);
    auto known = own;
    profile.average_of_others(known, true);
    const auto r = replay(known, names);
    a.replayed = r.iteration;
    a.rank_replayed = r.rank_time;
    for (const auto& rank : own.ranks) {
      a.rank_measured.push_back(rank.measured);
    }
    auto alone = own;
    a.unmatched = profile.average_of_others(alone, false);
    a.tasks = alone.tasks.size();
    a.replayed_alone = replay(alone, names).iteration;
    drop_communication_detail(alone, bytes_per_second);
    a.coarse = replay(alone, names, replay_rule::global_queue).iteration;
    all.push_back(std::move(a));
  }
  return all;
}

}  // namespace unity::trace

#endif
