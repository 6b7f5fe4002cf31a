// A job as dPRO's optimizer sees it: operators of devices in their order, tensors that they make, and the graph that a
// strategy makes of it.
// Over 500 lines because what reads the graph and what builds one share how tasks, operators and tensors refer to
// each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/systems/dpro/fusion_time.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/synchronization.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::systems {

// What of a job is looked at.
//   alike    ranks that do the same are one: an operator is that of all of them
//   folded   and the graph is of one of them, each bucket a task or three of the network. Ranks must be alike.
// Where ranks are not alike, neither is done (dpro_view::is_alike).
struct view_options {
  bool alike = true;
  bool folded = true;
};

// A computation of a device: a kernel or copy of a stream; of ranks that have no streams, of a host thread.
struct view_operator {
  std::vector<std::uint32_t> tasks{};  // of the job's graph; of each of the ranks that are alike
  std::int64_t duration = 0;           // of the first of these
  std::uint32_t rank = 0;              // of the first of these
  std::uint32_t resource = 0;
  std::uint32_t limit = 0;        // the first operator that may not run as one with it and those between
  bool follows_previous = false;  // runs on the device behind the operator before it, nothing else between

  friend bool operator==(const view_operator&, const view_operator&) = default;
};

// A gradient that is synchronized. Tensors are in the order in which they were.
struct view_tensor {
  trace::name_id name{};
  std::int64_t size = 0;                             // bytes
  std::uint32_t way = 0;                             // the synchronization that it was recorded in
  std::uint32_t producer = trace::no_index;          // the operator behind which it was ready, of the first rank
  std::vector<tensor_synchronization::end> ready{};  // by rank: tasks behind which it is there

  friend bool operator==(const view_tensor& a, const view_tensor& b) {
    return a.name == b.name && a.size == b.size && a.way == b.way && a.producer == b.producer;
  }
};

// The graph of a strategy, and what its tasks are: places of operators (the first of a run) and of tensors (the last of
// a bucket), or no_index.
struct strategy_graph {
  trace::flow_graph graph{};
  std::vector<std::uint32_t> operator_of{};
  std::vector<std::uint32_t> bucket_of{};
};

class dpro_view {
 public:
  // Refers to names. Sums of gradients are all-reduces, pushes and pulls, and chunks of these. Complexity: linear in
  // the graph, times the devices of a rank that compute.
  dpro_view(trace::flow_graph g, const trace::name_table& names, fusion_time fused, const view_options& options = {});

