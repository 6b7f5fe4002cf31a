// Recomputed operators, in simulation: it recomputes the operators that ranks recompute, when their results are needed,
// and holds results no longer than that.
#include <unity/parallel/lowering/recomputation_writer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/folding.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/next_iteration.hpp>
#include <unity/parallel/lowering/pipelined_program.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../divided_at_random.hpp"
#include "../lowered_graph.hpp"
#include "../operators.hpp"

namespace tests_of_recomputation_writer {

namespace {

using namespace unity;
using parallel::test::lowered_graph;
using parallel::test::operators;
using tasks::task_kind;

parallel::recomputation everything(const tensor::tensor_graph& g) {
  return parallel::recomputation_but_every(g, g.node_count() + 1);
}

parallel::recomputation random_set(const tensor::tensor_graph& g, random_engine& random) {
  parallel::recomputation all(g.node_count());
  for (const auto n : node_ids(g)) {
    all[n.index()] = random.below(3) > 0 && parallel::can_recompute(g, n);
  }
  return all;
}

bytes peak_of(const tasks::program& p) {
  simulate::full_simulation s;
  s.run(p);
  bytes most{};
  for (const auto& m : simulate::memory_profiles(p, s.times())) {
    most = std::max(most, m.peak);
  }
  return most;
}

picoseconds time_of(const tasks::program& p) {
  simulate::full_simulation s;
  return s.run(p);
}

std::vector<std::size_t> again_by_node(const parallel::lowering& l, const tasks::program& p) {
  std::vector<std::size_t> all(l.graph().node_count());
  for (const auto n : node_ids(l.graph())) {
    if (l.fragment_of(n).valid()) {
      const auto& tasks = p[l.fragment_of(n)].tasks;
      all[n.index()] = static_cast<std::size_t>(std::count_if(
          tasks.begin(), tasks.end(), [](const tasks::task& t) { return t.kind == task_kind::recompute; }));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("recomputation on one device adds the forward time of the recomputed operators") {
  for (const auto* model : {"zoo:mlp?layers=8&hidden=64&batch=64", "zoo:lenet", "zoo:rnnlm?seq=2"}) {
    lowered_graph x{model, "p100:1x1"};
    const auto all = parallel::full_recomputation(x.graph);
    const auto before = x.lower.run(x.data());
    const auto after = x.lower.run(x.data(), {}, all);
    std::int64_t more = 0;
    std::size_t count = 0;
    for (const auto n : node_ids(x.graph)) {
      if (!x.lower.fragment_of(n).valid()) {
        continue;
      }
      const auto& fragment = after[x.lower.fragment_of(n)];
      for (const auto& t : fragment.tasks) {
        if (t.kind == task_kind::recompute) {
          CHECK(all[n.index()]);
          CHECK(t.duration == fragment.tasks[t.shard].duration);
          more += t.duration.count();
          ++count;
        }
      }
    }
    CAPTURE(model);
    CHECK(count > 0);
    CHECK(time_of(after) - time_of(before) == picoseconds{more});
  }
}

TEST_CASE("checkpoints halve the peak memory of a chain; recomputing everything holds more") {
  lowered_graph x{"zoo:mlp?layers=64&hidden=8&batch=512", "p100:1x1"};
  const auto all = peak_of(x.lower.run(x.data()));
  const auto some = peak_of(x.lower.run(x.data(), {}, parallel::full_recomputation(x.graph)));
  CAPTURE(all.count(), some.count());
  CHECK(2 * some.count() < all.count());
  CHECK(peak_of(x.lower.run(x.data(), {}, everything(x.graph))) > some);
}

TEST_CASE("simulation recomputes the operators that ranks recompute", "[law]") {
  const auto cases = unity::test::cases(40);
  // Ranks also run operators of these kinds to cut and join parts.
  const std::array<std::string_view, 6> parts{"slice", "concat", "sub", "add", "fill", "scalar_multiply"};
  std::size_t again = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    random_engine random{seed};
    const auto* model = seed % 3 == 0   ? "zoo:mlp?layers=5&hidden=8&batch=8"
                        : seed % 3 == 1 ? "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4"
                                        : "zoo:lenet?batch=8";
    lowered_graph x{model, "p100:1x4"};
    parallel::plan p;
    p.graph = x.graph;
    p.machine = x.machine;
    const bool has_copies = seed % 2 == 0;
    p.configurations = has_copies ? parallel::test::divided_at_random(x.graph, x.lower.dimensions(), 4, random)
                                  : parallel::random_strategy(x.lower.dimensions(), 4, random);
    p.recomputed = random_set(x.graph, random);
    const auto simulated = again_by_node(x.lower, x.lower.run(p.configurations, {}, p.recomputed));
    std::vector<std::size_t> run(x.graph.node_count());
    const auto count = [&](const parallel::plan& of, bool adds) {
      for (const auto& r : parallel::programs_of_ranks(operators(), of).ranks) {
        for (const auto& s : r.steps) {
          if (s.kind == parallel::step_kind::run && s.is_backward &&
              r.graph.operation(s.node).kind == x.graph.operation(s.origin).kind) {
            run[s.origin.index()] += adds ? 1 : static_cast<std::size_t>(-1);
          }
        }
      }
    };
    count(p, true);
    p.recomputed = {};
    count(p, false);
    for (const auto n : node_ids(x.graph)) {
      const std::string_view name = operators().signature(x.graph.operation(n).kind).name;
      if (std::find(parts.begin(), parts.end(), name) == parts.end()) {
        CAPTURE(seed, n.index(), name, run[n.index()], simulated[n.index()]);
        REQUIRE(run[n.index()] <= simulated[n.index()]);  // ranks skip the backward pass of copies that nobody reads
        REQUIRE((has_copies || run[n.index()] == simulated[n.index()]));
        again += simulated[n.index()];
      }
    }
  }
  CHECK(again > cases);
}

TEST_CASE("backward tasks read no dropped result; recomputation follows the forward pass", "[law]") {
  const auto cases = unity::test::cases(20);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    lowered_graph x{seed % 2 == 0 ? "zoo:mlp?layers=5&hidden=8&batch=8" : "zoo:lenet?batch=8", "p100:1x4"};
    // A random strategy has no copies that nobody reads; those could run at any time.
    const auto s = parallel::random_strategy(x.lower.dimensions(), 4, random);
    const auto r = random_set(x.graph, random);
    const auto p = x.lower.run(s, {}, r);
    simulate::full_simulation simulation;
    simulation.run(p);
    const auto kind_of = [&](const tasks::task_ref& t, std::size_t own) {
      const auto f = t.fragment.valid() ? t.fragment : tasks::fragment_id{own};
      return p[f].tasks[t.index].kind;
    };
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      for (const auto& read : p[tasks::fragment_id{f}].reads) {
        const auto of = read.of.fragment.valid() ? read.of.fragment : tasks::fragment_id{f};
        const auto& owner = p.owner_of(of);
        const auto& buffer = p[of].buffers[read.of.index];
        if (owner.kind == tasks::owner_kind::node && r[owner.index] && !buffer.permanent &&
            kind_of(buffer.producer, of.index()) == task_kind::forward) {
          REQUIRE(kind_of(read.reader, f) != task_kind::backward);
          REQUIRE(kind_of(read.reader, f) != task_kind::recompute);
        }
      }
    }
    std::vector<std::int64_t> last(4, 0);  // end of the last forward task in the order of the graph, by device
    for (const auto n : node_ids(x.graph)) {
      for (std::uint32_t t = 0; t < s[n.index()].task_count(); ++t) {
        last[s[n.index()].devices[t].index()] = simulation.times()[p.find(x.lower.fragment_of(n), t).index()].end;
      }
    }
    for (const auto n : node_ids(x.graph)) {
      if (!x.lower.fragment_of(n).valid()) {
        continue;
      }
      const auto& tasks = p[x.lower.fragment_of(n)].tasks;
      for (std::uint32_t t = 0; t < tasks.size(); ++t) {
        if (tasks[t].kind == task_kind::recompute) {
          REQUIRE(simulation.times()[p.find(x.lower.fragment_of(n), t).index()].start >=
                  last[tasks[t].resource.index()]);
        }
      }
    }
  }
}

TEST_CASE("a pipeline recomputes once per micro-batch with less memory and more time") {
  lowered_graph whole{"zoo:mlp?layers=12&hidden=32&batch=64", "p100:1x2"};
  auto g = parallel::microbatch(operators(), whole.graph, whole.lower.dimensions(), 4).value();
  parallel::plan p;
  p.machine = whole.machine;
  p.pipeline = {4, {0, 1}, false};
  for (const auto n : node_ids(g)) {
    auto& c = p.configurations.emplace_back();
    if (const auto& o = whole.lower.dimensions()[n]; !o.inputs.empty()) {
      c.degrees = parallel::degree_list(o.divisible.size(), 1);
      c.devices = {hardware::device_id{2 * n.index() / g.node_count()}};
    }
  }
  p.graph = std::move(g);
  const auto before = parallel::lower(operators(), p);
  p.recomputed = parallel::full_recomputation(p.graph);
  const auto after = parallel::lower(operators(), p);
  const auto count = [](const tasks::program& of) {
    std::size_t all = 0;
    for (std::size_t f = 0; f < of.fragment_count(); ++f) {
      for (const auto& t : of[tasks::fragment_id{f}].tasks) {
        all += t.kind == task_kind::recompute ? 1 : 0;
      }
    }
    return all;
  };
  auto one = p;
  one.pipeline = {1, {0, 1}, false};
  CHECK(count(before) == 0);
  CHECK(count(parallel::lower(operators(), one)) > 0);
  CHECK(count(after) == 4 * count(parallel::lower(operators(), one)));
  CHECK(peak_of(after) < peak_of(before));
  CHECK(time_of(after) > time_of(before));
  CHECK_NOTHROW(parallel::carried_dependencies(operators(), p, after));
}

TEST_CASE("a plan with recomputation is not folded; the reason is given") {
  lowered_graph x{tensor::zoo::build(operators(), "zoo:rnnlm?batch=16&hidden=16&vocab=32&seq=2"), "p100:4x4",
                  parallel::transfers::messages};
  const auto symmetries = parallel::node_shifts(x.machine.network);
  const auto kept = parallel::fold(operators(), x.lower, x.data(), symmetries);
  const auto again = parallel::fold(operators(), x.lower, x.data(), symmetries, {}, everything(x.graph));
  CHECK(kept.order > 1);
  CHECK(again.order == 1);
  CHECK(again.why_not_more == "operators are recomputed");
  CHECK(again.program.task_count() == x.lower.run(x.data(), {}, everything(x.graph)).task_count());
}

}  // namespace tests_of_recomputation_writer
