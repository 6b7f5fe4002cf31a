// Branches side by side on blocks of devices, against all divisions and options, and against simulation.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/branch_splits.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>

#include "../support/operators.hpp"

namespace tests_of_branch_splits {

namespace {

using namespace unity;
using parallel::mesh_block;
using parallel::unreachable;
using unity::test::training::operators;

constexpr auto uses =
    parallel::all_index_uses & ~(parallel::index_uses{1} << static_cast<unsigned>(parallel::index_use::placement));

// Branches of products, each from its own input or all after one operator, and a concat that joins them.
tensor::tensor_graph branches(const std::vector<std::vector<std::int64_t>>& widths, std::int64_t samples,
                              bool has_stem) {
  tensor::builder b{operators()};
  const std::int64_t first = 12;
  auto stem = b.input("x", {samples, first});
  stem = has_stem ? b.relu(stem) : stem;
  std::vector<value_id> parts;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    auto v = has_stem ? stem : b.input("x" + std::to_string(i), {samples, first});
    auto width = first;
    for (std::size_t j = 0; j < widths[i].size(); ++j) {
      v = b.matmul(v, b.weight("w" + std::to_string(i) + "_" + std::to_string(j), {width, widths[i][j]}));
      width = widths[i][j];
    }
    parts.push_back(v);
  }
  return tensor::with_delivered_outputs(operators(), std::move(b).finish({b.concat(1, parts)}));
}

struct analyzed {
  tensor::tensor_graph graph;
  parallel::graph_dimensions dimensions;
  parallel::training_graph training;
  parallel::operator_graph ops;

  explicit analyzed(tensor::tensor_graph g)
      : graph{std::move(g)},
        dimensions{operators(), graph},
        training{operators(), graph},
        ops{operators(), graph, dimensions, training} {}
};

struct split_machine {
  hardware::machine machine;
  hardware::route_table routes;
  parallel::shard_clock clock;
  systems::split_mappings splits;

  explicit split_machine(const char* preset)
      : machine{hardware::preset(preset)},
        routes{machine.network},
        clock{operators(), parallel::analytic_durations(operators(), machine), {0}},
        splits{operators(), machine, routes, clock, uses, parallel::optimizer::sgd, 2} {}
  [[nodiscard]] systems::mesh_solver solver(const hardware::device_mesh& m) {
    return {operators(), machine, routes, m, clock, uses, parallel::optimizer::sgd};
  }
  [[nodiscard]] picoseconds simulated(const analyzed& g, const parallel::strategy& s) const {
    parallel::lowering lowering{operators(), g.graph, machine};
    return parallel::report_on(lowering, g.graph, machine, s).iteration;
  }
};

constexpr parallel::mapping_objective all_counts{16, 0};

}  // namespace

TEST_CASE("a mapping with device blocks costs no more and keeps each branch on one block") {
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  random_engine random{seed};
  split_machine at{"p100:1x4"};
  std::set<std::size_t> sizes;
  std::size_t split = 0;
  const auto mesh = hardware::meshes_of(at.machine.network, 1).front();
  auto solver = at.solver(mesh);
  for (std::uint64_t i = 0; i < 12; ++i) {
    std::vector<std::vector<std::int64_t>> widths(2 + random.below(3));
    for (auto& w : widths) {
      w.assign(1 + random.below(2), static_cast<std::int64_t>(16 + 101 * random.below(9)));
    }
    const bool has_stem = random.below(2) == 0;
    CAPTURE(i, widths.size(), has_stem);
    const analyzed g{branches(widths, static_cast<std::int64_t>(16 + random.below(4)), has_stem)};
    const auto without = solver.solve(g.ops, all_counts);
    const auto with = at.splits.solve(solver, g.ops, all_counts);
    CHECK(with.cost <= without.cost);
    REQUIRE(with.blocks.size() == g.ops.size());
    split += systems::split_mappings::has_blocks(with) ? 1 : 0;
    CHECK(systems::split_mappings::has_blocks(with) == (with.cost < without.cost));
    CHECK(with.blocks.back() == mesh_block{});
    const auto strategy = at.splits.strategy_of(solver, g.ops, with, g.graph.node_count());
    for (std::uint32_t op = 0; op < g.ops.size(); ++op) {
      const auto& c = strategy[g.ops.node(op).index()];
      CHECK(parallel::why_not(*g.ops.placed(op).dimensions, c, 4).empty());
      if (with.blocks[op] != mesh_block{}) {
        sizes.insert(c.devices.size());
      }
      for (const auto& s : g.ops.sources(op)) {
        if (s.from != parallel::operand_source::none && with.blocks[op] != mesh_block{} &&
            with.blocks[s.from] != mesh_block{}) {
          CHECK(with.blocks[s.from].first == with.blocks[op].first);
        }
      }
    }
    CHECK(at.simulated(g, strategy).count() > 0);
  }
  CHECK(split > 0);
  CHECK(sizes.size() > 1);
}

