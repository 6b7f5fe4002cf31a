// Results offloaded to the host, in simulation: what is copied, when, and how much memory that saves.
#include <unity/parallel/lowering/offloading_writer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../divided_at_random.hpp"
#include "../lowered_graph.hpp"
#include "../operators.hpp"

namespace tests_of_offloading_writer {

namespace {

using namespace unity;
using parallel::test::operators;
using tasks::task_kind;

struct offloading_graph {
  tensor::tensor_graph graph;
  hardware::machine machine;
  parallel::lowering lower;

  offloading_graph(std::string_view model, std::string_view on, double host_rate)
      : graph{tensor::zoo::build(operators(), model)},
        machine{with_rate(hardware::preset(on), host_rate)},
        lower{operators(), graph, machine} {}
  static hardware::machine with_rate(hardware::machine m, double rate) {
    for (auto& d : m.devices) {
      d.host_bytes_per_second = rate;
    }
    return m;
  }
  [[nodiscard]] parallel::strategy data() const { return parallel::data_parallel(lower.dimensions(), machine.network); }
};

struct outcome {
  picoseconds iteration{};
  bytes peak{};
};

outcome outcome_of(const tasks::program& p) {
  simulate::full_simulation s;
  outcome o{s.run(p), {}};
  for (const auto& m : simulate::memory_profiles(p, s.times())) {
    o.peak = std::max(o.peak, m.peak);
  }
  return o;
}

// Weights on one device, or on all.
bytes weights_of(const tasks::program& p, std::optional<tasks::device_index> device = {}) {
  bytes sum{};
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& b : p[tasks::fragment_id{f}].buffers) {
      sum += b.permanent && (!device || b.device == *device) ? b.size : bytes{};
    }
  }
  return sum;
}

bool is_copy(const tasks::program& p, const tasks::task& t) {
  return t.resource.valid() && p.resources()[t.resource.index()].name.find(" its host") != std::string::npos;
}

}  // namespace

TEST_CASE("fast offloading copies take almost no time and cut the memory of a deep chain") {
  offloading_graph x{"zoo:mlp?layers=32&hidden=512&batch=4096", "p100:1x1", 1e12};
  const auto o = parallel::offloaded_results(operators(), x.graph, {}, false);
  const auto before = outcome_of(x.lower.run(x.data()));
  const auto after = outcome_of(x.lower.run(x.data(), {}, {}, {}, o));
  CAPTURE(before.peak.count(), after.peak.count(), before.iteration.count(), after.iteration.count());
  const auto weights = weights_of(x.lower.run(x.data()));
  CHECK(5 * (after.peak - weights).count() < (before.peak - weights).count());
  // All results are back in time except the last, which is needed at once.
  const bytes result{4096 * 512 * 4};
  const auto copies =
      from_seconds(4 * (x.machine.devices[0].launch_seconds + static_cast<double>(result.count()) / 1e12));
  CHECK(after.iteration >= before.iteration);
  CHECK(after.iteration <= before.iteration + copies);
}

TEST_CASE("slow offloading copies keep the host link busy and hold at most 8 results") {
  offloading_graph x{"zoo:mlp?layers=16&hidden=256&batch=1024", "p100:1x1", 1e9};
  const auto o = parallel::offloaded_results(operators(), x.graph, {}, false);
  const auto program = x.lower.run(x.data(), {}, {}, {}, o);
  std::map<std::string, std::int64_t> busy;
  std::size_t copies = 0;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    for (const auto& t : program[tasks::fragment_id{f}].tasks) {
      if (is_copy(program, t)) {
        busy[program.resources()[t.resource.index()].name] += t.duration.count();
        ++copies;
      }
    }
  }
  REQUIRE(busy.size() == 2);
  CHECK(busy.begin()->second == busy.rbegin()->second);
  CHECK(copies % 2 == 0);
  const auto after = outcome_of(program).iteration.count();
  CHECK(after >= busy.begin()->second);
  // The link is busy except during the first and the last few operators. If each fetch waited for the operator before
  // the one that needs it, the link would idle before every fetch.
  CHECK(after <= 2 * busy.begin()->second + outcome_of(x.lower.run(x.data())).iteration.count() / 8);
  // Results neither pile up before the slow link nor return long before they are needed.
  const std::int64_t result = 1024 * 256 * 4;
  CHECK(outcome_of(program).peak.count() - weights_of(program).count() <= 8 * result);
}

TEST_CASE("a device that waits for another one holds at most 8 fetched results") {
  offloading_graph x{"zoo:mlp?layers=32&hidden=256&batch=1024", "p100:1x2", 1e9};
  parallel::strategy s;
  for (const auto n : node_ids(x.graph)) {
    const auto& o = x.lower.dimensions()[n];
    const hardware::device_id device{2 * n.index() / x.graph.node_count()};
    s.push_back(o.inputs.empty() ? parallel::configuration{} : parallel::on_device(o, device));
  }
  const auto p = x.lower.run(s, {}, {}, {}, parallel::offloaded_results(operators(), x.graph, {}, false));
  simulate::full_simulation simulation;
  simulation.run(p);
  // At most 8 of the 32 results are held. Fetches scheduled as if no task waited for another fetch would bring most of
  // them back at once.
  const std::int64_t result = 1024 * 256 * 4;
  CHECK((simulate::memory_profiles(p, simulation.times())[0].peak - weights_of(p, 0)).count() <= 8 * result);
}

