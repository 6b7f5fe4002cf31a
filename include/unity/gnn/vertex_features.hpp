// The features from which the time of a layer on a range is predicted: integers per vertex, and their prefix sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::gnn {

// In this order. The distinct in-neighbours of a vertex form runs of consecutive numbers with lengths c_1, c_2, ...;
// the threads of a warp read consecutive addresses in one access.
//   vertices   1
//   edges      in-edges, with multiplicity
//   runs       number of runs
//   reads      accesses that load the neighbours' numbers: the sum of ceil(c_i / warp)
//   row_reads  accesses that load their activations: the sum of ceil(c_i * width / warp)
// Source: table 4.2 of ROC, where these are x_1 to x_5.
inline constexpr std::size_t vertex_feature_count = 5;
inline constexpr std::array<std::string_view, vertex_feature_count> vertex_feature_names{"vertices", "edges", "runs",
                                                                                         "reads", "row_reads"};
using vertex_features = std::array<std::uint64_t, vertex_feature_count>;

// Sums of the features over ranges of one graph, for layers with the given input widths.
class vertex_feature_sums {
 public:
  // Threads of an NVIDIA GPU that run in lockstep.
  static constexpr std::uint32_t warp_size = 32;

  // Widths: distinct input widths of layers; row_reads depends on them. Complexity: linear; n log n in the in-degree of
  // a vertex whose sources are not sorted. Memory: 8 bytes per vertex for each of 3 features and each width. The result
  // does not depend on the number of threads.
  // Throws: unity::error without a width, for a width or warp of 0, and if sums over all widths may not fit in 58 bits.
  vertex_feature_sums(csr_view g, std::vector<std::uint32_t> widths, thread_pool& pool, std::uint32_t warp = warp_size);
  // The same, in the calling thread.
  vertex_feature_sums(csr_view g, std::vector<std::uint32_t> widths, std::uint32_t warp = warp_size);

  [[nodiscard]] vertex_id vertices() const noexcept { return static_cast<vertex_id>(edges_.size() - 1); }
  [[nodiscard]] const std::vector<std::uint32_t>& widths() const noexcept { return widths_; }

  // Preconditions: the range is one of vertices, `width` is the index of a width. Complexity: constant.
  [[nodiscard]] vertex_features of(vertex_range r, std::size_t width = 0) const {
    const auto between = [&](const std::vector<std::uint64_t>& sums) { return sums[r.end] - sums[r.begin]; };
    return {r.size(), between(edges_), between(runs_), between(reads_), between(row_reads_[width])};
  }
  [[nodiscard]] vertex_features total(std::size_t width = 0) const { return of({0, vertices()}, width); }

 private:
  void count(csr_view g, vertex_id v, std::vector<vertex_id>& scratch, std::uint32_t warp);
  void count_run(vertex_id v, std::uint64_t length, std::uint32_t warp);

  std::vector<std::uint32_t> widths_;
  // Prefix sums over vertices, and the total.
  std::vector<std::uint64_t> edges_;
  std::vector<std::uint64_t> runs_;
  std::vector<std::uint64_t> reads_;
  std::vector<std::vector<std::uint64_t>> row_reads_;
};

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_VERTEX_FEATURES)

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

namespace detail {

UNITY_INLINE void check_widths(csr_view g, const std::vector<std::uint32_t>& widths, std::uint32_t warp) {
  if (widths.empty() || warp == 0) {
    throw error{"features of vertices", warp == 0 ? "a warp of 0" : "no width", "one thread and one column at least"};
  }
  std::uint64_t columns = 0;
  for (const auto w : widths) {
    if (w == 0) {
      throw error{"features of vertices", "a width of 0", "one column at least"};
    }
    columns += w;
  }
  if (g.edges() >= (std::uint64_t{1} << 58U) / columns) {
    throw error{"features of vertices", fmt::format("{} edges of {} columns", g.edges(), columns), "sums of 58 bits"};
  }
}

}  // namespace detail

UNITY_INLINE vertex_feature_sums::vertex_feature_sums(csr_view g, std::vector<std::uint32_t> widths, thread_pool& pool,
                                                      std::uint32_t warp)
    : widths_{std::move(widths)},
      edges_(g.offsets().begin(), g.offsets().end()),
      runs_(edges_.size()),
      reads_(edges_.size()) {
  detail::check_widths(g, widths_, warp);
  row_reads_.assign(widths_.size(), std::vector<std::uint64_t>(edges_.size()));
  std::vector<std::vector<vertex_id>> scratch(pool.size());
  pool.parallel_for(g.vertices(), 4096, [&](std::size_t worker, std::size_t begin, std::size_t end) {
    for (auto v = begin; v < end; ++v) {
      count(g, static_cast<vertex_id>(v), scratch[worker], warp);
    }
  });
  std::vector<std::vector<std::uint64_t>*> columns{&runs_, &reads_};
  for (auto& c : row_reads_) {
    columns.push_back(&c);
  }
  pool.parallel_for(columns.size(), 1, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (auto c = begin; c < end; ++c) {
      std::partial_sum(columns[c]->begin(), columns[c]->end(), columns[c]->begin());
    }
  });
}

UNITY_INLINE vertex_feature_sums::vertex_feature_sums(csr_view g, std::vector<std::uint32_t> widths,
                                                      std::uint32_t warp) {
  thread_pool pool;
  *this = vertex_feature_sums{g, std::move(widths), pool, warp};
}

UNITY_INLINE void vertex_feature_sums::count(csr_view g, vertex_id v, std::vector<vertex_id>& scratch,
                                             std::uint32_t warp) {
  auto own = g.sources_of(v);
  if (!std::is_sorted(own.begin(), own.end())) {
    scratch.assign(own.begin(), own.end());
    std::sort(scratch.begin(), scratch.end());
    own = scratch;
  }
  for (std::size_t i = 0; i < own.size();) {
    const auto first = own[i];
    auto last = first;
    for (; i < own.size() && own[i] - last <= 1; ++i) {
      last = own[i];
    }
    count_run(v, std::uint64_t{last} - first + 1, warp);
  }
}

UNITY_INLINE void vertex_feature_sums::count_run(vertex_id v, std::uint64_t length, std::uint32_t warp) {
  const auto place = v + std::size_t{1};
  ++runs_[place];
  reads_[place] += (length + warp - 1) / warp;
  for (std::size_t w = 0; w < widths_.size(); ++w) {
    row_reads_[w][place] += (length * widths_[w] + warp - 1) / warp;
  }
}

}  // namespace unity::gnn

#endif
