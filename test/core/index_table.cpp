#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/random.hpp>

namespace tests_of_index_table {

using unity::index_table;

namespace {

// A set of words in order of insertion, looked up through the table.
struct interner {
  index_table table;
  std::vector<std::uint64_t> words;
  std::uint64_t (*hash)(std::uint64_t);

  std::uint32_t find(std::uint64_t word) const {
    return table.find(hash(word), [&](std::uint32_t i) { return words[i] == word; });
  }
  std::uint32_t intern(std::uint64_t word) {
    const auto known = find(word);
    if (known != index_table::none) {
      return known;
    }
    words.push_back(word);
    const auto index = static_cast<std::uint32_t>(words.size() - 1);
    table.insert(hash(word), index);
    return index;
  }
};

std::uint64_t good_hash(std::uint64_t word) { return unity::mix64(word); }
std::uint64_t same_slot(std::uint64_t word) { return unity::mix64(word) << 32U; }
std::uint64_t same_tag(std::uint64_t word) { return unity::mix64(word) >> 32U; }
std::uint64_t few_hashes(std::uint64_t word) { return unity::mix64(word % 7); }

}  // namespace

TEST_CASE("an empty index_table finds nothing") {
  const index_table table;
  CHECK(table.size() == 0);
  CHECK(table.find(42, [](std::uint32_t) { return true; }) == index_table::none);
}

TEST_CASE("an index_table finds inserted entries and no others with good and bad hashes") {
  const auto hash = GENERATE(&good_hash, &same_slot, &same_tag, &few_hashes);
  const auto seed = GENERATE(std::uint64_t{1}, std::uint64_t{2});
  CAPTURE(seed);
  unity::random_engine random{seed};
  interner set{{}, {}, hash};
  for (int i = 0; i < 3000; ++i) {
    const auto word = random.below(1000);
    const auto index = set.intern(word);
    REQUIRE(set.words[index] == word);
    REQUIRE(set.table.size() == set.words.size());
  }
  for (std::size_t i = 0; i < set.words.size(); ++i) {
    REQUIRE(set.find(set.words[i]) == i);
  }
  for (std::uint64_t word = 1000; word < 1100; ++word) {
    REQUIRE(set.find(word) == index_table::none);
  }
}

TEST_CASE("an index_table of 10000 entries reports memory within bounds") {
  interner set{{}, {}, &good_hash};
  for (std::uint64_t word = 0; word < 10000; ++word) {
    set.intern(word);
  }
  CHECK(set.table.memory() >= 10000 * sizeof(std::uint64_t));
  CHECK(set.table.memory() <= 10000 * 8 * sizeof(std::uint64_t) + 1024);
}

using unity::fingerprint;
using unity::fingerprint_set;

TEST_CASE("fingerprint_set::insert reports whether a fingerprint is new; also for zero") {
  fingerprint_set set;
  CHECK(set.size() == 0);
  CHECK_FALSE(set.contains({0, 0}));
  CHECK_FALSE(set.contains({1, 0}));
  CHECK(set.insert({0, 0}));
  CHECK_FALSE(set.insert({0, 0}));
  CHECK(set.insert({0, 1}));
  CHECK(set.insert({1, 0}));
  CHECK_FALSE(set.insert({1, 0}));
  CHECK(set.size() == 3);
}

TEST_CASE("a fingerprint_set agrees with std::set on random fingerprints") {
  const auto seed = GENERATE(std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3});
  CAPTURE(seed);
  unity::random_engine random{seed};
  fingerprint_set set;
  std::set<fingerprint> truth;
  for (int i = 0; i < 20000; ++i) {
    const fingerprint f{seed == 3 ? 7 : random.below(100), random.below(100)};
    REQUIRE(set.contains(f) == truth.contains(f));
    REQUIRE(set.insert(f) == truth.insert(f).second);
  }
  CHECK(set.size() == truth.size());
  for (std::uint64_t absent = 100; absent < 200; ++absent) {
    REQUIRE_FALSE(set.contains({absent, absent}));
  }
  std::set<fingerprint> visited;
  set.for_each([&](fingerprint f) { CHECK(visited.insert(f).second); });
  CHECK(visited == truth);
  CHECK(set.memory() >= (truth.size() - 1) * sizeof(fingerprint));
}

}  // namespace tests_of_index_table
