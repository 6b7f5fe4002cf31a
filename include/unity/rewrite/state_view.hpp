// An index of one state of a search: which node defines a value, which nodes use it, what depends on what.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>

namespace unity {

struct value_use {
  node_id node{};
  std::uint32_t operand = 0;
};

inline constexpr std::uint32_t no_use = ~std::uint32_t{0};

struct linked_use {
  value_use here;
  std::uint32_t next;
};

// The uses of one value: a forward range.
class use_list {
 public:
  class iterator {
   public:
    using value_type = value_use;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    iterator(const linked_use* all, std::uint32_t at) : all_{all}, at_{at} {}
    const value_use& operator*() const { return all_[at_].here; }
    iterator& operator++() {
      at_ = all_[at_].next;
      return *this;
    }
    iterator operator++(int) { return std::exchange(*this, iterator{all_, all_[at_].next}); }
    friend bool operator==(const iterator&, const iterator&) = default;

   private:
    const linked_use* all_ = nullptr;
    std::uint32_t at_ = 0;
  };

  use_list(const linked_use* all, std::uint32_t first, std::uint32_t count) : all_{all}, first_{first}, count_{count} {}
  [[nodiscard]] iterator begin() const { return {all_, first_}; }
  [[nodiscard]] iterator end() const { return {all_, no_use}; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  const linked_use* all_;
  std::uint32_t first_;
  std::uint32_t count_;
};

// A set of nodes of a store, indexed. Reusable: load() takes time linear in the state, independent of earlier states;
// memory grows with the store. States are closed and ordered: every operand is a result of an earlier node.
class state_view {
 public:
  // Complexity: linear in the nodes and their operands.
  template <class Store>
  void load(const Store& store, std::span<const node_id> nodes) {
    begin(store.node_count(), store.value_count(), nodes);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      std::uint32_t level = 0;
      std::uint32_t operand = 0;
      for (const auto v : store.operands(nodes_[i])) {
        auto& s = values_[v.index()];
        UNITY_EXPECTS(s.epoch == epoch_, "operands that are results of earlier nodes");
        ++s.uses;
        uses_.push_back({{nodes_[i], operand++}, std::exchange(s.last_use, static_cast<std::uint32_t>(uses_.size()))});
        level = std::max(level, s.level + 1);
      }
      std::uint32_t result = 0;
      for (const auto v : store.results(nodes_[i])) {
        values_[v.index()] = {epoch_, nodes_[i], 0, no_use, level, i, result++};
      }
      nodes_at_[nodes_[i].index()] = {epoch_, i, level};
    }
  }

  [[nodiscard]] std::span<const node_id> nodes() const noexcept { return nodes_; }
  [[nodiscard]] bool live(node_id n) const {
    return n.index() < nodes_at_.size() && nodes_at_[n.index()].epoch == epoch_;
  }
  // The position of a live node in nodes().
  [[nodiscard]] std::uint32_t position(node_id n) const { return nodes_at_[n.index()].position; }

  // The node that defines v; null if v is not live.
  [[nodiscard]] node_id definition(value_id v) const {
    return v.index() < values_.size() && values_[v.index()].epoch == epoch_ ? values_[v.index()].definition : node_id{};
  }
  // Of a live value: the position of its definition, and the index of the result.
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
  // The uses of v, latest first.
  [[nodiscard]] use_list users(value_id v) const {
    const auto count = use_count(v);
    return {uses_.data(), count == 0 ? no_use : values_[v.index()].last_use, count};
  }

  // For a value with more uses than this, nodes that share it are searched only within blocks of its uses; otherwise
  // the number of pairs and triples would be quadratic and cubic in the uses.
  static constexpr std::size_t most_neighbours = 64;
  static constexpr std::uint32_t few_neighbours = 8;
  // Uses of v, earliest first: the block of at most `size` uses that contains the first use by n, a user of v. Blocks
  // are counted from the first use.
  // Complexity: linear in the uses the first time, logarithmic afterwards.
  [[nodiscard]] std::span<const value_use> users_near(value_id v, node_id n, std::size_t size);

  // Whether live node `later` depends, directly or indirectly, on live node `earlier`, or is the same node.
  // Conservatively true if `earlier` has no operands, and in large states if the answer takes too many steps.
  // Complexity: usually constant, from the nodes' depths; otherwise nodes x operands / 64 words once per state. In
  // states of more than `most_rows` nodes, for which that is too many words, at most `most_steps` nodes per call.
  template <class Store>
  [[nodiscard]] bool depends(const Store& store, node_id later, node_id earlier) {
    const auto& l = nodes_at_[later.index()];
    const auto& e = nodes_at_[earlier.index()];
    if (l.level <= e.level) {
      return l.position == e.position;
    }
    if (e.level == 0) {
      return true;  // a source: no caller needs the exact answer, and true is the safe one
    }
    if (nodes_.size() > most_rows) {
      return may_reach(store, later, earlier);
    }
    compute_ancestors(store);
    const auto bit = row_[e.position];
    return ((ancestors_[words_ * row_[l.position] + bit / 64] >> (bit % 64)) & 1U) != 0;
  }

