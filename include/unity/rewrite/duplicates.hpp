// Moves that merge two nodes that compute the same: common subexpressions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

// Reports, for every live node that applies n's operator to n's operands, the move that redirects the readers of the
// younger node's results to the older one's: sink(match). The moves carry `rule` as their rule.
// Complexity: linear in the readers of the operand of n with the fewest readers, at most state_view::most_neighbours.
template <class Store, class Sink>
void find_duplicates(const Store& store, match_store<Store>& matches, state_view& view, std::uint32_t rule, node_id n,
                     Sink&& sink) {
  if (!store.op(n).valid() || store.operands(n).empty()) {
    return;
  }
  const auto operands = store.operands(n);
  const auto v = *std::min_element(operands.begin(), operands.end(),
                                   [&](value_id a, value_id b) { return view.use_count(a) < view.use_count(b); });
  const auto merge_with = [&](const value_use& u) {
    const bool same =
        u.node != n && store.op(u.node) == store.op(n) && std::ranges::equal(store.operands(u.node), store.operands(n));
    if (!same) {
      return;
    }
    const std::vector<node_id> nodes{std::min(n, u.node), std::max(n, u.node)};
    const auto kept = store.results(nodes[0]);
    const auto dropped = store.results(nodes[1]);
    std::vector<std::pair<value_id, value_id>> aliases;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      aliases.emplace_back(dropped[i], kept[i]);
    }
    std::vector<value_id> bound(store.operands(n).begin(), store.operands(n).end());
    bound.insert(bound.end(), kept.begin(), kept.end());
    const std::vector<value_id> replaced(dropped.begin(), dropped.end());
    sink(matches.add(rule, nodes, bound, replaced, std::span<const node_id>{}, aliases, false, true));
  };
  if (view.use_count(v) > state_view::most_neighbours) {
    std::ranges::for_each(view.users_near(v, n, state_view::few_neighbours), merge_with);
  } else {
    std::ranges::for_each(view.users(v), merge_with);
  }
}

}  // namespace unity
