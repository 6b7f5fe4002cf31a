// Finds a plan for any graph: an optimal one by dynamic programming if the graph is within its limits, otherwise one by
// beam search, with a proved bound.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/placement/memory_program.hpp>

namespace unity::placement {

struct memory_search_options {
  std::size_t width = 256;           // states that the beam keeps per number of executed operators
  std::size_t choices = 16;          // ways to evict tensors for an operator
  // most ways to run an operator that are tried in a pass, times the number of operators: a few seconds
  std::uint64_t work = 100'000'000;
};

struct memory_search_result {
  memory_plan plan{};
  bytes loaded{};
  bytes bound{};  // no plan loads less; a plan that loads exactly this much is optimal
};

// Tensors stay until memory is needed; then the search tries several minimal evictions. Among states with equally many
// executed operators it keeps those with the least expected loads: the loads so far plus a lower bound on the rest. The
// search starts from the best baseline and drops what cannot improve on the best plan. If several orders are valid, it
// searches the operators' own order first, with a bound for that order alone, and then all orders. The bound of the
// result is the larger of least_loads and the least that any dropped or untried choice could have led to. So if nothing
// promising was dropped, the plan is proved optimal. Deterministic.
// Complexity: the product of operators, width, ready operators, evictions and the cost of the bound, limited by `work`.
// Throws: unity::error as require_capacity.
[[nodiscard]] memory_search_result bounded_memory_search(const memory_graph& g, bytes capacity,
                                                         const memory_search_options& options = {});

struct memory_planning {
  memory_program_limits program{};
  memory_search_options search{};
};

struct found_memory_plan {
  memory_plan plan{};
  memory_traffic traffic{};
  bytes bound{};               // no plan loads less
  bool is_of_program = false;  // from the dynamic program; otherwise from the bounded search

  [[nodiscard]] bool is_best() const { return traffic.loaded == bound; }
};

// Complexity: as optimal_memory_plan within its limits, otherwise as bounded_memory_search.
// Throws: unity::error that states the least capacity if the given one is below it.
[[nodiscard]] found_memory_plan find_memory_plan(const memory_graph& g, bytes capacity,
                                                 const memory_planning& planning = {});

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_FIND_MEMORY_PLAN)

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/placement/load_bound.hpp>

namespace unity::placement {

namespace detail {

class memory_beam {
 public:
  // chain: the one that the bound uses. is_in_order: operators run in their own order, and the chain may contain all of
  // them.
  memory_beam(const memory_graph& g, bytes capacity, const memory_search_options& options,
              std::span<const operator_id> chain, bool is_in_order)
      : graph_{g}, capacity_{capacity}, options_{options}, bound_{g, capacity, chain}, is_in_order_{is_in_order} {}

  // Effects: improves the plan or leaves it. Returns a lower bound on the loads of any better plan.
  [[nodiscard]] std::int64_t improve(memory_search_result& best);

 private:
  struct entry {
    operator_set done{};
    tensor_set cached{};
    std::int64_t loaded = 0;
    std::int64_t expected = 0;    // lower bound on all loads
    std::uint32_t before = 0;     // predecessor in the level before
    operator_id operation{};      // operator that ran last
    std::vector<tensor_id> left;  // tensors evicted before it ran
  };
  using level = std::vector<entry>;

  void expand_all(std::size_t done, level& next);
  void expand(const entry& e, std::uint32_t number, level& next);
  void run_operator(const entry& e, std::uint32_t number, operator_id o, level& next);
  // Minimal sets of candidates whose eviction frees the excess, those that follow the candidates' order most closely
  // first. Returns false if there may be more.
  [[nodiscard]] bool find_choices(const std::vector<tensor_id>& candidates, std::int64_t excess,
                                  std::vector<std::vector<tensor_id>>& found) const;
  // The states that may improve on the best plan, at most this many.
  void keep_best(level& entries, std::size_t most);
  [[nodiscard]] memory_plan plan_to(std::size_t number) const;
  [[nodiscard]] std::size_t next_use(tensor_id t, const operator_set& done) const;

