#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/random.hpp>

using unity::index_table;

namespace {

// A set of words in the order in which they came, found again through the table.
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

TEST_CASE("nothing is found in an empty index_table") {
  const index_table table;
  CHECK(table.size() == 0);
  CHECK(table.find(42, [](std::uint32_t) { return true; }) == index_table::none);
}

TEST_CASE("what went into an index_table is found again, and nothing else, under any hash") {
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

TEST_CASE("an index_table states its memory, which grows in proportion to its size") {
  interner set{{}, {}, &good_hash};
  for (std::uint64_t word = 0; word < 10000; ++word) {
    set.intern(word);
  }
  CHECK(set.table.memory() >= 10000 * sizeof(std::uint64_t));
  CHECK(set.table.memory() <= 10000 * 8 * sizeof(std::uint64_t) + 1024);
}
