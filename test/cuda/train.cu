// Training on GPUs: losses of small models are those of the reference backend. On one GPU, and, where there is NCCL, on
// as many as there are, a rank each. Without a device: a line that says so.
#include <unity/backend/cuda.cuh>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>
#include <unity/train/update.hpp>
#if defined(UNITY_HAS_NCCL)
#include <unity/backend/nccl_communicator.hpp>
#endif

namespace {

using namespace unity;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

parallel::plan plan_of(const std::string& model, int devices, bool is_data) {
  parallel::plan p;
  p.graph = tensor::with_delivered_outputs(operators(), tensor::zoo::build(operators(), model));
  p.machine = hardware::preset("h200:1x" + std::to_string(devices));
  p.updates = parallel::optimizer::adam;
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = is_data ? parallel::data_parallel(all, p.machine.network)
                             : parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  return train::with_loss(operators(), std::move(p), tensor::loss::mean_square);
}

constexpr std::uint64_t steps = 10;

// What this rank sees; all see the same.
template <class Backend, class Communicator>
std::vector<double> losses_of(Backend& b, const parallel::plan& p, Communicator& world) {
  const train::update_rule rule{p.updates, 0.01};
  train::trainer rank{b, operators(), p, world, rule, 1};
  std::vector<double> losses;
  for (std::uint64_t s = 0; s < steps; ++s) {
    losses.push_back(rank.step(s));
  }
  return losses;
}

// f(communicator of the host) on a thread per rank; what rank 0 says.
template <class F>
std::vector<double> on_ranks(int ranks, const F& f) {
  std::vector<double> first;
  backend::run_local(ranks, [&](backend::local_communicator& host) {
    auto own = f(host);
    if (host.rank() == 0) {
      first = std::move(own);
    }
  });
  return first;
}

std::vector<double> on_gpus(const parallel::plan& p, int ranks) {
  return on_ranks(ranks, [&](backend::local_communicator& host) {
    backend::cuda_backend b{operators(), {.device = host.rank()}};
#if defined(UNITY_HAS_NCCL)
    backend::nccl_communicator world{host, host.rank()};
    return losses_of(b, p, world);
#else
    return losses_of(b, p, host);  // one rank exchanges nothing but the loss, which is the host's
#endif
  });
}

double error_of(const std::vector<double>& losses, const std::vector<double>& expected) {
  double error = 0;
  for (std::size_t s = 0; s < expected.size(); ++s) {
    error = std::max(error, std::abs(losses[s] - expected[s]) / std::abs(expected[s]));
  }
  return error;
}

}  // namespace

TEST_CASE("training losses on GPUs match the reference backend", "[cuda]") {
  int gpus = 0;
  REQUIRE(cudaGetDeviceCount(&gpus) == cudaSuccess);
#if !defined(UNITY_HAS_NCCL)
  gpus = 1;
#endif
  for (const char* const model :
       {"zoo:mlp?layers=3&hidden=64&batch=16", "zoo:lenet?batch=8", "zoo:dlrm?form=ae&batch=16&hidden=16&vocab=100",
        "zoo:gpt?layers=2&hidden=32&heads=4&seq=8&vocab=50&batch=8"}) {
    for (const int ranks : {1, 2, 4, 8}) {
      if (ranks > gpus) {
        break;
      }
      for (const bool is_data : {true, false}) {
        const std::string parallelism = is_data ? "data" : "model";
        CAPTURE(model, ranks, parallelism);
        const auto p = plan_of(model, ranks, is_data);
        const auto expected = on_ranks(ranks, [&](backend::local_communicator& host) {
          backend::reference_backend b{operators()};
          return losses_of(b, p, host);
        });
        const auto error = error_of(on_gpus(p, ranks), expected);
        std::printf("%s, %d ranks, %s: losses differ by %.2g\n", model, ranks, parallelism.c_str(), error);
        CHECK(error < 1e-4);
      }
    }
  }
}

int main() {
  if (const auto why = backend::cuda::why_no_device()) {
    std::printf("no GPU here: %s\n", why->c_str());
    return 0;
  }
  return plain_catch::run_all() == 0 ? 0 : 1;
}
