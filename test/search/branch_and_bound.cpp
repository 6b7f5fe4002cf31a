#include <unity/search/branch_and_bound.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>

namespace tests_of_branch_and_bound {

using namespace unity;

namespace {

constexpr auto most = std::numeric_limits<cost_value>::max();

// The smallest: each decision adds the number of its choice.
struct archetype {
  [[nodiscard]] std::size_t decision_count() const { return 3; }
  [[nodiscard]] std::size_t choice_count(std::size_t) const { return 2; }
  cost_value push(std::uint32_t choice) {
    made.push_back(choice);
    return sum();
  }
  void pop() { made.pop_back(); }
  std::optional<cost_value> cost(cost_value bound) { return sum() <= bound ? std::optional{sum()} : std::nullopt; }

  [[nodiscard]] cost_value sum() const {
    cost_value all = 0;
    for (const auto c : made) {
      all += c;
    }
    return all;
  }
  std::vector<std::uint32_t> made{};
};
static_assert(assignment_problem<archetype>);

struct without_pop : archetype {
  void pop() = delete;
};
static_assert(!assignment_problem<without_pop>);
static_assert(has_decisions<without_pop> && has_bounded_cost<without_pop>);

struct without_bounds : archetype {
  void push(std::uint32_t choice) { made.push_back(choice); }
};
static_assert(!has_prefix<without_bounds>);

struct costs_without_bound : archetype {
  std::optional<cost_value> cost() { return sum(); }
};
static_assert(!has_bounded_cost<costs_without_bound>);

// Costs of single decisions and of pairs of decisions, some negative. The bound is the cost of the decided part, plus
// the minimum of each other cost, minus `slack`.
struct random_problem {
  std::size_t decisions = 0;
  std::vector<std::size_t> choices{};
  std::vector<std::vector<cost_value>> single{};
  std::vector<std::vector<cost_value>> pair{};  // [a * decisions + b][choice of a * 8 + choice of b]
  cost_value slack = 0;
  std::vector<std::uint32_t> made{};
  std::uint64_t pushes = 0;

  explicit random_problem(random_engine& random) {
    const auto draw = [&] { return static_cast<cost_value>(random.below(200)) - 60; };
    decisions = 1 + random.below(6);
    slack = static_cast<cost_value>(random.below(3) * 20);
    for (std::size_t d = 0; d < decisions; ++d) {
      choices.push_back(1 + random.below(4));
      single.emplace_back();
      for (std::size_t c = 0; c < choices.back(); ++c) {
        single.back().push_back(draw());
      }
    }
    pair.resize(decisions * decisions);
    for (auto& p : pair) {
      const bool is_there = random.below(2) == 0;
      for (std::size_t i = 0; i < 64; ++i) {
        p.push_back(is_there ? draw() : 0);
      }
    }
  }

  [[nodiscard]] cost_value between(std::size_t a, std::size_t b) const {
    const auto& all = pair[a * decisions + b];
    cost_value least = most;
    for (std::size_t x = 0; x < choices[a]; ++x) {
      for (std::size_t y = 0; y < choices[b]; ++y) {
        const bool fits = (a >= made.size() || made[a] == x) && (b >= made.size() || made[b] == y);
        least = fits ? std::min(least, all[x * 8 + y]) : least;
      }
    }
    return least;
  }
  [[nodiscard]] cost_value bound() const {
    cost_value sum = 0;
    for (std::size_t d = 0; d < decisions; ++d) {
      sum += d < made.size() ? single[d][made[d]] : *std::min_element(single[d].begin(), single[d].end());
      for (std::size_t e = 0; e < d; ++e) {
        sum += between(e, d);
      }
    }
    return sum;
  }

