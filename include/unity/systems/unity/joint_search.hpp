// Substitutes in a whole graph segment by segment; each candidate is priced by mappings that fit what comes before and
// after the segment.
// Over 500 lines because segments, their contexts and their candidates share boundaries and tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/systems/unity/joint_space.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/segments.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

struct joint_options {
  double alpha = 1.05;
  std::size_t segment = 10;       // minimum number of operators
  std::uint64_t expansions = 12;  // of the search in each segment
  std::size_t steps = 3;          // substitutions that may make a segment more expensive before it becomes cheaper
  std::size_t nearby = 14'000;    // limit on the nodes of all graphs that many steps away; if exceeded, fewer steps
  bool split = true;              // false: a single segment
  bool cache = true;              // false: solves the mapping of every graph from scratch
  bool dynamic = true;            // false: enumerates the mappings of a single segment; several need dynamic programs
  budget limits{};
  std::function<picoseconds(const parallel::operator_graph&)>
      computing{};  // lower bound on the computation time of a graph; may be empty
};

// An applied rule, and the number of equal segments in which it was applied.
struct applied_rule {
  std::string name{};
  std::size_t segments = 0;

  friend bool operator==(const applied_rule&, const applied_rule&) = default;
};

struct joint_result {
  tensor::tensor_graph graph{};
  std::vector<applied_rule> rules{};  // in the order of segments, then of application
  std::size_t segments = 0;
  std::size_t distinct = 0;  // segments that differ from each other
  std::uint64_t expanded = 0;
  std::uint64_t candidates = 0;
  picoseconds computing{};   // lower bound on computation for all graphs considered; zero if not in the options
  bool ended_early = false;  // the time ran out
};

namespace detail {

// An operator graph together with everything that it refers to.
struct analyzed_graph {
  parallel::graph_dimensions dimensions;
  parallel::training_graph training;
  parallel::operator_graph ops;

  analyzed_graph(const tensor::algebra& a, const tensor::tensor_graph& g)
      : dimensions{a, g}, training{a, g}, ops{a, g, dimensions, training} {}
  analyzed_graph(const tensor::algebra& a, const tensor::tensor_graph& g, parallel::dimension_cache& cache)
      : dimensions{a, g, cache}, training{a, g}, ops{a, g, dimensions, training} {}
};

class joint_search {
 public:
  joint_search(const tensor::algebra& a, const rule_set& rules, mesh_solver& solver,
               const parallel::mapping_objective& objective, const joint_options& options)
      : algebra_{a}, rules_{rules}, edges_{rules}, solver_{solver}, objective_{objective}, options_{options} {}

  [[nodiscard]] joint_result run(const tensor::tensor_graph& g);

 private:
  // Improves distinct shapes in order, each in the context of the others in `g`. Keeps only changes that make the
  // whole graph cheaper, because the layout that a changed segment produces may not suit the next one after that
  // changes, too.
  [[nodiscard]] joint_result improved(const tensor::tensor_graph& g, std::span<const segment_graph> segments);
  // Pieces whose values at both ends keep their layouts of the best mapping of the whole graph. Any improvement of a
  // piece then improves the whole, which need not be mapped again. Empty if there was no time.
  [[nodiscard]] std::vector<segment_graph> pieces_in_place(const tensor::tensor_graph& g,
                                                           const parallel::operator_graph& ops);
  // The number of consecutive equal segments from `first` on.
  [[nodiscard]] static std::size_t run_of(std::span<const segment_graph> segments, std::size_t first);

  [[nodiscard]] bool is_past_deadline() const { return watch_.seconds() >= end_; }
  // Effects: sets the deadline of the next shape, if `left` shapes remain: four times its share of the remaining time.
  void start_shape(std::size_t left) {
    end_ = options_.limits.seconds;
    const auto seconds = std::max(0.0, end_ - watch_.seconds());
    end_ = std::min(end_, watch_.seconds() + 4 * seconds / static_cast<double>(left));
  }
  // Computes, by layout at each cut, the costs of everything before and after it. False if there was no time.
  [[nodiscard]] bool find_contexts(const parallel::operator_graph& ops, std::span<const parallel::spine_step> steps,
                                   std::span<const segment_range> ranges);
  void close_backwards(const parallel::layout_space& results, const parallel::operator_graph& ops, std::uint32_t last,
                       std::vector<std::int64_t>& costs);

