#include <unity/parallel/strategies/strategy.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/hardware/presets.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../devices_of.hpp"
#include "../operators.hpp"

namespace tests_of_strategy {

using namespace unity;
using hardware::device_id;
using parallel::configuration;
using parallel::test::operators;

namespace {

struct subject {
  tensor::tensor_graph graph;
  parallel::graph_dimensions dimensions;
  unity::hardware::machine machine;

  subject(std::string_view model, std::string_view on)
      : graph{tensor::zoo::build(operators(), model)}, dimensions{operators(), graph}, machine{hardware::preset(on)} {}

  [[nodiscard]] std::vector<configuration> of(const parallel::strategy& s, std::string_view kind) const {
    std::vector<configuration> all;
    for (const auto n : node_ids(graph)) {
      if (graph.operation(n).kind == operators().kind(kind)) {
        all.push_back(s[n.index()]);
      }
    }
    return all;
  }
};

}  // namespace

TEST_CASE("data_parallel divides samples among all devices or as many as divide them") {
  const subject x{"zoo:lenet?batch=6", "p100:1x4"};
  const auto s = parallel::data_parallel(x.dimensions, x.machine.network);
  check(operators(), x.dimensions, s, 4);
  for (const auto& c : x.of(s, "conv2d")) {
    CHECK(c.degrees[0] == 3);
    CHECK(parallel::test::devices_of(c) == std::vector<std::size_t>{0, 1, 2});
  }
  const subject y{"zoo:lenet?batch=8", "p100:1x4"};
  for (const auto& c : y.of(parallel::data_parallel(y.dimensions, y.machine.network), "linear")) {
    CHECK(parallel::test::devices_of(c) == std::vector<std::size_t>{0, 1, 2, 3});
  }
}

TEST_CASE("steps that share weights are one layer; model_parallel puts a layer on one device") {
  const subject x{"zoo:rnnlm?batch=4&hidden=8&vocab=16&seq=3", "p100:1x4"};
  const auto layers = parallel::layers_of(operators(), x.graph);
  CHECK(layers.count == 4);  // embedding, two cells, classifier
  const auto s = parallel::model_parallel(operators(), x.graph, x.dimensions, x.machine.network);
  check(operators(), x.dimensions, s, 4);
  const auto cells = x.of(s, "lstm_cell");
  REQUIRE(cells.size() == 6);
  CHECK(cells[0] == cells[2]);
  CHECK(cells[1] == cells[3]);
  CHECK(cells[0].task_count() == 1);
  std::set<std::size_t> used;
  for (const auto& c : s) {
    for (const auto d : c.devices) {
      used.insert(d.index());
    }
  }
  CHECK(used.size() > 1);
}

TEST_CASE("model_parallel gives each device consecutive layers with about equal work") {
  const auto devices_on = [](tensor::tensor_graph g, const char* machine) {
    const parallel::graph_dimensions all{operators(), g};
    std::vector<std::size_t> devices;
    for (const auto& c : parallel::model_parallel(operators(), g, all, hardware::preset(machine).network)) {
      const auto on = parallel::test::devices_of(c);
      devices.insert(devices.end(), on.begin(), on.end());
    }
    return devices;
  };
  // Products of 64 x 64 matrices, one after the other; the first one sums over `inner` numbers.
  const auto chain = [](std::int64_t inner, int products) {
    tensor::builder b{operators()};
    auto x = b.matmul(b.input("x", {64, inner}), b.weight("w", {inner, 64}));
    for (int k = 1; k < products; ++k) {
      x = b.matmul(x, b.weight("w" + std::to_string(k), {64, 64}));
    }
    return std::move(b).finish({x});
  };
  using numbers = std::vector<std::size_t>;
  CHECK(devices_on(chain(64, 8), "p100:1x4") == numbers{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(devices_on(chain(64, 4), "p100:2x2") == numbers{0, 1, 2, 3});
  // The first product takes as long as the other six.
  CHECK(devices_on(chain(6 * 64, 7), "p100:1x2") == numbers{0, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("the expert strategy of alexnet divides dense layers by their parameters") {
  const subject x{"zoo:alexnet?batch=64", "p100:1x4"};
  const auto s = parallel::expert(operators(), x.graph, x.dimensions, x.machine.network);
  check(operators(), x.dimensions, s, 4);
  for (const auto& c : x.of(s, "conv2d")) {
    CHECK(c.degrees[0] == 4);
  }
  for (const auto& c : x.of(s, "linear")) {
    CHECK(c.degrees == parallel::degree_list{1, 4});
  }
  CHECK(x.of(s, "softmax")[0].degrees == parallel::degree_list{4});
}

TEST_CASE("the expert strategy of rnnlm divides samples among nodes and layers within a node") {
  const subject x{"zoo:rnnlm?batch=8&hidden=64&vocab=64&seq=3", "p100:2x4"};
  const auto s = parallel::expert(operators(), x.graph, x.dimensions, x.machine.network);
  check(operators(), x.dimensions, s, 8);
  for (const auto& c : x.of(s, "lstm_cell")) {
    REQUIRE(c.task_count() == 2);
    CHECK(c.degrees == parallel::degree_list{2, 1});
    CHECK(c.devices[1].index() == c.devices[0].index() + 4);
  }
  const auto cells = x.of(s, "lstm_cell");
  CHECK(cells[0].devices[0] != cells[1].devices[0]);
}

TEST_CASE("random strategies are valid and determined by the seed") {
  for (const auto* model :
       {"zoo:lenet?batch=12", "zoo:nmt?batch=4&hidden=8&vocab=16&seq=2", "zoo:inception_v3?batch=2"}) {
    const subject x{model, "p100:2x4"};
    std::set<std::int64_t> degrees;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      INFO(model << " seed " << seed);
      random_engine first{seed};
      random_engine second{seed};
      const auto s = parallel::random_strategy(x.dimensions, 8, first);
      CHECK_NOTHROW(check(operators(), x.dimensions, s, 8));
      CHECK(s == parallel::random_strategy(x.dimensions, 8, second));
      for (const auto& c : s) {
        degrees.insert(static_cast<std::int64_t>(c.task_count()));
      }
    }
    CHECK(degrees.size() > 3);
  }
}

}  // namespace tests_of_strategy
