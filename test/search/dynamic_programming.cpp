// Dynamic programming on the smallest problems.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/search/dynamic_programming.hpp>

namespace tests_of_dynamic_programming {

using namespace unity;

namespace {

// The smallest: a number, which has no parts.
struct archetype {
  using goal_type = int;
  using value_type = int;
  static fingerprint fingerprint_of(const int& g) { return hasher{static_cast<std::uint64_t>(g)}.result(); }
  static std::vector<int> subgoals(const int&) { return {}; }
  static int combine(const int& g, std::span<const int* const>) { return g; }
};
static_assert(decomposition<archetype>);

struct without_fingerprint : archetype {
  static int fingerprint_of(const int& g) { return g; }
};
static_assert(!decomposition<without_fingerprint>);
static_assert(has_subgoals<without_fingerprint>);

struct combines_by_value : archetype {
  static int combine(const int& g, const std::vector<int>&) { return g; }
};
static_assert(!decomposition<combines_by_value>);

// The cheapest order of a chain of matrix products; values are numbers of scalar multiplications.
struct matrix_chain {
  struct goal_type {
    std::size_t first = 0;
    std::size_t last = 0;  // matrices [first, last)
  };
  using value_type = std::int64_t;

  [[nodiscard]] fingerprint fingerprint_of(const goal_type& g) const {
    hasher h;
    for (auto i = g.first; i <= g.last; ++i) {
      h.add(static_cast<std::uint64_t>(sizes[i]));
    }
    return h.result();
  }
  [[nodiscard]] static std::vector<goal_type> subgoals(const goal_type& g) {
    std::vector<goal_type> all;
    for (auto i = g.first + 1; i < g.last; ++i) {
      all.push_back({g.first, i});
      all.push_back({i, g.last});
    }
    return all;
  }
  std::int64_t combine(const goal_type& g, std::span<const std::int64_t* const> values) {
    ++combined;
    std::int64_t best = values.empty() ? 0 : INT64_MAX;
    for (std::size_t k = 0; 2 * k < values.size(); ++k) {
      const auto middle = g.first + 1 + k;
      best = std::min(best, *values[2 * k] + *values[2 * k + 1] + sizes[g.first] * sizes[middle] * sizes[g.last]);
    }
    return best;
  }

  std::vector<std::int64_t> sizes{};
  std::size_t combined = 0;
};

std::int64_t slow(const std::vector<std::int64_t>& sizes, std::size_t first, std::size_t last) {
  std::int64_t best = last - first == 1 ? 0 : INT64_MAX;
  for (auto i = first + 1; i < last; ++i) {
    best = std::min(best, slow(sizes, first, i) + slow(sizes, i, last) + sizes[first] * sizes[i] * sizes[last]);
  }
  return best;
}

}  // namespace

TEST_CASE("dynamic programming finds the optimal order of a matrix chain") {
  const std::uint64_t seed = 4;
  INFO("seed " << seed);
  random_engine random{seed};
  for (int i = 0; i < 50; ++i) {
    matrix_chain chain;
    for (std::size_t n = 2 + random.below(7); n-- > 0;) {
      chain.sizes.push_back(1 + static_cast<std::int64_t>(random.below(9)));
    }
    const auto matrices = chain.sizes.size() - 1;
    dynamic_program program{chain};
    CHECK(program.solve({0, matrices}) == slow(chain.sizes, 0, matrices));
    CHECK(program.goals() <= matrices * (matrices + 1) / 2);
    CHECK(program.goals() == chain.combined);
  }
}

TEST_CASE("dynamic programming reuses solved goals until they are forgotten") {
  matrix_chain chain;
  chain.sizes = {2, 3, 4, 5, 6};
  dynamic_program program{chain};
  const auto all = program.solve({0, 4});
  const auto before = chain.combined;
  CHECK(program.solve({0, 4}) == all);
  CHECK(program.solve({1, 3}) == slow(chain.sizes, 1, 3));
  CHECK(chain.combined == before);
  chain.sizes.push_back(7);  // only goals that contain the new matrix are solved anew
  CHECK(program.solve({0, 5}) == slow(chain.sizes, 0, 5));
  CHECK(chain.combined == before + 5);
  program.forget();
  CHECK(program.goals() == 0);
  CHECK(program.solve({0, 4}) == all);
}

namespace {

// A goal is a number; its subgoal, if any, is the number in `next`.
struct linked_goals {
  using goal_type = std::uint32_t;
  using value_type = std::uint64_t;

