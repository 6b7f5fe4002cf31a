// Any lossless synchronization of weights gives the losses and weights of one process.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/data.hpp>
#include <unity/train/training_plan.hpp>

#include "../parallel/random_sync.hpp"
#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_one_process {

namespace {

using namespace unity;
using tensor::dtype;
using train::test::operators;

constexpr std::uint64_t seed = 5;
constexpr std::uint64_t steps = 3;

// Four devices are two nodes of two.
parallel::plan plan_of(const std::string& model, std::size_t devices, dtype element) {
  parallel::plan p;
  p.graph = tensor::with_delivered_outputs(
      operators(), tensor::converted(operators(), tensor::zoo::build(operators(), model), dtype::float32, element));
  p.machine = hardware::preset(devices == 4 ? "p100:2x2" : "p100:1x" + std::to_string(devices));
  p.configurations = parallel::data_parallel(parallel::graph_dimensions{operators(), p.graph}, p.machine.network);
  return train::with_loss(operators(), p, tensor::loss::mean_square);
}

// Parts of weights held by ranks, by name; replicas are all listed.
struct held_part {
  parallel::box part{};
  tensor::shape dims{};  // of the whole weight
  std::vector<double> elements{};
};
struct run_result {
  std::vector<double> losses{};
  std::map<std::string, std::vector<held_part>> weights{};
};

run_result run(const parallel::plan& p) {
  run_result all;
  std::mutex one_at_a_time;
  const train::batches data{operators(), p.graph, seed};
  train::test::on_threads(p, {parallel::optimizer::sgd, 0.05}, seed, data, [&](auto& rank, auto& world) {
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < steps; ++s) {
      losses.push_back(rank.step(s));
    }
    rank.finish();
    const std::lock_guard lock{one_at_a_time};
    if (world.rank() == 0) {
      all.losses = losses;
    }
    auto& ranks = rank.executor();
    for (const auto& w : ranks.program().weights) {
      std::vector<std::byte> bytes(ranks.size_of(w.weight.value));
      ranks.read(w.weight.value, bytes);
      const std::string name{operators().read(p.graph.operation(p.graph.producer(w.weight.of))).word("name")};
      all.weights[name].push_back(
          {w.weight.part, p.graph.type(w.weight.of).dims,
           backend::decode<double>(bytes.data(), ranks.program().graph.type(w.weight.value)).data});
    }
  });
  return all;
}

// One process holds each weight whole and once.
run_result run_alone(const std::string& model, dtype element) {
  auto all = run(plan_of(model, 1, element));
  for (const auto& [name, parts] : all.weights) {
    REQUIRE(parts.size() == 1);
    REQUIRE(parts[0].part == parallel::whole(parts[0].dims));
  }
  return all;
}

// Unlike std::max, counts what is not a number as infinite.
void raise(double& most, double x) {
  most = std::isnan(x) ? std::numeric_limits<double>::infinity() : std::max(most, x);
}

// The largest difference of an element on any rank, relative to the largest element; infinite if no rank holds the
// element. Weights below 0.01 count as 0.01, because the gradient of a key's bias is only rounding error.
double difference(const std::vector<held_part>& own, const held_part& expected) {
  std::vector<bool> is_held(expected.elements.size());
  double largest = 0.01;
  for (const auto x : expected.elements) {
    largest = std::max(largest, std::abs(x));
  }
  double most = 0;
  for (const auto& p : own) {
    parallel::for_each_run(p.dims, p.part, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
      for (auto k = std::size_t{0}; k < static_cast<std::size_t>(count); ++k) {
        const auto to = static_cast<std::size_t>(at) + k;
        raise(most, std::abs(p.elements[static_cast<std::size_t>(from) + k] - expected.elements[to]));
        is_held[to] = true;
      }
    });
  }
  const bool is_whole = std::find(is_held.begin(), is_held.end(), false) == is_held.end();
  return is_whole ? most / largest : std::numeric_limits<double>::infinity();
}

