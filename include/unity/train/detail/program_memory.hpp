// A rank's program as input for memory planning.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/tasks/storage.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/value_places.hpp>

namespace unity::train::detail {

using placement::operator_id;
using placement::tensor_id;

inline constexpr bytes arena_alignment{static_cast<std::int64_t>(backend::memory_alignment)};

[[nodiscard]] constexpr bytes in_arena(std::size_t size) noexcept {
  return bytes{tasks::rounded_up(bytes{static_cast<std::int64_t>(size)}, arena_alignment)};
}

// A rank's program as a memory graph, with an operator for each step except loads and steps without work. Values in
// transit are read by all steps until the transfer has ended.
class program_memory {
 public:
  program_memory(const tensor::algebra& a, const parallel::rank_program& p, std::span<const std::size_t> workspaces);

  [[nodiscard]] const placement::memory_graph& graph() const noexcept { return graph_; }
  [[nodiscard]] std::size_t step_of(operator_id o) const { return steps_[o.index()]; }
  // Null for a workspace.
  [[nodiscard]] value_id value_of(tensor_id t) const { return values_[t.index()]; }
  // The tensor of a root; null if it stays permanently, or is not in the arena.
  [[nodiscard]] tensor_id tensor_of(value_id root) const { return tensors_[root.index()]; }
  // Tensors in transit, which must stay between the operator and the next one.
  [[nodiscard]] const std::vector<tensor_id>& under_way(operator_id o) const { return under_way_[o.index()]; }
  // The size of the values that stay permanently.
  [[nodiscard]] bytes resident() const noexcept { return resident_; }

 private:
  void add_tensors();
  void add_step(const tensor::algebra& a, std::size_t s, std::size_t workspace);
  void add_moves(const parallel::rank_step& step, std::vector<value_id>& reads, std::vector<value_id>& writes);

  const parallel::rank_program& program_;
  value_places places_;
  placement::memory_graph graph_{};
  std::vector<std::size_t> steps_{};  // by operator
  std::vector<value_id> values_{};    // by tensor
  std::vector<tensor_id> tensors_;    // by value
  std::vector<operator_id> makers_;   // by root that stays permanently
  std::vector<std::vector<tensor_id>> under_way_{};
  std::vector<value_id> begun_{};  // roots in transit: sent or received
  bool is_ordered_ = false;
  bytes resident_{};
};

}  // namespace unity::train::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_DETAIL_PROGRAM_MEMORY)

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>

namespace unity::train::detail {

UNITY_INLINE program_memory::program_memory(const tensor::algebra& a, const parallel::rank_program& p,
                                            std::span<const std::size_t> workspaces)
    : program_{p}, places_{a, p}, tensors_(p.graph.value_count()), makers_(p.graph.value_count()) {
  is_ordered_ = !p.kept.empty();
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const auto& step = p.steps[s];
    if (step.is_late || step.since > 0 || step.lag > 0) {
      throw error{"memory plan", "steps that belong to other iterations",
                  "a plan without delayed updates and stale servers"};
    }
    is_ordered_ = is_ordered_ || step.kind == parallel::step_kind::send || step.kind == parallel::step_kind::receive ||
                  parallel::is_collective(step.kind);
  }
  add_tensors();
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    add_step(a, s, workspaces[s]);
  }
}

UNITY_INLINE void program_memory::add_tensors() {
  const auto end = program_.steps.size();
  for (const auto v : value_ids(program_.graph)) {
    const auto& stays = places_[v];
    const auto size = in_arena(backend::byte_count(program_.graph.type(v)));
    if (stays.empty()) {
      continue;
    }
    if (stays.front().last == end) {
      resident_ += size;
    } else {
      tensors_[v.index()] = graph_.add_tensor(fmt::format("%{}", v), size);
      values_.push_back(v);
    }
  }
}

UNITY_INLINE void program_memory::add_moves(const parallel::rank_step& step, std::vector<value_id>& reads,
                                            std::vector<value_id>& writes) {
  using kinds = parallel::step_kind;
  const bool is_wait = step.kind == kinds::wait;
  const auto& begun = is_wait ? program_.steps[step.peer] : step;
  std::vector<value_id> all;
  if (begun.kind != kinds::receive) {
    all.push_back(places_.root(begun.value));
    reads.push_back(all.back());
  }
  if (begun.kind != kinds::send) {
    const auto result = program_.graph.results(begun.node)[0];
    all.push_back(places_.root(result));
    (is_wait || (all.size() > 1 && all.back() == all.front()) ? reads : writes).push_back(all.back());
  }
  for (const auto v : all) {
    if (is_wait) {
      begun_.erase(std::find(begun_.begin(), begun_.end(), v));
    } else {
      begun_.push_back(v);
    }
  }
}

UNITY_INLINE void program_memory::add_step(const tensor::algebra& a, std::size_t s, std::size_t workspace) {
  using kinds = parallel::step_kind;
  const auto& step = program_.steps[s];
  const auto& g = program_.graph;
  if (step.kind == kinds::load || !places_.runs(s)) {
    return;
  }
  auto reads = begun_;
  std::vector<value_id> writes;
  auto name = fmt::format("step {}", s);
  const auto use = [&](std::span<const value_id> from, std::vector<value_id>& to) {
    std::transform(from.begin(), from.end(), std::back_inserter(to), [&](value_id v) { return places_.root(v); });
  };
  if (step.kind == kinds::run) {
    name += fmt::format(" ({})", a.signature(g.operation(step.node).kind).name);
    use(g.operands(step.node), reads);
    use(g.results(step.node), writes);
  } else if (step.kind == kinds::fused) {
    use(program_.kernels[step.peer].inputs, reads);
    use(program_.kernels[step.peer].outputs, writes);
  } else if (step.kind == kinds::update) {
    reads.push_back(places_.root(program_.weights[step.peer].gradient));
  } else {
    add_moves(step, reads, writes);
  }
  const auto tensors_of = [&](const std::vector<value_id>& roots) {
    std::vector<tensor_id> all;
    for (const auto v : roots) {
      if (tensor_of(v).valid()) {
        all.push_back(tensor_of(v));
      }
    }
    return all;
  };
  auto written = tensors_of(writes);
  if (workspace > 0) {
    written.push_back(graph_.add_tensor("workspace", in_arena(workspace)));
    values_.emplace_back();
  }
  const auto o = graph_.add_operator(std::move(name), tensors_of(reads), std::move(written));
  if (is_ordered_ && o.index() > 0) {
    graph_.add_order(operator_id{o.index() - 1}, o);
  }
  for (const auto v : reads) {  // of values without a tensor, because they stay
    if (const auto maker = makers_[v.index()]; maker.valid() && maker != o) {
      graph_.add_order(maker, o);
    }
  }
  for (const auto v : writes) {
    makers_[v.index()] = tensor_of(v).valid() ? operator_id{} : o;
  }
  steps_.push_back(s);
  under_way_.push_back(tensors_of(begun_));
}

}  // namespace unity::train::detail

#endif
