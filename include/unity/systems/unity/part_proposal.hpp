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
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/systems/unity/mesh_proposal.hpp>

namespace unity::systems {

// Which parts are moved, and where.
enum class part_moves : std::uint8_t {
  // Moves one or two parts of connected operators, each to a block of devices. Parts, because a single operator is
  // seldom better away from its neighbours; two, because a part is seldom better on devices that another one still
  // uses. Or repeats an operator on the devices that read it, which no move of a part can do. If the drawn move is not
  // possible, there is no proposal. That ends a chain, and the next one starts from the best plan, which gains more for
  // graphs of some tens of operators than continuing the chain (docs/design/investigations.md).
  connected,
  // Also moves all unconnected parts at once, each to one of two blocks; repeats an operator and moves its readers
  // apart in one step, because readers that move without it would wait for it; and divides an operator along any two
  // axes, including those of sums, partials and copies. There is always a proposal. For graphs of a few operators.
  all,
};

// Moves parts of a graph. Half of the proposals (a quarter for part_moves::all) come from mesh_proposal instead. Models
// proposal_for strategy_evaluator. A value; threads may share it.
class part_proposal {
 public:
  // devices: 0 makes only mesh_proposal's proposals. Refers to the graph's dimensions. Complexity: as
  // parallel::placements.
  part_proposal(mesh_proposal on_mesh, const parallel::operator_graph& g, std::size_t devices,
                part_moves moves = part_moves::connected);

  [[nodiscard]] std::optional<proposed<strategy_change>> sample(const parallel::strategy& s,
                                                                random_engine& random) const;

 private:
  // Draws connected operators among those that were not drawn before: all of a component, or up to a random number.
  [[nodiscard]] std::vector<std::uint32_t> draw_part(std::vector<bool>& met, random_engine& random) const;
  // At most so many operators that were not drawn before, connected with the first.
  [[nodiscard]] std::vector<std::uint32_t> connected(std::uint32_t first, std::size_t most,
                                                     std::vector<bool>& met) const;
  [[nodiscard]] const parallel::device_block& draw_block(random_engine& random) const;
  // Another block of the same size and stride, if there is one; different blocks are disjoint.
  [[nodiscard]] const parallel::device_block& beside(const parallel::device_block& block, random_engine& random) const;
  // Effects: adds to the change that the part moves to the block. All its operators are divided along outer dimensions
  // or all along inner ones. outer: how far along outer ones, from 0 to less than 1.
  void move(std::span<const std::uint32_t> part, const parallel::device_block& block, double outer,
            strategy_change& change) const;
  // Moves all operators to one or two blocks; connected ones to the same.
  [[nodiscard]] strategy_change spread(random_engine& random) const;
  // Moves each reader of the operator, with what is connected to it, to one of two blocks. Repeats the operator on the
  // devices of both, or divides it on both blocks in the same way.
  [[nodiscard]] strategy_change forked(std::uint32_t op, random_engine& random) const;
  // Divides the operator along up to two axes on a block. Empty if it cannot be divided like that.
  [[nodiscard]] strategy_change divided(std::uint32_t op, random_engine& random) const;
  // Repeats the undivided operator on each device that reads it. Empty if there are fewer than two such devices, or too
  // many.
  [[nodiscard]] strategy_change repeated(std::uint32_t op, const parallel::strategy& s) const;

  mesh_proposal on_mesh_;
  const parallel::graph_dimensions* dimensions_;
  std::size_t devices_;
  part_moves moves_;
  parallel::placements placements_;
  std::vector<std::size_t> sizes_{};  // of blocks
  std::vector<node_id> nodes_{};
  std::vector<bool> is_output_{};
  std::vector<std::vector<std::uint32_t>> neighbours_{};
  std::vector<std::vector<std::uint32_t>> readers_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_PART_PROPOSAL)

#include <algorithm>
#include <array>
#include <iterator>

#include <unity/parallel/configuration.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::systems {

UNITY_INLINE part_proposal::part_proposal(mesh_proposal on_mesh, const parallel::operator_graph& g, std::size_t devices,
                                          part_moves moves)
    : on_mesh_{std::move(on_mesh)},
      dimensions_{&g.dimensions()},
      devices_{devices},
      moves_{moves},
      placements_{g.dimensions(), devices},
      neighbours_(g.size()),
      readers_(g.size()) {
  for (std::size_t size = 1; size <= devices; ++size) {
    if (devices % size == 0) {
      sizes_.push_back(size);
    }
  }
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    nodes_.push_back(g.node(i));
    is_output_.push_back(g.placed(i).is_output);
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
  const bool is_all = moves_ == part_moves::all;
  if (nodes_.empty() || sizes_.empty() || random.below(is_all ? 4 : 2) == 0) {
    return on_mesh_.sample(s, random);
  }
  const auto drawn = [&] { return static_cast<std::uint32_t>(random.below(nodes_.size())); };
  const auto kind = random.below(is_all ? 6 : 4);
  strategy_change change;
  if (kind == 0) {
    change = repeated(drawn(), s);
  } else if (is_all && kind == 1) {
    change = divided(drawn(), random);
  } else if (is_all && kind == 2) {
    change = spread(random);
  } else if (is_all && kind == 3) {
    change = forked(drawn(), random);
  } else {
    std::vector<bool> met(nodes_.size());
    for (auto parts = 1 + random.below(2); parts > 0; --parts) {
      const auto part = draw_part(met, random);
      const auto& block = draw_block(random);
      move(part, block, random.unit(), change);
    }
  }
  if (change.empty()) {
    return is_all ? on_mesh_.sample(s, random) : std::nullopt;
  }
  return proposed<strategy_change>{std::move(change), 0};
}

UNITY_INLINE const parallel::device_block& part_proposal::draw_block(random_engine& random) const {
  const auto blocks = placements_.blocks(sizes_[random.below(sizes_.size())]);
  return blocks[random.below(blocks.size())];
}

UNITY_INLINE const parallel::device_block& part_proposal::beside(const parallel::device_block& block,
                                                                 random_engine& random) const {
  std::vector<const parallel::device_block*> others;
  for (const auto& other : placements_.blocks(block.size)) {
    if (other.stride == block.stride && other.first != block.first) {
      others.push_back(&other);
    }
  }
  return others.empty() ? block : *others[random.below(others.size())];
}

UNITY_INLINE void part_proposal::move(std::span<const std::uint32_t> part, const parallel::device_block& block,
                                      double outer, strategy_change& change) const {
  for (const auto i : part) {
    std::vector<const parallel::degree_list*> fitting;  // later ones divide more along outer dimensions
    for (const auto& degrees : placements_.degrees(nodes_[i])) {
      if (parallel::placements::tasks_of(degrees) == block.size) {
        fitting.push_back(&degrees);
      }
    }
    if (!fitting.empty()) {
      const auto chosen = static_cast<std::size_t>(outer * static_cast<double>(fitting.size()));
      change.push_back({nodes_[i], parallel::on_block(*fitting[chosen], block)});
    }
  }
}

UNITY_INLINE strategy_change part_proposal::spread(random_engine& random) const {
  const auto& first = draw_block(random);
  const auto& second = draw_block(random);
  const std::array blocks{&first, &second};
  const auto outer_of_first = random.unit();
  const auto outer_of_second = random.unit();
  const std::array outer{outer_of_first, outer_of_second};
  std::vector<bool> met(nodes_.size());
  strategy_change change;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!met[i]) {
      const auto part = connected(i, nodes_.size(), met);
      const auto to = random.below(2);
      move(part, *blocks[to], outer[to], change);
    }
  }
  return change;
}

