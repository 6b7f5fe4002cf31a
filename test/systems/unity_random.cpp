// Unity's search on random graphs and machines: it never fails, keeps its budget, and plans compute what graphs do.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pcg/plan_values.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "plan_checks.hpp"
#include "shipped_rules.hpp"
#include "training_graphs.hpp"

namespace tests_of_unity_random {

namespace {

using namespace unity;
using unity::test::training::operators;

// A random machine of up to 12 devices, whose memory may be too small for any plan.
hardware::machine random_machine(random_engine& random) {
  constexpr std::array kinds{"dgx_h100", "p100", "k80", "summit", "dgx_a100", "t4"};
  const auto nodes = 1 + random.below(3);
  const auto devices = 1 + random.below(4);
  auto m = hardware::preset(fmt::format("{}:{}x{}", kinds[random.below(kinds.size())], nodes, devices));
  if (random.below(4) == 0) {
    for (auto& d : m.devices) {
      d.memory = bytes{hardware::least_device_memory.count() * static_cast<std::int64_t>(1 + random.below(20))};
    }
  }
  return m;
}

// CPU seconds of this process, because others may share its core.
double computed() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Returns how many seconds the search computed beyond its budget.
double try_one(std::uint64_t seed) {
  random_engine random{seed};
  const auto g = test::random_training_graph(random, operators(), 1 + random.below(24));
  const auto m = random_machine(random);
  systems::unity_options o;
  o.seed = seed;
  o.limits.seconds = std::array{0.0, 0.01, 0.1, 1.0}[random.below(4)];
  o.mesh_axes = 1 + random.below(3);
  if (random.below(2) == 0) {
    o.uses = 1 + static_cast<parallel::index_uses>(random.below(parallel::all_index_uses));
  }
  o.frontier = random.below(4) == 0;
  CAPTURE(seed, m.name, g.node_count(), o.limits.seconds, o.mesh_axes, o.uses, o.frontier);
  const auto start = computed();
  const auto r =
      systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
  const auto over = computed() - start - o.limits.seconds;
  CHECK(r.report.iteration > picoseconds{});
  CHECK(r.graphs_bound <= r.report.iteration);
  test::check_graph(g, r);
  CHECK(r.frontier.empty() != o.frontier);
  const auto values = test::compared_values(r.graph, r.strategy, seed);
  CAPTURE(values.sizes, values.nodes, values.elements);
  CHECK(values.verdict != parallel::value_comparison::verdicts::different);
  return over;
}

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

double try_all(std::uint64_t first, std::uint64_t count) {
  double longest = 0;
  for (auto seed = first; seed < first + count; ++seed) {
    const auto over = try_one(seed);
    if (over > 0.5) {
      fmt::print("seed {}: {:.2f} s more than its budget\n", seed, over);
    }
    longest = std::max(longest, over);
  }
  return longest;
}

}  // namespace

TEST_CASE("Unity finds a correct plan for random graphs and machines within its time budget") {
  const auto over = try_all(0, unity::test::cases(20));
  CHECK(over <= 0.5 * unity::test::one_case_of);  // sanitizers make each step longer by that factor
}

// Run by hand, takes minutes: test_systems "[random]"; FIRST and COUNT in the environment.
TEST_CASE("Unity finds correct plans for 1000 random graphs and machines within its time budget", "[.][random]") {
  const auto over = try_all(number_of("FIRST", 0), number_of("COUNT", 1000));
  fmt::print("at most {:.2f} s more than the budget\n", over);
  CHECK(over <= 0.5);
}

}  // namespace tests_of_unity_random
