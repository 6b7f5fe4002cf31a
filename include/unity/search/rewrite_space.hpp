// Graph rewriting as a search space: states are graphs, moves are matches of substitutions.
//
// A state is two arrays of ids into shared, immutable tables. A child inherits its parent's matches whose nodes
// live, and gets those that involve its new nodes.
#pragma once

#include <algorithm>
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
#include <unity/graph/topological_order.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/merkle.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/rewrite_effect.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

// Models search_space, canonical_space, commuting_space and measured_space.
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
    std::vector<node_id> nodes{};  // of the store, operands before users; the last is the sink: it reads the outputs
    std::vector<match_id> matches{};
    cost_type total{};
    unity::fingerprint fingerprint{};
    std::uint64_t serial = 0;  // tells states apart: a scratch knows which one it is prepared for
  };
  class scratch_type {
    friend rewrite_space;
    state_view view_;
    rewrite_effect effect_;
    std::uint64_t serial_ = 0;
    merkle_hasher merkle_;
  };

  // Starts from `graph`. Keeps a copy of the rules.
  // Throws: unity::error if the graph is cyclic or a node's operands do not fit its operator.
  template <dataflow_graph Graph>
  rewrite_space(Algebra algebra, Model model, rule_set rules, const Graph& graph)
      : store_{std::move(algebra)}, model_{std::move(model)}, rules_{std::move(rules)}, index_{rules_, store_} {
    import(graph);
  }
  rewrite_space(const rewrite_space&) = delete;
  rewrite_space& operator=(const rewrite_space&) = delete;

  [[nodiscard]] state_type initial() {
    state_type s;
    s.nodes = first_nodes_;
    s.serial = ++serials_;
    for (const auto n : s.nodes) {
      s.total += cost_of(n);
      s.fingerprint += store_.mix(n);
    }
    state_view view;
    view.load(store_, s.nodes);
    mark_listed({});
    for (const auto n : first_nodes_) {
      find_matches(n, view, s.matches);
    }
    return s;
  }

  [[nodiscard]] cost_value cost(const state_type& s) const { return model_.objective(s.total); }
  [[nodiscard]] unity::fingerprint fingerprint_of(const state_type& s) const { return s.fingerprint; }
  [[nodiscard]] std::span<const match_id> moves(const state_type& s) const { return s.matches; }

  void prepare(const state_type& s, scratch_type& scratch) const {
    if (scratch.serial_ != s.serial) {
      scratch.view_.load(store_, s.nodes);
      scratch.serial_ = s.serial;
    }
  }

  // Complexity: linear in the nodes that the match removes and adds.
  [[nodiscard]] std::optional<candidate> price(const state_type& s, match_id m, scratch_type& scratch) const {
    auto& e = scratch.effect_;
    if (!e.trace(store_, matches_, m, scratch.view_)) {
      return std::nullopt;
    }
    auto total = s.total;
    auto f = s.fingerprint;
    for (const auto n : e.added()) {
      total += cost_of(n);
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
    return child;
  }

  // Equal for states whose graphs are equal whatever their values are called.
  [[nodiscard]] unity::fingerprint canonical_fingerprint(const state_type& s, scratch_type& scratch) const {
    prepare(s, scratch);
    return scratch.merkle_(store_, scratch.view_);
  }

  // Matches on disjoint nodes commute, unless one redirects a value that the other's nodes read.
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
  [[nodiscard]] std::size_t memory() const { return store_.memory() + matches_.memory() + costs_.capacity() * sizeof(cost_type); }

  // The state as a graph of its own.
  [[nodiscard]] graph_type graph(const state_type& s) const;

  [[nodiscard]] const store_type& store() const noexcept { return store_; }
  [[nodiscard]] const match_store<store_type>& matches() const noexcept { return matches_; }
  [[nodiscard]] const rule_set& rules() const noexcept { return rules_; }
  [[nodiscard]] const Model& model() const noexcept { return model_; }
  [[nodiscard]] const substitution& rule_of(match_id m) const { return rules_[matches_.record(m).rule]; }

 private:
  template <class Graph>
  void import(const Graph& graph);
  void drop_unused_nodes();

  [[nodiscard]] const cost_type& cost_of(node_id n) const { return costs_[n.index()]; }

  // Each node is priced once, when it is first interned.
  void price_new_nodes() {
    for (auto i = costs_.size(); i < store_.node_count(); ++i) {
      const node_id n{i};
      if (!store_.op(n).valid()) {
        costs_.emplace_back();
        continue;
      }
      const auto inputs = types(store_.operands(n));
      const auto outputs = types(store_.results(n));
      costs_.push_back(model_.node_cost(store_.operation(store_.op(n)), std::span<const value_type>{inputs},
                                        std::span<const value_type>{outputs}));
    }
  }
  [[nodiscard]] std::vector<value_type> types(std::span<const value_id> values) const {
    std::vector<value_type> all;
    all.reserve(values.size());
    for (const auto v : values) {
      all.push_back(store_.type(v));
    }
    return all;
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

  // The child's nodes, operands before users. Leaves what is new in added_, redirected nodes last.
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
    const auto place = place_of_added(s, from);
    child.nodes.reserve(s.nodes.size() + e.added().size());
    for (std::size_t i = 0; i < s.nodes.size(); ++i) {
      if (i == place) {
        child.nodes.insert(child.nodes.end(), e.added().begin(), e.added().end());
      }
      if (!e.is_killed(s.nodes[i])) {
        child.nodes.push_back(redirected_node(s.nodes[i]));
      }
    }
    if (!in_order_) {
      sort(child.nodes);
    }
  }
  [[nodiscard]] node_id redirected_node(node_id n) const {
    for (const auto& [old, redirected] : redirections_) {
      if (old == n) {
        return redirected;
      }
    }
    return n;
  }

  // Where the added nodes can stand together: after all they read, before all that read them. Where there is no
  // such place, in_order_ is false and the list must be sorted.
  std::size_t place_of_added(const state_type& s, scratch_type& from) {
    const auto& view = from.view_;
    const auto& e = from.effect_;
    std::size_t earliest = 0;
    for (const auto v : e.leaves()) {
      if (!is_killed_definition(e, view, v)) {
        earliest = std::max<std::size_t>(earliest, view.position(view.definition(v)) + 1);
      }
    }
    std::size_t latest = s.nodes.size() - 1;
    for (const auto n : e.added()) {
      for (const auto v : store_.results(n)) {
        latest = first_surviving_user(e, view, v, latest);
      }
    }
    for (const auto& [old, redirected] : redirections_) {
      latest = std::min<std::size_t>(latest, view.position(old));
    }
    in_order_ = earliest <= latest;
    return latest;
  }
  [[nodiscard]] static bool is_killed_definition(const rewrite_effect& e, const state_view& view, value_id v) {
    return e.is_killed(view.definition(v));
  }
  [[nodiscard]] static std::size_t first_surviving_user(const rewrite_effect& e, const state_view& view, value_id v, std::size_t latest) {
    for (const auto& u : view.users(v)) {
      if (!e.is_killed(u.node)) {
        latest = std::min<std::size_t>(latest, view.position(u.node));
      }
    }
    return latest;
  }

  // Kahn's algorithm, first come first served.
  void sort(std::vector<node_id>& nodes) {
    std::vector<std::uint32_t> maker(store_.value_count());
    std::vector<std::vector<std::uint32_t>> users(nodes.size());
    std::vector<std::size_t> waits(nodes.size());
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      for (const auto v : store_.results(nodes[i])) {
        maker[v.index()] = i;
      }
    }
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      waits[i] = store_.operands(nodes[i]).size();
      for (const auto v : store_.operands(nodes[i])) {
        users[maker[v.index()]].push_back(i);
      }
      if (waits[i] == 0) {
        order.push_back(i);
      }
    }
    for (std::size_t done = 0; done < order.size(); ++done) {
      for (const auto u : users[order[done]]) {
        if (--waits[u] == 0) {
          order.push_back(u);
        }
      }
    }
    UNITY_EXPECTS(order.size() == nodes.size(), "an acyclic state");
    std::vector<node_id> sorted;
    for (const auto i : order) {
      sorted.push_back(nodes[i]);
    }
    nodes = std::move(sorted);
  }

  void take_costs(const state_type& s, const rewrite_effect& e, state_type& child) const {
    child.total = s.total;
    child.fingerprint = s.fingerprint;
    for (const auto n : added_) {
      child.total += cost_of(n);
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
      } else if (index_.rule(r.rule).sibling) {
        thinned_.push_back(m);
      }
    }
    mark_listed(child.matches);
    for (const auto n : added_) {
      find_matches(n, view, child.matches);
    }
    // A set of siblings that lost some is not inherited: what is left of it is matched again.
    for (const auto m : thinned_) {
      const auto& r = matches_.record(m);
      for (std::size_t i = 0; i < r.nodes; ++i) {
        if (view.live(matches_.node(r, i))) {
          find_matches(matches_.node(r, i), view, child.matches);
        }
      }
    }
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
  // Appends the matches that involve n and are not listed yet.
  void find_matches(node_id n, state_view& view, std::vector<match_id>& list) {
    matcher_.match(store_, index_, view, n, [&](const bindings& b) {
      const auto m = matches_.intern(store_, index_, b);
      if (m && stamp(*m)) {
        list.push_back(*m);
      }
    });
    price_new_nodes();
  }

  [[nodiscard]] bool redirects_into(const match_record& r, const match_record& q) const {
    for (std::size_t i = 0; i < r.aliases; ++i) {
      const auto from = matches_.alias(r, i).first;
      for (std::size_t j = 0; j < q.nodes; ++j) {
        const auto operands = store_.operands(matches_.node(q, j));
        if (std::find(operands.begin(), operands.end(), from) != operands.end()) {
          return true;
        }
      }
    }
    return false;
  }

  store_type store_;
  Model model_;
  rule_set rules_;
  rule_index index_;
  match_store<store_type> matches_;
  matcher<store_type> matcher_;
  std::vector<cost_type> costs_;
  std::vector<node_id> first_nodes_;
  std::vector<std::uint32_t> listed_;
  std::uint32_t list_stamp_ = 0;
  std::vector<node_id> added_;
  std::vector<std::pair<node_id, node_id>> redirections_;
  std::vector<match_id> thinned_;
  bool in_order_ = true;
  std::uint64_t serials_ = 0;
};

