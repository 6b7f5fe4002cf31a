// The steps of each algorithm of a collective, and collectives as flows between neighbours, aggregated over rounds.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// The steps of each algorithm of a collective: one definition for the code that generates transfers and the code that
// computes costs.

// The number of chunks that a collective divides the data into. Except for all_to_all: the vector of `size` bytes is
// divided into this many parts; if there are n per rank (one on each rail), rank r ends or begins with chunks r * n to
// r * n + n - 1. For all_to_all: chunk s * ranks + d goes from rank s to rank d.
[[nodiscard]] std::size_t chunk_count(const topology& t, const collective& c);
[[nodiscard]] inline bytes chunk_size(const topology& t, const collective& c, std::size_t chunk) {
  return c.kind == exchange::all_to_all ? part_size(c.size, c.devices.size(), chunk % c.devices.size())
                                        : part_size(c.size, chunk_count(t, c), chunk);
}

namespace detail {

using chunk_list = std::vector<std::uint32_t>;

// Blocks of chunks that travel along a ring; the block of position i is blocks[i].
struct block_ring {
  team ranks{};
  std::vector<chunk_list> blocks{};
};

// Receives the steps of a collective, round by round.
//   s.send(from, to, chunks, reduces)   one message of the current round
//   s.end_round()                       the messages after it belong to the next round
//   s.around(rings, reduces)            rounds of their own, in all rings at once: each position sends to the next one.
//                                       With `reduces`, block i travels to position i, and each position that it passes
//                                       adds its data; otherwise block i travels from position i to all others
//   s.in_switch(ranks)                  all ranks send all chunks to a switch, which sends their sums to all ranks
// The switch has the number of the rank after the last.
template <class S>
concept step_sink = requires(S& s, std::uint32_t rank, std::span<const std::uint32_t> chunks, bool reduces,
                             std::span<const block_ring> rings, std::size_t count) {
  s.send(rank, rank, chunks, reduces);
  s.end_round();
  s.around(rings, reduces);
  s.in_switch(count);
};

template <step_sink S>
class collective_steps {
 public:
  collective_steps(const topology& t, const collective& c, S& sink)
      : topology_{t}, c_{c}, sink_{sink}, nodes_{by_node(t, c.devices)} {}

  void run() {
    const bool tree = c_.algorithm == collective_algorithm::tree;
    const bool grid = c_.algorithm == collective_algorithm::hierarchical && is_grid(nodes_);
    switch (c_.kind) {
      case exchange::message:
        sink_.send(0, 1, chunk_list{0}, false);
        sink_.end_round();
        break;
      case exchange::all_reduce:
        if (c_.algorithm == collective_algorithm::in_switch && reducing_switch(topology_, c_.devices)) {
          sink_.in_switch(c_.devices.size());
          break;
        }
        reduce_scatter();
        all_gather();
        break;
      case exchange::reduce_scatter: reduce_scatter(); break;
      case exchange::all_gather: all_gather(); break;
      case exchange::broadcast: broadcast(); break;
      case exchange::all_to_all: tree ? bruck() : grid ? grid_all_to_all() : shifts(); break;
    }
  }

 private:
  [[nodiscard]] static block_ring one_each(team ranks) {
    block_ring ring{std::move(ranks), {}};
    for (const auto r : ring.ranks) {
      ring.blocks.push_back({r});
    }
    return ring;
  }
  // The ring, or one ring per rail.
  [[nodiscard]] std::vector<block_ring> rings() const {
    if (c_.algorithm != collective_algorithm::rails || !is_grid(nodes_)) {
      return {one_each(around(nodes_))};
    }
    std::vector<block_ring> all;
    const auto rails = static_cast<std::uint32_t>(nodes_.front().size());
    for (std::uint32_t i = 0; i < rails; ++i) {
      all.push_back(one_each(rail(nodes_, i)));
      for (auto& block : all.back().blocks) {
        block.front() = block.front() * rails + i;
      }
    }
    return all;
  }
  // One ring per node. The block of position i has the chunks of position i of all nodes.
  [[nodiscard]] std::vector<block_ring> inside_nodes() const {
    std::vector<chunk_list> columns;
    for (std::size_t i = 0; i < nodes_.front().size(); ++i) {
      columns.push_back(across(nodes_, i));
    }
    std::vector<block_ring> all;
    for (const auto& n : nodes_) {
      all.push_back({n, columns});
    }
    return all;
  }
  [[nodiscard]] std::vector<block_ring> between_nodes() const {
    std::vector<block_ring> all;
    for (std::size_t i = 0; i < nodes_.front().size(); ++i) {
      all.push_back(one_each(across(nodes_, i)));
    }
    return all;
  }

