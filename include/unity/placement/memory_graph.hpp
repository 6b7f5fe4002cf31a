// A graph of operators and the tensors that they read and write, with sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <boost/dynamic_bitset.hpp>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>

namespace unity::placement {

using tensor_id = id<struct memory_tensor_tag>;
using operator_id = id<struct memory_operator_tag>;

// Sets of tensors or of operators: one bit for each in the graph, by index.
using tensor_set = boost::dynamic_bitset<std::uint64_t>;
using operator_set = boost::dynamic_bitset<std::uint64_t>;

// Stable: by size and members.
[[nodiscard]] fingerprint fingerprint_of(const boost::dynamic_bitset<std::uint64_t>& set);

struct memory_tensor {
  std::string name{};
  bytes size{};
  bool is_result = false;  // must be on the host at the end

  friend bool operator==(const memory_tensor&, const memory_tensor&) = default;
};

struct memory_operator {
  std::string name{};
  std::vector<tensor_id> reads{};  // each once, ascending
  std::vector<tensor_id> writes{};

  friend bool operator==(const memory_operator&, const memory_operator&) = default;
};

// An iteration as the memory of a device sees it. Operators are numbered in a valid order. A tensor that no operator
// writes is an input and starts on the host. Regular.
// Source: Jia et al., Improving the accuracy, scalability, and performance of graph neural networks with ROC, MLSys
// 2020, section 5 (the computation graph of an iteration; here with tensors of any kind).
class memory_graph {
 public:
  // Throws: unity::error for a negative size, and if the sum of all sizes exceeds 2^52 bytes.
  tensor_id add_tensor(std::string name, bytes size, bool is_result = false);
  // The tensor must be on the host at the end.
  void set_result(tensor_id t) { tensors_[t.index()].is_result = true; }
  // Duplicates count once.
  // Throws: unity::error that names the operator if a tensor does not exist, is both read and written, was written
  // before, or is written after an operator has read it.
  operator_id add_operator(std::string name, std::vector<tensor_id> reads, std::vector<tensor_id> writes);
  // Adds a dependency that follows from no tensor. Precondition: first < second.
  void add_order(operator_id first, operator_id second);

  [[nodiscard]] std::size_t tensor_count() const noexcept { return tensors_.size(); }
  [[nodiscard]] std::size_t operator_count() const noexcept { return operators_.size(); }
  [[nodiscard]] const memory_tensor& tensor(tensor_id t) const { return tensors_[t.index()]; }
  [[nodiscard]] const memory_operator& operation(operator_id o) const { return operators_[o.index()]; }
  // The operator that writes the tensor; null for an input.
  [[nodiscard]] operator_id writer(tensor_id t) const { return writers_[t.index()]; }
  // Ascending.
  [[nodiscard]] std::span<const operator_id> readers(tensor_id t) const { return readers_[t.index()]; }
  // Producers of the operator's operands and the operators that must run before it by add_order, each once, ascending.
  [[nodiscard]] std::span<const operator_id> predecessors(operator_id o) const { return predecessors_[o.index()]; }

  [[nodiscard]] bytes size_of(const tensor_set& tensors) const;
  // Operands and results of the operator.
  [[nodiscard]] tensor_set touched(operator_id o) const;

  friend bool operator==(const memory_graph&, const memory_graph&) = default;

 private:
  void check_tensor(const std::string& where, tensor_id t) const;

