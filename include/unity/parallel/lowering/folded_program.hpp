// A program in which some devices represent all: its network, and its unfolded summary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel::detail {

// The network of a folded program, in which some devices represent all.

// A network restricted to representative devices and links.
class folded_network {
 public:
  folded_network(const device_symmetry& s, network& n, const link_orbits& links)
      : symmetry_{s}, network_{n}, links_{links} {}

  [[nodiscard]] std::size_t device_count() const noexcept { return network_.device_count(); }
  [[nodiscard]] std::uint32_t model(hardware::device_id d) const { return network_.model(d); }
  [[nodiscard]] static tasks::resource_id stream(hardware::device_id d) noexcept { return network::stream(d); }
  [[nodiscard]] tasks::resource_id starts(hardware::device_id d) const noexcept { return network_.starts(d); }
  [[nodiscard]] const hardware::topology& topology() const noexcept { return network_.topology(); }
  [[nodiscard]] hardware::collective_start start(hardware::device_id d) const { return network_.start(d); }
  [[nodiscard]] const hardware::collective_ways& collective(hardware::exchange kind,
                                                            std::span<const hardware::device_id> devices) {
    return network_.collective(kind, devices);
  }
  [[nodiscard]] std::optional<picoseconds> measured(hardware::exchange kind, std::size_t ranks, bytes size) const {
    return network_.measured(kind, ranks, size);
  }
  [[nodiscard]] network::node_place place(hardware::device_id d) const { return network_.place(d); }
  [[nodiscard]] bool has(hardware::device_id d) const { return symmetry_.represents(d); }
  // Precondition: the links are admitted.
  [[nodiscard]] std::span<const tasks::hop> hops(hardware::device_id from, hardware::device_id to, bytes volume) {
    return represented(network_.hops(from, to, volume));
  }
  [[nodiscard]] std::span<const tasks::hop> flow_hops(hardware::vertex_id from, hardware::vertex_id to, bytes volume,
                                                      std::int64_t rounds) {
    return represented(network_.flow_hops(from, to, volume, rounds));
  }

 private:
  [[nodiscard]] std::span<const tasks::hop> represented(std::span<const tasks::hop> hops);

  const device_symmetry& symmetry_;
  network& network_;
  const link_orbits& links_;
  std::vector<tasks::hop> hops_{};
};

}  // namespace unity::parallel::detail

namespace unity::parallel {

// Regular. Resources have the numbers of the whole program; those that another one represents have no tasks.
struct folded_program {
  tasks::program program{};
  std::size_t order = 1;                         // of the symmetry
  std::vector<hardware::device_id> device{};     // by device: its representative
  std::vector<tasks::resource_id> resource{};    // by resource: its representative
  std::string why_not_more{};                    // if no symmetry folds it: why the last one that was tried failed
};

// The summary of the whole program from that of the folded one. The critical path is that of the folded program.
[[nodiscard]] simulate::timeline unfolded(const folded_program& f, simulate::timeline t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_PROGRAM)

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::span<const tasks::hop> folded_network::represented(std::span<const tasks::hop> hops) {
  hops_.assign(hops.begin(), hops.end());
  for (auto& h : hops_) {
    h.link = links_.place(h.link).representative;
  }
  return hops_;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE simulate::timeline unfolded(const folded_program& f, simulate::timeline t) {
  const auto folded = t;
  t.tasks = 0;
  for (std::size_t i = 0; i < f.program.fragment_count(); ++i) {
    for (const auto& task : f.program[tasks::fragment_id{i}].tasks) {
      if (!task.resource.valid()) {  // reductions: shared by all devices of a collective; others: of one device
        t.tasks += task.kind == tasks::task_kind::reduce ? 1 : f.order;
      }
    }
  }
  t.communicated = {};
  for (std::size_t r = 0; r < t.resources.size(); ++r) {
    t.resources[r] = folded.resources[f.resource[r].index()];
    t.tasks += t.resources[r].tasks;
    t.communicated += t.resources[r].moved;
  }
  t.memory.resize(f.device.size());
  for (std::size_t d = 0; d < f.device.size(); ++d) {
    t.memory[d] = folded.memory[f.device[d].index()];
  }
  return t;
}

}  // namespace unity::parallel

#endif
