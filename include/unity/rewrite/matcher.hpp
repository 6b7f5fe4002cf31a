// Finds the matches of substitutions that involve a given node. Over 500 lines because the functions that match the
// parts of a pattern call each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/rewrite/substitution.hpp>

namespace unity {

// The bindings of a match. Slot s in repetition i is at s * stride + i; what all repetitions share is at i = 0.
struct bindings {
  static constexpr std::size_t most_repetitions = 64;

  std::uint32_t rule = 0;
  std::size_t stride = 1;
  std::size_t repetitions = 0;  // 0 while unknown and in rules without repetition
  std::vector<node_id> nodes{};
  std::vector<value_id> values{};
  std::vector<attribute_id> attributes{};

  void clear(std::uint32_t for_rule, const prepared_rule& r) {
    rule = for_rule;
    stride = r.repeats ? most_repetitions : 1;
    repetitions = 0;
    nodes.assign(r.rule->source.nodes.size() * stride, node_id{});
    values.assign(r.rule->variables * stride, value_id{});
    attributes.assign(r.rule->attribute_variables, attribute_id{});
  }
  node_id& node(std::size_t slot, std::size_t i) { return nodes[slot * stride + i]; }
  value_id& value(std::size_t slot, std::size_t i) { return values[slot * stride + i]; }
  [[nodiscard]] node_id node(std::size_t slot, std::size_t i) const { return nodes[slot * stride + i]; }
  [[nodiscard]] value_id value(std::size_t slot, std::size_t i) const { return values[slot * stride + i]; }
};

// Backtracking matcher over one state. Complexity: a failed attempt usually ends at the first operator that differs;
// the number of attempts for a node is the number of pattern nodes of its kind.
template <class Store>
class matcher {
 public:
  // Reports the matches that involve live node `n`, of rules with connected roots, as sink(bindings), some more than
  // once. Matches of repeated roots use the largest set of independent siblings that contains n's.
  template <class Sink>
  void match(const Store& store, const rule_index& rules, state_view& view, node_id n, Sink&& sink) {
    store_ = &store;
    view_ = &view;
    for (const auto& a : rules.anchors(store.kind(n))) {
      rule_ = &rules.rule(a.rule);
      anchor_ = &a;
      begin_trying();
      climb_up(n, a.path, 0, [&](node_id root) {
        if (is_new_root(root)) {
          start(root, sink);
        }
      });
    }
  }

  // Reports the matches of all rules with unconnected roots. These depend on the whole state, so matches of its new
  // nodes are not the only new ones. Ends early if is_past_deadline() returns true.
  template <class Sink, class IsPastDeadline>
  void match_unconnected(const Store& store, const rule_index& rules, state_view& view, Sink&& sink,
                         const IsPastDeadline& is_past_deadline) {
    store_ = &store;
    view_ = &view;
    if (rules.unconnected().empty()) {
      return;
    }
    std::vector<node_id> candidates;
    std::copy_if(view.nodes().begin(), view.nodes().end(), std::back_inserter(candidates),
                 [&](node_id n) { return rules.is_unconnected_root(store.kind(n)); });
    for (const auto& a : rules.unconnected()) {
      rule_ = &rules.rule(a.rule);
      anchor_ = &a;
      if (auto roots = possible_roots(candidates); roots != roots_) {
        roots_ = std::move(roots);
        find_apart();
      }
      for (std::size_t i = 0; i < roots_.size() && (i % 64 != 63 || !is_past_deadline()); ++i) {
        if (store.kind(roots_[i]) == source().nodes[a.slot].kind && !apart_[i].empty()) {
          among_ = apart_[i];
          start(roots_[i], sink);
        }
      }
    }
    roots_.clear();
    among_ = {};
  }

 private:
  struct goal {
    const pattern_operand* term;
    value_id value;
    std::size_t index;
    const goal* next;
  };

  [[nodiscard]] const pattern& source() const { return rule_->rule->source; }