// Interns the nodes of `graph`, in topological order, under fresh values.
template <pattern_algebra Algebra, additive_cost_model<Algebra> Model>
template <class Graph>
void rewrite_space<Algebra, Model>::import(const Graph& graph) {
  using traits = graph_traits<Graph>;
  const auto order = topological_order(graph);
  if (!order) {
    throw error{"graph", "a cycle", "an acyclic graph"};
  }
  std::vector<value_id> mine(traits::value_count(graph));
  small_vector<value_id, 8> operands;
  small_vector<value_id, 8> results;
  for (const auto n : *order) {
    operands.clear();
    results.clear();
    for (const auto v : traits::operands(graph, n)) {
      operands.push_back(mine[v.index()]);
    }
    for (const auto v : traits::results(graph, n)) {
      mine[v.index()] = store_.new_value(traits::type(graph, v));
      results.push_back(mine[v.index()]);
    }
    const auto op = store_.intern(op_type{traits::operation(graph, n)});
    const auto inferred = store_.infer(op, operands);
    if (!inferred || *inferred != types(results)) {
      throw error{"node " + std::to_string(n.index()) + " (" + store_.algebra().signature(store_.kind(op)).name + ")",
                  "operands or results of other types", "what the operator infers"};
    }
    first_nodes_.push_back(store_.define(op, operands, results));
    store_.adopt(first_nodes_.back());
  }
  operands.clear();
  for (const auto v : traits::outputs(graph)) {
    operands.push_back(mine[v.index()]);
  }
  first_nodes_.push_back(store_.define(operator_id{}, operands, {}));
  drop_unused_nodes();
  price_new_nodes();
}

