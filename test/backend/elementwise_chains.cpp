#include <unity/backend/elementwise_chains.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "chain_suite.hpp"

namespace tests_of_elementwise_chains {

namespace {

using unity::node_id;
using unity::value_id;
using unity::backend::elementwise_chain;
using unity::backend::elementwise_chains;
using unity::backend::test::random_elementwise_graph;
using unity::tensor::builder;
using unity::tensor::dtype;
using unity::tensor::tensor_graph;
using unity::tensor::test::standard;

std::vector<std::string> names(const elementwise_chain& c) {
  std::vector<std::string> all;
  for (const auto n : node_ids(c.region)) {
    all.push_back(standard().signature(c.region.operation(n).kind).name);
  }
  return all;
}
value_id apply(builder& b, std::string_view name, std::initializer_list<value_id> in) { return b.apply(name, in)[0]; }

// Invariants of all chains of a graph.
void check_laws(const tensor_graph& g) {
  const unity::users uses{g};
  const auto needed = unity::backend::detail::needed_nodes(g);
  std::vector<bool> taken(g.node_count());
  for (const auto& c : elementwise_chains(standard(), g)) {
    REQUIRE(c.nodes.size() >= 2);
    REQUIRE(std::is_sorted(c.nodes.begin(), c.nodes.end()));
    const auto is_member = [&](node_id n) { return std::binary_search(c.nodes.begin(), c.nodes.end(), n); };
    const auto& joint = g.type(g.results(c.nodes.back())[0]);
    for (const auto n : c.nodes) {
      CHECK_FALSE(taken[n.index()]);
      taken[n.index()] = true;
      const auto v = g.results(n)[0];
      CHECK(g.type(v).dims == joint.dims);
      const bool leaves = std::find(g.outputs().begin(), g.outputs().end(), v) != g.outputs().end() ||
                          std::any_of(uses[v].begin(), uses[v].end(), [&](const unity::use& u) {
                            return needed[u.user.index()] && !is_member(u.user);
                          });
      CHECK(leaves == (n == c.nodes.back()));
    }
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      CHECK_FALSE(is_member(g.producer(c.inputs[i])));
      CHECK(std::count(c.inputs.begin(), c.inputs.end(), c.inputs[i]) == 1);
      CHECK(c.region.type(value_id{i}) == g.type(c.inputs[i]));
    }
    REQUIRE(c.region.outputs().size() == 1);
    CHECK(c.region.type(c.region.outputs()[0]) == joint);
    for (std::size_t n = c.inputs.size(); n < c.region.node_count(); ++n) {
      const auto types = unity::backend::types_of(c.region, c.region.operands(node_id{n}));
      const auto result = standard().infer(c.region.operation(node_id{n}), types);
      REQUIRE(result.has_value());
      CHECK((*result)[0] == c.region.type(c.region.results(node_id{n})[0]));
    }
  }
}

// Each region computes what its nodes compute in the graph.
void check_values(const tensor_graph& g, std::uint64_t seed) {
  const auto chains = elementwise_chains(standard(), g);
  CHECK_FALSE(chains.empty());
  for (const auto& c : chains) {
    auto whole = g;
    auto outputs = c.inputs;
    outputs.push_back(g.results(c.nodes.back())[0]);
    whole.set_outputs(outputs);
    const auto expected = unity::tensor::evaluate<double>(standard(), whole, seed);
    std::size_t next = 0;
    const auto given = [&](const unity::tensor::operation&, const unity::tensor::tensor_type&) {
      return std::optional{expected[next++]};
    };
    const auto found = unity::tensor::evaluate<double>(standard(), c.region, given);
    REQUIRE(found.size() == 1);
    CHECK(next == c.inputs.size());
    CHECK(found[0].data == expected.back().data);
  }
}

}  // namespace

TEST_CASE("consecutive element-wise operators form one chain", "[elementwise_chains]") {
  builder b{standard()};
  const auto x = b.input("x", {2, 3});
  const auto y = b.input("y", {3});
  const auto s = b.sigmoid(b.add(x, y));
  const auto g = std::move(b).finish({b.mul(s, b.tanh(x))});
  const auto chains = elementwise_chains(standard(), g);
  REQUIRE(chains.size() == 1);
  CHECK(chains[0].inputs == std::vector<value_id>{x, y});
  CHECK(names(chains[0]) == std::vector<std::string>{"input", "input", "add", "sigmoid", "tanh", "mul"});
  check_laws(g);
}

TEST_CASE("a value read twice inside a chain belongs to the chain", "[elementwise_chains]") {
  builder b{standard()};
  const auto x = b.relu(b.input("x", {4}));
  const auto g = std::move(b).finish({b.mul(x, b.add(b.sigmoid(x), x))});
  REQUIRE(elementwise_chains(standard(), g).size() == 1);
  CHECK(elementwise_chains(standard(), g)[0].nodes.size() == 4);
}

