#include <unity/systems/roc/vertex_trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "../gnn/random_graphs.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "plain_vertex_model.hpp"

namespace tests_of_roc_training {

using namespace unity;
using systems::vertex_layer;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

gnn::vertex_dataset random_data(random_engine& random, gnn::vertex_id vertices, std::size_t edges, std::size_t columns,
                                std::int32_t classes) {
  gnn::vertex_dataset data;
  data.graph = gnn::from_edges(vertices, test::random_edges(random, vertices, edges));
  data.features.columns = columns;
  for (std::size_t i = 0; i < vertices * columns; ++i) {
    data.features.values.push_back(static_cast<float>(2 * random.unit() - 1));
  }
  data.classes = classes;
  for (gnn::vertex_id v = 0; v < vertices; ++v) {
    data.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
    data.roles.push_back(static_cast<gnn::vertex_role>(v == 0 ? 1 : random.below(4)));
  }
  return data;
}

systems::vertex_training training_on(const gnn::vertex_dataset& data, const systems::vertex_model& m) {
  systems::vertex_training t{data.graph, {data.features, data.labels, data.roles, data.classes}};
  t.model = m;
  return t;
}

struct result {
  std::vector<double> losses{};
  std::vector<std::vector<double>> weights{};  // before and after the steps
  std::vector<std::vector<double>> first{};
  std::int64_t sent = 0;  // elements sent by all ranks
  systems::vertex_accuracy accuracy{};
};

template <class Trainer>
std::vector<std::vector<double>> weights_of(Trainer& t) {
  std::vector<std::vector<double>> all;
  for (const auto& w : t.program().weights) {
    std::vector<std::byte> bytes(t.executor().size_of(w.weight.value));
    t.executor().read(w.weight.value, bytes);
    all.push_back(backend::decode<double>(bytes.data(), t.program().graph.type(w.weight.value)).data);
  }
  return all;
}

// next: partition to use after the first step.
result trained(const systems::vertex_training& t, const gnn::vertex_partition& p, std::uint64_t steps,
               const std::optional<gnn::vertex_partition>& next = {}) {
  result r;
  std::mutex lock;
  backend::run_local(static_cast<int>(p.parts()), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    systems::vertex_trainer rank{b, operators(), t, systems::scales_of(t.model, t.graph), world, p};
    auto first = weights_of(rank);
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < steps; ++s) {
      losses.push_back(rank.step(s));
      if (s == 0 && next) {
        rank.divide(*next);
      }
    }
    auto after = weights_of(rank);
    const auto accuracy = rank.accuracy();
    REQUIRE(weights_of(rank) == after);
    const std::scoped_lock guard{lock};
    r.sent += rank.halo_bytes();
    if (world.rank() == 0) {
      r.losses = std::move(losses);
      r.first = std::move(first);
      r.weights = std::move(after);
      r.accuracy = accuracy;
    }
  });
  return r;
}

void require_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

systems::vertex_model small_model(vertex_layer layer, double dropout) {
  systems::vertex_model m;
  m.layer = layer;
  m.hidden = 3;
  m.heads = 2;
  m.dropout = dropout;
  m.drawn = 1e9;
  m.element = tensor::dtype::float64;
  return m;
}

constexpr std::array all_layers{vertex_layer::gcn,      vertex_layer::gin,     vertex_layer::sage_mean,
                                vertex_layer::sage_max, vertex_layer::commnet, vertex_layer::fastgcn,
                                vertex_layer::gat};
constexpr auto apart = test::all_or<std::size_t>(1, 3);  // under sanitizers, every third case only

