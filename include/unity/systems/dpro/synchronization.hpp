// Predicts the synchronization time of a tensor of any size in any number of parts, by replaying a recorded
// synchronization of a similar one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/shared_memo.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/what_if.hpp>

namespace unity::systems {

// When to fuse two neighbouring operators or the tensors that they make: dPRO's theorems, with their premises.

// Operators n - 1 and n of a device, which runs them one after another, and the tensors that they make, which a network
// synchronizes one after another, each once its operator has ended. A missing tensor takes 0.
struct fusion_pair {
  picoseconds begin{};       // end of operator n - 2
  picoseconds sync_begin{};  // end of the synchronization of tensor n - 2
  picoseconds first{};       // operator n - 1
  picoseconds second{};      // operator n
  picoseconds fused{};       // both operators as one
  picoseconds first_sync{};  // tensors n - 1, n, and both as one, each with the best number of parts
  picoseconds second_sync{};
  picoseconds fused_sync{};

  // End times without fusion, and of the fused operator.
  [[nodiscard]] picoseconds first_end() const noexcept;
  [[nodiscard]] picoseconds second_end() const noexcept;
  [[nodiscard]] picoseconds fused_end() const noexcept;
  [[nodiscard]] picoseconds first_sync_end() const noexcept;

  // T_n, the time when everything has ended: with nothing fused, with the operators, the tensors, or both fused.
  [[nodiscard]] picoseconds separate() const noexcept;
  [[nodiscard]] picoseconds operators_fused() const noexcept;
  [[nodiscard]] picoseconds tensors_fused() const noexcept;
  [[nodiscard]] picoseconds both_fused() const noexcept;

  friend bool operator==(const fusion_pair&, const fusion_pair&) = default;
};

// The premises of Theorem 1: operator n ends no earlier than tensor n - 1, and the fused operator no earlier than
// tensor n - 2. Without them the theorem is wrong (a test has counterexamples), though the paper states neither.
[[nodiscard]] bool fits_theorem_1(const fusion_pair& p) noexcept;
// Whether fusing the operators ends earlier: if it saves more than tensor n - 1 takes. Precondition: fits_theorem_1.
// Law: fusing_operators_pays(p) == (p.operators_fused() < p.separate()).
// Source: Hu et al., dPRO, MLSys 2022, Theorem 1.
[[nodiscard]] bool fusing_operators_pays(const fusion_pair& p);

// The premises of Theorem 2: the fused tensor takes at least as long as tensor n, and either at most as long as both,
// or tensor n - 2 has ended when operator n has.
[[nodiscard]] bool fits_theorem_2(const fusion_pair& p) noexcept;
// Whether fusing the tensors ends no later. Precondition: fits_theorem_2. Laws: true implies p.tensors_fused() <=
// p.separate(), and <, unless fused_sync == first_sync + second_sync; false implies p.separate() <= p.tensors_fused().
// Source: Theorem 2.
[[nodiscard]] bool fusing_tensors_pays(const fusion_pair& p);

// The premises of Theorem 3: whatever is fused takes at most as long as its parts, for operators and tensors alike.
// Law: then p.both_fused() <= p.tensors_fused() and p.both_fused() <= p.operators_fused().
// Source: Theorem 3.
[[nodiscard]] bool fits_theorem_3(const fusion_pair& p) noexcept;

// A number of parts of a tensor, and its synchronization time with them.
struct partition_choice {
  std::uint32_t parts = 1;
  picoseconds time{};

  friend bool operator==(const partition_choice&, const partition_choice&) = default;
};

// The smallest number of parts, from 1 to `most`, that minimizes time(parts). `least_each`: time(k) >= k * least_each,
// which ends the search early. Complexity: min(most, least time / least_each) calls. Precondition: most >= 1.
template <class Time>
[[nodiscard]] partition_choice best_partition(const Time& time, picoseconds least_each, std::uint32_t most) {
  UNITY_EXPECTS(most >= 1, "at least one part");
  partition_choice best{1, time(1)};
  for (std::uint32_t k = 2; k <= most && k * least_each < best.time; ++k) {
    if (const auto t = time(k); t < best.time) {
      best = {k, t};
    }
  }
  return best;
}

// The tasks that synchronized one tensor, with their dependencies. Entries are tasks that wait for tasks outside; exits
// are tasks that tasks outside wait for.
struct tensor_synchronization {
  struct end {
    std::uint32_t task = 0;  // index in `tasks`
    std::vector<std::uint32_t> outside{};
  };
  std::vector<trace::flow_task> tasks{};
  std::vector<trace::communication> communications{};  // one per task; meaningless for tasks without one
  std::vector<trace::flow_edge> edges{};
  std::vector<end> entries{};
  std::vector<end> exits{};
  bytes size{};
  picoseconds lag{};       // from its last gradient to its begin, if it has several: its startup time
  std::uint32_t kind = 0;  // synchronizations of equal kind use the same resources
};

// Transfer times by size: latency + size / bandwidth, per method and resource; if all transfers of a resource had the
// same size, per method only.
class transfer_times {
 public:
  // Complexity: n log n in tasks.
  explicit transfer_times(const trace::flow_graph& g);
  // The fitted time of a task with `factor` times its bytes; without a fit, its duration times `factor`.
  [[nodiscard]] picoseconds fitted(const trace::flow_task& t, const trace::communication& c, double factor) const;

