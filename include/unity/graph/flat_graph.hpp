// The working form of a graph in canonical.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <unity/core/hash.hpp>

namespace unity::detail {

// The two halves of the 128-bit product, folded: one multiplication that every bit of both factors reaches.
[[nodiscard]] constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

// Order-sensitive: the state after one more 128-bit word. hasher (core/hash.hpp) mixes better and costs six times as
// much; words here are hashes themselves.
[[nodiscard]] constexpr fingerprint absorb(fingerprint state, fingerprint word) noexcept {
  return {fold(state.low ^ word.low ^ 0xa0761d6478bd642fU, state.high ^ word.high ^ 0xe7037ed1a0b428dbU),
          fold(state.low + word.high + 0x8ebc6af09c88c6e3U, state.high + word.low + 0x589965cc75374cc3U)};
}

// Two small or unmixed numbers as a state.
[[nodiscard]] constexpr fingerprint seed_hash(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t low = mix64(a + b * 0x9e3779b97f4a7c15U);
  return {low, fold(a ^ 0x1d8e4e27c47d124fU, low ^ 0xeb44accab455d165U) + b};
}

// The hash of what has been absorbed, `count` words: fit to be summed into the hash of a multiset.
[[nodiscard]] constexpr fingerprint finish(fingerprint state, std::uint64_t count) noexcept {
  return {mix64(state.low ^ (count * 0x9e3779b97f4a7c15U)), mix64(state.high + count)};
}

// The hash of result number k of a node.
[[nodiscard]] constexpr fingerprint result_hash(fingerprint node, std::uint64_t k) noexcept {
  return k == 0 ? node : absorb(node, {k * 0x9e3779b97f4a7c15U, k});
}

// Seeds for the members of different multisets, so that sums over one kind are never confused with another.
inline constexpr fingerprint set_seed{0x452821e638d01377U, 0xbe5466cf34e90c6cU};
inline constexpr fingerprint component_seed{0xc0ac29b7c97c50ddU, 0x3f84d5b5b5470917U};
inline constexpr fingerprint chosen_seed{0x9216d5d98979fb1bU, 0xd1310ba698dfb5acU};
inline constexpr fingerprint use_seed{0x2ffd72dbd01adfb7U, 0xb8e1afed6a267e96U};
inline constexpr fingerprint output_seed{0xba7c9045f12c7f99U, 0x24a19947b3916cf7U};

// A graph in flat arrays; nodes are the positions 0 .. n-1 of a topological order.
struct flat_graph {
  using place = std::uint32_t;

  struct operand {
    place producer;
    std::uint32_t result;
  };
  struct reader {
    place user;
    std::uint64_t tag;  // which result it reads and, unless the reader is commutative, at which operand
  };

  std::vector<fingerprint> colour;  // initially the forward hash; refinement makes it more specific
  std::vector<char> ambiguous;      // whether another node has the same forward hash
  std::vector<char> commutative;
  std::vector<std::uint32_t> first_operand;
  std::vector<operand> operands;
  std::vector<std::uint32_t> first_reader;
  std::vector<reader> readers;

  void start(std::size_t nodes) {
    commutative.clear();
    commutative.reserve(nodes);
    operands.clear();
    first_operand.assign(1, 0);
  }
  void add_operand(place producer, std::uint32_t result) { operands.push_back({producer, result}); }
  void close_node(bool is_commutative) {
    commutative.push_back(static_cast<char>(is_commutative));
    first_operand.push_back(static_cast<std::uint32_t>(operands.size()));
  }
  void collect_uses();
  // An output distinguishes its producer from every other node.
  void mark_output(place producer, std::uint32_t result, std::uint64_t position) {
    if (ambiguous[producer] != 0) {
      colour[producer] += absorb(output_seed, {position, result});
    }
  }
};

inline void flat_graph::collect_uses() {
  const std::size_t nodes = commutative.size();
  first_reader.assign(nodes + 2, 0);
  for (const auto& o : operands) {
    ++first_reader[o.producer + std::size_t{2}];
  }
  std::partial_sum(first_reader.begin(), first_reader.end(), first_reader.begin());
  readers.resize(operands.size());
  for (place n = 0; n < nodes; ++n) {
    for (auto i = first_operand[n]; i < first_operand[n + std::size_t{1}]; ++i) {
      const std::uint64_t position = commutative[n] != 0 ? 0xffffffffU : i - first_operand[n];
      const auto& o = operands[i];
      readers[first_reader[o.producer + std::size_t{1}]++] = {n, (std::uint64_t{o.result} << 32U) | position};
    }
  }
  first_reader.pop_back();
}

}  // namespace unity::detail
