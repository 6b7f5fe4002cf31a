#include <unity/gnn/range_costs.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"

namespace tests_of_repartition {

using namespace unity;
using gnn::vertex_id;
using gnn::vertex_partition;

namespace {

vertex_partition drawn(random_engine& random, vertex_id vertices, std::size_t parts) {
  std::vector<vertex_id> cuts{0, vertices};
  while (cuts.size() <= parts) {
    cuts.push_back(static_cast<vertex_id>(random.below(vertices + 1UL)));
  }
  std::sort(cuts.begin(), cuts.end());
  return vertex_partition{cuts};
}

// Eight vertices that take one second each; each has an in-edge from the next.
struct subject {
  gnn::csr_graph graph{{0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 0}};
  gnn::vertex_feature_sums sums{graph, {1}};
  gnn::range_costs costs{sums, std::vector<std::vector<gnn::layer_on_device>>(2, {{{{1, 0, 0, 0, 0}}, 0}})};

  gnn::repartition_decision operator()(const vertex_partition& now, const vertex_partition& next,
                                       const gnn::repartition_rule& rule) const {
    return gnn::judge_repartition(costs, graph, now, next, rule);
  }
};

}  // namespace

TEST_CASE("the received ranges of a part are the vertices that it did not have") {
  for (std::uint64_t seed = 0; seed < test::cases(500); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto vertices = static_cast<vertex_id>(random.below(20));
    const auto parts = random.below(5) + 1;
    const auto now = drawn(random, vertices, parts);
    const auto next = drawn(random, vertices, parts);
    const auto received = gnn::received_ranges(now, next);
    for (std::size_t k = 0; k < parts; ++k) {
      REQUIRE(received[k].size() <= 2);
      for (vertex_id v = 0; v < vertices; ++v) {
        const auto times = std::count_if(received[k].begin(), received[k].end(), [&](auto r) { return r.contains(v); });
        REQUIRE(times == (next.range(k).contains(v) && !now.range(k).contains(v) ? 1 : 0));
      }
    }
  }
}

TEST_CASE("repartitioning is accepted if the gain less the moving cost exceeds the threshold") {
  const subject s;
  const vertex_partition now{{0, 5, 8}};
  const vertex_partition next{{0, 4, 8}};
  // Saves 1 s of 5 s in each of 10 iterations: 10 s of 50 s.
  CHECK(s(now, next, {.least_gain = 0.19, .iterations = 10}) == gnn::repartition_decision{true, 5, 4, 0, 1});
  CHECK_FALSE(s(now, next, {.least_gain = 0.2, .iterations = 10}).is_worth_it);
  const gnn::move_cost moving{.seconds_per_vertex = 2, .seconds_per_edge = 3, .seconds_each = 1};
  CHECK(s(now, next, {.least_gain = 0.07, .iterations = 10, .moving = moving}) ==
        gnn::repartition_decision{true, 5, 4, 6, 1});
  CHECK_FALSE(s(now, next, {.least_gain = 0.08, .iterations = 10, .moving = moving}).is_worth_it);
  CHECK(s(now, next, {.least_gain = 0.19, .iterations = 1000, .moving = moving}).is_worth_it);
  // Staying costs nothing and gains nothing; a worse partition is never chosen.
  CHECK(s(next, next, {.least_gain = 0, .iterations = 10, .moving = moving}) ==
        gnn::repartition_decision{false, 4, 4, 0, 0});
  CHECK_FALSE(s(next, now, {.least_gain = 0, .iterations = 1e9}).is_worth_it);
}

TEST_CASE("repartitioning between partitions of other sizes is refused") {
  const subject s;
  CHECK(test::message_of([&] { s(gnn::equal_vertices(8, 2), gnn::equal_vertices(8, 3), {}); }) ==
        "partition: 3 parts of 8 vertices; expected 2 parts of 8 vertices");
  CHECK(test::message_of([&] { s(gnn::equal_vertices(7, 2), gnn::equal_vertices(8, 2), {}); }) ==
        "partition: 2 parts of 7 vertices; expected 2 parts of 8 vertices");
}

}  // namespace tests_of_repartition
