// Terms and their known equalities: an e-graph with proofs, whose operators and types are rows of worlds.
//
// Every term stays as it was built, so that proofs can be stated in terms. Classes are kept closed under congruence.
// Each union records its reason: an instance of an axiom, or congruence of two nodes.
// Source: Nieuwenhuis and Oliveras, "Proof-producing congruence closure" (RTA 2005); the layout of classes follows egg
// (Willsey et al., POPL 2021).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/verification/worlds.hpp>

namespace unity {

using term_id = id<struct term_tag>;  // one result of one node

// Why two terms are equal.
struct equality_reason {
  static constexpr std::uint32_t no_instance = ~std::uint32_t{0};

  std::uint32_t instance = no_instance;  // of an axiom, numbered by the caller
  node_id left{};                        // congruent nodes, if there is no instance
  node_id right{};
  bool swapped = false;  // operands of commutative nodes correspond crosswise
};

// Terms whose equality something else depends on.
using term_pairs = std::vector<std::pair<term_id, term_id>>;

template <pattern_algebra Algebra>
class equality_graph {
 public:
  using tables_type = world_tables<Algebra>;

  explicit equality_graph(tables_type& tables) : tables_{&tables} {}

  // Empties the graph; the tables keep their content.
  void clear() {
    nodes_.clear();
    pool_.clear();
    terms_.clear();
    by_kind_.clear();
    table_ = {};
    pending_.clear();
    grown_.clear();
    settled_ = 0;
  }

  [[nodiscard]] std::size_t node_count() const noexcept { return nodes_.size(); }
  [[nodiscard]] std::size_t term_count() const noexcept { return terms_.size(); }

  // The node that applies `op` to values equal to `operands`; null if there is none.
  [[nodiscard]] node_id lookup(operator_row op, std::span<const term_id> operands) const {
    const auto key = canonical(op, operands);
    const auto found = table_.find(
        hash_of(op, key), [&](auto i) { return nodes_[i].op == op && std::ranges::equal(key_of(node_id{i}), key); });
    return found == index_table::none ? node_id{} : node_id{found};
  }
  // Precondition: lookup finds none, and `types` are what op infers for them.
  node_id add(operator_row op, std::span<const term_id> operands, std::span<const type_row> types) {
    const node_id n{nodes_.size()};
    const auto kind = tables_->kind(op);
    const auto size = size_of(operands);
    nodes_.push_back({op,
                      kind,
                      static_cast<std::uint32_t>(pool_.size()),
                      static_cast<std::uint32_t>(operands.size()),
                      static_cast<std::uint32_t>(terms_.size()),
                      static_cast<std::uint32_t>(types.size()),
                      false,
                      {}});
    pool_.insert(pool_.end(), operands.begin(), operands.end());
    for (std::size_t r = 0; r < types.size(); ++r) {
      const term_id t{terms_.size()};
      terms_.push_back({n, static_cast<std::uint32_t>(r), types[r], t, t, term_id{}, {}, size, {}});
    }
    if (by_kind_.size() <= kind.index()) {
      by_kind_.resize(kind.index() + 1);
    }
    by_kind_[kind.index()].push_back(n);
    enter(n);
    for (const auto t : key_of(n)) {
      add_user(t, n);
    }
    return n;
  }

  [[nodiscard]] operator_row op(node_id n) const { return nodes_[n.index()].op; }
  [[nodiscard]] kind_id kind(node_id n) const { return nodes_[n.index()].kind; }
  // Operands as built.
  [[nodiscard]] std::span<const term_id> operands(node_id n) const {
    return {pool_.data() + nodes_[n.index()].first_operand, nodes_[n.index()].operands};
  }
  [[nodiscard]] std::size_t result_count(node_id n) const { return nodes_[n.index()].results; }
  [[nodiscard]] term_id result(node_id n, std::size_t r) const { return term_id{nodes_[n.index()].first_result + r}; }
  // Whether an earlier node is congruent: it matches wherever this one does.
  [[nodiscard]] bool redundant(node_id n) const { return nodes_[n.index()].redundant; }

  [[nodiscard]] node_id producer(term_id t) const { return terms_[t.index()].producer; }
  [[nodiscard]] std::uint32_t result_index(term_id t) const { return terms_[t.index()].result; }
  [[nodiscard]] type_row type(term_id t) const { return terms_[t.index()].type; }
  // The size of the smallest known term of the class: see size_of.
  [[nodiscard]] std::uint32_t size(term_id t) const { return terms_[find(t).index()].size; }
  // The size of an operator on these operands: grows without bound if terms do. The largest operand counts fully,
  // others once each, so that n parts of one value count n and not n times the value.
  [[nodiscard]] std::uint32_t size_of(std::span<const term_id> operands) const {
    std::uint32_t largest = 0;
    std::uint32_t others = 0;
    for (const auto t : operands) {
      const auto s = size(t);
      others += s > 1 ? 1 : 0;
      largest = std::max(largest, s);
    }
    return 1 + largest + (others > 1 ? others - 1 : 0);
  }

