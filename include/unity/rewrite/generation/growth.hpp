// Rewriting that only repeats what is there does not pay.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

// Whether `to` has all operators of `from`, with the same attributes, and some of them more often. An operator of another
// kind may pay later: one that enlarges a kernel makes it as large as another.
[[nodiscard]] inline bool only_repeats(const std::vector<syntax::term>& from, const std::vector<syntax::term>& to) {
  const auto few = to_graph(from).nodes;
  auto rest = to_graph(to).nodes;
  const auto like = [](const graph_node& n) {
    return [&n](const graph_node& m) { return m.name == n.name && m.attributes == n.attributes; };
  };
  for (const auto& n : few) {
    const auto same = std::ranges::find_if(rest, like(n));
    if (same == rest.end()) {
      return false;
    }
    rest.erase(same);
  }
  return !rest.empty() && std::ranges::all_of(rest, [&](const auto& n) { return std::ranges::any_of(few, like(n)); });
}

// The rule without directions that only repeat operators of what they are applied to; nothing where none is left.
// Example: relu(relu(?x)) == relu(?x) becomes relu(relu(?x)) => relu(?x).
[[nodiscard]] inline std::optional<syntax::rule> without_repeating(syntax::rule r) {
  const bool back = r.both_ways && !only_repeats(r.target, r.source);
  if (only_repeats(r.source, r.target)) {
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
