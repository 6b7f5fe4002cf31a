// Directed graphs with many vertices, stored as in-edges in compressed sparse rows, and built from edges and from other
// graphs.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>

namespace unity::gnn {

// Plain integers, not unity::id: they fill arrays that are mapped from files and passed to devices.
using vertex_id = std::uint32_t;
using edge_id = std::uint64_t;

// Regular.
struct edge {
  vertex_id source = 0;
  vertex_id target = 0;

  friend auto operator<=>(const edge&, const edge&) = default;
};

// The vertices begin to end - 1. Regular.
struct vertex_range {
  vertex_id begin = 0;
  vertex_id end = 0;

  [[nodiscard]] vertex_id size() const noexcept { return end - begin; }
  [[nodiscard]] bool contains(vertex_id v) const noexcept { return begin <= v && v < end; }

  friend bool operator==(const vertex_range&, const vertex_range&) = default;
};

// A graph whose arrays are owned elsewhere: the in-edges of vertex v come from sources[offsets[v]] to sources[offsets[v
// + 1] - 1]. Copied in constant time.
class csr_view {
 public:
  // Precondition: check_csr accepts them.
  csr_view(std::span<const edge_id> offsets, std::span<const vertex_id> sources) noexcept
      : offsets_{offsets}, sources_{sources} {}

  [[nodiscard]] vertex_id vertices() const noexcept { return static_cast<vertex_id>(offsets_.size() - 1); }
  [[nodiscard]] edge_id edges() const noexcept { return sources_.size(); }
  [[nodiscard]] edge_id in_degree(vertex_id v) const noexcept { return offsets_[v + 1UL] - offsets_[v]; }
  // The sources of the vertex's in-edges, in the order of the array, which need not be sorted.
  [[nodiscard]] std::span<const vertex_id> sources_of(vertex_id v) const noexcept {
    return sources_.subspan(static_cast<std::size_t>(offsets_[v]), static_cast<std::size_t>(in_degree(v)));
  }
  // One more entry than there are vertices; from 0 to the number of edges.
  [[nodiscard]] std::span<const edge_id> offsets() const noexcept { return offsets_; }
  [[nodiscard]] std::span<const vertex_id> sources() const noexcept { return sources_; }

 private:
  std::span<const edge_id> offsets_;
  std::span<const vertex_id> sources_;
};

// Checks that the arrays form a graph: offsets start at 0, never decrease and end at the number of sources; sources are
// vertices. Complexity: linear.
// Throws: unity::error that begins with `where` and names the first vertex or edge that is wrong.
void check_csr(std::span<const edge_id> offsets, std::span<const vertex_id> sources, std::string_view where);

// A graph that owns its arrays. Regular; converts to a view of itself.
class csr_graph {
 public:
  // An empty graph.
  csr_graph() = default;
  // Throws: as check_csr.
  csr_graph(std::vector<edge_id> offsets, std::vector<vertex_id> sources, std::string_view where = "graph");
  explicit csr_graph(csr_view copied);

  [[nodiscard]] csr_view view() const noexcept { return {offsets_, sources_}; }
  operator csr_view() const noexcept { return view(); }  // NOLINT: as std::string is a std::string_view

  [[nodiscard]] vertex_id vertices() const noexcept { return view().vertices(); }
  [[nodiscard]] edge_id edges() const noexcept { return sources_.size(); }

  friend bool operator==(const csr_graph&, const csr_graph&) = default;

 private:
  std::vector<edge_id> offsets_ = std::vector<edge_id>(1);
  std::vector<vertex_id> sources_{};
};

// Whether both have the same edges in the same order. Complexity: linear.
[[nodiscard]] bool equal(csr_view a, csr_view b);

// In-degrees. Complexity: linear in vertices.
[[nodiscard]] std::vector<edge_id> in_degrees(csr_view g);
// Out-degrees. Complexity: linear.
[[nodiscard]] std::vector<edge_id> out_degrees(csr_view g);

// Orders the edges by target, then by source; duplicate edges stay. Complexity: n log n in the largest in-degree.
// Throws: unity::error that begins with `where` and names, by its position, the first edge with an invalid end.
[[nodiscard]] csr_graph from_edges(vertex_id vertices, std::span<const edge> edges, std::string_view where = "edges");

// Reverses every edge; sources ascend. Complexity: linear.
[[nodiscard]] csr_graph transposed(csr_view g);

// Removes duplicate edges; sources ascend. Complexity: n log n in the largest in-degree.
[[nodiscard]] csr_graph distinct(csr_view g);

// Adds a self-loop to each vertex that has none, before the first larger source; all other edges stay as they are.
// Source: Kipf and Welling, Semi-supervised classification with graph convolutional networks, ICLR 2017, equation 2
// (the renormalization trick). Complexity: linear.
[[nodiscard]] csr_graph with_self_edges(csr_view g);

// Makes the graph undirected: each edge in both directions, once; sources ascend. Complexity: n log n in the largest
// degree.
[[nodiscard]] csr_graph symmetric(csr_view g);

// Whether every edge has its reverse with the same multiplicity. Complexity: as distinct.
[[nodiscard]] bool is_symmetric(csr_view g);

// Vertex v of `g` becomes vertex numbers[v] of the result; sources ascend. Complexity: n log n in the largest
// in-degree.
// Throws: unity::error if the numbers are not a permutation of the vertices.
[[nodiscard]] csr_graph renumbered(csr_view g, std::span<const vertex_id> numbers);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_CSR_GRAPH)

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

