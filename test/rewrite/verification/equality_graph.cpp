// The e-graph against congruence closure by its definition, on random terms and equalities.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/verification/equality_graph.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/worlds.hpp>

#include "../../support/circuits.hpp"

namespace tests_of_equality_graph {

using namespace unity;
using namespace unity::test;

namespace {

struct random_terms {
  circuits algebra{};
  world_tables<circuits> tables{algebra, 1};
  equality_graph<circuits> graph{tables};
  ground_problem ground{};
  type_row bit_row{};

  explicit random_terms(random_engine& random, std::size_t count) {
    const bit b;
    bit_row = tables.intern_types({&b, 1});
    for (std::size_t i = 0; i < algebra.kind_count(); ++i) {
      ground.labels.push_back(algebra.signature(kind_id{i}).name);
      ground.commutative.push_back(algebra.signature(kind_id{i}).commutative);
    }
    for (char name = 'a'; name < 'e'; ++name) {
      ground.labels.emplace_back(1, name);
      ground.commutative.push_back(false);
      add({gate::form::input, attribute{name}}, {}, static_cast<std::uint32_t>(ground.labels.size() - 1));
    }
    while (ground.terms.size() < count) {
      const auto form = random.below(2) == 0   ? gate::form::negation
                        : random.below(2) == 0 ? gate::form::conjunction
                                               : gate::form::half_adder;
      std::vector<std::uint32_t> operands;
      for (std::size_t k = form == gate::form::negation ? 1 : 2; k > 0; --k) {
        operands.push_back(static_cast<std::uint32_t>(random.below(ground.terms.size())));
      }
      add({form, {}}, operands, static_cast<std::uint32_t>(form));
    }
  }
  // Terms have the numbers that the graph gives them. Adds nothing if the graph has the node already.
  void add(const gate& g, const std::vector<std::uint32_t>& operands, std::uint32_t label) {
    const auto op = tables.intern_operators({&g, 1}).value();
    std::vector<term_id> of;
    for (const auto o : operands) {
      of.emplace_back(o);
    }
    if (graph.lookup(op, of).valid()) {
      return;
    }
    const std::vector<type_row> types(g.kind == gate::form::half_adder ? 2 : 1, bit_row);
    graph.add(op, of, types);
    for (std::uint32_t r = 0; r < types.size(); ++r) {
      ground.terms.push_back({label, r, operands});
    }
  }
  void merge(std::uint32_t a, std::uint32_t b) {
    const auto number = static_cast<std::uint32_t>(ground.equalities.size());
    graph.merge(term_id{a}, term_id{b}, number);
    ground.equalities.push_back({a, b, number, number, false});
  }
  // The equalities that explain why two terms are equal.
  [[nodiscard]] std::vector<std::uint32_t> reasons(term_id a, term_id b) const {
    std::vector<std::uint32_t> used;
    std::vector<bool> seen;
    term_pairs open{{a, b}};
    while (!open.empty()) {
      const auto [x, y] = open.back();
      open.pop_back();
      graph.explain(x, y, seen, [&](const equality_reason& r) {
        if (r.instance != equality_reason::no_instance) {
          used.push_back(r.instance);
          return;
        }
        for (const auto& pair : graph.premises(r)) {
          open.push_back(pair);
        }
      });
    }
    return used;
  }
};

}  // namespace

TEST_CASE("equality_graph classes are the congruence closure and explanations suffice") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    random_terms t{random, 20};
    for (int merges = 0; merges < 4; ++merges) {
      t.merge(static_cast<std::uint32_t>(random.below(t.ground.terms.size())),
              static_cast<std::uint32_t>(random.below(t.ground.terms.size())));
      if (merges == 1) {  // terms that are added late are congruent to existing ones, too
        t.add({gate::form::negation, {}}, {static_cast<std::uint32_t>(random.below(20))}, 3);
      }
    }
    for (std::uint32_t a = 0; a < t.ground.terms.size(); ++a) {
      for (std::uint32_t b = 0; b < a; ++b) {
        auto question = t.ground;
        question.goals = {{a, b}};
        const bool equal = t.graph.equal(term_id{a}, term_id{b});
        CHECK(equal == (congruence_prover{}.decide(question).found == verdict::proved));
        if (equal) {
          question.equalities.clear();
          for (const auto i : t.reasons(term_id{a}, term_id{b})) {
            question.equalities.push_back(t.ground.equalities[i]);
          }
          CHECK(congruence_prover{}.decide(question).found == verdict::proved);
        }
      }
    }
  }
}

TEST_CASE("equality_graph::lookup finds nodes under equal and commuted operands") {
  random_engine random{1};
  random_terms t{random, 0};
  t.add({gate::form::conjunction, {}}, {0, 1}, 4);
  const gate conjunction{gate::form::conjunction, {}};
  const auto op = t.tables.intern_operators({&conjunction, 1}).value();
  const auto find = [&](std::uint32_t a, std::uint32_t b) {
    const std::vector<term_id> operands{term_id{a}, term_id{b}};
    return t.graph.lookup(op, operands);
  };
  CHECK(find(0, 1).valid());
  CHECK(find(1, 0) == find(0, 1));
  CHECK_FALSE(find(0, 2).valid());
  t.merge(2, 1);
  CHECK(find(0, 2) == find(0, 1));
  CHECK(t.graph.premises(find(2, 0), std::vector{term_id{2U}, term_id{0U}}) ==
        term_pairs{{term_id{0U}, term_id{0U}}, {term_id{1U}, term_id{2U}}});
}

TEST_CASE("equality_graph reports changed nodes once with the nodes above them") {
  random_engine random{1};
  random_terms t{random, 0};  // nodes 0 .. 3: inputs
  const auto changed = [&](std::size_t levels) {
    std::vector<std::uint32_t> all;
    t.graph.take_changed(levels, [&](node_id n) { all.push_back(n.index()); });
    return all;
  };
  t.add({gate::form::negation, {}}, {0}, 3);  // node 4, term 4
  t.add({gate::form::negation, {}}, {4}, 3);  // node 5, term 5
  CHECK(changed(0) == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5});
  CHECK(changed(2).empty());
  t.merge(0, 1);
  CHECK(changed(0) == std::vector<std::uint32_t>{4});
  t.merge(0, 2);
  CHECK(changed(1) == std::vector<std::uint32_t>{4, 5});
  t.graph.forget_settled();
  CHECK(changed(0).size() == 6);
}

}  // namespace tests_of_equality_graph
