// A maximum flow is as large as the smallest of all cuts, and the source side is one of them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/graph/maximum_flow.hpp>

namespace tests_of_maximum_flow {

using namespace unity;

namespace {

struct edge {
  std::uint32_t from;
  std::uint32_t to;
  std::int64_t room;
};

std::int64_t leaving(const std::vector<edge>& edges, std::uint32_t set) {
  std::int64_t total = 0;
  for (const auto& e : edges) {
    if (((set >> e.from) & 1U) != 0 && ((set >> e.to) & 1U) == 0) {
      total += e.room;
    }
  }
  return total;
}

}  // namespace

TEST_CASE("the maximum flow is the minimum over all sets of what leaves them") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto points = static_cast<std::uint32_t>(2 + rng.below(8));
    std::vector<edge> edges;
    flow_network network{points};
    for (std::size_t i = rng.below(4 * points); i > 0; --i) {
      const edge e{static_cast<std::uint32_t>(rng.below(points)), static_cast<std::uint32_t>(rng.below(points)),
                   rng.between(0, 9)};
      edges.push_back(e);
      network.add_edge(e.from, e.to, e.room);
    }
    std::optional<std::int64_t> least;
    std::uint32_t smallest_set = ~0U;  // the intersection of minimum cuts is one
    for (std::uint32_t set = 1; set < (1U << points); set += 2) {
      if (((set >> (points - 1)) & 1U) == 0) {
        const auto total = leaving(edges, set);
        if (!least || total < *least) {
          least = total;
          smallest_set = set;
        } else if (total == *least) {
          smallest_set &= set;
        }
      }
    }
    REQUIRE(network.maximum_flow(0, points - 1) == *least);
    std::uint32_t source_side = 0;
    for (std::uint32_t p = 0; p < points; ++p) {
      source_side |= network.source_side(p) ? 1U << p : 0U;
    }
    REQUIRE(source_side == smallest_set);
  }
}

}  // namespace tests_of_maximum_flow
