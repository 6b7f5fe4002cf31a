// Cells of recurrent networks.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/composite_gradient.hpp>

namespace unity::tensor::operators {

// One step of a long short-term memory. k equals n, except in a part of a divided cell, which reads the whole state and
// computes a part of it. Gates along dimension 0 in ONNX's order: input, output, forget, cell.
// Shapes: x[b, m], h[b, k], c[b, n], w[4, n, m], r[4, n, k], bias[4, n] -> h[b, n], c[b, n].
[[nodiscard]] definition lstm_cell();

[[nodiscard]] inline std::vector<definition> recurrent_cells() { return {lstm_cell()}; }
[[nodiscard]] inline std::vector<definition> recurrent_gradients() { return {composite_gradient(lstm_cell(), 2)}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_RECURRENT)

#include <span>

#include <unity/tensor/body_builder.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition lstm_cell() {
  const auto types = [](judgement& j, const attribute_reader&) {
    constexpr std::size_t ranks[] = {2, 2, 2, 3, 3, 2};
    for (std::size_t i = 0; i < 6; ++i) {
      if (!j.require(j.rank(i) == ranks[i], "another rank", static_cast<int>(i))) {
        return;
      }
    }
    const auto b = j.dims(0)[0];
    const auto m = j.dims(0)[1];
    const auto k = j.dims(1)[1];
    const auto n = j.dims(2)[1];
    j.require_floating();
    j.require(j.dims(1)[0] == b, "a state per row of the input", 1);
    j.require(j.dims(2)[0] == b, "a cell per row of the input", 2);
    j.require(j.dims(3) == shape{4, n, m}, "weights [4, cells, features]", 3);
    j.require(j.dims(4) == shape{4, n, k}, "weights [4, cells, states]", 4);
    j.require(j.dims(5) == shape{4, n}, "a bias [4, cells]", 5);
    j.result(j.dims(2));
    j.result(j.dims(2));
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto times = [&](value_id in, value_id weight) {
      return b.add("matmul", {in, b.add("transpose", {weight}, {{"permutation", {0, 2, 1}}})});
    };
    const auto sums = b.add("add", {times(x[0], x[3]), times(x[1], x[4])});
    const auto gates = b.add("add", {sums, b.add("unsqueeze", {x[5]}, {{"axes", {1}}})});
    const auto parts = b.add_all("split", {gates}, {{"axis", {0}}, {"sizes", {1, 1, 1, 1}}});
    const auto gate = [&](std::size_t i, const char* function) {
      return b.add(function, {b.add("squeeze", {parts[i]}, {{"axes", {0}}})});
    };
    const auto input = gate(0, "sigmoid");
    const auto output = gate(1, "sigmoid");
    const auto forget = gate(2, "sigmoid");
    const auto cell = gate(3, "tanh");
    const auto c = b.add("add", {b.add("mul", {forget, x[2]}), b.add("mul", {input, cell})});
    return std::vector{b.add("mul", {output, b.add("tanh", {c})}), c};
  };
  return define("lstm_cell", 6, 2, {}, composite{body, types})
      .with_adjoint(composite_adjoint("lstm_cell_gradient", {}))
      .with_index_names({"samples", "cells"});
}

}  // namespace unity::tensor::operators

#endif
