// Ranks compute what one device computes: models of the zoo under common strategies and random ones.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/expert_strategies.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>

#include "../divided_at_random.hpp"
#include "../operators.hpp"
#include "../rank_runs.hpp"

namespace tests_of_rank_zoo {

using namespace unity;
using namespace unity::parallel;
using parallel::test::operators;

TEST_CASE("ranks compute the results of one device for zoo models", "[zoo]") {
  const auto* model = GENERATE("zoo:mlp?layers=3&hidden=16&batch=8",                                         //
                               "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40",                                 //
                               "zoo:xdl?form=ae&layers=2&hidden=16&batch=8&vocab=40",                        //
                               "zoo:candle_uno?form=ae&layers=2&hidden=16&batch=8",                          //
                               "zoo:embedding_bag?batch=8&hidden=8&seq=4&vocab=40",                          //
                               "zoo:bert_large?layers=1&hidden=16&heads=4&seq=8&vocab=40&batch=8",           //
                               "zoo:bert_large?form=ae&layers=1&hidden=16&heads=4&seq=8&batch=8",            //
                               "zoo:gpt?layers=1&hidden=16&heads=4&seq=8&vocab=40&batch=8",                  //
                               "zoo:gpt?attention=flash&layers=1&hidden=16&heads=4&seq=8&vocab=40&batch=8",  //
                               "zoo:resnet50?image=32&hidden=4&batch=2&statistics=batch",                    //
                               "zoo:resnext50?form=ae&image=32&hidden=16&batch=2",                           //
                               "zoo:inception_v3?form=ae&image=75&batch=1",                                  //
                               "zoo:rnnlm?layers=1&hidden=8&seq=3&vocab=40&batch=8",                         //
                               "zoo:lenet?batch=8");
  const auto devices = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{8});
  const bool is_large = std::string{model}.find("inception") != std::string::npos;
  if (is_large && devices != 2) {
    return;
  }
  plan p;
  p.graph = tensor::zoo::build(operators(), model);
  p.machine = hardware::preset(devices == 8 ? "p100:2x4" : "p100:1x" + std::to_string(devices));
  const graph_dimensions all{operators(), p.graph};
  std::vector<std::pair<std::string, strategy>> named{
      {"data", data_parallel(all, p.machine.network)},
      {"model", model_parallel(operators(), p.graph, all, p.machine.network)}};
  for (auto& s : expert_strategies(operators(), p.graph, all, p.machine.network)) {
    named.emplace_back("expert", std::move(s));
  }
  constexpr std::uint64_t seed = 5;
  random_engine random{seed + devices};
  for (int i = 0; i < (is_large ? 1 : 6); ++i) {
    named.emplace_back("random", parallel::test::divided_at_random(p.graph, all, devices, random));
  }
  for (const auto& [name, s] : named) {
    CAPTURE(model, devices, name, seed);
    p.configurations = s;
    CHECK(parallel::test::error_on_ranks(operators(), p, seed) < 1e-9);
  }
}

}  // namespace tests_of_rank_zoo
