// A rank's iteration as instructions, and fusion strategies for it, stated by names of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::fusion {

// A rank's instructions and their steps. Regular except for the graph.
struct rank_instructions {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  instruction_graph graph{};
  // Per instruction: false if it depends on a message from another rank, such as the loss over all ranks. Other ranks
  // may lack it, so it runs alone.
  std::vector<bool> is_common{};
  std::vector<std::uint32_t> steps{};    // per instruction: its step; none for a source
  std::vector<std::uint32_t> by_step{};  // per step: the instruction, or none
};

struct rank_costs {
  tensor::durations times;      // of operators that run as kernels of their own
  double flops_per_second = 0;  // the best arithmetic rate
  kernel_model kernels{};       // of kernels of several operators
  parallel::optimizer updates = parallel::optimizer::sgd;
};

// Reads a program that is spelled out (parallel/ranks/spelled_out.hpp). A step that changes no byte is not an
// instruction: readers of its result read its operand instead. A reduction over ranks is an all_reduce; sends, receives
// and updates run alone. The algebra need not outlive the result.
// Complexity: linear in the program.
// Throws: unity::error for other kinds of steps (scatter, gather) and for delayed ones.
[[nodiscard]] rank_instructions instructions_of(const tensor::algebra& a, const parallel::rank_program& p,
                                                const rank_costs& costs);

// States a strategy by names of steps. order: all groups in the order in which they begin (fusion_session::order).
// weights: the numbers of the program's weights in the plan's graph.
[[nodiscard]] fusion_plan plan_of(const tensor::algebra& a, const parallel::rank_program& p,
                                  const rank_instructions& all, const fusion_strategy& s,
                                  std::span<const std::uint32_t> order, std::span<const std::uint32_t> weights);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_RANK_INSTRUCTIONS)

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/work.hpp>

namespace unity::fusion {

namespace detail {

class rank_reader {
 public:
  rank_reader(const tensor::algebra& a, const parallel::rank_program& p, const rank_costs& costs)
      : algebra_{a}, program_{p}, graph_{p.graph}, costs_{costs} {}

  [[nodiscard]] rank_instructions read();

 private:
  [[nodiscard]] double size_of(value_id v) const {
    return static_cast<double>(tensor::size_in_bytes(graph_.type(v)).count());
  }
  void find_sources();
  void add_step(std::uint32_t s);
  [[nodiscard]] double arithmetic_of(const instruction& i, double moved) const;
  void add_run(std::uint32_t s);
  void add_update(std::uint32_t s);
  void add_move(std::uint32_t s);
  instruction_id add(std::uint32_t s, instruction i, std::span<const value_id> values, std::span<const double> reads);

