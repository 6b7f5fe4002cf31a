#include <unity/parallel/strategies/strategies_tensor.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <vector>

#include <unity/hardware/presets.hpp>

#include "../operators.hpp"
#include "../transformer.hpp"

namespace tests_of_strategies_tensor {

using namespace unity;
using hardware::device_id;

namespace {

struct subject {
  tensor::tensor_graph graph;
  parallel::graph_dimensions dimensions;
  hardware::machine on = hardware::preset("dgx_a100:2x4");
  parallel::strategy strategy;

  explicit subject(std::int64_t batch)
      : graph{parallel::test::transformer{parallel::test::operators(), {batch, 1, 32, 4, 8, 16}}.build()},
        dimensions{parallel::test::operators(), graph},
        strategy{parallel::data_tensor_parallel(graph, dimensions, on.network, 4)} {}

  // The degrees of the first operator of that name.
  [[nodiscard]] parallel::degree_list degrees(const char* name) const {
    for (const auto n : node_ids(graph)) {
      if (graph.operation(n).kind == parallel::test::operators().kind(name)) {
        return strategy[n.index()].degrees;
      }
    }
    return {};
  }
};

}  // namespace

TEST_CASE("data_tensor_parallel divides samples among groups and each tensor within a group") {
  subject x{2};
  CHECK_NOTHROW(parallel::check(parallel::test::operators(), {x.graph, x.strategy, x.on}));
  CHECK(x.degrees("matmul") == parallel::degree_list{2, 1, 4});
  CHECK(x.degrees("layer_norm") == parallel::degree_list{2, 4});
  CHECK(x.degrees("softmax") == parallel::degree_list{2, 4, 1});
  CHECK(x.degrees("gelu") == parallel::degree_list{2, 1, 4});
  for (std::size_t n = 0; n < x.graph.node_count(); ++n) {
    const auto& c = x.strategy[n];
    REQUIRE((c.devices.empty() || c.task_count() == 8));
    for (std::size_t t = 0; t < c.task_count(); ++t) {
      REQUIRE(c.devices[t] == device_id{t});
    }
  }
}

TEST_CASE("data_tensor_parallel keeps a single sample in the first group") {
  subject x{1};
  CHECK_NOTHROW(parallel::check(parallel::test::operators(), {x.graph, x.strategy, x.on}));
  // As for several samples, without the degree of the samples.
  CHECK(x.degrees("matmul") == parallel::degree_list{1, 4});
  CHECK(x.degrees("layer_norm") == parallel::degree_list{4});
  CHECK(x.degrees("softmax") == parallel::degree_list{4, 1});
  CHECK(x.degrees("gelu") == parallel::degree_list{1, 4});
  std::size_t operators = 0;
  for (std::size_t n = 0; n < x.graph.node_count(); ++n) {
    const auto& c = x.strategy[n];
    REQUIRE(c.devices.empty() == x.graph.operands(node_id{n}).empty());
    REQUIRE((c.devices.empty() || c.task_count() == 4));
    for (std::size_t t = 0; t < c.task_count(); ++t) {
      REQUIRE(c.devices[t] == device_id{t});
    }
    operators += c.devices.empty() ? 0 : 1;
  }
  CHECK(operators > 20);
}

}  // namespace tests_of_strategies_tensor
