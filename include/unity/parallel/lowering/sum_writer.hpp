// Writes sums of partials on several devices, and their cotangents, to an edge's fragment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/edge_writer.hpp>
#include <unity/parallel/lowering/exchanges.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// Routes for sums of partials: where they end, and where they are sent from there.

// One block of a value, as a sum of partials.
struct summed_value {
  std::vector<std::uint32_t> producers{};  // tasks, one per partial, with their devices
  std::vector<hardware::device_id> from{};
  std::vector<std::uint32_t> consumers{};  // tasks that need some of the sum, with their devices
  std::vector<hardware::device_id> to{};
  replicas needed{};  // the readers are the consumers
};

// Elements sent from where their sum ends to a device that needs them.
struct sum_route {
  std::int64_t elements = 0;
  std::vector<std::uint32_t> consumers{};  // consumers of some of them, ascending

  friend bool operator==(const sum_route&, const sum_route&) = default;
};

// - Elements needed by exactly the devices with partials: an all-reduce.
// - Other elements: a reduce-scatter sums them along the ring of the devices with partials. Each ends on a device that
//   needs it, in equal shares if there are several, or in equal shares on all if there is none. From there it is sent
//   to the other devices that need it.
struct sum_routes {
  std::vector<hardware::device_id> holders{};  // devices with partials, ascending
  std::vector<hardware::device_id> ring{};     // the same devices, in ring order
  std::int64_t reduced = 0;                    // elements of the all-reduce, and their consumers by device
  std::map<hardware::device_id, std::vector<std::uint32_t>> reduced_for{};
  // For all other elements, by position in the ring: elements sent to the next device, and elements whose sums end
  // there.
  std::vector<std::int64_t> sent{};
  std::vector<std::int64_t> held{};
  // From a position in the ring to a device, possibly itself.
  std::map<std::pair<std::size_t, hardware::device_id>, sum_route> routes{};
};

namespace detail {

// Tasks on a device that need elements of the group, ascending.
[[nodiscard]] std::vector<std::uint32_t> consumers_on(const summed_value& s, const replica_group& g,
                                                      hardware::device_id d);

void scatter(const summed_value& s, const replica_group& g, sum_routes& all);

}  // namespace detail

// Complexity: consumers, times groups of devices, times devices.
[[nodiscard]] inline sum_routes routes_of(const hardware::topology& t, const summed_value& s) {
  sum_routes all;
  all.holders = s.from;
  std::sort(all.holders.begin(), all.holders.end());
  all.holders.erase(std::unique(all.holders.begin(), all.holders.end()), all.holders.end());
  all.ring = hardware::ring_order(t, all.holders);
  all.sent.assign(all.ring.size(), 0);
  all.held.assign(all.ring.size(), 0);
  for (const auto& g : s.needed.groups) {
    if (g.devices == all.holders && all.holders.size() > 1) {  // at most one: groups have different devices
      all.reduced = g.elements;
      for (const auto d : g.devices) {
        all.reduced_for.emplace(d, detail::consumers_on(s, g, d));
      }
    } else {
      detail::scatter(s, g, all);
    }
  }
  for (auto& [ends, way] : all.routes) {
    std::sort(way.consumers.begin(), way.consumers.end());
    way.consumers.erase(std::unique(way.consumers.begin(), way.consumers.end()), way.consumers.end());
  }
  return all;
}

// How messages become tasks, and the size of an element.
struct sum_network {
  network& links;
  exchange_builder& exchanges;
  bool together = true;  // as exchanges; otherwise separately
  bytes element{};
};

// Appends sums to a fragment: all-reduces, and reduce-scatters followed by messages (sum_routes). Cotangents return
// along the same routes: those of all readers of an element are summed, and every device with a partial gets the sum,
// by the same all-reduce, or by messages to where the sums ended and from there around the ring. Adding up is not
// priced. Readers of a reduce-scatter start when all its sums are available.
class sum_writer {
 public:
  sum_writer(tasks::fragment& f, const edge_ends& ends, const sum_network& n)
      : fragment_{f}, ends_{ends}, network_{n} {}

  void add(const summed_value& s);

 private:
  [[nodiscard]] bytes size_of(std::int64_t elements) const { return bytes{elements * network_.element.count()}; }
  [[nodiscard]] std::uint32_t shard() const { return ways_.holders.front().index(); }

  [[nodiscard]] tasks::buffer_ref add_buffer(std::int64_t elements, hardware::device_id d,
                                             const tasks::task_ref& producer) {
    fragment_.buffers.push_back({size_of(elements), d.index(), producer, false});
    return {{}, static_cast<std::uint32_t>(fragment_.buffers.size() - 1)};
  }
  void give(const tasks::buffer_ref& sum, std::span<const std::uint32_t> consumers);
  [[nodiscard]] std::vector<tasks::task_ref> partials() const;
  // Marks the partials as no longer needed after `done`.
  void end_terms(const tasks::task_ref& done);
  // Gives every device with partials the cotangent.
  void give_back(std::int64_t elements, const tasks::task_ref& done);
  // Elements whose sums end on some device, besides those of the all-reduce.
  [[nodiscard]] std::int64_t scattered() const {
    return std::accumulate(ways_.held.begin(), ways_.held.end(), std::int64_t{0});
  }

