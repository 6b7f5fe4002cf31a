// Graphs, and device meshes to map them onto, for tests of mappings.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <utility>

#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/operation.hpp>

#include "operators.hpp"

namespace unity::parallel::test {

// A graph with its operator graph, which refers to the other members.
struct placed_graph {
  tensor::tensor_graph graph;
  graph_dimensions dimensions;
  training_graph training;
  operator_graph ops;

  explicit placed_graph(tensor::tensor_graph g)
      : graph{std::move(g)},
        dimensions{operators(), graph},
        training{operators(), graph},
        ops{operators(), graph, dimensions, training} {}
  placed_graph(const placed_graph&) = delete;
  placed_graph& operator=(const placed_graph&) = delete;
};

// Four devices as a mesh of the given sizes, with cost tables.
struct placed_mesh {
  hardware::machine machine = hardware::preset("p100:1x4");
  hardware::route_table routes{machine.network};
  shard_clock clock{operators(), analytic_durations(operators(), machine), {0}};
  hardware::device_mesh mesh;
  mesh_costs costs;
  mesh_tables tables;

  explicit placed_mesh(const hardware::mesh_sizes& sizes, index_uses uses = all_index_uses)
      : mesh{mesh_of(sizes)}, costs{machine, routes, mesh}, tables{operators(), mesh, costs,
                                                                   clock,       uses, optimizer::sgd} {}
  placed_mesh(const placed_mesh&) = delete;
  placed_mesh& operator=(const placed_mesh&) = delete;

 private:
  [[nodiscard]] hardware::device_mesh mesh_of(const hardware::mesh_sizes& sizes) const {
    for (auto& m : hardware::meshes_of(machine.network, 2)) {
      if (m.sizes == sizes) {
        return m;
      }
    }
    throw std::logic_error{"no such mesh"};
  }
};

}  // namespace unity::parallel::test
