// Cells of recurrent networks, and recurrent layers over all steps of a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/parts.hpp>

namespace unity::tensor::operators {

// Recurrent layers over all steps of a sequence, as in ONNX: composites of their steps.
//
// Shapes: x[t, b, m], w[d, g n, m], r[d, g n, n], and in this order, each if its flag is set, bias[d, 2 g n] (for w,
// then for r), initial_h[d, b, n], initial_c[d, b, n] -> y[t, d, b, n], h[d, b, n] after the last step, and for lstm
// c[d, b, n]; g gates, d directions. A reverse direction runs from the last step to the first.

// h = tanh(x w + h r).
[[nodiscard]] definition rnn();

// Gates: update, reset, hidden. reset_after: the reset gate multiplies the product of the state and its weights,
// instead of the state.
[[nodiscard]] definition gru();

// Gates: input, output, forget, cell.
[[nodiscard]] definition lstm();

[[nodiscard]] inline std::vector<definition> recurrent_layers() { return {rnn(), gru(), lstm()}; }

// One step of a long short-term memory. k equals n, except in a part of a divided cell, which reads the whole state and
// computes a part of it. Gates along dimension 0 in ONNX's order: input, output, forget, cell.
// Shapes: x[b, m], h[b, k], c[b, n], w[4, n, m], r[4, n, k], bias[4, n] -> h[b, n], c[b, n].
[[nodiscard]] definition lstm_cell();

[[nodiscard]] inline std::vector<definition> recurrent_cells() { return {lstm_cell()}; }
[[nodiscard]] inline std::vector<definition> recurrent_gradients() { return {composite_gradient(lstm_cell(), 2)}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_RECURRENT)

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

namespace detail {

enum class direction : std::uint8_t { forward, reverse, bidirectional };

struct recurrent_state {
  value_id h{};
  value_id c{};  // lstm only
};

// The input of a step of one direction besides its state: the contribution of x to all gates, and the weights of the
// state.
struct recurrent_step {
  body_builder& b;
  value_id gates{};    // [b, g n]
  value_id weights{};  // [n, g n]
  value_id bias{};     // [g n], bias of the recurrent weights; null: none
  std::int64_t cells = 0;