  [[nodiscard]] std::size_t decision_count() const { return decisions; }
  [[nodiscard]] std::size_t choice_count(std::size_t d) const { return choices[d]; }
  cost_value push(std::uint32_t choice) {
    ++pushes;
    made.push_back(choice);
    return bound() - slack;
  }
  void pop() { made.pop_back(); }
  std::optional<cost_value> cost(cost_value limit) {
    const auto all = bound();
    return all <= limit ? std::optional{all} : std::nullopt;
  }

  [[nodiscard]] cost_value cheapest() {
    if (made.size() == decisions) {
      return bound();
    }
    auto best = most;
    for (std::uint32_t c = 0; c < choices[made.size()]; ++c) {
      made.push_back(c);
      best = std::min(best, cheapest());
      made.pop_back();
    }
    return best;
  }
  [[nodiscard]] cost_value cost_of(const std::vector<std::uint32_t>& all) {
    made = all;
    const auto cost = bound();
    made.clear();
    return cost;
  }
};
static_assert(assignment_problem<random_problem>);

}  // namespace

TEST_CASE("branch and bound finds the exhaustive optimum with and without deepening") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  random_engine random{seed};
  std::uint64_t pruned = 0;
  for (int i = 0; i < 400; ++i) {
    random_problem p{random};
    INFO("problem " << i);
    const auto cheapest = p.cheapest();
    for (const bool deepening : {false, true}) {
      branch_and_bound_options o;
      o.deepening = deepening;
      const auto r = branch_and_bound(p, o);
      REQUIRE(p.made.empty());
      REQUIRE(r.stopped == stop_reason::exhausted);
      REQUIRE(r.cost == cheapest);
      REQUIRE(r.lower_bound == cheapest);
      REQUIRE(r.best);
      REQUIRE(p.cost_of(*r.best) == cheapest);
      pruned += r.counts.rejected;
    }
  }
  REQUIRE(pruned > 1000);
}

TEST_CASE("branch and bound returns only assignments cheaper than the incumbent") {
  const std::uint64_t seed = 42;
  INFO("seed " << seed);
  random_engine random{seed};
  for (int i = 0; i < 200; ++i) {
    random_problem p{random};
    INFO("problem " << i);
    branch_and_bound_options o;
    o.deepening = i % 2 == 0;
    o.incumbent = p.cheapest();
    auto r = branch_and_bound(p, o);
    REQUIRE(!r.best);
    REQUIRE(r.cost == o.incumbent);
    REQUIRE(r.lower_bound == o.incumbent);
    const auto without = r.counts.expanded;
    ++o.incumbent;
    r = branch_and_bound(p, o);
    REQUIRE(r.best);
    REQUIRE(r.cost == o.incumbent - 1);
    REQUIRE(r.counts.expanded >= without);
  }
}

TEST_CASE("a stopped branch and bound reports valid bounds on the optimum") {
  const std::uint64_t seed = 43;
  INFO("seed " << seed);
  random_engine random{seed};
  int stopped = 0;
  int known = 0;
  int improved = 0;  // upon the known cost before they were stopped
  for (int i = 0; i < 400; ++i) {
    random_problem p{random};
    INFO("problem " << i);
    const auto cheapest = p.cheapest();
    auto least = most;  // bound
    for (std::uint32_t c = 0; c < p.choice_count(0); ++c) {
      least = std::min(least, p.push(c));
      p.pop();
    }
    branch_and_bound_options o;
    o.deepening = i % 2 == 0;
    o.limits.expansions = 1 + random.below(12);
    const auto r = branch_and_bound(p, o);
    REQUIRE(p.made.empty());
    REQUIRE(r.lower_bound <= cheapest);
    REQUIRE(r.cost >= cheapest);
    REQUIRE(r.lower_bound >= least);
    REQUIRE(r.lower_bound <= r.cost);
    REQUIRE((!r.best || p.cost_of(*r.best) == r.cost));
    REQUIRE((r.stopped == stop_reason::exhausted || r.stopped == stop_reason::expansions));
    if (r.stopped == stop_reason::exhausted) {
      REQUIRE(r.cost == cheapest);
    } else {
      ++stopped;
      known += r.lower_bound > cheapest - 500 ? 1 : 0;
    }
    // The same with a known cost above the least.
    auto tight = o;
    tight.incumbent = cheapest + 1 + i % 50;
    const auto t = branch_and_bound(p, tight);
    REQUIRE(t.lower_bound >= std::min(least, tight.incumbent));
    REQUIRE(t.lower_bound <= cheapest);
    REQUIRE(t.cost >= cheapest);
    REQUIRE(t.cost <= tight.incumbent);
    REQUIRE(t.best.has_value() == (t.cost < tight.incumbent));
    REQUIRE((!t.best || p.cost_of(*t.best) == t.cost));
    improved += t.stopped == stop_reason::expansions && t.best ? 1 : 0;
  }
  REQUIRE(stopped > 50);
  REQUIRE(known > stopped / 2);
  REQUIRE(improved > 0);
}

