#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>

#include "../../support/circuits.hpp"

namespace tests_of_minimize {

using namespace unity;
using namespace unity::test;

TEST_CASE("without_needless_steps keeps a valid proof and is idempotent") {
  const circuits algebra;
  const theory known{algebra, parse_rules(circuit_rules)};
  entailment<circuits> ask{algebra, known, {.rounds = 3, .joint_rounds = 1, .nodes = 300}};
  std::size_t shorter = 0;
  std::size_t all = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto g = random_circuit(random, 3, 8);
    for (const auto i : value_ids(g)) {
      for (std::size_t j = 0; j < i.index(); ++j) {
        g.set_outputs(std::vector{i, value_id{j}});
        const auto found = ask.prove_outputs(std::span<const circuit>{&g, 1});
        if (!found) {
          continue;
        }
        const auto less = without_needless_steps(*found);
        CHECK(congruence_prover{}.decide(less.ground).found == verdict::proved);
        CHECK(less.steps.size() <= found->steps.size());
        CHECK(without_needless_steps(less).steps == less.steps);
        for (std::uint32_t step = 0; step < less.steps.size(); ++step) {  // none is needless
          auto without = less.ground;
          std::erase_if(without.equalities, [&](const auto& e) { return e.instance == step; });
          CHECK(congruence_prover{}.decide(without).found != verdict::proved);
        }
        for (const auto& e : less.ground.equalities) {
          REQUIRE(e.instance < less.steps.size());
          CHECK(less.steps[e.instance] == derivation::step{e.axiom, e.reversed});
        }
        ++all;
        shorter += less.steps.size() < found->steps.size() ? 1 : 0;
      }
    }
  }
  CHECK(all > 50);
  CHECK(shorter > 0);
}

}  // namespace tests_of_minimize