 private:
  std::map<std::pair<trace::exchange, std::uint32_t>, trace::communication_cost> by_resource_;
  std::vector<trace::communication_cost> by_way_;
};

// Adds the tasks of a synchronization to a graph with the same resources, as recorded, or fitted for `factor` times its
// bytes. Returns the index of the first. Complexity: linear in the tasks.
std::uint32_t add_recorded(trace::flow_graph& g, const tensor_synchronization& s);
std::uint32_t add_fitted(trace::flow_graph& g, const tensor_synchronization& s, const transfer_times& times,
                         double factor);

// The network time of a synchronization as a pipeline: `shared` on resources common to all tensors, `own` on resources
// of its kind, then a latency.
struct synchronization_stages {
  picoseconds shared{};
  picoseconds own{};
  picoseconds latency{};

  friend bool operator==(const synchronization_stages&, const synchronization_stages&) = default;
};

// Results of partial replay, which are kept; threads may ask for them at the same time. Refers to its arguments.
class synchronization_times {
 public:
  synchronization_times(const trace::flow_graph& g, const trace::name_table& names,
                        const std::vector<tensor_synchronization>& all, const transfer_times& transfers);

  // If messages synchronize a tensor, its parts rotate through the kinds, beginning with the kind of `way`, as if they
  // had different servers. Returns the synchronization whose resources part j uses. Collectives keep their way, because
  // other kinds are only threads and streams over the same links.
  [[nodiscard]] std::uint32_t way_of_part(std::uint32_t way, std::uint32_t part) const;

  // The replayed time of all parts together, as if all ranks had them at time 0. Complexity: a replay of k parts.
  // Source: Hu et al., dPRO, MLSys 2022, section 5.3.
  [[nodiscard]] picoseconds replayed(std::uint32_t way, bytes size, std::uint32_t parts) const;
  // Stages from up to three replays of one or two parts: the time that a part adds after another one on the same
  // resources, or on others. Complexity: these replays the first time, then a lookup.
  [[nodiscard]] synchronization_stages stages(std::uint32_t way, bytes size) const;
  // The pipelined time of all parts. Complexity: linear in parts.
  [[nodiscard]] picoseconds staged(std::uint32_t way, bytes size, std::uint32_t parts) const;

  // The best number of parts by `staged` or `replayed`; one, unless more parts save at least a hundredth.
  [[nodiscard]] partition_choice best(std::uint32_t way, bytes size, std::uint32_t most, bool by_stages) const;

 private:
  [[nodiscard]] picoseconds replay_of(const std::vector<std::pair<std::uint32_t, double>>& parts) const;

