// Collectives as transfers between devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/hardware/collective_flows.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// Transfers between devices and the order between them, in flat arrays.

// A transfer from one device or switch to another.
struct transfer {
  vertex_id from{};
  vertex_id to{};
  bytes size{};
  bool reduces = false;  // the receiver adds the data to its own, otherwise it stores them

  friend bool operator==(const transfer&, const transfer&) = default;
};

// Transfers in an order compatible with their dependencies: each depends only on earlier ones. A transfer may begin
// when its dependencies have ended. The data of a collective is divided into chunks, dense from 0; `chunks` of a
// transfer are those that it carries, so that the result can be checked.
// Regular.
class transfer_graph {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return transfers_.size(); }
  [[nodiscard]] std::span<const transfer> transfers() const noexcept { return transfers_; }
  [[nodiscard]] const transfer& operator[](std::size_t i) const {
    UNITY_EXPECTS(i < size(), "a transfer");
    return transfers_[i];
  }
  [[nodiscard]] std::span<const std::uint32_t> dependencies(std::size_t i) const {
    return row(dependencies_, first_dependency_, i);
  }
  [[nodiscard]] std::span<const std::uint32_t> chunks(std::size_t i) const { return row(chunks_, first_chunk_, i); }

  // Returns its index.
  std::uint32_t add(const transfer& t, std::span<const std::uint32_t> dependencies,
                    std::span<const std::uint32_t> chunks);

  friend bool operator==(const transfer_graph&, const transfer_graph&) = default;

 private:
  [[nodiscard]] std::span<const std::uint32_t> row(const std::vector<std::uint32_t>& all,
                                                   const std::vector<std::size_t>& first, std::size_t i) const {
    UNITY_EXPECTS(i < size(), "a transfer");
    return {all.data() + first[i], first[i + 1] - first[i]};
  }

  std::vector<transfer> transfers_{};
  std::vector<std::size_t> first_dependency_{0};
  std::vector<std::uint32_t> dependencies_{};
  std::vector<std::size_t> first_chunk_{0};
  std::vector<std::uint32_t> chunks_{};
};

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

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_COLLECTIVES)

#include <algorithm>
#include <limits>

namespace unity::hardware {

UNITY_INLINE std::uint32_t transfer_graph::add(const transfer& t, std::span<const std::uint32_t> dependencies,
                                               std::span<const std::uint32_t> chunks) {
  const auto number = static_cast<std::uint32_t>(size());
  for (const auto d : dependencies) {
    UNITY_EXPECTS(d < number, "dependencies that were added before");
  }
  transfers_.push_back(t);
  dependencies_.insert(dependencies_.end(), dependencies.begin(), dependencies.end());
  first_dependency_.push_back(dependencies_.size());
  chunks_.insert(chunks_.end(), chunks.begin(), chunks.end());
  first_chunk_.push_back(chunks_.size());
  return number;
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

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

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE transfer_graph lower(const topology& t, const collective& c) {
  detail::check_collective(t, c);
  if (c.devices.size() < 2) {
    return {};
  }
  detail::transfer_writer transfers{t, c};
  detail::collective_steps{t, c, transfers}.run();
  return std::move(transfers).take();
}

}  // namespace unity::hardware

#endif
