#include <unity/parallel/dimensions.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_dimensions {

using namespace unity;
using parallel::parallelism;
using tensor::shape;
using tensor::tensor_type;
using unity::test::training::operators;

namespace {

tensor_type activation(shape dims, tensor::dtype element = tensor::dtype::float32) {
  tensor_type t;
  t.dims = dims;
  t.element = element;
  return t;
}
tensor_type weight(shape dims) {
  auto t = activation(dims);
  t.constant = true;
  return t;
}

// Divisible dimensions as "kind dimension:size", then reductions as sizes.
std::string spell(std::string_view name, std::initializer_list<tensor::named_attribute> attributes,
                  const std::vector<tensor_type>& inputs) {
  const auto o = parallel::dimensions_of(operators(), operators().make_operation(name, attributes), inputs);
  REQUIRE(o.has_value());
  std::string text;
  for (const auto& p : o->divisible) {
    text += std::string{"SAPR"[static_cast<int>(p.kind)]} + std::to_string(p.dimension) + ":" + std::to_string(p.size) +
            " ";
  }
  for (const auto& p : o->reductions) {
    CHECK(p.kind == parallelism::reduction);
    text += "R:" + std::to_string(p.size) + " ";
  }
  return text.substr(0, text.empty() ? 0 : text.size() - 1);
}

}  // namespace

TEST_CASE("derived sample/attribute/parameter dimensions match table 3.1 of Jia's dissertation") {
  // One-dimensional operators use images of height 1, which cannot be divided.
  CHECK(spell("max_pool", {{"kernel", {1, 2}}, {"stride", {1, 2}}}, {activation({8, 6, 1, 32})}) == "S0:8 A1:6 A3:16");
  CHECK(spell("average_pool", {{"kernel", {1, 2}}, {"stride", {1, 2}}}, {activation({8, 6, 1, 32})}) ==
        "S0:8 A1:6 A3:16");
  CHECK(spell("conv2d", {}, {activation({8, 6, 1, 32}), weight({4, 6, 1, 1})}) == "S0:8 P1:4 A3:32 R:6");
  CHECK(spell("conv2d", {{"pads", {1, 1, 1, 1}}}, {activation({8, 6, 16, 32}), weight({4, 6, 3, 3}), weight({4})}) ==
        "S0:8 P1:4 A2:16 A3:32 R:6 R:3 R:3");
  CHECK(spell("matmul", {}, {activation({8, 12}), weight({12, 20})}) == "S0:8 P1:20 R:12");
  CHECK(spell("linear", {}, {activation({8, 12}), weight({12, 20}), weight({20})}) == "S0:8 P1:20 R:12");
}

TEST_CASE("divisible dimensions are derived for operators outside table 3.1 such as lstm_cell") {
  CHECK(spell("matmul", {}, {activation({8, 4, 12}), activation({8, 12, 20})}) == "S0:8 A1:4 A2:20 R:12");
  CHECK(spell("embedding", {}, {weight({100, 16}), activation({8, 5}, tensor::dtype::int64)}) ==
        "S0:8 A1:5 P2:16 R:100");
  CHECK(spell("layer_norm", {{"axis", 2}}, {activation({8, 5, 16}), weight({16}), weight({16})}) == "S0:8 A1:5");
  CHECK(spell("softmax", {{"axis", 1}}, {activation({8, 10})}) == "S0:8");
  CHECK(spell("softmax", {{"axis", 2}}, {activation({8, 5, 10})}) == "S0:8 A1:5");
  CHECK(spell("lstm_cell", {}, {activation({8, 6}), activation({8, 10}), activation({8, 10}), weight({4, 10, 6}),
                                weight({4, 10, 10}), weight({4, 10})}) == "S0:8 P1:10");
  CHECK(spell("relu", {}, {activation({8, 10})}) == "S0:8 A1:10");
}

TEST_CASE("expand is not divisible along a repeated dimension; a broadcasting add is") {
  CHECK(spell("expand", {{"dims", {8, 6, 4}}}, {activation({1, 6, 4})}) == "A1:6 A2:4");
  CHECK(spell("expand", {{"dims", {8, 6, 4}}}, {activation({8, 1, 4})}) == "S0:8 A2:4");
  CHECK(spell("add", {}, {activation({1, 6}), activation({8, 1})}) == "S0:8 A1:6");
}