  void begin_trying() {
    ++trial_;
    if (tried_.size() < store_->node_count()) {
      tried_.resize(store_->node_count() + store_->node_count() / 2);
    }
  }
  [[nodiscard]] bool is_new_root(node_id n) { return std::exchange(tried_[n.index()], trial_) != trial_; }

  [[nodiscard]] std::vector<node_id> possible_roots(std::span<const node_id> candidates) const {
    std::vector<node_id> nodes;
    for (const auto n : candidates) {
      const auto kind = store_->kind(n);
      if (std::any_of(source().roots.begin(), source().roots.end(),
                      [&](const auto& r) { return source().nodes[r.slot].kind == kind; })) {
        nodes.push_back(n);
      }
    }
    return nodes;
  }

  // Computes, for each of roots_, the others that it is independent of, in order.
  void find_apart() {
    apart_.resize(std::max(apart_.size(), roots_.size()));
    for (auto& a : apart_) {
      a.clear();
    }
    view_->visit_pairs_apart(*store_, roots_, [&](std::size_t i, std::size_t j) {
      apart_[i].push_back(roots_[j]);
      apart_[j].push_back(roots_[i]);
    });
  }

  template <class Visit>
  void climb_up(node_id n, const climb& path, std::size_t step, const Visit& visit) {
    if (step == path.size()) {
      visit(n);
      return;
    }
    const auto& s = path[step];
    const small_vector<value_id, 4> results{store_->results(n)};  // a copy: visit may add to the store
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (s.result != pattern_operand::each && static_cast<std::size_t>(s.result) != r) {
        continue;
      }
      climb_from(results[r], s.kind, s.operand, [&](node_id user) { climb_up(user, path, step + 1, visit); });
    }
  }
  template <class Visit>
  void climb_from(value_id v, kind_id kind, std::int32_t operand, const Visit& visit) {
    for (const auto& u : view_->users(v)) {
      climb_by(u, kind, operand, visit);
    }
  }
  template <class Visit>
  void climb_by(const value_use& u, kind_id kind, std::int32_t operand, const Visit& visit) {
    if (store_->kind(u.node) == kind && (operand < 0 || static_cast<std::uint32_t>(operand) == u.operand)) {
      visit(u.node);
    }
  }

  template <class Sink>
  void start(node_id root, Sink& sink) {
    found_.clear(anchor_->rule, *rule_);
    const auto& r = source().roots[anchor_->root];
    if (r.repeated && source().nodes[r.slot].indexed) {
      start_siblings(root, r, sink);
      return;
    }
    take_node(r.slot, 0, root, nullptr, [&] {
      if (!r.repeated || repeat(store_->results(root).size())) {
        next_root(0, sink);
      }
    });
  }

  // Sets the number of repetitions to `times`. Returns whether that many are possible.
  bool repeat(std::size_t times) {
    const bool fits = times != 0 && (found_.stride == 1 || times <= bindings::most_repetitions);
    const bool agrees = found_.repetitions == 0 || found_.repetitions == times;
    found_.repetitions = fits && agrees ? times : found_.repetitions;
    return fits && agrees;
  }

  // Tries pattern node `slot` on graph node `n`, then the resulting goals and `rest`, then `done`.
  template <class Done>
  void take_node(std::size_t slot, std::size_t i, node_id n, const goal* rest, const Done& done) {
    auto& bound = found_.node(slot, i);
    if (bound.valid()) {
      if (bound == n) {
        solve(rest, done);
      }
      return;
    }
    const auto& p = source().nodes[slot];
    if (!n.valid() || store_->kind(n) != p.kind) {
      return;
    }
    const auto attributes_before = bound_attributes_.size();
    const auto repetitions_before = found_.repetitions;
    if (take_attributes(rule_->checks[slot], store_->attributes(store_->op(n)), found_.attributes, bound_attributes_)) {
      bound = n;
      take_operands(p, i, store_->operands(n), rest, done);
      found_.node(slot, i) = node_id{};
    }
    found_.repetitions = repetitions_before;
    while (bound_attributes_.size() > attributes_before) {
      found_.attributes[bound_attributes_.back()] = attribute_id{};
      bound_attributes_.pop_back();
    }
  }