TEST_CASE("an element-wise chain ends at outside readers and outputs and other operators", "[elementwise_chains]") {
  builder b{standard()};
  const auto x = b.input("x", {4, 4});
  const auto read = b.relu(b.tanh(x));              // also read by a matmul
  const auto output = b.sigmoid(b.tanh(read));      // also an output
  const auto moved = b.transpose(b.relu(b.gelu(output)), {1, 0});
  const auto g = std::move(b).finish({output, b.matmul(read, b.softmax(b.relu(b.tanh(moved)), 1))});
  const auto chains = elementwise_chains(standard(), g);
  CHECK(chains.size() == 4);
  for (const auto& c : chains) {
    CHECK(c.nodes.size() == 2);
  }
  check_laws(g);
}

TEST_CASE("an unneeded reader does not end an element-wise chain", "[elementwise_chains]") {
  builder b{standard()};
  const auto x = b.relu(b.input("x", {4}));
  static_cast<void>(b.softmax(x, 0));
  const auto g = std::move(b).finish({b.tanh(x)});
  CHECK(elementwise_chains(standard(), g).size() == 1);
}

TEST_CASE("a value of another size is an input of an element-wise chain", "[elementwise_chains]") {
  builder b{standard()};
  const auto small = b.tanh(b.relu(b.input("x", {1, 3})));
  const auto g = std::move(b).finish({b.relu(b.add(small, b.input("y", {5, 3})))});
  const auto chains = elementwise_chains(standard(), g);
  REQUIRE(chains.size() == 2);
  CHECK(chains[0].inputs.size() == 1);
  CHECK(chains[1].inputs[0] == small);
  check_laws(g);
}

TEST_CASE("constants and integers and mixed layouts form no element-wise chain", "[elementwise_chains]") {
  builder b{standard()};
  const auto constant = b.tanh(b.relu(b.weight("w", {3, 3})));
  const auto ids = b.input("i", {3, 3}, dtype::int64);
  const auto integral = b.add(b.add(ids, ids), ids);
  auto turn = standard().make_operation("tanh", {});
  turn.order = unity::tensor::layout::column_major;
  const auto x = b.input("x", {3, 3});
  const auto turned = b.apply(turn, std::array{b.relu(x)})[0];
  const auto g = std::move(b).finish({constant, integral, turned});
  CHECK(elementwise_chains(standard(), g).empty());
}

TEST_CASE("column-major operators form an element-wise chain of that layout", "[elementwise_chains]") {
  builder b{standard()};
  const auto x = b.input("x", {3, 4});
  auto product = standard().make_operation("matmul", {});
  product.order = unity::tensor::layout::column_major;
  auto relu = standard().make_operation("relu", {});
  relu.order = unity::tensor::layout::column_major;
  auto add = standard().make_operation("add", {});
  add.order = unity::tensor::layout::column_major;
  const auto y = b.apply(product, std::array{x, b.weight("w", {4, 4})})[0];
  const auto sum = b.apply(add, std::array{b.apply(relu, std::array{y})[0], b.input("bias", {4})})[0];
  const auto g = std::move(b).finish({sum});
  REQUIRE(elementwise_chains(standard(), g).size() == 1);
  check_laws(g);
}

TEST_CASE("identity and dropout are left out of chain regions and form no chain alone", "[elementwise_chains]") {
  {
    builder b{standard()};
    const auto x = apply(b, "identity", {b.input("x", {4})});
    const auto dropped = b.apply("dropout", {b.relu(x)}, {{"rate", 0.1}})[0];
    const auto g = std::move(b).finish({apply(b, "identity", {b.tanh(dropped)})});
    const auto chains = elementwise_chains(standard(), g);
    REQUIRE(chains.size() == 1);
    CHECK(chains[0].nodes.size() == 5);
    CHECK(names(chains[0]) == std::vector<std::string>{"input", "relu", "tanh"});
    check_laws(g);
  }
  builder b{standard()};
  const auto x = apply(b, "identity", {b.input("x", {4})});
  const auto g = std::move(b).finish({apply(b, "identity", {b.relu(x)})});
  CHECK(elementwise_chains(standard(), g).empty());
}

TEST_CASE("chains of random graphs and zoo models satisfy the chain invariants", "[elementwise_chains]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    unity::random_engine random{seed};
    const auto g = random_elementwise_graph(random, dtype::float32);
    check_laws(g);
    check_values(g, seed);
  }
  for (const char* text : {"zoo:nasrnn", "zoo:bert?layers=2", "zoo:resnext50", "zoo:nasnet_a"}) {
    CAPTURE(text);
    check_laws(unity::tensor::zoo::build(standard(), text));
  }
}

}  // namespace tests_of_elementwise_chains
