// Enumeration of terms over parallel tensors, and which of them are equal.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/parallel/rules/term_enumeration.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>

#include "../operators.hpp"
#include "../random_pcg.hpp"

namespace tests_of_term_enumeration {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;

TEST_CASE("equal enumerated terms of gelu and softmax follow from the shipped parallel rules") {
  const auto& a = parallel_operators();
  constexpr std::array<std::int64_t, 1> halves{2};
  theory shipped;
  for (const auto& r : parse_rules(std::string{parallel_rules}, "parallel_rules")) {
    for (const auto& i : with_all_values(r, halves, 2)) {
      shipped.add(a, i);
    }
  }
  const std::vector<std::pair<std::string, tensor::operation>> operations{
      {"gelu", operators().make_operation("gelu")},
      {"softmax", operators().make_operation("softmax", {{"axis", 1}})}};
  for (const auto& [name, op] : operations) {
    pcg_vocabulary language{name, {undivided(parallel::test::type({4, 4}))}, {{op, 1}}};
    add_divisions(a, language, 2, 2);
    const term_enumeration all{a, language, 3};
    CHECK(all.terms() == 121);
    CHECK(all.pairs().size() == 68);
    for (const auto& p : all.pairs()) {
      pcg_writer writer{a};
      const auto x = writer.add(operators().make_operation("input", {{"name", "x"}, {"dims", {4, 4}}}), {});
      const std::vector variables{writer.graph().results(x)[0]};
      const std::array outputs{all.write(writer, variables, p.second),
                               all.write(writer, variables, all.kept()[p.first])};
      const std::vector worlds{std::move(writer).finish(outputs)};
      entailment<pcg_algebra> ask{a, shipped};
      INFO(to_text(all.written(p.second)) << " = " << to_text(all.written(all.kept()[p.first])));
      CHECK(ask.prove_outputs(std::span{worlds}).has_value());
    }
  }
}

}  // namespace tests_of_term_enumeration