  std::vector<memory_tensor> tensors_{};
  std::vector<memory_operator> operators_{};
  std::vector<operator_id> writers_{};
  std::vector<std::vector<operator_id>> readers_{};
  std::vector<std::vector<operator_id>> predecessors_{};
  bytes total_{};
};

// The operands and results of an operator must be on the device together.
struct capacity_need {
  operator_id operation{};  // null if there is none
  bytes size{};
};

// The operator that needs the most memory. No plan runs with less, and some plan runs with exactly that much.
[[nodiscard]] capacity_need least_capacity(const memory_graph& g);

// Throws: unity::error that states the least capacity if the given one is below it.
void require_capacity(const memory_graph& g, bytes capacity);

// The inputs that operators read. Each has to be loaded once, with any capacity.
[[nodiscard]] bytes input_bytes(const memory_graph& g);

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_MEMORY_GRAPH)

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::placement {

UNITY_INLINE fingerprint fingerprint_of(const boost::dynamic_bitset<std::uint64_t>& set) {
  std::vector<std::uint64_t> words;
  boost::to_block_range(set, std::back_inserter(words));
  hasher h{set.size()};
  for (const auto w : words) {
    h.add(w);
  }
  return h.result();
}

UNITY_INLINE tensor_id memory_graph::add_tensor(std::string name, bytes size, bool is_result) {
  constexpr auto most = bytes{std::int64_t{1} << 52};
  if (size < bytes{} || size > most - total_) {
    throw error{fmt::format("tensor {} ({})", tensors_.size(), name), fmt::format("{}", size),
                "sizes from 0 whose sum is 2^52 bytes at most"};
  }
  total_ += size;
  tensors_.push_back({std::move(name), size, is_result});
  writers_.emplace_back();
  readers_.emplace_back();
  return tensor_id{tensors_.size() - 1};
}

UNITY_INLINE void memory_graph::check_tensor(const std::string& where, tensor_id t) const {
  if (!t.valid() || t.index() >= tensors_.size()) {
    throw error{where, fmt::format("tensor {}", t), fmt::format("one of the {} tensors", tensors_.size())};
  }
}

UNITY_INLINE operator_id memory_graph::add_operator(std::string name, std::vector<tensor_id> reads,
                                                    std::vector<tensor_id> writes) {
  const auto where = fmt::format("operator {} ({})", operators_.size(), name);
  for (auto* const list : {&reads, &writes}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
    for (const auto t : *list) {
      check_tensor(where, t);
    }
  }
  for (const auto t : writes) {
    if (writers_[t.index()].valid() || !readers_[t.index()].empty() ||
        std::binary_search(reads.begin(), reads.end(), t)) {
      throw error{where, fmt::format("writes tensor {} ({})", t, tensors_[t.index()].name),
                  "tensors that no operator has read or written before"};
    }
  }
  const operator_id o{operators_.size()};
  auto& before = predecessors_.emplace_back();
  for (const auto t : reads) {
    readers_[t.index()].push_back(o);
    if (writers_[t.index()].valid()) {
      before.push_back(writers_[t.index()]);
    }
  }
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  for (const auto t : writes) {
    writers_[t.index()] = o;
  }
  operators_.push_back({std::move(name), std::move(reads), std::move(writes)});
  return o;
}

UNITY_INLINE void memory_graph::add_order(operator_id first, operator_id second) {
  UNITY_EXPECTS(first < second && second.index() < operators_.size(), "an operator, and one that comes before it");
  auto& before = predecessors_[second.index()];
  const auto place = std::lower_bound(before.begin(), before.end(), first);
  if (place == before.end() || *place != first) {
    before.insert(place, first);
  }
}

UNITY_INLINE bytes memory_graph::size_of(const tensor_set& tensors) const {
  bytes sum;
  for (auto t = tensors.find_first(); t != tensor_set::npos; t = tensors.find_next(t)) {
    sum += tensors_[t].size;
  }
  return sum;
}

UNITY_INLINE tensor_set memory_graph::touched(operator_id o) const {
  tensor_set all(tensors_.size());
  for (const auto t : operators_[o.index()].reads) {
    all.set(t.index());
  }
  for (const auto t : operators_[o.index()].writes) {
    all.set(t.index());
  }
  return all;
}

UNITY_INLINE capacity_need least_capacity(const memory_graph& g) {
  capacity_need most;
  for (std::size_t o = 0; o < g.operator_count(); ++o) {
    const auto size = g.size_of(g.touched(operator_id{o}));
    if (!most.operation.valid() || size > most.size) {
      most = {operator_id{o}, size};
    }
  }
  return most;
}

UNITY_INLINE void require_capacity(const memory_graph& g, bytes capacity) {
  const auto least = least_capacity(g);
  if (least.operation.valid() && capacity < least.size) {
    throw error{"memory plan", fmt::format("a capacity of {} bytes", capacity.count()),
                fmt::format("{} bytes at least, which operator {} ({}) reads and writes", least.size.count(),
                            least.operation, g.operation(least.operation).name)};
  }
}

UNITY_INLINE bytes input_bytes(const memory_graph& g) {
  bytes sum;
  for (std::size_t t = 0; t < g.tensor_count(); ++t) {
    if (!g.writer(tensor_id{t}).valid() && !g.readers(tensor_id{t}).empty()) {
      sum += g.tensor(tensor_id{t}).size;
    }
  }
  return sum;
}

}  // namespace unity::placement

#endif
