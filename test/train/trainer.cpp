// Training on ranks equals training on one device.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/dataset.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/tensor/zoo/model.hpp>
#include <unity/train/trainer.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"

namespace tests_of_trainer {

namespace {

using namespace unity;
using numbers = tensor::dense<double>;
using unity::test::training::operators;

// Two convolutions with batch norms of batch statistics. The zoo's networks of this kind are fifty layers deep, and
// before they have learned so sensitive that rounding errors change their losses.
tensor::tensor_graph normalized_convolutions() {
  tensor::builder b{operators()};
  auto x = b.input("x", {8, 3, 8, 8});
  for (const auto* name : {"first", "second"}) {
    x = tensor::zoo::convolution(b, name, x, 4, {3, 3}, {.pads = {1, 1, 1, 1}});
    x = b.relu(tensor::zoo::batch_norm(b, name + std::string{".norm"}, x, 1e-5, tensor::zoo::statistics_of_batch));
  }
  return std::move(b).finish({tensor::zoo::dense(b, "last", tensor::zoo::flatten(b, x), 5)});
}

parallel::plan plan_of(const std::string& model, std::size_t devices, const std::string& parallelism) {
  parallel::plan p;
  const auto g = model == "batch norms" ? normalized_convolutions() : tensor::zoo::build(operators(), model);
  p.graph = tensor::with_delivered_outputs(
      operators(), tensor::converted(operators(), g, tensor::dtype::float32, tensor::dtype::float64));
  p.machine = hardware::preset("p100:1x" + std::to_string(devices));
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = parallelism == "data" ? parallel::data_parallel(all, p.machine.network)
                                           : parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  return p;
}

std::string name_of(const tensor::tensor_graph& g, value_id v) {
  return std::string{operators().read(g.operation(g.producer(v))).word("name")};
}

// Reference: losses of training on one device by differentiating and evaluating the whole graph and updating weights
// one by one. is_delayed: gradients are taken at the weights of one step before. batch_at_end: appends the loss of that
// batch.
std::vector<double> on_one_device(const tensor::tensor_graph& g, const train::update_rule& rule, std::uint64_t seed,
                                  std::uint64_t steps, bool is_delayed = false,
                                  std::optional<std::uint64_t> batch_at_end = std::nullopt) {
  const auto one = tensor::differentiate(operators(), g, {g.outputs()[0], {}});
  const train::synthetic_data data{operators(), g, seed};
  const train::initial_weights first{operators(), g, seed};
  std::map<std::string, numbers> weights;
  std::map<std::string, numbers> before;
  std::map<std::string, numbers> velocity;
  std::vector<std::byte> buffer;
  const auto decoded = [&](const tensor::tensor_type& t) { return backend::decode<double>(buffer.data(), t); };
  std::vector<double> losses;
  for (std::uint64_t s = 0; s < steps + (batch_at_end ? 1 : 0); ++s) {
    const auto batch = s < steps ? s : *batch_at_end;
    const auto provide = [&](const tensor::operation& op, const tensor::tensor_type& t) -> std::optional<numbers> {
      const auto kind = operators().definition_of(op.kind).source;
      if (kind == tensor::source_kind::none) {
        return std::nullopt;
      }
      const std::string name{operators().read(op).word("name")};
      buffer.resize(backend::byte_count(t));
      if (op.kind == operators().kind("weight")) {
        if (!weights.contains(name)) {
          first.fill(name, t, parallel::whole(t.dims), buffer);
          weights[name] = decoded(t);
          before[name] = weights[name];
        }
        return is_delayed && s < steps ? before[name] : weights[name];
      }
      data.fill(name, t, parallel::whole(t.dims), batch, buffer);
      return decoded(t);
    };
    const auto made = tensor::evaluate<double>(operators(), one.graph, provide);
    losses.push_back(made[0].data[0]);
    before = weights;
    for (std::size_t i = 0; i < one.sources.size(); ++i) {
      auto& w = weights[name_of(g, one.sources[i])];
      auto& v = velocity[name_of(g, one.sources[i])];
      v = v.data.empty() ? numbers{w.dims} : v;
      for (std::size_t k = 0; k < w.data.size(); ++k) {
        v.data[k] =
            (rule.updates == parallel::optimizer::momentum ? rule.momentum : 0) * v.data[k] + made[1 + i].data[k];
        w.data[k] -= rule.learning_rate * v.data[k];
      }
    }
  }
  return losses;
}

}  // namespace

TEST_CASE("losses of data and model parallelism match one device for several rank counts") {
  const auto* model = GENERATE("zoo:mlp?layers=3&hidden=8&batch=8", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40",
                               "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4", "batch norms");
  const auto* parallelism = GENERATE("data", "model");
  const auto devices = GENERATE(std::size_t{4}, std::size_t{2}, std::size_t{1});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, parallelism, devices);
  constexpr std::uint64_t steps = 4;
  constexpr std::uint64_t seed = 7;
  const train::update_rule rule{parallel::optimizer::momentum, 0.05};
  const auto p = train::with_loss(operators(), plan_of(model, devices, parallelism), tensor::loss::mean_square);
  const auto expected = on_one_device(p.graph, rule, seed, steps);
  std::vector<std::vector<double>> losses(devices);
  backend::run_local(static_cast<int>(devices), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    train::trainer rank{b, operators(), p, world, rule, seed};
    for (std::uint64_t s = 0; s < steps; ++s) {
      losses[static_cast<std::size_t>(world.rank())].push_back(rank.step(s));
    }
  });
  for (const auto& own : losses) {
    REQUIRE(own.size() == steps);
    for (std::size_t s = 0; s < steps; ++s) {
      CHECK(std::abs(own[s] - expected[s]) <= 1e-9 * std::abs(expected[s]));
    }
  }
  CHECK(expected.back() != expected.front());
}

