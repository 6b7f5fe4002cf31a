// The adjoint of any operator: see tensor/differentiate.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/sources.hpp>

namespace unity::tensor {

// The adjoint of any operator of the builder's algebra: from its definition if that has one, otherwise derived.
// Throws: unity::error that names the operator if it has no adjoint.
// Source: reverse accumulation; parallel dimensions as in Jia's dissertation (2020) table 3.1.
std::vector<value_id> append_adjoint(body_builder& b, const operation& op, const adjoint_problem& p);

// Whether a gradient can pass through the operator, judging by its kind: an opaque operator has no adjoint.
[[nodiscard]] inline bool has_derivative(const algebra& a, const operation& op) {
  return !std::holds_alternative<opaque>(a.definition_of(op.kind).body);
}

namespace detail {

// The index of the activation attribute of an operator; the number of attributes if it has none.
[[nodiscard]] std::size_t activation_of(const definition& d, const operation& op);

[[nodiscard]] scalar_op function_of(operators::activation a);

// The adjoint of the operator without its activation, after that of the activation. Recomputes the operand of the
// activation if its derivative cannot be computed from its value.
[[nodiscard]] std::vector<value_id> activated_adjoint(body_builder& b, operation op, std::size_t field,
                                                      const adjoint_problem& p);

[[nodiscard]] std::vector<value_id> body_adjoint(body_builder& b, const operation& op, const adjoint_problem& p);

}  // namespace detail

inline std::vector<value_id> body_graph::add_body_adjoint(std::string_view name,
                                                          std::span<const named_attribute> attributes,
                                                          const adjoint_problem& p) {
  return detail::body_adjoint(*this, algebra_.make_operation(name, attributes), p);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DERIVE_ADJOINT)

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/detail/reverse_sweep.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

// Adjoints of primitives, from their iteration spaces and scalar kernels.

class primitive_adjoint {
 public:
  primitive_adjoint(body_builder& b, std::string_view name, const space& s, const scalar_kernel& kernel,
                    const adjoint_problem& p);

  [[nodiscard]] std::vector<value_id> run();

 private:
  [[noreturn]] void refuse(const char* what) const {
    throw error{fmt::format("adjoint of {}", name_), fmt::format("{}, from which no adjoint is derived", what),
                "an adjoint in the operator's definition"};
  }

  void give(std::size_t i, value_id cotangent) { all_[i] = added(b_, all_[i], cotangent); }

  [[nodiscard]] bool wants(const instruction& leaf) const;

  // Shaped so that it broadcasts with the result.
  [[nodiscard]] value_id leaf_value(const instruction& leaf);

  [[nodiscard]] std::int64_t reduced_points() const;

  // Passes the cotangent of the reduced value to the operands that were reduced.
  void reverse_reduction(value_id cotangent);

  // Reverses a sum of any function: evaluates it at every point of the iteration space, so the largest intermediate
  // value has one element per point.
  void reverse_sum(value_id cotangent);

  // The dimensions of a tensor with one element per point: those of the result, then the reduced ones.
  [[nodiscard]] dimension_labels points() const;

  // Passes the cotangent to the largest elements; equal ones share it.
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

// Sums of products of two tensors, written as one matrix product.

// result[out] = sum of left * right over the labels that `out` lacks. A matmul with permutations and reshapes before
// and after where needed.
class contraction {
 public:
  contraction(body_builder& b, const labelled& left, const labelled& right, const dimension_labels& out);

  // dims: the shape of the result; it is broadcast along labels that neither operand has.
  [[nodiscard]] value_id run(const dimension_labels& out, const shape& dims);

 private:
  void classify(const dimension_labels& out);

  [[nodiscard]] bool starts_with_columns(const dimension_labels& out) const;

  [[nodiscard]] shape sizes(const dimension_labels& labels, const labelled& x) const;
  [[nodiscard]] static std::int64_t product(const shape& dims) { return element_count(dims); }
  static void append(shape& dims, const shape& more) { dims.append(more.begin(), more.end()); }
  [[nodiscard]] static dimension_labels joined(dimension_labels a, const dimension_labels& b,
                                               const dimension_labels& c);

