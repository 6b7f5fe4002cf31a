// Measured collectives as CSV.
//
//   collective,gpus,size_mb,time_ms
//   all_reduce,8,64,1.46
//
// Columns: a name of machine::exchange except message; the number of ranks; the input of each rank in units of 2^20
// bytes; the time. A time of 1e8 ms or more marks a failed measurement, as written by Aceso's profiler, and is left
// out.
// Source: the files that Liu et al., Aceso (EuroSys 2024), publish.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/machine/collective_fit.hpp>

namespace unity::io {

// Sizes of the result follow the convention of machine::link: for an all_gather the output of a rank, so the size in
// the file times the ranks.
// Throws: unity::error with the line number if a line has another form.
[[nodiscard]] std::vector<machine::collective_sample> parse_collectives(std::string_view text, std::string_view name);

// Throws: likewise, and if the file cannot be read.
[[nodiscard]] inline std::vector<machine::collective_sample> read_collectives(const std::filesystem::path& path) {
  return parse_collectives(read_file(path), path.string());
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_COLLECTIVE_CSV)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/machine/link.hpp>

namespace unity::io::detail {

inline constexpr std::string_view collective_columns = "collective,gpus,size_mb,time_ms";

// Empty unless there are exactly four fields.
[[nodiscard]] inline std::optional<std::array<std::string_view, 4>> four_fields(std::string_view line) {
  std::array<std::string_view, 4> fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto end = std::min(line.find(','), line.size());
    fields[i] = line.substr(0, end);
    if ((end == line.size()) != (i + 1 == fields.size())) {
      return std::nullopt;
    }
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return fields;
}

// Empty if the measurement failed.
[[nodiscard]] inline std::optional<machine::collective_sample> collective_of(std::string_view line,
                                                                             const std::string& where) {
  const auto fields = four_fields(line);
  if (!fields) {
    throw error{where, printable(line), "four fields as in " + std::string{collective_columns}};
  }
  const auto& [kind, gpus, size_mb, time_ms] = *fields;
  const auto& names = machine::exchange_names;
  const auto name = std::find(names.begin() + 1, names.end(), kind);
  if (name == names.end()) {
    throw error{where, printable(kind), "a collective: all_reduce, reduce_scatter, all_gather, broadcast, all_to_all"};
  }
  const auto number_in = [&](std::string_view text, double least, double most, std::string_view expected) {
    const auto number = to_number<double>(text);
    if (!number || !(*number >= least && *number <= most)) {
      throw error{where, printable(text), expected};
    }
    return *number;
  };
  machine::collective_sample sample;
  sample.kind = static_cast<machine::exchange>(name - names.begin());
  const auto ranks = to_number<int>(gpus);
  if (!ranks || *ranks < 2 || *ranks > 1'000'000) {
    throw error{where, printable(gpus), "2 to 1000000 GPUs"};
  }
  sample.ranks = *ranks;
  const auto given = number_in(size_mb, 0, 1e6, "0 to 1000000 MB") * 1048576;
  const auto factor = sample.kind == machine::exchange::all_gather ? sample.ranks : 1;
  sample.size = static_cast<std::int64_t>(given) * factor;
  const auto ms = number_in(time_ms, 1e-9, 1e12, "a positive time in ms");
  sample.seconds = ms / 1e3;
  return ms < 1e8 ? std::optional{sample} : std::nullopt;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<machine::collective_sample> parse_collectives(std::string_view text, std::string_view name) {
  std::vector<machine::collective_sample> samples;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    const auto where = fmt::format("{}:{}", name, number);
    if (number == 1) {
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
