// Lists of links in one array, compared with a vector per list.

#include <unity/tasks/detail/links.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>

#include "../../support/cases.hpp"

namespace tests_of_links {

using namespace unity;
using tasks::task_link;
using tasks::detail::link_list;
using tasks::detail::link_pool;
using tasks::detail::ranges;

namespace {

// A list as it should be, beside the one of the pool.
struct twin {
  link_list list{};
  std::vector<task_link> links{};
  std::uint32_t reserved = 0;  // links for which space was asked
  std::uint32_t at = 0;        // the place of that space
};

task_link random_link(random_engine& random) {
  return {static_cast<std::uint32_t>(random.below(6)), random.below(2) == 0};  // few, so that some are equal
}

// What `remove` is documented to do.
void remove_last_equal(std::vector<task_link>& links, task_link link) {
  const auto last = std::find(links.rbegin(), links.rend(), link);
  REQUIRE(last != links.rend());
  *last = links.back();
  links.pop_back();
}

bool is_same(const link_pool& pool, const twin& t) {
  const auto seen = pool.view(t.list.first, t.list.count);
  return std::equal(seen.begin(), seen.end(), t.links.begin(), t.links.end());
}

}  // namespace

TEST_CASE("task_link keeps its task and whether it is cut through") {
  constexpr auto most = std::numeric_limits<std::uint32_t>::max() >> 1U;
  for (const std::uint32_t task : {0U, 1U, 2U, 12'345U, most}) {
    for (const bool cut_through : {false, true}) {
      const task_link link{task, cut_through};
      CHECK(link.task() == task);
      CHECK(link.cut_through() == cut_through);
      CHECK_FALSE(link == task_link{task, !cut_through});
      CHECK_FALSE(link == task_link{task == 0 ? 1 : task - 1, cut_through});
    }
  }
  CHECK(task_link{} == task_link{0, false});
}

TEST_CASE("ranges round sizes up to the next power of two") {
  std::uint32_t expected = 0;
  for (std::size_t size = 0; size < 5000; ++size) {
    while ((std::size_t{1} << expected) < size) {
      ++expected;
    }
    REQUIRE(ranges::size_class(size) == expected);
  }
  CHECK(ranges::size_class((std::size_t{1} << 31U) - 1) == 31);
  CHECK(ranges::size_class(std::size_t{1} << 31U) == 31);
}

TEST_CASE("ranges in use never overlap, and one given back last is the first to be reused", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  for (std::uint64_t round = 0; round < unity::test::cases(40); ++round) {
    CAPTURE(round);
    ranges places;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> used;  // first, size class
    std::map<std::uint32_t, std::vector<std::uint32_t>> free;
    std::vector<bool> is_used;
    for (int step = 0; step < 300; ++step) {
      if (used.empty() || random.below(5) < 3) {
        const auto size_class = static_cast<std::uint32_t>(random.below(6));
        const auto before = places.end();
        const auto first = places.take(size_class);
        if (free[size_class].empty()) {
          REQUIRE(first == before);  // new places follow those handed out so far
          REQUIRE(places.end() == before + (std::size_t{1} << size_class));
        } else {
          REQUIRE(first == free[size_class].back());
          REQUIRE(places.end() == before);
          free[size_class].pop_back();
        }
        is_used.resize(places.end());
        for (std::size_t p = first; p < first + (std::size_t{1} << size_class); ++p) {
          REQUIRE_FALSE(is_used[p]);
          is_used[p] = true;
        }
        used.emplace_back(first, size_class);
      } else {
        const auto i = static_cast<std::ptrdiff_t>(random.below(used.size()));
        const auto [first, size_class] = used[static_cast<std::size_t>(i)];
        used.erase(used.begin() + i);
        places.give_back(first, size_class);
        free[size_class].push_back(first);
        std::fill_n(is_used.begin() + first, std::size_t{1} << size_class, false);
      }
    }
  }
}

TEST_CASE("link_pool holds the same links as a vector per list", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t removed_among_equal = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(60); ++round) {
    CAPTURE(round);
    link_pool pool;
    std::vector<twin> all(1 + random.below(8));
    for (int step = 0; step < 250; ++step) {
      auto& t = all[random.below(all.size())];
      const auto what = random.below(20);
      if (what == 0) {
        pool.release(t.list);
        t = {t.list, {}, 0, 0};
        REQUIRE(t.list.count == 0);
        REQUIRE(t.list.size_class == link_list::none);
      } else if (what < 4 && t.list.size_class == link_list::none) {
        t.reserved = static_cast<std::uint32_t>(random.below(20));
        pool.reserve(t.list, t.reserved);
        t.at = t.list.first;
        REQUIRE((t.list.size_class == link_list::none) == (t.reserved == 0));
      } else if (what < 8 && !t.links.empty()) {
        const auto link = t.links[random.below(t.links.size())];
        removed_among_equal += std::count(t.links.begin(), t.links.end(), link) > 1 ? 1 : 0;
        pool.remove(t.list, link);
        remove_last_equal(t.links, link);
      } else {
        const auto link = random_link(random);
        pool.add(t.list, link);
        t.links.push_back(link);
        if (t.links.size() <= t.reserved) {
          REQUIRE(t.list.first == t.at);  // the space suffices
        } else {
          t.reserved = 0;
        }
      }
      for (const auto& each : all) {
        REQUIRE(is_same(pool, each));
      }
    }
  }
  CHECK(removed_among_equal > 0);
}

TEST_CASE("link_pool reuses the places of released lists") {
  link_pool pool;
  std::vector<link_list> lists(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    pool.reserve(lists[i], 8);
  }
  const auto second = lists[1].first;
  const auto third = lists[2].first;
  pool.release(lists[1]);
  pool.release(lists[2]);
  link_list again;
  pool.reserve(again, 5);  // the same power of two
  CHECK(again.first == third);
  link_list after;
  pool.reserve(after, 7);
  CHECK(after.first == second);
  link_list grown;  // grows from 2 through 4 to 8 links; leaves the smaller ranges to others
  for (std::uint32_t i = 0; i < 8; ++i) {
    pool.add(grown, {i, false});
  }
  CHECK(grown.first > std::max(second, third));
  link_list pair;
  pool.add(pair, {1, true});
  CHECK(pair.first < grown.first);
  CHECK(pool.view(pair.first, pair.count)[0] == task_link{1, true});
  for (std::uint32_t i = 0; i < 8; ++i) {
    CHECK(pool.view(grown.first, grown.count)[i] == task_link{i, false});
  }
}

}  // namespace tests_of_links