UNITY_INLINE void check_csr(std::span<const edge_id> offsets, std::span<const vertex_id> sources,
                            std::string_view where) {
  constexpr auto most = std::numeric_limits<vertex_id>::max();
  if (offsets.empty() || offsets.size() - 1 > most) {
    throw error{where, fmt::format("{} offsets", offsets.size()), fmt::format("1 to {}", most + 1UL)};
  }
  if (offsets.front() != 0) {
    throw error{where, fmt::format("vertex 0 begins at edge {}", offsets.front()), "edge 0"};
  }
  const auto vertices = offsets.size() - 1;
  for (std::size_t v = 0; v < vertices; ++v) {
    if (offsets[v + 1] < offsets[v]) {
      throw error{where, fmt::format("vertex {} ends at edge {}", v, offsets[v + 1]),
                  fmt::format("edge {}, at which it begins, or one behind it", offsets[v])};
    }
  }
  if (offsets.back() != sources.size()) {
    throw error{where, fmt::format("the last vertex ends at edge {}", offsets.back()),
                fmt::format("the number of edges, {}", sources.size())};
  }
  const auto wrong = std::find_if(sources.begin(), sources.end(), [&](vertex_id s) { return s >= vertices; });
  if (wrong != sources.end()) {
    throw error{where, fmt::format("edge {} comes from vertex {}", wrong - sources.begin(), *wrong),
                fmt::format("a vertex below {}", vertices)};
  }
}

UNITY_INLINE csr_graph::csr_graph(std::vector<edge_id> offsets, std::vector<vertex_id> sources, std::string_view where)
    : offsets_{std::move(offsets)}, sources_{std::move(sources)} {
  check_csr(offsets_, sources_, where);
}

UNITY_INLINE csr_graph::csr_graph(csr_view copied)
    : offsets_(copied.offsets().begin(), copied.offsets().end()),
      sources_(copied.sources().begin(), copied.sources().end()) {}

UNITY_INLINE bool equal(csr_view a, csr_view b) {
  return std::equal(a.offsets().begin(), a.offsets().end(), b.offsets().begin(), b.offsets().end()) &&
         std::equal(a.sources().begin(), a.sources().end(), b.sources().begin(), b.sources().end());
}

UNITY_INLINE std::vector<edge_id> in_degrees(csr_view g) {
  std::vector<edge_id> degrees(g.vertices());
  for (vertex_id v = 0; v < g.vertices(); ++v) {
    degrees[v] = g.in_degree(v);
  }
  return degrees;
}

UNITY_INLINE std::vector<edge_id> out_degrees(csr_view g) {
  std::vector<edge_id> degrees(g.vertices());
  for (const auto s : g.sources()) {
    ++degrees[s];
  }
  return degrees;
}

namespace detail {

// Offsets of lists with these lengths; the last length is ignored.
[[nodiscard]] UNITY_INLINE std::vector<edge_id> offsets_of(std::vector<edge_id> lengths) {
  std::exclusive_scan(lengths.begin(), lengths.end(), lengths.begin(), edge_id{0});
  return lengths;
}

UNITY_INLINE void sort_lists(const std::vector<edge_id>& offsets, std::vector<vertex_id>& sources) {
  for (std::size_t v = 0; v + 1 < offsets.size(); ++v) {
    std::sort(sources.begin() + static_cast<std::ptrdiff_t>(offsets[v]),
              sources.begin() + static_cast<std::ptrdiff_t>(offsets[v + 1]));
  }
}

// Builds a graph: append(v, sources) appends the sources of vertex v.
template <class F>
[[nodiscard]] csr_graph lists(vertex_id vertices, edge_id expected, F&& append) {
  std::vector<edge_id> offsets{0};
  offsets.reserve(vertices + std::size_t{1});
  std::vector<vertex_id> sources;
  sources.reserve(static_cast<std::size_t>(expected));
  for (vertex_id v = 0; v < vertices; ++v) {
    append(v, sources);
    offsets.push_back(sources.size());
  }
  return {std::move(offsets), std::move(sources)};
}

UNITY_INLINE void make_set(std::vector<vertex_id>& all, std::size_t from) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(from);
  std::sort(first, all.end());
  all.erase(std::unique(first, all.end()), all.end());
}

}  // namespace detail

