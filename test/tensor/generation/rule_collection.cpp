#include <unity/tensor/generation/rule_collection.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/archive.hpp>
#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/rule_test.hpp>

#include "equalities.hpp"

namespace tests_of_rule_collection {

using namespace unity;
using unity::tensor::test::equalities;
using unity::tensor::test::standard;

namespace {

constexpr std::string_view words = R"(
sizes M=3, K=4
sort activation input [M, K]
sort matrix weight [K, K]
operator matmul(any, any)
operator add(any, any) same_shape same_role
operator relu(input)
operator transpose{permutation=[1, 0]}(any)
)";

tensor::rule_proof nothing_known(const syntax::rule&) { return {}; }
tensor::rule_proof proved_for_reals(const syntax::rule&) {
  tensor::rule_proof proof;
  proof.found = verdict::proved;
  proof.prover = "faith 1";
  proof.axioms = {"hope"};
  proof.real_only = true;
  return proof;
}

std::vector<std::string> texts(const tensor::rule_collection& c) {
  std::vector<std::string> all;
  for (const auto& r : c.rules()) {
    all.push_back(to_text(r.rule));
  }
  return all;
}

}  // namespace

TEST_CASE("rule_collection turns equalities into general rules that pass rule tests") {
  equalities found{words, 3};
  tensor::rule_collection c{found.language, nothing_known};
  for (const auto& [left, right] : found.all) {
    c.add(left, right);
  }
  CHECK(c.refused().empty());
  CHECK(c.derived() > 0);
  CHECK(c.rules().size() + c.derived() >= found.all.size());
  std::set<std::string> names;
  for (const auto& r : c.rules()) {
    CAPTURE(to_text(r.rule));
    CHECK(names.insert(r.rule.name).second);
    CHECK(tensor::test_rule(standard(), compile_rule(standard(), r.rule).front(), {.instances = 8, .seed = 5}).found ==
          tensor::rule_report::verdict::passes);
  }
  // Equalities that were added once follow from the collected rules.
  const auto derived = c.derived();
  for (const auto& [left, right] : found.all) {
    c.add(left, right);
  }
  CHECK(c.derived() == derived + found.all.size());

  const std::vector<tensor::collected_rule> before{c.rules().begin(), c.rules().end()};
  c.reduce();
  CHECK(c.rules().size() <= before.size());
  bool one_way = false;
  for (const auto& r : c.rules()) {
    CAPTURE(to_text(r.rule));
    const auto as_before = std::find_if(before.begin(), before.end(), [&](const auto& b) {
      return b.rule.name == r.rule.name && without_repeating(b.rule) == std::optional{r.rule};
    });
    REQUIRE(as_before != before.end());
    one_way = one_way || (as_before->rule.both_ways && !r.rule.both_ways);
  }
  CHECK(one_way);  // relu(relu(x)) => relu(x) is kept in one direction only
}

TEST_CASE("rule_collection resumes an interrupted run with the same rules") {
  const auto prove = GENERATE(nothing_known, proved_for_reals);
  equalities found{words, 2};
  tensor::rule_collection whole{found.language, prove};
  for (const auto& [left, right] : found.all) {
    whole.add(left, right);
  }
  const auto file = (std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "rule_collection").string();
  const auto half = found.all.size() / 2;
  {
    tensor::rule_collection first{found.language, prove};
    for (std::size_t i = 0; i < half; ++i) {
      first.add(found.all[i].first, found.all[i].second);
    }
    first.save(file, 3, half);
  }
  tensor::rule_collection second{found.language, prove};
  CHECK_THROWS_WITH(second.resume(file, 4),
                    Catch::StartsWith(file) && Catch::Contains("rules of other operators or options"));
  auto next = second.resume(file, 3);
  CHECK(next == half);
  for (; next < found.all.size(); ++next) {
    second.add(found.all[next].first, found.all[next].second);
  }
  CHECK(texts(second) == texts(whole));
  CHECK(second.derived() == whole.derived());
  std::filesystem::remove(file);
}

TEST_CASE("rule_collection refuses an invalid checkpoint") {
  equalities found{words, 1};
  const auto file = (std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "no_rules").string();
  const auto refusal = [&](const std::string& text, std::uint8_t verdict) {
    archive_writer out;
    out.put(std::array<std::uint64_t, 4>{3, 0, 0, 1});  // of what, added, derived, rules
    out.put(std::vector<char>{text.begin(), text.end()});
    out.put(verdict);
    for (int i = 0; i < 4; ++i) {  // three empty texts, and nothing that is refused
      out.put(std::uint64_t{0});
    }
    out.save(file, "unity rules 1\n");
    tensor::rule_collection c{found.language, nothing_known};
    try {
      static_cast<void>(c.resume(file, 3));
    } catch (const error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  const std::string rule = "rule r relu(relu(?x)) => relu(?x)";
  CHECK(refusal(rule, 2).empty());
  CHECK_THAT(refusal("rule r add(?x, ?y) == relu(?y)", 2), Catch::Contains("unbound variable ?x"));
  for (const auto& [text, verdict] : {std::pair{std::string{}, 0}, {rule + " " + rule, 0}, {rule, 3}}) {
    CAPTURE(text, verdict);
    CHECK_THAT(refusal(text, static_cast<std::uint8_t>(verdict)),
               Catch::Contains("a record other than a rule and its verdict"));
  }
  std::filesystem::remove(file);
}

}  // namespace tests_of_rule_collection
