#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>

#include "../../support/cases.hpp"
#include "../../support/circuits.hpp"
#include "../../support/matrices.hpp"

namespace tests_of_entailment {

using namespace unity;
using namespace unity::test;

namespace {

using values = std::vector<value_id>;
using names = std::vector<std::string>;

template <class Algebra>
struct fixture {
  Algebra algebra{};
  std::vector<syntax::rule> axioms;
  theory known;
  entailment<Algebra> decide;

  explicit fixture(std::string_view text, entailment_limits limits = {})
      : axioms{parse_rules(text)}, known{algebra, axioms}, decide{algebra, known, limits} {}

  // Checks every proof with a prover that shares no code with the proof search.
  template <class Graph>
  std::optional<derivation> ask(const std::vector<Graph>& worlds) {
    auto d = decide.prove_outputs(std::span<const Graph>{worlds});
    if (d) {
      CHECK(congruence_prover{}.decide(d->ground).found == verdict::proved);
      CHECK(decide.end() == entailment_end::proved);
    } else {
      CHECK(decide.end() != entailment_end::proved);
    }
    return d;
  }
  [[nodiscard]] names used(const std::optional<derivation>& d) const {
    names all;
    for (const auto a : d.value().axioms()) {
      all.push_back(axioms[a].name);
    }
    return all;
  }
};

// The same expression over matrices of several sizes, one world for each.
template <class Build>
std::vector<matrix_graph> in_worlds(const Build& build) {
  std::vector<matrix_graph> worlds;
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{2, 3, 5}, {4, 3, 7}, {5, 6, 2}}) {
    matrix_builder b;
    worlds.push_back(b.build(build(b, m, n, k)));
  }
  return worlds;
}

// A term of rule text as a circuit.
value_id circuit_of(circuit_builder& b, const syntax::term& t, std::map<std::string, value_id>& inputs) {
  if (t.kind == syntax::term::form::variable) {
    const auto place = inputs.find(t.name);
    return place != inputs.end() ? place->second : inputs.emplace(t.name, b.input(t.name[0])).first->second;
  }
  values of;
  for (const auto& o : t.operands) {
    of.push_back(circuit_of(b, o, inputs));
  }
  if (t.name == "half_adder") {
    return b.half_adder(of[0], of[1])[static_cast<std::size_t>(std::max(t.selector, 0))];
  }
  return t.name == "zero"  ? b.zero()
         : t.name == "one" ? b.one()
         : t.name == "not" ? b.negation(of[0])
         : t.name == "and" ? b.conjunction(of[0], of[1])
         : t.name == "or"  ? b.disjunction(of[0], of[1])
                           : b.difference(of[0], of[1]);
}

constexpr std::string_view ring = R"(
rule add_assoc   add(?x, add(?y, ?z)) == add(add(?x, ?y), ?z)
rule mul_assoc   mul(?x, mul(?y, ?z)) == mul(mul(?x, ?y), ?z)
rule distribute  mul(?x, add(?y, ?z)) == add(mul(?x, ?y), mul(?x, ?z))
rule square      power(?x) == mul(?x, ?x)
rule twice       scale{by=2}(?x) == add(?x, ?x)
)";

constexpr std::string_view joining = R"(
rule concat_of_split concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x
rule split_of_concat split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => ??x... if ?s == [size(??x, ?a)...]
rule concat_power    concat{axis=?a}(power{form=?f}(??x)...) == power{form=?f}(concat{axis=?a}(??x...))
rule concat_matmul   concat{axis=1}(matmul(?x, ??w)...) == matmul(?x, concat{axis=1}(??w...))
)";

}  // namespace

TEST_CASE("congruence and commutativity are proved without axioms") {
  fixture<circuits> f{""};
  circuit_builder b;
  const auto x = b.input('x');
  const auto y = b.input('y');
  const auto d = f.ask(std::vector{b.build({b.negation(b.conjunction(x, y)), b.negation(b.conjunction(y, x))})});
  REQUIRE(d);
  CHECK(d->steps.empty());
}

