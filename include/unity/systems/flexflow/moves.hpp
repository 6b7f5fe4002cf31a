// Moves between SOAP strategies: change configurations of operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// A new configuration for an operator.
struct reconfiguration {
  node_id node{};
  parallel::configuration to{};

  friend bool operator==(const reconfiguration&, const reconfiguration&) = default;
};
// Contains each node at most once.
using strategy_change = std::vector<reconfiguration>;

// Devices for the tasks of a randomly drawn configuration: aligned blocks, or any devices.
enum class device_choice : std::uint8_t { blocks, any };

// The configurations that a search chooses from, and the units of operators that change together. A value; threads may
// share it. Refers to the dimensions.
class strategy_moves {
 public:
  strategy_moves(const tensor::algebra& a, const tensor::tensor_graph& g, const parallel::graph_dimensions& all,
                 std::size_t devices, parallel::block_strides strides = parallel::block_strides::all);

  [[nodiscard]] const parallel::graph_dimensions& dimensions() const noexcept { return *all_; }
  [[nodiscard]] std::size_t device_count() const noexcept { return devices_; }
  [[nodiscard]] const parallel::placements& placements() const noexcept { return placements_; }
  [[nodiscard]] const std::vector<parallel::operator_unit>& units() const noexcept { return units_; }
  [[nodiscard]] const std::vector<node_id>& operators() const noexcept { return operators_; }
  // The probability of changing units rather than single operators. It grows with the number of operators that units
  // join, because then a single one can gain less: 0.4 if nothing is joined, at most 0.95, so that steps of a layer can
  // still differ.
  [[nodiscard]] double unit_share() const;

  [[nodiscard]] parallel::configuration draw(node_id n, device_choice from, random_engine& random) const {
    return from == device_choice::blocks ? placements_.sample(n, random)
                                         : parallel::random_configuration((*all_)[n], devices_, random);
  }
  // The lead of the unit gets the configuration; the others follow it.
  [[nodiscard]] strategy_change change_unit(std::size_t unit, const parallel::configuration& c) const;
  // The same for a connected region of units. A unit that shares a value with one in the region joins it with
  // probability `spread`, drawn once per unit. All follow the lead of the first unit.
  [[nodiscard]] strategy_change change_region(std::size_t unit, const parallel::configuration& c, double spread,
                                              random_engine& random) const;

 private:
  void append(std::size_t unit, node_id lead, const parallel::configuration& c, strategy_change& change) const;
  void find_neighbours(const tensor::tensor_graph& g);

  const parallel::graph_dimensions* all_;
  std::size_t devices_;
  parallel::placements placements_;
  std::vector<parallel::operator_unit> units_;
  std::vector<std::vector<std::uint32_t>> neighbours_{};  // by unit: those that share a value with it, ascending
  std::vector<node_id> operators_{};
};

// A strategy in which every unit has a randomly drawn configuration.
[[nodiscard]] parallel::strategy random_unit_strategy(const strategy_moves& moves, random_engine& random);

// With probability `unit_share`, gives a drawn configuration to a region of units around a random one; otherwise to a
// random operator. Draws do not depend on the state. So with single operators only, the Hastings ratio is one with the
// distribution of drawn strategies as the prior, and chains sample prior times exp(-beta cost). With regions, which no
// single move undoes, chains only search and do not sample.
// Source: Jia's dissertation (2020), section 3.5.2, for single operators and any devices.
struct strategy_proposal {
  const strategy_moves* moves = nullptr;
  double unit_share = 0.5;
  double spread = 0.3;  // see strategy_moves::change_region
  device_choice devices = device_choice::blocks;

  [[nodiscard]] std::optional<proposed<strategy_change>> sample(const parallel::strategy&, random_engine& random) const;
};

}  // namespace unity::systems

