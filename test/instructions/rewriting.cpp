// Counted paths of searches for substitutions: BERT with all shipped rules (bench/candidate_rate.cpp measures its
// rates).
#include <cstdint>
#include <memory>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/generation/vocabulary.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "paths.hpp"

namespace unity::test {

using unity::test::standard::operators;
namespace {

struct search {
  systems::taso_space space;
  systems::taso_space::state_type start = space.initial();
  systems::taso_space::scratch_type scratch{};

  search()
      : space{operators(), systems::make_cost(operators(), systems::objective{}),
              compile_rules(operators(), parse_rules(tensor::standard_rules)),
              tensor::zoo::build(operators(), "zoo:bert?layers=4")} {
    space.prepare(start, scratch);
  }
};

struct matching {
  search all{};
  node_store<tensor::algebra> store = all.space.store();
  rule_index index{all.space.rules(), store};
  matcher<node_store<tensor::algebra>> find{};
  state_view view{};
};

}  // namespace

// Finds all matches in a state and only counts them.
work match_rules() {
  return [m = std::make_shared<matching>()] {
    std::uint64_t found = 0;
    const auto count = [&](const bindings&) { ++found; };
    const auto& nodes = m->all.start.nodes;
    for (int i = 0; i < 30; ++i) {
      m->view.load(m->store, nodes);
      for (const auto n : nodes) {
        m->find.match(m->store, m->index, m->view, n, count);
      }
      m->find.match_unconnected(m->store, m->index, m->view, count, [] { return false; });
    }
    return found;
  };
}

work price_candidates() {
  return [s = std::make_shared<search>()] {
    std::uint64_t sum = 0;
    for (int i = 0; i < 800; ++i) {
      for (const auto m : s->space.moves(s->start)) {
        if (const auto c = s->space.price(s->start, m, s->scratch)) {
          sum += static_cast<std::uint64_t>(c->cost) ^ c->fingerprint.low;
        }
      }
    }
    return sum;
  };
}

work canonical_fingerprints() {
  return [s = std::make_shared<search>()] {
    std::uint64_t sum = 0;
    for (int i = 0; i < 4000; ++i) {
      sum += s->space.canonical_fingerprint(s->start, s->scratch).low;
    }
    return sum;
  };
}

work expand_states() {
  return [s = std::make_shared<search>()] {
    backtracking_options options;
    options.limits.expansions = 500;
    const auto found = backtracking(s->space, options);
    return found.counts.candidates ^ static_cast<std::uint64_t>(found.cost);
  };
}

work read_rules() {
  operators();
  return [] { return compile_rules(operators(), parse_rules(tensor::standard_rules)).size(); };
}

work evaluate_modulo_a_prime() {
  const auto g = tensor::zoo::build(operators(), "zoo:bert?layers=1&hidden=16&heads=2&seq=8");
  return [g] {
    std::uint64_t sum = 0;
    for (const auto& result : tensor::evaluate<tensor::modular61>(operators(), g)) {
      for (const auto& x : result.data) {
        sum += x.residue();
      }
    }
    return sum;
  };
}

work enumerate_terms() {
  operators();
  return [] {
    tensor::term_language language{operators(),
                                   tensor::parse_vocabulary(operators(), tensor::taso_vocabulary, "vocabulary")};
    enumeration<tensor::term_language> terms{language, {.most_operators = 2, .variables = 3}};
    terms.run();
    return terms.counts().classes;
  };
}

}  // namespace unity::test
