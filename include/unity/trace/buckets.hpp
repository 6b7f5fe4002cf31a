// Changes the buckets in which gradients are summed: a transformation of a job's graph.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::trace {

// Effects: gradients are summed in buckets of at most `size` bytes instead of the present ones. Takes the collectives
// that sum in the order in which a rank begins them, joins them as long as they fit, and cuts those that are too large.
// A joined bucket begins when the last of its parts would have begun. Part i of the m parts of a cut bucket begins
// after i / m of the time from the begin of the bucket before (for the first: of the backward pass) to its own, because
// gradients become ready evenly. Without recorded backward kernels, parts of the first bucket begin with it. A bucket
// takes the time that the fit predicts for its size (fit_communication); without a fit, its share of the time of its
// parts. The host's time to start a collective does not change. Returns the largest number of sums that a rank has now.
// Complexity: n log n in tasks.
// Precondition: at least 1 byte.
std::size_t rebucket(flow_graph& g, bytes size);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_BUCKETS)

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <unity/trace/what_if.hpp>

namespace unity::trace {

namespace detail {

// A sum of a rank, and its tasks: arrival (`in`), main and last (`out`).
struct summed_bucket {
  std::uint32_t arrival = no_index;
  std::uint32_t main = no_index;
  std::uint32_t last = no_index;
  std::uint32_t meeting = no_index;
};

class bucket_changer {
 public:
  bucket_changer(flow_graph& g, bytes size)
      : graph_{g}, size_{size}, cost_{cost_of(fit_communication(g), exchange::all_reduce)} {}

  std::size_t run() {
    collect();
    std::size_t most = 0;
    for (auto& list : by_rank_) {
      unity::stable_sort(list, [&](const auto& a, const auto& b) {
        return graph_.tasks[a.arrival].recorded_start < graph_.tasks[b.arrival].recorded_start;
      });
    }
    for (auto& list : by_rank_) {
      most = std::max(most, join(list));
    }
    erase_dropped();
    const auto starts = starts_of_backward();
    for (std::size_t r = 0; r < by_rank_.size(); ++r) {
      most = std::max(most, cut(by_rank_[r], starts[r]));
    }
    return most;
  }

 private:
  [[nodiscard]] bytes& size_of(const summed_bucket& b) {
    return graph_.communications[graph_.tasks[b.main].communication].size;
  }
  [[nodiscard]] picoseconds time_of(bytes size, double share_of_time) const {
    return cost_ && cost_->per_byte > 0 ? rounded(cost_->of(size)) : rounded(share_of_time);
  }

  void collect() {
    by_rank_.resize(graph_.ranks.size());
    dropped_.resize(graph_.tasks.size());
    std::vector<summed_bucket> of(graph_.communications.size());
    for (std::uint32_t t = 0; t < graph_.tasks.size(); ++t) {
      const auto& task = graph_.tasks[t];
      if (task.communication == no_index || graph_.communications[task.communication].way != exchange::all_reduce) {
        continue;
      }
      auto& b = of[task.communication];
      (task.type == task_type::in           ? b.arrival
       : task.type == task_type::collective ? b.main
       : task.type == task_type::out        ? b.last
                                            : b.meeting) = t;
    }
    std::vector<std::uint32_t> meeting_of(graph_.tasks.size(), no_index);
    for (const auto& e : graph_.edges) {
      if (graph_.tasks[e.after].type == task_type::meeting) {
        meeting_of[e.before] = e.after;
      }
    }
    for (auto& b : of) {
      if (b.arrival != no_index && b.main != no_index && b.last != no_index && size_of(b) > bytes{}) {
        b.meeting = meeting_of[b.arrival];
        by_rank_[graph_.tasks[b.main].rank].push_back(b);
      }
    }
  }

