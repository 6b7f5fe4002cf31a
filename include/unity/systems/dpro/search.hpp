// The steps of dPRO's Algorithm 1, and single changes after it.
// Over 500 lines because a sweep, its decisions and the state of the current strategy belong together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/dpro/space.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/synchronization.hpp>
#include <unity/systems/dpro/view.hpp>

namespace unity::systems {

// The speedups of the search (section 5.3); without them it is the paper's strawman.
struct dpro_speedups {
  bool coarsened = true;  // start from the coarsened view
  bool partial = true;    // time a tensor by replaying it alone, not the whole job
  bool symmetric = true;  // treat equal workers as one, and make the same decisions for equal blocks
};

// limits.expansions counts replays of the whole job.
struct dpro_options : search_options {
  dpro_techniques techniques{};
  dpro_speedups speedups{};
  std::uint32_t most_parts = 64;  // of a bucket
  std::uint32_t patience = 5;     // iterations without improvement
  bool polish = true;             // after Algorithm 1, single changes along the critical path
};

struct dpro_result {
  dpro_strategy best{};  // for a dpro_view that is not folded, with alike ranks if `alike`
  bool alike = false;
  // The time of an iteration as recorded and with the best strategy, replayed on all ranks. Gradients are
  // synchronized in the order in which they become ready: a synchronization that merely followed another one in the
  // trace no longer waits for it.
  picoseconds recorded{};
  picoseconds iteration{};
  std::vector<improvement> history{};
  std::uint64_t replays = 0;  // of the whole job or its representatives
  std::uint32_t iterations = 0;
  std::uint64_t theorem_decisions = 0;   // made by a theorem, because its premises held
  std::uint64_t replayed_decisions = 0;  // made by a replay, because they did not
  double seconds = 0;
  stop_reason stopped = stop_reason::converged;
};

namespace detail {

// One step of Algorithm 1: operators in `fuse` join the run before them, tensors in `join` the bucket before them, and
// buckets that then end with a tensor in `cut` get that many parts.
struct dpro_decision {
  std::vector<std::uint32_t> fuse{};
  std::vector<std::uint32_t> join{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cut{};

  [[nodiscard]] bool changes(const dpro_strategy& s) const {
    return std::any_of(fuse.begin(), fuse.end(), [&](auto o) { return s.fused[o] == 0; }) ||
           std::any_of(join.begin(), join.end(), [&](auto t) { return s.joined[t] == 0; }) ||
           std::any_of(cut.begin(), cut.end(), [&](auto c) { return s.parts[c.first] != c.second; });
  }
  void apply(dpro_strategy& s) const {
    for (const auto o : fuse) {
      s.fused[o] = 1;
    }
    for (const auto t : join) {
      s.joined[t] = 1;
      s.parts[t - 1] = 1;
    }
    for (const auto& [tensor, parts] : cut) {
      if (tensor + 1 == s.joined.size() || s.joined[tensor + 1] == 0) {
        s.parts[tensor] = parts;
      }
    }
  }
};

class dpro_search {
 public:
  dpro_search(const dpro_view& v, const dpro_options& o, const search_clock& clock)
      : view_{v}, options_{o}, clock_{clock} {}

  // The best strategy that it finds, which is at least as fast as `from`.
  dpro_strategy run(const dpro_strategy& from, const dpro_techniques& may, dpro_result& all);

  // Local descent: applies single moves of dpro_space near the critical path, each if it makes the iteration shorter,
  // until none does or `most_tasks` tasks were replayed.
  dpro_strategy descend(const dpro_view& v, dpro_strategy at, std::uint64_t most_tasks, dpro_result& all) const;

  [[nodiscard]] bool is_over(const dpro_result& all) const {
    return clock_.seconds() >= options_.limits.seconds || all.replays >= options_.limits.expansions;
  }

