// The matcher against an independent one that tries every assignment of graph nodes to pattern nodes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/rewrite_graph.hpp>

#include "../support/cases.hpp"
#include "../support/circuits.hpp"
#include "../support/matrices.hpp"

namespace tests_of_matcher {

using namespace unity;
using namespace unity::test;

namespace {

// A match of a rule without repetition: nodes, values and attributes by slot.
struct assignment {
  std::vector<node_id> nodes;
  std::vector<value_id> values;
  std::vector<attribute> attributes;

  friend auto operator<=>(const assignment&, const assignment&) = default;
};

template <class Algebra>
struct fixture {
  node_store<Algebra> store;
  rule_set rules;
  rule_index index;
  std::vector<node_id> nodes;
  state_view view;

  template <class Graph>
  fixture(rule_set some_rules, const Graph& g)
      : store{Algebra{}}, rules{std::move(some_rules)}, index{rules, store}, nodes{intern_graph(store, g)} {
    view.load(store, nodes);
  }

  std::set<assignment> found(std::uint32_t rule) {
    matcher<node_store<Algebra>> find;
    std::set<assignment> all;
    for (const auto n : nodes) {
      find.match(store, index, view, n, [&](const bindings& b) {
        if (b.rule == rule) {
          assignment a{b.nodes, b.values, {}};
          for (const auto id : b.attributes) {
            a.attributes.push_back(store.value(id));
          }
          all.insert(std::move(a));
        }
      });
    }
    return all;
  }
  // Bindings of repeated rules: the nodes of slot `slot`, one list per match.
  std::set<std::vector<node_id>> found_repetitions(std::uint32_t rule, std::size_t slot) {
    matcher<node_store<Algebra>> find;
    std::set<std::vector<node_id>> all;
    for (const auto n : nodes) {
      find.match(store, index, view, n, [&](const bindings& b) {
        if (b.rule == rule) {
          std::vector<node_id> repeated;
          for (std::size_t i = 0; i < b.repetitions; ++i) {
            repeated.push_back(b.node(slot, i));
          }
          all.insert(std::move(repeated));
        }
      });
    }
    return all;
  }
  node_id nth(std::string_view kind, std::size_t i) const {
    for (const auto n : nodes) {
      if (store.op(n).valid() && store.algebra().signature(store.kind(n)).name == kind && i-- == 0) {
        return n;
      }
    }
    return {};
  }
};

// Tries all assignments: every pattern node to every graph node, every commutative node in both orders.
template <class Algebra>
class brute_force {
 public:
  brute_force(const fixture<Algebra>& f, const substitution& s) : f_{f}, s_{s} {}

  std::set<assignment> matches() {
    nodes_.assign(s_.source.nodes.size(), node_id{});
    exchanged_.assign(s_.source.nodes.size(), false);
    choose(0);
    return found_;
  }

 private:
  void choose(std::size_t slot) {
    if (slot == nodes_.size()) {
      check();
      return;
    }
    for (const auto n : f_.nodes) {
      if (f_.store.kind(n) != s_.source.nodes[slot].kind) {
        continue;
      }
      nodes_[slot] = n;
      for (const bool exchanged : {false, true}) {
        if (!exchanged || s_.source.nodes[slot].commutative) {
          exchanged_[slot] = exchanged;
          choose(slot + 1);
        }
      }
    }
  }
  void check() {
    values_.assign(s_.variables, value_id{});
    attributes_.assign(s_.attribute_variables, std::nullopt);
    for (std::size_t slot = 0; slot < nodes_.size(); ++slot) {
      if (!operands_fit(slot) || !attributes_fit(slot)) {
        return;
      }
    }
    assignment a{nodes_, values_, {}};
    for (const auto& value : attributes_) {
      a.attributes.push_back(*value);
    }
    found_.insert(std::move(a));
  }
  bool operands_fit(std::size_t slot) {
    const auto& p = s_.source.nodes[slot];
    const auto actual = f_.store.operands(nodes_[slot]);
    if (actual.size() != p.operands.size()) {
      return false;
    }
    for (std::size_t k = 0; k < actual.size(); ++k) {
      const auto& o = p.operands[k];
      const auto v = actual[exchanged_[slot] ? actual.size() - 1 - k : k];
      if (!o.is_variable) {
        const auto results = f_.store.results(nodes_[o.slot]);
        const auto r = static_cast<std::size_t>(o.result);
        if (r >= results.size() || results[r] != v) {
          return false;
        }
      } else if (!values_[o.slot].valid()) {
        values_[o.slot] = v;
      } else if (values_[o.slot] != v) {
        return false;
      }
    }
    return true;
  }
  bool attributes_fit(std::size_t slot) {
    const auto& p = s_.source.nodes[slot];
    const auto actual = f_.store.attributes(f_.store.op(nodes_[slot]));
    for (std::size_t i = 0; i < p.attributes.size(); ++i) {
      const auto& a = p.attributes[i];
      const auto& value = f_.store.value(actual[i]);
      if (a.kind == pattern_attribute::form::value && a.value.kind == compiled_expression::form::literal &&
          a.value.literal != value) {
        return false;
      }
      if (a.kind == pattern_attribute::form::bind) {
        auto& bound = attributes_[a.slot];
        bound = bound ? bound : value;
        if (*bound != value) {
          return false;
        }
      }
    }
    return true;
  }

