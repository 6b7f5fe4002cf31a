#include <unity/parallel/strategies/units.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_units {

using namespace unity;
using parallel::configuration;
using parallel::following;
using parallel::operator_unit;
using parallel::test::dimensions;
using parallel::test::operators;
using parallel::test::type;

namespace {

struct subject {
  tensor::tensor_graph graph;
  parallel::graph_dimensions dimensions;
  std::vector<operator_unit> units;
  std::vector<std::size_t> unit_of;

  explicit subject(tensor::tensor_graph g)
      : graph{std::move(g)},
        dimensions{operators(), graph},
        units{units_of(operators(), graph, dimensions)},
        unit_of(graph.node_count()) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (const auto n : units[u].nodes) {
        unit_of[n.index()] = u;
      }
    }
  }
  explicit subject(std::string_view model) : subject{tensor::zoo::build(operators(), model)} {}

  [[nodiscard]] std::vector<node_id> of(std::string_view kind) const {
    std::vector<node_id> all;
    for (const auto n : node_ids(graph)) {
      if (graph.operation(n).kind == operators().kind(kind)) {
        all.push_back(n);
      }
    }
    return all;
  }
};

configuration on(std::initializer_list<std::int64_t> degrees, std::initializer_list<std::size_t> devices) {
  configuration c;
  for (const auto d : degrees) {
    c.degrees.push_back(d);
  }
  for (const auto d : devices) {
    c.devices.push_back(hardware::device_id{d});
  }
  return c;
}

constexpr std::string_view models[] = {"zoo:lenet",
                                       "zoo:alexnet?batch=24",
                                       "zoo:resnet50?batch=6",
                                       "zoo:resnext50?batch=4",
                                       "zoo:inception_v3?batch=8",
                                       "zoo:squeezenet1_1?batch=4",
                                       "zoo:nasnet_a?layers=1",
                                       "zoo:nasrnn?batch=4&seq=3",
                                       "zoo:bert?layers=2&batch=4",
                                       "zoo:gpt?layers=2&batch=4",
                                       "zoo:rnntc?seq=3&layers=2",
                                       "zoo:rnnlm?seq=3",
                                       "zoo:nmt?seq=3",
                                       "zoo:dlrm",
                                       "zoo:candle_uno?layers=2",
                                       "zoo:mlp"};

}  // namespace

TEST_CASE("units partition the operators; a unit's lead is of its most frequent kind") {
  for (const auto model : models) {
    CAPTURE(model);
    const subject x{model};
    std::vector<int> seen(x.graph.node_count());
    std::size_t before = 0;
    for (const auto& u : x.units) {
      REQUIRE(!u.nodes.empty());
      REQUIRE((&u == x.units.data() || u.nodes[0].index() > before));
      before = u.nodes[0].index();
      REQUIRE(std::is_sorted(u.nodes.begin(), u.nodes.end()));
      REQUIRE(std::count(u.nodes.begin(), u.nodes.end(), u.lead) == 1);
      std::map<std::uint32_t, std::size_t> kinds;
      for (const auto n : u.nodes) {
        ++seen[n.index()];
        ++kinds[x.dimensions.kind(n)];
      }
      for (const auto& [kind, count] : kinds) {
        REQUIRE(count <= kinds[x.dimensions.kind(u.lead)]);
      }
    }
    for (std::size_t n = 0; n < seen.size(); ++n) {
      REQUIRE(seen[n] == (x.graph.operands(node_id{n}).empty() ? 0 : 1));
    }
  }
}

TEST_CASE("steps of an unrolled layer are one unit; several layers are several units") {
  for (const auto* model : {"zoo:rnnlm?seq=5", "zoo:nmt?seq=4", "zoo:rnntc?seq=4"}) {
    CAPTURE(model);
    const subject x{model};
    std::map<std::size_t, std::set<std::size_t>> units_of_weight;
    for (const auto n : x.of("lstm_cell")) {
      for (const auto v : x.graph.operands(n)) {
        const auto from = x.graph.producer(v);
        if (x.graph.operation(from).kind == operators().kind("weight")) {
          units_of_weight[from.index()].insert(x.unit_of[n.index()]);
        }
      }
    }
    REQUIRE(units_of_weight.size() >= 3);
    std::set<std::size_t> units;
    for (const auto& [weight, all] : units_of_weight) {
      CAPTURE(weight);
      REQUIRE(all.size() == 1);
      units.insert(*all.begin());
    }
    // A layer has at most three weights (input, state, bias).
    REQUIRE(units.size() * 3 >= units_of_weight.size());
    REQUIRE(units.size() >= 2);
  }
}

