// A plan for any graph: optimal within the limits of the dynamic program, otherwise with a proved bound.
#pragma once

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/bounded_memory_search.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/placement/memory_program.hpp>

namespace unity::placement {

struct memory_planning {
  memory_program_limits program{};
  memory_search_options search{};
};

struct found_memory_plan {
  memory_plan plan{};
  memory_traffic traffic{};
  bytes bound{};               // no plan loads less
  bool is_of_program = false;  // from the dynamic program; otherwise from the bounded search

  [[nodiscard]] bool is_best() const { return traffic.loaded == bound; }
};

// Complexity: as optimal_memory_plan within its limits, otherwise as bounded_memory_search.
// Throws: unity::error that states the least capacity if the given one is below it.
[[nodiscard]] found_memory_plan find_memory_plan(const memory_graph& g, bytes capacity,
                                                 const memory_planning& how = {});

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_FIND_MEMORY_PLAN)

#include <utility>

namespace unity::placement {

UNITY_INLINE found_memory_plan find_memory_plan(const memory_graph& g, bytes capacity, const memory_planning& how) {
  found_memory_plan found;
  if (auto best = optimal_memory_plan(g, capacity, how.program)) {
    found.plan = std::move(*best);
    found.traffic = replay(g, found.plan, capacity);
    found.bound = found.traffic.loaded;
    found.is_of_program = true;
  } else {
    auto searched = bounded_memory_search(g, capacity, how.search);
    found.plan = std::move(searched.plan);
    found.traffic = replay(g, found.plan, capacity);
    found.bound = searched.bound;
  }
  return found;
}

}  // namespace unity::placement

#endif
