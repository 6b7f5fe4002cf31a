// Proposes to move parts of a graph to blocks of devices; simulation decides on the changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/systems/unity/mesh_proposal.hpp>

namespace unity::systems {

// Moves one or two parts, each of connected operators, to a block of devices each. A single operator alone would seldom
// be better away from its neighbours, nor one part where another one still is. Or replicates an operator on the devices
// that read it, which no move of a part achieves. Half of the proposals are mesh_proposal's.
// Models proposal_for strategy_evaluator. A value; threads may share it.
class part_proposal {
 public:
  // devices: 0 makes only mesh_proposal's proposals. Complexity: as parallel::placements.
  part_proposal(mesh_proposal on_mesh, const parallel::operator_graph& g, std::size_t devices);

  [[nodiscard]] std::optional<proposed<strategy_change>> sample(const parallel::strategy& s,
                                                                random_engine& random) const;

 private:
  // Draws connected operators that are not met yet: as many as possible, or up to a random number.
  [[nodiscard]] std::vector<std::uint32_t> draw_part(std::vector<bool>& met, random_engine& random) const;
  // Effects: adds to the change that the part goes to a random block; all its operators are divided along outer
  // dimensions, or all along inner ones.
  void move(std::span<const std::uint32_t> part, random_engine& random, strategy_change& change) const;
  // The undivided operator on each device that reads it; empty if there are fewer than two such devices or many.
  [[nodiscard]] strategy_change repeated(std::uint32_t op, const parallel::strategy& s) const;

  mesh_proposal on_mesh_;
  parallel::placements placements_;
  std::vector<std::size_t> sizes_{};  // of blocks
  std::vector<node_id> nodes_{};
  std::vector<std::vector<std::uint32_t>> neighbours_{};
  std::vector<std::vector<std::uint32_t>> readers_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_PART_PROPOSAL)

#include <algorithm>

#include <unity/parallel/configuration.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::systems {

UNITY_INLINE part_proposal::part_proposal(mesh_proposal on_mesh, const parallel::operator_graph& g, std::size_t devices)
    : on_mesh_{std::move(on_mesh)}, placements_{g.dimensions(), devices}, neighbours_(g.size()), readers_(g.size()) {
  for (std::size_t size = 1; size <= devices; ++size) {
    if (devices % size == 0) {
      sizes_.push_back(size);
    }
  }
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    nodes_.push_back(g.node(i));
    for (const auto& s : g.sources(i)) {
      if (s.from != parallel::operand_source::none) {
        neighbours_[i].push_back(s.from);
        neighbours_[s.from].push_back(i);
        readers_[s.from].push_back(i);
      }
    }
  }
}

UNITY_INLINE std::optional<proposed<strategy_change>> part_proposal::sample(const parallel::strategy& s,
                                                                            random_engine& random) const {
  if (nodes_.empty() || sizes_.empty() || random.below(2) == 0) {
    return on_mesh_.sample(s, random);
  }
  strategy_change change;
  if (random.below(4) == 0) {
    change = repeated(static_cast<std::uint32_t>(random.below(nodes_.size())), s);
  } else {
    std::vector<bool> met(nodes_.size());
    for (auto parts = 1 + random.below(2); parts > 0; --parts) {
      move(draw_part(met, random), random, change);
    }
  }
  // Nothing ends the chain, and the next one starts from the best: docs/performance.md says what that is worth.
  return change.empty() ? std::nullopt : std::optional{proposed<strategy_change>{std::move(change), 0}};
}

UNITY_INLINE void part_proposal::move(std::span<const std::uint32_t> part, random_engine& random,
                                      strategy_change& change) const {
  const auto size = sizes_[random.below(sizes_.size())];
  const auto blocks = placements_.blocks(size);
  const auto& block = blocks[random.below(blocks.size())];
  const auto outer = random.unit();
  for (const auto i : part) {
    std::vector<const parallel::degree_list*> fitting;  // later ones divide more along outer dimensions
    for (const auto& degrees : placements_.degrees(nodes_[i])) {
      if (parallel::placements::tasks_of(degrees) == size) {
        fitting.push_back(&degrees);
      }
    }
    if (!fitting.empty()) {
      const auto chosen = static_cast<std::size_t>(outer * static_cast<double>(fitting.size()));
      change.push_back({nodes_[i], parallel::on_block(*fitting[chosen], block)});
    }
  }
}

UNITY_INLINE strategy_change part_proposal::repeated(std::uint32_t op, const parallel::strategy& s) const {
  constexpr std::size_t most = 16;  // devices
  parallel::configuration c;
  for (const auto reader : readers_[op]) {
    for (const auto d : s[nodes_[reader].index()].devices) {
      if (std::find(c.devices.begin(), c.devices.end(), d) == c.devices.end()) {
        c.devices.push_back(d);
      }
    }
    if (c.devices.size() > most) {
      return {};
    }
  }
  const auto degrees = placements_.degrees(nodes_[op]);
  if (c.devices.size() < 2 || degrees.empty()) {
    return {};
  }
  c.degrees = degrees.front();
  std::fill(c.degrees.begin(), c.degrees.end(), 1);
  c.copies = static_cast<std::int64_t>(c.devices.size());
  return {{nodes_[op], std::move(c)}};
}

UNITY_INLINE std::vector<std::uint32_t> part_proposal::draw_part(std::vector<bool>& met, random_engine& random) const {
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!met[i]) {
      others.push_back(i);
    }
  }
  if (others.empty()) {
    return {};
  }
  const auto first = others[random.below(others.size())];
  const auto most = random.below(2) == 0 ? nodes_.size() : 1 + random.below(nodes_.size());
  std::vector<std::uint32_t> part{first};
  met[first] = true;
  for (std::size_t k = 0; k < part.size(); ++k) {
    for (const auto next : neighbours_[part[k]]) {
      if (!met[next] && part.size() < most) {
        met[next] = true;
        part.push_back(next);
      }
    }
  }
  return part;
}

}  // namespace unity::systems

#endif
