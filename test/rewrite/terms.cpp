#include <unity/rewrite/terms.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>

namespace tests_of_terms {

namespace {

using unity::to_text;
using namespace unity::terms;

// An algebra's vocabulary: two operators, three attributes, two measures.
template <argument... A>
term f(const A&... a) {
  return apply("f", a...);
}
template <argument... A>
term g(const A&... a) {
  return apply("g", a...);
}
constexpr attribute_name p{"p"}, q{"q"}, r{"r"};
expression size(const variable& v, const expression& along) { return call("size", v, along); }
expression rank(const variable& v) { return call("rank", v); }

const variable x{"x"}, y{"y"}, a{"a"}, b{"b"}, w = indexed("w");

void check_equal(const statement& written, const std::string& text) {
  INFO(text);
  INFO(to_text(written));
  const auto parsed = unity::parse_rules(text);
  REQUIRE(parsed.size() == 1);
  const unity::syntax::rule plain = written;
  CHECK(plain == parsed[0]);
  CHECK(unity::parse_rules(to_text(plain)) == parsed);
}

}  // namespace

static_assert(std::derived_from<decltype(f(x) == g(x)), unity::syntax::rule>);
static_assert(std::same_as<decltype(a == b), expression>, "two variables are attributes that are compared");
static_assert(std::same_as<decltype(a == 1), expression>);
static_assert(!argument<int>, "a number is not an operand");
static_assert(!operand_term<binding>);
static_assert(!expressible<term>, "a value is not an attribute");

TEST_CASE("terms can state bidirectional and one-way rules", "[terms]") {
  check_equal(rule("both", f(x, g(y)) == g(f(x, y))), "rule both f(?x, g(?y)) == g(f(?x, ?y))");
  check_equal(rule("one", f(f(x)) >> f(x)), "rule one f(f(?x)) => f(?x)");
  check_equal(rule("drop", f(g(x)) >> x), "rule drop f(g(?x)) => ?x");
  check_equal(rule("none", f() >> g()), "rule none f() => g()");
}

TEST_CASE("terms bind attributes in written order", "[terms]") {
  check_equal(rule("r", f(x, q = b, p = a) >> f(x, p = a)), "rule r f{q=?b, p=?a}(?x) => f{p=?a}(?x)");
  check_equal(rule("r", f(p = 1, x, q = 0.5, r = "same") >> g(x)), "rule r f{p=1, q=0.5, r=same}(?x) => g(?x)");
  check_equal(rule("r", f(x, p = -1, q = -0.5, r = 2.0) >> g(x)), "rule r f{p=-1, q=-0.5, r=2.0}(?x) => g(?x)");
  check_equal(rule("r", f(x, r = "two words") >> g(x)), "rule r f{r=\"two words\"}(?x) => g(?x)");
  check_equal(rule("r", f(x, p = a, any_others) >> g(x)), "rule r f{p=?a, ..}(?x) => g(?x)");
  check_equal(rule("r", f(x, any_others) >> g(x)), "rule r f{..}(?x) => g(?x)");
}

TEST_CASE("terms distinguish a one-element list from its element", "[terms]") {
  check_equal(rule("r", f(x, p = {1}) >> g(x, p = 1)), "rule r f{p=[1]}(?x) => g{p=1}(?x)");
  check_equal(rule("r", f(x, p = {a}) >> g(x, p = a)), "rule r f{p=[?a]}(?x) => g{p=?a}(?x)");
  check_equal(rule("r", f(x, p = {1, a, size(x, 0)}) >> g(x, p = list(1, list(2, a)))),
              "rule r f{p=[1, ?a, size(?x, 0)]}(?x) => g{p=[1, [2, ?a]]}(?x)");
  check_equal(rule("r", f(x, p = list()) >> g(x)), "rule r f{p=[]}(?x) => g(?x)");
}

TEST_CASE("terms express result selectors and repetitions and several outputs", "[terms]") {
  check_equal(rule("r", f(g(x)[0], g(x)[1]) >> g(x)[2]), "rule r f(g(?x).0, g(?x).1) => g(?x).2");
  check_equal(rule("r", all(f(x, w)) >> g(f(x, g(all(w))), p = {all(size(w, 1))})),
              "rule r f(?x, ??w)... => g{p=[size(??w, 1)...]}(f(?x, g(??w...)))");
  check_equal(rule("r", all(f(g(x)[each])) >> g(f(x))), "rule r f(g(?x).*)... => g(f(?x))");
  check_equal(rule("r", f(all(g(x)[each])) >> x), "rule r f(g(?x).*...) => ?x");
  check_equal(rule("r", outputs(f(x), f(y)) >> g(f(x, y))), "rule r (f(?x), f(?y)) => g(f(?x, ?y))");
  check_equal(rule("r", outputs(f(x), x) == outputs(g(x), x)), "rule r (f(?x), ?x) == (g(?x), ?x)");
}

TEST_CASE("terms express conditions with the operators of rule text", "[terms]") {
  const auto rewrite = f(x, p = a, q = b) >> g(x);
  const std::string text = "rule r f{p=?a, q=?b}(?x) => g(?x) if ";
  check_equal(rule("r", rewrite).when(rank(x) == 2, a != b), text + "rank(?x) == 2, ?a != ?b");
  check_equal(rule("r", rewrite).when(a == b), text + "?a == ?b");
  check_equal(rule("r", rewrite).when(a < 1 || (b >= 2 && a <= b)), text + "?a < 1 || ?b >= 2 && ?a <= ?b");
  check_equal(rule("r", rewrite).when(!(a > b)), text + "!(?a > ?b)");
  check_equal(rule("r", rewrite).when(a + b * 2 - 1 == -a / b % 3), text + "?a + ?b * 2 - 1 == -?a / ?b % 3");
  check_equal(rule("r", rewrite).when(a == "same", size(x, -1) == 1), text + "?a == same, size(?x, -1) == 1");
}

TEST_CASE("terms spell list functions and measures as in rule text", "[terms]") {
  const std::string text = "rule r f{p=?a, q=?b}(?x) => g{p=";
  const std::vector<std::pair<expression, std::string>> all_functions{
      {min(a, b), "min(?a, ?b)"},
      {max(a, 1), "max(?a, 1)"},
      {at(a, 0), "at(?a, 0)"},
      {length(a), "length(?a)"},
      {sum(a), "sum(?a)"},
      {product(a), "product(?a)"},
      {concat(a, b), "concat(?a, ?b)"},
      {prefix(a, 1), "prefix(?a, 1)"},
      {suffix(a, 1), "suffix(?a, 1)"},
      {insert(a, 0, b), "insert(?a, 0, ?b)"},
      {remove(a, 0), "remove(?a, 0)"},
      {replace(a, 0, b), "replace(?a, 0, ?b)"},
      {compose(a, b), "compose(?a, ?b)"},
      {inverse(a), "inverse(?a)"},
      {iota(rank(x)), "iota(rank(?x))"},
      {repeat(1, length(a)), "repeat(1, length(?a))"},
      {call("any_measure", x, 1, "word"), "any_measure(?x, 1, word)"},
  };
  for (const auto& [function, spelled] : all_functions) {
    check_equal(rule("r", f(x, p = a, q = b) >> g(x, p = function)), text + spelled + "}(?x)");
  }
}

TEST_CASE("the last standing stated for a rule of terms replaces earlier ones", "[terms]") {
  const auto rewrite = rule("r", f(x) >> g(x));
  const std::string text = "rule r f(?x) => g(?x) ";
  check_equal(rewrite.tested(60).proved("z3 4.8.12"), text + "tested 60 proved \"z3 4.8.12\"");
  check_equal(rewrite.proved("z3 4.8.12", {"a"}).tested(60), text + "proved \"z3 4.8.12\" by a tested 60");
  for (const auto& s : {rewrite.tested(60).proved("z3 4.8.12"), rewrite.proved("z3 4.8.12", {"a"}).tested(60)}) {
    check_equal(s, to_text(s));
  }
}

TEST_CASE("terms express the safe use and the evidence of a rule", "[terms]") {
  const auto rewrite = rule("r", f(x) >> g(x));
  const std::string text = "rule r f(?x) => g(?x) ";
  check_equal(rewrite.only_for("inference"), text + "safe inference");
  check_equal(rewrite.over_reals(), text + "real");
  check_equal(rewrite.tested(488), text + "tested 488");
  check_equal(rewrite.proved("z3 4.8.12"), text + "proved \"z3 4.8.12\"");
  check_equal(rewrite.proved("z3 4.8.12", {"a", "b"}), text + "proved \"z3 4.8.12\" by a, b");
  check_equal(rewrite.when(rank(x) == 1).when(rank(x) != 2).tested(1),
              text + "if rank(?x) == 1, rank(?x) != 2 tested 1");
}

}  // namespace tests_of_terms
