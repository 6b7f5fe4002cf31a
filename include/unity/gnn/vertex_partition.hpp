// Vertices divided into consecutive ranges, one per device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::gnn {

// Part k has the vertices cuts[k] to cuts[k + 1] - 1; it is empty if both are equal.
// Source: Jia et al., A distributed multi-GPU system for fast graph processing (Lux), VLDB 2017, section 5: ranges keep
// neighbouring data together and need P + 1 numbers only.
class vertex_partition {
 public:
  // One empty part.
  vertex_partition() = default;
  // Throws: unity::error that begins with `where` unless there are at least two cuts that start at 0 and never
  // decrease.
  explicit vertex_partition(std::vector<vertex_id> cuts, std::string_view where = "partition");

  [[nodiscard]] std::size_t parts() const noexcept { return cuts_.size() - 1; }
  [[nodiscard]] vertex_id vertices() const noexcept { return cuts_.back(); }
  [[nodiscard]] vertex_range range(std::size_t part) const { return {cuts_[part], cuts_[part + 1]}; }
  [[nodiscard]] const std::vector<vertex_id>& cuts() const noexcept { return cuts_; }
  // Precondition: v < vertices(). Complexity: logarithmic in the parts.
  [[nodiscard]] std::size_t part_of(vertex_id v) const;

  friend bool operator==(const vertex_partition&, const vertex_partition&) = default;

 private:
  std::vector<vertex_id> cuts_ = std::vector<vertex_id>(2);
};

// Throws: unity::error where there are none.
void expect_parts(std::size_t parts);

// A baseline: sizes differ by at most one vertex; the first parts are the larger ones.
// Throws: unity::error without parts.
[[nodiscard]] vertex_partition equal_vertices(vertex_id vertices, std::size_t parts);

// A baseline: all vertices in the first part.
// Throws: unity::error without parts.
[[nodiscard]] vertex_partition undivided(vertex_id vertices, std::size_t parts);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_VERTEX_PARTITION)

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

UNITY_INLINE vertex_partition::vertex_partition(std::vector<vertex_id> cuts, std::string_view where)
    : cuts_{std::move(cuts)} {
  if (cuts_.size() < 2 || cuts_.front() != 0) {
    throw error{where, cuts_.size() < 2 ? fmt::format("{} cuts", cuts_.size()) : fmt::format("cut 0 at {}", cuts_[0]),
                "two at least, the first at 0"};
  }
  for (std::size_t k = 1; k < cuts_.size(); ++k) {
    if (cuts_[k] < cuts_[k - 1]) {
      throw error{where, fmt::format("cut {} at {}", k, cuts_[k]), fmt::format("{} or behind it", cuts_[k - 1])};
    }
  }
}

UNITY_INLINE std::size_t vertex_partition::part_of(vertex_id v) const {
  UNITY_EXPECTS(v < vertices(), "a vertex");
  return static_cast<std::size_t>(std::upper_bound(cuts_.begin(), cuts_.end(), v) - cuts_.begin()) - 1;
}

UNITY_INLINE void expect_parts(std::size_t parts) {
  constexpr std::size_t most = std::size_t{1} << 24U;
  if (parts == 0 || parts > most) {
    throw error{"partition", fmt::format("{} parts", parts), fmt::format("1 to {}", most)};
  }
}

UNITY_INLINE vertex_partition equal_vertices(vertex_id vertices, std::size_t parts) {
  expect_parts(parts);
  std::vector<vertex_id> cuts;
  for (std::size_t k = 0; k <= parts; ++k) {
    cuts.push_back(static_cast<vertex_id>(k * (vertices / parts) + std::min<std::size_t>(k, vertices % parts)));
  }
  return vertex_partition{std::move(cuts)};
}

UNITY_INLINE vertex_partition undivided(vertex_id vertices, std::size_t parts) {
  expect_parts(parts);
  std::vector<vertex_id> cuts(parts + 1, vertices);
  cuts.front() = 0;
  return vertex_partition{std::move(cuts)};
}

}  // namespace unity::gnn

#endif