TEST_CASE("vertex model losses and gradients equal those of plain loops on 1 to 4 ranks") {
  for (const auto layer : all_layers) {
    for (std::uint64_t seed = 0; seed < test::cases(4); ++seed) {
      CAPTURE(static_cast<int>(layer), seed);
      random_engine random{seed};
      const auto data = random_data(random, 11, 40, seed % 2 == 0 ? 5 : 2, 3);
      auto t = training_on(data, small_model(layer, 0));
      t.seed = seed;
      t.rule = {parallel::optimizer::sgd, 1.0};
      const auto ranks = 1 + seed % 4;
      const auto found = trained(t, gnn::equal_vertices(data.graph.vertices(), ranks), 1);

      std::vector<test::table<test::dual>> weights;
      const auto range =
          gnn::range_graph_of(data.graph, gnn::equal_vertices(11, 1), 0,
                              systems::joins_edges(layer) ? gnn::edge_split::joint : gnn::edge_split::apart);
      const auto scales = systems::scales_of(t.model, t.graph);
      const auto model = systems::range_model_of(operators(), t.model, range, t.rows, scales, 0);
      for (std::size_t w = 0; w < model.weights.size(); ++w) {
        const auto& dims = model.graph.type(model.weights[w]).dims;
        auto& to = weights.emplace_back(dims.size() == 1 ? 1 : static_cast<std::size_t>(dims[0]),
                                        static_cast<std::size_t>(dims[dims.size() - 1]));
        std::copy(found.first[w].begin(), found.first[w].end(), to.data.begin());
      }
      const auto loss = test::plain_vertex_model<test::dual>{t.model, data.graph, weights}.loss(data);
      REQUIRE(found.losses[0] == Approx(loss.x).epsilon(1e-12));
      for (std::size_t w = 0; w < weights.size(); ++w) {
        std::vector<double> gradient;
        for (auto& x : weights[w].data) {
          x.d = 1;
          gradient.push_back(test::plain_vertex_model<test::dual>{t.model, data.graph, weights}.loss(data).d);
          x.d = 0;
        }
        std::vector<double> step;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          step.push_back(found.first[w][i] - found.weights[w][i]);
        }
        CAPTURE(w);
        require_close(step, gradient, 1e-9);
      }
    }
  }
}

TEST_CASE("vertex training does not depend on the partition or on repartitioning") {
  for (std::size_t l = 0; l < all_layers.size(); l += apart) {
    const auto layer = all_layers[l];
    CAPTURE(static_cast<int>(layer));
    random_engine random{static_cast<std::uint64_t>(layer)};
    const auto data = random_data(random, 23, 120, 6, 4);
    auto m = small_model(layer, 0.4);
    m.layers = 3;
    m.drawn = 8;
    auto t = training_on(data, m);
    t.rule = {parallel::optimizer::momentum, 0.05};  // Adam would turn rounding errors into steps
    t.program.decay = 0.01;
    t.seed = 5;
    const auto one = trained(t, gnn::equal_vertices(23, 1), 4);
    REQUIRE(one.sent == 0);
    const gnn::vertex_partition uneven{{0, 3, 19, 23}};
    t.program.loads_all = true;
    const auto three = trained(t, uneven, 4, gnn::equal_vertices(23, 3));
    require_close(three.losses, one.losses, 1e-10);
    for (std::size_t w = 0; w < one.weights.size(); ++w) {
      require_close(three.weights[w], one.weights[w], 1e-8);
    }
    REQUIRE(three.accuracy == one.accuracy);
  }
}

TEST_CASE("random draws of vertex training follow the vertices' earlier numbers") {
  for (std::size_t l = 0; l < all_layers.size(); l += apart) {
    const auto layer = all_layers[l];
    CAPTURE(static_cast<int>(layer));
    random_engine random{static_cast<std::uint64_t>(layer) + 20};
    const auto data = random_data(random, 23, 120, 6, 4);
    std::vector<gnn::vertex_id> numbers(23);
    for (gnn::vertex_id v = 0; v < 23; ++v) {
      numbers[v] = v * 7 % 23;
    }
    const auto other = gnn::renumbered(data, numbers);
    const auto before = gnn::numbers_before(other.graph, numbers);
    auto m = small_model(layer, 0.4);
    m.drawn = 8;
    const auto train_on = [&](const gnn::vertex_dataset& d, std::size_t ranks, bool by_earlier_numbers) {
      auto t = training_on(d, m);
      t.rule = {parallel::optimizer::momentum, 0.05};
      t.seed = 5;
      if (by_earlier_numbers) {
        t.rows.vertex_numbers = before.vertices;
        t.rows.edge_numbers = before.edges;
      }
      return trained(t, gnn::equal_vertices(23, ranks), 3).losses;
    };
    const auto expected = train_on(data, 1, false);
    require_close(train_on(other, 1, true), expected, 1e-10);
    require_close(train_on(other, 3, true), expected, 1e-10);
    REQUIRE(train_on(other, 1, false)[0] != Approx(expected[0]).epsilon(1e-6));
  }
}

