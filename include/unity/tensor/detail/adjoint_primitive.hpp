// Adjoints of primitives, from their iteration spaces and scalar kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

class primitive_adjoint {
 public:
  primitive_adjoint(body_builder& b, std::string_view name, const space& s, const scalar_kernel& kernel,
                    const adjoint_problem& p);

  [[nodiscard]] std::vector<value_id> run();

 private:
  [[noreturn]] void refuse(const char* what) const {
    throw error{fmt::format("adjoint of {}", name_), fmt::format("{} that no rule derives from", what),
                "an adjoint beside its definition"};
  }

  void give(std::size_t i, value_id cotangent) { all_[i] = added(b_, all_[i], cotangent); }

  [[nodiscard]] bool wants(const instruction& leaf) const;

  // Shaped so that it broadcasts with the result.
  [[nodiscard]] value_id leaf_value(const instruction& leaf);

  [[nodiscard]] std::int64_t reduced_points() const;

  // Passes the cotangent of the reduced value to the operands that were reduced.
  void reverse_reduction(value_id cotangent);

  // Of a sum of any function: at every point of the iteration space, so the largest intermediate value has as many
  // elements as that has points.
  void reverse_sum(value_id cotangent);

  // The dimensions of a tensor with one element per point: those of the result, then the reduced ones.
  [[nodiscard]] dimension_labels points() const;

  // Passes it to the largest elements; equal ones share it.
  [[nodiscard]] value_id selected(std::size_t i, value_id cotangent);

  body_builder& b_;
  std::string_view name_;
  const space& space_;
  const scalar_kernel& kernel_;
  const adjoint_problem& p_;
  dimension_labels result_;
  std::vector<dimension_labels> operands_;
  std::vector<value_id> all_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_PRIMITIVE)

#include <algorithm>
#include <span>
#include <variant>

#include <unity/tensor/detail/adjoint_contraction.hpp>
#include <unity/tensor/detail/adjoint_program.hpp>

namespace unity::tensor::detail {

UNITY_INLINE primitive_adjoint::primitive_adjoint(body_builder& b, std::string_view name, const space& s,
                                                  const scalar_kernel& kernel, const adjoint_problem& p)
    : b_{b}, name_{name}, space_{s}, kernel_{kernel}, p_{p}, result_{labels_of(s.result_accesses(0))} {
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    operands_.push_back(labels_of(s.operand(i)));
  }
  if (!s.windows().empty()) {
    refuse("windows");
  }
}

UNITY_INLINE std::vector<value_id> primitive_adjoint::run() {
  all_.assign(p_.inputs.size(), {});
  value_id accumulated;
  program_adjoint outer{
      b_,
      kernel_.outer,
      {[this](const instruction& leaf) { return wants(leaf); },
       [this](const instruction& leaf) { return leaf_value(leaf); }, [this] { return p_.result(0); }}};
  outer.run(p_.cotangents[0], [&](const instruction& leaf, value_id cotangent) {
    if (leaf.op == scalar_op::accumulated) {
      accumulated = added(b_, accumulated, cotangent);
    } else {
      const auto i = static_cast<std::size_t>(leaf.number);
      give(i, carried(b_, {cotangent, result_}, operands_[i], &p_.inputs[i].dims));
    }
  });
  if (accumulated.valid()) {
    reverse_reduction(accumulated);
  }
  return std::move(all_);
}

UNITY_INLINE bool primitive_adjoint::wants(const instruction& leaf) const {
  if (leaf.op == scalar_op::operand) {
    return p_.wanted[static_cast<std::size_t>(leaf.number)];
  }
  bool any = false;
  for (const auto& i : kernel_.inner) {
    any = any || (leaf.op == scalar_op::accumulated && i.op == scalar_op::operand && wants(i));
  }
  return any;
}

UNITY_INLINE value_id primitive_adjoint::leaf_value(const instruction& leaf) {
  if (leaf.op == scalar_op::operand) {
    const auto i = static_cast<std::size_t>(leaf.number);
    return broadcastable(b_, {p_.operand(i), operands_[i]}, result_);
  }
  if (leaf.op != scalar_op::literal && leaf.op != scalar_op::count) {
    refuse(leaf.op == scalar_op::accumulated ? "a function of a sum" : "coordinates");
  }
  const auto value = leaf.op == scalar_op::literal ? leaf.value : static_cast<double>(reduced_points());
  const auto element = name_of(p_.outputs[0].element);
  return b_.add("fill", {}, {{"value", value}, {"element", element}, {"dims", {}}});
}

