#include <unity/tensor/source_values.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_balanced_values {

namespace {

using unity::tensor::balanced_values;
using unity::tensor::dense;
using unity::tensor::operation;
using unity::tensor::tensor_graph;
using unity::tensor::tensor_type;
using unity::test::standard::operators;

double mean_square(const dense<double>& x) {
  double sum = 0;
  for (const auto v : x.data) {
    sum += v * v;
  }
  return sum / static_cast<double>(x.data.size());
}

}  // namespace

TEST_CASE("balanced_values give deep models moderate outputs that depend on the seed", "[balanced_values]") {
  for (const char* text :
       {"zoo:densenet121?image=29", "zoo:squeezenet1_1?image=25", "zoo:nasrnn?hidden=16&seq=3",
        "zoo:bert?layers=3&hidden=24&heads=2&seq=6&vocab=9", "zoo:mlp?layers=12&hidden=24&batch=2"}) {
    CAPTURE(text);
    const auto g = unity::tensor::zoo::build(operators(), text);
    const auto run = [&](std::uint64_t seed) {
      const auto values = balanced_values(operators(), g, seed);
      const auto given = [&](const operation& op, const tensor_type&) -> std::optional<dense<double>> {
        const auto named = operators().definition_of(op.kind).source != unity::tensor::source_kind::none;
        return named ? values(operators().read(op).word("name")) : std::nullopt;
      };
      return unity::tensor::evaluate<double>(operators(), g, given)[0];
    };
    const auto size = mean_square(run(1));
    CHECK(size > 1e-4);
    CHECK(size < 1e4);
    CHECK(run(1) == run(1));
    CHECK_FALSE(run(1) == run(2));
  }
}

TEST_CASE("balanced_values scale weights by fan-in and fit row numbers and operands of sqrt", "[balanced_values]") {
  unity::tensor::builder b{operators()};
  const auto x = b.input("x", {2, 6, 9, 9});
  const auto y = b.conv2d(x, b.weight("w", {64, 6, 3, 3}), b.weight("bias", {64}));
  const auto z = b.linear(b.reshape(b.global_average_pool(y), {2, 64}), b.reshape(b.weight("v", {128, 32}), {64, 64}));
  const auto rows = b.embedding(b.weight("table", {3, 4}), b.input("ids", {500}, unity::tensor::dtype::int64));
  const auto root = b.apply("sqrt", {b.input("positive", {100})})[0];
  const auto g = std::move(b).finish({z, rows, root});
  const auto values = balanced_values(operators(), g, 5);
  CHECK(mean_square(*values("w")) == Approx(2.0 / 54).epsilon(0.1));
  CHECK(mean_square(*values("v")) == Approx(2.0 / 64).epsilon(0.1));
  CHECK(mean_square(*values("x")) == Approx(1.0 / 3).epsilon(0.1));
  CHECK(mean_square(*values("bias")) < 1.0 / 16);
  const auto ids = *values("ids");
  CHECK(*std::min_element(ids.data.begin(), ids.data.end()) == 0);
  CHECK(*std::max_element(ids.data.begin(), ids.data.end()) == 2);
  const auto positive = *values("positive");
  CHECK(*std::min_element(positive.data.begin(), positive.data.end()) >= 0.5);
  CHECK_FALSE(values("nothing").has_value());
}

TEST_CASE("balanced_values derive ranges of sources from kernels rather than operator names", "[balanced_values]") {
  using namespace unity;
  tensor::algebra a;
  for (auto d : tensor::standard_operators()) {
    auto& name = d.signature.name;
    name = name == "embedding" ? "rows_of" : name == "log" ? "ln" : name;
    a.add(std::move(d));
  }
  tensor::tensor_graph g;
  const auto add = [&](const tensor::operation& op, std::vector<value_id> operands) {
    std::vector<tensor::tensor_type> types;
    for (const auto v : operands) {
      types.push_back(g.type(v));
    }
    return g.results(g.add_node(op, operands, a.infer(op, types).value()))[0];
  };
  const auto source = [&](const char* kind, const char* name, const char* element, tensor::shape dims) {
    return add(a.make_operation(kind, {{"name", name}, {"element", element}, {"dims", dims}}), {});
  };
  const auto table = source("weight", "table", "float32", {100, 2});
  const auto ids = source("input", "ids", "int64", {400});
  const auto x = source("input", "x", "float32", {400});
  g.set_outputs(std::vector{add(a.make_operation("rows_of"), {table, ids}), add(a.make_operation("ln"), {x})});
  const auto values = tensor::balanced_values(a, g, 1);
  const auto numbers = values("ids")->data;
  CHECK(*std::max_element(numbers.begin(), numbers.end()) > 50);
  CHECK(*std::max_element(numbers.begin(), numbers.end()) < 100);
  const auto logged = values("x")->data;
  CHECK(*std::min_element(logged.begin(), logged.end()) > 0);
}

}  // namespace tests_of_balanced_values
