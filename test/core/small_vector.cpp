#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>  // defines a formatter of ranges, which must not be chosen for small_vector

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>

namespace tests_of_small_vector {

using small = unity::small_vector<std::int64_t, 3>;

static_assert(std::regular<small>);
static_assert(std::three_way_comparable<small>);
static_assert(std::ranges::contiguous_range<small> && std::ranges::sized_range<small>);
static_assert(std::is_nothrow_move_constructible_v<small> && std::is_nothrow_move_assignable_v<small>);
static_assert(std::constructible_from<std::span<const std::int64_t>, const small&>);

namespace {

bool same(const small& a, const std::vector<std::int64_t>& b) {
  return std::ranges::equal(a, b) && a.size() == b.size() && a.empty() == b.empty();
}

// Applies one random operation to both.
void step(small& a, std::vector<std::int64_t>& b, unity::random_engine& random) {
  const auto value = random.between(-9, 9);
  const auto place = static_cast<std::ptrdiff_t>(random.below(b.size() + 1));
  const auto inside = place < std::ssize(b);
  switch (random.below(9)) {
    case 0:
    case 1:
      a.push_back(value);
      b.push_back(value);
      break;
    case 2:
      if (!b.empty()) {
        a.pop_back();
        b.pop_back();
      }
      break;
    case 3:
      CHECK(*a.insert(a.begin() + place, value) == *b.insert(b.begin() + place, value));
      break;
    case 4:
      if (inside) {
        CHECK(a.erase(a.begin() + place) - a.begin() == b.erase(b.begin() + place) - b.begin());
      }
      break;
    case 5:
      a.resize(random.below(10), value);
      b.resize(a.size(), value);
      break;
    case 6:
      if (inside) {
        a[static_cast<std::size_t>(place)] = value;
        b[static_cast<std::size_t>(place)] = value;
      }
      break;
    case 7: {
      const std::list<std::int64_t> items(random.below(4), value);
      a.append(items.begin(), items.end());
      b.insert(b.end(), items.begin(), items.end());
      break;
    }
    default:
      if (random.below(20) == 0) {
        a.clear();
        b.clear();
      }
  }
}

}  // namespace

TEST_CASE("small_vector agrees with std::vector on random operations") {
  const auto seed = GENERATE(range(std::uint64_t{0}, std::uint64_t{50}));
  CAPTURE(seed);
  unity::random_engine random{seed};
  small a;
  std::vector<std::int64_t> b;
  for (int i = 0; i < 200; ++i) {
    step(a, b, random);
    REQUIRE(same(a, b));
    if (!b.empty()) {
      REQUIRE(a.front() == b.front());
      REQUIRE(std::as_const(a).back() == b.back());
    }
  }
}

TEST_CASE("copies and moves of a small_vector keep the elements for inline and heap sizes") {
  for (std::size_t from = 0; from < 8; ++from) {
    for (std::size_t to = 0; to < 8; ++to) {
      CAPTURE(from, to);
      std::vector<std::int64_t> expected(from);
      std::ranges::generate(expected, [n = std::int64_t{0}]() mutable { return ++n; });
      const small source{std::span<const std::int64_t>{expected}};

      small copied(to, -1);
      copied = source;
      CHECK(same(copied, expected));
      CHECK(same(source, expected));
      copied.push_back(7);  // the copy owns its elements
      CHECK(same(source, expected));

      auto giver = source;
      small taker(to, -1);
      taker = std::move(giver);
      CHECK(same(taker, expected));
      giver = {4, 5};  // a moved-from vector can be assigned
      CHECK(same(giver, {4, 5}));
      CHECK(same(taker, expected));

      auto second_giver = source;
      const small constructed{std::move(second_giver)};
      CHECK(same(constructed, expected));
    }
  }
}

TEST_CASE("self-assignment of a small_vector changes nothing") {
  for (const std::size_t size : {2U, 6U}) {
    small a(size, 5);
    const auto& alias = a;
    a = alias;
    CHECK(same(a, std::vector<std::int64_t>(size, 5)));
  }
}

TEST_CASE("small_vector comparison is lexicographic as in std::vector") {
  unity::random_engine random{1};
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::int64_t> a(random.below(5));
    std::vector<std::int64_t> b(random.below(5));
    std::ranges::generate(a, [&] { return random.between(0, 1); });
    std::ranges::generate(b, [&] { return random.between(0, 1); });
    CAPTURE(a, b);
    const small x{std::span<const std::int64_t>{a}};
    const small y{std::span<const std::int64_t>{b}};
    CHECK((x <=> y) == (a <=> b));
    CHECK((x == y) == (a == b));
  }
}

TEST_CASE("small_vector stores up to N elements inline") {
  const auto inside = [](const small& v) {
    const auto* first = reinterpret_cast<const std::byte*>(&v);
    const auto* data = reinterpret_cast<const std::byte*>(v.data());
    return data >= first && data < first + sizeof v;
  };
  small v{1, 2, 3};
  CHECK(inside(v));
  v.push_back(4);
  CHECK_FALSE(inside(v));
  CHECK(same(v, {1, 2, 3, 4}));
}

TEST_CASE("a small_vector is formatted as its elements in brackets") {
  CHECK(fmt::format("{} {} {}", small{}, small{2}, small{2, -3, 4, 5}) == "[] [2] [2,-3,4,5]");
}

}  // namespace tests_of_small_vector
