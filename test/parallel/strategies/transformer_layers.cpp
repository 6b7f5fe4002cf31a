#include <unity/parallel/strategies/transformer_layers.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_transformer_layers {

using namespace unity;

namespace {

// The number of operators of each piece.
std::vector<std::size_t> pieces_of(const std::string& model) {
  const auto a = tensor::training_algebra();
  const auto g = tensor::zoo::build(a, model);
  const auto layers = parallel::layers_of(a, g, {a, g});
  std::vector<std::size_t> counts(layers.count + 2);
  for (const auto n : node_ids(g)) {
    counts[layers.pieces[n.index()]] += !g.operands(n).empty() && !parallel::detail::is_of_weights(g, n) ? 1 : 0;
  }
  return counts;
}

}  // namespace

// A pre-norm decoder, whose final norm belongs to the head, and a post-norm encoder, whose last norm belongs to the
// layer.
TEST_CASE("layers_of gives a single layer as many operators as each of three") {
  for (const std::string model : {"gpt?", "gpt?form=training&", "gpt?form=training&attention=flash&", "bert?"}) {
    CAPTURE(model);
    const auto with = [&](int layers) {
      return pieces_of(fmt::format("zoo:{}layers={}&hidden=32&heads=4&seq=16&vocab=64", model, layers));
    };
    const auto one = with(1);
    const auto three = with(3);
    CHECK(one[0] == three[0]);
    CHECK(one[1] == three[2]);
    CHECK(one[2] == three[4]);
  }
}

}  // namespace tests_of_transformer_layers
