// Detects plans whose computing ranks all do the same on their own samples, and chooses the ranks to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The devices of the tasks, if all operators have the same devices with one task each, tasks read only what the task
// with the same number made, and every task reads whole weights. Then a part of a batch is made from the same part,
// everything else is computed on each device, and only weights are exchanged between ranks. Parts have equal sizes, so
// ranks do the same on values of the same shapes. Empty if this does not hold or cannot be established, for example if
// windows run along a divided dimension. Complexity: linear in the graph, plus a comparison of devices.
[[nodiscard]] std::vector<hardware::device_id> identical_ranks(const tensor::tensor_graph& g,
                                                               const graph_dimensions& all,
                                                               const training_graph& training, const strategy& s);

}  // namespace unity::parallel

namespace unity::parallel::detail {

// The ranks whose programs are written, and the ranks that they represent.
class written_ranks {
 public:
  // All ranks.
  explicit written_ranks(std::size_t ranks) : has_(ranks, true) {}
  // One rank; and if it computes nothing, also the first that does. identical: a nonempty result of identical_ranks.
  written_ranks(std::size_t ranks, std::uint32_t only, std::span<const hardware::device_id> identical);

  [[nodiscard]] bool has(std::uint32_t rank) const { return has_[rank]; }
  // The written ranks of a group, which is ascending.
  [[nodiscard]] std::vector<std::uint32_t> of(const std::vector<std::uint32_t>& group) const;
  // Whether operators have a single task: that of the computing rank.
  [[nodiscard]] bool is_one() const noexcept { return !identical_.empty(); }
  [[nodiscard]] std::size_t task() const noexcept { return task_; }
  [[nodiscard]] hardware::device_id computing() const { return identical_[task_]; }
  // A written rank with values of the same types.
  [[nodiscard]] std::uint32_t like(std::uint32_t rank) const {
    return has_[rank] ? rank : static_cast<std::uint32_t>(computing().index());
  }
  // All ranks that compute the same as some of these written ranks.
  [[nodiscard]] std::vector<std::uint32_t> all_like(const std::set<std::uint32_t>& written) const;

 private:
  std::vector<bool> has_;  // by rank
  std::vector<hardware::device_id> identical_{};
  std::vector<std::uint32_t> ascending_{};  // the ranks of identical_, ascending
  std::vector<std::uint32_t> written_{};    // the written ranks, ascending; empty if all are
  std::size_t task_ = 0;
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_IDENTICAL_RANKS)

#include <algorithm>
#include <iterator>
#include <optional>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// The division of an operator over several devices. All members empty: each device computes everything.
struct divided_work {
  std::optional<std::size_t> index{};  // such as samples
  bool is_sum = false;                 // over that index
  std::optional<std::size_t> group{};  // of operands that are partial sums, like the results

  [[nodiscard]] bool makes_partials() const noexcept { return is_sum || group.has_value(); }
};

// nullopt if more than one of an index, a linear group and copies has a degree above 1.
UNITY_INLINE std::optional<divided_work> divided_work_of(const operator_dimensions& o, const configuration& c) {
  const auto grid = c.grid();
  const auto parts = index_degrees(o, grid);
  divided_work all{std::nullopt, product(grid.reductions) != 1, std::nullopt};
  auto count = c.copies != 1 ? 1 : 0;
  for (std::size_t i = 0; parts && i < parts->size(); ++i) {
    if ((*parts)[i] != 1) {
      all.index = i;
      ++count;
    }
  }
  for (std::size_t g = 0; g < grid.partials.size(); ++g) {
    if (grid.partials[g] != 1) {
      all.group = g;
      ++count;
    }
  }
  return parts && count < 2 ? std::optional{all} : std::nullopt;
}

// Whether each task reads one of the partials of the operand.
UNITY_INLINE bool reads_partials(const operator_dimensions& o, const divided_work& w, std::size_t operand) {
  return (w.group && view_of_group(o, operand, *w.group) == axis_view::partial) ||
         (w.is_sum && view_of_index(o, operand, *w.index) == axis_view::partial);
}

// The dimensions of a tensor that an index runs along; nullopt if a window runs along it, or if its parts are not equal
// parts of the dimension.
UNITY_INLINE std::optional<std::vector<std::size_t>> dimensions_along(const tensor::index_structure& s,
                                                                      const tensor::tensor_indices& dims,
                                                                      const tensor::shape& sizes, std::size_t index) {
  std::vector<std::size_t> all;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].window) {
      const auto& w = s.windows[*dims[d].window];
      if (w.outer == static_cast<int>(index) || w.inner == static_cast<int>(index)) {
        return std::nullopt;
      }
      continue;
    }
    std::int64_t size = 1;
    for (const auto i : dims[d].indices) {
      size *= s.indices[i].size;
    }
    if (std::find(dims[d].indices.begin(), dims[d].indices.end(), index) != dims[d].indices.end()) {
      if (size != sizes[d]) {
        return std::nullopt;
      }
      all.push_back(d);
    }
  }
  return all;
}

