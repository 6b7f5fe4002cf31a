// Folds the collectives of a weight: messages that a symmetry maps to each other are represented once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/collective_flows.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/folded_messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

struct lowered_collective {
  machine::exchange kind = machine::exchange::all_reduce;
  std::span<const machine::device_id> devices{};
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
    program::resource_id link{};
    const std::vector<std::uint32_t>* ties = nullptr;
    const std::vector<std::uint32_t>* last_ties = nullptr;
  };
  using flow_places = std::map<std::pair<machine::vertex_id, machine::vertex_id>, std::uint32_t>;

  // Messages are ordered by the sender's index in its node, then like tasks in the fragment: by phase, hop, and flow.
  [[nodiscard]] std::string add(const machine::collective_phase& phase, std::size_t most_hops);
  [[nodiscard]] std::string add(const machine::collective_phase& phase, const flow_places& at, std::uint32_t flow,
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_COLLECTIVES)

#include <algorithm>
#include <limits>
#include <optional>

#include <unity/machine/collective_cost.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::string collective_ranker::run(std::span<const lowered_collective> all,
                                                std::vector<std::uint32_t>& ranks) {
  struct lowered_phase {
    const machine::collective_phase* of = nullptr;
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

UNITY_INLINE std::string collective_ranker::add(const machine::collective_phase& phase, std::size_t most_hops) {
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

UNITY_INLINE std::string collective_ranker::add(const machine::collective_phase& phase, const flow_places& at,
                                                std::uint32_t flow, std::size_t most_hops, std::vector<flow_hop>& all) {
  const auto& f = phase.flows[flow];
  const auto& t = network_.topology();
  if (!t.is_device(f.from) || !t.is_device(f.to)) {
    return "a collective that a switch adds up";
  }
  const machine::device_id from{f.from.index()};
  const machine::device_id to{f.to.index()};
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
