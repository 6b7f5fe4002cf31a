// Execution states: table 4.3 of ROC's chapter, and other graphs.

#include <unity/placement/memory_program.hpp>

#include <catch2/catch.hpp>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/systems/roc/vertex_memory.hpp>

#include "../support/cases.hpp"
#include "memory_oracles.hpp"

namespace tests_of_execution_states {

using namespace unity;
using namespace unity::placement;

namespace {

std::set<std::string> names_of(const memory_graph& g, const std::vector<tensor_id>& tensors) {
  std::set<std::string> names;
  for (const auto t : tensors) {
    names.insert(g.tensor(t).name);
  }
  return names;
}

}  // namespace

TEST_CASE("execution states of the GIN match table 4.3 of the ROC chapter") {
  const auto g = systems::gin_memory({100, 1000}, 16, 8, 4);
  const auto states = execution_states(g, 100);
  REQUIRE(states);
  REQUIRE(states->size() == 8);
  using names = std::set<std::string>;
  const std::vector<names> table{{},
                                 {"g", "a"},
                                 {"g", "a", "b", "w1"},
                                 {"g", "a", "b", "h1", "w1", "w2"},
                                 {"g", "a", "b", "w1", "w2", "dh1"},
                                 {"g", "a", "b", "w1", "db"},
                                 {"g", "a", "da"},
                                 {}};
  for (std::size_t s = 0; s < states->size(); ++s) {
    const auto& state = (*states)[s];
    INFO("after " << s << " operators");
    CHECK(state.done.count() == s);  // operators 1 to s
    CHECK((s == 0 || state.done[s - 1]));
    CHECK(names_of(g, state.live) == table[s]);
    REQUIRE(state.last.size() == (s == 0 ? 0U : 1U));
    CHECK((s == 0 || state.last[0] == state_step{operator_id{s - 1}, static_cast<std::uint32_t>(s - 1)}));
  }
}

TEST_CASE("execution states of independent operators are all subsets within the limit") {
  memory_graph g;
  const auto x = g.add_tensor("x", bytes{1});
  for (std::size_t i = 0; i < 5; ++i) {
    g.add_operator("reader", {x}, {g.add_tensor("y", bytes{1})});
  }
  const auto states = execution_states(g, 32);
  REQUIRE(states);
  CHECK(states->size() == 32);
  CHECK(states->back().last.size() == 5);
  CHECK(states->back().live.empty());
  CHECK_FALSE(execution_states(g, 31));
}

TEST_CASE("execution states are the operator sets closed under dependencies") {
  random_engine random{17};
  for (std::size_t i = 0; i < test::cases(100); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(9), 2);
    const test::masked_graph m{g};
    std::set<unsigned long> expected;
    for (std::uint32_t done = 0; done <= m.everything(); ++done) {
      bool is_valid = true;
      for (std::size_t o = 0; o < m.reads.size(); ++o) {
        is_valid = is_valid && ((done >> o & 1U) == 0 || (m.reads[o] & m.computed & ~m.written(done)) == 0);
      }
      if (is_valid) {
        expected.insert(done);
      }
    }
    const auto states = execution_states(g, 1000);
    REQUIRE(states);
    std::set<unsigned long> found;
    std::size_t before = 0;
    for (const auto& s : *states) {
      found.insert(s.done.to_ulong());
      CHECK(s.done.count() >= before);
      before = s.done.count();
      for (const auto& step : s.last) {
        CHECK((*states)[step.before].done == operator_set{s.done}.reset(step.operation.index()));
      }
    }
    CHECK(found == expected);
    CHECK(states->size() == expected.size());
    CHECK(states->back().done.all());
  }
}

}  // namespace tests_of_execution_states