  [[nodiscard]] const trace::flow_graph& job() const noexcept { return job_; }
  [[nodiscard]] const trace::name_table& names() const noexcept { return names_; }
  [[nodiscard]] const std::vector<view_operator>& operators() const noexcept { return operators_; }
  [[nodiscard]] const std::vector<view_tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] bool is_alike() const noexcept { return is_alike_; }
  [[nodiscard]] bool is_folded() const noexcept { return is_folded_; }
  // Of the parts of what a sum of gradients is recorded as; empty: sizes are not known, and tensors stay as they are.
  [[nodiscard]] bool knows_sizes() const noexcept { return knows_sizes_; }

  // As recorded, and nothing joined.
  [[nodiscard]] const dpro_strategy& recorded() const noexcept { return recorded_; }
  [[nodiscard]] dpro_strategy separate() const;

  // Whether operators first..last may run as one: a device runs them one behind the other, and nothing that one of them
  // waits for waits for another. Complexity: linear in the run.
  [[nodiscard]] bool may_fuse(std::uint32_t first, std::uint32_t last) const;
  // Whether a tensor may be in one bucket with the one before it.
  [[nodiscard]] bool may_join(std::uint32_t tensor) const;

  // Of operators first..last as one, of the first rank. Picoseconds.
  [[nodiscard]] std::int64_t fused_duration(std::uint32_t first, std::uint32_t last) const;
  [[nodiscard]] synchronization_times& times() const { return *times_; }

  // Complexity: linear in the graph. Precondition: runs that may fuse, buckets whose tensors may join.
  [[nodiscard]] strategy_graph apply(const dpro_strategy& s) const;

  dpro_view(dpro_view&&) = delete;
  dpro_view& operator=(dpro_view&&) = delete;
  ~dpro_view() = default;

 private:
  struct bucket {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  void find_tensors();
  void find_order_delays();
  void add_tensor(std::uint32_t sync, const std::vector<std::uint32_t>& tasks);
  void divide_into_gradients();
  void note_ready(tensor_synchronization& s);
  void sort_tensors();
  void find_kinds();
  void find_operators();
  void find_lane(std::uint32_t rank, std::uint32_t resource, const std::vector<std::uint32_t>& tasks);
  void find_limits(std::size_t first, const std::vector<std::uint32_t>& lane);
  void join_alike();
  void find_producers();
  void find_launches();
  [[nodiscard]] std::uint32_t behind(std::uint32_t rank, std::int64_t time) const;

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
  [[nodiscard]] std::int64_t size_of(const bucket& b) const;
  [[nodiscard]] std::vector<tensor_synchronization::end> outside_of(const bucket& b) const;

  trace::flow_graph job_;
  const trace::name_table& names_;
  fusion_time fused_;
  trace::adjacency neighbours_;
  std::vector<std::uint32_t> sync_of_;  // by task; no_index: none
  std::vector<bool> is_order_;          // delays between synchronizations
  std::vector<tensor_synchronization> syncs_;
  std::vector<view_tensor> tensors_;
  std::vector<view_operator> operators_;
  std::vector<std::uint32_t> operator_of_;             // by task
  std::vector<std::uint32_t> absorbed_by_;             // by task: a gap before the operator
  std::vector<std::vector<std::uint32_t>> launches_;   // by operator task: of it alone
  std::vector<std::vector<std::uint32_t>> rank_work_;  // by rank: computations by recorded end
  std::vector<bool> is_kept_;                          // by rank
  dpro_strategy recorded_;
  bool is_alike_ = false;
  bool is_folded_ = false;
  bool knows_sizes_ = true;
  std::optional<transfer_times> transfers_;
  // What a synchronization took beyond what the fit says, of each of its tasks, and in all. Picoseconds.
  std::vector<std::vector<std::int64_t>> surplus_;
  std::vector<std::int64_t> whole_surplus_;
  mutable std::optional<synchronization_times> times_;
  std::vector<std::uint32_t> shared_resources_;  // of the folded graph: of the network, and of each kind
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_VIEW)

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <unity/core/hash.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/trace/replay.hpp>

namespace unity::systems {

namespace detail {

inline bool sums_gradients(trace::exchange way) {
  return way == trace::exchange::all_reduce || way == trace::exchange::push || way == trace::exchange::pull ||
         way == trace::exchange::chunk;
}

}  // namespace detail

UNITY_INLINE dpro_view::dpro_view(trace::flow_graph g, const trace::name_table& names, fusion_time fused,
                                  const view_options& options)
    : job_{std::move(g)}, names_{names}, fused_{std::move(fused)}, neighbours_{job_} {
  rank_work_.resize(job_.ranks.size());
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    const auto type = job_.tasks[t].type;
    if (trace::is_computation(type) || type == trace::task_type::launch) {
      rank_work_[job_.tasks[t].rank].push_back(t);
    }
  }
  const auto end_of = [&](std::uint32_t t) { return job_.tasks[t].recorded_start + job_.tasks[t].recorded_duration; };
  for (auto& list : rank_work_) {
    unity::stable_sort(list, [&](auto a, auto b) { return end_of(a) < end_of(b); });
  }
  find_tensors();
  find_operators();
  is_kept_.assign(job_.ranks.size(), true);
  if (options.alike) {
    join_alike();
  }
  is_folded_ = is_alike_ && knows_sizes_ && options.folded;
  if (is_folded_) {
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      is_kept_[r] = !operators_.empty() && r == operators_.front().rank;
    }
  }
  find_producers();
  find_launches();
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
  s.joined.assign(tensors_.size(), 0);
  return s;
}

