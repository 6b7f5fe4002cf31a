// The devices and links of a machine as resources of a program, and messages over them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/collective_flows.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// Resources are, in order: a stream per device, with the device's number; the resources of links, as numbered by the
// topology; and a resource per device for the startup of collectives. Refers to the machine.
class network {
 public:
  // Throws: unity::error if the machine has no topology or some devices cannot reach each other.
  explicit network(const hardware::machine& m);

  [[nodiscard]] std::size_t device_count() const noexcept { return machine_->network.device_count(); }
  [[nodiscard]] std::uint32_t model(hardware::device_id d) const { return machine_->network[d].model; }
  [[nodiscard]] static tasks::resource_id stream(hardware::device_id d) noexcept {
    return tasks::resource_id{d.index()};
  }
  [[nodiscard]] tasks::resource_id starts(hardware::device_id d) const noexcept {
    return tasks::resource_id{device_count() + machine_->network.resource_count() + d.index()};
  }
  [[nodiscard]] const hardware::topology& topology() const noexcept { return machine_->network; }
  [[nodiscard]] const hardware::machine& machine() const noexcept { return *machine_; }

  void declare(tasks::program& p) const;

  // The hops of a message between two devices; the startup time of a message (hardware::collective_start) is included
  // in the first latency. Valid until the next call of this or flow_hops. Complexity: linear in the route.
  [[nodiscard]] std::span<const tasks::hop> hops(hardware::device_id from, hardware::device_id to, bytes volume);
  // The hops of a collective's flow, with the latency of each link counted `rounds` times.
  [[nodiscard]] std::span<const tasks::hop> flow_hops(hardware::vertex_id from, hardware::vertex_id to, bytes volume,
                                                      std::int64_t rounds);

  // The algorithms of a collective among devices, computed once per kind and devices.
  [[nodiscard]] const hardware::collective_ways& collective(hardware::exchange kind,
                                                            std::span<const hardware::device_id> devices) {
    return collectives_.of(*machine_, routes_, kind, devices);
  }
  [[nodiscard]] std::optional<picoseconds> measured(hardware::exchange kind, std::size_t ranks, bytes size) const {
    return hardware::measured_time(machine_->links, kind, ranks, size);
  }
  [[nodiscard]] hardware::collective_start start(hardware::device_id d) const {
    return hardware::start_of(*machine_, d);
  }

  [[nodiscard]] std::size_t link_count() const noexcept { return machine_->network.link_count(); }
  // The links of a route, in order. Valid until the next call.
  struct route_link {
    tasks::resource_id resource{};
    std::uint32_t rate = 0;  // index of the bandwidth; equal for equal bandwidths
    picoseconds latency{};   // the first link's includes the startup of a message
    hardware::link_id id{};

    friend bool operator==(const route_link&, const route_link&) = default;
  };
  [[nodiscard]] std::span<const route_link> route(hardware::device_id from, hardware::device_id to);
  // The route of a collective's flow; a switch is reached by a single link.
  [[nodiscard]] std::span<const route_link> route(hardware::vertex_id from, hardware::vertex_id to);
  // The time of a transfer over a link.
  [[nodiscard]] tasks::hop hop(const route_link& l, bytes volume) const {
    return {l.resource, time_of(volume, l), std::max(l.latency, picoseconds{1})};
  }
  // The node of a device, where nodes are numbered in the order of their first devices, and the index of the device
  // within its node.
  struct node_place {
    std::uint32_t node = 0;
    std::uint32_t place = 0;

    friend auto operator<=>(const node_place&, const node_place&) = default;
  };
  [[nodiscard]] node_place place(hardware::device_id d) const { return places_[d.index()]; }
  // Whether a program contains tasks of the device: always.
  [[nodiscard]] static bool has(hardware::device_id) noexcept { return true; }

 private:
  // Throws: unity::error if the time is too long to simulate.
  [[nodiscard]] picoseconds time_of(bytes volume, const route_link& l) const;

  struct known_route {
    std::uint32_t first = 0;
    std::uint32_t count = 0;  // 0: not computed yet
  };