  const fixture<Algebra>& f_;
  const substitution& s_;
  std::vector<node_id> nodes_;
  std::vector<bool> exchanged_;
  std::vector<value_id> values_;
  std::vector<std::optional<attribute>> attributes_;
  std::set<assignment> found_;
};

std::vector<node_id> sorted(std::vector<node_id> nodes) {
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

// Both matchers must find the same matches; if roots are exchangeable, at least one match for each set of nodes.
template <class Algebra>
std::size_t compare(fixture<Algebra>& f) {
  std::size_t count = 0;
  for (std::uint32_t r = 0; r < f.rules.size(); ++r) {
    const auto& s = f.rules[r];
    CAPTURE(s.name, to_text(s.rule));
    const auto expected = brute_force<Algebra>{f, s}.matches();
    const auto found = f.found(r);
    count += found.size();
    REQUIRE(std::includes(expected.begin(), expected.end(), found.begin(), found.end()));
    if (f.index.rule(r).symmetric.empty()) {
      REQUIRE(found == expected);
      continue;
    }
    std::set<std::vector<node_id>> covered;
    for (const auto& a : found) {
      covered.insert(sorted(a.nodes));
    }
    for (const auto& a : expected) {
      std::set<node_id> roots;
      for (const auto& root : s.source.roots) {
        roots.insert(a.nodes[root.slot]);
      }
      REQUIRE((roots.size() < s.source.roots.size() || covered.contains(sorted(a.nodes))));
    }
  }
  return count;
}

// A random source pattern over circuits: one to three roots, connected to each other.
class random_pattern {
 public:
  explicit random_pattern(random_engine& random) : random_{random} {}

  std::string rule(std::size_t number) {
    const auto roots = 1 + random_.below(3);
    std::string source;
    std::string target;
    for (std::size_t i = 0; i < roots; ++i) {
      source += (i == 0 ? "" : ", ") + application(2, true);
      target += i == 0 ? "?x" : ", ?x";
    }
    return "rule r" + std::to_string(number) + " (" + source + ") => (" + target + ")\n";
  }

 private:
  // Every root reads ?x, so the pattern is connected.
  std::string application(int depth, bool reads_x) {
    static constexpr std::string_view binary[]{"and", "and", "or", "or", "xor", "half_adder"};
    if (random_.below(3) == 0) {
      return "not(" + (reads_x ? std::string{"?x"} : term(depth - 1)) + ")";
    }
    const auto name = std::string{binary[random_.below(std::size(binary))]};
    auto first = reads_x ? std::string{"?x"} : term(depth - 1);
    auto second = term(depth - 1);
    if (random_.below(2) == 0) {
      std::swap(first, second);
    }
    return name + "(" + first + ", " + second + ")" +
           (name == "half_adder" ? (random_.below(2) == 0 ? ".0" : ".1") : "");
  }
  std::string term(int depth) {
    static constexpr std::string_view variables[]{"?x", "?y", "?z"};
    return depth == 0 || random_.below(3) == 0 ? std::string{variables[random_.below(3)]} : application(depth, false);
  }
  random_engine& random_;
};

rule_set circuit_set(std::string_view text) { return compile_rules(circuits{}, parse_rules(text)); }
rule_set matrix_set(std::string_view text) { return compile_rules(matrices{}, parse_rules(text)); }

}  // namespace

TEST_CASE("the matcher agrees with brute force on random patterns and circuits", "[law]") {
  std::size_t matches = 0;
  std::size_t patterns = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(1200); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    rule_set rules;
    for (std::size_t i = 0; i < 4; ++i) {
      try {
        for (auto& s : circuit_set(random_pattern{random}.rule(i))) {
          rules.push_back(std::move(s));
        }
      } catch (const error& e) {
        REQUIRE_THAT(e.what(), Catch::Contains("expected each output once") || Catch::Contains("unbound variable ?x"));
      }
    }
    patterns += rules.size();
    fixture<circuits> f{std::move(rules), random_circuit(random, 2, 14)};
    matches += compare(f);
  }
  CHECK(patterns > unity::test::cases(1000));
  CHECK(matches > unity::test::cases(2000));
}

TEST_CASE("the matcher agrees with brute force on the rules of both test algebras", "[law]") {
  std::size_t matches = 0;
  const auto without = [](rule_set rules) {
    std::erase_if(rules, [](const auto& s) {
      return s.repeats() || s.source.roots[0].repeated || s.name.find("_pair") != std::string::npos;
    });
    return rules;
  };
  for (std::uint64_t seed = 0; seed < unity::test::cases(150); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    fixture<circuits> f{without(circuit_set(circuit_rules)), random_circuit(random, 4, 20)};
    matches += compare(f);
    fixture<matrices> g{without(matrix_set(matrix_rules)), random_matrix_graph(random, 4, 16)};
    matches += compare(g);
  }
  CHECK(matches > unity::test::cases(1000));
}

TEST_CASE("exchangeable roots are detected and matched once") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto z = b.input('c');
  const auto g = b.build({b.disjunction(z, x), b.disjunction(z, y)});
  fixture<circuits> f{circuit_set("rule exchangeable (or(?z, ?x), or(?z, ?y)) => (?x, ?x)\n"
                                  "rule different (or(?z, ?x), or(?z, not(?y))) => (?x, ?x)\n"
                                  "rule conditional (or(?z, ?x), or(?w, ?x)) => (?x, ?x)"),
                      g};
  CHECK(f.index.rule(0).symmetric.size() == 1);
  CHECK(f.found(0).size() == 1);
  CHECK(f.index.rule(1).symmetric.empty());
  CHECK(f.index.rule(2).symmetric.size() == 1);
}

