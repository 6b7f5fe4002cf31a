// Computes the memory of a rank from its program alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <unity/backend/detail/kernel_store.hpp>
#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/rank_region.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/program/storage.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/value_places.hpp>

namespace unity::train {

// Regular.
struct planned_memory {
  bytes arena{};      // values of an iteration and workspaces of kernels
  bytes weights{};    // two versions of each: current and next
  bytes states{};     // likewise, the optimizer state
  bytes aside{};      // messages for which stale servers wait in later iterations
  bytes constants{};  // values that are the same in all iterations

  [[nodiscard]] bytes sum() const { return arena + weights + states + aside + constants; }

  friend bool operator==(const planned_memory&, const planned_memory&) = default;
};

// The contents of the arena with their lifetimes: values in order, then workspaces. workspaces: of the kernel of each
// step, in bytes; 0 if there is none. Complexity: linear in the program.
[[nodiscard]] std::vector<program::stored_value> arena_values(const tensor::algebra& a, const parallel::rank_program& p,
                                                              std::span<const std::size_t> workspaces);

// What rank_executor allocates for the program, except a few scalars of the optimizer. Allocates nothing itself.
// Complexity: as the plan of an arena (program/storage.hpp).
[[nodiscard]] planned_memory memory_of_rank(const tensor::algebra& a, const parallel::rank_program& p,
                                            parallel::optimizer how, std::span<const std::size_t> workspaces);

// The workspace sizes of the backend's kernels for the program's steps. Unit: bytes. Effects: creates the kernels.
// Throws: unity::error that names node and operator if there is no kernel.
template <backend::fusing_backend Backend>
[[nodiscard]] std::vector<std::size_t> workspaces_of(Backend& b, const tensor::algebra& a,
                                                     const parallel::rank_program& p) {
  backend::detail::kernel_store<Backend> kernels{a};
  const value_places places{a, p};
  std::vector<std::size_t> all(p.steps.size());
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (p.steps[s].kind == parallel::step_kind::run && places.runs(s)) {
      const auto operands = p.graph.operands(p.steps[s].node);
      const auto results = p.graph.results(p.steps[s].node);
      const backend::detail::run_item item{
          p.steps[s].node, nullptr, {operands.begin(), operands.end()}, {results.begin(), results.end()}};
      all[s] = kernels[kernels.prepare(b, p.graph, item, false)].workspace();
    } else if (p.steps[s].kind == parallel::step_kind::fused) {
      const auto region = fusion::region_of(a, p, p.kernels[p.steps[s].peer]);
      all[s] = kernels[kernels.prepare_region(b, region)].workspace();
    }
  }
  return all;
}

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_PLANNED_MEMORY)

#include <cstdint>

#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

UNITY_INLINE std::vector<program::stored_value> arena_values(const tensor::algebra& a, const parallel::rank_program& p,
                                                             std::span<const std::size_t> workspaces) {
  const value_places places{a, p};
  std::vector<program::stored_value> values;
  for (const auto v : value_ids(p.graph)) {
    const bytes size{static_cast<std::int64_t>(backend::byte_count(p.graph.type(v)))};
    for (const auto& s : places[v]) {
      values.push_back({size, s.first, s.last});
    }
  }
  for (std::size_t s = 0; s < workspaces.size(); ++s) {
    values.push_back({bytes{static_cast<std::int64_t>(workspaces[s])}, s, s});
  }
  return values;
}

UNITY_INLINE planned_memory memory_of_rank(const tensor::algebra& a, const parallel::rank_program& p,
                                           parallel::optimizer how, std::span<const std::size_t> workspaces) {
  const auto size_of = [&](value_id v) { return static_cast<std::int64_t>(backend::byte_count(p.graph.type(v))); };
  planned_memory all;
  for (const auto& s : p.steps) {
    if (s.lag > 0 && s.kind != parallel::step_kind::wait) {
      const auto v = s.kind == parallel::step_kind::send ? s.value : p.graph.results(s.node)[0];
      all.aside += bytes{size_of(v) * (s.lag + 1)};
    }
  }
  constexpr bytes alignment{static_cast<std::int64_t>(backend::memory_alignment)};
  all.arena = program::plan_storage(arena_values(a, p, workspaces), alignment).peak;
  for (const auto& c : p.constants) {
    all.constants += bytes{size_of(c.value)};
  }
  for (const auto& w : p.weights) {
    const bool is_made = w.gradient.valid() || w.next.valid();
    all.weights += bytes{size_of(w.next.valid() ? w.next : w.weight.value) * (is_made ? 2 : 1)};
    if (w.gradient.valid()) {
      const auto element = static_cast<std::int64_t>(tensor::size_of(p.graph.type(w.weight.value).element));
      all.states += bytes{2 * w.updated.volume() * element * static_cast<std::int64_t>(state_names(how).size())};
    }
  }
  return all;
}

}  // namespace unity::train

#endif
