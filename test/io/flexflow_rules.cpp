#include <unity/io/flexflow_rules.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/algebra.hpp>

#include "../support/message_of.hpp"
#include "../support/shared_file.hpp"

namespace tests_of_flexflow_rules {

namespace io = unity::io;

namespace {

// linear(x1, w4) and linear(x1, w5), side by side or as one with joined weights.
const std::string merge_linears = R"({"rule": [{"name": "merge",
  "srcOp": [
    {"type": "OP_LINEAR", "input": [{"opId": -1, "tsId": 0}, {"opId": -4, "tsId": 0}],
     "para": [{"key": "PM_ACTI", "value": 2}]},
    {"type": "OP_LINEAR", "input": [{"opId": -1, "tsId": 0}, {"opId": -5, "tsId": 0}],
     "para": [{"key": "PM_ACTI", "value": 2}]}],
  "dstOp": [
    {"type": "OP_CONCAT", "input": [{"opId": -4, "tsId": 0}, {"opId": -5, "tsId": 0}],
     "para": [{"key": "PM_AXIS", "value": 1}, {"key": "PM_NUMDIM", "value": 3}]},
    {"type": "OP_LINEAR", "input": [{"opId": -1, "tsId": 0}, {"opId": 0, "tsId": 0}],
     "para": [{"key": "PM_ACTI", "value": 2}]},
    {"type": "OP_SPLIT", "input": [{"opId": 1, "tsId": 0}],
     "para": [{"key": "PM_AXIS", "value": 2}, {"key": "PM_NUM_OUTPUTS", "value": 2}]}],
  "mappedOutput": [{"srcOpId": 0, "srcTsId": 0, "dstOpId": 2, "dstTsId": 0},
                   {"srcOpId": 1, "srcTsId": 0, "dstOpId": 2, "dstTsId": 1}]}]})";

std::string message_of(const std::string& text) {
  return unity::test::message_of([&] { (void)io::parse_flexflow_rules(text, "rules.json"); });
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("FlexFlow rule text drops the replica dimension and puts output channels last") {
  const auto rules = io::parse_flexflow_rules(merge_linears, "rules.json");
  REQUIRE(rules.size() == 1);
  const auto text = io::flexflow_rule_text(rules[0]);
  INFO(text.outside_because);
  REQUIRE(text);
  CHECK_THAT(text.text, Catch::Contains("split{axis=1, sizes=[size(?x4, 1), size(?x5, 1)]}"
                                        "(linear{activation=relu}(?x1, concat{axis=1}(?x4, ?x5)))"));
  CHECK(unity::parse_rules(text.text, "merge").size() == 1);
}

TEST_CASE("FlexFlow rules with parallel operators or replica axes are outside with the reason") {
  const auto reason = [](const std::string& text) {
    const auto result = io::flexflow_rule_text(io::parse_flexflow_rules(text, "rules.json").at(0));
    CHECK_FALSE(result);
    return result.outside_because;
  };
  CHECK_THAT(reason(replaced(merge_linears, "OP_CONCAT", "OP_REPLICATE")), Catch::Contains("replicate"));
  CHECK_THAT(reason(replaced(merge_linears, R"("PM_AXIS", "value": 1)", R"("PM_AXIS", "value": 0)")),
             Catch::Contains("replica dimension"));
}

TEST_CASE("a malformed FlexFlow rule file is an error that names the byte or the member") {
  CHECK_THAT(message_of(merge_linears.substr(0, 200)),
             Catch::Contains("rules.json, byte ") && Catch::Contains("is not JSON"));
  CHECK_THAT(message_of(R"({"rules": []})"), Catch::Contains("has no \"rule\""));
  CHECK_THAT(message_of(replaced(merge_linears, R"("opId": -1)", R"("opId": "x")")),
             Catch::Contains("top.rule[0].srcOp[0].input[0].opId: is string; expected an integer"));
  CHECK_THAT(message_of(replaced(merge_linears, R"("dstOpId": 2)", R"("dstOpId": 3)")),
             Catch::Contains("merge, target output: maps result 0 of operator 3"));
  CHECK_THAT(message_of(std::string(100000, '[')), Catch::Contains("is not JSON"));
  const auto named = replaced(merge_linears, R"("name": "merge")", R"("name": "two\nlines")");
  CHECK_THAT(message_of(replaced(named, R"("dstOpId": 2)", R"("dstOpId": 3)")),
             Catch::Contains("two lines, target output") && !Catch::Contains("\n"));
}

TEST_CASE("of FlexFlow's 640 published rules 61 are restated and the others have a reason", "[shared]") {
  const auto path = unity::test::shared_file("rules/flexflow_graph_subst_3_v2.json");
  if (!path) {
    return;
  }
  const auto rules = io::read_flexflow_rules(*path);
  CHECK(rules.size() == 640);
  std::vector<io::converted_rule> converted;
  std::size_t parallel = 0;
  std::size_t plain = 0;
  for (const auto& r : rules) {
    converted.push_back(io::flexflow_rule_text(r));
    parallel += converted.back().outside_because.starts_with("parallelization operator") ? 1 : 0;
    plain += converted.back() ? 1 : 0;
    CHECK((converted.back() || !converted.back().outside_because.empty()));
  }
  CHECK(parallel == 504);
  CHECK(plain == 61);
  const auto parsed = unity::parse_rules(io::rule_file_text(converted), path->string());
  CHECK(parsed.size() == plain);
  const auto algebra = unity::tensor::standard_algebra();
  for (const auto& rule : parsed) {
    CAPTURE(rule.name);
    CHECK_NOTHROW(unity::compile_rule(algebra, rule));
  }
}

}  // namespace tests_of_flexflow_rules