TEST_CASE("branch and bound is deterministic") {
  random_engine random{44};
  random_problem p{random};
  const auto a = branch_and_bound(p);
  const auto pushes = std::exchange(p.pushes, 0);
  const auto b = branch_and_bound(p);
  REQUIRE(a.counts == b.counts);
  REQUIRE(a.best == b.best);
  REQUIRE(a.evaluated == b.evaluated);
  REQUIRE(p.pushes == pushes);
  REQUIRE(a.counts.candidates <= pushes);
}

TEST_CASE("deepening keeps branch and bound out of a subtree with a misleading bound") {
  // The first choice of the first decision has the least bound, but not after one more decision. Each of its 3^9
  // assignments is expensive, and later ones cost less than earlier ones.
  struct deceptive {
    std::vector<std::uint32_t> made{};
    [[nodiscard]] std::size_t decision_count() const { return 10; }
    [[nodiscard]] std::size_t choice_count(std::size_t) const { return 3; }
    cost_value push(std::uint32_t choice) {
      made.push_back(choice);
      return made.front() > 0 ? 10001 : made.size() == 1 ? 10000 : 20000;
    }
    void pop() { made.pop_back(); }
    std::optional<cost_value> cost(cost_value bound) {
      cost_value all = made.front() > 0 ? 10001 : 1000000;
      for (const auto c : made) {
        all -= made.front() > 0 ? 0 : static_cast<cost_value>(c);
      }
      return all <= bound ? std::optional{all} : std::nullopt;
    }
  };
  deceptive p;
  branch_and_bound_options o;
  o.deepening = false;
  const auto without = branch_and_bound(p, o);
  o.deepening = true;
  const auto with = branch_and_bound(p, o);
  REQUIRE(without.cost == 10001);
  REQUIRE(with.cost == 10001);
  REQUIRE(without.evaluated > 19683);
  REQUIRE(with.evaluated == 1);
}

TEST_CASE("branch and bound handles zero decisions and a decision without choices") {
  struct empty : archetype {
    [[nodiscard]] std::size_t decision_count() const { return 0; }
  };
  empty e;
  const auto r = branch_and_bound(e);
  REQUIRE(r.best);
  REQUIRE(r.best->empty());
  REQUIRE(r.cost == 0);
  struct impossible : archetype {
    [[nodiscard]] std::size_t choice_count(std::size_t d) const { return d == 1 ? 0 : 2; }
  };
  impossible i;
  const auto none = branch_and_bound(i);
  REQUIRE(!none.best);
  REQUIRE(none.cost == most);
  REQUIRE(none.lower_bound == most);
  REQUIRE(none.stopped == stop_reason::exhausted);
}

