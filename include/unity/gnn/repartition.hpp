// Decides whether vertices should move between devices: only if the gain is worth the cost.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_costs.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// The cost of moving. Regular.
struct move_cost {
  double seconds_per_vertex = 0;  // seconds per vertex for its data, such as features
  double seconds_per_edge = 0;    // seconds per in-edge
  double seconds_each = 0;        // fixed seconds per move, such as preparing kernels again

  friend bool operator==(const move_cost&, const move_cost&) = default;
};

// When to replace a partition. Regular.
struct repartition_rule {
  double least_gain = 0.05;  // smallest gain, as a share of the time of the remaining iterations
  double iterations = 100;   // iterations for which the next partition would be used
  move_cost moving{};

  friend bool operator==(const repartition_rule&, const repartition_rule&) = default;
};

// Regular.
struct repartition_decision {
  bool is_worth_it = false;
  double seconds_now = 0;     // predicted seconds of an iteration
  double seconds_next = 0;    // the same, under the other partition
  double seconds_moving = 0;  // once
  vertex_id moved = 0;        // vertices that change their device

  friend bool operator==(const repartition_decision&, const repartition_decision&) = default;
};

// The ranges that each part would have to receive, at most two per part, in order. Precondition: equal numbers of
// vertices and parts.
[[nodiscard]] std::vector<std::vector<vertex_range>> received_ranges(const vertex_partition& now,
                                                                     const vertex_partition& next);

// Whether to switch to `next`: if (now - next) * iterations - moving > least_gain * now * iterations. Devices receive
// at the same time, so the device that receives most determines the cost of moving. Complexity: linear in the parts,
// times that of range_costs.
// Throws: unity::error if the partitions and the costs have different numbers of vertices or parts.
[[nodiscard]] repartition_decision judge_repartition(const range_costs& costs, csr_view g, const vertex_partition& now,
                                                     const vertex_partition& next, const repartition_rule& rule);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_REPARTITION)

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

UNITY_INLINE std::vector<std::vector<vertex_range>> received_ranges(const vertex_partition& now,
                                                                    const vertex_partition& next) {
  UNITY_EXPECTS(now.parts() == next.parts() && now.vertices() == next.vertices(), "partitions of the same vertices");
  std::vector<std::vector<vertex_range>> all(now.parts());
  for (std::size_t k = 0; k < now.parts(); ++k) {
    const auto own = now.range(k);
    const auto wanted = next.range(k);
    const vertex_range below{wanted.begin, std::min(wanted.end, own.begin)};
    const vertex_range above{std::max(wanted.begin, own.end), wanted.end};
    for (const auto& r : {below, above}) {
      if (r.begin < r.end) {
        all[k].push_back(r);
      }
    }
  }
  return all;
}

UNITY_INLINE repartition_decision judge_repartition(const range_costs& costs, csr_view g, const vertex_partition& now,
                                                    const vertex_partition& next, const repartition_rule& rule) {
  for (const auto* p : {&now, &next}) {
    if (p->parts() != costs.parts() || p->vertices() != costs.vertices() || g.vertices() != costs.vertices()) {
      throw error{"partition", fmt::format("{} parts of {} vertices", p->parts(), p->vertices()),
                  fmt::format("{} parts of {} vertices", costs.parts(), costs.vertices())};
    }
  }
  repartition_decision d{.seconds_now = costs.seconds(now), .seconds_next = costs.seconds(next)};
  for (const auto& ranges : received_ranges(now, next)) {
    double seconds = ranges.empty() ? 0 : rule.moving.seconds_each;
    for (const auto& r : ranges) {
      d.moved += r.size();
      seconds += rule.moving.seconds_per_vertex * r.size() +
                 rule.moving.seconds_per_edge * static_cast<double>(g.offsets()[r.end] - g.offsets()[r.begin]);
    }
    d.seconds_moving = std::max(d.seconds_moving, seconds);
  }
  const auto gain = (d.seconds_now - d.seconds_next) * rule.iterations - d.seconds_moving;
  d.is_worth_it = gain > rule.least_gain * d.seconds_now * rule.iterations;
  return d;
}

}  // namespace unity::gnn

#endif
