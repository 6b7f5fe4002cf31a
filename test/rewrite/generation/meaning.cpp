// Groups of renamings, and the variables of one term as those of another, compared with all possibilities.

#include <unity/rewrite/generation/meaning.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/generation/term_store.hpp>

#include "../../support/cases.hpp"

namespace tests_of_meaning {

using namespace unity;

namespace {

variable_map random_renaming(random_engine& random, std::size_t count) {
  auto m = variable_map::identity().cut(count);
  for (auto i = count; i > 1; --i) {
    const auto j = random.below(i);
    const auto last = m[i - 1];
    m.set(i - 1, m[j]);
    m.set(j, last);
  }
  return m;
}

std::vector<variable_map> identity_alone(std::size_t count) { return {variable_map::identity().cut(count)}; }

// The least set that contains the identity and, with each renaming, its products with all generators.
std::set<std::uint32_t> generated_slowly(const std::vector<variable_map>& generators, std::size_t count) {
  std::set<std::uint32_t> all{variable_map::identity().cut(count).bits()};
  std::size_t before = 0;
  while (all.size() > before) {
    before = all.size();
    for (const auto bits : std::vector<std::uint32_t>(all.begin(), all.end())) {
      for (const auto g : generators) {
        variable_map product;
        for (std::size_t i = 0; i < count; ++i) {
          product.set(i, g[variable_map::from_bits(bits)[i]]);
        }
        all.insert(product.bits());
      }
    }
  }
  return all;
}

std::set<std::uint32_t> set_of(const std::vector<variable_map>& group) {
  std::set<std::uint32_t> all;
  for (const auto m : group) {
    all.insert(m.bits());
  }
  return all;
}

// A term with variables of random sorts and names; no two have the same sort and the same name.
std::pair<term_facts, meaning> random_term(random_engine& random, std::size_t sorts) {
  std::pair<term_facts, meaning> t;
  auto& [facts, m] = t;
  std::set<std::pair<std::size_t, std::size_t>> used;
  const auto variables = random.below(variable_map::most + 1);
  for (std::size_t i = 0; i < variables; ++i) {
    const auto sort = random.below(sorts);
    const auto name = random.below(variable_map::most);
    if (used.emplace(sort, name).second) {
      facts.sorts.set(facts.variables, sort);
      m.names.set(facts.variables++, name);
    }
  }
  return t;
}

}  // namespace

TEST_CASE("close_group makes the group that renamings generate", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::set<std::size_t> orders;
  for (std::uint64_t round = 0; round < unity::test::cases(150); ++round) {
    const auto count = 1 + random.below(5);
    std::vector<variable_map> more;
    for (auto n = random.below(3); n > 0; --n) {
      more.push_back(random_renaming(random, count));
    }
    CAPTURE(round, count, more.size());
    auto group = identity_alone(count);
    close_group(group, more, count);
    REQUIRE(set_of(group) == generated_slowly(more, count));
    CHECK(set_of(group).size() == group.size());  // each renaming once
    CHECK(group[0] == variable_map::identity().cut(count));
    CHECK(std::is_sorted(group.begin() + 1, group.end()));
    for (const auto m : group) {
      CHECK(std::find(group.begin(), group.end(), m.inverse(count)) != group.end());
    }
    orders.insert(group.size());
    // The same group in two steps, and again.
    auto stepwise = identity_alone(count);
    for (const auto& m : more) {
      close_group(stepwise, {&m, 1}, count);
    }
    CHECK(stepwise == group);
    close_group(stepwise, more, count);
    CHECK(stepwise == group);
  }
  CHECK(orders.size() > 3);
}

TEST_CASE("translate maps each variable to the one of the same sort and name", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t found = 0;
  std::size_t refused = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(2000); ++round) {
    CAPTURE(round);
    const auto sorts = 1 + random.below(3);
    const auto [left, l] = random_term(random, sorts);
    auto [right, r] = random_term(random, sorts);
    if (random.below(2) == 0) {  // some variables of the left term, in another order
      right = {};
      r = {};
      const auto order = random_renaming(random, left.variables);
      right.variables = static_cast<std::uint8_t>(random.below(left.variables + 1U));
      for (std::size_t j = 0; j < right.variables; ++j) {
        right.sorts.set(j, left.sorts[order[j]]);
        r.names.set(j, l.names[order[j]]);
      }
    }
    std::set<std::pair<std::size_t, std::size_t>> known;
    for (std::size_t i = 0; i < left.variables; ++i) {
      known.emplace(left.sorts[i], l.names[i]);
    }
    bool has_others = false;
    for (std::size_t j = 0; j < right.variables; ++j) {
      has_others = has_others || !known.contains({right.sorts[j], r.names[j]});
    }
    const auto map = translate(right, r, left, l);
    REQUIRE(map.has_value() == !has_others);
    (map ? found : refused) += 1;
    for (std::size_t j = 0; map && j < right.variables; ++j) {
      REQUIRE((*map)[j] < left.variables);
      CHECK(left.sorts[(*map)[j]] == right.sorts[j]);
      CHECK(l.names[(*map)[j]] == r.names[j]);
    }
    CHECK(translate(left, l, left, l) == variable_map::identity().cut(left.variables));
  }
  CHECK(found > 0);
  CHECK(refused > 0);
}

}  // namespace tests_of_meaning
