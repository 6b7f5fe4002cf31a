// The order of a rank's passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>

namespace unity::parallel::detail {

class rank_order {
 public:
  rank_order(const rank_streams& streams, std::size_t rank, const pipeline& p)
      : streams_{streams}, rank_{rank}, pipeline_{p}, stage_{p.stages.empty() ? 0 : p.stages[rank]} {}

  // Contains each wait once, at its first position. Waits have tags, but no step numbers yet.
  [[nodiscard]] std::vector<rank_step> run() &&;

 private:
  // For schedules without flush: after each forward pass, the backward pass that follows it in phases_of, which at
  // first belongs to the previous batch. The gradients of a batch are complete in the iteration after it, or at its own
  // end; weights are updated before new gradients replace them.
  void delayed();
  void append(std::span<const rank_step> steps, bool is_late);
  // Waits for a pass's sends of the previous iteration before the pass makes new ones.
  void wait_for_sends(std::span<const rank_step> steps);

  const rank_streams& streams_;
  std::size_t rank_;
  const pipeline& pipeline_;
  std::uint32_t stage_;
  std::vector<rank_step> steps_{};
  std::set<std::uint32_t> waited_{};  // tags
};

// Sets the step numbers that waits refer to.
void find_begun(std::vector<rank_step>& steps);

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_ORDER)

#include <map>

#include <unity/core/config.hpp>
#include <unity/parallel/pipeline_phases.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::vector<rank_step> rank_order::run() && {
  if (pipeline_.is_delayed) {
    delayed();
  } else {
    append(streams_.first(rank_), false);
    for (const auto& phase : phases_of(pipeline_, stage_)) {
      append(streams_.steps(rank_, phase), false);
    }
    append(streams_.last(rank_), false);
    append(streams_.end(rank_), false);
  }
  return std::move(steps_);
}

UNITY_INLINE void rank_order::delayed() {
  const auto count = pipeline_.microbatches;
  const auto ahead = static_cast<std::int64_t>(pipeline_.stage_count() - stage_) - 1;
  for (std::int64_t m = 0; m < count; ++m) {
    append(streams_.steps(rank_, {m, pipeline_pass::forward}), false);
    if (ahead == 0 && m + 1 == count) {
      append(streams_.last(rank_), true);
    }
    append(streams_.steps(rank_, {m >= ahead ? m - ahead : m - ahead + count, pipeline_pass::backward}), m < ahead);
  }
  if (ahead != 0) {
    append(streams_.last(rank_), true);
  }
}

UNITY_INLINE void rank_order::append(std::span<const rank_step> steps, bool is_late) {
  if (pipeline_.is_delayed) {
    wait_for_sends(steps);
  }
  for (auto s : steps) {
    s.is_late = is_late;
    if (s.kind != step_kind::wait || waited_.insert(s.tag).second) {
      steps_.push_back(s);
    }
  }
}

UNITY_INLINE void rank_order::wait_for_sends(std::span<const rank_step> steps) {
  for (auto s : steps) {
    if (s.kind == step_kind::send) {
      s.kind = step_kind::wait;
      s.is_late = true;
      steps_.push_back(s);
    }
  }
}

UNITY_INLINE void find_begun(std::vector<rank_step>& steps) {
  std::map<std::uint32_t, std::uint32_t> begun;  // by tag
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto kind = steps[s].kind;
    if (kind == step_kind::send || kind == step_kind::receive || is_collective(kind)) {
      begun[steps[s].tag] = static_cast<std::uint32_t>(s);
    }
  }
  for (auto& s : steps) {
    if (s.kind == step_kind::wait) {
      s.peer = begun.at(s.tag);
      s.value = {};
    }
  }
}

}  // namespace unity::parallel::detail

#endif
