// What-if transformations of a job's graph: predicts an iteration under changed conditions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::trace {

// The time of operators that run as one kernel.

struct fused_part {
  name_id name{};
  picoseconds duration{};
};

// Predicts the time of fused operators from their separate times. Law: the result is between 0 and their sum.
// Precondition of calls: at least one operator; a single one keeps its duration. Models: a profiler of fused operators,
// a learned model.
using fusion_time = std::function<picoseconds(std::span<const fused_part>)>;

// Each operator except the first saves the launch overhead, at most its duration: the time that neither arithmetic nor
// data explain. Saved memory traffic does not count, because traces do not record it.
[[nodiscard]] fusion_time saved_starts(picoseconds start);

// The time of one kind of communication: latency + size / bandwidth, fitted to the tasks of a graph.
struct communication_cost {
  exchange way = exchange::other;
  double latency = 0;   // picoseconds
  double per_byte = 0;  // picoseconds per byte
  std::size_t samples = 0;

  [[nodiscard]] double of(bytes size) const { return latency + per_byte * static_cast<double>(size.count()); }
};

// Fits the costs by least squares over the tasks of each way; neither number is negative. If all sizes are equal or
// unknown, latency and bandwidth cannot be separated: the whole time counts as size / bandwidth (latency 0; if sizes
// are unknown, per_byte 0). Complexity: linear in tasks.
[[nodiscard]] std::vector<communication_cost> fit_communication(const flow_graph& g);
// Fits pairs of bytes and picoseconds. Precondition: at least one.
[[nodiscard]] communication_cost fit_transfers(exchange way, const std::vector<std::pair<double, double>>& samples);
// Nothing for a way without a fit.
[[nodiscard]] std::optional<communication_cost> cost_of(const std::vector<communication_cost>& all, exchange way);

// Effects of all functions below: change durations, edges or tasks of the graph. Complexity: linear in the graph,
// unless stated otherwise. Preconditions: factors above 0.

// Links with `factor` times the bandwidth: divides the time of communication beyond its latency.
void scale_bandwidth(flow_graph& g, double factor);
// Links with `factor` times the latency.
void scale_latency(flow_graph& g, double factor);
// Devices that compute `factor` times as fast: kernels and copies, or host threads on ranks without streams.
void speed_up_devices(flow_graph& g, double factor);

// Algorithm of a collective. ring: k - 1 rounds, twice for a sum; tree: 2 log2 k rounds, pipelined; halving_doubling: 2
// log2 k rounds of halves.
enum class collective_algorithm : std::uint8_t { ring, tree, halving_doubling };
[[nodiscard]] std::optional<collective_algorithm> algorithm_named(std::string_view name);

// A job of `ranks` ranks, more or fewer, each like the recorded ones: collectives of the given algorithm take time in
// proportion to their rounds and bytes per rank. Ranks that are not in the graph arrive when the others do. Messages
// between ranks stay as they are. Precondition: at least 1.
void scale_workers(flow_graph& g, std::uint32_t ranks, collective_algorithm algorithm = collective_algorithm::ring);
// Sums by another algorithm instead of the recorded ring.
void use_algorithm(flow_graph& g, collective_algorithm algorithm);

// Operators of this name and the work that they launched take no time. Returns the number of such tasks.
// Source: Zhu et al., Daydream, USENIX ATC 2020, section 5.
std::size_t remove_operator(flow_graph& g, name_id name);

