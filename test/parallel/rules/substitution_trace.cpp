// Traces: sequences of substitutions that lead to a parallel computation graph, applied by the engine.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/rules/substitution_trace.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"
#include "../random_pcg.hpp"
#include "../rewritten.hpp"

namespace tests_of_substitution_trace {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::parallel::test::some_graph;

namespace {

const std::map<std::string, syntax::rule>& shipped() {
  static const auto all = [] {
    std::map<std::string, syntax::rule> by_name;
    for (auto& r : parse_rules(std::string{parallel_rules}, "parallel_rules")) {
      by_name.emplace(r.name, r);
    }
    return by_name;
  }();
  return all;
}
parallel::test::graph_meaning meaning_of(const pcg& g) { return parallel::test::meaning_of(parallel_operators(), g); }
const rule_lookup& lookup() {
  static const rule_lookup all{parse_rules(std::string{parallel_rules}, "parallel_rules")};
  return all;
}

// The divided graph with its outputs combined, because rules preserve the types of what they replace.
pcg in_one_piece(const tensor::tensor_graph& g, const std::vector<operator_grid>& grids) {
  const auto divided = spell_out(parallel_operators(), g, grids);
  pcg_writer writer{parallel_operators(), divided};
  std::vector<value_id> outputs;
  for (const auto v : divided.outputs()) {
    outputs.push_back(writer.on(v, undivided(divided.type(v).global)));
  }
  return std::move(writer).finish(outputs);
}

// The least divisor of at least 2. Precondition: size > 1.
std::int64_t least_divisor(std::int64_t size) {
  std::int64_t k = 2;
  while (size % k != 0) {
    ++k;
  }
  return k;
}

pcg plain(const tensor::tensor_graph& g) {
  std::vector<operator_grid> grids;
  for (const auto n : node_ids(g)) {
    const auto* o = parallel::test::dimensions_in(g, n);
    grids.push_back(o == nullptr ? operator_grid{} : undivided_grid(*o));
  }
  return spell_out(parallel_operators(), g, grids);
}

// Each step must be among the graphs that its rule leads to from the previous step.
void check_trace(const tensor::tensor_graph& g, const std::vector<operator_grid>& grids) {
  auto state = plain(g);
  const auto trace =
      trace_of(parallel_operators(), g, grids, lookup(), [&](const substitution_step& step, const auto& graph) {
        const auto rule = with_values(shipped().at(step.rule), step.values);
        const auto after = meaning_of(graph.finish());
        const auto reached = parallel::test::rewritten(parallel_operators(), state, rule, to_string(step));
        const auto found =
            std::find_if(reached.begin(), reached.end(), [&](const pcg& p) { return meaning_of(p) == after; });
        INFO(to_string(step) << " at node " << step.node.index());
        REQUIRE(found != reached.end());
        state = *found;
      });
  CHECK(meaning_of(state) == meaning_of(trace.graph));
  CHECK(meaning_of(trace.graph) == meaning_of(in_one_piece(g, grids)));
}

// Layer norm, attention and two linear layers, with residuals. Source: Unity (OSDI 2022), figure 10.
tensor::tensor_graph transformer_block() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 4, 8});
  const auto norm = [&](const std::string& name, value_id v) {
    return b.layer_norm(v, b.weight(name + ".gamma", {8}), b.weight(name + ".beta", {8}), 2, 1e-5);
  };
  const auto y = norm("first", x);
  const std::array weights{b.weight("q", {8, 8}), b.weight("k", {8, 8}), b.weight("v", {8, 8}), b.weight("o", {8, 8})};
  const auto z = b.add(x, b.attention(y, y, y, weights, 4));
  const auto wide = b.gelu(b.matmul(norm("second", z), b.weight("wide", {8, 16})));
  return std::move(b).finish({b.add(z, b.matmul(wide, b.weight("narrow", {16, 8})))});
}

// Megatron's division: heads, columns, rows; all devices repeat everything else.
std::vector<operator_grid> megatron_grids(const tensor::tensor_graph& g, std::int64_t k) {
  std::vector<operator_grid> grids;
  bool narrows = false;
  for (const auto n : node_ids(g)) {
    const auto* o = parallel::test::dimensions_in(g, n);
    grids.push_back(o == nullptr ? operator_grid{} : undivided_grid(*o));
    if (o == nullptr) {
      continue;
    }
    const auto& name = operators().signature(g.operation(n).kind).name;
    const auto along = [&](std::size_t index) { grids.back().indices[index] = k; };
    if (name == "attention") {
      along(o->structure.operands[3][1].indices[0]);
    } else if (name == "gelu") {
      along(2);
    } else if (name == "matmul") {
      along(narrows ? o->reductions[0].indices[0] : o->structure.results[0][2].indices[0]);
      narrows = true;
    } else {
      grids.back().copies = k;
    }
  }
  return grids;
}

}  // namespace

