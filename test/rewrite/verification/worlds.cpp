#include <optional>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/verification/worlds.hpp>

#include "../../support/matrices.hpp"

namespace tests_of_worlds {

using namespace unity;
using namespace unity::test;

namespace {

using form = matrix_op::form;

struct two_worlds {
  matrices algebra{};
  world_tables<matrices> tables{algebra, 2};

  type_row type(matrix_shape a, matrix_shape b) { return tables.intern_types(std::vector{a, b}); }
  attribute_row row(const attribute& a, const attribute& b) { return tables.intern_attributes(std::vector{a, b}); }
};

}  // namespace

TEST_CASE("world_tables rows are equal if they are equal in each world") {
  two_worlds w;
  CHECK(w.type({2, 3}, {4, 5}) == w.type({2, 3}, {4, 5}));
  CHECK(w.type({2, 3}, {4, 5}) != w.type({2, 3}, {4, 6}));
  CHECK(w.row({1}, {2}) != w.row({1}, {1}));
  CHECK(w.row({7}, {7}) == w.tables.intern_literal({7}));
  CHECK(w.tables.uniform(w.tables.intern_literal({7})));
  CHECK_FALSE(w.tables.uniform(w.row({1}, {2})));
  CHECK(w.tables.types(w.type({2, 3}, {4, 5}))[1] == matrix_shape{4, 5});
}

TEST_CASE("world_tables operators have one kind per row and know their attributes") {
  two_worlds w;
  const std::vector<matrix_op> same{{form::scale, {attribute{2}}}, {form::scale, {attribute{3}}}};
  const auto op = w.tables.intern_operators(same);
  REQUIRE(op);
  CHECK(w.tables.kind(*op) == w.algebra.find_kind("scale"));
  REQUIRE(w.tables.attributes_of(*op).size() == 1);
  CHECK(w.tables.attributes_of(*op)[0] == w.row({2}, {3}));
  CHECK(w.tables.make(w.tables.kind(*op), w.tables.attributes_of(*op)) == op);
  const std::vector<matrix_op> mixed{{form::scale, {attribute{2}}}, {form::transpose, {}}};
  CHECK_FALSE(w.tables.intern_operators(mixed));
}

TEST_CASE("world_tables refuses an operator that fails in some world") {
  two_worlds w;
  const auto op = w.tables.make(*w.algebra.find_kind("matmul"), {});
  REQUIRE(op);
  const auto infer = [&](type_row a, type_row b) {
    const auto results = w.tables.infer(*op, std::vector{a, b});
    return results ? std::optional{results->front()} : std::nullopt;
  };
  CHECK(infer(w.type({2, 3}, {4, 5}), w.type({3, 6}, {5, 7})) == w.type({2, 6}, {4, 7}));
  CHECK_FALSE(infer(w.type({2, 3}, {4, 5}), w.type({3, 6}, {4, 7})));
  CHECK_FALSE(w.tables.make(*w.algebra.find_kind("scale"), std::vector{w.row({2}, {2, 3})}));

  // The numbers of results must agree.
  const auto parts =
      w.tables.make(*w.algebra.find_kind("split"), std::vector{w.row({0}, {0}), w.row({1, 1}, {1, 1, 1})});
  REQUIRE(parts);
  CHECK_FALSE(w.tables.infer(*parts, std::vector{w.type({2, 3}, {3, 3})}));
}

TEST_CASE("world_tables adds no entry for a repeated inference") {
  two_worlds w;
  const auto op = *w.tables.make(*w.algebra.find_kind("transpose"), {});
  const auto type = w.type({2, 3}, {4, 5});
  const auto first = w.tables.infer(op, {&type, 1});
  const auto size = w.tables.size();
  REQUIRE(first);
  CHECK(w.tables.infer(op, {&type, 1})->front() == first->front());
  CHECK(w.tables.size() == size);
}

}  // namespace tests_of_worlds
