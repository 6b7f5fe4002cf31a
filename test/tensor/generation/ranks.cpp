// Axes and permutations as expressions of ranks: each expression has the value that it replaces.

#include <unity/tensor/generation/ranks.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/lifting.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/rule_test.hpp>

#include "../../support/cases.hpp"
#include "../testing.hpp"

namespace tests_of_ranks {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::detail::known_rank;
using unity::tensor::detail::lifted_groups;
using unity::tensor::detail::place_group;
using unity::tensor::test::standard;
using numbers = std::vector<std::int64_t>;

namespace {

// The ranks of values and the values of attributes, by name.
struct match {
  std::map<std::string, std::int64_t> ranks{};
  std::map<std::string, numbers> attributes{};
};

// The value of an expression of ranks, numbers and lists.
numbers value_of(const syntax::expression& e, const match& m) {
  using form = syntax::expression::form;
  const auto of = [&](std::size_t i) { return value_of(e.arguments[i], m); };
  if (e.kind == form::integer) {
    return {e.integer};
  }
  if (e.kind == form::variable) {
    return m.attributes.at(e.name);
  }
  numbers all;
  if (e.kind == form::list || e.name == "concat") {
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      const auto part = of(i);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  if (e.name == "rank") {
    return {m.ranks.at(e.arguments[0].name)};
  }
  if (e.name == "-") {
    return {e.arguments.size() == 1 ? -of(0)[0] : of(0)[0] - of(1)[0]};
  }
  if (e.name == "at") {
    return {of(0)[static_cast<std::size_t>(of(1)[0])]};
  }
  if (e.name == "iota") {
    all.resize(static_cast<std::size_t>(of(0)[0]));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  REQUIRE(e.name == "inverse");
  const auto p = of(0);
  all.resize(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    all[static_cast<std::size_t>(p[i])] = static_cast<std::int64_t>(i);
  }
  return all;
}

syntax::expression list_of(const numbers& all) {
  std::vector<syntax::expression> elements;
  for (const auto n : all) {
    elements.push_back(syntax::integer(n));
  }
  return syntax::list(std::move(elements));
}

known_rank rank_of(const std::string& variable, std::int64_t rank) {
  return {variable, rank, syntax::equal(syntax::measure("rank", variable), syntax::integer(rank))};
}

numbers random_permutation(std::size_t n, random_engine& random) {
  numbers p(n);
  std::iota(p.begin(), p.end(), 0);
  for (std::size_t i = n; i > 1; --i) {
    std::swap(p[i - 1], p[random.below(i)]);
  }
  return p;
}

syntax::rule rule_of(std::string_view text) { return parse_rules("rule r " + std::string{text}).at(0); }

// The rule after its ranks are lifted, as text without its name.
std::string lifted(std::string_view text, bool change_ranks) {
  const generalize_options o;
  tensor::detail::widened_rule r{standard(), to_graph(standard(), rule_of(text)), o.quick, o.thorough, o.broadcasting};
  tensor::detail::rank_lifting{r}.run(change_ranks);
  auto made = to_rule(standard(), r.rule());
  made.name = "r";
  const auto report = test_rule(standard(), compile_rule(standard(), made).front(), {.instances = 8, .varied = 1});
  CHECK(report.found == rule_report::verdict::passes);
  return to_text(made);
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("by_rank expresses an axis by its distance from the last one") {
  for (std::int64_t rank = 1; rank < 6; ++rank) {
    const auto known = rank_of("x", rank);
    for (std::int64_t axis = 0; axis < 7; ++axis) {
      CAPTURE(rank, axis);
      const place_group g{"axis", syntax::integer(axis)};
      CHECK_FALSE(by_rank(g, nullptr).has_value());
      const auto e = by_rank(g, &known);
      REQUIRE(e.has_value() == (axis < rank));
      for (std::int64_t more = 0; e && more < 3; ++more) {
        CHECK(value_of(*e, {{{"x", rank + more}}, {}}) == numbers{axis + more});
      }
    }
  }
}

TEST_CASE("by_rank expresses a permutation if it swaps the last two axes of the variable") {
  for (std::size_t size = 1; size < 5; ++size) {
    numbers p(size);
    std::iota(p.begin(), p.end(), 0);
    std::size_t expressed = 0;
    do {
      for (std::int64_t rank = 1; rank < 6; ++rank) {
        const auto known = rank_of("x", rank);
        const place_group g{"permutation", list_of(p)};
        const auto e = by_rank(g, &known);
        if (e) {
          ++expressed;
          CHECK(static_cast<std::int64_t>(size) == rank);
          CHECK(value_of(*e, {{{"x", rank}}, {}}) == p);
          CHECK(value_of(*e, {{{"x", 6}}, {}}) == numbers{0, 1, 2, 3, 5, 4});
        }
      }
    } while (std::next_permutation(p.begin(), p.end()));
    CHECK(expressed == (size < 2 ? 0 : 1));
  }
}

TEST_CASE("moved_axis follows a permutation or its inverse to the axis", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t missing = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(500); ++round) {
    const auto rank = 1 + random.below(4);
    const auto p = random_permutation(rank, random);
    const auto from = static_cast<std::int64_t>(random.below(rank + 1));  // perhaps an axis of another operand
    const auto to = static_cast<std::int64_t>(random.below(rank + 1));
    const place_group permutation{"permutation", list_of(p)};
    const place_group axis{"axis", syntax::integer(from)};
    lifted_groups free{{&permutation, syntax::variable("p")}, {&axis, syntax::variable("c")}};
    if (random.below(2) == 0) {
      std::swap(free[0], free[1]);
    }
    const auto is_at = [&](std::int64_t i, std::int64_t wanted) {
      return static_cast<std::size_t>(i) < rank && p[static_cast<std::size_t>(i)] == wanted;
    };
    CAPTURE(round, p, from, to);
    const auto e = tensor::detail::moved_axis({"axis", syntax::integer(to)}, free);
    REQUIRE(e.has_value() == (is_at(from, to) || is_at(to, from)));
    missing += e ? 0 : 1;
    CHECK((!e || value_of(*e, {{}, {{"p", p}, {"c", {from}}}}) == numbers{to}));
    CHECK_FALSE(tensor::detail::moved_axis({"axis", syntax::integer(to)}, {free[0]}).has_value());
  }
  CHECK(missing > 0);
}

TEST_CASE("count_from_back names the same axes of the variables of known rank") {
  const std::vector<known_rank> ranks{rank_of("x", 3), rank_of("y", 2)};
  for (const auto* name : {"x", "y", "z"}) {
    for (std::int64_t axis = 0; axis < 4; ++axis) {
      CAPTURE(name, axis);
      const auto size = syntax::measure("size", name, {syntax::integer(axis)});
      auto e = syntax::equal(syntax::list({size, size}), syntax::measure("shape", "x"));
      const auto before = e;
      tensor::detail::count_from_back(e, ranks);
      const std::int64_t rank = name[0] == 'x' ? 3 : name[0] == 'y' ? 2 : 0;
      if (axis >= rank) {
        CHECK(e == before);
        continue;
      }
      for (const auto& made : e.arguments[0].arguments) {
        CHECK(made.arguments[0] == size.arguments[0]);
        CHECK(value_of(made.arguments[1], {})[0] + rank == axis);
      }
      CHECK(e.arguments[1] == before.arguments[1]);
    }
  }
}

TEST_CASE("distinguish keeps each pair of axes apart, and no permutations") {
  rule_graph r;
  const std::vector<place_group> groups{{"axis", syntax::integer(0)},
                                        {"permutation", list_of({1, 0})},
                                        {"axis", syntax::integer(1)},
                                        {"axis", syntax::integer(2)}};
  lifted_groups free;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    free.emplace_back(&groups[i], syntax::variable(fmt::format("v{}", i)));
  }
  distinguish(r, free);
  std::vector<std::string> made;
  for (const auto& c : r.rest.conditions) {
    made.push_back(to_text(c));
  }
  std::sort(made.begin(), made.end());
  CHECK(made == std::vector<std::string>{"?v0 != ?v2", "?v0 != ?v3", "?v2 != ?v3"});
}

TEST_CASE("write_axis replaces the axis, and in sizes along it") {
  auto r = to_graph(standard(), rule_of("softmax{axis=1}(concat{axis=1}(?x, ?y)) => "
                                        "concat{axis=0}(split{axis=1, sizes=[size(?x, 1), size(?y, 0)]}(?x).0, ?y)"));
  const auto groups = tensor::detail::literal_groups(r, [](std::string_view name) { return name == "axis"; });
  REQUIRE(groups.size() == 2);
  REQUIRE(groups[0].value == syntax::integer(1));
  write_axis(r, groups[0], syntax::variable("c"), syntax::variable("d"));
  auto made = to_rule(standard(), r);
  made.name = "r";
  const auto text = to_text(made);
  CHECK(count_of(text, "axis=?c") == 3);
  CHECK(count_of(text, "axis=0") == 1);
  CHECK(count_of(text, "size(?x, ?d)") == 1);
  CHECK(count_of(text, "size(?y, 0)") == 1);
}

TEST_CASE("sort_by_appearance orders ranks by whole names") {
  const auto side = to_graph(rule_of("add(mul(?xy, ?x_1), add(?x, ?y)) => ?x").source);
  std::vector<known_rank> all{rank_of("y", 1), rank_of("x", 2), rank_of("x_1", 3), rank_of("xy", 4)};
  std::vector<std::string> expected{"xy", "x_1", "x", "y"};
  do {
    auto sorted = all;
    sort_by_appearance(side, sorted);
    std::vector<std::string> names;
    for (const auto& k : sorted) {
      names.push_back(k.variable);
    }
    CHECK(names == expected);
  } while (std::next_permutation(all.begin(), all.end(),
                                 [](const auto& a, const auto& b) { return a.variable < b.variable; }));
}

TEST_CASE("rank_lifting extends rules to all ranks, unless it must keep their conditions") {
  const auto* transposed =
      "transpose{permutation=[1, 0]}(relu(?x)) => relu(transpose{permutation=[1, 0]}(?x)) if rank(?x) == 2";
  const auto any_permutation = lifted(transposed, true);
  CAPTURE(any_permutation);
  CHECK(count_of(any_permutation, "rank(") == 0);
  CHECK(count_of(any_permutation, "permutation=?") == 2);
  const auto* softmax = "softmax{axis=1}(add(?x, ?y)) => softmax{axis=1}(add(?y, ?x)) if rank(?x) == 2, rank(?y) == 2";
  for (const bool change_ranks : {false, true}) {
    const auto text = lifted(softmax, change_ranks);
    CAPTURE(text);
    CHECK((count_of(text, "rank(") == 0) == change_ranks);
    CHECK(count_of(text, "axis=?") == 2);
  }
}

}  // namespace tests_of_ranks
