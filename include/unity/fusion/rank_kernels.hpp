// Rank programs whose operators run as the kernels of a fusion plan.
#pragma once

#include <unity/fusion/fusion_plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::fusion {

// The spelled-out program with the plan's kernels in the plan's order. Leaves out steps that the rank lacks, or whose
// results alias their operands on it. The plan names steps of the first micro-batch. Those of later ones, gathers of
// weights, and waits for shares of gradients run no earlier than in the program, where that limits memory. Other steps
// that the plan does not name, such as additions within buckets, run as soon as their operands exist; sums over ranks
// are awaited, and weights updated and gathered, at the end. Ranks whose programs differ only in steps that the plan
// does not name run all other steps in the same order. Complexity: n log n in the program.
// Throws: unity::error if a step of the plan is another operator here, if two kernels provide one result, if kernels
// depend on each other in a cycle, or if updates are delayed.
[[nodiscard]] parallel::rank_program with_kernels(const tensor::algebra& a, const parallel::rank_program& p,
                                                  const fusion_plan& plan);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_RANK_KERNELS)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>

namespace unity::fusion {

namespace detail {

class kernel_writer {
 public:
  kernel_writer(const tensor::algebra& a, const parallel::rank_program& p, const fusion_plan& plan)
      : algebra_{a}, program_{p}, plan_{plan}, made_{p}, rows_{rows_of_rank(a, p)} {}

  [[nodiscard]] parallel::rank_program run();

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  static constexpr std::uint64_t last = std::uint64_t{1} << 62U;

  // A step, or the steps of a kernel.
  struct unit {
    std::vector<std::uint32_t> steps{};  // ascending
    std::uint64_t key = 0;               // ready units run in the order of keys
    bool is_needed = false;
  };

  [[nodiscard]] std::span<const value_id> operands(std::uint32_t step) const {
    return program_.graph.operands(program_.steps[step].node);
  }
  [[nodiscard]] std::vector<value_id> reads(std::uint32_t step) const;
  [[nodiscard]] bool contains(std::uint32_t u, std::uint32_t step) const {
    return std::binary_search(units_[u].steps.begin(), units_[u].steps.end(), step);
  }
  void find_makers();
  void find_views();
  void plan_kernels();
  void add_other_steps();
  // Effects: adds to the kernel the views through which its steps read results of its other steps.
  void take_in_views(unit& u);
  void set_keys();
  void need(std::uint32_t reader, value_id v);
  void find_needs();
  void wait_for_readers_of_kept();
  void wait_for_updates();
  [[nodiscard]] std::vector<std::uint32_t> order() const;
  void write(const unit& u);

