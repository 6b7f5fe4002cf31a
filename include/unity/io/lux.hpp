// Graphs in the format of ROC and Lux: `.lux`.
//
//   u32 vertices, u64 edges, u64 end[vertices], u32 source[edges]
//
// Little-endian, without padding (so the 64-bit numbers begin at byte 12). The in-edges of vertex v are those from
// end[v - 1] (0 for vertex 0) to end[v] - 1. ROC reads PREFIX.add_self_edge.lux, in which each vertex has a self-loop.
// Source: https://github.com/jiazhihao/ROC (load_task.cu, gnn.cc), 2020.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/file.hpp>
#include <unity/core/mapped_file.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/generators.hpp>

namespace unity::io {

// The size of the header, which precedes the ends.
inline constexpr std::size_t lux_head_bytes = 12;

// Throws: unity::error naming the file and the problem: its size, or the first invalid vertex or edge.
[[nodiscard]] gnn::csr_graph parse_lux(std::string_view bytes, std::string_view name);
[[nodiscard]] gnn::csr_graph read_lux(const std::filesystem::path& path);

// A graph whose sources stay in the file; memory: 8 bytes per vertex. Movable.
class mapped_lux {
 public:
  // Effects: reads the file once, to check it.
  // Throws: as parse_lux, and if it cannot be mapped.
  explicit mapped_lux(const std::filesystem::path& path);

  // Valid as long as this object, even after it was moved.
  [[nodiscard]] gnn::csr_view view() const noexcept { return {offsets_, sources_}; }

 private:
  mapped_file file_;
  std::vector<gnn::edge_id> offsets_;
  std::span<const gnn::vertex_id> sources_;
};

// Writes a graph edge by edge, in memory that does not depend on its size; the complete file exists after commit().
class lux_writer {
 public:
  // Throws: unity::error if no file can be created there.
  lux_writer(const std::filesystem::path& path, gnn::vertex_id vertices);

  // Preconditions: both ends are vertices; targets ascend.
  // Throws: unity::error if the edge cannot be written (a full disk).
  void add(gnn::edge e);
  // Throws: likewise.
  void commit();

 private:
  // Buffers numbers that are written consecutively from an offset.
  template <class Number>
  struct column {
    std::uint64_t place;
    std::vector<Number> held{};

    void push(Number n, atomic_file& file);
    void flush(atomic_file& file);
  };

  // Ends the lists of vertices below v.
  void end_vertices_below(gnn::vertex_id v);

