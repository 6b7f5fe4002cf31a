#include <unity/systems/roc/range_model_writer.hpp>  // first, to check that it includes what it needs

#include <unity/systems/roc/range_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "../gnn/random_graphs.hpp"

namespace tests_of_roc_draws {

using namespace unity;
using systems::vertex_layer;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

gnn::vertex_dataset data_on(gnn::csr_graph g, std::size_t columns) {
  gnn::vertex_dataset data;
  const std::size_t vertices = g.vertices();
  data.graph = std::move(g);
  data.features = {columns, std::vector<float>(vertices * columns, 1.0F)};
  data.classes = 3;
  data.labels.assign(vertices, 1);
  data.roles.assign(vertices, gnn::vertex_role::train);
  return data;
}

// A part's model with everything that it refers to. Not movable.
struct part_model {
  const gnn::vertex_dataset& data;
  systems::vertex_rows rows{data.features, data.labels, data.roles, data.classes};
  systems::vertex_model spec;
  systems::vertex_scales scales = systems::scales_of(spec, data.graph);
  gnn::range_graph range;
  systems::range_model model;

  part_model(const gnn::vertex_dataset& d, const systems::vertex_model& m, const gnn::vertex_partition& p,
             std::size_t part)
      : data{d},
        spec{m},
        range{gnn::range_graph_of(d.graph, p, part,
                                  systems::joins_edges(m.layer) ? gnn::edge_split::joint : gnn::edge_split::apart)},
        model{systems::range_model_of(operators(), spec, range, rows, scales,
                                      d.graph.view().offsets()[range.range.begin])} {}
  part_model(const part_model&) = delete;
  part_model& operator=(const part_model&) = delete;

  [[nodiscard]] std::size_t drawn_count() const {
    return static_cast<std::size_t>(
        std::count_if(model.values.begin(), model.values.end(), [](const auto& v) { return v.is_drawn; }));
  }
  // The numbers of the drawn value at index `place`.
  [[nodiscard]] std::vector<double> drawn(std::size_t place, const systems::drawing& d) const {
    for (const auto& v : model.values) {
      if (v.is_drawn && place-- == 0) {
        const auto& type = model.graph.type(v.value);
        std::vector<std::byte> bytes(static_cast<std::size_t>(backend::byte_count(type)));
        v.fill(d, bytes);
        return backend::decode<double>(bytes.data(), type).data;
      }
    }
    return {};
  }
};

double share_of_zeros(const std::vector<double>& all) {
  return static_cast<double>(std::count(all.begin(), all.end(), 0.0)) / static_cast<double>(all.size());
}

TEST_CASE("dropout zeroes its rate and scales the rest up in training only") {
  random_engine random{4};
  const auto data = data_on(gnn::with_self_edges(gnn::from_edges(400, test::random_edges(random, 400, 3000))), 10);
  for (const auto layer : {vertex_layer::gcn, vertex_layer::gat}) {
    CAPTURE(static_cast<int>(layer));
    systems::vertex_model m;
    m.layer = layer;
    m.dropout = 0.3;
    m.element = tensor::dtype::float64;
    const part_model one{data, m, gnn::equal_vertices(400, 1), 0};
    REQUIRE(one.drawn_count() == (layer == vertex_layer::gat ? 4 : 2));  // gat also draws edge weights
    for (std::size_t place = 0; place < one.drawn_count(); ++place) {
      CAPTURE(place);
      const auto mask = one.drawn(place, {1, 5, true});
      REQUIRE(mask.size() >= 3000);  // makes 0.04 at least four standard deviations
      for (const auto x : mask) {
        REQUIRE((x == 0 || x == Approx(1 / 0.7).epsilon(1e-12)));
      }
      REQUIRE(std::abs(share_of_zeros(mask) - 0.3) < 0.04);
      REQUIRE(one.drawn(place, {1, 5, true}) == mask);
      REQUIRE(one.drawn(place, {1, 6, true}) != mask);
      REQUIRE(one.drawn(place, {2, 5, true}) != mask);
      REQUIRE(one.drawn(place, {1, 5, false}) == std::vector<double>(mask.size(), 1.0));
      REQUIRE((place == 0 || one.drawn(place - 1, {1, 5, true}) != mask));
    }
    // A part's rows are rows of the whole.
    const part_model third{data, m, gnn::vertex_partition{{0, 100, 300, 400}}, 1};
    const auto whole = one.drawn(0, {1, 5, true});
    REQUIRE(third.drawn(0, {1, 5, true}) == std::vector<double>(whole.begin() + 1000, whole.begin() + 3000));
  }
}

TEST_CASE("FastGCN draws vertices by squared edge weights and scales them inversely") {
  // 0 is read by 0 and 1; 1 by 1; 2 by 2. The sums of squared weights, 1 / (in-degrees of both ends), are 1 + 1/2, 1/4
  // and 1.
  const auto data = data_on(gnn::csr_graph{{0, 1, 3, 4}, {0, 0, 1, 2}}, 4);
  systems::vertex_model m;
  m.layer = vertex_layer::fastgcn;
  m.dropout = 0;
  m.drawn = 1;
  m.element = tensor::dtype::float64;
  const part_model one{data, m, gnn::equal_vertices(3, 1), 0};
  const std::vector<double> expected{1.5 / 2.75, 0.25 / 2.75, 1 / 2.75};
  for (std::size_t v = 0; v < 3; ++v) {
    REQUIRE(one.scales.taken[v] == Approx(expected[v]).epsilon(1e-12));
  }
  auto more = m;
  more.drawn = 2;
  REQUIRE(systems::scales_of(more, data.graph).taken[0] == 1);  // clamped: not 3 / 2.75
  REQUIRE(systems::scales_of(more, data.graph).taken[2] == Approx(2 / 2.75).epsilon(1e-12));

  REQUIRE(one.drawn_count() == 2);  // one per layer
  constexpr std::uint64_t steps = 4000;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    CAPTURE(layer);
    std::vector<double> taken(3);
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto counts = one.drawn(layer, {7, s, true});
      REQUIRE(counts.size() == 3);
      for (std::size_t v = 0; v < 3; ++v) {
        REQUIRE((counts[v] == 0 || counts[v] == Approx(1 / expected[v]).epsilon(1e-12)));
        taken[v] += counts[v] > 0 ? 1.0 / steps : 0;
      }
    }
    for (std::size_t v = 0; v < 3; ++v) {
      REQUIRE(std::abs(taken[v] - expected[v]) < 0.04);  // at least five standard deviations
    }
    REQUIRE(one.drawn(layer, {7, 1, false}) == std::vector<double>(3, 1.0));
  }
}

}  // namespace tests_of_roc_draws
