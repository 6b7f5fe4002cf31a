// --what-if: changes to a job, from the command line.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/trace/buckets.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/what_if.hpp>

#include "quantity.hpp"

namespace support {

// The changes and their values, in order.
using what_if_changes = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::array<std::string_view, 7> what_if_names{"bandwidth", "latency",   "device",  "workers",
                                                               "bucket",    "algorithm", "operator"};

// "bandwidth=2,operator=a(b, c)": a comma begins another change only if the name of a change follows, as names of
// kernels contain commas.
// Throws: unity::error if it does not begin with a change.
inline what_if_changes parse_what_if(const std::string& text) {
  const auto begins = [&](std::size_t at) {
    return std::any_of(what_if_names.begin(), what_if_names.end(), [&](std::string_view name) {
      return text.compare(at, name.size(), name) == 0 && text.size() > at + name.size() &&
             text[at + name.size()] == '=';
    });
  };
  what_if_changes all;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins(at)) {
      throw unity::error{"--what-if", fmt::format("'{}'", text.substr(at)),
                         "bandwidth=, latency=, device=, workers=, bucket=, algorithm= or operator="};
    }
    auto end = text.find(',', at);
    while (end != std::string::npos && !begins(end + 1)) {
      end = text.find(',', end + 1);
    }
    const auto one = text.substr(at, end == std::string::npos ? end : end - at);
    const auto equals = one.find('=');
    all.emplace_back(one.substr(0, equals), one.substr(equals + 1));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return all;
}

// Effects: changes the graph. Throws: unity::error if a value is invalid, or nothing matches it.
inline void apply_what_if(unity::trace::flow_graph& g, const unity::trace::name_table& names,
                          const what_if_changes& all) {
  namespace trace = unity::trace;
  for (const auto& [what, value] : all) {
    const auto flag = fmt::format("--what-if {}", what);
    const auto factor = [&, &what_is = what, &text = value] {
      const auto f = parse_quantity(flag, text, {{"", 1}});
      if (f < 1e-6 || f > 1e6) {
        throw unity::error{flag, fmt::format("'{}'", text), fmt::format("a factor for {} from 1e-6 to 1e6", what_is)};
      }
      return f;
    };
    if (what == "bandwidth") {
      trace::scale_bandwidth(g, factor());
    } else if (what == "latency") {
      trace::scale_latency(g, factor());
    } else if (what == "device") {
      trace::speed_up_devices(g, factor());
    } else if (what == "workers") {
      constexpr std::int64_t most = 1 << 24;
      const auto count = parse_size(flag, value);
      if (count > most) {
        throw unity::error{flag, fmt::format("'{}'", value), fmt::format("{} workers at most", most)};
      }
      trace::scale_workers(g, static_cast<std::uint32_t>(count));
    } else if (what == "bucket") {
      if (trace::rebucket(g, parse_memory(flag, value)) == 0) {
        throw unity::error{flag, "no sum of gradients whose size is known", "a trace with all-reduces"};
      }
    } else if (what == "algorithm") {
      const auto algorithm = trace::algorithm_named(value);
      if (!algorithm) {
        throw unity::error{flag, fmt::format("'{}'", value), "ring, tree or halving_doubling"};
      }
      trace::use_algorithm(g, *algorithm);
    } else if (trace::remove_operator(g, names.find(value)) == 0) {
      throw unity::error{flag, fmt::format("no operator '{}'", value), "the name of one in the trace"};
    }
  }
}

}  // namespace support
