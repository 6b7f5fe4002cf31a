// Proposes changes of a mapping; simulation decides on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/systems/unity/mesh_solver.hpp>

namespace unity::systems {

// Proposes another option of the same mesh for one operator or, with equal probability by default, for all equal
// operators, so that repeated layers change together. Models proposal_for strategy_evaluator. A value; threads may
// share it.
class mesh_proposal {
 public:
  // Complexity: linear in devices, for each option of each distinct operator.
  mesh_proposal(mesh_solver& solver, const parallel::operator_graph& g, double together = 0.5);

  [[nodiscard]] std::optional<proposed<strategy_change>> sample(const parallel::strategy&, random_engine& random) const;

 private:
  struct operator_kind {
    std::vector<parallel::configuration> configurations{};
    std::vector<node_id> nodes{};
  };

  double together_;
  std::vector<operator_kind> kinds_{};
  std::vector<std::size_t> kind_of_{};  // by operator
  std::vector<node_id> nodes_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MESH_PROPOSAL)

#include <map>

#include <unity/core/hash.hpp>

namespace unity::systems {

UNITY_INLINE mesh_proposal::mesh_proposal(mesh_solver& solver, const parallel::operator_graph& g, double together)
    : together_{together} {
  std::map<fingerprint, std::size_t> known;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(g.placed(i).key, kinds_.size());
    if (is_new) {
      auto& k = kinds_.emplace_back();
      for (std::uint32_t o = 0; o < solver.tables().of(g.placed(i)).options.size(); ++o) {
        k.configurations.push_back(solver.configuration_of(g, i, o));
      }
    }
    kinds_[at->second].nodes.push_back(g.node(i));
    kind_of_.push_back(at->second);
    nodes_.push_back(g.node(i));
  }
}

UNITY_INLINE std::optional<proposed<strategy_change>> mesh_proposal::sample(const parallel::strategy&,
                                                                            random_engine& random) const {
  if (nodes_.empty()) {
    return std::nullopt;
  }
  const auto i = random.below(nodes_.size());
  const auto& k = kinds_[kind_of_[i]];
  const auto& c = k.configurations[random.below(k.configurations.size())];
  strategy_change change;
  if (random.unit() < together_) {
    for (const auto n : k.nodes) {
      change.push_back({n, c});
    }
  } else {
    change.push_back({nodes_[i], c});
  }
  return proposed<strategy_change>{std::move(change), 0};
}

}  // namespace unity::systems

#endif
