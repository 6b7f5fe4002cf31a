// Graphs as search states, priced by their mapping.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/laws.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/unity/joint_space.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

#include "../support/operators.hpp"

namespace tests_of_joint_space {

namespace {

using namespace unity;
using systems::joint_space;
using unity::test::training::operators;

static_assert(search_space<joint_space>);
static_assert(canonical_space<joint_space>);
static_assert(commuting_space<joint_space>);
static_assert(pricing_slice<joint_space>() == 1);
static_assert(timed_space<joint_space>);
static_assert(!bounded_space<joint_space>);

const rule_set& rules() {
  static const auto all = compile_rules(
      operators(),
      parse_rules(
          "rule push\n"
          "  transpose{permutation=?p}(scalar_multiply(?x, ?s)) => scalar_multiply(transpose{permutation=?p}(?x), ?s)\n"
          "rule twice\n"
          "  transpose{permutation=?p}(transpose{permutation=?q}(?x)) => transpose{permutation=compose(?p, ?q)}(?x)\n"
          "rule same\n"
          "  transpose{permutation=?p}(?x) => ?x\n"
          "  if ?p == iota(rank(?x))\n",
          "a test"));
  return all;
}
// A scalar product between two transposes; three steps remove the transposes.
tensor::tensor_graph graph() {
  tensor::builder b{operators()};
  const auto x = b.transpose(b.input("x", {4, 6}), {1, 0});
  return std::move(b).finish({b.transpose(b.scalar_multiply(x, b.weight("s", {})), {1, 0})});
}
// Transposes, scalar products and sums of earlier values, some of them used several times.
tensor::tensor_graph random_graph(random_engine& random) {
  tensor::builder b{operators()};
  std::vector<value_id> square{b.input("x", {4, 4})};
  const auto s = b.weight("s", {});
  for (int i = 0; i < 9; ++i) {
    const auto v = square[random.below(square.size())];
    const auto kind = random.below(5);
    const auto w = kind == 4 ? square[random.below(square.size())] : v;
    square.push_back(kind < 3    ? b.transpose(v, {1, 0})
                     : kind == 3 ? b.scalar_multiply(v, s)
                                 : b.add(v, w));
  }
  return std::move(b).finish({square.back(), square[5]});
}
bool is_transpose(const tensor::tensor_graph& g, node_id n) {
  return operators().signature(g.operation(n).kind).name == "transpose";
}
// Ten per operator, plus a hundred for a transpose of a transpose, so that the first of the three steps leads uphill.
cost_value price(const tensor::tensor_graph& g, cost_value) {
  cost_value cost = 0;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      cost += is_transpose(g, n) && is_transpose(g, g.producer(g.operands(n)[0])) ? 110 : 10;
    }
  }
  return cost;
}

}  // namespace

TEST_CASE("joint_space prices of moves equal the costs of the resulting graphs") {
  joint_space space{operators(), rules(), graph(), price};
  joint_space::scratch_type from;
  joint_space::scratch_type to;
  auto s = space.initial();
  CHECK(space.cost(s) == 30);
  for (const cost_value expected : {130, 20, 10}) {
    REQUIRE(space.moves(s).size() == 1);
    const auto m = space.moves(s)[0];
    space.prepare(s, from);
    const auto c = space.price(s, m, from);
    REQUIRE(c);
    CHECK(c->cost == expected);
    s = space.apply(s, m, from, to);
    CHECK(space.cost(s) == expected);
    CHECK(space.fingerprint_of(s) == c->fingerprint);
    CHECK(price(space.graph(s), 0) == expected);
  }
  CHECK(space.moves(s).empty());
}

TEST_CASE("joint_space satisfies the laws of search spaces on a small graph", "[law]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    joint_space space{operators(), rules(), graph(), price};
    const auto broken = broken_law(space, {.seed = seed, .steps = 6, .moves = 8, .threads = 1 + seed % 3});
    CHECK((!broken ? std::string{} : std::string{broken->what()}).empty());
  }
}

TEST_CASE("after its deadline joint_space prices only moves whose price is known") {
  bool is_past_deadline = false;
  joint_space space{operators(), rules(), graph(), price, [&] { return is_past_deadline; }};
  const auto s = space.initial();
  const auto m = space.moves(s)[0];
  joint_space::scratch_type from;
  joint_space::scratch_type to;
  space.prepare(s, from);
  is_past_deadline = true;
  CHECK_FALSE(space.price(s, m, from));
  CHECK_FALSE(space.cheapest_near(s, 3, 100, 30));
  is_past_deadline = false;
  CHECK(space.price(s, m, from)->cost == 130);
  is_past_deadline = true;
  CHECK(space.price(s, m, from)->cost == 130);
  const auto next = space.apply(s, m, from, to);
  space.prepare(next, from);
  CHECK_FALSE(space.price(next, space.moves(next)[0], from));
  is_past_deadline = false;
  space.end_at(std::chrono::steady_clock::now());
  CHECK_FALSE(space.price(next, space.moves(next)[0], from));
}

