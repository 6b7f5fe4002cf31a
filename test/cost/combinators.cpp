#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/circuits.hpp"
#include "../support/space_laws.hpp"

namespace tests_of_combinators {

using namespace unity;
using namespace unity::test;

namespace {

// Models of delay and area in which exclusive ors are fast but large.
struct delay {
  using cost_type = std::int64_t;
  std::int64_t node_cost(const gate& g, std::span<const bit>, std::span<const bit>) const {
    return g.kind == gate::form::input ? 0 : g.kind == gate::form::difference ? 1 : 2;
  }
  std::int64_t objective(const std::int64_t& total) const { return total; }
};
struct area {
  using cost_type = std::int64_t;
  std::int64_t node_cost(const gate& g, std::span<const bit>, std::span<const bit>) const {
    return g.kind == gate::form::input ? 0 : g.kind == gate::form::difference ? 100 : 1;
  }
  std::int64_t objective(const std::int64_t& total) const { return total; }
};

constexpr std::string_view rules =
    "rule r xor(?x, ?y) == or(and(?x, not(?y)), and(not(?x), ?y))\nrule d not(not(?x)) => ?x";

circuit two_differences() {
  circuit_builder b;
  return b.build({b.difference(b.input('a'), b.input('b')), b.difference(b.input('c'), b.input('d'))});
}

template <class Model>
typename Model::cost_type best(Model model) {
  rewrite_space<circuits, Model> space{circuits{}, model, compile_rules(circuits{}, parse_rules(rules)),
                                       two_differences()};
  return backtracking(space, [] {
           backtracking_options o;
           o.alpha = 1e6;
           return o;
         }())
      .best.total;
}

}  // namespace

TEST_CASE("a binding cost constraint changes the optimum and a loose one does not") {
  using model = constrained_cost<delay, area>;
  CHECK(best(model{{}, {}, 1000}) == model::cost_type{2, 200});
  CHECK(best(model{{}, {}, 200}) == model::cost_type{2, 200});
  CHECK(best(model{{}, {}, 199}) == model::cost_type{11, 105});
  CHECK(best(model{{}, {}, 50}) == model::cost_type{20, 10});
}

TEST_CASE("a constrained cost ranks violations behind feasible costs and by their excess") {
  const constrained_cost<delay, area> model{{}, {}, 10};
  CHECK(model.objective({7, 10}) == 7);
  CHECK(model.objective({7, 11}) > model.objective({std::numeric_limits<std::int64_t>::max() / 8, 10}));
  CHECK(model.objective({7, 11}) < model.objective({7, 12}));
  CHECK(model.objective({7, 11}) == model.objective({8, 11}));
  constexpr auto most = std::numeric_limits<std::int64_t>::max();  // as far as they fit
  CHECK(model.objective({most / 2, 10}) == most / 2);
  CHECK(model.objective({7, most}) > model.objective({7, 11}));
  CHECK(model.objective({7, 11}) > model.objective({most, 10}));
  CHECK(constrained_cost<delay, area>{{}, {}, -10}.objective({7, most}) == most);
}

TEST_CASE("a search that starts outside a cost constraint ends at a feasible optimum") {
  const constrained_cost<delay, area> model{{}, {}, 105};
  rewrite_space<circuits, constrained_cost<delay, area>> space{
      circuits{}, model, compile_rules(circuits{}, parse_rules(rules)), two_differences()};
  CHECK(space.cost(space.initial()) > 1000000);
  const auto r = backtracking(space);
  CHECK(r.cost == 11);
}

TEST_CASE("a weighted cost moves the optimum between its two models") {
  using model = weighted_cost<delay, area>;
  CHECK(best(model{{}, {}, 1.0}) == model::cost_type{2, 200});
  CHECK(best(model{{}, {}, 0.0}) == model::cost_type{20, 10});
  CHECK(model{{}, {}, 0.25}.objective({8, 16}) == 14);
  CHECK(model{{}, {}, 1.0}.objective({8, 16}) == 8);
}

TEST_CASE("cost pairs add and subtract exactly and combined prices match recomputed costs", "[law]") {
  const cost_pair<std::int64_t, std::int64_t> p{3, 5};
  auto q = p;
  q += {10, 20};
  CHECK(q == cost_pair<std::int64_t, std::int64_t>{13, 25});
  q -= {10, 20};
  CHECK(q == p);

  using model = constrained_cost<weighted_cost<delay, gate_count>, area>;
  std::size_t rewrites = 0;
  for (std::uint64_t seed = 0; rewrites < 2000; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    rewrite_space<circuits, model> space{circuits{}, model{{{}, {}, 0.3}, {}, 100},
                                         compile_rules(circuits{}, parse_rules(circuit_rules)),
                                         random_circuit(random, 4, 15)};
    random_walk(space, random, 50, [&](const auto&, match_id, const candidate& c, const auto& next) {
      ++rewrites;
      REQUIRE(c.cost == recomputed(space, next).cost);
      REQUIRE(space.cost(next) == c.cost);
    });
  }
}

}  // namespace tests_of_combinators
