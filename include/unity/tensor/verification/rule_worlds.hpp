// A substitution of tensor graphs as questions for entailment: its sides at several sampled sizes.
//
// Instances of a rule can differ in more than sizes: in ranks, in the number of repetitions, in what broadcasts.
// Instances that differ only in sizes form a case. They are ordered so that the first few distinguish any two sizes or
// attributes that can differ; these are the worlds of the first question.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/generator.hpp>
#include <unity/tensor/rules/instance.hpp>

namespace unity::tensor {

struct world_options {
  std::size_t instances = 40;    // number of instances to sample; up to 20 times as many until enough targets fit
  std::size_t attempts = 20000;  // per instance
  std::size_t varied = 2;        // instances whose variations are all included
  std::size_t collapsed = 1;     // instances for which those that broadcast more are included
  std::size_t searched = 500;    // searches for an instance in which numbers differ that were always equal so far
  std::size_t patience = 100;    // attempts per search
  std::size_t worlds = 5;        // per question
  std::uint64_t seed = 1;
};

// An instance, and both sides of the rule on shared inputs: first the outputs of the source, then those of the target.
struct rule_world {
  rule_instance instance{};
  tensor_graph graph{};
};

// Instances that differ only in sizes and numbers.
using rule_case = std::vector<rule_world>;

namespace detail {

// Both sides in one graph; nothing if one cannot be built or their output types differ.
[[nodiscard]] std::optional<tensor_graph> joined_sides(const algebra& a, const substitution& s, const rule_instance& i);

// A hash of what the instances of a case have in common: repetitions, ranks, element types, which values are constant,
// attributes that choose among words, and the dimensions along which an operand of a binary operator is broadcast.
[[nodiscard]] std::uint64_t case_of(const algebra& a, const rule_instance& i, const tensor_graph& g);

// The numbers that an instance chooses: sizes and attributes.
[[nodiscard]] std::vector<std::int64_t> numbers(const rule_instance& i);

// Picks members greedily: each time the one that distinguishes the most pairs of numbers that are not yet
// distinguished.
[[nodiscard]] std::vector<std::size_t> choose_worlds(const rule_case& members, std::size_t most);

// The chosen members first, then the others in their order.
[[nodiscard]] rule_case spread_first(rule_case members, std::size_t worlds);

[[nodiscard]] bool same_structure(const tensor_graph& a, const tensor_graph& b);

}  // namespace detail

namespace detail {

// Sorts instances into cases.
class case_collector {
 public:
  case_collector(const algebra& a, const substitution& s, const world_options& o)
      : algebra_{a}, s_{s}, options_{o}, generator_{std::in_place, a, s, o.seed} {}

  std::vector<rule_case> run();

 private:
  void collect() {
    sample();
    search();
  }
  void sample();
  // Two numbers may be equal in nearly all instances but not in all: two kernels, if a stride hides the effect of the
  // larger one. A proof must not rely on that, so the rare instances in which they differ are worlds as well.
  void search();
  // Whether two numbers differ that were equal in all instances with equally many numbers.
  [[nodiscard]] bool tells_apart(const rule_instance& instance) const;
  void tell_apart(const rule_instance& instance);
  void add_all(const std::vector<rule_instance>& instances);
  // Returns whether the target fits.
  bool add(const rule_instance& instance);