TEST_CASE("each step of a substitution trace applies its rule; the end is the spelled-out graph", "[law]") {
  const auto seed = GENERATE(range(0U, 12U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto g = some_graph();
  std::vector<operator_grid> grids;
  for (const auto n : node_ids(g)) {
    const auto* o = parallel::test::dimensions_in(g, n);
    grids.push_back(o == nullptr ? operator_grid{} : parallel::test::random_grid(random, *o, 12));
  }
  check_trace(g, grids);
}

TEST_CASE("chains of parallelization operators become canonical by steps of shipped rules", "[law]") {
  const auto seed = GENERATE(range(0U, 400U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto t = parallel::test::random_division(random, parallel::test::type({12, 24}), true);
  auto chain = parallel::test::random_chain(random, t, 8);
  const auto expected = canonical(t, chain).value();
  std::size_t steps = 0;
  while (const auto step = next_chain_step(chain)) {
    const auto to = type_behind(t, chain);
    const auto at = chain.begin() + static_cast<std::ptrdiff_t>(step->first);
    chain.insert(chain.erase(at, at + static_cast<std::ptrdiff_t>(step->count)), step->made.begin(), step->made.end());
    REQUIRE(type_behind(t, chain) == to);
    REQUIRE(shipped().contains(step->rule));
    REQUIRE(++steps < 200);
  }
  CHECK(chain == expected);
}

TEST_CASE("a substitution trace of shipped rules leads to Megatron's transformer block") {
  const auto g = transformer_block();
  const auto grids = megatron_grids(g, 2);
  check_trace(g, grids);
  std::string text;
  for (const auto& step : trace_of(parallel_operators(), g, grids).steps) {
    text += to_string(step) + "\n";
  }
  INFO(text);
  for (const auto* rule :
       {"layer_norm_repeated k=2", "attention_over_heads k=2", "matmul_over_n k=2", "gelu_over_d d=2 k=2",
        "matmul_over_k k=2", "add_repeated k=2", "partition_of_combine d=2 k=2", "replicate_of_discard k=2"}) {
    CHECK(text.find(rule) != std::string::npos);
  }
  std::map<std::string, int> kinds;
  const auto trace = trace_of(parallel_operators(), g, grids);
  for (const auto n : node_ids(trace.graph)) {
    ++kinds[parallel_operators().signature(trace.graph.operation(n).kind).name];
  }
  // Two all-reduces: after attention and after the second layer. Also replicated are the input and the weights of the
  // layer norms.
  CHECK(kinds["reduce"] == 2);
  CHECK(kinds["combine"] == 0);
  CHECK(kinds["discard"] == 1);  // of the output
  CHECK(kinds["replicate"] == 2 + 5);
}

TEST_CASE("each divisible axis of each zoo operator has a parallel rule") {
  std::set<std::string> missing;
  std::vector<tensor::tensor_graph> graphs;
  for (const auto& m : tensor::zoo::models) {
    for (const auto& f : m.forms) {
      graphs.push_back(f.build(operators(), f.defaults));
    }
  }
  for (const auto& g : graphs) {
    for (const auto n : node_ids(g)) {
      const auto* o = parallel::test::dimensions_in(g, n);
      if (o == nullptr) {
        continue;
      }
      const auto& name = operators().signature(o->op.kind).name;
      const auto look = [&](const grid_axis& axis, const operator_grid& grid, const std::string& what) {
        if (types_on(*o, grid) && !lookup().find(operators(), *o, axis)) {
          missing.insert(name + " " + what);
        }
      };
      for (std::size_t i = 0; i < o->structure.indices.size(); ++i) {
        if (o->structure.indices[i].size == 1) {
          continue;
        }
        auto grid = undivided_grid(*o);
        grid.indices[i] = least_divisor(o->structure.indices[i].size);
        look({grid_axis::kinds::index, i, grid.indices[i]}, grid, o->structure.indices[i].name);
      }
      for (std::size_t k = 0; k < o->groups.size(); ++k) {
        auto grid = undivided_grid(*o);
        grid.partials[k] = 2;
        look({grid_axis::kinds::partial, k, 2}, grid, "terms");
      }
      auto grid = undivided_grid(*o);
      grid.copies = 2;
      look({grid_axis::kinds::copies, 0, 2}, grid, "copies");
    }
  }
  for (const auto& m : missing) {
    UNSCOPED_INFO(m);
  }
  CHECK(missing.empty());
}

TEST_CASE("boolean masks are divided into blocks and replicas but not into partial sums") {
  tensor::builder b{operators()};
  const auto mask = b.reshape(b.input("mask", {4, 6}, tensor::dtype::boolean), {4, 1, 6});
  const auto number = b.apply("cast", {mask}, {{"element", "float32"}})[0];
  const auto g = std::move(b).finish({b.add(b.input("x", {4, 2, 6}), number)});
  for (const auto v : {mask, number}) {
    CHECK(parallel::test::dimensions_in(g, g.producer(v))->groups.empty());
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    std::vector<operator_grid> grids;
    for (const auto n : node_ids(g)) {
      const auto* o = parallel::test::dimensions_in(g, n);
      grids.push_back(o == nullptr ? operator_grid{} : parallel::test::random_grid(random, *o, 8));
    }
    const auto trace = trace_of(parallel_operators(), g, grids);
    CHECK(meaning_of(trace.graph) == meaning_of(in_one_piece(g, grids)));
  }
}

TEST_CASE("a substitution trace marks a division without a rule; an invalid grid is rejected") {
  tensor::builder b{operators()};
  const auto g = std::move(b).finish({b.relu(b.input("x", {4, 6}))});
  const auto o = *parallel::test::dimensions_in(g, node_id{1U});
  auto grid = undivided_grid(o);
  grid.indices[0] = 2;
  const rule_lookup none{{}};
  const auto trace =
      trace_of(parallel_operators(), g, std::vector{operator_grid{}, grid}, none, [](const auto&, const auto&) {});
  REQUIRE(trace.steps.size() == 1);
  CHECK_FALSE(trace.steps[0].is_rule);
  CHECK(to_string(trace.steps[0]) == "relu over i k=2 (no rule)");
  CHECK(meaning_of(trace.graph) == meaning_of(in_one_piece(g, {operator_grid{}, grid})));
  grid.indices[0] = 3;
  CHECK_THROWS_WITH(trace_of(parallel_operators(), g, std::vector{operator_grid{}, grid}), Catch::Contains("node 1"));
}

}  // namespace tests_of_substitution_trace
