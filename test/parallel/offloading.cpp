// Which results can be offloaded to the host.
#include <unity/parallel/offloading.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/message_of.hpp"
#include "operators.hpp"

namespace tests_of_offloading_lists {

using namespace unity;
using parallel::test::operators;

namespace {

// Nodes 0 to 5: x, v, x v, relu, w, and the product with w, which is the output.
tensor::tensor_graph two_products() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {64, 96});
  const auto v = b.weight("v", {96, 640});
  const auto first = b.relu(b.matmul(x, v));
  const auto w = b.weight("w", {640, 8});
  return std::move(b).finish({b.matmul(first, w)});
}

}  // namespace

TEST_CASE("offloaded_results lists kept inner operators: all or only those that products need") {
  const auto g = two_products();
  CHECK(parallel::offloaded_results(operators(), g, {}, false) ==
        parallel::offloading{false, false, true, true, false, false});
  // relu's backward pass reads relu's result; no backward pass reads the product.
  CHECK(parallel::offloaded_results(operators(), g, {}, true) ==
        parallel::offloading{false, false, false, true, false, false});
  CHECK(parallel::offloaded_results(operators(), g, {false, false, false, true, false, false}, true) ==
        parallel::offloading{false, false, true, false, false, false});
  CHECK(parallel::offloaded_results(operators(), g, {false, false, false, true, false, false}, false) ==
        parallel::offloading{false, false, true, false, false, false});
}

TEST_CASE("product-only offloading stores the results that the backward pass reads") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6, 8});
  const auto q = b.weight("q", {8, 8});
  const auto w = b.weight("w", {8, 3});
  const auto k = b.weight("k", {8, 8});
  const auto keys = b.transpose(b.matmul(x, k), {0, 2, 1});
  const auto shares = b.softmax(b.matmul(b.matmul(x, q), keys), 2);
  const auto sum = b.add(b.matmul(shares, x), x);
  const auto g = std::move(b).finish({b.matmul(b.gelu(sum), w)});
  const auto o = parallel::offloaded_results(operators(), g, {}, true);
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < o.size(); ++i) {
    if (o[i]) {
      kinds.emplace_back(operators().signature(g.operation(node_id{i}).kind).name);
    }
  }
  // The backward pass reads the product with q, the transposed product with k, the softmax (not the scores), and the
  // sum before gelu (not its operands). gelu's result can be recomputed from a value that is read.
  CHECK(kinds == std::vector<std::string>{"transpose", "matmul", "softmax", "add"});
}

TEST_CASE("an invalid offloading is rejected in one line with the reason") {
  const auto g = two_products();
  const auto wrong = [&](const parallel::offloading& o, const parallel::recomputation& r = {}) {
    return test::message_of([&] { parallel::check(operators(), g, o, r); });
  };
  CHECK(wrong({}).empty());
  CHECK(wrong({false, false, true, true, false, false}).empty());
  CHECK(wrong({true}) == "offloading: of 1 nodes; expected of the 6 that the graph has");
  CHECK(wrong({true, false, false, false, false, false}) ==
        "offloading, node 0 (input): what has no operands; expected an operator whose results nobody but operators "
        "reads");
  CHECK(wrong({false, false, false, false, false, true}) ==
        "offloading, node 5 (matmul): an output of the graph, which stays; expected an operator whose results nobody "
        "but operators reads");
  CHECK(wrong({false, false, true, false, false, false}, {false, false, true, false, false, false}) ==
        "offloading, node 2 (matmul): an operator that is recomputed; expected results that are kept");
  CHECK(test::message_of([] {
          parallel::check(parallel::offloading{false, true}, parallel::pipeline{2, {0, 1}, true});
        }) == "pipeline: delayed updates, and results that are offloaded; expected one of the two");
}

TEST_CASE("offloading without a host rate of a device is rejected in one line") {
  auto m = hardware::preset("dgx_a100:1x2");
  CHECK(test::message_of([&] { parallel::expect_host_rates(m); }).empty());
  CHECK(m.devices[0].host_bytes_per_second == 25.2e9);
  m.devices[0].host_bytes_per_second = 0;
  CHECK(test::message_of([&] { parallel::expect_host_rates(m); }) ==
        "machine dgx_a100:1x2, device n0/gpu0: no rate between it and its host; expected host_bytes_per_second, for a "
        "plan that offloads results");
}

}  // namespace tests_of_offloading_lists
