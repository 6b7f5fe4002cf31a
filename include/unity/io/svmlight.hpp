// Labels and sparse features in svmlight's text format, which LIBSVM also reads.
//
//   3 19:0.1111111119389534 81:0.1111111119389534   # a comment
//
// A line per row: an integer, then index:value with ascending indices, separated by spaces. Text after # is a comment;
// a line of it is not a row. A line without label and features is a row about which nothing is known (Citeseer has 15).
// Source: Joachims, Making large-scale SVM learning practical, 1999, and https://svmlight.joachims.org.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/vertex_data.hpp>

namespace unity::io {

// Sparse rows: the entries of row r are from offsets[r] to offsets[r + 1] - 1. Regular.
struct svmlight_rows {
  std::vector<std::int32_t> labels{};  // gnn::no_label if absent
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

// All numbers as float: the feature with index i is in column i - first.
// Throws: unity::error for an index below `first`, or if the matrix would have more than `largest` numbers.
[[nodiscard]] gnn::feature_matrix dense(const svmlight_rows& rows, std::uint32_t first = 0,
                                        std::size_t largest = std::size_t{1} << 32U);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_SVMLIGHT)

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/text_lines.hpp>

namespace unity::io {

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
    auto label = gnn::no_label;
    if (!field.empty()) {
      const auto number = to_number<std::int32_t>(field.substr(field.starts_with('+') ? 1 : 0));
      if (!number || *number == std::numeric_limits<std::int32_t>::max()) {
        lines.refuse(field, "an integer as a label");
      }
      label = *number;
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
    const bool is_unknown = rows.labels[r] == gnn::no_label && rows.offsets[r] == rows.offsets[r + 1];
    fmt::format_to(out, "{} ", is_unknown ? std::string{} : fmt::format("{}", rows.labels[r]));
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

UNITY_INLINE gnn::feature_matrix dense(const svmlight_rows& rows, std::uint32_t first, std::size_t largest) {
  gnn::feature_matrix features;
  features.columns = column_count(rows, first);
  if (features.columns > 0 && rows.rows() > largest / features.columns) {
    throw error{"features", fmt::format("{} rows of {}", rows.rows(), features.columns),
                fmt::format("{} numbers at most", largest)};
  }
  features.values.resize(rows.rows() * features.columns);
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    for (auto i = rows.offsets[r]; i < rows.offsets[r + 1]; ++i) {
      if (rows.indices[i] < first) {
        throw error{fmt::format("features of row {}", r), fmt::format("index {}", rows.indices[i]),
                    fmt::format("indices from {} on", first)};
      }
      features.values[r * features.columns + rows.indices[i] - first] = static_cast<float>(rows.values[i]);
    }
  }
  return features;
}

}  // namespace unity::io

#endif