  trace::flow_graph empty_;  // resources alone
  const trace::name_table& names_;
  const std::vector<tensor_synchronization>& all_;
  const transfer_times& transfers_;
  std::vector<std::uint32_t> first_of_kind_;
  // Caches.
  mutable shared_memo<std::tuple<std::uint32_t, bytes, std::uint32_t>, picoseconds> replayed_;
  mutable shared_memo<std::pair<std::uint32_t, bytes>, synchronization_stages> stages_;
  mutable shared_memo<std::tuple<std::uint32_t, bytes, std::uint32_t, bool>, partition_choice> best_;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_SYNCHRONIZATION)

#include <algorithm>
#include <cmath>

#include <unity/trace/replay.hpp>

namespace unity::systems {

UNITY_INLINE picoseconds fusion_pair::first_end() const noexcept { return begin + first; }
UNITY_INLINE picoseconds fusion_pair::second_end() const noexcept { return begin + first + second; }
UNITY_INLINE picoseconds fusion_pair::fused_end() const noexcept { return begin + fused; }
UNITY_INLINE picoseconds fusion_pair::first_sync_end() const noexcept {
  return std::max(first_end(), sync_begin) + first_sync;
}

UNITY_INLINE picoseconds fusion_pair::separate() const noexcept {
  return std::max(second_end(), first_sync_end()) + second_sync;
}
UNITY_INLINE picoseconds fusion_pair::operators_fused() const noexcept {
  return std::max(fused_end(), sync_begin) + first_sync + second_sync;
}
UNITY_INLINE picoseconds fusion_pair::tensors_fused() const noexcept {
  return std::max(second_end(), sync_begin) + fused_sync;
}
UNITY_INLINE picoseconds fusion_pair::both_fused() const noexcept {
  return std::max(fused_end(), sync_begin) + fused_sync;
}

UNITY_INLINE bool fits_theorem_1(const fusion_pair& p) noexcept {
  return p.second_end() >= p.first_sync_end() && p.sync_begin <= p.fused_end();
}
UNITY_INLINE bool fusing_operators_pays(const fusion_pair& p) {
  UNITY_EXPECTS(fits_theorem_1(p), "the premises of Theorem 1");
  return p.first_sync < p.first + p.second - p.fused;
}

UNITY_INLINE bool fits_theorem_2(const fusion_pair& p) noexcept {
  return p.fused_sync >= p.second_sync &&
         (p.fused_sync <= p.first_sync + p.second_sync || p.sync_begin <= p.second_end());
}
UNITY_INLINE bool fusing_tensors_pays(const fusion_pair& p) {
  UNITY_EXPECTS(fits_theorem_2(p), "the premises of Theorem 2");
  return p.first_sync_end() > p.second_end() + p.fused_sync - p.second_sync;
}

UNITY_INLINE bool fits_theorem_3(const fusion_pair& p) noexcept {
  return p.fused <= p.first + p.second && p.fused_sync <= p.first_sync + p.second_sync;
}

namespace detail {

inline bool moves_bytes(const trace::flow_task& t, const trace::communication& c) {
  return trace::is_communication(t.type) && c.way != trace::exchange::barrier && c.size > bytes{};
}

}  // namespace detail

UNITY_INLINE transfer_times::transfer_times(const trace::flow_graph& g) : by_way_{trace::fit_communication(g)} {
  std::map<std::pair<trace::exchange, std::uint32_t>, std::vector<std::pair<double, double>>> samples;
  for (const auto& t : g.tasks) {
    if (t.communication != trace::no_index && detail::moves_bytes(t, g.communications[t.communication])) {
      const auto& c = g.communications[t.communication];
      samples[{c.way, t.resource}].emplace_back(static_cast<double>(c.size.count()),
                                                static_cast<double>(t.duration.count()));
    }
  }
  for (const auto& [key, list] : samples) {
    const auto [least, most] = std::minmax_element(list.begin(), list.end());
    if (most->first >= 2 * least->first) {
      by_resource_.emplace(key, trace::fit_transfers(key.first, list));
    }
  }
}

UNITY_INLINE picoseconds transfer_times::fitted(const trace::flow_task& t, const trace::communication& c,
                                                double factor) const {
  if (!detail::moves_bytes(t, c)) {
    return t.duration;
  }
  const auto own = by_resource_.find({c.way, t.resource});
  const auto fit = own != by_resource_.end() ? std::optional{own->second} : trace::cost_of(by_way_, c.way);
  const auto size = static_cast<double>(c.size.count());
  const auto time = fit && fit->per_byte > 0 ? fit->latency + fit->per_byte * size * factor
                                             : static_cast<double>(t.duration.count()) * factor;
  return picoseconds{std::llround(time)};
}

namespace detail {

template <class Time>
std::uint32_t add_synchronization(trace::flow_graph& g, const tensor_synchronization& s, double factor,
                                  const Time& time) {
  const auto first = static_cast<std::uint32_t>(g.tasks.size());
  for (std::size_t t = 0; t < s.tasks.size(); ++t) {
    auto task = s.tasks[t];
    auto c = s.communications[t];
    if (task.communication != trace::no_index) {
      task.duration = time(task, c);
      task.communication = static_cast<std::uint32_t>(g.communications.size());
      c.size = bytes{std::llround(static_cast<double>(c.size.count()) * factor)};
      g.communications.push_back(c);
    }
    g.tasks.push_back(task);
  }
  for (const auto& e : s.edges) {
    g.link(first + e.before, first + e.after);
  }
  return first;
}

}  // namespace detail

UNITY_INLINE std::uint32_t add_recorded(trace::flow_graph& g, const tensor_synchronization& s) {
  return detail::add_synchronization(g, s, 1, [](const auto& t, const auto&) { return t.duration; });
}

UNITY_INLINE std::uint32_t add_fitted(trace::flow_graph& g, const tensor_synchronization& s,
                                      const transfer_times& times, double factor) {
  return detail::add_synchronization(g, s, factor,
                                     [&](const auto& t, const auto& c) { return times.fitted(t, c, factor); });
}

UNITY_INLINE synchronization_times::synchronization_times(const trace::flow_graph& g, const trace::name_table& names,
                                                          const std::vector<tensor_synchronization>& all,
                                                          const transfer_times& transfers)
    : names_{names}, all_{all}, transfers_{transfers} {
  empty_.ranks = g.ranks;
  for (auto& r : empty_.ranks) {
    r.begin = r.finish = trace::no_index;
  }
  empty_.resources = g.resources;
  for (std::uint32_t s = 0; s < all.size(); ++s) {
    if (all[s].kind == first_of_kind_.size()) {
      first_of_kind_.push_back(s);
    }
  }
}

UNITY_INLINE std::uint32_t synchronization_times::way_of_part(std::uint32_t way, std::uint32_t part) const {
  if (std::any_of(all_[way].tasks.begin(), all_[way].tasks.end(),
                  [](const auto& t) { return t.type == trace::task_type::collective; })) {
    return way;
  }
  const auto kinds = static_cast<std::uint32_t>(first_of_kind_.size());
  const auto kind = (all_[way].kind + part) % kinds;
  return kind == all_[way].kind ? way : first_of_kind_[kind];
}

UNITY_INLINE picoseconds
synchronization_times::replay_of(const std::vector<std::pair<std::uint32_t, double>>& parts) const {
  auto g = empty_;
  for (const auto& [way, size] : parts) {
    add_fitted(g, all_[way], transfers_, size / static_cast<double>(all_[way].size.count()));
  }
  return trace::replay(g, names_).last_end;
}

UNITY_INLINE picoseconds synchronization_times::replayed(std::uint32_t way, bytes size, std::uint32_t parts) const {
  return *replayed_.get({way, size, parts}, [&] {
    std::vector<std::pair<std::uint32_t, double>> list;
    for (std::uint32_t k = 0; k < parts; ++k) {
      list.emplace_back(way_of_part(way, k), static_cast<double>(size.count()) / parts);
    }
    return std::optional{replay_of(list)};
  });
}

UNITY_INLINE synchronization_stages synchronization_times::stages(std::uint32_t way, bytes size) const {
  return *stages_.get({way, size}, [&] {
    const auto whole = static_cast<double>(size.count());
    const auto one = replay_of({{way, whole}});
    synchronization_stages s;
    s.own = std::max(picoseconds{}, replay_of({{way, whole}, {way, whole}}) - one);
    if (const auto other = way_of_part(way, 1); all_[other].kind != all_[way].kind) {
      s.shared = std::clamp(replay_of({{way, whole}, {other, whole}}) - one, picoseconds{}, s.own);
    }
    s.latency = std::max(picoseconds{}, one - s.own - s.shared);
    return std::optional{s};
  });
}

UNITY_INLINE picoseconds synchronization_times::staged(std::uint32_t way, bytes size, std::uint32_t parts) const {
  std::vector<picoseconds> free(first_of_kind_.size());
  picoseconds shared;
  picoseconds last;
  for (std::uint32_t k = 0; k < parts; ++k) {
    const auto by = way_of_part(way, k);
    const auto s = stages(by, std::max(bytes{1}, size / parts));
    shared += s.shared;
    auto& own = free[all_[by].kind];
    own = std::max(own, shared) + s.own;
    last = std::max(last, own + s.latency);
  }
  return last;
}

UNITY_INLINE partition_choice synchronization_times::best(std::uint32_t way, bytes size, std::uint32_t most,
                                                          bool by_stages) const {
  return *best_.get({way, size, most, by_stages}, [&] {
    const auto kinds = static_cast<std::int64_t>(first_of_kind_.size());
    // Each part takes at least as long as an empty one; parts of different kinds may overlap.
    const auto least = stages(way, bytes{1}).own / kinds;
    const auto time = [&](std::uint32_t k) { return by_stages ? staged(way, size, k) : replayed(way, size, k); };
    const auto found = best_partition(time, least, most);
    const auto whole = time(1);
    return std::optional{found.time < whole - whole / 100 ? found : partition_choice{1, whole}};
  });
}

}  // namespace unity::systems

#endif
