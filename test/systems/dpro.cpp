#include <unity/systems/dpro.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/laws.hpp>
#include <unity/systems/dpro/space.hpp>
#include <unity/trace/eigen_alignment.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "../support/cases.hpp"
#include "../trace/generated_job.hpp"
#include "simulated_job.hpp"

namespace tests_of_dpro {

using namespace unity;
using systems::dpro_space;
using systems::dpro_strategy;
using systems::dpro_view;

static_assert(search_space<dpro_space>);

namespace {

test::simulated_job job_of(std::uint32_t servers, std::uint32_t workers = 4, std::string model = "zoo:lenet?batch=32") {
  test::simulated_job_options o;
  o.model = std::move(model);
  o.workers = workers;
  o.per_machine = 2;
  o.servers = servers;
  return test::job_simulator{o}.run();
}

dpro_strategy random_strategy(const dpro_view& v, random_engine& random) {
  auto s = v.separate();
  const auto share = random.between(0, 100);
  std::uint32_t first = 0;
  for (std::uint32_t o = 1; o < s.fused.size(); ++o) {
    s.fused[o] = random.between(0, 99) < share && v.may_fuse(first, o) ? 1 : 0;
    first = s.fused[o] != 0 ? first : o;
  }
  for (std::uint32_t t = 1; t < s.joined.size(); ++t) {
    s.joined[t] = random.between(0, 99) < share && v.may_join(t) ? 1 : 0;
  }
  for (const auto& b : systems::runs_of(s.joined)) {
    s.parts[b.last] = static_cast<std::uint32_t>(random.between(1, 6));
  }
  return s;
}

// The least iteration over all strategies of tensors (operators as they are), of the job on all ranks.
picoseconds least_of_all(const dpro_view& v, const dpro_strategy& from, std::uint32_t most_parts) {
  picoseconds least{std::numeric_limits<std::int64_t>::max()};
  const auto tensors = v.tensors().size();
  for (std::uint32_t mask = 0; mask < (1U << (tensors - 1)); ++mask) {
    auto s = from;
    for (std::uint32_t t = 1; t < tensors; ++t) {
      s.joined[t] = (mask >> (t - 1)) & 1U;
    }
    const auto buckets = systems::runs_of(s.joined);
    std::vector<std::uint32_t> parts(buckets.size(), 1);
    for (;;) {
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        s.parts[buckets[b].last] = parts[b];
      }
      least = std::min(least, systems::iteration_of(v, s));
      std::size_t b = 0;
      while (b < parts.size() && parts[b] == most_parts) {
        parts[b++] = 1;
      }
      if (b == parts.size()) {
        break;
      }
      ++parts[b];
    }
  }
  return least;
}

}  // namespace

TEST_CASE("dPRO's recorded strategy replays to the recorded iteration time", "[systems]") {
  for (const std::uint32_t servers : {0U, 2U}) {
    const auto job = job_of(servers);
    const auto recorded = trace::replay(job.graph, job.names).iteration;
    const dpro_view whole{job.graph, job.names, job.fused(), {true, false}};
    CHECK(whole.is_alike());
    CHECK(systems::iteration_of(whole, whole.recorded()) == recorded);
    const dpro_view apart{job.graph, job.names, job.fused(), {false, false}};
    CHECK(apart.operators().size() == 4 * whole.operators().size());
    CHECK(systems::iteration_of(apart, apart.recorded()) == recorded);
    CHECK(evaluate(whole, whole.recorded()).iteration == recorded);
  }
}

TEST_CASE("dPRO's folded job of one worker is within 10% of all workers on average", "[systems][law]") {
  const std::uint64_t seed = 20261125;
  CAPTURE(seed);
  random_engine random{seed};
  for (const std::uint32_t servers : {0U, 1U, 2U}) {
    const auto job = job_of(servers, 6);
    const dpro_view folded{job.graph, job.names, job.fused()};
    const dpro_view whole{job.graph, job.names, job.fused(), {true, false}};
    REQUIRE(folded.is_folded());
    double errors = 0;
    for (std::uint64_t k = 0; k < test::cases(100); ++k) {
      const auto s = random_strategy(folded, random);
      const auto one = to_seconds(systems::iteration_of(folded, s));
      const auto all = to_seconds(systems::iteration_of(whole, s));
      errors += std::abs(one - all) / all / static_cast<double>(test::cases(100));
      CHECK(one > 0.6 * all);  // many small parts wait for each other on every link
      CHECK(one < 1.2 * all);
    }
    CHECK(errors < 0.1);
  }
}

