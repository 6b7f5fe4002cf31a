// Layouts on meshes, the steps between them, and the costs of steps.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_mesh_layout {

using namespace unity;
using parallel::layout_space;
using parallel::mesh_layout;

namespace {

tensor::tensor_type type(tensor::shape dims) {
  tensor::tensor_type t;
  t.dims = std::move(dims);
  return t;
}

struct meshed {
  hardware::machine machine;
  hardware::route_table routes;
  hardware::device_mesh mesh;
  parallel::mesh_costs costs;

  meshed(const char* preset, hardware::mesh_sizes sizes)
      : machine{hardware::preset(preset)}, routes{machine.network}, mesh{find(sizes)}, costs{machine, routes, mesh} {}
  hardware::device_mesh find(const hardware::mesh_sizes& sizes) const {
    for (auto& m : hardware::meshes_of(machine.network, 4)) {
      if (m.sizes == sizes) {
        return m;
      }
    }
    throw std::logic_error{"no such mesh"};
  }
};

mesh_layout layout(std::initializer_list<unsigned> roles) {
  mesh_layout l;
  std::size_t a = 0;
  for (const auto r : roles) {
    l.set(a++, r);
  }
  return l;
}
constexpr auto copies = mesh_layout::copies;
constexpr auto partial = mesh_layout::partial;

// The least cost of a chain of steps from one layout to each: tries all steps until nothing changes.
std::vector<std::int64_t> distances(const layout_space& space, std::uint32_t from) {
  std::vector<std::int64_t> d(space.size(), parallel::unreachable);
  d[from] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& a : space.arcs()) {
      if (d[a.from] < parallel::unreachable && d[a.from] + a.takes < d[a.to]) {
        d[a.to] = d[a.from] + a.takes;
        changed = true;
      }
    }
  }
  return d;
}

}  // namespace

TEST_CASE("layout_space holds all axis roles whose degrees divide the sizes") {
  const meshed at{"p100:2x4", {2, 4}};
  // Dimension 0 can be divided along either axis but not along both (4 x 2 = 8); dimension 1 only along the first.
  const layout_space space{type({4, 6}), at.mesh, at.costs, true, false};
  CHECK(space.size() == 4 * 3 - 1);  // {0, 1, copies, partial} x {0, copies, partial}, but for (0, 0)
  for (std::uint32_t n = 0; n < space.size(); ++n) {
    CHECK(space.number(space[n]) == n);
    CHECK(parallel::is_valid(parallel::type_of(type({4, 6}), at.mesh, space[n])));
    CHECK(parallel::total(parallel::type_of(type({4, 6}), at.mesh, space[n])) == 8);
  }
  CHECK(space.number(layout({0, 0})) == layout_space::none);
  CHECK(space.number(layout({1, 1})) == layout_space::none);
}

TEST_CASE("layout steps add or remove only the innermost axis of a dimension") {
  const meshed at{"p100:2x4", {2, 2, 2}};
  const layout_space space{type({8, 8}), at.mesh, at.costs, false, false};
  const auto has = [&](mesh_layout from, mesh_layout to) {
    for (const auto& a : space.arcs()) {
      if (space[a.from] == from && space[a.to] == to) {
        return true;
      }
    }
    return false;
  };
  CHECK(has(layout({0, 0, 0}), layout({0, 0, copies})));
  CHECK_FALSE(has(layout({0, 0, 0}), layout({copies, 0, 0})));
  CHECK(has(layout({copies, 1, 1}), layout({0, 1, 1})));
  CHECK_FALSE(has(layout({copies, 0, 1}), layout({0, 0, 1})));
  CHECK_FALSE(has(layout({copies, 0, 1}), layout({partial, 0, 1})));  // a replicated layout cannot become partial sums
}

