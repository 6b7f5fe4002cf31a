// Reductions along given axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// Requires canonical axes: ascending, distinct, below `rank`.
[[nodiscard]] bool require_axes(judgement& j, std::span<const std::int64_t> axes, std::size_t rank);

[[nodiscard]] bool contains(std::span<const std::int64_t> axes, std::size_t axis) noexcept;

// kind: how the reduced indices may be split.
[[nodiscard]] definition reduction_along(std::string name, scalar_kernel kernel, index_kind kind, bool reals);

[[nodiscard]] std::vector<definition> reductions();

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_REDUCTION)

#include <unity/tensor/operators/broadcasting.hpp>

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

}  // namespace unity::tensor::operators

#endif
