// Moves that change only the place or the layout of a result.
// Source: Jia's dissertation (TASO, 2020), section 2.7 and figure 2.5.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

namespace detail {

// The operators that read v, each once; nothing if v is an output of the graph, whose layout must not change.
template <class Store>
std::optional<std::vector<node_id>> operators_reading(const Store& store, const state_view& view, value_id v) {
  std::vector<node_id> readers;
  for (const auto& u : view.users(v)) {
    if (!store.op(u.node).valid()) {
      return std::nullopt;
    }
    if (std::find(readers.begin(), readers.end(), u.node) == readers.end()) {
      readers.push_back(u.node);
    }
  }
  std::sort(readers.begin(), readers.end());
  return readers;
}

// The node that computes the same results as `reader`, but reads `to` instead of `from`; nothing if a type changes.
template <class Store>
std::optional<node_id> read_instead(Store& store, node_id reader, value_id from, value_id to) {
  std::vector<value_id> operands(store.operands(reader).begin(), store.operands(reader).end());
  std::replace(operands.begin(), operands.end(), from, to);
  const std::vector<value_id> results(store.results(reader).begin(), store.results(reader).end());
  const auto types = store.infer(store.op(reader), operands);
  const bool same = types && std::equal(results.begin(), results.end(), types->begin(), types->end(),
                                        [&](value_id v, const auto& t) { return store.type(v) == t; });
  return same ? std::optional{store.define(store.op(reader), operands, results)} : std::nullopt;
}

// The move that passes the result of `made` to all readers of n's result.
template <class Store>
std::optional<match_id> hand_over(Store& store, match_store<Store>& matches, std::uint32_t rule, node_id n,
                                  node_id made, std::span<const node_id> readers) {
  std::vector<node_id> nodes{n};
  std::vector<value_id> replaced;
  std::vector<node_id> defining;
  for (const auto reader : readers) {
    const auto again = read_instead(store, reader, store.results(n)[0], store.results(made)[0]);
    if (!again) {
      return std::nullopt;
    }
    nodes.push_back(reader);
    replaced.insert(replaced.end(), store.results(reader).begin(), store.results(reader).end());
    defining.push_back(*again);
  }
  const std::vector<value_id> bound(store.operands(n).begin(), store.operands(n).end());
  const std::span<const std::pair<value_id, value_id>> no_aliases;
  return matches.add(rule, nodes, bound, replaced, defining, no_aliases, true, true);
}

}  // namespace detail

// Reports, for every variant of the operator of live node n, the move that computes n's result with it and passes it to
// all readers: sink(match). None for nodes with several results, for outputs of the graph, and if the type of a
// reader's results would change. The moves carry `rule` as their rule.
template <class Store, class Sink>
void find_relayouts(Store& store, match_store<Store>& matches, const state_view& view, std::uint32_t rule, node_id n,
                    Sink&& sink) {
  if (!store.op(n).valid() || store.results(n).size() != 1 || store.operands(n).empty()) {
    return;
  }
  const auto readers = detail::operators_reading(store, view, store.results(n)[0]);
  if (!readers || readers->empty()) {
    return;
  }
  const std::vector<value_id> operands(store.operands(n).begin(), store.operands(n).end());
  for (const auto& variant : store.algebra().variants(store.operation(store.op(n)), store.types(operands))) {
    const auto made = store.cons(store.intern(variant), operands);
    if (made && store.results(*made)[0] != store.results(n)[0]) {
      if (const auto m = detail::hand_over(store, matches, rule, n, *made, *readers)) {
        sink(*m);
      }
    }
  }
}

}  // namespace unity
