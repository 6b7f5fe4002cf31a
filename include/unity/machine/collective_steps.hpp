// The steps of each algorithm of a collective: one definition for the code that generates transfers and the code that
// computes costs.
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
#include <unity/machine/collective.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

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

// send: in the current round. around: in separate rounds, in all rings at once, each position sends to the next. With
// `reduces`, each adds its own data to a travelling block that ends at its position; otherwise the block of each
// position travels to all others. in_switch: all ranks send all chunks to a switch, which is the rank after the last,
// and it sends sums to all.
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
    const bool tree = c_.how == collective_algorithm::tree;
    const bool grid = c_.how == collective_algorithm::hierarchical && is_grid(nodes_);
    switch (c_.kind) {
      case exchange::message:
        sink_.send(0, 1, chunk_list{0}, false);
        sink_.end_round();
        break;
      case exchange::all_reduce:
        if (c_.how == collective_algorithm::in_switch && reducing_switch(topology_, c_.devices)) {
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
    if (c_.how != collective_algorithm::rails || !is_grid(nodes_)) {
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
  // Position i of a node represents position i of all nodes.
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

  // In the order of a reduce-scatter; an all-gather uses the reverse order.
  [[nodiscard]] std::vector<std::vector<block_ring>> levels() const {
    const bool tree = c_.how == collective_algorithm::tree;
    if (is_grid(nodes_) && (tree || c_.how == collective_algorithm::hierarchical)) {
      return {inside_nodes(), between_nodes()};
    }
    return {tree ? std::vector{one_each(all_of(nodes_))} : rings()};
  }
  void reduce_scatter() {
    for (const auto& level : levels()) {
      c_.how == collective_algorithm::tree ? halve(level) : sink_.around(level, true);
    }
  }
  void all_gather() {
    auto all = levels();
    std::reverse(all.begin(), all.end());
    for (const auto& level : all) {
      c_.how == collective_algorithm::tree ? double_up(level) : sink_.around(level, false);
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
  // A position holds its own block and those of the following positions; it receives as many more, which follow those.
  // Precondition: rings have equal lengths.
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
    switch (c_.how) {
      case collective_algorithm::tree: return broadcast_from_first({starting_with(all_of(nodes_), root)});
      case collective_algorithm::hierarchical:
        broadcast_from_first({leaders(nodes_, root)});
        return broadcast_from_first(nodes_);
      default: return chain(starting_with(all_of(nodes_), root));
    }
  }
  // In all teams simultaneously.
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
  // In round k a block moves 2^k positions if its distance has bit k.
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

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_STEPS)

namespace unity::machine {

UNITY_INLINE std::size_t chunk_count(const topology& t, const collective& c) {
  const auto ranks = c.devices.size();
  switch (c.kind) {
    case exchange::message: return 1;
    case exchange::broadcast:
      return c.how == collective_algorithm::tree || c.how == collective_algorithm::hierarchical ? 1 : ranks;
    case exchange::all_to_all: return ranks * ranks;
    default: break;
  }
  const bool has_rails = c.how == collective_algorithm::rails && applies(t, c);
  return has_rails ? ranks * detail::by_node(t, c.devices).front().size() : ranks;
}

}  // namespace unity::machine

#endif