  const algebra& algebra_;
  const substitution& s_;
  const world_options& options_;
  std::optional<instance_generator> generator_;
  std::vector<std::uint64_t> keys_;  // by case
  std::vector<rule_case> cases_;
  bool only_scalars_ = true;
  std::map<std::size_t, std::vector<bool>> apart_;  // by number of numbers: pairs that differ in some instance
};

}  // namespace detail

// The cases of random instances of `s` and of systematic variations of these, in the order of discovery. None if all
// instances that were found have scalars alone, although no condition asks for that.
// Complexity: linear in the requested instances and the attempts to find them.
[[nodiscard]] inline std::vector<rule_case> rule_cases(const algebra& a, const substitution& s,
                                                       const world_options& options = {}) {
  return detail::case_collector{a, s, options}.run();
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_RULE_WORLDS)

#include <algorithm>
#include <span>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<tensor_graph> joined_sides(const algebra& a, const substitution& s, const rule_instance& i) {
  auto joined = source_graph(a, s, i);
  const auto target = target_graph(a, s, i);
  if (!joined || !target) {
    return std::nullopt;
  }
  std::size_t variables = 0;  // at the start of both graphs
  for (const auto& types : i.values) {
    variables += types.size();
  }
  std::vector<value_id> copy(target->value_count());
  for (const auto node : node_ids(*target)) {
    if (node.index() < variables) {
      copy[target->results(node)[0].index()] = joined->results(node)[0];
    } else {
      copy_node(*target, node, *joined, copy);
    }
  }
  std::vector<value_id> outputs{joined->outputs().begin(), joined->outputs().end()};
  for (std::size_t r = 0; r < target->outputs().size(); ++r) {
    if (target->type(target->outputs()[r]) != joined->type(outputs[r])) {
      return std::nullopt;
    }
    outputs.push_back(copy[target->outputs()[r].index()]);
  }
  joined->set_outputs(outputs);
  return joined;
}

UNITY_INLINE std::uint64_t case_of(const algebra& a, const rule_instance& i, const tensor_graph& g) {
  std::uint64_t h = i.repetitions;
  for (const auto& types : i.values) {
    for (const auto& t : types) {
      h = hash_combine(h, t.rank() * 4 + (t.constant ? 1 : 0));
      h = hash_combine(h, static_cast<std::uint64_t>(t.element));
    }
  }
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    for (const auto& [field, value] : ranges::views::zip(a.signature(op.kind).attributes, op.attributes)) {
      h = field.form == attribute_form::choice ? hash_combine(h, hash_value(value)) : h;
    }
    const auto operands = g.operands(n);
    if (operands.size() != 2) {
      continue;
    }
    const auto& x = g.type(operands[0]).dims;
    const auto& y = g.type(operands[1]).dims;
    for (std::size_t d = 1; d <= std::min(x.size(), y.size()); ++d) {
      const auto p = x[x.size() - d];
      const auto q = y[y.size() - d];
      h = hash_combine(h, p == 1 && q != 1 ? 1 : p != 1 && q == 1 ? 2 : 0);
    }
  }
  return h;
}

UNITY_INLINE std::vector<std::int64_t> numbers(const rule_instance& i) {
  std::vector<std::int64_t> all;
  for (const auto& types : i.values) {
    for (const auto& t : types) {
      all.insert(all.end(), t.dims.begin(), t.dims.end());
    }
  }
  for (const auto& ops : i.source) {
    for (const auto& op : ops) {
      for (const auto& a : op.attributes) {
        all.insert(all.end(), a.begin(), a.end());
      }
    }
  }
  return all;
}

UNITY_INLINE std::vector<std::size_t> choose_worlds(const rule_case& members, std::size_t most) {
  std::vector<std::vector<std::int64_t>> of;
  for (const auto& m : members) {
    of.push_back(numbers(m.instance));
  }
  std::vector<std::size_t> chosen;
  std::vector<bool> apart(of[0].size() * of[0].size());
  while (chosen.size() < most) {
    std::size_t best = 0;
    std::size_t best_gain = 0;
    for (std::size_t m = 0; m < of.size(); ++m) {
      std::size_t gain = 0;
      for (std::size_t i = 0; of[m].size() == of[0].size() && i < of[m].size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          gain += of[m][i] != of[m][j] && !apart[i * of[0].size() + j] ? 1 : 0;
        }
      }
      if (gain > best_gain) {
        best = m;
        best_gain = gain;
      }
    }
    if (best_gain == 0) {
      break;
    }
    chosen.push_back(best);
    for (std::size_t i = 0; i < of[best].size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        apart[i * of[0].size() + j] = apart[i * of[0].size() + j] || of[best][i] != of[best][j];
      }
    }
  }
  return chosen;
}

