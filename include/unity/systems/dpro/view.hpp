// A job from the view of dPRO's optimizer: the operators of devices in order, the tensors that they make, and the graph
// for a strategy.
// Over 500 lines because the graphs of all ranks and of one are built by the same steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/structure.hpp>
#include <unity/systems/dpro/synchronization.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/what_if.hpp>

namespace unity::systems {

// How much of a job is simulated.
//   alike    treat ranks that do the same as one: an operator stands for those of all of them
//   folded   also simulate one of them only, with one to three network tasks per bucket; requires alike ranks
// If ranks are not alike, both are ignored (dpro_view::is_alike).
struct view_options {
  bool alike = true;
  bool folded = true;
};

// The graph of a strategy, with the operator (the first of its run) and the tensor (the last of its bucket) of each
// task, or no_index.
struct strategy_graph {
  trace::flow_graph graph{};
  std::vector<std::uint32_t> operator_of{};
  std::vector<std::uint32_t> bucket_of{};
};

class dpro_view : detail::job_structure {
 public:
  // Refers to names. Synchronizations of gradients are all-reduces, pushes and pulls, and chunks of these. Complexity:
  // linear in the graph, times the computing resources of a rank.
  dpro_view(trace::flow_graph g, const trace::name_table& names, trace::fusion_time fused,
            const view_options& options = {});

  [[nodiscard]] const trace::flow_graph& job() const noexcept { return job_; }
  [[nodiscard]] const trace::name_table& names() const noexcept { return names_; }
  [[nodiscard]] const std::vector<view_operator>& operators() const noexcept { return operators_; }
  [[nodiscard]] const std::vector<view_tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] bool is_alike() const noexcept { return is_alike_; }
  [[nodiscard]] bool is_folded() const noexcept { return is_folded_; }
  // False if some tensor's size is unknown; then recorded buckets stay as they are, and nothing is folded.
  [[nodiscard]] bool knows_sizes() const noexcept { return knows_sizes_; }

  // The recorded strategy, and the one without joined tensors; without sizes, both are the recorded one.
  [[nodiscard]] const dpro_strategy& recorded() const noexcept { return recorded_; }
  [[nodiscard]] dpro_strategy separate() const;

  // Whether operators first to last may run as one: the device runs them right after each other, and no dependency
  // leaves the run and returns. Complexity: linear in the run.
  [[nodiscard]] bool may_fuse(std::uint32_t first, std::uint32_t last) const;
  // Whether a tensor may be in the bucket of the one before it.
  [[nodiscard]] bool may_join(std::uint32_t tensor) const;

  // The duration of operators first to last as one, on the first rank.
  [[nodiscard]] picoseconds fused_duration(std::uint32_t first, std::uint32_t last) const;
  [[nodiscard]] const synchronization_times& times() const { return *times_; }

  // Complexity: linear in the graph. Precondition: runs may be fused, and the tensors of each bucket joined.
  [[nodiscard]] strategy_graph apply(const dpro_strategy& s) const;

  dpro_view(dpro_view&&) = delete;
  dpro_view& operator=(dpro_view&&) = delete;
  ~dpro_view() = default;

 private:
  struct bucket {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  void add_base(const dpro_strategy& s, strategy_graph& all, std::vector<std::uint32_t>& place) const;
  void add_bucket(const bucket& b, std::uint32_t parts, strategy_graph& all,
                  const std::vector<std::uint32_t>& place) const;
  void add_recorded(const bucket& b, strategy_graph& all, const std::vector<std::uint32_t>& place) const;
  void add_parts(const bucket& b, std::uint32_t parts, strategy_graph& all,
                 const std::vector<std::uint32_t>& place) const;
  void add_staged(const bucket& b, std::uint32_t parts, strategy_graph& all,
                  const std::vector<std::uint32_t>& place) const;
  [[nodiscard]] bool is_recorded(const bucket& b) const;
  void note_surplus();
  [[nodiscard]] double share_of(const bucket& b, std::uint32_t tensor) const;
  void add_surplus(const bucket& b, std::uint32_t parts, const tensor_synchronization& s, std::uint32_t first,
                   trace::flow_graph& g) const;
  [[nodiscard]] bytes size_of(const bucket& b) const;
  [[nodiscard]] std::vector<tensor_synchronization::end> outside_of(const bucket& b) const;

