// Finds graphs that substitutions lead to and whose mappings are worth simulating.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/rewrite/substitution.hpp>
#include <unity/systems/unity/mapping_trials.hpp>
#include <unity/systems/unity/search_context.hpp>

namespace unity::systems::detail {

// Effects: adds the results of several searches for substitutions, all for the cheapest mesh: with gradient reductions
// counted in full; not counted; not counted, with only samples and weights divided; and with only samples divided,
// because the reductions then overlap best. variants: begins with the given graph, which the trials have simulated.
void add_substituted(search_context& c, const mapping_trials& trials, const rule_set& rules,
                     std::vector<graph_variant>& variants);

// Effects: for a tiny graph, adds all graphs that are one substitution away from it or from the best mapping's graph.
// Predictions miss those among them that gain only if operators are placed on different devices. Returns their best
// mappings, best first.
// best: the number of the best mapping's graph.
[[nodiscard]] std::vector<simulated_best> add_nearby(search_context& c, mapping_trials& trials, const rule_set& rules,
                                                     std::vector<graph_variant>& variants, std::size_t best);

}  // namespace unity::systems::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_SUBSTITUTED_GRAPHS)

#include <algorithm>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mapping_candidates.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

namespace unity::systems::detail {

UNITY_INLINE void add_substituted(search_context& c, const mapping_trials& trials, const rule_set& rules,
                                  std::vector<graph_variant>& variants) {
  if (rules.empty()) {
    return;
  }
  const auto& first = trials.of_given();
  constexpr auto model = bit(parallel::index_use::model);
  for (const auto& [uses, share] :
       {std::pair{c.options.uses, overlap_shares.front()}, std::pair{c.options.uses, overlap_shares.back()},
        std::pair{c.options.uses & (samples_alone | model), overlap_shares.back()},
        std::pair{samples_alone, overlap_shares.back()}}) {
    const auto cheapest = std::find_if(first.begin(), first.end(), [&](const mapping_candidate& k) {
      return k.solver->uses() == uses && (k.objective.synchronizing_16ths == share || uses == samples_alone);
    });
    if (cheapest == first.end() || c.time.is_past_deadline()) {
      continue;
    }
    auto joint = c.options.joint;
    joint.limits.seconds = std::min(joint.limits.seconds, c.time.seconds_for(0.15));
    joint.computing = [&c](const parallel::operator_graph& ops) { return c.computing.of(ops); };
    auto found = improve(c.algebra, rules, variants[0].graph, *cheapest->solver,
                         {share, cheapest->objective.per_mebibyte}, joint);
    c.record.expanded += found.expanded;
    c.time.note(found.ended_early);
    c.record.graphs_bound = std::min(c.record.graphs_bound, found.computing);
    c.record.segments = std::max(c.record.segments, found.segments);
    const bool is_known =
        std::any_of(variants.begin(), variants.end(), [&](const graph_variant& v) { return v.graph == found.graph; });
    if (!is_known) {
      variants.push_back({std::move(found.graph), std::move(found.rules)});
    }
  }
}

UNITY_INLINE std::vector<simulated_best> add_nearby(search_context& c, mapping_trials& trials, const rule_set& rules,
                                                    std::vector<graph_variant>& variants, std::size_t best) {
  std::vector<simulated_best> found;
  if (rules.empty() || c.options.uses != parallel::all_index_uses || c.options.proposals == 0 ||
      !c.is_tiny(analyzed_graph{c.algebra, variants[0].graph, c.clock.dimensions()}.ops.size())) {
    return found;
  }
  using space_type = rewrite_space<tensor::algebra, tensor::flop_cost>;
  for (const auto v : best == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, best}) {
    space_type space{c.algebra, tensor::flop_cost{c.algebra, tensor::mode::training}, rules, variants[v].graph};
    space_type::scratch_type from;
    space_type::scratch_type to;
    const auto s = space.initial();
    for (const auto m : space.moves(s)) {
      space.prepare(s, from);
      if (c.time.is_past_deadline() || !space.price(s, m, from)) {
        continue;
      }
      auto g = space.graph(space.apply(s, m, from, to));
      const auto is_same = [&](const graph_variant& other) { return other.graph == g; };
      if (std::any_of(variants.begin(), variants.end(), is_same)) {
        continue;
      }
      auto applied = variants[v].rules;
      applied.push_back({space.rule_of(m).name, 1});
      c.record.graphs_bound = std::min(c.record.graphs_bound, c.computing_of(g));
      variants.push_back({std::move(g), std::move(applied), {}});
      found.push_back(trials.simulate(variants.back(), variants.size() - 1));
    }
  }
  unity::stable_sort(found,
                     [](const simulated_best& x, const simulated_best& y) { return is_better(x.report, y.report); });
  constexpr std::size_t most = 12;  // to polish
  found.resize(std::min(found.size(), most));
  return found;
}

}  // namespace unity::systems::detail

#endif
