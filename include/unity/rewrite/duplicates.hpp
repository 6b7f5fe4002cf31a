// Moves that merge two nodes which compute the same: common subexpressions.
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

// Reports, for every live node that applies n's operator to n's operands, the move that redirects the readers of
// the younger node's results to the older one's: sink(match). The moves carry `rule` as their rule.
// Complexity: linear in the readers of n's first operand.
template <class Store, class Sink>
void find_duplicates(const Store& store, match_store<Store>& matches, const state_view& view, std::uint32_t rule,
                     node_id n, Sink&& sink) {
  if (!store.op(n).valid() || store.operands(n).empty()) {
    return;
  }
  for (const auto& u : view.users(store.operands(n)[0])) {
    const bool same =
        u.node != n && store.op(u.node) == store.op(n) && std::ranges::equal(store.operands(u.node), store.operands(n));
    if (!same) {
      continue;
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
  }
}

}  // namespace unity
