// The transfers and memory of the steps of a rank's program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/program/storage.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

// The kind of step s of the program, and what it moves or waits for; without times and iteration.
[[nodiscard]] activity_span activity_of(const parallel::rank_program& p, std::size_t s);

// The values of an arena, with the numbers of the recorded steps that need them. Unrecorded steps (the start of a
// receive, a load) count for the next recorded one. values: of the arena; readers: the steps that read the first of
// these values; is_recorded: by step. Complexity: linear in steps and values.
[[nodiscard]] rank_memory recorded_memory(std::span<const program::stored_value> values,
                                          std::span<const std::vector<std::uint32_t>> readers,
                                          const std::vector<bool>& is_recorded);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_STEP_ACTIVITY)

#include <algorithm>

#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>

namespace unity::train {

namespace detail {

// For steps that move data.
UNITY_INLINE activity_span moved_by(const parallel::rank_program& p, const parallel::rank_step& s) {
  using kinds = parallel::step_kind;
  const bool is_receive = s.kind == kinds::receive;
  if (s.kind == kinds::store || s.kind == kinds::fetch) {
    activity_span span;
    span.size = static_cast<std::int64_t>(backend::byte_count(p.graph.type(s.value)));
    span.way = s.kind == kinds::store ? direction::store : direction::fetch;
    return span;
  }
  if (!is_receive && s.kind != kinds::send && !is_collective(s.kind)) {
    return {};
  }
  activity_span span;
  const bool is_result = is_receive || s.kind == kinds::gather;  // the whole gathered result
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

UNITY_INLINE rank_memory recorded_memory(std::span<const program::stored_value> values,
                                         std::span<const std::vector<std::uint32_t>> readers,
                                         const std::vector<bool>& is_recorded) {
  constexpr auto none = static_cast<std::size_t>(-1);
  const auto steps = is_recorded.size();
  std::vector<std::size_t> next(steps + 1, none);  // the next recorded step from there on
  std::vector<std::size_t> last(steps + 1, none);  // the last recorded step up to there
  for (auto s = steps; s-- > 0;) {
    next[s] = is_recorded[s] ? s : next[s + 1];
  }
  for (std::size_t s = 0; s <= steps; ++s) {
    last[s] = s < steps && is_recorded[s] ? s : s > 0 ? last[s - 1] : none;
  }
  rank_memory all;
  for (std::size_t place = 0; place < values.size(); ++place) {
    const auto& v = values[place];
    const auto first = next[std::min(v.first, steps)];
    if (v.size.count() > 0 && first != none) {
      const auto until = last[std::min(v.last, steps)];
      for (const auto s : place < readers.size() ? readers[place] : std::vector<std::uint32_t>{}) {
        if (s < steps && is_recorded[s]) {
          all.readers.push_back({static_cast<std::uint32_t>(all.values.size()), s});
        }
      }
      all.values.push_back({v.size.count(), static_cast<std::uint32_t>(first),
                            static_cast<std::uint32_t>(until == none ? first : std::max(first, until))});
    }
  }
  return all;
}

}  // namespace unity::train

#endif
