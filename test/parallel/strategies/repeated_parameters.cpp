#include <unity/parallel/strategies/repeated_parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_repeated_parameters {

namespace {

using namespace unity;
using parallel::test::operators;

// Attention as PyTorch exports it for vision models: a class token before each sample's tokens, tokens before samples
// in the dimensions, and samples times heads as one dimension.
tensor::tensor_graph attention_of_images() {
  constexpr std::int64_t samples = 8;
  constexpr std::int64_t words = 15;
  constexpr std::int64_t width = 32;
  constexpr std::int64_t heads = 4;
  tensor::builder b{operators()};
  const auto x = b.input("x", {samples, words, width});
  const auto token = b.apply("expand", {b.weight("class", {1, 1, width})}, {{"dims", {samples, 1, width}}})[0];
  const auto turned = b.transpose(b.concat(1, std::vector{token, x}), {1, 0, 2});
  const auto part = [&](const char* name) {
    const auto y = b.matmul(turned, b.weight(name, {width, width}));
    return b.transpose(b.reshape(y, {words + 1, samples * heads, width / heads}), {1, 0, 2});
  };
  const auto q = part("q");
  const auto k = part("k");
  const auto v = part("v");
  const auto attended = b.matmul(b.softmax(b.matmul(q, b.transpose(k, {0, 2, 1})), 2), v);
  const auto words_first = b.reshape(b.transpose(attended, {1, 0, 2}), {words + 1, samples, width});
  const auto y = b.transpose(b.matmul(words_first, b.weight("o", {width, width})), {1, 0, 2});
  return std::move(b).finish({y});
}

}  // namespace

TEST_CASE("with_samples_followed divides samples through transposes; no activations are sent") {
  const auto g = attention_of_images();
  const auto m = hardware::preset("p100:1x4");
  parallel::lowering lowering{operators(), g, m};
  const auto& all = lowering.dimensions();
  const auto first = parallel::data_parallel(all, m.network);
  const auto messages = [&](const parallel::strategy& s) {
    std::size_t count = 0;
    for (std::uint32_t e = 0; e < lowering.training().edges().size(); ++e) {
      count += lowering.lowered_edge(s, e).tasks.size();
    }
    return count;
  };
  const auto followed = parallel::with_samples_followed(operators(), g, all, m.network, first);
  check(operators(), g, all, followed, 4);
  for (const auto n : node_ids(g)) {
    CAPTURE(n.index(), operators().signature(g.operation(n).kind).name);
    CHECK(followed[n.index()].task_count() == (g.operands(n).empty() ? 0 : 4));
  }
  CHECK(messages(first) > 0);
  CHECK(messages(followed) == 0);
}

TEST_CASE("with_samples_followed does not divide a mask of as many rows as there are samples") {
  const auto g = tensor::zoo::build(operators(), "zoo:gpt?layers=1&hidden=16&heads=4&seq=8&vocab=32&batch=8");
  const auto m = hardware::preset("p100:1x4");
  const parallel::lowering lowering{operators(), g, m};
  const auto& all = lowering.dimensions();
  const auto followed =
      parallel::with_samples_followed(operators(), g, all, m.network, parallel::data_parallel(all, m.network));
  for (const auto n : node_ids(g)) {
    CAPTURE(n.index(), operators().signature(g.operation(n).kind).name);
    const auto v = g.results(n)[0];
    CHECK((g.operands(n).empty() || g.type(v).constant || followed[n.index()].copies == 1));
  }
}

TEST_CASE("with_samples_followed keeps a strategy whose samples the devices do not divide") {
  const auto g = attention_of_images();
  const auto m = hardware::preset("p100:1x3");
  const parallel::lowering lowering{operators(), g, m};
  const auto first = parallel::data_parallel(lowering.dimensions(), m.network);
  CHECK(parallel::with_samples_followed(operators(), g, lowering.dimensions(), m.network, first) == first);
}

}  // namespace tests_of_repeated_parameters
