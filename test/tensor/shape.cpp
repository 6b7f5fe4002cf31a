#include <concepts>
#include <cstdint>
#include <functional>
#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_shape {

using namespace unity::tensor;

static_assert(std::regular<shape> && std::regular<tensor_type> && unity::hashable<tensor_type>);
static_assert(std::regular<operation> && unity::hashable<operation>);

TEST_CASE("element types are found by name and have the sizes of their formats") {
  for (const auto name : dtype_names) {
    CHECK(name_of(*find_dtype(name)) == name);
  }
  CHECK_FALSE(find_dtype("float").has_value());
  CHECK(size_of(dtype::float32) == 4);
  CHECK(size_of(dtype::bfloat16) == 2);
  CHECK(size_of(dtype::int64) == 8);
  CHECK(size_of(dtype::boolean) == 1);
  CHECK((is_floating(dtype::float16) && !is_floating(dtype::int64) && !is_floating(dtype::boolean)));
  CHECK((is_integral(dtype::uint8) && !is_integral(dtype::float64) && !is_integral(dtype::boolean)));
}

TEST_CASE("checked_element_count refuses overflow and invalid dimensions") {
  CHECK(checked_element_count(shape{}) == 1);
  CHECK(checked_element_count(shape{2, 3, 4}) == 24);
  CHECK(checked_element_count(shape{max_elements}) == max_elements);
  CHECK_FALSE(checked_element_count(shape{max_elements, 2}).has_value());
  CHECK_FALSE(checked_element_count(shape{INT64_MAX, INT64_MAX, INT64_MAX}).has_value());
  CHECK_FALSE(checked_element_count(shape{2, 0}).has_value());
  CHECK_FALSE(checked_element_count(shape{-2, -3}).has_value());
  CHECK_FALSE(checked_element_count(shape(max_rank + 1, 1)).has_value());
}

TEST_CASE("strides_of follows row_major and column_major layout") {
  CHECK(strides_of(shape{2, 3, 4, 5}) == shape{60, 20, 5, 1});
  CHECK(strides_of(shape{2, 3, 4, 5}, layout::column_major) == shape{60, 20, 1, 4});
  CHECK(strides_of(shape{7}, layout::column_major) == shape{1});
  CHECK(strides_of(shape{}).empty());
}

TEST_CASE("shapes broadcast as in NumPy") {
  CHECK(broadcast(shape{2, 1, 4}, shape{3, 1}) == shape{2, 3, 4});
  CHECK(broadcast(shape{3, 1}, shape{2, 1, 4}) == shape{2, 3, 4});
  CHECK(broadcast(shape{}, shape{5}) == shape{5});
  CHECK_FALSE(broadcast(shape{2}, shape{3}).has_value());
}

TEST_CASE("tensor types that differ in layout or constness or shape compare and hash as different") {
  const tensor_type t{dtype::float32, layout::row_major, false, {2, 3}};
  auto column = t;
  column.order = layout::column_major;
  auto constant = t;
  constant.constant = true;
  auto other = t;
  other.dims = {3, 2};
  const std::hash<tensor_type> hash;
  for (const auto& u : {column, constant, other}) {
    CHECK_FALSE(u == t);
    CHECK(hash(u) != hash(t));
  }
  CHECK(to_string(t) == "float32[2,3]");
  CHECK(to_string(column) == "float32[2,3] column_major");
}

TEST_CASE("the hash of an operation is a recorded value and depends on attributes and layout") {
  const operation op{unity::kind_id{std::size_t{3}}, {{1, 2}, {}}, layout::row_major};
  const std::hash<operation> hash;
  CHECK(hash(op) == hash(operation{op}));
  CHECK(hash(op) != hash(operation{op.kind, {{1, 2}, {}}, layout::column_major}));
  CHECK(hash(op) != hash(operation{op.kind, {{1}, {2}}, layout::row_major}));
  CHECK(hash(op) == UINT64_C(17157447378452353782));  // recorded
}

TEST_CASE("fmt formats tensor types / element types / layouts") {
  unity::tensor::tensor_type t;
  CHECK(fmt::format("{}", t) == "float32[]");
  t.dims = {2, 3};
  t.element = unity::tensor::dtype::boolean;
  CHECK(fmt::format("{} {}", t.element, t) == "bool bool[2,3]");
  t.order = unity::tensor::layout::column_major;
  CHECK(fmt::format("{}, {}", t, t.order) == "bool[2,3] column_major, column_major");
  CHECK(to_string(t) == fmt::format("{}", t));
}

}  // namespace tests_of_shape
