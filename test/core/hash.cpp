#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/core.h>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>

namespace tests_of_hash {

using unity::fingerprint;

static_assert(std::regular<fingerprint> && std::totally_ordered<fingerprint>);

TEST_CASE("mix64 is the finalizer of splitmix64") {
  // The first outputs of the published reference generator seeded with 1234567.
  std::uint64_t state = 1234567;
  for (const std::uint64_t expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U}) {
    CHECK(unity::mix64(state) == expected);
    state += 0x9e3779b97f4a7c15U;
  }
}

TEST_CASE("flipping one input bit of mix64 flips about half of the output bits") {
  std::mt19937_64 random{1};
  for (int bit = 0; bit < 64; ++bit) {
    CAPTURE(bit);
    int flipped = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto x = random();
      flipped += std::popcount(unity::mix64(x) ^ unity::mix64(x ^ (std::uint64_t{1} << bit)));
    }
    // The number of flipped bits has the distribution of 64,000 fair coins: mean 32,000, standard deviation 126.
    CHECK(flipped > 31000);
    CHECK(flipped < 33000);
  }
}

TEST_CASE("hash functions return their recorded values") {
  // Recorded values: hashes are keys of files that other processes read.
  static_assert(unity::hash_combine(1, 2) == 0xd0b725e93839f8bdU);
  static_assert(unity::hash_bytes("unity") == 0xc3e122d7b2ebdf94U);
  static_assert(unity::hasher{}.add(1).add(2).result() == fingerprint{0xe41985a70eafb642U, 0x7ec01ebbbbe8bde8U});
  CHECK(unity::hash_bytes(std::string{"unity"}) == unity::hash_bytes("unity"));
}

TEST_CASE("hash_combine depends on the order of its words") {
  CHECK(unity::hash_combine(unity::hash_combine(0, 1), 2) != unity::hash_combine(unity::hash_combine(0, 2), 1));
}

TEST_CASE("hash_bytes distinguishes strings by each byte and by length") {
  std::unordered_set<std::uint64_t> seen;
  std::string text;
  for (int length = 0; length < 40; ++length) {
    CAPTURE(length);
    CHECK(seen.insert(unity::hash_bytes(text)).second);  // zero bytes only: the length alone differs
    for (std::size_t i = 0; i < text.size(); ++i) {
      auto changed = text;
      changed[i] = 'x';
      CHECK(seen.insert(unity::hash_bytes(changed)).second);
    }
    text.push_back('\0');
  }
}

TEST_CASE("a sum of fingerprints is independent of order and can be updated incrementally") {
  std::mt19937_64 random{2};
  std::vector<fingerprint> members;
  fingerprint sum;
  for (int i = 0; i < 100; ++i) {
    members.push_back(unity::hasher{random()}.add(random()).result());
    sum += members.back();
  }
  std::shuffle(members.begin(), members.end(), random);
  fingerprint shuffled;
  for (const auto m : members) {
    shuffled += m;
  }
  CHECK(shuffled == sum);
  const auto added = unity::hasher{random()}.result();
  CHECK((sum - members[3]) + added == (sum + added) - members[3]);
  CHECK(sum - sum == fingerprint{});
  CHECK(sum + added != sum);
}

TEST_CASE("both halves of a hasher's result depend on order and length and seed") {
  std::unordered_set<std::uint64_t> low;
  std::unordered_set<std::uint64_t> high;
  const auto see = [&](fingerprint f) {
    CHECK(low.insert(f.low).second);
    CHECK(high.insert(f.high).second);
  };
  for (std::uint64_t a = 0; a < 30; ++a) {
    see(unity::hasher{}.add(100 + a).result());
    for (std::uint64_t b = 0; b < 30; ++b) {
      see(unity::hasher{}.add(100 + a).add(100 + b).result());
      see(unity::hasher{a}.add(b).add(0).result());
    }
  }
}

TEST_CASE("a fingerprint is formatted as 32 hexadecimal digits") {
  CHECK(fmt::format("{}", unity::fingerprint{0xab, 1}) == "000000000000000100000000000000ab");
}

}  // namespace tests_of_hash
