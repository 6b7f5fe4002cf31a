#include <unity/gnn/vertex_partition.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_minmax_partition {

using namespace unity;
using gnn::vertex_id;
using gnn::vertex_range;

// Costs of vertices that differ by device.
class table {
 public:
  explicit table(std::vector<std::vector<std::uint64_t>> costs) : sums_{std::move(costs)} {
    for (auto& s : sums_) {
      s.insert(s.begin(), 0);
      std::partial_sum(s.begin(), s.end(), s.begin());
    }
  }
  std::uint64_t operator()(std::size_t part, vertex_range r) const { return sums_[part][r.end] - sums_[part][r.begin]; }

 private:
  std::vector<std::vector<std::uint64_t>> sums_;
};
static_assert(gnn::range_cost<table>);

// Near misses: a cost of a device without a range; a cost in floating point.
struct without_range {
  std::uint64_t operator()(std::size_t) const { return 0; }
};
static_assert(!gnn::range_cost<without_range>);
struct rounded {
  double operator()(std::size_t, vertex_range) const { return 0; }
};
static_assert(!gnn::range_cost<rounded>);

// Reference: the least possible maximum over parts, by trying all positions of all cuts, O(P V^2).
std::uint64_t exhaustive(std::size_t parts, vertex_id vertices, const table& cost) {
  constexpr auto none = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> best(vertices + 1UL, none);  // by end: least maximum of the parts so far
  best[0] = 0;
  for (std::size_t k = 0; k < parts; ++k) {
    std::vector<std::uint64_t> next(best.size(), none);
    for (vertex_id end = 0; end <= vertices; ++end) {
      for (vertex_id begin = 0; begin <= end; ++begin) {
        next[end] = std::min(next[end], std::max(best[begin], cost(k, {begin, end})));
      }
    }
    best = std::move(next);
  }
  return best.back();
}

TEST_CASE("the minmax partition is optimal for equal and different devices") {
  for (std::uint64_t seed = 0; seed < test::cases(2000); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto vertices = static_cast<vertex_id>(random.below(40));
    const auto parts = random.below(8) + 1;
    const auto range = random.below(3) == 0 ? 3 : random.below(2) == 0 ? 1000 : std::uint64_t{1} << 50U;
    std::vector<std::vector<std::uint64_t>> costs(1);
    for (vertex_id v = 0; v < vertices; ++v) {
      costs[0].push_back(random.below(range));
    }
    const bool are_equal = seed % 2 == 0;
    costs.resize(parts, costs[0]);
    for (std::size_t k = 0; k < parts && !are_equal; ++k) {
      for (auto& c : costs[k]) {
        c *= random.below(3);
      }
    }
    const table cost{costs};
    const auto p = gnn::minmax_partition(parts, vertices, cost);
    REQUIRE(gnn::bottleneck(p, cost) == exhaustive(parts, vertices, cost));
    REQUIRE(p.parts() == parts);
    REQUIRE(p.vertices() == vertices);
    for (std::size_t k = 0; k < parts && are_equal; ++k) {
      // Empty parts come last, and only if there are fewer vertices than parts.
      REQUIRE(p.range(k).size() >= (vertices > k ? 1U : 0U));
    }
  }
}

TEST_CASE("the minmax partition fills the last of 64 parts of 703 equal vertices") {
  const std::vector<std::uint64_t> ones(64 * 10 + 63, 1);
  const table cost{std::vector(64, ones)};
  const auto p = gnn::minmax_partition(64, 64 * 10 + 63, cost);
  CHECK(p.parts() == 64);
  CHECK(gnn::bottleneck(p, cost) == 11);
  CHECK(p.range(63).size() > 0);
}

TEST_CASE("the minmax partition gives a too slow device no vertices") {
  const table cost{{{1, 1, 1}, {100, 100, 100}, {1, 1, 1}}};
  const auto p = gnn::minmax_partition(3, 3, cost);
  CHECK(gnn::bottleneck(p, cost) == 2);
  CHECK(p.range(1).size() == 0);
}

TEST_CASE("the minmax partition of different devices is optimal with an empty part") {
  // The first device leaves a vertex that the second cannot take; 0 | 1 | 2 3 has no empty part.
  const table cost{{{1, 1, 1, 100}, {100, 1, 100, 100}, {1, 1, 1, 1}}};
  const auto p = gnn::minmax_partition(3, 4, cost);
  CHECK(gnn::bottleneck(p, cost) == 2);
  CHECK(gnn::bottleneck(gnn::vertex_partition{{0, 1, 2, 4}}, cost) == 2);
  CHECK(p.range(1).size() == 0);
}

TEST_CASE("partitions by equal vertices or equal edges or undivided have the expected cuts") {
  CHECK(gnn::equal_vertices(10, 4).cuts() == std::vector<vertex_id>{0, 3, 6, 8, 10});
  CHECK(gnn::equal_vertices(2, 4).cuts() == std::vector<vertex_id>{0, 1, 2, 2, 2});
  CHECK(gnn::undivided(5, 3).cuts() == std::vector<vertex_id>{0, 5, 5, 5});
  const gnn::csr_graph g{{0, 4, 4, 5, 6, 8}, {0, 1, 2, 3, 0, 0, 1, 1}};
  CHECK(gnn::equal_edges(g, 2).cuts() == std::vector<vertex_id>{0, 2, 5});
  CHECK(gnn::equal_edges(gnn::csr_graph{}, 2).cuts() == std::vector<vertex_id>{0, 0, 0});
  CHECK(test::message_of([&] { static_cast<void>(gnn::equal_edges(g, 0)); }) ==
        "partition: 0 parts; expected 1 to 16777216");
}

TEST_CASE("a vertex partition finds the part of a vertex and refuses invalid cuts") {
  const gnn::vertex_partition p{{0, 2, 2, 5}};
  CHECK(p.parts() == 3);
  CHECK(p.part_of(1) == 0);
  CHECK(p.part_of(2) == 2);
  CHECK(p.part_of(4) == 2);
  const auto complaint_of = [](std::vector<vertex_id> cuts) {
    return test::message_of([&] { gnn::vertex_partition{std::move(cuts)}; });
  };
  CHECK(complaint_of({0}) == "partition: 1 cuts; expected two at least, the first at 0");
  CHECK(complaint_of({1, 2}) == "partition: cut 0 at 1; expected two at least, the first at 0");
  CHECK(complaint_of({0, 3, 2}) == "partition: cut 2 at 2; expected 3 or behind it");
}

}  // namespace tests_of_minmax_partition
