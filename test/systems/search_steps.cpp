// The steps of Unity's search, each tested alone: mappings, substituted graphs, pipelines.
#include <unity/systems/unity/mapping_trials.hpp>
#include <unity/systems/unity/pipeline_trials.hpp>
#include <unity/systems/unity/substituted_graphs.hpp>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/options.hpp>
#include <unity/systems/unity/search_context.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace tests_of_search_steps {

namespace {

using namespace unity;
using systems::detail::bit;
using systems::detail::graph_variant;
using systems::detail::mapping_trials;
using systems::detail::search_context;
using systems::detail::simulated_best;
using unity::test::training::operators;
using use = parallel::index_use;

// A graph on four devices, and a search that has made no step.
struct subject {
  explicit subject(const std::string& model) : graph{tensor::zoo::build(operators(), model)} {
    context.record.graphs_bound = context.computing_of(graph);
  }

  tensor::tensor_graph graph;
  hardware::machine machine = hardware::preset("p100:1x4");
  systems::unity_options options{};
  search_context context{operators(), machine, parallel::analytic_durations(operators(), machine), options};
  std::vector<graph_variant> variants{{graph, {}, {}}};

  // The reported iteration time is that of simulating the strategy again.
  void check(const simulated_best& found) {
    const auto& g = variants[found.graph].graph;
    auto lowering = context.lowering_of(g);
    const auto again = parallel::report_on(lowering, g, machine, found.strategy);
    CHECK(again.iteration == found.report.iteration);
    CHECK(again.iteration > picoseconds{});
  }
};

constexpr const char* small_mlp = "zoo:mlp?layers=3&batch=64&hidden=512";

}  // namespace

TEST_CASE("mapping_trials return the best simulated mapping and sort candidates by prediction") {
  subject on{small_mlp};
  mapping_trials trials{on.context};
  const auto found = trials.simulate(on.variants[0], 0);
  on.check(found);
  const auto& all = trials.of_given();
  REQUIRE(all.size() > 1);
  CHECK(on.variants[0].candidates.size() == all.size());
  CHECK(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.predicted < b.predicted; }));
  REQUIRE(!on.context.record.simulated.empty());
  for (const auto& s : on.context.record.simulated) {
    CHECK(s.graph == 0);
    CHECK_FALSE(systems::detail::is_better(s.report, found.report));
  }
}

TEST_CASE("branches are split onto device blocks only if placement is allowed") {
  subject on{"zoo:candle_uno?batch=64"};
  on.options.uses = parallel::all_index_uses & ~bit(use::placement);
  mapping_trials without{on.context};
  CHECK_FALSE(without.best_split(on.variants, without.simulate(on.variants[0], 0)));

  on.options.uses = parallel::all_index_uses;
  mapping_trials trials{on.context};
  const auto whole = trials.simulate(on.variants[0], 0);
  const auto split = trials.best_split(on.variants, whole);
  REQUIRE(split);
  on.check(*split);
  CHECK(on.context.record.simulated.back().is_split);
}

TEST_CASE("add_smaller_sets adds mesh solvers for smaller sets of uses once") {
  subject on{small_mlp};
  mapping_trials trials{on.context};
  const auto before = trials.solvers().size();
  trials.add_smaller_sets();
  const auto added = trials.solvers().size() - before;
  CHECK(added > 0);
  std::vector<parallel::index_uses> sets;
  for (auto i = before; i < trials.solvers().size(); ++i) {
    const auto uses = trials.solvers()[i]->uses();
    CHECK((uses & ~on.options.uses) == 0);
    if (std::find(sets.begin(), sets.end(), uses) == sets.end()) {
      sets.push_back(uses);
    }
  }
  CHECK(added % sets.size() == 0);
  trials.add_smaller_sets();
  CHECK(trials.solvers().size() == before + added);
}

TEST_CASE("substituted graphs are new and equivalent and name their rules") {
  subject on{"zoo:bert?layers=1&hidden=64&heads=4&seq=16&batch=8"};
  on.options.uses = bit(use::data) | bit(use::model);
  mapping_trials trials{on.context};
  static_cast<void>(trials.simulate(on.variants[0], 0));
  systems::detail::add_substituted(on.context, trials, rule_set{}, on.variants);
  CHECK(on.variants.size() == 1);  // there are no rules

  systems::detail::add_substituted(on.context, trials, test::joint_rules(), on.variants);
  REQUIRE(on.variants.size() > 1);
  CHECK(on.context.record.expanded > 0);
  for (std::size_t v = 1; v < on.variants.size(); ++v) {
    CAPTURE(v);
    for (std::size_t w = 0; w < v; ++w) {
      CHECK_FALSE(on.variants[v].graph == on.variants[w].graph);
    }
    CHECK(!on.variants[v].rules.empty());
    const auto same = tensor::check_equivalence(operators(), on.graph, on.variants[v].graph);
    CAPTURE(same.problem);
    CHECK(same.passed);
    const auto found = trials.simulate(on.variants[v], v);
    on.check(found);
    CHECK(on.context.record.graphs_bound <= found.report.iteration);
  }
}

TEST_CASE("add_nearby finds equivalent graphs one substitution away of small graphs only") {
  subject on{"zoo:mlp?layers=2&batch=32&hidden=64"};
  mapping_trials trials{on.context};
  static_cast<void>(trials.simulate(on.variants[0], 0));
  const auto found = systems::detail::add_nearby(on.context, trials, test::joint_rules(), on.variants, 0);
  REQUIRE(!found.empty());
  CHECK(found.size() <= on.variants.size() - 1);
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i].graph > 0);
    const auto& v = on.variants[found[i].graph];
    REQUIRE(v.rules.size() == 1);
    CHECK(v.rules[0].segments == 1);
    const auto same = tensor::check_equivalence(operators(), on.graph, v.graph);
    CAPTURE(same.problem);
    CHECK(same.passed);
    on.check(found[i]);
    CHECK((i == 0 || !systems::detail::is_better(found[i].report, found[i - 1].report)));
  }
  subject larger{"zoo:mlp?layers=40&batch=32&hidden=64"};
  mapping_trials other{larger.context};
  static_cast<void>(other.simulate(larger.variants[0], 0));
  CHECK(systems::detail::add_nearby(larger.context, other, test::joint_rules(), larger.variants, 0).empty());
}

TEST_CASE("pipelines are tried only if allowed and the best simulated one is returned") {
  for (const bool is_allowed : {false, true}) {
    CAPTURE(is_allowed);
    subject on{"zoo:mlp?layers=8&batch=64&hidden=2048"};
    on.options.uses = is_allowed ? parallel::all_index_uses : parallel::all_index_uses & ~bit(use::pipeline);
    mapping_trials trials{on.context};
    const auto whole = trials.simulate(on.variants[0], 0);
    const auto before = on.context.record.simulated.size();
    systems::detail::pipeline_trials pipelines{on.context};
    const auto found = pipelines.best(on.variants, whole);
    CHECK((pipelines.goals() > 0) == is_allowed);
    CHECK(found.has_value() == is_allowed);
    CHECK((on.context.record.simulated.size() > before) == is_allowed);
    if (found) {
      CHECK(found->report.iteration > picoseconds{});
      for (auto i = before; i < on.context.record.simulated.size(); ++i) {
        CHECK(on.context.record.simulated[i].stages > 1);
        CHECK_FALSE(systems::detail::is_better(on.context.record.simulated[i].report, found->report));
      }
    }
  }
}

}  // namespace tests_of_search_steps