// Tasks of one name, or of one call of a group, are one synchronization, on all ranks.
UNITY_INLINE void dpro_view::find_tensors() {
  std::map<std::tuple<bool, std::uint32_t, std::int64_t, trace::exchange>, std::uint32_t> known;
  sync_of_.assign(job_.tasks.size(), trace::no_index);
  std::vector<std::vector<std::uint32_t>> tasks;
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    const auto at = job_.tasks[t].communication;
    if (at == trace::no_index || !detail::sums_gradients(job_.communications[at].way)) {
      continue;
    }
    const auto& c = job_.communications[at];
    const auto key =
        c.tensor.valid()
            ? std::tuple{true, static_cast<std::uint32_t>(c.tensor.index()), std::int64_t{0}, trace::exchange::other}
            : std::tuple{false, static_cast<std::uint32_t>(c.group.index()), c.sequence, c.way};
    const auto place = known.try_emplace(key, static_cast<std::uint32_t>(tasks.size())).first->second;
    if (place == tasks.size()) {
      tasks.emplace_back();
    }
    tasks[place].push_back(t);
    sync_of_[t] = place;
  }
  // What passes within a synchronization belongs to it.
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    const auto before = neighbours_.before(t);
    const auto after = neighbours_.after(t);
    if (job_.tasks[t].type != trace::task_type::delay || before.empty() || after.empty()) {
      continue;
    }
    const auto sync = sync_of_[before.front()];
    const auto is_of = [&](auto n) { return sync_of_[n] == sync; };
    if (sync != trace::no_index && std::all_of(before.begin(), before.end(), is_of) &&
        std::all_of(after.begin(), after.end(), is_of)) {
      sync_of_[t] = sync;
      tasks[sync].push_back(t);
    }
  }
  find_order_delays();
  for (std::uint32_t s = 0; s < tasks.size(); ++s) {
    add_tensor(s, tasks[s]);
  }
  find_kinds();
  divide_into_gradients();
  sort_tensors();
}

// Delays from one synchronization to another say in which order they were, which another strategy changes.
UNITY_INLINE void dpro_view::find_order_delays() {
  is_order_.assign(job_.tasks.size(), false);
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    const auto is_sync = [&](auto n) { return sync_of_[n] != trace::no_index; };
    const auto before = neighbours_.before(t);
    const auto after = neighbours_.after(t);
    is_order_[t] = job_.tasks[t].type == trace::task_type::delay && sync_of_[t] == trace::no_index && !before.empty() &&
                   !after.empty() && std::all_of(before.begin(), before.end(), is_sync) &&
                   std::all_of(after.begin(), after.end(), is_sync);
  }
}

UNITY_INLINE void dpro_view::add_tensor(std::uint32_t sync, const std::vector<std::uint32_t>& tasks) {
  std::unordered_map<std::uint32_t, std::uint32_t> place;
  tensor_synchronization s;
  std::map<std::uint32_t, std::int64_t> sent;  // by rank that sends
  std::int64_t largest = 0;
  for (const auto t : tasks) {
    place.emplace(t, static_cast<std::uint32_t>(s.tasks.size()));
    const auto& task = job_.tasks[t];
    const auto c =
        task.communication == trace::no_index ? trace::communication{} : job_.communications[task.communication];
    s.tasks.push_back(task);
    s.communications.push_back(c);
    if (task.type == trace::task_type::collective) {
      largest = std::max(largest, c.size);
    } else if (task.type == trace::task_type::send && (c.way == trace::exchange::push || c.round == 0)) {
      sent[c.way == trace::exchange::push ? task.rank : 0] += c.size;
    }
  }
  for (const auto& [rank, size] : sent) {
    largest = std::max(largest, size);
  }
  s.size = largest;
  knows_sizes_ = knows_sizes_ && s.size > 0;
  for (const auto t : tasks) {
    tensor_synchronization::end entry{place.at(t), {}};
    for (const auto b : neighbours_.before(t)) {
      if (const auto in = place.find(b); in != place.end()) {
        s.edges.push_back({in->second, place.at(t)});
      } else if (sync_of_[b] == trace::no_index && !is_order_[b]) {
        entry.outside.push_back(b);
      }
    }
    // What only followed another synchronization was ready by then: behind what had ended.
    const bool is_first = s.tasks[entry.task].type == trace::task_type::in;
    if (is_first && entry.outside.empty() && !neighbours_.before(t).empty() &&
        std::none_of(neighbours_.before(t).begin(), neighbours_.before(t).end(),
                     [&](auto b) { return place.contains(b); })) {
      if (const auto work = behind(job_.tasks[t].rank, job_.tasks[t].recorded_start); work != trace::no_index) {
        entry.outside.push_back(work);
      }
    }
    if (!entry.outside.empty()) {
      s.entries.push_back(std::move(entry));
    }
    tensor_synchronization::end exit{place.at(t), {}};
    for (const auto a : neighbours_.after(t)) {
      if (sync_of_[a] == trace::no_index && !is_order_[a]) {
        exit.outside.push_back(a);
      }
    }
    if (!exit.outside.empty()) {
      s.exits.push_back(std::move(exit));
    }
  }
  UNITY_EXPECTS(sync == syncs_.size(), "synchronizations in their order");
  syncs_.push_back(std::move(s));
}