  // Merges buckets that fit in one into the last of them: tasks that waited for the others wait for it.
  std::size_t join(std::vector<summed_bucket>& list) {
    std::vector<summed_bucket> kept;
    for (std::size_t first = 0; first < list.size();) {
      auto end = first;
      bytes sum;
      double time = 0;
      do {
        sum += size_of(list[end]);
        time += static_cast<double>(graph_.tasks[list[end].main].duration.count());
        ++end;
      } while (end < list.size() && size_of(list[end]) <= size_ - sum);
      const auto& last = list[end - 1];
      if (end - first > 1) {
        for (auto k = first; k + 1 < end; ++k) {
          replace(list[k], last);
        }
        size_of(last) = sum;
        graph_.tasks[last.main].duration = time_of(sum, time);
      }
      kept.push_back(last);
      first = end;
    }
    list = std::move(kept);
    return list.size();
  }
  void replace(const summed_bucket& gone, const summed_bucket& by) {
    dropped_[gone.arrival] = dropped_[gone.main] = dropped_[gone.last] = true;
    if (gone.meeting != no_index) {
      dropped_[gone.meeting] = true;
    }
    replaced_.emplace_back(gone.last, by.last);
    replaced_.emplace_back(gone.arrival, by.arrival);
  }

  // Tasks that waited for a removed bucket wait for the bucket that has its data, which takes over what the removed one
  // waited for.
  void erase_dropped() {
    std::vector<std::uint32_t> by(graph_.tasks.size(), no_index);
    for (const auto& [gone, other] : replaced_) {
      by[gone] = other;
    }
    std::vector<flow_edge> edges;
    for (const auto& e : graph_.edges) {
      const auto before = by[e.before] != no_index ? by[e.before] : e.before;
      const auto after = by[e.after] != no_index ? by[e.after] : e.after;
      const bool is_gone = dropped_[before] || dropped_[after];
      if (!is_gone && (before == e.before || comes_behind(before, after))) {
        edges.push_back({before, after});
      }
    }
    graph_.edges = std::move(edges);
    for (auto& a : graph_.allocations) {
      for (auto* const t : {&a.from, &a.last}) {
        *t = *t != no_index && by[*t] != no_index ? by[*t] : *t;
      }
    }
    for (std::size_t t = 0; t < dropped_.size(); ++t) {
      if (dropped_[t]) {
        graph_.tasks[t].duration = {};
        graph_.tasks[t].resource = no_index;
        graph_.tasks[t].communication = no_index;
        graph_.tasks[t].type = task_type::delay;
      }
    }
  }
  // Whether the task was recorded after the merged bucket began. Otherwise the bucket may have to wait for it, so it
  // must not wait for the bucket.
  [[nodiscard]] bool comes_behind(std::uint32_t out, std::uint32_t after) const {
    return graph_.tasks[after].recorded_start > graph_.tasks[out - 2].recorded_start;
  }