UNITY_INLINE strategy_change part_proposal::forked(std::uint32_t op, random_engine& random) const {
  const auto degrees = placements_.degrees(nodes_[op]);
  if (readers_[op].empty() || degrees.empty()) {
    return {};
  }
  const auto& first = draw_block(random);
  const bool is_divided = random.below(2) == 0;
  const auto& second = is_divided ? beside(first, random) : draw_block(random);
  const std::array blocks{&first, &second};
  const auto outer = random.unit();
  strategy_change change;
  std::vector<bool> met(nodes_.size());
  met[op] = true;
  std::array<bool, 2> is_used{is_divided, is_divided};
  for (const auto reader : readers_[op]) {
    const auto to = random.below(2);
    if (!met[reader]) {
      move(connected(reader, nodes_.size(), met), *blocks[to], outer, change);
      is_used[to] = true;
    }
  }
  parallel::configuration c;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (std::size_t k = 0; k < (is_used[b] ? blocks[b]->size : 0); ++k) {
      const auto d = (*blocks[b])[k];
      if (std::find(c.devices.begin(), c.devices.end(), d) == c.devices.end()) {
        c.devices.push_back(d);
      }
    }
  }
  c.degrees = parallel::degree_list(degrees.front().size(), 1);
  c.copies = static_cast<std::int64_t>(c.devices.size());
  if (is_divided && c.devices.size() == 2 * first.size) {
    strategy_change one;
    move({&op, 1}, first, outer, one);
    if (!one.empty()) {
      c.degrees = one.front().to.degrees;
      c.copies = 2;
    }
  }
  change.push_back({nodes_[op], std::move(c)});
  return change;
}

UNITY_INLINE strategy_change part_proposal::divided(std::uint32_t op, random_engine& random) const {
  const auto& o = (*dimensions_)[nodes_[op]];
  const auto& block = draw_block(random);
  parallel::configuration c;
  c.degrees = parallel::degree_list(o.divisible.size(), 1);
  c.reductions = parallel::degree_list(o.reductions.size(), 1);
  c.partials = parallel::degree_list(o.groups.size(), 1);
  const auto axis = [&](std::size_t k) -> std::int64_t& {
    for (auto* list : {&c.degrees, &c.reductions, &c.partials}) {
      if (k < list->size()) {
        return (*list)[k];
      }
      k -= list->size();
    }
    return c.copies;
  };
  const auto axes = o.divisible.size() + o.reductions.size() + o.groups.size() + 1;
  std::vector<std::size_t> factors;
  std::copy_if(sizes_.begin(), sizes_.end(), std::back_inserter(factors),
               [&](std::size_t d) { return block.size % d == 0; });
  const auto rows = factors[random.below(factors.size())];
  const auto columns = block.size / rows;
  axis(random.below(axes)) *= static_cast<std::int64_t>(rows);
  axis(random.below(axes)) *= static_cast<std::int64_t>(columns);
  const bool is_transposed = random.below(2) == 0;  // neighbours along the other axis are close to each other
  for (std::size_t t = 0; t < block.size; ++t) {
    c.devices.push_back(block[is_transposed ? t % columns * rows + t / columns : t]);
  }
  const bool is_sum = parallel::product(c.reductions) * parallel::product(c.partials) > 1;
  if ((is_sum && is_output_[op]) || !parallel::why_not(o, c, devices_).empty()) {
    return {};
  }
  if (!is_sum) {
    c.reductions = {};
    c.partials = {};
  }
  return {{nodes_[op], std::move(c)}};
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
  return connected(first, random.below(2) == 0 ? nodes_.size() : 1 + random.below(nodes_.size()), met);
}

UNITY_INLINE std::vector<std::uint32_t> part_proposal::connected(std::uint32_t first, std::size_t most,
                                                                 std::vector<bool>& met) const {
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
