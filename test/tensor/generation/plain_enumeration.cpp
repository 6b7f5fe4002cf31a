#include "plain_enumeration.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/generalize.hpp>
#include <unity/tensor/generation/specific_rule.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "../testing.hpp"
#include "common_subterms.hpp"
#include "coverage.hpp"

namespace tests_of_plain_enumeration {

using namespace unity;
using unity::tensor::test::coverage;
using unity::tensor::test::plain_enumeration;
using unity::tensor::test::standard;

namespace {

// A small vocabulary, so that a test can enumerate terms of one more operator.
constexpr std::string_view small_vocabulary = R"ops(
sizes M=3, K=4
sort activation input [M, K]
sort matrix weight [K, K]
operator matmul(any, any)
operator add(any, any) same_shape same_role
operator relu(input)
operator concat{axis={0, 1}}(any, any) same_role
operator transpose{permutation=[1, 0]}(any)
)ops";

// The generalized forms of all rules that the generator finds.
class generated {
 public:
  generated(tensor::term_language& language, std::size_t most) : language_{language}, terms_{language, {most, 4, 1}} {
    terms_.run();
    for (const auto& r : terms_.rules()) {
      add({r.left}, {r.right}, r.facts);
    }
    for (const auto& r : terms_.joint_rules()) {
      add(r.right, r.left, r.facts);
    }
  }
  [[nodiscard]] std::vector<syntax::rule> rules() const {
    std::vector<syntax::rule> all;
    for (const auto& [text, r] : rules_) {
      all.push_back(r);
    }
    return all;
  }

 private:
  void add(const std::vector<stored_term>& left, const std::vector<stored_term>& right, const term_facts& facts) {
    const auto x = write_terms(terms_.store(), left, facts);
    const auto y = write_terms(terms_.store(), right, facts);
    for (std::size_t attempt = 0; attempt < 4; ++attempt) {
      const auto specific = tensor::specific_rule(language_, x, y, attempt);
      const auto general = specific ? tensor::generalize(standard(), *specific) : std::vector<syntax::rule>{};
      for (const auto& r : general) {
        rules_.emplace(statement_text(r), r);
      }
      if (!general.empty()) {
        return;
      }
    }
  }

  tensor::term_language& language_;
  enumeration<tensor::term_language> terms_;
  std::map<std::string, syntax::rule> rules_;
};

// The equalities that do not follow from the rules by this many rewrites.
std::vector<std::string> missing(const plain_enumeration& plain, const std::vector<syntax::rule>& rules,
                                 std::size_t rewrites) {
  return coverage{standard(), std::span{rules}}.missing(plain, rewrites);
}

// Removes common subterms from the rules, and then rules that follow from smaller ones.
std::vector<syntax::rule> pruned(const std::vector<syntax::rule>& rules) {
  std::map<std::pair<rule_size, std::string>, syntax::rule> ordered;
  for (const auto& r : rules) {
    const auto left = canonical_rule(standard(), tensor::without_common_subterms(standard(), r));
    ordered.emplace(std::pair{size_of(left), statement_text(left)}, left);
  }
  std::vector<syntax::rule> all;
  for (const auto& [key, r] : ordered) {
    all.push_back(r);
  }
  const auto questions = [&](std::size_t i) { return tensor::rule_questions(standard(), all[i]); };
  std::vector<syntax::rule> kept;
  for (const auto i : prune_derivable(standard(), std::span<const syntax::rule>{all}, questions).kept) {
    kept.push_back(all[i]);
  }
  return kept;
}

void check_complete(std::string_view vocabulary, std::size_t operators, std::size_t variables) {
  tensor::term_language language{standard(), tensor::parse_vocabulary(standard(), vocabulary, "vocabulary")};
  plain_enumeration plain{language, variables};
  plain.run(operators);
  const auto rules = generated{language, operators}.rules();
  CHECK(plain.fingerprints() < plain.graphs());
  for (const auto& m : missing(plain, rules, 6)) {
    FAIL_CHECK(m);
  }
  const auto few = pruned(rules);
  CHECK(few.size() <= rules.size());
  CAPTURE(rules.size(), few.size());
  for (const auto& m : missing(plain, few, 6)) {
    FAIL_CHECK("pruned: " << m);
  }
}

}  // namespace

// From all rules that the generator finds, and from those that pruning keeps.
TEST_CASE("enumerated and pruned rules imply all equalities of single operators of taso_vocabulary") {
  check_complete(tensor::taso_vocabulary, 1, 3);
}

TEST_CASE("enumerated and pruned rules imply all equalities of two operators of taso_vocabulary") {
  check_complete(tensor::taso_vocabulary, 2, 3);
}

TEST_CASE("enumerated and pruned rules imply all equalities of three operators of a small vocabulary") {
  check_complete(small_vocabulary, 3, 2);
}

TEST_CASE("the coverage check fails if one enumerated rule is removed") {
  tensor::term_language language{standard(), tensor::parse_vocabulary(standard(), small_vocabulary, "vocabulary")};
  plain_enumeration plain{language, 2};
  plain.run(2);
  auto rules = generated{language, 2}.rules();
  CHECK(missing(plain, rules, 6).empty());
  const auto twice = std::find_if(rules.begin(), rules.end(),
                                  [](const syntax::rule& r) { return to_text(r.source) == "relu(relu(?x))"; });
  REQUIRE(twice != rules.end());
  rules.erase(twice);
  CHECK_FALSE(missing(plain, rules, 6).empty());
}

TEST_CASE("plain_enumeration does not list an equality that holds only at its sizes") {
  // After two 3x3 windows, each element depends on all of a 3x3 image, so that a third changes nothing.
  constexpr std::string_view small_images = R"ops(
sizes B=2, C=2, H=3, W=3
sort image input [B, C, H, W]
operator max_pool{kernel=[3, 3], padding=same}(input)
)ops";
  tensor::term_language language{standard(), tensor::parse_vocabulary(standard(), small_images, "vocabulary")};
  plain_enumeration plain{language, 1};
  plain.run(3);
  CHECK(plain.graphs() == 3);
  CHECK(plain.fingerprints() == 2);
  CHECK(plain.equalities().empty());
}

}  // namespace tests_of_plain_enumeration
