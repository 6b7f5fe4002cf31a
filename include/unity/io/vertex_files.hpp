// Files with a row or line per vertex: ROC's features, labels and masks, splits of published data, and svmlight's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/vertex_data.hpp>

namespace unity::io {

// Vertex files: what ROC reads besides the graph, with a row or line per vertex, and the split of published data sets.
//
//   PREFIX.feats.bin   features: float32, little-endian, row-major, no header; the number of columns is given elsewhere
//   PREFIX.feats.csv   the same as text: a line per vertex, numbers separated by commas
//   PREFIX.label       classes: integers from 0 on, one on each line
//   PREFIX.mask        Train, Val, Test or None on each line
//   NAME.split         0 (none), 1 (training), 2 (validation) or 3 (test) on each line
//
// ROC reads .feats.csv if there is no .feats.bin, which it then writes.
// Source: https://github.com/jiazhihao/ROC (load_task.cu), 2020; the split: Xtra-Computing/G3.

// Each parse_... throws unity::error with the file's name, the line and what was expected there. Texts written by the
// functions beside them round-trip byte by byte.

// The number of columns is bytes / 4 / rows.
// Throws: also if the bytes are not this many rows of finite float32.
[[nodiscard]] gnn::feature_matrix parse_features_bin(std::string_view bytes, std::size_t rows, std::string_view name);
[[nodiscard]] std::string features_bin(const gnn::feature_matrix& features);

// The first line determines the number of columns. Numbers are written with the fewest digits that identify the float.
[[nodiscard]] gnn::feature_matrix parse_features_csv(std::string_view text, std::string_view name);
[[nodiscard]] std::string features_csv(const gnn::feature_matrix& features);

[[nodiscard]] std::vector<std::int32_t> parse_labels(std::string_view text, std::string_view name);
[[nodiscard]] std::string labels_text(std::span<const std::int32_t> labels);

[[nodiscard]] std::vector<gnn::vertex_role> parse_mask(std::string_view text, std::string_view name);
[[nodiscard]] std::string mask_text(std::span<const gnn::vertex_role> roles);

[[nodiscard]] std::vector<gnn::vertex_role> parse_split(std::string_view text, std::string_view name);
[[nodiscard]] std::string split_text(std::span<const gnn::vertex_role> roles);

// Labels and sparse features in svmlight's text format, which LIBSVM also reads.
//
//   3 19:0.1111111119389534 81:0.1111111119389534   # a comment
//
// A line per row: an integer, then index:value with ascending indices, separated by spaces. Text after # is a comment;
// a line of it is not a row. A line without label and features is a row about which nothing is known (Citeseer has 15).
// Source: Joachims, Making large-scale SVM learning practical, 1999, and https://svmlight.joachims.org.

// Sparse rows: the entries of row r are from offsets[r] to offsets[r + 1] - 1. Regular.
struct svmlight_rows {
  std::vector<std::optional<std::int32_t>> labels{};
  std::vector<std::size_t> offsets{0};
  std::vector<std::uint32_t> indices{};  // as written: some files begin at 0, others at 1
  std::vector<double> values{};

  [[nodiscard]] std::size_t rows() const noexcept { return labels.size(); }

  friend bool operator==(const svmlight_rows&, const svmlight_rows&) = default;
};

// Complexity: linear in the text.
// Throws: unity::error with the line and what was expected there.
[[nodiscard]] svmlight_rows parse_svmlight(std::string_view text, std::string_view name);

// One line per row: a label, then features, separated by single spaces; numbers have the fewest digits that identify a
// double. Files in this form are reproduced byte by byte.
[[nodiscard]] std::string svmlight_text(const svmlight_rows& rows);

// The number of columns, counted from index `first`.
[[nodiscard]] std::size_t column_count(const svmlight_rows& rows, std::uint32_t first = 0);

// All numbers as float: the feature with index i is in column i - first. A matrix may have `small` numbers, or 1,024
// times as many as the file if that is more; other files have a wrong index. name: for messages.
// Throws: unity::error for an index below `first`, or if the matrix would have more numbers.
[[nodiscard]] gnn::feature_matrix dense(const svmlight_rows& rows, std::string_view name, std::uint32_t first = 0,
                                        std::size_t small = std::size_t{1} << 29U);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_VERTEX_FILES)

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/graph_text.hpp>