// The last computation of a rank that had ended by then; no_index where there is none.
UNITY_INLINE std::uint32_t dpro_view::behind(std::uint32_t rank, std::int64_t time) const {
  const auto& list = rank_work_[rank];
  const auto after = std::upper_bound(list.begin(), list.end(), time, [&](std::int64_t at, std::uint32_t t) {
    return at < job_.tasks[t].recorded_start + job_.tasks[t].recorded_duration;
  });
  return after == list.begin() ? trace::no_index : *std::prev(after);
}

UNITY_INLINE void dpro_view::find_kinds() {
  std::map<std::set<std::uint32_t>, std::uint32_t> kinds;
  for (auto& s : syncs_) {
    std::set<std::uint32_t> resources;
    for (const auto& t : s.tasks) {
      resources.insert(t.resource);
    }
    s.kind = kinds.try_emplace(std::move(resources), static_cast<std::uint32_t>(kinds.size())).first->second;
  }
}

// A bucket is the gradients that came between the bucket before it and its own begin, where the trace tells gradients;
// sizes as far as they are known, else equal.
UNITY_INLINE void dpro_view::divide_into_gradients() {
  std::vector<std::uint32_t> order(syncs_.size());
  const auto arrival = [&](std::uint32_t s, std::uint32_t rank) {
    auto last = std::numeric_limits<std::int64_t>::min();
    for (const auto& t : syncs_[s].tasks) {
      if (t.type == trace::task_type::in && t.rank == rank) {
        last = std::max(last, t.recorded_start);
      }
    }
    return last;
  };
  for (std::uint32_t s = 0; s < order.size(); ++s) {
    order[s] = s;
  }
  std::vector<std::vector<trace::flow_gradient>> of_rank(job_.ranks.size());
  for (const auto& g : job_.gradients) {
    of_rank[job_.tasks[g.task].rank].push_back(g);
  }
  const auto end_of = [&](const trace::flow_gradient& g) {
    return job_.tasks[g.task].recorded_start + job_.tasks[g.task].recorded_duration;
  };
  std::size_t most = 0;
  for (auto& list : of_rank) {
    unity::stable_sort(list, [&](const auto& a, const auto& b) { return end_of(a) < end_of(b); });
    most = std::max(most, list.size());
  }
  const bool all_tell =
      most > 0 && std::all_of(of_rank.begin(), of_rank.end(), [&](const auto& l) { return l.size() == most; });
  if (all_tell) {
    unity::stable_sort(order, [&](auto a, auto b) { return arrival(a, 0) < arrival(b, 0); });
  }
  std::size_t next = 0;
  for (const auto s : order) {
    std::vector<view_tensor> parts;
    auto last = next;
    std::int64_t sum = 0;
    if (all_tell) {
      const auto begin = arrival(s, 0);
      const bool sized = of_rank[0][std::min(next, most - 1)].size > 0;
      while (last < most && (sized ? sum < syncs_[s].size : end_of(of_rank[0][last]) <= begin)) {
        sum += of_rank[0][last++].size;
      }
    }
    const bool fits = last > next && (sum == 0 || sum == syncs_[s].size);
    if (!fits) {
      view_tensor t;
      t.name = syncs_[s].communications.front().tensor;
      t.size = syncs_[s].size;
      t.way = s;
      t.ready = syncs_[s].entries;
      for (auto& e : t.ready) {
        e.task = syncs_[s].tasks[e.task].rank;
      }
      tensors_.push_back(std::move(t));
      next = last;
      continue;
    }
    const auto count = static_cast<std::int64_t>(last - next);
    for (auto g = next; g < last; ++g) {
      view_tensor t;
      t.size = sum > 0 ? of_rank[0][g].size : std::max<std::int64_t>(1, syncs_[s].size / count);
      t.way = s;
      for (std::uint32_t r = 0; r < of_rank.size(); ++r) {
        t.ready.push_back({r, {of_rank[r][g].task}});
      }
      tensors_.push_back(std::move(t));
    }
    next = last;
  }
}