  void reduce();

  void scatter();
  // Sends around the ring, or in reverse: for the time of a measured reduce-scatter or all-gather, if there is one.
  [[nodiscard]] tasks::task_ref add_rounds(const tasks::task_ref& ready, bool backwards);
  [[nodiscard]] std::span<const message_ends> add_messages(bool backwards);
  // Merges dependencies, because several messages may be one task.
  void wait(const tasks::task_ref& before, const tasks::task_ref& after) { waits_.push_back({before, after, false}); }
  void end_waits();

  void hand_out(const tasks::task_ref& done);
  void hand_back();

  tasks::fragment& fragment_;
  const edge_ends& ends_;
  sum_network network_;
  const summed_value* value_ = nullptr;
  sum_routes ways_{};
  std::vector<routed_message> routed_{};
  std::vector<tasks::dependency> waits_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_SUM_WRITER)

#include <tuple>

namespace unity::parallel::detail {

UNITY_INLINE std::vector<std::uint32_t> consumers_on(const summed_value& s, const replica_group& g,
                                                     hardware::device_id d) {
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < s.consumers.size(); ++i) {
    if (s.to[i] == d && std::binary_search(g.boxes.begin(), g.boxes.end(), s.needed.box_of[i])) {
      all.push_back(s.consumers[i]);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

UNITY_INLINE void scatter(const summed_value& s, const replica_group& g, sum_routes& all) {
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < all.ring.size(); ++i) {
    if (std::binary_search(g.devices.begin(), g.devices.end(), all.ring[i])) {
      owners.push_back(i);
    }
  }
  if (owners.empty()) {
    owners.resize(all.ring.size());
    std::iota(owners.begin(), owners.end(), std::size_t{0});
  }
  const auto count = static_cast<std::int64_t>(owners.size());
  for (std::int64_t k = 0; k < count; ++k) {
    const auto owner = owners[static_cast<std::size_t>(k)];
    const auto elements = g.elements * (k + 1) / count - g.elements * k / count;
    if (elements == 0) {
      continue;
    }
    all.held[owner] += elements;
    for (std::size_t i = 0; i < all.ring.size(); ++i) {
      all.sent[i] += i == owner ? 0 : elements;
    }
    for (const auto d : g.devices) {
      const auto consumers = consumers_on(s, g, d);
      auto& way = all.routes[{owner, d}];
      way.elements += elements;
      way.consumers.insert(way.consumers.end(), consumers.begin(), consumers.end());
    }
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE void sum_writer::add(const summed_value& s) {
  value_ = &s;
  ways_ = routes_of(network_.links.topology(), s);
  if (ways_.reduced > 0) {
    reduce();
  }
  if (!ways_.routes.empty()) {
    scatter();
  }
}

UNITY_INLINE void sum_writer::give(const tasks::buffer_ref& sum, std::span<const std::uint32_t> consumers) {
  for (const auto c : consumers) {
    fragment_.reads.push_back({sum, ends_.read(c)});
    if (ends_.consumer_keeps) {
      fragment_.reads.push_back({sum, ends_.read_back(c)});
    }
  }
}

UNITY_INLINE std::vector<tasks::task_ref> sum_writer::partials() const {
  std::vector<tasks::task_ref> all;
  for (const auto p : value_->producers) {
    all.push_back(ends_.written(p));
  }
  return all;
}

UNITY_INLINE void sum_writer::end_terms(const tasks::task_ref& done) {
  for (const auto p : value_->producers) {
    fragment_.reads.push_back({ends_.result_of(p), done});
  }
}

UNITY_INLINE void sum_writer::give_back(std::int64_t elements, const tasks::task_ref& done) {
  for (const auto d : ways_.holders) {
    const auto cotangent = add_buffer(elements, d, done);
    for (std::size_t i = 0; i < value_->producers.size(); ++i) {
      if (value_->from[i] == d) {
        fragment_.dependencies.push_back({done, ends_.written_back(value_->producers[i]), false});
        fragment_.reads.push_back({cotangent, ends_.written_back(value_->producers[i])});
      }
    }
  }
}

UNITY_INLINE void sum_writer::reduce() {
  const auto size = size_of(ways_.reduced);
  const auto done =
      add_collective(network_.links, fragment_, hardware::exchange::all_reduce, ways_.holders, size, partials());
  end_terms(done);
  std::vector<tasks::task_ref> cotangents;
  for (const auto& [device, consumers] : ways_.reduced_for) {
    give(add_buffer(ways_.reduced, device, done), consumers);
    for (const auto c : consumers) {
      fragment_.dependencies.push_back({done, ends_.read(c), false});
      cotangents.push_back(ends_.read_back(c));
    }
  }
  if (!ends_.is_wanted) {
    return;
  }
  const auto back =
      add_collective(network_.links, fragment_, hardware::exchange::all_reduce, ways_.holders, size, cotangents);
  for (const auto& [device, consumers] : ways_.reduced_for) {
    for (const auto c : consumers) {
      fragment_.reads.push_back({ends_.cotangent_of(c), back});
    }
  }
  give_back(ways_.reduced, back);
}

UNITY_INLINE void sum_writer::scatter() {
  const auto done = add_rounds(add_meeting(fragment_, partials(), shard()), false);
  end_terms(done);
  hand_out(done);
  if (ends_.is_wanted) {
    hand_back();
  }
}

UNITY_INLINE tasks::task_ref sum_writer::add_rounds(const tasks::task_ref& ready, bool backwards) {
  std::vector<flow_message> messages;
  for (std::size_t i = 0; i < ways_.ring.size(); ++i) {
    const auto here = hardware::topology::vertex_of(ways_.ring[i]);
    const auto next = hardware::topology::vertex_of(ways_.ring[(i + 1) % ways_.ring.size()]);
    if (ways_.sent[i] > 0) {
      messages.push_back({backwards ? next : here, backwards ? here : next, size_of(ways_.sent[i])});
    }
  }
  if (messages.empty()) {
    return ready;
  }
  const auto kind = backwards ? hardware::exchange::all_gather : hardware::exchange::reduce_scatter;
  if (const auto measured = network_.links.measured(kind, ways_.ring.size(), size_of(scattered()))) {
    return detail::add_measured(network_.links, fragment_, messages, *measured, ready, shard());
  }
  const auto rounds = static_cast<std::int64_t>(ways_.ring.size() - 1);
  const auto first = ways_.holders.front();
  const auto started = add_start(network_.links, fragment_, {&ready, 1}, first, rounds);
  return add_phase(network_.links, fragment_, messages, rounds, started, shard());
}

UNITY_INLINE std::span<const message_ends> sum_writer::add_messages(bool backwards) {
  routed_.clear();
  for (const auto& [at, way] : ways_.routes) {
    const auto owner = ways_.ring[at.first];
    if (owner != at.second) {
      routed_.push_back({backwards ? at.second : owner, backwards ? owner : at.second, size_of(way.elements)});
    }
  }
  return network_.together ? network_.exchanges.add(network_.links, fragment_, routed_)
                           : network_.exchanges.add_apart(network_.links, fragment_, routed_);
}

UNITY_INLINE void sum_writer::end_waits() {
  const auto rank = [](const tasks::dependency& d) {
    return std::tuple{d.before.fragment.index(), d.before.index, d.after.fragment.index(), d.after.index};
  };
  std::sort(waits_.begin(), waits_.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
  fragment_.dependencies.insert(fragment_.dependencies.end(), waits_.begin(), waits_.end());
  waits_.clear();
}

UNITY_INLINE void sum_writer::hand_out(const tasks::task_ref& done) {
  const auto ends = add_messages(false);
  std::vector<tasks::buffer_ref> sums;
  for (std::size_t i = 0; i < ways_.ring.size(); ++i) {
    sums.push_back(ways_.held[i] > 0 ? add_buffer(ways_.held[i], ways_.ring[i], done) : tasks::buffer_ref{});
  }
  auto message = ends.begin();
  for (const auto& [at, way] : ways_.routes) {
    const bool is_here = ways_.ring[at.first] == at.second;
    const tasks::task_ref last = is_here ? done : tasks::task_ref{{}, message->last};
    if (is_here) {
      give(sums[at.first], way.consumers);
    } else {
      wait(done, {{}, message->first});
      fragment_.reads.push_back({sums[at.first], {{}, message->first}});
      give(add_buffer(way.elements, at.second, last), way.consumers);
      ++message;
    }
    for (const auto c : way.consumers) {
      wait(last, ends_.read(c));
    }
  }
  end_waits();
}

UNITY_INLINE void sum_writer::hand_back() {
  const auto ends = add_messages(true);
  std::vector<tasks::task_ref> contributions;
  std::vector<tasks::buffer_ref> cotangents;  // to be summed
  auto message = ends.begin();
  for (const auto& [at, way] : ways_.routes) {
    const bool is_here = ways_.ring[at.first] == at.second;
    for (const auto c : way.consumers) {
      if (is_here) {
        contributions.push_back(ends_.read_back(c));
        cotangents.push_back(ends_.cotangent_of(c));
      } else {
        wait(ends_.read_back(c), {{}, message->first});
        fragment_.reads.push_back({ends_.cotangent_of(c), {{}, message->first}});
      }
    }
    if (!is_here) {
      const tasks::task_ref last{{}, message->last};
      cotangents.push_back(add_buffer(way.elements, ways_.ring[at.first], last));
      contributions.push_back(last);
      ++message;
    }
  }
  end_waits();
  const auto ready = add_meeting(fragment_, {}, shard());
  for (const auto& c : contributions) {
    wait(c, ready);
  }
  end_waits();
  for (const auto& c : cotangents) {
    fragment_.reads.push_back({c, ready});
  }
  give_back(scattered(), add_rounds(ready, true));
}

}  // namespace unity::parallel

#endif
