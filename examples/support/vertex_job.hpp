// The run that the flags of `train_graph` describe.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/systems/roc/vertex_trainer.hpp>
#include <unity/train/run_settings.hpp>
#ifdef UNITY_HAS_METIS
#include <unity/gnn/metis_partition.hpp>  // if found
#endif

#include "graphs.hpp"
#include "machines.hpp"
#include "outputs.hpp"
#include "quantity.hpp"
#include "vertex_flags.hpp"

namespace support {

// The same on all ranks. Must not be moved: the training refers to the data.
struct vertex_job {
  unity::gnn::vertex_dataset data{};
  unity::gnn::earlier_numbers before_metis{};  // of the data, if METIS renumbered it
  unity::systems::vertex_model model{};
  std::optional<unity::gnn::vertex_dataset> unseen{};
  unity::gnn::vertex_partition partition{};
  unity::train::run_settings run{};
  std::optional<unity::io::weights_reader> before{};  // what is resumed
  std::uint64_t first = 0;                            // epoch
};

// Refers to the job's data.
inline unity::systems::vertex_training training_of(const vertex_flags& a, const vertex_job& j,
                                                   const unity::gnn::vertex_dataset& data) {
  unity::systems::vertex_training t{data.graph, {data.features, data.labels, data.roles, data.classes}};
  if (&data == &j.data) {
    t.rows.vertex_numbers = j.before_metis.vertices;
    t.rows.edge_numbers = j.before_metis.edges;
  }
  t.model = j.model;
  t.rule = {.updates = unity::parallel::optimizer::adam, .learning_rate = a.rate};
  t.program.decay = a.decay;
  t.seed = a.seed;
  if (!a.memory.empty()) {
    t.memory = parse_memory("--memory", a.memory);
  }
  return t;
}

// Scales the features of each vertex so that their magnitudes add up to 1, unless all are 0.
inline void normalize(unity::gnn::feature_matrix& m) {
  for (std::size_t r = 0; r < m.rows(); ++r) {
    double sum = 0;
    for (const auto x : m.row(r)) {
      sum += std::abs(static_cast<double>(x));
    }
    for (std::size_t c = 0; c < m.columns && sum > 0; ++c) {
      m.values[r * m.columns + c] = static_cast<float>(m.values[r * m.columns + c] / sum);
    }
  }
}

inline unity::gnn::vertex_dataset data_of(const vertex_flags& a, const std::string& name,
                                          const unity::systems::vertex_model& model) {
  auto drawn = a.drawn;
  drawn.seed = a.seed;
  drawn.has_values = a.epochs > 0 || !a.resume.empty();  // a simulation alone does not read them
  const auto folder = names_generator(name) ? std::filesystem::path{} : std::filesystem::path{a.folder};
  auto data = vertex_data_named((folder / name).string(), drawn);
  if (unity::systems::wants_self_edges(model.layer)) {
    data.graph = unity::gnn::with_self_edges(data.graph);
  }
  if (!a.raw_features) {
    normalize(data.features);
  }
  return data;
}

// Throws: unity::error if there are more parts than vertices.
inline void expect_vertices(std::size_t parts, const std::string& where, const unity::gnn::vertex_dataset& data) {
  if (parts > data.graph.vertices()) {
    throw unity::error{where, fmt::format("{} parts", parts),
                       fmt::format("at most as many as the {} vertices", data.graph.vertices())};
  }
}

// Each rank needs a vertex: if a range is empty, ranges of equal size are used.
inline unity::gnn::vertex_partition without_empty_parts(unity::gnn::vertex_partition p) {
  for (std::size_t k = 0; k < p.parts(); ++k) {
    if (p.range(k).size() == 0) {
      return unity::gnn::equal_vertices(p.vertices(), p.parts());
    }
  }
  return p;
}

// Effects: METIS renumbers vertices.
inline unity::gnn::vertex_partition first_partition(const vertex_flags& a, vertex_job& j, std::size_t ranks) {
  auto& data = j.data;
  expect_vertices(ranks, "--ranks", data);
#ifdef UNITY_HAS_METIS
  if (a.partition == "metis") {
    const auto order = unity::gnn::order_by_part(unity::gnn::metis_parts(data.graph, ranks), ranks);
    data = unity::gnn::renumbered(data, order.numbers);
    j.before_metis = unity::gnn::numbers_before(data.graph, order.numbers);
    return without_empty_parts(order.partition);
  }
#endif
  return a.partition == "equal_vertices" ? unity::gnn::equal_vertices(data.graph.vertices(), ranks)
                                         : without_empty_parts(unity::gnn::equal_edges(data.graph, ranks));
}

// Throws: unity::error if flags and files do not fit each other.
inline void prepare(const vertex_flags& a, std::size_t ranks, vertex_job& j) {
  const auto devices = a.machine.empty() ? 0 : load_machine(a.machine).network.device_count();
  j.model = a.shape;
  const auto& names = unity::systems::vertex_layer_names;
  j.model.layer =
      static_cast<unity::systems::vertex_layer>(std::find(names.begin(), names.end(), a.model) - names.begin());
  j.model.element = a.element == "float64" ? unity::tensor::dtype::float64 : unity::tensor::dtype::float32;
  unity::systems::check(j.model);
  j.data = data_of(a, a.graph, j.model);
  if (!a.unseen.empty()) {
    j.unseen = data_of(a, a.unseen, j.model);
    expect_vertices(ranks, "--unseen", *j.unseen);
    if (j.unseen->features.columns != j.data.features.columns || j.unseen->classes > j.data.classes) {
      throw unity::error{a.unseen,
                         fmt::format("{} features, {} classes", j.unseen->features.columns, j.unseen->classes),
                         fmt::format("{} features and {} classes at most, as what is trained on",
                                     j.data.features.columns, j.data.classes)};
    }
    j.unseen->classes = j.data.classes;
  }
  expect_vertices(devices, a.machine, j.data);
  j.partition = first_partition(a, j, ranks);
  j.run = unity::systems::settings_of(training_of(a, j, j.data), std::filesystem::path{a.graph}.filename().string());
  if (!a.resume.empty()) {
    j.before.emplace(a.resume);
    unity::train::expect_same(unity::train::settings_in(j.before->header(), a.resume), j.run, a.resume);
    j.first = static_cast<std::uint64_t>(j.before->header().step);
    if (a.epochs > 0 && j.first >= a.epochs) {
      throw unity::error{a.resume, fmt::format("has {} epochs", j.first),
                         fmt::format("less than --epochs {}, which counts them, or --epochs 0", a.epochs)};
    }
  }
}

// Throws: unity::error if a result could not be written at the end, or would replace a graph.
inline void expect_writable(const vertex_flags& a) {
  for (const auto& result : {a.checkpoint, a.json, a.trace, a.report}) {
    for (const auto& name : {a.graph, a.unseen}) {
      if (!result.empty() && !a.folder.empty() && is_same_file(std::filesystem::path{a.folder} / name, result)) {
        throw unity::error{result, "a graph of --data", "a file of its own"};
      }
    }
  }
  if (!a.checkpoint.empty()) {
    static_cast<void>(unity::io::utf8_word("GRAPH", a.graph));  // the checkpoint has its name
    const unity::io::replaced_file probe{a.checkpoint};
  }
  expect_writable(a.json);
  expect_writable(a.trace);
  expect_writable(a.report);
}

}  // namespace support
