// Folds messages: keeps one of each class that a symmetry maps to each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective_flows.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// The order of simultaneously ready messages of a fragment on each link, which must be the same for their images.
class link_ties {
 public:
  link_ties(const link_orbits& links, std::size_t order) : links_{links}, order_{order} {}

  // Adds a hop of a message. Hops are ordered by `ties`, then `turn`, then `last_ties`; ties have an entry for each
  // image of the message.
  void add(tasks::resource_id link, std::span<const std::uint32_t> ties, std::uint32_t turn,
           std::span<const std::uint32_t> last_ties) {
    const auto at = links_.place(link);
    hops_.push_back({at.representative, at.shift, ties, turn, last_ties});
  }
  // The rank of each hop on the link that represents its link; nullopt if some images have a different order.
  // Complexity: linear in hops and order, plus sorting.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> ranks() const;

 private:
  struct hop_place {
    tasks::resource_id link{};
    std::uint32_t shift = 0;
    std::span<const std::uint32_t> ties{};
    std::uint32_t turn = 0;
    std::span<const std::uint32_t> last_ties{};
  };
  [[nodiscard]] std::array<std::uint32_t, 3> key(std::uint32_t h, std::size_t image) const;

  const link_orbits& links_;
  std::size_t order_;
  std::vector<hop_place> hops_{};
};

// The needs of an edge for representative tasks; tasks are numbered among these.
struct folded_messages {
  struct item {
    std::uint32_t producer = 0;
    std::vector<std::uint32_t> consumers{};
    std::int64_t elements = 0;
    hardware::device_id from{};
    hardware::device_id to{};            // may be any device
    std::vector<std::uint32_t> there{};  // rank of each hop on its link (link_ties)
    std::vector<std::uint32_t> back{};
  };
  std::vector<local_use> local{};
  std::vector<item> messages{};
};

// The operators at the ends of an edge.
struct folded_ends {
  const task_orbits* producers = nullptr;
  const task_orbits* consumers = nullptr;
  std::span<const hardware::device_id> from{};  // by task
};

namespace detail {

class message_folder {
 public:
  message_folder(const device_symmetry& s, network& n, link_orbits& links, const folded_ends& e)
      : symmetry_{s}, network_{n}, links_{links}, ends_{e} {}

  // Returns the reason if folding is not possible, otherwise an empty string.
  [[nodiscard]] std::string run(const edge_messages& all, folded_messages& result);

 private:
  [[nodiscard]] bool keeps_local(const edge_messages& all) const;
  // Pairs several messages from one task to one device with their images in order.
  [[nodiscard]] bool find_images(const edge_messages& all);
  [[nodiscard]] bool alike(const edge_messages& all, std::uint32_t a, std::uint32_t b) const;
  void fold(const edge_messages& all, folded_messages& result);
  [[nodiscard]] std::string order(folded_messages& result);

  const device_symmetry& symmetry_;
  network& network_;
  link_orbits& links_;
  const folded_ends& ends_;
  std::vector<std::uint32_t> image_{};
  std::vector<std::uint32_t> ties_{};  // for each folded message, its images
};

}  // namespace detail

// Effects: fills `result` and admits the links that it uses. Returns the reason if the symmetry does not map messages
// to equal messages between corresponding tasks, otherwise an empty string. Complexity: linear in messages and their
// routes, plus sorting.
[[nodiscard]] inline std::string fold_messages(const device_symmetry& s, network& n, link_orbits& links,
                                               const folded_ends& e, const edge_messages& all,
                                               folded_messages& result) {
  return detail::message_folder{s, n, links, e}.run(all, result);
}

// Folds the collectives of a weight: messages that a symmetry maps to each other are represented once.

struct lowered_collective {
  hardware::exchange kind = hardware::exchange::all_reduce;
  std::span<const hardware::device_id> devices{};
  bytes size{};
};

