// Graph rewriting as a search space: states are graphs, moves are matches of substitutions.
//
// A state is two arrays of ids into shared, immutable tables. A child inherits the matches of its parent whose nodes
// all live, and adds those that involve its new nodes. Over 500 lines because states, moves and prices share their
// tables.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/rewrite_effect.hpp>
#include <unity/search/rewrite_graph.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

// Whether a search keeps the operators' variants (variant_algebra) or chooses among them.
enum class variants : std::uint8_t { kept, searched };

// Models search_space, canonical_space, commuting_space, timed_space and measured_space; bounded_space over a
// bounded_cost_model.
template <pattern_algebra Algebra, additive_cost_model<Algebra> Model>
class rewrite_space {
 public:
  using op_type = typename Algebra::op_type;
  using value_type = typename Algebra::value_type;
  using graph_type = compact_graph<op_type, value_type>;
  using store_type = node_store<Algebra>;
  using cost_type = typename Model::cost_type;
  using move_type = match_id;

  struct state_type {
    std::vector<node_id> nodes{};  // in the store, operands before users; the last is the sink, which reads the outputs
    std::vector<match_id> matches{};
    cost_type total{};
    unity::fingerprint fingerprint{};
    std::uint64_t serial = 0;  // identifies the state, for scratches prepared for it
  };
  class scratch_type {
    friend rewrite_space;
    state_view view_;
    rewrite_effect effect_;
    std::uint64_t serial_ = 0;
    merkle_hasher merkle_;
  };

  // Starts from `graph`. Copies the rules. With variants::searched, a move is a match and a choice of variants inside
  // its target, and there are moves that only change a variant; the algebra must then be a variant_algebra.
  // Throws: unity::error if the graph is cyclic or operands of a node do not fit its operator.
  template <dataflow_graph Graph>
  rewrite_space(Algebra algebra, Model model, rule_set rules, const Graph& graph, variants allowed = variants::kept)
      : store_{std::move(algebra)},
        model_{std::move(model)},
        rules_{std::move(rules)},
        index_{rules_, store_},
        variants_{allowed} {
    UNITY_EXPECTS(allowed == variants::kept || variant_algebra<Algebra>, "an algebra with variants");
    merge_.name = "common_subexpression";
    variant_rule_.name = "relayout";
    first_nodes_ = intern_graph(store_, graph, &origins_);
    price_new_nodes();
  }
  rewrite_space(const rewrite_space&) = delete;
  rewrite_space& operator=(const rewrite_space&) = delete;

  void end_at(std::chrono::steady_clock::time_point when) { end_ = when; }

  // Complexity: linear in the nodes and their matches in the first call.
  [[nodiscard]] state_type initial() {
    if (first_.nodes.empty()) {
      auto s = find_initial();
      if (is_past_deadline()) {
        return s;  // some matches may be missing
      }
      first_ = std::move(s);
    }
    return first_;
  }

  [[nodiscard]] cost_value cost(const state_type& s) const { return model_.objective(s.total); }
  [[nodiscard]] unity::fingerprint fingerprint_of(const state_type& s) const { return s.fingerprint; }
  // According to the cost model, no state reachable from s costs less.
  [[nodiscard]] cost_value lower_bound(const state_type& s) const
    requires bounded_cost_model<Model, Algebra>
  {
    return model_.lower_bound(s.total);
  }
  [[nodiscard]] std::span<const match_id> moves(const state_type& s) const { return s.matches; }

  void prepare(const state_type& s, scratch_type& scratch) const {
    if (scratch.serial_ != s.serial) {
      scratch.view_.load(store_, s.nodes);
      scratch.serial_ = s.serial;
    }
  }

  // Complexity: linear in the removed and added nodes.
  [[nodiscard]] std::optional<candidate> price(const state_type& s, match_id m, scratch_type& scratch) const {
    auto& e = scratch.effect_;
    if (!e.trace(store_, matches_, m, scratch.view_)) {
      return std::nullopt;
    }
    auto total = s.total;
    auto f = s.fingerprint;
    for (const auto n : e.added()) {
      add_cost(total, cost_of(n));
      f += store_.mix(n);
    }
    for (const auto n : e.killed()) {
      total -= cost_of(n);
      f -= store_.mix(n);
    }
    for (const auto n : e.redirected_nodes()) {
      if (!e.is_killed(n)) {
        f += redirected_mix(e, n);
        f -= store_.mix(n);
      }
    }
    return candidate{model_.objective(total), f};
  }