  atomic_file file_;
  gnn::vertex_id vertices_;
  gnn::vertex_id ended_ = 0;  // vertices whose end is known
  gnn::edge_id edges_ = 0;
  column<gnn::edge_id> ends_;
  column<gnn::vertex_id> sources_;
};

// Throws: unity::error if the file cannot be written.
void write_lux(const std::filesystem::path& path, gnn::csr_view g);

// The graph of a generator, from disk to disk. Complexity, memory, throws: as gnn::for_each_edge, and as lux_writer.
template <gnn::edge_generator G>
void write_lux(const std::filesystem::path& path, const G& g, const gnn::edge_rules& rules = {},
               const gnn::generation_limits& limits = {}) {
  lux_writer file{path, g.vertices()};
  gnn::for_each_edge(g, rules, limits, [&](gnn::edge e) { file.add(e); });
  file.commit();
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_LUX)

#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::io {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

namespace detail {

template <class Number>
[[nodiscard]] Number number_at(std::string_view bytes, std::size_t place) noexcept {
  Number n{};
  std::memcpy(&n, bytes.data() + place, sizeof n);
  return n;
}

template <class Number>
[[nodiscard]] std::string_view bytes_of(std::span<const Number> numbers) noexcept {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

// The positions of the arrays in a file.
// Throws: unity::error if the arrays would not fill it exactly.
struct lux_layout {
  gnn::vertex_id vertices;
  gnn::edge_id edges;
  std::size_t sources;  // offset of their first byte

  lux_layout(std::string_view bytes, std::string_view name) {
    if (bytes.size() < lux_head_bytes) {
      throw error{name, fmt::format("{} bytes", bytes.size()), "numbers of vertices and of edges in the first 12"};
    }
    vertices = number_at<gnn::vertex_id>(bytes, 0);
    edges = number_at<gnn::edge_id>(bytes, 4);
    sources = lux_head_bytes + std::size_t{vertices} * 8;
    const bool can_be = sources <= bytes.size() && edges <= bytes.size() / 4;
    if (!can_be || sources + edges * 4 != bytes.size()) {
      throw error{name, fmt::format("{} bytes", bytes.size()),
                  fmt::format("12 and 8 for each of {} vertices and 4 for each of {} edges", vertices, edges)};
    }
  }

  [[nodiscard]] std::vector<gnn::edge_id> offsets(std::string_view bytes) const {
    std::vector<gnn::edge_id> all(vertices + std::size_t{1});
    if (vertices > 0) {
      std::memcpy(all.data() + 1, bytes.data() + lux_head_bytes, std::size_t{vertices} * 8);
    }
    return all;
  }
};

}  // namespace detail

UNITY_INLINE gnn::csr_graph parse_lux(std::string_view bytes, std::string_view name) {
  const detail::lux_layout layout{bytes, name};
  std::vector<gnn::vertex_id> sources(static_cast<std::size_t>(layout.edges));
  if (!sources.empty()) {
    std::memcpy(sources.data(), bytes.data() + layout.sources, sources.size() * 4);
  }
  return {layout.offsets(bytes), std::move(sources), name};
}

UNITY_INLINE gnn::csr_graph read_lux(const std::filesystem::path& path) {
  return parse_lux(read_file(path), path.string());
}

UNITY_INLINE mapped_lux::mapped_lux(const std::filesystem::path& path) : file_{path} {
  const auto bytes = detail::bytes_of(file_.bytes());
  const detail::lux_layout layout{bytes, path.string()};
  offsets_ = layout.offsets(bytes);
  // A mapping begins at a page boundary, and the sources at a multiple of 4 bytes.
  sources_ = {reinterpret_cast<const gnn::vertex_id*>(bytes.data() + layout.sources),
              static_cast<std::size_t>(layout.edges)};
  gnn::check_csr(offsets_, sources_, path.string());
}

template <class Number>
void lux_writer::column<Number>::push(Number n, atomic_file& file) {
  held.push_back(n);
  if (held.size() >= (std::size_t{1} << 20U) / sizeof(Number)) {
    flush(file);
  }
}

template <class Number>
void lux_writer::column<Number>::flush(atomic_file& file) {
  const auto bytes = detail::bytes_of(std::span<const Number>{held});
  file.write_at(place, bytes);
  place += bytes.size();
  held.clear();
}

UNITY_INLINE lux_writer::lux_writer(const std::filesystem::path& path, gnn::vertex_id vertices)
    : file_{path}, vertices_{vertices}, ends_{lux_head_bytes}, sources_{lux_head_bytes + std::uint64_t{vertices} * 8} {}

UNITY_INLINE void lux_writer::add(gnn::edge e) {
  UNITY_EXPECTS(e.source < vertices_ && e.target < vertices_ && e.target >= ended_, "vertices, and ascending targets");
  end_vertices_below(e.target);
  sources_.push(e.source, file_);
  ++edges_;
}

UNITY_INLINE void lux_writer::end_vertices_below(gnn::vertex_id v) {
  for (; ended_ < v; ++ended_) {
    ends_.push(edges_, file_);
  }
}

UNITY_INLINE void lux_writer::commit() {
  end_vertices_below(vertices_);
  ends_.flush(file_);
  sources_.flush(file_);
  file_.write_at(0, detail::bytes_of(std::span<const gnn::vertex_id>{&vertices_, 1}));
  file_.write_at(4, detail::bytes_of(std::span<const gnn::edge_id>{&edges_, 1}));
  file_.commit();
}

UNITY_INLINE void write_lux(const std::filesystem::path& path, gnn::csr_view g) {
  lux_writer file{path, g.vertices()};
  for (gnn::vertex_id v = 0; v < g.vertices(); ++v) {
    for (const auto s : g.sources_of(v)) {
      file.add({s, v});
    }
  }
  file.commit();
}

}  // namespace unity::io

#endif
