// Moves the results that a plan offloads to the host and back, in a rank's program.
#pragma once

#include <unity/parallel/offloading.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::train {

// Adds a `store` of each value that an offloaded operator of the plan makes and a backward pass reads, after the last
// step that reads it before that pass, and a `fetch` before the first step of the pass that reads it. Outputs stay, and
// so do values with a message in transit in between. The operators of a fused kernel are offloaded if the first one is.
// `offloaded`: by node of the plan's graph. Complexity: linear in the program.
// Precondition: the program has no stores and fetches.
[[nodiscard]] parallel::rank_program with_offloaded_values(const tensor::algebra& a, const parallel::rank_program& p,
                                                           const parallel::offloading& offloaded);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_OFFLOADED_VALUES)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/train/value_places.hpp>

namespace unity::train::detail {

// The steps between which a value is not needed: after `from` and before `until`.
struct absence {
  std::size_t from = 0;
  std::size_t until = 0;
};

UNITY_INLINE std::optional<absence> absence_of(const parallel::rank_program& p, const stay& s) {
  const auto& maker = p.steps[s.first];
  const auto is_back = [&](std::size_t step) {
    const auto& reader = p.steps[step];
    return reader.is_backward && reader.microbatch == maker.microbatch && reader.kind != parallel::step_kind::wait;
  };
  const auto until = std::find_if(s.readers.begin(), s.readers.end(), is_back);
  if (s.last >= p.steps.size() || until == s.readers.end()) {
    return std::nullopt;
  }
  for (auto later = until; later != s.readers.end(); ++later) {  // waits for transfers that began before
    const auto& reader = p.steps[*later];
    if (reader.kind == parallel::step_kind::wait && reader.peer < *until) {
      return std::nullopt;
    }
  }
  return absence{until == s.readers.begin() ? s.first : *std::prev(until), *until};
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE parallel::rank_program with_offloaded_values(const tensor::algebra& a, const parallel::rank_program& p,
                                                          const parallel::offloading& offloaded) {
  const value_places places{a, p};
  std::vector<std::vector<parallel::rank_step>> behind(p.steps.size());
  std::vector<std::vector<parallel::rank_step>> before(p.steps.size());
  for (const auto v : value_ids(p.graph)) {
    const auto& stays = places[v];
    if (stays.size() != 1 || stays.front().first >= p.steps.size()) {
      continue;
    }
    const auto& maker = p.steps[stays.front().first];
    const bool runs = maker.kind == parallel::step_kind::run || maker.kind == parallel::step_kind::fused;
    if (!runs || maker.is_backward || !maker.origin.valid() || !parallel::is_offloaded(offloaded, maker.origin)) {
      continue;
    }
    if (const auto away = detail::absence_of(p, stays.front())) {
      parallel::rank_step move;
      move.value = v;
      move.origin = maker.origin;
      move.microbatch = maker.microbatch;
      move.kind = parallel::step_kind::store;
      behind[away->from].push_back(move);
      move.kind = parallel::step_kind::fetch;
      move.is_backward = true;
      before[away->until].push_back(move);
    }
  }
  auto all = p;
  all.steps.clear();
  std::vector<std::uint32_t> now(p.steps.size());
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    all.steps.insert(all.steps.end(), before[s].begin(), before[s].end());
    now[s] = static_cast<std::uint32_t>(all.steps.size());
    all.steps.push_back(p.steps[s]);
    all.steps.insert(all.steps.end(), behind[s].begin(), behind[s].end());
  }
  for (auto& s : all.steps) {
    s.peer = s.kind == parallel::step_kind::wait ? now[s.peer] : s.peer;
  }
  return all;
}

}  // namespace unity::train

#endif
