// One edit composed of two does what both do.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/canonical.hpp>
#include <unity/graph/edit.hpp>
#include <unity/graph/edit_composition.hpp>

#include "random_edit.hpp"
#include "random_graph.hpp"

namespace tests_of_edit_composition {

using namespace unity;

namespace {

fingerprint fingerprint_of(const test::number_graph& g) {
  return canonical_fingerprint(g, [&g](node_id n) {
    std::uint64_t label = static_cast<std::uint64_t>(g.operation(n));
    for (const value_id v : g.results(n)) {
      label = hash_combine(label, static_cast<std::uint64_t>(g.type(v)));
    }
    return label;
  });
}

}  // namespace

TEST_CASE("a composed edit gives the graph that its two parts give one after the other") {
  int composed = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 12));
    const auto first = test::random_edit(g, rng);
    const auto between = apply_edit(g, first);
    if (!between) {
      continue;
    }
    const auto second = test::random_edit(between->graph, rng);
    const auto after = apply_edit(between->graph, second);
    if (!after) {
      continue;
    }
    const auto both = compose(first, *between, second);
    const auto at_once = apply_edit(g, both);
    REQUIRE(at_once.has_value());
    REQUIRE(at_once->graph.node_count() == after->graph.node_count());
    REQUIRE(fingerprint_of(at_once->graph) == fingerprint_of(after->graph));
    ++composed;
  }
  CHECK(composed > 500);
}

TEST_CASE("what the first edit adds and the second removes is not in their composition") {
  test::number_graph g;
  g.add_node(0, {}, std::array{0});
  g.add_node(1, std::array{value_id{0U}}, std::array{0});
  g.set_outputs(std::array{value_id{1U}});
  // x -> f -> becomes x -> a -> f ->, then x -> f -> again.
  const test::number_edit insert{
      .removed = {}, .added = {{5, {value_id{0U}}, {0}}}, .redirected = {{value_id{0U}, value_id{2U}}}};
  const auto between = apply_edit(g, insert);
  REQUIRE(between.has_value());
  const auto a = between->values[2];
  const test::number_edit take_back{
      .removed = {between->added[0]}, .added = {}, .redirected = {{a, between->values[0]}}};
  CHECK(compose(insert, *between, take_back) == test::number_edit{});
}

}  // namespace tests_of_edit_composition
