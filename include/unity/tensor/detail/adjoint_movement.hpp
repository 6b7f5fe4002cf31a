// The adjoints of scalar programs and of views, and helpers that move values between the dimensions of tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

// The indices that run along a dimension, from outer to inner; empty: size 1.
using dimension_label = std::vector<std::size_t>;
using dimension_labels = std::vector<dimension_label>;

[[nodiscard]] dimension_labels labels_of(std::span<const access> accesses);

[[nodiscard]] inline bool has_label(const dimension_labels& labels, const dimension_label& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

[[nodiscard]] inline value_id reshaped(body_builder& b, value_id v, const shape& dims) {
  return b.type(v).dims == dims ? v : b.add("reshape", {v}, {{"dims", dims}});
}

[[nodiscard]] inline value_id summed(body_builder& b, value_id v, const shape& axes) {
  return axes.empty() ? v : b.add("reduce_sum", {v}, {{"axes", axes}, {"keep_dims", 0}});
}

[[nodiscard]] inline value_id added(body_builder& b, value_id sum, value_id v) {
  return !sum.valid() ? v : !v.valid() ? sum : b.add("add", {sum, v});
}

// Sums over the dimensions that broadcasting repeated.
[[nodiscard]] value_id summed_to(body_builder& b, value_id v, const shape& dims);

// Dimension d of the result is dimension order[d] of the operand.
[[nodiscard]] inline value_id permuted(body_builder& b, value_id v, const shape& order) {
  const bool ordered = std::is_sorted(order.begin(), order.end());
  return ordered ? v : b.add("transpose", {v}, {{"permutation", order}});
}

// A value and the indices that run along its dimensions.
struct labelled {
  value_id value{};
  dimension_labels labels{};
};

// Sums over the labels that `keeps` rejects, and drops dimensions without labels.
template <class Keeps>
[[nodiscard]] labelled reduced(body_builder& b, const labelled& x, const Keeps& keeps) {
  labelled out;
  shape axes;
  shape dims;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (x.labels[d].empty()) {
      continue;
    }
    if (keeps(x.labels[d])) {
      out.labels.push_back(x.labels[d]);
      dims.push_back(b.type(x.value).dims[d]);
    } else {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  out.value = reshaped(b, summed(b, x.value, axes), dims);
  return out;
}

// Reorders the dimensions as in `to`, which contains all of them.
[[nodiscard]] labelled ordered(body_builder& b, const labelled& x, const dimension_labels& to);

// The value with dimensions `to`: summed over labels that `to` lacks; along labels that the value lacks, the size is 1,
// or the value is repeated if `dims` are given.
[[nodiscard]] value_id carried(body_builder& b, const labelled& x, const dimension_labels& to,
                               const shape* dims = nullptr);

// Reshapes the value so that it broadcasts with a tensor that has these labels.
[[nodiscard]] value_id broadcastable(body_builder& b, const labelled& x, const dimension_labels& to);

// The part of a result that the piece writes.
[[nodiscard]] value_id piece_of(body_builder& b, value_id v, const piece& p);

// Pads with zeros: `before` and `after` along every dimension.
[[nodiscard]] value_id padded(body_builder& b, value_id v, const shape& before, const shape& after);

// Element i along dimension d moves to position i * step of a dimension of this size; the others are zero.
[[nodiscard]] value_id spread(body_builder& b, value_id v, std::size_t d, std::int64_t step, std::int64_t size);

// Puts the elements of a piece back to where they were read, with zeros elsewhere.
[[nodiscard]] value_id unread(body_builder& b, value_id cotangent, const piece& p, const shape& dims);

// The dimension along which the operand is cut into consecutive pieces that are whole results; -1 if it is not.
[[nodiscard]] int cut_along(const view_map& map);

[[nodiscard]] std::vector<value_id> view_adjoint(body_builder& b, const view_map& map, const adjoint_problem& p);

// Reverse accumulation over a scalar program, written as element-wise operators.

class program_adjoint {
 public:
  // wants(leaf): whether its cotangent is required; leaf(instruction): its value; result(): the value of the program,
  // which is computed if there is no such function.
  struct surroundings {
    std::function<bool(const instruction&)> wants;
    std::function<value_id(const instruction&)> leaf;
    std::function<value_id()> result;
  };

  program_adjoint(body_builder& b, const scalar_program& program, surroundings s);

  // Calls give(leaf, cotangent) for every wanted leaf that the result depends on.
  template <class Give>
  void run(value_id cotangent, const Give& give) {
    steps_.back().cotangent = cotangent;
    for (auto i = steps_.size(); i-- > 0;) {
      const auto s = steps_[i];
      if (!s.wanted || !s.cotangent.valid()) {
        continue;
      }
      if (is_leaf(s.what.op)) {
        give(s.what, s.cotangent);
      } else if (is_binary(s.what.op)) {
        reverse_binary(i);
      } else {
        add(s.left, unary_cotangent(i));
      }
    }
  }

 private:
  struct step {
    instruction what;
    std::size_t left;
    std::size_t right;
    bool wanted;
    value_id value;
    value_id cotangent;
  };

  value_id value(std::size_t i);

  void add(std::size_t i, value_id cotangent);

  value_id unary_cotangent(std::size_t i);

  void reverse_binary(std::size_t i);

  body_builder& b_;
  surroundings s_;
  std::vector<step> steps_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_MOVEMENT)

#include <string>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::tensor::detail {

UNITY_INLINE dimension_labels labels_of(std::span<const access> accesses) {
  dimension_labels labels;
  for (const auto& a : accesses) {
    auto& label = labels.emplace_back();
    for (std::size_t i = 0; i < a.size(); ++i) {
      label.push_back(a[i]);
    }
  }
  return labels;
}

UNITY_INLINE labelled ordered(body_builder& b, const labelled& x, const dimension_labels& to) {
  labelled out;
  shape order;
  for (const auto& label : to) {
    const auto found = std::find(x.labels.begin(), x.labels.end(), label);
    if (!label.empty() && found != x.labels.end()) {
      order.push_back(found - x.labels.begin());
      out.labels.push_back(label);
    }
  }
  out.value = permuted(b, x.value, order);
  return out;
}

UNITY_INLINE value_id carried(body_builder& b, const labelled& x, const dimension_labels& to, const shape* dims) {
  const auto kept = reduced(b, x, [&](const dimension_label& label) { return has_label(to, label); });
  const auto y = ordered(b, kept, to);
  shape stretched;
  for (std::size_t d = 0, next = 0; d < to.size(); ++d) {
    const bool has = next < y.labels.size() && !to[d].empty() && y.labels[next] == to[d];
    stretched.push_back(has ? b.type(y.value).dims[next++] : 1);
  }
  const auto v = reshaped(b, y.value, stretched);
  return dims == nullptr || *dims == stretched ? v : b.add("expand", {v}, {{"dims", *dims}});
}

UNITY_INLINE value_id broadcastable(body_builder& b, const labelled& x, const dimension_labels& to) {
  const auto skipped = to.size() - std::min(to.size(), x.labels.size());
  bool is = x.labels.size() <= to.size();
  for (std::size_t d = 0; is && d < x.labels.size(); ++d) {
    is = x.labels[d].empty() || x.labels[d] == to[d + skipped];
  }
  return is ? x.value : carried(b, x, to);
}

UNITY_INLINE value_id summed_to(body_builder& b, value_id v, const shape& dims) {
  const auto from = b.type(v).dims;
  const auto more = from.size() - dims.size();
  shape axes;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (d < more || (dims[d - more] == 1 && from[d] > 1)) {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  // 0 drops the reduced dimensions: possible if they are only those that dims lacks
  const auto kept = static_cast<std::int64_t>(axes.size() == more ? 0 : 1);
  const auto sum = axes.empty() ? v : b.add("reduce_sum", {v}, {{"axes", axes}, {"keep_dims", kept}});
  return b.type(sum).dims == dims ? sum : b.add("reshape", {sum}, {{"dims", dims}});
}

UNITY_INLINE value_id piece_of(body_builder& b, value_id v, const piece& p) {
  shape axes;
  shape starts;
  shape ends;
  for (std::size_t d = 0; d < p.sizes.size(); ++d) {
    if (p.sizes[d] != b.type(v).dims[d]) {
      axes.push_back(static_cast<std::int64_t>(d));
      starts.push_back(p.origin[d]);
      ends.push_back(p.origin[d] + p.sizes[d]);
    }
  }
  return axes.empty() ? v
                      : b.add("slice", {v},
                              {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", shape(axes.size(), 1)}});
}

UNITY_INLINE value_id padded(body_builder& b, value_id v, const shape& before, const shape& after) {
  auto pads = before;
  bool none = true;
  for (const auto n : after) {
    pads.push_back(n);
  }
  for (const auto n : pads) {
    none = none && n == 0;
  }
  return none ? v : b.add("pad", {v}, {{"pads", pads}});
}

UNITY_INLINE value_id spread(body_builder& b, value_id v, std::size_t d, std::int64_t step, std::int64_t size) {
  const auto dims = b.type(v).dims;
  shape apart;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    apart.push_back(dims[i]);
    if (i == d) {
      apart.push_back(1);
    }
  }
  shape after(apart.size(), 0);
  after[d + 1] = step - 1;
  v = padded(b, reshaped(b, v, apart), shape(apart.size(), 0), after);
  auto joined = dims;
  joined[d] *= step;
  v = reshaped(b, v, joined);
  if (joined[d] <= size) {
    return v;
  }
  const auto axis = static_cast<std::int64_t>(d);
  return b.add("slice", {v}, {{"axes", {axis}}, {"starts", {0}}, {"ends", {size}}, {"steps", {1}}});
}

UNITY_INLINE value_id unread(body_builder& b, value_id cotangent, const piece& p, const shape& dims) {
  labelled x{piece_of(b, cotangent, p), {}};
  for (std::size_t r = 0; r < p.sizes.size(); ++r) {
    x.labels.push_back({r});
  }
  dimension_labels to;
  for (const auto& s : p.source) {
    to.push_back(s.along < 0 ? dimension_label{} : dimension_label{static_cast<std::size_t>(s.along)});
  }
  auto v = carried(b, x, to);
  shape before;
  shape after;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto& s = p.source[d];
    if (s.along >= 0 && s.step > 1 && b.type(v).dims[d] > 1) {
      v = spread(b, v, d, s.step, dims[d] - s.start);
    }
    before.push_back(s.start);
    after.push_back(dims[d] - s.start - b.type(v).dims[d]);
  }
  return padded(b, v, before, after);
}

UNITY_INLINE int cut_along(const view_map& map) {
  const auto pieces = map.pieces();
  if (map.inputs().size() != 1 || pieces.size() < 2 || pieces.size() != map.results().size()) {
    return -1;
  }
  int axis = -1;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& p = pieces[i];
    for (std::size_t d = 0; d < p.source.size(); ++d) {
      const bool same = p.result == i && p.source[d].along == static_cast<int>(d) && p.source[d].step == 1;
      if (!same || p.sizes.size() != p.source.size()) {
        return -1;
      }
      const bool cut = p.sizes[d] != map.dims(0)[d];
      if (cut && axis >= 0 && axis != static_cast<int>(d)) {
        return -1;
      }
      axis = cut ? static_cast<int>(d) : axis;
    }
    if (axis < 0 || p.source[static_cast<std::size_t>(axis)].start != at) {
      return -1;
    }
    at += p.sizes[static_cast<std::size_t>(axis)];
  }
  return at == map.dims(0)[static_cast<std::size_t>(axis)] ? axis : -1;
}

UNITY_INLINE std::vector<value_id> view_adjoint(body_builder& b, const view_map& map, const adjoint_problem& p) {
  std::vector<value_id> all(p.inputs.size());
  if (map.relabels()) {
    all[0] = reshaped(b, p.cotangents[0], p.inputs[0].dims);
    return all;
  }
  if (const auto axis = cut_along(map); axis >= 0) {
    std::vector<value_id> parts;
    for (std::size_t r = 0; r < p.outputs.size(); ++r) {
      parts.push_back(or_zeros(b, p.cotangents[r], p.outputs[r]));
    }
    all[0] = b.add("concat", parts, std::vector{named_attribute{"axis", axis}});
    return all;
  }
  for (const auto& piece : map.pieces()) {
    if (p.wanted[piece.operand] && p.cotangents[piece.result].valid()) {
      const auto& dims = p.inputs[piece.operand].dims;
      all[piece.operand] = added(b, all[piece.operand], unread(b, p.cotangents[piece.result], piece, dims));
    }
  }
  return all;
}

UNITY_INLINE program_adjoint::program_adjoint(body_builder& b, const scalar_program& program, surroundings s)
    : b_{b}, s_{std::move(s)} {
  std::vector<std::size_t> stack;
  for (const auto& i : program) {
    step next{i, 0, 0, is_leaf(i.op) && s_.wants(i), {}, {}};
    if (is_binary(i.op)) {
      next.right = stack.back();
      stack.pop_back();
    }
    if (!is_leaf(i.op)) {
      next.left = stack.back();
      stack.pop_back();
      next.wanted = steps_[next.left].wanted || (is_binary(i.op) && steps_[next.right].wanted);
    }
    stack.push_back(steps_.size());
    steps_.push_back(next);
  }
}

UNITY_INLINE value_id program_adjoint::value(std::size_t i) {
  auto& s = steps_[i];
  if (!s.value.valid()) {
    if (i + 1 == steps_.size() && s_.result) {
      s.value = s_.result();
    } else if (is_leaf(s.what.op)) {
      s.value = s_.leaf(s.what);
    } else {
      const auto* known = find_scalar_operator(s.what.op);
      if (known == nullptr) {
        throw error{"adjoint", "a scalar function that no operator applies", "one that an operator applies"};
      }
      s.value = is_binary(s.what.op) ? b_.add(known->name, {value(s.left), value(s.right)})
                                     : b_.add(known->name, {value(s.left)});
    }
  }
  return s.value;
}

UNITY_INLINE void program_adjoint::add(std::size_t i, value_id cotangent) {
  auto& s = steps_[i];
  if (s.wanted && cotangent.valid()) {
    s.cotangent = s.cotangent.valid() ? b_.add("add", {s.cotangent, cotangent}) : cotangent;
  }
}

UNITY_INLINE value_id program_adjoint::unary_cotangent(std::size_t i) {
  const auto s = steps_[i];
  const auto d = derivative_of(s.what.op);
  if (!d) {
    return {};
  }
  switch (s.what.op) {
    case scalar_op::negate: return b_.add("negate", {s.cotangent});
    case scalar_op::exp: return b_.add("mul", {s.cotangent, value(i)});
    case scalar_op::log: return b_.add("div", {s.cotangent, value(s.left)});
    case scalar_op::sin: return b_.add("mul", {s.cotangent, b_.add("cos", {value(s.left)})});
    case scalar_op::cos: return b_.add("negate", {b_.add("mul", {s.cotangent, b_.add("sin", {value(s.left)})})});
    default:
      return b_.add(find_scalar_operator(s.what.op)->gradient, {d->of_value ? value(i) : value(s.left), s.cotangent});
  }
}

UNITY_INLINE void program_adjoint::reverse_binary(std::size_t i) {
  const auto s = steps_[i];
  const auto g = s.cotangent;
  const bool left = steps_[s.left].wanted;
  const bool right = steps_[s.right].wanted;
  switch (s.what.op) {
    case scalar_op::add:
      add(s.left, g);
      add(s.right, g);
      return;
    case scalar_op::sub:
      add(s.left, g);
      add(s.right, right ? b_.add("negate", {g}) : value_id{});
      return;
    case scalar_op::mul:
      add(s.left, left ? b_.add("mul", {g, value(s.right)}) : value_id{});
      add(s.right, right ? b_.add("mul", {g, value(s.left)}) : value_id{});
      return;
    case scalar_op::div:
      add(s.left, left ? b_.add("div", {g, value(s.right)}) : value_id{});
      add(s.right,
          right ? b_.add("negate", {b_.add("div", {b_.add("mul", {g, value(i)}), value(s.right)})}) : value_id{});
      return;
    case scalar_op::pow: {
      if (left) {
        const auto one = b_.add("fill", {}, {{"value", 1.0}, {"element", name_of(b_.type(g).element)}, {"dims", {}}});
        const auto power = b_.add("pow", {value(s.left), b_.add("sub", {value(s.right), one})});
        add(s.left, b_.add("mul", {g, b_.add("mul", {value(s.right), power})}));
      }
      if (right) {
        add(s.right, b_.add("mul", {g, b_.add("mul", {value(i), b_.add("log", {value(s.left)})})}));
      }
      return;
    }
    case scalar_op::maximum:
    case scalar_op::minimum: {
      const auto gradient = find_scalar_operator(s.what.op)->gradient;
      add(s.left, left ? b_.add(gradient, {value(s.left), value(s.right), g}) : value_id{});
      add(s.right, right ? b_.add(gradient, {value(s.right), value(s.left), g}) : value_id{});
      return;
    }
    case scalar_op::masked: {
      const auto zero = b_.add("fill", {}, {{"value", 0.0}, {"element", name_of(b_.type(g).element)}, {"dims", {}}});
      add(s.right, right ? b_.add("where", {value(s.left), g, zero}) : value_id{});
      return;
    }
    default: return;  // comparisons: constant almost everywhere; mod, the only user of remainder, has its own adjoint
  }
}

}  // namespace unity::tensor::detail

#endif