// Relative difference of losses and weights.
double difference(const run_result& own, const run_result& expected) {
  REQUIRE(own.losses.size() == steps);
  REQUIRE(own.weights.size() == expected.weights.size());
  double most = 0;
  for (std::size_t s = 0; s < steps; ++s) {
    raise(most, std::abs(own.losses[s] / expected.losses[s] - 1));
  }
  for (const auto& [name, parts] : expected.weights) {
    raise(most, difference(own.weights.at(name), parts[0]));
  }
  return most;
}

double rounding(dtype element) { return element == dtype::float64 ? 1e-9 : 1e-5; }

}  // namespace

TEST_CASE("every synchronization builder's strategy trains as one process", "[law]") {
  unity::test::one_of_some is_tried;
  for (const auto* model : {"zoo:mlp?layers=3&hidden=7&batch=8", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=41"}) {
    for (const auto element : {dtype::float64, dtype::float32}) {
      const auto expected = run_alone(model, element);
      for (const auto devices : {1UL, 2UL, 4UL}) {
        auto p = plan_of(model, devices, element);
        std::vector<hardware::device_id> servers;
        for (std::size_t d = 0; d < devices; ++d) {
          servers.emplace_back(d);
        }
        const auto problem = systems::sync_problem_of(operators(), p.graph, servers);
        for (const auto& b : systems::sync_builders) {
          for (const bool is_proxied : {false, true}) {
            if ((element == dtype::float32 && devices == 1) || !is_tried()) {
              continue;
            }
            systems::builder_options o;
            o.chunk = 3;
            o.is_proxied = is_proxied;
            CAPTURE(model, element, devices, b.name, is_proxied);
            p.synchronization = b.build(problem, o);
            REQUIRE(difference(run(p), expected) < rounding(element));
          }
        }
      }
    }
  }
}

TEST_CASE("random lossless synchronization trains as one process", "[law]") {
  const auto cases = unity::test::cases(200);
  std::size_t selected = 0;
  std::map<std::pair<std::string, dtype>, run_result> alone;
  for (std::size_t i = 0; i < cases; ++i) {
    const auto own = seed + 1000 * i;
    random_engine random{own};
    const std::string model = i % 3 == 0   ? "zoo:mlp?layers=3&hidden=7&batch=8"
                              : i % 3 == 1 ? "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=41"
                                           : "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4";
    const auto devices = std::size_t{1} << (i % 7 % 3);
    const auto element = i % 5 == 4 ? dtype::float32 : dtype::float64;
    CAPTURE(own, model, devices, element);
    if (!alone.contains({model, element})) {
      alone[{model, element}] = run_alone(model, element);
    }
    auto p = plan_of(model, devices, element);
    p.synchronization = parallel::test::random_sync(random, operators(), p, true);
    for (auto& w : p.synchronization.weights) {
      for (auto& part : w.parts) {
        const bool is_alone = part.kind == parallel::sync_kind::all_reduce && !part.is_sparse &&
                              part.bucket == parallel::synchronizer::no_bucket && !w.is_default();
        if (is_alone && random.below(2) == 0) {  // all elements are sent, ordered by magnitude
          part.compressor = {parallel::compression::top_k, true, 1000};
          ++selected;
        }
      }
    }
    REQUIRE(difference(run(p), alone[{model, element}]) < rounding(element));
  }
  CHECK(selected > cases / 10);
}

TEST_CASE("the comparison with one process detects a single rounded gradient") {
  const std::string model = "zoo:mlp?layers=3&hidden=7&batch=8";
  const auto expected = run_alone(model, dtype::float32);
  auto p = plan_of(model, 2, dtype::float32);
  CHECK(difference(run(p), expected) < 1e-5);
  p.synchronization.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
  p.synchronization.weights.back().parts.front().compressor.kind = parallel::compression::bfloat16;
  const auto own = run(p);
  CHECK(own.losses[0] == Approx(expected.losses[0]).epsilon(1e-5));
  CHECK(difference(own, expected) > 1e-5);
}

}  // namespace tests_of_one_process
