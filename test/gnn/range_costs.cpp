#include <unity/gnn/range_costs.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/generators.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_range_costs {

using namespace unity;
using gnn::layer_on_device;
using gnn::vertex_id;
using gnn::vertex_range;

static_assert(gnn::range_cost<gnn::range_costs>);

namespace {

double seconds_of(const gnn::vertex_feature_sums& sums, const std::vector<layer_on_device>& layers, vertex_range r) {
  double all = 0;
  for (const auto& l : layers) {
    all += l.cost.seconds(sums.of(r, l.width));
  }
  return all;
}

// Reference: the least possible time of the slowest device, in floating point, O(P V^2).
double exhaustive(const gnn::vertex_feature_sums& sums, const std::vector<std::vector<layer_on_device>>& devices) {
  std::vector<double> best(sums.vertices() + 1UL, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (const auto& layers : devices) {
    std::vector<double> next(best.size(), std::numeric_limits<double>::infinity());
    for (vertex_id end = 0; end < best.size(); ++end) {
      for (vertex_id begin = 0; begin <= end; ++begin) {
        next[end] = std::min(next[end], std::max(best[begin], seconds_of(sums, layers, {begin, end})));
      }
    }
    best = std::move(next);
  }
  return best.back();
}

std::vector<std::vector<layer_on_device>> drawn_devices(random_engine& random, std::size_t widths) {
  std::vector<std::vector<layer_on_device>> devices(random.below(6) + 1);
  const auto layers = random.below(3) + 1;
  for (auto& d : devices) {
    for (std::uint64_t l = 0; l < layers; ++l) {
      d.emplace_back();
      d.back().width = random.below(widths);
      for (auto& w : d.back().cost.weights) {
        w = random.below(3) == 0 ? 0 : random.unit() * 1e-6;
      }
    }
  }
  if (random.below(2) == 0) {
    std::fill(devices.begin(), devices.end(), devices[0]);
  }
  return devices;
}

}  // namespace

TEST_CASE("the balanced partition is within 1e-6 of the optimum on random graphs") {
  for (std::uint64_t seed = 0; seed < test::cases(150); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 60, 400);
    const gnn::vertex_feature_sums sums{g, {602, 16}};
    const auto devices = drawn_devices(random, 2);
    const gnn::range_costs costs{sums, devices};
    const auto p = gnn::balanced_partition(costs);
    REQUIRE(p.parts() == devices.size());
    REQUIRE(p.vertices() == g.vertices());
    double slowest = 0;
    for (std::size_t k = 0; k < p.parts(); ++k) {
      slowest = std::max(slowest, seconds_of(sums, devices[k], p.range(k)));
    }
    REQUIRE(slowest <= exhaustive(sums, devices) * (1 + 1e-6) + 1e-300);
    REQUIRE(costs.seconds(p) == Approx(slowest).epsilon(1e-6));
  }
}

TEST_CASE("the balanced partition balances a skewed graph better than equal vertices") {
  const auto g = gnn::generate(gnn::rmat{13, 100000, 7}, {.both_directions = true, .self_edges = true});
  const gnn::vertex_feature_sums sums{g, {602}};
  const std::vector<std::vector<layer_on_device>> devices(8, {{{{1e-9, 2e-9, 0, 0, 1e-9}}, 0}});
  const gnn::range_costs costs{sums, devices};
  const auto all = costs.seconds(gnn::undivided(g.vertices(), 8));
  CHECK(costs.seconds(gnn::balanced_partition(costs)) < 1.05 * all / 8);
  CHECK(costs.seconds(gnn::equal_vertices(g.vertices(), 8)) > 2 * all / 8);
  CHECK(costs.seconds(gnn::balanced_partition(costs)) <= costs.seconds(gnn::equal_edges(g, 8)));
}

TEST_CASE("range costs accept weights of any magnitude including zero") {
  const gnn::csr_graph g{{0, 0, 0, 0}, {}};
  const gnn::vertex_feature_sums sums{g, {4}};
  const auto costs_of = [&](std::array<double, 5> weights) {
    return gnn::range_costs{sums, std::vector<std::vector<layer_on_device>>(3, {{{weights}, 0}})};
  };
  for (const auto scale : {1e-280, 1e-9, 1.0, 1e300}) {
    const auto costs = costs_of({scale, 1e308, 0, 0, 0});
    CHECK(gnn::balanced_partition(costs).cuts() == std::vector<vertex_id>{0, 1, 2, 3});
    CHECK(costs.seconds(gnn::undivided(3, 3)) / scale == Approx(3));
  }
  CHECK(costs_of({}).seconds(gnn::balanced_partition(costs_of({}))) == 0);
}

TEST_CASE("range costs refuse invalid layers and weights") {
  const gnn::csr_graph g{{0, 1}, {0}};
  const gnn::vertex_feature_sums sums{g, {4}};
  const auto complaint_of = [&](const std::vector<std::vector<layer_on_device>>& devices) {
    return test::message_of([&] { gnn::range_costs{sums, devices}; });
  };
  CHECK(complaint_of({}) == "partition: 0 parts; expected 1 to 16777216");
  CHECK(complaint_of({{{{}, 1}}}) == "cost of layer 0: width 1; expected one of the 1 widths");
  CHECK(complaint_of({{{}, {{{0, -1, 0, 0, 0}}, 0}}}) ==
        "cost of layer 1: -1 s for one of edges; expected a finite number that is not below 0");
  CHECK(complaint_of({{{{{1e308, 1e308, 0, 0, 0}}, 0}}}) ==
        "costs of layers: a sum that is not a number; expected finite seconds of the whole graph");
}

}  // namespace tests_of_range_costs