// A chain with one stage per device.
parallel::plan in_stages(const parallel::plan& whole, std::size_t stages, std::int64_t microbatches) {
  parallel::plan p;
  p.graph =
      parallel::microbatch(operators(), whole.graph, parallel::graph_dimensions{operators(), whole.graph}, microbatches)
          .value();
  p.machine = hardware::preset("p100:1x" + std::to_string(stages));
  p.pipeline.microbatches = microbatches;
  const parallel::graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    const auto stage = n.index() * stages / p.graph.node_count();
    p.configurations.push_back(
        o.inputs.empty() ? parallel::configuration{}
                         : parallel::configuration{
                               parallel::degree_list(o.divisible.size(), 1), {hardware::device_id{stage}}, {}, {}, 1});
  }
  for (std::size_t d = 0; d < stages; ++d) {
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(d));
  }
  return p;
}

TEST_CASE("1F1B pipelines train as one batch on one device with and without delay") {
  const auto stages = GENERATE(std::size_t{2}, std::size_t{3});
  const auto microbatches = GENERATE(std::int64_t{2}, std::int64_t{4}, std::int64_t{8});
  const auto is_delayed = GENERATE(false, true);
  const auto updates = GENERATE(parallel::optimizer::momentum, parallel::optimizer::sgd);
  // In the second model, two micro-batches have as many samples as the mask has rows.
  const auto* model =
      GENERATE("zoo:mlp?layers=4&hidden=8&batch=8", "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=8");
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(stages, microbatches, is_delayed, model);
  constexpr std::uint64_t steps = 6;
  constexpr std::uint64_t seed = 3;
  const train::update_rule rule{updates, 0.05};
  const auto whole = plan_of(model, 1, "data");
  auto p = train::with_loss(operators(), in_stages(whole, stages, microbatches), tensor::loss::mean_square);
  p.pipeline.is_delayed = is_delayed;
  if (is_delayed && microbatches < static_cast<std::int64_t>(stages)) {
    CHECK_THROWS_WITH(parallel::programs_of_ranks(operators(), p),
                      "delayed updates: " + std::to_string(microbatches) + " micro-batches; expected as many as the " +
                          std::to_string(stages) + " stages, or more");
    return;
  }
  auto g = train::with_loss(operators(), whole, tensor::loss::mean_square).graph;
  auto expected = on_one_device(g, rule, seed, is_delayed ? steps - 1 : steps, is_delayed);
  std::vector<std::vector<double>> losses(stages);
  backend::run_local(static_cast<int>(stages), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    train::trainer rank{b, operators(), p, world, rule, seed};
    auto& own = losses[static_cast<std::size_t>(world.rank())];
    for (std::uint64_t s = 0; s < expected.size(); ++s) {
      own.push_back(rank.step(s));
    }
    if (is_delayed) {
      own.push_back(rank.loss_of(0, io::dataset_part::train));  // waits for the last gradients
    }
  });
  if (is_delayed) {
    expected.push_back(on_one_device(g, rule, seed, steps - 1, true, 0).back());
  }
  for (const auto& own : losses) {
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CAPTURE(s);
      CHECK(std::abs(own.at(s) - expected[s]) <= 1e-9 * std::abs(expected[s]));
    }
  }
}

// A chain that goes through all stages once per chunk.
parallel::plan scheduled(const parallel::plan& whole, parallel::pipeline_schedule schedule, std::size_t stages,
                         std::int64_t microbatches, std::uint32_t chunks) {
  auto p = in_stages(whole, stages, microbatches);
  p.pipeline.schedule = schedule;
  p.pipeline.chunks = chunks;
  for (const auto n : node_ids(p.graph)) {
    for (auto& d : p.configurations[n.index()].devices) {
      d = hardware::device_id{n.index() * stages * chunks / p.graph.node_count() % stages};
    }
  }
  return p;
}

