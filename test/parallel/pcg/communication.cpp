// Elements that parallel computation graphs communicate: the plans of figure 2, and better ones.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/communication.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/figure_plans.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"
#include "../random_pcg.hpp"

namespace tests_of_communication {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::divided;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;

namespace {

tensor::tensor_graph figure_1() { return tensor::zoo::build(operators(), "zoo:mlp?form=fig1"); }

communication of(const pcg& g) { return communication_of(parallel_operators(), g); }

parallel_type result_of(const pcg& g, std::string_view name) {
  for (const auto n : node_ids(g)) {
    if (parallel_operators().signature(g.operation(n).kind).name == name) {
      return g.type(g.results(n)[0]);
    }
  }
  throw error{"test", "no operator " + std::string{name}, "one"};
}

}  // namespace

TEST_CASE("the plan of figure 2a communicates the gradients of both weights only") {
  const auto g = figure_2a(parallel_operators(), figure_1());
  CHECK(erase(parallel_operators(), g) == figure_1());
  CHECK(to_string(result_of(g, "relu")) == "float32[64/2,512]");
  CHECK(of(g) == communication{0, 0, 813'056});
}

TEST_CASE("the plan of figure 2b communicates the activations between the layers") {
  const auto g = figure_2b(parallel_operators(), figure_1());
  CHECK(erase(parallel_operators(), g) == figure_1());
  CHECK(to_string(result_of(g, "matmul")) == "float32[64,512] partial 2");
  CHECK(to_string(result_of(g, "relu")) == "float32[64,512] copies 2");
  CHECK(to_string(g.type(g.outputs()[0])) == "float32[64,10/2]");
  CHECK(of(g) == communication{65'536, 65'536, 0});
}

TEST_CASE("the plan of figure 2b with a reduce-scatter communicates about half") {
  const auto g =
      two_layer_plan(parallel_operators(), figure_1(), 2, {matrix_axis::sums, matrix_axis::columns, matrix_axis::sums});
  CHECK(of(g) == communication{33'408, 33'408, 0});
}

TEST_CASE("dividing by columns and then by rows communicates the small result only") {
  const auto g = two_layer_plan(parallel_operators(), figure_1(), 2,
                                {matrix_axis::columns, matrix_axis::columns, matrix_axis::sums});
  CHECK(of(g) == communication{640, 640, 0});
}

TEST_CASE("the plans of figure 2 fit a two-layer perceptron with biases; others are rejected") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {12, 6});
  const auto h = b.gelu(b.linear(x, b.weight("w1", {6, 9}), b.weight("b1", {9})));
  const auto g = std::move(b).finish({b.linear(h, b.weight("w2", {9, 3}), b.weight("b2", {3}))});
  const auto plan = figure_2b(parallel_operators(), g, 3);
  CHECK(erase(parallel_operators(), plan) == g);
  CHECK(to_string(result_of(plan, "inject")) == "float32[9] partial 3");
  CHECK(of(plan).weights == 0);
  CHECK_THROWS_AS(figure_2a(parallel_operators(), g, 5), error);
  CHECK_THROWS_AS(figure_2a(parallel_operators(), tensor::zoo::build(operators(), "zoo:mlp?layers=3&hidden=8&batch=8")),
                  error);
}

TEST_CASE("moved_elements counts changes of one degree as collectives") {
  const auto whole = divided({8, 8}, {1, 1});
  const auto rows = divided({8, 8}, {4, 1});
  const auto copies = divided({8, 8}, {1, 1}, 4);
  const auto terms = divided({8, 8}, {1, 1}, 1, 4);
  CHECK(moved_elements(whole, whole) == 0);
  CHECK(moved_elements(whole, rows) == 48);
  CHECK(moved_elements(rows, whole) == 48);
  CHECK(moved_elements(whole, copies) == 192);
  CHECK(moved_elements(terms, whole) == 192);
  CHECK(moved_elements(terms, copies) == 384);                 // all-reduce
  CHECK(moved_elements(terms, rows) == 192);                   // reduce-scatter
  CHECK(moved_elements(rows, copies) == 192);                  // all-gather
  CHECK(moved_elements(rows, divided({8, 8}, {1, 4})) == 48);  // all-to-all
  CHECK(moved_elements(copies, rows) == 0);
  CHECK(moved_elements(rows, terms) == 0);
  CHECK(moved_elements(whole, terms) == 0);
  CHECK(moved_elements(copies, whole) == 0);
  // A reduce-scatter among pairs, then the remaining terms.
  CHECK(moved_elements(terms, divided({8, 8}, {2, 1})) == 64 * 2 + 64);
  // Replicated terms: the replicas are dropped first.
  CHECK(moved_elements(divided({8, 8}, {1, 1}, 2, 4), whole) == 192);
}

TEST_CASE("a divided weight communicates no gradient; an input has no gradient") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  const auto g = std::move(b).finish({b.relu(b.add(x, b.weight("w", {4, 4})))});
  std::vector<operator_grid> grids(g.node_count());
  for (const std::size_t n : {std::size_t{2}, std::size_t{3}}) {
    grids[n] = {degree_list{2, 1}, degree_list{1, 1}, n == 2 ? degree_list{1} : degree_list{}, n == 2 ? 1 : 2};
  }
  // The weight is split; between the operators the value is replicated, and in the backward pass two terms are added.
  CHECK(of(spell_out(parallel_operators(), g, grids)) == communication{16, 16, 0});
}

