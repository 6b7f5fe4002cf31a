#include <unity/gnn/generators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "../support/message_of.hpp"

namespace tests_of_generators {

using namespace unity;
using gnn::edge;
using gnn::edge_id;
using gnn::vertex_id;

static_assert(gnn::edge_generator<gnn::rmat>);
static_assert(gnn::edge_generator<gnn::erdos_renyi>);
static_assert(gnn::edge_generator<gnn::barabasi_albert>);

// A minimal model of the concept: a path.
struct path {
  vertex_id vertices() const { return 3; }
  edge_id edges() const { return 2; }
  edge operator()(edge_id k) const { return {static_cast<vertex_id>(k), static_cast<vertex_id>(k + 1)}; }
};
static_assert(gnn::edge_generator<path>);

// Near misses: edges without random access; a vertex count that ids cannot represent.
struct stream_of_edges {
  vertex_id vertices() const { return 3; }
  edge_id edges() const { return 2; }
  edge operator()() { return {}; }
};
static_assert(!gnn::edge_generator<stream_of_edges>);
struct too_many_vertices {
  std::uint64_t vertices() const { return 3; }
  edge_id edges() const { return 2; }
  edge operator()(edge_id) const { return {}; }
};
static_assert(!gnn::edge_generator<too_many_vertices>);

template <class G>
std::vector<edge> all_edges(const G& g) {
  std::vector<edge> all;
  bool are_vertices = true;
  for (edge_id k = 0; k < g.edges(); ++k) {
    all.push_back(g(k));
    are_vertices &= all.back().source < g.vertices() && all.back().target < g.vertices();
  }
  CHECK(are_vertices);
  return all;
}

// Degrees (in plus out) of all vertices, in descending order.
template <class G>
std::vector<edge_id> degrees_of(const G& g) {
  std::vector<edge_id> degrees(g.vertices());
  for (const auto& e : all_edges(g)) {
    ++degrees[e.source];
    ++degrees[e.target];
  }
  std::sort(degrees.begin(), degrees.end(), std::greater<>{});
  return degrees;
}

TEST_CASE("edge generators depend only on their seed") {
  const auto differ = [](const auto& a, const auto& same, const auto& other) {
    CHECK(all_edges(a) == all_edges(same));
    CHECK(all_edges(a) != all_edges(other));
  };
  differ(gnn::rmat{8, 500, 1}, gnn::rmat{8, 500, 1}, gnn::rmat{8, 500, 2});
  differ(gnn::erdos_renyi{100, 500, 1}, gnn::erdos_renyi{100, 500, 1}, gnn::erdos_renyi{100, 500, 2});
  differ(gnn::barabasi_albert{100, 5, 1}, gnn::barabasi_albert{100, 5, 1}, gnn::barabasi_albert{100, 5, 2});
}

TEST_CASE("R-MAT quadrants have the requested shares at each level") {
  constexpr edge_id count = 200000;
  constexpr gnn::rmat::shares uneven{0.4, 0.3, 0.2, 0.1};
  for (const auto& shares : {gnn::rmat::graph500, uneven}) {
    CAPTURE(shares[1], shares[2]);
    const auto all = all_edges(gnn::rmat{6, count, 5, shares});
    for (unsigned level = 0; level < 6; ++level) {
      std::array<double, 4> found{};
      for (const auto& e : all) {
        found[(e.source >> level & 1U) * 2 + (e.target >> level & 1U)] += 1.0 / count;
      }
      for (std::size_t i = 0; i < 4; ++i) {
        const auto share = shares[i];
        CHECK(std::abs(found[i] - share) < 5 * std::sqrt(share * (1 - share) / count));
      }
    }
  }
  const gnn::rmat corner{31, 100, 5, {0, 0, 0, 1}};
  CHECK(corner(7) == edge{0x7fffffff, 0x7fffffff});
  CHECK(gnn::rmat{0, 1, 5}(0) == edge{0, 0});
}

TEST_CASE("an Erdos-Renyi graph has distinct uniformly drawn edges without self-loops") {
  for (const auto count : {edge_id{0}, edge_id{1}, edge_id{50}, edge_id{90}}) {
    const auto all = all_edges(gnn::erdos_renyi{10, count, 3});
    CHECK(std::set<edge>(all.begin(), all.end()).size() == count);
    CHECK(std::none_of(all.begin(), all.end(), [](const edge& e) { return e.source == e.target; }));
  }
  // Degrees are binomial with mean 2 m / n = 20, so none is far off.
  const auto degrees = degrees_of(gnn::erdos_renyi{10000, 100000, 3});
  CHECK(degrees.front() < 50);
  CHECK(degrees.back() > 0);
  // All pairs are equally likely: chi-square test over blocks of the matrix, 99 degrees of freedom.
  std::array<double, 100> found{};
  for (const auto& e : all_edges(gnn::erdos_renyi{10000, 100000, 4})) {
    found[e.source / 1000 * 10 + e.target / 1000] += 1;
  }
  double chi = 0;
  for (const auto f : found) {
    chi += (f - 1000) * (f - 1000) / 1000;
  }
  CHECK(chi < 160);
  CHECK(chi > 50);
}

TEST_CASE("Barabasi-Albert vertices attach to earlier ones with power-law degrees") {
  constexpr vertex_id n = 100000;
  constexpr vertex_id each = 4;
  const gnn::barabasi_albert g{n, each, 11};
  bool grows = true;
  for (edge_id k = 0; k < g.edges(); ++k) {
    const auto e = g(k);
    grows &= e.target == k / each + 1 && e.source < e.target;
  }
  CHECK(grows);
  // The expected share of vertices of degree at least d is about (m / d)^2.
  const auto degrees = degrees_of(g);
  CHECK(degrees.back() == each);
  for (const auto d : {16UL, 64UL, 128UL}) {
    const auto above =
        static_cast<double>(std::count_if(degrees.begin(), degrees.end(), [&](edge_id own) { return own >= d; }));
    const auto expected = n * std::pow(static_cast<double>(each) / static_cast<double>(d), 2);
    CHECK(above > 0.7 * expected);
    CHECK(above < 1.6 * expected);
  }
}

TEST_CASE("R-MAT degrees have a long tail and Erdos-Renyi degrees do not") {
  const auto skewed = degrees_of(gnn::rmat{14, 16 << 14U, 7});
  const auto even = degrees_of(gnn::erdos_renyi{1U << 14U, 16 << 14U, 7});
  const auto share_of_top = [](const std::vector<edge_id>& degrees) {
    double top = 0;
    double all = 0;
    for (std::size_t i = 0; i < degrees.size(); ++i) {
      all += static_cast<double>(degrees[i]);
      top += i < degrees.size() / 100 ? static_cast<double>(degrees[i]) : 0;
    }
    return top / all;
  };
  CHECK(share_of_top(skewed) > 0.2);
  CHECK(share_of_top(even) < 0.02);
  CHECK(skewed.front() > 20 * even.front());
}

TEST_CASE("edge generators refuse invalid parameters") {
  CHECK(test::message_of([] { gnn::rmat(32, 1, 0); }) == "R-MAT graph: a scale of 32; expected 31 at most");
  CHECK(test::message_of([] { gnn::rmat(3, 1, 0, {0.5, 0.5, 0.5, 0.5}); }) ==
        "R-MAT graph: shares whose sum is 2; expected a sum of 1");
  CHECK(test::message_of([] { gnn::rmat(3, 1, 0, {0.5, 0.6, -0.1, 0}); }) ==
        "R-MAT graph: a share of -0.1; expected a number that is not below 0");
  CHECK(test::message_of([] { gnn::erdos_renyi(4, 13, 0); }) ==
        "Erdos-Renyi graph: 13 edges; expected 12 at most among 4 vertices");
  CHECK(test::message_of([] { gnn::erdos_renyi(0, 1, 0); }) ==
        "Erdos-Renyi graph: 1 edges; expected 0 at most among 0 vertices");
  CHECK(test::message_of([] { gnn::barabasi_albert(0, 1, 0); }) ==
        "Barabasi-Albert graph: no vertex; expected one at least");
  CHECK(test::message_of([] { gnn::barabasi_albert(4000000001, 4000000000, 0); }) ==
        "Barabasi-Albert graph: 16000000000000000000 edges; expected 2^62 at most");
  CHECK(gnn::erdos_renyi(0, 0, 0).edges() == 0);
  CHECK(gnn::barabasi_albert(1, 3, 0).edges() == 0);
}

}  // namespace tests_of_generators
