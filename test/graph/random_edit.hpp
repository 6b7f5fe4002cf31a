// Random changes of graphs, for tests.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/edit.hpp>

#include "random_graph.hpp"

namespace unity::test {

using number_edit = edit<int, int>;

// An edit that leaves nothing dangling; it may close a cycle. Nothing to speak of for an empty graph.
template <class G>
number_edit random_edit(const G& g, random_engine& rng) {
  number_edit e;
  std::vector<char> removed(g.node_count(), 0);
  std::vector<value_id> there;  // values that may be read after the edit
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    if (rng.below(4) == 0) {
      removed[n] = 1;
      e.removed.emplace_back(n);
    } else {
      there.insert(there.end(), g.results(node_id{n}).begin(), g.results(node_id{n}).end());
    }
  }
  std::size_t next = g.value_count();
  for (std::size_t i = 1 + rng.below(3); i > 0; --i) {
    added_node<int, int> node{100 + static_cast<int>(rng.below(3)), {}, std::vector<int>(1 + rng.below(2), 7)};
    for (std::size_t o = there.empty() ? 0 : rng.below(3); o > 0; --o) {
      node.operands.push_back(there[rng.below(there.size())]);
    }
    for (std::size_t r = 0; r < node.types.size(); ++r) {
      there.emplace_back(next++);
    }
    e.added.push_back(node);
  }
  for (std::size_t v = 0; v < g.value_count(); ++v) {
    if (removed[g.producer(value_id{v}).index()] != 0 || rng.below(6) == 0) {
      const value_id to = there[rng.below(there.size())];
      if (to != value_id{v}) {
        e.redirected.push_back({value_id{v}, to});
      }
    }
  }
  return e;
}

}  // namespace unity::test
