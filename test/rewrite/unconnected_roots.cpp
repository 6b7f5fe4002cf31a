// Matches of roots that share nothing, against a search of all pairs of nodes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
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

namespace tests_of_unconnected_roots {

using namespace unity;
using namespace unity::test;

namespace {

using node_pair = std::pair<node_id, node_id>;

struct fixture {
  node_store<circuits> store{circuits{}};
  rule_set rules;
  rule_index index;
  std::vector<node_id> nodes;
  state_view view;

  fixture(std::string_view text, const circuit& g)
      : rules{compile_rules(circuits{}, parse_rules(text))}, index{rules, store}, nodes{intern_graph(store, g)} {
    view.load(store, nodes);
  }

  [[nodiscard]] bool is(node_id n, std::string_view kind) const {
    return store.op(n).valid() && store.algebra().signature(store.kind(n)).name == kind;
  }
  [[nodiscard]] value_id operand(node_id n, std::size_t k) const { return store.operands(n)[k]; }
  [[nodiscard]] node_id below(node_id n, std::size_t k) const { return view.definition(operand(n, k)); }

  // By rule: the nodes of both roots of each match.
  template <class IsPastDeadline>
  std::vector<std::set<node_pair>> found(const IsPastDeadline& is_past_deadline) {
    std::vector<std::set<node_pair>> all(rules.size());
    matcher<node_store<circuits>> find;
    find.match_unconnected(
        store, index, view,
        [&](const bindings& b) {
          const auto& roots = rules[b.rule].source.roots;
          all[b.rule].emplace(b.node(roots[0].slot, 0), b.node(roots[1].slot, 0));
        },
        is_past_deadline);
    return all;
  }
};

// By node: the node itself and all that it depends on.
std::map<node_id, std::set<node_id>> needed_nodes(const fixture& f) {
  std::map<node_id, std::set<node_id>> all;
  for (const auto n : f.nodes) {
    all[n].insert(n);
    for (std::size_t k = 0; k < f.store.operands(n).size(); ++k) {
      const auto& more = all.at(f.below(n, k));
      all[n].insert(more.begin(), more.end());
    }
  }
  return all;
}

constexpr std::string_view pairs = R"(
rule alike      (not(?x), not(?y)) => (?x, ?y)
rule different  (and(?x, not(?y)), or(?u, ?v)) => (?x, ?u)
rule repeated   (or(?x, ?x), and(?u, ?v)) => (?x, ?u)
rule result     (half_adder(?x, ?y).1, not(?u)) => (?x, ?u)
rule deep       (not(and(?x, ?y)), not(or(?u, ?v))) => (?x, ?u)
)";

bool never() { return false; }

}  // namespace

TEST_CASE("match_unconnected finds the independent pairs of nodes that a search of all pairs finds", "[law]") {
  std::array<std::size_t, 5> matches{};
  std::size_t dependent = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(300); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    fixture f{pairs, random_circuit(random, 3, 20)};
    const auto kind = [&](std::string_view name) { return [&f, name](node_id n) { return f.is(n, name); }; };
    using condition = std::function<bool(node_id)>;
    const std::vector<std::pair<condition, condition>> roots{
        {kind("not"), kind("not")},
        {[&](node_id n) { return f.is(n, "and") && (f.is(f.below(n, 0), "not") || f.is(f.below(n, 1), "not")); },
         kind("or")},
        {[&](node_id n) { return f.is(n, "or") && f.operand(n, 0) == f.operand(n, 1); }, kind("and")},
        {kind("half_adder"), kind("not")},
        {[&](node_id n) { return f.is(n, "not") && f.is(f.below(n, 0), "and"); },
         [&](node_id n) { return f.is(n, "not") && f.is(f.below(n, 0), "or"); }}};
    const auto found = f.found(never);
    const auto needs = needed_nodes(f);
    REQUIRE(found.size() == roots.size());
    for (std::size_t r = 0; r < roots.size(); ++r) {
      CAPTURE(r);
      std::set<node_pair> expected;
      for (const auto n : f.nodes) {
        for (const auto m : f.nodes) {
          if (!roots[r].first(n) || !roots[r].second(m)) {
            continue;
          }
          const bool apart = !needs.at(n).contains(m) && !needs.at(m).contains(n);
          dependent += apart ? 0 : 1;
          if (apart && (r > 0 || n < m)) {  // the roots of the first rule are exchangeable
            expected.emplace(n, m);
          }
        }
      }
      REQUIRE(found[r] == expected);
      matches.at(r) += expected.size();
    }
  }
  for (const auto count : matches) {
    CHECK(count > unity::test::cases(30));
  }
  CHECK(dependent > unity::test::cases(300));
}

TEST_CASE("match_unconnected ends early when it is late") {
  circuit_builder b;
  const auto x = b.input('a');
  std::vector<value_id> outputs;
  for (int i = 0; i < 100; ++i) {
    outputs.push_back(b.negation(x));
  }
  fixture f{"rule alike (not(?x), not(?y)) => (?x, ?y)", b.build(outputs)};
  CHECK(f.found(never)[0].size() == 100 * 99 / 2);
  int asked = 0;
  const auto few = f.found([&] { return ++asked > 0; })[0].size();
  CHECK(asked == 1);
  CHECK(few > 0);
  CHECK(few < 100 * 99 / 2);
}

}  // namespace tests_of_unconnected_roots
