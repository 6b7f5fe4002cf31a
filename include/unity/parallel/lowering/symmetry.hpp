// Symmetries of a machine: permutations of equivalent devices, and their effect on links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// A permutation of devices with cycles of equal length, which is its order. The first device of each cycle represents
// it. Regular.
class device_symmetry {
 public:
  // image: by device. nullopt if it is not a permutation, or cycles differ in length.
  [[nodiscard]] static std::optional<device_symmetry> of(std::span<const hardware::device_id> image);

  [[nodiscard]] std::size_t order() const noexcept { return order_; }
  [[nodiscard]] std::size_t device_count() const noexcept { return places_.size(); }
  // The image after `times` applications. Complexity: constant, as for all below.
  [[nodiscard]] hardware::device_id image(hardware::device_id d, std::size_t times = 1) const {
    const auto& p = places_[d.index()];
    return cycles_[p.first + (p.place + times) % order_];
  }
  [[nodiscard]] hardware::device_id representative(hardware::device_id d) const {
    return cycles_[places_[d.index()].first];
  }
  [[nodiscard]] bool represents(hardware::device_id d) const { return places_[d.index()].place == 0; }

  friend bool operator==(const device_symmetry&, const device_symmetry&) = default;

 private:
  struct cycle_place {
    std::uint32_t first = 0;  // begin of its cycle
    std::uint32_t place = 0;
    bool is_known = false;

    friend bool operator==(const cycle_place&, const cycle_place&) = default;
  };

  std::vector<hardware::device_id> cycles_{};  // concatenated
  std::vector<cycle_place> places_{};         // by device
  std::size_t order_ = 1;
};

// Cyclic shifts of nodes, if nodes have equal devices: each maps a device to its counterpart in another node. The
// highest order comes first. link_orbits checks that links are equal. Complexity: linear in devices, for each divisor
// of the number of nodes.
[[nodiscard]] std::vector<device_symmetry> node_shifts(const hardware::topology& t);

// The effect of a symmetry on links that messages use: the k-th link of a route is mapped to the k-th link of the route
// between the images. Refers to the symmetry and the network.
class link_orbits {
 public:
  link_orbits(const device_symmetry& s, network& n) : symmetry_{&s}, network_{&n} {}

  // Effects: adds the orbits of the route's links. Returns a one-line reason if messages over it do not have equal
  // images; empty if they have: the map is one to one, preserves rates and latencies, and no two images share a link.
  // Complexity: linear in the order and the route; logarithmic for a known route.
  [[nodiscard]] std::string admit(hardware::device_id from, hardware::device_id to);
  // For a link of an admitted route: the link that represents it, and the number of applications of the symmetry that
  // map this link to it.
  struct orbit_place {
    tasks::resource_id representative{};
    std::uint32_t shift = 0;
  };
  [[nodiscard]] orbit_place place(tasks::resource_id link) const { return places_.at(link); }
  // The representative link; the link itself if no message uses it.
  [[nodiscard]] tasks::resource_id representative(tasks::resource_id link) const {
    const auto found = places_.find(link);
    return found == places_.end() ? link : found->second.representative;
  }

 private:
  [[nodiscard]] std::string learn(hardware::device_id from, hardware::device_id to);

  const device_symmetry* symmetry_;
  network* network_;
  std::map<std::pair<hardware::device_id, hardware::device_id>, std::string> admitted_{};
  std::map<tasks::resource_id, tasks::resource_id> images_{};
  std::map<tasks::resource_id, tasks::resource_id> origins_{};
  std::map<tasks::resource_id, orbit_place> places_{};
};

// The effect of a symmetry on the tasks of an operator: the k-th task of a device is mapped to the k-th task of its
// image.
struct task_orbits {
  std::vector<std::uint32_t> image{};
  std::vector<std::uint32_t> kept{};    // tasks on representative devices, ascending
  std::vector<std::uint32_t> folded{};  // by task: the index of its representative in `kept`
};

// nullopt if devices and their images have different numbers of tasks. Complexity: linear.
[[nodiscard]] std::optional<task_orbits> orbits_of(const device_symmetry& s,
                                                   std::span<const hardware::device_id> devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_SYMMETRY)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::optional<device_symmetry> device_symmetry::of(std::span<const hardware::device_id> image) {
  device_symmetry s;
  s.places_.assign(image.size(), {});
  for (std::size_t d = 0; d < image.size(); ++d) {
    if (s.places_[d].is_known) {
      continue;
    }
    const auto first = s.cycles_.size();
    for (auto e = hardware::device_id{d}; e.index() < image.size() && !s.places_[e.index()].is_known;
         e = image[e.index()]) {
      s.places_[e.index()] = {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(s.cycles_.size() - first),
                              true};
      s.cycles_.push_back(e);
    }
    const auto length = s.cycles_.size() - first;
    s.order_ = first == 0 ? length : s.order_;
    if (length != s.order_ || image[s.cycles_.back().index()].index() != d) {
      return std::nullopt;
    }
  }
  return s;
}