  const tensor::algebra& algebra_;
  const parallel::rank_program& program_;
  const tensor::tensor_graph& graph_;
  const rank_costs& costs_;
  rank_instructions all_{};
  row_labels labels_{};
  std::vector<bool> leaves_{};              // by value
  std::vector<instruction_id> by_value_{};  // producer of a value; none: not computed
  std::map<tensor::shape, std::uint32_t> domains_{};
};

UNITY_INLINE rank_instructions rank_reader::read() {
  by_value_.assign(graph_.value_count(), rank_instructions::none);
  all_.by_step.assign(program_.steps.size(), rank_instructions::none);
  leaves_.assign(graph_.value_count(), false);
  for (const auto& o : program_.outputs) {
    leaves_[o.value.index()] = true;
  }
  labels_ = rows_of_rank(algebra_, program_).labels;
  find_sources();
  for (std::uint32_t s = 0; s < program_.steps.size(); ++s) {
    add_step(s);
  }
  all_.graph.finish();
  return std::move(all_);
}

UNITY_INLINE void rank_reader::find_sources() {
  const auto add_source = [&](value_id v) {
    instruction i;
    i.role = instruction_role::source;
    i.size = size_of(v);
    by_value_[v.index()] = all_.graph.add(std::move(i), {});
    all_.steps.push_back(rank_instructions::none);
    all_.is_common.push_back(true);
  };
  for (const auto* given : {&program_.inputs}) {
    for (const auto& x : *given) {
      add_source(x.value);
    }
  }
  for (const auto& c : program_.cotangents) {
    add_source(c.value);
  }
  for (const auto& w : program_.weights) {
    if (by_value_[w.weight.value.index()] == rank_instructions::none) {
      add_source(w.weight.value);
    }
  }
}

UNITY_INLINE instruction_id rank_reader::add(std::uint32_t s, instruction i, std::span<const value_id> values,
                                             std::span<const double> reads) {
  const bool received = program_.steps[s].kind == parallel::step_kind::receive;
  std::vector<instruction_operand> operands;
  for (std::size_t x = 0; x < values.size(); ++x) {
    const auto from = by_value_[values[x].index()];
    UNITY_EXPECTS(from != rank_instructions::none, "steps that read values of earlier steps");
    const auto same = std::find_if(operands.begin(), operands.end(), [&](const auto& o) { return o.from == from; });
    if (same == operands.end()) {
      operands.push_back({from, reads[x]});
    } else {
      same->bytes = std::max(same->bytes, reads[x]);
    }
  }
  const bool is_common =
      !received && std::all_of(operands.begin(), operands.end(), [&](const auto& o) { return all_.is_common[o.from]; });
  if (!is_common && i.role == instruction_role::fusible) {
    i.role = instruction_role::alone;
  }
  all_.is_common.push_back(is_common);
  const auto id = all_.graph.add(std::move(i), operands);
  all_.steps.push_back(s);
  all_.by_step[s] = id;
  return id;
}

UNITY_INLINE void rank_reader::add_step(std::uint32_t s) {
  using kinds = parallel::step_kind;
  const auto& step = program_.steps[s];
  if (step.is_late || step.kind == kinds::scatter || step.kind == kinds::gather) {
    throw error{fmt::format("step {} of a rank", s), "delayed updates or divided ones",
                "a plan whose gradients are all-reduced before weights change"};
  }
  switch (step.kind) {
    case kinds::run: add_run(s); break;
    case kinds::update: add_update(s); break;
    case kinds::send:
    case kinds::receive:
    case kinds::reduce: add_move(s); break;
    default: break;  // Loads are sources; readers of a reduced value wait for the reduction.
  }
}

// The time of the arithmetic in picoseconds: at the best rate, or the time of the operator as a kernel of its own,
// without the launch, if neither that rate nor its bytes explain it, as for products of some layouts, or if it is
// shorter, as for element types that the device computes faster.
UNITY_INLINE double rank_reader::arithmetic_of(const instruction& i, double moved) const {
  constexpr double rounding = 1.01;
  const auto best = i.flops / costs_.flops_per_second * 1e12;
  const auto alone = static_cast<double>((i.duration - costs_.kernels.launch).count());
  const auto explained = rounding * std::max(best, moved / costs_.kernels.bytes_per_picosecond);
  return alone > explained || rounding * alone < best ? std::max(alone, 0.0) : best;
}

UNITY_INLINE void rank_reader::add_run(std::uint32_t s) {
  const auto n = program_.steps[s].node;
  const auto t = types_of(graph_, n);
  const auto results = graph_.results(n);
  const auto operands = graph_.operands(n);
  if (const auto map = algebra_.index_map(*t.op, t.inputs)) {
    if (const auto shared = tensor::shared_parts(*map, t.inputs, t.outputs)) {
      for (std::size_t r = 0; r < results.size(); ++r) {
        by_value_[results[r].index()] = by_value_[operands[(*shared)[r].operand].index()];
      }
      return;
    }
  }
  const auto work = algebra_.work(*t.op, t.inputs, t.outputs);
  const auto role = labels_.roles[n.index()];
  instruction i;
  i.kind = class_of(algebra_, *t.op, t.inputs, t.outputs);
  i.is_folding = role == row_role::folding;
  const bool is_fusible =
      role != row_role::mixing && i.kind != operator_class::other && !(i.is_head() && role != row_role::local);
  i.role = is_fusible ? instruction_role::fusible : instruction_role::alone;
  if (role == row_role::whole) {
    // Domain 0 is that of operators over the batch.
    i.domain = operands.empty() ? instruction::any_domain
                                : domains_.try_emplace(t.outputs[0].dims, domains_.size() + 1).first->second;
  }
  i.flops = static_cast<double>(work.operations.count());
  double sum = 0;
  std::vector<double> reads;
  for (const auto v : operands) {
    reads.push_back(size_of(v));
    sum += reads.back();
  }
  for (const auto v : results) {
    i.size += size_of(v);
    i.leaves = i.leaves || leaves_[v.index()];
  }
  // Slices and lookups read only a part of their operands.
  const auto moved = std::max(static_cast<double>(work.moved.count()) - i.size, 0.0);
  if (moved < sum && !reads.empty()) {
    auto& largest = *std::max_element(reads.begin(), reads.end());
    largest = std::max(largest - (sum - moved), 0.0);
  }
  i.duration = costs_.times.duration_of(0, *t.op, t.inputs, t.outputs).expected;
  i.arithmetic = arithmetic_of(i, moved + i.size);
  i.name = algebra_.signature(t.op->kind).name;
  const auto id = add(s, std::move(i), operands, reads);
  for (const auto v : results) {
    by_value_[v.index()] = id;
  }
}

UNITY_INLINE void rank_reader::add_update(std::uint32_t s) {
  const auto& w = program_.weights[program_.steps[s].peer];
  const auto& type = graph_.type(w.weight.value);
  const auto elements = tensor::element_count(w.updated.sizes());
  const auto t = parallel::update_operand(elements, type.element, costs_.updates);
  const std::array operands{t, t};
  const auto sub = algebra_.make_operation("sub");
  instruction i;
  i.role = instruction_role::alone;
  i.leaves = true;
  i.size = static_cast<double>(tensor::size_in_bytes(type).count());
  i.flops = static_cast<double>(elements);
  i.duration = costs_.times.duration_of(0, sub, operands, {&t, 1}).expected;
  i.name = "update";
  const double read = i.size;
  static_cast<void>(add(s, std::move(i), {&w.gradient, 1}, {&read, 1}));
}

UNITY_INLINE void rank_reader::add_move(std::uint32_t s) {
  const auto& step = program_.steps[s];
  const bool is_receive = step.kind == parallel::step_kind::receive;
  instruction i;
  i.kind = operator_class::other;
  i.role = step.kind == parallel::step_kind::reduce ? instruction_role::all_reduce : instruction_role::alone;
  i.leaves = step.kind == parallel::step_kind::send;
  i.domain = is_receive ? instruction::any_domain : static_cast<std::uint32_t>(graph_.type(step.value).element);
  i.name = step.kind == parallel::step_kind::reduce ? "all_reduce" : is_receive ? "receive" : "send";
  i.size = is_receive ? size_of(graph_.results(step.node)[0]) : size_of(step.value);
  const double read = i.size;
  const auto id = is_receive ? add(s, std::move(i), {}, {}) : add(s, std::move(i), {&step.value, 1}, {&read, 1});
  if (step.kind != parallel::step_kind::send) {
    by_value_[graph_.results(step.node)[0].index()] = id;
  }
}

}  // namespace detail

UNITY_INLINE rank_instructions instructions_of(const tensor::algebra& a, const parallel::rank_program& p,
                                               const rank_costs& costs) {
  return detail::rank_reader{a, p, costs}.read();
}

UNITY_INLINE fusion_plan plan_of(const tensor::algebra& a, const parallel::rank_program& p,
                                 const rank_instructions& all, const fusion_strategy& s,
                                 std::span<const std::uint32_t> order, std::span<const std::uint32_t> weights) {
  const auto names = step_names(a, p);
  const auto members = members_of(s);
  fusion_plan plan;
  for (const auto group : order) {
    if (all.graph.reduces(group)) {
      auto& bucket = plan.buckets.emplace_back();
      for (const auto m : members[group]) {
        const auto reduced = p.graph.results(p.steps[all.steps[m]].node)[0];
        const auto w = std::find_if(p.weights.begin(), p.weights.end(),
                                    [&](const parallel::weight_part& x) { return x.gradient == reduced; });
        if (w != p.weights.end()) {
          bucket.push_back(weights[static_cast<std::size_t>(w - p.weights.begin())]);
        }
      }
      continue;
    }
    auto& kernel = plan.kernels.emplace_back();
    for (const auto m : members[group]) {
      if (p.steps[all.steps[m]].kind == parallel::step_kind::run && all.is_common[m]) {
        kernel.push_back({names[all.steps[m]], s.group_of[m] != group});
      }
    }
  }
  std::erase_if(plan.kernels, [](const auto& k) { return k.empty(); });
  std::erase_if(plan.buckets, [](const auto& b) { return b.empty(); });
  return plan;
}

}  // namespace unity::fusion

#endif
