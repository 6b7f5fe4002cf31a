// The laws of rewrite_space, checked from outside: recomputes everything from the nodes of a state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/search_space.hpp>

namespace unity::test {

// Describes a fault in a state's nodes, or "": each value is defined once and before its use, only the last node is a
// sink, and every node leads to it.
template <class Space>
std::string structural_fault(const Space& space, const typename Space::state_type& s) {
  const auto& store = space.store();
  std::map<value_id, node_id> definition;
  for (const auto n : s.nodes) {
    for (const auto v : store.operands(n)) {
      if (!definition.contains(v)) {
        return "node " + std::to_string(n.index()) + " reads value " + std::to_string(v.index()) +
               ", which nothing before it defines";
      }
    }
    for (const auto v : store.results(n)) {
      if (!definition.emplace(v, n).second) {
        return "value " + std::to_string(v.index()) + " is defined twice";
      }
    }
    if (store.op(n).valid() == (n == s.nodes.back())) {
      return "node " + std::to_string(n.index()) + " is a sink in the wrong place";
    }
  }
  std::set<node_id> needed{s.nodes.back()};
  for (auto i = s.nodes.size(); i-- > 0;) {
    if (!needed.contains(s.nodes[i])) {
      return "node " + std::to_string(s.nodes[i].index()) + " is dead";
    }
    for (const auto v : store.operands(s.nodes[i])) {
      needed.insert(definition[v]);
    }
  }
  return {};
}

// The cost and fingerprint, summed over the nodes again.
template <class Space>
candidate recomputed(const Space& space, const typename Space::state_type& s) {
  const auto& store = space.store();
  typename Space::cost_type total{};
  fingerprint f;
  for (const auto n : s.nodes) {
    if (store.op(n).valid()) {
      const auto in = store.types(store.operands(n));
      const auto out = store.types(store.results(n));
      using types = std::span<const typename Space::value_type>;
      total += space.model().node_cost(store.operation(store.op(n)), types{in}, types{out});
    }
    f += store.mix_of(store.op(n), store.operands(n), store.results(n));
  }
  return {space.model().objective(total), f};
}

// Finds the moves that a state would have if all its nodes were new.
template <class Space>
class rematcher {
 public:
  // Interning an interned node changes nothing, so the space's own tables can be used.
  explicit rematcher(Space& space)
      : space_{space}, store_{const_cast<typename Space::store_type&>(space.store())}, index_{space.rules(), store_} {}

  std::set<match_id> matches(const typename Space::state_type& s) {
    auto& known = const_cast<match_store<typename Space::store_type>&>(space_.matches());
    view_.load(store_, s.nodes);
    std::set<match_id> found;
    for (const auto n : s.nodes) {
      matcher_.match(store_, index_, view_, n, [&](const bindings& b) {
        if (const auto m = known.intern(store_, index_, b)) {
          found.insert(*m);
        }
      });
      const auto rule = static_cast<std::uint32_t>(space_.rules().size());
      find_duplicates(store_, known, view_, rule, n, [&](match_id m) { found.insert(m); });
    }
    matcher_.match_unconnected(
        store_, index_, view_,
        [&](const bindings& b) {
          if (const auto m = known.intern(store_, index_, b)) {
            found.insert(*m);
          }
        },
        [] { return false; });
    return found;
  }

 private:
  Space& space_;
  typename Space::store_type& store_;
  rule_index index_;
  matcher<typename Space::store_type> matcher_;
  state_view view_;
};

// Random walks from the initial state; calls visit(state before, move, candidate, state after) for each move.
template <class Space, class Visit>
void random_walk(Space& space, random_engine& random, std::size_t steps, Visit visit) {
  typename Space::scratch_type from;
  typename Space::scratch_type to;
  auto s = space.initial();
  for (std::size_t i = 0; i < steps && !space.moves(s).empty(); ++i) {
    const auto moves = space.moves(s);
    const auto m = moves[random.below(moves.size())];
    space.prepare(s, from);
    if (const auto c = space.price(s, m, from)) {
      auto next = space.apply(s, m, from, to);
      visit(s, m, *c, next);
      s = std::move(next);
    }
  }
}

// Visits every reachable state once, identified by fingerprint. Returns false if there are more than `most`.
template <class Space, class Visit>
bool explore(Space& space, std::size_t most, Visit visit) {
  typename Space::scratch_type from;
  typename Space::scratch_type to;
  std::set<fingerprint> seen;
  std::vector<typename Space::state_type> pending;
  const auto meet = [&](typename Space::state_type s) {
    if (seen.insert(space.fingerprint_of(s)).second) {
      visit(s);
      pending.push_back(std::move(s));
    }
  };
  meet(space.initial());
  while (!pending.empty() && seen.size() <= most) {
    const auto s = std::move(pending.back());
    pending.pop_back();
    for (const auto m : space.moves(s)) {
      space.prepare(s, from);
      if (space.price(s, m, from)) {
        meet(space.apply(s, m, from, to));
      }
    }
  }
  return pending.empty();
}

// Describes a fault in the path that a search returned, or "": each move must yield a state with the cost that both the
// path and pricing state, and the last must be the best state.
template <class Space, class Result>
std::string path_fault(Space& space, const Result& r) {
  typename Space::scratch_type from;
  typename Space::scratch_type to;
  auto s = space.initial();
  for (const auto& [m, cost] : r.path) {
    space.prepare(s, from);
    const auto c = space.price(s, m, from);
    if (!c || c->cost != cost) {
      return "a move that does not apply, or is priced otherwise than the path says";
    }
    s = space.apply(s, m, from, to);
    if (space.cost(s) != cost) {
      return "a state that costs " + std::to_string(space.cost(s)) + ", and not " + std::to_string(cost);
    }
  }
  return space.fingerprint_of(s) == space.fingerprint_of(r.best) ? "" : "a path that does not lead to the best state";
}

}  // namespace unity::test
