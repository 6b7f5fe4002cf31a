#include <cstddef>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/cost/cost_model.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/equivalence.hpp>

#include "../support/message_of.hpp"

namespace tests_of_part_names {

using namespace unity;

namespace {

const tensor::algebra& operators() {
  static const auto a = tensor::standard_algebra();
  return a;
}

syntax::rule parsed(std::string_view rule) { return parse_rules("rule r " + std::string{rule}).at(0); }

syntax::rule plain(std::string_view rule) { return without_part_names(operators(), parsed(rule)); }

std::string message(std::string_view rule) {
  return unity::test::message_of([&] { (void)compile_rule(operators(), parsed(rule)); });
}

}  // namespace

TEST_CASE("part names expand to the parts they name") {
  CHECK(plain("add(?x, ?y@relu(?z)) => sub(?x, ?y)") == parsed("add(?x, relu(?z)) => sub(?x, relu(?z))"));
  CHECK(plain("add(?y@relu(?z), ?y) => ?y") == parsed("add(relu(?z), relu(?z)) => relu(?z)"));
  CHECK(plain("add(?x, relu(?z)) == add(?y@relu(?z), ?x)") == parsed("add(?x, relu(?z)) == add(relu(?z), ?x)"));
  CHECK(plain("add(?x, ?y@split{axis=0, sizes=?s}(?z).1) => ?y") ==
        parsed("add(?x, split{axis=0, sizes=?s}(?z).1) => split{axis=0, sizes=?s}(?z).1"));
  const auto none = parsed("add(?x, ?y) => add(?y, ?x)");
  CHECK(without_part_names(operators(), none) == none);
}

TEST_CASE("open attributes of a named part keep the values that they matched") {
  const auto rule = plain("relu(?y@max_pool{..}(?x)) => ?y");
  CHECK_FALSE(rule.source[0].operands[0].open);
  CHECK(rule.target[0] == rule.source[0].operands[0]);
  CHECK(rule.target[0].attributes.size() ==
        operators().signature(*operators().find_kind("max_pool")).attributes.size());

  // Applied to a graph: the relu is removed, and the pool keeps its window.
  const auto rules = compile_rule(operators(), parsed("relu(?y@max_pool{..}(relu(?x))) => ?y"));
  tensor::builder b{operators()};
  const auto x = b.input("x", {1, 2, 8, 8});
  const auto pool = b.max_pool(b.relu(x), {.kernel = {3, 3}, .stride = {2, 2}});
  const auto g = std::move(b).finish({b.relu(pool)});
  rewrite_space space{operators(), tensor::flop_cost{operators(), tensor::mode::inference}, rules, g};
  auto s = space.initial();
  REQUIRE(space.moves(s).size() == 1);
  decltype(space)::scratch_type from;
  decltype(space)::scratch_type to;
  space.prepare(s, from);
  s = space.apply(s, space.moves(s)[0], from, to);
  const auto after = space.graph(s);
  CHECK(after.node_count() == g.node_count() - 1);
  const auto last = after.producer(after.outputs()[0]);
  CHECK(after.operation(last) == g.operation(g.producer(pool)));
}

TEST_CASE("part names round-trip through parsing and printing") {
  for (const std::string text :
       {"rule r\n  add(?x, ?y@relu(?z)) => ?y\n", "rule r\n  relu(?y@max_pool{..}(?x)) => ?y\n",
        "rule r\n  add(?x, ?y@split{axis=0, ..}(?z).1) => ?y\n"}) {
    CHECK(to_text(parse_rules(text).at(0)) == text);
  }
}

TEST_CASE("invalid part names are refused") {
  CHECK(message("add(?y@relu(?x), ?y@neg(?x)) => ?y").find("expected a name of its own for each part") !=
        std::string::npos);
  CHECK(message("add(?y@relu(?x), ?z@neg(?y)) => ?z").find("expected a part in which no part's name stands") !=
        std::string::npos);
  CHECK(message("relu(?y@relu(?y)) => ?y").find("expected a part in which no part's name stands") != std::string::npos);
  CHECK(message("relu(?y@relu(?x)) => ?y if rank(?y) == 2").find("?y in an expression") != std::string::npos);
  CHECK(message("relu(?y@relu(?x)) => ?y.1").find("expected ?y, which is one value") != std::string::npos);
  CHECK(message("concat{axis=0}(?y@relu(??x)...) => ?y").find("expected a name for one value") != std::string::npos);
  CHECK(message("relu(?y@nothing{..}(?x)) => ?y").find("operator 'nothing'") != std::string::npos);
  CHECK_THROWS_WITH(parse_rules("rule r relu(?@relu(?x)) => ?x"), Catch::Contains("a variable's name after '?'"));
  CHECK_THROWS_WITH(parse_rules("rule r relu(?y@?x) => ?x"), Catch::Contains("an operator or a variable"));
  CHECK_THROWS_WITH(parse_rules("rule r relu(??y@relu(?x)) => ?x"), Catch::Contains("found '@'"));
}

}  // namespace tests_of_part_names