  const tensor::algebra& algebra_;
  const parallel::rank_program& program_;
  const fusion_plan& plan_;
  parallel::rank_program made_;
  rank_rows rows_;
  std::vector<unit> units_{};
  std::vector<std::uint32_t> unit_of_{};              // by step: the unit that provides its results
  std::vector<std::uint32_t> makers_{};               // by value: the step after which it can be read
  std::vector<bool> is_view_{};                       // by step
  std::vector<bool> is_read_outside_{};               // by value: a unit other than the one that computes it reads it
  std::vector<std::vector<std::uint32_t>> before_{};  // by unit
  std::vector<std::uint32_t> unread_{};               // needed units whose operands are not needed yet
};

UNITY_INLINE parallel::rank_program kernel_writer::run() {
  if (std::any_of(program_.steps.begin(), program_.steps.end(), [](const auto& s) { return s.is_late; })) {
    throw error{"a fusion plan", "updates that are delayed to the next iteration", "a plan without delayed updates"};
  }
  find_makers();
  find_views();
  plan_kernels();
  add_other_steps();
  set_keys();
  find_needs();
  made_.steps.clear();
  made_.is_divided = rows_.labels.is_divided;
  std::vector<std::uint32_t> places(program_.steps.size(), none);
  for (const auto u : order()) {
    const auto first = made_.steps.size();
    write(units_[u]);
    for (const auto s : units_[u].steps) {
      places[s] = static_cast<std::uint32_t>(first);
    }
  }
  for (auto& s : made_.steps) {
    s.peer = s.kind == parallel::step_kind::wait ? places[s.peer] : s.peer;
  }
  return std::move(made_);
}

UNITY_INLINE std::vector<value_id> kernel_writer::reads(std::uint32_t step) const {
  using kinds = parallel::step_kind;
  const auto& s = program_.steps[step];
  switch (s.kind) {
    case kinds::run: return {operands(step).begin(), operands(step).end()};
    case kinds::update: return {program_.weights[s.peer].gradient};
    case kinds::send:
    case kinds::reduce:
    case kinds::scatter: return {s.value};
    case kinds::gather:  // shares of a weight's next version are written directly where they are gathered
      return program_.graph.results(s.node)[0] == s.value ? std::vector<value_id>{} : std::vector{s.value};
    default: return {};
  }
}

UNITY_INLINE void kernel_writer::find_makers() {
  using kinds = parallel::step_kind;
  makers_.assign(program_.graph.value_count(), none);
  for (std::uint32_t s = 0; s < program_.steps.size(); ++s) {
    const auto& step = program_.steps[s];
    const auto& begun = step.kind == kinds::wait ? program_.steps[step.peer] : step;
    const bool makes =
        step.kind == kinds::load || step.kind == kinds::run || (step.kind == kinds::wait && begun.kind != kinds::send);
    for (const auto v : makes ? program_.graph.results(begun.node) : std::span<const value_id>{}) {
      makers_[v.index()] = s;
    }
  }
}

UNITY_INLINE void kernel_writer::find_views() {
  is_view_.assign(program_.steps.size(), false);
  for (std::uint32_t s = 0; s < program_.steps.size(); ++s) {
    is_view_[s] = program_.steps[s].kind == parallel::step_kind::run &&
                  shares_memory(algebra_, program_.graph, program_.steps[s].node);
  }
}

UNITY_INLINE void kernel_writer::plan_kernels() {
  unit_of_.assign(program_.steps.size(), none);
  const auto names = step_names(algebra_, program_);
  std::map<std::tuple<std::uint32_t, bool, std::uint32_t>, std::uint32_t> steps;
  for (std::uint32_t s = 0; s < names.size(); ++s) {
    if (!names[s].operation.empty()) {
      steps.emplace(std::tuple{names[s].origin, names[s].is_backward, names[s].number}, s);
    }
  }
  for (const auto& k : plan_.kernels) {
    unit u;
    u.key = units_.size() + 1;
    for (const auto& x : k) {
      const auto found = steps.find({x.step.origin, x.step.is_backward, x.step.number});
      if (found == steps.end()) {
        continue;  // a step that only another rank has
      }
      if (names[found->second].operation != x.step.operation) {
        throw error{fmt::format("kernel {} of a fusion plan", units_.size()),
                    fmt::format("{} as step {} of the {} pass of node {}", x.step.operation, x.step.number,
                                x.step.is_backward ? "backward" : "forward", x.step.origin),
                    names[found->second].operation};
      }
      if (is_view_[found->second]) {
        continue;  // nothing runs; readers in kernels take it in
      }
      u.steps.push_back(found->second);
      auto& home = unit_of_[found->second];
      if (!x.is_copy && home != none) {
        throw error{fmt::format("kernel {} of a fusion plan", units_.size()),
                    fmt::format("{} of node {}, which kernel {} also provides", x.step.operation, x.step.origin, home),
                    "each result from one kernel"};
      }
      home = x.is_copy ? home : static_cast<std::uint32_t>(units_.size());
    }
    std::sort(u.steps.begin(), u.steps.end());
    u.steps.erase(std::unique(u.steps.begin(), u.steps.end()), u.steps.end());
    take_in_views(u);
    units_.push_back(std::move(u));
  }
}

UNITY_INLINE void kernel_writer::take_in_views(unit& u) {
  for (std::size_t x = 0; x < u.steps.size(); ++x) {
    for (const auto v : operands(u.steps[x])) {
      // The views between an operand and a step of the kernel.
      std::vector<std::uint32_t> views;
      auto maker = makers_[v.index()];
      while (maker != none && is_view_[maker]) {
        views.push_back(maker);
        maker = makers_[operands(maker)[0].index()];
      }
      if (maker != none && std::find(u.steps.begin(), u.steps.end(), maker) != u.steps.end()) {
        for (const auto m : views) {
          if (std::find(u.steps.begin(), u.steps.end(), m) == u.steps.end()) {
            u.steps.push_back(m);
          }
        }
      }
    }
  }
  std::sort(u.steps.begin(), u.steps.end());
}

UNITY_INLINE void kernel_writer::add_other_steps() {
  for (std::uint32_t s = 0; s < program_.steps.size(); ++s) {
    if (unit_of_[s] == none) {
      unit_of_[s] = static_cast<std::uint32_t>(units_.size());
      units_.push_back({{s}, 0, false});
    }
  }
}

// A wait runs just before the first kernel of the plan that reads what it yields, also if steps that the plan does not
// name are between. Waits that no kernel needs run at the end in the program's order, as updates do, and as what sends
// or gathers next versions does, also on ranks that update nothing: a group begins its collectives in one order. Other
// steps run as soon as their operands exist, except those that would take memory too early: they come after the kernels
// before them in the program, but before the first kernel that needs them.
//
// Ranks do not wait for each other in a circle. All have the kernels in one order, in which each comes after those
// whose results reach it on any rank. So the message for a kernel depends on earlier kernels alone, and of all ranks
// that wait for messages to kernels, the one with the earliest kernel finds that its sender waits for nothing before
// the message. At the waits at the end, all such messages are sent, and the program's order has no circle either.
// Gathers, and waits for shares, keep their place among kernels that all ranks of the group have in one order, as in
// data parallelism: there, what a kernel waits for was begun on each rank before that kernel.
UNITY_INLINE void kernel_writer::set_keys() {
  using kinds = parallel::step_kind;
  const auto count = static_cast<std::uint32_t>(program_.steps.size());
  std::vector<bool> is_next(program_.graph.value_count());
  for (const auto& w : program_.weights) {
    if (w.next.valid()) {
      is_next[w.next.index()] = true;
    }
  }
  std::vector<std::uint64_t> first(count, last);  // key of the first kernel that needs the step
  for (const auto& u : units_) {
    for (const auto s : u.steps) {
      first[s] = u.key == 0 ? first[s] : std::min(first[s], u.key);
    }
  }
  for (auto s = count; s-- > 0;) {
    for (const auto v : reads(s)) {
      if (const auto maker = makers_[v.index()]; maker != none) {
        first[maker] = std::min(first[maker], first[s]);
      }
    }
    if (program_.steps[s].kind == kinds::wait) {
      auto& begun = first[program_.steps[s].peer];
      begun = std::min(begun, first[s]);
    }
  }
  std::uint64_t kernels_before = 0;  // the greatest key of those in the program so far
  for (std::uint32_t s = 0; s < count; ++s) {
    const auto& step = program_.steps[s];
    auto& key = units_[unit_of_[s]].key;
    if (key != 0) {
      kernels_before = std::max(kernels_before, key);
      continue;  // a kernel of the plan
    }
    const auto in_place = std::min(kernels_before, first[s]);
    if (step.kind == kinds::wait) {
      const bool is_share = program_.steps[step.peer].kind == kinds::scatter;
      key = first[s] != last ? first[s] : is_share ? in_place : last + s;
    } else if (step.kind == kinds::update || (step.value.valid() && is_next[step.value.index()])) {
      key = last + s;
    } else {
      key = step.kind == kinds::gather || step.microbatch > 0 ? in_place : 0;
      for (const auto v : reads(s)) {
        const auto maker = makers_[v.index()];
        key = maker == none ? key : std::max(key, units_[unit_of_[maker]].key);
      }
    }
  }
}

// Effects: makes the unit wait for the value, unless it computes the value itself.
UNITY_INLINE void kernel_writer::need(std::uint32_t reader, value_id v) {
  const auto maker = makers_[v.index()];
  if (maker == none || contains(reader, maker)) {
    return;
  }
  const auto from = unit_of_[maker];
  is_read_outside_[v.index()] = true;
  before_[reader].push_back(from);
  if (!units_[from].is_needed) {
    units_[from].is_needed = true;
    unread_.push_back(from);
  }
}

// Units that only run operators are needed if something needed reads a result that they provide.
UNITY_INLINE void kernel_writer::find_needs() {
  using kinds = parallel::step_kind;
  is_read_outside_.assign(program_.graph.value_count(), false);
  before_.assign(units_.size(), {});
  for (std::uint32_t u = 0; u < units_.size(); ++u) {
    const auto& steps = units_[u].steps;
    units_[u].is_needed = !steps.empty() && program_.steps[steps.front()].kind != kinds::run;
    if (units_[u].is_needed) {
      unread_.push_back(u);
    }
  }
  // Each value that leaves the iteration has an empty unit that reads it.
  const auto leaves = [&](value_id v) {
    units_.push_back({{}, last, false});
    before_.emplace_back();
    need(static_cast<std::uint32_t>(units_.size() - 1), v);
  };
  for (const auto& o : program_.outputs) {
    leaves(o.value);
  }
  for (const auto& k : program_.kept) {
    leaves(k.after);
  }
  while (!unread_.empty()) {
    const auto u = unread_.back();
    unread_.pop_back();
    for (const auto s : units_[u].steps) {
      for (const auto v : reads(s)) {
        need(u, v);
      }
      if (program_.steps[s].kind == kinds::wait) {
        before_[u].push_back(unit_of_[program_.steps[s].peer]);
      }
    }
  }
  wait_for_readers_of_kept();
  wait_for_updates();
}

// Steps that send or gather a weight's next version wait for the update that writes it.
UNITY_INLINE void kernel_writer::wait_for_updates() {
  std::vector<std::uint32_t> update_of(program_.graph.value_count(), none);
  for (std::uint32_t s = 0; s < program_.steps.size(); ++s) {
    const auto& step = program_.steps[s];
    if (step.kind == parallel::step_kind::update && program_.weights[step.peer].next.valid()) {
      update_of[program_.weights[step.peer].next.index()] = unit_of_[s];
    } else if (step.value.valid() && update_of[step.value.index()] != none) {
      before_[unit_of_[s]].push_back(update_of[step.value.index()]);
    }
  }
}

// A value for the next iteration overwrites that of this one, so its writer waits for all readers of the latter.
UNITY_INLINE void kernel_writer::wait_for_readers_of_kept() {
  std::vector<std::uint32_t> writer_of(program_.graph.value_count(), none);
  for (const auto& k : program_.kept) {
    if (const auto maker = makers_[k.after.index()]; maker != none) {
      writer_of[k.before.index()] = unit_of_[maker];
    }
  }
  for (std::uint32_t u = 0; u < units_.size(); ++u) {
    for (const auto s : units_[u].steps) {
      for (const auto v : reads(s)) {
        const auto writer = writer_of[v.index()];
        if (writer != none && writer != u && units_[u].is_needed) {
          before_[writer].push_back(u);
        }
      }
    }
  }
}

UNITY_INLINE std::vector<std::uint32_t> kernel_writer::order() const {
  std::vector<std::uint32_t> waits(units_.size());
  std::vector<std::vector<std::uint32_t>> after(units_.size());
  std::size_t count = 0;
  for (std::uint32_t u = 0; u < units_.size(); ++u) {
    if (units_[u].is_needed) {
      ++count;
      for (const auto b : before_[u]) {
        after[b].push_back(u);
        ++waits[u];
      }
    }
  }
  using entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> ready;
  for (std::uint32_t u = 0; u < units_.size(); ++u) {
    if (units_[u].is_needed && waits[u] == 0) {
      ready.emplace(units_[u].key, u);
    }
  }
  std::vector<std::uint32_t> all;
  while (!ready.empty()) {
    const auto u = ready.top().second;
    ready.pop();
    all.push_back(u);
    for (const auto next : after[u]) {
      if (--waits[next] == 0) {
        ready.emplace(units_[next].key, next);
      }
    }
  }
  if (all.size() != count) {
    throw error{"kernels of a fusion plan", "some depend on each other in a circle", "kernels in an order"};
  }
  return all;
}

UNITY_INLINE void kernel_writer::write(const unit& u) {
  const auto& g = program_.graph;
  const auto computing = std::count_if(u.steps.begin(), u.steps.end(), [&](std::uint32_t s) { return !is_view_[s]; });
  if (u.steps.size() == 1 || computing == 1) {
    // Views of the result of an operator that runs alone become steps of their own where they are needed.
    const auto s = *std::find_if(u.steps.begin(), u.steps.end(),
                                 [&](std::uint32_t x) { return u.steps.size() == 1 || !is_view_[x]; });
    made_.steps.push_back(program_.steps[s]);
    return;
  }
  parallel::rank_kernel k;
  k.rows = rows_.rows;
  auto step = program_.steps[u.steps.front()];
  step.kind = parallel::step_kind::fused;
  step.node = {};
  step.peer = static_cast<std::uint32_t>(made_.kernels.size());
  const auto own = static_cast<std::uint32_t>(&u - units_.data());
  for (const auto s : u.steps) {
    k.nodes.push_back(program_.steps[s].node);
    for (const auto v : operands(s)) {
      const auto maker = makers_[v.index()];
      if ((maker == none || !contains(own, maker)) &&
          std::find(k.inputs.begin(), k.inputs.end(), v) == k.inputs.end()) {
        k.inputs.push_back(v);
      }
    }
    for (const auto v : g.results(program_.steps[s].node)) {
      if (unit_of_[s] == own && is_read_outside_[v.index()]) {
        k.outputs.push_back(v);
      }
    }
  }
  made_.kernels.push_back(std::move(k));
  made_.steps.push_back(step);
}

}  // namespace detail

UNITY_INLINE parallel::rank_program with_kernels(const tensor::algebra& a, const parallel::rank_program& p,
                                                 const fusion_plan& plan) {
  return detail::kernel_writer{a, p, plan}.run();
}

}  // namespace unity::fusion

#endif
