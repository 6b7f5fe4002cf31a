// Graphs as text: neighbour lists, edge lists and Matrix Market files. Also the line reader for other text formats:
// lines and their fields, with line numbers for messages.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::io {

// Iterates over the lines of a text that the caller owns; a carriage return before a line's end is removed. `name`: of
// the file.
class text_lines {
 public:
  text_lines(std::string_view text, std::string_view name) noexcept
      : left_{without_byte_order_mark(text)}, name_{name} {}

  // Goes to the next line, which becomes `line()`; false at the end. Complexity: linear in its length.
  [[nodiscard]] bool next() noexcept {
    if (left_.empty()) {
      return false;
    }
    const auto end = std::min(left_.find('\n'), left_.size());
    line_ = left_.substr(0, end);
    left_.remove_prefix(std::min(end + 1, left_.size()));
    if (!line_.empty() && line_.back() == '\r') {
      line_.remove_suffix(1);
    }
    ++number_;
    return true;
  }

  [[nodiscard]] std::string_view line() const noexcept { return line_; }
  // The number of the line, from 1 on.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  // "cora.graph:7"
  [[nodiscard]] std::string where() const { return fmt::format("{}:{}", name_, number_); }

  // Effects: truncates the line to this many characters.
  void shorten(std::size_t length) noexcept { line_ = line_.substr(0, length); }

  // Removes and returns the next field, which ends at a space or tab, with the spaces around it. Empty at the end of
  // the line.
  [[nodiscard]] std::string_view next_field() noexcept {
    constexpr std::string_view spaces = " \t";
    line_.remove_prefix(std::min(line_.find_first_not_of(spaces), line_.size()));
    const auto end = std::min(line_.find_first_of(spaces), line_.size());
    const auto field = line_.substr(0, end);
    line_.remove_prefix(end);
    line_.remove_prefix(std::min(line_.find_first_not_of(spaces), line_.size()));
    return field;
  }

  // Throws: unity::error at this line.
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{where(), found.empty() ? "the end of the line" : printable(found), expected};
  }

  // The next field as a number.
  // Throws: unity::error at this line if it is not one.
  template <class Number>
  [[nodiscard]] Number next_number(std::string_view expected) {
    const auto field = next_field();
    const auto number = to_number<Number>(field);
    if (!number) {
      refuse(field, expected);
    }
    return *number;
  }
  // Throws: likewise, and for infinities and NaN.
  template <class Number>
  [[nodiscard]] Number next_finite(std::string_view expected) {
    const auto field = next_field();
    const auto number = to_number<Number>(field);
    if (!number || !std::isfinite(*number)) {
      refuse(field, expected);
    }
    return *number;
  }

 private:
  std::string_view left_;
  std::string_view name_;
  std::string_view line_{};
  std::size_t number_ = 0;
};

// Graphs as text: neighbour lists and edge lists.
//
//   neighbours (`.graph`): line i, from 0 on, has the sources of the edges into vertex i
//   edges: a line for each edge, source and target; lines that begin with # or % are comments
//
// Source: Xtra-Computing/G3 (neighbours); SNAP and the network repository (edges).

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

// Sparse matrices in the Matrix Market exchange format, coordinate form, and graphs as their adjacency matrices.
//
//   %%MatrixMarket matrix coordinate pattern|real|integer general|symmetric
//   % comments
//   rows columns entries
//   row column [value]        from 1 on; of a symmetric matrix, the entries with row >= column
//
// Source: Boisvert, Pozo and Remington, The Matrix Market exchange formats: initial design, NISTIR 5935, 1996.

enum class matrix_field : std::uint8_t { pattern, real, integer };
enum class matrix_symmetry : std::uint8_t { general, symmetric };
inline constexpr std::array<std::string_view, 3> matrix_field_names{"pattern", "real", "integer"};
inline constexpr std::array<std::string_view, 2> matrix_symmetry_names{"general", "symmetric"};

// Entries in the order of the file, with indices from 0. Regular.
struct coordinate_matrix {
  struct place {
    std::uint32_t row = 0;
    std::uint32_t column = 0;

