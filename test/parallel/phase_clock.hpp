// Reference for the times of pipeline phases: a slow list scheduler.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>

namespace unity::parallel::test {

// Time of each pass by virtual stage: forward, backward, weight gradient.
using pass_times = std::vector<std::array<std::int64_t, 3>>;

inline pipeline scheduled(pipeline_schedule schedule, std::uint32_t stages, std::int64_t microbatches,
                          std::uint32_t chunks = 1) {
  pipeline p{microbatches, {}, false, schedule, chunks};
  for (std::uint32_t k = 0; k < stages; ++k) {
    p.stages.push_back(k);
  }
  return p;
}

inline pipeline pipeline_at_random(random_engine& random) {
  const auto schedule = static_cast<pipeline_schedule>(random.below(pipeline_schedule_names.size()));
  const auto stages = static_cast<std::uint32_t>(2 + random.below(6));
  if (schedule == pipeline_schedule::interleaved) {
    return scheduled(schedule, stages, static_cast<std::int64_t>(stages * (1 + random.below(5))),
                     static_cast<std::uint32_t>(2 + random.below(4)));
  }
  return scheduled(schedule, stages, static_cast<std::int64_t>(1 + random.below(20)));
}

inline pass_times equal_passes(const pipeline& p, std::int64_t forward, std::int64_t backward, std::int64_t weights) {
  const bool is_apart = p.schedule == pipeline_schedule::zero_bubble;
  return pass_times(std::size_t{p.stage_count()} * p.chunks,
                    {forward, is_apart ? backward : backward + weights, is_apart ? weights : 0});
}
inline pass_times passes_at_random(random_engine& random, const pipeline& p) {
  auto all = equal_passes(p, 0, 0, 0);
  for (auto& times : all) {
    for (auto& t : times) {
      t = static_cast<std::int64_t>(1'000'000 * (1 + random.below(20)));
    }
  }
  return all;
}

struct clocked_phases {
  std::int64_t end = 0;
  bool is_complete = false;
};

// Runs each stage's phases in order, each when its dependencies have ended.
inline clocked_phases clock_phases(const pipeline& p, const pass_times& takes) {
  const auto stages = p.stage_count();
  const auto last = stages * p.chunks - 1;
  std::map<std::tuple<pipeline_pass, std::int64_t, std::uint32_t>, std::int64_t> ended;  // by virtual stage
  std::vector<std::vector<pipeline_phase>> left;
  std::vector<std::int64_t> now(stages, 0);
  for (std::uint32_t k = 0; k < stages; ++k) {
    left.push_back(phases_of(p, k));
    std::reverse(left.back().begin(), left.back().end());
  }
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::uint32_t k = 0; k < stages; ++k) {
      if (left[k].empty()) {
        continue;
      }
      const auto phase = left[k].back();
      const auto at = phase.chunk * stages + k;
      std::vector<std::tuple<pipeline_pass, std::int64_t, std::uint32_t>> before;
      if (phase.pass == pipeline_pass::forward && at > 0) {
        before.emplace_back(pipeline_pass::forward, phase.microbatch, at - 1);
      } else if (phase.pass == pipeline_pass::backward) {
        before.emplace_back(pipeline_pass::forward, phase.microbatch, at);
        if (at < last) {
          before.emplace_back(pipeline_pass::backward, phase.microbatch, at + 1);
        }
      } else if (phase.pass == pipeline_pass::weight_gradient) {
        before.emplace_back(pipeline_pass::backward, phase.microbatch, at);
      }
      if (!std::all_of(before.begin(), before.end(), [&](const auto& b) { return ended.contains(b); })) {
        continue;
      }
      for (const auto& b : before) {
        now[k] = std::max(now[k], ended[b]);
      }
      now[k] += takes[at][static_cast<std::size_t>(phase.pass)];
      ended[{phase.pass, phase.microbatch, at}] = now[k];
      left[k].pop_back();
      goes_on = true;
    }
  }
  return {*std::max_element(now.begin(), now.end()),
          std::all_of(left.begin(), left.end(), [](const auto& l) { return l.empty(); })};
}

}  // namespace unity::parallel::test