UNITY_INLINE void dpro_view::sort_tensors() {
  std::vector<std::int64_t> arrival(syncs_.size(), std::numeric_limits<std::int64_t>::max());
  for (std::size_t s = 0; s < syncs_.size(); ++s) {
    for (const auto& e : syncs_[s].entries) {
      const auto& t = syncs_[s].tasks[e.task];
      arrival[s] = std::min(arrival[s], t.recorded_start);
    }
  }
  unity::stable_sort(tensors_, [&](const auto& a, const auto& b) { return arrival[a.way] < arrival[b.way]; });
}

UNITY_INLINE void dpro_view::find_operators() {
  operator_of_.assign(job_.tasks.size(), trace::no_index);
  absorbed_by_.assign(job_.tasks.size(), trace::no_index);
  std::vector<bool> has_stream(job_.ranks.size());
  for (const auto& t : job_.tasks) {
    has_stream[t.rank] = has_stream[t.rank] || t.type == trace::task_type::kernel;
  }
  std::vector<std::vector<std::uint32_t>> lanes(job_.resources.size());
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    if (job_.tasks[t].resource != trace::no_index) {
      lanes[job_.tasks[t].resource].push_back(t);
    }
  }
  std::vector<std::uint32_t> resources(job_.resources.size());
  for (std::uint32_t r = 0; r < resources.size(); ++r) {
    resources[r] = r;
  }
  unity::stable_sort(resources, [&](auto a, auto b) { return job_.resources[a].rank < job_.resources[b].rank; });
  for (const auto r : resources) {
    auto& lane = lanes[r];
    const auto rank = job_.resources[r].rank;
    const auto computes = [&](std::uint32_t t) {
      const auto type = job_.tasks[t].type;
      return has_stream[rank] ? type == trace::task_type::kernel || type == trace::task_type::copy
                              : type == trace::task_type::host;
    };
    if (std::any_of(lane.begin(), lane.end(), computes)) {
      unity::stable_sort(lane,
                         [&](auto a, auto b) { return job_.tasks[a].recorded_start < job_.tasks[b].recorded_start; });
      find_lane(rank, r, lane);
    }
  }
}

UNITY_INLINE void dpro_view::find_lane(std::uint32_t rank, std::uint32_t resource,
                                       const std::vector<std::uint32_t>& lane) {
  const auto first = operators_.size();
  bool is_direct = false;  // nothing but gaps since the operator before
  std::vector<std::uint32_t> gaps;
  for (const auto t : lane) {
    const auto& task = job_.tasks[t];
    const bool is_host = job_.resources[resource].kind == trace::lane_kind::host;
    if (is_host ? task.type == trace::task_type::host
                : task.type == trace::task_type::kernel || task.type == trace::task_type::copy) {
      view_operator o;
      o.tasks = {t};
      o.duration = task.duration;
      o.rank = rank;
      o.resource = resource;
      o.follows_previous = is_direct && operators_.size() > first &&
                           job_.tasks[operators_.back().tasks.front()].part == task.part &&
                           job_.tasks[operators_.back().tasks.front()].type == task.type;
      if (o.follows_previous) {
        for (const auto g : gaps) {
          absorbed_by_[g] = static_cast<std::uint32_t>(operators_.size());
        }
      }
      operator_of_[t] = static_cast<std::uint32_t>(operators_.size());
      operators_.push_back(std::move(o));
      is_direct = true;
      gaps.clear();
    } else if (task.type == trace::task_type::gap) {
      gaps.push_back(t);
    } else {
      is_direct = false;
    }
  }
  find_limits(first, lane);
}

