#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operators/matmul.hpp>
#include <unity/tensor/operators/sources.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/index_structure.hpp>

#include "../support/message_of.hpp"
#include "testing.hpp"

namespace tests_of_algebra {

using namespace unity::tensor;
using namespace unity::tensor::test;
using unity::test::message_of;

static_assert(std::semiregular<algebra>);
static_assert(unity::algebra<algebra>);
static_assert(unity::pattern_algebra<algebra>);
static_assert(unity::costed_algebra<algebra>);
static_assert(unity::variant_algebra<algebra>);

namespace {

// A user-defined operator: the squared distances between the rows of two matrices.
definition distances() {
  const auto iteration = [](space& s, const attribute_reader&) {
    const auto m = s.parallel("m");
    const auto n = s.parallel("n");
    const auto k = s.reduced("k");
    s.read({m, k});
    s.read({n, k});
    s.write({m, n});
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    const auto d = kernels::x(0) - kernels::x(1);
    return kernels::literal(a.real("scale")) * kernels::sum(d * d);
  };
  return define("distances", 2, 1, {real_field("scale", 1.0)}, primitive{iteration, kernel});
}

// A composite without a shape function.
definition squared_sum() {
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const unity::value_id> x) {
    const auto sum = b.add("add", {x[0], x[1]});
    return std::vector{b.add("mul", {sum, sum})};
  };
  return define("squared_sum", 2, 1, {}, composite{body});
}

}  // namespace

TEST_CASE("make_operation fills in defaults of attributes") {
  const auto op = standard().make_operation("conv2d", {{"stride", {2, 2}}, {"padding", "same"}});
  const auto read = standard().read(op);
  CHECK(read.integer("groups") == 1);
  CHECK(shape(read.integers("dilation")) == shape{1, 1});
  CHECK(shape(read.integers("stride")) == shape{2, 2});
  CHECK(read.integer("padding") == 1);
  CHECK(op.order == layout::row_major);
  CHECK(op == standard().make_operation("conv2d", {{"padding", 1}, {"stride", shape{2, 2}}}));
  CHECK(standard().read(standard().make_operation("layer_norm", {{"axis", 1}})).real("epsilon") == 1e-5);
}

TEST_CASE("make_operation reports unknown operators and invalid attributes") {
  const auto message = [](std::string_view name, attributes a) {
    return message_of([&] { static_cast<void>(standard().make_operation(name, a)); });
  };
  CHECK(message("conv3d", {}) == "operator conv3d: no definition; expected the name of an operator");
  CHECK(message("relu", {{"axis", 1}}) == "operator relu: attribute axis; expected the name of one of its attributes");
  CHECK(message("softmax", {}) == "operator softmax: no attribute axis; expected it, as it has no default");
  CHECK(message("softmax", {{"axis", 1.5}}) == "operator softmax: another value of axis; expected an integer");
  CHECK(message("softmax", {{"axis", {1, 2}}}) == "operator softmax: another value of axis; expected an integer");
  CHECK(message("max_pool", {{"kernel", {1}}}) == "operator max_pool: another value of kernel; expected 2 integers");
  CHECK(message("matmul", {{"activation", "swish"}}) ==
        "operator matmul: another value of activation; expected a choice");
  CHECK(message("matmul", {{"activation", 5}}) == "operator matmul: another value of activation; expected a choice");
  CHECK(message("reduce_sum", {{"axes", {0}}, {"keep_dims", 2}}) ==
        "operator reduce_sum: another value of keep_dims; expected an integer");
}

TEST_CASE("make refuses malformed attribute lists and invalid operator kinds") {
  const auto softmax = standard().kind("softmax");
  const auto make = [&](const unity::attribute_list& a) { return standard().make(softmax, a).has_value(); };
  CHECK(make({{1}}));
  CHECK_FALSE(make({}));
  CHECK_FALSE(make({{1, 2}}));
  CHECK_FALSE(make({{1}, {1}}));
  CHECK_FALSE(standard().make(unity::kind_id{standard().kind_count()}, {}).has_value());
  CHECK_FALSE(standard().make(unity::kind_id{}, {}).has_value());
  CHECK_FALSE(standard().infer(operation{}, {}).has_value());
  CHECK_FALSE(standard().why_not(operation{}, {}).empty());
}

TEST_CASE("operator kinds are found by name and have fixed indices") {
  for (std::size_t k = 0; k < standard().kind_count(); ++k) {
    CHECK(standard().find_kind(standard().signature(unity::kind_id{k}).name) == unity::kind_id{k});
  }
  CHECK_FALSE(standard().find_kind("").has_value());
  CHECK(standard().kind("input").index() == 0);
  CHECK(standard().kind("matmul").index() == 7);
  CHECK(standard().kind("opaque").index() == 55);
}

