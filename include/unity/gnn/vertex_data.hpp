// Data on the vertices of a graph: features, classes, and which vertices a model is trained on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::gnn {

// Whether a vertex counts in the loss, is used to choose or to evaluate a model, or neither.
enum class vertex_role : std::uint8_t { none, train, validation, test };
inline constexpr std::array<std::string_view, 4> vertex_role_names{"none", "train", "validation", "test"};

// Row-major, one row per vertex. Regular.
struct feature_matrix {
  std::size_t columns = 0;
  std::vector<float> values{};

  [[nodiscard]] std::size_t rows() const noexcept { return columns == 0 ? 0 : values.size() / columns; }
  [[nodiscard]] std::span<const float> row(std::size_t r) const { return {values.data() + r * columns, columns}; }

  friend bool operator==(const feature_matrix&, const feature_matrix&) = default;
};

// The class of a vertex without one.
inline constexpr std::int32_t no_label = -1;

// A graph with data on its vertices. Regular.
struct vertex_dataset {
  csr_graph graph{};
  feature_matrix features{};
  std::vector<std::int32_t> labels{};  // 0 .. classes - 1, or no_label
  std::int32_t classes = 0;
  std::vector<vertex_role> roles{};

  friend bool operator==(const vertex_dataset&, const vertex_dataset&) = default;
};

// Throws: unity::error that begins with `where` unless there is one row of features, one label and one role per vertex,
// and every vertex whose role needs a label has a valid one.
void check(const vertex_dataset& data, std::string_view where);

// Vertex v of `data` becomes vertex numbers[v] of the result. Features may lack values. Complexity: as renumbered of
// the graph, and linear in features. Throws: unity::error if the numbers are not a permutation of the vertices.
[[nodiscard]] vertex_dataset renumbered(const vertex_dataset& data, std::span<const vertex_id> numbers);

// The largest label plus 1; 0 if there is none.
[[nodiscard]] std::int32_t class_count(std::span<const std::int32_t> labels);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_VERTEX_DATA)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

UNITY_INLINE void check(const vertex_dataset& data, std::string_view where) {
  const auto expect_each = [&](std::size_t found, std::string_view what) {
    if (found != data.graph.vertices()) {
      throw error{where, fmt::format("{} {}", found, what),
                  fmt::format("one for each of the {} vertices", data.graph.vertices())};
    }
  };
  expect_each(data.features.rows(), "rows of features");
  expect_each(data.labels.size(), "labels");
  expect_each(data.roles.size(), "roles");
  if (data.features.values.size() != data.features.rows() * data.features.columns) {
    throw error{where, fmt::format("{} features", data.features.values.size()),
                fmt::format("rows of {}", data.features.columns)};
  }
  for (std::size_t v = 0; v < data.labels.size(); ++v) {
    const bool may_lack_one = data.roles[v] == vertex_role::none && data.labels[v] == no_label;
    if ((data.labels[v] < 0 || data.labels[v] >= data.classes) && !may_lack_one) {
      throw error{where, fmt::format("vertex {} has label {}", v, data.labels[v]),
                  fmt::format("one of the {} classes", data.classes)};
    }
  }
}

UNITY_INLINE vertex_dataset renumbered(const vertex_dataset& data, std::span<const vertex_id> numbers) {
  vertex_dataset other = data;
  other.graph = renumbered(data.graph, numbers);
  for (std::size_t v = 0; v < numbers.size(); ++v) {
    if (!data.features.values.empty()) {
      const auto row = data.features.row(v);
      std::copy(row.begin(), row.end(),
                other.features.values.begin() + static_cast<std::ptrdiff_t>(numbers[v] * data.features.columns));
    }
    other.labels[numbers[v]] = data.labels[v];
    other.roles[numbers[v]] = data.roles[v];
  }
  return other;
}

UNITY_INLINE std::int32_t class_count(std::span<const std::int32_t> labels) {
  const auto largest = std::max_element(labels.begin(), labels.end());
  return largest == labels.end() || *largest < 0 ? 0 : *largest + 1;
}

}  // namespace unity::gnn

#endif
