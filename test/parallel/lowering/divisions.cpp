#include <unity/parallel/lowering/divisions.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include "../operators.hpp"

namespace tests_of_divisions {

using namespace unity;

TEST_CASE("division_table builds a division once with the distinct parts of its operands") {
  const auto o =
      parallel::test::dimensions("matmul", {}, {parallel::test::type({8, 4}), parallel::test::type({4, 6}, true)});
  parallel::division_table table;
  const auto& rows = table.of(3, o, {2, 1});
  CHECK(&table.of(3, o, {2, 1}) == &rows);
  CHECK(rows.parts == parallel::shards_of(o, {2, 1}));
  CHECK(rows.operands[0].boxes.size() == 2);
  CHECK(rows.operands[1].boxes.size() == 1);
  CHECK(rows.operands[1].of == std::vector<std::uint32_t>{0, 0});
  CHECK(table.of(0, o, {1, 2}).number != rows.number);
}

TEST_CASE("division_table overlaps pair the boxes of two divisions for each operand") {
  const auto first =
      parallel::test::dimensions("matmul", {}, {parallel::test::type({6, 4}), parallel::test::type({4, 6}, true)});
  const auto second =
      parallel::test::dimensions("mul", {}, {parallel::test::type({6, 6}), parallel::test::type({6, 6})});
  parallel::division_table table;
  const auto& from = table.of(0, first, {2, 1});
  const auto& to = table.of(1, second, {1, 3});
  const std::vector<std::uint32_t> one{0};
  const std::vector<std::uint32_t> both{0, 1};
  for (int i = 0; i < 2; ++i) {
    const auto all = table.overlaps(from, 0, to, one);
    REQUIRE(all.size() == 6);
    CHECK(all[4] == parallel::overlap{1, 1, 6});
    CHECK(table.overlaps(from, 0, to, both).size() == 12);
  }
}

}  // namespace tests_of_divisions