    friend bool operator==(const place&, const place&) = default;
  };

  matrix_field field = matrix_field::pattern;
  matrix_symmetry symmetry = matrix_symmetry::general;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::vector<place> places{};
  std::vector<double> values{};  // one per entry, or none for a pattern; integers have at most 53 bits

  friend bool operator==(const coordinate_matrix&, const coordinate_matrix&) = default;
};

// Complexity: linear.
// Throws: unity::error with the line and what was expected there.
[[nodiscard]] coordinate_matrix parse_matrix_market(std::string_view text, std::string_view name);

// Writes no comments, one space between numbers, and the fewest digits that identify each number. Files in this form
// are reproduced byte by byte.
[[nodiscard]] std::string matrix_market_text(const coordinate_matrix& m);

// An edge for each entry, from its column to its row, so that the matrix times the features sums the features of the
// sources; for each off-diagonal entry of a symmetric matrix, also the reverse edge. Values are ignored.
// Throws: unity::error that begins with `where` if the matrix is not square, or if hardly any row has an entry (as
// parse_edges).
[[nodiscard]] gnn::csr_graph graph_of(const coordinate_matrix& m, std::string_view where);

// The adjacency matrix of a graph, as a general pattern: row by row.
[[nodiscard]] coordinate_matrix matrix_of(gnn::csr_view g);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_GRAPH_TEXT)

#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

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
      lines.refuse(lines.line(), "the end of the line after two numbers of vertices");
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

