// The shipped rules of parallel computation graphs: what generates them, and that each holds, forward and backward.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_adjoint.hpp>
#include <unity/parallel/rules/dividing_rules.hpp>
#include <unity/parallel/rules/operator_forms.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/parallel/rules/rule_terms.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/cases.hpp"
#include "operators.hpp"
#include "random_pcg.hpp"
#include "rewritten.hpp"

namespace tests_of_parallel_rules {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::tensor::modular61;

namespace {

const std::vector<syntax::rule>& shipped() {
  static const auto all = parse_rules(std::string{parallel_rules}, "parallel_rules");
  return all;
}

const syntax::rule& rule_named(std::string_view name) {
  const auto found = std::find_if(shipped().begin(), shipped().end(), [&](const auto& r) { return r.name == name; });
  REQUIRE(found != shipped().end());
  return *found;
}

pcg plain(const operator_example& e) {
  pcg_writer writer{parallel_operators()};
  std::vector<value_id> inputs;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const auto n = writer.add(operators().make_operation("input", {{"name", "x" + std::to_string(i)},
                                                                   {"element", tensor::name_of(e.inputs[i].element)},
                                                                   {"dims", e.inputs[i].dims}}),
                              {});
    inputs.push_back(writer.graph().results(n)[0]);
  }
  const auto n = writer.add(e.op, inputs);
  const std::vector<value_id> outputs(writer.graph().results(n).begin(), writer.graph().results(n).end());
  return std::move(writer).finish(outputs);
}

std::vector<value_id> sources_of(const pcg& g) {
  std::vector<value_id> all;
  for (const auto n : node_ids(g)) {
    for (const auto v : g.results(n)) {
      if (g.operands(n).empty() && tensor::is_floating(g.type(v).global.element)) {
        all.push_back(v);
      }
    }
  }
  return all;
}

// Compares values and gradients of the sources, shard by shard.
void check_values(const pcg& g) {
  const auto erased = erase_values(parallel_operators(), g);
  CHECK(evaluate<modular61>(parallel_operators(), g) == tensor::evaluate<modular61>(operators(), erased.graph));
  if (!tensor::is_floating(g.type(g.outputs()[0]).global.element)) {
    return;
  }
  const auto sources = sources_of(g);
  tensor::differentiation what;
  for (const auto v : sources) {
    what.sources.push_back(erased.values[v.index()]);
  }
  CHECK(evaluate<modular61>(parallel_operators(), differentiate(parallel_operators(), g, sources).graph) ==
        tensor::evaluate<modular61>(operators(), tensor::differentiate(operators(), erased.graph, what).graph));
}

// Applies the rule with all values of its dimensions to the graph; returns the number of applications.
template <class Check>
std::size_t apply_all(const syntax::rule& rule, const pcg& g, std::span<const std::int64_t> degrees,
                      const Check& check) {
  std::size_t count = 0;
  for (const auto& r : with_all_values(rule, degrees, 4)) {
    for (const auto& made : parallel::test::rewritten(parallel_operators(), g, r, r.name)) {
      CAPTURE(r.name);
      CHECK(output_types(made) == output_types(g));
      check(made);
      ++count;
    }
  }
  return count;
}

// Whether the graphs compute the same with the same operators once divisions are erased. Operands of a sum may be
// swapped.
bool same_erased(const pcg& x, const pcg& y) {
  return parallel::test::meaning_of(operators(), erase(parallel_operators(), x)) ==
         parallel::test::meaning_of(operators(), erase(parallel_operators(), y));
}

bool divides(const syntax::rule& rule, const operator_example& e) {
  const auto& from = rule.source[0];
  return rule.prover == "erasure" && from.kind == syntax::term::form::application &&
         from.name == operators().signature(e.op.kind).name &&
         (from.operands[0].repeated || from.operands.size() == e.inputs.size());
}

}  // namespace

TEST_CASE("shipped parallel rules are proved and unique and begin with the generated rules") {
  auto made = chain_rules();
  for (const auto& form : standard_forms(operators())) {
    for (auto& r : dividing_rules(parallel_operators(), form)) {
      made.push_back(std::move(r));
    }
  }
  std::set<std::string> names;
  for (const auto& r : shipped()) {
    CHECK(names.insert(r.name).second);
    CHECK(r.known == syntax::standing::proved);
  }
  REQUIRE(shipped().size() > made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    CHECK(to_text(shipped()[i]) == to_text(made[i]));
  }
}

TEST_CASE("parallel rules of each operator preserve values and gradients at degree 2", "[exhaustive]") {
  constexpr std::array<std::int64_t, 1> halves{2};
  std::map<std::string, std::size_t> applied;
  for (const auto& form : standard_forms(operators(), 2)) {
    for (const auto& e : form.examples) {
      const auto g = plain(e);
      for (const auto& rule : shipped()) {
        if (divides(rule, e)) {
          applied[rule.name] += apply_all(rule, g, halves, [&](const pcg& made) {
            CHECK(same_erased(made, g));
            check_values(made);
          });
        }
      }
    }
  }
  for (const auto& form : standard_forms(operators())) {
    for (const auto& r : dividing_rules(parallel_operators(), form)) {
      CAPTURE(r.name);
      CHECK(applied[r.name] > 0);
    }
  }
}

