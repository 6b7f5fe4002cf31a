// Pipelines whose stages have unequal numbers of devices, or are divided along different meshes.
// Source: Zheng et al., Alpa: automating inter- and intra-operator parallelism for distributed deep learning, OSDI
// 2022, section 5.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/microbatch_graphs.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/systems/unity/stage_cuts.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// A group consists of 2^k devices of one node, of a whole node, or of 2^k nodes. Above 64 devices, the nodes are
// divided into at most 32 equal blocks, and a group consists of 2^k blocks. A micro-batch of the whole graph is mapped
// onto each mesh of each group, and a stage takes its part of the mapping of its group. Messages between two groups
// take as long as the busiest link between them.
class unequal_stages {
 public:
  explicit unequal_stages(pipeline_search& search) : search_{search} {}

  // Without trades in the search's options: the best candidate for each number of stages and of micro-batches. With
  // trades: for each, the fastest candidate within each of several limits of memory, from none downwards, where each
  // stage may have its own price of memory. Leaves out candidates whose stages are all divided alike, because
  // pipeline_search::run finds those. Returns what is found within so many seconds, by excess, then by predicted time.
  // Nothing for machines of fewer than 3 or more than 1,024 devices, or whose nodes have different numbers of devices.
  [[nodiscard]] std::vector<pipeline_candidate> run(const tensor::tensor_graph& g,
                                                    double seconds = std::numeric_limits<double>::infinity());

  // Whether the last call of run() had too little time.
  [[nodiscard]] bool ended_early() const { return left() <= 0; }

  static constexpr std::size_t most_stages = 8;

 private:
  // The number of devices of the smallest group; zero if there are no groups.
  [[nodiscard]] std::size_t smallest_group() const;
  // The numbers of devices that groups may have.
  [[nodiscard]] std::vector<std::size_t> sizes() const;
  // A message between two devices, given by their positions in devices_.
  struct handed {
    std::size_t from = 0;
    std::size_t to = 0;
    double share = 1;  // of the bytes that a receiver gets in all
  };
  // A mapping of a micro-batch onto a mesh, with the costs of blocks of the graph.
  struct mapped_way {
    mesh_solver* solver = nullptr;
    std::vector<std::uint32_t> options{};
    std::vector<parallel::memory_trade> trades{};  // empty: none
    std::vector<stage_piece> pieces{};
  };
  [[nodiscard]] std::vector<mapped_way> ways_of(const microbatch_graph& g, std::int64_t price);
  // The mappings at all prices of memory. Leaves out a mapping if another one on as many devices costs no more, in any
  // respect and for any block.
  [[nodiscard]] std::vector<mapped_way> ways_of(const microbatch_graph& g);
  // Joins steps to at most about `most_blocks` blocks of similar work, so that all cuts between blocks can be tried.
  // Returns the first step of each.
  [[nodiscard]] static std::vector<std::size_t> blocks_of(const std::vector<stage_piece>& pieces);
  [[nodiscard]] std::size_t most_stages_of(const microbatch_graph& g) const;
  // Effects: adds the best for each number of stages.
  void add(const microbatch_graph& g, std::vector<pipeline_candidate>& all);
  // Effects: adds, for each number of stages, the fastest candidates within ever lower limits of memory.
  void add_trading(const microbatch_graph& g, std::vector<pipeline_candidate>& all);
  [[nodiscard]] std::optional<stage_cuts> cut(const microbatch_graph& g, const std::vector<mapped_way>& ways,
                                              std::size_t stages, bytes limit);
  [[nodiscard]] pipeline_candidate candidate(const microbatch_graph& g, const std::vector<mapped_way>& ways,
                                             const stage_cuts& cuts);
  struct link_price {
    double picoseconds_per_byte = 0;  // that a receiver gets
    picoseconds delay{};              // until the first one comes
  };
  // The messages from the `from` devices before device `at` to the `to` devices from it on, and their cotangents back.
  // Complexity: linear in the devices and their routes, once for each three numbers.
  [[nodiscard]] const link_price& between(std::size_t from, std::size_t to, std::size_t at);
  // The time per byte on the busiest link, and the longest delay, if all messages are sent at the same time.
  [[nodiscard]] link_price busiest(std::span<const handed> messages) const;
  [[nodiscard]] bool has_trades() const { return search_.options().trades != parallel::memory_trades::none; }
  [[nodiscard]] double left() const { return seconds_ - watch_.seconds(); }

  static constexpr std::size_t most_devices = 1024;
  static constexpr std::size_t most_alone = 64;  // devices of a machine whose groups may be smaller than a node
  static constexpr std::size_t most_units = 32;  // blocks of nodes that a larger machine is divided into
  static constexpr std::size_t most_blocks = 48;
  static constexpr std::size_t most_limits = 12;  // of memory, each an eighth below what the cut before it holds

