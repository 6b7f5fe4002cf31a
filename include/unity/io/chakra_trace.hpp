// Chakra's execution traces as JSON: the operators and kernels of one rank, with dependencies and durations.
#pragma once

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

// Reads the nodes of "workload_graph": "Id", "Name", "runtime" in microseconds, "is_cpu_op", "data_deps", "ctrlDeps"
// (those on nodes that do not exist are ignored), "NodeType" (5 to 7: communication). Nodes have durations but no
// times, so times are assigned: each node starts when its dependencies have ended, one after another on the host or on
// the stream, in the order of the file. Nodes without a runtime are skipped and counted. Complexity: n log n in nodes
// and dependencies.
// Throws: unity::error, of one line, if dependencies are cyclic, ids are not numbers or not unique, or no node has a
// runtime.
[[nodiscard]] trace::rank_trace read_chakra(const json_text& document, trace::name_table& names);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_CHAKRA_TRACE)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::io::detail {

class chakra_reader {
 public:
  chakra_reader(const json_text& document, trace::name_table& names) : document_{document}, names_{names} {}

  trace::rank_trace run() {
    trace_.source = document_.name();
    trace_.name = trace_.machine = std::filesystem::path{document_.name()}.filename().string();
    trace_.lanes = {{"host", trace::lane_kind::host, 0}, {"stream", trace::lane_kind::stream, 0}};
    simdjson::dom::array nodes;
    if (document_.root()["workload_graph"].get_array().get(nodes) != simdjson::SUCCESS) {
      throw error{document_.name(), "no list workload_graph", "a trace of Chakra"};
    }
    for (const auto n : nodes) {
      read(n);
    }
    if (trace_.events.empty()) {
      throw error{document_.name(), "no node with a runtime", "a trace of Chakra with times"};
    }
    for (std::uint32_t i = 0; i < waits_.size(); ++i) {
      link(i);
    }
    give_times();
    finish_rank(trace_);
    return std::move(trace_);
  }

 private:
  void read(simdjson::dom::element node) {
    ++trace_.recorded;
    std::int64_t id = 0;
    if (node["Id"].get_int64().get(id) != simdjson::SUCCESS) {
      throw error{fmt::format("{}, node {}", document_.name(), trace_.recorded - 1), "no number Id", "one each"};
    }
    double runtime = 0;
    if (node["runtime"].get_double().get(runtime) != simdjson::SUCCESS) {
      ++trace_.unknown["nodes without a runtime"];
      return;
    }
    if (!(runtime >= 0 && runtime < 8e12)) {
      throw error{fmt::format("{}, node {}", document_.name(), id), fmt::format("a runtime of {} us", runtime),
                  "0 at least, and less than 90 days"};
    }
    if (!places_.emplace(id, static_cast<std::uint32_t>(trace_.events.size())).second) {
      throw error{document_.name(), fmt::format("two nodes {}", id), "each Id once"};
    }
    add(node, runtime);
  }
  void add(simdjson::dom::element node, double runtime) {
    std::string_view name;
    bool is_host = true;
    std::int64_t type = 0;
    static_cast<void>(node["Name"].get_string().get(name) == simdjson::SUCCESS);
    static_cast<void>(node["is_cpu_op"].get_bool().get(is_host) == simdjson::SUCCESS);
    static_cast<void>(node["NodeType"].get_int64().get(type) == simdjson::SUCCESS);
    trace::event e;
    e.duration = picoseconds{std::llround(runtime * 1e6)};
    e.name = names_.intern(name);
    e.lane = is_host ? 0 : 1;
    e.step = 0;
    e.kind = is_host ? trace::event_kind::operation : trace::event_kind::kernel;
    if (!is_host && type >= 5 && type <= 7) {
      e.kind = trace::event_kind::collective;
      e.part = trace::phase::communication;
      e.message = static_cast<std::uint32_t>(trace_.messages.size());
      trace::message m;
      m.way = trace::exchange_named(name);
      trace_.messages.push_back(m);
    }
    trace_.events.push_back(e);
    std::vector<std::int64_t> before;
    for (const auto* member : {"data_deps", "ctrlDeps", "ctrl_deps"}) {
      simdjson::dom::array list;
      if (node[member].get_array().get(list) == simdjson::SUCCESS) {
        for (const auto d : list) {
          std::int64_t other = 0;
          if (d.get_int64().get(other) == simdjson::SUCCESS) {
            before.push_back(other);
          }
        }
      }
    }
    waits_.push_back(std::move(before));
  }
  void link(std::uint32_t i) {
    for (const auto id : waits_[i]) {
      if (const auto place = places_.find(id); place != places_.end() && place->second != i) {
        trace_.dependencies.push_back({place->second, i});
      }
    }
  }
  void give_times() {
    const auto count = trace_.events.size();
    std::vector<std::vector<std::uint32_t>> after(count);
    std::vector<std::uint32_t> left(count, 0);
    for (const auto& d : trace_.dependencies) {
      after[d.before].push_back(d.after);
      ++left[d.after];
    }
    std::set<std::uint32_t> ready;
    std::vector<picoseconds> from(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (left[i] == 0) {
        ready.insert(i);
      }
    }
    std::array<picoseconds, 2> free{};
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const auto i = *ready.begin();
      ready.erase(ready.begin());
      auto& e = trace_.events[i];
      e.start = std::max(from[i], free[e.lane]);
      constexpr picoseconds most{std::int64_t{1} << 61U};
      if (e.start > most || e.duration > most - e.start) {
        throw error{document_.name(), "runtimes of more than 26 days together", "a trace of an iteration"};
      }
      free[e.lane] = e.end();
      for (const auto n : after[i]) {
        from[n] = std::max(from[n], e.end());
        if (--left[n] == 0) {
          ready.insert(n);
        }
      }
    }
    if (done < count) {
      throw error{document_.name(), "nodes that depend on each other", "dependencies without a cycle"};
    }
  }

  const json_text& document_;
  trace::name_table& names_;
  trace::rank_trace trace_;
  std::unordered_map<std::int64_t, std::uint32_t> places_;  // indices of events, by id
  std::vector<std::vector<std::int64_t>> waits_;            // ids of the dependencies, by event
};

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE trace::rank_trace read_chakra(const json_text& document, trace::name_table& names) {
  return detail::chakra_reader{document, names}.run();
}

}  // namespace unity::io

#endif
