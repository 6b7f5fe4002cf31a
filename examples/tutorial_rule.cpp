// Tutorial 2: a new rule, as text and as a C++ expression.
//
// run:
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/cost/roofline.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/terms.hpp>

namespace tensor = unity::tensor;

constexpr auto rule_text = R"(
  rule shared_factor  # two products with one factor are one product
    add(matmul(?x, ?y), matmul(?x, ?z)) == matmul(?x, add(?y, ?z))

  rule merged_products  # any number of products with one factor are one wide product
    matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))
    if rank(?x) == 2, rank(??w) == 2
)";

std::vector<unity::syntax::rule> same_rules_in_cpp() {
  using namespace unity::tensor::terms;
  const variable x{"x"}, y{"y"}, z{"z"}, w = indexed("w");
  return {
      rule("shared_factor", add(matmul(x, y), matmul(x, z)) == matmul(x, add(y, z))),
      rule("merged_products",
           all(matmul(x, w)) >> split(matmul(x, concat(all(w), axis = 1)), axis = 1, sizes = {all(size(w, 1))}))
          .when(rank(x) == 2, rank(w) == 2),
  };
}

int main() {
  const auto operators = tensor::standard_algebra();
  const auto rules = unity::parse_rules(rule_text);
  if (rules != same_rules_in_cpp()) {
    fmt::print("text and C++ state different rules\n");
    return 1;
  }

  // x Y + x Z, and the three projections at the beginning of attention.
  tensor::builder b{operators};
  const auto x = b.input("x", {64, 256});
  const auto weight = [&](const char* name) { return b.weight(name, {256, 256}); };
  const auto sum = b.add(b.matmul(x, weight("y")), b.matmul(x, weight("z")));
  const auto query = b.matmul(x, weight("query")), key = b.matmul(x, weight("key")),
             value = b.matmul(x, weight("value"));
  const auto before = std::move(b).finish({sum, query, key, value});

  const tensor::analytic_cost time{operators, unity::hardware::find_device("v100").value()};
  unity::rewrite_space space{operators, time, unity::compile_rules(operators, rules), before};
  unity::backtracking_options options;
  options.alpha = 1.5;  // keeps candidates of up to 1.5 times the best cost: the first step may not be the cheapest
  const auto found = unity::backtracking(space, options);
  const auto after = space.graph(found.best);
  fmt::print("as written: {} ns\n", space.cost(space.initial()) / 1000);
  for (const auto& [move, cost] : found.path) {
    fmt::print("{}: {} ns\n", space.rule_of(move).name, cost / 1000);
  }

  // Integers modulo a prime have no rounding that could hide a difference.
  const bool equal =
      tensor::evaluate<tensor::modular61>(operators, before) == tensor::evaluate<tensor::modular61>(operators, after);
  fmt::print("{}", equal ? "both graphs compute the same\n" : "the graphs differ\n");
  return equal && found.cost < space.cost(space.initial()) ? 0 : 1;
}
