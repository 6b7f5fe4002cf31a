// Collectives as transfers between devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/topology.hpp>
#include <unity/machine/transfers.hpp>

namespace unity::machine {

// Into how many chunks the transfers of lower(t, c) divide what is moved. Of all but all_to_all: the vector of `size`
// bytes is cut into so many parts; where there is one per rank, chunk r is the one that rank r ends or begins with. Of
// all_to_all: chunk s * ranks + d is what rank s gives rank d.
[[nodiscard]] std::size_t chunk_count(const collective& c) noexcept;
[[nodiscard]] inline bytes chunk_size(const collective& c, std::size_t chunk) noexcept {
  return c.kind == exchange::all_to_all ? part_size(c.size, c.devices.size(), chunk % c.devices.size())
                                        : part_size(c.size, chunk_count(c), chunk);
}

namespace detail {

// Lowers one collective. Transfers are made in rounds. A rank sends when it has what it was sent in earlier rounds and
// its last transfer is out; that is all that orders transfers.
class collective_lowering {
 public:
  collective_lowering(const topology& t, const collective& c);

  [[nodiscard]] transfer_graph run() &&;

 private:
  using chunk_list = std::vector<std::uint32_t>;
  using block_list = std::vector<chunk_list>;  // of each place of a team

  void send(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> chunks, bool reduces);
  void end_round();

  // The block of a place travels on, each place adding its own, and ends complete at its place.
  void scatter_around(const team& ranks, const block_list& blocks);
  // The block of each place travels on to all others.
  void gather_around(const team& ranks, const block_list& blocks);
  [[nodiscard]] static block_list one_each(const team& ranks);

  void ring_reduce_scatter() {
    const auto ring = all_of(nodes_);
    scatter_around(ring, one_each(ring));
  }
  void ring_all_gather() {
    const auto ring = all_of(nodes_);
    gather_around(ring, one_each(ring));
  }
  void ring_all_reduce() {
    ring_reduce_scatter();
    ring_all_gather();
  }

  // Place i of a node stands for place i of all nodes.
  [[nodiscard]] block_list columns() const;
  void grid_reduce_scatter();
  void grid_all_gather();
  void grid_all_reduce() {
    grid_reduce_scatter();
    grid_all_gather();
  }

  // The chunks of a subtree: those of places from `first`, `step` of them where there are as many.
  [[nodiscard]] static chunk_list subtree(const team& ranks, std::size_t first, std::size_t step) {
    const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(std::min(step, ranks.size() - first))};
  }
  [[nodiscard]] chunk_list everything() const;
  void reduce_to_first(const team& ranks);
  void broadcast_from_first(const team& ranks);
  void tree_all_reduce();
  void tree_reduce_scatter();
  void tree_all_gather();

  void broadcast();
  // A pipeline: chunk after chunk from each rank to the next.
  void chain(const team& ranks);

  [[nodiscard]] std::uint32_t block(std::uint32_t source, std::uint32_t destination) const {
    return source * static_cast<std::uint32_t>(c_.devices.size()) + destination;
  }
  void shifts();
  // In round k a block moves 2^k places on, where the number of places that it has to go has that bit.
  void bruck();
  // What is for place j of any node goes to place j of one's own first.
  void grid_all_to_all();

  struct sending {
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t number;
  };

  const collective& c_;
  std::vector<team> nodes_;
  std::vector<bytes> sizes_{};                     // of each chunk
  std::vector<std::vector<std::uint32_t>> waits_;  // what the next transfer of a rank depends on
  std::vector<sending> sent_{};                    // in this round
  transfer_graph graph_{};
};

}  // namespace detail

// The transfers of the collective. None where a rank is alone.
// Complexity: linear in the transfers and their chunks: for p ranks 2 p (p - 1) of a ring all-reduce.
[[nodiscard]] inline transfer_graph lower(const topology& t, const collective& c) {
  detail::check_collective(t, c);
  return c.devices.size() < 2 ? transfer_graph{} : detail::collective_lowering{t, c}.run();
}

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVES)

#include <numeric>

#include <unity/core/config.hpp>