TEST_CASE("the binomial formula is proved from the ring axioms") {
  fixture<matrices> f{ring};
  const auto d = f.ask(in_worlds([](matrix_builder& b, auto m, auto n, auto) {
    const auto x = b.input('x', m, n);
    const auto y = b.input('y', m, n);
    return values{b.power(0, b.add(x, y)), b.add(b.add(b.power(0, x), b.scale(2, b.mul(x, y))), b.power(0, y))};
  }));
  CHECK(f.used(d) == names{"add_assoc", "distribute", "square", "twice"});
}

TEST_CASE("a false equality is not proved and the search terminates") {
  fixture<matrices> f{ring};
  const auto d = f.ask(in_worlds([](matrix_builder& b, auto m, auto n, auto) {
    const auto x = b.input('x', m, n);
    const auto y = b.input('y', m, n);
    return values{b.power(0, b.add(x, y)), b.add(b.power(0, x), b.power(0, y))};
  }));
  CHECK_FALSE(d);
  CHECK(f.decide.nodes() > 4);
}

TEST_CASE("each circuit rule proves the equality of its own sides") {
  for (const auto& r : parse_rules(circuit_rules)) {
    fixture<circuits> f{to_text(r)};
    circuit_builder b;
    std::map<std::string, value_id> inputs;
    values outputs;
    for (const auto* side : {&r.source, &r.target}) {
      for (const auto& t : *side) {
        outputs.push_back(circuit_of(b, t, inputs));
        if (t.name == "half_adder" && t.selector == syntax::term::whole) {
          auto carry = t;
          carry.selector = 1;
          outputs.push_back(circuit_of(b, carry, inputs));
        }
      }
    }
    INFO(to_text(r));
    auto g = b.build({});
    g.set_outputs(outputs);
    const auto d = f.ask(std::vector{g});
    REQUIRE(d);
    CHECK(d->steps.size() <= r.source.size());
    CHECK_FALSE(d->steps.empty());
  }
}

TEST_CASE("proved equalities of random circuits are true") {
  fixture<circuits> f{circuit_rules, {.rounds = 3, .joint_rounds = 1, .nodes = 300}};
  std::size_t proved = 0;
  std::size_t equal = 0;
  std::size_t different = 0;  // pairs without a proof take longest, so only a part of them is asked
  for (std::uint64_t seed = 0; seed < test::cases(40); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto g = random_circuit(random, 3, 8);
    for (const auto i : value_ids(g)) {
      for (std::size_t j = 0; j < i.index(); ++j) {
        g.set_outputs(values{i, value_id{j}});
        const auto tables = unity::test::meaning(g);
        if (tables[0] != tables[1] && different++ % test::one_case_of != 0) {
          continue;
        }
        equal += tables[0] == tables[1] ? 1 : 0;
        if (f.ask(std::vector{g})) {
          CHECK(tables[0] == tables[1]);
          ++proved;
        }
      }
    }
  }
  CHECK(proved > test::cases(60));
  CHECK(proved * 10 >= equal * 8);  // these rules prove most equalities of small circuits
}

TEST_CASE("an axiom applies only if its conditions hold in each world") {
  fixture<matrices> f{"rule two_rows transpose(transpose(?x)) => ?x if rows(?x) == 2"};
  const auto question = [](std::int64_t rows) {
    matrix_builder b;
    const auto x = b.input('x', rows, 3);
    return b.build({b.transpose(b.transpose(x)), x});
  };
  CHECK(f.ask(std::vector{question(2)}));
  CHECK(f.ask(std::vector{question(2), question(2)}));
  CHECK_FALSE(f.ask(std::vector{question(2), question(3)}));
  CHECK_FALSE(f.ask(std::vector{question(3), question(2)}));
}

TEST_CASE("attribute variables may have different values in each world") {
  fixture<matrices> f{"rule scale_twice scale{by=?j}(scale{by=?k}(?x)) => scale{by=?j * ?k}(?x)"};
  const auto question = [](std::int64_t j, std::int64_t k, std::int64_t product) {
    matrix_builder b;
    const auto x = b.input('x', 2, 3);
    return b.build({b.scale(j, b.scale(k, x)), b.scale(product, x)});
  };
  CHECK(f.ask(std::vector{question(2, 3, 6), question(5, 7, 35), question(1, 1, 1)}));
  CHECK_FALSE(f.ask(std::vector{question(2, 3, 6), question(2, 3, 7)}));
}