 private:
  std::vector<dpro_decision> sweep(const dpro_strategy& s, const strategy_times& times, dpro_result& all);
  void visit_operators(const dpro_strategy& s, const strategy_times& times, std::vector<dpro_decision>& found,
                       dpro_result& all);
  void visit_buckets(const dpro_strategy& s, const strategy_times& times, std::vector<dpro_decision>& found,
                     dpro_result& all);
  [[nodiscard]] bool decide(bool holds, bool pays, const dpro_strategy& s, const dpro_decision& d,
                            const strategy_times& times, dpro_result& all) const;
  [[nodiscard]] partition_choice best_parts(const dpro_strategy& s, place_run bucket, dpro_result& all) const;
  [[nodiscard]] dpro_decision joining(place_run a, place_run b, const dpro_strategy& s, dpro_result& all) const;
  void cut(place_run bucket, const dpro_strategy& s, dpro_decision& d, dpro_result& all) const;
  void repeat(dpro_decision& d, const dpro_strategy& s) const;
  [[nodiscard]] picoseconds evaluated(const dpro_strategy& s, dpro_result& all) const {
    ++all.replays;
    return iteration_of(view_, s);
  }
  [[nodiscard]] std::optional<place_run> bucket_of(const place_run& operators) const;
  [[nodiscard]] bool is_behind(place_run a, place_run b) const { return b.first == a.last + 1; }
  void note_runs(const dpro_strategy& s);

