#include <unity/tensor/work.hpp>

#include <catch2/catch.hpp>

#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/evaluate.hpp>

#include "testing.hpp"

namespace tests_of_shared_memory {

using namespace unity;
using namespace unity::tensor;

namespace {

using tensor::test::standard;

struct question {
  operation op{};
  tensor_type input{};
};

// A view of one operand, whose last size makes lines of the cache likely.
question random_question(random_engine& random) {
  const auto some = [&] { return random.between(1, 4); };
  const shape dims{some(), some(), 8 * some()};
  const auto axis = random.between(0, 2);
  const auto size = dims[static_cast<std::size_t>(axis)];
  const tensor_type input{dtype::float32, layout::row_major, false, dims};
  const auto begin = random.below(2) == 0 ? size / 2 : random.between(0, size - 1);
  switch (random.below(5)) {
    case 0:
      return {standard().make_operation("slice", {{"axes", {axis}},
                                                  {"starts", {begin}},
                                                  {"ends", {random.between(begin + 1, size)}},
                                                  {"steps", {some()}}}),
              input};
    case 1: return {standard().make_operation("reshape", {{"dims", {dims[0] * dims[1], dims[2]}}}), input};
    case 2: return {standard().make_operation("transpose", {{"permutation", {1, 0, 2}}}), input};
    case 3: return {standard().make_operation("transpose", {{"permutation", {0, 2, 1}}}), input};
    default: {
      const auto first = std::max<std::int64_t>(begin, 1);
      const auto sizes = size > first ? attribute{first, size - first} : attribute{size};
      return {standard().make_operation("split", {{"axis", {axis}}, {"sizes", sizes}}), input};
    }
  }
}

// The offset in the operand at which all elements of a result lie contiguously; nothing if they do not.
std::optional<std::int64_t> place_in_iota(const dense<double>& result) {
  for (std::size_t i = 1; i < result.data.size(); ++i) {
    if (result.data[i] != result.data[0] + static_cast<double>(i)) {
      return std::nullopt;
    }
  }
  return static_cast<std::int64_t>(result.data[0]);
}

TEST_CASE("shared_parts finds exactly the results that lie aligned and contiguous in the operand") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  int found = 0;
  int written = 0;
  for (int i = 0; i < 500; ++i) {
    const auto q = random_question(random);
    const std::vector<tensor_type> inputs{q.input};
    const auto outputs = standard().infer(q.op, inputs);
    REQUIRE(outputs);
    CAPTURE(standard().signature(q.op.kind).name, to_string(q.input));
    dense<double> x{q.input.dims};
    std::iota(x.data.begin(), x.data.end(), 0.0);
    const auto results = evaluate<double>(standard(), q.op, std::vector<dense<double>>{x}, inputs);
    std::optional<std::vector<shared_part>> expected{std::in_place};
    for (const auto& r : results) {
      const auto at = place_in_iota(r);
      expected = expected && at && *at * 4 % 64 == 0 ? (expected->push_back({0, bytes{*at * 4}}), std::move(expected))
                                                     : std::nullopt;
    }
    const auto map = standard().index_map(q.op, inputs);
    REQUIRE(map);
    CHECK(shared_parts(*map, inputs, *outputs) == expected);
    CHECK((standard().work(q.op, inputs, *outputs).moved == bytes{}) == expected.has_value());
    found += expected ? 1 : 0;
    written += expected ? 0 : 1;
  }
  CHECK(found > 50);
  CHECK(written > 50);
}

TEST_CASE("a reshape of a column_major operand shares no memory and moves its bytes") {
  const tensor_type columns{dtype::float32, layout::column_major, false, {16, 32}};
  const auto op = standard().make_operation("reshape", {{"dims", {512}}});
  const std::vector<tensor_type> inputs{columns};
  const auto outputs = standard().infer(op, inputs).value();
  CHECK_FALSE(shared_parts(standard().index_map(op, inputs).value(), inputs, outputs));
  CHECK(standard().work(op, inputs, outputs).moved == bytes{2 * 4 * 512});
}

}  // namespace

}  // namespace tests_of_shared_memory