  // Precondition: price(s, m, from) has a value. Complexity: linear in the state and its matches.
  [[nodiscard]] state_type apply(const state_type& s, match_id m, scratch_type& from, scratch_type& to) {
    prepare(s, from);
    auto& e = from.effect_;
    const bool applies = e.trace(store_, matches_, m, from.view_);
    UNITY_EXPECTS(applies, "a move that applies in the state");
    state_type child;
    child.serial = ++serials_;
    take_nodes(s, from, child);
    price_new_nodes();
    take_costs(s, e, child);
    to.view_.load(store_, child.nodes);
    to.serial_ = child.serial;
    inherit_matches(s, child, to.view_);
    if (variants_ == variants::searched) {
      find_changed_variants(e, to.view_, child.matches);
    }
    price_new_nodes();
    return child;
  }

  // Equal for states whose graphs are equal up to the names of values.
  [[nodiscard]] unity::fingerprint canonical_fingerprint(const state_type& s, scratch_type& scratch) const {
    prepare(s, scratch);
    return scratch.merkle_(store_, scratch.view_);
  }

  // Matches on disjoint nodes commute, unless one redirects a value that nodes of the other read.
  [[nodiscard]] bool independent(match_id a, match_id b) const {
    const auto& r = matches_.record(a);
    const auto& q = matches_.record(b);
    for (std::size_t i = 0; i < r.nodes; ++i) {
      for (std::size_t j = 0; j < q.nodes; ++j) {
        if (matches_.node(r, i) == matches_.node(q, j)) {
          return false;
        }
      }
    }
    return !redirects_into(r, q) && !redirects_into(q, r);
  }

  [[nodiscard]] std::size_t memory(const state_type& s) const {
    return sizeof s + s.nodes.capacity() * sizeof(node_id) + s.matches.capacity() * sizeof(match_id);
  }
  [[nodiscard]] std::size_t memory() const {
    return store_.memory() + matches_.memory() + costs_.capacity() * sizeof(cost_type);
  }

  // The state as a separate graph.
  [[nodiscard]] graph_type graph(const state_type& s) const { return extract_graph(store_, s.nodes); }
  // graph(apply(s, m)) without making the state; threads may call it at the same time. Precondition: the last call with
  // this scratch was price(s, m, scratch), and it had a value. Complexity: linear in the state.
  [[nodiscard]] graph_type graph_after(const state_type& s, const scratch_type& scratch) const {
    const auto& e = scratch.effect_;
    const auto redirected = e.redirected_nodes();
    const auto operands_of = [&](node_id n) {
      return std::find(redirected.begin(), redirected.end(), n) != redirected.end()
                 ? redirected_operands(e, n)
                 : small_vector<value_id, 8>{store_.operands(n)};
    };
    const auto nodes = nodes_after(s, scratch, [](node_id n) { return n; }, operands_of);
    return extract_graph(store_, nodes, operands_of);
  }
  // For each node of graph(s): the node of the initial graph that it is; null: made by rewriting.
  [[nodiscard]] std::vector<node_id> origins(const state_type& s) const {
    std::vector<node_id> all;
    for (std::size_t i = 0; i + 1 < s.nodes.size(); ++i) {  // the last is the sink
      all.push_back(s.nodes[i].index() < origins_.size() ? origins_[s.nodes[i].index()] : node_id{});
    }
    return all;
  }

  [[nodiscard]] const store_type& store() const noexcept { return store_; }
  [[nodiscard]] const match_store<store_type>& matches() const noexcept { return matches_; }
  [[nodiscard]] const rule_set& rules() const noexcept { return rules_; }
  [[nodiscard]] const Model& model() const noexcept { return model_; }
  // The index of the rule that a move applies; after the rules come moves that merge equal nodes, then moves that
  // change a variant.
  [[nodiscard]] std::size_t rule_number(match_id m) const { return matches_.record(m).rule; }
  // The rule that a move applies; for moves that merge equal nodes or change a variant, a rule with only a name.
  [[nodiscard]] const substitution& rule_of(match_id m) const {
    const auto rule = matches_.record(m).rule;
    return rule < rules_.size() ? rules_[rule] : rule == merge_rule() ? merge_ : variant_rule_;
  }

