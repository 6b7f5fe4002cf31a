// Graphs in another element type, and with operators behind their outputs.
#include <algorithm>
#include <cstddef>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_convert {

using namespace unity;
using tensor::converted;
using tensor::dtype;
using unity::test::training::operators;

TEST_CASE("converted changes one element type only and converts back to the same graph") {
  for (const char* name :
       {"zoo:mlp?layers=2&hidden=8&batch=4", "zoo:dlrm?batch=4", "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=16"}) {
    CAPTURE(name);
    const auto g = tensor::zoo::build(operators(), name);
    const auto half = converted(operators(), g, dtype::float32, dtype::bfloat16);
    REQUIRE(half.value_count() == g.value_count());
    std::size_t others = 0;
    for (const auto v : value_ids(g)) {
      const auto& before = g.type(v);
      const auto& after = half.type(v);
      CHECK(after.element == (before.element == dtype::float32 ? dtype::bfloat16 : before.element));
      CHECK(after.dims == before.dims);
      CHECK(after.constant == before.constant);
      others += before.element != dtype::float32 ? 1 : 0;
    }
    CHECK((others > 0) == (g.node_count() > 20));  // ids of embeddings
    CHECK(converted(operators(), half, dtype::bfloat16, dtype::float32) == g);
  }
}

TEST_CASE("converted retargets casts to the replaced element type") {
  tensor::builder b{operators()};
  const auto ids = b.input("ids", {4}, dtype::int64);
  const auto x = b.apply("cast", {ids}, {{"element", "float32"}})[0];
  const auto g = std::move(b).finish({b.relu(x)});
  const auto half = converted(operators(), g, dtype::float32, dtype::float16);
  CHECK(half.type(half.outputs()[0]).element == dtype::float16);
  CHECK(half.type(value_id{0U}).element == dtype::int64);
}

TEST_CASE("converted throws if an operator does not take the new element type") {
  tensor::builder b{operators()};
  const auto g = std::move(b).finish({b.softmax(b.input("x", {4, 4}), 1)});
  CHECK_THROWS_WITH(converted(operators(), g, dtype::float32, dtype::boolean),
                    "node 1 (softmax) in bool: operands that it does not take; expected floating-point elements");
}

TEST_CASE("with_delivered_outputs adds one identity behind each computed floating-point output") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 3});
  const auto y = b.relu(x);
  const auto z = b.apply("identity", {b.tanh(y)})[0];
  const auto place = b.apply("arg_max", {y}, {{"axis", 1}})[0];
  const auto s = b.softmax(y, 1);
  // A source, a value twice that is read as well, an identity, an integer, and another value.
  const auto g = std::move(b).finish({x, y, z, place, y, s});
  const auto delivered = tensor::with_delivered_outputs(operators(), g);
  REQUIRE(delivered.node_count() == g.node_count() + 2);
  for (const auto n : node_ids(g)) {
    CHECK(delivered.operation(n) == g.operation(n));
    CHECK(std::ranges::equal(delivered.operands(n), g.operands(n)));
    CHECK(std::ranges::equal(delivered.results(n), g.results(n)));
  }
  const auto outputs = delivered.outputs();
  REQUIRE(outputs.size() == 6);
  CHECK(outputs[0] == x);
  CHECK(outputs[2] == z);
  CHECK(outputs[3] == place);
  CHECK(outputs[4] == outputs[1]);
  for (const auto& [output, of] : {std::pair{outputs[1], y}, {outputs[5], s}}) {
    const auto maker = delivered.producer(output);
    CHECK(delivered.operation(maker) == operators().make_operation("identity"));
    REQUIRE(delivered.operands(maker).size() == 1);
    CHECK(delivered.operands(maker)[0] == of);
    CHECK(delivered.type(output) == g.type(of));
  }
  CHECK(tensor::with_delivered_outputs(operators(), delivered) == delivered);
}

}  // namespace tests_of_convert
