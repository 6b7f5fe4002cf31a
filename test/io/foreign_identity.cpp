#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/flexflow_rules.hpp>
#include <unity/io/foreign_rule.hpp>
#include <unity/io/rule_text.hpp>
#include <unity/io/taso_rules.hpp>

#include "../support/shared_file.hpp"

namespace tests_of_foreign_identity {

using unity::io::foreign_rule;
using source_of = foreign_rule::source_of;

namespace {

// (relu(x), add(x, y)) => (relu(x), add(y, x)), with variables -a and -b.
foreign_rule pair(std::int64_t a, std::int64_t b) {
  foreign_rule r;
  r.name = "pair";
  r.source = {{"relu", {{a, 0}}, {}}, {"add", {{a, 0}, {b, 0}}, {}}};
  r.target = {{"relu", {{a, 0}}, {}}, {"add", {{b, 0}, {a, 0}}, {}}};
  r.outputs = {{{0, 0}, {0, 0}}, {{1, 0}, {1, 0}}};
  return r;
}

}  // namespace

TEST_CASE("identity_text ignores variable numbers and order and unused operators") {
  const auto rule = pair(-1, -2);
  const auto same = identity_text(rule);
  CHECK(identity_text(pair(-7, -3)) == same);

  auto other = rule;
  std::swap(other.outputs[0], other.outputs[1]);
  CHECK(identity_text(other) == same);

  other = rule;
  std::swap(other.source[0], other.source[1]);
  other.outputs[0].source.node = 1;
  other.outputs[1].source.node = 0;
  CHECK(identity_text(other) == same);

  other = rule;
  other.target.push_back({"tanh", {{-1, 0}}, {}});
  CHECK(identity_text(other) == same);
}

TEST_CASE("identity_text tells rules with different operators/parameters/outputs apart") {
  const auto rule = pair(-1, -2);
  std::set<std::string> all{identity_text(rule)};
  auto other = rule;
  other.target[1].inputs = other.source[1].inputs;
  CHECK(all.insert(identity_text(other)).second);
  other = rule;
  other.source[0].parameters["axis"] = 1;
  CHECK(all.insert(identity_text(other)).second);
  other = rule;
  other.source[0].type = "tanh";
  CHECK(all.insert(identity_text(other)).second);
  other = rule;
  std::swap(other.source, other.target);
  CHECK(all.insert(identity_text(other)).second);
  other = rule;
  other.outputs.pop_back();
  CHECK(all.insert(identity_text(other)).second);
  CHECK(all.insert(identity_text(pair(-1, -1))).second);
}

TEST_CASE("unbound_input names an input that only the target reads") {
  CHECK_FALSE(unbound_input(pair(-1, -2)));
  auto rule = pair(-1, -2);
  rule.target[1].inputs[0] = {-9, 1};
  CHECK(unbound_input(rule) == "?x9_1");
}

TEST_CASE("to_rule_text writes one convolution group or derives the groups from channels") {
  foreign_rule r;
  r.name = "relu_out";
  const std::map<std::string, std::int64_t> window{
      {"stride_h", 1}, {"stride_w", 1}, {"pad", 0}, {"kernel_h", 3}, {"kernel_w", 3}};
  auto fused = window;
  fused["activation"] = 2;
  r.source = {{"conv2d", {{-1, 0}, {-2, 0}}, window}, {"relu", {{0, 0}}, {}}};
  r.target = {{"conv2d", {{-1, 0}, {-2, 0}}, fused}};
  r.outputs = {{{1, 0}, {0, 0}}};
  CHECK(unity::io::to_rule_text(r).text.find("groups") == std::string::npos);
  const auto implied = unity::io::to_rule_text(r, unity::io::group_reading::implied).text;
  CHECK(implied.find("groups=?groups_0}(?x1, ?x2)) => ") != std::string::npos);
  CHECK(implied.find("groups=(size(?x1, 1)) / (size(?x2, 1)), activation=relu") != std::string::npos);
}

TEST_CASE("of FlexFlow's 640 rules 608 are distinct and 112 read unbound inputs", "[shared]") {
  const auto path = unity::test::shared_file("rules/flexflow_graph_subst_3_v2.json");
  if (!path) {
    return;
  }
  const auto all = unity::io::read_flexflow_rules(*path);
  REQUIRE(all.size() == 640);
  std::set<std::string> distinct;
  std::size_t unbound = 0;
  for (const auto& r : all) {
    distinct.insert(identity_text(r));
    unbound += unbound_input(r) ? 1 : 0;
  }
  CHECK(distinct.size() == 608);
  CHECK(unbound == 112);
}

}  // namespace tests_of_foreign_identity
