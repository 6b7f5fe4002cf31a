// Maximum flow and minimum cut of a network with integer capacities.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <unity/core/config.hpp>

namespace unity {

// A directed network over points 0 .. count-1. Build it with add_edge, then run once.
class flow_network {
 public:
  using point = std::uint32_t;
  using capacity = std::int64_t;

  explicit flow_network(std::size_t points) : first_(points, none) {}

  // An edge, with room for `room` from one point to the other. Expects points of the network and room >= 0.
  void add_edge(point from, point to, capacity room) {
    UNITY_EXPECTS(from < first_.size() && to < first_.size(), "points of the network");
    UNITY_EXPECTS(room >= 0, "a capacity that is not negative");
    add_half(from, to, room);
    add_half(to, from, 0);
  }

  // The most that can flow, and after it source_side() tells the minimum cut.
  // Complexity: O(points^2 * edges), near linear on the networks of dataflow graphs.
  // Source: Dinic, Soviet Math. Doklady 11 (1970). Expects two different points, and sums that fit in 63 bits.
  capacity maximum_flow(point source, point sink) {
    UNITY_EXPECTS(source < first_.size() && sink < first_.size() && source != sink, "two points of the network");
    capacity total = 0;
    while (measure_distances(source, sink)) {
      next_ = first_;
      while (const capacity sent = send_along_a_path(source, sink)) {
        total += sent;
      }
    }
    return total;
  }

  // After maximum_flow: whether the point is still reachable from the source. The edges that leave this set
  // are a minimum cut, the one nearest to the source.
  [[nodiscard]] bool source_side(point p) const { return distance_[p] != unreached; }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t unreached = none;

  // Half edge h goes from its owner to half_[h].to; h ^ 1 is its reverse.
  struct half_edge {
    point to;
    std::uint32_t next;
    capacity room;
  };

  void add_half(point from, point to, capacity room) {
    half_.push_back({to, first_[from], room});
    first_[from] = static_cast<std::uint32_t>(half_.size() - 1);
  }

  // Breadth-first distances over edges with room; whether the sink is reached.
  bool measure_distances(point source, point sink) {
    distance_.assign(first_.size(), unreached);
    distance_[source] = 0;
    std::vector<point> queue{source};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (auto h = first_[queue[i]]; h != none; h = half_[h].next) {
        if (half_[h].room > 0 && distance_[half_[h].to] == unreached) {
          distance_[half_[h].to] = distance_[queue[i]] + 1;
          queue.push_back(half_[h].to);
        }
      }
    }
    return distance_[sink] != unreached;
  }

  // One shortest path, found with an explicit stack since paths are as long as the graph is deep.
  capacity send_along_a_path(point source, point sink) {
    path_.clear();
    for (point at = source; at != sink;) {
      auto& h = next_[at];
      while (h != none && (half_[h].room == 0 || distance_[half_[h].to] != distance_[at] + 1)) {
        h = half_[h].next;
      }
      if (h != none) {
        path_.push_back(h);
        at = half_[h].to;
      } else if (path_.empty()) {
        return 0;
      } else {
        at = half_[path_.back() ^ 1U].to;
        next_[at] = half_[next_[at]].next;
        path_.pop_back();
      }
    }
    capacity sent = std::numeric_limits<capacity>::max();
    for (const auto h : path_) {
      sent = std::min(sent, half_[h].room);
    }
    for (const auto h : path_) {
      half_[h].room -= sent;
      half_[h ^ 1U].room += sent;
    }
    return sent;
  }

  std::vector<std::uint32_t> first_;  // of each point, its newest half edge
  std::vector<half_edge> half_;
  std::vector<std::uint32_t> distance_;
  std::vector<std::uint32_t> next_;  // of each point, the half edge to try next
  std::vector<std::uint32_t> path_;
};

}  // namespace unity
