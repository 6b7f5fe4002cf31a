// Reads and writes data sets of one graph whose vertices have features and classes.
#pragma once

#include <filesystem>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_data.hpp>

namespace unity::io {

// The data set in the files whose names begin with `prefix`: ROC's if one ends in .add_self_edge.lux (io/lux.hpp,
// io/vertex_files.hpp), else .graph, .svmlight and .split, each possibly compressed (.gz). Removes duplicate neighbours
// of .graph. The classes are 0 to the largest label, which must be below the number of vertices.
// Throws: unity::error naming the file and the position if one is missing or wrong, or they do not fit together.
[[nodiscard]] gnn::vertex_dataset read_vertex_dataset(const std::filesystem::path& prefix);

// Effects: writes ROC's files, with the graph as it is, although ROC expects a self-loop at each vertex.
// Throws: unity::error if the data set is invalid (gnn::check), a vertex has no class, which the format cannot express,
// or a file cannot be written.
void write_vertex_dataset(const std::filesystem::path& prefix, const gnn::vertex_dataset& data);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_VERTEX_DATASET)

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/graph_text.hpp>
#include <unity/io/lux.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/vertex_files.hpp>

namespace unity::io {

namespace detail {

[[nodiscard]] UNITY_INLINE std::filesystem::path with_ending(const std::filesystem::path& prefix,
                                                             std::string_view ending) {
  auto path = prefix;
  return path += ending;
}

// The text of the file with that ending, or of its compressed version.
[[nodiscard]] UNITY_INLINE named_text text_of(const std::filesystem::path& prefix, std::string_view ending) {
  auto path = with_ending(prefix, ending);
  if (const auto packed = with_ending(path, ".gz"); !std::filesystem::exists(path) && std::filesystem::exists(packed)) {
    path = packed;
  }
  auto all = read_packed(path);
  if (all.size() != 1) {
    throw error{path.string(), fmt::format("an archive of {} files", all.size()), "one text"};
  }
  return std::move(all.front());
}

// Memory for classes is proportional to the largest one.
// Throws: unity::error naming the vertex.
UNITY_INLINE void expect_classes(const gnn::vertex_dataset& data, std::string_view where) {
  const auto vertices = data.graph.vertices();
  for (std::size_t v = 0; v < data.labels.size(); ++v) {
    if (data.labels[v] >= 0 && static_cast<std::uint32_t>(data.labels[v]) >= vertices) {
      throw error{where, fmt::format("vertex {} has label {}", v, data.labels[v]),
                  fmt::format("a class below the {} vertices", vertices)};
    }
  }
}

[[nodiscard]] UNITY_INLINE gnn::vertex_dataset read_roc_files(const std::filesystem::path& prefix) {
  gnn::vertex_dataset data;
  data.graph = read_lux(with_ending(prefix, ".add_self_edge.lux"));
  if (const auto features = with_ending(prefix, ".feats.bin"); std::filesystem::exists(features)) {
    data.features = parse_features_bin(read_file(features), data.graph.vertices(), features.string());
  } else {
    const auto text = with_ending(prefix, ".feats.csv");
    data.features = parse_features_csv(read_file(text), text.string());
  }
  const auto labels = with_ending(prefix, ".label");
  data.labels = parse_labels(read_file(labels), labels.string());
  const auto mask = with_ending(prefix, ".mask");
  data.roles = parse_mask(read_file(mask), mask.string());
  return data;
}

[[nodiscard]] UNITY_INLINE gnn::vertex_dataset read_text_files(const std::filesystem::path& prefix) {
  gnn::vertex_dataset data;
  const auto graph = text_of(prefix, ".graph");
  data.graph = gnn::distinct(parse_neighbours(graph.text, graph.name));
  const auto features = text_of(prefix, ".svmlight");
  auto rows = parse_svmlight(features.text, features.name);
  data.features = dense(rows, features.name);
  for (std::size_t v = 0; v < rows.rows(); ++v) {
    if (rows.labels[v] && *rows.labels[v] < 0) {
      throw error{features.name, fmt::format("vertex {} has label {}", v, *rows.labels[v]), "a class, 0 or more"};
    }
    data.labels.push_back(rows.labels[v].value_or(gnn::no_label));
  }
  const auto split = text_of(prefix, ".split");
  data.roles = parse_split(split.text, split.name);
  return data;
}

}  // namespace detail

UNITY_INLINE gnn::vertex_dataset read_vertex_dataset(const std::filesystem::path& prefix) {
  const bool is_roc = std::filesystem::exists(detail::with_ending(prefix, ".add_self_edge.lux"));
  auto data = is_roc ? detail::read_roc_files(prefix) : detail::read_text_files(prefix);
  detail::expect_classes(data, prefix.string());
  data.classes = gnn::class_count(data.labels);
  gnn::check(data, prefix.string());
  return data;
}

UNITY_INLINE void write_vertex_dataset(const std::filesystem::path& prefix, const gnn::vertex_dataset& data) {
  gnn::check(data, prefix.string());
  const auto unknown = std::find(data.labels.begin(), data.labels.end(), gnn::no_label);
  if (unknown != data.labels.end()) {
    throw error{prefix.string(), fmt::format("vertex {} without a class", unknown - data.labels.begin()), "one"};
  }
  write_lux(detail::with_ending(prefix, ".add_self_edge.lux"), data.graph);
  atomic_write(detail::with_ending(prefix, ".feats.bin"), features_bin(data.features));
  atomic_write(detail::with_ending(prefix, ".label"), labels_text(data.labels));
  atomic_write(detail::with_ending(prefix, ".mask"), mask_text(data.roles));
}

}  // namespace unity::io

#endif