TEST_CASE("a transformer block divided by heads and columns communicates two sums each way") {
  constexpr std::int64_t batch = 2;
  constexpr std::int64_t length = 4;
  constexpr std::int64_t hidden = 8;
  tensor::builder b{operators()};
  const auto x = b.weight("x", {batch, length, hidden});  // a weight, so that the gradient of the input counts
  const auto norm = [&](const std::string& name, value_id v) {
    return b.layer_norm(v, b.weight(name + ".gamma", {hidden}), b.weight(name + ".beta", {hidden}), 2);
  };
  const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return b.weight(name, {rows, columns});
  };
  const auto a = norm("a", x);
  const std::array weights{weight("wq", hidden, hidden), weight("wk", hidden, hidden), weight("wv", hidden, hidden),
                           weight("wo", hidden, hidden)};
  const auto y = b.add(x, b.attention(a, a, a, std::span<const value_id, 4>{weights}, 4));
  const auto h = b.gelu(b.matmul(norm("m", y), weight("w1", hidden, 32)));
  const auto g = std::move(b).finish({b.add(y, b.matmul(h, weight("w2", 32, hidden)))});
  std::vector<operator_grid> grids;
  for (const auto n : node_ids(g)) {
    const auto* o = parallel::test::dimensions_in(g, n);
    if (o == nullptr) {
      grids.push_back({});
      continue;
    }
    const auto& name = operators().signature(o->op.kind).name;
    auto grid = undivided_grid(*o);
    if (name == "attention") {  // divided by heads
      grid.indices[o->structure.operands[6][0].indices[0]] = 2;
    } else if (name == "matmul") {
      const bool is_first = o->outputs[0].dims[2] == 32;
      grid = grid_along(*o, is_first ? matrix_axis::columns : matrix_axis::sums, 2);
    } else {
      grid = grid_along(*o, name == "gelu" ? matrix_axis::columns : matrix_axis::copies, 2);
    }
    grids.push_back(grid);
  }
  const auto plan = spell_out(parallel_operators(), g, grids);
  CHECK(erase(parallel_operators(), plan) == g);
  const auto all = of(plan);
  CHECK(all.forward == 2 * 2 * batch * length * hidden);
  CHECK(all.backward == 2 * 2 * batch * length * hidden);
}

}  // namespace tests_of_communication
