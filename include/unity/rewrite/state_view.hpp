// One state of a search, laid out for questions: who defines a value, who uses it, what depends on what.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/node_store.hpp>

namespace unity {

struct value_use {
  node_id node{};
  std::uint32_t operand = 0;
};

// A set of nodes of a store, indexed. Reusable: load() costs the size of the state, whatever was loaded before;
// memory grows with the store. States are closed and in order: every operand is a result of an earlier node.
class state_view {
 public:
  // Complexity: linear in the nodes and their operands.
  template <class Store>
  void load(const Store& store, std::span<const node_id> nodes) {
    begin(store.node_count(), store.value_count(), nodes);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      std::uint32_t level = 0;
      for (const auto v : store.operands(nodes_[i])) {
        auto& s = values_[v.index()];
        UNITY_EXPECTS(s.epoch == epoch_, "operands that are results of earlier nodes");
        ++s.uses;
        level = std::max(level, s.level + 1);
      }
      std::uint32_t result = 0;
      for (const auto v : store.results(nodes_[i])) {
        values_[v.index()] = {epoch_, nodes_[i], 0, 0, level, i, result++};
      }
      nodes_at_[nodes_[i].index()] = {epoch_, i, level};
    }
    lay_out_uses(store);
  }

  [[nodiscard]] std::span<const node_id> nodes() const noexcept { return nodes_; }
  [[nodiscard]] bool live(node_id n) const {
    return n.index() < nodes_at_.size() && nodes_at_[n.index()].epoch == epoch_;
  }
  // The position of a live node in nodes().
  [[nodiscard]] std::uint32_t position(node_id n) const { return nodes_at_[n.index()].position; }

  // The node that defines v; null where v does not live here.
  [[nodiscard]] node_id definition(value_id v) const {
    return v.index() < values_.size() && values_[v.index()].epoch == epoch_ ? values_[v.index()].definition : node_id{};
  }
  // Of a live value: the position of its definition, and which of its results it is.
  struct place_of_value {
    std::uint32_t position;
    std::uint32_t result;
  };
  [[nodiscard]] place_of_value place(value_id v) const {
    const auto& s = values_[v.index()];
    return {s.position, s.result};
  }
  [[nodiscard]] std::uint32_t use_count(value_id v) const {
    return v.index() < values_.size() && values_[v.index()].epoch == epoch_ ? values_[v.index()].uses : 0;
  }
  [[nodiscard]] std::span<const value_use> users(value_id v) const {
    if (use_count(v) == 0) {
      return {};
    }
    const auto& s = values_[v.index()];
    return {uses_.data() + s.first_use, s.uses};
  }

  // Whether live node `later` reads, directly or not, what live node `earlier` defines, or is that node.
  // Complexity: usually constant, from the nodes' depths; else, once per state, nodes x operands / 64 words.
  template <class Store>
  [[nodiscard]] bool depends(const Store& store, node_id later, node_id earlier) {
    const auto& l = nodes_at_[later.index()];
    const auto& e = nodes_at_[earlier.index()];
    if (l.level <= e.level) {
      return l.position == e.position;
    }
    compute_ancestors(store);
    return ((ancestors_[words_ * l.position + e.position / 64] >> (e.position % 64)) & 1U) != 0;
  }

 private:
  struct value_slot {
    std::uint32_t epoch = 0;
    node_id definition{};
    std::uint32_t uses = 0;
    std::uint32_t first_use = 0;
    std::uint32_t level = 0;
    std::uint32_t position = 0;
    std::uint32_t result = 0;
  };
  struct node_slot {
    std::uint32_t epoch = 0;
    std::uint32_t position = 0;
    std::uint32_t level = 0;  // the longest way from a node without operands
  };

  void begin(std::size_t nodes, std::size_t values, std::span<const node_id> live) {
    nodes_.assign(live.begin(), live.end());
    if (nodes_at_.size() < nodes) {
      nodes_at_.resize(nodes + nodes / 2);
    }
    if (values_.size() < values) {
      values_.resize(values + values / 2);
    }
    ++epoch_;
  }
  template <class Store>
  void lay_out_uses(const Store& store) {
    std::uint32_t total = 0;
    for (const auto n : nodes_) {
      for (const auto v : store.results(n)) {
        auto& s = values_[v.index()];
        s.first_use = total;
        total += s.uses;
        s.uses = 0;  // counts again while the uses are written
      }
    }
    uses_.resize(total);
    for (const auto n : nodes_) {
      const auto operands = store.operands(n);
      for (std::uint32_t k = 0; k < operands.size(); ++k) {
        auto& s = values_[operands[k].index()];
        uses_[s.first_use + s.uses++] = {n, k};
      }
    }
  }
  template <class Store>
  void compute_ancestors(const Store& store) {
    if (ancestors_epoch_ == epoch_) {
      return;
    }
    ancestors_epoch_ = epoch_;
    words_ = (nodes_.size() + 63) / 64;
    ancestors_.assign(words_ * nodes_.size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      auto* const mine = ancestors_.data() + words_ * i;
      for (const auto v : store.operands(nodes_[i])) {
        const std::size_t d = place(v).position;
        const auto* const theirs = ancestors_.data() + words_ * d;
        for (std::size_t w = 0; w <= d / 64; ++w) {
          mine[w] |= theirs[w];
        }
        mine[d / 64] |= std::uint64_t{1} << (d % 64);
      }
    }
  }

  std::uint32_t epoch_ = 0;
  std::uint32_t ancestors_epoch_ = 0;
  std::vector<node_id> nodes_;
  std::vector<node_slot> nodes_at_;
  std::vector<value_slot> values_;
  std::vector<value_use> uses_;
  std::vector<std::uint64_t> ancestors_;
  std::size_t words_ = 0;
};

}  // namespace unity
