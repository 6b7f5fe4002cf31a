// Reduces the programs of ranks to the steps that compute the outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/parallel/ranks/rank_program.hpp>

namespace unity::train {

// Removes backward passes and updates: no weight has a gradient. Precondition: nothing is delayed. Complexity: linear
// in the programs.
[[nodiscard]] parallel::rank_programs forward_programs(parallel::rank_programs all);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_FORWARD_PROGRAMS)

#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>

namespace unity::train {

UNITY_INLINE parallel::rank_programs forward_programs(parallel::rank_programs all) {
  for (auto& p : all.ranks) {
    std::vector<parallel::rank_step> forward;
    std::vector<std::uint32_t> now(p.steps.size());  // new number of each remaining step
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      auto step = p.steps[s];
      UNITY_EXPECTS(!step.is_late, "programs without late steps");
      if (step.is_backward || step.kind == parallel::step_kind::update) {
        continue;
      }
      if (step.kind == parallel::step_kind::wait) {
        step.peer = now[step.peer];
      }
      now[s] = static_cast<std::uint32_t>(forward.size());
      forward.push_back(step);
    }
    p.steps = std::move(forward);
    p.cotangents.clear();
    for (auto& w : p.weights) {
      w.gradient = {};
      w.next = {};
    }
  }
  return all;
}

}  // namespace unity::train

#endif