  // By rank, when its first backward task began; nothing: it has none.
  [[nodiscard]] std::vector<std::optional<picoseconds>> starts_of_backward() const {
    std::vector<std::optional<picoseconds>> starts(graph_.ranks.size());
    for (const auto& t : graph_.tasks) {
      if (t.part == phase::backward && is_computation(t.type)) {
        auto& start = starts[t.rank];
        start = std::min(start.value_or(t.recorded_start), t.recorded_start);
      }
    }
    return starts;
  }
  std::size_t cut(std::vector<summed_bucket>& list, std::optional<picoseconds> earliest) {
    std::size_t count = 0;
    for (auto& b : list) {
      const auto size = size_of(b);
      const auto parts =
          static_cast<std::uint32_t>(std::min<std::int64_t>((size.count() - 1) / size_.count() + 1, 1 << 16));
      const auto begin = graph_.tasks[b.arrival].recorded_start;
      if (parts > 1) {
        divide(b, parts, size, std::min(earliest.value_or(begin), begin), begin);
      }
      earliest = begin;
      count += parts;
    }
    return count;
  }
  // The bucket's own tasks become its last part; the other parts run before it on the same resource, one after another.
  // All ranks divide alike, so part i of one rank meets part i of the others.
  void divide(const summed_bucket& b, std::uint32_t parts, bytes size, picoseconds from, picoseconds to) {
    const auto whole = graph_.tasks[b.main];
    const auto before = [&](std::uint32_t part) {  // no part has more than size / parts, rounded up
      return bytes{size.count() / parts * part + size.count() % parts * part / parts};
    };
    const auto time = static_cast<double>(whole.duration.count()) / parts;
    auto previous = no_index;
    for (std::uint32_t i = 0; i + 1 < parts; ++i) {
      const auto ready = from + (to - from) / parts * (i + 1);
      const auto share = before(i + 1) - before(i);
      previous = add_part(b, i, share, time_of(share, time), ready, previous);
    }
    graph_.link(previous, b.arrival);
    size_of(b) = size - before(parts - 1);
    graph_.tasks[b.main].duration = time_of(size_of(b), time);
  }
  std::uint32_t add_part(const summed_bucket& b, std::uint32_t number, bytes size, picoseconds time, picoseconds ready,
                         std::uint32_t previous) {
    auto in = graph_.tasks[b.arrival];
    auto main = graph_.tasks[b.main];
    auto out = graph_.tasks[b.last];
    auto c = graph_.communications[main.communication];
    c.size = size;
    in.communication = main.communication = out.communication =
        static_cast<std::uint32_t>(graph_.communications.size());
    graph_.communications.push_back(c);
    in.key = main.key = out.key = 0;
    in.recorded_start = ready;
    main.duration = time;
    const auto arrival = graph_.add(in);
    const auto moved = graph_.add(main);
    const auto last = graph_.add(out);
    graph_.link(arrival, moved);
    graph_.link(moved, last);
    if (const auto producer = last_before(main.rank, ready); producer != no_index) {
      graph_.link(producer, arrival);
    }
    if (previous != no_index) {
      graph_.link(previous, arrival);
    }
    if (b.meeting != no_index) {
      meet(b.meeting, number, arrival, moved);
    }
    return last;
  }
  void meet(std::uint32_t of, std::uint32_t number, std::uint32_t arrival, std::uint32_t main) {
    const auto [at, is_new] = meetings_.try_emplace({of, number}, no_index);
    if (is_new) {
      at->second = graph_.add(graph_.tasks[of]);
    }
    graph_.link(arrival, at->second);
    graph_.link(at->second, main);
  }
  // The last host task or kernel of a rank that had ended by that time, as recorded.
  std::uint32_t last_before(std::uint32_t rank, picoseconds time) {
    if (work_.empty()) {
      work_.resize(graph_.ranks.size());
      for (std::uint32_t t = 0; t < dropped_.size(); ++t) {
        const auto& task = graph_.tasks[t];
        if (is_computation(task.type) || task.type == task_type::launch) {
          work_[task.rank].emplace_back(task.recorded_start + task.recorded_duration, t);
        }
      }
      for (auto& list : work_) {
        std::sort(list.begin(), list.end());
      }
    }
    const auto& list = work_[rank];
    const auto after = std::upper_bound(list.begin(), list.end(), std::pair{time, no_index});
    return after == list.begin() ? graph_.ranks[rank].begin : std::prev(after)->second;
  }

  flow_graph& graph_;
  bytes size_;
  std::optional<communication_cost> cost_;
  std::vector<std::vector<summed_bucket>> by_rank_;
  std::vector<bool> dropped_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> replaced_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> meetings_;
  std::vector<std::vector<std::pair<picoseconds, std::uint32_t>>> work_;
};

}  // namespace detail

UNITY_INLINE std::size_t rebucket(flow_graph& g, bytes size) {
  UNITY_EXPECTS(size >= bytes{1}, "a bucket of at least a byte");
  return detail::bucket_changer{g, size}.run();
}

}  // namespace unity::trace

#endif