  void find_places();
  [[nodiscard]] route_link link_of(hardware::link_id l) const;
  // The time of a transfer over a link of that rate, cached for the last volume.
  [[nodiscard]] picoseconds held_time(bytes volume, const route_link& l);

  const hardware::machine* machine_;
  hardware::route_table routes_{};
  hardware::known_collectives collectives_{};
  std::vector<std::int64_t> rates_{};  // distinct
  std::vector<known_route> known_{};   // [from][to]
  std::vector<route_link> links_{};
  route_link direct_{};  // the last one to or from a switch
  std::vector<node_place> places_{};
  std::vector<tasks::hop> hops_{};
  bytes volume_{-1};
  std::vector<picoseconds> held_{};  // by rate, for the last volume; 0: not computed
};

// Total bytes of a fragment's messages, regardless of the number of links.
[[nodiscard]] bytes message_bytes(const tasks::fragment& f);

[[nodiscard]] bytes message_bytes(const tasks::program& p);

// Lowers collectives to tasks on links.

// A message between vertices (devices or switches) for all rounds of a phase.
struct flow_message {
  hardware::vertex_id from{};
  hardware::vertex_id to{};
  bytes volume{};

  friend bool operator==(const flow_message&, const flow_message&) = default;
};

// The device of a flow: its source, or its target if the source is a switch.
[[nodiscard]] inline hardware::device_id device_of(const hardware::topology& t, hardware::vertex_id from,
                                                   hardware::vertex_id to) {
  return hardware::device_id{t.is_device(from) ? from.index() : to.index()};
}

// Effects: adds a task without duration or resource that runs after all of these.
[[nodiscard]] inline tasks::task_ref add_meeting(tasks::fragment& f, std::span<const tasks::task_ref> all,
                                                 std::uint32_t shard) {
  const tasks::task_ref met{{}, f.add({{}, {}, {}, {}, tasks::task_kind::reduce, shard})};
  for (const auto& t : all) {
    f.dependencies.push_back({t, met, false});
  }
  return met;
}

// Effects: adds a task for the startup time of a collective with this many rounds, which runs after all of `all` and
// before any transfer. Collectives with the same first device start one after another, as on one stream.
template <class Network>
[[nodiscard]] tasks::task_ref add_start(const Network& n, tasks::fragment& f, std::span<const tasks::task_ref> all,
                                        hardware::device_id first, std::int64_t rounds) {
  const auto started = add_meeting(f, all, first.index());
  const auto each = n.start(first);
  const picoseconds takes{each.start.count() + rounds * each.round.count()};
  if (takes > picoseconds{}) {
    f.tasks[started.index].duration = takes;
    f.tasks[started.index].resource = n.starts(first);
  }
  return started;
}

// Effects: adds messages after `ready`, with the latency of each link counted `rounds` times. Returns the task after
// them. Simultaneously ready messages on a link are ordered by the index of their device within its node, then by the
// number of preceding links, then as listed.
template <class Network>
[[nodiscard]] tasks::task_ref add_phase(Network& n, tasks::fragment& f, std::span<const flow_message> messages,
                                        std::int64_t rounds, const tasks::task_ref& ready, std::uint32_t shard) {
  std::vector<tasks::task_ref> arrivals(messages.size(), ready);
  bool goes_on = true;
  for (std::size_t h = 0; goes_on; ++h) {  // all first hops, then all second ones: this order breaks ties
    goes_on = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const auto& m = messages[i];
      const auto hops = n.flow_hops(m.from, m.to, m.volume, rounds);
      if (h < hops.size()) {
        const auto place = n.place(device_of(n.topology(), m.from, m.to)).place;
        const tasks::task task{hops[h].link, hops[h].duration,           hops[h].latency,
                               m.volume,     tasks::task_kind::transfer, place};
        const tasks::task_ref next{{}, f.add(task)};
        f.dependencies.push_back({arrivals[i], next, h > 0});
        arrivals[i] = next;
        goes_on = true;
      }
    }
  }
  return add_meeting(f, arrivals, shard);
}

