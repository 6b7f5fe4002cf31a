// Rules that do not follow from erasure alone: each follows from erasure rules and properties of tensor operators.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

#include "../../support/cases.hpp"
#include "../operators.hpp"
#include "../random_pcg.hpp"
#include "../rewritten.hpp"

namespace tests_of_hybrid_rules {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::tensor::modular61;

namespace {

// Writes the source of a rule.
class writer {
 public:
  value_id source(tensor::shape dims, const char* element = "float32") {
    const auto name = "x" + std::to_string(count_++);
    return made(writer_.add(
        operators().make_operation("input", {{"name", name}, {"element", element}, {"dims", std::move(dims)}}), {}));
  }
  value_id op(std::string_view name, const std::vector<value_id>& operands,
              std::initializer_list<tensor::named_attribute> attributes = {}) {
    return made(writer_.add(operators().make_operation(name, attributes), operands));
  }
  value_id op(parallel_kind kind, const std::vector<value_id>& operands, std::int64_t axis = 0) {
    return writer_.add(parallel_operator{kind, axis, has_degree(kind) ? 2 : 0}, operands);
  }
  value_id blocks(std::int64_t axis, tensor::shape dims) {
    return op(parallel_kind::blocks, {source(dims), source(dims)}, axis);
  }
  value_id terms(tensor::shape dims) { return op(parallel_kind::terms, {source(dims), source(dims)}); }
  pcg finish(value_id v) && { return std::move(writer_).finish({&v, 1}); }

 private:
  value_id made(node_id n) { return writer_.graph().results(n)[0]; }

  pcg_writer writer_{parallel_operators()};
  std::size_t count_ = 0;
};

const std::map<std::string, std::function<value_id(writer&)>>& sources() {
  static const std::map<std::string, std::function<value_id(writer&)>> all{
      {"relu_of_blocks", [](writer& w) { return w.op("relu", {w.blocks(0, {2, 4})}); }},
      {"gelu_of_blocks", [](writer& w) { return w.op("gelu", {w.blocks(0, {2, 4})}); }},
      {"tanh_of_blocks", [](writer& w) { return w.op("tanh", {w.blocks(0, {2, 4})}); }},
      {"sigmoid_of_blocks", [](writer& w) { return w.op("sigmoid", {w.blocks(0, {2, 4})}); }},
      {"add_of_blocks", [](writer& w) { return w.op("add", {w.blocks(1, {4, 2}), w.blocks(1, {4, 2})}); }},
      {"mul_of_blocks", [](writer& w) { return w.op("mul", {w.blocks(1, {4, 2}), w.blocks(1, {4, 2})}); }},
      {"blocks_of_terms", [](writer& w) { return w.op(parallel_kind::blocks, {w.terms({4, 2}), w.terms({4, 2})}, 0); }},
      {"partition_is_blocks_of_split", [](writer& w) { return w.op(parallel_kind::partition, {w.source({4, 4})}, 0); }},
      {"matmul_of_blocks", [](writer& w) { return w.op("matmul", {w.blocks(1, {4, 2}), w.blocks(0, {2, 4})}); }},
      {"matmul_of_concats_is_sum",
       [](writer& w) {
         const auto x = w.op("concat", {w.source({4, 2}), w.source({4, 2})}, {{"axis", 1}});
         return w.op("matmul", {x, w.op("concat", {w.source({2, 4}), w.source({2, 4})}, {{"axis", 0}})});
       }},
      {"matmul_of_concat_is_sum",
       [](writer& w) {
         const auto x = w.op("concat", {w.source({4, 2}), w.source({4, 2})}, {{"axis", 1}});
         return w.op("matmul", {x, w.source({4, 4})});
       }},
      {"embedding_bag_is_sum",
       [](writer& w) { return w.op("embedding_bag", {w.source({6, 4}), w.source({2, 4}, "int64")}); }},
      {"embedding_bag_is_sum_over_bags",
       [](writer& w) { return w.op("embedding_bag", {w.source({6, 4}), w.source({2, 4}, "int64")}); }},
  };
  return all;
}

// Both graphs in one, on the same sources.
pcg side_by_side(const pcg& x, const pcg& y) {
  pcg_writer all{parallel_operators()};
  std::vector<value_id> outputs;
  std::map<std::uint64_t, value_id> inputs;
  for (const auto* g : {&x, &y}) {
    std::vector<value_id> values(g->value_count());
    for (const auto n : node_ids(*g)) {
      std::vector<value_id> operands;
      for (const auto v : g->operands(n)) {
        operands.push_back(values[v.index()]);
      }
      const auto name = std::uint64_t{std::hash<tensor::operation>{}(g->operation(n))};
      if (operands.empty() && inputs.contains(name)) {
        values[g->results(n)[0].index()] = inputs[name];
        continue;
      }
      const auto made = all.add(g->operation(n), operands);
      for (std::size_t r = 0; r < g->results(n).size(); ++r) {
        values[g->results(n)[r].index()] = all.graph().results(made)[r];
      }
      if (operands.empty()) {
        inputs[name] = all.graph().results(made)[0];
      }
    }
    outputs.push_back(values[g->outputs()[0].index()]);
  }
  return std::move(all).finish(outputs);
}

}  // namespace

TEST_CASE("hybrid parallel rules are proved from erasure rules and axioms and hold on values") {
  constexpr std::array<std::int64_t, 1> halves{2};
  theory known;
  const auto rules = parse_rules(std::string{parallel_rules}, "parallel_rules");
  for (const auto& r : rules) {
    for (const auto& i : r.prover == "erasure" ? with_all_values(r, halves, 2) : std::vector<syntax::rule>{}) {
      known.add(parallel_operators(), i);
    }
  }
  for (const auto& r : parse_rules(std::string{tensor::standard_axioms}, "standard_axioms")) {
    known.add(parallel_operators(), r);
  }
  for (const auto& r : rules) {
    if (r.prover == "erasure") {
      continue;
    }
    CAPTURE(r.name);
    const auto source = sources().find(r.name);
    REQUIRE(source != sources().end());
    writer w;
    const auto v = source->second(w);
    const auto g = std::move(w).finish(v);
    std::size_t count = 0;
    for (const auto& i : with_all_values(r, halves, 2)) {
      for (const auto& made : parallel::test::rewritten(parallel_operators(), g, i, i.name)) {
        if (count++ > 0 && unity::test::one_case_of > 1) {
          continue;
        }
        CHECK(evaluate<modular61>(parallel_operators(), made) == evaluate<modular61>(parallel_operators(), g));
        const std::vector worlds{side_by_side(g, made)};
        entailment<pcg_algebra> ask{
            parallel_operators(), known, {.rounds = 14, .nodes = 20000, .matches = 200000, .extra_operators = 10}};
        const auto found = ask.prove_outputs(std::span{worlds});
        REQUIRE(found.has_value());
        const auto answer = congruence_prover{}.decide(found->ground);
        CHECK(answer.found == verdict::proved);
        std::set<std::string> used;
        for (const auto e : answer.used) {
          const auto& name = known.rules()[found->ground.equalities[e].axiom].name;
          used.insert(name.substr(0, name.find(' ')));
        }
        CHECK(std::set<std::string>(r.axioms.begin(), r.axioms.end()) == used);
        CHECK(r.prover == congruence_prover{}.name());
      }
    }
    CHECK(count > 0);
  }
}

}  // namespace tests_of_hybrid_rules
