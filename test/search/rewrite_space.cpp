// Laws of rewriting as a search space, over two algebras that are not of tensors.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>

#include "../support/circuits.hpp"
#include "../support/matrices.hpp"
#include "../support/space_laws.hpp"

using namespace unity;
using namespace unity::test;

namespace {

using circuit_space = rewrite_space<circuits, gate_count>;
using matrix_space = rewrite_space<matrices, matrix_cost>;

static_assert(search_space<circuit_space> && canonical_space<circuit_space> && commuting_space<circuit_space>);
static_assert(measured_space<circuit_space> && !bounded_space<circuit_space>);
static_assert(search_space<matrix_space> && canonical_space<matrix_space> && commuting_space<matrix_space>);

struct circuit_case {
  circuit_space make(random_engine& random) const {
    return {circuits{}, gate_count{}, compile_rules(circuits{}, parse_rules(circuit_rules)), random_circuit(random, 4, 8 + random.below(12))};
  }
};
struct matrix_case {
  matrix_space make(random_engine& random) const {
    return {matrices{}, matrix_cost{}, compile_rules(matrices{}, parse_rules(matrix_rules)), random_matrix_graph(random, 4, 6 + random.below(10))};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("the price of a rewrite is exactly the cost and the fingerprint of its result", "[law]", circuit_case, matrix_case) {
  std::size_t rewrites = 0;
  std::map<std::string, std::size_t> used;
  for (std::uint64_t seed = 0; rewrites < 50000; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto space = TestType{}.make(random);
    const auto truth = meaning(space.graph(space.initial()));
    random_walk(space, random, 60, [&](const auto&, match_id m, const candidate& c, const auto& next) {
      const auto& rule = space.rule_of(m).name;
      CAPTURE(rule);
      ++rewrites;
      ++used[rule];
      REQUIRE(structural_fault(space, next) == "");
      const auto real = recomputed(space, next);
      REQUIRE(c.cost == real.cost);
      REQUIRE(c.fingerprint == real.fingerprint);
      REQUIRE(space.cost(next) == real.cost);
      REQUIRE(space.fingerprint_of(next) == real.fingerprint);
      if (rewrites % 8 == 0) {
        REQUIRE(meaning(space.graph(next)) == truth);
      }
    });
  }
  for (auto& [n, c] : used) std::printf("%s %zu\n", n.c_str(), c);
}
