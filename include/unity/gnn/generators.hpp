// Random graphs as functions from the number of an edge to the edge, and their generation in bounded memory.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/external_sort.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::gnn {

// A graph whose edges can be made in any order, by any number of threads, and need not be kept.
//   g.vertices()   how many there are
//   g.edges()      how many there are, some of them possibly equal
//   g(k)           edge k, 0 <= k < g.edges()
// Laws: g(k) is a pure function of k and of what the generator was made with; both its ends are below g.vertices().
template <class G>
concept edge_generator = std::copyable<G> && requires(const G& g, edge_id k) {
  { g.vertices() } -> std::same_as<vertex_id>;
  { g.edges() } -> std::same_as<edge_id>;
  { g(k) } -> std::same_as<edge>;
};

// Recursive matrix: each edge falls into a quarter of the adjacency matrix (rows are sources, columns targets), then
// into a quarter of that quarter, and so on. Degrees follow a power law; edges may be equal. Models edge_generator.
// Source: Chakrabarti, Zhan and Faloutsos, R-MAT: a recursive model for graph mining, SDM 2004.
class rmat {
 public:
  // The shares of the quarters top left, top right, bottom left and bottom right; the default is that of Graph500.
  using shares = std::array<double, 4>;
  static constexpr shares graph500{0.57, 0.19, 0.19, 0.05};

  // 2^scale vertices. Throws: unity::error for a scale above 31, and for shares below 0 or whose sum is not 1.
  rmat(unsigned scale, edge_id edges, std::uint64_t seed, const shares& quarters = graph500);

  [[nodiscard]] vertex_id vertices() const noexcept { return vertex_id{1} << scale_; }
  [[nodiscard]] edge_id edges() const noexcept { return edges_; }
  // Complexity: linear in the scale.
  [[nodiscard]] edge operator()(edge_id k) const noexcept;

 private:
  unsigned scale_;
  edge_id edges_;
  std::uint64_t seed_;
  std::array<std::uint64_t, 3> limits_{};  // running sums of the shares, in units of 2^-64
};

// G(n, m): m different edges out of all ordered pairs of two different vertices. Each set of edges is about equally
// likely: it is the first m values of a pseudo-random permutation of all pairs. Models edge_generator.
// Source: Erdos and Renyi, On random graphs, Publicationes Mathematicae 6, 1959.
class erdos_renyi {
 public:
  // Throws: unity::error if there are fewer pairs than edges.
  erdos_renyi(vertex_id vertices, edge_id edges, std::uint64_t seed);

  [[nodiscard]] vertex_id vertices() const noexcept { return vertices_; }
  [[nodiscard]] edge_id edges() const noexcept { return edges_; }
  // Complexity: expected constant.
  [[nodiscard]] edge operator()(edge_id k) const noexcept;

 private:
  vertex_id vertices_;
  edge_id edges_;
  index_permutation pairs_;
};

// Preferential attachment: vertices 1, 2, ... are added one after another. Each gets `edges_each` edges from earlier
// vertices, drawn with probabilities in proportion to their degrees (in and out); a vertex may get equal edges. Models
// edge_generator.
// Source: Barabasi and Albert, Emergence of scaling in random networks, Science 286, 1999; one edge at a time, in any
// order, by Sanders and Schulz, Scalable generation of scale-free graphs, Information Processing Letters 116(7), 2016.
class barabasi_albert {
 public:
  // Throws: unity::error without vertices, and for more than 2^62 edges.
  barabasi_albert(vertex_id vertices, vertex_id edges_each, std::uint64_t seed);

  [[nodiscard]] vertex_id vertices() const noexcept { return vertices_; }
  [[nodiscard]] edge_id edges() const noexcept { return (vertices_ - edge_id{1}) * each_; }
  // Complexity: expected constant.
  [[nodiscard]] edge operator()(edge_id k) const noexcept;

 private:
  vertex_id vertices_;
  vertex_id each_;
  std::uint64_t seed_;
};

// Generates graphs in bounded memory: as a stream of edges in order, or as a whole.

