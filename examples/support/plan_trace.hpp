// Counts and prints the parallel substitutions that lead to a plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/parallel/rules/substitution_trace.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace support {

// The grid of each node of the plan; that of a source is empty and not read.
inline std::vector<unity::parallel::operator_grid> grids_of(const unity::tensor::algebra& operators,
                                                            const unity::parallel::plan& p) {
  using namespace unity;
  const parallel::graph_dimensions all{operators, p.graph};
  std::vector<parallel::operator_grid> grids;
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    grids.push_back(o.inputs.empty() ? parallel::operator_grid{} : parallel::grid_of(o, p.configurations[n.index()]));
  }
  return grids;
}

// The steps from the plan's undivided graph to its parallel computation graph, in order.
inline std::vector<unity::parallel::substitution_step> trace_of(const unity::tensor::algebra& operators,
                                                                const unity::parallel::plan& p) {
  return unity::parallel::trace_of(unity::parallel::pcg_algebra{operators}, p.graph, grids_of(operators, p)).steps;
}

// "data", "reduction", ..., "terms", "copies"; empty for a change of a chain.
inline std::string kind_of(const unity::tensor::algebra& operators, const unity::parallel::graph_dimensions& all,
                           const unity::parallel::substitution_step& s) {
  using namespace unity::parallel;
  if (!s.axis) {
    return {};
  }
  if (s.axis->kind == grid_axis::kinds::copies || s.axis->kind == grid_axis::kinds::partial) {
    return s.axis->kind == grid_axis::kinds::copies ? "copies" : "terms";
  }
  return std::string{index_use_names[static_cast<std::size_t>(use_of(operators, all[s.node], s.axis->number))]};
}

struct rule_count {
  std::string rule{};
  std::string kind{};   // of parallelism that it introduces
  bool is_rule = true;  // false: no rule leads there
  std::size_t count = 0;
};

// Counts by rule and kind of parallelism, for all degrees and dimensions, in the order of first occurrence.
inline std::vector<rule_count> counted(const unity::tensor::algebra& operators, const unity::tensor::tensor_graph& g,
                                       const std::vector<unity::parallel::substitution_step>& steps) {
  const unity::parallel::graph_dimensions dimensions{operators, g};
  std::vector<rule_count> all;
  for (const auto& s : steps) {
    const auto kind = kind_of(operators, dimensions, s);
    auto at =
        std::find_if(all.begin(), all.end(), [&](const rule_count& c) { return c.rule == s.rule && c.kind == kind; });
    if (at == all.end()) {
      at = all.insert(all.end(), {s.rule, kind, s.is_rule, 0});
    }
    ++at->count;
  }
  return all;
}

// A line for each step: its rule, and the operator at which it is applied.
inline std::string to_text(const unity::tensor::algebra& operators, const unity::parallel::plan& p,
                           const std::vector<unity::parallel::substitution_step>& steps) {
  std::string text;
  for (const auto& s : steps) {
    text += fmt::format("{}, ", unity::parallel::to_string(s));
    text += s.node.valid()
                ? fmt::format("node {} ({})", s.node.index(), operators.signature(p.graph.operation(s.node).kind).name)
                : std::string{"an output"};
    text += "\n";
  }
  return text;
}

inline std::vector<unity::io::noted_division> notes_of(const std::vector<unity::parallel::substitution_step>& steps) {
  std::vector<unity::io::noted_division> notes;
  for (const auto& s : steps) {
    notes.push_back({s.rule, {s.values.begin(), s.values.end()}, s.reversed, s.is_rule, {}});
    if (s.node.valid()) {
      notes.back().node = static_cast<std::int64_t>(s.node.index());
    }
  }
  return notes;
}

}  // namespace support
