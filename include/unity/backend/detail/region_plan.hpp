// Divides a region into operators that run once, before all others, and operators that run on one slice of rows at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/fusion/row_roles.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::detail {

// A part of a region's computation as the body of a composite: its first nodes, without a kind, are the operands.
struct region_piece {
  struct operand {
    value_id value{};  // of the region's graph
    bool by_rows = false;
  };
  tensor::tensor_graph graph{};
  std::vector<operand> operands{};
  std::vector<value_id> results{};  // values of the region: first its outputs, then values that other pieces read
};

// Rows are as fine as the operators permit, so that slices fit into a cache. Values without rows are computed once,
// before all slices, except aliases of their operands, and values that are read only by rows and can be computed by
// rows, such as zeros for each sample.
class region_plan {
 public:
  // Throws: unity::error that names an operator that mixes rows, reads a sum over rows or does not take its operands.
  region_plan(const tensor::algebra& a, const fusion::kernel_region& region);

  [[nodiscard]] const tensor::tensor_graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const std::vector<value_id>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  // Bytes per row of the values that slices read or write in memory, including the region's operands and results.
  [[nodiscard]] std::size_t bytes_per_row() const;
  [[nodiscard]] tensor::reduction fold(value_id v) const { return labels_.folds[v.index()]; }
  [[nodiscard]] bool is_made_by_rows(value_id v) const { return by_rows_[graph_.producer(v).index()]; }

  [[nodiscard]] region_piece before() const;
  // The part that runs on a slice of `count` rows.
  // Throws: unity::error that names an operator that cannot run on that many rows.
  [[nodiscard]] region_piece on_rows(std::int64_t count) const;
  // The factor that makes a sum over `count` rows a term of the sum over all rows: a part of a mean divides by fewer
  // rows.
  [[nodiscard]] double share(value_id v, std::int64_t count) const;

 private:
  [[nodiscard]] std::vector<value_id> divided_inputs(const fusion::kernel_region& region) const;
  // The largest number of rows over which the same values are divided.
  void choose_rows(const fusion::kernel_region& region);
  void expect_rows() const;
  void place();
  void place_whole(node_id n);
  void need_operands(node_id n, bool by_rows);
  [[nodiscard]] bool is_alias(node_id n) const;
  [[nodiscard]] parallel::part_of_operation whole(node_id n) const;
  [[nodiscard]] parallel::part_of_operation part(node_id n, std::int64_t count) const;
  [[nodiscard]] bool is_by_rows(value_id v) const { return fold(v) == tensor::reduction::none && is_made_by_rows(v); }

  enum need : unsigned char { by_slices = 1, whole_in_slices = 2, before_slices = 4 };

