// Random configurations that divide results, sums and partials, with copies, on any devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::test {

// sums: results may be partial sums; shares: tasks may share a device.
struct random_kind {
  bool sums = true;
  bool shares = true;
};

inline configuration divided_at_random(const operator_dimensions& o, std::size_t devices, random_engine& random,
                                       random_kind kind) {
  if (o.inputs.empty()) {
    return {};
  }
  configuration c{
      degree_list(o.divisible.size(), 1), {}, degree_list(o.reductions.size(), 1), degree_list(o.groups.size(), 1), 1};
  std::vector<std::int64_t*> axes{&c.copies};
  for (auto* list : {&c.degrees, &c.reductions, &c.partials}) {
    for (std::size_t k = 0; k < list->size() && (kind.sums || list == &c.degrees); ++k) {
      axes.push_back(&(*list)[k]);
    }
  }
  std::size_t tasks = 1;
  for (auto tries = random.below(5); tries > 0; --tries) {
    auto& axis = *axes[random.below(axes.size())];
    const auto before = axis;
    const auto factor = 2 + random.below(2);
    axis *= static_cast<std::int64_t>(factor);
    c.devices.resize(tasks * factor, hardware::device_id{0U});
    if (why_not(o, c, devices).empty()) {
      tasks *= factor;
    } else {
      axis = before;
    }
  }
  const auto grid = c.grid();  // lists of ones are stored empty
  c.reductions = grid.reductions;
  c.partials = grid.partials;
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < devices; ++d) {
    order.push_back(d);
  }
  c.devices.clear();
  for (std::size_t t = 0; t < tasks; ++t) {
    const auto at = kind.shares ? random.below(devices) : t + random.below(devices - t);
    std::swap(order[kind.shares ? at : t], order[at]);
    c.devices.push_back(hardware::device_id{order[kind.shares ? at : t]});
  }
  return c;
}

// A random strategy of a graph; outputs are never partial sums.
inline strategy divided_at_random(const tensor::tensor_graph& g, const graph_dimensions& all, std::size_t devices,
                                  random_engine& random) {
  strategy s;
  for (const auto n : node_ids(g)) {
    bool is_output = false;
    for (const auto v : g.outputs()) {
      is_output = is_output || g.producer(v) == n;
    }
    s.push_back(divided_at_random(all[n], devices, random, {!is_output, random.below(4) == 0}));
  }
  return s;
}

}  // namespace unity::parallel::test
