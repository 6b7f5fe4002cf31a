#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/rewrite/lexer.hpp>

#include "../support/message_of.hpp"

namespace tests_of_lexer {

using unity::rule_lexer;
using unity::rule_token;
using form = unity::rule_token::form;

namespace {

std::vector<rule_token> tokens(std::string_view text) {
  rule_lexer in{text, "file"};
  std::vector<rule_token> all;
  while (in.peek().kind != form::end) {
    all.push_back(in.next());
  }
  return all;
}

std::vector<std::string> texts(std::string_view text) {
  std::vector<std::string> all;
  for (const auto& t : tokens(text)) {
    all.emplace_back(t.text);
  }
  return all;
}

std::string message(std::string_view text) {
  return unity::test::message_of([&] { (void)tokens(text); });
}

}  // namespace

TEST_CASE("the lexer classifies tokens by kind") {
  const auto all = tokens(R"(rule ?x ??w 12 0.5 1e-05 "a b" {)");
  REQUIRE(all.size() == 8);
  CHECK(all[0].kind == form::name);
  CHECK(all[1].kind == form::variable);
  CHECK(all[1].text == "x");
  CHECK(all[2].kind == form::indexed_variable);
  CHECK(all[2].text == "w");
  CHECK(all[3].kind == form::number);
  CHECK(all[4].text == "0.5");
  CHECK(all[5].text == "1e-05");
  CHECK(all[6].kind == form::text);
  CHECK(all[6].text == "a b");
  CHECK(all[7].kind == form::symbol);
}

TEST_CASE("the lexer takes the longest symbol or number") {
  CHECK(texts("a...==b=>c..<=d<>=&&||!=!.*.") == std::vector<std::string>{"a", "...", "==", "b", "=>", "c", "..",
                                                                          "<=", "d", "<", ">=", "&&", "||", "!=", "!",
                                                                          ".", "*", "."});
  CHECK(texts("f(?x).0...") == std::vector<std::string>{"f", "(", "x", ")", ".", "0", "..."});
  CHECK(texts("f.0.5") == std::vector<std::string>{"f", ".", "0.5"});
  CHECK(texts("1e 2e+ 3.x 4..5") == std::vector<std::string>{"1", "e", "2", "e", "+", "3", ".", "x", "4", "..", "5"});
}

TEST_CASE("lexer tokens record the line and column where they begin") {
  const auto all = tokens("rule a # a comment ?y\n  f(?x,\t??w)\r\n\n\"text\" 12");
  struct place {
    std::size_t line;
    std::size_t column;
  };
  const std::vector<place> expected{{1, 1}, {1, 6}, {2, 3}, {2, 4}, {2, 5}, {2, 7}, {2, 9}, {2, 12}, {4, 1}, {4, 8}};
  REQUIRE(all.size() == expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i, all[i].text);
    CHECK(all[i].line == expected[i].line);
    CHECK(all[i].column == expected[i].column);
  }
}

TEST_CASE("lexer comments extend to the end of the line or text") {
  CHECK(texts("# all\n#again\na # b\n#") == std::vector<std::string>{"a"});
  CHECK(texts("").empty());
  CHECK(texts("#").empty());
  CHECK(texts("a#\n\n\nb") == std::vector<std::string>{"a", "b"});
}

TEST_CASE("the lexer skips a byte order mark before the text, and no other") {
  CHECK(texts("\xef\xbb\xbf"
              "a b") == std::vector<std::string>{"a", "b"});
  CHECK(texts("a \xef\xbb\xbf").size() == 4);
}

TEST_CASE("the end-of-file token has a line and column") {
  rule_lexer in{"a\n  ", "file"};
  in.next();
  CHECK(in.peek().kind == form::end);
  CHECK(in.peek().line == 2);
  CHECK(in.peek().column == 3);
  CHECK_THROWS_WITH(in.fail("'b'"), "file:2:3: found end of file; expected 'b'");
}

TEST_CASE("a lexer error states file and position and what was found and expected") {
  rule_lexer in{"\n  ( a", "some.rules"};
  CHECK_THROWS_WITH(in.expect(")"), "some.rules:2:3: found '('; expected ')'");
  CHECK_NOTHROW(in.expect("("));
  CHECK(in.at_name("a"));
  CHECK_FALSE(in.at("a"));
}

TEST_CASE("an unclosed quoted text is a lexer error at its line and column") {
  CHECK(message("x \"abc\ndef\"") == "file:1:3: found 'abc'; expected a closing quote");
  CHECK(message("\"abc") == "file:1:1: found 'abc'; expected a closing quote");
  CHECK(message("\"a\tb\xc3\xa9") == "file:1:1: found 'a b\xc3\xa9'; expected a closing quote");  // in one line
}

TEST_CASE("the lexer returns each non-text byte as a symbol") {
  const std::string bytes{"\0\xff@", 3};
  const auto all = tokens(bytes);
  REQUIRE(all.size() == 3);
  CHECK(all[1].kind == form::symbol);
  CHECK(all[1].text == "\xff");
}

}  // namespace tests_of_lexer
