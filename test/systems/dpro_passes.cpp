#include <unity/systems/dpro/passes.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/systems/dpro/fitting.hpp>
#include <unity/trace/replay.hpp>

#include "../support/message_of.hpp"

namespace tests_of_dpro_passes {

using namespace unity;
using systems::graph_pass;

namespace {

constexpr picoseconds us{1'000'000};

// A rank with one stream of forward operators of 10 us with these names, and backward operators of 20 us in reverse
// order. Each result, of 1000 bytes, lives until its backward operator; 500 bytes are permanent.
struct small_job {
  trace::flow_graph graph{};
  trace::name_table names{};

  explicit small_job(const std::vector<std::string>& operators) {
    graph.ranks.push_back({"rank 0", 0, 0, {}, bytes{500}});
    graph.resources.push_back({"stream", 0, trace::lane_kind::stream});
    trace::flow_task t;
    t.type = trace::task_type::begin;
    auto last = graph.add(t);
    graph.ranks[0].begin = last;
    const auto add = [&](const std::string& name, trace::phase part, picoseconds time) {
      t = {};
      t.type = trace::task_type::kernel;
      t.name = names.intern(name);
      t.part = part;
      t.duration = t.recorded_duration = time;
      t.recorded_start = now;
      t.resource = 0;
      now += time;
      const auto at = graph.add(t);
      graph.link(last, at);
      return last = at;
    };
    std::vector<std::uint32_t> forward;
    for (const auto& o : operators) {
      forward.push_back(add(o, trace::phase::forward, 10 * us));
    }
    for (auto f = forward.rbegin(); f != forward.rend(); ++f) {
      const auto back = add("backward", trace::phase::backward, 20 * us);
      graph.allocations.push_back({0, *f, back, bytes{1000}});
    }
    add("update", trace::phase::update, 5 * us);
    t = {};
    t.type = trace::task_type::finish;
    t.recorded_start = now;
    const auto end = graph.add(t);
    graph.link(last, end);
    graph.ranks[0].finish = end;
  }

  [[nodiscard]] systems::pass_effect after(const graph_pass& p) const {
    auto g = graph;
    REQUIRE(p.change(g, names));
    return effect(g);
  }
  [[nodiscard]] systems::pass_effect effect(const trace::flow_graph& g) const {
    const auto r = trace::replay(g, names);
    return {{}, r.iteration, trace::memory_use(g, r)[0].peak};
  }

  picoseconds now{};
};

const std::vector<std::string> network{"conv2d", "relu", "add", "relu", "matmul", "relu", "add", "relu"};

}  // namespace

TEST_CASE("recomputation repeats operators between products and lowers the peak memory", "[systems]") {
  const small_job job{network};
  const auto before = job.effect(job.graph);
  CHECK(before.iteration == (8 * 10 + 8 * 20 + 5) * us);
  CHECK(before.peak == bytes{500 + 8 * 1000});
  const auto after = job.after(systems::recomputation());
  CHECK(after.iteration == before.iteration + 6 * 10 * us);
  // Live at the peak: the two products, the recomputed segment, and what the first backward operator frees.
  CHECK(after.peak <= bytes{500 + 6 * 1000});
  CHECK(after.peak >= bytes{500 + 4 * 1000});
}

TEST_CASE("recomputed operators read results that are kept or recomputed before", "[systems]") {
  // conv -> relu -> add (of conv and relu) -> matmul; each backward operator reads its forward one's operands.
  small_job job{{"conv2d", "relu", "add", "matmul"}};
  auto& g = job.graph;
  const auto task = [&](std::size_t k) { return static_cast<std::uint32_t>(1 + k); };  // task 0 is begin
  // Backward operators 4 to 7 belong to matmul, add, relu, conv2d; the allocations are in the order 3, 2, 1, 0.
  for (const auto& [made, reader] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{1, 2}, std::pair{2, 3},
                                     std::pair{2, 4}, std::pair{1, 6}, std::pair{0, 6}}) {
    g.reads.push_back({static_cast<std::uint32_t>(3 - made), task(static_cast<std::size_t>(reader))});
    auto& last = g.allocations[static_cast<std::size_t>(3 - made)].last;
    last = task(static_cast<std::size_t>(reader));
  }
  g.allocations[3].last = g.allocations[2].last = task(6);
  const auto before = job.effect(g);
  auto changed = g;
  REQUIRE(systems::recomputation().change(changed, job.names));
  // relu and add are recomputed before the matmul's backward operator; relu for add and for its own backward operator.
  CHECK(job.effect(changed).iteration == before.iteration + 2 * 10 * us);
  std::vector<std::string> again;
  for (std::size_t t = g.tasks.size(); t < changed.tasks.size(); ++t) {
    again.push_back(job.names.text(changed.tasks[t].name));
  }
  CHECK(again == std::vector<std::string>{"relu", "add"});
  CHECK(changed.allocations.size() == g.allocations.size() + 2);
  CHECK(changed.allocations[1].last == task(3));  // that of add: until the matmul
}