  // The class of a term, by its representative.
  [[nodiscard]] term_id find(term_id t) const {
    while (terms_[t.index()].parent != t) {
      t = terms_[t.index()].parent;
    }
    return t;
  }
  [[nodiscard]] bool equal(term_id a, term_id b) const { return find(a) == find(b); }
  // The next term of the same class, in a circle.
  [[nodiscard]] term_id next(term_id t) const { return terms_[t.index()].next; }
  // Nodes that read a value of the class of `t`, some more than once.
  [[nodiscard]] std::span<const node_id> users(term_id t) const { return terms_[find(t).index()].users; }
  [[nodiscard]] std::span<const node_id> nodes_of(kind_id kind) const {
    return kind.index() < by_kind_.size() ? std::span<const node_id>{by_kind_[kind.index()]}
                                          : std::span<const node_id>{};
  }
  [[nodiscard]] bool has(kind_id kind) const { return !nodes_of(kind).empty(); }

  // Makes two terms of one type equal because of `instance`, and everything that follows by congruence. Returns whether
  // that was new.
  bool merge(term_id a, term_id b, std::uint32_t instance) {
    UNITY_EXPECTS(type(a) == type(b), "terms of one type");
    const bool fresh = unite(a, b, {instance, {}, {}, false});
    while (!pending_.empty()) {
      const auto [left, right] = pending_.back();
      pending_.pop_back();
      const bool swapped = crosswise(op(left), operands(left), operands(right));
      for (std::size_t r = 0; r < result_count(left); ++r) {
        unite(result(left, r), result(right, r), {equality_reason::no_instance, left, right, swapped});
      }
    }
    return fresh;
  }

  // The reasons on the path between two equal terms, each reported once over all calls with the same `seen`.
  template <class Visit>
  void explain(term_id a, term_id b, std::vector<bool>& seen, const Visit& visit) const {
    seen.resize(terms_.size());
    const auto meeting = common_ancestor(a, b);
    for (auto t : {a, b}) {
      for (; t != meeting; t = terms_[t.index()].proof) {
        if (!seen[t.index()]) {
          seen[t.index()] = true;
          visit(terms_[t.index()].reason);
        }
      }
    }
  }
  // The pairs of operands whose equality makes the two nodes of a reason congruent.
  [[nodiscard]] term_pairs premises(const equality_reason& r) const {
    return pair_up(operands(r.left), operands(r.right), r.swapped);
  }
  // The pairs of operands whose equality makes `op` on `wanted` the node `n`, which lookup found for it.
  [[nodiscard]] term_pairs premises(node_id n, std::span<const term_id> wanted) const {
    return pair_up(operands(n), wanted, crosswise(op(n), operands(n), wanted));
  }

  // Calls visit(node) for the nodes that may have new matches since the last call: added nodes, and nodes up to
  // `levels` above them or above classes that grew.
  template <class Visit>
  void take_changed(std::size_t levels, const Visit& visit) {
    std::vector<bool> hot(nodes_.size());
    std::vector<node_id> all;
    const auto mark = [&](node_id n) {
      if (!hot[n.index()]) {
        hot[n.index()] = true;
        all.push_back(n);
      }
    };
    for (; settled_ < nodes_.size(); ++settled_) {
      mark(node_id{settled_});
    }
    for (const auto t : grown_) {
      std::for_each(users(t).begin(), users(t).end(), mark);
    }
    grown_.clear();
    std::size_t first = 0;
    for (; levels > 0; --levels) {
      for (const auto last = all.size(); first < last; ++first) {
        for (std::size_t r = 0; r < result_count(all[first]); ++r) {
          const auto above = users(result(all[first], r));
          std::for_each(above.begin(), above.end(), mark);
        }
      }
    }
    std::sort(all.begin(), all.end());
    std::for_each(all.begin(), all.end(), visit);
  }
  // Makes the next take_changed report everything.
  void forget_settled() noexcept { settled_ = 0; }

 private:
  using key_type = small_vector<term_id, 8>;

