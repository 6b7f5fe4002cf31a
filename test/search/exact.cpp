#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/cases.hpp"
#include "../support/circuits.hpp"
#include "../support/explicit_space.hpp"
#include "../support/space_laws.hpp"
#include "circuit_space.hpp"

// An operator whose hash depends on its kind only, not on its number.
namespace badly_hashed {
struct leaf {
  std::int64_t number = 0;
  friend bool operator==(const leaf&, const leaf&) = default;
};
}  // namespace badly_hashed
template <>
struct std::hash<badly_hashed::leaf> {
  std::size_t operator()(const badly_hashed::leaf&) const noexcept { return 1; }
};

using namespace unity;
using namespace unity::test;

namespace {

struct leaves {
  using op_type = badly_hashed::leaf;
  using value_type = int;

  [[nodiscard]] static std::optional<std::vector<int>> infer(const op_type& op, std::span<const int> operands) {
    return operands.empty() && op.number >= 0 ? std::optional{std::vector<int>{1}} : std::nullopt;
  }
  [[nodiscard]] static std::size_t kind_count() { return 1; }
  [[nodiscard]] static const op_signature& signature(kind_id) {
    static const op_signature s{.name = "leaf", .operands = 0, .attributes = {{.name = "number"}}};
    return s;
  }
  [[nodiscard]] static std::optional<kind_id> find_kind(std::string_view name) {
    return name == "leaf" ? std::optional{kind_id{std::uint32_t{0}}} : std::nullopt;
  }
  [[nodiscard]] static kind_id kind_of(const op_type&) { return kind_id{std::uint32_t{0}}; }
  [[nodiscard]] static attribute_list attributes_of(const op_type& op) { return {{op.number}}; }
  [[nodiscard]] static std::optional<op_type> make(kind_id, std::span<const attribute> a) { return op_type{a[0][0]}; }
  [[nodiscard]] static std::optional<int> find_measure(std::string_view) { return std::nullopt; }
  [[nodiscard]] static std::optional<attribute> measure(int, int, std::span<const std::int64_t>) {
    return std::nullopt;
  }
};
struct sum_of_numbers {
  using cost_type = std::int64_t;
  [[nodiscard]] static std::int64_t node_cost(const badly_hashed::leaf& op, std::span<const int>,
                                              std::span<const int>) {
    return op.number;
  }
  [[nodiscard]] static cost_value objective(std::int64_t total) { return total; }
};

explicit_space random_explicit(std::uint64_t seed) {
  random_engine random{seed};
  explicit_space s;
  const auto n = 1 + random.below(40);
  for (std::uint64_t i = 0; i < n; ++i) {
    s.costs.push_back(random.between(0, 1000));
    s.edges.emplace_back();
    for (auto k = random.below(4); k > 0; --k) {
      s.edges.back().push_back(random.below(10) == 0 ? explicit_space::nowhere
                                                     : static_cast<std::uint32_t>(random.below(n)));
    }
  }
  return s;
}

}  // namespace

// Bounds say nothing.
struct unbounded_gates : gate_count {
  [[nodiscard]] static std::int64_t lower_bound(std::int64_t /*value*/) { return 0; }
};

TEST_CASE("exact search without time claims no bound that leaves out moves") {
  circuit_builder b;
  auto x = b.input('a');
  const auto y = b.input('b');
  for (int i = 0; i < 80; ++i) {
    x = b.conjunction(x, y);
  }
  const auto g = b.build({b.negation(b.negation(x))});
  const auto rules = compile_rules(circuits{}, parse_rules("rule double_negation not(not(?x)) => ?x"));
  rewrite_space all{circuits{}, unbounded_gates{}, rules, g};
  const auto best = exact(all);
  rewrite_space space{circuits{}, unbounded_gates{}, rules, g};
  best_first_options o;
  o.limits.seconds = 0;
  const auto found = exact(space, o);
  CHECK(found.stopped == stop_reason::time);
  CHECK(best.cost < found.cost);
  CHECK(found.lower_bound <= best.cost);
}

TEST_CASE("exact search proves the optimum over the states that moves can reach", "[law]") {
  std::size_t proved = 0;
  std::size_t improved = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(100); ++seed) {
    CAPTURE(seed);
    auto space = random_circuit_space(seed, 9, finite_circuit_rules);
    auto least = std::numeric_limits<cost_value>::max();
    auto brute = random_circuit_space(seed, 9, finite_circuit_rules);
    if (!explore(brute, 1500, [&](const auto& s) { least = std::min(least, brute.cost(s)); })) {
      continue;
    }
    const auto before = space.cost(space.initial());
    const auto r = exact(space);
    REQUIRE(r.stopped == stop_reason::exhausted);
    REQUIRE(r.cost == least);
    REQUIRE(r.lower_bound == least);
    REQUIRE(r.counts.asleep == 0);
    REQUIRE(recomputed(space, r.best).cost == least);
    ++proved;
    improved += r.cost < before ? 1 : 0;
  }
  CHECK(proved > unity::test::cases(60));
  CHECK(improved > unity::test::cases(20));
}

TEST_CASE("exact search crosses a state of much higher cost") {
  explicit_space space{{10, 1000000, 3}, {{1}, {2}, {}}};
  const auto r = exact(space);
  CHECK(r.cost == 3);
  CHECK(r.lower_bound == 3);
}

