// The loss after a model's logits.
#include <unity/parallel/strategies/statement_loss.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/terms.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_statement_loss {

using namespace unity;
using tensor::dtype;

namespace {

const tensor::algebra& operators() {
  static const auto all = tensor::training_algebra();
  return all;
}

std::string name_of(const tensor::tensor_graph& g, node_id n) {
  return std::string{operators().signature(g.operation(n).kind).name};
}

}  // namespace

TEST_CASE("with_wide_loss appends a float32 cross entropy and keeps node numbers") {
  const auto model = tensor::zoo::build(operators(), "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=6");
  const auto narrow = tensor::converted(operators(), model, dtype::float32, dtype::bfloat16);
  for (const bool is_narrow : {false, true}) {
    CAPTURE(is_narrow);
    const auto& g = is_narrow ? narrow : model;
    const auto with = parallel::with_wide_loss(operators(), g);
    for (const auto n : node_ids(g)) {
      CHECK(name_of(with, n) == name_of(g, n));
    }
    REQUIRE(with.outputs().size() == 1);
    CHECK(with.type(with.outputs()[0]).dims.empty());
    std::size_t losses = 0;
    for (const auto n : node_ids(with)) {
      if (name_of(with, n) == "cross_entropy") {
        ++losses;
        const auto logits = with.operands(n)[0];
        CHECK(with.type(logits).element == dtype::float32);
        CHECK(with.type(logits).dims == g.type(g.outputs()[0]).dims);
        CHECK((name_of(with, with.producer(logits)) == "cast") == is_narrow);
      }
    }
    CHECK(losses == 1);
  }
}

TEST_CASE("with_wide_loss adds nothing to a graph of several outputs") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 3});
  const auto y = b.relu(x);
  const auto z = b.tanh(y);
  const auto g = std::move(b).finish({y, z});
  CHECK(parallel::with_wide_loss(operators(), g).node_count() == g.node_count());
}

}  // namespace tests_of_statement_loss
