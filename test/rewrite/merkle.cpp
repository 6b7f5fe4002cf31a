#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/rewrite_graph.hpp>

#include "../support/cases.hpp"
#include "../support/circuits.hpp"

namespace tests_of_merkle {

using namespace unity;
using namespace unity::test;

namespace {

fingerprint canonical(const circuit& g) {
  node_store<circuits> store{circuits{}};
  const auto nodes = intern_graph(store, g);
  state_view view;
  view.load(store, nodes);
  return merkle_hasher{}(store, view);
}

// The same circuit with its nodes in another order.
circuit relabelled(const circuit& g, random_engine& random) {
  circuit h;
  std::vector<value_id> there(g.value_count());
  std::vector<node_id> waiting;
  for (const auto i : node_ids(g)) {
    waiting.push_back(i);
  }
  const auto ready = [&](node_id n) {
    return std::all_of(g.operands(n).begin(), g.operands(n).end(),
                       [&](value_id v) { return there[v.index()].valid(); });
  };
  while (!waiting.empty()) {
    const auto i = random.below(waiting.size());
    const auto n = waiting[i];
    if (!ready(n)) {
      continue;
    }
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<value_id> operands;
    for (const auto v : g.operands(n)) {
      operands.push_back(there[v.index()]);
    }
    if (operands.size() == 2 && random.below(2) == 0) {
      std::swap(operands[0], operands[1]);  // all gates with two operands are commutative
    }
    const auto m = h.add_node(g.operation(n), operands, std::vector<bit>(g.results(n).size()));
    for (std::size_t r = 0; r < g.results(n).size(); ++r) {
      there[g.results(n)[r].index()] = h.results(m)[r];
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(there[v.index()]);
  }
  h.set_outputs(outputs);
  return h;
}

}  // namespace

TEST_CASE("the merkle hash is invariant to node order and changes with a live gate", "[law]") {
  std::size_t changes = 0;  // of a gate, where all nodes are live
  std::size_t moved = 0;    // circuits whose nodes have another order
  for (std::uint64_t seed = 0; seed < unity::test::cases(3000); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = random_circuit(random, 4, 3 + random.below(20));
    const auto h = canonical(g);
    const auto other = relabelled(g, random);
    REQUIRE(canonical(other) == h);
    moved += other == g ? 0 : 1;

    // Replaces the gate at one place. If all nodes are live, an output depends on that gate.
    circuit changed;
    const auto place = random.below(g.node_count());
    for (const auto i : node_ids(g)) {
      auto op = g.operation(i);
      if (i.index() == place) {
        if (op.kind == gate::form::conjunction) {
          op.kind = gate::form::disjunction;
        } else if (op.kind == gate::form::disjunction || op.kind == gate::form::difference) {
          op.kind = gate::form::conjunction;
        } else if (op.kind == gate::form::input) {
          op.name = {'z'};
        } else if (op.kind == gate::form::zero || op.kind == gate::form::one) {
          op.kind = op.kind == gate::form::zero ? gate::form::one : gate::form::zero;
        }
      }
      changed.add_node(op, g.operands(i), std::vector<bit>(g.results(i).size()));
    }
    changed.set_outputs(g.outputs());
    const bool same_gates = changed == g;
    const bool is_live = [&] {
      node_store<circuits> store{circuits{}};
      return intern_graph(store, g).size() == g.node_count() + 1;
    }();
    if (is_live) {
      REQUIRE((canonical(changed) == h) == same_gates);
      changes += same_gates ? 0 : 1;
    }
  }
  CHECK(changes > unity::test::cases(600));
  CHECK(moved > unity::test::cases(2000));
}

TEST_CASE("the merkle hash depends on the result read and on sharing and output order") {
  const auto build = [](auto what) {
    circuit_builder b;
    return canonical(what(b));
  };
  const auto sum = build([](auto& b) { return b.build({b.half_adder(b.input('a'), b.input('b'))[0]}); });
  const auto carry = build([](auto& b) { return b.build({b.half_adder(b.input('a'), b.input('b'))[1]}); });
  CHECK(sum != carry);
  const auto shared = build([](auto& b) {
    const auto n = b.negation(b.input('a'));
    return b.build({n, n});
  });
  const auto twice = build([](auto& b) {
    const auto x = b.input('a');
    return b.build({b.negation(x), b.negation(x)});
  });
  CHECK(shared != twice);
  const auto exchanged = build([](auto& b) {
    const auto x = b.input('a');
    const auto n = b.negation(x);
    return b.build({x, n});
  });
  const auto straight = build([](auto& b) {
    const auto x = b.input('a');
    return b.build({b.negation(x), x});
  });
  CHECK(exchanged != straight);
}

}  // namespace tests_of_merkle
