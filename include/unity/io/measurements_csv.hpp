// Measurements as CSV: kernels of PyTorch, and collectives.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/kernel_model.hpp>

namespace unity::io {

// Measured kernels of PyTorch as CSV, in two forms: a file of one operator, named after it, and a file of all
// operators, as measured by bench/torch_kernels.py. docs/formats.md has their columns.
//
// Sizes: rows and columns of element-wise operators (two operands: add, mul, div, pow; one: addu, mulu, divu, powu,
// gelu, relu, tanh), of softmax, ln (layer norm) and layer_norm_gradient; batch, m, n, k of bmm and linear; samples
// times heads, positions, width of a head of attention, causal_attention and attention_gradient; of conv batch, input
// channels, output channels, side of the kernel, of the image, stride, padding. In files of the first form, the columns
// n and k of products are swapped: n is the reduction dimension, k the columns of the result, as grids and names of
// kernels show. Source of the first form: the files that Lee et al., NeuSight (ASPLOS 2025), publish.

// Leaves out elements other than float32 and bfloat16 (whose operators are called bmm_bfloat16 and so on), other
// operators, and convolutions other than 3 x 3 of stride and padding 1. op: the operator of a file of the first form;
// nothing is read if it is none of the above.
// Throws: unity::error with the line number if a line has another form, and if there is no kernel.
[[nodiscard]] std::vector<hardware::kernel_sample> parse_kernels(std::string_view text, std::string_view name,
                                                                 std::string_view op);

// Measured collectives as CSV.
//
//   collective,gpus,size_mb,time_ms
//   all_reduce,8,64,1.46
//
// Columns: a name of hardware::exchange except message; the number of ranks; the input of each rank in units of 2^20
// bytes; the time. A time of 1e8 ms or more marks a failed measurement, as written by Aceso's profiler, and is left
// out.
// Source: the files that Liu et al., Aceso (EuroSys 2024), publish.

// Sizes of the result follow the convention of hardware::link: for an all_gather the output of a rank, so the size in
// the file times the ranks.
// Throws: unity::error with the line number if a line has another form.
[[nodiscard]] std::vector<hardware::collective_sample> parse_collectives(std::string_view text, std::string_view name);

// Throws: likewise, and if the file cannot be read.
[[nodiscard]] inline std::vector<hardware::collective_sample> read_collectives(const std::filesystem::path& path) {
  return parse_collectives(read_file(path), path.string());
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_MEASUREMENTS_CSV)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/graph_text.hpp>

namespace unity::io::detail {

inline constexpr std::string_view kernels_of_one = "device,latency_ms,grid,block,kernel,";
inline constexpr std::string_view kernels_of_all =
    "device,operator,element,latency_ms,kernel_ms,grid,block,kernel,sizes";

// Splits a line of comma-separated values; quoted fields may contain commas.
[[nodiscard]] inline std::vector<std::string_view> csv_fields(std::string_view line, char separator = ',') {
  std::vector<std::string_view> fields;
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i == line.size() || (line[i] == separator && !quoted)) {
      fields.push_back(line.substr(begin, i - begin));
      begin = i + 1;
    } else if (line[i] == '"') {
      quoted = !quoted;
    }
  }
  return fields;
}

struct known_kernel {
  std::string_view op{};
  hardware::kernel_kind kind = hardware::kernel_kind::elementwise;
  std::size_t sizes = 2;
  double operands = 2;
};

inline constexpr std::array<known_kernel, 20> known_kernels{
    {{"add", hardware::kernel_kind::elementwise, 2, 3},
     {"mul", hardware::kernel_kind::elementwise, 2, 3},
     {"div", hardware::kernel_kind::elementwise, 2, 3},
     {"pow", hardware::kernel_kind::elementwise, 2, 3},
     {"addu"},
     {"mulu"},
     {"divu"},
     {"powu"},
     {"gelu"},
     {"relu"},
     {"tanh"},
     {"softmax", hardware::kernel_kind::softmax},
     {"ln", hardware::kernel_kind::layer_norm},
     {"layer_norm_gradient", hardware::kernel_kind::layer_norm_gradient, 2, 3},
     {"bmm", hardware::kernel_kind::batched_product, 4},
     {"linear", hardware::kernel_kind::product, 4},
     {"conv", hardware::kernel_kind::convolution, 7},
     {"attention", hardware::kernel_kind::attention, 3},
     {"causal_attention", hardware::kernel_kind::attention, 3},
     {"attention_gradient", hardware::kernel_kind::attention_gradient, 3}}};

[[nodiscard]] inline double kernel_number(std::string_view text, double least, const std::string& where) {
  constexpr double most = 1e12;
  const auto number = to_number<double>(text);
  if (!number || !(*number >= least && *number <= most)) {
    throw error{where, printable(text), fmt::format("a number from {} to {}", least, most)};
  }
  return *number;
}

// Empty for a convolution that is left out.
[[nodiscard]] inline std::optional<hardware::kernel_shape> kernel_shape_of(const known_kernel& k,
                                                                           const std::vector<std::string_view>& texts,
                                                                           bool sum_is_third,
                                                                           const std::string& where) {
  if (texts.size() != k.sizes) {
    throw error{where, fmt::format("{} sizes of {}", texts.size(), k.op), fmt::format("{}", k.sizes)};
  }
  std::vector<double> x;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    x.push_back(kernel_number(texts[i], i == 6 ? 0 : 1, where));
  }
  hardware::kernel_shape s;
  s.kind = k.kind;
  s.operands = k.operands;
  if (k.sizes == 2) {
    s.m = x[0];
    s.n = x[1];
  } else if (k.sizes == 3) {
    s.batch = x[0];
    s.m = s.n = x[1];
    s.k = x[2];
    s.causal = k.op == "causal_attention";
  } else if (k.sizes == 4) {
    s.batch = x[0];
    s.m = x[1];
    s.n = sum_is_third ? x[3] : x[2];
    s.k = sum_is_third ? x[2] : x[3];
  } else {
    s.batch = x[0];
    s.m = x[4];
    s.n = x[2];
    s.k = x[1];
    if (x[3] != 3 || x[5] != 1 || x[6] != 1) {
      return std::nullopt;
    }
  }
  return s;
}

