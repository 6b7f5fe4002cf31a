// Generates graphs in bounded memory: as a stream of edges in order, or as a whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include <unity/core/external_sort.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/generators.hpp>

namespace unity::gnn {

// Which edges a graph has besides those that are drawn. Regular.
struct edge_rules {
  bool both_directions = false;  // also the reverse of each edge
  bool self_edges = false;       // a self-loop at each vertex
  bool distinct = true;          // without duplicates

  friend bool operator==(const edge_rules&, const edge_rules&) = default;
};

// Resource limits of a generator. Regular.
struct generation_limits {
  std::size_t memory = std::size_t{1} << 30U;  // bytes for sorting edges; more goes to files
  std::filesystem::path folder{};              // folder of these files; empty: the system's temporary folder
  std::size_t threads = 1;                     // that draw edges; the graph does not depend on it

  friend bool operator==(const generation_limits&, const generation_limits&) = default;
};

namespace detail {

// An edge as a number that orders edges by target, then by source.
[[nodiscard]] constexpr std::uint64_t packed(edge e) noexcept { return std::uint64_t{e.target} << 32U | e.source; }
[[nodiscard]] constexpr edge unpacked(std::uint64_t e) noexcept {
  return {static_cast<vertex_id>(e), static_cast<vertex_id>(e >> 32U)};
}

// Effects: push(packed edge) for each drawn edge, in order; the pool generates them block by block.
template <edge_generator G, class F>
void draw(const G& g, std::size_t block, thread_pool& pool, F&& push) {
  std::vector<std::uint64_t> drawn;
  for (edge_id begin = 0; begin < g.edges(); begin += block) {
    drawn.resize(static_cast<std::size_t>(std::min<edge_id>(block, g.edges() - begin)));
    pool.parallel_for(drawn.size(), 4096, [&](std::size_t, std::size_t from, std::size_t to) {
      for (auto i = from; i < to; ++i) {
        drawn[i] = packed(g(begin + i));
      }
    });
    for (const auto e : drawn) {
      push(e);
    }
  }
}

}  // namespace detail

// Effects: f(edge) for each edge of the graph, ordered by target, then by source. Complexity: n log n. Memory: as
// limited, but at least 64 KiB for any number of edges; beyond that, files with 8 bytes per drawn edge.
// Throws: unity::error if a file cannot be written, and what f throws.
template <edge_generator G, std::invocable<edge> F>
void for_each_edge(const G& g, const edge_rules& rules, const generation_limits& limits, F&& f) {
  const auto block = std::clamp<std::size_t>(limits.memory / 128, 1024, std::size_t{1} << 20U);
  external_sorter<std::uint64_t, std::less<>> sorter{{}, limits.memory, limits.folder};
  {
    thread_pool pool{std::max<std::size_t>(limits.threads, 1)};
    detail::draw(g, block, pool, [&](std::uint64_t e) {
      sorter.push(e);
      if (rules.both_directions) {
        const auto forth = detail::unpacked(e);
        sorter.push(detail::packed({forth.target, forth.source}));
      }
    });
  }
  for (vertex_id v = 0; rules.self_edges && v < g.vertices(); ++v) {
    sorter.push(detail::packed({v, v}));
  }
  bool is_first = true;
  std::uint64_t last = 0;
  sorter.drain([&](std::uint64_t e) {
    if (is_first || e != last || !rules.distinct) {
      f(detail::unpacked(e));
    }
    is_first = false;
    last = e;
  });
}

// The graph in memory. Complexity, throws: as for_each_edge.
template <edge_generator G>
[[nodiscard]] csr_graph generate(const G& g, const edge_rules& rules = {}, const generation_limits& limits = {}) {
  std::vector<edge_id> offsets(g.vertices() + std::size_t{1});
  std::vector<vertex_id> sources;
  for_each_edge(g, rules, limits, [&](edge e) {
    ++offsets[e.target + std::size_t{1}];
    sources.push_back(e.source);
  });
  for (std::size_t v = 1; v < offsets.size(); ++v) {
    offsets[v] += offsets[v - 1];
  }
  return {std::move(offsets), std::move(sources)};
}

}  // namespace unity::gnn