// Edges that a graph has besides the drawn ones, and whether duplicates stay. Regular.
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_GENERATORS)

#include <cmath>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

UNITY_INLINE rmat::rmat(unsigned scale, edge_id edges, std::uint64_t seed, const shares& quarters)
    : scale_{scale}, edges_{edges}, seed_{seed} {
  if (scale > 31) {
    throw error{"R-MAT graph", fmt::format("a scale of {}", scale), "31 at most"};
  }
  double sum = 0;
  for (std::size_t i = 0; i < quarters.size(); ++i) {
    if (!(quarters[i] >= 0)) {
      throw error{"R-MAT graph", fmt::format("a share of {}", quarters[i]), "a number that is not below 0"};
    }
    sum += quarters[i];
    if (i < limits_.size()) {
      limits_[i] = sum >= 1 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(std::ldexp(sum, 64));
    }
  }
  if (!(std::abs(sum - 1) < 1e-9)) {
    throw error{"R-MAT graph", fmt::format("shares whose sum is {}", sum), "a sum of 1"};
  }
}

UNITY_INLINE edge rmat::operator()(edge_id k) const noexcept {
  random_engine random{hash_combine(seed_, k)};
  edge e;
  for (unsigned level = 0; level < scale_; ++level) {
    const auto drawn = random();
    const bool is_bottom = drawn >= limits_[1];
    const bool is_right = drawn >= (is_bottom ? limits_[2] : limits_[0]);
    e.source = e.source << 1U | static_cast<vertex_id>(is_bottom);
    e.target = e.target << 1U | static_cast<vertex_id>(is_right);
  }
  return e;
}

UNITY_INLINE erdos_renyi::erdos_renyi(vertex_id vertices, edge_id edges, std::uint64_t seed)
    : vertices_{vertices},
      edges_{edges},
      pairs_{std::max<std::uint64_t>(1, vertices * (std::max<std::uint64_t>(vertices, 1) - 1)), seed} {
  const auto most = vertices * (std::max<edge_id>(vertices, 1) - 1);
  if (edges > most) {
    throw error{"Erdos-Renyi graph", fmt::format("{} edges", edges),
                fmt::format("{} at most among {} vertices", most, vertices)};
  }
}

UNITY_INLINE edge erdos_renyi::operator()(edge_id k) const noexcept {
  const auto pair = pairs_(k);
  const auto others = vertices_ - edge_id{1};
  const auto target = static_cast<vertex_id>(pair / others);
  const auto other = static_cast<vertex_id>(pair % others);
  return {other + static_cast<vertex_id>(other >= target), target};
}

UNITY_INLINE barabasi_albert::barabasi_albert(vertex_id vertices, vertex_id edges_each, std::uint64_t seed)
    : vertices_{vertices}, each_{edges_each}, seed_{seed} {
  if (vertices == 0) {
    throw error{"Barabasi-Albert graph", "no vertex", "one at least"};
  }
  if (edges() > edge_id{1} << 62U) {
    throw error{"Barabasi-Albert graph", fmt::format("{} edges", edges()), "2^62 at most"};
  }
}

// List the ends of all edges into vertices before v, edge by edge: each vertex occurs as often as its degree. So the
// source of an edge into v is a uniformly drawn entry of this list. An even entry is the target of its edge, which is
// known; an odd one is the source of an earlier edge, which is drawn again with the same random numbers.
UNITY_INLINE edge barabasi_albert::operator()(edge_id k) const noexcept {
  const auto target_of = [&](edge_id e) { return static_cast<vertex_id>(e / each_ + 1); };
  const auto target = target_of(k);
  auto e = k;
  while (target_of(e) > 1) {
    random_engine random{hash_combine(seed_, e)};
    const auto place = random.below(2 * (target_of(e) - edge_id{1}) * each_);
    e = place / 2;
    if (place % 2 == 0) {
      return {target_of(e), target};
    }
  }
  return {0, target};
}

}  // namespace unity::gnn

#endif
