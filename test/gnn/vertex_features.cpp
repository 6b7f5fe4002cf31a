#include <unity/gnn/vertex_features.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/generators.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_vertex_features {

using namespace unity;
using gnn::vertex_features;
using gnn::vertex_id;

// Reference: table 4.2 literally, one vertex at a time.
vertex_features of_vertex(gnn::csr_view g, vertex_id v, std::uint64_t width, std::uint64_t warp) {
  const auto own = g.sources_of(v);
  const std::set<vertex_id> all(own.begin(), own.end());
  vertex_features x{1, own.size(), 0, 0, 0};
  for (const auto s : all) {
    if (s == 0 || all.count(s - 1) == 0) {
      std::uint64_t length = 0;
      while (all.count(static_cast<vertex_id>(s + length)) > 0) {
        ++length;
      }
      x[2] += 1;
      x[3] += (length + warp - 1) / warp;
      x[4] += (length * width + warp - 1) / warp;
    }
  }
  return x;
}

TEST_CASE("vertex features of the paper's example count three runs") {
  // v_1 with the neighbours v_3, v_4, v_6 and v_8.
  std::vector<gnn::edge_id> offsets(10, 4);
  offsets[0] = 0;
  offsets[1] = 0;
  const gnn::csr_graph g{offsets, {3, 4, 6, 8}};
  CHECK(gnn::vertex_feature_sums{g, {48}}.of({1, 2}) == vertex_features{1, 4, 3, 3, 3 + 2 + 2});
  CHECK(gnn::vertex_feature_sums{g, {48}}.total() == vertex_features{9, 4, 3, 3, 7});
}

TEST_CASE("vertex feature sums match single vertices for shuffled lists and several threads") {
  for (std::uint64_t seed = 0; seed < test::cases(100); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto sorted = test::random_graph(random, 12, 400);
    std::vector<vertex_id> sources(sorted.view().sources().begin(), sorted.view().sources().end());
    for (vertex_id v = 0; v < sorted.vertices(); ++v) {  // the same lists in another order
      const auto first = sources.begin() + static_cast<std::ptrdiff_t>(sorted.view().offsets()[v]);
      for (auto i = sorted.view().in_degree(v); i > 1; --i) {
        std::iter_swap(first + static_cast<std::ptrdiff_t>(i - 1),
                       first + static_cast<std::ptrdiff_t>(random.below(i)));
      }
    }
    const gnn::csr_graph mixed{{sorted.view().offsets().begin(), sorted.view().offsets().end()}, sources};
    const auto warp = static_cast<std::uint32_t>(random.below(5) + 1);
    const std::vector<std::uint32_t> widths{static_cast<std::uint32_t>(random.below(70) + 1), 1};
    thread_pool pool{3};
    const gnn::vertex_feature_sums sums{mixed, widths, pool, warp};
    for (std::size_t w = 0; w < widths.size(); ++w) {
      vertex_features total{};
      for (vertex_id v = 0; v < sorted.vertices(); ++v) {
        const auto x = of_vertex(sorted, v, widths[w], warp);
        REQUIRE(sums.of({v, v + 1}, w) == x);
        REQUIRE(gnn::vertex_feature_sums(sorted, widths, warp).of({v, v + 1}, w) == x);
        for (std::size_t i = 0; i < x.size(); ++i) {
          total[i] += x[i];
        }
        REQUIRE(sums.of({0, v + 1}, w) == total);
      }
      REQUIRE(sums.total(w) == total);
    }
    REQUIRE(sums.total(1)[4] == sums.total(1)[3]);  // one column: a transaction per source
  }
}

TEST_CASE("vertex feature sums of many vertices do not depend on the number of threads") {
  const auto sorted = gnn::generate(gnn::rmat{14, 40000, 5});
  std::vector<vertex_id> sources(sorted.view().sources().begin(), sorted.view().sources().end());
  std::vector<vertex_features> expected;
  for (vertex_id v = 0; v < sorted.vertices(); ++v) {
    const auto first = sources.begin() + static_cast<std::ptrdiff_t>(sorted.view().offsets()[v]);
    std::reverse(first, first + static_cast<std::ptrdiff_t>(sorted.view().in_degree(v)));
    expected.push_back(of_vertex(sorted, v, 20, 32));
  }
  const gnn::csr_graph reversed{{sorted.view().offsets().begin(), sorted.view().offsets().end()}, sources};
  for (const std::size_t threads : {1U, 2U, 5U}) {
    CAPTURE(threads);
    thread_pool pool{threads};
    const gnn::vertex_feature_sums sums{reversed, {20}, pool};
    std::size_t wrong = 0;
    for (vertex_id v = 0; v < reversed.vertices(); ++v) {
      wrong += sums.of({v, v + 1}) == expected[v] ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("vertex feature sums refuse zero widths and warps") {
  const gnn::csr_graph g{{0, 1}, {0}};
  const auto complaint_of = [&](std::vector<std::uint32_t> widths, std::uint32_t warp) {
    return test::message_of([&] { gnn::vertex_feature_sums{g, std::move(widths), warp}; });
  };
  CHECK(complaint_of({}, 32) == "features of vertices: no width; expected one thread and one column at least");
  CHECK(complaint_of({8}, 0) == "features of vertices: a warp of 0; expected one thread and one column at least");
  CHECK(complaint_of({8, 0}, 32) == "features of vertices: a width of 0; expected one column at least");
}

}  // namespace tests_of_vertex_features
