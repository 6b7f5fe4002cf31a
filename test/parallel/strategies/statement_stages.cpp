#include <unity/parallel/strategies/statement_stages.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

#include <unity/core/random.hpp>

#include "../../support/statement_subject.hpp"

namespace tests_of_statement_stages {

using namespace unity;

TEST_CASE("the work of three layers extends to the work of a model with more layers") {
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  for (const auto* model : {"zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=128",
                            "zoo:gpt?form=training&layers=5&hidden=64&heads=4&seq=32&vocab=128"}) {
    const test::statement_subject x{model, "dgx_a100_80:1x8"};
    for (int i = 0; i < 6; ++i) {
      parallel::plan_statement s;
      s.tensor = std::int64_t{1} << random.below(3);
      s.micro = 1 + static_cast<std::int64_t>(random.below(3));
      s.is_sequence_parallel = random.below(2) == 1;
      s.recomputed = static_cast<parallel::recomputed_part>(random.below(3));
      CAPTURE(model, to_string(s));
      const auto layers = static_cast<std::uint32_t>(x.work(s).pieces.size() - 2);
      CHECK(parallel::with_layers(x.work(s, 3), layers) == x.work(s));
      CHECK(parallel::with_layers(x.work(s, 3), 3) == x.work(s, 3));
    }
  }
}

TEST_CASE("statement_stages hold the times of their chunks and the weights of their layers") {
  const test::statement_subject x{"zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=128", "dgx_a100_80:1x4"};
  const auto s = parallel::parse_plan_statement("megatron:p=2,d=2,batch=8,interleave=2,zero=1");
  parallel::statement_groups groups{s, x.on};
  const auto work = x.work(s);
  const parallel::statement_stages stages{s, work, groups};
  REQUIRE(stages.chunks().size() == 4);
  CHECK(stages.chunk_of(0) == 0);
  CHECK(stages.chunk_of(4) == 3);
  CHECK(stages.chunk_of(5) == 3);
  CHECK(stages.chunks()[1].forward == work.pieces[2].forward[0].time);
  CHECK(stages.chunks()[1].kept == work.pieces[2].kept);
  CHECK(stages.sent_to(0, false) == nullptr);
  CHECK(stages.sent_to(3, true) == nullptr);
  CHECK(stages.sent_to(3, false) == &stages.chunks()[2]);
  CHECK(stages.sent_to(2, true) == &stages.chunks()[2]);
  std::int64_t all = 0;
  for (const auto& w : work.weights) {
    all += w.elements;
  }
  const auto count = [](const parallel::statement_stages::weights& some) {
    std::int64_t sum = 0;
    for (const auto& [element, n] : some) {
      sum += n;
    }
    return sum;
  };
  CHECK(count(stages.weights_of(0)) + count(stages.weights_of(1)) - count(stages.tied()) == all);
  CHECK(count(stages.summed_of(0)) == 0);
  // bfloat16 weights, float32 gradients, half of Adam's three float32 states
  const auto own = count(stages.weights_of(1));
  CHECK(stages.permanent_bytes(1, parallel::optimizer::adam).count() ==
        own * (2 + 4) + (own + 1) / 2 * parallel::state_bytes(parallel::optimizer::adam, tensor::dtype::bfloat16));
}

}  // namespace tests_of_statement_stages