TEST_CASE("rows of windows that contain only padding are not divisible") {
  const auto convolution = [](std::int64_t kernel) {
    return spell("conv2d", {{"pads", {1, 1, 1, 1}}}, {activation({4, 4, 4, 4}), weight({8, 4, kernel, kernel})});
  };
  CHECK(convolution(3) == "S0:4 P1:8 A2:4 A3:4 R:4 R:3 R:3");
  CHECK(convolution(1) == "S0:4 P1:8 R:4");
}

TEST_CASE("composites are not divisible in ways that they refuse") {
  CHECK(spell("space_to_depth", {{"block", 2}}, {activation({4, 4, 8, 8})}) == "S0:4 A2:4 A3:4");  // no channels
}

TEST_CASE("attention divides samples and queries and output features and reduces over heads") {
  const auto x = activation({8, 6, 12});
  const auto w = weight({12, 12});
  CHECK(spell("attention", {{"heads", 3}}, {x, x, x, w, w, w, w}) == "S0:8 A1:6 P2:12 R:12 R:3 R:4");
}

TEST_CASE("the channel dimension of a grouped convolution has two indices") {
  const auto o = parallel::dimensions_of(operators(), operators().make_operation("conv2d", {{"groups", 2}}),
                                         std::vector{activation({8, 6, 4, 4}), weight({10, 3, 1, 1})});
  REQUIRE(o.has_value());
  REQUIRE(o->divisible.size() == 4);
  CHECK(o->divisible[1].indices.size() == 2);
  CHECK(o->divisible[1].size == 10);
}

TEST_CASE("dimensions_of is empty for invalid operands; a source has nothing to divide") {
  CHECK_FALSE(
      parallel::dimensions_of(operators(), operators().make_operation("matmul"), std::vector{activation({8, 12})})
          .has_value());
  CHECK(spell("input", {{"name", "x"}, {"element", "float32"}, {"dims", {4, 4}}}, {}).empty());
}

TEST_CASE("dimension 0 is the only sample dimension of rnnlm operators") {
  const auto g = tensor::zoo::build(operators(), "zoo:rnnlm?batch=4&hidden=8&vocab=16&seq=2");
  const parallel::graph_dimensions all{operators(), g};
  for (const auto n : node_ids(g)) {
    for (const auto& p : all[n].divisible) {
      CHECK((p.dimension == 0) == (p.kind == parallelism::sample));
    }
  }
}

TEST_CASE("graph_dimensions stores the dimensions of equal operators once") {
  const auto g = tensor::zoo::build(operators(), "zoo:rnnlm?batch=4&hidden=8&vocab=16&seq=3");
  const parallel::graph_dimensions all{operators(), g};
  REQUIRE(all.node_count() == g.node_count());
  std::vector<std::uint32_t> cells;
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == operators().kind("lstm_cell")) {
      cells.push_back(all.kind(n));
    }
  }
  REQUIRE(cells.size() == 6);
  CHECK(std::count(cells.begin(), cells.end(), cells[0]) == 6);
  std::vector<std::uint32_t> kinds;
  for (const auto n : node_ids(g)) {
    CAPTURE(n.index());
    CHECK(all[n].op == g.operation(n));
    REQUIRE(all[n].inputs.size() == g.operands(n).size());
    for (std::size_t i = 0; i < all[n].inputs.size(); ++i) {
      CHECK(all[n].inputs[i].dims == g.type(g.operands(n)[i]).dims);
    }
    for (const auto m : node_ids(g)) {
      REQUIRE((all.kind(n) == all.kind(m)) == (all[n].op == all[m].op && all[n].inputs == all[m].inputs));
    }
    if (std::count(kinds.begin(), kinds.end(), all.kind(n)) == 0) {
      kinds.push_back(all.kind(n));
    }
  }
  CHECK(all.kind_count() == kinds.size());
  CHECK(all.kind_count() < g.node_count());
}

