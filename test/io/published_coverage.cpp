// TASO's published rules follow from the shipped generated ones.
#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/rule_text.hpp>
#include <unity/io/taso_rules.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/generated_rules.hpp>

#include "../tensor/generation/common_subterms.hpp"
#include "../tensor/generation/coverage.hpp"
#include "../support/shared_file.hpp"

namespace tests_of_published_coverage {

using namespace unity;

namespace {

constexpr std::size_t most_rewrites = 6;

void check_published(const std::filesystem::path& path, io::group_reading groups, const std::set<std::size_t>& wrong) {
  const auto operators = tensor::standard_algebra();
  const auto rules = parse_rules(tensor::generated_rules);
  tensor::test::coverage shipped{operators, std::span<const syntax::rule>{rules}};
  const auto published = io::read_taso_rules(path);
  REQUIRE(published.size() == 133);
  for (std::size_t i = 0; i < published.size(); ++i) {
    if (wrong.contains(i)) {
      continue;
    }
    const auto rule = parse_rules(io::to_rule_text(published[i], groups).text).at(0);
    const auto questions = tensor::rule_questions(operators, rule);
    CHECK_FALSE(questions.empty());
    for (const auto& q : questions) {
      const auto found = shipped.rewrites(std::span<const tensor::tensor_graph>{q}, most_rewrites);
      INFO("rule " << i << ", rewrites: " << (found ? std::to_string(*found) : "not found"));
      CHECK((found && *found <= most_rewrites));
    }
  }
}

}  // namespace

TEST_CASE("TASO's true published rules follow from the generated rules within six rewrites", "[shared]") {
  const auto path = unity::test::shared_file("rules/taso_graph_subst.pb");
  if (!path) {
    return;
  }
  check_published(*path, io::group_reading::implied, {98, 99, 100, 105, 125, 126, 127, 128, 129, 130, 131});
  check_published(*path, io::group_reading::one, {99, 100, 130, 131});
}

}  // namespace tests_of_published_coverage