namespace unity::io {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

namespace detail {

// In the order of vertex_role.
inline constexpr std::array<std::string_view, 4> mask_words{"None", "Train", "Val", "Test"};
inline constexpr std::array<std::string_view, 4> split_words{"0", "1", "2", "3"};

[[nodiscard]] UNITY_INLINE std::vector<gnn::vertex_role> parse_roles(std::string_view text, std::string_view name,
                                                                     const std::array<std::string_view, 4>& words,
                                                                     std::string_view expected) {
  std::vector<gnn::vertex_role> roles;
  for (text_lines lines{text, name}; lines.next();) {
    const auto word = std::find(words.begin(), words.end(), lines.line());
    if (word == words.end()) {
      lines.refuse(lines.line(), expected);
    }
    roles.push_back(static_cast<gnn::vertex_role>(word - words.begin()));
  }
  return roles;
}

[[nodiscard]] UNITY_INLINE std::string roles_text(std::span<const gnn::vertex_role> roles,
                                                  const std::array<std::string_view, 4>& words) {
  std::string text;
  for (const auto role : roles) {
    text += words[static_cast<std::size_t>(role)];
    text += '\n';
  }
  return text;
}

}  // namespace detail

UNITY_INLINE gnn::feature_matrix parse_features_bin(std::string_view bytes, std::size_t rows, std::string_view name) {
  if (rows == 0 ? !bytes.empty() : bytes.empty() || bytes.size() / 4 % rows != 0 || bytes.size() % 4 != 0) {
    throw error{name, fmt::format("{} bytes", bytes.size()), fmt::format("float32 numbers in {} rows", rows)};
  }
  gnn::feature_matrix features;
  features.values.resize(bytes.size() / 4);
  features.columns = rows == 0 ? 0 : features.values.size() / rows;
  if (!bytes.empty()) {
    std::memcpy(features.values.data(), bytes.data(), bytes.size());
  }
  const auto odd =
      std::find_if(features.values.begin(), features.values.end(), [](float x) { return !std::isfinite(x); });
  if (odd != features.values.end()) {
    const auto place = static_cast<std::size_t>(odd - features.values.begin());
    throw error{fmt::format("{}: row {}, column {}", name, place / features.columns, place % features.columns),
                fmt::format("{}", *odd), "a finite number"};
  }
  return features;
}

UNITY_INLINE std::string features_bin(const gnn::feature_matrix& features) {
  return {reinterpret_cast<const char*>(features.values.data()), features.values.size() * 4};
}

UNITY_INLINE gnn::feature_matrix parse_features_csv(std::string_view text, std::string_view name) {
  gnn::feature_matrix features;
  for (text_lines lines{text, name}; lines.next();) {
    auto rest = lines.line();
    std::size_t count = 0;
    for (bool is_last = false; !is_last; ++count) {
      const auto end = std::min(rest.find(','), rest.size());
      is_last = end == rest.size();
      const auto number = to_number<float>(rest.substr(0, end));
      if (!number || !std::isfinite(*number)) {
        lines.refuse(rest.substr(0, end), "a finite number");
      }
      features.values.push_back(*number);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    features.columns = lines.number() == 1 ? count : features.columns;
    if (count != features.columns) {
      throw error{lines.where(), fmt::format("{} numbers", count),
                  fmt::format("{} as in the first line", features.columns)};
    }
  }
  return features;
}

UNITY_INLINE std::string features_csv(const gnn::feature_matrix& features) {
  fmt::memory_buffer text;
  for (std::size_t r = 0; r < features.rows(); ++r) {
    const auto row = features.row(r);
    for (std::size_t c = 0; c < row.size(); ++c) {
      fmt::format_to(std::back_inserter(text), "{}{}", row[c], c + 1 < row.size() ? ',' : '\n');
    }
  }
  return fmt::to_string(text);
}

UNITY_INLINE std::vector<std::int32_t> parse_labels(std::string_view text, std::string_view name) {
  std::vector<std::int32_t> labels;
  for (text_lines lines{text, name}; lines.next();) {
    const auto label = to_number<std::int32_t>(lines.line());
    if (!label || *label < 0 || *label == std::numeric_limits<std::int32_t>::max()) {
      lines.refuse(lines.line(), "a class, 0 to 2147483646");
    }
    labels.push_back(*label);
  }
  return labels;
}

UNITY_INLINE std::string labels_text(std::span<const std::int32_t> labels) {
  std::string text;
  for (const auto label : labels) {
    text += fmt::format("{}\n", label);
  }
  return text;
}

UNITY_INLINE std::vector<gnn::vertex_role> parse_mask(std::string_view text, std::string_view name) {
  return detail::parse_roles(text, name, detail::mask_words, "Train, Val, Test or None");
}
UNITY_INLINE std::string mask_text(std::span<const gnn::vertex_role> roles) {
  return detail::roles_text(roles, detail::mask_words);
}
UNITY_INLINE std::vector<gnn::vertex_role> parse_split(std::string_view text, std::string_view name) {
  return detail::parse_roles(text, name, detail::split_words, "0, 1, 2 or 3");
}
UNITY_INLINE std::string split_text(std::span<const gnn::vertex_role> roles) {
  return detail::roles_text(roles, detail::split_words);
}

namespace detail {

// Appends index:value.
// Throws: unity::error at this line if it is malformed, or its index does not ascend.
UNITY_INLINE void add_feature(std::string_view field, const text_lines& lines, svmlight_rows& rows) {
  const auto colon = std::min(field.find(':'), field.size());
  const auto index = to_number<std::uint32_t>(field.substr(0, colon));
  const auto value = to_number<double>(field.substr(std::min(colon + 1, field.size())));
  if (!index || !value || !std::isfinite(*value)) {
    lines.refuse(field, "index:value, an integer of 32 bits and a finite number");
  }
  if (rows.indices.size() > rows.offsets.back() && *index <= rows.indices.back()) {
    lines.refuse(field, fmt::format("an index above {}", rows.indices.back()));
  }
  rows.indices.push_back(*index);
  rows.values.push_back(*value);
}

}  // namespace detail

UNITY_INLINE svmlight_rows parse_svmlight(std::string_view text, std::string_view name) {
  svmlight_rows rows;
  for (text_lines lines{text, name}; lines.next();) {
    const bool has_comment = lines.line().find('#') != std::string_view::npos;
    lines.shorten(lines.line().find('#'));
    auto field = lines.next_field();
    if (field.empty() && has_comment) {
      continue;
    }
    std::optional<std::int32_t> label;
    if (!field.empty()) {
      label = to_number<std::int32_t>(field.substr(field.starts_with('+') ? 1 : 0));
      if (!label || *label == std::numeric_limits<std::int32_t>::max()) {
        lines.refuse(field, "an integer as a label");
      }
    }
    for (field = lines.next_field(); !field.empty(); field = lines.next_field()) {
      detail::add_feature(field, lines, rows);
    }
    rows.labels.push_back(label);
    rows.offsets.push_back(rows.indices.size());
  }
  return rows;
}

UNITY_INLINE std::string svmlight_text(const svmlight_rows& rows) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    fmt::format_to(out, "{} ", rows.labels[r] ? fmt::format("{}", *rows.labels[r]) : std::string{});
    for (auto i = rows.offsets[r]; i < rows.offsets[r + 1]; ++i) {
      fmt::format_to(out, "{}{}:{}", i == rows.offsets[r] ? "" : " ", rows.indices[i], rows.values[i]);
    }
    fmt::format_to(out, "\n");
  }
  return fmt::to_string(text);
}