 private:
  [[nodiscard]] state_type find_initial() {
    state_type s;
    s.nodes = first_nodes_;
    s.serial = ++serials_;
    for (const auto n : s.nodes) {
      add_cost(s.total, cost_of(n));
      s.fingerprint += store_.mix(n);
    }
    state_view view;
    view.load(store_, s.nodes);
    mark_listed({});
    for (std::size_t i = 0; i < first_nodes_.size() && (i % 64 != 63 || !is_past_deadline()); ++i) {
      find_matches(first_nodes_[i], view, s.matches);
      find_variants_of(first_nodes_[i], view, s.matches);
    }
    find_unconnected(view, s.matches);
    price_new_nodes();
    return s;
  }

  [[nodiscard]] bool is_past_deadline() const {
    return end_ != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= end_;
  }

  [[nodiscard]] const cost_type& cost_of(node_id n) const { return costs_[n.index()]; }

  // Each node is priced once, when it is first interned.
  void price_new_nodes() {
    for (auto i = costs_.size(); i < store_.node_count(); ++i) {
      const node_id n{i};
      if (!store_.op(n).valid()) {
        costs_.emplace_back();
        continue;
      }
      const auto inputs = store_.types(store_.operands(n));
      const auto outputs = store_.types(store_.results(n));
      costs_.push_back(model_.node_cost(store_.operation(store_.op(n)), std::span<const value_type>{inputs},
                                        std::span<const value_type>{outputs}));
    }
  }
  [[nodiscard]] unity::fingerprint redirected_mix(const rewrite_effect& e, node_id n) const {
    return store_.mix_of(store_.op(n), redirected_operands(e, n), store_.results(n));
  }
  [[nodiscard]] small_vector<value_id, 8> redirected_operands(const rewrite_effect& e, node_id n) const {
    small_vector<value_id, 8> operands;
    for (const auto v : store_.operands(n)) {
      operands.push_back(e.redirected(v));
    }
    return store_.ordered(store_.op(n), operands);
  }
  node_id redirect(const rewrite_effect& e, node_id n) {
    const auto operands = redirected_operands(e, n);
    const small_vector<value_id, 8> results{store_.results(n)};
    return store_.define(store_.op(n), operands, results);
  }

  // Computes the nodes of the child in topological order. Leaves new nodes in added_, redirected ones last.
  void take_nodes(const state_type& s, scratch_type& from, state_type& child) {
    const auto& e = from.effect_;
    added_.assign(e.added().begin(), e.added().end());
    redirections_.clear();
    for (const auto n : e.redirected_nodes()) {
      if (!e.is_killed(n)) {
        redirections_.emplace_back(n, redirect(e, n));
        added_.push_back(redirections_.back().second);
      }
    }
    child.nodes = nodes_after(
        s, from, [&](node_id n) { return redirected_node(n); }, [&](node_id n) { return store_.operands(n); });
  }
  // The nodes after the traced move in topological order. kept(node): what stands for a node that stays; operands_of:
  // what it reads then.
  template <class Kept, class Operands>
  [[nodiscard]] std::vector<node_id> nodes_after(const state_type& s, const scratch_type& from, const Kept& kept,
                                                 const Operands& operands_of) const {
    const auto& e = from.effect_;
    const auto [place, in_order] = place_of_added(store_, from.view_, e);
    std::vector<node_id> nodes;
    nodes.reserve(s.nodes.size() + e.added().size());
    for (std::size_t i = 0; i < s.nodes.size(); ++i) {
      if (i == place) {
        nodes.insert(nodes.end(), e.added().begin(), e.added().end());
      }
      if (!e.is_killed(s.nodes[i])) {
        nodes.push_back(kept(s.nodes[i]));
      }
    }
    if (!in_order) {
      sort_nodes(store_, nodes, operands_of);
    }
    return nodes;
  }
  [[nodiscard]] node_id redirected_node(node_id n) const {
    for (const auto& [old, redirected] : redirections_) {
      if (old == n) {
        return redirected;
      }
    }
    return n;
  }