  [[nodiscard]] value_id columns(value_id x, std::int64_t first, std::int64_t count) const {
    const auto axis = static_cast<std::int64_t>(b.type(x).rank()) - 1;
    return b.add("slice", {x},
                 {{"axes", {axis}}, {"starts", {first * cells}}, {"ends", {(first + count) * cells}}, {"steps", {1}}});
  }
  // The contribution of the state to gates [first, first + count).
  [[nodiscard]] value_id of_state(value_id h, std::int64_t first, std::int64_t count) const {
    const auto w = columns(weights, first, count);
    return bias.valid() ? b.add("linear", {h, w, columns(bias, first, count)}) : b.add("linear", {h, w});
  }
  // The contributions of the state and of the input to these gates.
  [[nodiscard]] value_id sums(value_id h, std::int64_t first, std::int64_t count) const {
    return b.add("add", {columns(gates, first, count), of_state(h, first, count)});
  }
};

using recurrent_function = recurrent_state (*)(const recurrent_step&, const attribute_reader&, const recurrent_state&);

[[nodiscard]] definition recurrent_layer(std::string name, std::int64_t gates, bool has_cell,
                                         std::vector<attribute_field> more, recurrent_function step);

[[nodiscard]] inline std::int64_t directions(const attribute_reader& a) {
  return a.choice<direction>("direction") == direction::bidirectional ? 2 : 1;
}

// Selects one direction. Shapes: [d, e...] -> [e...].
[[nodiscard]] inline value_id one_of(body_builder& b, value_id x, std::int64_t i) {
  const auto& dims = b.type(x).dims;
  const shape rest(std::span<const std::int64_t>{dims}.subspan(1));
  if (dims[0] == 1) {
    return tensor::detail::reshaped(b, x, rest);
  }
  return tensor::detail::reshaped(
      b, b.add("slice", {x}, {{"axes", {0}}, {"starts", {i}}, {"ends", {i + 1}}, {"steps", {1}}}), rest);
}

// Stacks values of equal shape along a new dimension.
[[nodiscard]] inline value_id stacked(body_builder& b, std::span<const value_id> all, std::size_t axis) {
  auto dims = b.type(all[0]).dims;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  std::vector<value_id> parts;
  for (const auto v : all) {
    parts.push_back(tensor::detail::reshaped(b, v, dims));
  }
  return parts.size() == 1 ? parts[0] : b.add("concat", parts, std::vector{named_attribute{"axis", axis}});
}

UNITY_INLINE definition recurrent_layer(std::string name, std::int64_t gates, bool has_cell,
                                        std::vector<attribute_field> more, recurrent_function step) {
  const auto types = [gates, has_cell](judgement& j, const attribute_reader& a) {
    const bool biased = a.flag("bias");
    const bool with_h = a.flag("initial_h");
    const bool with_c = has_cell && a.flag("initial_c");
    const auto count = std::size_t{3} + (biased ? 1 : 0) + (with_h ? 1 : 0) + (with_c ? 1 : 0);
    if (!j.require(j.inputs().size() == count, "an operand for each bias and state that the attributes name") ||
        !j.require_floating()) {
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!j.require_rank(i, biased && i == 3 ? 2 : 3) ||
          !j.require(checked_element_count(j.dims(i)).has_value(), "positive sizes", static_cast<int>(i))) {
        return;
      }
    }
    const auto& x = j.dims(0);
    const auto d = directions(a);
    const auto n = j.dims(2)[2];
    j.require(n <= max_elements / 16 && j.dims(1) == shape{d, gates * n, x[2]}, "weights [directions, gates, features]",
              1);
    j.require(j.dims(2) == shape{d, gates * n, n}, "weights [directions, gates, cells]", 2);
    j.require(!biased || j.dims(3) == shape{d, 2 * gates * n}, "a bias [directions, twice the gates]", 3);
    for (auto i = count - (with_h ? 1 : 0) - (with_c ? 1 : 0); i < count; ++i) {
      j.require(j.dims(i) == shape{d, x[1], n}, "a state [directions, samples, cells]", static_cast<int>(i));
    }
    j.result({x[0], d, x[1], n});
    j.result({d, x[1], n});
    if (has_cell) {
      j.result({d, x[1], n});
    }
  };
  const auto body = [gates, has_cell, step](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = b.type(x[0]).dims;
    const auto n = b.type(x[2]).dims[2];
    const auto zeros =
        b.add("fill", {}, {{"value", 0.0}, {"element", name_of(b.type(x[0]).element)}, {"dims", {dims[1], n}}});
    std::vector<value_id> all;
    std::vector<value_id> last_h;
    std::vector<value_id> last_c;
    for (std::int64_t d = 0; d < directions(a); ++d) {
      const auto transposed = [&](std::size_t i) {
        return b.add("transpose", {one_of(b, x[i], d)}, {{"permutation", {1, 0}}});
      };
      std::size_t next = 3;
      recurrent_step s{b, {}, transposed(2), {}, n};
      std::vector<value_id> projection{x[0], transposed(1)};
      if (a.flag("bias")) {
        const auto bias = one_of(b, x[next++], d);
        projection.push_back(s.columns(bias, 0, gates));
        s.bias = s.columns(bias, gates, gates);
      }
      recurrent_state state{zeros, zeros};
      state.h = a.flag("initial_h") ? one_of(b, x[next++], d) : state.h;
      state.c = has_cell && a.flag("initial_c") ? one_of(b, x[next++], d) : state.c;
      const auto inputs = b.add("linear", projection);
      const bool reverse = a.choice<direction>("direction") == direction::reverse || d == 1;
      std::vector<value_id> states(static_cast<std::size_t>(dims[0]));
      for (std::int64_t i = 0; i < dims[0]; ++i) {
        const auto t = reverse ? dims[0] - 1 - i : i;
        s.gates = one_of(b, inputs, t);
        state = step(s, a, state);
        states[static_cast<std::size_t>(t)] = state.h;
      }
      all.push_back(stacked(b, states, 0));
      last_h.push_back(state.h);
      last_c.push_back(state.c);
    }
    std::vector results{stacked(b, all, 1), stacked(b, last_h, 0)};
    if (has_cell) {
      results.push_back(stacked(b, last_c, 0));
    }
    return results;
  };
  std::vector<attribute_field> fields{choice_field("direction", {"forward", "reverse", "bidirectional"}),
                                      flag_field("bias", false), flag_field("initial_h", false)};
  if (has_cell) {
    fields.push_back(flag_field("initial_c", false));
  }
  fields.insert(fields.end(), more.begin(), more.end());
  auto d = define(std::move(name), {3, has_cell ? 6 : 5}, has_cell ? 3 : 2, std::move(fields), composite{body, types});
  // One multiply-add per weight and sample of each step, and about ten operations per element of a gate.
  d.own_work = [](const attribute_reader&, std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
    constexpr std::int64_t per_gate = 10;
    const auto weights = saturating_add(element_count(inputs[1].dims), element_count(inputs[2].dims));
    const auto each = saturating_add(saturating_multiply(2, weights), inputs[1].dims[0] * inputs[1].dims[1] * per_gate);
    const auto samples = saturating_multiply(inputs[0].dims[0], inputs[0].dims[1]);
    return operator_work{flops{saturating_multiply(samples, each)}, total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

}  // namespace detail

UNITY_INLINE definition rnn() {
  const auto step = [](const detail::recurrent_step& s, const attribute_reader&, const detail::recurrent_state& state) {
    return detail::recurrent_state{s.b.add("tanh", {s.sums(state.h, 0, 1)}), state.c};
  };
  return detail::recurrent_layer("rnn", 1, false, {}, step);
}

UNITY_INLINE definition gru() {
  const auto step = [](const detail::recurrent_step& s, const attribute_reader& a,
                       const detail::recurrent_state& state) {
    auto& b = s.b;
    const auto both = b.add("sigmoid", {s.sums(state.h, 0, 2)});
    const auto update = s.columns(both, 0, 1);
    const auto reset = s.columns(both, 1, 1);
    const auto of_input = s.columns(s.gates, 2, 1);
    const auto of_state = a.flag("reset_after") ? b.add("mul", {reset, s.of_state(state.h, 2, 1)})
                                                : s.of_state(b.add("mul", {reset, state.h}), 2, 1);
    const auto hidden = b.add("tanh", {b.add("add", {of_input, of_state})});
    const auto change = b.add("mul", {update, b.add("sub", {state.h, hidden})});
    return detail::recurrent_state{b.add("add", {hidden, change}), state.c};
  };
  return detail::recurrent_layer("gru", 3, false, {flag_field("reset_after", false)}, step);
}

UNITY_INLINE definition lstm() {
  const auto step = [](const detail::recurrent_step& s, const attribute_reader&, const detail::recurrent_state& state) {
    auto& b = s.b;
    const auto sums = s.sums(state.h, 0, 4);
    const auto open = b.add("sigmoid", {s.columns(sums, 0, 3)});
    const auto cell = b.add("tanh", {s.columns(sums, 3, 1)});
    const auto c =
        b.add("add", {b.add("mul", {s.columns(open, 2, 1), state.c}), b.add("mul", {s.columns(open, 0, 1), cell})});
    return detail::recurrent_state{b.add("mul", {s.columns(open, 1, 1), b.add("tanh", {c})}), c};
  };
  return detail::recurrent_layer("lstm", 4, true, {}, step);
}

UNITY_INLINE definition lstm_cell() {
  const auto types = [](judgement& j, const attribute_reader&) {
    constexpr std::size_t ranks[] = {2, 2, 2, 3, 3, 2};
    for (std::size_t i = 0; i < 6; ++i) {
      if (!j.require_rank(i, ranks[i])) {
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