TEST_CASE("an axiom with a variable as a side applies from a part of its other side") {
  fixture<matrices> f{joining};
  const auto d = f.ask(in_worlds([](matrix_builder& b, auto m, auto n, auto k) {
    const auto x = b.input('x', m, n + k);
    const auto parts = b.split(1, attribute{n, k}, x);
    const auto squares = b.split(1, attribute{n, k}, b.power(0, x));
    return values{b.power(0, parts[0]), b.power(0, parts[1]), squares[0], squares[1]};
  }));
  CHECK(f.used(d) == names{"concat_of_split", "split_of_concat", "concat_power"});
}

TEST_CASE("an axiom with repetitions proves up to the limit of repetitions") {
  fixture<matrices> f{joining};
  const auto times = static_cast<std::size_t>(GENERATE(1, 2, 3, 5, 6, 7));
  const auto d = f.ask(in_worlds([&](matrix_builder& b, auto m, auto n, auto k) {
    const auto x = b.input('x', m, n);
    values kernels;
    values products;
    for (std::size_t i = 0; i < times; ++i) {
      kernels.push_back(b.input(static_cast<char>('a' + i), n, k + static_cast<std::int64_t>(i)));
      products.push_back(b.matmul(x, kernels.back()));
    }
    return values{b.concat(1, products), b.matmul(x, b.concat(1, kernels))};
  }));
  CHECK(d.has_value() == (times <= theory_options{}.most_repetitions));
}

TEST_CASE("an axiom of several roots applies only to roots that share their operands") {
  fixture<matrices> f{
      "rule siblings matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))"};
  const auto build = [](bool shared) {
    return in_worlds([shared](matrix_builder& b, auto m, auto n, auto k) {
      const auto x = b.input('x', m, n);
      const auto y = shared ? x : b.input('y', m, n);
      const auto v = b.input('v', n, k);
      const auto w = b.input('w', n, m);
      const auto parts = b.split(1, attribute{k, m}, b.matmul(x, b.concat(1, {v, w})));
      return values{b.matmul(x, v), b.matmul(y, w), parts[0], parts[1]};
    });
  };
  CHECK(f.ask(build(true)));
  CHECK_FALSE(f.ask(build(false)));
}

TEST_CASE("a proof can introduce a constant that the graph contains") {
  fixture<circuits> f{R"(
    rule and_one  and(?x, one()) => ?x
    rule assoc    or(and(?x, ?y), and(?x, ?z)) == and(?x, or(?y, ?z)))"};
  circuit_builder b;
  const auto x = b.input('x');
  const auto y = b.input('y');
  // x or (x and y) = x and (1 or y)
  CHECK(f.ask(
      std::vector{b.build({b.disjunction(x, b.conjunction(x, y)), b.conjunction(x, b.disjunction(b.one(), y))})}));
}

TEST_CASE("axioms read as rewrites derive an equality forward but not backward") {
  const auto rules = parse_rules(R"(
    rule double  not(not(?x)) => ?x
    rule morgan  and(not(?x), not(?y)) == not(or(?x, ?y)))");
  const circuits algebra;
  circuit_builder b;
  const auto x = b.input('x');
  const auto y = b.input('y');
  // not(not(x) and not(y)) = x or y, with a double negation on the way
  const std::vector question{
      b.build({b.negation(b.conjunction(b.negation(x), b.negation(y))), b.disjunction(x, y)})};
  const auto derived = [&](theory_reading reading, bool back) {
    const theory known{algebra, rules, {.reading = reading}};
    entailment<circuits> ask{algebra, known};
    const auto d = ask.rewrite_outputs(std::span<const circuit>{question}, back);
    if (d) {
      CHECK(congruence_prover{}.decide(d->ground).found == verdict::proved);
      CHECK(d->steps.size() == 2);
    }
    return d.has_value();
  };
  CHECK(derived(theory_reading::equations, false));
  CHECK(derived(theory_reading::rewrites, false));
  CHECK_FALSE(derived(theory_reading::rewrites, true));
}