TEST_CASE("roots that a third root distinguishes are not treated as exchangeable") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto z = b.input('c');
  const bool first = GENERATE(true, false);  // whether the third root reads x, of the first disjunction, or y
  const auto p = b.disjunction(z, x);
  const auto q = b.disjunction(z, y);
  const auto g = b.build({p, q, b.negation(first ? x : y)});
  fixture<circuits> f{circuit_set("rule r (or(?z, ?x), or(?z, ?y), not(?x)) => (?x, ?x, ?x)"), g};
  CHECK(f.index.rule(0).symmetric.empty());
  const auto found = f.found(0);
  CHECK(std::count_if(found.begin(), found.end(), [](const auto& a) { return a.nodes[0] != a.nodes[1]; }) == 1);
}

TEST_CASE("match_unconnected finds disconnected roots that do not depend on each other") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto n = b.negation(x);
  const auto g = b.build({b.negation(n), b.negation(y)});
  fixture<circuits> f{circuit_set("rule r (not(?x), not(?y)) => (?x, ?y)"), g};
  CHECK(f.found(0).empty());  // match() finds only patterns with connected roots
  matcher<node_store<circuits>> find;
  std::size_t unconnected = 0;  // (not a, not b) and (not not a, not b)
  find.match_unconnected(f.store, f.index, f.view, [&](const bindings&) { ++unconnected; }, [] { return false; });
  CHECK(unconnected == 2);
}

TEST_CASE("repeated operands match one or more operands in order") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 2);
  const auto z = b.input('c', 2, 2);
  const auto squares = [&] { return std::vector{b.power(0, x), b.power(0, y), b.power(0, z)}; }();
  const auto g = b.build({b.concat(0, squares), b.concat(1, {squares[0], squares[1]}), b.concat(1, {squares[0], x}),
                          b.concat(0, {squares[2]})});
  fixture<matrices> f{matrix_set("rule r concat{axis=?a}(power(??x)...) => power(concat{axis=?a}(??x...))"), g};
  const auto found = f.found_repetitions(0, 0);
  const auto p = [&](std::size_t i) { return f.nth("power", i); };
  CHECK(found == std::set<std::vector<node_id>>{{p(0), p(1), p(2)}, {p(0), p(1)}, {p(2)}});
}

TEST_CASE("a fixed operand before repeated operands matches the first operand") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 2);
  const auto g = b.build({b.concat(0, {x, y, y}), b.concat(0, {y, x}), b.concat(0, {x})});
  fixture<matrices> f{matrix_set("rule r concat(?f, ??x...) => concat(?f, concat(??x...))"), g};
  matcher<node_store<matrices>> find;
  std::multiset<std::size_t> repetitions;
  for (const auto n : f.nodes) {
    find.match(f.store, f.index, f.view, n, [&](const bindings& m) {
      repetitions.insert(m.repetitions);
      CHECK(m.value(0, 0) == f.store.operands(n)[0]);
    });
  }
  CHECK(repetitions == std::multiset<std::size_t>{1, 2});
}