UNITY_INLINE std::size_t column_count(const svmlight_rows& rows, std::uint32_t first) {
  const auto largest = std::max_element(rows.indices.begin(), rows.indices.end());
  return largest == rows.indices.end() || *largest < first ? 0 : std::size_t{*largest} - first + 1;
}

UNITY_INLINE gnn::feature_matrix dense(const svmlight_rows& rows, std::string_view name, std::uint32_t first,
                                       std::size_t small) {
  gnn::feature_matrix features;
  features.columns = column_count(rows, first);
  const auto largest = std::max(small, 1024 * rows.indices.size());
  if (features.columns > 0 && rows.rows() > largest / features.columns) {
    throw error{name, fmt::format("{} rows of {} features", rows.rows(), features.columns),
                fmt::format("{} numbers at most, {} of them not 0", largest, rows.indices.size())};
  }
  features.values.resize(rows.rows() * features.columns);
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    for (auto i = rows.offsets[r]; i < rows.offsets[r + 1]; ++i) {
      if (rows.indices[i] < first) {
        throw error{name, fmt::format("index {} in row {}", rows.indices[i], r),
                    fmt::format("indices from {} on", first)};
      }
      features.values[r * features.columns + rows.indices[i] - first] = static_cast<float>(rows.values[i]);
    }
  }
  return features;
}

}  // namespace unity::io

#endif