TEST_CASE("rewrite_outputs reaches a goal whose operands equal derived terms") {
  const auto rules = parse_rules(R"(
    rule double  not(not(?x)) => ?x
    rule absorb  or(?x, and(?x, ?y)) => ?x)");
  const circuits algebra;
  const theory known{algebra, rules, {.reading = theory_reading::rewrites}};
  entailment<circuits> ask{algebra, known};
  circuit_builder b;
  const auto x = b.input('x');
  const auto y = b.input('y');
  const auto absorbed = b.disjunction(y, b.conjunction(y, x));
  const std::vector question{b.build({b.conjunction(b.negation(b.negation(x)), absorbed), b.conjunction(x, y)})};
  const auto d = ask.rewrite_outputs(std::span<const circuit>{question});
  REQUIRE(d.has_value());
  CHECK(d->axioms() == std::vector<std::uint32_t>{0, 1});
  CHECK(congruence_prover{}.decide(d->ground).found == verdict::proved);
  CHECK_FALSE(ask.rewrite_outputs(std::span<const circuit>{question}, true).has_value());
}

TEST_CASE("an axiom that is left out is not used in a proof") {
  fixture<matrices> f{ring};
  const auto worlds = in_worlds([](matrix_builder& b, auto m, auto n, auto) {
    const auto x = b.input('x', m, n);
    return values{b.power(0, x), b.mul(x, x)};
  });
  CHECK(f.ask(worlds));
  f.decide.leave_out(3);
  CHECK_FALSE(f.ask(worlds));
  f.decide.leave_out(std::nullopt);
  CHECK(f.ask(worlds));
}

TEST_CASE("axioms can be added between entailment questions") {
  fixture<matrices> f{""};
  const auto worlds = in_worlds([](matrix_builder& b, auto m, auto n, auto) {
    const auto x = b.input('x', m, n);
    return values{b.power(0, x), b.mul(x, x)};
  });
  CHECK_FALSE(f.ask(worlds));
  f.known.add(f.algebra, f.axioms.emplace_back(parse_rules("rule square power(?x) == mul(?x, ?x)").at(0)));
  CHECK(f.used(f.ask(worlds)) == names{"square"});
}

TEST_CASE("an axiom does not apply if it changes a type in some world") {
  // Axioms do not apply where they would change a type: this one applies to square matrices only.
  fixture<matrices> f{"rule symmetric transpose(?x) => ?x"};
  const auto question = [](std::int64_t rows, std::int64_t columns) {
    matrix_builder b;
    const auto x = b.input('x', rows, columns);
    return b.build({b.transpose(x), x});
  };
  CHECK(f.ask(std::vector{question(2, 2), question(3, 3)}));
  CHECK_FALSE(f.ask(std::vector{question(2, 2), question(2, 3)}));
}

TEST_CASE("entailment limits bound the nodes and operators that are built") {
  fixture<circuits> f{"rule grow not(?x) == not(not(not(?x))) rule more and(?x, ?y) == not(or(not(?x), not(?y)))",
                      {.rounds = 100, .nodes = 50, .extra_operators = 1000}};
  circuit_builder b;
  const auto x = b.input('x');
  CHECK_FALSE(f.ask(std::vector{b.build({b.negation(x), b.negation(b.input('y'))})}));
  CHECK(f.decide.nodes() <= 60);

  fixture<circuits> small{"rule grow not(?x) == not(or(?x, or(?x, ?x)))", {.rounds = 100, .extra_operators = 3}};
  CHECK_FALSE(small.ask(std::vector{b.build({b.negation(x), x})}));
  CHECK(small.decide.end() == entailment_end::saturated);
}

TEST_CASE("an entailment answer is independent of earlier questions") {
  const auto question = in_worlds([](matrix_builder& b, auto m, auto n, auto) {
    const auto x = b.input('x', m, n);
    const auto y = b.input('y', m, n);
    return values{b.power(0, b.add(x, y)), b.mul(b.add(y, x), b.add(x, y))};
  });
  const auto other = in_worlds([](matrix_builder& b, auto m, auto n, auto) {
    const auto x = b.input('x', n, m);
    return values{b.scale(2, b.power(0, x)), b.add(b.mul(x, x), b.power(0, x))};
  });
  fixture<matrices> fresh{ring};
  const auto expected = fresh.ask(question);
  fixture<matrices> used{ring};
  REQUIRE(used.ask(other));
  REQUIRE(expected);
  CHECK(used.ask(question)->ground == expected->ground);
}

}  // namespace tests_of_entailment
