// Reductions along given axes, and those that are graphs of simpler operators: products, norms, logarithms of sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// Requires canonical axes: ascending, distinct, below `rank`.
[[nodiscard]] bool require_axes(judgement& j, std::span<const std::int64_t> axes, std::size_t rank);

[[nodiscard]] bool contains(std::span<const std::int64_t> axes, std::size_t axis) noexcept;

// kind: how the reduced indices may be split.
[[nodiscard]] definition reduction_along(std::string name, scalar_kernel kernel, index_kind kind, bool reals);

[[nodiscard]] std::vector<definition> reductions();

// Reductions along axes that are graphs of simpler operators: products, norms, logarithms of sums.

// Sets the result of a reduction along the attributes `axes` and `keep_dims`; reports errors in them.
void judge_reduction(judgement& j, const attribute_reader& a, bool reals);

// Combines the elements along the axes with an associative binary operator by repeated halving. Exact for integers; the
// adjoint of a product is correct even if elements are zero. The axes stay, with size 1.
[[nodiscard]] value_id fold_along(body_builder& b, std::string_view name, value_id x,
                                  std::span<const std::int64_t> axes);

// v, or 1 where v is 0: quotients of zeros by their norm are 0.
[[nodiscard]] value_id nonzero_or_one(body_builder& b, value_id v);

// Appends the operators of the reduction; the axes stay, with size 1.
using reduction_body = value_id (*)(body_builder& b, value_id x, std::span<const std::int64_t> axes);

// Shapes: x[...] -> x without the axes, or with size 1 along them.
[[nodiscard]] definition composite_reduction(std::string name, reduction_body body, bool reals);

// reduce_min, reduce_prod, reduce_l1, reduce_l2, reduce_sum_square, reduce_log_sum, reduce_log_sum_exp. The gradient of
// reduce_l2 is 0 where the norm is 0.
[[nodiscard]] std::vector<definition> composite_reductions();

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_REDUCTION)

#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

UNITY_INLINE bool require_axes(judgement& j, std::span<const std::int64_t> axes, std::size_t rank) {
  auto least = std::int64_t{0};
  for (const auto a : axes) {
    if (!j.require(a >= least && a < static_cast<std::int64_t>(rank), "ascending axes within the rank")) {
      return false;
    }
    least = a + 1;
  }
  return true;
}

