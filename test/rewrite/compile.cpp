#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>

#include "../support/circuits.hpp"
#include "../support/matrices.hpp"
#include "../support/message_of.hpp"

namespace tests_of_compile {

using namespace unity;
using namespace unity::test;

namespace {

rule_set compiled(std::string_view rule) {
  return compile_rules(matrices{}, parse_rules("rule r " + std::string{rule}));
}

std::string message(std::string_view rule) {
  return unity::test::message_of([&] { (void)compiled(rule); });
}

kind_id kind(std::string_view name) { return *matrices{}.find_kind(name); }

// Declares the number of arguments of its measures.
struct strict_matrices : matrices {
  [[nodiscard]] std::size_t measure_arguments(int m) const { return m == *find_measure("size") ? 1 : 0; }
};
static_assert(has_measure_arguments<strict_matrices>);
static_assert(!has_measure_arguments<matrices>);

// Has a constant, the number of devices.
struct placed_matrices : matrices {
  std::int64_t devices = 4;
  [[nodiscard]] std::optional<attribute> constant(std::string_view name) const {
    return name == "devices" ? std::optional{attribute{devices}} : std::nullopt;
  }
};
static_assert(has_constants<placed_matrices>);
static_assert(!has_constants<matrices>);

// Has its own list of uses of rules.
struct drafted_matrices : matrices {
  [[nodiscard]] static std::vector<std::string_view> uses() { return {"draft", "print"}; }
};
static_assert(has_uses<drafted_matrices>);
static_assert(!has_uses<matrices>);

}  // namespace

TEST_CASE("a rule with == compiles into a substitution and its .reverse") {
  const auto both = compiled("transpose(matmul(?x, ?y)) == matmul(transpose(?y), transpose(?x))");
  REQUIRE(both.size() == 2);
  CHECK(both[0].name == "r");
  CHECK(both[1].name == "r.reverse");
  CHECK(both[0].source.nodes.size() == 2);
  CHECK(both[1].source.nodes.size() == 3);
  CHECK(both[0].rule == both[1].rule);
  CHECK(compiled("transpose(transpose(?x)) => ?x").size() == 1);
}

TEST_CASE("a constant of the algebra compiles to its number") {
  const auto rule = parse_rules("rule r scale{by=?k}(?x) => scale{by=?k / devices()}(?x) if ?k % devices() == 0");
  const auto by = [&](std::int64_t devices) {
    const placed_matrices algebra{{}, devices};
    return compile_rules(algebra, rule).at(0).target.nodes[0].attributes.at(0).value.arguments.at(1).literal;
  };
  CHECK(by(4) == attribute{4});
  CHECK(by(16) == attribute{16});
  CHECK(unity::test::message_of([&] { (void)compile_rules(matrices{}, rule); }) ==
        "rules:1: rule r: devices(); expected a function or measure with 0 argument(s)");
  const auto other = parse_rules("rule r scale{by=?k}(?x) => scale{by=hosts()}(?x)");
  CHECK(unity::test::message_of([&] { (void)compile_rules(placed_matrices{}, other); }) ==
        "rules:1: rule r: hosts(); expected a function or measure with 0 argument(s)");
}

TEST_CASE("a rule may be safe only for a use that its algebra defines") {
  const auto rules = parse_rules("rule a f(?x) => ?x safe draft rule b transpose(transpose(?x)) => ?x safe print");
  CHECK(rules[0].safe_for == "draft");
  CHECK(compile_rule(drafted_matrices{}, rules[1]).at(0).rule.safe_for == "print");
  const auto message_for = [](const auto& algebra, const std::string& use) {
    const auto rule = parse_rules("rule r transpose(transpose(?x)) => ?x safe " + use);
    return unity::test::message_of([&] { (void)compile_rules(algebra, rule); });
  };
  CHECK(message_for(drafted_matrices{}, "drafts") ==
        "rules:1: rule r: 'safe drafts'; expected 'safe draft' or 'safe print'");
  CHECK(message_for(matrices{}, "draft") == "rules:1: rule r: 'safe draft'; expected a rule for all uses");
}

TEST_CASE("compiling a rule set twice gives equal results", "[law]") {
  const auto rules = parse_rules(matrix_rules);
  CHECK(compile_rules(matrices{}, rules) == compile_rules(matrices{}, rules));
  CHECK_FALSE(compile_rules(circuits{}, parse_rules(circuit_rules)).empty());
}

TEST_CASE("equal subterms compile to one pattern node with operands before users") {
  const auto s = compiled("add(transpose(?x), mul(transpose(?x), ?y)) => ?x").at(0);
  REQUIRE(s.source.nodes.size() == 3);
  CHECK(s.source.nodes[0].kind == kind("transpose"));
  CHECK(s.source.nodes[1].kind == kind("mul"));
  CHECK(s.source.nodes[2].operands.at(0) == s.source.nodes[1].operands.at(0));
  CHECK(s.source.nodes[2].commutative);
  CHECK(s.variables == 2);
  CHECK_FALSE(s.repeats());
}

TEST_CASE("variables for values and for attributes are in separate name spaces") {
  const auto s = compiled("scale{by=?x}(?x) => scale{by=?x}(transpose(transpose(?x)))").at(0);
  CHECK(s.variables == 1);
  CHECK(s.attribute_variables == 1);
}

TEST_CASE("omitted source attributes must have the default value unless .. is given") {
  const auto closed = compiled("split{sizes=?s}(?x) => split{sizes=?s}(?x)").at(0);
  CHECK(closed.source.nodes[0].attributes.at(0).kind == pattern_attribute::form::value);
  CHECK(closed.source.nodes[0].attributes[0].value.literal == attribute{0});
  CHECK(closed.source.nodes[0].attributes.at(1).kind == pattern_attribute::form::bind);
  const auto open = compiled("scale{..}(?x) => ?x").at(0);
  CHECK(open.source.nodes[0].attributes.at(0).kind == pattern_attribute::form::any);
  CHECK(compiled("transpose(?x) => scale(?x)").at(0).target.nodes[0].attributes.at(0).value.literal == attribute{1});
}

TEST_CASE("rule literals compile to the form of their attribute") {
  const auto choice = compiled("power{form=cube}(?x) => power{form=1}(?x)").at(0);
  CHECK(choice.source.nodes[0].attributes.at(0).value.literal == attribute{1});
  const auto real = [&](std::string_view text) {
    return compiled("transpose(?x) => shift{by=" + std::string{text} + "}(?x)")
        .at(0)
        .target.nodes[0]
        .attributes.at(0)
        .value.literal;
  };
  CHECK(real("0.25") == attribute{std::bit_cast<std::int64_t>(0.25)});
  CHECK(real("2") == attribute{std::bit_cast<std::int64_t>(2.0)});
  CHECK(real("-0.25") == attribute{std::bit_cast<std::int64_t>(-0.25)});
  CHECK(real("-2") == attribute{std::bit_cast<std::int64_t>(-2.0)});
  const auto word = compiled("transpose(?x) => input{name=ab, rows=1, columns=2}()").at(0);
  CHECK(word.target.nodes[0].attributes.at(0).value.literal == attribute{'a', 'b'});
  const auto bytes = compiled("transpose(?x) => input{name=\"\xc3\xa9\", rows=1, columns=2}()").at(0);
  CHECK(bytes.target.nodes[0].attributes.at(0).value.literal == attribute{0xc3, 0xa9});
}

TEST_CASE("a real number for a non-real attribute of a rule is refused") {
  CHECK(message("split{sizes=?s}(?x) => split{sizes=[1, 1.5]}(?x)") ==
        "rules:1: rule r: 1.5; expected no real number for attribute 'sizes'");
  CHECK(message("scale{by=1.5}(?x) => ?x") == "rules:1: rule r: 1.5; expected no real number for attribute 'by'");
  CHECK(message("scale(?x) => scale{by=-1.5}(?x)") ==
        "rules:1: rule r: 1.5; expected no real number for attribute 'by'");
  CHECK(message("power{form=0.5}(?x) => ?x") == "rules:1: rule r: 0.5; expected no real number for attribute 'form'");
  CHECK(message("shift{by=0.5}(?x) => ?x").empty());
  CHECK(message("shift{by=?b}(?x) => ?x if ?b == 0.5").empty());
}

TEST_CASE("a declared number of arguments of a measure is enforced") {
  const auto refused = [](std::string_view condition) {
    const auto rules = parse_rules("rule r scale(?x) => ?x if " + std::string{condition} + " == 1");
    return unity::test::message_of([&] { (void)compile_rules(strict_matrices{}, rules); });
  };
  CHECK(refused("size(?x)") == "rules:1: rule r: size(?x); expected 2 argument(s) of size");
  CHECK(refused("size(?x, 0, 1)") == "rules:1: rule r: size(?x, 0, 1); expected 2 argument(s) of size");
  CHECK(refused("rows(?x, 0)") == "rules:1: rule r: rows(?x, 0); expected 1 argument(s) of rows");
  CHECK(refused("size(?x, 0)").empty());
  CHECK(refused("rows(?x)").empty());
  CHECK(message("scale(?x) => ?x if size(?x) == 1").empty());
}

TEST_CASE("a word in a rule condition compiles to the index of that choice") {
  const auto s = compiled("power{form=?f}(?x) => ?x if ?f == cube").at(0);
  CHECK(s.conditions.at(0).arguments.at(1).literal == attribute{1});
}

TEST_CASE("a single root without a selector stands for all results") {
  CHECK(compiled("parts(?x) => parts(?x)").at(0).source.roots.size() == 2);
  CHECK(compiled("parts(?x).1 => ?x").at(0).source.roots.size() == 1);
  const auto some = compiled("(scale(?x), scale(?y)) => split{sizes=[1, 1]}(concat(?x, ?y))").at(0);
  REQUIRE(some.target.roots.size() == 2);
  CHECK(some.target.roots[1].result == 1);
  CHECK_FALSE(some.target.roots[1].repeated);
  const auto any = compiled("split{sizes=?s}(?x) => scale(split{sizes=?s}(?x).*)...").at(0);
  REQUIRE(any.source.roots.size() == 1);
  CHECK(any.source.roots[0].repeated);
  CHECK(any.source.roots[0].result == pattern_operand::each);
}

TEST_CASE("pattern nodes that depend on an indexed variable are repeated") {
  const auto s = compiled("matmul(?x, ??w)... => scale{by=size(??w, 1)}(matmul(?x, ??w))...").at(0);
  CHECK(s.repeats());
  CHECK(s.source.nodes.at(0).indexed);
  CHECK(s.indexed_variables == std::vector{false, true});
  const auto by_attribute = compiled("matmul(?x, ??w)... => scale{by=size(??w, 1)}(?x)...").at(0);
  CHECK(by_attribute.target.nodes.at(0).indexed);
  const auto packed = compiled("matmul(?x, ??w)... => split{sizes=[size(??w, 1)...]}(?x)").at(0);
  CHECK_FALSE(packed.target.nodes.at(0).indexed);
}

TEST_CASE("a malformed rule is refused with the wrong part and the expected form") {
  // Unbound variables.
  CHECK(message("scale(?x) => ?y") == "rules:1: rule r: unbound variable ?y; expected a variable of the source");
  CHECK(message("scale(?x) => ??x...") == "rules:1: rule r: unbound variable ??x; expected a variable of the source");
  CHECK(message("scale(?x) => scale{by=?k}(?x)") ==
        "rules:1: rule r: unbound attribute variable ?k; expected one that the source binds before this place");
  CHECK(message("scale(?x) => ?x if ?k == 1") ==
        "rules:1: rule r: unbound attribute variable ?k; expected one that the source binds before this place");
  CHECK(message("scale(?x) => ?x if size(?y, 0) == 1") ==
        "rules:1: rule r: unbound variable ?y; expected a variable that the source binds");
  CHECK(message("add(?x, ?x) == scale{by=2}(?y)") ==
        "rules:1: rule r: unbound variable ?y; expected a variable of the source");
  CHECK(message("mul(?x, ?y) == scale(?x)") ==
        "rules:1: rule r.reverse: unbound variable ?y; expected a variable of the source");

  // Unknown names.
  CHECK(message("sale(?x) => ?x") == "rules:1: rule r: operator 'sale'; expected an operator of the algebra");
  CHECK(message("scale{b=1}(?x) => ?x") == "rules:1: rule r: attribute 'b' of scale; expected attributes of scale: by");
  CHECK(message("add{by=1}(?x, ?y) => ?x") ==
        "rules:1: rule r: attribute 'by' of add; expected attributes of add: none");
  CHECK(message("scale{by=1, by=1}(?x) => ?x") ==
        "rules:1: rule r: scale{by=1, by=1}(?x); expected attributes of scale, each once: by");
  CHECK(message("power{form=fourth}(?x) => ?x") ==
        "rules:1: rule r: word 'fourth' for attribute 'form'; expected one of its choices");
  CHECK(message("power{form=?f}(?x) => ?x if ?f == fourth") ==
        "rules:1: rule r: word 'fourth' for attribute 'form'; expected one of its choices");
  CHECK(message("scale(?x) => ?x if depth(?x) == 1") ==
        "rules:1: rule r: depth(?x); expected a function or measure with 1 argument(s)");
  CHECK(message("scale{by=?k}(?x) => ?x if min(?k) == 1") ==
        "rules:1: rule r: min(?k); expected a function or measure with 1 argument(s)");

  // Wrong numbers of operands, results and outputs.
  CHECK(message("scale(?x, ?y) => ?x") == "rules:1: rule r: scale(?x, ?y); expected 1 operand(s) of scale");
  CHECK(message("add() => add()") == "rules:1: rule r: add(); expected 2 operand(s) of add");
  CHECK(message("add(??x...) => ?x") == "rules:1: rule r: add(??x...); expected 2 operand(s) of add");
  CHECK(message("parts(?x).2 => ?x") == "rules:1: rule r: parts(?x).2; expected a result below 2");
  CHECK(message("(scale(?x), transpose(?x)) => ?x") ==
        "rules:1: rule r: (scale(?x), transpose(?x)) and ?x; expected as many outputs on one side as on the other");
  CHECK(message("parts(?x) => ?x") ==
        "rules:1: rule r: parts(?x) and ?x; expected as many outputs on one side as on the other");
  CHECK(message("(scale(?x), scale(?x)) => (?x, transpose(transpose(?x)))") ==
        "rules:1: rule r: (scale(?x), scale(?x)); expected each output once");
  CHECK(message("(parts(?x).0, parts(?x).0) => (?x, ?x)") ==
        "rules:1: rule r: (parts(?x).0, parts(?x).0); expected each output once");

  // Constructs in places where they are not allowed.
  CHECK(message("?x => scale(?x)") ==
        "rules:1: rule r: ?x; expected an operator, not a variable, as what is replaced (write => to go one way)");
  CHECK(message("scale(?x) == ?x") ==
        "rules:1: rule r.reverse: ?x; expected an operator, not a variable, as what is replaced (write => to go one "
        "way)");
  CHECK(message("scale(?x) => scale{..}(?x)") ==
        "rules:1: rule r: scale{..}(?x); expected no '..' on the side that is built");
  CHECK(message("scale(?x) => input{name=a}()") ==
        "rules:1: rule r: input{name=a}(); expected a value for attribute 'rows', which has no default");
  CHECK(message("join(parts(?x), ?y) => ?x") ==
        "rules:1: rule r: parts(?x); expected a selector, as in parts(..).0, where an operator has several results");
  CHECK(message("concat(split{sizes=[1]}(?x)) => ?x") ==
        "rules:1: rule r: split{sizes=[1]}(?x); expected a selector, as in split(..).0, where an operator has several "
        "results");
  CHECK(message("shift{by=0.5}(?x) => shift{by=0.5 + 1}(?x)") ==
        "rules:1: rule r: 0.5 + 1; expected a number or a variable for real attribute 'by'");

  // Misused repetitions.
  CHECK(message("matmul(?x, ??w) => ?x") ==
        "rules:1: rule r: matmul(?x, ??w); expected '...' after roots that depend on the repetition");
  CHECK(message("matmul(?x, ??w)... => scale(?x)") ==
        "rules:1: rule r: matmul(?x, ??w)... and scale(?x); expected as many outputs on one side as on the other");
  CHECK(message("concat(??x...) => scale(??x)") ==
        "rules:1: rule r: scale(??x); expected '...' after roots that depend on the repetition");
  CHECK(message("scale(?x)... => ?x...") ==
        "rules:1: rule r: scale(?x)...; expected '...' only after what differs from repetition to repetition");
  CHECK(message("(matmul(?x, ??w)..., scale(?x)) => (??w..., ?x)") ==
        "rules:1: rule r: (matmul(?x, ??w)..., scale(?x)); expected a repeated output to be the only one");
  CHECK(message("matmul(?x, ??w)... => ??w... if ??w == 1") ==
        "rules:1: rule r: ??w; expected size(??w, ..) or another measure of it");
  CHECK(message("matmul(?x, ??w)... => ??w... if sum(size(??w, 1)...) == 4") ==
        "rules:1: rule r: sum(size(??w, 1)...); expected a list around '...', as in [x...]");
  CHECK(message("split{sizes=?s}(?x).* => ?x") ==
        "rules:1: rule r: split{sizes=?s}(?x).*; expected '...' after roots that depend on the repetition");
}

TEST_CASE("compile errors are single lines that begin with the line and name of the rule") {
  for (const auto* rule : {"scale(?x) => ?y", "sale(?x) => ?x", "add() => add()", "?x => scale(?x)"}) {
    const auto said = message(rule);
    CHECK(said.rfind("rules:1: rule r: ", 0) == 0);
    CHECK(std::count(said.begin(), said.end(), '\n') == 0);
  }
}

TEST_CASE("one malformed rule refuses the whole rule set and is named") {
  const auto rules = parse_rules("rule good scale(?x) => ?x\nrule bad scale(?x) => ?y");
  CHECK_THROWS_WITH(compile_rules(matrices{}, rules), Catch::StartsWith("rules:2: rule bad: "));
}

namespace {

// Two choice attributes with a word in common, which has a different index in each.
struct ambiguous : matrices {
  op_signature other{"other", 1, 1, false, {{"mode", attribute_form::choice, {"cube", "plain"}, attribute{0}}}};