TEST_CASE("layout steps cost their collectives and those of the adjoint if cotangents flow") {
  const meshed at{"p100:2x4", {2, 4}};
  const auto t = type({64, 64});
  const layout_space forward{t, at.mesh, at.costs, false, false};
  const layout_space both{t, at.mesh, at.costs, true, false};
  const auto takes = [](const layout_space& s, mesh_layout from, mesh_layout to) {
    for (const auto& a : s.arcs()) {
      if (s[a.from] == from && s[a.to] == to) {
        return a.takes;
      }
    }
    return std::int64_t{-1};
  };
  const bytes all{64 * 64 * 4};
  const bytes quarter{all.count() / 4};
  const parallel::axis_set inner = 2;
  CHECK(takes(forward, layout({copies, partial}), layout({copies, copies})) == at.costs.all_reduce(inner, all).count());
  CHECK(takes(both, layout({copies, partial}), layout({copies, copies})) ==
        2 * at.costs.all_reduce(inner, all).count());
  CHECK(takes(forward, layout({copies, partial}), layout({copies, 1})) == at.costs.reduce_scatter(inner, all).count());
  CHECK(takes(both, layout({copies, partial}), layout({copies, 1})) ==
        (at.costs.reduce_scatter(inner, all) + at.costs.all_gather(inner, quarter)).count());
  CHECK(takes(forward, layout({copies, 0}), layout({copies, copies})) == at.costs.all_gather(inner, quarter).count());
  CHECK(takes(forward, layout({copies, 0}), layout({copies, 1})) == at.costs.all_to_all(inner, quarter).count());
  CHECK(takes(both, layout({copies, copies}), layout({copies, 1})) == 0);
}

TEST_CASE("spreading a value placed on one device costs its share of an all-to-all") {
  const meshed at{"p100:2x4", {2, 4}};
  const auto t = type({64, 64});
  const layout_space space{t, at.mesh, at.costs, true, true};
  const layout_space without{t, at.mesh, at.costs, true, false};
  constexpr auto placed = mesh_layout::placed;
  CHECK(space.size() == 25);  // {0, 1, copies, partial, placed} along both axes
  CHECK(without.size() == 16);
  CHECK(without.number(layout({0, placed})) == layout_space::none);
  CHECK(parallel::shard_bytes(t, at.mesh, layout({0, placed})) == bytes{64 * 64 * 4 / 2});
  CHECK(parallel::total(parallel::type_of(t, at.mesh, layout({0, placed}))) == 2);
  const bytes held{64 * 64 * 4 / 2};
  std::size_t met = 0;
  for (const auto& a : space.arcs()) {
    if (space[a.from] == layout({0, placed}) && space[a.to] == layout({0, 1})) {
      CHECK(a.takes == 2 * at.costs.all_to_all(2, bytes{held.count() / 4}).count());
      ++met;
    }
    CHECK_FALSE((space[a.from][1] == partial && space[a.to][1] == placed));
  }
  CHECK(met == 1);
}

TEST_CASE("collectives of mesh groups without a common link take the time of one group") {
  const meshed at{"dgx_a100:2x8", {2, 8}};
  const bytes size{std::int64_t{8} << 20U};
  std::vector<hardware::device_id> node(at.mesh.devices.begin(), at.mesh.devices.begin() + 8);
  const auto alone = [&](std::span<const hardware::device_id> devices) {
    return hardware::ways_of(at.machine, at.routes, hardware::exchange::all_reduce, devices).at(size).line(size);
  };
  const auto found = at.costs.all_reduce(2, size);
  CHECK(found.count() == Approx(static_cast<double>(alone(node).count())).epsilon(0.001));
  CHECK(at.costs.all_reduce_start(2, size) < found);
  CHECK(at.costs.size(3) == 16);
  CHECK(at.costs.all_reduce(0, size) == picoseconds{0});
  // Eight concurrent rings between two nodes share no link if each device has its own adapter.
  const std::vector pair{at.mesh.devices[0], at.mesh.devices[8]};
  CHECK(at.costs.all_reduce(1, size).count() == Approx(static_cast<double>(alone(pair).count())).epsilon(0.001));
}

