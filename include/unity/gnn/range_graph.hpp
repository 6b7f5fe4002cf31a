// The part of a graph that a device with a range of vertices needs: edges into the range, in both directions, and the
// rows it exchanges with other devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// Counts for one part. Regular.
struct part_report {
  vertex_id vertices = 0;
  edge_id edges = 0;              // into these vertices
  edge_id edges_from_others = 0;  // of these, edges from vertices of other parts
  vertex_id remote_sources = 0;   // distinct vertices of other parts that are read

  friend bool operator==(const part_report&, const part_report&) = default;
};

// Complexity: linear in edges and in vertices times parts / 64.
// Throws: unity::error if the partition has another number of vertices.
[[nodiscard]] std::vector<part_report> report(csr_view g, const vertex_partition& p);

// The distinct sources outside of the range with edges into it, ascending. Complexity: linear in its edges and in
// vertices / 64; memory as much as the result, and 1.5 bits per vertex.
[[nodiscard]] std::vector<vertex_id> remote_sources(csr_view g, vertex_range r);

// Edges from the rows of one table to the rows of another, indexed by target and by source. The in-edges of row t are
// sources[offsets[t]] to sources[offsets[t + 1] - 1]; the out-edges of row s are targets[out_offsets[s]] to
// targets[out_offsets[s + 1] - 1], ordered by target, and out_edges gives the position of each among the in-edges.
// Regular.
struct edge_lists {
  std::vector<std::int32_t> offsets{};
  std::vector<std::int32_t> sources{};
  std::vector<std::int32_t> out_offsets{};
  std::vector<std::int32_t> targets{};
  std::vector<std::int32_t> out_edges{};

  [[nodiscard]] std::size_t edges() const noexcept { return sources.size(); }
  // Both directions share their lists, as in a graph where every edge has its reverse.
  [[nodiscard]] bool is_symmetric() const { return offsets == out_offsets && sources == targets; }

  friend bool operator==(const edge_lists&, const edge_lists&) = default;
};

// Rows begin to end - 1 of a list are sent to a part or received from it. Regular.
struct row_exchange_part {
  std::size_t part = 0;
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const row_exchange_part&, const row_exchange_part&) = default;
};

// apart   edges from vertices of the range, and edges from others: the former need not wait for rows to arrive
// joint   all edges in one list, in which the others' rows stand behind the range's own
enum class edge_split : std::uint8_t { apart, joint };

// Rows are numbered from the first vertex of the range; rows of other parts are numbered in the order of `halo`.
// Regular.
struct range_graph {
  vertex_range range{};
  edge_lists own{};                           // with `joint`: all edges
  edge_lists remote{};                        // with `joint`: empty
  std::vector<vertex_id> halo{};              // sources that lie outside of the range, each once, ascending
  std::vector<row_exchange_part> received{};  // rows of `halo` by the part that owns them, ascending
  std::vector<std::int32_t> rows{};           // own rows that others read, per part
  std::vector<row_exchange_part> sent{};      // rows of `rows` by the part that reads them, ascending

  friend bool operator==(const range_graph&, const range_graph&) = default;
};

// The subgraph of the range of part k. The rows that one part sends to another are those that the other receives, in
// the same order.
// Complexity: linear in the graph's edges, which are searched for rows that others read; memory linear in the part's
// edges.
// Throws: unity::error if the partition has another number of vertices, or the range is empty or has more than 2^31 - 1
// edges.
[[nodiscard]] range_graph range_graph_of(csr_view g, const vertex_partition& p, std::size_t part, edge_split split);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_RANGE_GRAPH)

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

namespace detail {

// Sources of the in-edges of a range. Precondition: the range is one of vertices.
[[nodiscard]] UNITY_INLINE std::span<const vertex_id> sources_into(csr_view g, vertex_range r) {
  return g.sources().subspan(static_cast<std::size_t>(g.offsets()[r.begin]),
                             static_cast<std::size_t>(g.offsets()[r.end] - g.offsets()[r.begin]));
}

// The vertices outside of a range with edges into it, numbered in ascending order. A set of bits with the number of
// members before each word: finding a number takes two reads, from tables that stay in the cache, where a search in the
// list of members takes a cache miss per step.
class remote_set {
 public:
  UNITY_INLINE remote_set(csr_view g, vertex_range r) : words_((std::size_t{g.vertices()} + 63) / 64) {
    for (const auto s : sources_into(g, r)) {
      words_[s / 64] |= std::uint64_t{!r.contains(s)} << s % 64;
    }
    before_.reserve(words_.size());
    for (const auto w : words_) {
      before_.push_back(size_);
      size_ += static_cast<vertex_id>(std::popcount(w));
    }
  }

  [[nodiscard]] vertex_id size() const noexcept { return size_; }

  // Precondition: v is a member.
  [[nodiscard]] vertex_id number_of(vertex_id v) const {
    const auto below = words_[v / 64] & ((std::uint64_t{1} << v % 64) - 1);
    return before_[v / 64] + static_cast<vertex_id>(std::popcount(below));
  }

