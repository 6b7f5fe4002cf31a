#include <unity/parallel/strategies/transformer_layers.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_transformer_layers {

using namespace unity;

namespace {

// The number of operators of each piece, and those of some kinds.
struct piece_counts {
  parallel::transformer_layers layers{};
  std::vector<std::size_t> all{};
  std::vector<std::size_t> attention{};  // softmax, or attention as one operator
  std::vector<std::size_t> lookups{};
};

piece_counts pieces_of(const std::string& model) {
  const auto a = tensor::training_algebra();
  const auto g = tensor::zoo::build(a, model);
  piece_counts counts;
  counts.layers = parallel::layers_of(a, g, {a, g});
  for (auto* each : {&counts.all, &counts.attention, &counts.lookups}) {
    each->resize(counts.layers.count + std::size_t{2});
  }
  for (const auto n : node_ids(g)) {
    const auto piece = counts.layers.pieces[n.index()];
    const std::string_view name = a.signature(g.operation(n).kind).name;
    counts.all[piece] += !g.operands(n).empty() && !parallel::detail::is_of_weights(g, n) ? 1 : 0;
    counts.attention[piece] += name == "softmax" || name == "dot_product_attention" ? 1 : 0;
    counts.lookups[piece] += name == "embedding" ? 1 : 0;
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
    REQUIRE(one.layers.count == 1);
    REQUIRE(three.layers.count == 3);
    CHECK(one.all[0] == three.all[0]);
    for (std::size_t layer = 1; layer <= 3; ++layer) {
      CHECK(one.all[1] == three.all[layer]);
      CHECK(three.attention[layer] == 1);
    }
    CHECK(one.all[2] == three.all[4]);
    CHECK(one.all[1] > 5);  // norms, products, an activation and sums
    const bool is_flash = model.find("flash") != std::string::npos;
    for (const auto* each : {&one, &three}) {
      CHECK(each->layers.has_core == !is_flash);
      CHECK(each->layers.heads == 4);
      CHECK(each->layers.positions == 16);
      CHECK(each->attention[0] == 0);
      CHECK(each->lookups[0] > 0);
      for (std::size_t piece = 1; piece < each->lookups.size(); ++piece) {
        CHECK(each->lookups[piece] == 0);
      }
    }
  }
}

TEST_CASE("layers_of finds the heads of attention as one operator with its projections") {
  const auto counts = pieces_of("zoo:bert?form=ae&layers=2&hidden=32&heads=4&seq=16&batch=1");
  CHECK(counts.layers.heads == 4);
  CHECK(counts.layers.positions == 16);
  CHECK_FALSE(counts.layers.has_core);
}

}  // namespace tests_of_transformer_layers