TEST_CASE("cheapest_near finds graphs behind more expensive ones within the given steps") {
  joint_space space{operators(), rules(), graph(), price};
  const auto s = space.initial();
  const auto near = space.cheapest_near(s, 3, 100, 30);
  REQUIRE(near);
  CHECK(near->state.cost == 10);
  CHECK(price(space.graph(near->state), 0) == 10);
  std::vector<std::string> names;
  for (const auto m : near->moves) {
    names.push_back(space.rule_of(m).name);
  }
  CHECK(names == std::vector<std::string>{"push", "twice", "same"});
  const auto nearer = space.cheapest_near(s, 2, 100, 30);
  REQUIRE(nearer);
  CHECK(nearer->state.cost == 20);
  CHECK_FALSE(space.cheapest_near(s, 1, 100, 30));
  CHECK_FALSE(space.cheapest_near(s, 3, 100, 10));
  CHECK(space.cheapest_near(s, 3, 2, 30)->state.cost == 20);  // the third step would need a third graph
}

TEST_CASE("a failed pricing in joint_space throws and can be repeated") {
  bool breaks = false;
  joint_space space{operators(), rules(), graph(), [&](const tensor::tensor_graph& g, cost_value limit) {
                      if (breaks) {
                        throw error{"a pricer", "no price", "one"};
                      }
                      return price(g, limit);
                    }};
  const auto s = space.initial();
  joint_space::scratch_type from;
  joint_space::scratch_type to;
  space.prepare(s, from);
  const auto m = space.moves(s)[0];
  breaks = true;
  CHECK_THROWS_WITH(space.price(s, m, from), "a pricer: no price; expected one");
  CHECK_THROWS_WITH(space.apply(s, m, from, to), "a pricer: no price; expected one");
  breaks = false;
  space.prepare(s, from);
  CHECK(space.price(s, m, from)->cost == 130);
  CHECK(space.apply(s, m, from, to).cost == 130);
}

TEST_CASE("single-threaded searches of joint_space price graphs on the calling thread") {
  std::set<std::thread::id> threads;
  joint_space space{operators(), rules(), graph(), [&](const tensor::tensor_graph& g, cost_value limit) {
                      threads.insert(std::this_thread::get_id());
                      return price(g, limit);
                    }};
  backtracking_options o;
  o.alpha = 10;
  CHECK(backtracking(space, o).cost == 10);
  CHECK(threads == std::set{std::this_thread::get_id()});
}

TEST_CASE("searches of joint_space have equal results and pricing counts on 1 to 4 threads") {
  std::uint64_t expanded = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = random_graph(random);
    const auto run = [&](std::size_t threads) {
      std::atomic<std::uint64_t> priced = 0;
      joint_space space{operators(), rules(), g, [&](const tensor::tensor_graph& h, cost_value limit) {
                          ++priced;
                          return price(h, limit);
                        }};
      backtracking_options o;
      o.alpha = 4;
      o.limits.expansions = 40;
      o.threads = threads;
      const auto found = backtracking(space, o);
      beam_options b;
      b.width = 3;
      b.threads = threads;
      const auto by_beam = beam(space, b);
      CHECK(space.cost(found.best) == price(space.graph(found.best), 0));
      CHECK(space.cost(by_beam.best) == price(space.graph(by_beam.best), 0));
      return std::tuple{found.cost,  found.path,   found.counts,      found.best.at.fingerprint,
                        by_beam.cost, by_beam.path, by_beam.counts, priced.load()};
    };
    const auto one = run(1);
    expanded += std::get<2>(one).expanded;
    for (const std::size_t threads : {2U, 4U}) {
      CAPTURE(threads);
      CHECK(run(threads) == one);
    }
  }
  CHECK(expanded > 24);
}

TEST_CASE("joint_space satisfies the laws of search spaces on random graphs with two threads", "[law]") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    joint_space space{operators(), rules(), random_graph(random), price};
    const auto broken = broken_law(space, {.seed = seed, .steps = 5, .moves = 16, .threads = 2});
    CHECK((!broken ? std::string{} : std::string{broken->what()}).empty());
  }
}

TEST_CASE("cheapest_near does not fully price graphs above the cost limit") {
  std::size_t in_full = 0;
  joint_space space{operators(), rules(), graph(), [&](const tensor::tensor_graph& g, cost_value limit) {
                      const auto cost = price(g, 0);
                      in_full += cost < limit ? 1 : 0;
                      return cost;
                    }};
  const auto s = space.initial();
  CHECK(in_full == 1);
  CHECK(space.cheapest_near(s, 3, 100, 15)->state.cost == 10);
  CHECK(in_full == 2);
}

}  // namespace tests_of_joint_space