[[nodiscard]] inline std::optional<hardware::kernel_sample> kernel_of(const std::vector<std::string_view>& fields,
                                                                      std::string_view op, const std::string& where) {
  const bool is_of_all = op.empty();
  const auto known = std::find_if(known_kernels.begin(), known_kernels.end(),
                                  [&](const auto& k) { return k.op == (is_of_all ? fields[1] : op); });
  const bool is_narrow = is_of_all && fields[2] == "bfloat16";
  if (known == known_kernels.end() || (is_of_all && !is_narrow && fields[2] != "float32")) {
    return std::nullopt;
  }
  const auto sizes =
      is_of_all ? csv_fields(fields[8], ' ') : std::vector<std::string_view>(fields.begin() + 5, fields.end());
  auto shape = kernel_shape_of(*known, sizes, !is_of_all, where);
  if (!shape) {
    return std::nullopt;
  }
  if (is_narrow) {
    shape->element_bytes = 2;
    shape->kind = hardware::is_product(shape->kind) ? hardware::kernel_kind::tensor_product : shape->kind;
  }
  hardware::kernel_sample s{std::string{fields[0]}, fmt::format("{}{}", known->op, is_narrow ? "_bfloat16" : ""),
                            *shape};
  s.call_seconds = kernel_number(fields[is_of_all ? 3 : 1], 1e-6, where) / 1e3;
  s.kernel_seconds = is_of_all ? kernel_number(fields[4], 0, where) / 1e3 : 0;
  return s;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<hardware::kernel_sample> parse_kernels(std::string_view text, std::string_view name,
                                                                std::string_view op) {
  std::vector<hardware::kernel_sample> samples;
  std::size_t columns = 0;
  bool is_of_all = false;
  for (text_lines lines{text, name}; lines.next();) {
    const auto line = lines.line();
    const auto where = lines.where();
    const auto fields = detail::csv_fields(line);
    if (lines.number() == 1) {
      columns = fields.size();
      is_of_all = line == detail::kernels_of_all;
      if (!is_of_all && !line.starts_with(detail::kernels_of_one)) {
        throw error{where, printable(line),
                    fmt::format("{}..., or {}", detail::kernels_of_one, detail::kernels_of_all)};
      }
    } else if (!line.empty()) {
      if (fields.size() != columns) {
        throw error{where, printable(line), fmt::format("{} fields", columns)};
      }
      if (auto s = detail::kernel_of(fields, is_of_all ? std::string_view{} : op, where)) {
        samples.push_back(std::move(*s));
      }
    }
  }
  if (samples.empty()) {
    throw error{name, "no kernel that is known",
                "times of bmm, linear, conv, softmax, ln or of element-wise operators"};
  }
  return samples;
}

}  // namespace unity::io

namespace unity::io::detail {

inline constexpr std::string_view collective_columns = "collective,gpus,size_mb,time_ms";

// Empty if the measurement failed.
[[nodiscard]] inline std::optional<hardware::collective_sample> collective_of(std::string_view line,
                                                                              const std::string& where) {
  const auto fields = csv_fields(line);
  if (fields.size() != 4) {
    throw error{where, printable(line), "four fields as in " + std::string{collective_columns}};
  }
  const auto& names = hardware::exchange_names;
  const auto name = std::find(names.begin() + 1, names.end(), fields[0]);
  if (name == names.end()) {
    throw error{where, printable(fields[0]),
                "a collective: all_reduce, reduce_scatter, all_gather, broadcast, all_to_all"};
  }
  const auto number_in = [&](std::string_view text, double least, double most, std::string_view expected) {
    const auto number = to_number<double>(text);
    if (!number || !(*number >= least && *number <= most)) {
      throw error{where, printable(text), expected};
    }
    return *number;
  };
  hardware::collective_sample sample;
  sample.kind = static_cast<hardware::exchange>(name - names.begin());
  const auto ranks = to_number<int>(fields[1]);
  if (!ranks || *ranks < 2 || *ranks > 1'000'000) {
    throw error{where, printable(fields[1]), "2 to 1000000 GPUs"};
  }
  sample.ranks = *ranks;
  const auto given = number_in(fields[2], 0, 1e6, "0 to 1000000 MB") * 1048576;
  const auto factor = sample.kind == hardware::exchange::all_gather ? sample.ranks : 1;
  sample.size = bytes{static_cast<std::int64_t>(given)} * factor;
  const auto ms = number_in(fields[3], 1e-9, 1e12, "a positive time in ms");
  sample.seconds = ms / 1e3;
  return ms < 1e8 ? std::optional{sample} : std::nullopt;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<hardware::collective_sample> parse_collectives(std::string_view text, std::string_view name) {
  std::vector<hardware::collective_sample> samples;
  for (text_lines lines{text, name}; lines.next();) {
    const auto line = lines.line();
    const auto where = lines.where();
    if (lines.number() == 1) {
      if (line != detail::collective_columns) {
        throw error{where, printable(line), detail::collective_columns};
      }
    } else if (!line.empty()) {
      if (const auto sample = detail::collective_of(line, where)) {
        samples.push_back(*sample);
      }
    }
  }
  if (samples.empty()) {
    throw error{name, "no measured collective", "lines as in " + std::string{detail::collective_columns}};
  }
  return samples;
}

}  // namespace unity::io

#endif
