// Appends operators to a rank's program, including those that cut and join parts of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// A value of a rank's program that is a box of a larger value.
struct held_part {
  box part{};
  value_id value{};
};

class region_writer {
 public:
  region_writer(const tensor::algebra& a, tensor::tensor_graph& g, std::vector<rank_step>& steps)
      : a_{a}, graph_{g}, steps_{&steps} {}

  // Effects: attributes the following steps to these.
  void begin(std::vector<rank_step>& steps, node_id origin, bool is_backward, std::int64_t microbatch,
             std::uint32_t since = 0) {
    steps_ = &steps;
    mark_ = {step_kind::run, {}, {}, 0, 0, origin, is_backward, false, microbatch, 0, since};
  }
  [[nodiscard]] tensor::tensor_graph& graph() noexcept { return graph_; }

  // A value from outside.
  [[nodiscard]] value_id outside(const tensor::tensor_type& t);
  std::vector<value_id> run(const tensor::operation& op, std::span<const value_id> operands,
                            std::span<const tensor::tensor_type> types);
  [[nodiscard]] value_id run(const tensor::operation& op, std::span<const value_id> operands);
  [[nodiscard]] value_id filled(const tensor::shape& dims, tensor::dtype element, double value);
  [[nodiscard]] value_id scaled(value_id x, double factor) {
    const std::vector<value_id> operands{x, filled({}, graph_.type(x).element, factor)};
    return run(a_.make_operation("scalar_multiply"), operands);
  }
  [[nodiscard]] value_id sum(value_id x, value_id y) {
    const std::vector<value_id> operands{x, y};
    return run(a_.make_operation("add"), operands);
  }

  // Cuts out a box, which must be within the part.
  [[nodiscard]] value_id cut(const held_part& x, const box& b);
  // Joins disjoint parts to a box, which is zero elsewhere. Complexity: as many cuts and joins as parts, times
  // dimensions if they do not form a grid.
  [[nodiscard]] value_id joined(const box& b, std::vector<held_part> parts, tensor::dtype element);
  // The sum of parts, which may overlap; nullopt if there are none. Parts that do not overlap are joined before they
  // are added, so additions need not be in the order of the parts.
  [[nodiscard]] std::optional<value_id> added(const box& b, std::span<const held_part> parts, tensor::dtype element);

 private:
  struct cut_place {
    std::size_t dimension = 0;
    std::int64_t at = 0;
  };

  // parts: disjoint, within the box.
  [[nodiscard]] value_id joined_within(const box& b, std::vector<held_part> parts, tensor::dtype element);
  // A boundary of a part inside the box, preferably one that no part crosses.
  [[nodiscard]] static cut_place best_cut(const box& b, std::span<const held_part> parts);

  const tensor::algebra& a_;
  tensor::tensor_graph& graph_;
  std::vector<rank_step>* steps_;
  rank_step mark_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_REGION_WRITER)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE value_id region_writer::outside(const tensor::tensor_type& t) {
  auto own = t;
  own.constant = false;
  return graph_.results(graph_.add_node({}, {}, {&own, 1}))[0];
}

UNITY_INLINE std::vector<value_id> region_writer::run(const tensor::operation& op, std::span<const value_id> operands,
                                                      std::span<const tensor::tensor_type> types) {
  const auto node = graph_.add_node(op, operands, types);
  auto step = mark_;
  step.node = node;
  steps_->push_back(step);
  const auto results = graph_.results(node);
  return {results.begin(), results.end()};
}

UNITY_INLINE value_id region_writer::run(const tensor::operation& op, std::span<const value_id> operands) {
  std::vector<tensor::tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto made = a_.infer(op, types);
  UNITY_EXPECTS(made.has_value(), "an operator that takes its operands");
  return run(op, operands, *made)[0];
}

UNITY_INLINE value_id region_writer::filled(const tensor::shape& dims, tensor::dtype element, double value) {
  return run(a_.make_operation("fill",
                               {{"value", value}, {"element", name_of(element)}, {"dims", {dims.begin(), dims.end()}}}),
             {});
}

