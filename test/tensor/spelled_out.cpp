#include <unity/tensor/convert.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <variant>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_spelled_out {

using namespace unity;

TEST_CASE("spelled_out leaves no composite operator and keeps the values", "[spelled_out]") {
  const auto operators = tensor::training_algebra();
  for (const char* text : {"zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9&batch=2", "zoo:lenet?batch=2",
                           "zoo:rnnlm?seq=2&batch=2&hidden=4&vocab=5"}) {
    CAPTURE(text);
    const auto g = tensor::differentiate(operators, tensor::zoo::build(operators, text)).graph;
    const auto spelled = tensor::spelled_out(operators, g);
    CHECK(spelled.node_count() > g.node_count());
    for (const auto n : node_ids(spelled)) {
      CHECK_FALSE(std::holds_alternative<tensor::composite>(operators.definition_of(spelled.operation(n).kind).body));
    }
    const auto expected = tensor::evaluate<double>(operators, g);
    const auto found = tensor::evaluate<double>(operators, spelled);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].dims == expected[i].dims);
      CHECK(found[i].data == expected[i].data);
    }
  }
}

}  // namespace tests_of_spelled_out