TEST_CASE("lower bounds let exact search expand fewer states for the same optimum", "[law]") {
  std::uint64_t with = 0;
  std::uint64_t without = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    auto plain = random_explicit(seed);
    bounded_explicit_space bounded{plain};
    const auto a = exact(plain);
    const auto b = exact(bounded);
    REQUIRE(a.cost == b.cost);
    REQUIRE(b.cost == bounded.bounds[0]);
    REQUIRE(b.lower_bound == b.cost);
    without += a.counts.expanded;
    with += b.counts.expanded;
  }
  CHECK(with < without);
}

namespace {

// 0 is a lower bound for every circuit.
struct bounded_gate_count : gate_count {
  std::size_t* asked = nullptr;
  [[nodiscard]] cost_value lower_bound(const std::int64_t&) const {
    ++*asked;
    return 0;
  }
};

}  // namespace

TEST_CASE("a bounded cost model lets exact search of rewrites expand fewer states") {
  using bounded = rewrite_space<circuits, bounded_gate_count>;
  static_assert(bounded_space<bounded> && !bounded_space<circuit_space>);
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto g =
      b.build({b.conjunction(b.negation(b.negation(x)), b.conjunction(x, b.negation(x))), b.negation(b.negation(y))});
  const auto rules = compile_rules(circuits{}, parse_rules(finite_circuit_rules));
  std::size_t asked = 0;
  bounded_gate_count model;
  model.asked = &asked;
  bounded space{circuits{}, model, rules, g};
  const auto r = exact(space);
  circuit_space plain{circuits{}, gate_count{}, rules, g};
  CHECK(r.cost == 0);
  CHECK(r.cost == exact(plain).cost);
  CHECK(r.counts.expanded < exact(plain).counts.expanded);
  CHECK(asked > 0);
}

TEST_CASE("a stopped exact search of a bounded space reports a valid lower bound", "[law]") {
  std::size_t open = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    bounded_explicit_space bounded{random_explicit(seed)};
    best_first_options o;
    o.limits.expansions = 2;
    const auto r = exact(bounded, o);
    REQUIRE(r.lower_bound <= bounded.bounds[0]);
    REQUIRE(r.cost >= bounded.bounds[0]);
    open += r.stopped == stop_reason::expansions && r.lower_bound < r.cost ? 1 : 0;
  }
  CHECK(open > 10);
  auto unbounded = staircase(100);
  best_first_options o;
  o.limits.expansions = 2;
  CHECK(exact(unbounded, o).lower_bound == std::numeric_limits<cost_value>::min());
}

TEST_CASE("the lower bound of an exact search holds where the time ends within an expansion") {
  explicit_space s;  // more moves than are priced between two looks at the clock, the best of them last
  s.costs = {10, 0};
  s.edges.assign(2, {});
  s.edges[0].assign(2000, explicit_space::nowhere);
  s.edges[0].back() = 1;
  for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
    CAPTURE(threads);
    bounded_explicit_space space{s};
    best_first_options o;
    o.threads = threads;
    o.limits.seconds = 1e-9;
    const auto r = exact(space, o);
    CHECK(r.stopped == stop_reason::time);
    CHECK(r.cost == 10);
    CHECK(r.lower_bound == 0);
  }
}

TEST_CASE("an exact search resumed from a checkpoint equals the uninterrupted one") {
  const auto path = std::string{UNITY_TEST_SCRATCH_DIR} + "/exact.checkpoint";
  std::size_t resumed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    auto whole_space = random_circuit_space(seed, 9, finite_circuit_rules);
    best_first_options o;
    o.limits.expansions = 300;
    const auto whole = exact(whole_space, o);
    o.limits.expansions = 3;
    o.checkpoint = path;
    auto first = random_circuit_space(seed, 9, finite_circuit_rules);
    resumed += exact(first, o).stopped == stop_reason::expansions ? 1 : 0;
    auto second = random_circuit_space(seed, 9, finite_circuit_rules);
    best_first_options rest;
    rest.limits.expansions = 300;
    const auto r = exact.resume(second, path, rest);
    REQUIRE(r.cost == whole.cost);
    REQUIRE(r.lower_bound == whole.lower_bound);
    REQUIRE(r.path == whole.path);
    REQUIRE(r.counts == whole.counts);
    REQUIRE(r.stopped == whole.stopped);
  }
  CHECK(resumed > 10);
  std::filesystem::remove(path);
}

TEST_CASE("exact search distinguishes different operators with equal hashes") {
  const leaves a;
  compact_graph<badly_hashed::leaf, int> g;
  const auto n = g.add_node({9}, {}, std::vector{1});
  g.set_outputs(std::array{g.results(n)[0]});
  const auto rules = compile_rules(a, parse_rules("rule less  leaf{number=?n}() => leaf{number=?n - 1}()"));
  rewrite_space space{a, sum_of_numbers{}, rules, g};
  const auto r = exact(space);
  CHECK(r.stopped == stop_reason::exhausted);
  CHECK(r.cost == 0);
  CHECK(r.lower_bound == 0);
  CHECK(r.counts.expanded == 10);
}