  // Visits, in ascending order, the pairs (i, j), j < i, for which neither among[i] nor among[j] depends on the other,
  // as defined by depends(). Expects live nodes in the order of nodes(). For more than `most_apart` of them, considers
  // only pairs less than `few_neighbours` apart in `among`.
  // Complexity: nodes / 64 words for each of `among`, plus the pairs; plus, once per state, the cost of depends().
  template <class Store, class Visit>
  void visit_pairs_apart(const Store& store, std::span<const node_id> among, const Visit& visit) {
    if (among.size() > most_apart || nodes_.size() > most_rows) {
      const auto near = among.size() > most_apart ? std::size_t{few_neighbours} : most_apart + 1;
      for (std::uint32_t i = 0; i < among.size(); ++i) {
        for (auto j = i < near ? 0U : static_cast<std::uint32_t>(i - near + 1); j < i; ++j) {
          if (!depends(store, among[i], among[j]) && !depends(store, among[j], among[i])) {
            visit(i, j);
          }
        }
      }
      return;
    }
    compute_ancestors(store);
    seen_.assign(words_, 0);
    index_of_row_.resize(words_ * 64);
    for (std::uint32_t i = 0; i < among.size(); ++i) {
      const auto& slot = nodes_at_[among[i].index()];
      if (slot.level == 0) {  // sources are independent only of each other
        for (std::uint32_t j = 0; j < i; ++j) {
          if (nodes_at_[among[j].index()].level == 0) {
            visit(i, j);
          }
        }
        continue;
      }
      const auto row = row_[slot.position];
      const auto* const ancestors = ancestors_.data() + words_ * row;
      for (std::size_t w = 0; w <= row / 64; ++w) {
        for (auto apart = seen_[w] & ~ancestors[w]; apart != 0; apart &= apart - 1) {
          visit(i, index_of_row_[w * 64 + static_cast<std::size_t>(std::countr_zero(apart))]);
        }
      }
      seen_[row / 64] |= std::uint64_t{1} << (row % 64);
      index_of_row_[row] = i;
    }
  }

 private:
  static constexpr std::size_t most_rows = 1U << 14U;  // 32 MiB of ancestors
  static constexpr std::size_t most_apart = 256;
  static constexpr std::size_t most_steps = 1U << 10U;

  struct value_slot {
    std::uint32_t epoch = 0;
    node_id definition{};
    std::uint32_t uses = 0;
    std::uint32_t last_use = 0;
    std::uint32_t level = 0;
    std::uint32_t position = 0;
    std::uint32_t result = 0;
  };
  struct node_slot {
    std::uint32_t epoch = 0;
    std::uint32_t position = 0;
    std::uint32_t level = 0;  // the length of the longest path from a node without operands
  };

  void begin(std::size_t nodes, std::size_t values, std::span<const node_id> live);
  template <class Store>
  void compute_ancestors(const Store& store) {
    if (ancestors_epoch_ == epoch_) {
      return;
    }
    ancestors_epoch_ = epoch_;
    // Nodes without operands depend on nothing and are omitted: rows and bits are numbered without them.
    row_.resize(nodes_.size());
    std::uint32_t rows = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      row_[i] = rows;
      rows += store.operands(nodes_[i]).empty() ? 0 : 1;
    }
    words_ = (rows + 63) / 64;
    ancestors_.assign(words_ * rows, 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const auto v : store.operands(nodes_[i])) {
        if (values_[v.index()].level != 0) {
          inherit_ancestors(row_[i], row_[place(v).position]);
        }
      }
    }
  }
  void inherit_ancestors(std::size_t row, std::size_t from);

  // Searches down from `later` through nodes that are deeper than `earlier`.
  template <class Store>
  [[nodiscard]] bool may_reach(const Store& store, node_id later, node_id earlier) {
    const auto level = nodes_at_[earlier.index()].level;
    walk_.assign(1, later);
    walked_.resize(nodes_.size());
    ++walk_stamp_;
    for (std::size_t next = 0; next < walk_.size(); ++next) {
      for (const auto v : store.operands(walk_[next])) {
        const auto& below = values_[v.index()];
        if (below.definition == earlier) {
          return true;
        }
        // The level of a value is that of its definition.
        if (below.level > level && std::exchange(walked_[below.position], walk_stamp_) != walk_stamp_) {
          if (walk_.size() == most_steps) {
            return true;
          }
          walk_.push_back(below.definition);
        }
      }
    }
    return false;
  }

  std::uint32_t epoch_ = 0;
  std::uint32_t ancestors_epoch_ = 0;
  std::vector<node_id> nodes_;
  std::vector<node_slot> nodes_at_;
  std::vector<value_slot> values_;
  std::vector<linked_use> uses_;
  std::vector<std::uint32_t> row_;  // by position
  std::vector<std::uint64_t> ancestors_;
  std::size_t words_ = 0;
  std::vector<node_id> walk_;          // of may_reach
  std::vector<std::uint64_t> walked_;  // by position: the last search that visited it
  std::uint64_t walk_stamp_ = 0;
  std::unordered_map<std::size_t, std::vector<value_use>> wide_;  // values with many uses, earliest first
  std::vector<std::uint64_t> seen_;                               // of visit_pairs_apart: rows of nodes visited so far
  std::vector<std::uint32_t> index_of_row_;                       // their indices
};

