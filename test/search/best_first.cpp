// Features that backtracking and exact search share: budgets, threads, checkpoints.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/cases.hpp"
#include "../support/circuits.hpp"
#include "../support/explicit_space.hpp"
#include "../support/matrices.hpp"
#include "../support/message_of.hpp"
#include "circuit_space.hpp"

namespace tests_of_best_first {

using namespace unity;
using namespace unity::test;

namespace {

using result = search_result<circuit_space::state_type, match_id>;

backtracking_options options_of(std::uint64_t expansions, double alpha = 1.3) {
  backtracking_options o;
  o.alpha = alpha;
  o.limits.expansions = expansions;
  return o;
}

void require_same(const result& a, const result& b) {
  REQUIRE(a.cost == b.cost);
  REQUIRE(a.path == b.path);
  REQUIRE(a.counts == b.counts);
  REQUIRE(a.best.fingerprint == b.best.fingerprint);
  REQUIRE(a.best.nodes == b.best.nodes);
  REQUIRE(a.stopped == b.stopped);
  REQUIRE(a.history.size() == b.history.size());
  for (std::size_t i = 0; i < a.history.size(); ++i) {
    REQUIRE(a.history[i].cost == b.history[i].cost);
    REQUIRE(a.history[i].expanded == b.history[i].expanded);
  }
}

std::string file(const std::string& name) { return std::string{UNITY_TEST_SCRATCH_DIR} + "/" + name; }
std::string content(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
void write(const std::string& path, std::string_view text) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

// An 'and' costs one more.
struct dear_gates : gate_count {
  [[nodiscard]] std::int64_t node_cost(const gate& g, std::span<const bit> ins, std::span<const bit> outs) const {
    return gate_count::node_cost(g, ins, outs) + (g.kind == gate::form::conjunction ? 1 : 0);
  }
};

template <class Space>
std::string refusal(const std::string& path, Space& space) {
  return unity::test::message_of([&] { (void)backtracking.resume(space, path, options_of(100)); });
}

}  // namespace

TEST_CASE("best-first search reports which limit stopped it") {
  auto long_way = staircase(5000);
  backtracking_options o;
  o.alpha = 2;

  auto expansions = o;
  expansions.limits.expansions = 17;
  const auto by_expansions = backtracking(long_way, expansions);
  CHECK(by_expansions.stopped == stop_reason::expansions);
  CHECK(by_expansions.counts.expanded == 17);

  auto time = o;
  time.limits.seconds = 0;
  const auto by_time = backtracking(long_way, time);
  CHECK(by_time.stopped == stop_reason::time);
  CHECK(by_time.counts.expanded == 1);  // the expansion in progress is finished

  measured_explicit_space measured{staircase(5000)};
  auto memory = o;
  memory.limits.memory = 1024 * 1024;
  const auto by_memory = backtracking(measured, memory);
  CHECK(by_memory.stopped == stop_reason::memory);
  CHECK(by_memory.counts.expanded > 100);
  CHECK(by_memory.counts.expanded <= 1024);

  CHECK(backtracking(long_way, o).stopped == stop_reason::exhausted);
}

TEST_CASE("a time limit ends a long expansion of best-first search and beam search") {
  // A state with 100,000 moves; pricing each takes 20 microseconds.
  struct slow_space {
    using state_type = int;
    using move_type = int;
    struct scratch_type {};
    std::vector<int> all = std::vector<int>(100'000);

    static int initial() { return 0; }
    static cost_value cost(const int& s) { return 10 - s; }
    static fingerprint fingerprint_of(const int& s) { return {static_cast<std::uint64_t>(s), 0}; }
    [[nodiscard]] std::span<const int> moves(const int& s) const {
      return std::span{all}.first(s == 0 ? all.size() : 0);
    }
    static void prepare(const int&, scratch_type&) {}
    static std::optional<candidate> price(const int&, int, scratch_type&) {
      const stopwatch watch;
      while (watch.seconds() < 20e-6) {
      }
      return candidate{9, {1, 0}};
    }
    static int apply(const int&, int, scratch_type&, scratch_type&) { return 1; }
  };
  for (const auto threads : {std::size_t{1}, std::size_t{2}}) {
    slow_space space;
    backtracking_options o;
    o.threads = threads;
    o.limits.seconds = 0.05;
    const auto r = backtracking(space, o);
    CHECK(r.stopped == stop_reason::time);
    CHECK(r.counts.candidates + r.counts.rejected < 100'000);
    CHECK(r.cost == 9);
    CHECK(r.seconds < 0.5);
    beam_options b{{o}};
    const auto by_beam = beam(space, b);
    CHECK(by_beam.stopped == stop_reason::time);
    CHECK(by_beam.cost == 9);
    CHECK(by_beam.seconds < 0.5);
  }
}

TEST_CASE("best-first search does not count excluded seconds; also when resumed") {
  auto space = random_circuit_space(3, 14);
  auto o = options_of(200, 1.05);
  o.limits.seconds = 0;
  REQUIRE(backtracking(space, o).stopped == stop_reason::time);

  double measuring = 0;
  o.excluded_seconds = [&] { return measuring += 1; };
  auto first_space = random_circuit_space(3, 14);
  o.checkpoint = file("excluded");
  o.limits.seconds = 1e-9;
  const auto first = backtracking(first_space, o);
  CHECK(first.stopped != stop_reason::time);
  CHECK(first.seconds < 0.5);

  auto next_space = random_circuit_space(3, 14);
  CHECK(backtracking.resume(next_space, file("excluded"), o).seconds <= first.seconds);
}

TEST_CASE("an observer of best-first search sees progress and can stop it") {
  auto space = random_circuit_space(3, 40);
  auto o = options_of(1000000, 2);
  std::size_t calls = 0;
  progress last;
  o.watch = [&](const progress& p) {
    CHECK(p.counts.expanded >= last.counts.expanded);
    CHECK(p.seconds >= last.seconds);
    CHECK((calls == 0 || p.best <= last.best));
    last = p;
    return ++calls < 3;
  };
  o.limits.seconds = 20;
  const auto r = backtracking(space, o);
  CHECK(r.stopped == stop_reason::observer);
  CHECK(calls == 3);
  CHECK(last.queued > 0);
}

TEST_CASE("best-first search results are independent of the thread count", "[law]") {
  // States with many moves, so that threads share the moves of one state.
  std::size_t wide = 0;
  for (std::uint64_t seed = 0; seed < unity::test::all_or<std::uint64_t>(4, 2); ++seed) {
    CAPTURE(seed);
    const auto run = [&](std::size_t threads) {
      auto space = random_circuit_space(seed, 220);
      wide += space.moves(space.initial()).size() >= 512 ? 1 : 0;
      auto o = options_of(25, 1.2);
      o.threads = threads;
      return backtracking(space, o);
    };
    const auto one = run(1);
    require_same(run(2), one);
    require_same(run(4), one);
  }
  CHECK(wide > 3);
}

TEST_CASE("two best-first searches of equal spaces give equal results", "[law]") {
  auto first = random_circuit_space(11, 20);
  auto second = random_circuit_space(11, 20);
  require_same(backtracking(first, options_of(200)), backtracking(second, options_of(200)));
}

TEST_CASE("a best-first search that has no time can be resumed from its checkpoint") {
  const std::uint64_t seed = 3;
  CAPTURE(seed);
  random_engine random{seed};
  const auto g = random_circuit(random, 4, 200);
  // Roots of the second rule need not be connected: its matches are found last, and not at all after the end of time.
  const auto rules = compile_rules(
      circuits{}, parse_rules("rule double_negation not(not(?x)) => ?x\n"
                              "rule both (and(?x, ?y), or(?z, ?w)) => (not(not(and(?x, ?y))), or(?z, ?w))"));
  const auto path = file("no_time.checkpoint");
  circuit_space whole{circuits{}, gate_count{}, rules, g};
  const auto uninterrupted = backtracking(whole, options_of(6));
  circuit_space first{circuits{}, gate_count{}, rules, g};
  auto o = options_of(6);
  o.limits.seconds = 0;
  o.checkpoint = path;
  CHECK(backtracking(first, o).stopped == stop_reason::time);
  circuit_space second{circuits{}, gate_count{}, rules, g};
  require_same(backtracking.resume(second, path, options_of(6)), uninterrupted);
  // The end of an earlier search in a space does not hold for the next one.
  o.checkpoint.clear();
  circuit_space third{circuits{}, gate_count{}, rules, g};
  CHECK(backtracking(third, o).stopped == stop_reason::time);
  const auto resumed = backtracking.resume(third, path, options_of(6));
  CHECK(resumed.cost == uninterrupted.cost);
  CHECK(resumed.counts == uninterrupted.counts);
}

TEST_CASE("an interrupted and resumed best-first search equals the uninterrupted one", "[law]") {
  const auto path = file("resumed.checkpoint");
  std::size_t resumed = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(40); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto whole_space = random_circuit_space(seed, 14);
    const auto whole = backtracking(whole_space, options_of(150));
    // Interrupted up to three times, and resumed each time in a new space, as in a new process.
    std::uint64_t done = 1 + random.below(60);
    auto interrupted = options_of(done);
    interrupted.checkpoint = path;
    auto first_space = random_circuit_space(seed, 14);
    auto r = backtracking(first_space, interrupted);
    for (auto more = random.below(3); more > 0; --more) {
      interrupted.limits.expansions = done += 1 + random.below(40);
      auto next_space = random_circuit_space(seed, 14);
      r = backtracking.resume(next_space, path, interrupted);
      REQUIRE((r.counts.expanded == done || r.stopped == stop_reason::exhausted));
      ++resumed;
    }
    auto last_space = random_circuit_space(seed, 14);
    require_same(backtracking.resume(last_space, path, options_of(150)), whole);
  }
  CHECK(resumed > unity::test::cases(10));
  std::filesystem::remove(path);
}

TEST_CASE("writing checkpoints does not change the result of best-first search") {
  const auto path = file("often.checkpoint");
  auto plain = random_circuit_space(5, 14);
  auto watched = random_circuit_space(5, 14);
  auto o = options_of(100);
  o.checkpoint = path;
  o.checkpoint_seconds = 0;
  require_same(backtracking(watched, o), backtracking(plain, options_of(100)));
  CHECK_FALSE(std::filesystem::exists(path + ".partial0"));
  std::filesystem::remove(path);
}

TEST_CASE("a truncated or altered search checkpoint is refused in one line that names it", "[law]") {
  const auto path = file("damaged.checkpoint");
  auto space = random_circuit_space(6, 14);
  auto o = options_of(20);
  o.checkpoint = path;
  (void)backtracking(space, o);
  const auto good = content(path);
  REQUIRE(good.size() > 1000);
  for (std::uint64_t seed = 0; seed < unity::test::cases(150); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto bad = good;
    if (random.below(3) == 0) {
      bad.resize(random.below(bad.size()));
    } else {
      bad[random.below(bad.size())] ^= static_cast<char>(1U << random.below(8));
    }
    write(path, bad);
    auto fresh = random_circuit_space(6, 14);
    const auto said = refusal(path, fresh);
    REQUIRE(said.rfind(path + ": ", 0) == 0);
    REQUIRE(said.find('\n') == std::string::npos);
  }
  std::filesystem::remove(path);
  auto fresh = random_circuit_space(6, 14);
  CHECK_THAT(refusal(path, fresh), Catch::StartsWith(path + ": cannot be read ("));
}

TEST_CASE("a search checkpoint of another graph or rule set is refused") {
  const auto path = file("other.checkpoint");
  circuit_builder b;
  const auto build = [](auto gate, char name) {
    circuit_builder c;
    const auto x = c.input(name);
    return c.build({gate(c, c.negation(x), c.negation(c.input('b')))});
  };
  const auto conjunction = [](auto& c, auto x, auto y) { return c.conjunction(x, y); };
  const auto disjunction = [](auto& c, auto x, auto y) { return c.disjunction(x, y); };
  const std::string_view swapped =
      "rule a and(not(?x), not(?y)) => not(or(?x, ?y))\nrule b or(not(?x), not(?y)) => not(and(?x, ?y))";
  const auto space = [&](const circuit& g, std::string_view rules) {
    return circuit_space{circuits{}, gate_count{}, compile_rules(circuits{}, parse_rules(rules)), g};
  };
  auto original = space(build(conjunction, 'a'), swapped);
  auto o = options_of(100, 3);
  o.checkpoint = path;
  const auto r = backtracking(original, o);
  CHECK(r.counts.expanded == 2);

  auto same = space(build(conjunction, 'a'), swapped);
  CHECK(refusal(path, same).empty());
  auto other_gate = space(build(disjunction, 'a'), swapped);  // same ids, cost and number of moves
  CHECK_THAT(refusal(path, other_gate),
             Catch::StartsWith(path + " at byte ") && Catch::Contains("expected a checkpoint of the same run"));
  auto other_input = space(build(conjunction, 'c'), swapped);
  CHECK_THAT(refusal(path, other_input), Catch::Contains("expected a checkpoint of the same run"));
  auto other_rule = space(build(conjunction, 'a'), "rule a and(not(?x), not(?y)) => not(not(not(or(?x, ?y))))");
  CHECK_THAT(refusal(path, other_rule), Catch::Contains("expected a checkpoint of the same run"));
  auto no_rule = space(build(conjunction, 'a'), "");
  CHECK_THAT(refusal(path, no_rule), Catch::Contains("expected a checkpoint of the same run"));
  std::filesystem::remove(path);
}

TEST_CASE("a search checkpoint of another cost model is refused") {
  const auto path = file("other_cost.checkpoint");
  circuit_builder c;
  const auto x = c.input('a');
  const auto g = c.build({c.conjunction(c.negation(x), c.negation(c.input('b')))});
  const auto rules = compile_rules(circuits{}, parse_rules("rule a and(not(?x), not(?y)) => not(or(?x, ?y))"));
  circuit_space original{circuits{}, gate_count{}, rules, g};
  auto o = options_of(1);
  o.checkpoint = path;
  REQUIRE(backtracking(original, o).stopped == stop_reason::expansions);

  circuit_space same{circuits{}, gate_count{}, rules, g};
  CHECK(refusal(path, same).empty());
  rewrite_space<circuits, dear_gates> dear{circuits{}, dear_gates{}, rules, g};
  REQUIRE(dear.cost(dear.initial()) == same.cost(same.initial()) + 1);
  CHECK_THAT(refusal(path, dear),
             Catch::StartsWith(path + " at byte ") && Catch::Contains("expected a checkpoint of the same run"));
  std::filesystem::remove(path);
}

TEST_CASE("a search checkpoint that cannot be written is an error") {
  auto space = random_circuit_space(7, 14);
  auto o = options_of(10);
  o.checkpoint = file("no such folder") + "/checkpoint";
  CHECK_THROWS_WITH(backtracking(space, o), Catch::StartsWith(o.checkpoint + ": cannot be created ("));
}

TEST_CASE("best-first search returns equivalent matrix graphs and the same with two threads", "[law]") {
  using matrix_space = rewrite_space<matrices, matrix_cost>;
  const auto rules = compile_rules(matrices{}, parse_rules(matrix_rules));
  for (std::uint64_t seed = 0; seed < unity::test::cases(25); ++seed) {
    CAPTURE(seed);
    const auto run = [&](std::size_t threads) {
      random_engine random{seed};
      matrix_space space{matrices{}, matrix_cost{}, rules, random_matrix_graph(random, 4, 14)};
      const auto truth = meaning(space.graph(space.initial()));
      backtracking_options o;
      o.alpha = 1.1;
      o.threads = threads;
      o.limits.expansions = 60;
      auto r = backtracking(space, o);
      REQUIRE(meaning(space.graph(r.best)) == truth);
      return r;
    };
    const auto one = run(1);
    const auto two = run(2);
    REQUIRE(one.cost == two.cost);
    REQUIRE(one.path == two.path);
    REQUIRE(one.counts == two.counts);
  }
}

}  // namespace tests_of_best_first