namespace unity::machine {

UNITY_INLINE std::size_t chunk_count(const collective& c) noexcept {
  const auto ranks = c.devices.size();
  const bool whole = c.kind == exchange::message ||
                     (c.kind == exchange::broadcast && c.how != collective_algorithm::ring) ||
                     (c.kind == exchange::all_reduce && c.how == collective_algorithm::tree);
  return whole ? 1 : c.kind == exchange::all_to_all ? ranks * ranks : ranks;
}

}  // namespace unity::machine

namespace unity::machine::detail {

UNITY_INLINE collective_lowering::collective_lowering(const topology& t, const collective& c)
    : c_{c}, nodes_{by_node(t, c.devices)}, waits_(c.devices.size()) {
  for (std::size_t i = 0; i < chunk_count(c); ++i) {
    sizes_.push_back(chunk_size(c, i));
  }
}

UNITY_INLINE transfer_graph collective_lowering::run() && {
  const bool tree = c_.how == collective_algorithm::tree;
  const bool grid = c_.how == collective_algorithm::hierarchical && is_grid(nodes_);
  switch (c_.kind) {
    case exchange::message:
      send(0, 1, chunk_list{0}, false);
      end_round();
      break;
    case exchange::all_reduce: tree ? tree_all_reduce() : grid ? grid_all_reduce() : ring_all_reduce(); break;
    case exchange::reduce_scatter:
      tree ? tree_reduce_scatter() : grid ? grid_reduce_scatter() : ring_reduce_scatter();
      break;
    case exchange::all_gather: tree ? tree_all_gather() : grid ? grid_all_gather() : ring_all_gather(); break;
    case exchange::broadcast: broadcast(); break;
    case exchange::all_to_all: tree ? bruck() : grid ? grid_all_to_all() : shifts(); break;
  }
  return std::move(graph_);
}

UNITY_INLINE void collective_lowering::send(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> chunks,
                                            bool reduces) {
  bytes size{};
  for (const auto chunk : chunks) {
    size += sizes_[chunk];
  }
  sent_.push_back({from, to, graph_.add({c_.devices[from], c_.devices[to], size, reduces}, waits_[from], chunks)});
}

UNITY_INLINE void collective_lowering::end_round() {
  for (const auto& s : sent_) {
    waits_[s.from].assign(1, s.number);
  }
  for (const auto& s : sent_) {
    waits_[s.to].push_back(s.number);
  }
  sent_.clear();
}

UNITY_INLINE void collective_lowering::scatter_around(const team& ranks, const block_list& blocks) {
  const auto count = ranks.size();
  for (std::size_t step = 0; step + 1 < count; ++step) {
    for (std::size_t x = 0; x < count; ++x) {
      send(ranks[x], ranks[(x + 1) % count], blocks[(x + 2 * count - step - 1) % count], true);
    }
    end_round();
  }
}

UNITY_INLINE void collective_lowering::gather_around(const team& ranks, const block_list& blocks) {
  const auto count = ranks.size();
  for (std::size_t step = 0; step + 1 < count; ++step) {
    for (std::size_t x = 0; x < count; ++x) {
      send(ranks[x], ranks[(x + 1) % count], blocks[(x + count - step) % count], false);
    }
    end_round();
  }
}

UNITY_INLINE auto collective_lowering::one_each(const team& ranks) -> block_list {
  block_list blocks;
  for (const auto r : ranks) {
    blocks.push_back({r});
  }
  return blocks;
}

UNITY_INLINE auto collective_lowering::columns() const -> block_list {
  block_list blocks;
  for (std::size_t i = 0; i < nodes_.front().size(); ++i) {
    blocks.push_back(across(nodes_, i));
  }
  return blocks;
}

UNITY_INLINE void collective_lowering::grid_reduce_scatter() {
  const auto blocks = columns();
  for (const auto& n : nodes_) {
    scatter_around(n, blocks);
  }
  for (const auto& column : blocks) {
    scatter_around(column, one_each(column));
  }
}

UNITY_INLINE void collective_lowering::grid_all_gather() {
  const auto blocks = columns();
  for (const auto& column : blocks) {
    gather_around(column, one_each(column));
  }
  for (const auto& n : nodes_) {
    gather_around(n, blocks);
  }
}

UNITY_INLINE auto collective_lowering::everything() const -> chunk_list {
  chunk_list all(sizes_.size());
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

UNITY_INLINE void collective_lowering::reduce_to_first(const team& ranks) {
  const auto all = everything();
  for (std::size_t step = 1; step < ranks.size(); step *= 2) {
    binomial_round(ranks.size(), step,
                   [&](std::size_t parent, std::size_t child) { send(ranks[child], ranks[parent], all, true); });
    end_round();
  }
}

UNITY_INLINE void collective_lowering::broadcast_from_first(const team& ranks) {
  const auto all = everything();
  for (auto step = widest_step(ranks.size()); step > 0; step /= 2) {
    binomial_round(ranks.size(), step,
                   [&](std::size_t parent, std::size_t child) { send(ranks[parent], ranks[child], all, false); });
    end_round();
  }
}

UNITY_INLINE void collective_lowering::tree_all_reduce() {
  const auto ranks = all_of(nodes_);
  reduce_to_first(ranks);
  broadcast_from_first(ranks);
}

UNITY_INLINE void collective_lowering::tree_reduce_scatter() {
  const auto ranks = all_of(nodes_);
  reduce_to_first(ranks);
  for (auto step = widest_step(ranks.size()); step > 0; step /= 2) {
    binomial_round(ranks.size(), step, [&](std::size_t parent, std::size_t child) {
      send(ranks[parent], ranks[child], subtree(ranks, child, step), false);
    });
    end_round();
  }
}

UNITY_INLINE void collective_lowering::tree_all_gather() {
  const auto ranks = all_of(nodes_);
  for (std::size_t step = 1; step < ranks.size(); step *= 2) {
    binomial_round(ranks.size(), step, [&](std::size_t parent, std::size_t child) {
      send(ranks[child], ranks[parent], subtree(ranks, child, step), false);
    });
    end_round();
  }
  broadcast_from_first(ranks);
}

UNITY_INLINE void collective_lowering::broadcast() {
  const auto root = static_cast<std::uint32_t>(c_.root);
  switch (c_.how) {
    case collective_algorithm::ring: return chain(starting_with(all_of(nodes_), root));
    case collective_algorithm::tree: return broadcast_from_first(starting_with(all_of(nodes_), root));
    case collective_algorithm::hierarchical: {
      const auto first = leaders(nodes_, root);
      broadcast_from_first(first);
      for (const auto& n : nodes_) {
        broadcast_from_first(n);
      }
    }
  }
}

UNITY_INLINE void collective_lowering::chain(const team& ranks) {
  const auto links = ranks.size() - 1;
  for (std::size_t round = 0; round + 1 < links + sizes_.size(); ++round) {
    for (std::size_t x = 0; x < links; ++x) {
      if (x <= round && round - x < sizes_.size()) {
        send(ranks[x], ranks[x + 1], chunk_list{static_cast<std::uint32_t>(round - x)}, false);
      }
    }
    end_round();
  }
}

UNITY_INLINE void collective_lowering::shifts() {
  const auto ranks = all_of(nodes_);
  for (std::size_t shift = 1; shift < ranks.size(); ++shift) {
    for (std::size_t x = 0; x < ranks.size(); ++x) {
      const auto to = ranks[(x + shift) % ranks.size()];
      send(ranks[x], to, chunk_list{block(ranks[x], to)}, false);
    }
    end_round();
  }
}

UNITY_INLINE void collective_lowering::bruck() {
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
      send(ranks[x], ranks[(x + bit) % count], blocks, false);
    }
    end_round();
  }
}

UNITY_INLINE void collective_lowering::grid_all_to_all() {
  const auto places = nodes_.front().size();
  for (std::size_t shift = 1; shift < places; ++shift) {
    for (const auto& n : nodes_) {
      for (std::size_t i = 0; i < places; ++i) {
        const auto j = (i + shift) % places;
        chunk_list blocks;
        for (const auto& other : nodes_) {
          blocks.push_back(block(n[i], other[j]));
        }
        send(n[i], n[j], blocks, false);
      }
    }
    end_round();
  }
  for (std::size_t shift = 1; shift < nodes_.size(); ++shift) {
    for (std::size_t a = 0; a < nodes_.size(); ++a) {
      const auto& to = nodes_[(a + shift) % nodes_.size()];
      for (std::size_t j = 0; j < places; ++j) {
        chunk_list blocks;
        for (const auto source : nodes_[a]) {
          blocks.push_back(block(source, to[j]));
        }
        send(nodes_[a][j], to[j], blocks, false);
      }
    }
    end_round();
  }
}

}  // namespace unity::machine::detail

#endif
