#include <unity/systems/roc/range_balancer.hpp>
#include <unity/systems/roc/range_simulation.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/generators.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "../support/message_of.hpp"

namespace tests_of_roc_ranges {

using namespace unity;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

gnn::csr_graph skewed(std::uint32_t scale, std::uint64_t edges) {
  return gnn::generate(gnn::rmat{scale, edges, 1}, {.both_directions = true, .self_edges = true, .distinct = true});
}

// The measured times of a part's layers: an unknown sum of features, with noise of up to 2%.
struct secret_costs {
  const gnn::vertex_feature_sums& sums;
  random_engine random{1};

  std::vector<systems::layer_seconds> of(const gnn::vertex_partition& p) {
    std::vector<systems::layer_seconds> all;
    for (std::size_t k = 0; k < p.parts(); ++k) {
      auto& layers = all.emplace_back();
      for (const auto width : {std::size_t{0}, std::size_t{1}}) {
        const auto x = sums.of(p.range(k), width);
        const auto exact = 2e-8 * static_cast<double>(x[0]) + (width == 0 ? 1e-8 : 4e-8) * static_cast<double>(x[1]);
        layers.push_back(exact * (0.98 + 0.04 * random.unit()));
      }
    }
    return all;
  }
};

double slowest(const std::vector<systems::layer_seconds>& parts) {
  double most = 0;
  for (const auto& p : parts) {
    most = std::max(most, std::accumulate(p.begin(), p.end(), 0.0));
  }
  return most;
}

TEST_CASE("range_balancer evens out ranges and predicts times within 5% after few iterations") {
  const auto g = skewed(12, 60000);
  const std::vector<std::uint32_t> widths{16, 8};
  const gnn::vertex_feature_sums sums{g, {8, 16}};
  secret_costs costs{sums};
  systems::range_balancer balancer{g, widths, std::vector<std::size_t>(4)};
  auto p = gnn::equal_vertices(g.vertices(), 4);
  REQUIRE_FALSE(balancer.better(p, {}));  // no measurements yet
  const auto before = slowest(costs.of(p));
  const gnn::repartition_rule rule{.least_gain = 0.01, .iterations = 100, .moving = {}};
  for (int i = 0; i < 10; ++i) {
    balancer.observe(p, costs.of(p));
    if (i >= 5) {
      for (const auto& part : balancer.last()) {
        REQUIRE(part.predicted == Approx(part.measured).epsilon(0.05));
      }
    }
    if (auto next = balancer.better(p, rule)) {
      p = *next;
    }
  }
  const auto after = costs.of(p);
  REQUIRE(slowest(after) < before / 1.3);
  double all = 0;
  for (const auto& part : after) {
    all += std::accumulate(part.begin(), part.end(), 0.0);
  }
  REQUIRE(slowest(after) < 1.05 * all / 4);
  // No gain justifies this cost of moving.
  const gnn::repartition_rule far{.least_gain = 0.01, .iterations = 1, .moving = {.seconds_each = 1e9}};
  REQUIRE_FALSE(balancer.better(gnn::equal_vertices(g.vertices(), 4), far));

  const auto other = skewed(11, 40000);
  const auto found = balancer.partition_of(other);
  const gnn::vertex_feature_sums of_other{other, {8, 16}};
  secret_costs there{of_other};
  REQUIRE(slowest(there.of(found)) < slowest(there.of(gnn::equal_vertices(other.vertices(), 4))));
}

// Fits for each part and layer, of which a training run on many ranks needs none until it divides the vertices, took
// longer than the training.
TEST_CASE("range_balancer observes iterations of many parts quickly") {
  constexpr std::size_t parts = 128;
  const auto g = skewed(10, 8000);
  systems::range_balancer balancer{g, std::vector<std::uint32_t>(8, 16), std::vector<std::size_t>(parts)};
  const auto p = gnn::equal_edges(g, parts);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 60; ++i) {
    balancer.observe(p, std::vector(parts, systems::layer_seconds(8, 1e-3)));
  }
  REQUIRE(balancer.last().size() == parts);
  REQUIRE(balancer.last().back().measured == Approx(8e-3));
  REQUIRE(balancer.partition_of(g).parts() == parts);
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});
}

struct training {
  gnn::vertex_dataset data{};
  systems::vertex_training what;

  explicit training(const gnn::csr_graph& g)
      : data{[&] {
          gnn::vertex_dataset d;
          d.graph = g;
          d.features = {8, std::vector<float>(g.vertices() * 8UL)};
          d.classes = 4;
          d.labels.assign(g.vertices(), 1);
          d.roles.assign(g.vertices(), gnn::vertex_role::train);
          return d;
        }()},
        what{data.graph, {data.features, data.labels, data.roles, data.classes}} {
    what.model.dropout = 0;
  }
};

TEST_CASE("a simulated epoch moves the ranks' remote rows and takes at least its slowest part") {
  const training t{skewed(10, 20000)};
  const auto m = hardware::preset("p100:1x4");
  const tensor::durations times = parallel::analytic_durations(operators(), m);
  const auto scales = systems::scales_of(t.what.model, t.what.graph);
  const auto p = gnn::equal_edges(t.what.graph, 4);
  const auto e = systems::simulate_epoch(operators(), m, times, t.what, scales, p);
  std::int64_t rows = 0;
  for (const auto& part : gnn::report(t.what.graph, p)) {
    rows += part.remote_sources;
  }
  // Rows of 8 columns (features, which need no cotangents), and of 4, forward and backward. float32.
  REQUIRE(e.exchanged.count() == rows * (8 + 4 + 4) * 4);
  REQUIRE(e.widths == std::vector<std::uint32_t>{8, 4});
  REQUIRE(to_seconds(e.takes) >= slowest(e.parts));
  const auto learned = systems::learn_simulated_partition(operators(), m, times, t.what, scales, 4);
  REQUIRE(systems::simulate_epoch(operators(), m, times, t.what, scales, learned).takes <= e.takes);
  CHECK(test::message_of([&] {
          static_cast<void>(
              systems::simulate_epoch(operators(), hardware::preset("p100:1x2"), times, t.what, scales, p));
        }) == "machine: 2 devices; expected one for each rank");
}

}  // namespace tests_of_roc_ranges