// Keeps what the outputs depend on.
template <pattern_algebra Algebra, additive_cost_model<Algebra> Model>
void rewrite_space<Algebra, Model>::drop_unused_nodes() {
  state_view view;
  view.load(store_, first_nodes_);
  std::vector<bool> needed(first_nodes_.size());
  needed.back() = true;
  for (std::size_t i = first_nodes_.size(); i-- > 0;) {
    for (const auto v : store_.operands(first_nodes_[i])) {
      const auto d = view.position(view.definition(v));
      needed[d] = needed[d] || needed[i];
    }
  }
  std::erase_if(first_nodes_, [&](node_id n) { return !needed[view.position(n)]; });
}

template <pattern_algebra Algebra, additive_cost_model<Algebra> Model>
auto rewrite_space<Algebra, Model>::graph(const state_type& s) const -> graph_type {
  graph_type g;
  std::vector<value_id> there(store_.value_count());
  const auto translated = [&](std::span<const value_id> values) {
    std::vector<value_id> all;
    for (const auto v : values) {
      all.push_back(there[v.index()]);
    }
    return all;
  };
  for (const auto n : s.nodes) {
    if (!store_.op(n).valid()) {
      continue;
    }
    const auto made = g.add_node(store_.operation(store_.op(n)), translated(store_.operands(n)), types(store_.results(n)));
    for (std::size_t r = 0; r < store_.results(n).size(); ++r) {
      there[store_.results(n)[r].index()] = g.results(made)[r];
    }
  }
  g.set_outputs(translated(store_.operands(s.nodes.back())));
  return g;
}

}  // namespace unity
