// Improves a plan by simulation as long as there is time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/systems/unity/part_proposal.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

struct polish_options {
  std::uint64_t seed = 0;
  std::uint64_t proposals = 300;
  double seconds = std::numeric_limits<double>::infinity();
  observer watch{};
};

// Improves one plan in rounds. Each round runs a Markov chain from the best plan so far, alternating between mesh
// options and parts of the graph (if the plan is on a mesh) and FlexFlow's moves (if allowed). Chains become longer
// after rounds without success. Immovable: its parts refer to each other, to the graph and to the machine.
class plan_polish {
 public:
  // mesh: nullopt if the plan is on no mesh.
  plan_polish(const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::machine& m,
              const parallel::lowering& lowering, parallel::strategy initial, std::optional<part_proposal> mesh,
              bool is_free);
  plan_polish(const plan_polish&) = delete;
  plan_polish& operator=(const plan_polish&) = delete;

  [[nodiscard]] const parallel::strategy& best() const noexcept { return best_; }
  [[nodiscard]] cost_value cost() const noexcept { return cost_; }
  [[nodiscard]] bool is_better() const noexcept { return is_better_; }  // than at the start
  [[nodiscard]] std::uint64_t proposals() const noexcept { return proposals_; }
  // Whether the last `idle` proposals, plus a fiftieth of that for each node, found nothing.
  [[nodiscard]] bool is_idle(std::uint64_t idle) const {
    return proposals_ - last_better_ >= idle + idle * graph_.node_count() / 50;
  }
  // Effects: runs one more round within the limits. Returns why it ended.
  stop_reason improve(const polish_options& o);

 private:
  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  std::size_t devices_;
  strategy_evaluator evaluator_;
  std::optional<strategy_moves> moves_{};  // made when first needed
  std::optional<part_proposal> mesh_;
  bool is_free_;
  parallel::strategy best_;
  cost_value cost_ = std::numeric_limits<cost_value>::max();
  bool is_better_ = false;
  std::uint64_t proposals_ = 0;
  std::uint64_t last_better_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t idle_rounds_ = 0;  // since the last improvement
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_PLAN_POLISH)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE plan_polish::plan_polish(const tensor::algebra& a, const tensor::tensor_graph& g,
                                      const hardware::machine& m, const parallel::lowering& lowering,
                                      parallel::strategy initial, std::optional<part_proposal> mesh, bool is_free)
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
  // Each round lowers and simulates the whole program once, so it makes at least some proposals for each operator.
  constexpr std::uint64_t most_doublings = 10;
  const auto least = std::max<std::uint64_t>(500, 4 * graph_.node_count());
  chain.proposals = std::min(o.proposals, least << std::min(idle_rounds_++ / 2, most_doublings));
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
      idle_rounds_ = 0;
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
