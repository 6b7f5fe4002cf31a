// Moves between SOAP strategies: operators get new configurations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/placements.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategy.hpp>
#include <unity/parallel/units.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// An operator's new configuration.
struct reconfiguration {
  node_id node{};
  parallel::configuration to{};

  friend bool operator==(const reconfiguration&, const reconfiguration&) = default;
};
// Each node at most once.
using strategy_change = std::vector<reconfiguration>;

// Where the tasks of a drawn configuration may lie: on aligned blocks of devices, or on any devices.
enum class device_choice : std::uint8_t { blocks, any };

// The configurations among which a search chooses, and the operators that it changes together. A value; threads may share
// it. Refers to the dimensions.
class strategy_moves {
 public:
  strategy_moves(const tensor::algebra& a, const tensor::tensor_graph& g, const parallel::graph_dimensions& all, std::size_t devices,
                 parallel::block_strides strides = parallel::block_strides::all)
      : all_{&all}, devices_{devices}, placements_{all, devices, strides}, units_{parallel::units_of(a, g, all)} {
    for (std::size_t n = 0; n < all.node_count(); ++n) {
      if (!all[node_id{n}].inputs.empty()) {
        operators_.push_back(node_id{n});
      }
    }
  }

  [[nodiscard]] const parallel::graph_dimensions& dimensions() const noexcept { return *all_; }
  [[nodiscard]] std::size_t device_count() const noexcept { return devices_; }
  [[nodiscard]] const parallel::placements& placements() const noexcept { return placements_; }
  [[nodiscard]] const std::vector<parallel::operator_unit>& units() const noexcept { return units_; }
  [[nodiscard]] const std::vector<node_id>& operators() const noexcept { return operators_; }

  [[nodiscard]] parallel::configuration draw(node_id n, device_choice from, random_engine& random) const {
    return from == device_choice::blocks ? placements_.sample(n, random) : parallel::random_configuration((*all_)[n], devices_, random);
  }
  // The lead of a unit gets the configuration, the others follow it.
  [[nodiscard]] strategy_change change_unit(std::size_t unit, const parallel::configuration& c) const {
    const auto& u = units_[unit];
    strategy_change change;
    for (const auto n : u.nodes) {
      change.push_back({n, n == u.lead ? c : parallel::following((*all_)[n], (*all_)[u.lead], c)});
    }
    return change;
  }

 private:
  const parallel::graph_dimensions* all_;
  std::size_t devices_;
  parallel::placements placements_;
  std::vector<parallel::operator_unit> units_;
  std::vector<node_id> operators_{};
};

// A strategy in which every unit has a configuration drawn for it.
[[nodiscard]] inline parallel::strategy random_unit_strategy(const strategy_moves& moves, random_engine& random) {
  parallel::strategy s(moves.dimensions().node_count());
  for (std::size_t u = 0; u < moves.units().size(); ++u) {
    for (auto& r : moves.change_unit(u, moves.draw(moves.units()[u].lead, device_choice::blocks, random))) {
      s[r.node.index()] = std::move(r.to);
    }
  }
  return s;
}

// An operator, drawn with equal probability, gets a configuration drawn for it; or, with probability `unit_share`, all
// operators of a unit drawn do. What is drawn does not depend on the state, so the ratio of Hastings is one with the
// distribution of drawn strategies as the prior: chains sample prior times exp(-beta cost).
// Source: Jia's dissertation (2020), section 3.5.2, for single operators and any devices.
struct strategy_proposal {
  const strategy_moves* moves = nullptr;
  double unit_share = 0.5;
  device_choice devices = device_choice::blocks;

  [[nodiscard]] std::optional<proposed<strategy_change>> sample(const parallel::strategy&, random_engine& random) const {
    UNITY_EXPECTS(moves != nullptr, "moves");
    if (moves->operators().empty()) {
      return std::nullopt;
    }
    if (random.unit() < unit_share) {
      const auto u = random.below(moves->units().size());
      return proposed<strategy_change>{moves->change_unit(u, moves->draw(moves->units()[u].lead, devices, random)), 0};
    }
    const auto n = moves->operators()[random.below(moves->operators().size())];
    return proposed<strategy_change>{{{n, moves->draw(n, devices, random)}}, 0};
  }
};

}  // namespace unity::systems
