// The joint optimizations shown in Unity's paper, found by the search. Source: Unity (OSDI 2022), figures 10 and 16.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/substitution_trace.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/taso.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/machine_without_starts.hpp"
#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity_figures {

namespace {

using namespace unity;
using parallel::index_use;
using unity::test::training::operators;

systems::unity_options only(std::initializer_list<index_use> uses) {
  systems::unity_options o;
  o.uses = 0;
  for (const auto use : uses) {
    o.uses |= parallel::index_uses{1} << static_cast<unsigned>(use);
  }
  return o;
}

struct found_plan {
  systems::unity_result result{};
  std::map<std::string, std::size_t> algebraic{};  // by rule name: number of segments
  std::map<std::string, std::size_t> parallel{};   // by rule name: number of applications
};

// Checks that the plan's graph computes what the given one does, and that rules lead from the graph to the plan.
found_plan search(const tensor::tensor_graph& g, const hardware::machine& m, const rule_set& rules,
                  const systems::unity_options& o) {
  found_plan f{systems::unity(operators(), rules, g, m, parallel::analytic_durations(operators(), m), o), {}, {}};
  CHECK(tensor::check_equivalence(operators(), g, f.result.graph).passed);
  for (const auto& r : f.result.rules) {
    f.algebraic[r.name] += r.segments;
  }
  const parallel::graph_dimensions all{operators(), f.result.graph};
  std::vector<parallel::operator_grid> grids;
  for (const auto n : node_ids(f.result.graph)) {
    const auto& d = all[n];
    grids.push_back(d.inputs.empty() ? parallel::operator_grid{} : parallel::grid_of(d, f.result.strategy[n.index()]));
  }
  for (const auto& step : parallel::trace_of(parallel::pcg_algebra{operators()}, f.result.graph, grids).steps) {
    CHECK(step.is_rule);
    ++f.parallel[step.rule];
  }
  return f;
}

// The simulated time of Megatron's fastest plan.
picoseconds megatron_time(const tensor::tensor_graph& given, const hardware::machine& m) {
  const auto g = tensor::with_delivered_outputs(operators(), given);
  parallel::lowering l{operators(), g, m};
  picoseconds best{std::numeric_limits<std::int64_t>::max()};
  for (const auto& s : parallel::megatron(operators(), g, l.dimensions(), m.network)) {
    best = std::min(best, parallel::report_on(l, g, m, s).iteration);
  }
  return best;
}

// The graph that is cheapest on one device.
tensor::tensor_graph for_one_device(const tensor::tensor_graph& g, const hardware::machine& m) {
  const auto rates = hardware::roofline_of(hardware::model_of(m, hardware::device_id{std::size_t{0}}));
  systems::taso_options o;
  o.objective.mode = tensor::mode::training;
  return systems::taso(operators(), tensor::analytic_cost{operators(), rates.value(), tensor::mode::training},
                       test::standard_rules(), g, o)
      .graph;
}

// Attention and two linear layers, with layer norms and residuals.
tensor::tensor_graph transformer_block(std::int64_t batch, std::int64_t length, std::int64_t width) {
  tensor::builder b{operators()};
  const auto x = b.input("x", {batch, length, width});
  const auto norm = [&](const std::string& name, value_id v) {
    return b.layer_norm(v, b.weight(name + ".gamma", {width}), b.weight(name + ".beta", {width}), 2, 1e-5);
  };
  const auto y = norm("first", x);
  const std::array weights{b.weight("q", {width, width}), b.weight("k", {width, width}), b.weight("v", {width, width}),
                           b.weight("o", {width, width})};
  const auto z = b.add(x, b.attention(y, y, y, weights, 8));
  const auto wide = b.gelu(b.matmul(norm("second", z), b.weight("wide", {width, 4 * width})));
  return std::move(b).finish({b.add(z, b.matmul(wide, b.weight("narrow", {4 * width, width})))});
}

// Joined bags of table rows and a perceptron, as in XDL and DLRM.
tensor::tensor_graph recommendation(std::int64_t samples, std::size_t tables, std::int64_t columns,
                                    std::int64_t width) {
  tensor::builder b{operators()};
  std::vector<value_id> parts;
  for (std::size_t i = 0; i < tables; ++i) {
    const auto table = b.weight("table" + std::to_string(i), {100'000, columns});
    parts.push_back(b.embedding_bag(table, b.input("ids" + std::to_string(i), {samples, 4}, tensor::dtype::int64)));
  }
  const auto first = b.weight("first", {static_cast<std::int64_t>(tables) * columns, width});
  return std::move(b).finish({b.matmul(b.relu(b.matmul(b.concat(1, parts), first)), b.weight("second", {width, 2}))});
}

}  // namespace

TEST_CASE("figure 10: Unity's plan for a transformer block is no slower than Megatron's", "[exhaustive]") {
  const std::string machine = GENERATE("p100:1x2", "p100:1x4", "summit:1x2");
  CAPTURE(machine);
  const auto m = unity::test::machine_without_starts(machine);
  // With more samples the search would divide these and leave the layers whole.
  const auto g = transformer_block(1, 128, 1024);
  const auto f = search(g, m, test::joint_rules(), {});
  CHECK(f.result.report.iteration <= megatron_time(g, m));
  const auto bert = tensor::zoo::build(operators(), "zoo:bert?layers=1&hidden=256&heads=4&seq=64&vocab=1000");
  CHECK(search(bert, m, test::joint_rules(), {}).result.report.iteration <= megatron_time(bert, m));

  // Without division of samples: heads, columns, then rows, as in Megatron; the operators in between follow.
  const auto layers = search(g, m, test::joint_rules(),
                             only({index_use::model, index_use::reduction, index_use::special, index_use::spatial}));
  CHECK(layers.result.report.iteration <= megatron_time(g, m));
  for (const auto* rule : {"attention_over_heads", "matmul_over_n", "gelu_over_d", "matmul_over_k"}) {
    CAPTURE(rule);
    CHECK((m.network.device_count() > 2 || layers.parallel.contains(rule)));  // on more devices another plan is cheaper
  }
}

TEST_CASE("figure 16a: a product that is divided by sums is not fused with its activation") {
  const auto m = unity::test::machine_without_starts("summit:1x2");
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?form=fig1");
  const auto sums = only({index_use::reduction});
  const auto f = search(g, m, test::joint_rules(), sums);
  CHECK_FALSE(f.algebraic.contains("relu_into_matmul"));
  CHECK(f.parallel.at("matmul_over_k") == 1);
  CHECK(f.parallel.at("relu_repeated") == 1);

  // On one device, fusing the activation into the product pays, but the fused product's sum cannot be divided.
  const auto fused = for_one_device(g, m);
  const auto sequential = search(fused, m, {}, sums);
  CHECK_FALSE(sequential.parallel.contains("relu_repeated"));
  CHECK(f.result.report.iteration < sequential.result.report.iteration);
  CHECK(f.result.report.communicated_elements < sequential.result.report.communicated_elements);
  // If columns can be divided as well, a cheaper plan fuses.
  CHECK(search(g, m, test::joint_rules(), {}).result.report.iteration < f.result.report.iteration);
}

TEST_CASE("figure 16b: a product of a concat becomes a sum of products divided like the tables") {
  const auto m = unity::test::machine_without_starts("summit:1x2");
  const auto g = recommendation(6144, 2, 512, 32);
  systems::unity_options as_mapped;  // without the polish, which finds plans other than the figure's
  as_mapped.proposals = 0;
  const auto f = search(g, m, test::joint_rules(), as_mapped);
  CHECK(f.algebraic.contains("matmul_of_concat_is_sum"));
  CHECK(f.parallel.at("embedding_bag_over_e") == 2);
  CHECK(f.parallel.at("matmul_over_k") == 2);
  CHECK(f.parallel.at("add_of_terms_in_x_y") == 1);
  CHECK(f.parallel.at("inject_of_reduce") == 2);  // terms are reduced once, after the sum
  const auto without = search(g, m, test::standard_rules(), {});
  CHECK(f.result.report.iteration < without.result.report.iteration);
  CHECK(f.result.report.communicated_elements * 10 < without.result.report.communicated_elements);
}

TEST_CASE("figure 16c: an embedding bag is divided along the rows that it sums") {
  const auto m = unity::test::machine_without_starts("summit:1x2");
  // One sample and a table with an odd number of columns: only the bag can be divided.
  tensor::builder b{operators()};
  const auto rows = b.embedding_bag(b.weight("table", {101, 63}), b.input("ids", {1, 1'000'000}, tensor::dtype::int64));
  const auto g = std::move(b).finish({b.relu(rows)});
  const auto f = search(g, m, test::joint_rules(), {});
  systems::unity_options alone;
  alone.uses = 1;
  CHECK(f.result.report.iteration < search(g, m, test::joint_rules(), alone).result.report.iteration);
  const bool as_bag = f.parallel.contains("embedding_bag_over_s");
  const bool as_rows = f.algebraic.contains("embedding_bag.reverse") && f.parallel.contains("reduce_sum_over_a");
  CHECK((as_bag || as_rows));
}

}  // namespace tests_of_unity_figures
