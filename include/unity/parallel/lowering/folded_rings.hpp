// The rings of a weight, of which a symmetry does not tell messages apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/folded_messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

namespace detail {

class ring_ranker {
 public:
  ring_ranker(const device_symmetry& s, network& n, link_orbits& links)
      : symmetry_{s}, network_{n}, links_{links}, hops_{links, s.order()} {}

  [[nodiscard]] std::string run(std::span<const replica_group> groups, std::vector<std::uint32_t>& ranks);

 private:
  struct ring_link {
    machine::device_id from{};
    machine::device_id to{};
  };
  struct ring_hop {
    std::uint32_t turn = 0;
    program::resource_id link{};
    const std::vector<std::uint32_t>* ties = nullptr;
    const std::vector<std::uint32_t>* last_ties = nullptr;
  };

  // Order is by the sender's place in its node, then as the fragment has tasks: by group, by hop, by place in the ring.
  [[nodiscard]] std::string add(const replica_group& group, std::uint32_t number, std::uint32_t groups);

  const device_symmetry& symmetry_;
  network& network_;
  link_orbits& links_;
  link_ties hops_;
  std::deque<std::vector<std::uint32_t>> ties_{};  // of the images of each message, in two orders
};

}  // namespace detail

// Effects: the rank of each hop on its link (link_ties), of the messages that are kept and in the order in which
// synchronized() adds them; admits the links that they use. Why rings are not mapped to themselves with like messages;
// empty where they are. Precondition: groups of several devices are mapped to themselves.
// Complexity: linear in messages and their routes, and sorting.
[[nodiscard]] inline std::string rank_rings(const device_symmetry& s, network& n, link_orbits& links,
                                            std::span<const replica_group> groups, std::vector<std::uint32_t>& ranks) {
  return detail::ring_ranker{s, n, links}.run(groups, ranks);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_RINGS)

#include <map>
#include <optional>

#include <unity/parallel/lowering/rings.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::string ring_ranker::run(std::span<const replica_group> groups, std::vector<std::uint32_t>& ranks) {
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    if (auto reason = add(groups[g], g, static_cast<std::uint32_t>(groups.size())); !reason.empty()) {
      return reason;
    }
  }
  auto found = hops_.ranks();
  if (!found) {
    return "messages of rings that take turns on a link in another order than their images";
  }
  ranks = std::move(*found);
  return {};
}

UNITY_INLINE std::string ring_ranker::add(const replica_group& group, std::uint32_t number, std::uint32_t groups) {
  const auto ring = ring_of(network_, group.devices);
  if (ring.size() < 2) {
    return {};
  }
  std::map<machine::device_id, std::uint32_t> at;
  for (std::uint32_t i = 0; i < ring.size(); ++i) {
    at.emplace(ring[i], i);
  }
  std::vector<ring_hop> all;
  for (std::uint32_t i = 0; i < ring.size(); ++i) {
    if (!symmetry_.represents(ring[i])) {
      continue;
    }
    const ring_link m{ring[i], ring[(i + 1) % ring.size()]};
    auto& ties = ties_.emplace_back();
    auto& last_ties = ties_.emplace_back();
    for (std::size_t k = 0; k < symmetry_.order(); ++k) {
      const auto from = symmetry_.image(m.from, k);
      const auto place = at.at(from);
      if (ring[(place + 1) % ring.size()] != symmetry_.image(m.to, k)) {
        return "a ring of devices that is not mapped to itself";
      }
      ties.push_back(network_.place(from).place * groups + number);
      last_ties.push_back(place);
    }
    if (auto reason = links_.admit(m.from, m.to); !reason.empty()) {
      return reason;
    }
    std::uint32_t turn = 0;
    for (const auto& l : network_.route(m.from, m.to)) {
      all.push_back({turn++, l.resource, &ties, &last_ties});
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

}  // namespace unity::parallel::detail

#endif