TEST_CASE("weight decay changes the gradients of the first layer's weights only") {
  random_engine random{11};
  const auto data = random_data(random, 17, 60, 4, 3);
  auto t = training_on(data, small_model(vertex_layer::sage_mean, 0));
  t.rule = {parallel::optimizer::sgd, 0.5};
  const auto without = trained(t, gnn::equal_vertices(17, 2), 1);
  t.program.decay = 0.25;
  const auto with = trained(t, gnn::equal_vertices(17, 2), 1);
  REQUIRE(with.first == without.first);
  REQUIRE(with.losses == without.losses);
  REQUIRE(with.weights.size() == 6);  // two layers: own weights, sum weights, bias
  for (std::size_t w = 0; w < 6; ++w) {
    CAPTURE(w);
    std::vector<double> expected;
    for (std::size_t i = 0; i < with.first[w].size(); ++i) {
      expected.push_back(without.weights[w][i] - (w < 3 ? 0.5 * 0.25 * with.first[w][i] : 0));
    }
    require_close(with.weights[w], expected, 1e-12);
  }
  REQUIRE(with.weights[0] != without.weights[0]);
}

TEST_CASE("a graph without training vertices is classified but not trained on") {
  random_engine random{13};
  auto data = random_data(random, 17, 60, 4, 3);
  std::fill(data.roles.begin(), data.roles.end(), gnn::vertex_role::test);
  const auto t = training_on(data, small_model(vertex_layer::gcn, 0));
  backend::run_local(1, [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    const auto scales = systems::scales_of(t.model, t.graph);
    systems::vertex_trainer rank{b, operators(), t, scales, world, gnn::equal_vertices(17, 1)};
    const auto found = rank.accuracy();
    CHECK((found.train == 0 && found.test >= 0 && found.test <= 1));
    CHECK_THROWS_WITH(rank.step(0), "data: no vertex to train on; expected at least one");
  });
}

TEST_CASE("remote rows are sent once and their cotangents back once") {
  random_engine random{3};
  const auto data = random_data(random, 30, 150, 4, 3);
  auto t = training_on(data, small_model(vertex_layer::gcn, 0));
  const auto p = gnn::equal_vertices(30, 3);
  std::int64_t rows = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    rows += static_cast<std::int64_t>(gnn::remote_sources(data.graph, p.range(k)).size());
  }
  // Both layers have 3 columns; forward and backward, in float64.
  CHECK(trained(t, p, 1).sent == rows * 3 * 2 * 2 * 8);
}

TEST_CASE("vertex training under a memory limit has identical losses and moves bytes as planned") {
  for (std::size_t l = 0; l < all_layers.size(); l += apart) {
    const auto layer = all_layers[l];
    CAPTURE(static_cast<int>(layer));
    random_engine random{7};
    const auto data = random_data(random, 40, 200, 12, 3);
    auto t = training_on(data, small_model(layer, 0.3));
    const auto p = gnn::equal_vertices(40, 1);
    bytes all{};
    std::vector<double> losses;
    backend::run_local(1, [&](backend::local_communicator& world) {
      backend::reference_backend b{operators()};
      systems::vertex_trainer rank{b, operators(), t, systems::scales_of(t.model, t.graph), world, p};
      all = rank.executor().arena_size();
      losses = {rank.step(0), rank.step(1)};
    });
    // The least percentage of the memory that suffices.
    bool fits = false;
    for (std::int64_t percent = 50; percent < 100 && !fits; percent += 5) {
      t.memory = bytes{all.count() * percent / 100};
      try {
        backend::run_local(1, [&](backend::local_communicator& world) {
          backend::reference_backend b{operators()};
          systems::vertex_trainer rank{b, operators(), t, systems::scales_of(t.model, t.graph), world, p};
          fits = true;
          REQUIRE(std::vector<double>{rank.step(0), rank.step(1)} == losses);
          REQUIRE(rank.executor().arena_size() <= t.memory);
          REQUIRE(rank.planned_moves().loaded > bytes{});
          REQUIRE(rank.executor().moved() == rank.planned_moves());
        });
      } catch (const error& e) {
        REQUIRE(std::string{e.what()}.find("bytes or more") != std::string::npos);
      }
    }
    REQUIRE(fits);
  }
}

TEST_CASE("a loss that is not finite stops vertex training with an error") {
  random_engine random{3};
  const auto data = random_data(random, 10, 30, 4, 3);
  auto t = training_on(data, small_model(vertex_layer::gin, 0));
  t.rule = {parallel::optimizer::sgd, 1e200};
  CHECK(test::message_of([&] {
          static_cast<void>(trained(t, gnn::equal_vertices(10, 2), 5));
        }).find("is the learning rate too large?") != std::string::npos);
}

}  // namespace tests_of_roc_training