  // Returns a value of at least the limit if the graph costs at least that much or the time is over.
  [[nodiscard]] cost_value price(const tensor::tensor_graph& g, cost_value limit);
  [[nodiscard]] cost_value price_of(const tensor::tensor_graph& g) {
    return price_of(analyzed_graph{algebra_, g, solver_.dimensions()}.ops, no_limit);
  }
  [[nodiscard]] cost_value price_of(const parallel::operator_graph& ops, cost_value limit);
  // Effects: includes the graph in the minimum `computing_`.
  void count_computing(const parallel::operator_graph& g);
  // A lower bound: the sum of each operator's minimum.
  [[nodiscard]] cost_value bound(const parallel::operator_graph& g);
  // run: the number of equal segments in a row from `number` on, which are all replaced by the result.
  [[nodiscard]] tensor::tensor_graph improved(const segment_graph& s, std::size_t number, std::size_t run,
                                              joint_result& r);
  // Effects: replaces `g` with the cheapest graph that is found by backtracking, or else within a few steps of where
  // that began or ended, through intermediate graphs that may be more expensive. Returns whether the result is one of
  // the latter: graphs beyond it have not been searched.
  bool is_improved(tensor::tensor_graph& g, joint_result& r);
  // Defines the boundaries of a candidate for a segment, or for several in a row, at the two cuts around it. For each
  // candidate, because a rewrite may change what runs beside a boundary, and with it the boundary's key.
  void define_boundaries(const tensor::tensor_graph& g, const parallel::operator_graph& ops);

  // Defines the boundaries of a candidate for a piece that is improved in place, with layouts of its context.
  void define_in_place(const tensor::tensor_graph& g, const parallel::operator_graph& ops);

  // Small because there are many candidates, and few of those that are not series-parallel are worth much.
  static constexpr std::size_t core_width = 4;
  static constexpr cost_value no_limit = std::numeric_limits<cost_value>::max();
  // The maximum length of a run of equal pieces that is priced; more than one, because the layouts between copies
  // matter.
  static constexpr std::size_t most_copies = 3;
  // Maximum number of operators of a segment whose candidates are mapped with their context, and of a graph that is
  // mapped again as segments change; larger ones are improved in place.
  static constexpr std::size_t most_of_segment = 100;
  static constexpr std::size_t most_of_graph = 4000;

  const tensor::algebra& algebra_;
  const rule_set& rules_;
  rule_edges edges_;
  mesh_solver& solver_;
  parallel::mapping_objective objective_;
  const joint_options& options_;
  stopwatch watch_{};
  double end_ = options_.limits.seconds;                      // of the current shape
  std::unordered_map<std::string, std::uint32_t> layouts_{};  // by boundary, for pieces in place
  picoseconds computing_{};                                   // minimum over the graphs of one segment
  bool is_first_ = true;                                      // no graph of the segment has been counted yet
  bool ended_early_ = false;
  std::size_t copies_ = 1;     // of the segment in a row
  std::size_t first_cut_ = 0;  // around the segments that are being improved
  std::size_t last_cut_ = 0;
  std::set<fingerprint> defined_{};                  // keys of their boundaries
  std::vector<std::vector<std::int64_t>> before_{};  // by cut, then layout
  std::vector<std::vector<std::int64_t>> behind_{};
};

}  // namespace detail

// The graph with the cheapest mapping onto the solver's mesh that the search finds; equal to `g` under the rules, all
// of which are used. Complexity: a mapping for each candidate of each distinct segment; solutions of parts are reused.
[[nodiscard]] inline joint_result improve(const tensor::algebra& a, const rule_set& rules,
                                          const tensor::tensor_graph& g, mesh_solver& solver,
                                          const parallel::mapping_objective& objective,
                                          const joint_options& options = {}) {
  return detail::joint_search{a, rules, solver, objective, options}.run(g);
}

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_JOINT_SEARCH)

#include <algorithm>
#include <map>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/systems/unity/segment_assembly.hpp>

