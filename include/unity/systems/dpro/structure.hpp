// The parts of a job's graph that dPRO's optimizer changes: the operators of devices, in order, and the tensors that
// they make.
// Over 500 lines because everything that is read from the graph uses the same few tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/systems/dpro/synchronization.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::systems {

// A computation of a device: a kernel or copy on a stream or, for ranks without streams, a task of a host thread.
struct view_operator {
  std::vector<std::uint32_t> tasks{};  // in the job's graph; one per alike rank
  picoseconds duration{};              // of the first task
  std::uint32_t rank = 0;              // of the first task
  std::uint32_t resource = 0;
  std::uint32_t limit = 0;        // the first operator that may not be fused with it and those between
  bool follows_previous = false;  // runs on the device right after the previous operator

  friend bool operator==(const view_operator&, const view_operator&) = default;
};

// A gradient that is synchronized. Tensors are in the order of their recorded synchronization.
struct view_tensor {
  trace::name_id name{};
  bytes size{};
  std::uint32_t way = 0;                             // index of its recorded synchronization
  std::uint32_t producer = trace::no_index;          // the operator that made it ready, on the first rank
  std::vector<tensor_synchronization::end> ready{};  // by rank: tasks after which it is ready

  friend bool operator==(const view_tensor& a, const view_tensor& b) {
    return a.name == b.name && a.size == b.size && a.way == b.way && a.producer == b.producer;
  }
};

namespace detail {

// Synchronizations of gradients are all-reduces, pushes and pulls, and chunks of these. The members are the results.
class job_structure {
 public:
  // Refers to names. `alike`: merges operators of ranks that do the same, if all ranks with operators do. Complexity:
  // linear in the graph, times the computing resources of a rank.
  job_structure(trace::flow_graph g, const trace::name_table& names, bool alike);

  trace::flow_graph job_;
  const trace::name_table& names_;
  trace::adjacency neighbours_;
  std::vector<std::uint32_t> sync_of_;  // by task; no_index: none
  std::vector<bool> is_order_;          // by task: a delay between synchronizations
  std::vector<tensor_synchronization> syncs_;
  std::vector<view_tensor> tensors_;
  std::vector<view_operator> operators_;
  std::vector<std::uint32_t> operator_of_;            // by task
  std::vector<std::uint32_t> absorbed_by_;            // by task: the operator that follows the gap
  std::vector<std::vector<std::uint32_t>> launches_;  // by operator task: launches of it alone
  bool is_alike_ = false;
  bool knows_sizes_ = true;

 private:
  void find_tensors();
  void find_order_delays();
  void add_tensor(std::uint32_t sync, const std::vector<std::uint32_t>& tasks);
  void divide_into_gradients();
  void sort_tensors();
  void find_kinds();
  void find_operators();
  void find_lane(std::uint32_t rank, std::uint32_t resource, const std::vector<std::uint32_t>& lane);
  void find_limits(std::size_t first, const std::vector<std::uint32_t>& lane);
  void join_alike();
  void find_producers();
  void find_launches();
  [[nodiscard]] std::uint32_t behind(std::uint32_t rank, picoseconds time) const;

  std::vector<std::vector<std::uint32_t>> rank_work_;  // by rank: computations, ordered by recorded end
};

}  // namespace detail

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_STRUCTURE)

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <unity/core/stable_sort.hpp>