// Hashes every node from its operator and the hashes of its operands. Equal operators without operands are the same
// source (the law of `algebra`), so this decides isomorphism up to collisions; the number of repetitions of a subgraph
// counts as well. Reusable. Complexity: linear in the state.
class merkle_hasher {
 public:
  template <class Store>
  fingerprint operator()(const Store& store, const state_view& view) {
    hashes_.resize(view.nodes().size());
    fingerprint sum;
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      hashes_[i] = node_hash(store, view, view.nodes()[i]);
      sum += hashes_[i];
    }
    return sum;
  }

 private:
  template <class Store>
  fingerprint node_hash(const Store& store, const state_view& view, node_id n) {
    const auto operands = store.operands(n);
    const auto label = store.label(n);
    fingerprint h{label, operands.size()};
    if ((label & 1U) == 0) {
      for (const auto v : operands) {
        absorb(h, value_hash(view, v));
      }
    } else {
      operands_.clear();
      for (const auto v : operands) {
        operands_.push_back(value_hash(view, v));
      }
      std::sort(operands_.begin(), operands_.end());
      for (const auto& o : operands_) {
        absorb(h, o);
      }
    }
    return {mix64(h.low), mix64(h.high ^ h.low)};
  }
  [[nodiscard]] fingerprint value_hash(const state_view& view, value_id v) const {
    const auto [position, result] = view.place(v);
    return {hashes_[position].low + result * 0x9e3779b97f4a7c15U, hashes_[position].high};
  }
  // Two independent multiplicative lanes. Operands are already hashes, so little mixing is needed between them.
  static void absorb(fingerprint& h, fingerprint o);

  std::vector<fingerprint> hashes_;
  small_vector<fingerprint, 8> operands_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_STATE_VIEW)

#include <unity/rewrite/node_store.hpp>

namespace unity {

UNITY_INLINE void state_view::begin(std::size_t nodes, std::size_t values, std::span<const node_id> live) {
  nodes_.assign(live.begin(), live.end());
  if (nodes_at_.size() < nodes) {
    nodes_at_.resize(nodes + nodes / 2);
  }
  if (values_.size() < values) {
    values_.resize(values + values / 2);
  }
  uses_.clear();
  wide_.clear();
  ++epoch_;
}

UNITY_INLINE std::span<const value_use> state_view::users_near(value_id v, node_id n, std::size_t size) {
  auto& all = wide_[v.index()];
  if (all.empty()) {
    const auto uses = users(v);
    all.assign(uses.begin(), uses.end());
    std::reverse(all.begin(), all.end());
  }
  const auto at = std::lower_bound(all.begin(), all.end(), position(n),
                                   [&](const value_use& u, std::uint32_t p) { return position(u.node) < p; });
  const auto block = static_cast<std::size_t>(at - all.begin()) / size * size;
  return std::span{all}.subspan(block, std::min(size, all.size() - block));
}

UNITY_INLINE void state_view::inherit_ancestors(std::size_t row, std::size_t from) {
  auto* const mine = ancestors_.data() + words_ * row;
  const auto* const theirs = ancestors_.data() + words_ * from;
  for (std::size_t w = 0; w <= from / 64; ++w) {
    mine[w] |= theirs[w];
  }
  mine[from / 64] |= std::uint64_t{1} << (from % 64);
}

UNITY_INLINE void merkle_hasher::absorb(fingerprint& h, fingerprint o) {
  h.low = (h.low ^ o.low) * 0x9fb21c651e98df25U;
  h.low ^= h.low >> 32U;
  h.high = (h.high + o.high) * 0xd6e8feb86659fd93U;
  h.high ^= h.high >> 29U;
}

}  // namespace unity

#endif
