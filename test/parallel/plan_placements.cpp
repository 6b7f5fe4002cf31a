#include <unity/parallel/plan_placements.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "replicated_plan.hpp"

namespace tests_of_plan_placements {

namespace {

using namespace unity;
using unity::test::training::operators;

const hardware::mesh_sizes sizes{2, 2, 2};

// Maps a place on the mesh to its task: each axis is a digit of the task's number.
struct assignment {
  std::vector<std::size_t> digit{};  // by axis
  std::vector<std::int64_t> degrees{};
};

parallel::configuration whole_on(std::size_t devices, const parallel::operator_dimensions& o) {
  parallel::configuration c{parallel::degree_list(o.divisible.size(), 1), {}};
  c.copies = static_cast<std::int64_t>(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    c.devices.push_back(hardware::device_id{d});
  }
  return c;
}

// Each axis divides a dimension or a sum of the operator, or nothing. Devices are in mesh order.
parallel::configuration drawn(const parallel::operator_dimensions& o, random_engine& random) {
  const auto reductions = o.reductions.size();
  assignment a{{}, std::vector<std::int64_t>(1 + reductions + o.divisible.size(), 1)};
  for (const auto size : sizes) {
    a.digit.push_back(random.below(a.degrees.size()));
    a.degrees[a.digit.back()] *= size;
  }
  parallel::configuration c{};
  c.copies = a.degrees[0];
  for (std::size_t r = 0; r < reductions; ++r) {
    c.reductions.push_back(a.degrees[1 + r]);
  }
  for (std::size_t d = 0; d < o.divisible.size(); ++d) {
    c.degrees.push_back(a.degrees[1 + reductions + d]);
  }
  c.devices.resize(8);
  for (std::size_t place = 0; place < 8; ++place) {
    std::size_t task = 0;
    for (std::size_t d = 0; d < a.degrees.size(); ++d) {
      for (std::size_t axis = 0; axis < 3; ++axis) {
        if (a.digit[axis] == d) {
          task = task * 2 + (place >> (2 - axis)) % 2;
        }
      }
    }
    c.devices[task] = hardware::device_id{place};
  }
  return c;
}

// The box of a tensor that the device at a place holds under the layout.
parallel::box box_at(const hardware::device_mesh& m, const parallel::tensor_placement& l, const tensor::shape& dims,
                     std::size_t place) {
  auto b = parallel::whole(dims);
  for (std::size_t axis = 0; axis < l.size(); ++axis) {
    if (l[axis].kind == parallel::axis_kind::split) {
      const auto d = l[axis].dimension;
      const auto part = (b.end[d] - b.begin[d]) / m.sizes[axis];
      b.begin[d] += part * static_cast<std::int64_t>(m.coordinate(place, axis));
      b.end[d] = b.begin[d] + part;
    }
  }
  return b;
}

// The place one further along an axis, or the first behind the last.
std::size_t next_along(const hardware::device_mesh& m, std::size_t place, std::size_t axis) {
  const auto at = m.coordinate(place, axis);
  const auto next = (at + 1) % static_cast<std::size_t>(m.sizes[axis]);
  return place - at * m.stride(axis) + next * m.stride(axis);
}

// Compares the use of an axis with the tasks of two neighbours along it.
void check_uses(const parallel::operator_dimensions& o, const parallel::task_grid& grid,
                const std::vector<parallel::shard>& shards, const parallel::operator_placement& l, std::size_t axis,
                std::size_t task, std::size_t other) {
  using parallel::axis_kind;
  const auto& own = shards[task];
  const auto& theirs = shards[other];
  const auto here = place_of(grid, task);
  const auto there = place_of(grid, other);
  const bool is_partial = here.partial != there.partial;
  const bool is_part_of_sum = here.reduction != there.reduction;
  const auto kind_of = [](bool is_split, bool is_sum) {
    return is_split ? axis_kind::split : is_sum ? axis_kind::sum : axis_kind::whole;
  };
  for (std::size_t i = 0; i < o.outputs.size(); ++i) {
    REQUIRE(l.results[i][axis].kind == kind_of(own.results[i] != theirs.results[i], is_partial || is_part_of_sum));
  }
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    CAPTURE(i);
    const bool is_split = own.operands[i] != theirs.operands[i];
    // The neighbours have different partials of the operand.
    bool has_partials = false;
    const auto mine = position_of(here.partial, grid.partials);
    const auto others = position_of(there.partial, grid.partials);
    for (std::size_t k = 0; k < mine.size(); ++k) {
      has_partials = has_partials || (mine[k] != others[k] && parallel::detail::is_in(o.groups[k], i));
    }
    REQUIRE(l.operands[i][axis].kind == kind_of(is_split, has_partials));
    // Neighbours that share an operand and compute something different with it each add to its cotangent, but a bias is
    // added outside of a divided sum.
    const bool adds = (is_partial && !has_partials) || (is_part_of_sum && !o.additive[i]) || here.block != there.block;
    REQUIRE(l.cotangents[i][axis].kind == kind_of(is_split, adds));
  }
}

void check_boxes(const parallel::plan& p, const parallel::plan_placements& l) {
  const parallel::graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    if (l.nodes[n.index()].results.empty()) {
      continue;
    }
    const auto& c = p.configurations[n.index()];
    CAPTURE(n.index(), fmt::format("{}", c));
    const auto shards = parallel::shards_of(all[n], c.grid());
    for (std::size_t place = 0; place < l.mesh.devices.size(); ++place) {
      const auto at = std::find(c.devices.begin(), c.devices.end(), l.mesh.devices[place]);
      const auto task = static_cast<std::size_t>(at - c.devices.begin());
      const auto& s = shards.at(task);
      for (std::size_t axis = 0; axis < l.mesh.axis_count(); ++axis) {
        CAPTURE(place, axis);
        const auto next = l.mesh.devices[next_along(l.mesh, place, axis)];
        const auto other = std::find(c.devices.begin(), c.devices.end(), next) - c.devices.begin();
        check_uses(all[n], c.grid(), shards, l.nodes[n.index()], axis, task, static_cast<std::size_t>(other));
      }
      for (std::size_t i = 0; i < s.operands.size(); ++i) {
        // Padding is not read, so with windows a task may read less than its device holds.
        const auto has =
            box_at(l.mesh, l.nodes[n.index()].operands[i], p.graph.type(p.graph.operands(n)[i]).dims, place);
        REQUIRE(parallel::intersection(has, s.operands[i]) == s.operands[i]);
        REQUIRE((has == s.operands[i] || !all[n].structure.windows.empty()));
      }
      for (std::size_t i = 0; i < s.results.size(); ++i) {
        const auto& dims = p.graph.type(p.graph.results(n)[i]).dims;
        REQUIRE(box_at(l.mesh, l.nodes[n.index()].results[i], dims, place) == s.results[i]);
      }
    }
  }
}