// "node 3: [2,1] on [0,1]"
template <>
struct fmt::formatter<unity::systems::reconfiguration> : unity::plain_formatter {
  template <class Context>
  auto format(const unity::systems::reconfiguration& r, Context& context) const -> decltype(context.out()) {
    return put(context, fmt::format("node {}: {}", r.node, r.to));
  }
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW_MOVES)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE strategy_moves::strategy_moves(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            const parallel::graph_dimensions& all, std::size_t devices,
                                            parallel::block_strides strides)
    : all_{&all}, devices_{devices}, placements_{all, devices, strides}, units_{parallel::units_of(a, g, all)} {
  find_neighbours(g);
  for (const auto n : node_ids(all)) {
    if (!all[n].inputs.empty()) {
      operators_.push_back(n);
    }
  }
}

UNITY_INLINE double strategy_moves::unit_share() const {
  const auto joined =
      1 - static_cast<double>(units_.size()) / static_cast<double>(std::max<std::size_t>(operators_.size(), 1));
  return std::clamp(joined, 0.4, 0.95);
}

UNITY_INLINE strategy_change strategy_moves::change_unit(std::size_t unit, const parallel::configuration& c) const {
  strategy_change change;
  append(unit, units_[unit].lead, c, change);
  return change;
}

UNITY_INLINE strategy_change strategy_moves::change_region(std::size_t unit, const parallel::configuration& c,
                                                           double spread, random_engine& random) const {
  strategy_change change;
  std::vector<bool> looked_at(units_.size());
  looked_at[unit] = true;
  std::vector<std::uint32_t> region{static_cast<std::uint32_t>(unit)};
  for (std::size_t i = 0; i < region.size(); ++i) {
    append(region[i], units_[unit].lead, c, change);
    for (const auto next : neighbours_[region[i]]) {
      if (!looked_at[next]) {
        looked_at[next] = true;
        if (random.unit() < spread) {
          region.push_back(next);
        }
      }
    }
  }
  return change;
}

UNITY_INLINE void strategy_moves::append(std::size_t unit, node_id lead, const parallel::configuration& c,
                                         strategy_change& change) const {
  for (const auto n : units_[unit].nodes) {
    change.push_back({n, n == lead ? c : parallel::following((*all_)[n], (*all_)[lead], c)});
  }
}

UNITY_INLINE void strategy_moves::find_neighbours(const tensor::tensor_graph& g) {
  constexpr std::uint32_t none = 0xffffffffU;
  std::vector<std::uint32_t> unit_of(g.node_count(), none);
  for (std::uint32_t u = 0; u < units_.size(); ++u) {
    for (const auto n : units_[u].nodes) {
      unit_of[n.index()] = u;
    }
  }
  neighbours_.resize(units_.size());
  for (const auto n : node_ids(g)) {
    for (const auto v : g.operands(n)) {
      const auto from = unit_of[g.producer(v).index()];
      const auto to = unit_of[n.index()];
      if (from != none && from != to) {
        neighbours_[from].push_back(to);
        neighbours_[to].push_back(from);
      }
    }
  }
  for (auto& near : neighbours_) {
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
  }
}

UNITY_INLINE parallel::strategy random_unit_strategy(const strategy_moves& moves, random_engine& random) {
  parallel::strategy s(moves.dimensions().node_count());
  for (std::size_t u = 0; u < moves.units().size(); ++u) {
    for (auto& r : moves.change_unit(u, moves.draw(moves.units()[u].lead, device_choice::blocks, random))) {
      s[r.node.index()] = std::move(r.to);
    }
  }
  return s;
}

UNITY_INLINE std::optional<proposed<strategy_change>> strategy_proposal::sample(const parallel::strategy&,
                                                                                random_engine& random) const {
  UNITY_EXPECTS(moves != nullptr, "moves");
  if (moves->operators().empty()) {
    return std::nullopt;
  }
  if (random.unit() < unit_share) {
    const auto u = random.below(moves->units().size());
    const auto c = moves->draw(moves->units()[u].lead, devices, random);
    return proposed<strategy_change>{moves->change_region(u, c, spread, random), 0};
  }
  const auto n = moves->operators()[random.below(moves->operators().size())];
  return proposed<strategy_change>{{{n, moves->draw(n, devices, random)}}, 0};
}

}  // namespace unity::systems

#endif
