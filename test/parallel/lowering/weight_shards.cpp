#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/folding.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/operators.hpp"

namespace tests_of_weight_shards {

namespace {

using namespace unity;
using unity::test::training::operators;

const std::string chain = "zoo:mlp?layers=5&hidden=64&batch=64";
const std::string gpt = "zoo:gpt?layers=2&hidden=16&heads=2&seq=8&vocab=32&batch=8";

parallel::plan plan_of(const std::string& model, const std::string& machine, const std::string& parallelism = "data",
                       std::int64_t microbatches = 1) {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators(), model);
  if (microbatches > 1) {
    p.graph = parallel::microbatch(operators(), p.graph, parallel::graph_dimensions{operators(), p.graph}, microbatches)
                  .value();
  }
  p.machine = hardware::preset(machine);
  p.pipeline = {microbatches, std::vector<std::uint32_t>(p.machine.network.device_count()), false};
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto data = parallel::data_parallel(all, p.machine.network);
  const auto model_wise = parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  for (std::size_t n = 0; n < data.size(); ++n) {
    p.configurations.push_back(parallelism == "data" || (parallelism == "mixed" && n % 2 == 0) ? data[n]
                                                                                               : model_wise[n]);
  }
  p.updates = parallel::optimizer::adam;
  return p;
}

parallel::synchronizer stage_3(std::uint32_t prefetch, bool is_resharded = true) {
  auto s = parallel::sharded_by_stage(3);
  s.prefetch = prefetch;
  s.is_resharded = is_resharded;
  return s;
}

parallel::plan with(parallel::plan p, const parallel::synchronizer& sync) {
  p.synchronization =
      parallel::sharded_sync(*std::make_unique<parallel::lowering>(operators(), p.graph, p.machine), sync);
  return p;
}

struct simulated {
  tasks::program program{};
  simulate::full_simulation full{};
  picoseconds iteration{};
  bytes moved{};  // of weights
  std::vector<bytes> peaks{};
};
simulated run(const parallel::plan& p) {
  simulated s;
  s.program = parallel::lower(operators(), p);
  s.iteration = s.full.run(s.program);
  for (std::size_t f = 0; f < s.program.fragment_count(); ++f) {
    const auto kind = s.program.owner_of(tasks::fragment_id{f}).kind;
    const bool is_of_weight = kind == tasks::owner_kind::weight || kind == tasks::owner_kind::shares;
    s.moved += is_of_weight ? parallel::message_bytes(s.program[tasks::fragment_id{f}]) : bytes{};
  }
  for (const auto& profile : simulate::memory_profiles(s.program, s.full.times())) {
    s.peaks.push_back(profile.peak);
  }
  return s;
}

bool is_no_more(const std::vector<bytes>& x, const std::vector<bytes>& y) {
  REQUIRE(x.size() == y.size());
  return std::equal(x.begin(), x.end(), y.begin(), [](bytes a, bytes b) { return a <= b; });
}

// Bytes of the trained weights, and of those that backward passes read.
struct weight_bytes {
  std::int64_t all = 0;
  std::int64_t read_back = 0;
};
weight_bytes weights_of(const parallel::plan& p, const parallel::lowering& l) {
  weight_bytes sum;
  for (const auto& w : l.training().weights()) {
    const auto size = w.is_trained ? tensor::size_in_bytes(p.graph.type(w.value)).count() : 0;
    sum.all += size;
    sum.read_back += std::any_of(w.uses.begin(), w.uses.end(),
                                 [&](const parallel::weight_use& u) {
                                   const auto& kept = l.kept(u.node).operands;
                                   return u.operand < kept.size() && kept[u.operand];
                                 })
                         ? size
                         : 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("a higher ZeRO stage has no higher peak memory on any device", "[law]") {
  const auto model = GENERATE(chain, gpt);
  const auto* machine = GENERATE("p100:1x2", "p100:1x4", "p100:2x2");
  const auto* parallelism = GENERATE("data", "model", "mixed");
  CAPTURE(model, machine, parallelism);
  const auto p = plan_of(model, machine, parallelism);
  const auto reduced = run(p);
  const auto one = run(with(p, parallel::sharded_by_stage(1)));
  const auto two = run(with(p, parallel::sharded_by_stage(2)));
  CHECK(is_no_more(one.peaks, reduced.peaks));
  CHECK(is_no_more(two.peaks, one.peaks));
  for (const std::uint32_t prefetch : {0U, 1U, 2U, 1000U}) {
    CAPTURE(prefetch);
    const auto kept = run(with(p, stage_3(prefetch, false)));
    CHECK(is_no_more(kept.peaks, two.peaks));
    CHECK(is_no_more(run(with(p, stage_3(prefetch))).peaks, two.peaks));
  }
}

// The gradients of all micro-batches would pile up if scatters, which take longer than the operators, held nothing up.
TEST_CASE("whole gradients of at most two operators wait for reduce-scatters") {
  const std::int64_t stages = GENERATE(1, 2);
  using schedules = parallel::pipeline_schedule;
  const auto schedule = stages == 1 ? schedules::one_forward_one_backward
                                    : GENERATE(schedules::gpipe, schedules::one_forward_one_backward);
  CAPTURE(stages, schedule);
  auto p = plan_of("zoo:mlp?layers=6&hidden=512&batch=64", stages == 1 ? "p100:1x4" : "p100:1x2", "data", 16);
  if (stages == 2) {
    p.machine = hardware::preset("p100:1x4");
    p.pipeline.stages = {0, 0, 1, 1};
    for (auto n = p.configurations.size() / 2; n < p.configurations.size(); ++n) {
      for (auto& d : p.configurations[n].devices) {
        d = hardware::device_id{d.index() + std::size_t{2}};
      }
    }
  }
  p.pipeline.schedule = schedule;
  const auto s = run(with(p, parallel::sharded_by_stage(2)));
  CHECK(is_no_more(s.peaks, run(with(p, parallel::sharded_by_stage(1))).peaks));
  struct change {
    std::int64_t at = 0;
    std::int64_t by = 0;  // bytes
  };
  std::vector<std::vector<change>> on(4);  // by device: whole gradients
  for (std::size_t f = 0; f < s.program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (s.program.owner_of(id).kind != tasks::owner_kind::shares) {
      continue;
    }
    for (const auto& read : s.program[id].reads) {
      const auto& b = s.program[id].buffers[read.of.index];
      const auto made = s.program.find(b.producer.fragment, b.producer.index).index();
      const auto scattered = s.program.find(id, read.reader.index).index();
      on[b.device].push_back({s.full.times()[made].start, b.size.count()});
      on[b.device].push_back({s.full.times()[scattered].end, std::int64_t{0} - b.size.count()});
    }
  }
  for (auto& changes : on) {
    REQUIRE(changes.size() > 100);
    std::sort(changes.begin(), changes.end(), [](const change& x, const change& y) {
      return std::pair{x.at, x.by} < std::pair{y.at, y.by};
    });
    std::int64_t held = 0;
    std::int64_t most = 0;
    for (const auto& c : changes) {
      most = std::max(most, held += c.by);
    }
    const auto sharing = 4 / stages;                                    // devices
    const auto rest = (512 * 512 + 512) * 4 / sharing * (sharing - 1);  // of the gradients of an operator
    CHECK(most > rest);
    CHECK(most <= 2 * rest);
  }
}

// A product with a weight at both ends of the chain. Its gradient is complete at the first product, which is the next
// but one after the product with u.
TEST_CASE("all tasks of the last operator that contributes to a scatter wait for the scatter of the last but one") {
  const bool has_several = GENERATE(false, true);  // tasks of an operator on a device
  CAPTURE(has_several);
  tensor::builder b{operators()};
  const auto w = b.weight("w", {512, 512});
  const auto first = b.matmul(b.input("x", {64, 512}), w);
  const auto third = b.matmul(b.matmul(first, b.weight("v", {512, 512})), b.weight("u", {512, 512}));
  parallel::plan p;
  p.graph = std::move(b).finish({b.matmul(third, w)});
  p.machine = hardware::preset("p100:1x4");
  p.configurations.resize(p.graph.node_count());
  for (const auto n : node_ids(p.graph)) {
    auto& c = p.configurations[n.index()];
    if (!p.graph.operands(n).empty()) {
      const std::size_t tasks = has_several ? 4 : 2;
      c.degrees = {static_cast<std::int64_t>(tasks), 1};
      for (std::size_t t = 0; t < tasks; ++t) {
        c.devices.push_back(hardware::device_id{t % 2});
      }
    }
  }
  const auto s = run(with(p, parallel::sharded_by_stage(2)));
  const parallel::lowering l{operators(), p.graph, p.machine};
  std::int64_t scattered = 0;  // of u
  for (std::size_t f = 0; f < s.program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    const auto& owner = s.program.owner_of(id);
    if (owner.kind == tasks::owner_kind::shares &&
        l.training().weights()[owner.index].uses[0].node == p.graph.producer(third)) {
      for (const auto& read : s.program[id].reads) {
        scattered = std::max(scattered, s.full.times()[s.program.find(id, read.reader.index).index()].end);
      }
    }
  }
  REQUIRE(scattered > 0);
  const auto last = l.fragment_of(p.graph.producer(first));
  const auto& all = s.program[last].tasks;
  std::size_t waiting = 0;
  for (std::uint32_t t = 0; t < all.size(); ++t) {
    if (all[t].kind == tasks::task_kind::backward) {
      CHECK(s.full.times()[s.program.find(last, t).index()].start >= scattered);
      ++waiting;
    }
  }
  CHECK(waiting == (has_several ? 4 : 2));
}

TEST_CASE("dependencies of scatters are linear in the parts of weights") {
  const auto count_of = [](std::size_t parts) {
    auto p = plan_of("zoo:mlp?layers=4&hidden=256&batch=32", "p100:1x2");
    const parallel::training_graph training{operators(), p.graph};
    for (const auto& w : training.weights()) {
      const bool is_cut = w.is_trained && p.graph.type(w.value).dims == tensor::shape{256, 256};
      auto& sync = p.synchronization.weights.emplace_back();
      sync.parts = is_cut ? std::vector(parts, parallel::sharded_by_stage(2)) : sync.parts;
    }
    const auto program = parallel::lower(operators(), p);
    std::size_t count = 0;
    for (std::size_t f = 0; f < program.fragment_count(); ++f) {
      count += program[tasks::fragment_id{f}].dependencies.size();
    }
    return count;
  };
  CHECK(count_of(256) < 5 * count_of(128) / 2);
}

TEST_CASE("bytes moved by each ZeRO stage match the formulas") {
  const auto model = GENERATE(chain, gpt);
  const auto devices = GENERATE(std::int64_t{2}, std::int64_t{4});
  CAPTURE(model, devices);
  const auto p = plan_of(model, "p100:1x" + std::to_string(devices));
  const parallel::lowering l{operators(), p.graph, p.machine};
  const auto weights = weights_of(p, l);
  REQUIRE(weights.read_back > weights.all / 2);
  REQUIRE(weights.read_back < weights.all);
  const auto others = devices - 1;  // an exchange moves a weight so many times, summed over devices
  const auto is_near = [&](bytes moved, std::int64_t expected) {
    const auto rounding = 400 * devices;  // messages of each weight are whole bytes
    return moved.count() >= expected && moved.count() <= expected + rounding;
  };
  CHECK(is_near(run(p).moved, others * 2 * weights.all));
  CHECK(is_near(run(with(p, parallel::sharded_by_stage(1))).moved, others * 2 * weights.all));
  CHECK(is_near(run(with(p, parallel::sharded_by_stage(2))).moved, others * 2 * weights.all));
  CHECK(is_near(run(with(p, stage_3(1, false))).moved, others * 2 * weights.all));
  // Weights that the backward pass reads are gathered twice: each device moves 3 (n - 1) / n of them.
  CHECK(is_near(run(with(p, stage_3(1))).moved, others * (2 * weights.all + weights.read_back)));

  if (model != chain) {
    return;  // the batch does not divide into micro-batches
  }
  const auto micro = plan_of(model, "p100:1x" + std::to_string(devices), "data", 2);
  CHECK(is_near(run(micro).moved, others * 2 * weights.all));
  CHECK(is_near(run(with(micro, parallel::sharded_by_stage(2))).moved, others * 3 * weights.all));
  CHECK(is_near(run(with(micro, stage_3(1))).moved, others * 2 * (2 * weights.all + weights.read_back)));
}

TEST_CASE("permanent memory over all devices matches each ZeRO stage") {
  const auto p = plan_of("zoo:mlp?layers=4&hidden=30&batch=32", "p100:1x4");  // hidden=30 is not divisible by 4
  const parallel::lowering l{operators(), p.graph, p.machine};
  const auto once = weights_of(p, l).all;
  const auto kept = [&](const parallel::plan& x) {
    std::int64_t sum = 0;
    const auto program = parallel::lower(operators(), x);
    for (std::size_t f = 0; f < program.fragment_count(); ++f) {
      for (const auto& b : program[tasks::fragment_id{f}].buffers) {
        sum += b.permanent ? b.size.count() : 0;
      }
    }
    return sum;
  };
  // Weights, gradients and Adam's two states.
  CHECK(kept(p) == (4 + 4 + 8) * once);
  CHECK(kept(with(p, parallel::sharded_by_stage(1))) == (4 + 4 + 2) * once);
  CHECK(kept(with(p, parallel::sharded_by_stage(2))) == (4 + 1 + 2) * once);
  CHECK(kept(with(p, stage_3(1))) == (1 + 1 + 2) * once);
}

TEST_CASE("the 16 bytes per parameter of mixed-precision Adam are divided by ZeRO stages") {
  auto p = plan_of(chain, "p100:1x4");
  p.graph = tensor::converted(operators(), p.graph, tensor::dtype::float32, tensor::dtype::bfloat16);
  const parallel::lowering l{operators(), p.graph, p.machine};
  const auto elements = weights_of(p, l).all / 2;
  REQUIRE(elements % 4 == 0);
  const auto on_first = [&](const parallel::plan& x) {
    std::int64_t sum = 0;
    const auto program = parallel::lower(operators(), x);
    for (std::size_t f = 0; f < program.fragment_count(); ++f) {
      for (const auto& b : program[tasks::fragment_id{f}].buffers) {
        sum += b.permanent && b.device == 0 ? b.size.count() : 0;
      }
    }
    return sum;
  };
  // Source: Rajbhandari et al., ZeRO, SC 2020, figure 1: (2 + 2 + K) P, with K = 12.
  CHECK(on_first(p) == 16 * elements);
  CHECK(on_first(with(p, parallel::sharded_by_stage(1))) == (2 + 2) * elements + 12 * elements / 4);
  CHECK(on_first(with(p, parallel::sharded_by_stage(2))) == 2 * elements + 14 * elements / 4);
  CHECK(on_first(with(p, stage_3(1))) == 16 * elements / 4);
}

TEST_CASE("ZeRO stages take equal time on links that take no time") {
  const std::int64_t microbatches = GENERATE(0, 1, 2);
  CAPTURE(microbatches);
  auto p = microbatches == 0 ? plan_of(gpt, "p100:1x4") : plan_of(chain, "p100:1x4", "data", microbatches);
  auto& net = p.machine.network;
  std::vector<hardware::cable> fast(net.cables().begin(), net.cables().end());
  for (auto& c : fast) {
    c.bytes_per_second = 1'000'000'000'000'000'000;
    c.latency = {};
  }
  net = hardware::topology{
      {net.devices().begin(), net.devices().end()}, {net.switches().begin(), net.switches().end()}, std::move(fast)};
  for (auto& d : p.machine.devices) {
    d.collective_start_seconds = 0;
    d.collective_round_seconds = 0;
  }
  const auto one = run(with(p, parallel::sharded_by_stage(1))).iteration.count();
  for (const auto& sync : {parallel::sharded_by_stage(2), stage_3(0), stage_3(1), stage_3(3), stage_3(1, false)}) {
    CAPTURE(sync.stage, sync.prefetch, sync.is_resharded);
    const auto own = run(with(p, sync)).iteration.count();
    CHECK(own >= one - one / 10'000);  // up to a picosecond per message
    CHECK(own <= one + one / 10'000);
  }
}

// In a data-parallel chain, the gather for operator k begins when operator k - 1 - prefetch has ended, and ends before
// operator k begins.
TEST_CASE("weight gathers start as early as prefetch allows and end before their operator") {
  const std::uint32_t prefetch = GENERATE(0U, 1U, 2U, 3U);
  const std::int64_t microbatches = GENERATE(1, 2);
  CAPTURE(prefetch, microbatches);
  const auto p = with(plan_of(chain, "p100:1x4", "data", microbatches), stage_3(prefetch));
  const auto s = run(p);
  const parallel::lowering l{operators(), p.graph, p.machine};
  struct span {
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  // By micro-batch: from the first start to the last end of the fragment's tasks of the kind, over devices.
  const auto times_of = [&](tasks::fragment_id f, tasks::task_kind kind) {
    std::vector<span> all;
    const auto& tasks = s.program[f].tasks;
    const auto each = tasks.size() / static_cast<std::size_t>(microbatches);
    for (std::size_t m = 0; m < static_cast<std::size_t>(microbatches); ++m) {
      span own{std::int64_t{1} << 62, 0};
      for (auto t = m * each; t < (m + 1) * each; ++t) {
        if (tasks[t].kind == kind) {
          const auto& x = s.full.times()[s.program.find(f, static_cast<std::uint32_t>(t)).index()];
          own = {std::min(own.start, x.start), std::max(own.end, x.end)};
        }
      }
      all.push_back(own);
    }
    return all;
  };
  std::vector<std::vector<span>> operators_in_order;
  std::vector<std::vector<std::vector<span>>> gathers;  // by operator: spans of its weights' gathers
  for (const auto n : node_ids(p.graph)) {
    if (l.training().weights_of(n).empty()) {
      continue;
    }
    operators_in_order.push_back(times_of(l.fragment_of(n), tasks::task_kind::forward));
    gathers.emplace_back();
    for (const auto w : l.training().weights_of(n)) {
      for (std::size_t f = 0; f < s.program.fragment_count(); ++f) {
        const tasks::fragment_id id{f};
        if (s.program.owner_of(id).kind == tasks::owner_kind::shares && s.program.owner_of(id).index == w) {
          gathers.back().push_back(times_of(id, tasks::task_kind::forward));  // when they may begin
        }
      }
    }
    REQUIRE(!gathers.back().empty());
  }
  REQUIRE(operators_in_order.size() > 4);
  for (std::size_t m = 0; m < static_cast<std::size_t>(microbatches); ++m) {
    for (std::size_t k = 0; k < gathers.size(); ++k) {
      for (const auto& g : gathers[k]) {
        CAPTURE(m, k);
        CHECK(g[m].end < operators_in_order[k][m].start);
        if (k > prefetch) {
          CHECK(g[m].start == operators_in_order[k - 1 - prefetch][m].end);
        }
      }
    }
  }
}

TEST_CASE("a larger prefetch of weight gathers takes no longer and holds no less") {
  const auto p = plan_of("zoo:mlp?layers=6&hidden=512&batch=512", "p100:1x4");
  auto before = run(with(p, stage_3(0)));
  const auto none = before.iteration;
  for (const std::uint32_t prefetch : {1U, 2U, 8U}) {
    CAPTURE(prefetch);
    auto own = run(with(p, stage_3(prefetch)));
    CHECK(own.iteration <= before.iteration);
    CHECK(is_no_more(before.peaks, own.peaks));
    before = std::move(own);
  }
  CHECK(before.iteration < none);
}

TEST_CASE("recomputed operators read weights that are gathered for the backward pass", "[law]") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto p = plan_of(gpt, "p100:1x4", seed % 2 == 0 ? "data" : "mixed");
    p.recomputed.assign(p.graph.node_count(), false);
    for (const auto n : node_ids(p.graph)) {
      p.recomputed[n.index()] = parallel::can_recompute(p.graph, n) && random.below(2) == 0;
    }
    const auto held = run(with(p, parallel::sharded_by_stage(2)));
    p = with(p, stage_3(static_cast<std::uint32_t>(random.below(3))));
    const auto s = run(p);
    CHECK(is_no_more(s.peaks, held.peaks));
    std::size_t again = 0;
    for (std::size_t f = 0; f < s.program.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      const auto& owner = s.program.owner_of(id);
      if (owner.kind != tasks::owner_kind::shares) {
        continue;
      }
      for (const auto& read : s.program[id].reads) {  // a gather has ended before it is read, and is of the same pass
        if (!read.reader.fragment.valid()) {
          continue;
        }
        const auto& b = s.program[id].buffers[read.of.index];
        const auto& begin = s.full.times()[s.program.find(id, b.producer.index).index()];
        const auto& reader = s.full.times()[s.program.find(read.reader.fragment, read.reader.index).index()];
        CHECK(begin.end <= reader.start);
        const auto kind = s.program[read.reader.fragment].tasks[read.reader.index].kind;
        CHECK((s.program[id].tasks[b.producer.index].kind == tasks::task_kind::forward) ==
              (kind == tasks::task_kind::forward));
        again += kind == tasks::task_kind::recompute ? 1U : 0U;
      }
    }
    CHECK(again > 0);
  }
}

TEST_CASE("delta simulation of a plan with weight gathers equals full simulation", "[law]") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto p = with(plan_of(seed % 2 == 0 ? chain : gpt, "p100:1x4"), stage_3(1));
    simulate::delta_simulation delta{parallel::lower(operators(), p)};
    for (int edit = 0; edit < 20; ++edit) {
      const tasks::fragment_id f{random.below(delta.program().fragment_count())};
      auto changed = delta.program()[f];
      for (auto& t : changed.tasks) {
        t.duration = picoseconds{t.duration.count() * static_cast<std::int64_t>(1 + random.below(3)) / 2};
      }
      const tasks::replacement one{f, &changed};
      const auto time = delta.try_replace({&one, 1});
      REQUIRE(time.has_value());
      auto whole = delta.program();
      whole.commit();
      simulate::full_simulation full;
      CHECK(full.run(whole) == *time);
      for (std::size_t g = 0; g < whole.fragment_count(); ++g) {
        const auto range = whole.tasks_of(tasks::fragment_id{g});
        for (auto t = range.first; t < range.first + range.count; ++t) {
          REQUIRE(full.times()[t].start == delta.times(t).start);
        }
      }
      random.below(2) == 0 ? delta.commit() : delta.rollback();
    }
  }
}

}  // namespace tests_of_weight_shards
