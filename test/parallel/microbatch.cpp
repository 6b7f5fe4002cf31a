// A graph on a part of its samples computes that part of the results.

#include <unity/parallel/pipeline.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "operators.hpp"
#include "random_model.hpp"

namespace tests_of_microbatch {

using namespace unity;
using parallel::test::operators;

namespace {

std::optional<tensor::tensor_graph> part_of(const tensor::tensor_graph& g, std::int64_t count) {
  return parallel::microbatch(operators(), g, parallel::graph_dimensions{operators(), g}, count);
}

using values = tensor::dense<tensor::modular61>;

// Part k of `count`, along the one dimension in which `part` is smaller than the whole.
values cut(const values& whole, const tensor::shape& part, std::int64_t k, std::int64_t count) {
  std::size_t axis = 0;
  while (axis < part.size() && whole.dims[axis] == part[axis]) {
    ++axis;
  }
  REQUIRE(axis < part.size());
  REQUIRE(whole.dims[axis] == count * part[axis]);
  std::size_t inner = 1;
  for (auto d = axis; d < part.size(); ++d) {
    inner *= static_cast<std::size_t>(part[d]);
  }
  values cut{part};
  for (std::size_t i = 0; i < cut.data.size(); ++i) {
    const auto block = i / inner * static_cast<std::size_t>(count) + static_cast<std::size_t>(k);
    cut.data[i] = whole.data[block * inner + i % inner];
  }
  return cut;
}

// Values of a source of the graph on all samples.
values source(const tensor::operation& op, const tensor::tensor_type& type, std::uint64_t seed) {
  const auto kind = operators().definition_of(op.kind).source;
  return tensor::arbitrary_source<tensor::modular61>(operators().read(op).word("name"), type, kind, seed);
}

// Runs each part on its samples and compares with the whole.
void check_parts(const tensor::tensor_graph& g, std::int64_t count, std::uint64_t seed) {
  const auto part = part_of(g, count);
  REQUIRE(part);
  REQUIRE(part->node_count() == g.node_count());
  const auto whole = tensor::evaluate<tensor::modular61>(operators(), g, seed);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto provider = [&](const tensor::operation& op, const tensor::tensor_type& type) -> std::optional<values> {
      if (operators().signature(op.kind).name != "input") {
        return std::nullopt;
      }
      const auto name = operators().read(op).word("name");
      for (const auto n : node_ids(g)) {
        const auto& from = g.operation(n);
        if (from.kind == op.kind && operators().read(from).word("name") == name) {
          const auto& full = g.type(g.results(n)[0]);
          const auto all = source(from, full, seed);
          return full.dims == type.dims ? all : cut(all, type.dims, k, count);
        }
      }
      return std::nullopt;
    };
    const auto found = tensor::evaluate<tensor::modular61>(operators(), *part, provider, seed);
    REQUIRE(found.size() == whole.size());
    for (std::size_t o = 0; o < found.size(); ++o) {
      REQUIRE(found[o] == cut(whole[o], found[o].dims, k, count));
    }
  }
}

}  // namespace

TEST_CASE("micro-batches of small zoo models compute the matching slices of the results") {
  const auto* const model =
      GENERATE("zoo:mlp?form=fig1&batch=4", "zoo:bert?form=ae&layers=1&hidden=8&heads=2&seq=3&batch=4",
               "zoo:gpt?layers=1&hidden=8&heads=2&seq=3&vocab=5&batch=4",
               "zoo:gpt?attention=flash&layers=1&hidden=8&heads=2&seq=3&vocab=5&batch=4",
               "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=5&batch=4",
               "zoo:gpt?attention=flash&layers=1&hidden=8&heads=2&seq=4&vocab=5&batch=4",
               "zoo:embedding_bag?batch=8&vocab=6&hidden=4&seq=2");
  const auto g = tensor::zoo::build(operators(), model);
  CAPTURE(model);
  const auto samples = parallel::sample_count(operators(), g);
  CHECK(samples > 0);
  CHECK(samples % 4 == 0);
  check_parts(g, 2, 7);
  check_parts(g, 4, 8);
}

TEST_CASE("micro-batches of random models compute the matching slices of the results", "[law]") {
  std::size_t divided = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = parallel::test::random_model(random, 1 + random.below(6));
    if (part_of(g, 2)) {
      check_parts(g, 2, seed);
      ++divided;
    }
  }
  CHECK(divided >= 20);
}

