// A fusion strategy by the names of steps, which are the same on all ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::fusion {

// Names a step by the node of the plan's graph that it belongs to, forward or backward, and its index among that node's
// steps. The same on all ranks, however gradients are reduced. Regular.
struct step_name {
  std::uint32_t origin = 0;
  bool is_backward = false;
  std::uint32_t number = 0;
  std::string operation{};  // operator name, to detect programs of other graphs

  friend auto operator<=>(const step_name&, const step_name&) = default;
};

struct planned_step {
  step_name step{};
  bool is_copy = false;  // another kernel provides its result

  friend bool operator==(const planned_step&, const planned_step&) = default;
};

// Regular.
struct fusion_plan {
  // Whether steps belong to the program with composites spelled out (parallel/ranks/spelled_out.hpp).
  bool is_spelled_out = true;
  // Kernels of one or several steps, in the order in which they run, with their steps in order.
  std::vector<std::vector<planned_step>> kernels{};
  // Weights of the plan's graph by number, in node order; buckets in the order in which they are reduced.
  std::vector<std::vector<std::uint32_t>> buckets{};

  friend bool operator==(const fusion_plan&, const fusion_plan&) = default;
};

// The names of a spelled-out program's steps; empty for steps that do not run operators.
[[nodiscard]] std::vector<step_name> step_names(const tensor::algebra& a, const parallel::rank_program& p);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_FUSION_PLAN)

#include <cstddef>
#include <map>
#include <utility>

#include <unity/core/config.hpp>

namespace unity::fusion {

UNITY_INLINE std::vector<step_name> step_names(const tensor::algebra& a, const parallel::rank_program& p) {
  std::vector<step_name> names(p.steps.size());
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> numbers;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const auto& step = p.steps[s];
    if (step.kind == parallel::step_kind::run) {
      const auto origin = static_cast<std::uint32_t>(step.origin.index());
      names[s] = {origin, step.is_backward, numbers[{origin, step.is_backward}]++,
                  std::string{a.signature(p.graph.operation(step.node).kind).name}};
    }
  }
  return names;
}

}  // namespace unity::fusion

#endif
