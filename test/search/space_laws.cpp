// Laws of search spaces and spaces that each break one; rules of an algebra and rules that are wrong.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/laws.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>

#include "../support/circuits.hpp"
#include "../support/explicit_space.hpp"

namespace tests_of_space_laws {

using namespace unity;
using namespace unity::test;

namespace {

explicit_space stairs() { return {{9, 7, 8, 5}, {{1, 2}, {1, 2, 3}, {1, 2, 3}, {}}}; }

template <class Space>
std::string fault(Space space, std::size_t threads = 1) {
  const auto broken = broken_law(space, {.threads = threads});
  return broken ? broken->what() : "";
}

struct dearer_than_priced : explicit_space {
  [[nodiscard]] cost_value cost(state_type s) const { return costs[s] + (s == 3 ? 1 : 0); }
};
struct named_otherwise : explicit_space {
  [[nodiscard]] std::optional<candidate> price(state_type, move_type to, scratch_type&) const {
    return candidate{costs[to], {to, 0}};
  }
};
struct bound_too_high : explicit_space {
  [[nodiscard]] static cost_value lower_bound(state_type) { return 6; }
};
struct bound_falls : explicit_space {
  [[nodiscard]] static cost_value lower_bound(state_type s) { return s == 0 ? 5 : 4; }
};
struct starts_elsewhere : explicit_space {
  std::uint32_t asked = 0;
  [[nodiscard]] state_type initial() { return asked++; }
};
struct loses_a_move : explicit_space {
  mutable std::size_t asked = 0;
  [[nodiscard]] std::span<const move_type> moves(state_type s) const {
    return std::span{edges[s]}.first(edges[s].size() - asked++ % 2);
  }
};
struct reads_its_scratch : explicit_space {
  struct scratch_type {
    cost_value used = 0;
  };
  static void prepare(state_type, scratch_type&) {}
  [[nodiscard]] std::optional<candidate> price(state_type, move_type to, scratch_type& s) const {
    return candidate{costs[to] + s.used++, fingerprint_of(to)};
  }
  [[nodiscard]] static state_type apply(state_type, move_type to, scratch_type&, scratch_type&) { return to; }
};
// Only the first price is wrong, one that a thread may compute.
struct shares_a_price : explicit_space {
  std::shared_ptr<std::atomic<cost_value>> calls = std::make_shared<std::atomic<cost_value>>(0);
  [[nodiscard]] std::optional<candidate> price(state_type, move_type to, scratch_type&) const {
    return candidate{costs[to] + ((*calls)++ == 0 ? 1 : 0), fingerprint_of(to)};
  }
};
struct independent_one_way : explicit_space {
  [[nodiscard]] static bool independent(move_type a, move_type b) { return a < b; }
};

}  // namespace

TEST_CASE("broken_law finds no fault in lawful search spaces", "[law]") {
  CHECK(fault(stairs()).empty());
  CHECK(fault(bounded_explicit_space{stairs()}).empty());
  CHECK(fault(stairs(), 3).empty());
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    rewrite_space space{circuits{}, gate_count{}, compile_rules(circuits{}, parse_rules(circuit_rules)),
                        random_circuit(random, 4, 12)};
    const auto broken = broken_law(space, {.seed = seed, .steps = 10, .moves = 16, .threads = 1 + seed % 2});
    INFO((broken ? broken->what() : ""));
    CHECK(!broken);
  }
}

TEST_CASE("broken_law names the broken law with its step and seed") {
  CHECK(fault(dearer_than_priced{stairs()}) ==
        "search space, step 1 of seed 0: a move is priced 5, and leads to a state of cost 6; expected equal costs");
  CHECK(fault(named_otherwise{stairs()}) ==
        "search space, step 0 of seed 0: the fingerprint of a priced move is not that of the state it leads to; "
        "expected equal fingerprints");
  CHECK(fault(bound_too_high{stairs()}) ==
        "search space, step 1 of seed 0: a lower bound above what a move leads to; expected at most the cost of all "
        "states behind");
  CHECK(fault(bound_falls{stairs()}) ==
        "search space, step 0 of seed 0: a lower bound above what a move leads to; expected at most the cost of all "
        "states behind");
  CHECK(fault(starts_elsewhere{stairs()}) ==
        "search space, step 0 of seed 0: initial() gives another state the second time; expected the same one");
  CHECK(fault(loses_a_move{stairs()}) ==
        "search space, step 0 of seed 0: moves() gives something else the second time; expected the same list");
  CHECK(fault(explicit_space{{9, 7, 8, 5}, {{1, 2}, {2, 1, 3}, {2, 1, 3}, {}}}) ==
        "search space, step 0 of seed 0: moves of a parent in another order, or twice; expected the parent's order");
  CHECK(fault(reads_its_scratch{stairs()}) ==
        "search space, step 0 of seed 0: price() depends on what its scratch was used for; expected the same for every "
        "scratch");
  CHECK(fault(explicit_space{{9, 7, 8, 5}, {{1, 2}, {3, 1, 2}, {3, 1, 2}, {}}}) ==
        "search space, step 0 of seed 0: a move of the parent behind one that is new; expected those of the parent "
        "first");
  CHECK(fault(shares_a_price{stairs()}, 2) ==
        "search space, step 0 of seed 0: price() from several threads differs from that of one; expected the same for "
        "any number of threads");
  CHECK(fault(independent_one_way{stairs()}).find("a move is independent of another, and that one not of it") !=
        std::string::npos);
}

TEST_CASE("test_rules finds a wrong rule with a seed that reproduces it", "[law]") {
  const auto rules = compile_rules(circuits{}, parse_rules(R"(
    rule right  not(not(?x)) => ?x
    rule wrong  and(?x, ?y) => or(?x, ?y)
    rule unmet  xor(one(), not(one())) => zero()
  )"));
  const auto table = [](const circuit& g) { return meaning(g); };
  const auto draw = [](random_engine& r) { return random_circuit(r, 4, 12); };
  const auto tested = test_rules(circuits{}, rules, table, draw);
  REQUIRE(tested.size() == 4);
  CHECK(tested[0].name == "right");
  CHECK(tested[0].applications > 0);
  CHECK(!tested[0].counter);
  REQUIRE(tested[1].counter);
  CHECK(tested[3].name == "common_subexpression");
  CHECK(tested[3].applications > 0);
  CHECK(!tested[3].counter);

  // Its seed alone reproduces the counterexample.
  const auto again = test_rules(circuits{}, rules, table, draw, {.seed = *tested[1].counter, .graphs = 1});
  CHECK(again[1].counter == tested[1].counter);
}

}  // namespace tests_of_space_laws