TEST_CASE("a dPRO job with different ranks is not folded and replays to its recorded time", "[systems]") {
  auto job = job_of(0);
  for (auto& t : job.graph.tasks) {
    if (t.rank == 2 && t.type == trace::task_type::kernel) {
      t.name = job.names.intern("another " + job.names.text(t.name));
    }
  }
  const dpro_view v{job.graph, job.names, trace::saved_starts(picoseconds{1'000'000})};
  CHECK_FALSE(v.is_alike());
  CHECK_FALSE(v.is_folded());
  CHECK(systems::iteration_of(v, v.recorded()) == trace::replay(job.graph, job.names).iteration);
}

TEST_CASE("dPRO does not fuse operators with an indirect dependency", "[systems]") {
  auto job = job_of(0, 2);
  // On rank 0, makes the third operator depend on the first by way of the host.
  std::vector<std::uint32_t> kernels;
  for (std::uint32_t t = 0; t < job.graph.tasks.size(); ++t) {
    if (job.graph.tasks[t].rank == 0 && job.graph.tasks[t].type == trace::task_type::kernel) {
      kernels.push_back(t);
    }
  }
  trace::flow_task delay;
  delay.type = trace::task_type::delay;
  const auto between = job.graph.add(delay);
  job.graph.link(kernels[0], between);
  job.graph.link(between, kernels[2]);
  const dpro_view v{job.graph, job.names, job.fused(), {false, false}};
  CHECK(v.may_fuse(0, 1));
  CHECK_FALSE(v.may_fuse(0, 2));
  CHECK(v.may_fuse(1, 2));
  auto s = v.recorded();
  s.fused[1] = 1;
  CHECK(systems::iteration_of(v, s) > picoseconds{});  // there is no cycle
}

TEST_CASE("dPRO is no slower than the recorded job and within 2% of the best tensor strategy", "[systems]") {
  constexpr std::uint32_t counts[] = {0, 2};
  for (const auto servers : std::span{counts}.first(test::cases(2))) {
    const auto job = job_of(servers);
    systems::dpro_options o;
    o.techniques = {false, true, true};
    o.most_parts = test::all_or(4U, 2U);
    const auto r = systems::dpro(job.graph, job.names, job.fused(), o);
    CHECK(r.iteration <= r.recorded);
    const dpro_view whole{job.graph, job.names, job.fused(), {true, false}};
    CHECK(systems::iteration_of(whole, r.best) == r.iteration);
    const auto least = least_of_all(whole, whole.separate(), o.most_parts);
    CHECK(r.iteration >= least);
    CHECK(to_seconds(r.iteration) <= 1.02 * to_seconds(least));
    CHECK(systems::dpro(job.graph, job.names, job.fused(), o).best == r.best);
  }
}

TEST_CASE("dPRO's speed-ups lose at most 5% of the iteration time found without them", "[systems]") {
  const auto job = job_of(2);
  const auto found = systems::dpro(job.graph, job.names, job.fused());
  for (int k = test::one_case_of > 1 ? 2 : 0; k < 3; ++k) {
    systems::dpro_options o;
    o.speedups = {k > 0, k > 1, false};
    o.most_parts = 8;
    const auto slow = systems::dpro(job.graph, job.names, job.fused(), o);
    CAPTURE(k);
    CHECK(slow.iteration <= slow.recorded);
    CHECK(to_seconds(found.iteration) <= 1.05 * to_seconds(slow.iteration));
  }
}

TEST_CASE("dPRO uses only the allowed techniques", "[systems]") {
  const auto job = job_of(2);
  systems::dpro_options o;
  o.techniques = {true, false, false};
  const auto operators = systems::dpro(job.graph, job.names, job.fused(), o).best;
  CHECK(systems::runs_of(operators.fused).size() < operators.fused.size());  // which saves starts of kernels
  CHECK(systems::runs_of(operators.joined).size() == operators.joined.size());
  CHECK(operators.parts == std::vector<std::uint32_t>(operators.parts.size(), 1));
  o.techniques = {false, true, false};
  const auto tensors = systems::dpro(job.graph, job.names, job.fused(), o).best;
  CHECK(systems::runs_of(tensors.fused).size() == tensors.fused.size());
  CHECK(tensors.parts == std::vector<std::uint32_t>(tensors.parts.size(), 1));
  o.techniques = {false, false, true};
  const auto divided = systems::dpro(job.graph, job.names, job.fused(), o).best;
  CHECK(systems::runs_of(divided.fused).size() == divided.fused.size());
  CHECK(systems::runs_of(divided.joined).size() == divided.joined.size());
}