TEST_CASE("a convolution with its batch norm and activation is one unit") {
  tensor::builder b{operators()};
  const auto layer = [&](value_id x, const std::string& name) {
    const auto c = b.conv2d(x, b.weight(name, {8, 8, 3, 3}), {.pads = {1, 1, 1, 1}});
    const auto w = [&](const char* what) { return b.weight(name + what, {8}); };
    const auto n = b.batch_norm(c, w("s"), w("b"), w("m"), w("v"));
    return b.relu(n);
  };
  const auto first = layer(b.input("x", {4, 8, 6, 6}), "one");
  const auto second = layer(first, "two");
  const subject x{std::move(b).finish({b.add(first, second)})};
  // The sum reads both branches, so it follows neither.
  REQUIRE(x.units.size() == 3);
  CHECK(x.units[0].nodes.size() == 3);
  CHECK(x.units[1].nodes.size() == 3);
  CHECK(x.units[2].nodes == x.of("add"));
  CHECK(x.units[0].lead == x.of("conv2d")[0]);
  CHECK(x.units[1].lead == x.of("conv2d")[1]);
}

TEST_CASE("operators that share a weight are one unit") {
  tensor::builder b{operators()};
  const auto w = b.weight("w", {8, 8});
  const auto x = b.input("x", {4, 8});
  const auto first = b.matmul(x, w);
  const auto other = b.matmul(b.input("y", {16, 8}), w);
  const auto apart = b.matmul(x, b.weight("v", {8, 8}));
  const subject s{std::move(b).finish({first, other, apart})};
  REQUIRE(s.units.size() == 2);
  CHECK(s.units[0].nodes.size() == 2);
  CHECK(s.units[1].nodes.size() == 1);
}

TEST_CASE("following takes equal degrees along equal dimensions and the same devices") {
  const auto lead = dimensions("matmul", {{"activation", "none"}}, {type({8, 6}), type({6, 12}, true)});
  const auto relu = dimensions("relu", {}, {type({8, 12})});
  CHECK(following(relu, lead, on({2, 2}, {3, 0, 2, 1})) == on({2, 2}, {3, 0, 2, 1}));
  CHECK(following(lead, lead, on({4, 1}, {0, 2, 4, 6})) == on({4, 1}, {0, 2, 4, 6}));
}

TEST_CASE("following with fewer dimensions takes the tasks along those that it has") {
  const auto lead = dimensions("matmul", {{"activation", "none"}}, {type({8, 6}), type({6, 12}, true)});
  // Softmax cannot be divided along its axis: four tasks divide samples instead of two by two.
  const auto softmax = dimensions("softmax", {{"axis", std::int64_t{1}}}, {type({8, 12})});
  CHECK(following(softmax, lead, on({2, 2}, {3, 0, 2, 1})) == on({4}, {3, 0, 2, 1}));
  // Two samples cannot make four tasks: uses the first device of each half.
  const auto small = dimensions("softmax", {{"axis", std::int64_t{1}}}, {type({2, 12})});
  CHECK(following(small, lead, on({2, 2}, {3, 0, 2, 1})) == on({2}, {3, 2}));
  const auto odd = dimensions("softmax", {{"axis", std::int64_t{1}}}, {type({7, 12})});
  CHECK(following(odd, lead, on({2, 2}, {3, 0, 2, 1})) == on({1}, {3}));
}

TEST_CASE("following a valid configuration is valid for each operator of a unit", "[law]") {
  std::size_t equal = 0;
  std::size_t fewer = 0;
  for (const auto model : models) {
    const subject x{model};
    for (const std::size_t devices : {4U, 6U, 16U}) {
      const parallel::placements blocks{x.dimensions, devices};
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        CAPTURE(model, devices, seed);
        random_engine random{seed};
        for (const auto& u : x.units) {
          const auto& lead = x.dimensions[u.lead];
          const auto c =
              seed % 2 == 0 ? blocks.sample(u.lead, random) : parallel::random_configuration(lead, devices, random);
          for (const auto n : u.nodes) {
            const auto& o = x.dimensions[n];
            const auto same = following(o, lead, c);
            CAPTURE(u.lead.index(), n.index());
            REQUIRE(why_not(o, same, devices) == "");
            REQUIRE(same.task_count() <= c.task_count());
            REQUIRE(c.task_count() % same.task_count() == 0);
            for (const auto d : same.devices) {
              REQUIRE(std::count(c.devices.begin(), c.devices.end(), d) > 0);
            }
            fewer += same.task_count() < c.task_count() ? 1 : 0;
            if (o.divisible == lead.divisible && why_not(o, c, devices).empty()) {
              REQUIRE(same == c);
              ++equal;
            }
          }
        }
      }
    }
  }
  CHECK(equal > 1000);
  CHECK(fewer > 0);
}

}  // namespace tests_of_units