// The same job without detail of communication, like Daydream: each collective is one task of size / bandwidth, equal
// on all ranks, whichever rank is late; a message between ranks takes only the time of its bytes. `bytes_per_second`:
// of the link; 0 if unknown, which stands for the bandwidth of the job's largest communication.
// Source: Zhu et al., Daydream, USENIX ATC 2020, section 4.4; as in Hu et al., dPRO, MLSys 2022, section 7.1.
void drop_communication_detail(flow_graph& g, double bytes_per_second);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_WHAT_IF)

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace unity::trace {

UNITY_INLINE fusion_time saved_starts(picoseconds start) {
  return [start](std::span<const fused_part> parts) {
    auto time = parts.front().duration;
    for (const auto& p : parts.subspan(1)) {
      time += p.duration - std::min(start, p.duration);
    }
    return time;
  };
}

namespace detail {

// Rounds to whole picoseconds, at least 0.
inline picoseconds rounded(double time) {
  return picoseconds{static_cast<std::int64_t>(std::llround(std::clamp(time, 0.0, 9e18)))};
}

// Whether the task moves data during its duration. A send lasts as long as its receive if both are recorded, so both
// count.
inline bool moves_data(const flow_graph& g, const flow_task& t) {
  return is_communication(t.type) && t.communication != no_index &&
         g.communications[t.communication].way != exchange::barrier;
}

}  // namespace detail

UNITY_INLINE communication_cost fit_transfers(exchange way, const std::vector<std::pair<double, double>>& samples) {
  communication_cost c;
  c.way = way;
  c.samples = samples.size();
  const auto n = static_cast<double>(samples.size());
  double x = 0;
  double y = 0;
  for (const auto& [size, time] : samples) {
    x += size / n;
    y += time / n;
  }
  double xx = 0;
  double xy = 0;
  for (const auto& [size, time] : samples) {
    xx += (size - x) * (size - x);
    xy += (size - x) * (time - y);
  }
  if (x <= 0) {
    c.latency = y;
  } else if (xx <= 1e-9 * n * x * x || xy <= 0) {
    c.per_byte = y / x;
  } else {
    c.per_byte = xy / xx;
    c.latency = y - c.per_byte * x;
    if (c.latency < 0) {
      double squares = 0;
      double products = 0;
      for (const auto& [size, time] : samples) {
        squares += size * size;
        products += size * time;
      }
      c.latency = 0;
      c.per_byte = products / squares;
    }
  }
  return c;
}

UNITY_INLINE std::vector<communication_cost> fit_communication(const flow_graph& g) {
  std::map<exchange, std::vector<std::pair<double, double>>> samples;
  for (const auto& t : g.tasks) {
    if (detail::moves_data(g, t) && t.type != task_type::send) {
      const auto& c = g.communications[t.communication];
      samples[c.way].emplace_back(static_cast<double>(c.size.count()), static_cast<double>(t.duration.count()));
    }
  }
  std::vector<communication_cost> all;
  for (const auto& [way, list] : samples) {
    all.push_back(fit_transfers(way, list));
  }
  return all;
}

UNITY_INLINE std::optional<communication_cost> cost_of(const std::vector<communication_cost>& all, exchange way) {
  const auto c = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.way == way; });
  return c == all.end() ? std::nullopt : std::optional{*c};
}

namespace detail {

// Sets each communication task to change(its latency, the rest).
template <class Change>
void change_communication(flow_graph& g, const Change& change) {
  const auto costs = fit_communication(g);
  for (auto& t : g.tasks) {
    if (moves_data(g, t)) {
      const auto fit = cost_of(costs, g.communications[t.communication].way);
      const auto time = static_cast<double>(t.duration.count());
      const auto latency = fit ? std::min(fit->latency, time) : 0.0;
      t.duration = rounded(change(t, latency, time - latency));
    }
  }
}

}  // namespace detail

UNITY_INLINE void scale_bandwidth(flow_graph& g, double factor) {
  UNITY_EXPECTS(factor > 0, "a factor above 0");
  detail::change_communication(g,
                               [&](const flow_task&, double latency, double rest) { return latency + rest / factor; });
}

UNITY_INLINE void scale_latency(flow_graph& g, double factor) {
  UNITY_EXPECTS(factor > 0, "a factor above 0");
  detail::change_communication(g,
                               [&](const flow_task&, double latency, double rest) { return latency * factor + rest; });
}

UNITY_INLINE void speed_up_devices(flow_graph& g, double factor) {
  UNITY_EXPECTS(factor > 0, "a factor above 0");
  std::vector<bool> has_stream(g.ranks.size());
  for (const auto& t : g.tasks) {
    if (t.type == task_type::kernel || t.type == task_type::copy) {
      has_stream[t.rank] = true;
    }
  }
  for (auto& t : g.tasks) {
    const bool is_device = t.type == task_type::kernel || t.type == task_type::copy || t.type == task_type::earlier;
    if (is_device || (t.type == task_type::host && !has_stream[t.rank])) {
      t.duration = detail::rounded(static_cast<double>(t.duration.count()) / factor);
    }
  }
}

UNITY_INLINE std::optional<collective_algorithm> algorithm_named(std::string_view name) {
  return name == "ring"               ? std::optional{collective_algorithm::ring}
         : name == "tree"             ? std::optional{collective_algorithm::tree}
         : name == "halving_doubling" ? std::optional{collective_algorithm::halving_doubling}
                                      : std::nullopt;
}