UNITY_INLINE rule_case spread_first(rule_case members, std::size_t worlds) {
  const auto chosen = choose_worlds(members, worlds);
  rule_case all;
  for (const auto m : chosen) {
    all.push_back(std::move(members[m]));
  }
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (std::find(chosen.begin(), chosen.end(), m) == chosen.end()) {
      all.push_back(std::move(members[m]));
    }
  }
  return all;
}

UNITY_INLINE bool same_structure(const tensor_graph& a, const tensor_graph& b) {
  if (a.node_count() != b.node_count() || a.value_count() != b.value_count() ||
      !std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end())) {
    return false;
  }
  for (const auto node : node_ids(a)) {
    if (a.operation(node).kind != b.operation(node).kind || !std::ranges::equal(a.operands(node), b.operands(node)) ||
        a.results(node).size() != b.results(node).size()) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE std::vector<rule_case> case_collector::run() {
  collect();
  if (cases_.empty()) {  // few shapes fit
    generator_.emplace(algebra_, s_, options_.seed, true);
    collect();
  }
  if (only_scalars_) {
    return {};
  }
  for (auto& c : cases_) {
    c = spread_first(std::move(c), options_.worlds);
  }
  return std::move(cases_);
}

UNITY_INLINE void case_collector::sample() {
  std::size_t found = 0;
  constexpr std::size_t most_misfits = 20;
  const auto enough = std::max<std::size_t>(1, options_.varied);
  for (std::size_t k = 0; k < options_.instances * (found < enough ? most_misfits : 1); ++k) {
    const auto instance = generator_->next(options_.attempts);
    if (!instance) {
      break;
    }
    if (!add(*instance)) {
      continue;
    }
    if (found < options_.varied) {
      add_all(generator_->variations(*instance));
    }
    if (found < options_.collapsed) {
      add_all(generator_->collapses(*instance));
    }
    ++found;
  }
}

UNITY_INLINE void case_collector::search() {
  for (std::size_t k = 0; k < options_.searched && !cases_.empty(); ++k) {
    const auto instance = generator_->next(options_.patience);
    if (instance && tells_apart(*instance)) {
      add(*instance);
    }
  }
}

UNITY_INLINE bool case_collector::tells_apart(const rule_instance& instance) const {
  const auto all = numbers(instance);
  const auto known = apart_.find(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i] != all[j] && (known == apart_.end() || !known->second[i * all.size() + j])) {
        return true;
      }
    }
  }
  return false;
}

UNITY_INLINE void case_collector::tell_apart(const rule_instance& instance) {
  const auto all = numbers(instance);
  auto& apart = apart_[all.size()];
  apart.resize(all.size() * all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      apart[i * all.size() + j] = apart[i * all.size() + j] || all[i] != all[j];
    }
  }
}

UNITY_INLINE void case_collector::add_all(const std::vector<rule_instance>& instances) {
  for (const auto& i : instances) {
    add(i);
  }
}

UNITY_INLINE bool case_collector::add(const rule_instance& instance) {
  auto graph = joined_sides(algebra_, s_, instance);
  if (!graph) {
    return false;
  }
  const auto key = case_of(algebra_, instance, *graph);
  std::size_t at = 0;
  while (at < keys_.size() && (keys_[at] != key || !same_structure(cases_[at][0].graph, *graph))) {
    ++at;
  }
  if (at == keys_.size()) {
    keys_.push_back(key);
    cases_.emplace_back();
  }
  tell_apart(instance);
  only_scalars_ = only_scalars_ && generator_->only_scalars(instance, *graph);
  cases_[at].push_back({instance, *std::move(graph)});
  return true;
}

}  // namespace unity::tensor::detail

#endif