namespace unity::systems::detail {

UNITY_INLINE joint_result joint_search::run(const tensor::tensor_graph& g) {
  const analyzed_graph whole{algebra_, g, solver_.dimensions()};
  const auto steps = parallel::spine_of(whole.ops.tree(), whole.ops.tree().root());
  const bool is_split = options_.split && options_.dynamic;
  const auto ranges = cut(g, whole.ops, steps, edges_, is_split ? options_.segment : whole.ops.size());
  solver_.end_in(options_.limits.seconds);
  std::vector<segment_graph> segments;
  const bool is_wide =
      whole.ops.size() > most_of_graph || std::any_of(ranges.begin(), ranges.end(), [&](const segment_range& r) {
        return operators_of(whole.ops, steps, r).size() > most_of_segment;
      });
  if (is_split && is_wide) {
    segments = pieces_in_place(g, whole.ops);
  } else if (ranges.size() == 1 || find_contexts(whole.ops, steps, ranges)) {
    for (const auto& range : ranges) {
      segments.push_back(segment_of(algebra_, g, whole.ops, operators_of(whole.ops, steps, range), range.first));
    }
  }
  count_computing(whole.ops);
  auto r = segments.empty() ? joint_result{g, {}, ranges.size(), 0, 0, 0, computing_, true} : improved(g, segments);
  solver_.end_in(std::numeric_limits<double>::infinity());
  return r;
}

UNITY_INLINE std::vector<segment_graph> joint_search::pieces_in_place(const tensor::tensor_graph& g,
                                                                      const parallel::operator_graph& ops) {
  std::vector<segment_graph> pieces;
  const auto best = solver_.solve(ops, objective_);
  if (best.cost >= parallel::unreachable) {
    return pieces;
  }
  std::unordered_map<std::size_t, std::uint32_t> layout_of;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const auto& t = solver_.tables().of(ops.placed(i));
    const auto& layouts = t.states[t.numbered[best.options[i]].state];
    const auto results = g.results(ops.node(i));
    for (std::size_t r = 0; r < results.size(); ++r) {
      layout_of[results[r].index()] = layouts[r];
    }
  }
  for (const auto& operators : windows(g, ops, edges_, options_.segment)) {
    auto& s = pieces.emplace_back(segment_of(algebra_, g, ops, operators, pieces.size()));
    hasher h;
    h.add(s.shape.low).add(s.shape.high);
    for (const auto& [name, values] : {std::pair{before_name, &s.entries}, std::pair{behind_name, &s.exits}}) {
      for (std::size_t k = 0; k < values->size(); ++k) {
        const auto layout = layout_of.at((*values)[k].index());
        layouts_.emplace(fmt::format("{}{}_{}", name, pieces.size() - 1, k), layout);
        h.add(layout);
      }
    }
    s.shape = h.result();
  }
  return pieces;
}

UNITY_INLINE joint_result joint_search::improved(const tensor::tensor_graph& g,
                                                 std::span<const segment_graph> segments) {
  joint_result r;
  r.segments = segments.size();
  r.graph = g;
  std::map<fingerprint, tensor::tensor_graph> pieces;
  std::map<fingerprint, picoseconds> computing_of;
  for (const auto& s : segments) {
    pieces.try_emplace(s.shape, s.graph);
  }
  r.distinct = pieces.size();
  const bool is_in_place = !layouts_.empty();
  auto cost = r.distinct > 1 && !is_in_place ? price_of(g) : parallel::unreachable;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& s = segments[i];
    if (!computing_of.contains(s.shape)) {
      const auto first = r.rules.size();
      start_shape(r.distinct - computing_of.size());
      auto& piece = pieces.at(s.shape);
      auto better = improved(s, i, is_in_place ? 1 : run_of(segments, i), r);
      computing_of[s.shape] = computing_;
      if (r.rules.size() > first && is_in_place) {
        piece = std::move(better);
      } else if (r.rules.size() > first) {
        std::swap(piece, better);
        auto whole = assembled(algebra_, g, segments, pieces);
        if (const auto now = r.distinct > 1 ? price_of(whole) : 0; now < cost) {
          cost = now;
          r.graph = std::move(whole);
        } else {
          std::swap(piece, better);
          r.rules.resize(first);
        }
      }
      const auto count = std::count_if(segments.begin(), segments.end(),
                                       [&](const segment_graph& other) { return other.shape == s.shape; });
      for (auto k = first; k < r.rules.size(); ++k) {
        r.rules[k].segments = static_cast<std::size_t>(count);
      }
    }
    r.computing += computing_of[s.shape];
  }
  if (is_in_place && !r.rules.empty()) {
    r.graph = assembled(algebra_, g, segments, pieces);
  }
  r.ended_early = ended_early_;
  return r;
}

