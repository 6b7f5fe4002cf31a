// Every algorithm of this folder requires only the graph concept: all run on a graph that provides nothing more.
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/canonical.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/series_parallel.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/graph/validate.hpp>

namespace tests_of_algorithms {

using namespace unity;

namespace {

// A chain of three nodes. Ranges are only forward ranges; algorithms can neither construct nor copy the graph, its
// operators or its types.
struct minimal_chain {
  struct fixed {
    explicit fixed(int n) : number{n} {}
    fixed(const fixed&) = delete;
    int number;
  };

  explicit minimal_chain(int number) : thing_{number} {}
  minimal_chain(const minimal_chain&) = delete;

  unsigned char node_count() const { return 3; }
  unsigned char value_count() const { return 3; }
  const fixed& operation(node_id) const { return thing_; }
  std::forward_list<value_id> operands(node_id n) const {
    return n.index() == 0 ? std::forward_list<value_id>{} : std::forward_list{value_id{n.index() - 1}};
  }
  std::forward_list<value_id> results(node_id n) const { return {value_id{n.index()}}; }
  const fixed& type(value_id) const { return thing_; }
  node_id producer(value_id v) const { return node_id{v.index()}; }
  std::forward_list<value_id> outputs() const { return {value_id{2U}}; }

 private:
  fixed thing_;
};
static_assert(dataflow_graph<minimal_chain>);

// The same graph, but operators and types are returned by value.
struct copyable_chain : minimal_chain {
  struct copied {
    explicit copied(int n) : number{n} {}
    int number;
  };

  using minimal_chain::minimal_chain;
  copied operation(node_id n) const { return copied{static_cast<int>(n.index())}; }
  copied type(value_id) const { return copied{0}; }
};
static_assert(dataflow_graph<copyable_chain>);

std::uint64_t label(node_id n) { return n.index(); }

}  // namespace

TEST_CASE("graph algorithms run on a minimal model of dataflow_graph") {
  const minimal_chain g{0};
  const std::vector chain{node_id{0U}, node_id{1U}, node_id{2U}};
  CHECK(users{g}.use_count() == 2);
  CHECK(topological_order(g) == chain);
  CHECK(find_cycle(g).empty());
  CHECK_NOTHROW(validate(g));
  CHECK(digraph{g}.node_count() == 3);
  CHECK(dominators(g).depth(node_id{2U}) == 3);
  CHECK(post_dominators(g).depth(node_id{0U}) == 3);
  CHECK(is_series_parallel(g));
  CHECK(canonical_fingerprint(g, label) == canonical_fingerprint(copyable_chain{0}, label));
}

}  // namespace tests_of_algorithms
