// Collectives as flows between neighbours, aggregated over rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/collective_steps.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

// A number of parts of the data that move from one device or switch to another.
struct collective_flow {
  vertex_id from{};
  vertex_id to{};
  std::uint32_t parts = 0;

  friend bool operator==(const collective_flow&, const collective_flow&) = default;
};

// Simultaneous flows, in `rounds` rounds that wait for each other.
struct collective_phase {
  std::uint32_t rounds = 0;
  std::vector<collective_flow> flows{};

  friend bool operator==(const collective_phase&, const collective_phase&) = default;
};

// Phases in sequence. `of`: the number of parts that the size is divided into. Regular.
struct collective_flows {
  std::uint32_t of = 1;
  std::vector<collective_phase> phases{};

  // The bytes of `parts` parts, rounded up once.
  [[nodiscard]] bytes volume(bytes size, std::uint32_t parts) const {
    const std::int64_t all = of;
    return bytes{size.count() / all * parts + (size.count() % all * parts + all - 1) / all};
  }

  friend bool operator==(const collective_flows&, const collective_flows&) = default;
};

// Aggregates the transfers of lower(t, c): consecutive rounds between the same pairs become one flow. For a ring of p,
// all 2 (p - 1) rounds are one phase of p flows. No phases for a single rank. Ignores the size.
// Complexity: linear in the flows up to logarithms: p for a ring, p log p for a tree, p^2 for all_to_all.
[[nodiscard]] collective_flows flows_of(const topology& t, const collective& c);

namespace detail {

class flow_writer {
 public:
  flow_writer(const topology& t, const collective& c);

  void send(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> chunks, bool) {
    phase_.flows.push_back({ends_[from], ends_[to], static_cast<std::uint32_t>(chunks.size())});
  }
  void end_round() {
    phase_.rounds = 1;
    end_phase();
  }
  void around(std::span<const block_ring> rings, bool reduces);
  void in_switch(std::size_t ranks);

  [[nodiscard]] collective_flows take() && { return std::move(all_); }

 private:
  // Merges flows between the same two vertices.
  void end_phase();

  std::vector<vertex_id> ends_{};  // by rank; the reducing switch is last
  collective_phase phase_{};
  bool goes_around_ = false;  // of the previous phase
  collective_flows all_{};
};

}  // namespace detail

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_FLOWS)

#include <algorithm>
#include <utility>

namespace unity::machine {

UNITY_INLINE collective_flows flows_of(const topology& t, const collective& c) {
  detail::check_collective(t, c);
  if (c.devices.size() < 2) {
    return {};
  }
  detail::flow_writer flows{t, c};
  detail::collective_steps{t, c, flows}.run();
  return std::move(flows).take();
}

}  // namespace unity::machine

namespace unity::machine::detail {

UNITY_INLINE flow_writer::flow_writer(const topology& t, const collective& c) {
  for (const auto d : c.devices) {
    ends_.push_back(topology::vertex_of(d));
  }
  if (const auto s = reducing_switch(t, c.devices)) {
    ends_.push_back(*s);
  }
  all_.of = static_cast<std::uint32_t>(c.kind == exchange::all_to_all ? c.devices.size() : chunk_count(t, c));
}

UNITY_INLINE void flow_writer::around(std::span<const block_ring> rings, bool reduces) {
  for (const auto& [ranks, blocks] : rings) {
    const auto count = ranks.size();
    std::size_t all = 0;
    for (const auto& b : blocks) {
      all += b.size();
    }
    for (std::size_t x = 0; count > 1 && x < count; ++x) {
      const auto next = (x + 1) % count;
      const auto stays = blocks[reduces ? x : next].size();  // the only block that is not sent this way
      phase_.flows.push_back({ends_[ranks[x]], ends_[ranks[next]], static_cast<std::uint32_t>(all - stays)});
    }
    phase_.rounds = std::max(phase_.rounds, static_cast<std::uint32_t>(count - 1));
  }
  // A following phase along the same links continues without waiting: it is merged.
  const bool went_around = std::exchange(goes_around_, true);
  const auto before = all_.phases.size();
  end_phase();
  goes_around_ = true;
  if (!went_around || before == 0 || all_.phases.size() == before) {
    return;
  }
  auto& last = all_.phases[before - 1];
  const auto& now = all_.phases[before];
  const auto same = [](const collective_flow& a, const collective_flow& b) { return a.from == b.from && a.to == b.to; };
  if (std::equal(last.flows.begin(), last.flows.end(), now.flows.begin(), now.flows.end(), same)) {
    last.rounds += now.rounds;
    for (std::size_t i = 0; i < now.flows.size(); ++i) {
      last.flows[i].parts += now.flows[i].parts;
    }
    all_.phases.pop_back();
  }
}

// The first part goes up; the others go up while earlier ones go down; the last one goes down.
UNITY_INLINE void flow_writer::in_switch(std::size_t ranks) {
  const auto center = ends_[ranks];
  const auto phase = [&](std::uint32_t rounds, std::uint32_t up, std::uint32_t down) {
    for (std::size_t r = 0; r < ranks; ++r) {
      if (up > 0) {
        phase_.flows.push_back({ends_[r], center, up});
      }
      if (down > 0) {
        phase_.flows.push_back({center, ends_[r], down});
      }
    }
    phase_.rounds = rounds;
    end_phase();
  };
  phase(1, 1, 0);
  phase(0, all_.of - 1, all_.of - 1);
  phase(1, 0, 1);
}

UNITY_INLINE void flow_writer::end_phase() {
  goes_around_ = false;
  auto& flows = phase_.flows;
  std::sort(flows.begin(), flows.end(), [](const collective_flow& a, const collective_flow& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < flows.size(); ++i) {
    if (flows[i].from == flows[kept].from && flows[i].to == flows[kept].to) {
      flows[kept].parts += flows[i].parts;
    } else {
      flows[++kept] = flows[i];
    }
  }
  if (!flows.empty()) {
    flows.resize(kept + 1);
    all_.phases.push_back(std::move(phase_));
  }
  phase_ = {};
}

}  // namespace unity::machine::detail

#endif
