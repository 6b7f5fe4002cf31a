// Compositions of operators, compared with all trees of them.

#include <unity/tensor/generation/compositions.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>

#include "../../support/cases.hpp"
#include "../../support/message_of.hpp"

namespace tests_of_compositions {

using namespace unity;
using namespace unity::tensor;

namespace {

// Operators with one, two, and one to three operands.
const tensor::algebra& few() {
  static const auto a = [] {
    tensor::algebra made;
    made.add(define("one", 1, 1, {}, opaque{}));
    made.add(define("two", 2, 1, {}, opaque{}));
    made.add(define("some", {1, 3}, 1, {}, opaque{}));
    return made;
  }();
  return a;
}

std::string text_of(const syntax::term& t) {
  if (t.kind != syntax::term::form::application) {
    return t.name;
  }
  std::string text = t.name + "(";
  for (const auto& o : t.operands) {
    text += (text.back() == '(' ? "" : ",") + text_of(o);
  }
  return text + ")";
}

// A tree of operators as text, with what the rules of compositions depend on.
struct tree {
  std::string text{};
  std::size_t size = 0;
  std::vector<std::string> kinds{};
};

// All trees of at most `most` operators in which no operator contains one of its kind, and of two data operands the
// first is at least as large.
std::vector<tree> all_trees(const std::vector<composed_operator>& operators, std::size_t most) {
  std::vector<tree> all{{"i", 0, {}}};
  for (std::size_t size = 1; size <= most; ++size) {
    const auto smaller = all;
    for (const auto& o : operators) {
      const auto is_allowed = [&](const tree& t) {
        return std::find(t.kinds.begin(), t.kinds.end(), o.kind) == t.kinds.end();
      };
      const bool joins = std::count(o.operands.begin(), o.operands.end(), 'i') == 2;
      for (const auto& first : smaller) {
        for (const auto& second : joins ? smaller : std::vector<tree>{{"i", 0, {}}}) {
          if (first.size + second.size + 1 != size || first.size < second.size || !is_allowed(first) ||
              !is_allowed(second)) {
            continue;
          }
          tree made{o.kind + "(", size, {o.kind}};
          bool is_first = true;
          for (const auto role : o.operands) {
            made.text += made.text.back() == '(' ? "" : ",";
            made.text += role == 'w' ? "w" : is_first ? first.text : second.text;
            is_first = is_first && role == 'w';
          }
          made.text += ")";
          made.kinds.insert(made.kinds.end(), first.kinds.begin(), first.kinds.end());
          made.kinds.insert(made.kinds.end(), second.kinds.begin(), second.kinds.end());
          all.push_back(made);
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("parse_composed_operators reads operators and the roles of their operands") {
  const auto all = parse_composed_operators(few(), "one:i two:iw some:wiw two:ii");
  REQUIRE(all.size() == 4);
  CHECK(all[0].kind == "one");
  CHECK(all[0].operands == "i");
  CHECK(all[1].kind == "two");
  CHECK(all[1].operands == "iw");
  CHECK(all[2].kind == "some");
  CHECK(all[2].operands == "wiw");
  CHECK(all[3].kind == "two");
  CHECK(all[3].operands == "ii");
  CHECK(parse_composed_operators(few(), "").empty());
}

TEST_CASE("parse_composed_operators refuses what it cannot compose, and names it") {
  for (const std::string word : {"other:i", "one", "one:", "one:ii", "two:i", "two:ww", "two:ix", "some:iii",
                                 "some:wwwi", ":i", "one:i:i", "one:I"}) {
    const auto said = unity::test::message_of(
        [&] { static_cast<void>(parse_composed_operators(few(), "one:i " + word + " two:iw")); });
    CAPTURE(word, said);
    CHECK(said.find("'" + word + "'") != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST_CASE("larger_compositions are all trees of operators, each once", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  constexpr std::string_view words[] = {"one:i", "two:iw", "two:wi", "two:ii", "some:iwi", "some:i", "some:wwi"};
  for (std::uint64_t round = 0; round < unity::test::cases(20); ++round) {
    std::string text;
    for (const auto word : words) {
      const auto kind = word.substr(0, word.find(':'));
      if (random.below(2) == 0 && text.find(kind) == std::string::npos) {
        text += (text.empty() ? "" : " ") + std::string{word};
      }
    }
    CAPTURE(round, text);
    const auto operators = parse_composed_operators(few(), text);
    const auto trees = all_trees(operators, 4);
    std::vector<std::vector<syntax::term>> by_size{{tensor::detail::open_operand(true)}};
    for (std::size_t size = 1; size <= 4; ++size) {
      by_size.push_back(tensor::detail::larger_compositions(operators, by_size));
      std::vector<std::string> made;
      std::vector<std::string> expected;
      for (const auto& t : by_size[size]) {
        made.push_back(text_of(t));
      }
      for (const auto& t : trees) {
        if (t.size == size) {
          expected.push_back(t.text);
        }
      }
      std::sort(made.begin(), made.end());
      std::sort(expected.begin(), expected.end());
      CHECK(made == expected);
    }
  }
}

}  // namespace tests_of_compositions
