// Passes over the programs of ranks: they expand composites to primitive operators, remove operators with unread
// results, and reduce programs to the steps that compute the outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::parallel {

// Removes backward passes and updates: no weight has a gradient. Precondition: nothing is delayed. Complexity: linear
// in the programs.
[[nodiscard]] rank_programs forward_programs(rank_programs all);

// The program without steps that run operators none of whose results are read. Complexity: linear in steps and their
// operands.
[[nodiscard]] rank_program without_unread(const rank_program& p);

// The program with composites replaced by their bodies (tensor/convert.hpp). Operators with unread results are
// removed. Complexity: linear in the result.
[[nodiscard]] rank_program spelled_out(const tensor::algebra& a, const rank_program& p);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_SPELLED_OUT)

#include <algorithm>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

UNITY_INLINE rank_programs forward_programs(rank_programs all) {
  for (auto& p : all.ranks) {
    std::vector<rank_step> forward;
    std::vector<std::uint32_t> now(p.steps.size());  // new number of each remaining step
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      auto step = p.steps[s];
      UNITY_EXPECTS(!step.is_late, "programs without late steps");
      if (step.is_backward || step.kind == step_kind::update) {
        continue;
      }
      if (step.kind == step_kind::wait) {
        step.peer = now[step.peer];
      }
      now[s] = static_cast<std::uint32_t>(forward.size());
      forward.push_back(step);
    }
    p.steps = std::move(forward);
    p.cotangents.clear();
    for (auto& w : p.weights) {
      w.gradient = {};
      w.next = {};
    }
  }
  return all;
}

namespace detail {

// By step: false if it runs an operator none of whose results are read.
UNITY_INLINE std::vector<bool> needed_steps(const rank_program& p) {
  std::vector<bool> is_read(p.graph.value_count());
  const auto read = [&](value_id v) {
    if (v.valid()) {
      is_read[v.index()] = true;
    }
  };
  for (const auto& o : p.outputs) {
    read(o.value);
  }
  for (const auto& w : p.weights) {
    read(w.gradient);
    read(w.next);
  }
  for (const auto& k : p.kept) {
    read(k.after);
  }
  std::vector<bool> needed(p.steps.size(), true);
  for (auto s = p.steps.size(); s-- > 0;) {
    const auto& step = p.steps[s];
    read(step.value);
    if (step.kind == step_kind::run) {
      const auto results = p.graph.results(step.node);
      needed[s] = std::any_of(results.begin(), results.end(), [&](value_id v) { return is_read[v.index()]; });
      for (const auto v : needed[s] ? p.graph.operands(step.node) : std::span<const value_id>{}) {
        read(v);
      }
    }
  }
  return needed;
}

}  // namespace detail

UNITY_INLINE rank_program without_unread(const rank_program& p) {
  const auto needed = detail::needed_steps(p);
  auto all = p;
  all.steps.clear();
  std::vector<std::uint32_t> places;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    places.push_back(static_cast<std::uint32_t>(all.steps.size()));
    if (needed[s]) {
      all.steps.push_back(p.steps[s]);
    }
  }
  for (auto& step : all.steps) {
    step.peer = step.kind == step_kind::wait ? places[step.peer] : step.peer;
  }
  return all;
}

UNITY_INLINE rank_program spelled_out(const tensor::algebra& a, const rank_program& p) {
  rank_program all = p;
  all.graph = {};
  all.steps.clear();
  std::vector<value_id> now(p.graph.value_count());
  std::vector<std::size_t> first;  // by node: the first of its new nodes
  for (const auto n : node_ids(p.graph)) {
    first.push_back(all.graph.node_count());
    tensor::append_spelled_out(a, p.graph, n, all.graph, now);
  }
  first.push_back(all.graph.node_count());
  const auto follow = [&](value_id& v) { v = v.valid() ? now[v.index()] : v; };
  std::vector<std::uint32_t> places;
  for (const auto& s : p.steps) {
    places.push_back(static_cast<std::uint32_t>(all.steps.size()));
    auto step = s;
    follow(step.value);
    if (s.kind == step_kind::run) {
      for (auto n = first[s.node.index()]; n < first[s.node.index() + 1]; ++n) {
        step.node = node_id{n};
        all.steps.push_back(step);
      }
      continue;
    }
    step.node = s.node.valid() ? node_id{first[s.node.index()]} : s.node;
    all.steps.push_back(step);
  }
  for (auto& step : all.steps) {  // waits of earlier iterations may come before what they wait for
    step.peer = step.kind == step_kind::wait ? places[step.peer] : step.peer;
  }
  for (auto& x : all.inputs) {
    follow(x.value);
  }
  for (auto* outputs : {&all.cotangents, &all.outputs}) {
    for (auto& x : *outputs) {
      follow(x.value);
    }
  }
  for (auto& w : all.weights) {
    follow(w.weight.value);
    follow(w.gradient);
    follow(w.next);
  }
  for (auto& k : all.kept) {
    follow(k.before);
    follow(k.after);
  }
  std::vector<value_id> leave;
  for (const auto v : p.graph.outputs()) {
    leave.push_back(now[v.index()]);
  }
  all.graph.set_outputs(leave);
  return without_unread(all);
}

}  // namespace unity::parallel

#endif