TEST_CASE("branches divisible by three and by nothing share four devices as three and one") {
  split_machine at{"p100:1x4"};
  // The samples (1999) and 3779 are primes, so only 6561, a power of three, can be divided.
  const analyzed g{branches({{6561, 6561, 3}, {3779, 3779, 1}}, 1999, false)};
  auto solver = at.solver(hardware::meshes_of(at.machine.network, 1).front());
  const auto without = solver.solve(g.ops, all_counts);
  const auto with = at.splits.solve(solver, g.ops, all_counts);
  REQUIRE(systems::split_mappings::has_blocks(with));
  CHECK(with.cost < without.cost);
  const auto strategy = at.splits.strategy_of(solver, g.ops, with, g.graph.node_count());
  std::set<std::size_t> sizes;
  std::set<hardware::device_id> devices;
  for (std::uint32_t op = 0; op < g.ops.size(); ++op) {
    if (with.blocks[op] != mesh_block{}) {
      const auto& c = strategy[g.ops.node(op).index()];
      sizes.insert(c.devices.size());
      devices.insert(c.devices.begin(), c.devices.end());
    }
  }
  CHECK(sizes == std::set<std::size_t>{1, 3});
  CHECK(devices.size() == 4);
  const auto before = at.simulated(g, solver.strategy_of(g.ops, without.options, g.graph.node_count()));
  const auto after = at.simulated(g, strategy);
  CAPTURE(with.cost, after.count(), without.cost, before.count());
  CHECK(after < before);
  CHECK(static_cast<double>(with.cost) > 0.9 * static_cast<double>(after.count()));
  CHECK(static_cast<double>(with.cost) < 1.25 * static_cast<double>(after.count()));
}

TEST_CASE("a block search without time finds nothing and does not change the next search") {
  split_machine at{"p100:1x4"};
  const analyzed g{branches({{6561, 6561, 3}, {3779, 3779, 1}}, 1999, false)};
  auto solver = at.solver(hardware::meshes_of(at.machine.network, 1).front());
  CHECK(at.splits.solve(solver, g.ops, all_counts, {}, 0).options.empty());
  const auto with = at.splits.solve(solver, g.ops, all_counts);
  split_machine other{"p100:1x4"};
  auto same = other.solver(solver.mesh());
  const auto expected = other.splits.solve(same, g.ops, all_counts);
  CHECK(with.cost == expected.cost);
  CHECK(with.options == expected.options);
  CHECK(with.blocks == expected.blocks);
}

