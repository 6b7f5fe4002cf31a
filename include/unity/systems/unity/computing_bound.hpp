// Lower bounds on the computation time of a graph for any division.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::systems {

// A lower bound: forward and backward passes of undivided operators on the fastest kind of device, divided by the
// number of devices; some device computes at least as long. Valid if the parts of an operator together take at least as
// long as the whole, as in a roofline with a launch overhead. Weight updates are excluded, because operators may share
// weights. Needs no meshes, so it is cheap for many graphs. Caches the times of operators.
class computing_bound {
 public:
  computing_bound(const tensor::algebra& a, tensor::durations durations, const std::vector<std::uint32_t>& models,
                  std::size_t devices);

  // Opaque operators, such as boundaries of segments, count as zero. Complexity: a lookup for each operator.
  [[nodiscard]] picoseconds of(const parallel::operator_graph& g);

 private:
  [[nodiscard]] picoseconds least(const parallel::placed_operator& p);

  kind_id opaque_;
  std::int64_t devices_;
  std::vector<parallel::shard_clock> clocks_{};  // one per kind of device
};

// A lower bound: the forward pass along a path and the backward pass along the same path, with each operator at its
// minimum over the meshes. It holds because whatever a task reads was made by some task of the operator before it on
// the path. Weight updates and data movement do not count. Complexity: linear in options and operands of the operators.
[[nodiscard]] picoseconds path_bound(const parallel::operator_graph& g,
                                     const std::vector<std::unique_ptr<mesh_solver>>& solvers);

// A lower bound: the sum over operators of the minimum over meshes, divided by the number of devices; some device
// computes at least as long. Weight updates are excluded, because operators may share weights.
[[nodiscard]] picoseconds work_bound(const parallel::operator_graph& g,
                                     const std::vector<std::unique_ptr<mesh_solver>>& solvers, std::size_t devices);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_COMPUTING_BOUND)

#include <algorithm>
#include <limits>
#include <optional>

#include <unity/parallel/operator_grid.hpp>

namespace unity::systems {

UNITY_INLINE computing_bound::computing_bound(const tensor::algebra& a, tensor::durations durations,
                                              const std::vector<std::uint32_t>& models, std::size_t devices)
    : opaque_{a.kind("opaque")}, devices_{static_cast<std::int64_t>(devices)} {
  for (const auto m : models) {
    clocks_.emplace_back(a, durations, std::vector{m});
  }
}

UNITY_INLINE picoseconds computing_bound::of(const parallel::operator_graph& g) {
  picoseconds sum;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    sum += least(g.placed(i));
  }
  return sum / devices_;
}

UNITY_INLINE picoseconds computing_bound::least(const parallel::placed_operator& p) {
  if (p.dimensions->op.kind == opaque_) {
    return {};
  }
  const auto types = parallel::types_on(*p.dimensions, parallel::undivided_grid(*p.dimensions));
  picoseconds fastest{std::numeric_limits<std::int64_t>::max()};
  for (auto& clock : clocks_) {
    const auto t = types ? clock.of(p, *types) : std::nullopt;
    fastest = std::min(fastest, t ? t->forward + t->backward : picoseconds{});
  }
  return fastest;
}

UNITY_INLINE picoseconds path_bound(const parallel::operator_graph& g,
                                    const std::vector<std::unique_ptr<mesh_solver>>& solvers) {
  constexpr picoseconds most{std::numeric_limits<std::int64_t>::max()};
  std::vector<picoseconds> around(g.size());  // from an operator's first task to the end of its backward pass
  std::vector<picoseconds> behind(g.size());  // the same, or to the end of everything after it if that is longer
  picoseconds longest;
  for (auto i = static_cast<std::uint32_t>(g.size()); i-- > 0;) {
    auto forward = most;
    auto both = most;
    for (const auto& solver : solvers) {
      for (const auto& o : solver->tables().of(g.placed(i)).options) {
        if (detail::placed_axes(o) == 0) {  // times of placed options are shares of an average
          forward = std::min(forward, o.forward);
          both = std::min(both, o.computing - o.updating);
        }
      }
    }
    around[i] += both == most ? picoseconds{} : both;
    behind[i] = std::max(around[i], behind[i] + (forward == most ? picoseconds{} : forward));
    longest = std::max(longest, behind[i]);
    const auto sources = g.sources(i);
    for (std::size_t x = 0; x < sources.size(); ++x) {
      if (const auto from = sources[x].from; from != parallel::operand_source::none) {
        behind[from] = std::max(behind[from], behind[i]);
        around[from] = std::max(around[from], g.placed(i).wanted[x] ? around[i] : picoseconds{});
      }
    }
  }
  return longest;
}

UNITY_INLINE picoseconds work_bound(const parallel::operator_graph& g,
                                    const std::vector<std::unique_ptr<mesh_solver>>& solvers, std::size_t devices) {
  picoseconds sum;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    picoseconds least{std::numeric_limits<std::int64_t>::max()};
    for (const auto& solver : solvers) {
      for (const auto& o : solver->tables().of(g.placed(i)).options) {
        least = std::min(least, o.busy * static_cast<std::int64_t>(solver->mesh().devices.size()));
      }
    }
    sum += least;
  }
  return sum / static_cast<std::int64_t>(devices);
}

}  // namespace unity::systems

#endif