  pipeline_search& search_;
  std::vector<std::size_t> nodes_{};  // the number of devices of each
  std::vector<hardware::device_id> devices_{};
  std::size_t unit_ = 1;               // devices of a block of nodes; 1: groups may be smaller than a node
  std::vector<std::size_t> within_{};  // the `nodes` of cut_into_stages, in units
  std::vector<std::size_t> blocks_{};  // first steps, for the current graph
  std::map<std::array<std::size_t, 3>, link_price> between_{};  // by sizes of groups and the first device of the second
  double seconds_ = 0;
  stopwatch watch_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_UNEQUAL_STAGES)

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/systems/unity/mapping_candidates.hpp>
#include <unity/systems/unity/memory_trading.hpp>

namespace unity::systems {

UNITY_INLINE std::vector<pipeline_candidate> unequal_stages::run(const tensor::tensor_graph& g, double seconds) {
  watch_ = {};
  seconds_ = seconds;
  nodes_.clear();
  devices_.clear();
  between_.clear();
  for (const auto& row : hardware::devices_by_node(search_.machine().network)) {
    nodes_.push_back(row.size());
    devices_.insert(devices_.end(), row.begin(), row.end());
  }
  const auto devices = search_.machine().network.device_count();
  const bool alike = std::all_of(nodes_.begin(), nodes_.end(), [&](std::size_t n) { return n == nodes_[0]; });
  std::vector<pipeline_candidate> all;
  unit_ = alike ? smallest_group() : 0;
  if (unit_ == 0 || devices < 3 || devices > most_devices || search_.options().stages < 2) {
    return all;
  }
  within_ = unit_ == 1 ? nodes_ : std::vector<std::size_t>(devices / unit_, 1);
  const auto samples = parallel::sample_count(search_.operators(), g);
  std::int64_t before = 1;
  for (std::int64_t wanted = 2; wanted <= std::min(samples, 8 * static_cast<std::int64_t>(devices)); wanted *= 2) {
    auto count = std::max(wanted, before + 1);
    while (count < samples && samples % count != 0) {
      ++count;
    }
    const auto* part = left() <= 0 || count > samples ? nullptr : search_.microbatches(g, count);
    if (part != nullptr && has_trades()) {
      add_trading(*part, all);
    } else if (part != nullptr) {
      add(*part, all);
    }
    before = count;
  }
  unity::stable_sort(all, [](const pipeline_candidate& x, const pipeline_candidate& y) {
    return std::tuple{x.excess, x.predicted} < std::tuple{y.excess, y.predicted};
  });
  return all;
}

UNITY_INLINE std::size_t unequal_stages::smallest_group() const {
  if (devices_.size() <= most_alone) {
    return 1;
  }
  auto nodes = (nodes_.size() + most_units - 1) / most_units;
  while (nodes_.size() % nodes != 0) {
    ++nodes;
  }
  return nodes == nodes_.size() ? 0 : nodes * nodes_[0];
}

UNITY_INLINE std::vector<std::size_t> unequal_stages::sizes() const {
  std::vector<std::size_t> all;
  for (auto n = unit_; unit_ > 1 && n < devices_.size(); n *= 2) {
    all.push_back(n);
  }
  if (unit_ > 1) {
    return all;
  }
  const auto width = nodes_[0];
  for (std::size_t n = 1; n < width; n *= 2) {
    all.push_back(n);
  }
  for (std::size_t n = 1; n < nodes_.size(); n *= 2) {  // the whole machine would be a single stage
    all.push_back(n * width);
  }
  return all;
}

UNITY_INLINE auto unequal_stages::ways_of(const microbatch_graph& g, std::int64_t price) -> std::vector<mapped_way> {
  const auto shared = static_cast<int>((16 + g.count - 1) / g.count);  // reductions come once for all micro-batches
  parallel::mapping_objective o{shared, price,
                                price == 0 ? 1 : std::min(g.count, static_cast<std::int64_t>(most_stages_of(g)))};
  o.trades = price == 0 ? parallel::memory_trades::none : search_.options().trades;
  std::vector<mapped_way> ways;
  for (const auto size : sizes()) {
    auto& group = search_.solvers_of(size);
    for (auto& solver : group.solvers) {
      if (left() <= 0) {
        return {};
      }
      solver->end_in(left());
      auto found = solver->solve(g.ops, o);
      solver->end_in(std::numeric_limits<double>::infinity());
      if (found.cost >= parallel::unreachable) {
        continue;
      }
      auto trades =
          has_trades() ? trades_of(*solver, g.graph, g.ops, found.options, o) : std::vector<parallel::memory_trade>{};
      auto priced = search_.pieces_of(g, group, *solver, found.options, trades);
      if (blocks_.empty()) {
        blocks_ = blocks_of(priced.pieces);
      }
      mapped_way way{solver.get(), std::move(found.options), std::move(trades), {}};
      for (std::size_t i = 0; i < priced.pieces.size(); ++i) {
        if (way.pieces.size() < blocks_.size() && blocks_[way.pieces.size()] == i) {
          way.pieces.emplace_back();
        }
        auto& p = way.pieces.back();
        // What comes once in an iteration counts with an equal share for each micro-batch.
        p.takes += priced.pieces[i].takes + priced.once[i] / g.count;
        p.passes = priced.pieces[i].passes;
        p.weights += priced.pieces[i].weights;
        p.activations += priced.pieces[i].activations;
      }
      ways.push_back(std::move(way));
    }
  }
  return ways;
}

UNITY_INLINE auto unequal_stages::ways_of(const microbatch_graph& g) -> std::vector<mapped_way> {
  blocks_.clear();
  std::vector<mapped_way> all;
  const auto is_no_less = [](const stage_piece& x, const stage_piece& y) {
    return x.takes >= y.takes && x.weights >= y.weights && x.activations >= y.activations && x.passes >= y.passes;
  };
  for (const auto price : memory_prices) {
    for (auto& way : ways_of(g, price)) {
      const auto is_worse = [&](const mapped_way& k) {
        return k.solver->mesh().devices.size() == way.solver->mesh().devices.size() &&
               std::equal(way.pieces.begin(), way.pieces.end(), k.pieces.begin(), is_no_less);
      };
      if (std::none_of(all.begin(), all.end(), is_worse)) {
        all.push_back(std::move(way));
      }
    }
  }
  return all;
}

UNITY_INLINE std::vector<std::size_t> unequal_stages::blocks_of(const std::vector<stage_piece>& pieces) {
  picoseconds sum{};
  for (const auto& p : pieces) {
    sum += p.takes;
  }
  const auto most = pieces.size() <= most_blocks ? picoseconds{} : 2 * sum / static_cast<std::int64_t>(most_blocks);
  std::vector<std::size_t> first;
  picoseconds takes{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i == 0 || takes + pieces[i].takes > most) {
      first.push_back(i);
      takes = {};
    }
    takes += pieces[i].takes;
  }
  return first;
}