TEST_CASE("parallel rules of each operator preserve output types at degrees 2 to 4") {
  constexpr std::array<std::int64_t, 3> degrees{2, 3, 4};
  for (const auto& form : standard_forms(operators())) {
    const auto& e = form.examples.back();
    const auto g = plain(e);
    for (const auto& rule : shipped()) {
      if (divides(rule, e)) {
        apply_all(rule, g, degrees, [&](const pcg& made) { CHECK(same_erased(made, g)); });
      }
    }
  }
}

TEST_CASE("chain rules preserve types and values of random chains of parallel operators", "[law]") {
  constexpr std::array<std::int64_t, 2> degrees{2, 3};
  rule_set rules;
  for (const auto& rule : chain_rules()) {
    for (const auto& r : with_all_values(rule, degrees, 2)) {
      std::ranges::move(compile_rule(parallel_operators(), r), std::back_inserter(rules));
    }
  }
  const auto cases = unity::test::cases(60);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    pcg_writer writer{parallel_operators()};
    const auto n = writer.add(operators().make_operation("input", {{"name", "x"}, {"dims", {12, 12}}}), {});
    auto v = writer.graph().results(n)[0];
    for (const auto& p : parallel::test::random_chain(random, writer.type(v), 6)) {
      v = writer.add(p, {&v, 1});
    }
    const auto g = std::move(writer).finish({&v, 1});
    const auto expected = evaluate<modular61>(parallel_operators(), g);
    for (const auto& [name, made] : parallel::test::rewritten(parallel_operators(), g, rules)) {
      CAPTURE(name);
      CHECK(output_types(made) == output_types(g));
      CHECK(evaluate<modular61>(parallel_operators(), made) == expected);
    }
  }
}

TEST_CASE("hybrid parallel rules of figures 11 and 16 preserve values and gradients") {
  const auto type = [](tensor::shape dims) { return parallel::test::type(std::move(dims)); };
  auto ids = parallel::test::type({4, 4});
  ids.element = tensor::dtype::int64;
  const auto op = [](std::string_view name, std::initializer_list<tensor::named_attribute> attributes = {}) {
    return operators().make_operation(name, attributes);
  };
  constexpr std::array<std::int64_t, 1> halves{2};
  const auto check = [&](std::string_view name, const operator_example& e) {
    CAPTURE(name);
    const auto g = plain(e);
    const auto count = apply_all(rule_named(name), g, halves, [&](const pcg& made) {
      CHECK(evaluate<modular61>(parallel_operators(), made) == evaluate<modular61>(parallel_operators(), g));
      check_values(made);
    });
    CHECK(count > 0);
  };
  check("add_is_reduce_of_terms", {op("add"), {type({4, 4}), type({4, 4})}});
  check("concat_is_combine_of_blocks", {op("concat", {{"axis", 1}}), {type({2, 4}), type({2, 4}), type({2, 4})}});
  check("embedding_bag_is_sum", {op("embedding_bag"), {type({6, 4}), ids}});
  check("embedding_bag_is_sum_over_bags", {op("embedding_bag"), {type({6, 4}), ids}});
  check("embedding_bag_over_s", {op("embedding_bag"), {type({6, 4}), ids}});
  check("relu_over_d", {op("relu"), {type({2, 2, 4, 4})}});
}

TEST_CASE("parallel rules for products of concats and blocks preserve values and gradients") {
  pcg_writer writer{parallel_operators()};
  const auto source = [&](const char* name, tensor::shape dims) {
    const auto n = writer.add(operators().make_operation("input", {{"name", name}, {"dims", std::move(dims)}}), {});
    return writer.graph().results(n)[0];
  };
  const auto apply = [&](const tensor::operation& op, const std::vector<value_id>& operands) {
    return writer.graph().results(writer.add(op, operands))[0];
  };
  const auto x = source("x", {2, 4});
  const auto y = source("y", {2, 4});
  const auto u = source("u", {4, 6});
  const auto v = source("v", {4, 6});
  const auto w = source("w", {8, 6});
  const auto matmul = operators().make_operation("matmul");
  const auto columns = apply(operators().make_operation("concat", {{"axis", 1}}), {x, y});
  const auto rows = apply(operators().make_operation("concat", {{"axis", 0}}), {u, v});
  const auto halves = parallel_operators().make(parallel_operator{parallel_kind::blocks, 1, 0});
  const auto upper = parallel_operators().make(parallel_operator{parallel_kind::blocks, 0, 0});
  const std::vector products{apply(matmul, {columns, rows}), apply(matmul, {columns, w}),
                             apply(matmul, {apply(halves, {x, y}), apply(upper, {u, v})}),
                             apply(parallel_operators().make(parallel_operator{parallel_kind::partition, 0, 2}), {w})};
  const std::array names{"matmul_of_concats_is_sum", "matmul_of_concat_is_sum", "matmul_of_blocks",
                         "partition_is_blocks_of_split"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    auto one = writer;
    const auto g = std::move(one).finish({&products[i], 1});
    constexpr std::array<std::int64_t, 1> degrees{2};
    const auto count = apply_all(rule_named(names[i]), g, degrees, [&](const pcg& made) {
      CHECK(evaluate<modular61>(parallel_operators(), made) == evaluate<modular61>(parallel_operators(), g));
      check_values(made);
    });
    CHECK(count > 0);
  }
}

}  // namespace tests_of_parallel_rules