parallel::plan plan_of(const std::string& model, const std::string& machine) {
  return parallel::test::replicated_plan(operators(), model, machine);
}

}  // namespace

TEST_CASE("mesh placements of random divisions hold what each device's task reads and writes") {
  const auto* const model = GENERATE("zoo:bert?layers=1&hidden=64&heads=8&seq=16&batch=8&vocab=64", "zoo:dlrm?batch=64",
                                     "zoo:lenet?batch=8", "zoo:rnnlm?seq=2&hidden=32&batch=8&vocab=64&layers=1");
  const auto seed = GENERATE(range(1U, 6U));
  CAPTURE(model, seed);
  random_engine random{seed};
  auto p = plan_of(model, "p100:2x4");
  const parallel::graph_dimensions all{operators(), p.graph};
  std::size_t divided = 0;
  for (const auto n : node_ids(p.graph)) {
    if (p.graph.operands(n).empty()) {
      continue;
    }
    auto& c = p.configurations[n.index()];
    c = drawn(all[n], random);
    // Tries the configuration with all other operators replicated; replaces it by a replicated one if it is invalid or
    // has no placement.
    auto alone = p;
    for (const auto other : node_ids(p.graph)) {
      if (other != n && !p.graph.operands(other).empty()) {
        alone.configurations[other.index()] = whole_on(8, all[other]);
      }
    }
    const auto why = why_not(all[n], c, 8);
    if (!why.empty() ||
        !unity::test::message_of([&] { static_cast<void>(placements_of(operators(), alone, {})); }).empty()) {
      c = whole_on(8, all[n]);
    } else {
      ++divided;
    }
  }
  CHECK(divided > 0);
  check_boxes(p, placements_of(operators(), p, {}));
}