TEST_CASE("for two parallel operators the block search is within 5% of exhaustive search") {
  const std::uint64_t seed = 6;
  INFO("seed " << seed);
  random_engine random{seed};
  split_machine at{"p100:1x4"};
  const auto mesh = hardware::meshes_of(at.machine.network, 1).front();
  auto solver = at.solver(mesh);
  std::size_t split = 0;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const std::vector<std::vector<std::int64_t>> widths{{static_cast<std::int64_t>(24 + 311 * random.below(7))},
                                                        {static_cast<std::int64_t>(36 + 311 * random.below(7))}};
    const analyzed g{branches(widths, static_cast<std::int64_t>(960 + random.below(4)), false)};
    const auto with = at.splits.solve(solver, g.ops, all_counts);
    split += systems::split_mappings::has_blocks(with) ? 1 : 0;
    // The concat after the two products, and the cost of handing its inputs over.
    REQUIRE(g.ops.size() == 4);
    const auto price = [&](systems::mesh_solver& on, std::uint32_t op, std::size_t o) {
      return parallel::price_of(on.tables().of(g.ops.placed(op)).options[o], all_counts);
    };
    const auto& concat = solver.tables().of(g.ops.placed(2));
    const auto& last = solver.tables().of(g.ops.placed(3));
    auto slowest_wins = solver.solve(g.ops, all_counts).cost;
    // By block: a mesh solver of its own.
    std::vector<std::pair<hardware::device_mesh, std::unique_ptr<systems::mesh_solver>>> blocks;
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (std::size_t first = 0; first < 4; ++first) {
      for (std::size_t count = 1; first + count <= 4 && count < 4; ++count) {
        const std::vector<hardware::device_id> d(mesh.devices.begin() + static_cast<std::ptrdiff_t>(first),
                                                 mesh.devices.begin() + static_cast<std::ptrdiff_t>(first + count));
        for (const auto& m : hardware::meshes_of({d}, 2)) {
          blocks.emplace_back(m, std::make_unique<systems::mesh_solver>(operators(), at.machine, at.routes, m, at.clock,
                                                                        uses, parallel::optimizer::sgd));
          ranges.emplace_back(first, count);
        }
      }
    }
    // Times by product, block and option of the concat.
    std::vector<std::vector<std::vector<std::int64_t>>> takes(2);
    for (std::uint32_t op = 0; op < 2; ++op) {
      const auto& type = g.ops.placed(op).dimensions->outputs[0];
      for (auto& [m, on] : blocks) {
        const auto& t = on->tables().of(g.ops.placed(op));
        auto& least = takes[op].emplace_back(concat.options.size(), unreachable);
        const auto& space = on->tables().space(type, true);
        for (std::size_t o = 0; o < t.options.size(); ++o) {
          std::vector<std::int64_t> reached(space.size(), unreachable);
          reached[space.number(t.options[o].results[0])] = price(*on, op, o);
          parallel::relax(space, reached);
          for (std::uint32_t l = 0; l < space.size(); ++l) {
            for (std::size_t c = 0; reached[l] < unreachable && c < concat.options.size(); ++c) {
              const auto wanted = concat.options[c].operands[op];
              if (parallel::is_everywhere(m, space[l]) && parallel::is_everywhere(mesh, wanted)) {
                const auto moved = parallel::handover(at.machine, at.routes, type, m, space[l], mesh, wanted);
                least[c] = std::min(least[c], reached[l] + 2 * moved.count());
              }
            }
          }
        }
      }
    }
    std::vector<std::int64_t> behind(concat.options.size(), unreachable);
    const auto& between = solver.tables().space(g.ops.placed(2).dimensions->outputs[0], true);
    for (std::size_t c = 0; c < concat.options.size(); ++c) {
      std::vector<std::int64_t> reached(between.size(), unreachable);
      reached[between.number(concat.options[c].results[0])] = price(solver, 2, c);
      parallel::relax(between, reached);
      for (std::size_t o = 0; o < last.options.size(); ++o) {
        behind[c] = std::min(behind[c], reached[between.number(last.options[o].operands[0])] + price(solver, 3, o));
      }
    }
    for (std::size_t a = 0; a < blocks.size(); ++a) {
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        const auto [first, count] = ranges[a];
        const auto [other, others] = ranges[b];
        const bool is_same = ranges[a] == ranges[b];
        if (!is_same && first < other + others && other < first + count) {
          continue;
        }
        for (std::size_t c = 0; c < concat.options.size(); ++c) {
          const auto x = takes[0][a][c];
          const auto y = takes[1][b][c];
          slowest_wins = std::min(slowest_wins, std::max({x, y, is_same ? x + y : 0}) + behind[c]);
        }
      }
    }
    CAPTURE(i, widths[0][0], widths[1][0], with.cost, slowest_wins);
    CHECK(with.cost >= slowest_wins);
    // Divisions are chosen by the branches' own times, before handing over is priced.
    CHECK(static_cast<double>(with.cost) <= 1.05 * static_cast<double>(slowest_wins));
  }
  CHECK(split > 0);
}

}  // namespace tests_of_branch_splits