UNITY_INLINE csr_graph from_edges(vertex_id vertices, std::span<const edge> edges, std::string_view where) {
  std::vector<edge_id> lengths(vertices + std::size_t{1});
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].source >= vertices || edges[e].target >= vertices) {
      throw error{where, fmt::format("edge {} goes from {} to {}", e, edges[e].source, edges[e].target),
                  fmt::format("vertices below {}", vertices)};
    }
    ++lengths[edges[e].target];
  }
  auto offsets = detail::offsets_of(std::move(lengths));
  std::vector<vertex_id> sources(edges.size());
  auto next = offsets;
  for (const auto& e : edges) {
    sources[static_cast<std::size_t>(next[e.target]++)] = e.source;
  }
  detail::sort_lists(offsets, sources);
  return {std::move(offsets), std::move(sources)};
}

UNITY_INLINE csr_graph transposed(csr_view g) {
  auto lengths = out_degrees(g);
  lengths.push_back(0);
  auto offsets = detail::offsets_of(std::move(lengths));
  std::vector<vertex_id> targets(g.sources().size());
  auto next = offsets;
  for (vertex_id v = 0; v < g.vertices(); ++v) {
    for (const auto s : g.sources_of(v)) {
      targets[static_cast<std::size_t>(next[s]++)] = v;
    }
  }
  return {std::move(offsets), std::move(targets)};
}

UNITY_INLINE csr_graph distinct(csr_view g) {
  return detail::lists(g.vertices(), g.edges(), [&](vertex_id v, std::vector<vertex_id>& sources) {
    const auto from = sources.size();
    const auto own = g.sources_of(v);
    sources.insert(sources.end(), own.begin(), own.end());
    detail::make_set(sources, from);
  });
}

UNITY_INLINE csr_graph with_self_edges(csr_view g) {
  return detail::lists(g.vertices(), g.edges() + g.vertices(), [&](vertex_id v, std::vector<vertex_id>& sources) {
    const auto own = g.sources_of(v);
    auto place = own.end();
    const bool is_missing = std::find(own.begin(), own.end(), v) == own.end();
    if (is_missing) {
      place = std::find_if(own.begin(), own.end(), [&](vertex_id s) { return s > v; });
    }
    sources.insert(sources.end(), own.begin(), place);
    if (is_missing) {
      sources.push_back(v);
    }
    sources.insert(sources.end(), place, own.end());
  });
}

UNITY_INLINE csr_graph symmetric(csr_view g) {
  const auto reverse = transposed(g);
  const auto back = reverse.view();
  return detail::lists(g.vertices(), 2 * g.edges(), [&](vertex_id v, std::vector<vertex_id>& sources) {
    const auto from = sources.size();
    for (const auto& own : {g.sources_of(v), back.sources_of(v)}) {
      sources.insert(sources.end(), own.begin(), own.end());
    }
    detail::make_set(sources, from);
  });
}

UNITY_INLINE bool is_symmetric(csr_view g) {
  const auto back = transposed(g);
  return transposed(back) == back;
}

UNITY_INLINE csr_graph renumbered(csr_view g, std::span<const vertex_id> numbers) {
  if (numbers.size() != g.vertices()) {
    throw error{"new numbers of vertices", fmt::format("{} of them", numbers.size()), fmt::format("{}", g.vertices())};
  }
  std::vector<edge_id> lengths(numbers.size() + 1);
  std::vector<bool> is_taken(numbers.size());
  for (vertex_id v = 0; v < g.vertices(); ++v) {
    if (numbers[v] >= g.vertices() || is_taken[numbers[v]]) {
      throw error{fmt::format("new number of vertex {}", v), fmt::format("{}", numbers[v]),
                  fmt::format("a number below {} that no other vertex has", g.vertices())};
    }
    is_taken[numbers[v]] = true;
    lengths[numbers[v]] = g.in_degree(v);
  }
  auto offsets = detail::offsets_of(std::move(lengths));
  std::vector<vertex_id> sources(g.sources().size());
  for (vertex_id v = 0; v < g.vertices(); ++v) {
    auto out = sources.begin() + static_cast<std::ptrdiff_t>(offsets[numbers[v]]);
    const auto own = g.sources_of(v);
    std::transform(own.begin(), own.end(), out, [&](vertex_id s) { return numbers[s]; });
  }
  detail::sort_lists(offsets, sources);
  return {std::move(offsets), std::move(sources)};
}

}  // namespace unity::gnn

#endif
