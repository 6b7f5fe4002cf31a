// Gradients of parallel computation graphs are parallel computation graphs.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/communication.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/figure_plans.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_adjoint.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"
#include "../random_pcg.hpp"

namespace tests_of_pcg_adjoint {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::tensor::modular61;

namespace {

std::vector<value_id> sources_of(const pcg& g, std::string_view kind) {
  std::vector<value_id> all;
  for (const auto n : node_ids(g)) {
    if (parallel_operators().signature(g.operation(n).kind).name == kind) {
      all.push_back(g.results(n)[0]);
    }
  }
  return all;
}

// The kinds of operators after the first nodes, one word each.
std::string kinds_behind(const pcg& g, std::size_t first) {
  std::string text;
  for (auto n = first; n < g.node_count(); ++n) {
    text += (text.empty() ? "" : " ") + parallel_operators().signature(g.operation(node_id{n}).kind).name;
  }
  return text;
}

void check_gradients(const pcg& g, const std::vector<value_id>& sources) {
  const auto d = differentiate(parallel_operators(), g, sources);
  const auto erased = erase_values(parallel_operators(), g);
  tensor::differentiation what;
  for (const auto v : sources) {
    what.sources.push_back(erased.values[v.index()]);
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto t = d.graph.type(d.gradients[i]);
    t.global.constant = g.type(sources[i]).global.constant;
    CHECK(t == dual(g.type(sources[i])));
  }
  CHECK(evaluate<modular61>(parallel_operators(), d.graph) ==
        tensor::evaluate<modular61>(operators(), tensor::differentiate(operators(), erased.graph, what).graph));
}

pcg small_figure(bool reductions) {
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?form=fig1&batch=4&hidden=6");
  return reductions ? figure_2b(parallel_operators(), g) : figure_2a(parallel_operators(), g);
}

// Elements that the weights' gradients move from where they are computed to the weights' devices.
std::int64_t gathered_gradients(const pcg& g) {
  std::int64_t sum = 0;
  const parallel::detail::chain_ends ends{parallel_operators(), g};
  for (const auto w : sources_of(g, "weight")) {
    for (const auto& t : ends.of(w)) {
      sum += moved_elements(dual(t), dual(g.type(w)));
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("the gradient of a figure 2 plan runs on its grids and communicates by dual chains") {
  const auto g = small_figure(true);
  const auto d = differentiate(parallel_operators(), g, sources_of(g, "weight"));
  CHECK(kinds_behind(d.graph, g.node_count()) ==
        "input partition transpose matmul transpose matmul combine relu_gradient reduce replicate transpose matmul "
        "combine");
  for (const bool reductions : {false, true}) {
    const auto plan = small_figure(reductions);
    const auto moved = communication_of(parallel_operators(), plan);
    const auto all = communication_of(parallel_operators(),
                                      differentiate(parallel_operators(), plan, sources_of(plan, "weight")).graph);
    CHECK(all.forward == moved.forward + moved.backward + gathered_gradients(plan));
    check_gradients(plan, sources_of(plan, "weight"));
    check_gradients(plan, sources_of(plan, "input"));
  }
}

TEST_CASE("the adjoint of a chain of parallelization operators is its dual chain") {
  const auto source = operators().make_operation("input", {{"name", "x"}, {"dims", {4, 4}}});
  const auto behind = [&](const parallel_chain& chain) {
    pcg_writer writer{parallel_operators()};
    const auto x = writer.graph().results(writer.add(source, {}))[0];
    auto v = x;
    for (const auto& p : chain) {
      v = writer.add(p, {&v, 1});
    }
    const auto g = std::move(writer).finish({&v, 1});
    check_gradients(g, {x});
    return kinds_behind(differentiate(parallel_operators(), g, std::vector{x}).graph, g.node_count());
  };
  CHECK(behind({{parallel_kind::partition, 1, 2}}) == "input partition combine");
  CHECK(behind({{parallel_kind::partition, 1, 2}, {parallel_kind::combine, 1, 2}}) == "input partition combine");
  CHECK(behind({{parallel_kind::replicate, 0, 2}, {parallel_kind::discard, 0, 2}}) == "input inject reduce");
  CHECK(behind({{parallel_kind::inject, 0, 2}, {parallel_kind::reduce, 0, 2}}) == "input replicate discard");
  CHECK(behind({{parallel_kind::pipeline, 0, 2}}) == "input pipeline batch");
}

TEST_CASE("terms and blocks give each operand its gradient") {
  const auto& a = parallel_operators();
  pcg_writer writer{a};
  std::vector<value_id> sources;
  for (const char* name : {"x", "y", "z"}) {
    const auto n = writer.add(operators().make_operation("input", {{"name", name}, {"dims", {4}}}), {});
    sources.push_back(writer.graph().results(n)[0]);
  }
  const auto terms = writer.add(parallel_operator{parallel_kind::terms, 0, 0}, sources);
  const auto blocks = writer.add(parallel_operator{parallel_kind::blocks, 0, 0}, sources);
  const auto sum = writer.add(parallel_operator{parallel_kind::reduce, 0, 3}, {&terms, 1});
  check_gradients(std::move(writer).finish(std::vector{sum, blocks}), sources);
}

TEST_CASE("the weight gradient of a linear with divided inner rows moves no activations") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 4, 6});
  const auto w = b.weight("w", {6, 2});
  const auto g = std::move(b).finish({b.linear(x, w, b.weight("b", {2}))});
  const auto& o = *parallel::test::dimensions_in(g, node_id{3U});
  auto grid = undivided_grid(o);
  grid.indices[o.structure.operands[0][1].indices[0]] = 2;
  const auto plan =
      spell_out(parallel_operators(), g, std::vector{operator_grid{}, operator_grid{}, operator_grid{}, grid});
  const auto weights = sources_of(plan, "weight");
  check_gradients(plan, weights);
  const auto all = communication_of(parallel_operators(), differentiate(parallel_operators(), plan, weights).graph);
  CHECK(all.forward == gathered_gradients(plan));
}

TEST_CASE("divided graphs with halos and statistics and micro-batch steps have correct gradients") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 2, 4, 4});
  const auto y = b.average_pool(b.conv2d(x, b.weight("k", {2, 2, 3, 3}), {.padding = "same"}), {{2, 2}, {2, 2}});
  const auto z = b.softmax(b.layer_norm(y, b.weight("gamma", {2, 2}), b.weight("beta", {2, 2}), 2), 3);
  const auto g = std::move(b).finish({z});
  std::vector<operator_grid> grids;
  for (const auto n : node_ids(g)) {
    const auto* o = parallel::test::dimensions_in(g, n);
    grids.push_back(o == nullptr ? operator_grid{} : undivided_grid(*o));
    if (o != nullptr) {  // two micro-batches, and rows in two parts
      grids.back().steps[o->structure.results[0][0].indices[0]] = 2;
      grids.back().indices[o->structure.results[0][2].indices[0]] = 2;
    }
  }
  const auto plan = spell_out(parallel_operators(), g, grids);
  CHECK(plan.type(plan.outputs()[0]).steps[0] == 2);
  check_gradients(plan, sources_of(plan, "weight"));
  check_gradients(plan, sources_of(plan, "input"));
}

TEST_CASE("an unused weight of a divided graph has a zero gradient") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4});
  static_cast<void>(b.weight("unused", {4}));
  const auto g = std::move(b).finish({b.relu(x)});
  const auto plan =
      spell_out(parallel_operators(), g, std::vector<operator_grid>{{}, {}, {degree_list{2}, degree_list{1}, {}, 1}});
  check_gradients(plan, sources_of(plan, "weight"));
}

}  // namespace tests_of_pcg_adjoint
