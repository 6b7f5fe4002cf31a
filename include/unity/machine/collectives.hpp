// Collectives as transfers between devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/collective_steps.hpp>
#include <unity/machine/topology.hpp>
#include <unity/machine/transfers.hpp>

namespace unity::machine {

namespace detail {

// Generates the transfers. A rank sends when it has received everything of earlier rounds and its last transfers have
// ended; there are no other dependencies. To and from a reducing switch, a chunk only waits for the same chunk.
class transfer_writer {
 public:
  transfer_writer(const topology& t, const collective& c);

  void send(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> chunks, bool reduces);
  void end_round();
  void around(std::span<const block_ring> rings, bool reduces);
  void in_switch(std::size_t ranks);

  [[nodiscard]] transfer_graph take() && { return std::move(graph_); }

 private:
  struct sending {
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t number;
  };

  std::vector<vertex_id> ends_{};                  // by rank; the reducing switch is last
  std::vector<bytes> sizes_{};                     // by chunk
  std::vector<std::vector<std::uint32_t>> waits_;  // dependencies of the next transfer, by rank
  std::vector<sending> sent_{};                    // in this round
  transfer_graph graph_{};
};

}  // namespace detail

// The transfers of the collective. None for a single rank.
// Complexity: linear in the transfers and their chunks: for p ranks 2 p (p - 1) for a ring all-reduce.
[[nodiscard]] transfer_graph lower(const topology& t, const collective& c);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVES)

#include <algorithm>

namespace unity::machine::detail {

UNITY_INLINE transfer_writer::transfer_writer(const topology& t, const collective& c) : waits_(c.devices.size()) {
  for (std::size_t i = 0; i < chunk_count(t, c); ++i) {
    sizes_.push_back(chunk_size(t, c, i));
  }
  for (const auto d : c.devices) {
    ends_.push_back(topology::vertex_of(d));
  }
  if (const auto s = reducing_switch(t, c.devices)) {
    ends_.push_back(*s);
  }
}

UNITY_INLINE void transfer_writer::send(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> chunks,
                                        bool reduces) {
  bytes size{};
  for (const auto chunk : chunks) {
    size += sizes_[chunk];
  }
  sent_.push_back({from, to, graph_.add({ends_[from], ends_[to], size, reduces}, waits_[from], chunks)});
}

UNITY_INLINE void transfer_writer::end_round() {
  for (const auto& s : sent_) {
    waits_[s.from].clear();
  }
  for (const auto& s : sent_) {
    waits_[s.from].push_back(s.number);
  }
  for (const auto& s : sent_) {
    waits_[s.to].push_back(s.number);
  }
  sent_.clear();
}

UNITY_INLINE void transfer_writer::around(std::span<const block_ring> rings, bool reduces) {
  std::size_t longest = 0;
  for (const auto& ring : rings) {
    longest = std::max(longest, ring.ranks.size());
  }
  for (std::size_t step = 0; step + 1 < longest; ++step) {
    for (const auto& [ranks, blocks] : rings) {
      const auto count = ranks.size();
      for (std::size_t x = 0; step + 1 < count && x < count; ++x) {
        const auto begun = x + count - step;  // the position where the block started
        send(ranks[x], ranks[(x + 1) % count], blocks[(reduces ? begun + count - 1 : begun) % count], reduces);
      }
    }
    end_round();
  }
}

UNITY_INLINE void transfer_writer::in_switch(std::size_t ranks) {
  const auto center = static_cast<std::uint32_t>(ranks);
  for (std::uint32_t chunk = 0; chunk < sizes_.size(); ++chunk) {
    std::vector<std::uint32_t> sent;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      sent.push_back(graph_.add({ends_[r], ends_[center], sizes_[chunk], true}, {}, {&chunk, 1}));
    }
    for (std::uint32_t r = 0; r < ranks; ++r) {
      graph_.add({ends_[center], ends_[r], sizes_[chunk], false}, sent, {&chunk, 1});
    }
  }
}

}  // namespace unity::machine::detail

namespace unity::machine {

UNITY_INLINE transfer_graph lower(const topology& t, const collective& c) {
  detail::check_collective(t, c);
  if (c.devices.size() < 2) {
    return {};
  }
  detail::transfer_writer transfers{t, c};
  detail::collective_steps{t, c, transfers}.run();
  return std::move(transfers).take();
}

}  // namespace unity::machine

#endif
