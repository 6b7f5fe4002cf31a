// What steps of a rank's program move.
#pragma once

#include <cstddef>

#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

// What step s of the program is, and what it moves, or waits for; without times and the iteration.
[[nodiscard]] activity_span activity_of(const parallel::rank_program& p, std::size_t s);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_STEP_ACTIVITY)

#include <cstdint>

#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>

namespace unity::train {

namespace detail {

// Where the step moves something.
UNITY_INLINE activity_span moved_by(const parallel::rank_program& p, const parallel::rank_step& s) {
  using kinds = parallel::step_kind;
  const bool is_receive = s.kind == kinds::receive;
  if (!is_receive && s.kind != kinds::send && !is_collective(s.kind)) {
    return {};
  }
  activity_span span;
  const bool is_result = is_receive || s.kind == kinds::gather;  // all of what is gathered
  const auto v = is_result ? p.graph.results(s.node)[0] : s.value;
  span.size = static_cast<std::int64_t>(backend::byte_count(p.graph.type(v)));
  span.way = is_receive                 ? direction::receive
             : s.kind == kinds::send    ? direction::send
             : s.kind == kinds::reduce  ? direction::all_reduce
             : s.kind == kinds::scatter ? direction::reduce_scatter
                                        : direction::all_gather;
  span.tag = is_collective(s.kind) ? s.peer : s.tag;
  span.peer = is_collective(s.kind) ? no_peer : static_cast<std::int32_t>(s.peer);
  return span;
}

}  // namespace detail

UNITY_INLINE activity_span activity_of(const parallel::rank_program& p, std::size_t s) {
  using kinds = parallel::step_kind;
  const auto& step = p.steps[s];
  const bool computes = step.kind == kinds::run || step.kind == kinds::fused;
  auto span = detail::moved_by(p, p.steps[step.kind == kinds::wait ? step.peer : s]);
  span.kind = computes                     ? activity::compute
              : step.kind == kinds::update ? activity::update
              : step.kind == kinds::wait   ? activity::waiting
                                           : activity::communication;
  span.is_backward = step.is_backward;
  span.label = static_cast<std::uint32_t>(step.origin.index());
  span.number = static_cast<std::uint32_t>(s);
  return span;
}

}  // namespace unity::train

#endif