TEST_CASE("the backward pass reads offloaded results from fetched copies after they arrive", "[law]") {
  const auto cases = unity::test::cases(30);
  std::size_t fetched = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    offloading_graph x{seed % 3 == 0   ? "zoo:mlp?layers=5&hidden=8&batch=8"
                       : seed % 3 == 1 ? "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4"
                                       : "zoo:lenet?batch=8",
                       "p100:1x4", 1e9};
    const auto s = seed % 2 == 0 ? parallel::test::divided_at_random(x.graph, x.lower.dimensions(), 4, random)
                                 : parallel::random_strategy(x.lower.dimensions(), 4, random);
    parallel::recomputation again(x.graph.node_count());
    parallel::offloading away(x.graph.node_count());
    for (const auto n : node_ids(x.graph)) {
      const auto draw = random.below(3);
      again[n.index()] = draw == 0 && parallel::can_recompute(x.graph, n);
      away[n.index()] = draw == 1 && parallel::can_offload(x.graph, n);
    }
    const auto p = x.lower.run(s, {}, again, {}, away);
    simulate::full_simulation simulation;
    simulation.run(p);
    const auto times_of = [&](const tasks::task_ref& t, std::size_t own) {
      return simulation.times()[p.find(t.fragment.valid() ? t.fragment : tasks::fragment_id{own}, t.index).index()];
    };
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      for (const auto& read : p[tasks::fragment_id{f}].reads) {
        const auto of = read.of.fragment.valid() ? read.of.fragment : tasks::fragment_id{f};
        const auto& owner = p.owner_of(of);
        if (owner.kind != tasks::owner_kind::node || !away[owner.index]) {
          continue;
        }
        const auto& buffer = p[of].buffers[read.of.index];
        const auto& maker = p[of].tasks[buffer.producer.index];
        const auto& reader =
            p[read.reader.fragment.valid() ? read.reader.fragment : tasks::fragment_id{f}].tasks[read.reader.index];
        const bool is_back = reader.kind == task_kind::backward || reader.kind == task_kind::recompute;
        if (maker.kind == task_kind::forward) {
          REQUIRE_FALSE(is_back);
          REQUIRE(times_of(read.reader, f).start >= times_of({of, buffer.producer.index}, f).end);
        } else if (is_copy(p, maker)) {
          REQUIRE(is_back);
          REQUIRE(times_of(read.reader, f).start >= times_of({of, buffer.producer.index}, f).end);
          ++fetched;
        }
      }
    }
  }
  CHECK(fetched > cases);
}

TEST_CASE("offloading plans run under each pipeline schedule and copy once per micro-batch") {
  const std::string model =
      GENERATE("zoo:mlp?layers=16&hidden=64&batch=32", "zoo:gpt?layers=4&hidden=32&heads=2&seq=8&vocab=16&batch=32");
  const auto again = GENERATE(false, true);
  CAPTURE(model, again);
  const auto whole = tensor::zoo::build(operators(), model);
  const auto g = parallel::microbatch(operators(), whole, parallel::graph_dimensions{operators(), whole}, 8).value();
  const auto m = offloading_graph::with_rate(hardware::preset("p100:1x2"), 1e10);
  const auto r = again ? parallel::recomputation_but_every(g, 2) : parallel::recomputation{};
  const auto o = parallel::offloaded_results(operators(), g, r, false);
  const parallel::graph_dimensions all{operators(), g};
  const auto run = [&](parallel::pipeline_schedule schedule, std::uint32_t chunks) {
    parallel::strategy s;
    for (const auto n : node_ids(g)) {
      const auto device = n.index() * 2 * chunks / g.node_count() % 2;
      s.push_back(all[n].inputs.empty() ? parallel::configuration{}
                                        : parallel::on_device(all[n], hardware::device_id{device}));
    }
    const parallel::pipeline stages{8, {0, 1}, false, schedule, chunks};
    parallel::lowering low{operators(), g, m};
    const auto one = low.run(s, {}, r, {}, o);
    const auto many = low.run(s, {}, r, stages, o);
    const auto copies_of = [](const tasks::program& p) {
      std::size_t sum = 0;
      for (std::size_t f = 0; f < p.fragment_count(); ++f) {
        for (const auto& t : p[tasks::fragment_id{f}].tasks) {
          sum += is_copy(p, t) ? 1 : 0;
        }
      }
      return sum;
    };
    CHECK(copies_of(one) > 0);
    CHECK(copies_of(many) == 8 * copies_of(one));
    const auto kept = parallel::report_on(low, g, m, s, stages, {}, r);
    const auto moved = parallel::report_on(low, g, m, s, stages, {}, r, o);
    CHECK(moved.compute == kept.compute);
    CHECK(moved.communicated == kept.communicated);
    return std::pair{kept, moved};
  };
  using schedules = parallel::pipeline_schedule;
  const auto [kept, moved] = run(schedules::gpipe, 1);
  CHECK(moved.memory_peak() < kept.memory_peak());
  run(schedules::one_forward_one_backward, 1);
  run(schedules::zero_bubble, 1);
  run(schedules::interleaved, 2);
}

TEST_CASE("lowering an offloading plan on a machine without host rate is an error") {
  offloading_graph x{"zoo:mlp?layers=2&hidden=8&batch=8", "p100:1x1", 0};
  const auto o = parallel::offloaded_results(operators(), x.graph, {}, false);
  CHECK_THROWS_WITH(x.lower.run(x.data(), {}, {}, {}, o), Catch::Contains("no rate between it and its host"));
}

}  // namespace tests_of_offloading_writer