namespace unity::systems::detail {

inline bool sums_gradients(trace::exchange way) {
  return way == trace::exchange::all_reduce || way == trace::exchange::push || way == trace::exchange::pull ||
         way == trace::exchange::chunk;
}

UNITY_INLINE job_structure::job_structure(trace::flow_graph g, const trace::name_table& names, bool alike)
    : job_{std::move(g)}, names_{names}, neighbours_{job_}, rank_work_(job_.ranks.size()) {
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
  if (alike) {
    join_alike();
  }
  find_producers();
  find_launches();
}

// Tasks of one name, or of one call in a group, on all ranks form one synchronization.
UNITY_INLINE void job_structure::find_tensors() {
  std::map<std::tuple<bool, std::uint32_t, std::int64_t, trace::exchange>, std::uint32_t> known;
  sync_of_.assign(job_.tasks.size(), trace::no_index);
  std::vector<std::vector<std::uint32_t>> tasks;
  for (std::uint32_t t = 0; t < job_.tasks.size(); ++t) {
    const auto at = job_.tasks[t].communication;
    if (at == trace::no_index || !sums_gradients(job_.communications[at].way)) {
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
  // Delays within a synchronization belong to it.
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

// Delays between synchronizations record their order, which another strategy changes.
UNITY_INLINE void job_structure::find_order_delays() {
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

UNITY_INLINE void job_structure::add_tensor(std::uint32_t sync, const std::vector<std::uint32_t>& tasks) {
  std::unordered_map<std::uint32_t, std::uint32_t> place;
  tensor_synchronization s;
  std::map<std::uint32_t, bytes> sent;  // by sending rank
  bytes largest;
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
  knows_sizes_ = knows_sizes_ && s.size > bytes{};
  for (const auto t : tasks) {
    tensor_synchronization::end entry{place.at(t), {}};
    for (const auto b : neighbours_.before(t)) {
      if (const auto in = place.find(b); in != place.end()) {
        s.edges.push_back({in->second, place.at(t)});
      } else if (sync_of_[b] == trace::no_index && !is_order_[b]) {
        entry.outside.push_back(b);
      }
    }
    // A synchronization that only followed another one gets a producer: the last computation that had ended when it
    // began.
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

// The rank's last computation that had ended by that time; no_index if there is none.
UNITY_INLINE std::uint32_t job_structure::behind(std::uint32_t rank, picoseconds time) const {
  const auto& list = rank_work_[rank];
  const auto after = std::upper_bound(list.begin(), list.end(), time, [&](picoseconds at, std::uint32_t t) {
    return at < job_.tasks[t].recorded_start + job_.tasks[t].recorded_duration;
  });
  return after == list.begin() ? trace::no_index : *std::prev(after);
}

UNITY_INLINE void job_structure::find_kinds() {
  std::map<std::set<std::uint32_t>, std::uint32_t> kinds;
  for (auto& s : syncs_) {
    std::set<std::uint32_t> resources;
    for (const auto& t : s.tasks) {
      resources.insert(t.resource);
    }
    s.kind = kinds.try_emplace(std::move(resources), static_cast<std::uint32_t>(kinds.size())).first->second;
  }
}

// If the trace records gradients, divides each bucket into the next of them, in the order in which they became ready:
// as many as add up to its size or, if their sizes are unknown, those that were ready when it began, with equal sizes.
// A bucket of another size stays one tensor.
UNITY_INLINE void job_structure::divide_into_gradients() {
  std::vector<std::uint32_t> order(syncs_.size());
  const auto arrival = [&](std::uint32_t s, std::uint32_t rank) {
    picoseconds last{std::numeric_limits<std::int64_t>::min()};
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
    bytes sum;
    if (all_tell) {
      const auto begin = arrival(s, 0);
      const bool sized = of_rank[0][std::min(next, most - 1)].size > bytes{};
      while (last < most && (sized ? sum < syncs_[s].size : end_of(of_rank[0][last]) <= begin)) {
        sum += of_rank[0][last++].size;
      }
    }
    const bool fits = last > next && (sum == bytes{} || sum == syncs_[s].size);
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
    syncs_[s].lag = std::max(picoseconds{}, arrival(s, 0) - end_of(of_rank[0][last - 1]));
    const auto count = static_cast<std::int64_t>(last - next);
    for (auto g = next; g < last; ++g) {
      view_tensor t;
      t.size = sum > bytes{} ? of_rank[0][g].size : std::max(bytes{1}, syncs_[s].size / count);
      t.way = s;
      for (std::uint32_t r = 0; r < of_rank.size(); ++r) {
        t.ready.push_back({r, {of_rank[r][g].task}});
      }
      tensors_.push_back(std::move(t));
    }
    next = last;
  }
}

UNITY_INLINE void job_structure::sort_tensors() {
  std::vector<picoseconds> arrival(syncs_.size(), picoseconds{std::numeric_limits<std::int64_t>::max()});
  for (std::size_t s = 0; s < syncs_.size(); ++s) {
    for (const auto& e : syncs_[s].entries) {
      const auto& t = syncs_[s].tasks[e.task];
      arrival[s] = std::min(arrival[s], t.recorded_start);
    }
  }
  unity::stable_sort(tensors_, [&](const auto& a, const auto& b) { return arrival[a.way] < arrival[b.way]; });
}

UNITY_INLINE void job_structure::find_operators() {
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

UNITY_INLINE void job_structure::find_lane(std::uint32_t rank, std::uint32_t resource,
                                           const std::vector<std::uint32_t>& lane) {
  const auto first = operators_.size();
  bool is_direct = false;  // only gaps since the previous operator
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

// Finds the first operator of the lane that waits for an operator through tasks outside the lane: propagates the
// minimum over outside tasks backwards in topological order.
UNITY_INLINE void job_structure::find_limits(std::size_t first, const std::vector<std::uint32_t>& lane) {
  const auto count = static_cast<std::uint32_t>(operators_.size());
  std::vector<std::uint32_t> own(job_.tasks.size(), trace::no_index);  // the operator at or after a task of the lane
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
  // Gaps and calls after an operator are absorbed by the next one, so their successors count for it.
  for (const auto t : lane) {
    if (absorbed_by_[t] != trace::no_index) {
      auto& limit = operators_[absorbed_by_[t]].limit;
      limit = std::min(limit, leads[t]);
    }
  }
}

// Ranks are alike if their operators have the same names, phases and lanes in the same order; ranks without operators,
// such as servers, do not matter.
UNITY_INLINE void job_structure::join_alike() {
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
  for (const auto& e : job_.edges) {  // workers that exchange other messages do not do the same
    if (sync_of_[e.before] == trace::no_index && sync_of_[e.after] == trace::no_index &&
        job_.tasks[e.before].rank != job_.tasks[e.after].rank) {
      return;
    }
  }
  is_alike_ = true;
  // The slowest comes first, because the others wait for it.
  auto slowest = workers.front();
  picoseconds most{-1};
  for (const auto r : workers) {
    picoseconds sum;
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

// The producer of a tensor on the first rank: the last operator that leads to it without another one between.
UNITY_INLINE void job_structure::find_producers() {
  std::vector<std::uint32_t> seen(job_.tasks.size(), trace::no_index);
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    std::vector<std::uint32_t> open;
    for (const auto& e : tensors_[t].ready) {
      if (operators_.empty() || (is_alike_ && e.task != operators_.front().rank)) {
        continue;
      }
      open.insert(open.end(), e.outside.begin(), e.outside.end());
    }
    picoseconds latest{std::numeric_limits<std::int64_t>::min()};
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

// Finds calls that launch a single kernel each: a fused operator is launched once.
UNITY_INLINE void job_structure::find_launches() {
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

}  // namespace unity::systems::detail

#endif
