#include <unity/parallel/lowering/lowering.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/launches.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../fragments_around.hpp"
#include "../lowered_graph.hpp"
#include "../operators.hpp"

namespace tests_of_lowering {

using namespace unity;
using hardware::device_id;
using parallel::configuration;
using parallel::test::check_deltas;
using parallel::test::lowered_graph;
using parallel::test::message_volume;
using parallel::test::operators;
using tasks::owner_kind;

namespace {

parallel::strategy random_of(const lowered_graph& x, std::uint64_t seed) {
  random_engine engine{seed};
  return parallel::random_strategy(x.lower.dimensions(), x.machine.network.device_count(), engine);
}

// The perceptron of Unity's figure 1: 64 samples, 784 features, 512 hidden, 10 classes; without biases.
tensor::tensor_graph perceptron() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {64, 784});
  const auto h = b.relu(b.matmul(x, b.weight("w1", {784, 512})));
  return std::move(b).finish({b.matmul(h, b.weight("w2", {512, 10}))});
}

}  // namespace

TEST_CASE("an iteration on one device takes the sum of its task durations") {
  for (const auto* model : {"zoo:lenet", "zoo:rnnlm?seq=2"}) {
    lowered_graph x{model, "p100:1x1"};
    const auto p = x.lower.run(x.data());
    std::int64_t sum = 0;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      for (const auto& t : p[tasks::fragment_id{f}].tasks) {
        CHECK(t.volume == bytes{0});
        sum += t.duration.count();
      }
    }
    CHECK(simulate::full_simulation{}.run(p).count() == sum);
  }
}

TEST_CASE("hosts launch as many operators of a lowered plan as the device model charges launches for") {
  const auto whole = tensor::zoo::build(operators(), "zoo:mlp?layers=8&hidden=64&batch=32");
  const auto halves = parallel::microbatch(operators(), whole, parallel::graph_dimensions{operators(), whole}, 2);
  parallel::plan p{*halves, {}, hardware::preset("p100:1x2")};
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto sum = [](const tasks::program& of, tasks::resource_kind kind) {
    double picoseconds = 0;
    for (std::size_t f = 0; f < of.fragment_count(); ++f) {
      for (const auto& t : of[tasks::fragment_id{f}].tasks) {
        const bool is_counted = t.resource.valid() && of.resources()[t.resource.index()].kind == kind;
        picoseconds += is_counted ? static_cast<double>(t.duration.count()) : 0;
      }
    }
    return picoseconds;
  };
  SECTION("weights are gathered for each micro-batch") {
    p.configurations = parallel::data_parallel(all, p.machine.network);
    p.pipeline = {2, {0, 0}, false};
    parallel::lowering l{operators(), p.graph, p.machine};
    p.synchronization = parallel::sharded_sync(l, parallel::sharded_by_stage(3));
  }
  SECTION("gradients of weights are separate tasks, and results are recomputed") {
    for (const auto n : node_ids(p.graph)) {
      p.configurations.push_back(all[n].inputs.empty()
                                     ? configuration{}
                                     : parallel::on_device(all[n], device_id{2 * n.index() / p.graph.node_count()}));
    }
    p.pipeline = {2, {0, 1}, false};
    p.pipeline.schedule = parallel::pipeline_schedule::zero_bubble;
    p.recomputed = parallel::recomputation_but_every(p.graph, 3);
  }
  const auto launch = from_seconds(p.machine.devices[0].launch_seconds);
  const auto together = parallel::lower(operators(), p);
  p.machine.devices[0].launch_seconds = 0;
  const auto apart = simulate::with_launches(parallel::lower(operators(), p), launch);
  const auto launching = sum(apart, tasks::resource_kind::host);
  CHECK(launching > 0);
  CHECK(launching + sum(apart, tasks::resource_kind::stream) ==
        Approx(sum(together, tasks::resource_kind::stream)).epsilon(1e-6));
}

TEST_CASE("lowering a plan and lowering its strategy give the same iteration time") {
  lowered_graph x{"zoo:lenet?batch=8", "p100:1x4"};
  const auto s = random_of(x, 4);
  const auto p = x.lower.run(s);
  CHECK(simulate::full_simulation{}.run(parallel::lower(operators(), {x.graph, s, x.machine})) ==
        simulate::full_simulation{}.run(p));
}