TEST_CASE("graph_dimensions finds values without samples and by sample and sums over all samples") {
  using parallel::sample_role;
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6});
  const auto w = b.weight("w", {6, 6});
  const auto of_weights = b.relu(w);
  const auto y = b.matmul(x, w);
  const auto sum = b.apply("reduce_sum", {y}, {{"axes", {0}}})[0];       // over samples
  const auto features = b.apply("reduce_sum", {y}, {{"axes", {1}}})[0];  // of each sample
  const auto root = b.relu(sum);
  const auto before = b.add(sum, y);
  const auto behind = b.add(y, sum);
  const auto gathered = b.matmul(b.weight("v", {3, 4}), y);  // rows of the product are sums over samples
  const auto g = std::move(b).finish({of_weights, features, root, before, behind, gathered});
  const parallel::graph_dimensions all{operators(), g};
  const auto role = [&](value_id v) { return all.role(g.producer(v)); };
  CHECK(role(x) == sample_role::by_sample);
  CHECK(role(w) == sample_role::apart);
  CHECK(role(of_weights) == sample_role::apart);
  CHECK(role(y) == sample_role::by_sample);
  CHECK(role(sum) == sample_role::of_all);
  CHECK(role(features) == sample_role::by_sample);
  CHECK(role(root) == sample_role::of_all);
  CHECK(role(before) == sample_role::by_sample);
  CHECK(role(behind) == sample_role::by_sample);
  CHECK(role(gathered) == sample_role::of_all);
  for (const auto n : node_ids(g)) {
    CAPTURE(n.index());
    const bool is_sum = n == g.producer(sum) || n == g.producer(gathered);
    REQUIRE(all.sum_over_samples(n).has_value() == is_sum);
    if (is_sum) {  // the summed index has as many positions as there are samples
      CHECK(all[n].reductions.at(all.sum_over_samples(n).value()).size == 4);
    }
  }
}

TEST_CASE("only constants that depend on a weight are parameters of the operators of a graph") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6});
  const auto by_weight = b.matmul(x, b.relu(b.weight("w", {6, 8})));
  const auto by_constant = b.matmul(x, b.relu(b.constant("c", {6, 8})));
  const auto g = std::move(b).finish({by_weight, by_constant});
  const parallel::graph_dimensions all{operators(), g};
  const auto columns = [&](value_id v) { return all[g.producer(v)].divisible.at(1).kind; };
  CHECK(columns(by_weight) == parallelism::parameter);
  CHECK(columns(by_constant) == parallelism::attribute);
}

TEST_CASE("dimension_cache keeps one entry per operator and operand types; a copy starts empty") {
  const auto product = operators().make_operation("matmul");
  const std::vector<tensor_type> inputs{activation({8, 12}), weight({12, 20})};
  parallel::dimension_cache cache;
  const auto first = cache.of(operators(), product, inputs);
  REQUIRE(first != nullptr);
  CHECK(first->divisible.at(1).kind == parallelism::parameter);
  CHECK(cache.of(operators(), product, inputs).get() == first.get());
  const std::vector<tensor_type> activations{activation({8, 12}), activation({12, 20})};
  const auto other = cache.of(operators(), product, activations);
  REQUIRE(other != nullptr);
  CHECK(other->divisible.at(1).kind == parallelism::attribute);
  const auto activated = operators().make_operation("matmul", {{"activation", "relu"}});
  const auto third = cache.of(operators(), activated, inputs);
  REQUIRE(third != nullptr);
  CHECK(third->op == activated);
  CHECK(third->groups.empty());  // relu is not linear
  const std::vector<tensor_type> one{activation({8, 12})};
  for (int i = 0; i < 2; ++i) {
    CHECK(cache.of(operators(), product, one).get() == nullptr);
  }
  auto copy = cache;
  const auto again = copy.of(operators(), product, inputs);
  REQUIRE(again != nullptr);
  CHECK(again.get() != first.get());
  CHECK(cache.of(operators(), product, inputs).get() == first.get());
  copy = cache;
  CHECK(copy.of(operators(), product, inputs).get() != again.get());
}

}  // namespace tests_of_dimensions