// From which operator of the lane on something waits for an operator and for what is not of the lane besides: the least
// that each task outside leads to, backwards in an order of all tasks.
UNITY_INLINE void dpro_view::find_limits(std::size_t first, const std::vector<std::uint32_t>& lane) {
  const auto count = static_cast<std::uint32_t>(operators_.size());
  std::vector<std::uint32_t> own(job_.tasks.size(), trace::no_index);  // the operator at or behind a task of the lane
  auto next = count;
  for (auto t = lane.rbegin(); t != lane.rend(); ++t) {
    next = operator_of_[*t] != trace::no_index ? operator_of_[*t] : next;
    own[*t] = next;
  }
  std::vector<std::uint32_t> leads(job_.tasks.size(), trace::no_index);
  const auto order = trace::topological_order(job_, neighbours_, names_);
  for (auto t = order.rbegin(); t != order.rend(); ++t) {
    for (const auto a : neighbours_.after(*t)) {
      if (own[*t] != trace::no_index && own[a] != trace::no_index) {
        continue;  // along the lane
      }
      leads[*t] = std::min(leads[*t], own[a] != trace::no_index ? own[a] : leads[a]);
    }
  }
  for (auto o = first; o < count; ++o) {
    operators_[o].limit = std::min(count, leads[operators_[o].tasks.front()]);
  }
  // What the gaps and calls behind an operator lead to counts for it: they are absorbed by those that follow.
  for (const auto t : lane) {
    if (absorbed_by_[t] != trace::no_index) {
      auto& limit = operators_[absorbed_by_[t]].limit;
      limit = std::min(limit, leads[t]);
    }
  }
}

// Ranks whose operators have the same names, parts and lanes, in the same order, are alike; those without operators,
// such as servers, are not asked.
UNITY_INLINE void dpro_view::join_alike() {
  std::vector<std::vector<std::uint32_t>> of_rank(job_.ranks.size());
  for (std::uint32_t o = 0; o < operators_.size(); ++o) {
    of_rank[operators_[o].rank].push_back(o);
  }
  std::vector<std::uint32_t> workers;
  for (std::uint32_t r = 0; r < of_rank.size(); ++r) {
    if (!of_rank[r].empty()) {
      workers.push_back(r);
    }
  }
  if (workers.empty()) {
    return;
  }
  const auto& own = of_rank[workers.front()];
  const auto is_like = [&](std::uint32_t a, std::uint32_t b) {
    const auto& one = job_.tasks[operators_[a].tasks.front()];
    const auto& other = job_.tasks[operators_[b].tasks.front()];
    return one.name == other.name && one.part == other.part && one.type == other.type &&
           operators_[a].follows_previous == operators_[b].follows_previous &&
           operators_[a].limit - own.front() == operators_[b].limit - of_rank[operators_[b].rank].front();
  };
  for (const auto r : workers) {
    if (of_rank[r].size() != own.size() ||
        !std::equal(own.begin(), own.end(), of_rank[r].begin(), [&](auto a, auto b) { return is_like(a, b); })) {
      return;
    }
  }
  for (const auto& t : tensors_) {
    std::set<std::uint32_t> ranks;
    for (const auto& e : t.ready) {
      if (!of_rank[e.task].empty()) {
        ranks.insert(e.task);
      }
    }
    if (ranks.size() != workers.size()) {
      return;
    }
  }
  for (const auto& e : job_.edges) {  // messages between workers that are no sums: they do not do the same
    if (sync_of_[e.before] == trace::no_index && sync_of_[e.after] == trace::no_index &&
        job_.tasks[e.before].rank != job_.tasks[e.after].rank) {
      return;
    }
  }
  is_alike_ = true;
  // The slowest is the first: the others wait for it.
  auto slowest = workers.front();
  std::int64_t most = -1;
  for (const auto r : workers) {
    std::int64_t sum = 0;
    for (const auto o : of_rank[r]) {
      sum += operators_[o].duration;
    }
    if (sum > most) {
      most = sum;
      slowest = r;
    }
  }
  std::vector<view_operator> all;
  for (std::size_t k = 0; k < own.size(); ++k) {
    auto o = operators_[of_rank[slowest][k]];
    o.limit = o.limit - of_rank[slowest].front();
    for (const auto r : workers) {
      const auto t = operators_[of_rank[r][k]].tasks.front();
      if (r != slowest) {
        o.tasks.push_back(t);
      }
      operator_of_[t] = static_cast<std::uint32_t>(k);
    }
    all.push_back(std::move(o));
  }
  for (auto& a : absorbed_by_) {
    if (a != trace::no_index) {
      a = a - of_rank[operators_[a].rank].front();
    }
  }
  operators_ = std::move(all);
}

