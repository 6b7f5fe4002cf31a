// Matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// Shapes: a[..., m, k], b[..., k, n] -> [..., m, n]; the leading dimensions broadcast.
[[nodiscard]] definition matmul();

// Shapes: x[..., k], w[k, n], optional bias[n] -> [..., n].
[[nodiscard]] definition linear();

[[nodiscard]] inline std::vector<definition> matrix_products() { return {matmul(), linear()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_MATMUL)

#include <span>

#include <unity/tensor/operators/activation.hpp>
#include <unity/tensor/operators/broadcasting.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition matmul() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (!s.require_floating() || !s.require(s.rank(0) >= 2 && s.rank(1) >= 2, "operands of rank 2 or more")) {
      return;
    }
    const auto batch_of = [&](std::size_t operand) {
      return std::span<const std::int64_t>{s.dims(operand)}.first(s.rank(operand) - 2);
    };
    const auto joint = broadcast(batch_of(0), batch_of(1));
    if (!s.require(joint.has_value(), "leading dimensions that broadcast")) {
      return;
    }
    const auto batch = declare_all(s, *joint);
    const auto m = s.parallel("m");
    const auto n = s.parallel("n");
    const auto k = s.reduced("k");
    const auto with = [](accesses leading, int rows, int columns) {
      leading.push_back(rows);
      leading.push_back(columns);
      return leading;
    };
    s.read(with(seen(batch, *joint, batch_of(0)), m, k));
    s.read(with(seen(batch, *joint, batch_of(1)), k, n));
    s.write(with(batch, m, n));
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    return activate(a, kernels::sum(kernels::x(0) * kernels::x(1)));
  };
  return define("matmul", 2, 1, {activation_field()}, primitive{iteration, kernel}).with_layouts();
}

UNITY_INLINE definition linear() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (!s.require_operands(2, 3) || !s.require_floating() ||
        !s.require(s.rank(0) >= 1, "an operand of rank 1 or more", 0)) {
      return;
    }
    accesses rows;
    for (std::size_t d = 0; d + 1 < s.rank(0); ++d) {
      rows.push_back(s.parallel("b"));
    }
    const auto n = s.parallel("n");
    const auto k = s.reduced("k");
    auto dims = rows;
    dims.push_back(k);
    s.read(dims);
    s.read({k, n});
    if (s.inputs().size() == 3) {
      s.read({n});
    }
    dims = rows;
    dims.push_back(n);
    s.write(dims);
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    const auto product = kernels::sum(kernels::x(0) * kernels::x(1));
    return activate(a, inputs.size() == 3 ? product + kernels::x(2) : product);
  };
  return define("linear", op_signature::any, 1, {activation_field()}, primitive{iteration, kernel}).with_layouts();
}

}  // namespace unity::tensor::operators

#endif