  trace::fusion_time fused_;
  bool is_folded_ = false;
  std::vector<bool> is_kept_;  // by rank
  dpro_strategy recorded_;
  std::optional<transfer_times> transfers_;
  // The time of a synchronization beyond its fit, per task and in total.
  std::vector<std::vector<picoseconds>> surplus_;
  std::vector<picoseconds> whole_surplus_;
  std::optional<synchronization_times> times_;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_VIEW)

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <unity/trace/replay.hpp>

namespace unity::systems {

UNITY_INLINE dpro_view::dpro_view(trace::flow_graph g, const trace::name_table& names, trace::fusion_time fused,
                                  const view_options& options)
    : job_structure{std::move(g), names, options.alike},
      fused_{std::move(fused)},
      is_folded_{is_alike_ && knows_sizes_ && options.folded},
      is_kept_(job_.ranks.size(), true) {
  for (std::uint32_t r = 0; r < job_.ranks.size() && is_folded_; ++r) {
    is_kept_[r] = r == operators_.front().rank;
  }
  transfers_.emplace(job_);
  times_.emplace(job_, names_, syncs_, *transfers_);
  note_surplus();
  recorded_.fused.assign(operators_.size(), 0);
  recorded_.parts.assign(tensors_.size(), 1);
  recorded_.joined.assign(tensors_.size(), 0);
  for (std::size_t t = 1; t < tensors_.size(); ++t) {
    recorded_.joined[t] = tensors_[t].way == tensors_[t - 1].way ? 1 : 0;
  }
}

UNITY_INLINE dpro_strategy dpro_view::separate() const {
  auto s = recorded_;
  if (knows_sizes_) {
    s.joined.assign(tensors_.size(), 0);
  }
  return s;
}

UNITY_INLINE bool dpro_view::may_fuse(std::uint32_t first, std::uint32_t last) const {
  for (auto o = first; o <= last; ++o) {
    if ((o > first && !operators_[o].follows_previous) || operators_[o].limit <= last) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool dpro_view::may_join(std::uint32_t tensor) const {
  if (tensor == 0 || !knows_sizes_) {
    return false;
  }
  const auto& a = syncs_[tensors_[tensor - 1].way];
  const auto& b = syncs_[tensors_[tensor].way];
  return a.communications.front().way == b.communications.front().way &&
         a.communications.front().group == b.communications.front().group && a.tasks.size() == b.tasks.size();
}

UNITY_INLINE picoseconds dpro_view::fused_duration(std::uint32_t first, std::uint32_t last) const {
  std::vector<trace::fused_part> parts;
  for (auto o = first; o <= last; ++o) {
    const auto& t = job_.tasks[operators_[o].tasks.front()];
    parts.push_back({t.name, t.duration});
  }
  return fused_(parts);
}

UNITY_INLINE strategy_graph dpro_view::apply(const dpro_strategy& s) const {
  UNITY_EXPECTS(
      s.fused.size() == operators_.size() && s.joined.size() == tensors_.size() && s.parts.size() == tensors_.size(),
      "a strategy of this job");
  strategy_graph all;
  std::vector<std::uint32_t> place(job_.tasks.size(), trace::no_index);
  add_base(s, all, place);
  if (is_folded_) {
    all.graph.resources.push_back({"network", 0, trace::lane_kind::channel});
    std::uint32_t kinds = 0;
    for (const auto& y : syncs_) {
      kinds = std::max(kinds, y.kind + 1);
    }
    all.graph.resources.resize(all.graph.resources.size() + kinds, {"network", 0, trace::lane_kind::channel});
  }
  for (std::uint32_t first = 0; first < tensors_.size();) {
    auto last = first;
    while (last + 1 < tensors_.size() && s.joined[last + 1] != 0) {
      ++last;
    }
    add_bucket({first, last}, s.parts[last], all, place);
    first = last + 1;
  }
  all.operator_of.resize(all.graph.tasks.size(), trace::no_index);
  all.bucket_of.resize(all.graph.tasks.size(), trace::no_index);
  return all;
}

// Adds everything except synchronizations; operators that run as one become one task.
UNITY_INLINE void dpro_view::add_base(const dpro_strategy& s, strategy_graph& all,
                                      std::vector<std::uint32_t>& place) const {
  auto& g = all.graph;
  g.ranks = job_.ranks;
  g.resources = job_.resources;
  std::vector<std::uint32_t> first_of(operators_.size());
  std::vector<bool> is_free(job_.tasks.size());  // launches of operators fused into others
  for (std::uint32_t o = 0; o < operators_.size(); ++o) {
    first_of[o] = s.fused[o] != 0 ? first_of[o - 1] : o;
    if (s.fused[o] != 0) {
      for (const auto t : operators_[o].tasks) {
        for (const auto l : launches_[t]) {
          is_free[l] = true;
        }
      }
    }
  }
  std::vector<std::uint32_t> run_task(job_.tasks.size(), trace::no_index);  // by the first operator's task: its index
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    const auto& task = job_.tasks[t];
    if (!is_kept_[task.rank] || sync_of_[t] != trace::no_index || is_order_[t] || operator_of_[t] != trace::no_index ||
        (absorbed_by_[t] != trace::no_index && s.fused[absorbed_by_[t]] != 0)) {
      continue;
    }
    place[t] = g.add(task);
    g.tasks.back().communication = trace::no_index;
    if (task.communication != trace::no_index) {
      g.tasks.back().communication = static_cast<std::uint32_t>(g.communications.size());
      g.communications.push_back(job_.communications[task.communication]);
    }
    if (is_free[t]) {
      g.tasks.back().duration = {};
    }
  }
  std::vector<trace::fused_part> parts;
  for (std::uint32_t o = 0; o < operators_.size();) {
    auto end = o + 1;
    while (end < operators_.size() && s.fused[end] != 0) {
      ++end;
    }
    for (std::size_t r = 0; r < operators_[o].tasks.size(); ++r) {
      const auto t = operators_[o].tasks[r];
      if (!is_kept_[job_.tasks[t].rank]) {
        continue;
      }
      parts.clear();
      for (auto k = o; k < end; ++k) {
        const auto& part = job_.tasks[operators_[k].tasks[r]];
        parts.push_back({part.name, part.duration});
      }
      const auto at = g.add(job_.tasks[t]);
      g.tasks.back().duration = parts.size() == 1 ? parts.front().duration : fused_(parts);
      all.operator_of.resize(at, trace::no_index);
      all.operator_of.push_back(o);
      for (auto k = o; k < end; ++k) {
        place[operators_[k].tasks[r]] = at;
      }
    }
    o = end;
  }
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {  // gaps between its operators are part of the run
    const auto by = absorbed_by_[t];
    if (by != trace::no_index && s.fused[by] != 0 && is_kept_[job_.tasks[t].rank]) {
      for (const auto a : operators_[by].tasks) {
        if (job_.tasks[a].rank == job_.tasks[t].rank) {
          place[t] = place[a];
          g.tasks[place[a]].duration += job_.tasks[t].duration;
        }
      }
    }
  }
  // Memory that a synchronization allocates or frees is held for the whole iteration.
  for (auto a : job_.allocations) {
    if (is_kept_[a.rank]) {
      const auto from = a.from == trace::no_index ? trace::no_index : place[a.from];
      const auto last = a.last == trace::no_index ? trace::no_index : place[a.last];
      const auto is_apart = (a.from != trace::no_index && from == trace::no_index) ||
                            (a.last != trace::no_index && last == trace::no_index);
      g.allocations.push_back(
          {a.rank, is_apart ? place[job_.ranks[a.rank].begin] : from, is_apart ? trace::no_index : last, a.size});
    }
  }
  for (auto& r : g.ranks) {
    r.begin = r.begin == trace::no_index ? r.begin : place[r.begin];
    r.finish = r.finish == trace::no_index ? r.finish : place[r.finish];
  }
  for (const auto& e : job_.edges) {
    const auto before = place[e.before];
    const auto after = place[e.after];
    if (before != trace::no_index && after != trace::no_index && before != after) {
      g.link(before, after);
    }
  }
}

UNITY_INLINE bool dpro_view::is_recorded(const bucket& b) const {
  const auto way = tensors_[b.last].way;
  const bool begins = b.first == 0 || tensors_[b.first - 1].way != way;
  const bool ends = b.last + 1 == tensors_.size() || tensors_[b.last + 1].way != way;
  return tensors_[b.first].way == way && begins && ends;
}

UNITY_INLINE bytes dpro_view::size_of(const bucket& b) const {
  if (is_recorded(b)) {
    return syncs_[tensors_[b.last].way].size;
  }
  bytes sum;
  for (auto t = b.first; t <= b.last; ++t) {
    sum += tensors_[t].size;
  }
  return sum;
}

UNITY_INLINE void dpro_view::add_bucket(const bucket& b, std::uint32_t parts, strategy_graph& all,
                                        const std::vector<std::uint32_t>& place) const {
  const auto first = all.graph.tasks.size();
  if (is_folded_) {
    add_staged(b, parts, all, place);
  } else if (is_recorded(b) && parts == 1) {
    add_recorded(b, all, place);
  } else {
    add_parts(b, parts, all, place);
  }
  all.bucket_of.resize(first, trace::no_index);
  all.bucket_of.resize(all.graph.tasks.size(), b.last);
}

UNITY_INLINE void dpro_view::add_recorded(const bucket& b, strategy_graph& all,
                                          const std::vector<std::uint32_t>& place) const {
  const auto& s = syncs_[tensors_[b.last].way];
  auto& g = all.graph;
  const auto first = systems::add_recorded(g, s);
  const auto link = [&](std::uint32_t before, std::uint32_t after) {
    if (before != trace::no_index && after != trace::no_index) {
      g.link(before, after);
    }
  };
  for (const auto& e : s.entries) {
    for (const auto o : e.outside) {
      link(place[o], first + e.task);
    }
  }
  for (const auto& e : s.exits) {
    for (const auto o : e.outside) {
      link(first + e.task, place[o]);
    }
  }
}

// By rank: the tasks that wait for the bucket. Tasks that were recorded before the bucket's last tensor was ready
// cannot have waited for it, so they are left out.
UNITY_INLINE std::vector<tensor_synchronization::end> dpro_view::outside_of(const bucket& b) const {
  std::map<std::uint32_t, picoseconds> there;  // by rank
  for (auto t = b.first; t <= b.last; ++t) {
    for (const auto& e : tensors_[t].ready) {
      for (const auto o : e.outside) {
        auto& at = there.try_emplace(e.task, picoseconds{std::numeric_limits<std::int64_t>::min()}).first->second;
        at = std::max(at, job_.tasks[o].recorded_start);
      }
    }
  }
  std::map<std::uint32_t, std::vector<std::uint32_t>> waits;
  for (auto t = b.first; t <= b.last; ++t) {
    if (t > b.first && tensors_[t].way == tensors_[t - 1].way) {
      continue;
    }
    const auto& s = syncs_[tensors_[t].way];
    for (const auto& e : s.exits) {
      const auto rank = s.tasks[e.task].rank;
      const auto at = there.find(rank);
      for (const auto o : e.outside) {
        if (at == there.end() || job_.tasks[o].recorded_start > at->second) {
          waits[rank].push_back(o);
        }
      }
    }
  }
  std::vector<tensor_synchronization::end> all;
  for (auto& [rank, list] : waits) {
    all.push_back({rank, std::move(list)});
  }
  return all;
}

// Disturbances of a recorded synchronization (its time beyond the fit) do not vanish with other buckets. They stay with
// its tensors, so that only the fitted effect of sizes changes the total time.
UNITY_INLINE void dpro_view::note_surplus() {
  for (std::uint32_t s = 0; s < syncs_.size(); ++s) {
    auto& own = surplus_.emplace_back();
    for (std::size_t t = 0; t < syncs_[s].tasks.size(); ++t) {
      const auto& task = syncs_[s].tasks[t];
      own.push_back(task.communication == trace::no_index
                        ? picoseconds{}
                        : task.duration - transfers_->fitted(task, syncs_[s].communications[t], 1));
    }
    trace::flow_graph alone;
    alone.ranks = job_.ranks;
    for (auto& r : alone.ranks) {
      r.begin = r.finish = trace::no_index;
    }
    alone.resources = job_.resources;
    systems::add_recorded(alone, syncs_[s]);
    whole_surplus_.push_back(knows_sizes_ && is_folded_
                                 ? trace::replay(alone, names_).last_end - times_->replayed(s, syncs_[s].size, 1)
                                 : picoseconds{});
  }
}

// The fraction of a recorded synchronization that belongs to a tensor.
UNITY_INLINE double dpro_view::share_of(const bucket& b, std::uint32_t tensor) const {
  const auto& t = tensors_[tensor];
  return is_recorded(b) ? (tensor == b.last ? 1.0 : 0.0)
                        : static_cast<double>(t.size.count()) / static_cast<double>(syncs_[t.way].size.count());
}

UNITY_INLINE void dpro_view::add_surplus(const bucket& b, std::uint32_t parts, const tensor_synchronization& s,
                                         std::uint32_t first, trace::flow_graph& g) const {
  for (auto t = b.first; t <= b.last; ++t) {
    const auto& own = syncs_[tensors_[t].way];
    const auto share = share_of(b, t) / parts;
    for (std::size_t k = 0; k < std::min(own.tasks.size(), s.tasks.size()) && share > 0; ++k) {
      if (own.tasks[k].type == s.tasks[k].type && own.tasks[k].rank == s.tasks[k].rank) {
        g.tasks[first + k].duration +=
            picoseconds{std::llround(share * static_cast<double>(surplus_[tensors_[t].way][k].count()))};
      }
    }
  }
  for (auto k = first; k < g.tasks.size(); ++k) {
    g.tasks[k].duration = std::max(picoseconds{}, g.tasks[k].duration);
  }
}

UNITY_INLINE void dpro_view::add_parts(const bucket& b, std::uint32_t parts, strategy_graph& all,
                                       const std::vector<std::uint32_t>& place) const {
  auto& g = all.graph;
  const auto way = tensors_[b.last].way;
  const auto size = static_cast<double>(size_of(b).count()) / parts;
  const auto waits = outside_of(b);
  for (std::uint32_t k = 0; k < parts; ++k) {
    const auto& s = syncs_[times_->way_of_part(way, k)];
    const auto first = add_fitted(g, s, *transfers_, size / static_cast<double>(s.size.count()));
    add_surplus(b, parts, s, first, g);
    for (const auto& e : s.entries) {
      const auto rank = s.tasks[e.task].rank;
      g.tasks[first + e.task].duration += syncs_[way].lag;
      for (auto t = b.first; t <= b.last; ++t) {
        for (const auto& r : tensors_[t].ready) {
          for (const auto o : r.task == rank ? r.outside : std::vector<std::uint32_t>{}) {
            if (place[o] != trace::no_index) {
              g.link(place[o], first + e.task);
            }
          }
        }
      }
    }
    for (const auto& e : s.exits) {
      for (const auto& w : waits) {
        for (const auto o : w.task == s.tasks[e.task].rank ? w.outside : std::vector<std::uint32_t>{}) {
          if (place[o] != trace::no_index) {
            g.link(first + e.task, place[o]);
          }
        }
      }
    }
  }
}

// Adds for each part: its time on shared resources, on those of its kind, and its latency.
UNITY_INLINE void dpro_view::add_staged(const bucket& b, std::uint32_t parts, strategy_graph& all,
                                        const std::vector<std::uint32_t>& place) const {
  auto& g = all.graph;
  const auto rank = operators_.front().rank;
  const auto network = static_cast<std::uint32_t>(job_.resources.size());
  const auto way = tensors_[b.last].way;
  const auto size = size_of(b);
  trace::flow_task task;
  task.rank = rank;
  task.name = tensors_[b.last].name;
  task.part = trace::phase::communication;
  task.type = trace::task_type::in;
  task.duration = syncs_[way].lag;
  const auto in = g.add(task);
  task.duration = {};
  task.type = trace::task_type::out;
  const auto out = g.add(task);
  for (auto t = b.first; t <= b.last; ++t) {
    for (const auto& r : tensors_[t].ready) {
      for (const auto o : r.outside) {
        if (place[o] != trace::no_index) {
          g.link(place[o], in);
        }
      }
    }
  }
  double surplus = 0;
  for (auto t = b.first; t <= b.last; ++t) {
    surplus += share_of(b, t) * static_cast<double>(whole_surplus_[tensors_[t].way].count());
  }
  for (std::uint32_t k = 0; k < parts; ++k) {
    const auto by = times_->way_of_part(way, k);
    const auto stages = times_->stages(by, std::max(bytes{1}, size / parts));
    task.type = trace::task_type::collective;
    auto before = in;
    const auto add = [&](std::uint32_t resource, picoseconds time) {
      if (time > picoseconds{}) {
        task.type = resource == trace::no_index ? trace::task_type::delay : trace::task_type::collective;
        task.resource = resource;
        task.duration = time;
        const auto at = g.add(task);
        g.link(before, at);
        before = at;
      }
    };
    add(network, stages.shared);
    const auto own = stages.own + picoseconds{std::llround(surplus / parts)};
    add(network + 1 + syncs_[by].kind, own);
    add(trace::no_index, stages.latency + std::min(picoseconds{}, own));
    g.link(before, out);
  }
  for (const auto& w : outside_of(b)) {
    for (const auto o : w.outside) {
      if (place[o] != trace::no_index) {
        g.link(out, place[o]);
      }
    }
  }
}

}  // namespace unity::systems

#endif