namespace detail {

class collective_ranker {
 public:
  collective_ranker(const device_symmetry& s, network& n, link_orbits& links)
      : symmetry_{s}, network_{n}, links_{links}, hops_{links, s.order()} {}

  [[nodiscard]] std::string run(std::span<const lowered_collective> all, std::vector<std::uint32_t>& ranks);

 private:
  struct flow_hop {
    std::uint32_t turn = 0;
    tasks::resource_id link{};
    const std::vector<std::uint32_t>* ties = nullptr;
    const std::vector<std::uint32_t>* last_ties = nullptr;
  };
  using flow_places = std::map<std::pair<hardware::vertex_id, hardware::vertex_id>, std::uint32_t>;

  // Messages are ordered by the sender's index in its node, then like tasks in the fragment: by phase, hop, and flow.
  [[nodiscard]] std::string add(const hardware::collective_phase& phase, std::size_t most_hops);
  [[nodiscard]] std::string add(const hardware::collective_phase& phase, const flow_places& at, std::uint32_t flow,
                                std::size_t most_hops, std::vector<flow_hop>& all);

  const device_symmetry& symmetry_;
  network& network_;
  link_orbits& links_;
  link_ties hops_;
  std::uint32_t phase_ = 0;
  std::uint32_t phases_ = 0;
  std::deque<std::vector<std::uint32_t>> ties_{};  // for the images of each message, in two orders
};

}  // namespace detail

// Effects: computes the rank of each hop on its link (link_ties) for the kept messages, in the order in which
// add_collective() adds them, for collectives one after another; admits the links that they use. Returns the reason if
// the symmetry does not map flows to equal flows, and otherwise an empty string. Precondition: the devices of each
// collective are mapped to themselves. Complexity: linear in messages and their routes, plus sorting.
[[nodiscard]] inline std::string rank_collectives(const device_symmetry& s, network& n, link_orbits& links,
                                                  std::span<const lowered_collective> all,
                                                  std::vector<std::uint32_t>& ranks) {
  return detail::collective_ranker{s, n, links}.run(all, ranks);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_MESSAGES)

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include <unity/core/config.hpp>
#include <unity/hardware/collective_cost.hpp>

namespace unity::parallel {

UNITY_INLINE std::optional<std::vector<std::uint32_t>> link_ties::ranks() const {
  std::vector<std::uint32_t> sorted(hops_.size());
  std::iota(sorted.begin(), sorted.end(), std::uint32_t{0});
  std::sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple{hops_[a].link, key(a, 0)} < std::tuple{hops_[b].link, key(b, 0)};
  });
  std::vector<std::uint32_t> all(hops_.size(), 0);
  for (std::size_t k = 1; k < sorted.size(); ++k) {
    const auto a = sorted[k - 1];
    const auto b = sorted[k];
    if (hops_[a].link != hops_[b].link) {
      continue;
    }
    all[b] = all[a] + 1;
    for (std::size_t i = 0; i < order_; ++i) {
      if (!(key(a, i) < key(b, i))) {
        return std::nullopt;
      }
    }
  }
  return all;
}