UNITY_INLINE value_id region_writer::cut(const held_part& x, const box& b) {
  if (x.part == b) {
    return x.value;
  }
  attribute axes;
  attribute starts;
  attribute ends;
  for (std::size_t d = 0; d < b.begin.size(); ++d) {
    if (b.begin[d] != x.part.begin[d] || b.end[d] != x.part.end[d]) {
      axes.push_back(static_cast<std::int64_t>(d));
      starts.push_back(b.begin[d] - x.part.begin[d]);
      ends.push_back(b.end[d] - x.part.begin[d]);
    }
  }
  const attribute steps(axes.size(), 1);
  const std::vector<value_id> operands{x.value};
  return run(a_.make_operation("slice", {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}}),
             operands);
}

UNITY_INLINE value_id region_writer::joined(const box& b, std::vector<held_part> parts, tensor::dtype element) {
  for (auto& p : parts) {
    const auto common = intersection(p.part, b);
    if (!common.empty()) {
      p = {common, cut(p, common)};
    } else {
      p.value = {};
    }
  }
  std::erase_if(parts, [](const held_part& p) { return !p.value.valid(); });
  return joined_within(b, std::move(parts), element);
}

UNITY_INLINE std::optional<value_id> region_writer::added(const box& b, std::span<const held_part> parts,
                                                          tensor::dtype element) {
  std::vector<std::vector<held_part>> layers;  // each of disjoint parts
  for (const auto& p : parts) {
    const auto common = intersection(p.part, b);
    if (common.empty()) {
      continue;
    }
    const auto free = std::find_if(layers.begin(), layers.end(), [&](const auto& layer) {
      return std::all_of(layer.begin(), layer.end(),
                         [&](const held_part& q) { return intersection(q.part, common).empty(); });
    });
    (free == layers.end() ? layers.emplace_back() : *free).push_back(p);
  }
  std::optional<value_id> all;
  for (auto& layer : layers) {
    const auto one = joined(b, std::move(layer), element);
    all = all ? sum(*all, one) : one;
  }
  return all;
}

UNITY_INLINE value_id region_writer::joined_within(const box& b, std::vector<held_part> parts, tensor::dtype element) {
  if (parts.empty()) {
    return filled(b.sizes(), element, 0);
  }
  if (parts.size() == 1 && parts[0].part == b) {
    return parts[0].value;
  }
  const auto place = best_cut(b, parts);
  std::vector<held_part> before;
  std::vector<held_part> behind;
  auto first = b;
  auto second = b;
  first.end[place.dimension] = second.begin[place.dimension] = place.at;
  for (const auto& p : parts) {
    for (auto [side, all] : {std::pair{&first, &before}, std::pair{&second, &behind}}) {
      if (const auto common = intersection(p.part, *side); !common.empty()) {
        all->push_back({common, cut(p, common)});
      }
    }
  }
  const std::vector<value_id> operands{joined_within(first, std::move(before), element),
                                       joined_within(second, std::move(behind), element)};
  return run(a_.make_operation("concat", {{"axis", static_cast<std::int64_t>(place.dimension)}}), operands);
}

UNITY_INLINE auto region_writer::best_cut(const box& b, std::span<const held_part> parts) -> cut_place {
  std::optional<cut_place> any;
  for (std::size_t d = 0; d < b.begin.size(); ++d) {
    for (const auto& p : parts) {
      for (const auto at : {p.part.begin[d], p.part.end[d]}) {
        if (at <= b.begin[d] || at >= b.end[d]) {
          continue;
        }
        any = any ? any : std::optional{cut_place{d, at}};
        const bool is_clean = std::none_of(
            parts.begin(), parts.end(), [&](const held_part& q) { return q.part.begin[d] < at && at < q.part.end[d]; });
        if (is_clean) {
          return {d, at};
        }
      }
    }
  }
  UNITY_EXPECTS(any.has_value(), "parts that are not all of the box");
  return *any;
}

}  // namespace unity::parallel

#endif