TEST_CASE("gradient accumulation divides activation memory and adds its overhead per operator", "[systems]") {
  const small_job job{network};
  const auto free = job.after(systems::accumulation(4, {}));
  CHECK(free.iteration == job.effect(job.graph).iteration);
  CHECK(free.peak == bytes{500 + 8 * 250});
  // 2 us of each operator do not depend on the batch.
  const auto costly = job.after(systems::accumulation(2, 2 * us));
  CHECK(costly.iteration == job.effect(job.graph).iteration + 16 * 2 * us);
}

TEST_CASE("mixed precision speeds up products by the given factor and halves activation memory", "[systems]") {
  const small_job job{network};
  const auto after = job.after(systems::mixed_precision(5));
  CHECK(after.iteration == (2 * 2 + 6 * 5 + 8 * 10 + 5) * us);
  CHECK(after.peak == bytes{500 + 8 * 500});
}

TEST_CASE("fit_job takes the fastest passes that fit and none if the job fits", "[systems]") {
  const small_job job{network};
  const std::vector<graph_pass> passes{systems::recomputation(), systems::accumulation(2, us),
                                       systems::accumulation(4, us)};
  CHECK(systems::fit_job(job.graph, job.names, {}, passes).effect.passes.empty());
  CHECK(systems::fit_job(job.graph, job.names, bytes{9000}, passes).effect.passes.empty());
  const auto some = systems::fit_job(job.graph, job.names, bytes{6000}, passes);
  CHECK(some.fits);
  CHECK(some.effect.passes == std::vector<std::string>{"accumulation=2"});
  CHECK(some.before.peak == bytes{8500});
  CHECK(some.tried.size() == 3);
  for (const auto& e : some.tried) {
    CHECK((e.peak > bytes{6000} || e.iteration >= some.effect.iteration));
  }
  const auto both = systems::fit_job(job.graph, job.names, bytes{2000}, passes);
  CHECK(both.effect.passes.size() == 2);
  CHECK(both.tried.size() == 5);
  CHECK_FALSE(systems::fit_job(job.graph, job.names, bytes{600}, passes).fits);
}

TEST_CASE("fit_job applies a user-defined pass only if it shortens the iteration", "[systems]") {
  const small_job job{network};
  const auto scaled = [](double factor) {
    return graph_pass{"mine", false, false, [factor](trace::flow_graph& g, const trace::name_table&) {
                        for (auto& t : g.tasks) {
                          t.duration =
                              picoseconds{static_cast<std::int64_t>(static_cast<double>(t.duration.count()) * factor)};
                        }
                        return true;
                      }};
  };
  CHECK(systems::fit_job(job.graph, job.names, {}, {scaled(0.5)}).effect.passes.size() == 1);
  CHECK(systems::fit_job(job.graph, job.names, {}, {scaled(2)}).effect.passes.empty());
}

TEST_CASE("dPRO passes are found by name and unknown names are refused", "[systems]") {
  CHECK(systems::pass_named("recomputation", {}).name == "recomputation");
  CHECK(systems::pass_named("accumulation=8", {}).name == "accumulation=8");
  CHECK(systems::pass_named("mixed_precision", {}).changes_numbers);
  for (const std::string_view bad : {"accumulation", "accumulation=1", "accumulation=2.5", "accumulation=x", "magic",
                                     "mixed_precision=0", "mixed_precision="}) {
    CAPTURE(bad);
    CHECK(test::message_of([&] { static_cast<void>(systems::pass_named(bad, {})); }).find("expected operator_fusion") !=
          std::string::npos);
  }
}

TEST_CASE("fit_job and recomputation need memory data if there is a limit", "[systems]") {
  small_job job{network};
  job.graph.allocations.clear();
  job.graph.ranks[0].held = {};
  CHECK_THROWS_WITH(systems::fit_job(job.graph, job.names, bytes{100}, {}),
                    "traces: nothing about memory; expected traces that tell what memory operators need, as there is "
                    "a limit");
  CHECK_FALSE(systems::recomputation().change(job.graph, job.names));
}

TEST_CASE("is_product recognizes matrix products and convolutions by operator name", "[systems]") {
  for (const std::string_view name :
       {"aten::addmm", "aten::conv2d", "linear 18", "volta_sgemm_128x64_nn", "MatMul", "flash_attention"}) {
    CHECK(systems::is_product(name));
  }
  for (const std::string_view name : {"aten::relu", "add 3", "softmax"}) {
    CHECK_FALSE(systems::is_product(name));
  }
}

}  // namespace tests_of_dpro_passes
