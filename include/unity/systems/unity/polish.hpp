// Changes of a mapping that simulation judges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/machine/machine.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/search/evaluator_mcmc.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/systems/unity/mesh_room.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// Another option of the same mesh for one operator, or, as often, for all operators equal to it: what repeats changes
// together.
// Models proposal_for strategy_evaluator. A value; threads may share it.
class mesh_proposal {
 public:
  // Complexity: linear in devices, for each option of each distinct operator.
  mesh_proposal(mesh_room& room, const parallel::operator_graph& g, double together = 0.5);

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

// A plan of another search. Its graph computes what the given one does.
struct known_plan {
  tensor::tensor_graph graph{};
  parallel::strategy strategy{};
};

struct polish_options {
  std::uint64_t seed = 0;
  std::uint64_t proposals = 300;
  double seconds = std::numeric_limits<double>::infinity();
  observer watch{};
};

// One plan that gets better, in rounds: chains from the best so far, in turn over options of its mesh, where it has
// one, and over FlexFlow's moves, where these are allowed. Does not move: its parts refer to each other, to the graph
// and to the machine.
class plan_polish {
 public:
  // mesh: nothing where the plan is on none.
  plan_polish(const tensor::algebra& a, const tensor::tensor_graph& g, const machine::machine& m,
              const parallel::lowering& lowering, parallel::strategy initial, std::optional<mesh_proposal> mesh,
              bool is_free);
  plan_polish(const plan_polish&) = delete;
  plan_polish& operator=(const plan_polish&) = delete;

  [[nodiscard]] const parallel::strategy& best() const noexcept { return best_; }
  [[nodiscard]] cost_value cost() const noexcept { return cost_; }
  [[nodiscard]] bool is_better() const noexcept { return is_better_; }  // than at the start
  [[nodiscard]] std::uint64_t proposals() const noexcept { return proposals_; }
  // Nothing was found in so many proposals, and a fiftieth of them more for each node.
  [[nodiscard]] bool is_idle(std::uint64_t idle) const {
    return proposals_ - last_better_ >= idle + idle * graph_.node_count() / 50;
  }
  // Effects: one more round, within the limits. Returns why it ended.
  stop_reason improve(const polish_options& o);

 private:
  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  std::size_t devices_;
  strategy_evaluator evaluator_;
  std::optional<strategy_moves> moves_{};  // made where they are first drawn from
  std::optional<mesh_proposal> mesh_;
  bool is_free_;
  parallel::strategy best_;
  cost_value cost_ = std::numeric_limits<cost_value>::max();
  bool is_better_ = false;
  std::uint64_t proposals_ = 0;
  std::uint64_t last_better_ = 0;
  std::uint64_t rounds_ = 0;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_POLISH)

#include <algorithm>
#include <map>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

namespace unity::systems {

UNITY_INLINE mesh_proposal::mesh_proposal(mesh_room& room, const parallel::operator_graph& g, double together)
    : together_{together} {
  std::map<fingerprint, std::size_t> known;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(g.placed(i).key, kinds_.size());
    if (is_new) {
      auto& k = kinds_.emplace_back();
      for (std::uint32_t o = 0; o < room.tables().of(g.placed(i)).options.size(); ++o) {
        k.configurations.push_back(room.configuration_of(g, i, o));
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

UNITY_INLINE plan_polish::plan_polish(const tensor::algebra& a, const tensor::tensor_graph& g,
                                      const machine::machine& m, const parallel::lowering& lowering,
                                      parallel::strategy initial, std::optional<mesh_proposal> mesh, bool is_free)
    : algebra_{a},
      graph_{g},
      devices_{m.network.device_count()},
      evaluator_{lowering, parallel::memory_limits(m)},
      mesh_{std::move(mesh)},
      is_free_{is_free},
      best_{std::move(initial)} {
  UNITY_EXPECTS(mesh_ || is_free_, "something to draw");
}

UNITY_INLINE stop_reason plan_polish::improve(const polish_options& o) {
  const bool is_on_mesh = mesh_ && (!is_free_ || rounds_ % 2 == 0);
  if (!is_on_mesh && !moves_) {
    moves_.emplace(algebra_, graph_, evaluator_.dimensions(), devices_);
  }
  chain_options chain;
  // Each round lowers and simulates the whole once: worth it for some proposals of each operator.
  chain.proposals = std::min<std::uint64_t>(o.proposals, std::max<std::uint64_t>(500, 4 * graph_.node_count()));
  chain.seed = o.seed + rounds_++;
  chain.limits.seconds = o.seconds;
  chain.watch = o.watch;
  chain.keep_path = false;
  chain.patience = 1;
  const std::vector<parallel::strategy> initial{best_};
  const auto take = [&](const auto& found) {
    proposals_ += std::max<std::uint64_t>(found.counts.expanded, 1);
    if (cost_ == std::numeric_limits<cost_value>::max()) {
      cost_ = found.chains.front().initial_cost;
    }
    if (found.cost < cost_) {
      best_ = found.best;
      cost_ = found.cost;
      is_better_ = true;
      last_better_ = proposals_;
    }
    return found.stopped;
  };
  const auto make = [&] { return evaluator_; };
  if (is_on_mesh) {
    return take(mcmc_chains(make, *mesh_, initial, chain));
  }
  return take(mcmc_chains(make, strategy_proposal{&*moves_, moves_->unit_share()}, initial, chain));
}

}  // namespace unity::systems

#endif