TEST_CASE("data parallelism on two devices sends only gradients: twice the bytes of the weights") {
  lowered_graph x{perceptron(), "p100:1x2"};
  const auto p = x.lower.run(x.data());
  CHECK(message_volume(p, owner_kind::edge) == 0);
  CHECK(message_volume(p, owner_kind::weight) == 813'056 * 4);
}

TEST_CASE("parameter-parallel dense layers exchange activations and no weight gradients") {
  lowered_graph x{perceptron(), "p100:1x2"};
  const auto s = parallel::expert(operators(), x.graph, x.lower.dimensions(), x.machine.network);
  const auto p = x.lower.run(s);
  CHECK(message_volume(p, owner_kind::weight) == 0);
  // Each device receives the other's 256 of 512 hidden features and returns their cotangents.
  CHECK(message_volume(p, owner_kind::edge) == 2 * (2 * 64 * 256) * 4);
}

TEST_CASE("convolutions divided by rows exchange halo rows forward and cotangents backward") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 3, 8, 8});
  const auto first = b.conv2d(x, b.weight("a", {4, 3, 3, 3}), {.pads = {1, 1, 1, 1}});
  const auto g = std::move(b).finish({b.conv2d(first, b.weight("b", {5, 4, 3, 3}), {.pads = {1, 1, 1, 1}})});
  lowered_graph y{g, "p100:1x2"};
  parallel::strategy s(g.node_count());
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      s[n.index()] = {{1, 1, 2, 1}, {device_id{std::size_t{0}}, device_id{std::size_t{1}}}};
    }
  }
  // One row of 8 for each of 2 images and 4 channels, in two directions, forward and backward.
  CHECK(message_volume(y.lower.run(s), owner_kind::edge) == 2 * 2 * (2 * 4 * 8) * 4);
}

TEST_CASE("a weight shared by recurrent steps is all-reduced once") {
  lowered_graph two{"zoo:rnnlm?batch=8&hidden=16&vocab=32&seq=2", "p100:1x4"};
  lowered_graph five{"zoo:rnnlm?batch=8&hidden=16&vocab=32&seq=5", "p100:1x4"};
  const auto v = message_volume(two.lower.run(two.data()), owner_kind::weight);
  CHECK(v > 0);
  CHECK(v == message_volume(five.lower.run(five.data()), owner_kind::weight));
}

TEST_CASE("an operand that one operator reads twice is sent once") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.matmul(b.input("x", {8, 8}), b.weight("w", {8, 8})));
  const auto g = std::move(b).finish({b.mul(x, x)});
  lowered_graph y{g, "p100:1x2"};
  parallel::strategy s(g.node_count());
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      const bool is_last = n.index() + 1 == g.node_count();
      s[n.index()] = {{1, 1}, {device_id{std::size_t{is_last ? 1U : 0U}}}};
    }
  }
  CHECK(message_volume(y.lower.run(s), owner_kind::edge) == 2 * 64 * 4);
}

TEST_CASE("an all-reduce on an idle network takes the closed form of the fastest algorithm") {
  tensor::builder b{operators()};
  const auto g = std::move(b).finish({b.matmul(b.input("x", {8, 1024}), b.weight("w", {1024, 4096}))});
  for (const auto* on : {"p100:1x2", "p100:1x4", "p100:4x1"}) {
    lowered_graph x{g, on};
    const auto p = x.lower.run(x.data());
    simulate::full_simulation run;
    run.run(p);
    const auto w = p.tasks_of(x.lower.weight_fragment(0));
    std::int64_t begins = 0;
    std::int64_t ends = 0;
    for (std::uint32_t t = w.first; t < w.first + w.count; ++t) {
      if (p[tasks::task_id{t}].kind == tasks::task_kind::reduce) {
        begins = begins == 0 ? run.times()[t].start : begins;
        ends = std::max(ends, run.times()[t].start);
      }
    }
    std::vector<device_id> devices;
    for (std::size_t d = 0; d < x.machine.network.device_count(); ++d) {
      devices.push_back(device_id{d});
    }
    const hardware::route_table routes{x.machine.network};
    const bytes size{1024 * 4096 * 4};
    const auto expected =
        hardware::ways_of(x.machine, routes, hardware::exchange::all_reduce, devices).at(size).line(size);
    INFO(on);
    CHECK(static_cast<double>(ends - begins) == Approx(static_cast<double>(expected.count())).epsilon(0.01));
  }
}