  [[nodiscard]] UNITY_INLINE std::vector<vertex_id> members() const {
    std::vector<vertex_id> all;
    all.reserve(size_);
    for (std::size_t k = 0; k < words_.size(); ++k) {
      for (auto w = words_[k]; w != 0; w &= w - 1) {
        all.push_back(static_cast<vertex_id>(64 * k + static_cast<std::size_t>(std::countr_zero(w))));
      }
    }
    return all;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<vertex_id> before_;
  vertex_id size_ = 0;
};

}  // namespace detail

UNITY_INLINE std::vector<vertex_id> remote_sources(csr_view g, vertex_range r) {
  return detail::remote_set{g, r}.members();
}

UNITY_INLINE std::vector<part_report> report(csr_view g, const vertex_partition& p) {
  if (p.vertices() != g.vertices()) {
    throw error{"partition", fmt::format("of {} vertices", p.vertices()), fmt::format("of {}", g.vertices())};
  }
  std::vector<part_report> all;
  for (std::size_t k = 0; k < p.parts(); ++k) {
    const auto r = p.range(k);
    const auto sources = detail::sources_into(g, r);
    const auto own = std::count_if(sources.begin(), sources.end(), [&](vertex_id s) { return r.contains(s); });
    all.push_back({.vertices = r.size(),
                   .edges = sources.size(),
                   .edges_from_others = sources.size() - static_cast<edge_id>(own),
                   .remote_sources = detail::remote_set{g, r}.size()});
  }
  return all;
}

namespace detail {

// Fills the lists by source. rows: the number of rows of the source table.
UNITY_INLINE void add_out_edges(edge_lists& e, std::size_t rows) {
  e.out_offsets.assign(rows + 1, 0);
  for (const auto s : e.sources) {
    ++e.out_offsets[static_cast<std::size_t>(s) + 1];
  }
  for (std::size_t s = 0; s < rows; ++s) {
    e.out_offsets[s + 1] += e.out_offsets[s];
  }
  auto next = e.out_offsets;
  e.targets.resize(e.edges());
  e.out_edges.resize(e.edges());
  for (std::size_t t = 0; t + 1 < e.offsets.size(); ++t) {
    for (auto k = e.offsets[t]; k < e.offsets[t + 1]; ++k) {
      const auto at =
          static_cast<std::size_t>(next[static_cast<std::size_t>(e.sources[static_cast<std::size_t>(k)])]++);
      e.targets[at] = static_cast<std::int32_t>(t);
      e.out_edges[at] = k;
    }
  }
}

// The parts that own ascending vertices; rows are positions in the list.
[[nodiscard]] UNITY_INLINE std::vector<row_exchange_part> parts_holding(std::span<const vertex_id> vertices,
                                                                        const vertex_partition& p) {
  std::vector<row_exchange_part> all;
  for (std::size_t i = 0; i < vertices.size();) {
    const auto k = p.part_of(vertices[i]);
    const auto end =
        static_cast<std::size_t>(std::lower_bound(vertices.begin(), vertices.end(), p.range(k).end) - vertices.begin());
    all.push_back({k, i, end});
    i = end;
  }
  return all;
}

// Effects: appends the rows of `own` that have edges into `readers`, ascending.
UNITY_INLINE void add_rows_read(csr_view g, vertex_range own, vertex_range readers, std::vector<bool>& is_read,
                                std::vector<std::int32_t>& rows) {
  is_read.assign(own.size(), false);
  for (const auto s : sources_into(g, readers)) {
    if (own.contains(s)) {
      is_read[s - own.begin] = true;
    }
  }
  for (std::size_t r = 0; r < is_read.size(); ++r) {
    if (is_read[r]) {
      rows.push_back(static_cast<std::int32_t>(r));
    }
  }
}

}  // namespace detail

UNITY_INLINE range_graph range_graph_of(csr_view g, const vertex_partition& p, std::size_t part, edge_split split) {
  if (p.vertices() != g.vertices()) {
    throw error{"partition", fmt::format("of {} vertices", p.vertices()), fmt::format("of {}", g.vertices())};
  }
  UNITY_EXPECTS(part < p.parts(), "a part of the partition");
  range_graph all{.range = p.range(part), .halo = {}};
  const auto range = all.range;
  const auto sources = detail::sources_into(g, range);
  if (range.size() == 0 || sources.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw error{fmt::format("part {}", part), fmt::format("{} vertices, {} edges", range.size(), sources.size()),
                fmt::format("at least one vertex and at most {} edges", std::numeric_limits<std::int32_t>::max())};
  }
  const detail::remote_set others{g, range};
  all.halo = others.members();
  all.received = detail::parts_holding(all.halo, p);
  const auto number = [&](vertex_id s) {
    return static_cast<std::int32_t>(others.number_of(s) + (split == edge_split::joint ? range.size() : 0));
  };
  auto& remote = split == edge_split::joint ? all.own : all.remote;
  all.own.offsets.push_back(0);
  all.remote.offsets.resize(split == edge_split::joint ? 0 : 1);
  for (auto v = range.begin; v < range.end; ++v) {
    for (const auto s : g.sources_of(v)) {
      if (range.contains(s)) {
        all.own.sources.push_back(static_cast<std::int32_t>(s - range.begin));
      } else {
        remote.sources.push_back(number(s));
      }
    }
    all.own.offsets.push_back(static_cast<std::int32_t>(all.own.edges()));
    if (split == edge_split::apart) {
      all.remote.offsets.push_back(static_cast<std::int32_t>(all.remote.edges()));
    }
  }
  const auto joined = split == edge_split::joint ? all.halo.size() : std::size_t{0};
  detail::add_out_edges(all.own, range.size() + joined);
  if (split == edge_split::apart) {
    detail::add_out_edges(all.remote, all.halo.size());
  }
  std::vector<bool> is_read;
  for (std::size_t k = 0; k < p.parts(); ++k) {
    const auto begin = all.rows.size();
    if (k != part) {
      detail::add_rows_read(g, range, p.range(k), is_read, all.rows);
    }
    if (all.rows.size() > begin) {
      all.sent.push_back({k, begin, all.rows.size()});
    }
  }
  return all;
}

}  // namespace unity::gnn

#endif