TEST_CASE("branch and bound stops at its limits and does not count excluded seconds") {
  struct endless : archetype {
    [[nodiscard]] std::size_t decision_count() const { return 60; }
    std::optional<cost_value> cost(cost_value) { return std::nullopt; }
  };
  endless e;
  branch_and_bound_options o;
  o.deepening = false;
  o.limits.memory = 1024;  // 60 decisions with two choices each need more memory
  auto r = branch_and_bound(e, o);
  CHECK(r.stopped == stop_reason::memory);
  CHECK(e.made.empty());
  o.limits.memory = 1 << 20;
  o.limits.expansions = 10'000;
  CHECK(branch_and_bound(e, o).stopped == stop_reason::expansions);
  o.limits.seconds = 1e-9;
  CHECK(branch_and_bound(e, o).stopped == stop_reason::time);
  double excluded = 0;
  o.excluded_seconds = [&] { return excluded += 1e6; };  // more than all elapsed time
  r = branch_and_bound(e, o);
  CHECK(r.stopped == stop_reason::expansions);
  CHECK(r.seconds < 0);
}

TEST_CASE("an observer can stop branch and bound") {
  struct endless : archetype {
    [[nodiscard]] std::size_t decision_count() const { return 60; }
  };
  endless e;
  branch_and_bound_options o;
  o.deepening = false;
  o.incumbent = 40;
  int calls = 0;
  o.watch = [&](const progress& p) { return p.best > 40 || ++calls < 2; };
  struct slow : endless {
    std::optional<cost_value> cost(cost_value) { return std::nullopt; }
  };
  slow s;
  const auto r = branch_and_bound(s, o);
  REQUIRE(calls == 2);
  REQUIRE(r.stopped == stop_reason::observer);
  REQUIRE(s.made.empty());
}

namespace {

// A random problem that can bound a choice without making it.
struct asked_problem {
  random_problem inner;

  [[nodiscard]] std::size_t decision_count() const { return inner.decision_count(); }
  [[nodiscard]] std::size_t choice_count(std::size_t d) const { return inner.choice_count(d); }
  [[nodiscard]] cost_value bound(std::uint32_t choice) const {
    auto made = inner;
    return made.push(choice);
  }
  void push(std::uint32_t choice) { inner.push(choice); }
  void pop() { inner.pop(); }
  std::optional<cost_value> cost(cost_value limit) { return inner.cost(limit); }
};
static_assert(assignment_problem<asked_problem> && has_choice_bounds<asked_problem>);
static_assert(!has_choice_bounds<random_problem> && has_prefix<random_problem>);

}  // namespace

TEST_CASE("bounds of choices give the same branch and bound search with fewer pushes") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    random_problem made{random};
    asked_problem asked{made};
    const auto a = branch_and_bound(made);
    const auto b = branch_and_bound(asked);
    REQUIRE(a.best == b.best);
    REQUIRE(a.cost == b.cost);
    REQUIRE(a.counts == b.counts);
    REQUIRE(asked.inner.pushes < made.pushes);
  }
}

namespace {

// Costs take a millisecond each, and all have the same bound.
struct slow_costs : archetype {
  explicit slow_costs(std::size_t depth) : depth_{depth} {}
  [[nodiscard]] std::size_t decision_count() const { return depth_; }
  [[nodiscard]] std::size_t choice_count(std::size_t) const { return 2000; }
  cost_value push(std::uint32_t choice) {
    made.push_back(choice);
    return 0;
  }
  std::optional<cost_value> cost(cost_value /*bound*/) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return 1000;
  }

 private:
  std::size_t depth_;
};

}  // namespace

TEST_CASE("branch and bound keeps its time while it prices assignments") {
  for (const std::size_t depth : {1U, 2U}) {
    CAPTURE(depth);
    slow_costs p{depth};
    branch_and_bound_options o;
    o.limits.seconds = 0.02;
    o.incumbent = 1000;
    o.deepening = false;
    const auto r = branch_and_bound(p, o);
    CHECK(r.stopped == stop_reason::time);
    CHECK(r.evaluated < 1000);
  }
}

}  // namespace tests_of_branch_and_bound
