#include <unity/io/taso_rules.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/rule_text.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/algebra.hpp>

#include "../support/message_of.hpp"
#include "../support/shared_file.hpp"

namespace tests_of_taso_rules {

namespace io = unity::io;

namespace {

// relu(relu(x1)) => relu(x1), byte by byte.
const std::string operator_of_variable{"\x08\x08\x12\x0d\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x00", 17};
const std::string operator_of_first{"\x08\x08\x12\x04\x08\x00\x10\x00", 8};
const std::string mapping{"\x08\x01\x10\x00\x18\x00\x20\x00", 8};

std::string field(char tag, const std::string& bytes) { return tag + (static_cast<char>(bytes.size()) + bytes); }
std::string small_collection() {
  const auto rule = field('\x0a', operator_of_variable) + field('\x0a', operator_of_first) +
                    field('\x12', operator_of_variable) + field('\x1a', mapping);
  return field('\x0a', rule);
}
std::string message_of(const std::string& bytes) {
  return unity::test::message_of([&] { (void)io::parse_taso_rules(bytes, "rules.pb"); });
}

}  // namespace

TEST_CASE("a TASO collection of one rule is read field by field") {
  const auto rules = io::parse_taso_rules(small_collection(), "rules.pb");
  REQUIRE(rules.size() == 1);
  CHECK(rules[0].name == "taso_0");
  REQUIRE(rules[0].source.size() == 2);
  CHECK(rules[0].source[1].type == "relu");
  CHECK(rules[0].source[0].inputs == std::vector<io::foreign_rule::source_of>{{-1, 0}});
  CHECK(rules[0].outputs == std::vector<io::foreign_rule::mapping>{{{1, 0}, {0, 0}}});
}

TEST_CASE("a truncated TASO rule file is an error at any length above 0") {
  const auto whole = small_collection();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const auto message = message_of(whole.substr(0, length));
    if (length > 0) {
      CHECK_THAT(message, Catch::Contains("rules.pb") && Catch::Contains("expected"));
    }
  }
}

TEST_CASE("a damaged TASO rule is an error that names the fault") {
  auto backward = small_collection();
  const auto at = backward.find(operator_of_first);
  backward[at + 5] = 9;
  CHECK_THAT(message_of(backward), Catch::Contains("taso_0, source, operator 1: reads operator 9"));
  auto unmapped = small_collection();
  unmapped[unmapped.find(mapping) + 1] = 7;
  CHECK_THAT(message_of(unmapped), Catch::Contains("maps result 0 of operator 7"));
  CHECK_THAT(message_of(std::string(1, '\x0b')), Catch::Contains("wire type 3"));
}

TEST_CASE("TASO's 133 published rules are restated and compiled", "[shared]") {
  const auto path = unity::test::shared_file("rules/taso_graph_subst.pb");
  if (!path) {
    return;
  }
  const auto rules = io::read_taso_rules(*path);
  CHECK(rules.size() == 133);
  std::vector<io::converted_rule> converted;
  for (const auto& r : rules) {
    converted.push_back(io::to_rule_text(r));
    INFO(r.name << ": " << converted.back().outside_because);
    CHECK(converted.back());
  }
  const auto parsed = unity::parse_rules(io::rule_file_text(converted), path->string());
  CHECK(parsed.size() == 133);
  const auto algebra = unity::tensor::standard_algebra();
  for (const auto& rule : parsed) {
    CAPTURE(rule.name);
    CHECK_NOTHROW(unity::compile_rule(algebra, rule));
  }
  // Wrong rules are converted as they are: verification must find them.
  CHECK_THAT(converted[99].text, Catch::Contains("concat{axis=0}(?x10, ?x11)"));
}

}  // namespace tests_of_taso_rules
