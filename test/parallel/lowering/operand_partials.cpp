#include <unity/parallel/lowering/operand_partials.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include "../operators.hpp"

namespace tests_of_operand_partials {

using namespace unity;
using parallel::operand_partials;
using parallel::partials_of;
using parallel::task_grid;
using parallel::test::dimensions;
using parallel::test::type;

TEST_CASE("a bias has a partial sum per part of the reduction and of both linear groups") {
  const auto o = dimensions("linear", {}, {type({8, 12}), type({12, 6}, true), type({6}, true)});
  REQUIRE(o.groups == std::vector<std::vector<std::size_t>>{{0, 2}, {1, 2}});
  const task_grid sum{{1, 1}, {2}, {}, 1};
  CHECK(partials_of(o, sum, 0) == operand_partials{});  // the parts of one partial
  CHECK(partials_of(o, sum, 1) == operand_partials{});
  CHECK(partials_of(o, sum, 2) == operand_partials{2, {0, 1}});
  const task_grid all{{1, 1}, {2}, {3, 1}, 2};  // partials, copies, parts
  CHECK(partials_of(o, all, 0) == operand_partials{3, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}});
  CHECK(partials_of(o, all, 1) == operand_partials{});
  CHECK(partials_of(o, all, 2) == operand_partials{6, {0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5}});
}

TEST_CASE("both operands of an add are partial sums together; those of a mul one at a time") {
  const task_grid two{{1, 1}, {}, {2}, 1};
  const auto sum = dimensions("add", {}, {type({8, 12}), type({8, 12})});
  CHECK(partials_of(sum, two, 0) == operand_partials{2, {0, 1}});
  CHECK(partials_of(sum, two, 1) == operand_partials{2, {0, 1}});
  const auto product = dimensions("mul", {}, {type({8, 12}), type({8, 12})});
  const task_grid second{{1, 1}, {}, {1, 2}, 1};
  CHECK(partials_of(product, second, 0) == operand_partials{});
  CHECK(partials_of(product, second, 1) == operand_partials{2, {0, 1}});
}

}  // namespace tests_of_operand_partials