  void take_costs(const state_type& s, const rewrite_effect& e, state_type& child) const {
    child.total = s.total;
    child.fingerprint = s.fingerprint;
    for (const auto n : added_) {
      add_cost(child.total, cost_of(n));
      child.fingerprint += store_.mix(n);
    }
    for (const auto n : e.killed()) {
      child.total -= cost_of(n);
      child.fingerprint -= store_.mix(n);
    }
    for (const auto& [old, redirected] : redirections_) {
      child.total -= cost_of(old);
      child.fingerprint -= store_.mix(old);
    }
  }

  void inherit_matches(const state_type& s, state_type& child, state_view& view) {
    child.matches.reserve(s.matches.size() + 32);
    thinned_.clear();
    for (const auto m : s.matches) {
      const auto& r = matches_.record(m);
      bool lives = true;
      for (std::size_t i = 0; i < r.nodes && lives; ++i) {
        lives = view.live(matches_.node(r, i));
      }
      if (lives) {
        child.matches.push_back(m);
      } else if (r.rule < rules_.size() && index_.rule(r.rule).sibling) {
        thinned_.push_back(m);
      }
    }
    mark_listed(child.matches);
    for (const auto n : added_) {
      find_matches(n, view, child.matches);
    }
    // A set of siblings that lost some nodes is not inherited; the remaining nodes are matched again.
    for (const auto m : thinned_) {
      const auto r = matches_.record(m);  // a copy, because finding matches adds records
      for (std::size_t i = 0; i < r.nodes; ++i) {
        if (view.live(matches_.node(r, i))) {
          find_matches(matches_.node(r, i), view, child.matches);
        }
      }
    }
    // Nodes that depended on one another may have become independent.
    find_unconnected(view, child.matches);
  }

  void mark_listed(std::span<const match_id> matches) {
    ++list_stamp_;
    for (const auto m : matches) {
      stamp(m);
    }
  }
  bool stamp(match_id m) {
    if (listed_.size() <= m.index()) {
      listed_.resize(m.index() + m.index() / 2 + 64);
    }
    return std::exchange(listed_[m.index()], list_stamp_) != list_stamp_;
  }
  // Appends the matches that involve n and are not in the list yet.
  void find_matches(node_id n, state_view& view, std::vector<match_id>& list) {
    matcher_.match(store_, index_, view, n, [&](const bindings& b) { list_matches(b, list); });
    find_duplicates(store_, matches_, view, merge_rule(), n, [&](match_id m) { list_match(m, list); });
  }
  void find_unconnected(state_view& view, std::vector<match_id>& list) {
    matcher_.match_unconnected(
        store_, index_, view, [&](const bindings& b) { list_matches(b, list); }, [&] { return is_past_deadline(); });
  }
  void list_matches(const bindings& b, std::vector<match_id>& list) {
    const auto first = matches_.intern(store_, index_, b);
    if (!first || !runs(*first)) {
      return;
    }
    list_match(first, list);
    for (std::size_t choice = 1; variants_ == variants::searched && choice < most_choices; ++choice) {
      list_match(matches_.intern(store_, index_, b, choice), list);
    }
  }
  // Whether the match replaces anything that is computed at run time.
  [[nodiscard]] bool runs(match_id m) const {
    if constexpr (staged_cost_model<Model, Algebra>) {
      const auto& r = matches_.record(m);
      for (std::size_t i = 0; i < r.nodes; ++i) {
        for (const auto v : store_.results(matches_.node(r, i))) {
          if (!model_.computed_before(store_.type(v))) {
            return true;
          }
        }
      }
      return false;
    }
    return true;
  }
  void list_match(std::optional<match_id> m, std::vector<match_id>& list) {
    if (m && stamp(*m)) {
      list.push_back(*m);
    }
  }
  // Moves without a rule are numbered after the rules.
  [[nodiscard]] std::uint32_t merge_rule() const noexcept { return static_cast<std::uint32_t>(rules_.size()); }

