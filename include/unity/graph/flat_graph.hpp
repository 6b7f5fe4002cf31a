// The working form of a graph in canonical.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/graph/canonical_mix.hpp>

namespace unity::detail {

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