TEST_CASE("GPipe and interleaved and zero-bubble pipelines train as one batch on one device") {
  using parallel::pipeline_schedule;
  const auto schedule =
      GENERATE(pipeline_schedule::gpipe, pipeline_schedule::interleaved, pipeline_schedule::zero_bubble);
  const auto stages = GENERATE(std::size_t{2}, std::size_t{3});
  const auto rounds = GENERATE(std::int64_t{1}, std::int64_t{2});
  const auto recomputes = GENERATE(false, true);
  const std::uint32_t chunks = schedule == pipeline_schedule::interleaved ? 2 : 1;
  const auto microbatches = rounds * static_cast<std::int64_t>(stages);
  const auto batch = std::to_string(4 * microbatches);
  const std::string model =
      GENERATE("zoo:mlp?layers=6&hidden=8&batch=", "zoo:gpt?layers=2&hidden=8&heads=2&seq=4&vocab=16&batch=") + batch;
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(schedule, stages, microbatches, model, recomputes);
  constexpr std::uint64_t steps = 4;
  constexpr std::uint64_t seed = 3;
  const train::update_rule rule{parallel::optimizer::momentum, 0.05};
  const auto whole = plan_of(model, 1, "data");
  auto p = train::with_loss(operators(), scheduled(whole, schedule, stages, microbatches, chunks),
                            tensor::loss::mean_square);
  if (recomputes) {
    p.recomputed = parallel::recomputation_but_every(p.graph, 3);
  }
  const auto g = train::with_loss(operators(), whole, tensor::loss::mean_square).graph;
  const auto expected = on_one_device(g, rule, seed, steps);
  std::vector<std::vector<double>> losses(stages);
  backend::run_local(static_cast<int>(stages), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    train::trainer rank{b, operators(), p, world, rule, seed};
    for (std::uint64_t s = 0; s < expected.size(); ++s) {
      losses[static_cast<std::size_t>(world.rank())].push_back(rank.step(s));
    }
  });
  for (const auto& own : losses) {
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CAPTURE(s);
      CHECK(std::abs(own.at(s) - expected[s]) <= 1e-9 * std::abs(expected[s]));
    }
  }
  CHECK(expected.back() != expected.front());
}

TEST_CASE("a 1F1B stage's arena does not grow with the number of micro-batches") {
  const auto arena = [](const std::string& batch, std::int64_t microbatches) {
    const auto p = train::with_loss(
        operators(), in_stages(plan_of("zoo:mlp?layers=6&hidden=32&batch=" + batch, 1, "data"), 3, microbatches),
        tensor::loss::mean_square);
    std::vector<std::int64_t> sizes(3);
    backend::run_local(3, [&](backend::local_communicator& world) {
      backend::reference_backend b{operators()};
      train::trainer rank{b, operators(), p, world, {}, 1};
      sizes[static_cast<std::size_t>(world.rank())] = rank.executor().arena_size().count();
    });
    return sizes;
  };
  const auto few = arena("32", 4);
  const auto many = arena("128", 16);
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r, few[r], many[r]);
    CHECK(static_cast<double>(many[r]) < 1.1 * static_cast<double>(few[r]));
  }
}

TEST_CASE("reverting undoes one step and fails twice in a row or after an overwrite") {
  const auto p =
      train::with_loss(operators(), plan_of("zoo:mlp?layers=2&hidden=8&batch=8", 2, "data"), tensor::loss::mean_square);
  backend::run_local(2, [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    train::trainer rank{b, operators(), p, world, {}, 1};
    const auto first = rank.step(0);
    const bool is_back = rank.executor().revert();
    const auto again = rank.step(0);
    const bool is_back_twice = rank.executor().revert() && rank.executor().revert();
    static_cast<void>(rank.step(0));
    static_cast<void>(rank.loss_of(1, io::dataset_part::train));
    const bool is_lost = !rank.executor().revert();
    if (world.rank() == 0) {
      CHECK(is_back);
      CHECK(again == first);
      CHECK_FALSE(is_back_twice);
      CHECK(is_lost);
    }
  });
}

TEST_CASE("evaluating a batch's loss between steps leaves training unchanged") {
  const auto is_delayed = GENERATE(false, true);
  CAPTURE(is_delayed);
  auto p = train::with_loss(operators(), in_stages(plan_of("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data"), 3, 4),
                            tensor::loss::mean_square);
  p.pipeline.is_delayed = is_delayed;
  const auto losses_of = [&](bool looks) {
    std::vector<double> losses;
    backend::run_local(3, [&](backend::local_communicator& world) {
      backend::reference_backend b{operators()};
      train::trainer rank{b, operators(), p, world, {parallel::optimizer::sgd, 0.05}, 1};
      std::vector<double> own;
      for (std::uint64_t s = 0; s < 6; ++s) {
        own.push_back(rank.step(s));
        rank.finish();
        if (looks) {
          const auto one = rank.loss_of(7, io::dataset_part::train);
          own.back() += one - rank.loss_of(7, io::dataset_part::train);  // both calls must return the same
        }
      }
      if (world.rank() == 0) {
        losses = std::move(own);
      }
    });
    return losses;
  };
  CHECK(losses_of(true) == losses_of(false));
}

}  // namespace tests_of_trainer