namespace detail {

// A collective among k ranks: the number of rounds, each with a latency, and the share of the data that each rank sends
// in total.
struct collective_shape {
  double rounds = 0;
  double volume = 0;
};
inline collective_shape shape_of(exchange way, collective_algorithm algorithm, double k) {
  if (k < 2) {
    return {};
  }
  const auto log = std::ceil(std::log2(k));
  const auto share = (k - 1) / k;
  switch (way) {
    case exchange::all_reduce:
      return algorithm == collective_algorithm::ring   ? collective_shape{2 * (k - 1), 2 * share}
             : algorithm == collective_algorithm::tree ? collective_shape{2 * log, 2}
                                                       : collective_shape{2 * log, 2 * share};
    case exchange::reduce_scatter:
    case exchange::all_gather:
      return algorithm == collective_algorithm::ring ? collective_shape{k - 1, share} : collective_shape{log, share};
    case exchange::all_to_all: return {k - 1, share};
    case exchange::broadcast:
    case exchange::reduce:
      return algorithm == collective_algorithm::ring ? collective_shape{k - 1, 1} : collective_shape{log, 1};
    default: return {1, 1};
  }
}

// The number of participating ranks as far as it is known: the size of the group, or else the number of ranks in the
// graph.
inline double members_of(const flow_graph& g, const communication& c) {
  return static_cast<double>(c.group_size > 0 ? c.group_size : g.ranks.size());
}

inline void reshape(flow_graph& g, double ranks, collective_algorithm to) {
  change_communication(g, [&](const flow_task& t, double latency, double rest) {
    const auto& c = g.communications[t.communication];
    if (t.type != task_type::collective) {
      return latency + rest;
    }
    const auto before = shape_of(c.way, collective_algorithm::ring, members_of(g, c));
    const auto after = shape_of(c.way, to, ranks > 0 ? ranks : members_of(g, c));
    // The collective of a single rank measures nothing.
    return before.rounds <= 0 ? latency + rest
                              : latency * after.rounds / before.rounds + rest * after.volume / before.volume;
  });
  if (ranks > 0) {
    for (auto& c : g.communications) {
      c.group_size = static_cast<std::uint32_t>(ranks);
    }
  }
}

}  // namespace detail

UNITY_INLINE void scale_workers(flow_graph& g, std::uint32_t ranks, collective_algorithm algorithm) {
  UNITY_EXPECTS(ranks >= 1, "at least one rank");
  detail::reshape(g, ranks, algorithm);
}

UNITY_INLINE void use_algorithm(flow_graph& g, collective_algorithm algorithm) { detail::reshape(g, 0, algorithm); }

UNITY_INLINE std::size_t remove_operator(flow_graph& g, name_id name) {
  std::size_t count = 0;
  for (auto& t : g.tasks) {
    const bool is_named = t.name == name && (is_computation(t.type) || is_communication(t.type) ||
                                             t.type == task_type::launch || t.type == task_type::synchronization);
    if (is_named ||
        (t.operation == name && t.operation.valid() && t.type != task_type::in && t.type != task_type::out)) {
      t.duration = {};
      ++count;
    }
  }
  return count;
}

UNITY_INLINE void drop_communication_detail(flow_graph& g, double bytes_per_second) {
  double per_byte = bytes_per_second > 0 ? 1e12 / bytes_per_second : 0;
  if (per_byte == 0) {
    bytes largest;
    for (const auto& t : g.tasks) {
      if (detail::moves_data(g, t) && g.communications[t.communication].size > largest) {
        largest = g.communications[t.communication].size;
        per_byte = static_cast<double>(t.duration.count()) / static_cast<double>(largest.count());
      }
    }
  }
  std::vector<bool> is_meeting(g.tasks.size());
  for (std::size_t t = 0; t < g.tasks.size(); ++t) {
    auto& task = g.tasks[t];
    is_meeting[t] = task.type == task_type::meeting;
    if (detail::moves_data(g, task)) {
      task.duration =
          detail::rounded(per_byte * static_cast<double>(g.communications[task.communication].size.count()));
    }
  }
  std::erase_if(g.edges, [&](const flow_edge& e) {
    return is_meeting[e.before] || is_meeting[e.after] || g.tasks[e.before].rank != g.tasks[e.after].rank;
  });
}

}  // namespace unity::trace

#endif