TEST_CASE("sample_count is the first size of the first output if an input has the same, else 0") {
  const auto count = [](const auto& outputs_of) {
    tensor::builder b{operators()};
    const auto outputs = outputs_of(b);
    return parallel::sample_count(operators(), std::move(b).finish(outputs));
  };
  using values_of = std::vector<value_id>;
  CHECK(count([](tensor::builder& b) { return values_of{b.matmul(b.input("x", {4, 6}), b.weight("w", {6, 8}))}; }) ==
        4);
  // The first input has another size.
  CHECK(count([](tensor::builder& b) {
          const auto table = b.input("table", {6, 8});
          return values_of{b.matmul(b.input("x", {4, 6}), table)};
        }) == 4);
  // The second output has another size.
  CHECK(count([](tensor::builder& b) {
          const auto x = b.input("x", {4, 6});
          return values_of{b.relu(x), b.transpose(x, {1, 0})};
        }) == 4);
  CHECK(count([](tensor::builder& b) { return values_of{b.transpose(b.input("x", {4, 6}), {1, 0})}; }) == 0);
  CHECK(count([](tensor::builder& b) { return values_of{b.relu(b.weight("w", {4, 6}))}; }) == 0);
  CHECK(count([](tensor::builder& b) {
          static_cast<void>(b.input("x", {3, 6}));
          return values_of{b.relu(b.weight("w", {4, 6}))};
        }) == 0);
}

TEST_CASE("inputs of as many rows as there are samples stay whole if their rows are not samples") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  const auto table = b.input("table", {4, 4});
  const auto labels = b.input("labels", {4, 4});
  const auto unused = b.input("unused", {4, 4});
  const auto y = b.matmul(x, table);
  const auto z = b.relu(labels);
  const auto g = std::move(b).finish({y, z});
  const auto found = parallel::sample_inputs(operators(), g, parallel::graph_dimensions{operators(), g});
  CHECK(found[x.index()]);
  CHECK_FALSE(found[table.index()]);
  CHECK(found[labels.index()]);
  CHECK_FALSE(found[unused.index()]);
  CHECK_FALSE(found[y.index()]);
  check_parts(g, 2, 9);
}

TEST_CASE("a graph has no micro-batch if its samples cannot be divided") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6});
  SECTION("a sum over samples") { CHECK_FALSE(part_of(std::move(b).finish({b.matmul(b.transpose(x, {1, 0}), x)}), 2)); }
  SECTION("a count that does not divide the samples") { CHECK_FALSE(part_of(std::move(b).finish({b.relu(x)}), 3)); }
  SECTION("no samples") { CHECK_FALSE(part_of(std::move(b).finish({b.relu(b.weight("w", {3, 4}))}), 2)); }
  SECTION("one micro-batch is the whole batch") {
    CHECK(part_of(std::move(b).finish({b.matmul(b.transpose(x, {1, 0}), x)}), 1));
  }
}

TEST_CASE("a strategy keeps its degrees for a micro-batch of one sample") {
  tensor::builder b{operators()};
  const auto y = b.relu(b.matmul(b.input("x", {4, 6}), b.weight("w", {6, 8})));
  const auto g = std::move(b).finish({y});
  const parallel::graph_dimensions whole{operators(), g};
  const parallel::graph_dimensions part{operators(), part_of(g, 4).value()};
  const auto devices_of = [](std::size_t count) {
    decltype(parallel::configuration::devices) all;
    for (std::size_t d = 0; d < count; ++d) {
      all.push_back(hardware::device_id{d});
    }
    return all;
  };
  parallel::strategy s(g.node_count());
  s[2] = {{1, 2}, devices_of(4), {2}};
  s[3] = {{1, 4}, devices_of(4)};
  check(operators(), whole, s, 4);
  const auto of_part = parallel::strategy_of_microbatch(whole, part, s);
  CHECK(of_part[0] == parallel::configuration{});
  CHECK(of_part[2] == parallel::configuration{{2}, devices_of(4), {2}});
  CHECK(of_part[3] == parallel::configuration{{4}, devices_of(4)});
  check(operators(), part, of_part, 4);
  CHECK(parallel::strategy_of_microbatch(whole, parallel::graph_dimensions{operators(), part_of(g, 2).value()}, s) ==
        s);
  s[3] = {{4, 1}, devices_of(4)};
  CHECK_THROWS_WITH(parallel::strategy_of_microbatch(whole, part, s),
                    Catch::Contains("node 3: degree 4 of dimension 0, of which a micro-batch has one element"));
}

TEST_CASE("a micro-batch divides the samples and keeps the shapes of weights") {
  tensor::builder b{operators()};
  const auto y = b.matmul(b.input("x", {4, 6}), b.relu(b.weight("w", {6, 8})));
  const auto part = part_of(std::move(b).finish({y}), 4).value();
  CHECK(part.type(part.outputs()[0]).dims == tensor::shape{1, 8});
  std::size_t weights = 0;
  for (const auto n : node_ids(part)) {
    if (operators().signature(part.operation(n).kind).name == "weight") {
      CHECK(part.type(part.results(n)[0]).dims == tensor::shape{6, 8});
      ++weights;
    }
  }
  CHECK(weights == 1);
}

}  // namespace tests_of_microbatch
