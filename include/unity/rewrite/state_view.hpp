// One state of a search, laid out for questions: who defines a value, who uses it, what depends on what.
#pragma once

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
// memory grows with the store. States are acyclic and closed: every operand is defined by a node of the state.
class state_view {
 public:
  // Complexity: linear in the nodes and their operands.
  template <class Store>
  void load(const Store& store, std::span<const node_id> nodes) {
    begin(store.node_count(), store.value_count(), nodes);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_at_[nodes_[i].index()] = {epoch_, static_cast<std::uint32_t>(i)};
      for (const auto v : store.results(nodes_[i])) {
        slot(v).definition = nodes_[i];
      }
      for (const auto v : store.operands(nodes_[i])) {
        ++slot(v).uses;
      }
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

  // Computes the order and the ancestor sets that depends() reads.
  // Complexity: nodes x nodes / 64 words; nothing when done already for this state.
  template <class Store>
  void compute_reachability(const Store& store) {
    if (reachability_epoch_ == epoch_) {
      return;
    }
    reachability_epoch_ = epoch_;
    sort_topologically(store);
    words_ = (nodes_.size() + 63) / 64;
    ancestors_.assign(words_ * nodes_.size(), 0);
    for (const auto i : order_) {
      auto* const mine = ancestors_.data() + words_ * i;
      for (const auto v : store.operands(nodes_[i])) {
        const auto d = position(definition(v));
        const auto* const theirs = ancestors_.data() + words_ * d;
        for (std::size_t w = 0; w < words_; ++w) {
          mine[w] |= theirs[w];
        }
        mine[d / 64] |= std::uint64_t{1} << (d % 64);
      }
    }
  }
  // Whether live node `later` reads, directly or not, what live node `earlier` defines, or is that node.
  // Precondition: compute_reachability().
  [[nodiscard]] bool depends(node_id later, node_id earlier) const {
    const auto l = position(later);
    const auto e = position(earlier);
    return l == e || ((ancestors_[words_ * l + e / 64] >> (e % 64)) & 1U) != 0;
  }

  // Positions of nodes() in an order in which definitions come before uses.
  template <class Store>
  void sort_topologically(const Store& store) {
    order_.clear();
    pending_.assign(nodes_.size(), 0);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      pending_[i] = static_cast<std::uint32_t>(store.operands(nodes_[i]).size());
      if (pending_[i] == 0) {
        order_.push_back(i);
      }
    }
    for (std::size_t done = 0; done < order_.size(); ++done) {
      for (const auto v : store.results(nodes_[order_[done]])) {
        for (const auto& u : users(v)) {
          if (--pending_[position(u.node)] == 0) {
            order_.push_back(position(u.node));
          }
        }
      }
    }
    UNITY_EXPECTS(order_.size() == nodes_.size(), "an acyclic state");
  }
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }

 private:
  struct value_slot {
    std::uint32_t epoch = 0;
    node_id definition{};
    std::uint32_t uses = 0;
    std::uint32_t first_use = 0;
  };
  struct node_slot {
    std::uint32_t epoch = 0;
    std::uint32_t position = 0;
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
  value_slot& slot(value_id v) {
    auto& s = values_[v.index()];
    if (s.epoch != epoch_) {
      s = {epoch_, node_id{}, 0, 0};
    }
    return s;
  }
  template <class Store>
  void lay_out_uses(const Store& store) {
    std::uint32_t total = 0;
    for (const auto n : nodes_) {
      for (const auto v : store.results(n)) {
        auto& s = slot(v);
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

  std::uint32_t epoch_ = 0;
  std::uint32_t reachability_epoch_ = 0;
  std::vector<node_id> nodes_;
  std::vector<node_slot> nodes_at_;
  std::vector<value_slot> values_;
  std::vector<value_use> uses_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> pending_;
  std::vector<std::uint64_t> ancestors_;
  std::size_t words_ = 0;
};

}  // namespace unity