UNITY_INLINE std::size_t unequal_stages::most_stages_of(const microbatch_graph& g) const {
  return std::min({search_.options().stages, most_stages, search_.machine().network.device_count(),
                   static_cast<std::size_t>(g.count)});
}

UNITY_INLINE std::optional<stage_cuts> unequal_stages::cut(const microbatch_graph& g,
                                                           const std::vector<mapped_way>& ways, std::size_t stages,
                                                           bytes limit) {
  std::vector<stage_way> of_cuts;
  for (const auto& w : ways) {
    of_cuts.push_back({w.solver->mesh().devices.size() / unit_, w.pieces});
  }
  stage_goal goal{stages, g.count, g.count - 1, limit};
  goal.shares = has_trades() ? 16 : goal.shares;  // less exact: many limits of memory are tried and then simulated
  goal.handing = [&](std::size_t from, std::size_t to, std::size_t at, const stage_piece& last) {
    const auto& price = between(from * unit_, to * unit_, at * unit_);
    const auto moved = std::llround(price.picoseconds_per_byte * static_cast<double>(last.passes.count()));
    return last.passes == bytes{} ? picoseconds{} : picoseconds{moved} + price.delay;
  };
  goal.is_past_deadline = [&] { return left() <= 0; };
  return cut_into_stages(of_cuts, within_, goal);
}

UNITY_INLINE auto unequal_stages::between(std::size_t from, std::size_t to, std::size_t at) -> const link_price& {
  if (unit_ > 1) {
    at = from;  // groups of whole nodes are assumed to be linked alike, wherever they are
  }
  const auto [known, is_new] = between_.try_emplace({from, to, at});
  if (is_new) {
    // Both groups hold a value in the order of their devices, so the nearest parts of both overlap.
    std::vector<handed> there;
    std::vector<handed> back;
    const auto most = std::max(from, to);
    for (std::size_t i = 0; i < most; ++i) {
      there.push_back(
          {at - from + i * from / most, at + i * to / most, static_cast<double>(to) / static_cast<double>(most)});
      back.push_back({there.back().to, there.back().from, there.back().share});
    }
    const auto one = busiest(there);
    const auto other = busiest(back);
    known->second = {one.picoseconds_per_byte + other.picoseconds_per_byte, one.delay + other.delay};
  }
  return known->second;
}