UNITY_INLINE std::size_t joint_search::run_of(std::span<const segment_graph> segments, std::size_t first) {
  auto last = first;
  while (last < segments.size() && segments[last].shape == segments[first].shape) {
    ++last;
  }
  return last - first;
}

UNITY_INLINE bool joint_search::find_contexts(const parallel::operator_graph& ops,
                                              std::span<const parallel::spine_step> steps,
                                              std::span<const segment_range> ranges) try {
  auto& p = solver_.program(objective_, core_width);
  p.mapping.set_graph(ops);
  std::vector<parallel::cost_table> tables;
  for (const auto& r : ranges) {
    tables.push_back(p.mapping.along(p.program, steps.subspan(r.first, r.last - r.first)));
  }
  const auto cuts = ranges.size() + 1;
  std::vector<std::vector<std::int64_t>> before(cuts);
  std::vector<std::vector<std::int64_t>> behind(cuts);
  before[0] = {0};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    before[i + 1].assign(tables[i].columns, parallel::unreachable);
    for (std::size_t s = 0; s < before[i].size(); ++s) {
      for (std::size_t t = 0; t < tables[i].columns; ++t) {
        before[i + 1][t] = std::min(before[i + 1][t], before[i][s] + tables[i](s, t));
      }
    }
  }
  behind[ranges.size()].assign(before[ranges.size()].size(), 0);
  for (auto i = ranges.size(); i-- > 0;) {
    behind[i].assign(before[i].size(), parallel::unreachable);
    for (std::size_t s = 0; s < before[i].size(); ++s) {
      for (std::size_t t = 0; t < tables[i].columns; ++t) {
        behind[i][s] = std::min(behind[i][s], tables[i](s, t) + behind[i + 1][t]);
      }
    }
  }
  before_.assign(cuts, {});
  behind_.assign(cuts, {});
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const auto last = steps[ranges[i - 1].last - 1].last;
    const auto& t = solver_.tables().of(ops.placed(last));
    before_[i].assign(t.results[0]->size(), parallel::unreachable);
    behind_[i] = before_[i];
    for (std::size_t s = 0; s < t.states.size(); ++s) {
      before_[i][t.states[s][0]] = before[i][s];
      behind_[i][t.states[s][0]] = behind[i][s];
    }
    // Behind a cut, a layout may also be converted to another one at a cost.
    close_backwards(*t.results[0], ops, last, behind_[i]);
  }
  return true;
} catch (const out_of_time&) {
  return false;
}

UNITY_INLINE void joint_search::close_backwards(const parallel::layout_space& results,
                                                const parallel::operator_graph& ops, std::uint32_t last,
                                                std::vector<std::int64_t>& costs) {
  const auto& d = *ops.placed(last).dimensions;
  const auto& space = solver_.tables().space(d.outputs[0], true);
  UNITY_EXPECTS(space.size() == results.size(), "layouts of one value");
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& arc : space.arcs()) {
      const auto c = costs[arc.to] + arc.takes;
      if (c < costs[arc.from]) {
        costs[arc.from] = c;
        changed = true;
      }
    }
  }
}

UNITY_INLINE cost_value joint_search::price(const tensor::tensor_graph& g, cost_value limit) {
  const analyzed_graph one{algebra_, g, solver_.dimensions()};
  count_computing(one.ops);
  if (!layouts_.empty()) {
    define_in_place(g, one.ops);
  } else {
    define_boundaries(g, one.ops);
  }
  if (copies_ == 1) {
    return price_of(one.ops, limit);
  }
  const auto several = repeated(algebra_, g, copies_);
  const analyzed_graph all{algebra_, several, solver_.dimensions()};
  define_boundaries(several, all.ops);
  return price_of(all.ops, limit);
}

UNITY_INLINE cost_value joint_search::price_of(const parallel::operator_graph& ops, cost_value limit) try {
  if (const auto least = limit == no_limit ? 0 : bound(ops); least >= limit) {
    return least;
  }
  if (!options_.dynamic) {
    return solver_.solve(ops, objective_).cost;
  }
  auto& p = solver_.program(objective_, core_width);
  if (!options_.cache) {
    p.program.forget();
  }
  p.mapping.set_graph(ops);
  return p.mapping.least(p.program);
} catch (const out_of_time&) {
  ended_early_ = true;
  return parallel::unreachable;
}

