// The groups of devices that a plan statement makes of a machine, and what their exchanges take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective_cost.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/machine.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/strategies/plan_statement.hpp>

namespace unity::parallel {

// Along what an exchange goes: a tensor-parallel group, a data-parallel one, from each stage to the next or back,
// between the first and the last stage, or among all devices.
enum class group_kind : std::uint8_t { tensor, data, onward, backward, ends, all };
inline constexpr std::size_t group_kind_count = 6;

// A device by its stage, its data-parallel group and its place in the tensor-parallel one.
struct group_place {
  std::int64_t stage = 0;
  std::int64_t data = 0;
  std::int64_t tensor = 0;

  friend auto operator<=>(const group_place&, const group_place&) = default;
};

// Times are those of all groups of a kind at the same time, by the closed form of the machine's collectives over their
// real members, or as measured: so they are the same for all devices of a stage. A device's own first link is busy as
// long. Refers to the machine.
class statement_groups {
 public:
  // Throws: unity::error where the degrees do not multiply to the devices, devices or nodes differ, or tensor-parallel
  // groups do not fit into nodes.
  statement_groups(const plan_statement& s, const machine::machine& m);

  [[nodiscard]] machine::device_id device(const group_place& p) const {
    return devices_[static_cast<std::size_t>((p.stage * statement_.data + p.data) * statement_.tensor + p.tensor)];
  }
  // Of so many bytes, as machine::collective counts them; messages are those of each device.
  [[nodiscard]] picoseconds time(group_kind group, machine::exchange how, bytes size);
  // What a device holds meanwhile.
  [[nodiscard]] machine::resource_id link(group_kind group, const group_place& p);

 private:
  using members = std::vector<machine::device_id>;

  [[nodiscard]] std::vector<members> groups(group_kind kind) const;
  // Of a message, the closed form of all of them.
  [[nodiscard]] const std::vector<machine::common_way>& ways(group_kind group, machine::exchange how);
  [[nodiscard]] members group_of(group_kind kind, const group_place& p) const;

  plan_statement statement_;
  const machine::machine* machine_;
  machine::route_table routes_{};
  members devices_{};  // node by node
  std::map<std::pair<group_kind, machine::exchange>, std::vector<machine::common_way>> ways_{};
  std::map<std::tuple<group_kind, machine::exchange, bytes>, picoseconds> times_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_GROUPS)

#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/machine/collective_fit.hpp>
#include <unity/machine/collective_flows.hpp>
#include <unity/machine/device_mesh.hpp>

namespace unity::parallel {

UNITY_INLINE statement_groups::statement_groups(const plan_statement& s, const machine::machine& m)
    : statement_{s}, machine_{&m} {
  check(s, m.network.device_count());
  const auto nodes = machine::devices_by_node(m.network);
  for (const auto& node : nodes) {
    if (node.size() != nodes[0].size()) {
      throw error{"plan", fmt::format("nodes of {} and {} devices", nodes[0].size(), node.size()),
                  "nodes that are alike"};
    }
    for (const auto d : node) {
      if (m.network[d].model != m.network[nodes[0][0]].model) {
        throw error{"plan", "devices of several kinds", "devices that are alike"};
      }
    }
    devices_.insert(devices_.end(), node.begin(), node.end());
  }
  if (nodes[0].size() % static_cast<std::size_t>(s.tensor) != 0) {
    throw error{"plan", fmt::format("t={} on nodes of {} devices", s.tensor, nodes[0].size()), "a divisor of them"};
  }
  routes_ = machine::route_table{m.network, fmt::format("machine {}", m.name)};
}

UNITY_INLINE statement_groups::members statement_groups::group_of(group_kind kind, const group_place& p) const {
  members all;
  const auto stages = statement_.pipeline;
  switch (kind) {
    case group_kind::tensor:
      for (std::int64_t i = 0; i < statement_.tensor; ++i) {
        all.push_back(device({p.stage, p.data, i}));
      }
      break;
    case group_kind::data:
      for (std::int64_t i = 0; i < statement_.data; ++i) {
        all.push_back(device({p.stage, i, p.tensor}));
      }
      break;
    case group_kind::onward: all = {device(p), device({(p.stage + 1) % stages, p.data, p.tensor})}; break;
    case group_kind::backward: all = {device(p), device({(p.stage + stages - 1) % stages, p.data, p.tensor})}; break;
    case group_kind::ends: all = {device({0, p.data, p.tensor}), device({stages - 1, p.data, p.tensor})}; break;
    case group_kind::all: all = devices_; break;
  }
  return all;
}

UNITY_INLINE std::vector<statement_groups::members> statement_groups::groups(group_kind kind) const {
  if (kind == group_kind::all) {
    return {devices_};
  }
  std::vector<members> all;
  const bool wraps = statement_.interleave > 1;
  for (std::int64_t k = 0; k < statement_.pipeline; ++k) {
    const bool is_end =
        (kind == group_kind::onward && k + 1 == statement_.pipeline) || (kind == group_kind::backward && k == 0);
    for (std::int64_t i = 0; i < statement_.data && (kind != group_kind::ends || k == 0) && (wraps || !is_end); ++i) {
      for (std::int64_t j = 0; j < statement_.tensor; ++j) {
        if ((kind != group_kind::tensor || j == 0) && (kind != group_kind::data || i == 0)) {
          all.push_back(group_of(kind, {k, i, j}));
        }
      }
    }
  }
  return all;
}

UNITY_INLINE const std::vector<machine::common_way>& statement_groups::ways(group_kind group, machine::exchange how) {
  auto& found = ways_[{group, how}];
  if (!found.empty()) {
    return found;
  }
  const auto all = groups(group);
  if (how != machine::exchange::message) {
    found = machine::common_ways(*machine_, routes_, how, all);
    return found;
  }
  machine::collective_flows flows{1, {{1, {}}}};
  for (const auto& g : all) {
    flows.phases[0].flows.push_back({machine::topology::vertex_of(g[0]), machine::topology::vertex_of(g[1]), 1});
  }
  const auto start = machine::start_of(*machine_, devices_[0]);
  const auto line = machine::line_of(machine_->network, routes_, {&flows, 1}, start);
  found.push_back({machine::collective_algorithm::ring, line, {}});
  return found;
}

UNITY_INLINE picoseconds statement_groups::time(group_kind group, machine::exchange how, bytes size) {
  const auto [known, is_new] = times_.try_emplace({group, how, size});
  if (is_new) {
    const auto line = [](const machine::common_way& w) { return w.line; };
    const auto measured = machine::measured_time(machine_->links, how, group_of(group, {}).size(), size);
    known->second = measured ? *measured : machine::chosen_way(ways(group, how), size, line).line(size);
  }
  return known->second;
}

UNITY_INLINE machine::resource_id statement_groups::link(group_kind group, const group_place& p) {
  const auto own = device(p);
  const auto& t = machine_->network;
  const auto all = group_of(group, p);
  const auto first = std::find(all.begin(), all.end(), own);
  auto to = all[static_cast<std::size_t>(first - all.begin() + 1) % all.size()];
  for (const auto d : all) {
    to = t[d].node != t[own].node && t[to].node == t[own].node ? d : to;
  }
  return t.resource(*routes_.between(t, own, to).begin());
}

}  // namespace unity::parallel

#endif