UNITY_INLINE std::int64_t primitive_adjoint::reduced_points() const {
  std::int64_t points = 1;
  for (std::size_t i = 0; i < space_.indices().size(); ++i) {
    bool kept = false;
    for (const auto& label : result_) {
      kept = kept || std::find(label.begin(), label.end(), i) != label.end();
    }
    points *= kept ? 1 : space_.indices()[i].size;
  }
  return points;
}

UNITY_INLINE void primitive_adjoint::reverse_reduction(value_id cotangent) {
  const auto& inner = kernel_.inner;
  const auto operand = [&](std::size_t at) { return static_cast<std::size_t>(inner[at].number); };
  if (inner.size() == 1 && inner[0].op == scalar_op::operand) {
    const auto i = operand(0);
    give(i, kernel_.reduce == reduction::sum ? carried(b_, {cotangent, result_}, operands_[i], &p_.inputs[i].dims)
                                             : selected(i, cotangent));
    return;
  }
  const bool product = kernel_.reduce == reduction::sum && inner.size() == 3 && inner[2].op == scalar_op::mul &&
                       inner[0].op == scalar_op::operand && inner[1].op == scalar_op::operand &&
                       operand(0) != operand(1);
  if (!product && kernel_.reduce == reduction::sum) {
    return reverse_sum(cotangent);
  }
  if (!product) {
    refuse("a reduction");
  }
  for (const auto& [i, other] : {std::pair{operand(0), operand(1)}, std::pair{operand(1), operand(0)}}) {
    if (p_.wanted[i]) {
      const labelled factor{p_.operand(other), operands_[other]};
      contraction c{b_, factor, {cotangent, result_}, operands_[i]};
      give(i, c.run(operands_[i], p_.inputs[i].dims));
    }
  }
}

UNITY_INLINE void primitive_adjoint::reverse_sum(value_id cotangent) {
  const auto all = points();
  shape dims;
  for (const auto& label : all) {
    std::int64_t size = 1;
    for (const auto i : label) {
      size *= space_.indices()[i].size;
    }
    dims.push_back(size);
  }
  const auto is_wanted = [this](const instruction& leaf) { return leaf.op == scalar_op::operand && wants(leaf); };
  const auto value = [&](const instruction& leaf) {
    const auto i = static_cast<std::size_t>(leaf.number);
    return leaf.op == scalar_op::operand ? broadcastable(b_, {p_.operand(i), operands_[i]}, all) : leaf_value(leaf);
  };
  program_adjoint inner{b_, kernel_.inner, {is_wanted, value, {}}};
  inner.run(carried(b_, {cotangent, result_}, all, &dims), [&](const instruction& leaf, value_id each) {
    const auto i = static_cast<std::size_t>(leaf.number);
    give(i, carried(b_, {each, all}, operands_[i], &p_.inputs[i].dims));
  });
}

UNITY_INLINE dimension_labels primitive_adjoint::points() const {
  auto all = result_;
  std::vector<std::size_t> times(space_.indices().size(), 0);
  const auto add = [&](const dimension_label& label) {
    if (!label.empty() && !has_label(all, label)) {
      all.push_back(label);
    }
  };
  for (const auto& labels : operands_) {
    for (const auto& label : labels) {
      add(label);
    }
  }
  for (const auto& label : all) {
    for (const auto i : label) {
      ++times[i];
    }
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 0) {
      add({i});
    } else if (times[i] > 1) {
      refuse("indices in several combinations");
    }
  }
  return all;
}

UNITY_INLINE value_id primitive_adjoint::selected(std::size_t i, value_id cotangent) {
  if (kernel_.outer.size() != 1) {
    refuse("a function of a maximum");
  }
  const auto along = [&](value_id v) { return carried(b_, {v, result_}, operands_[i]); };
  const auto mask = b_.add("is_equal", {p_.operand(i), along(p_.result(0))});
  shape axes;
  for (std::size_t d = 0; d < operands_[i].size(); ++d) {
    if (!has_label(result_, operands_[i][d])) {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  const auto ties = axes.empty() ? mask : b_.add("reduce_sum", {mask}, {{"axes", axes}});
  return b_.add("mul", {mask, b_.add("div", {along(cotangent), ties})});
}

}  // namespace unity::tensor::detail

#endif