namespace detail {

// The messages of a phase from devices for which network.has() holds.
template <class Network>
void find_messages(const Network& n, const hardware::collective_phase& phase, const hardware::collective_flows& all,
                   bytes size, std::vector<flow_message>& messages) {
  messages.clear();
  for (const auto& flow : phase.flows) {
    if (n.has(device_of(n.topology(), flow.from, flow.to))) {
      messages.push_back({flow.from, flow.to, all.volume(size, flow.parts)});
    }
  }
}

// Occupies the first link of each message for the measured time, regardless of the links after them.
template <class Network>
[[nodiscard]] tasks::task_ref add_measured(Network& n, tasks::fragment& f, std::span<const flow_message> messages,
                                           picoseconds takes, const tasks::task_ref& ready, std::uint32_t shard) {
  std::vector<tasks::task_ref> arrivals{ready};
  for (const auto& m : messages) {
    const auto link = n.flow_hops(m.from, m.to, m.volume, 1).front().link;
    const auto place = n.place(device_of(n.topology(), m.from, m.to)).place;
    arrivals.push_back({{}, f.add({link, takes, {}, m.volume, tasks::task_kind::transfer, place})});
    f.dependencies.push_back({ready, arrivals.back(), false});
  }
  return add_meeting(f, arrivals, shard);
}

}  // namespace detail

// Effects: adds a collective of that size (as hardware::collective defines it) among devices, which starts after all of
// `before`. Returns the task after which it is done. Uses the algorithm that the closed form chooses for the size. Each
// flow is one message that stands for all its rounds: the time is the same if rounds are equally long and all links
// equally loaded, with k messages for a ring instead of 2k(k-1). If the machine has measurements of the exchange, only
// the links of the first phase are busy, for the measured time. Only devices for which network.has() holds send.
// Preconditions: several devices, ascending.
template <class Network>
[[nodiscard]] tasks::task_ref add_collective(Network& n, tasks::fragment& f, hardware::exchange kind,
                                             std::span<const hardware::device_id> devices, bytes size,
                                             std::span<const tasks::task_ref> before) {
  const auto first = devices.front();
  const auto& ways = n.collective(kind, devices);
  std::vector<flow_message> messages;
  if (const auto measured = n.measured(kind, devices.size(), size)) {
    const auto& ring = ways.ways.front().flows;
    detail::find_messages(n, ring.phases.front(), ring, size, messages);
    return detail::add_measured(n, f, messages, *measured, add_meeting(f, before, first.index()), first.index());
  }
  const auto& flows = ways.at(size).flows;
  std::int64_t rounds = 0;
  for (const auto& phase : flows.phases) {
    rounds += phase.rounds;
  }
  auto ready = add_start(n, f, before, first, rounds);
  for (const auto& phase : flows.phases) {
    detail::find_messages(n, phase, flows, size, messages);
    ready = add_phase(n, f, messages, phase.rounds, ready, first.index());
  }
  return ready;
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_NETWORK)

#include <map>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel {

UNITY_INLINE network::network(const hardware::machine& m) : machine_{&m} {
  if (m.network.empty()) {
    throw error{fmt::format("machine {}", m.name), "no topology", "devices and what connects them"};
  }
  routes_ = hardware::route_table{m.network, fmt::format("machine {}", m.name)};
  known_.resize(device_count() * device_count());
  for (std::size_t l = 0; l < m.network.link_count(); ++l) {
    rates_.push_back(m.network.bytes_per_second(hardware::link_id{l}));
  }
  std::sort(rates_.begin(), rates_.end());
  rates_.erase(std::unique(rates_.begin(), rates_.end()), rates_.end());
  held_.resize(rates_.size());
  find_places();
}

UNITY_INLINE void network::declare(tasks::program& p) const {
  const auto& t = machine_->network;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    p.add_resource({t.devices()[d].name, tasks::resource_kind::stream, static_cast<tasks::device_index>(d)});
  }
  std::vector<std::string> names(t.resource_count());
  for (std::size_t l = 0; l < t.link_count(); ++l) {
    auto& name = names[t.resource(hardware::link_id{l}).index()];
    name = name.empty() ? t.name(hardware::link_id{l}) : name;
  }
  for (auto& name : names) {
    p.add_resource({std::move(name), tasks::resource_kind::link, 0});
  }
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    p.add_resource({fmt::format("{} collectives", t.devices()[d].name), tasks::resource_kind::link,
                    static_cast<tasks::device_index>(d)});
  }
}