  // The levels in the order of a reduce-scatter; an all-gather uses the reverse order.
  [[nodiscard]] std::vector<std::vector<block_ring>> levels() const {
    const bool tree = c_.algorithm == collective_algorithm::tree;
    if (is_grid(nodes_) && (tree || c_.algorithm == collective_algorithm::hierarchical)) {
      return {inside_nodes(), between_nodes()};
    }
    return {tree ? std::vector{one_each(all_of(nodes_))} : rings()};
  }
  void reduce_scatter() {
    for (const auto& level : levels()) {
      c_.algorithm == collective_algorithm::tree ? halve(level) : sink_.around(level, true);
    }
  }
  void all_gather() {
    auto all = levels();
    std::reverse(all.begin(), all.end());
    for (const auto& level : all) {
      c_.algorithm == collective_algorithm::tree ? double_up(level) : sink_.around(level, false);
    }
  }

  // The blocks of `count` consecutive positions from `first` on, cyclically.
  [[nodiscard]] static chunk_list run_of(const block_ring& ring, std::size_t first, std::size_t count) {
    chunk_list chunks;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& block = ring.blocks[(first + i) % ring.blocks.size()];
      chunks.insert(chunks.end(), block.begin(), block.end());
    }
    return chunks;
  }
  // Before the round with `bit`, a position holds `bit` blocks: its own and those of the positions after it. In the
  // round it receives up to as many more, which follow these. Precondition: rings have equal lengths.
  void double_up(const std::vector<block_ring>& rings) {
    const auto count = rings.front().ranks.size();
    for (std::size_t bit = 1; bit < count; bit *= 2) {
      for (const auto& ring : rings) {
        for (std::size_t x = 0; x < count; ++x) {
          const auto blocks = run_of(ring, x, std::min(bit, count - bit));
          sink_.send(ring.ranks[x], ring.ranks[(x + count - bit) % count], blocks, false);
        }
      }
      sink_.end_round();
    }
  }
  // The reverse: each position sends back what it would receive in double_up, and the receiver adds it.
  void halve(const std::vector<block_ring>& rings) {
    const auto count = rings.front().ranks.size();
    for (auto bit = widest_step(count); bit > 0; bit /= 2) {
      for (const auto& ring : rings) {
        for (std::size_t x = 0; x < count; ++x) {
          const auto blocks = run_of(ring, x + bit, std::min(bit, count - bit));
          sink_.send(ring.ranks[x], ring.ranks[(x + bit) % count], blocks, true);
        }
      }
      sink_.end_round();
    }
  }

  void broadcast() {
    const auto root = static_cast<std::uint32_t>(c_.root);
    switch (c_.algorithm) {
      case collective_algorithm::tree: return broadcast_from_first({starting_with(all_of(nodes_), root)});
      case collective_algorithm::hierarchical:
        broadcast_from_first({leaders(nodes_, root)});
        return broadcast_from_first(nodes_);
      default: return chain(starting_with(all_of(nodes_), root));
    }
  }
  // Broadcasts in all teams simultaneously.
  void broadcast_from_first(const std::vector<team>& teams) {
    std::size_t widest = 0;
    for (const auto& ranks : teams) {
      widest = std::max(widest, widest_step(ranks.size()));
    }
    for (auto step = widest; step > 0; step /= 2) {
      for (const auto& ranks : teams) {
        binomial_round(ranks.size(), step, [&](std::size_t parent, std::size_t child) {
          sink_.send(ranks[parent], ranks[child], chunk_list{0}, false);
        });
      }
      sink_.end_round();
    }
  }
  // A pipeline: each rank sends chunk after chunk to the next.
  void chain(const team& ranks) {
    const auto links = ranks.size() - 1;
    for (std::size_t round = 0; round + 1 < links + ranks.size(); ++round) {
      for (std::size_t x = 0; x < links; ++x) {
        if (x <= round && round - x < ranks.size()) {
          sink_.send(ranks[x], ranks[x + 1], chunk_list{static_cast<std::uint32_t>(round - x)}, false);
        }
      }
      sink_.end_round();
    }
  }

