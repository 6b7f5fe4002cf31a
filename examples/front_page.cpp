// The example of the README: three rules, one search, one check. Given a path, draws both graphs there as an SVG.
//
// run: {out}/front_page.svg
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/hardware/device_rates.hpp>
#include <unity/io/dot.hpp>
#include <unity/search.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>

using namespace unity;

// Returns whether the file was written; says why it was not.
bool draw(const tensor::algebra& operators, const tensor::tensor_graph& before, const tensor::tensor_graph& after,
          const char* path) {
  const auto both = io::to_dot(operators, before, {.title = "before"}, after, {.title = "after"});
  const auto problem = io::write_svg(path, both);
  if (problem) {
    fmt::print(stderr, "{}\n", *problem);
  }
  return !problem;
}

int main(int argc, char** argv) {
  // A gated recurrent unit: sigmoid(x G + h H) * tanh(x U + h W).
  const auto operators = tensor::standard_algebra();
  tensor::builder b{operators};
  const auto x = b.input("x", {16, 256}), h = b.input("h", {16, 256});
  const auto weight = [&](const char* name) { return b.weight(name, {256, 256}); };
  const auto gate = b.sigmoid(b.add(b.matmul(x, weight("G")), b.matmul(h, weight("H"))));
  const auto update = b.tanh(b.add(b.matmul(x, weight("U")), b.matmul(h, weight("W"))));
  const auto before = std::move(b).finish({b.mul(gate, update)});

  const auto rules = compile_rules(operators, parse_rules(R"(
    rule sum_of_products
      add(matmul(?x, ?w), matmul(?y, ?v)) => matmul(concat{axis=1}(?x, ?y), concat{axis=0}(?w, ?v))
      if rank(?x) == 2, rank(?w) == 2, rank(?y) == 2, rank(?v) == 2
    rule sigmoid_inside  sigmoid(matmul(?x, ?w)) => matmul{activation=sigmoid}(?x, ?w)
    rule tanh_inside     tanh(matmul(?x, ?w)) => matmul{activation=tanh}(?x, ?w)
  )"));

  // The graph with the least predicted time on a V100 that the rules reach. Values of weights alone are precomputed.
  rewrite_space space{operators, tensor::analytic_cost{operators, *hardware::find_device("v100")}, rules, before};
  const auto found = backtracking(space);
  const auto after = space.graph(found.best);
  fmt::print("as written: {} ns\n", space.cost(space.initial()) / 1000);
  for (const auto& [move, cost] : found.path) {
    fmt::print("{}: {} ns\n", space.rule_of(move).name, cost / 1000);
  }

  // Both compute the same, in exact arithmetic modulo a prime.
  const bool equal =
      tensor::evaluate<tensor::modular61>(operators, before) == tensor::evaluate<tensor::modular61>(operators, after);
  fmt::print("{}", equal ? "equal\n" : "NOT EQUAL\n");
  if (argc > 1 && !draw(operators, before, after, argv[1])) {
    return 1;
  }
  return equal && found.cost < space.cost(space.initial()) ? 0 : 1;
}
