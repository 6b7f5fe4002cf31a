// The differences between two plans.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

struct plan_difference {
  // Operators of both plans that are divided differently, in the order of the first plan's graph.
  std::vector<std::pair<node_id, node_id>> divided{};
  // Operators of both plans whose results only one plan recomputes.
  std::vector<std::pair<node_id, node_id>> recomputed{};
  // Likewise, those that only one plan offloads.
  std::vector<std::pair<node_id, node_id>> offloaded{};
  // Operators of only one plan, in the order of its graph.
  std::vector<node_id> only_first{};
  std::vector<node_id> only_second{};
  std::size_t common = 0;  // operators of both
  // Weights of both plans, by name, that are synchronized differently.
  std::vector<std::string> synchronized{};
  bool has_other_machine = false;
  bool has_other_pipeline = false;
  bool has_other_optimizer = false;

  [[nodiscard]] bool is_none() const {
    return divided.empty() && recomputed.empty() && offloaded.empty() && only_first.empty() && only_second.empty() &&
           synchronized.empty() && !has_other_machine && !has_other_pipeline && !has_other_optimizer;
  }
};

// Operators correspond if they have the same attributes, operand types and result types and read weights of the same
// names; the first of several such operators corresponds to the first in the other plan, and so on. Weights correspond
// by name; weights that share a name correspond in their order.
// Complexity: n log n in the nodes.
[[nodiscard]] plan_difference difference_of(const tensor::algebra& a, const plan& first, const plan& second);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_PLAN_DIFFERENCE)

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

// A hash of what corresponding operators have in common.
UNITY_INLINE std::uint64_t signature_of(const tensor::tensor_graph& g, node_id n) {
  auto h = std::hash<tensor::operation>{}(g.operation(n));
  for (const auto v : g.operands(n)) {
    const auto from = g.producer(v);
    h = hash_combine(h, std::hash<tensor::tensor_type>{}(g.type(v)));
    h = hash_combine(h, g.operands(from).empty() ? std::hash<tensor::operation>{}(g.operation(from)) : 0);
  }
  for (const auto v : g.results(n)) {
    h = hash_combine(h, std::hash<tensor::tensor_type>{}(g.type(v)));
  }
  return h;
}

// Operators by signature, in the order of the graph.
UNITY_INLINE std::map<std::uint64_t, std::vector<node_id>> operators_by_signature(const tensor::tensor_graph& g) {
  std::map<std::uint64_t, std::vector<node_id>> all;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      all[signature_of(g, n)].push_back(n);
    }
  }
  return all;
}

// One form for each pipeline: a single stage is not listed by device.
UNITY_INLINE pipeline normalized(pipeline p) {
  if (p.stage_count() == 1) {
    p.stages.clear();
  }
  return p;
}

// How a weight is synchronized, with buckets by their names. If it has a single part, the axis is the default.
struct named_sync {
  weight_sync sync{};
  std::vector<std::string> buckets{};

  friend bool operator==(const named_sync&, const named_sync&) = default;
};

UNITY_INLINE std::map<std::string, std::vector<named_sync>> synchronizers_by_name(const tensor::algebra& a,
                                                                                  const plan& p) {
  std::map<std::string, std::vector<named_sync>> all;
  const training_graph training{a, p.graph};
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    const auto& weight = training.weights()[w];
    named_sync s;
    if (!p.synchronization.weights.empty()) {
      s.sync = p.synchronization.weights[w];
      for (auto& part : s.sync.parts) {
        s.buckets.push_back(part.bucket == synchronizer::no_bucket ? "" : p.synchronization.buckets[part.bucket]);
        part.bucket = synchronizer::no_bucket;
      }
      s.sync.axis = s.sync.parts.size() == 1 ? weight_sync{}.axis : s.sync.axis;
    } else {
      s.buckets.emplace_back();
    }
    all[std::string{a.read(p.graph.operation(p.graph.producer(weight.value))).word("name")}].push_back(std::move(s));
  }
  return all;
}

}  // namespace detail

UNITY_INLINE plan_difference difference_of(const tensor::algebra& a, const plan& first, const plan& second) {
  plan_difference d;
  d.has_other_machine = first.machine != second.machine;
  d.has_other_pipeline = detail::normalized(first.pipeline) != detail::normalized(second.pipeline);
  d.has_other_optimizer = first.updates != second.updates;
  std::vector<node_id> partner(first.graph.node_count());
  std::vector<bool> is_paired(second.graph.node_count());
  const auto others = detail::operators_by_signature(second.graph);
  for (const auto& [signature, nodes] : detail::operators_by_signature(first.graph)) {
    const auto found = others.find(signature);
    for (std::size_t i = 0; found != others.end() && i < std::min(nodes.size(), found->second.size()); ++i) {
      partner[nodes[i].index()] = found->second[i];
      is_paired[found->second[i].index()] = true;
    }
  }
  for (const auto n : node_ids(first.graph)) {
    if (first.graph.operands(n).empty()) {
      continue;
    }
    const auto m = partner[n.index()];
    if (!m.valid()) {
      d.only_first.push_back(n);
      continue;
    }
    ++d.common;
    if (first.configurations[n.index()] != second.configurations[m.index()]) {
      d.divided.emplace_back(n, m);
    }
    if (is_recomputed(first.recomputed, n) != is_recomputed(second.recomputed, m)) {
      d.recomputed.emplace_back(n, m);
    }
    if (is_offloaded(first.offloaded, n) != is_offloaded(second.offloaded, m)) {
      d.offloaded.emplace_back(n, m);
    }
  }
  for (const auto n : node_ids(second.graph)) {
    if (!second.graph.operands(n).empty() && !is_paired[n.index()]) {
      d.only_second.push_back(n);
    }
  }
  const auto theirs = detail::synchronizers_by_name(a, second);
  for (const auto& [name, own] : detail::synchronizers_by_name(a, first)) {
    const auto found = theirs.find(name);
    if (found != theirs.end() && own != found->second) {
      d.synchronized.push_back(name);
    }
  }
  return d;
}

}  // namespace unity::parallel

#endif