  [[nodiscard]] std::uint32_t block(std::uint32_t source, std::uint32_t destination) const {
    return source * static_cast<std::uint32_t>(c_.devices.size()) + destination;
  }
  void shifts() {
    const auto ranks = all_of(nodes_);
    for (std::size_t shift = 1; shift < ranks.size(); ++shift) {
      for (std::size_t x = 0; x < ranks.size(); ++x) {
        const auto to = ranks[(x + shift) % ranks.size()];
        sink_.send(ranks[x], to, chunk_list{block(ranks[x], to)}, false);
      }
      sink_.end_round();
    }
  }
  // Bruck's algorithm: in round k a block moves 2^k positions if its distance has bit k.
  void bruck() {
    const auto ranks = all_of(nodes_);
    const auto count = ranks.size();
    for (std::size_t bit = 1; bit < count; bit *= 2) {
      for (std::size_t x = 0; x < count; ++x) {
        chunk_list blocks;
        for (std::size_t distance = bit; distance < count; ++distance) {
          if ((distance & bit) != 0) {
            const auto source = (x + count - distance % bit) % count;
            blocks.push_back(block(ranks[source], ranks[(source + distance) % count]));
          }
        }
        sink_.send(ranks[x], ranks[(x + bit) % count], blocks, false);
      }
      sink_.end_round();
    }
  }
  // Blocks for position j of any node first go to position j of the own node.
  void grid_all_to_all() {
    const auto places = nodes_.front().size();
    for (std::size_t shift = 1; shift < places; ++shift) {
      for (const auto& n : nodes_) {
        for (std::size_t i = 0; i < places; ++i) {
          const auto j = (i + shift) % places;
          chunk_list blocks;
          for (const auto& other : nodes_) {
            blocks.push_back(block(n[i], other[j]));
          }
          sink_.send(n[i], n[j], blocks, false);
        }
      }
      sink_.end_round();
    }
    for (std::size_t shift = 1; shift < nodes_.size(); ++shift) {
      for (std::size_t a = 0; a < nodes_.size(); ++a) {
        const auto& to = nodes_[(a + shift) % nodes_.size()];
        for (std::size_t j = 0; j < places; ++j) {
          chunk_list blocks;
          for (const auto source : nodes_[a]) {
            blocks.push_back(block(source, to[j]));
          }
          sink_.send(nodes_[a][j], to[j], blocks, false);
        }
      }
      sink_.end_round();
    }
  }

  const topology& topology_;
  const collective& c_;
  S& sink_;
  std::vector<team> nodes_;
};

}  // namespace detail

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

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_COLLECTIVE_FLOWS)

namespace unity::hardware {

UNITY_INLINE std::size_t chunk_count(const topology& t, const collective& c) {
  const auto ranks = c.devices.size();
  switch (c.kind) {
    case exchange::message: return 1;
    case exchange::broadcast:
      return c.algorithm == collective_algorithm::tree || c.algorithm == collective_algorithm::hierarchical ? 1 : ranks;
    case exchange::all_to_all: return ranks * ranks;
    default: break;
  }
  const bool has_rails = c.algorithm == collective_algorithm::rails && applies(t, c);
  return has_rails ? ranks * detail::by_node(t, c.devices).front().size() : ranks;
}

UNITY_INLINE collective_flows flows_of(const topology& t, const collective& c) {
  detail::check_collective(t, c);
  if (c.devices.size() < 2) {
    return {};
  }
  detail::flow_writer flows{t, c};
  detail::collective_steps{t, c, flows}.run();
  return std::move(flows).take();
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

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

}  // namespace unity::hardware::detail

#endif