  template <class Done>
  void take_operands(const pattern_node& p, std::size_t i, std::span<const value_id> actual, const goal* rest,
                     const Done& done) {
    const bool repeats = std::any_of(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.repeated; });
    if (repeats) {
      take_repeated(p, actual, rest, done);
      return;
    }
    if (actual.size() != p.operands.size()) {
      return;
    }
    // Copies, because done may add to the store and invalidate `actual`.
    small_vector<goal, 4> goals(actual.size(), goal{});
    for (std::size_t k = 0; k < actual.size(); ++k) {
      goals[k] = {&p.operands[k], actual[k], i, k + 1 < actual.size() ? goals.data() + k + 1 : rest};
    }
    solve(goals.empty() ? rest : goals.data(), done);
    if (p.commutative && goals.size() == 2 && goals[0].value != goals[1].value) {
      std::swap(goals[0].value, goals[1].value);
      solve(goals.data(), done);
    }
  }

  // Matches operands one of which stands for one operand per repetition.
  template <class Done>
  void take_repeated(const pattern_node& p, std::span<const value_id> actual, const goal* rest, const Done& done) {
    const auto packs = static_cast<std::size_t>(
        std::count_if(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.repeated; }));
    const auto fixed = p.operands.size() - packs;
    if (actual.size() < fixed || (actual.size() - fixed) % packs != 0) {
      return;
    }
    const auto times = (actual.size() - fixed) / packs;
    if (!repeat(times)) {
      return;
    }
    std::vector<goal> goals;
    for (const auto& o : p.operands) {
      for (std::size_t i = 0; i < (o.repeated ? times : 1); ++i) {
        goals.push_back({&o, actual[goals.size()], o.repeated ? i : 0, nullptr});
      }
    }
    for (std::size_t k = 0; k < goals.size(); ++k) {
      goals[k].next = k + 1 < goals.size() ? &goals[k + 1] : rest;
    }
    solve(goals.data(), done);
  }

  template <class Done>
  void solve(const goal* g, const Done& done) {
    if (g == nullptr) {
      done();
      return;
    }
    const auto& t = *g->term;
    if (t.is_variable) {
      const bool indexed = rule_->rule->indexed_variables[t.slot];
      const auto at = t.slot * found_.stride + (indexed ? g->index : 0);
      if (!found_.values[at].valid()) {
        found_.values[at] = g->value;
        solve(g->next, done);
        found_.values[at] = value_id{};
      } else if (found_.values[at] == g->value) {
        solve(g->next, done);
      }
      return;
    }
    const auto n = view_->definition(g->value);
    const auto results = store_->results(n);
    const bool each = t.result == pattern_operand::each;
    if (each && found_.repetitions != 0 && found_.repetitions != results.size()) {
      return;  // .* must be all of the results
    }
    const auto result = each ? g->index : static_cast<std::size_t>(t.result);
    if (result < results.size() && results[result] == g->value) {
      take_node(t.slot, source().nodes[t.slot].indexed ? g->index : 0, n, g->next, done);
    }
  }

  template <class Sink>
  void next_root(std::size_t step, Sink& sink) {
    const auto& links = rule_->links[anchor_->root];
    if (step == links.size()) {
      emit(sink);
      return;
    }
    const auto& link = links[step];
    const auto& root = source().roots[link.root];
    if (found_.node(root.slot, 0).valid()) {
      next_root(step + 1, sink);
      return;
    }
    const auto attempt = [&](node_id n) { take_node(root.slot, 0, n, nullptr, [&] { next_root(step + 1, sink); }); };
    if (link.connected) {
      follow(link, 0, state_view::few_neighbours, attempt);
    } else {
      try_unconnected(source().nodes[root.slot].kind, attempt);
    }
  }

  // Visits the nodes at the upper end of a link whose lower end is bound. If a shared value has many uses, only the
  // block of at most `most` uses that contains a bound node's use is searched.
  template <class Visit>
  void follow(const root_link& link, std::size_t i, std::size_t most, const Visit& visit) {
    if (!link.from.is_variable) {
      climb_up(found_.node(link.from.slot, i), link.path, 0, visit);
      return;
    }
    const auto v = found_.value(link.from.slot, i);
    const auto up = [&](node_id first) { climb_up(first, link.path, 0, visit); };
    if (view_->use_count(v) <= state_view::most_neighbours) {
      climb_from(v, link.first_kind, link.first_operand, up);
      return;
    }
    for (const auto& u : view_->users_near(v, bound_user(v), most)) {
      climb_by(u, link.first_kind, link.first_operand, up);
    }
  }
  [[nodiscard]] node_id bound_user(value_id v) const {
    const auto reads = [&](node_id n) {
      const auto operands = n.valid() ? store_->operands(n) : std::span<const value_id>{};
      return std::find(operands.begin(), operands.end(), v) != operands.end();
    };
    return *std::find_if(found_.nodes.begin(), found_.nodes.end(), reads);
  }

  // Unconnected roots can be merged only if neither depends on the other.
  template <class Visit>
  void try_unconnected(kind_id kind, const Visit& visit) {
    for (const auto n : among_) {
      if (store_->kind(n) == kind && independent_of_roots(n)) {
        visit(n);
      }
    }
  }
  [[nodiscard]] bool independent_of_roots(node_id n) const {
    return std::none_of(source().roots.begin(), source().roots.end(), [&](const auto& r) {
      const auto other = found_.node(r.slot, 0);
      return other.valid() && (view_->depends(*store_, n, other) || view_->depends(*store_, other, n));
    });
  }

  template <class Sink>
  void start_siblings(node_id root, const pattern_operand& r, Sink& sink) {
    if (!rule_->sibling) {
      return;
    }
    const auto& link = *rule_->sibling;
    if (!link.from.is_variable && !link.path.empty() && link.path[0].result == pattern_operand::each) {
      gather_by_result(root, r.slot, link, sink);
      return;
    }
    // Tries the first repetition alone, as number 0; what it shares leads to the others.
    take_node(r.slot, 0, root, nullptr, [&] { gather_siblings(root, r.slot, link, sink); });
  }

  // Finds a largest set of nodes that match like `first` with the shared bindings and do not depend on each other.
  template <class Sink>
  void gather_siblings(node_id first, std::size_t slot, const root_link& link, Sink& sink) {
    std::vector<node_id> candidates;
    follow(link, 0, bindings::most_repetitions, [&](node_id n) { candidates.push_back(n); });
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    std::vector<node_id> chosen{first};
    for (const auto c : candidates) {
      const bool apart = std::none_of(chosen.begin(), chosen.end(), [&](node_id o) {
        return view_->depends(*store_, c, o) || view_->depends(*store_, o, c);
      });
      if (apart && chosen.size() < bindings::most_repetitions && matches_alone(slot, c)) {
        chosen.push_back(c);
      }
    }
    std::sort(chosen.begin(), chosen.end());
    match_all(slot, chosen, sink);
  }
  // Whether `n` can be a further repetition besides the bound one; tried in the last slot.
  bool matches_alone(std::size_t slot, node_id n) {
    bool found = false;
    take_node(slot, bindings::most_repetitions - 1, n, nullptr, [&] { found = true; });
    return found;
  }
  // Binds `chosen` again, in order, and reports the match.
  template <class Sink>
  void match_all(std::size_t slot, const std::vector<node_id>& chosen, Sink& sink) {
    if (chosen.size() < 2) {
      return;
    }
    const auto saved = found_;
    const auto saved_attributes = bound_attributes_;
    found_.clear(anchor_->rule, *rule_);
    bound_attributes_.clear();
    bind_from(slot, chosen, 0, sink);
    found_ = saved;
    bound_attributes_ = saved_attributes;
  }
  template <class Sink>
  void bind_from(std::size_t slot, const std::vector<node_id>& chosen, std::size_t i, Sink& sink) {
    if (i == chosen.size()) {
      found_.repetitions = chosen.size();
      emit(sink);
      return;
    }
    bool done = false;  // one match per sibling is enough: others differ only by commutation
    take_node(slot, i, chosen[i], nullptr, [&] {
      if (!done) {
        done = true;
        bind_from(slot, chosen, i + 1, sink);
      }
    });
  }

  // Repetition i reads result i of one shared node: takes one user of each result, including `root`, otherwise the
  // first that matches together with the others.
  template <class Sink>
  void gather_by_result(node_id root, std::size_t slot, const root_link& link, Sink& sink) {
    for (const auto below : descend(root, link)) {
      const auto results = store_->results(below).size();
      if (results < 2 || results > bindings::most_repetitions) {
        continue;
      }
      std::vector<std::vector<node_id>> users(results);
      auto path = link.path;
      bool has_root = false;
      for (std::size_t i = 0; i < results; ++i) {
        path[0].result = static_cast<std::int32_t>(i);
        climb_up(below, path, 0, [&](node_id n) { users[i].push_back(n); });
        std::sort(users[i].begin(), users[i].end());
        if (!has_root && std::binary_search(users[i].begin(), users[i].end(), root)) {
          users[i] = {root};
          has_root = true;
        }
      }
      found_.clear(anchor_->rule, *rule_);
      bool done = false;
      bind_users(slot, users, 0, done, sink);
    }
  }
  template <class Sink>
  void bind_users(std::size_t slot, const std::vector<std::vector<node_id>>& users, std::size_t i, bool& done,
                  Sink& sink) {
    if (i == users.size()) {
      found_.repetitions = i;
      emit(sink);
      done = true;
      return;
    }
    for (std::size_t k = 0; k < users[i].size() && !done; ++k) {
      take_node(slot, i, users[i][k], nullptr, [&] {
        if (!done) {
          bind_users(slot, users, i + 1, done, sink);
        }
      });
    }
  }
  // The nodes from which link.path leads up to `root`.
  std::vector<node_id> descend(node_id root, const root_link& link) const {
    std::vector<node_id> level{root};
    for (std::size_t step = link.path.size(); step-- > 0;) {
      std::vector<node_id> below;
      for (const auto n : level) {
        const auto operands = store_->operands(n);
        for (std::size_t k = 0; k < operands.size(); ++k) {
          const auto at = link.path[step].operand;
          if (store_->kind(n) == link.path[step].kind && (at < 0 || static_cast<std::size_t>(at) == k)) {
            below.push_back(view_->definition(operands[k]));
          }
        }
      }
      level = std::move(below);
    }
    return level;
  }

  template <class Sink>
  void emit(Sink& sink) {
    for (const auto& [a, b] : rule_->symmetric) {
      if (!(found_.node(source().roots[a].slot, 0) < found_.node(source().roots[b].slot, 0))) {
        return;
      }
    }
    sink(static_cast<const bindings&>(found_));
  }

  const Store* store_ = nullptr;
  state_view* view_ = nullptr;
  const prepared_rule* rule_ = nullptr;
  const anchor* anchor_ = nullptr;
  std::span<const node_id> among_{};  // candidates for unconnected roots
  std::vector<node_id> roots_;        // possible roots of the rule with unconnected roots
  std::vector<std::vector<node_id>> apart_;
  bindings found_{};
  std::vector<std::uint32_t> bound_attributes_{};
  std::vector<std::uint32_t> tried_{};  // by node: the last search for roots that visited it
  std::uint32_t trial_ = 0;
};

}  // namespace unity