UNITY_INLINE picoseconds network::held_time(bytes volume, const route_link& l) {
  if (volume != volume_) {
    volume_ = volume;
    std::fill(held_.begin(), held_.end(), picoseconds{0});
  }
  auto& held = held_[l.rate];
  if (held == picoseconds{0}) {
    held = time_of(volume, l);
  }
  return held;
}

UNITY_INLINE std::span<const tasks::hop> network::hops(hardware::device_id from, hardware::device_id to, bytes volume) {
  UNITY_EXPECTS(from != to, "a message to another device");
  hops_.clear();
  for (const auto& l : route(from, to)) {
    hops_.push_back({l.resource, held_time(volume, l), std::max(l.latency, picoseconds{1})});
  }
  return hops_;
}

UNITY_INLINE std::span<const tasks::hop> network::flow_hops(hardware::vertex_id from, hardware::vertex_id to,
                                                            bytes volume, std::int64_t rounds) {
  hops_.clear();
  for (const auto& l : route(from, to)) {
    const auto latency = rounds * machine_->network.latency(l.id);
    hops_.push_back({l.resource, held_time(volume, l), std::max(latency, picoseconds{1})});
  }
  return hops_;
}

UNITY_INLINE auto network::link_of(hardware::link_id l) const -> route_link {
  const auto& t = machine_->network;
  const auto rate = std::find(rates_.begin(), rates_.end(), t.bytes_per_second(l));
  return {tasks::resource_id{device_count() + t.resource(l).index()}, static_cast<std::uint32_t>(rate - rates_.begin()),
          t.latency(l), l};
}

UNITY_INLINE auto network::route(hardware::device_id from, hardware::device_id to) -> std::span<const route_link> {
  auto& known = known_[from.index() * device_count() + to.index()];
  if (known.count == 0) {
    known.first = static_cast<std::uint32_t>(links_.size());
    for (const auto l : routes_.between(machine_->network, from, to)) {
      links_.push_back(link_of(l));
    }
    links_[known.first].latency += start(from).start;
    known.count = static_cast<std::uint32_t>(links_.size()) - known.first;
  }
  return {links_.data() + known.first, known.count};
}

UNITY_INLINE auto network::route(hardware::vertex_id from, hardware::vertex_id to) -> std::span<const route_link> {
  const auto& t = machine_->network;
  if (t.is_device(from) && t.is_device(to)) {
    return route(hardware::device_id{from.index()}, hardware::device_id{to.index()});
  }
  direct_ = link_of(t.link_between(from, to).value());
  return {&direct_, 1};
}

UNITY_INLINE picoseconds network::time_of(bytes volume, const route_link& l) const {
  const auto t = std::max(hardware::transfer_time(volume, rates_[l.rate]), picoseconds{1});
  if (t > tasks::longest_task) {
    const auto what = fmt::format("{} bytes over {}", volume.count(), machine_->network.name(l.id));
    throw error{fmt::format("machine {}", machine_->name), fmt::format("{} would take {:f} s", what, to_seconds(t)),
                "at most 100 s; is the link's bandwidth right?"};
  }
  return t;
}

UNITY_INLINE void network::find_places() {
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> nodes;  // by number: its index, and devices so far
  for (const auto& d : machine_->network.devices()) {
    auto& [node, count] = nodes.try_emplace(d.node, static_cast<std::uint32_t>(nodes.size()), 0U).first->second;
    places_.push_back({node, count++});
  }
}

UNITY_INLINE bytes message_bytes(const tasks::fragment& f) {
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

UNITY_INLINE bytes message_bytes(const tasks::program& p) {
  bytes sum{};
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    sum += message_bytes(p[tasks::fragment_id{f}]);
  }
  return sum;
}

}  // namespace unity::parallel

#endif