  body_builder& b_;
  labelled left_;
  labelled right_;
  dimension_labels batch_;    // in both operands and the result
  dimension_labels rows_;     // in the left operand and the result
  dimension_labels columns_;  // in the right operand and the result
  dimension_labels summed_;   // in both operands but not in the result
};

UNITY_INLINE contraction::contraction(body_builder& b, const labelled& left, const labelled& right,
                                      const dimension_labels& out)
    : b_{b} {
  left_ = reduced(b, left, [&](const auto& l) { return has_label(out, l) || has_label(right.labels, l); });
  right_ = reduced(b, right, [&](const auto& l) { return has_label(out, l) || has_label(left_.labels, l); });
  classify(out);
  if (starts_with_columns(out)) {
    std::swap(left_, right_);
    std::swap(rows_, columns_);
  }
}

UNITY_INLINE value_id contraction::run(const dimension_labels& out, const shape& dims) {
  // The rows of one operand need not be merged, because leading dimensions broadcast.
  const bool apart = batch_.empty() && !rows_.empty();
  auto leading = sizes(batch_, left_);
  const auto rows = sizes(rows_, left_);
  const auto columns = sizes(columns_, right_);
  const auto inner = product(sizes(summed_, left_));
  auto left_dims = leading;
  append(left_dims, apart ? rows : shape{product(rows)});
  left_dims.push_back(inner);
  auto right_dims = leading;
  right_dims.push_back(inner);
  right_dims.push_back(product(columns));
  const auto l = reshaped(b_, ordered(b_, left_, joined(batch_, rows_, summed_)).value, left_dims);
  const auto r = reshaped(b_, ordered(b_, right_, joined(batch_, summed_, columns_)).value, right_dims);
  append(leading, rows);
  append(leading, columns);
  labelled y{reshaped(b_, b_.add("matmul", {l, r}), leading), joined(batch_, rows_, columns_)};
  return carried(b_, y, out, &dims);
}

UNITY_INLINE void contraction::classify(const dimension_labels& out) {
  for (const auto& l : out) {
    const bool in_left = !l.empty() && has_label(left_.labels, l);
    const bool in_right = !l.empty() && has_label(right_.labels, l);
    if (in_left && in_right) {
      batch_.push_back(l);
    } else if (in_left) {
      rows_.push_back(l);
    } else if (in_right) {
      columns_.push_back(l);
    }
  }
  for (const auto& l : left_.labels) {
    if (!has_label(out, l)) {
      summed_.push_back(l);
    }
  }
}

UNITY_INLINE bool contraction::starts_with_columns(const dimension_labels& out) const {
  for (const auto& l : out) {
    if (has_label(rows_, l) || has_label(columns_, l)) {
      return has_label(columns_, l);
    }
  }
  return false;
}

UNITY_INLINE shape contraction::sizes(const dimension_labels& labels, const labelled& x) const {
  shape all;
  for (const auto& l : labels) {
    const auto at = std::find(x.labels.begin(), x.labels.end(), l) - x.labels.begin();
    all.push_back(b_.type(x.value).dims[static_cast<std::size_t>(at)]);
  }
  return all;
}

UNITY_INLINE dimension_labels contraction::joined(dimension_labels a, const dimension_labels& b,
                                                  const dimension_labels& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

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
    std::for_each(labels.begin(), labels.end(), add);
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

UNITY_INLINE std::size_t activation_of(const definition& d, const operation& op) {
  std::size_t i = 0;
  while (i < d.fields.size() && (d.fields[i].signature.name != "activation" || op.attributes[i][0] == 0)) {
    ++i;
  }
  return i;
}

UNITY_INLINE scalar_op function_of(operators::activation a) {
  switch (a) {
    case operators::activation::relu: return scalar_op::relu;
    case operators::activation::sigmoid: return scalar_op::sigmoid;
    case operators::activation::tanh: return scalar_op::tanh;
    case operators::activation::gelu: return scalar_op::gelu;
    case operators::activation::none: break;
  }
  return scalar_op::literal;
}

UNITY_INLINE std::vector<value_id> activated_adjoint(body_builder& b, operation op, std::size_t field,
                                                     const adjoint_problem& p) {
  const auto function = function_of(static_cast<operators::activation>(op.attributes[field][0]));
  op.attributes[field] = {0};
  const auto before = [&b, op, &p](std::size_t) {
    std::vector<value_id> operands;
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      operands.push_back(p.operand(i));
    }
    return b.add_all(op, operands)[0];
  };
  const auto at = derivative_of(function)->of_value ? p.result(0) : before(0);
  auto rest = p;
  rest.result = before;
  rest.cotangents[0] = b.add(find_scalar_operator(function)->gradient, {at, p.cotangents[0]});
  return append_adjoint(b, op, rest);
}

UNITY_INLINE std::vector<value_id> body_adjoint(body_builder& b, const operation& op, const adjoint_problem& p) {
  const auto body = b.operators().body(op, p.inputs);
  if (!body) {
    throw error{fmt::format("adjoint of {}", b.operators().signature(op.kind).name), "no body on these operands",
                "operands that it takes"};
  }
  const auto known = [&](value_id v) {
    if (v.index() < p.inputs.size()) {
      return p.operand(v.index());
    }
    for (std::size_t r = 0; p.result && r < p.outputs.size(); ++r) {
      if (body->outputs()[r] == v) {
        return p.result(r);
      }
    }
    return value_id{};
  };
  reverse_sweep sweep{b, *body, known, [&](node_id n, const adjoint_problem& inner) {
                        return append_adjoint(b, body->operation(n), inner);
                      }};
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    if (p.wanted[i]) {
      sweep.want(value_id{i});
    }
  }
  for (std::size_t r = 0; r < p.outputs.size(); ++r) {
    if (p.cotangents[r].valid()) {
      sweep.seed(body->outputs()[r], p.cotangents[r]);
    }
  }
  sweep.run();
  std::vector<value_id> all;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    all.push_back(p.wanted[i] ? sweep.gradient(value_id{i}) : value_id{});
  }
  return all;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<value_id> append_adjoint(body_builder& b, const operation& op, const adjoint_problem& p) {
  const auto& a = b.operators();
  const auto& d = a.definition_of(op.kind);
  if (const auto field = detail::activation_of(d, op); field < d.fields.size()) {
    return detail::activated_adjoint(b, op, field, p);
  }
  if (d.own_adjoint) {
    return d.own_adjoint(b, a.read(op), p);
  }
  if (const auto map = a.index_map(op, p.inputs)) {
    return detail::view_adjoint(b, *map, p);
  }
  if (const auto s = a.iteration(op, p.inputs)) {
    const auto kernel = std::get<primitive>(d.body).kernel(a.read(op), p.inputs);
    return detail::primitive_adjoint{b, d.signature.name, *s, kernel, p}.run();
  }
  if (std::holds_alternative<composite>(d.body)) {
    return detail::body_adjoint(b, op, p);
  }
  throw error{fmt::format("adjoint of {}", operator_name(a, op)), "no derivative", "an operator with a known meaning"};
}

}  // namespace unity::tensor

#endif