  const tensor::algebra& algebra_;
  tensor::tensor_graph graph_;
  std::vector<value_id> inputs_{};
  std::int64_t rows_ = 1;
  fusion::row_labels labels_{};
  std::vector<unsigned char> needs_{};              // per value: a set of `need`
  std::vector<bool> by_rows_{};                     // per node: runs on slices
  std::vector<bool> aliases_{};                     // per node: aliases, within slices, a value without rows
  std::vector<bool> before_{};                      // per node: runs before all slices
  std::vector<std::vector<bool>> reads_by_rows_{};  // per node that runs on slices, by operand
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DETAIL_REGION_PLAN)

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/tasks/task_share.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::backend::detail {

[[nodiscard]] inline std::string region_place(const tensor::algebra& a, const tensor::tensor_graph& g, node_id n) {
  const auto kind = g.operation(n).kind;
  return fmt::format("region: node {} ({})", n.index(), kind.valid() ? a.signature(kind).name : "of no kind");
}

UNITY_INLINE region_plan::region_plan(const tensor::algebra& a, const fusion::kernel_region& region) : algebra_{a} {
  const auto input = a.kind("input");
  for (const auto n : node_ids(region.graph)) {
    const auto& op = region.graph.operation(n);
    const auto operands = region.graph.operands(n);
    auto types = types_of(region.graph, region.graph.results(n));
    if (op.kind != input) {
      auto found = a.infer(op, types_of(graph_, operands));
      if (!found) {
        throw error{region_place(a, region.graph, n), "operands that it does not take",
                    a.why_not(op, types_of(graph_, operands))};
      }
      types = std::move(*found);
    }
    for (auto& t : types) {
      t.constant = t.constant && op.kind != input;
    }
    const auto results = graph_.results(graph_.add_node(op, operands, types));
    if (op.kind == input) {
      inputs_.push_back(results[0]);
    }
  }
  graph_.set_outputs(region.graph.outputs());
  choose_rows(region);
  expect_rows();
  place();
}

UNITY_INLINE std::vector<value_id> region_plan::divided_inputs(const fusion::kernel_region& region) const {
  std::vector<value_id> divided;
  for (const auto v : inputs_) {
    if (v.index() < region.is_divided.size() && region.is_divided[v.index()]) {
      divided.push_back(v);
    }
  }
  return divided;
}

UNITY_INLINE void region_plan::choose_rows(const fusion::kernel_region& region) {
  const auto divided = divided_inputs(region);
  const auto fits = [&](std::int64_t rows) {
    return std::all_of(divided.begin(), divided.end(),
                       [&](value_id v) { return fusion::divides(graph_.type(v), rows); });
  };
  if (!fits(region.rows)) {
    throw error{"region", fmt::format("{} rows", region.rows), "divided inputs of as many rows"};
  }
  rows_ = divided.empty() ? 1 : region.rows;
  labels_ = fusion::row_roles(algebra_, graph_, divided, rows_);
  if (rows_ == 1) {
    return;
  }
  std::vector<std::int64_t> finer;
  std::int64_t reached = 1;
  for (const auto size : graph_.type(divided[0]).dims) {
    reached *= size;
    if (reached > rows_ && reached % rows_ == 0 && fits(reached)) {
      finer.push_back(reached);
    }
  }
  std::sort(finer.begin(), finer.end(), std::greater<>{});
  for (const auto rows : finer) {
    auto found = fusion::row_roles(algebra_, graph_, divided, rows);
    const bool mixes = std::find(found.roles.begin(), found.roles.end(), fusion::row_role::mixing) != found.roles.end();
    if (!mixes && found.is_divided == labels_.is_divided) {
      labels_ = std::move(found);
      rows_ = rows;
      return;
    }
  }
}

UNITY_INLINE void region_plan::expect_rows() const {
  for (const auto n : node_ids(graph_)) {
    if (labels_.roles[n.index()] == fusion::row_role::mixing) {
      throw error{region_place(algebra_, graph_, n), "rows that depend on each other", "operators that go row by row"};
    }
    for (const auto v : graph_.operands(n)) {
      if (fold(v) != tensor::reduction::none) {
        throw error{region_place(algebra_, graph_, n), "a sum or maximum over rows as an operand",
                    "an operand that is known before all rows are computed"};
      }
    }
  }
}

UNITY_INLINE void region_plan::place() {
  needs_.assign(graph_.value_count(), 0);
  by_rows_.assign(graph_.node_count(), false);
  aliases_.assign(graph_.node_count(), false);
  before_.assign(graph_.node_count(), false);
  reads_by_rows_.resize(graph_.node_count());
  for (const auto v : graph_.outputs()) {
    const auto role = labels_.roles[graph_.producer(v).index()];
    needs_[v.index()] |= role == fusion::row_role::whole ? before_slices : by_slices;
  }
  for (auto i = graph_.node_count(); i-- > 0;) {
    const node_id n{i};
    unsigned char needs = 0;
    for (const auto v : graph_.results(n)) {
      needs = static_cast<unsigned char>(needs | needs_[v.index()]);
    }
    const bool is_input = std::find(inputs_.begin(), inputs_.end(), graph_.results(n)[0]) != inputs_.end();
    if (needs == 0 || is_input) {
      continue;
    }
    if (labels_.roles[i] == fusion::row_role::whole) {
      place_whole(n);
      continue;
    }
    std::vector<bool> is_divided;
    for (const auto v : graph_.operands(n)) {
      is_divided.push_back(labels_.is_divided[v.index()]);
    }
    reads_by_rows_[i] =
        fusion::rows_of(algebra_, graph_.operation(n), types_of(graph_, graph_.operands(n)), is_divided, rows_).by_rows;
    need_operands(n, true);
  }
}

UNITY_INLINE void region_plan::place_whole(node_id n) {
  const auto i = n.index();
  unsigned char needs = 0;
  for (const auto v : graph_.results(n)) {
    needs = static_cast<unsigned char>(needs | needs_[v.index()]);
  }
  const auto inputs = types_of(graph_, graph_.operands(n));
  if (needs == by_slices && algebra_.definition_of(graph_.operation(n).kind).source == tensor::source_kind::none) {
    auto found = fusion::rows_of_results(algebra_, graph_.operation(n), inputs, rows_);
    if (found.role == fusion::row_role::local) {
      reads_by_rows_[i] = std::move(found.by_rows);
      need_operands(n, true);
      return;
    }
  }
  aliases_[i] = (needs & whole_in_slices) != 0 && is_alias(n);
  before_[i] = (needs & (by_slices | before_slices)) != 0 || !aliases_[i];
  for (const auto v : graph_.operands(n)) {
    needs_[v.index()] = static_cast<unsigned char>(needs_[v.index()] | (aliases_[i] ? whole_in_slices : 0) |
                                                   (before_[i] ? before_slices : 0));
  }
}

UNITY_INLINE void region_plan::need_operands(node_id n, bool by_rows) {
  by_rows_[n.index()] = by_rows;
  const auto operands = graph_.operands(n);
  for (std::size_t x = 0; x < operands.size(); ++x) {
    needs_[operands[x].index()] |= reads_by_rows_[n.index()][x] ? by_slices : whole_in_slices;
  }
}

UNITY_INLINE bool region_plan::is_alias(node_id n) const {
  const auto parts = shared_results(algebra_, graph_.operation(n), types_of(graph_, graph_.operands(n)),
                                    types_of(graph_, graph_.results(n)));
  return parts && parts->size() == 1 && (*parts)[0].offset == bytes{};
}

UNITY_INLINE std::size_t region_plan::bytes_per_row() const {
  std::vector<bool> is_inside(graph_.node_count());  // of a chain: its intermediate results are not in memory
  for (const auto& chain : elementwise_chains(algebra_, graph_)) {
    for (std::size_t i = 0; i + 1 < chain.nodes.size(); ++i) {
      is_inside[chain.nodes[i].index()] = true;
    }
  }
  std::size_t total = 0;
  for (const auto v : value_ids(graph_)) {
    const bool has_rows = (needs_[v.index()] & by_slices) != 0 && fold(v) == tensor::reduction::none &&
                          !is_inside[graph_.producer(v).index()];
    total += has_rows ? byte_count(graph_.type(v)) / static_cast<std::size_t>(rows_) : 0;
  }
  return total;
}

UNITY_INLINE region_piece region_plan::before() const {
  region_piece p;
  std::vector<value_id> now(graph_.value_count());
  for (const auto v : inputs_) {
    if ((needs_[v.index()] & before_slices) != 0) {
      p.operands.push_back({v, false});
      now[v.index()] = p.graph.results(p.graph.add_node({}, {}, {&graph_.type(v), 1}))[0];
    }
  }
  for (const auto n : node_ids(graph_)) {
    if (!before_[n.index()]) {
      continue;
    }
    std::vector<value_id> operands;
    for (const auto v : graph_.operands(n)) {
      operands.push_back(now[v.index()]);
    }
    const auto results = graph_.results(n);
    const auto made = p.graph.add_node(graph_.operation(n), operands, types_of(graph_, results));
    for (std::size_t r = 0; r < results.size(); ++r) {
      now[results[r].index()] = p.graph.results(made)[r];
    }
  }
  for (const auto v : graph_.outputs()) {
    if (!is_made_by_rows(v)) {
      p.results.push_back(v);
    }
  }
  for (const auto v : value_ids(graph_)) {
    const auto n = graph_.producer(v).index();
    const bool is_read =
        (needs_[v.index()] & by_slices) != 0 || ((needs_[v.index()] & whole_in_slices) != 0 && !aliases_[n]);
    if (before_[n] && is_read && std::find(p.results.begin(), p.results.end(), v) == p.results.end()) {
      p.results.push_back(v);
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : p.results) {
    outputs.push_back(now[v.index()]);
  }
  p.graph.set_outputs(outputs);
  return p;
}

UNITY_INLINE region_piece region_plan::on_rows(std::int64_t count) const {
  region_piece p;
  std::vector<value_id> whole(graph_.value_count());
  std::vector<value_id> sliced(graph_.value_count());
  const auto type_of = [&](value_id v, bool by_rows) {
    auto t = graph_.type(v);
    t.dims = by_rows ? fusion::shape_of_rows(t, rows_, count) : t.dims;
    t.constant = false;
    return t;
  };
  const auto reads = [&](node_id n, std::size_t x) { return by_rows_[n.index()] && reads_by_rows_[n.index()][x]; };
  for (const auto n : node_ids(graph_)) {
    const auto operands = graph_.operands(n);
    for (std::size_t x = 0; (by_rows_[n.index()] || aliases_[n.index()]) && x < operands.size(); ++x) {
      const auto v = operands[x];
      auto& now = (reads(n, x) ? sliced : whole)[v.index()];
      const bool is_made = reads(n, x) ? is_made_by_rows(v) : aliases_[graph_.producer(v).index()];
      if (!is_made && !now.valid()) {
        const auto t = type_of(v, reads(n, x));
        p.operands.push_back({v, reads(n, x)});
        now = p.graph.results(p.graph.add_node({}, {}, {&t, 1}))[0];
      }
    }
  }
  for (const auto n : node_ids(graph_)) {
    if (!by_rows_[n.index()] && !aliases_[n.index()]) {
      continue;
    }
    std::vector<value_id> operands;
    for (std::size_t x = 0; x < graph_.operands(n).size(); ++x) {
      operands.push_back((reads(n, x) ? sliced : whole)[graph_.operands(n)[x].index()]);
    }
    const auto results = graph_.results(n);
    const auto op = by_rows_[n.index()] ? part(n, count).op : graph_.operation(n);
    const auto made = p.graph.add_node(op, operands, *algebra_.infer(op, types_of(p.graph, operands)));
    for (std::size_t r = 0; r < results.size(); ++r) {
      (is_by_rows(results[r]) ? sliced : whole)[results[r].index()] = p.graph.results(made)[r];
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : graph_.outputs()) {
    if (is_made_by_rows(v)) {
      p.results.push_back(v);
      outputs.push_back((is_by_rows(v) ? sliced : whole)[v.index()]);
    }
  }
  p.graph.set_outputs(outputs);
  return p;
}

UNITY_INLINE parallel::part_of_operation region_plan::whole(node_id n) const {
  return {graph_.operation(n), types_of(graph_, graph_.operands(n)), types_of(graph_, graph_.results(n))};
}

UNITY_INLINE parallel::part_of_operation region_plan::part(node_id n, std::int64_t count) const {
  auto made = whole(n);
  const auto of_all = made;
  tensor::resizing sizes{of_all.op, of_all.inputs, of_all.outputs, {}, {}, {}, {}};
  for (std::size_t x = 0; x < made.inputs.size(); ++x) {
    auto& t = made.inputs[x];
    t.dims = reads_by_rows_[n.index()][x] ? fusion::shape_of_rows(t, rows_, count) : t.dims;
    sizes.new_inputs.push_back(t.dims);
  }
  for (std::size_t r = 0; r < made.outputs.size(); ++r) {
    auto& t = made.outputs[r];
    t.dims = is_by_rows(graph_.results(n)[r]) ? fusion::shape_of_rows(t, rows_, count) : t.dims;
    sizes.new_outputs.push_back(t.dims);
  }
  made.op = tensor::resized_part(algebra_, sizes);
  const auto found = algebra_.infer(made.op, made.inputs);
  bool fits = found && found->size() == made.outputs.size();
  for (std::size_t r = 0; fits && r < found->size(); ++r) {
    fits = (*found)[r].dims == made.outputs[r].dims;
  }
  if (!fits) {
    throw error{region_place(algebra_, graph_, n), fmt::format("other results on {} of {} rows", count, rows_),
                "an operator that runs on a part of its rows"};
  }
  return made;
}

UNITY_INLINE double region_plan::share(value_id v, std::int64_t count) const {
  const auto n = graph_.producer(v);
  const std::vector<parallel::scaled_value> operands(graph_.operands(n).size());
  const auto made = parallel::scaled_results(algebra_, whole(n), part(n, count), operands);
  if (!made) {
    throw error{region_place(algebra_, graph_, n), "a sum whose parts do not add up to it", "a sum or mean over rows"};
  }
  const auto results = graph_.results(n);
  return (*made)[static_cast<std::size_t>(std::find(results.begin(), results.end(), v) - results.begin())].ratio();
}

}  // namespace unity::backend::detail

#endif
