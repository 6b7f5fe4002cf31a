// The example of the README: one rule, one search, one check. Given a path, draws both graphs there as an SVG.
//
// run: {out}/front_page.svg
#include <iostream>
#include <string>
#include <utility>

#include <unity/io/dot.hpp>
#include <unity/io/svg.hpp>
#include <unity/search.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/modular.hpp>
#include <unity/tensor/operation.hpp>

using namespace unity;
using namespace unity::tensor;

void draw(const algebra& operators, const tensor_graph& before, const tensor_graph& after, const char* path) {
  const auto both = io::to_dot(operators, before, {.title = "before"}, after, {.title = "after"});
  if (const auto problem = io::write_svg(path, both)) {
    std::cout << *problem << '\n';
  }
}

int main(int argc, char** argv) {
  // A gated unit: sigmoid(x G) * tanh(x U) + x R.
  const auto operators = standard_algebra();
  builder b{operators};
  const auto x = b.input("x", {64, 256});
  const auto gate = b.sigmoid(b.matmul(x, b.weight("gate", {256, 256})));
  const auto update = b.tanh(b.matmul(x, b.weight("update", {256, 256})));
  const auto rest = b.matmul(x, b.weight("rest", {256, 256}));
  const auto before = std::move(b).finish({b.add(b.mul(gate, update), rest)});

  // Any number of products with one factor are the parts of a single product.
  const auto rules = compile_rules(operators, parse_rules(R"(
    rule merged_products
      matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))
      if rank(?x) == 2, rank(??w) == 2
  )"));

  // The cheapest graph that the rules reach, in time on a V100. What depends on weights alone is precomputed.
  rewrite_space space{operators, analytic_cost{operators, *find_device("v100")}, rules, before};
  const auto found = backtracking(space);
  const auto after = space.graph(found.best);
  std::cout << "picoseconds: " << space.cost(space.initial()) << " before, " << found.cost << " after\n";

  // Both compute the same, in exact arithmetic modulo a prime.
  const bool equal = evaluate<modular61>(operators, before) == evaluate<modular61>(operators, after);
  std::cout << (equal ? "equal\n" : "NOT EQUAL\n");
  if (argc > 1) {
    draw(operators, before, after, argv[1]);
  }
  return equal && found.cost < space.cost(space.initial()) ? 0 : 1;
}