UNITY_INLINE auto unequal_stages::busiest(std::span<const handed> messages) const -> link_price {
  const auto& machine = search_.machine();
  const auto& t = machine.network;
  std::map<std::size_t, double> sums;  // by resource: picoseconds per byte
  link_price all;
  for (const auto& m : messages) {
    const auto from = devices_[m.from];
    auto delay = hardware::start_of(machine, from).start;
    for (const auto l : search_.routes().between(t, from, devices_[m.to])) {
      auto& sum = sums[t.resource(l).index()];
      sum += m.share * 1e12 / static_cast<double>(t.bytes_per_second(l));
      all.picoseconds_per_byte = std::max(all.picoseconds_per_byte, sum);
      delay += t.latency(l);
    }
    all.delay = std::max(all.delay, delay);
  }
  return all;
}

UNITY_INLINE void unequal_stages::add(const microbatch_graph& g, std::vector<pipeline_candidate>& all) {
  const auto most = most_stages_of(g);
  std::vector<pipeline_candidate> best(most + 1);
  for (const auto price : memory_prices) {
    blocks_.clear();
    const auto ways = ways_of(g, price);
    bool fits = true;
    for (std::size_t s = 2; s <= std::min(most, blocks_.size()) && !ways.empty() && left() > 0; ++s) {
      const auto cuts = cut(g, ways, s, search_.options().memory_limit);
      if (!cuts) {
        continue;
      }
      auto c = candidate(g, ways, *cuts);
      fits = fits && c.excess == bytes{};
      if (best[s].graph == nullptr ||
          std::tuple{c.excess, c.predicted} < std::tuple{best[s].excess, best[s].predicted}) {
        best[s] = std::move(c);
      }
    }
    if (fits) {
      break;
    }
  }
  for (auto& c : best) {
    const auto is_other = [&](const mesh_solver* solver) { return solver != c.solver; };
    if (std::any_of(c.solvers.begin(), c.solvers.end(), is_other)) {
      all.push_back(std::move(c));
    }
  }
}

UNITY_INLINE void unequal_stages::add_trading(const microbatch_graph& g, std::vector<pipeline_candidate>& all) {
  const auto ways = ways_of(g);
  const auto memory = search_.options().memory_limit;
  for (std::size_t s = 2; s <= std::min(most_stages_of(g), blocks_.size()) && !ways.empty() && left() > 0; ++s) {
    const auto add_cut = [&](bytes limit) {
      auto cuts = cut(g, ways, s, limit);
      if (cuts && std::any_of(cuts->way.begin(), cuts->way.end(), [&](std::size_t w) { return w != cuts->way[0]; })) {
        all.push_back(candidate(g, ways, *cuts));
      }
      return cuts;
    };
    bytes limit{};
    for (std::size_t step = 0; step < most_limits; ++step) {
      const auto cuts = add_cut(limit);
      limit = cuts ? std::min(cuts->held - bytes{1}, cuts->held - cuts->held / 8) : bytes{};
      // Tries the devices' own limit in addition to the others, not instead of one: a cut that is predicted to exceed
      // it slightly may still fit.
      if (cuts && limit < memory && memory < cuts->held) {
        add_cut(memory);
      }
      if (limit <= bytes{} || cuts->excess > bytes{}) {
        break;
      }
    }
  }
}

UNITY_INLINE pipeline_candidate unequal_stages::candidate(const microbatch_graph& g,
                                                          const std::vector<mapped_way>& ways, const stage_cuts& cuts) {
  pipeline_candidate c;
  c.graph = &g;
  c.stage = &search_.solvers_of(1);
  c.mapping.stage_count = static_cast<std::uint32_t>(cuts.first.size());
  c.predicted = cuts.through + (g.count - 1) * cuts.slowest;
  // With trades, the limits that cuts were made for are not the devices' limit.
  const auto memory = search_.options().memory_limit;
  c.excess = !has_trades() ? cuts.excess : memory > bytes{} ? std::max(bytes{}, cuts.held - memory) : bytes{};
  c.held = cuts.held;
  std::vector<std::size_t> first;
  for (std::size_t k = 0; k < cuts.first.size(); ++k) {
    first.push_back(blocks_[cuts.first[k]]);
    c.solvers.push_back(ways[cuts.way[k]].solver);
  }
  c.solver = c.solvers.front();
  c.mapping.stages = stages_of(g, first);
  for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
    const auto& way = ways[cuts.way[c.mapping.stages[i]]];
    c.mapping.options.push_back(way.options[i]);
    if (has_trades()) {
      c.mapping.trades.push_back(way.trades[i]);
    }
  }
  return c;
}

}  // namespace unity::systems

#endif