TEST_CASE("replacing the fragments around an operator gives the program of its new configuration") {
  const std::uint64_t seed = 17;
  INFO("seed " << seed);
  random_engine random{seed};
  for (const auto* model : {"zoo:lenet?batch=8", "zoo:rnnlm?batch=8&hidden=16&vocab=32&seq=2"}) {
    lowered_graph x{model, "p100:1x4"};
    auto s = random_of(x, 1);
    auto p = x.lower.run(s);
    for (int i = 0; i < 30; ++i) {
      auto n = node_id{std::size_t{0}};
      while (x.graph.operands(n).empty()) {
        n = node_id{static_cast<std::size_t>(random.below(x.graph.node_count()))};
      }
      s[n.index()] = parallel::random_configuration(x.lower.dimensions()[n], 4, random);
      const auto around = parallel::test::fragments_around(x.lower, s, n);
      p.replace(replacements_of(around));
      p.commit();
      const auto fresh = x.lower.run(s);
      for (std::size_t f = 0; f < fresh.fragment_count(); ++f) {
        REQUIRE(p[tasks::fragment_id{f}] == fresh[tasks::fragment_id{f}]);
      }
      REQUIRE(simulate::full_simulation{}.run(p) == simulate::full_simulation{}.run(fresh));
    }
  }
}

TEST_CASE("timelines of LeNet and RNNLM are consistent under each kind of strategy") {
  for (const auto* model : {"zoo:lenet", "zoo:rnnlm?seq=2"}) {
    lowered_graph x{model, "p100:1x4"};
    const auto& t = x.machine.network;
    const auto& d = x.lower.dimensions();
    const std::vector<parallel::strategy> all{x.data(), parallel::model_parallel(operators(), x.graph, d, t),
                                              parallel::expert(operators(), x.graph, d, t), random_of(x, 1),
                                              random_of(x, 2)};
    for (const auto& s : all) {
      const auto p = x.lower.run(s);
      simulate::full_simulation run;
      const auto end = run.run(p);
      const auto line = simulate::summarize(p, run.times());
      CHECK(line.iteration == end);
      REQUIRE(line.memory.size() == 4);
      std::int64_t moved = 0;
      for (std::size_t r = 0; r < line.resources.size(); ++r) {
        CHECK(line.resources[r].busy <= end);
        moved += line.resources[r].moved.count();
      }
      CHECK(moved == line.communicated.count());
      CHECK(moved >= parallel::message_bytes(p).count());
      const auto last = line.critical_path.back().task.index();
      CHECK(run.times()[last].end == end.count());
      std::int64_t peak = 0;
      for (const auto& m : line.memory) {
        peak = std::max(peak, m.peak.count());
      }
      CHECK(peak > 0);
    }
  }
}

TEST_CASE("data-parallel LSTM tasks take less time than the operator on one device") {
  lowered_graph one{"zoo:rnnlm?seq=2", "p100:1x1"};
  lowered_graph four{"zoo:rnnlm?seq=2", "p100:1x4"};
  std::size_t cells = 0;
  for (const auto n : node_ids(four.graph)) {
    if (four.graph.operation(n).kind == operators().kind("lstm_cell")) {
      ++cells;
      const auto part = four.lower.lowered_operator(four.data(), n).tasks;
      const auto whole = one.lower.lowered_operator(one.data(), n).tasks;
      REQUIRE(part.size() == 8);
      REQUIRE(whole.size() == 2);
      CHECK(part[0].duration < whole[0].duration);
      CHECK(part[4].duration < whole[1].duration);
    }
  }
  CHECK(cells == 4);
}

TEST_CASE("a weight shard is updated after all backward tasks that contribute to its gradient") {
  lowered_graph x{"zoo:nmt?batch=4&hidden=8&vocab=16&seq=3", "p100:2x2"};
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    const auto s = random_of(x, seed);
    const auto p = x.lower.run(s);
    simulate::full_simulation run;
    run.run(p);
    struct reader {
      parallel::box part;
      device_id on;
      std::int64_t end;  // end of its backward task
    };
    std::size_t updates = 0;
    for (std::size_t w = 0; w < x.lower.training().weights().size(); ++w) {
      std::vector<reader> readers;
      for (const auto& use : x.lower.training().weights()[w].uses) {
        const auto& c = s[use.node.index()];
        const auto parts = parallel::shards_of(x.lower.dimensions()[use.node], c.degrees);
        for (std::size_t t = 0; t < parts.size(); ++t) {
          const auto backward = p.find(x.lower.fragment_of(use.node), static_cast<std::uint32_t>(parts.size() + t));
          readers.push_back({parts[t].operands[use.operand], c.devices[t], run.times()[backward.index()].end});
        }
      }
      const auto range = p.tasks_of(x.lower.weight_fragment(w));
      for (std::uint32_t t = range.first; t < range.first + range.count; ++t) {
        const auto& task = p[tasks::task_id{t}];
        if (task.kind != tasks::task_kind::update) {
          continue;
        }
        ++updates;
        for (const auto& held : readers) {
          for (const auto& other : readers) {
            if (held.on.index() == task.resource.index() && !intersection(held.part, other.part).empty()) {
              REQUIRE(other.end <= run.times()[t].start);
            }
          }
        }
      }
    }
    CHECK(updates > x.lower.training().weights().size());
  }
}