UNITY_INLINE void joint_search::count_computing(const parallel::operator_graph& g) {
  if (options_.computing) {
    const auto takes = options_.computing(g);
    computing_ = is_first_ ? takes : std::min(computing_, takes);
    is_first_ = false;
  }
}

UNITY_INLINE cost_value joint_search::bound(const parallel::operator_graph& g) {
  cost_value sum = 0;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    auto least = parallel::unreachable;
    for (const auto& o : solver_.tables().of(g.placed(i)).options) {
      least = std::min(least, parallel::price_of(o, objective_));
    }
    sum = std::min(parallel::unreachable, sum + least);
  }
  return sum;
}

UNITY_INLINE tensor::tensor_graph joint_search::improved(const segment_graph& s, std::size_t number, std::size_t run,
                                                         joint_result& r) {
  is_first_ = true;
  copies_ = std::min(run, most_copies);
  ended_early_ = ended_early_ || is_past_deadline();
  if (is_past_deadline()) {
    count_computing(analyzed_graph{algebra_, s.graph, solver_.dimensions()}.ops);
    return s.graph;
  }
  first_cut_ = number;
  last_cut_ = number + run;
  defined_.clear();
  auto g = s.graph;
  while (is_improved(g, r)) {
  }
  return g;
}

UNITY_INLINE bool joint_search::is_improved(tensor::tensor_graph& g, joint_result& r) {
  joint_space space{algebra_, rules_, g,
                    [this](const tensor::tensor_graph& h, cost_value limit) { return price(h, limit); },
                    [this] { return is_past_deadline(); }};
  backtracking_options o;
  o.alpha = options_.alpha;
  o.limits = options_.limits;
  o.limits.seconds = std::max(0.0, end_ - watch_.seconds());
  o.limits.expansions = std::min(o.limits.expansions, options_.expansions);
  const auto found = backtracking(space, o);
  r.expanded += found.counts.expanded;
  r.candidates += found.counts.candidates;
  std::vector<joint_space::move_type> moves;
  for (const auto& [move, cost] : found.path) {
    moves.push_back(move);
  }
  const auto nearby = options_.nearby / std::max<std::size_t>(g.node_count(), 1);
  auto near = space.cheapest_near(space.initial(), options_.steps, nearby, found.cost);
  if (near) {
    moves.clear();
  } else if (!moves.empty()) {
    near = space.cheapest_near(found.best, options_.steps, nearby, found.cost);
  }
  if (near) {
    moves.insert(moves.end(), near->moves.begin(), near->moves.end());
  }
  ended_early_ = ended_early_ || found.stopped == stop_reason::time || is_past_deadline();  // moves may be missing
  for (const auto m : moves) {
    r.rules.push_back({space.rule_of(m).name, 0});
  }
  g = space.graph(near ? near->state : found.best);
  return near.has_value();
}

UNITY_INLINE void joint_search::define_boundaries(const tensor::tensor_graph& g, const parallel::operator_graph& ops) {
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const auto& op = g.operation(ops.node(i));
    const bool is_before = is_boundary(algebra_, op, before_name);
    if ((is_before || is_boundary(algebra_, op, behind_name)) && defined_.insert(ops.placed(i).key).second) {
      solver_.tables().define(ops.placed(i), is_before ? before_[first_cut_] : behind_[last_cut_]);
    }
  }
}

UNITY_INLINE void joint_search::define_in_place(const tensor::tensor_graph& g, const parallel::operator_graph& ops) {
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const auto& op = g.operation(ops.node(i));
    if (is_boundary(algebra_, op, before_name) || is_boundary(algebra_, op, behind_name)) {
      const auto& space = solver_.tables().space(ops.placed(i).dimensions->outputs[0], false);
      std::vector<std::int64_t> costs(space.size(), parallel::unreachable);
      costs[layouts_.at(algebra_.read(op).word("name"))] = 0;
      solver_.tables().define(ops.placed(i), costs);
    }
  }
}

}  // namespace unity::systems::detail

#endif