UNITY_INLINE std::vector<device_symmetry> node_shifts(const hardware::topology& t) {
  std::map<std::uint32_t, std::size_t> known;
  std::vector<std::vector<hardware::device_id>> nodes;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    const auto at = known.try_emplace(t.devices()[d].node, nodes.size()).first->second;
    nodes.resize(std::max(nodes.size(), at + 1));
    nodes[at].push_back(hardware::device_id{d});
  }
  std::vector<device_symmetry> all;
  for (std::size_t step = 1; step < nodes.size(); ++step) {
    if (nodes.size() % step != 0) {
      continue;
    }
    std::vector<hardware::device_id> image(t.device_count());
    bool alike = true;
    for (std::size_t n = 0; n < nodes.size() && alike; ++n) {
      const auto& to = nodes[(n + step) % nodes.size()];
      alike = nodes[n].size() == to.size();
      for (std::size_t i = 0; alike && i < to.size(); ++i) {
        alike = t[nodes[n][i]].model == t[to[i]].model;
        image[nodes[n][i].index()] = to[i];
      }
    }
    if (auto s = alike ? device_symmetry::of(image) : std::nullopt) {
      all.push_back(std::move(*s));
    }
  }
  return all;
}

UNITY_INLINE std::string link_orbits::admit(hardware::device_id from, hardware::device_id to) {
  const auto [known, is_new] = admitted_.try_emplace({from, to});
  if (is_new) {
    known->second = learn(from, to);
  }
  return known->second;
}

UNITY_INLINE std::string link_orbits::learn(hardware::device_id from, hardware::device_id to) {
  const auto order = symmetry_->order();
  std::vector<std::vector<network::route_link>> routes;
  for (std::size_t k = 0; k < order; ++k) {
    const auto r = network_->route(symmetry_->image(from, k), symmetry_->image(to, k));
    routes.emplace_back(r.begin(), r.end());
  }
  for (std::size_t h = 0; h < routes[0].size(); ++h) {
    for (std::size_t k = 0; k < order; ++k) {
      if (routes[k].size() != routes[0].size() || routes[k][h].rate != routes[0][h].rate ||
          routes[k][h].latency != routes[0][h].latency) {
        return "routes that differ";
      }
      const auto here = routes[k][h].resource;
      const auto there = routes[(k + 1) % order][std::min(h, routes[(k + 1) % order].size() - 1)].resource;
      if (images_.try_emplace(here, there).first->second != there ||
          origins_.try_emplace(there, here).first->second != here) {
        return "links that are not mapped one to one";
      }
      if (k > 0 && here == routes[0][h].resource) {
        return "a link that several images of one message share";
      }
    }
    std::size_t least = 0;
    for (std::size_t k = 1; k < order; ++k) {
      least = routes[k][h].resource < routes[least][h].resource ? k : least;
    }
    for (std::size_t k = 0; k < order; ++k) {
      places_.insert_or_assign(
          routes[k][h].resource,
          orbit_place{routes[least][h].resource, static_cast<std::uint32_t>((least + order - k) % order)});
    }
  }
  return {};
}

UNITY_INLINE std::optional<task_orbits> orbits_of(const device_symmetry& s,
                                                  std::span<const hardware::device_id> devices) {
  std::vector<std::vector<std::uint32_t>> tasks(s.device_count());
  for (std::uint32_t t = 0; t < devices.size(); ++t) {
    tasks[devices[t].index()].push_back(t);
  }
  task_orbits all{std::vector<std::uint32_t>(devices.size()), {}, std::vector<std::uint32_t>(devices.size())};
  for (std::uint32_t t = 0; t < devices.size(); ++t) {
    if (s.represents(devices[t])) {
      all.folded[t] = static_cast<std::uint32_t>(all.kept.size());
      all.kept.push_back(t);
    }
  }
  for (std::size_t d = 0; d < tasks.size(); ++d) {
    const auto& to = tasks[s.image(hardware::device_id{d}).index()];
    const auto& first = tasks[s.representative(hardware::device_id{d}).index()];
    if (tasks[d].size() != to.size() || tasks[d].size() != first.size()) {
      return std::nullopt;
    }
    for (std::size_t k = 0; k < to.size(); ++k) {
      all.image[tasks[d][k]] = to[k];
      all.folded[tasks[d][k]] = all.folded[first[k]];
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