  std::size_t kind_count() const { return matrices::kind_count() + 1; }
  std::optional<kind_id> find_kind(std::string_view name) const {
    return name == other.name ? kind_id{matrices::kind_count()} : matrices::find_kind(name);
  }
  const op_signature& signature(kind_id k) const {
    return k.index() < matrices::kind_count() ? matrices::signature(k) : other;
  }
};

}  // namespace

TEST_CASE("a literal in a condition takes the form of the attribute that binds its variable") {
  const auto literal = [](std::string_view text) {
    const auto rule = parse_rules("rule r " + std::string{text}).at(0);
    return compile_rule(ambiguous{}, rule).at(0).conditions.at(0).arguments.at(1).literal;
  };
  CHECK(literal("power{form=?f}(?x) => ?x if ?f == cube") == attribute{1});
  CHECK(literal("other{mode=?m}(?x) => ?x if ?m == cube") == attribute{0});
  CHECK(literal("shift{by=?b}(?x) => ?x if ?b == 2") == attribute{std::bit_cast<std::int64_t>(2.0)});
  CHECK(literal("shift{by=?b}(?x) => ?x if ?b != -2") == attribute{std::bit_cast<std::int64_t>(-2.0)});
  CHECK(literal("scale{by=?b}(?x) => ?x if ?b == 2") == attribute{2});
}

TEST_CASE("a rule condition that compares different attribute forms is refused") {
  const auto refused = [](std::string_view condition) {
    const auto text = "rule r shift{by=?b}(scale{by=?n}(power{form=?f}(?x))) => ?x if " + std::string{condition};
    return unity::test::message_of([&] { (void)compile_rule(matrices{}, parse_rules(text).at(0)); });
  };
  CHECK(refused("?n == 0.5") == "rules:1: rule r: 0.5; expected no real number for attribute 'by'");
  CHECK(refused("size(?x, 0) == 0.5") ==
        "rules:1: rule r: 0.5; expected a real number only as an attribute, or beside == or != and a variable");
  CHECK(refused("size(?x, 0) == cube") ==
        "rules:1: rule r: word 'cube'; expected a word only as an attribute, or beside == or != and a variable");
  CHECK(refused("?b < 0.5") == "rules:1: rule r: ?b < 0.5; expected == or != between real numbers");
  CHECK(refused("0 < ?b") == "rules:1: rule r: 0 < ?b; expected == or != between real numbers");
  CHECK(refused("?b == ?n") == "rules:1: rule r: ?n, which is an integer; expected a real number for attribute 'by'");
  CHECK(refused("?n == ?f") ==
        "rules:1: rule r: ?f, which is one of square, cube; expected an integer for attribute 'by'");
  CHECK(refused("?n == ?b + 1") ==
        "rules:1: rule r: ?b of real attribute 'by'; expected it only as a real attribute, or beside == or !=");
  CHECK(refused("0.5 == ?b, ?b != 2, ?f != cube, ?n == min(size(?x, 0), 2), (?n == 1) == (?f == cube)").empty());
}

TEST_CASE("compile errors name unknown attributes first and variables of the wrong kind") {
  CHECK(message("scale{bye=?k}(?x) => scale{by=?k}(?x)") ==
        "rules:1: rule r: attribute 'bye' of scale; expected attributes of scale: by");
  CHECK(message("scale{by=?k}(?x) => add(?x, ?k)") ==
        "rules:1: rule r: ?k, which stands for an attribute; expected a variable of the source");
  CHECK(message("scale{by=?k}(?x) => ?x if size(?k, 0) == 1") ==
        "rules:1: rule r: ?k, which stands for an attribute; expected a value as the first argument of size");
  CHECK(message("scale(?x) => scale{by=?x}(?x)") ==
        "rules:1: rule r: ?x, which stands for a value; expected a variable that an attribute of the source binds");
}

TEST_CASE("a list is refused as the value of an integer or real attribute") {
  CHECK(message("scale{by=[2]}(?x) => ?x") == "rules:1: rule r: [2], a list; expected an integer for attribute 'by'");
  CHECK(message("scale{by=[]}(?x) => ?x") == "rules:1: rule r: [], a list; expected an integer for attribute 'by'");
  CHECK(message("shift{by=[0.5]}(?x) => ?x") ==
        "rules:1: rule r: [0.5], a list; expected a real number for attribute 'by'");
  CHECK(message("scale{by=?k}(?x) => ?x if ?k == [1]") ==
        "rules:1: rule r: [1], a list; expected an integer for attribute 'by'");
  CHECK(message("split{sizes=[1, 2]}(?x) => split{sizes=[1, 2], axis=1}(?x)").empty());
}

TEST_CASE("a compile error states the line of the rule") {
  const auto rules =
      parse_rules("# two rules\nrule good\n  scale(?x) => ?x\nrule bad\n  scale(?x)\n  => ?y\n", "my.rules");
  CHECK(message_of([&] { (void)compile_rules(matrices{}, rules); }) ==
        "my.rules:4: rule bad: unbound variable ?y; expected a variable of the source");
}

TEST_CASE("a rule variable is refused for attributes of different forms") {
  CHECK(message("shift{by=?b}(?x) => scale{by=?b}(?x)") ==
        "rules:1: rule r: ?b, which is a real number; expected an integer for attribute 'by'");
  CHECK(message("shift{by=?b}(scale{by=?b}(?x)) => ?x") ==
        "rules:1: rule r: ?b, which is an integer; expected a real number for attribute 'by'");
  CHECK(message("scale{by=?b}(?x) => scale{by=?b}(scale{by=?b}(?x))").empty());
}

}  // namespace tests_of_compile