  struct node_record {
    operator_row op;
    kind_id kind;
    std::uint32_t first_operand;
    std::uint32_t operands;
    std::uint32_t first_result;
    std::uint32_t results;
    bool redundant;
    key_type key;  // canonical operands under which the table stores it
  };
  struct term_record {
    node_id producer;
    std::uint32_t result;
    type_row type;
    term_id parent;  // union-find
    term_id next;    // circular list of the class
    term_id proof;   // proof forest: another term of the class, equal because of `reason`
    equality_reason reason;
    std::uint32_t size;
    std::vector<node_id> users;
  };

  [[nodiscard]] bool crosswise(operator_row op, std::span<const term_id> left, std::span<const term_id> right) const {
    return tables_->commutative(op) && left.size() == 2 && !(equal(left[0], right[0]) && equal(left[1], right[1]));
  }
  static term_pairs pair_up(std::span<const term_id> left, std::span<const term_id> right, bool swapped) {
    term_pairs pairs;
    for (std::size_t k = 0; k < left.size(); ++k) {
      pairs.emplace_back(left[k], right[swapped ? 1 - k : k]);
    }
    return pairs;
  }

  [[nodiscard]] key_type canonical(operator_row op, std::span<const term_id> operands) const {
    key_type key;
    for (const auto t : operands) {
      key.push_back(find(t));
    }
    if (tables_->commutative(op)) {
      std::sort(key.begin(), key.end());
    }
    return key;
  }
  [[nodiscard]] std::span<const term_id> key_of(node_id n) const { return nodes_[n.index()].key; }
  static std::uint64_t hash_of(operator_row op, const key_type& key) {
    std::uint64_t h = mix64(op.index());
    for (const auto t : key) {
      h = hash_combine(h, t.index());
    }
    return h;
  }

  // Enters a node under its canonical key; if another node has that key, the two are congruent.
  void enter(node_id n) {
    auto& r = nodes_[n.index()];
    r.key = canonical(r.op, operands(n));
    const auto h = hash_of(r.op, r.key);
    const auto found = table_.find(h, [&](auto i) { return nodes_[i].op == r.op && nodes_[i].key == r.key; });
    if (found == index_table::none) {
      table_.insert(h, n.index());
    } else if (found != n.index()) {
      r.redundant = true;
      pending_.emplace_back(node_id{found}, n);
    }
  }
  void add_user(term_id root, node_id n) {
    auto& users = terms_[root.index()].users;
    if (users.empty() || users.back() != n) {
      users.push_back(n);
    }
  }

  bool unite(term_id a, term_id b, const equality_reason& reason) {
    auto x = find(a);
    auto y = find(b);
    if (x == y) {
      return false;
    }
    link_proofs(a, b, reason);
    if (terms_[x.index()].users.size() < terms_[y.index()].users.size()) {
      std::swap(x, y);
    }
    auto& kept = terms_[x.index()];
    auto& gone = terms_[y.index()];
    gone.parent = x;
    grown_.push_back(x);
    kept.size = std::min(kept.size, gone.size);
    std::swap(kept.next, gone.next);
    const auto moved = std::move(gone.users);
    gone.users.clear();
    for (const auto n : moved) {
      if (!nodes_[n.index()].redundant) {
        enter(n);  // the old key stays in the table: no lookup asks for a merged class
        if (!nodes_[n.index()].redundant) {
          add_user(x, n);
        }
      }
    }
    return true;
  }

  // Attaches the proof tree of `a` below `b`, after making `a` its root.
  void link_proofs(term_id a, term_id b, equality_reason reason) {
    auto above = b;
    for (auto t = a; t.valid();) {
      const auto next = terms_[t.index()].proof;
      const auto next_reason = terms_[t.index()].reason;
      terms_[t.index()].proof = above;
      terms_[t.index()].reason = reason;
      above = t;
      reason = next_reason;
      t = next;
    }
  }
  [[nodiscard]] term_id common_ancestor(term_id a, term_id b) const {
    std::vector<term_id> path;
    for (auto t = a; t.valid(); t = terms_[t.index()].proof) {
      path.push_back(t);
    }
    for (auto t = b; t.valid(); t = terms_[t.index()].proof) {
      if (std::find(path.begin(), path.end(), t) != path.end()) {
        return t;
      }
    }
    UNITY_EXPECTS(false, "terms that are equal");
    return {};
  }

  tables_type* tables_;
  std::vector<node_record> nodes_;
  std::vector<term_id> pool_;
  std::vector<term_record> terms_;
  std::vector<std::vector<node_id>> by_kind_;
  index_table table_;
  std::vector<std::pair<node_id, node_id>> pending_;
  std::vector<term_id> grown_;
  std::size_t settled_ = 0;  // nodes below this index were reported as changed
};

}  // namespace unity
