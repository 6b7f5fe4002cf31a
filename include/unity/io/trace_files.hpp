// Reads the traces of a job from files in any known format.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

enum class trace_format : std::uint8_t { kineto, ranks, dpro, chakra };
inline constexpr std::array<std::string_view, 4> trace_format_names{"PyTorch's profiler", "ranks of this library",
                                                                    "dPRO", "Chakra"};

// The only place that detects the format of a file. Chakra's has "workload_graph", and Kineto's has members of its own;
// otherwise the first event that is specific to a format decides: by clock_us in its arguments (ranks), a name of
// dPRO's (FW., BW., Comm., ...) or a category of Kineto's.
// Throws: unity::error if it is none of these.
[[nodiscard]] trace_format format_of(const json_text& document);

// Effects: adds the ranks of a document to the job.
void add_trace(trace::job_trace& job, const json_text& document);

// The job that the files are traces of; each may be compressed, or an archive of several. Complexity: n log n in
// events. Memory: proportional to the largest text.
// Throws: unity::error, of one line, if a file cannot be read, has none of the formats, or its ranks do not form a job
// with the others (trace::check_job).
[[nodiscard]] trace::job_trace read_traces(std::span<const std::filesystem::path> files);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_TRACE_FILES)

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/chakra_trace.hpp>
#include <unity/io/dpro_trace.hpp>
#include <unity/io/kineto_trace.hpp>
#include <unity/io/rank_trace.hpp>

namespace unity::io {

namespace detail {

inline std::optional<trace_format> format_of_event(simdjson::dom::element e) {
  std::string_view text;
  simdjson::dom::element any;
  if (e["args"]["clock_us"].get(any) == simdjson::SUCCESS) {
    return trace_format::ranks;
  }
  if (e["cat"].get_string().get(text) == simdjson::SUCCESS && kineto_category_of(text) != kineto_category::unknown) {
    return trace_format::kineto;
  }
  if (e["name"].get_string().get(text) == simdjson::SUCCESS) {
    if (const auto arrow = text.find("->"); arrow != std::string_view::npos) {
      text.remove_prefix(arrow + 2);
    }
    for (const auto prefix : {"FW.", "BW.", "Comm.", "OUTPUT", "UPDATE"}) {
      if (text.starts_with(prefix)) {
        return trace_format::dpro;
      }
    }
  }
  return std::nullopt;
}

}  // namespace detail

UNITY_INLINE trace_format format_of(const json_text& document) {
  simdjson::dom::element any;
  if (document.root()["workload_graph"].get(any) == simdjson::SUCCESS) {
    return trace_format::chakra;
  }
  const auto list = event_list(document);
  if (!list) {
    throw error{document.name(), "JSON without a list of events",
                "a trace of PyTorch's profiler, of ranks of this library, of dPRO or of Chakra"};
  }
  for (const auto* member : {"schemaVersion", "distributedInfo", "deviceProperties"}) {
    if (document.root()[member].get(any) == simdjson::SUCCESS) {
      return trace_format::kineto;
    }
  }
  for (const auto e : *list) {
    if (const auto format = detail::format_of_event(e)) {
      return *format;
    }
  }
  throw error{document.name(), list->size() == 0 ? "no event" : "no event of a format that is known",
              "a trace of PyTorch's profiler, of ranks of this library, of dPRO or of Chakra"};
}

UNITY_INLINE void add_trace(trace::job_trace& job, const json_text& document) {
  const auto add = [&](std::vector<trace::rank_trace> all) {
    std::move(all.begin(), all.end(), std::back_inserter(job.ranks));
  };
  switch (format_of(document)) {
    case trace_format::kineto: job.ranks.push_back(read_kineto(document, job.names)); break;
    case trace_format::ranks: add(read_rank_traces(document, job.names)); break;
    case trace_format::dpro: add(read_dpro(document, job.names)); break;
    case trace_format::chakra: job.ranks.push_back(read_chakra(document, job.names)); break;
  }
}

UNITY_INLINE trace::job_trace read_traces(std::span<const std::filesystem::path> files) {
  trace::job_trace job;
  for (const auto& path : files) {
    for (auto& packed : read_packed(path)) {
      add_trace(job, json_text{std::move(packed.text), std::move(packed.name)});
    }
  }
  trace::check_job(job);
  // Names of ranks are looked up.
  for (const auto& r : job.ranks) {
    static_cast<void>(job.names.intern(r.name));
  }
  return job;
}

}  // namespace unity::io

#endif