TEST_CASE("collectives of mesh groups that share an adapter run one after another") {
  const meshed at{"summit:2x6", {2, 6}};
  const bytes size{std::int64_t{8} << 20U};
  const std::vector pair{at.mesh.devices[0], at.mesh.devices[6]};
  const hardware::collective c{hardware::exchange::all_reduce, hardware::collective_algorithm::ring, pair, size, 0};
  const auto alone = hardware::collective_time(at.machine.network, at.routes, c);
  CHECK(at.costs.all_reduce(1, size).count() == Approx(6.0 * static_cast<double>(alone.count())).epsilon(0.01));
}

TEST_CASE("chains of layout steps reach each layout without partial sums and record their origin") {
  const meshed at{"p100:2x4", {2, 2, 2}};
  const layout_space space{type({8, 8}), at.mesh, at.costs, true, false};
  std::vector<std::int64_t> costs(space.size(), parallel::unreachable);
  const auto from = space.number(layout({0, partial, 1}));
  costs[from] = 5;
  std::vector<std::uint32_t> began;
  parallel::relax(space, costs, &began);
  for (std::uint32_t l = 0; l < space.size(); ++l) {
    const auto t = parallel::type_of(type({8, 8}), at.mesh, space[l]);
    CAPTURE(parallel::to_string(t));
    CHECK((costs[l] < parallel::unreachable) == (t.partial == 1 || (space[l][1] == partial && t.partial == 2)));
    if (costs[l] < parallel::unreachable) {
      CHECK(began[l] == from);
      CHECK(costs[l] >= 5);
    }
  }
  CHECK(costs[from] == 5);
  for (const auto& a : space.arcs()) {
    CHECK(costs[a.to] <= costs[a.from] + a.takes);
  }
}

TEST_CASE("relax gives each layout the cheapest of several origins and names it", "[law]") {
  const meshed at{"p100:2x4", {2, 2, 2}};
  const layout_space space{type({8, 8}), at.mesh, at.costs, true, false};
  std::vector<std::vector<std::int64_t>> from_each;
  for (std::uint32_t l = 0; l < space.size(); ++l) {
    from_each.push_back(distances(space, l));
  }
  const auto finite = [](std::int64_t cost) { return cost < parallel::unreachable ? cost : 0; };
  std::int64_t largest = 0;
  for (const auto cost : from_each[0]) {
    largest = std::max(largest, finite(cost));
  }
  std::size_t shared = 0;  // origins that are cheaper to reach from another one
  std::size_t mixed = 0;   // draws in which several origins are the cheapest somewhere
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    std::vector<std::int64_t> made(space.size(), parallel::unreachable);
    for (auto origins = 2 + random.below(4); origins > 0; --origins) {
      made[random.below(space.size())] = random.between(0, largest);
    }
    auto costs = made;
    std::vector<std::uint32_t> began;
    parallel::relax(space, costs, &began);
    REQUIRE(began.size() == space.size());
    std::set<std::uint32_t> used;
    for (std::uint32_t l = 0; l < space.size(); ++l) {
      CAPTURE(l);
      auto least = parallel::unreachable;
      for (std::uint32_t o = 0; o < space.size(); ++o) {
        if (made[o] < parallel::unreachable && from_each[o][l] < parallel::unreachable) {
          least = std::min(least, made[o] + from_each[o][l]);
        }
      }
      REQUIRE(costs[l] == least);
      if (least < parallel::unreachable) {
        REQUIRE(made[began[l]] < parallel::unreachable);
        REQUIRE(made[began[l]] + from_each[began[l]][l] == least);
        used.insert(began[l]);
        shared += made[l] < parallel::unreachable && made[l] > least ? 1 : 0;
      }
    }
    auto same = made;
    parallel::relax(space, same);
    REQUIRE(same == costs);
    mixed += used.size() > 1 ? 1 : 0;
  }
  CHECK(mixed > 10);
  CHECK(shared > 0);
}

}  // namespace tests_of_mesh_layout