  void find_variants_of(node_id n, const state_view& view, std::vector<match_id>& list) {
    if constexpr (variant_algebra<Algebra>) {
      if (variants_ == variants::searched) {
        find_variants(store_, matches_, view, merge_rule() + 1, n, [&](match_id m) { list_match(m, list); });
      }
    }
  }
  // Moves that change a variant depend on the readers of a result. New ones are those of new nodes and of operands of
  // new or removed nodes.
  void find_changed_variants(const rewrite_effect& e, const state_view& view, std::vector<match_id>& list) {
    const auto look_below = [&](node_id n) {
      const std::vector<value_id> operands(store_.operands(n).begin(), store_.operands(n).end());
      for (const auto v : operands) {
        if (const auto d = view.definition(v); d.valid()) {
          find_variants_of(d, view, list);
        }
      }
    };
    for (const auto n : added_) {
      find_variants_of(n, view, list);
      look_below(n);
    }
    for (const auto n : e.killed()) {
      look_below(n);
    }
  }

  // Whether r redirects a value that nodes of q read or that the target of q would recreate.
  [[nodiscard]] bool redirects_into(const match_record& r, const match_record& q) const {
    for (std::size_t i = 0; i < r.aliases; ++i) {
      const auto from = matches_.alias(r, i).first;
      for (std::size_t j = 0; j < q.nodes; ++j) {
        if (reads(matches_.node(q, j), from)) {
          return true;
        }
      }
      for (std::size_t j = 0; j < q.defining; ++j) {
        if (makes(q, matches_.defining(q, j), from)) {
          return true;
        }
      }
    }
    return false;
  }
  [[nodiscard]] bool reads(node_id n, value_id v) const {
    const auto operands = store_.operands(n);
    return std::find(operands.begin(), operands.end(), v) != operands.end();
  }
  // Whether v is a value inside the target of q, from target node n downwards.
  [[nodiscard]] bool makes(const match_record& q, node_id n, value_id v) const {
    for (const auto u : store_.operands(n)) {
      const auto maker = store_.canonical(u);
      if (u == v || (!is_bound(q, u) && maker.valid() && makes(q, maker, v))) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool is_bound(const match_record& q, value_id v) const {
    for (std::size_t i = 0; i < q.bound; ++i) {
      if (matches_.bound(q, i) == v) {
        return true;
      }
    }
    return false;
  }

  static constexpr std::size_t most_choices = 16;  // combinations of variants inside one target

  store_type store_;
  Model model_;
  rule_set rules_;
  rule_index index_;
  variants variants_;
  substitution merge_;
  substitution variant_rule_;
  match_store<store_type> matches_;
  matcher<store_type> matcher_;
  std::vector<cost_type> costs_;
  std::vector<node_id> first_nodes_;
  std::vector<node_id> origins_;  // by node of the store: node of the initial graph
  state_type first_{};
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  std::vector<std::uint32_t> listed_;
  std::uint32_t list_stamp_ = 0;
  std::vector<node_id> added_;
  std::vector<std::pair<node_id, node_id>> redirections_;
  std::vector<match_id> thinned_;
  std::uint64_t serials_ = 0;
};

namespace detail {

// Reports in the first lines of the compiler output what a deduced algebra or model lacks: for a class template whose
// constraints fail, compilers list every deduction guide before the constraint.
template <class Algebra, class Model>
struct complaint {
  static_assert(pattern_algebra<Algebra>, "rewrite_space: the first argument is not a pattern_algebra");
  static_assert(additive_cost_model<Model, Algebra>,
                "rewrite_space: the second argument is not an additive_cost_model");
  using algebra = Algebra;
};

}  // namespace detail

template <class Algebra, class Model, class Rules, class... Rest>
  requires(!(pattern_algebra<Algebra> && additive_cost_model<Model, Algebra>))
rewrite_space(Algebra, Model, Rules&&, const Rest&...)
    -> rewrite_space<typename detail::complaint<Algebra, Model>::algebra, Model>;

}  // namespace unity
