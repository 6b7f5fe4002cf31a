#include <unity/tensor/evaluate.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/scalar.hpp>

#include "testing.hpp"

namespace tests_of_evaluate {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// The smallest provider, and near misses: one that takes a name, and one with another scalar type.
using smallest_provider = std::optional<dense<double>> (*)(const operation&, const tensor_type&);
static_assert(source_provider<smallest_provider, double>);
static_assert(!source_provider<std::optional<dense<double>> (*)(const std::string&), double>);
static_assert(!source_provider<smallest_provider, modular61>);

// relu(x * w) split in two halves, the second half first; one node is not used.
tensor_graph small_graph() {
  builder b{standard()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.weight("w", {3, 4});
  const auto y = b.matmul(x, w, "relu");
  b.apply("opaque", {y}, {{"name", "sink"}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 1}}});
  const auto halves = b.split(y, 1, {1, 3});
  return std::move(b).finish({halves[1], halves[0], x});
}

}  // namespace

TEST_CASE("evaluate returns outputs in order and skips nodes that they do not need") {
  const auto g = small_graph();
  const auto outputs = evaluate<double>(standard(), g);
  REQUIRE(outputs.size() == 3);
  CHECK(outputs[0].dims == shape{2, 3});
  CHECK(outputs[1].dims == shape{2, 1});
  const auto x = outputs[2];
  const auto w = arbitrary_source<double>("w", type({3, 4}), source_kind::constant, 0);
  const auto y = run("matmul", {{"activation", "relu"}}, {x, w});
  CHECK(run("concat", {{"axis", 1}}, {outputs[1], outputs[0]}) == y);
}

TEST_CASE("evaluate is deterministic for a seed and differs between seeds") {
  const auto g = small_graph();
  CHECK(evaluate<modular61>(standard(), g, 7) == evaluate<modular61>(standard(), g, 7));
  CHECK_FALSE(evaluate<modular61>(standard(), g, 7) == evaluate<modular61>(standard(), g, 8));
}

TEST_CASE("evaluate takes the sources that a provider supplies") {
  const auto g = small_graph();
  const auto weight = standard().kind("weight");
  const auto provider = [&](const operation& op, const tensor_type& t) -> std::optional<dense<double>> {
    if (op.kind != weight) {
      return std::nullopt;
    }
    CHECK(standard().read(op).word("name") == "w");
    return dense<double>{t.dims, std::vector<double>(12, 0)};
  };
  const auto outputs = evaluate<double>(standard(), g, provider);
  CHECK(outputs[0].data == std::vector<double>(6, 0));
  CHECK(outputs[2] == evaluate<double>(standard(), g)[2]);
}

TEST_CASE("evaluate reports the node of a supplied value of the wrong size") {
  const auto provider = [](const operation&, const tensor_type&) { return std::optional{dense<double>{{1}, {0}}}; };
  CHECK_THROWS_WITH(evaluate<double>(standard(), small_graph(), provider),
                    "node 0: a supplied value of another size; expected float32[2,3]");
}

TEST_CASE("evaluate refuses opaque operators (except modulo a prime) and missing operands") {
  builder b{standard()};
  const auto x = b.input("x", {2});
  const auto y =
      b.apply("opaque", {x}, {{"name", "mystery"}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 2}}})[0];
  const auto g = std::move(b).finish({y});
  CHECK_THROWS_WITH(evaluate<double>(standard(), g),
                    "evaluation of opaque: operands float32[2]; expected an operator with a known meaning");
  // Modulo a prime, an opaque operator is an arbitrary function that depends on the seed.
  const auto of = [&](std::uint64_t seed) { return evaluate<modular61>(standard(), g, seed)[0]; };
  CHECK(of(1) == of(1));
  CHECK(of(1) != of(2));
  CHECK_THROWS_WITH(
      evaluate<double>(standard(), standard().make_operation("relu"), std::vector<dense<double>>{}, types{}),
      "evaluation of relu: no operands; expected 1 operand(s)");
}

TEST_CASE("evaluation modulo a prime equates reassociated products and tells tanh from sigmoid") {
  const auto product = [](bool left) {
    builder b{standard()};
    const auto x = b.input("x", {3, 4});
    const auto y = b.input("y", {4, 2});
    const auto z = b.input("z", {2, 5});
    return std::move(b).finish({left ? b.matmul(b.matmul(x, y), z) : b.matmul(x, b.matmul(y, z))});
  };
  CHECK(evaluate<modular61>(standard(), product(true)) == evaluate<modular61>(standard(), product(false)));

  const auto activation = [](const char* name) {
    builder b{standard()};
    return std::move(b).finish({b.apply(name, {b.input("x", {3})})[0]});
  };
  CHECK_FALSE(evaluate<modular61>(standard(), activation("tanh")) ==
              evaluate<modular61>(standard(), activation("sigmoid")));
}

}  // namespace tests_of_evaluate
