// Drops rewrites that only repeat an existing operator: they never pay off.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

namespace detail {

// The side with `by`, an operand of node n, in place of n.
[[nodiscard]] term_graph bypassed(term_graph g, std::size_t n, const graph_operand& by);

}  // namespace detail

// Whether `to` is `from` with additional operators that `from` already contains with the same attributes:
// relu(relu(?x)) from relu(?x). An operator of another kind may pay off later: enlarging a kernel makes it as large as
// another one.
[[nodiscard]] bool only_repeats(const term_graph& from, const term_graph& to);

// The rule without directions that only repeat operators; nothing if no direction remains.
// Example: relu(relu(?x)) == relu(?x) becomes relu(relu(?x)) => relu(?x).
// Complexity: exponential in the difference of the sides' node counts, which is small.
[[nodiscard]] std::optional<syntax::rule> without_repeating(syntax::rule r);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_GROWTH)

#include <algorithm>
#include <vector>

namespace unity::detail {

UNITY_INLINE term_graph bypassed(term_graph g, std::size_t n, const graph_operand& by) {
  const auto replace = [&](graph_operand& o) {
    if (o.is_node() && o.node == n) {
      o = by;
    }
  };
  for (auto& node : g.nodes) {
    std::ranges::for_each(node.operands, replace);
  }
  std::ranges::for_each(g.roots, replace);
  return to_graph(to_terms(g));  // removes nodes that are no longer read
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE bool only_repeats(const term_graph& from, const term_graph& to) {
  const auto is_repeated = [&](const graph_node& n) {
    return std::ranges::any_of(from.nodes,
                               [&](const auto& m) { return m.name == n.name && m.attributes == n.attributes; });
  };
  for (std::size_t n = 0; n < to.nodes.size() && to.nodes.size() > from.nodes.size(); ++n) {
    for (const auto& o : is_repeated(to.nodes[n]) ? to.nodes[n].operands : std::vector<graph_operand>{}) {
      const auto less = detail::bypassed(to, n, o);
      if (less == from || only_repeats(from, less)) {
        return true;
      }
    }
  }
  return false;
}

UNITY_INLINE std::optional<syntax::rule> without_repeating(syntax::rule r) {
  const auto source = to_graph(r.source);
  const auto target = to_graph(r.target);
  const bool back = r.both_ways && !only_repeats(target, source);
  if (only_repeats(source, target)) {
    if (!back) {
      return std::nullopt;
    }
    std::swap(r.source, r.target);
    r.both_ways = false;
    return r;
  }
  r.both_ways = back;
  return r;
}

}  // namespace unity

#endif