UNITY_INLINE std::array<std::uint32_t, 3> link_ties::key(std::uint32_t h, std::size_t image) const {
  const auto& x = hops_[h];
  const auto k = (x.shift + image) % order_;
  return {x.ties[k], x.turn, x.last_ties[k]};
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::string message_folder::run(const edge_messages& all, folded_messages& result) {
  if (!keeps_local(all)) {
    return "tasks that read what their device wrote, but not on all devices alike";
  }
  if (!find_images(all)) {
    return "messages that do not have the same on other devices";
  }
  fold(all, result);
  return order(result);
}

UNITY_INLINE bool message_folder::keeps_local(const edge_messages& all) const {
  const auto key = [](std::uint32_t p, std::uint32_t c) { return std::uint64_t{p} << 32U | c; };
  std::vector<std::uint64_t> uses;
  std::vector<std::uint64_t> images;
  for (const auto& u : all.local) {
    uses.push_back(key(u.producer, u.consumer));
    images.push_back(key(ends_.producers->image[u.producer], ends_.consumers->image[u.consumer]));
  }
  std::sort(uses.begin(), uses.end());
  std::sort(images.begin(), images.end());
  return uses == images;
}

UNITY_INLINE bool message_folder::find_images(const edge_messages& all) {
  using route_key = std::pair<std::uint32_t, hardware::device_id>;
  std::vector<std::pair<route_key, std::uint32_t>> sorted;
  for (std::uint32_t m = 0; m < all.messages.size(); ++m) {
    sorted.push_back({{all.messages[m].producer, all.messages[m].to}, m});
  }
  std::sort(sorted.begin(), sorted.end());
  image_.resize(sorted.size());
  for (std::size_t i = 0; i < sorted.size();) {
    const auto& [producer, to] = sorted[i].first;
    const route_key there{ends_.producers->image[producer], symmetry_.image(to)};
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), std::pair{there, std::uint32_t{0}});
    auto j = static_cast<std::size_t>(found - sorted.begin());
    const auto key = sorted[i].first;
    for (; i < sorted.size() && sorted[i].first == key; ++i, ++j) {
      if (j == sorted.size() || sorted[j].first != there || !alike(all, sorted[i].second, sorted[j].second)) {
        return false;
      }
      image_[sorted[i].second] = sorted[j].second;
    }
    if (j < sorted.size() && sorted[j].first == there) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool message_folder::alike(const edge_messages& all, std::uint32_t a, std::uint32_t b) const {
  std::vector<std::uint32_t> images;
  for (const auto c : all.consumers_of(all.messages[a])) {
    images.push_back(ends_.consumers->image[c]);
  }
  std::sort(images.begin(), images.end());
  const auto consumers = all.consumers_of(all.messages[b]);
  return all.messages[a].elements == all.messages[b].elements &&
         std::equal(images.begin(), images.end(), consumers.begin(), consumers.end());
}

UNITY_INLINE void message_folder::fold(const edge_messages& all, folded_messages& result) {
  for (const auto& u : all.local) {
    if (symmetry_.represents(ends_.from[u.producer])) {
      result.local.push_back({ends_.producers->folded[u.producer], ends_.consumers->folded[u.consumer]});
    }
  }
  for (std::uint32_t m = 0; m < all.messages.size(); ++m) {
    const auto& x = all.messages[m];
    if (!symmetry_.represents(ends_.from[x.producer])) {
      continue;
    }
    result.messages.push_back(
        {ends_.producers->folded[x.producer], {}, x.elements, ends_.from[x.producer], x.to, {}, {}});
    for (const auto c : all.consumers_of(x)) {
      result.messages.back().consumers.push_back(ends_.consumers->folded[c]);
    }
    auto at = m;
    for (std::size_t k = 0; k < symmetry_.order(); ++k) {
      ties_.push_back(at);  // messages are ordered as ties
      at = image_[at];
    }
  }
}

UNITY_INLINE std::string message_folder::order(folded_messages& result) {
  constexpr std::uint32_t back = 1U << 16U;
  const auto images = symmetry_.order();
  link_ties ties{links_, images};
  for (std::size_t m = 0; m < result.messages.size(); ++m) {
    auto& x = result.messages[m];
    for (const auto& [from, to, first] : {std::tuple{x.from, x.to, std::uint32_t{0}}, std::tuple{x.to, x.from, back}}) {
      if (auto reason = links_.admit(from, to); !reason.empty()) {
        return reason;
      }
      std::uint32_t turn = first;
      for (const auto& l : network_.route(from, to)) {
        const auto places = std::span{ties_}.subspan(m * images, images);
        ties.add(l.resource, places, turn++, places);
      }
      (first == 0 ? x.there : x.back).resize(turn - first);
    }
  }
  const auto ranks = ties.ranks();
  if (!ranks) {
    return "messages that take turns on a link in another order than their images";
  }
  auto next = ranks->begin();
  for (auto& x : result.messages) {
    for (auto* list : {&x.there, &x.back}) {
      std::copy_n(next, list->size(), list->begin());
      next += static_cast<std::ptrdiff_t>(list->size());
    }
  }
  return {};
}

UNITY_INLINE std::string collective_ranker::run(std::span<const lowered_collective> all,
                                                std::vector<std::uint32_t>& ranks) {
  struct lowered_phase {
    const hardware::collective_phase* of = nullptr;
    std::size_t most_hops = std::numeric_limits<std::size_t>::max();
  };
  std::vector<lowered_phase> phases;
  for (const auto& c : all) {
    const auto& ways = network_.collective(c.kind, c.devices);
    if (network_.measured(c.kind, c.devices.size(), c.size)) {
      phases.push_back({&ways.ways.front().flows.phases.front(), 1});
      continue;
    }
    for (const auto& p : ways.at(c.size).flows.phases) {
      phases.push_back({&p});
    }
  }
  phases_ = static_cast<std::uint32_t>(phases.size());
  for (phase_ = 0; phase_ < phases_; ++phase_) {
    if (auto reason = add(*phases[phase_].of, phases[phase_].most_hops); !reason.empty()) {
      return reason;
    }
  }
  auto found = hops_.ranks();
  if (!found) {
    return "messages of collectives that take turns on a link in another order than their images";
  }
  ranks = std::move(*found);
  return {};
}

UNITY_INLINE std::string collective_ranker::add(const hardware::collective_phase& phase, std::size_t most_hops) {
  flow_places at;
  for (std::uint32_t i = 0; i < phase.flows.size(); ++i) {
    at.emplace(std::pair{phase.flows[i].from, phase.flows[i].to}, i);
  }
  std::vector<flow_hop> all;
  for (std::uint32_t i = 0; i < phase.flows.size(); ++i) {
    if (auto reason = add(phase, at, i, most_hops, all); !reason.empty()) {
      return reason;
    }
  }
  auto left = all.size();
  for (std::uint32_t turn = 0; left > 0; ++turn) {
    for (const auto& h : all) {
      if (h.turn == turn) {
        hops_.add(h.link, *h.ties, turn, *h.last_ties);
        --left;
      }
    }
  }
  return {};
}

UNITY_INLINE std::string collective_ranker::add(const hardware::collective_phase& phase, const flow_places& at,
                                                std::uint32_t flow, std::size_t most_hops, std::vector<flow_hop>& all) {
  const auto& f = phase.flows[flow];
  const auto& t = network_.topology();
  if (!t.is_device(f.from) || !t.is_device(f.to)) {
    return "a collective that a switch adds up";
  }
  const hardware::device_id from{f.from.index()};
  const hardware::device_id to{f.to.index()};
  if (!symmetry_.represents(from)) {
    return {};
  }
  auto& ties = ties_.emplace_back();
  auto& last_ties = ties_.emplace_back();
  for (std::size_t k = 0; k < symmetry_.order(); ++k) {
    const auto sender = symmetry_.image(from, k);
    const auto image = at.find({t.vertex_of(sender), t.vertex_of(symmetry_.image(to, k))});
    if (image == at.end() || phase.flows[image->second].parts != f.parts) {
      return "a collective whose flows are not mapped to its flows";
    }
    ties.push_back(network_.place(sender).place * phases_ + phase_);
    last_ties.push_back(image->second);
  }
  if (auto reason = links_.admit(from, to); !reason.empty()) {
    return reason;
  }
  std::uint32_t turn = 0;
  for (const auto& l : network_.route(from, to)) {
    if (turn < most_hops) {
      all.push_back({turn++, l.resource, &ties, &last_ties});
    }
  }
  return {};
}

}  // namespace unity::parallel::detail

#endif