// The operator of the first rank that a tensor waits for: the last of those that lead to it without another between.
UNITY_INLINE void dpro_view::find_producers() {
  std::vector<std::uint32_t> seen(job_.tasks.size(), trace::no_index);
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    std::vector<std::uint32_t> open;
    for (const auto& e : tensors_[t].ready) {
      if (operators_.empty() || (is_alike_ && e.task != operators_.front().rank)) {
        continue;
      }
      open.insert(open.end(), e.outside.begin(), e.outside.end());
    }
    std::int64_t latest = std::numeric_limits<std::int64_t>::min();
    while (!open.empty()) {
      const auto u = open.back();
      open.pop_back();
      if (seen[u] == t || sync_of_[u] != trace::no_index) {
        continue;
      }
      seen[u] = t;
      if (operator_of_[u] == trace::no_index) {
        const auto before = neighbours_.before(u);
        open.insert(open.end(), before.begin(), before.end());
      } else if (const auto end = job_.tasks[u].recorded_start + job_.tasks[u].recorded_duration; end > latest) {
        latest = end;
        tensors_[t].producer = operator_of_[u];
      }
    }
  }
}

// Calls that start one kernel each: what runs as one is started once.
UNITY_INLINE void dpro_view::find_launches() {
  launches_.resize(job_.tasks.size());
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    if (operator_of_[t] == trace::no_index) {
      continue;
    }
    for (auto b : neighbours_.before(t)) {
      b = job_.tasks[b].type == trace::task_type::delay && neighbours_.before(b).size() == 1
              ? neighbours_.before(b).front()
              : b;
      if (job_.tasks[b].type == trace::task_type::launch) {
        launches_[t].push_back(b);
      }
    }
  }
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

