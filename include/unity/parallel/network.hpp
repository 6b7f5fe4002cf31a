// The devices and links of a machine as resources of a program, and messages over them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/machine.hpp>
#include <unity/machine/routes.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

// Streams come first, one per device with its number; then what links wait for, as the topology numbers it; then a
// resource on which devices agree that all are ready, which takes a picosecond. Refers to the machine.
class network {
 public:
  // Throws: unity::error where the machine has no topology or devices do not reach each other.
  explicit network(const machine::machine& m) : machine_{&m} {
    if (m.network.empty()) {
      throw error{"machine " + m.name, "no topology", "devices and what connects them"};
    }
    routes_ = machine::route_table{m.network, "machine " + m.name};
  }

  [[nodiscard]] std::size_t device_count() const noexcept { return machine_->network.device_count(); }
  [[nodiscard]] std::uint32_t model(machine::device_id d) const { return machine_->network[d].model; }
  [[nodiscard]] static program::resource_id stream(machine::device_id d) noexcept { return program::resource_id{d.index()}; }
  [[nodiscard]] program::resource_id meeting() const noexcept {
    return program::resource_id{device_count() + machine_->network.resource_count()};
  }

  void declare(program::program& p) const {
    const auto& t = machine_->network;
    for (std::size_t d = 0; d < t.device_count(); ++d) {
      p.add_resource({t.devices()[d].name, program::resource_kind::stream, static_cast<program::device_index>(d)});
    }
    std::vector<std::string> names(t.resource_count());
    for (std::size_t l = 0; l < t.link_count(); ++l) {
      auto& name = names[t.resource(machine::link_id{l}).index()];
      name = name.empty() ? t.name(machine::link_id{l}) : name;
    }
    for (auto& name : names) {
      p.add_resource({std::move(name), program::resource_kind::link, 0});
    }
    p.add_resource({"synchronization", program::resource_kind::link, 0});
  }

  // The hops of a message between two devices, each link's latency counted `rounds` times.
  [[nodiscard]] std::span<const program::hop> hops(machine::device_id from, machine::device_id to, bytes volume, std::int64_t rounds = 1) {
    UNITY_EXPECTS(from != to, "a message to another device");
    const auto& t = machine_->network;
    hops_.clear();
    for (const auto l : routes_.between(t, from, to)) {
      const auto held = std::max(machine::transfer_time(volume, t.bytes_per_second(l)), picoseconds{1});
      const auto latency = std::max(t.latency(l).count() * rounds, std::int64_t{1});
      hops_.push_back({program::resource_id{device_count() + t.resource(l).index()}, held, picoseconds{latency}});
    }
    return hops_;
  }

 private:
  const machine::machine* machine_;
  machine::route_table routes_{};
  std::vector<program::hop> hops_{};
};

// Bytes that a fragment's messages carry; over how many links they go does not matter.
[[nodiscard]] inline bytes message_bytes(const program::fragment& f) {
  std::vector<bool> goes_on(f.tasks.size());
  for (const auto& d : f.dependencies) {
    if (d.cut_through && !d.after.fragment.valid()) {
      goes_on[d.after.index] = true;
    }
  }
  bytes sum{};
  for (std::size_t i = 0; i < f.tasks.size(); ++i) {
    sum += goes_on[i] ? bytes{} : f.tasks[i].volume;
  }
  return sum;
}

[[nodiscard]] inline bytes message_bytes(const program::program& p) {
  bytes sum{};
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    sum += message_bytes(p.code(program::fragment_id{f}));
  }
  return sum;
}

}  // namespace unity::parallel