TEST_CASE("dPRO stops at its limit of expansions", "[systems]") {
  const auto job = job_of(2);
  systems::dpro_options o;
  o.limits.expansions = 2;
  const auto r = systems::dpro(job.graph, job.names, job.fused(), o);
  CHECK(r.stopped == stop_reason::expansions);
  CHECK(r.iteration <= r.recorded);
  // Over before the first replay: the best of the strategies from which searches would start.
  const dpro_view whole{job.graph, job.names, job.fused(), {true, false}};
  o.limits.expansions = 0;
  const auto none = systems::dpro(job.graph, job.names, job.fused(), o);
  CHECK(none.iteration == systems::iteration_of(whole, none.best));
  CHECK(none.iteration <= none.recorded);
  CHECK(none.stopped == stop_reason::expansions);
  o.limits = {};
  o.limits.seconds = 0;
  const auto late = systems::dpro(job.graph, job.names, job.fused(), o);
  CHECK(late.iteration <= late.recorded);
  CHECK(late.stopped == stop_reason::time);
}

TEST_CASE("dPRO's space satisfies the laws of search spaces", "[systems][law]") {
  const auto job = job_of(2);
  const dpro_view v{job.graph, job.names, job.fused()};
  const systems::dpro_techniques all{};
  dpro_space space{v, coarsened(v, v.separate(), all), all, 8};
  const auto broken = broken_law(space, {.seed = 7, .steps = 20, .moves = 16, .threads = 2});
  CHECK_FALSE(broken);
  beam_options o;
  o.width = 4;
  const auto best = beam(space, o);
  CHECK(best.cost <= space.initial().cost);
}

TEST_CASE("dPRO's result for ring traces is no slower than their replay", "[systems]") {
  random_engine random{11};
  test::generated_job_options o;
  o.machines = 4;
  const auto generated = test::job_generator{random, o}.run();
  const auto messages = trace::match_transactions(generated.job);
  const trace::aligned_job job{generated.job, messages, trace::align_clocks(generated.job, messages)};
  const auto graph = trace::average_steps(job).graph;
  const auto r = systems::dpro(graph, generated.job.names, trace::saved_starts({}));
  CHECK(r.recorded == trace::replay(graph, generated.job.names).iteration);
  CHECK(r.iteration <= r.recorded);
}

TEST_CASE("dPRO divides a bucket into the gradients that the trace states", "[systems]") {
  auto job = job_of(0, 2);
  const dpro_view whole{job.graph, job.names, job.fused()};
  REQUIRE(whole.tensors().size() == 5);
  // The first bucket has two gradients, a quarter and three quarters of it; the others have one each.
  for (const auto& r : {0U, 1U}) {
    for (std::size_t t = 0; t < whole.tensors().size(); ++t) {
      for (const auto& e : whole.tensors()[t].ready) {
        if (e.task != r) {
          continue;
        }
        const auto size = whole.tensors()[t].size;
        const auto task = e.outside.front();
        if (t == 0) {
          job.graph.gradients.push_back({task - 1, size / 4});
        }
        job.graph.gradients.push_back({task, t == 0 ? size - size / 4 : size});
      }
    }
  }
  const dpro_view v{job.graph, job.names, job.fused()};
  REQUIRE(v.tensors().size() == 6);
  CHECK(v.tensors()[0].size == whole.tensors()[0].size / 4);
  CHECK(v.tensors()[0].way == v.tensors()[1].way);
  CHECK(v.recorded().joined == std::vector<std::uint8_t>{0, 1, 0, 0, 0, 0});
  CHECK(systems::iteration_of(v, v.recorded()) == systems::iteration_of(whole, whole.recorded()));
  CHECK(systems::iteration_of(v, v.separate()) > picoseconds{});
  // Without sizes nothing says how long a gradient alone would take.
  for (auto& g : job.graph.gradients) {
    g.size = {};
  }
  for (auto& c : job.graph.communications) {
    c.size = {};
  }
  const dpro_view unknown{job.graph, job.names, job.fused()};
  CHECK_FALSE(unknown.knows_sizes());
  CHECK(unknown.recorded().joined == v.recorded().joined);
  CHECK(unknown.separate() == unknown.recorded());
}

}  // namespace tests_of_dpro