  const memory_graph& graph_;
  bytes capacity_;
  memory_search_options options_;
  load_bound bound_;
  bool is_in_order_;
  std::uint64_t runs_ = 0;   // ways to run an operator that were tried so far
  std::uint64_t share_ = 0;  // of them, at which the present level stops, as soon as it has a state
  std::int64_t incumbent_ = 0;
  // lower bound on the loads of all plans that continue from dropped states
  std::int64_t dropped_ = std::numeric_limits<std::int64_t>::max();
  std::vector<level> levels_{};
};

// The best of the baselines.
[[nodiscard]] UNITY_INLINE memory_search_result best_baseline(const memory_graph& g, bytes capacity) {
  memory_search_result best;
  best.loaded = bytes{std::numeric_limits<std::int64_t>::max()};
  for (auto* const baseline : {streaming_plan, lru_plan, largest_first_plan, farthest_first_plan}) {
    auto plan = baseline(g, capacity);
    const auto loaded = replay(g, plan, capacity).loaded;
    if (loaded < best.loaded) {
      best.plan = std::move(plan);
      best.loaded = loaded;
    }
  }
  return best;
}

UNITY_INLINE std::size_t memory_beam::next_use(tensor_id t, const operator_set& done) const {
  const auto readers = graph_.readers(t);
  const auto next = std::find_if(readers.begin(), readers.end(), [&](operator_id o) { return !done[o.index()]; });
  return next == readers.end() ? graph_.operator_count() : next->index();
}

UNITY_INLINE bool memory_beam::find_choices(const std::vector<tensor_id>& candidates, std::int64_t excess,
                                            std::vector<std::vector<tensor_id>>& found) const {
  std::vector<std::int64_t> behind(candidates.size() + 1);
  for (auto i = candidates.size(); i-- > 0;) {
    behind[i] = behind[i + 1] + graph_.tensor(candidates[i]).size.count();
  }
  std::vector<tensor_id> chosen;
  auto steps = 64 * options_.choices;
  // Returns false if there may be more sets.
  const auto go = [&](const auto& self, std::size_t i, std::int64_t lacking, std::size_t skips) -> bool {
    if (lacking <= 0) {
      const bool is_least = skips == 0 && std::all_of(chosen.begin(), chosen.end(), [&](tensor_id t) {
                              return lacking + graph_.tensor(t).size.count() > 0;
                            });
      if (is_least) {
        found.push_back(chosen);
      }
      return true;
    }
    if (behind[i] < lacking) {
      return true;
    }
    if (steps == 0 || found.size() == 4 * options_.choices) {
      return false;
    }
    --steps;
    chosen.push_back(candidates[i]);
    const bool is_all = self(self, i + 1, lacking - graph_.tensor(candidates[i]).size.count(), skips);
    chosen.pop_back();
    return is_all && (skips == 0 || self(self, i + 1, lacking, skips - 1));
  };
  for (std::size_t skips = 0; skips <= candidates.size(); ++skips) {
    if (!go(go, 0, excess, skips)) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE void memory_beam::run_operator(const entry& e, std::uint32_t number, operator_id o, level& next) {
  const auto touched = graph_.touched(o);
  const auto beside = e.cached - touched;
  const auto excess = (graph_.size_of(touched) + graph_.size_of(beside) - capacity_).count();
  std::vector<tensor_id> candidates;
  for (auto t = beside.find_first(); t != tensor_set::npos; t = beside.find_next(t)) {
    candidates.emplace_back(t);
  }
  unity::stable_sort(candidates, [&](tensor_id a, tensor_id b) { return next_use(a, e.done) > next_use(b, e.done); });
  std::vector<std::vector<tensor_id>> choices;
  if (!find_choices(candidates, excess, choices)) {
    dropped_ = std::min(dropped_, e.expected);
  }
  runs_ += 1 + choices.size();
  auto loaded = e.loaded;
  for (const auto t : graph_.operation(o).reads) {
    loaded += e.cached[t.index()] ? 0 : graph_.tensor(t).size.count();
  }
  const auto done = operator_set{e.done}.set(o.index());
  const auto live = live_tensors(graph_, done);
  level found;
  for (auto& c : choices) {
    auto cached = e.cached | touched;
    for (const auto t : c) {
      cached.reset(t.index());
    }
    cached &= live;
    const auto expected = std::max(loaded + bound_.loads_after(done, cached).count(), e.expected);
    found.push_back({done, std::move(cached), loaded, expected, number, o, std::move(c)});
  }
  keep_best(found, options_.choices);
  std::move(found.begin(), found.end(), std::back_inserter(next));
}

UNITY_INLINE void memory_beam::expand(const entry& e, std::uint32_t number, level& next) {
  for (auto o = (~e.done).find_first(); o != operator_set::npos; o = is_in_order_ ? o : (~e.done).find_next(o)) {
    const auto before = graph_.predecessors(operator_id{o});
    const bool is_ready =
        std::all_of(before.begin(), before.end(), [&](operator_id p) { return e.done.test(p.index()); });
    if (is_ready && runs_ >= share_ && !next.empty()) {
      dropped_ = std::min(dropped_, e.expected);
      return;
    }
    if (is_ready) {
      run_operator(e, number, operator_id{o}, next);
    }
    if (is_in_order_) {
      return;
    }
  }
}

// Expands the states of the last level, the most promising first, as many as the level's share of the work allows.
UNITY_INLINE void memory_beam::expand_all(std::size_t done, level& next) {
  const auto count = graph_.operator_count();
  const auto all = options_.work / count;
  share_ = runs_ + (all - std::min(all, runs_)) / (count - done);
  const auto& last = levels_.back();
  for (std::uint32_t i = 0; i < last.size(); ++i) {
    if (i > 0 && runs_ >= share_) {
      dropped_ = std::min(dropped_, last[i].expected);
      break;
    }
    expand(last[i], i, next);
  }
}

UNITY_INLINE void memory_beam::keep_best(level& entries, std::size_t most) {
  unity::stable_sort(entries, [](const entry& a, const entry& b) { return a.expected < b.expected; });
  std::unordered_map<fingerprint, std::vector<std::size_t>> seen;  // by cached tensors
  level kept;
  for (auto& e : entries) {
    if (e.expected >= incumbent_) {
      break;
    }
    auto& alike = seen[fingerprint_of(e.cached)];
    const bool is_known = std::any_of(alike.begin(), alike.end(), [&](std::size_t i) {
      return kept[i].done == e.done && kept[i].loaded <= e.loaded;
    });
    if (is_known) {
      continue;
    }
    if (kept.size() == most) {
      dropped_ = std::min(dropped_, e.expected);
      break;
    }
    alike.push_back(kept.size());
    kept.push_back(std::move(e));
  }
  entries = std::move(kept);
}

UNITY_INLINE memory_plan memory_beam::plan_to(std::size_t number) const {
  memory_plan plan;
  const tensor_set empty(graph_.tensor_count());
  const auto* leaving = &empty;
  tensor_set out(graph_.tensor_count());
  for (auto l = levels_.size(); l-- > 1;) {
    const auto& e = levels_[l][number];
    const auto stays = e.cached - *leaving;
    auto& step = plan.emplace_back();
    step.operation = e.operation;
    for (auto t = stays.find_first(); t != tensor_set::npos; t = stays.find_next(t)) {
      step.kept.emplace_back(t);
    }
    out.reset();
    for (const auto t : e.left) {
      out.set(t.index());
    }
    leaving = &out;
    number = e.before;
  }
  std::reverse(plan.begin(), plan.end());
  return plan;
}

UNITY_INLINE std::int64_t memory_beam::improve(memory_search_result& best) {
  incumbent_ = best.loaded.count();
  levels_.push_back(
      {{operator_set(graph_.operator_count()), tensor_set(graph_.tensor_count()), 0, 0, 0, operator_id{}, {}}});
  for (std::size_t l = 0; l < graph_.operator_count(); ++l) {
    level next;
    expand_all(l, next);
    keep_best(next, options_.width);
    levels_.push_back(std::move(next));
  }
  if (!levels_.back().empty() && levels_.back().front().loaded < incumbent_) {
    best.plan = plan_to(0);
    best.loaded = bytes{levels_.back().front().loaded};
  }
  return dropped_;
}

}  // namespace detail

UNITY_INLINE memory_search_result bounded_memory_search(const memory_graph& g, bytes capacity,
                                                        const memory_search_options& options) {
  require_capacity(g, capacity);
  const auto least = least_loads(g, capacity);
  const auto chain = longest_chain(g);
  auto best = detail::best_baseline(g, capacity);
  if (chain.size() < g.operator_count() && best.loaded > least) {
    std::vector<operator_id> all;
    for (std::size_t o = 0; o < g.operator_count(); ++o) {
      all.emplace_back(o);
    }
    static_cast<void>(detail::memory_beam{g, capacity, options, all, true}.improve(best));
  }
  auto dropped = best.loaded.count();
  if (best.loaded > least) {
    dropped = detail::memory_beam{g, capacity, options, chain, false}.improve(best);
  }
  best.bound = std::max(least, std::min(best.loaded, bytes{dropped}));
  return best;
}

UNITY_INLINE found_memory_plan find_memory_plan(const memory_graph& g, bytes capacity,
                                                const memory_planning& planning) {
  found_memory_plan found;
  if (auto best = optimal_memory_plan(g, capacity, planning.program)) {
    found.plan = std::move(*best);
    found.traffic = replay(g, found.plan, capacity);
    found.bound = found.traffic.loaded;
    found.is_of_program = true;
  } else {
    auto searched = bounded_memory_search(g, capacity, planning.search);
    found.plan = std::move(searched.plan);
    found.traffic = replay(g, found.plan, capacity);
    found.bound = searched.bound;
  }
  return found;
}

}  // namespace unity::placement

#endif
