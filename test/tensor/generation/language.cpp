#include <unity/tensor/generation/detail/language.hpp>
#include <unity/tensor/generation/language.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/tensor/generation/vocabularies.hpp>

#include "../../support/cases.hpp"
#include "../testing.hpp"

namespace tests_of_language {

using namespace unity;
using unity::tensor::test::standard;

static_assert(unity::term_language<tensor::term_language>);

namespace {

using enumerated = enumeration<tensor::term_language>;

tensor::term_language language_of(std::string_view text) {
  return {standard(), tensor::parse_vocabulary(standard(), text, "shipped")};
}

struct level {
  std::uint64_t terms = 0;
  std::uint64_t classes = 0;
  std::uint64_t equalities = 0;
  std::size_t rules = 0;
  std::size_t joint_rules = 0;

  friend bool operator==(const level&, const level&) = default;
};
std::ostream& operator<<(std::ostream& out, const level& l) {
  return out << l.terms << " terms, " << l.classes << " classes, " << l.equalities << " equalities, " << l.rules
             << " rules, " << l.joint_rules << " joint rules";
}
level level_of(const enumerated& e) {
  const auto& c = e.counts();
  return {c.terms, c.classes, c.equalities, e.rules().size(), e.joint_rules().size()};
}
auto rules_of(const enumerated& e) {
  std::vector<std::pair<written_term, written_term>> all;
  for (const auto& r : e.rules()) {
    all.emplace_back(write_terms(e.store(), {&r.left, 1}, r.facts)[0],
                     write_terms(e.store(), {&r.right, 1}, r.facts)[0]);
  }
  for (const auto& r : e.joint_rules()) {
    const auto left = write_terms(e.store(), r.left, r.facts);
    const auto right = write_terms(e.store(), r.right, r.facts);
    for (std::size_t i = 0; i < left.size(); ++i) {
      all.emplace_back(left[i], right[i]);
    }
  }
  return all;
}

std::size_t operator_named(const tensor::term_language& l, std::string_view name) {
  for (std::size_t op = 0; op < l.operator_count(); ++op) {
    if (standard().signature(l.kind(op)).name == name) {
      return op;
    }
  }
  return l.operator_count();
}
std::optional<std::uint16_t> infer(tensor::term_language& l, std::string_view name, std::vector<std::uint16_t> types) {
  const auto a = l.infer(operator_named(l, name), types);
  return a ? std::optional{a->type} : std::nullopt;
}

}  // namespace

TEST_CASE("enumeration of taso_vocabulary gives recorded counts at each size", "[exhaustive]") {
  auto language = language_of(tensor::taso_vocabulary);
  enumerated e{language, {.most_operators = 3}};
  e.advance();
  CHECK(level_of(e) == level{94, 90, 4, 2, 0});
  e.advance();
  CHECK(level_of(e) == level{1864, 1434, 430, 79, 0});
  e.advance();
  CHECK(level_of(e) == level{40308, 28832, 11476, 447, 24});
}

TEST_CASE("enumeration of image terms gives the same size 3 whether size 4 follows or not", "[exhaustive]") {
  auto language = language_of(tensor::image_vocabulary);
  enumerated last{language, {.most_operators = 3, .variables = 3}};
  last.run();
  enumerated more{language, {.most_operators = 4, .variables = 3}};
  while (more.size() < 3) {
    more.advance();
  }
  CHECK(level_of(last) == level_of(more));
  CHECK(rules_of(last) == rules_of(more));
}

// split(concat(x, y)) ignores y. With only two variables of a sort, no third one is left to show that.
TEST_CASE("no class of matrix terms ignores a variable even with all variables in use") {
  auto language = language_of(tensor::matrix_vocabulary);
  const std::size_t variables = 2;
  enumerated e{language, {.most_operators = 4, .variables = variables}};
  while (e.size() < 3) {
    e.advance();
  }
  std::size_t full = 0;
  for (auto id = static_cast<orbit_id>(language.sorts().size()); id < e.store().size(); ++id) {
    const auto& o = e.store()[id];
    const auto own = write_terms(e.store(), {&o.term, 1}, o.facts)[0];
    const auto value = language.deep_fingerprint(own, false);
    for (std::size_t n = 0; n < own.size(); ++n) {
      if (own[n].op == term_node::variable) {
        auto other = own;
        other[n].number = static_cast<std::uint16_t>(variables);
        CHECK(language.deep_fingerprint(other, false) != value);
        full += own[n].number + std::size_t{1} == variables ? 1U : 0U;
      }
    }
  }
  CHECK(full > 1000);
}

TEST_CASE("enumeration of matrix terms does not depend on threads / memory / interruptions") {
  const enumeration_options options{.most_operators = 3};
  auto language = language_of(tensor::matrix_vocabulary);
  enumerated whole{language, options};
  whole.run();
  CHECK(level_of(whole) == level{11646, 8099, 3547, 238, 14});
  CHECK(rules_of(whole).size() >= whole.rules().size());
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "tensor_language";
  std::filesystem::create_directories(folder);
  const auto file = (folder / "level").string();
  constexpr std::size_t stops[] = {2, 0, 1, 3};
  for (const auto stop : std::span{stops}.first(unity::test::cases(4))) {
    auto first_language = language_of(tensor::matrix_vocabulary);
    enumerated first{first_language, {.most_operators = 3, .threads = 2, .memory = 1, .folder = folder}};
    while (first.size() < stop) {
      first.advance();
    }
    first.save(file, 1);
    // Types are numbered in the order of discovery, which differs in a resumed enumeration.
    auto second_language = language_of(tensor::matrix_vocabulary);
    enumerated second{second_language, options};
    second.resume(file, 1);
    second.run();
    CHECK(level_of(second) == level_of(whole));
    CHECK(rules_of(second) == rules_of(whole));
    CHECK((first.counts().spilled_runs > 0) == (stop == 3));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("rules enumerated from taso_vocabulary hold at other sizes and values") {
  auto language = language_of(tensor::taso_vocabulary);
  enumerated e{language, {.most_operators = 2}};
  e.run();
  const auto rules = rules_of(e);
  CHECK(rules.size() > 50);
  for (const auto& [left, right] : rules) {
    CHECK(language.deep_fingerprint(left, true) == language.deep_fingerprint(right, true));
    CHECK(language.typed(left).back().type == language.typed(right).back().type);
  }
}

TEST_CASE("term types are equal only if equal at all sizes and are split only at concat cuts") {
  auto l = language_of(R"(
sizes M=3, N=3, K=4
sort x input [M, K]
sort y input [N, K]
sort w weight [K, K]
sort seven input [7, K]
operator matmul(any, any)
operator add(any, any) same_shape same_role
operator concat{axis=0}(any, any) same_role
operator split{axis=0}(any)
operator relu(input) rank 2
)");
  const std::uint16_t x = 0;
  const std::uint16_t y = 1;
  const std::uint16_t w = 2;
  CHECK(l.sorts().size() == 4);
  CHECK(infer(l, "matmul", {x, w}) == x);
  CHECK(infer(l, "matmul", {w, w}) == w);
  CHECK(infer(l, "matmul", {x, y}) == std::nullopt);
  CHECK(infer(l, "add", {x, x}) == x);
  CHECK(infer(l, "add", {x, y}) == std::nullopt);  // equal numbers of rows at the sampled sizes, but not at all sizes
  CHECK(infer(l, "relu", {w}) == std::nullopt);
  CHECK(infer(l, "concat", {x, w}) == std::nullopt);
  const auto both = infer(l, "concat", {x, y});
  const auto turned = infer(l, "concat", {y, x});
  REQUIRE((both && turned));
  CHECK(l.type(*both).dims[0] == tensor::shape{6, 4});
  CHECK(both != turned);  // cut at other positions
  CHECK(infer(l, "split", {x}) == std::nullopt);
  CHECK(infer(l, "split", {*both}) == x);
  CHECK(infer(l, "split", {*infer(l, "relu", {*both})}) == x);
  CHECK(infer(l, "split", {*infer(l, "matmul", {*turned, w})}) == y);
  CHECK(infer(l, "split", {*infer(l, "concat", {*both, x})}) == std::nullopt);
}

TEST_CASE("a probe computes the chosen elements of the full sample program") {
  auto l = language_of(tensor::tensor_vocabulary);
  const auto seed = std::uint64_t{11};
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t checked = 0;
  const auto types = l.type_count();
  for (std::size_t op = 0; op < l.operator_count(); ++op) {
    for (std::uint16_t a = 0; a < types; ++a) {
      for (std::uint16_t b = 0; b < types; ++b) {
        const std::array operands{a, b};
        const auto made = l.infer(op, std::span{operands}.first(l.arity(op)));
        if (!made) {
          continue;
        }
        std::array<std::vector<residue>, 2> values;
        for (std::size_t i = 0; i < 2; ++i) {
          for (std::size_t e = 0; e < l.elements(operands[i]); ++e) {
            values[i].push_back(residue::of(random() >> 2U));
          }
        }
        const auto& whole = l.program(made->program);
        const auto& probe = l.probe(made->program);
        const auto chosen = l.probe_elements(made->type);
        std::vector<residue> scratch(whole.temporaries());
        std::vector<residue> all(whole.output_count());
        std::vector<residue> few(probe.output_count());
        whole.run({values[0].data(), values[1].data()}, scratch.data(), all.data());
        probe.run({values[0].data(), values[1].data()}, scratch.data(), few.data());
        REQUIRE(all.size() == l.elements(made->type));
        REQUIRE(few.size() == chosen.size());
        for (std::size_t i = 0; i < few.size(); ++i) {
          REQUIRE(few[i] == all[chosen[i]]);
        }
        CHECK(probe.temporaries() <= whole.temporaries());
        ++checked;
      }
    }
  }
  CHECK(checked > 50);
}

TEST_CASE("deep fingerprints of sums depend on variables but not on the operand order") {
  auto l = language_of(tensor::matrix_vocabulary);
  const auto add = static_cast<std::uint16_t>(operator_named(l, "add"));
  const auto variable = [](std::uint16_t number) { return term_node{term_node::variable, 0, number, {}}; };
  const written_term straight{variable(0), variable(1), {add, 0, 0, {0, 1}}};
  const written_term turned{variable(1), variable(0), {add, 0, 0, {0, 1}}};
  const written_term other{variable(0), variable(2), {add, 0, 0, {0, 1}}};
  for (const bool thorough : {false, true}) {
    CHECK(l.deep_fingerprint(straight, thorough) == l.deep_fingerprint(turned, thorough));
    CHECK(l.deep_fingerprint(straight, thorough) != l.deep_fingerprint(other, thorough));
  }
}

TEST_CASE("deep fingerprints show a relu below two poolings for each variable name") {
  auto l = language_of(tensor::taso_vocabulary);
  const auto pool = static_cast<std::uint16_t>(operator_named(l, "max_pool"));
  const auto relu = static_cast<std::uint16_t>(operator_named(l, "relu"));
  constexpr std::uint16_t image = 2;
  for (std::uint16_t number = 0; number < 4; ++number) {
    CAPTURE(number);
    const term_node x{term_node::variable, image, number, {}};
    const written_term plain{x, {pool, 0, 0, {0}}, {pool, 0, 0, {1}}};
    const written_term clipped{x, {relu, 0, 0, {0}}, {pool, 0, 0, {1}}, {pool, 0, 0, {2}}};
    CHECK(l.typed(plain).back().type == l.typed(clipped).back().type);
    CHECK(l.deep_fingerprint(plain, false) != l.deep_fingerprint(clipped, false));
    CHECK(l.deep_fingerprint(plain, true) != l.deep_fingerprint(clipped, true));
  }
}

TEST_CASE("probes cover every part of a type whose cuts coincide at sample sizes") {
  auto l = language_of(R"(
sizes C=2, K=20
sort pair weight [K, C]
sort one weight [K, 1]
operator concat{axis=1}(any, any) same_role
operator add(any, any) same_shape same_role
)");
  const auto both = infer(l, "concat", {1, 1});
  const auto ones_first = infer(l, "concat", {*both, 0});
  const auto pair_first = infer(l, "concat", {0, *both});
  const auto sum = infer(l, "add", {*ones_first, *pair_first});
  REQUIRE(sum);
  CHECK(l.type(*sum).cuts[1].size() == 4);  // 1, 1 + 1, C and C + 1 of C + 2
  std::array<std::size_t, 4> probes{};
  for (const auto e : l.probe_elements(*sum)) {
    REQUIRE(e < l.elements(*sum));
    ++probes.at(e % 4);
  }
  for (const auto count : probes) {
    CHECK(count >= 5);
  }
}

}  // namespace tests_of_language
