// usage: test_make_plan MODEL MACHINE data|model|expert|random FILE: a plan for tests of what reads plans.
#include <cstdio>
#include <exception>
#include <string>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

namespace {

using namespace unity;

parallel::strategy strategy_of(const std::string& name, const tensor::algebra& a, const parallel::plan& p) {
  const parallel::graph_dimensions all{a, p.graph};
  const auto& t = p.machine.network;
  if (name == "data") {
    return parallel::data_parallel(all, t);
  }
  if (name == "model") {
    return parallel::model_parallel(a, p.graph, all, t);
  }
  if (name == "expert") {
    return parallel::expert(a, p.graph, all, t);
  }
  if (name == "random") {
    random_engine random{1};
    return parallel::random_strategy(all, t.device_count(), random);
  }
  throw error{"strategy", name, "data, model, expert or random"};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      throw error{"arguments", std::to_string(argc - 1), "MODEL MACHINE STRATEGY FILE"};
    }
    const auto a = tensor::training_algebra();
    parallel::plan p{tensor::zoo::build(a, argv[1]), {}, hardware::preset(argv[2])};
    p.configurations = strategy_of(argv[3], a, p);
    io::write_plan(a, p, argv[4]);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_plan: %s\n", e.what());
    return 1;
  }
}