UNITY_INLINE std::int64_t dpro_view::fused_duration(std::uint32_t first, std::uint32_t last) const {
  std::vector<fused_part> parts;
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

// All that is no synchronization; operators that run as one are one task.
UNITY_INLINE void dpro_view::add_base(const dpro_strategy& s, strategy_graph& all,
                                      std::vector<std::uint32_t>& place) const {
  auto& g = all.graph;
  g.ranks = job_.ranks;
  g.resources = job_.resources;
  std::vector<std::uint32_t> first_of(operators_.size());
  std::vector<bool> is_free(job_.tasks.size());  // launches of what runs with others
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
  std::vector<std::uint32_t> run_task(job_.tasks.size(), trace::no_index);  // by the first operator's task: its place
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
      g.tasks.back().duration = 0;
    }
  }
  std::vector<fused_part> parts;
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
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {  // gaps between them are part of the run
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
  // Memory of what a synchronization makes or frees is there all the iteration.
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

UNITY_INLINE std::int64_t dpro_view::size_of(const bucket& b) const {
  if (is_recorded(b)) {
    return syncs_[tensors_[b.last].way].size;
  }
  std::int64_t sum = 0;
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

// By rank: what waits for the bucket. What was recorded before the last of its tensors was there cannot have waited for
// all of it, and does not.
UNITY_INLINE std::vector<tensor_synchronization::end> dpro_view::outside_of(const bucket& b) const {
  std::map<std::uint32_t, std::int64_t> there;  // by rank
  for (auto t = b.first; t <= b.last; ++t) {
    for (const auto& e : tensors_[t].ready) {
      for (const auto o : e.outside) {
        auto& at = there.try_emplace(e.task, std::numeric_limits<std::int64_t>::min()).first->second;
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

// Other buckets do not make what disturbed a synchronization go away: it stays with its tensors, so that what all of
// them take is as it was but for what the fit says of their sizes.
UNITY_INLINE void dpro_view::note_surplus() {
  for (std::uint32_t s = 0; s < syncs_.size(); ++s) {
    auto& own = surplus_.emplace_back();
    for (std::size_t t = 0; t < syncs_[s].tasks.size(); ++t) {
      const auto& task = syncs_[s].tasks[t];
      own.push_back(task.communication == trace::no_index
                        ? 0
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
                                 : 0);
  }
}

// Of what a tensor was synchronized in.
UNITY_INLINE double dpro_view::share_of(const bucket& b, std::uint32_t tensor) const {
  const auto& t = tensors_[tensor];
  return is_recorded(b) ? (tensor == b.last ? 1.0 : 0.0)
                        : static_cast<double>(t.size) / static_cast<double>(syncs_[t.way].size);
}

UNITY_INLINE void dpro_view::add_surplus(const bucket& b, std::uint32_t parts, const tensor_synchronization& s,
                                         std::uint32_t first, trace::flow_graph& g) const {
  for (auto t = b.first; t <= b.last; ++t) {
    const auto& own = syncs_[tensors_[t].way];
    const auto share = share_of(b, t) / parts;
    for (std::size_t k = 0; k < std::min(own.tasks.size(), s.tasks.size()) && share > 0; ++k) {
      if (own.tasks[k].type == s.tasks[k].type && own.tasks[k].rank == s.tasks[k].rank) {
        g.tasks[first + k].duration += std::llround(share * static_cast<double>(surplus_[tensors_[t].way][k]));
      }
    }
  }
  for (auto k = first; k < g.tasks.size(); ++k) {
    g.tasks[k].duration = std::max<std::int64_t>(0, g.tasks[k].duration);
  }
}

UNITY_INLINE void dpro_view::add_parts(const bucket& b, std::uint32_t parts, strategy_graph& all,
                                       const std::vector<std::uint32_t>& place) const {
  auto& g = all.graph;
  const auto way = tensors_[b.last].way;
  const auto size = static_cast<double>(size_of(b)) / parts;
  const auto waits = outside_of(b);
  for (std::uint32_t k = 0; k < parts; ++k) {
    const auto& s = syncs_[times_->way_of_part(way, k)];
    const auto first = add_fitted(g, s, *transfers_, size / static_cast<double>(s.size));
    add_surplus(b, parts, s, first, g);
    for (const auto& e : s.entries) {
      const auto rank = s.tasks[e.task].rank;
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

// Of each part: what it takes of what all go over, of what its kind goes over, and a latency.
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
  const auto in = g.add(task);
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
    surplus += share_of(b, t) * static_cast<double>(whole_surplus_[tensors_[t].way]);
  }
  for (std::uint32_t k = 0; k < parts; ++k) {
    const auto by = times_->way_of_part(way, k);
    const auto stages = times_->stages(by, std::max<std::int64_t>(1, size / parts));
    task.type = trace::task_type::collective;
    auto before = in;
    const auto add = [&](std::uint32_t resource, std::int64_t time) {
      if (time > 0) {
        task.type = resource == trace::no_index ? trace::task_type::delay : trace::task_type::collective;
        task.resource = resource;
        task.duration = time;
        const auto at = g.add(task);
        g.link(before, at);
        before = at;
      }
    };
    add(network, stages.shared);
    const auto own = stages.own + std::llround(surplus / parts);
    add(network + 1 + syncs_[by].kind, own);
    add(trace::no_index, stages.latency + std::min<std::int64_t>(0, own));
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