UNITY_INLINE bool contains(std::span<const std::int64_t> axes, std::size_t axis) noexcept {
  for (const auto a : axes) {
    if (a == static_cast<std::int64_t>(axis)) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE definition reduction_along(std::string name, scalar_kernel kernel, index_kind kind, bool reals) {
  const auto iteration = [kind, reals](space& s, const attribute_reader& a) {
    const auto axes = a.integers("axes");
    if (!(reals ? s.require_floating() : s.require_numeric()) || !s.require(!axes.empty(), "at least one axis") ||
        !require_axes(s, axes, s.rank(0))) {
      return;
    }
    accesses in;
    accesses out;
    for (std::size_t d = 0; d < s.rank(0); ++d) {
      if (!contains(axes, d)) {
        in.push_back(s.parallel("i"));
        out.push_back(in.back());
      } else {
        in.push_back(kind == index_kind::whole ? s.whole("r") : s.reduced("r"));
        if (a.flag("keep_dims")) {
          out.push_back(access{});
        }
      }
    }
    s.read(in);
    s.write(out);
  };
  const auto value = [kernel = std::move(kernel)](const attribute_reader&, std::span<const tensor_type>) {
    return kernel;
  };
  return define(std::move(name), 1, 1, {integers_field("axes"), flag_field("keep_dims", true)},
                primitive{iteration, value});
}

UNITY_INLINE std::vector<definition> reductions() {
  using namespace kernels;
  return {reduction_along("reduce_sum", sum(x(0)), index_kind::reduction, false),
          reduction_along("reduce_mean", sum(x(0)) / count(), index_kind::reduction, true),
          reduction_along("reduce_max", largest(x(0)), index_kind::whole, false)};
}

UNITY_INLINE void judge_reduction(judgement& j, const attribute_reader& a, bool reals) {
  const auto axes = a.integers("axes");
  if (!(reals ? j.require_floating() : j.require_numeric()) || !j.require(!axes.empty(), "at least one axis") ||
      !require_axes(j, axes, j.rank(0))) {
    return;
  }
  shape dims;
  for (std::size_t d = 0; d < j.rank(0); ++d) {
    if (!contains(axes, d)) {
      dims.push_back(j.dims(0)[d]);
    } else if (a.flag("keep_dims")) {
      dims.push_back(1);
    }
  }
  j.result(std::move(dims));
}

UNITY_INLINE value_id fold_along(body_builder& b, std::string_view name, value_id x,
                                 std::span<const std::int64_t> axes) {
  for (const auto axis : axes) {
    const auto part = [&](value_id of, std::int64_t from, std::int64_t to) {
      return b.add("slice", {of}, {{"axes", {axis}}, {"starts", {from}}, {"ends", {to}}, {"steps", {1}}});
    };
    for (auto n = b.type(x).dims[static_cast<std::size_t>(axis)]; n > 1; n = (n + 1) / 2) {
      const auto half = n / 2;
      const auto joint = b.add(name, {part(x, 0, half), part(x, half, 2 * half)});
      x = n % 2 == 0 ? joint : b.add("concat", {joint, part(x, n - 1, n)}, {{"axis", axis}});
    }
  }
  return x;
}

UNITY_INLINE value_id nonzero_or_one(body_builder& b, value_id v) {
  const auto number = [&](double value) {
    return b.add("fill", {}, {{"value", value}, {"element", name_of(b.type(v).element)}, {"dims", shape{}}});
  };
  return b.add("where", {b.add("equal", {v, number(0)}), number(1), v});
}

UNITY_INLINE definition composite_reduction(std::string name, reduction_body body, bool reals) {
  const auto types = [reals](judgement& j, const attribute_reader& a) { judge_reduction(j, a, reals); };
  const auto build = [body](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axes = a.integers("axes");
    const auto joint = body(b, x[0], axes);
    const auto kept = joint == x[0] ? b.add("identity", {joint}) : joint;  // axes of size 1
    return std::vector{a.flag("keep_dims") ? kept : b.add("squeeze", {kept}, {{"axes", axes}})};
  };
  return define(std::move(name), 1, 1, {integers_field("axes"), flag_field("keep_dims", true)},
                composite{build, types});
}

UNITY_INLINE std::vector<definition> composite_reductions() {
  using axes_list = std::span<const std::int64_t>;
  const auto smallest = [](body_builder& b, value_id x, axes_list axes) {
    if (!is_floating(b.type(x).element)) {  // the least integer has no negative
      return fold_along(b, "minimum", x, axes);
    }
    return b.add("negate", {b.add("reduce_max", {b.add("negate", {x})}, {{"axes", axes}})});
  };
  const auto product = [](body_builder& b, value_id x, axes_list axes) { return fold_along(b, "mul", x, axes); };
  const auto sizes = [](body_builder& b, value_id x, axes_list axes) {
    return b.add("reduce_sum", {b.add("abs", {x})}, {{"axes", axes}});
  };
  const auto squares = [](body_builder& b, value_id x, axes_list axes) {
    return b.add("reduce_sum", {b.add("mul", {x, x})}, {{"axes", axes}});
  };
  const auto length = [](body_builder& b, value_id x, axes_list axes) {
    return b.add("sqrt", {b.add("reduce_sum", {b.add("mul", {x, x})}, {{"axes", axes}})});
  };
  const auto length_adjoint = [](body_builder& b, const attribute_reader& a, const adjoint_problem& p) {
    const auto kept = [&](value_id v) {
      return a.flag("keep_dims") ? v : b.add("unsqueeze", {v}, {{"axes", a.integers("axes")}});
    };
    const auto direction = b.add("div", {p.operand(0), nonzero_or_one(b, kept(p.result(0)))});
    return std::vector{b.add("mul", {direction, kept(p.cotangents[0])})};
  };
  const auto log_sum = [](body_builder& b, value_id x, axes_list axes) {
    return b.add("log", {b.add("reduce_sum", {x}, {{"axes", axes}})});
  };
  const auto log_sum_exp = [](body_builder& b, value_id x, axes_list axes) {
    const auto largest = b.add("reduce_max", {x}, {{"axes", axes}});
    const auto zero = b.add("fill", {}, {{"value", 0.0}, {"element", name_of(b.type(x).element)}, {"dims", shape{}}});
    const auto most = b.add("where", {b.add("is_inf", {largest}), zero, largest});  // inf - inf is NaN
    const auto powers = b.add("exp", {b.add("sub", {x, most})});
    return b.add("add", {b.add("log", {b.add("reduce_sum", {powers}, {{"axes", axes}})}), most});
  };
  return {composite_reduction("reduce_min", smallest, false),
          composite_reduction("reduce_prod", product, false),
          composite_reduction("reduce_l1", sizes, false),
          composite_reduction("reduce_l2", length, true).with_adjoint(length_adjoint),
          composite_reduction("reduce_sum_square", squares, false),
          composite_reduction("reduce_log_sum", log_sum, true),
          composite_reduction("reduce_log_sum_exp", log_sum_exp, true)};
}

}  // namespace unity::tensor::operators

#endif