TEST_CASE("an each-selector matches only the complete ordered results of one node") {
  matrix_builder b;
  const auto x = b.input('a', 3, 2);
  const auto parts = b.split(0, {1, 1, 1}, x);
  const auto two = b.split(0, {1, 2}, x);
  const auto g =
      b.build({b.concat(0, parts), b.concat(0, {parts[0], parts[1]}), b.concat(0, {parts[1], parts[0], parts[2]}),
               b.concat(0, {two[0], parts[1], parts[2]}), b.concat(0, two)});
  fixture<matrices> f{matrix_set("rule r concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x"), g};
  CHECK(f.found_repetitions(0, 0).size() == 2);
}

TEST_CASE("repeated roots match the largest set of siblings") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 3);
  const auto z = b.input('c', 2, 2);
  const auto first = b.matmul(x, z);
  const auto g = b.build({first, b.matmul(x, y), b.matmul(x, z), b.matmul(z, y)});
  fixture<matrices> f{
      matrix_set(
          "rule r matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))"),
      g};
  const auto m = [&](std::size_t i) { return f.nth("matmul", i); };
  CHECK(f.found_repetitions(0, 0) == std::set<std::vector<node_id>>{{m(0), m(1), m(2)}});
}

TEST_CASE("a set of siblings excludes nodes that depend on each other") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 2);
  const auto first = b.matmul(x, y);
  const auto second = b.matmul(x, b.power(0, first));  // reads the first, as in figure 2.6 of Jia's dissertation (2020)
  const auto g = b.build({second, b.matmul(x, b.input('c', 2, 2))});
  fixture<matrices> f{
      matrix_set(
          "rule r matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))"),
      g};
  const auto m = [&](std::size_t i) { return f.nth("matmul", i); };
  CHECK(f.found_repetitions(0, 0) == std::set<std::vector<node_id>>{{m(0), m(2)}, {m(1), m(2)}});
}

TEST_CASE("repeated roots can match siblings that read different results of one node") {
  matrix_builder b;
  const auto x = b.input('a', 2, 3);
  const auto w = b.input('b', 2, 2);
  const auto v = b.input('c', 2, 2);
  const auto parts = b.split(1, {1, 2}, x);
  const auto other = b.matmul(v, parts[0]);  // created first, but does not read w
  const auto g = b.build({other, b.matmul(w, parts[1]), b.matmul(w, parts[0])});
  fixture<matrices> f{
      matrix_set("rule r matmul(?w, split{axis=1, sizes=?s}(?x).*)... => split{axis=1, sizes=?s}(matmul(?w, ?x))"), g};
  const auto m = [&](std::size_t i) { return f.nth("matmul", i); };
  CHECK(f.found_repetitions(0, 1) == std::set<std::vector<node_id>>{{m(2), m(1)}});
}

TEST_CASE("a root that stands for all results repeats once per result") {
  matrix_builder b;
  const auto x = b.input('a', 4, 2);
  const auto y = b.input('b', 1, 2);
  const auto g = b.build({b.split(0, {2, 2, 1}, b.concat(0, {x, y}))[0], b.split(0, {4, 1}, b.concat(0, {x, y}))[1]});
  fixture<matrices> f{matrix_set("rule r split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => ??x..."), g};
  matcher<node_store<matrices>> find;
  std::set<std::size_t> repetitions;
  for (const auto n : f.nodes) {
    find.match(f.store, f.index, f.view, n, [&](const bindings& m) { repetitions.insert(m.repetitions); });
  }
  CHECK(repetitions == std::set<std::size_t>{2});  // a concat of two parts does not match a split into three results
}

TEST_CASE("the matcher drops matches with too many repetitions") {
  matrix_builder b;
  const auto x = b.input('a', 1, 1);
  const std::vector<value_id> many(bindings::most_repetitions + 1, x);
  const auto all = b.concat(0, many);
  const attribute ones(bindings::most_repetitions + 1, 1);
  const auto g = b.build({b.split(0, ones, all).back(), b.concat(0, b.split(0, ones, all))});
  fixture<matrices> f{matrix_set("rule r concat(??x...) => concat(??x...)\n"
                                 "rule s split{sizes=?s}(concat(??x...)) => ??x...\n"
                                 "rule t concat(split{sizes=?s}(?x).*...) => ?x\n"
                                 "rule u split{sizes=?s}(concat{..}(?x, ?y)) => scale(split{sizes=?s}(?x).*)..."),
                      g};
  for (std::uint32_t r = 0; r < 4; ++r) {
    CHECK(f.found_repetitions(r, 0).empty());
  }
}

}  // namespace tests_of_matcher