  const dpro_view& view_;
  const dpro_options& options_;
  const search_clock& clock_;
  dpro_techniques may_{};
  // State of the strategy whose critical path is inspected.
  std::vector<place_run> runs_;
  std::vector<place_run> buckets_;
  std::vector<std::uint32_t> run_at_;                              // by operator
  std::vector<std::uint32_t> bucket_at_;                           // by tensor
  std::vector<std::uint32_t> bucket_of_run_;                       // the last bucket that the run makes; no_index: none
  std::map<std::uint64_t, std::vector<std::uint32_t>> like_runs_;  // pairs by key: k stands for runs k - 1 and k
  std::map<std::uint64_t, std::vector<std::uint32_t>> like_buckets_;
};

}  // namespace detail

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_SEARCH)

#include <limits>
#include <set>

namespace unity::systems::detail {

UNITY_INLINE void dpro_search::note_runs(const dpro_strategy& s) {
  runs_ = runs_of(s.fused);
  buckets_ = runs_of(s.joined);
  run_at_.resize(view_.operators().size());
  for (std::uint32_t r = 0; r < runs_.size(); ++r) {
    std::fill(run_at_.begin() + runs_[r].first, run_at_.begin() + runs_[r].last + 1, r);
  }
  bucket_at_.resize(view_.tensors().size());
  bucket_of_run_.assign(runs_.size(), trace::no_index);
  for (std::uint32_t b = 0; b < buckets_.size(); ++b) {
    std::fill(bucket_at_.begin() + buckets_[b].first, bucket_at_.begin() + buckets_[b].last + 1, b);
    if (const auto p = view_.tensors()[buckets_[b].last].producer; p != trace::no_index) {
      bucket_of_run_[run_at_[p]] = b;
    }
  }
  like_runs_.clear();
  like_buckets_.clear();
  if (options_.speedups.symmetric) {
    for (std::uint32_t r = 1; r < runs_.size(); ++r) {
      like_runs_[block_key(view_, runs_[r - 1], runs_[r])].push_back(r);
    }
    for (std::uint32_t b = 1; b < buckets_.size(); ++b) {
      like_buckets_[block_key_of_tensors(view_, buckets_[b - 1], buckets_[b])].push_back(b);
    }
  }
}

UNITY_INLINE partition_choice dpro_search::best_parts(const dpro_strategy& s, place_run bucket,
                                                      dpro_result& all) const {
  const auto most = may_.tensor_partition && view_.knows_sizes() ? options_.most_parts : 1;
  bytes size;
  for (auto t = bucket.first; t <= bucket.last; ++t) {
    size += view_.tensors()[t].size;
  }
  if (options_.speedups.partial) {
    return view_.times().best(view_.tensors()[bucket.last].way, std::max(bytes{1}, size), most,
                              options_.speedups.symmetric);
  }
  auto changed = s;
  for (auto t = bucket.first + 1; t <= bucket.last; ++t) {
    changed.joined[t] = 1;
    changed.parts[t - 1] = 1;
  }
  partition_choice best{1, picoseconds{std::numeric_limits<std::int64_t>::max()}};
  for (std::uint32_t k = 1; k == 1 || (k <= most && !is_over(all)); k *= 2) {  // one replay even if the time is over
    changed.parts[bucket.last] = k;
    ++all.replays;
    const auto span = evaluate(view_, changed).buckets[bucket.last];
    if (span.end - span.start < best.time) {
      best = {k, span.end - span.start};
    }
  }
  return best;
}

UNITY_INLINE void dpro_search::cut(place_run bucket, const dpro_strategy& s, dpro_decision& d, dpro_result& all) const {
  if (may_.tensor_partition && view_.knows_sizes()) {
    d.cut.emplace_back(bucket.last, best_parts(s, bucket, all).parts);
  }
}

// Merges the tensors of both buckets, if allowed.
UNITY_INLINE dpro_decision dpro_search::joining(place_run a, place_run b, const dpro_strategy& s,
                                                dpro_result& all) const {
  dpro_decision d;
  if (may_.tensor_fusion && is_behind(a, b) && view_.may_join(b.first)) {
    d.join.push_back(b.first);
    cut({a.first, b.last}, s, d, all);
  }
  return d;
}

// Repeats a decision for two runs or buckets for all disjoint pairs with the same key.
UNITY_INLINE void dpro_search::repeat(dpro_decision& d, const dpro_strategy& s) const {
  if (!options_.speedups.symmetric) {
    return;
  }
  const auto before = d;
  std::set<std::uint32_t> taken;
  const auto take = [&](std::uint32_t second) {
    const bool is_free = !taken.contains(second - 1) && !taken.contains(second);
    if (is_free) {
      taken.insert({second - 1, second});
    }
    return is_free;
  };
  for (const auto o : before.fuse) {
    const auto r = run_at_[o];
    take(r);
    for (const auto k : like_runs_.at(block_key(view_, runs_[r - 1], runs_[r]))) {
      if (view_.may_fuse(runs_[k - 1].first, runs_[k].last) && s.fused[runs_[k].first] == 0 && take(k)) {
        d.fuse.push_back(runs_[k].first);
      }
    }
  }
  taken.clear();
  for (const auto t : before.join) {
    const auto b = bucket_at_[t];
    take(b);
    for (const auto k : like_buckets_.at(block_key_of_tensors(view_, buckets_[b - 1], buckets_[b]))) {
      if (view_.may_join(buckets_[k].first) && take(k)) {
        d.join.push_back(buckets_[k].first);
        if (!before.cut.empty()) {
          d.cut.emplace_back(buckets_[k].last, before.cut.front().second);
        }
      }
    }
  }
}

UNITY_INLINE bool dpro_search::decide(bool holds, bool pays, const dpro_strategy& s, const dpro_decision& d,
                                      const strategy_times& times, dpro_result& all) const {
  if (holds) {
    ++all.theorem_decisions;
    return pays;
  }
  if (is_over(all)) {
    return false;
  }
  ++all.replayed_decisions;
  auto changed = s;
  d.apply(changed);
  return evaluated(changed, all) < times.iteration;
}

UNITY_INLINE void dpro_search::visit_operators(const dpro_strategy& s, const strategy_times& times,
                                               std::vector<dpro_decision>& found, dpro_result& all) {
  std::set<std::uint32_t> fused;  // runs that this sweep has already fused
  for (const auto o : times.path_operators) {
    if (is_over(all)) {
      return;
    }
    const auto r = run_at_[o];
    const auto own = bucket_of_run_[r];
    dpro_decision only_cut;
    if (own != trace::no_index) {
      cut(buckets_[own], s, only_cut, all);
    }
    const bool may =
        may_.operator_fusion && r > 0 && !fused.contains(r) && view_.may_fuse(runs_[r - 1].first, runs_[r].last);
    if (!may) {
      found.push_back(std::move(only_cut));
      continue;
    }
    const auto& a = runs_[r - 1];
    const auto& b = runs_[r];
    fusion_pair p;
    p.begin = times.operators[a.first].start;
    p.first = view_.fused_duration(a.first, a.last);
    p.second = view_.fused_duration(b.first, b.last);
    p.fused = view_.fused_duration(a.first, b.last);
    const auto before = bucket_of_run_[r - 1];
    dpro_decision d;
    d.fuse.push_back(b.first);
    if (before != trace::no_index) {
      p.first_sync = best_parts(s, buckets_[before], all).time;
      p.sync_begin = before > 0 ? times.buckets[buckets_[before - 1].last].end : picoseconds{};
    }
    if (own != trace::no_index) {
      p.second_sync = best_parts(s, buckets_[own], all).time;
    }
    p.fused_sync = p.first_sync + p.second_sync;
    d.cut = only_cut.cut;
    if (before != trace::no_index && own != trace::no_index) {
      auto tensors = joining(buckets_[before], buckets_[own], s, all);
      auto both = p;
      if (!tensors.join.empty()) {
        both.fused_sync = best_parts(s, {buckets_[before].first, buckets_[own].last}, all).time;
      }
      if (fits_theorem_3(both)) {
        d.join = std::move(tensors.join);
        d.cut = std::move(tensors.cut);
      }
    }
    const bool holds = fits_theorem_1(p);
    const bool pays = holds && fusing_operators_pays(p);
    if (p.fused < p.first + p.second && decide(holds, pays, s, d, times, all)) {
      repeat(d, s);
      for (const auto f : d.fuse) {
        fused.insert(run_at_[f]);
      }
      found.push_back(std::move(d));
    } else {
      found.push_back(std::move(only_cut));
    }
  }
}

UNITY_INLINE void dpro_search::visit_buckets(const dpro_strategy& s, const strategy_times& times,
                                             std::vector<dpro_decision>& found, dpro_result& all) {
  std::set<std::uint32_t> joined;
  for (const auto tensor : times.path_buckets) {
    if (is_over(all)) {
      return;
    }
    const auto b = bucket_at_[tensor];
    dpro_decision only_cut;
    cut(buckets_[b], s, only_cut, all);
    if (b == 0 || joined.contains(b)) {
      found.push_back(std::move(only_cut));
      continue;
    }
    auto d = joining(buckets_[b - 1], buckets_[b], s, all);
    if (d.join.empty()) {
      found.push_back(std::move(only_cut));
      continue;
    }
    const auto producer = view_.tensors()[buckets_[b].last].producer;
    fusion_pair p;
    p.first_sync = best_parts(s, buckets_[b - 1], all).time;
    p.second_sync = best_parts(s, buckets_[b], all).time;
    p.fused_sync = best_parts(s, {buckets_[b - 1].first, buckets_[b].last}, all).time;
    // Replayed end times: operator n ends when its tensor is available.
    const auto end =
        producer == trace::no_index ? times.buckets[tensor].start : times.operators[runs_[run_at_[producer]].first].end;
    const auto sync_end = times.buckets[buckets_[b - 1].last].end;
    p.second = end;
    p.first = {};
    p.sync_begin = std::max(picoseconds{}, sync_end - p.first_sync);
    const bool holds = fits_theorem_2(p);
    const bool pays = holds && fusing_tensors_pays(p);
    const auto other = view_.tensors()[buckets_[b - 1].last].producer;
    if (may_.operator_fusion && producer != trace::no_index && other != trace::no_index &&
        run_at_[other] + 1 == run_at_[producer] &&
        view_.may_fuse(runs_[run_at_[other]].first, runs_[run_at_[producer]].last)) {
      const auto& first = runs_[run_at_[other]];
      const auto& second = runs_[run_at_[producer]];
      if (view_.fused_duration(first.first, second.last) <=
          view_.fused_duration(first.first, first.last) + view_.fused_duration(second.first, second.last)) {
        d.fuse.push_back(second.first);  // by Theorem 3
      }
    }
    if (decide(holds, pays, s, d, times, all)) {
      repeat(d, s);
      for (const auto t : d.join) {
        joined.insert(bucket_at_[t]);
      }
      found.push_back(std::move(d));
    } else {
      found.push_back(std::move(only_cut));
    }
  }
}

UNITY_INLINE std::vector<dpro_decision> dpro_search::sweep(const dpro_strategy& s, const strategy_times& times,
                                                           dpro_result& all) {
  note_runs(s);
  std::vector<dpro_decision> found;
  visit_operators(s, times, found, all);
  visit_buckets(s, times, found, all);
  std::erase_if(found, [&](const auto& d) { return !d.changes(s); });
  return found;
}

// Fused runs that grew by several decisions may have become invalid: divides them again where they were last joined.
inline void repair(const dpro_view& v, const dpro_strategy& before, dpro_strategy& s) {
  std::uint32_t first = 0;
  for (const auto& run : runs_of(before.fused)) {
    if (s.fused[run.first] != 0 && !v.may_fuse(first, run.last)) {
      s.fused[run.first] = 0;
    }
    first = s.fused[run.first] != 0 ? first : run.first;
  }
}

UNITY_INLINE dpro_strategy dpro_search::run(const dpro_strategy& from, const dpro_techniques& may, dpro_result& all) {
  if (is_over(all)) {
    return from;
  }
  may_ = may;
  auto at = from;
  auto times = evaluate(view_, at);
  ++all.replays;
  const auto keep = [&](const dpro_strategy& s, picoseconds time) {
    if (all.history.empty() || time < all.iteration) {
      all.best = s;
      all.iteration = time;
      all.history.push_back({clock_.seconds(), all.replays, time.count()});
    }
  };
  keep(at, times.iteration);
  for (std::uint32_t idle = 0; idle < options_.patience && !is_over(all);) {
    ++all.iterations;
    const auto found = sweep(at, times, all);
    if (found.empty()) {
      break;
    }
    auto next = at;
    for (const auto& d : found) {
      d.apply(next);
    }
    repair(view_, at, next);
    auto next_times = evaluate(view_, next);
    ++all.replays;
    if (next_times.iteration >= times.iteration) {
      next = at;
      next_times = times;
      for (const auto& d : found) {
        if (is_over(all)) {
          break;
        }
        auto one = next;
        d.apply(one);
        repair(view_, next, one);
        if (one == next) {
          continue;
        }
        ++all.replays;
        if (auto t = evaluate(view_, one); t.iteration < next_times.iteration) {
          next = std::move(one);
          next_times = std::move(t);
        }
      }
      if (next == at) {
        break;
      }
    }
    // An improvement of less than a thousandth counts as none.
    idle = next_times.iteration < times.iteration - times.iteration / 1000 ? 0 : idle + 1;
    at = std::move(next);
    times = std::move(next_times);
    keep(at, times.iteration);
  }
  return at;
}

UNITY_INLINE dpro_strategy dpro_search::descend(const dpro_view& v, dpro_strategy at, std::uint64_t most_tasks,
                                                dpro_result& all) const {
  const dpro_space space{v,
                         options_.speedups.coarsened ? coarsened(v, v.separate(), options_.techniques) : v.separate(),
                         options_.techniques, options_.most_parts};
  dpro_space::scratch_type none;
  auto state = space.at(at);
  const auto each = v.apply(at).graph.tasks.size();
  std::uint64_t tasks = each;
  for (bool is_better = true; is_better && tasks < most_tasks && !is_over(all);) {
    is_better = false;
    const auto times = evaluate(v, state.strategy);
    std::set<std::pair<bool, std::uint32_t>> near;  // operators and tensors to change
    const auto add = [&](bool is_operator, const std::vector<std::uint8_t>& with_previous, std::uint32_t place) {
      for (const auto& r : runs_of(with_previous)) {
        for (auto p = r.first; (place == r.first || place == r.last) && p <= r.last + 1; ++p) {
          near.insert({is_operator, p});
        }
      }
    };
    for (const auto o : times.path_operators) {
      add(true, state.strategy.fused, o);
    }
    for (const auto t : times.path_buckets) {
      add(false, state.strategy.joined, t);
    }
    for (const auto& m : space.moves(state)) {
      if (!near.contains({m.what == dpro_space::change::fuse, m.place})) {
        continue;
      }
      if (tasks >= most_tasks || is_over(all)) {
        break;
      }
      const auto price = space.price(state, m, none);
      tasks += price ? each : 0;
      all.replays += price ? 1 : 0;
      if (price && price->cost < state.cost) {
        state = space.apply(state, m, none, none);
        is_better = true;
      }
    }
  }
  return std::move(state.strategy);
}

}  // namespace unity::systems::detail

#endif