TEST_CASE("mesh axes that all operators use alike are merged into one") {
  const auto p = plan_of("zoo:mlp?layers=2&hidden=16&batch=8", "p100:2x4");
  const auto l = placements_of(operators(), p, {});
  CHECK(l.mesh.sizes == hardware::mesh_sizes{8});
  check_boxes(p, l);
}

TEST_CASE("mesh placements tell sums from copies for partials and divided sums and replicas") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {8, 12}));
  const auto y = b.linear(x, b.weight("w", {12, 16}), b.weight("bias", {16}));
  parallel::plan p;
  p.graph = std::move(b).finish({b.relu(y)});
  p.machine = hardware::preset("p100:1x4");
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto product = p.graph.producer(y);
  const auto& o = all[product];
  REQUIRE(o.groups == std::vector<std::vector<std::size_t>>{{0, 2}, {1, 2}});
  for (const auto n : node_ids(p.graph)) {
    p.configurations.push_back(p.graph.operands(n).empty() ? parallel::configuration{} : whole_on(4, all[n]));
  }
  using parallel::axis_kind;
  using parallel::axis_use;
  using uses = std::vector<parallel::tensor_placement>;
  const axis_use whole{axis_kind::whole, 0};
  const axis_use sum{axis_kind::sum, 0};
  const auto split = [](std::size_t dimension) { return axis_use{axis_kind::split, dimension}; };
  const auto placed = [&](const parallel::configuration& c) {
    p.configurations[product.index()] = c;
    REQUIRE(why_not(o, c, 4).empty());
    const auto l = placements_of(operators(), p, {});
    REQUIRE(l.mesh.sizes == hardware::mesh_sizes{2, 2});
    check_boxes(p, l);
    return l.nodes[product.index()];
  };
  auto c = whole_on(4, o);
  // The outer axis: partials of x and the bias; the inner one: parts of the sum.
  c.copies = 1;
  c.partials = {2, 1};
  c.reductions = {2};
  auto l = placed(c);
  CHECK(l.operands == uses{{sum, split(1)}, {whole, split(0)}, {sum, whole}});
  CHECK(l.results == uses{{sum, sum}});
  CHECK(l.cotangents == uses{{whole, split(1)}, {sum, split(0)}, {whole, whole}});
  // The outer axis: partials of w and the bias; the inner one: copies.
  c.partials = {1, 2};
  c.reductions = {};
  c.copies = 2;
  l = placed(c);
  CHECK(l.operands == uses{{whole, whole}, {sum, whole}, {sum, whole}});
  CHECK(l.results == uses{{sum, whole}});
  CHECK(l.cotangents == uses{{sum, whole}, {whole, whole}, {whole, whole}});
  // The outer axis: rows; the inner one: columns.
  c.partials = {};
  c.copies = 1;
  c.degrees = {2, 2};
  l = placed(c);
  CHECK(l.operands == uses{{split(0), whole}, {whole, split(1)}, {whole, split(0)}});
  CHECK(l.results == uses{{split(0), split(1)}});
  CHECK(l.cotangents == uses{{split(0), sum}, {sum, split(1)}, {sum, split(0)}});
}

TEST_CASE("placements_of rejects operators on some devices only or in permuted device order") {
  auto p = plan_of("zoo:mlp?layers=2&hidden=16&batch=8", "p100:1x4");
  node_id n{0U};
  while (p.graph.operands(n).empty()) {
    n = node_id{n.index() + 1};
  }
  auto& c = p.configurations[n.index()];
  const auto complaint = [&] {
    return unity::test::message_of([&] { static_cast<void>(placements_of(operators(), p, {})); });
  };
  std::swap(c.devices[0], c.devices[1]);
  CHECK(
      complaint().find("on devices in an order of their own; expected each operator on the whole mesh of 4 devices") !=
      std::string::npos);
  c.degrees[0] = 2;
  c.devices.resize(2);
  CHECK(complaint().find(fmt::format("operator {} (", n.index())) == 0);
  CHECK(complaint().find("): it has 2 tasks; expected") != std::string::npos);
}

}  // namespace tests_of_plan_placements
