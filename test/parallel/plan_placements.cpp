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
#include <unity/hardware/presets.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/strategies/strategy.hpp>
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

void check_boxes(const parallel::plan& p, const parallel::plan_placements& l) {
  const parallel::graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    if (l.nodes[n.index()].results.empty()) {
      continue;
    }
    const auto& c = p.configurations[n.index()];
    CAPTURE(n.index(), fmt::format("{}", c));
    for (std::size_t place = 0; place < l.mesh.devices.size(); ++place) {
      const auto at = std::find(c.devices.begin(), c.devices.end(), l.mesh.devices[place]);
      const auto s = parallel::shard_of(all[n], c.grid(), static_cast<std::size_t>(at - c.devices.begin()));
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
