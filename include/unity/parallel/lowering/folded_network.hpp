// The network of a folded program, in which some devices represent all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective_cost.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/program/fragment.hpp>

namespace unity::parallel::detail {

// A network restricted to representative devices and links.
class folded_network {
 public:
  folded_network(const device_symmetry& s, network& n, const link_orbits& links)
      : symmetry_{s}, network_{n}, links_{links} {}

  [[nodiscard]] std::size_t device_count() const noexcept { return network_.device_count(); }
  [[nodiscard]] std::uint32_t model(machine::device_id d) const { return network_.model(d); }
  [[nodiscard]] static program::resource_id stream(machine::device_id d) noexcept { return network::stream(d); }
  [[nodiscard]] program::resource_id starts(machine::device_id d) const noexcept { return network_.starts(d); }
  [[nodiscard]] const machine::topology& topology() const noexcept { return network_.topology(); }
  [[nodiscard]] machine::collective_start start(machine::device_id d) const { return network_.start(d); }
  [[nodiscard]] const machine::collective_ways& collective(machine::exchange kind,
                                                           std::span<const machine::device_id> devices) {
    return network_.collective(kind, devices);
  }
  [[nodiscard]] std::optional<picoseconds> measured(machine::exchange kind, std::size_t ranks, bytes size) const {
    return network_.measured(kind, ranks, size);
  }
  [[nodiscard]] network::node_place place(machine::device_id d) const { return network_.place(d); }
  [[nodiscard]] bool has(machine::device_id d) const { return symmetry_.represents(d); }
  // Precondition: the links are admitted.
  [[nodiscard]] std::span<const program::hop> hops(machine::device_id from, machine::device_id to, bytes volume) {
    return represented(network_.hops(from, to, volume));
  }
  [[nodiscard]] std::span<const program::hop> flow_hops(machine::vertex_id from, machine::vertex_id to, bytes volume,
                                                        std::int64_t rounds) {
    return represented(network_.flow_hops(from, to, volume, rounds));
  }

 private:
  [[nodiscard]] std::span<const program::hop> represented(std::span<const program::hop> hops);

  const device_symmetry& symmetry_;
  network& network_;
  const link_orbits& links_;
  std::vector<program::hop> hops_{};
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_NETWORK)

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::span<const program::hop> folded_network::represented(std::span<const program::hop> hops) {
  hops_.assign(hops.begin(), hops.end());
  for (auto& h : hops_) {
    h.link = links_.place(h.link).representative;
  }
  return hops_;
}

}  // namespace unity::parallel::detail

#endif