namespace detail {

[[nodiscard]] UNITY_INLINE std::string lowered(std::string_view text) {
  std::string all{text};
  for (auto& c : all) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return all;
}

// The next word of the banner, which must be one of `words` in any case.
// Throws: unity::error at this line.
template <std::size_t N>
[[nodiscard]] std::size_t next_word(text_lines& lines, const std::array<std::string_view, N>& words) {
  const auto word = lines.next_field();
  const auto found = std::find_if(words.begin(), words.end(), [&](auto w) { return lowered(w) == lowered(word); });
  if (found == words.end()) {
    lines.refuse(word, fmt::format("{}", fmt::join(words, " or ")));
  }
  return static_cast<std::size_t>(found - words.begin());
}

UNITY_INLINE void expect_end(const text_lines& lines) {
  if (!lines.line().empty()) {
    lines.refuse(lines.line(), "the end of the line");
  }
}

// Effects: goes to the next line that is neither a comment nor blank; returns false at the end of the text.
[[nodiscard]] UNITY_INLINE bool next_content(text_lines& lines) {
  while (lines.next()) {
    if (!lines.line().starts_with('%') && lines.line().find_first_not_of(" \t") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

// Parses everything before the entries; `count` is their number.
[[nodiscard]] UNITY_INLINE coordinate_matrix parse_matrix_head(text_lines& lines, std::uint64_t& count) {
  coordinate_matrix m;
  static_cast<void>(lines.next());
  static_cast<void>(next_word<1>(lines, {"%%MatrixMarket"}));
  static_cast<void>(next_word<1>(lines, {"matrix"}));
  static_cast<void>(next_word<1>(lines, {"coordinate"}));
  m.field = static_cast<matrix_field>(next_word(lines, matrix_field_names));
  m.symmetry = static_cast<matrix_symmetry>(next_word(lines, matrix_symmetry_names));
  expect_end(lines);
  if (!next_content(lines)) {
    lines.refuse("", "a line of rows, columns and entries after this one");
  }
  m.rows = lines.next_number<std::uint32_t>("the number of rows");
  m.columns = lines.next_number<std::uint32_t>("the number of columns");
  count = lines.next_number<std::uint64_t>("the number of entries");
  expect_end(lines);
  if (m.symmetry == matrix_symmetry::symmetric && m.rows != m.columns) {
    throw error{lines.where(), fmt::format("{} rows, {} columns", m.rows, m.columns),
                "as many rows as columns in a symmetric matrix"};
  }
  return m;
}

[[nodiscard]] UNITY_INLINE std::uint32_t next_index(text_lines& lines, std::uint32_t size, std::string_view what) {
  const auto index = lines.next_number<std::uint32_t>(what);
  if (index < 1 || index > size) {
    throw error{lines.where(), fmt::format("{}", index), fmt::format("{}, 1 to {}", what, size)};
  }
  return index - 1;
}

UNITY_INLINE void add_entry(text_lines& lines, coordinate_matrix& m) {
  const auto row = next_index(lines, m.rows, "a row");
  const auto column = next_index(lines, m.columns, "a column");
  if (m.symmetry == matrix_symmetry::symmetric && column > row) {
    throw error{lines.where(), fmt::format("row {}, column {}", row + 1, column + 1),
                "the lower triangle of a symmetric matrix"};
  }
  if (m.field == matrix_field::real) {
    m.values.push_back(lines.next_finite<double>("a finite number"));
  } else if (m.field == matrix_field::integer) {
    const auto value = lines.next_number<std::int64_t>("an integer");
    if (std::abs(static_cast<double>(value)) > 0x1p53) {
      throw error{lines.where(), fmt::format("{}", value), "an integer of 53 bits"};
    }
    m.values.push_back(static_cast<double>(value));
  }
  expect_end(lines);
  m.places.push_back({row, column});
}

}  // namespace detail

UNITY_INLINE coordinate_matrix parse_matrix_market(std::string_view text, std::string_view name) {
  text_lines lines{text, name};
  std::uint64_t count = 0;
  auto m = detail::parse_matrix_head(lines, count);
  while (detail::next_content(lines)) {
    if (m.places.size() == count) {
      lines.refuse(lines.line(), fmt::format("the end of the file after {} entries", count));
    }
    detail::add_entry(lines, m);
  }
  if (m.places.size() != count) {
    throw error{name, fmt::format("{} entries", m.places.size()), fmt::format("{} as its head says", count)};
  }
  return m;
}

UNITY_INLINE std::string matrix_market_text(const coordinate_matrix& m) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "%%MatrixMarket matrix coordinate {} {}\n{} {} {}\n",
                 matrix_field_names[static_cast<std::size_t>(m.field)],
                 matrix_symmetry_names[static_cast<std::size_t>(m.symmetry)], m.rows, m.columns, m.places.size());
  for (std::size_t i = 0; i < m.places.size(); ++i) {
    fmt::format_to(out, "{} {}", std::uint64_t{m.places[i].row} + 1, std::uint64_t{m.places[i].column} + 1);
    if (m.field == matrix_field::real) {
      fmt::format_to(out, " {}", m.values[i]);
    } else if (m.field == matrix_field::integer) {
      fmt::format_to(out, " {}", static_cast<std::int64_t>(m.values[i]));
    }
    fmt::format_to(out, "\n");
  }
  return fmt::to_string(text);
}

UNITY_INLINE gnn::csr_graph graph_of(const coordinate_matrix& m, std::string_view where) {
  if (m.rows != m.columns) {
    throw error{where, fmt::format("{} rows, {} columns", m.rows, m.columns), "as many of both, one for each vertex"};
  }
  std::vector<gnn::edge> edges;
  edges.reserve(m.places.size());
  for (const auto& [row, column] : m.places) {
    edges.push_back({column, row});
    if (m.symmetry == matrix_symmetry::symmetric && row != column) {
      edges.push_back({row, column});
    }
  }
  detail::expect_edges(m.rows, edges.size(), where);
  return gnn::from_edges(m.rows, edges, where);
}

UNITY_INLINE coordinate_matrix matrix_of(gnn::csr_view g) {
  coordinate_matrix m;
  m.rows = m.columns = g.vertices();
  m.places.reserve(g.sources().size());
  for (gnn::vertex_id v = 0; v < g.vertices(); ++v) {
    for (const auto s : g.sources_of(v)) {
      m.places.push_back({v, s});
    }
  }
  return m;
}

}  // namespace unity::io

#endif
