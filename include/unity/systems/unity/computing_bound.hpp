// What computing a graph takes at least, however it is divided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::systems {

// Forward and backward of each operator as a whole on the fastest kind of device, shared evenly by all devices: some
// device computes no less. Holds where the parts of an operator take together no less than the whole, as they do by a
// roofline with a cost of each launch. Updates do not count: operators may share weights. Without meshes, so that it is
// cheap for graphs of which many are met. Keeps the times of operators.
class computing_bound {
 public:
  computing_bound(const tensor::algebra& a, tensor::durations durations, const std::vector<std::uint32_t>& models,
                  std::size_t devices);

  // Opaque operators, as boundaries of segments are, take nothing. Complexity: a look at each operator.
  [[nodiscard]] picoseconds of(const parallel::operator_graph& g);

 private:
  [[nodiscard]] std::int64_t least(const parallel::placed_operator& p);

  kind_id opaque_;
  std::int64_t devices_;
  std::vector<parallel::shard_clock> clocks_{};  // one for each kind of device
};

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
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    sum += least(g.placed(i));
  }
  return picoseconds{sum / devices_};
}

UNITY_INLINE std::int64_t computing_bound::least(const parallel::placed_operator& p) {
  if (p.dimensions->op.kind == opaque_) {
    return 0;
  }
  const auto types = parallel::types_on(*p.dimensions, parallel::undivided_grid(*p.dimensions));
  auto fastest = std::numeric_limits<std::int64_t>::max();
  for (auto& clock : clocks_) {
    const auto t = types ? clock.of(p, *types) : std::nullopt;
    fastest = std::min(fastest, t ? (t->forward + t->backward).count() : 0);
  }
  return fastest;
}

}  // namespace unity::systems

#endif