TEST_CASE("measures return properties of a tensor type and refuse invalid arguments") {
  const tensor_type t{dtype::int64, layout::row_major, true, {2, 3, 5}};
  const auto measure = [&](const char* name, std::vector<std::int64_t> arguments) {
    return standard().measure(*standard().find_measure(name), t, arguments);
  };
  CHECK(measure("size", {1}) == unity::attribute{3});
  CHECK(measure("size", {-1}) == unity::attribute{5});
  CHECK_FALSE(measure("size", {3}).has_value());
  CHECK_FALSE(measure("size", {-4}).has_value());
  CHECK_FALSE(measure("size", {INT64_MIN}).has_value());
  CHECK_FALSE(measure("size", {}).has_value());
  CHECK(measure("rank", {}) == unity::attribute{3});
  CHECK_FALSE(measure("rank", {1}).has_value());
  CHECK(measure("shape", {}) == unity::attribute{2, 3, 5});
  CHECK(measure("constant", {}) == unity::attribute{1});
  CHECK(measure("dtype", {}) == unity::attribute{4});
  CHECK_FALSE(standard().find_measure("volume").has_value());
  CHECK(standard().measure_arguments(*standard().find_measure("size")) == 1);
  CHECK(standard().measure_arguments(*standard().find_measure("rank")) == 0);
  CHECK_FALSE(standard().measure(99, t, {}).has_value());
}

TEST_CASE("column_major variants exist for selected operators with results of rank 2 or more") {
  const auto has = [](std::string_view name, attributes a, const types& inputs) {
    return standard().variants(standard().make_operation(name, a), inputs).size() == 1;
  };
  const auto m = type({2, 2});
  CHECK(has("matmul", {}, {m, m}));
  CHECK(has("linear", {}, {m, m}));
  CHECK(has("transpose", {{"permutation", {1, 0}}}, {m}));
  CHECK(has("relu", {}, {m}));
  CHECK(has("add", {}, {m, m}));
  CHECK_FALSE(has("relu", {}, {type({2})}));
  CHECK_FALSE(has("matmul", {}, {m, type({3, 2})}));
  CHECK_FALSE(has("concat", {{"axis", 0}}, {m, m}));
  CHECK_FALSE(has("reshape", {{"dims", {4}}}, {m}));
  CHECK_FALSE(has("softmax", {{"axis", 0}}, {m}));
}

TEST_CASE("an unsupported column_major result is refused with a reason") {
  auto op = standard().make_operation("relu");
  op.order = layout::column_major;
  CHECK(standard().why_not(op, types{type({2})}) == "row_major results, as their rank is below 2");
  op = standard().make_operation("softmax", {{"axis", 0}});
  op.order = layout::column_major;
  CHECK(standard().why_not(op, types{type({2, 2})}) == "row_major results");
}

TEST_CASE("a user-defined primitive gets derived shapes / work / values / indices") {
  auto a = standard_algebra();
  const auto kind = a.add(distances());
  CHECK(kind.index() == standard().kind_count());
  const auto op = a.make_operation("distances", {{"scale", 2.0}});
  const types t{type({2, 3}), type({4, 3})};
  CHECK(a.infer(op, t)->at(0).dims == shape{2, 4});
  CHECK(a.why_not(op, types{type({2, 3}), type({4, 5})}) == "agreement with the size of k in operand 1");
  const auto w = a.work(op, t, *a.infer(op, t));
  CHECK(w.operations.count() == 2 * 4 * 3 * 4 + 2 * 4);  // two subtractions, a product and a sum; the scale
  CHECK(w.moved.count() == 4 * (6 + 12 + 8));
  const std::vector<dense<double>> values{{{2, 3}, {1, 2, 3, 0, 0, 0}}, {{4, 3}, {1, 2, 3, 0, 0, 0, 1, 1, 1, 2, 2, 2}}};
  CHECK(evaluate<double>(a, op, values, t)[0].data == std::vector<double>{0, 28, 10, 4, 28, 0, 6, 24});
  const auto indices = dimension_indices(a, op, t);
  CHECK(indices->operands[0][1] == indices->operands[1][1]);
  CHECK(linear_groups(a, op, t).empty());
}

TEST_CASE("a user-defined composite gets shapes / work / values from its body") {
  auto a = standard_algebra();
  a.add(squared_sum());
  const auto op = a.make_operation("squared_sum");
  const types t{type({2, 1}), type({3})};
  CHECK(a.infer(op, t)->at(0).dims == shape{2, 3});
  CHECK_FALSE(a.infer(op, types{type({2}), type({3})}).has_value());
  CHECK(a.why_not(op, types{type({2}), type({3})}) ==
        "what its body takes: add: other operands; expected operands that broadcast");
  CHECK(a.work(op, t, *a.infer(op, t)).operations.count() == 12);
  CHECK(evaluate<double>(a, op, std::vector<dense<double>>{{{2, 1}, {1, 2}}, {{3}, {0, 1, 2}}}, t)[0].data ==
        std::vector<double>{1, 4, 9, 4, 9, 16});
}

TEST_CASE("adding a second operator of the same name is an error") {
  auto a = standard_algebra();
  CHECK(message_of([&] { a.add(operators::matmul()); }) == "operator matmul: a second definition; expected a new name");
  CHECK(a.kind_count() == standard().kind_count());
}

}  // namespace tests_of_algebra