// The dimensions along which tasks read parts of an operand, and make parts of a result.
UNITY_INLINE std::optional<std::vector<std::size_t>> read_along(const operator_dimensions& o, const divided_work& w,
                                                                std::size_t operand) {
  return w.index ? dimensions_along(o.structure, o.structure.operands[operand], o.inputs[operand].dims, *w.index)
                 : std::vector<std::size_t>{};
}
UNITY_INLINE std::optional<std::vector<std::size_t>> made_along(const operator_dimensions& o, const divided_work& w,
                                                                std::size_t result) {
  return w.index ? dimensions_along(o.structure, o.structure.results[result], o.outputs[result].dims, *w.index)
                 : std::vector<std::size_t>{};
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<hardware::device_id> identical_ranks(const tensor::tensor_graph& g,
                                                              const graph_dimensions& all,
                                                              const training_graph& training, const strategy& s) {
  std::vector<hardware::device_id> devices;
  std::vector<detail::divided_work> work(g.node_count());
  for (const auto n : node_ids(g)) {
    const auto& c = s[n.index()];
    const auto operands = g.operands(n);
    if (operands.empty()) {
      continue;
    }
    if (devices.empty()) {
      devices.assign(c.devices.begin(), c.devices.end());
    }
    const auto own = detail::divided_work_of(all[n], c);
    if (!own || !std::equal(devices.begin(), devices.end(), c.devices.begin(), c.devices.end())) {
      return {};
    }
    work[n.index()] = *own;
    for (std::size_t x = 0; x < operands.size(); ++x) {
      if (detail::reads_partials(all[n], *own, x) != work[g.producer(operands[x]).index()].makes_partials()) {
        return {};
      }
    }
  }
  if (std::set<hardware::device_id>(devices.begin(), devices.end()).size() != devices.size()) {
    return {};
  }
  for (const auto& e : training.edges()) {
    const auto& from = work[e.from.index()];
    const auto results = g.results(e.from);
    const auto result = static_cast<std::size_t>(std::find(results.begin(), results.end(), e.value) - results.begin());
    const auto made = detail::made_along(all[e.from], from, result);
    const bool is_part = from.index && !from.is_sum;
    if (!made || made->empty() == is_part) {
      return {};
    }
    for (const auto x : e.operands) {
      const auto read = detail::read_along(all[e.to], work[e.to.index()], x);
      if (!read || (is_part && *read != *made)) {
        return {};
      }
    }
  }
  for (const auto& w : training.weights()) {
    for (const auto& use : w.uses) {
      const auto read = detail::read_along(all[use.node], work[use.node.index()], use.operand);
      if (!read || !read->empty()) {
        return {};
      }
    }
  }
  const bool are_copied = std::any_of(g.outputs().begin(), g.outputs().end(), [&](value_id v) {
    const auto& own = work[g.producer(v).index()];
    return !g.operands(g.producer(v)).empty() && !own.index && !own.group;
  });
  // The first device delivers an output that has copies.
  return are_copied && devices.size() > 1 ? std::vector<hardware::device_id>{} : devices;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE written_ranks::written_ranks(std::size_t ranks, std::uint32_t only,
                                          std::span<const hardware::device_id> identical)
    : has_(ranks, false), identical_(identical.begin(), identical.end()) {
  const auto own = std::find(identical_.begin(), identical_.end(), hardware::device_id{std::size_t{only}});
  task_ = own == identical_.end() ? 0 : static_cast<std::size_t>(own - identical_.begin());
  for (const auto d : identical_) {
    ascending_.push_back(static_cast<std::uint32_t>(d.index()));
  }
  const std::set<std::uint32_t> few{only, ascending_[task_]};
  written_.assign(few.begin(), few.end());
  for (const auto r : written_) {
    has_[r] = true;
  }
  std::sort(ascending_.begin(), ascending_.end());
}

UNITY_INLINE std::vector<std::uint32_t> written_ranks::of(const std::vector<std::uint32_t>& group) const {
  if (!is_one()) {
    return group;
  }
  std::vector<std::uint32_t> all;
  std::copy_if(written_.begin(), written_.end(), std::back_inserter(all),
               [&](std::uint32_t r) { return std::binary_search(group.begin(), group.end(), r); });
  return all;
}

UNITY_INLINE std::vector<std::uint32_t> written_ranks::all_like(const std::set<std::uint32_t>& written) const {
  return is_one() && !written.empty() ? ascending_ : std::vector<std::uint32_t>(written.begin(), written.end());
}

}  // namespace unity::parallel::detail

#endif