  [[nodiscard]] static fingerprint fingerprint_of(goal_type g) { return {g, 1}; }
  [[nodiscard]] std::vector<goal_type> subgoals(goal_type g) const {
    return next[g] == none ? std::vector<goal_type>{} : std::vector<goal_type>{next[g]};
  }
  [[nodiscard]] static std::uint64_t combine(goal_type, std::span<const std::uint64_t* const> values) {
    return values.empty() ? 0 : *values[0] + 1;
  }

  static constexpr std::uint32_t none = 0xffffffff;
  std::vector<std::uint32_t> next{};
};

struct numbered_chain : matrix_chain {
  [[nodiscard]] std::uint32_t number_of(const goal_type& g) const {
    return static_cast<std::uint32_t>(g.first * sizes.size() + g.last);
  }
};
static_assert(!numbered_goals<matrix_chain> && numbered_goals<numbered_chain>);

}  // namespace

TEST_CASE("dynamic programming solves a chain of a million goals") {
  linked_goals chain;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) {
    chain.next.push_back(i + 1);
  }
  chain.next.push_back(linked_goals::none);
  dynamic_program program{chain};
  CHECK(program.solve(0) == 1'000'000);
  CHECK(program.goals() == 1'000'001);
}

TEST_CASE("a cyclic goal of dynamic programming is an error that keeps solved goals") {
  linked_goals goals;
  goals.next = {1, 2, 3, 1, linked_goals::none, 4};
  dynamic_program program{goals};
  CHECK(program.solve(5) == 1);
  CHECK_THROWS_WITH(program.solve(0), "dynamic program: goal 00000000000000010000000000000001 below itself, after 3; "
                                      "expected subgoals that end");
  CHECK(program.goals() == 2);
  CHECK(program.solve(5) == 1);
  goals.next[3] = linked_goals::none;
  CHECK(program.solve(0) == 3);
}

TEST_CASE("dynamic programming gives equal values for numbered and fingerprinted goals") {
  const std::uint64_t seed = 9;
  INFO("seed " << seed);
  random_engine random{seed};
  for (int i = 0; i < 20; ++i) {
    numbered_chain numbered;
    for (std::size_t n = 2 + random.below(30); n-- > 0;) {
      numbered.sizes.push_back(1 + static_cast<std::int64_t>(random.below(9)));
    }
    matrix_chain plain = numbered;
    dynamic_program fast{numbered};
    dynamic_program slow_one{plain};
    CHECK(fast.solve({0, numbered.sizes.size() - 1}) == slow_one.solve({0, numbered.sizes.size() - 1}));
    CHECK(fast.goals() == numbered.combined);
  }
}

namespace {

struct deciding_chain : matrix_chain {
  using decision_type = std::size_t;  // matrices left of the last product, not an index: equal goals share a decision
  std::int64_t combine(const goal_type& g, std::span<const std::int64_t* const> values, std::size_t& left) {
    std::int64_t best = values.empty() ? 0 : INT64_MAX;
    for (std::size_t k = 0; 2 * k < values.size(); ++k) {
      const auto cost = *values[2 * k] + *values[2 * k + 1] + sizes[g.first] * sizes[g.first + 1 + k] * sizes[g.last];
      if (cost < best) {
        best = cost;
        left = 1 + k;
      }
    }
    return best;
  }
};
static_assert(decomposition<deciding_chain> && has_decided_combination<deciding_chain>);
static_assert(!has_decided_combination<matrix_chain>);

// The cost of the order that was decided.
std::int64_t decided_cost(const deciding_chain& c, dynamic_program<deciding_chain>& solved,
                          const matrix_chain::goal_type& g) {
  if (g.last - g.first == 1) {
    return 0;
  }
  const auto middle = g.first + solved.decision(g);
  return decided_cost(c, solved, {g.first, middle}) + decided_cost(c, solved, {middle, g.last}) +
         c.sizes[g.first] * c.sizes[middle] * c.sizes[g.last];
}

}  // namespace

TEST_CASE("stored decisions of dynamic programming reproduce the optimal value") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    deciding_chain chain;
    for (std::size_t i = 0; i < 12; ++i) {
      chain.sizes.push_back(random.between(1, 9));
    }
    dynamic_program<deciding_chain> p{chain};
    const auto value = p.solve({0, chain.sizes.size() - 1});
    REQUIRE(value == decided_cost(chain, p, {0, chain.sizes.size() - 1}));
    matrix_chain plain;
    plain.sizes = chain.sizes;
    REQUIRE(value == dynamic_program<matrix_chain>{plain}.solve({0, plain.sizes.size() - 1}));
  }
}

}  // namespace tests_of_dynamic_programming
