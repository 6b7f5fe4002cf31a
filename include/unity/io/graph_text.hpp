// Graphs as text: neighbour lists and edge lists.
//
//   neighbours (`.graph`): line i, from 0 on, has the sources of the edges into vertex i
//   edges: a line for each edge, source and target; lines that begin with # or % are comments
//
// Source: Xtra-Computing/G3 (neighbours); SNAP and the network repository (edges).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::io {

// Neighbours keep the order of the file, duplicates too. Complexity: linear.
// Throws: unity::error with the line if a field is not a vertex.
[[nodiscard]] gnn::csr_graph parse_neighbours(std::string_view text, std::string_view name);
// Files with one space between two numbers are reproduced byte by byte.
[[nodiscard]] std::string neighbours_text(gnn::csr_view g);

// Orders the edges by target, then by source; duplicates stay. The number of vertices is as given, else the largest
// vertex plus one.
// Throws: unity::error with the line if it is not an edge of such a graph; and if there are more than a million
// vertices and more than a thousand per edge, for which a graph in memory would be too large.
[[nodiscard]] gnn::csr_graph parse_edges(std::string_view text, std::string_view name,
                                         std::optional<gnn::vertex_id> vertices = {});
// Ordered by target.
[[nodiscard]] std::string edges_text(gnn::csr_view g);

namespace detail {

// Throws: unity::error if hardly any vertex has an edge: then a number in the file is wrong.
void expect_edges(gnn::vertex_id vertices, std::size_t edges, std::string_view where);

}  // namespace detail

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_GRAPH_TEXT)

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/gnn/graph_transforms.hpp>
#include <unity/io/text_lines.hpp>

namespace unity::io {

namespace detail {

UNITY_INLINE void expect_edges(gnn::vertex_id vertices, std::size_t edges, std::string_view where) {
  if (vertices > 1'000'000 && vertices / 1000 > edges) {
    throw error{where, fmt::format("{} vertices with {} edges", vertices, edges),
                "an edge for every thousand vertices at least"};
  }
}

}  // namespace detail

UNITY_INLINE gnn::csr_graph parse_neighbours(std::string_view text, std::string_view name) {
  std::vector<gnn::edge_id> offsets{0};
  std::vector<gnn::vertex_id> sources;
  const auto vertices = std::count(text.begin(), text.end(), '\n') + (text.empty() || text.back() == '\n' ? 0 : 1);
  for (text_lines lines{text, name}; lines.next();) {
    lines.shorten(lines.line().find_last_not_of(" \t") + 1);
    while (!lines.line().empty()) {
      const auto source = lines.next_number<gnn::vertex_id>("the number of a vertex");
      if (source >= vertices) {
        throw error{lines.where(), fmt::format("{}", source), fmt::format("one of the {} vertices", vertices)};
      }
      sources.push_back(source);
    }
    offsets.push_back(sources.size());
  }
  return {std::move(offsets), std::move(sources), name};
}

UNITY_INLINE std::string neighbours_text(gnn::csr_view g) {
  fmt::memory_buffer text;
  for (gnn::vertex_id v = 0; v < g.vertices(); ++v) {
    fmt::format_to(std::back_inserter(text), "{}\n", fmt::join(g.sources_of(v), " "));
  }
  return fmt::to_string(text);
}

UNITY_INLINE gnn::csr_graph parse_edges(std::string_view text, std::string_view name,
                                        std::optional<gnn::vertex_id> vertices) {
  std::vector<gnn::edge> edges;
  gnn::vertex_id most = 0;
  for (text_lines lines{text, name}; lines.next();) {
    if (lines.line().starts_with('#') || lines.line().starts_with('%')) {
      continue;
    }
    gnn::edge e;
    for (auto* const end : {&e.source, &e.target}) {
      *end = lines.next_number<gnn::vertex_id>("two numbers of vertices");
      if (*end >= vertices.value_or(std::numeric_limits<gnn::vertex_id>::max())) {
        throw error{lines.where(), fmt::format("{}", *end),
                    fmt::format("a vertex below {}", vertices.value_or(std::numeric_limits<gnn::vertex_id>::max()))};
      }
      most = std::max(most, *end + 1);
    }
    if (!lines.line().empty()) {
      lines.refuse(lines.line(), "the end of the line behind two numbers of vertices");
    }
    edges.push_back(e);
  }
  detail::expect_edges(vertices.value_or(most), edges.size(), name);
  return gnn::from_edges(vertices.value_or(most), edges, name);
}

UNITY_INLINE std::string edges_text(gnn::csr_view g) {
  fmt::memory_buffer text;
  for (gnn::vertex_id v = 0; v < g.vertices(); ++v) {
    for (const auto s : g.sources_of(v)) {
      fmt::format_to(std::back_inserter(text), "{} {}\n", s, v);
    }
  }
  return fmt::to_string(text);
}

}  // namespace unity::io

#endif
