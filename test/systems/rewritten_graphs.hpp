// All graphs that substitutions reach from a graph in a few steps.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::test {

// Effects: calls visit(graph, steps) once for each, the given one first, in order of the fewest steps; graphs that
// differ only in the names of values are one. Returns false if there are more than `most`.
template <class Visit>
bool for_each_rewritten(const tensor::algebra& a, const rule_set& rules, const tensor::tensor_graph& g,
                        std::size_t steps, std::size_t most, Visit visit) {
  using space_type = rewrite_space<tensor::algebra, tensor::flop_cost>;
  space_type space{a, tensor::flop_cost{a, tensor::mode::training}, rules, g};
  space_type::scratch_type from;
  space_type::scratch_type to;
  std::set<fingerprint> met;
  std::set<fingerprint> named;  // fingerprints that include names, checked first because they are cheap
  std::vector<space_type::state_type> level;
  const auto meet = [&](space_type::state_type s, std::size_t step, std::vector<space_type::state_type>& into) {
    if (met.insert(space.canonical_fingerprint(s, to)).second) {
      visit(space.graph(s), step);
      into.push_back(std::move(s));
    }
  };
  auto first = space.initial();
  space.prepare(first, to);
  meet(std::move(first), 0, level);
  for (std::size_t step = 1; step <= steps; ++step) {
    std::vector<space_type::state_type> next;
    for (const auto& s : level) {
      for (const auto m : space.moves(s)) {
        space.prepare(s, from);
        const auto c = space.price(s, m, from);
        if (c && named.insert(c->fingerprint).second) {
          meet(space.apply(s, m, from, to), step, next);
        }
        if (met.size() > most) {
          return false;
        }
      }
    }
    level.swap(next);
  }
  return true;
}

}  // namespace unity::test
