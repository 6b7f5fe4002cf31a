#include <concepts>
#include <cstddef>
#include <cstdint>
#include <unordered_set>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>

namespace tests_of_id {

using unity::node_id;
using unity::value_id;

static_assert(std::regular<node_id>);
static_assert(std::totally_ordered<node_id>);
static_assert(std::is_trivially_copyable_v<node_id> && sizeof(node_id) == 4);
static_assert(!std::equality_comparable_with<node_id, value_id>, "ids of two kinds do not mix");
static_assert(!std::convertible_to<node_id, value_id> && !std::constructible_from<node_id, value_id>);
static_assert(!std::convertible_to<std::uint32_t, node_id>, "an integer becomes an id only when asked to");
static_assert(!std::convertible_to<node_id, bool> && !std::convertible_to<node_id, std::uint32_t>);

TEST_CASE("a default-constructed id is invalid") {
  constexpr node_id none;
  CHECK_FALSE(none.valid());
  CHECK_FALSE(static_cast<bool>(none));
  CHECK(none == node_id{});
}

TEST_CASE("ids keep their index and are ordered by it with the null id last") {
  const node_id first{0U};
  const node_id second{std::size_t{1}};
  CHECK(first.valid());
  CHECK(first.index() == 0);
  CHECK(second.index() == 1);
  CHECK(first < second);
  CHECK(second < node_id{});
}

TEST_CASE("ids can be keys of hash tables") {
  std::unordered_set<value_id> seen;
  for (std::uint32_t i = 0; i < 100; ++i) {
    CHECK(seen.insert(value_id{i}).second);
  }
  CHECK_FALSE(seen.insert(value_id{42U}).second);
}

}  // namespace tests_of_id