TEST_CASE("forward tasks start after their operands; backward tasks after the result's readers") {
  for (const auto* model : {"zoo:lenet?batch=8", "zoo:nmt?batch=4&hidden=8&vocab=16&seq=2"}) {
    lowered_graph x{model, "p100:2x2"};
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      INFO(model << " seed " << seed);
      const auto s = random_of(x, seed);
      const auto p = x.lower.run(s);
      simulate::full_simulation run;
      run.run(p);
      const auto times = [&](node_id n, std::size_t task) {
        return run.times()[p.find(x.lower.fragment_of(n), static_cast<std::uint32_t>(task)).index()];
      };
      std::size_t pairs = 0;
      for (const auto n : node_ids(x.graph)) {
        for (std::size_t o = 0; o < x.graph.operands(n).size(); ++o) {
          const auto v = x.graph.operands(n)[o];
          const auto from = x.graph.producer(v);
          if (x.graph.operands(from).empty()) {
            continue;
          }
          const auto results = x.graph.results(from);
          const auto r = static_cast<std::size_t>(std::find(results.begin(), results.end(), v) - results.begin());
          const auto& producer = s[from.index()];
          const auto written = parallel::shards_of(x.lower.dimensions()[from], producer.degrees);
          const auto read = parallel::shards_of(x.lower.dimensions()[n], s[n.index()].degrees);
          for (std::size_t a = 0; a < written.size(); ++a) {
            for (std::size_t b = 0; b < read.size(); ++b) {
              if (intersection(written[a].results[r], read[b].operands[o]).empty()) {
                continue;
              }
              ++pairs;
              // Between devices a dependency takes longer than the link's latency of some hundred nanoseconds.
              const std::int64_t least = producer.devices[a] == s[n.index()].devices[b] ? 0 : 100'000;
              REQUIRE(times(n, b).start >= times(from, a).end + least);
              if (x.lower.training().wanted(n)[o]) {
                REQUIRE(times(from, written.size() + a).start >= times(n, read.size() + b).end + least);
              }
            }
          }
        }
        for (std::size_t t = 0; x.lower.training().has_backward(n) && t < s[n.index()].task_count(); ++t) {
          REQUIRE(times(n, s[n.index()].task_count() + t).start >= times(n, t).end);
        }
      }
      CHECK(pairs > 30);
    }
  }
}

TEST_CASE("peak memory of a perceptron is weights and gradients and results still in use") {
  lowered_graph x{perceptron(), "p100:1x1"};
  const auto p = x.lower.run(x.data());
  simulate::full_simulation run;
  run.run(p);
  const auto line = simulate::summarize(p, run.times());
  REQUIRE(line.memory.size() == 1);
  // The peak is while the matmul's cotangent is computed: the relu's result, which its adjoint reads, and two
  // cotangents.
  CHECK(line.memory[0].peak.count() == 2 * (784 * 512 + 512 * 10) * 4 + 3 * (64 * 512) * 4);
}

TEST_CASE("delta simulation of random configurations equals a simulation from scratch") {
  const std::uint64_t seed = 23;
  INFO("seed " << seed);
  random_engine random{seed};
  lowered_graph x{"zoo:rnnlm?batch=8&hidden=16&vocab=32&seq=2", "p100:2x2"};
  check_deltas(x, x.data(), 100, random,
               [&](node_id n) { return parallel::random_configuration(x.lower.dimensions()[n], 4, random); });
}

TEST_CASE("lowering rejects a machine without topology and a strategy of another graph") {
  const auto g = perceptron();
  hardware::machine bare;
  bare.name = "bare";
  CHECK_THROWS_WITH(parallel::lowering(operators(), g, bare), Catch::Contains("bare") && Catch::Contains("topology"));
  lowered_graph x{g, "p100:1x2"};
  CHECK_THROWS_WITH(x.lower.run(parallel::strategy(3)), Catch::Contains("3 configurations"));
}

}  // namespace tests_of_lowering
