// Random cases of layers: products, convolutions, pooling, normalizations, attention, recurrent and quantized ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "case_maker.hpp"
#include "testing.hpp"

namespace unity::tensor::test {

inline random_case convolution_case(case_maker& m) {
  const auto groups = m.size(3);
  const auto ic = m.size(3);
  const auto oc = groups * m.size(3);
  const shape kernel{m.size(3), m.size(3)};
  const auto padding = m.below(4);
  const auto pad = [&] { return padding == 0 ? m.below(3) : 0; };
  types inputs{type({m.size(2), groups * ic, m.size(5) + 4, m.size(5) + 4}), type({oc, ic, kernel[0], kernel[1]})};
  if (m.below(2) == 0) {
    inputs.push_back(type({oc}));
  }
  return m.make("conv2d",
                {{"stride", {m.size(3), m.size(3)}},
                 {"padding", padding},
                 {"pads", {pad(), pad(), pad(), pad()}},
                 {"dilation", {m.size(2), m.size(2)}},
                 {"groups", groups},
                 {"activation", m.below(5)}},
                std::move(inputs));
}

inline random_case pool_case(case_maker& m, bool average) {
  const shape kernel{m.size(3), m.size(3)};
  const auto padding = m.below(4);
  const auto pad = [&](std::size_t d) { return padding == 0 ? m.below(kernel[d]) : 0; };
  const shape pads{pad(0), pad(1), pad(0), pad(1)};
  const shape stride{m.size(3), m.size(3)};
  const auto x = type({m.size(2), m.size(3), m.size(4) + 4, m.size(4) + 4});
  if (average) {
    return m.make("average_pool",
                  {{"kernel", kernel},
                   {"stride", stride},
                   {"padding", padding},
                   {"pads", pads},
                   {"ceil_mode", m.below(2)},
                   {"count_include_pad", m.below(2)}},
                  {x});
  }
  return m.make("max_pool",
                {{"kernel", kernel},
                 {"stride", stride},
                 {"padding", padding},
                 {"pads", pads},
                 {"dilation", {m.size(2), m.size(2)}},
                 {"ceil_mode", m.below(2)}},
                {x});
}

inline random_case layer_norm_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  const auto axis = m.below(std::ssize(dims));
  const shape normalized(std::span<const std::int64_t>{dims}.subspan(static_cast<std::size_t>(axis)));
  return m.make("layer_norm", {{"axis", axis}, {"epsilon", 1e-3}}, {type(dims), type(normalized), type(normalized)});
}

inline random_case batch_norm_case(case_maker& m) {
  const auto dims = m.dims(2, 4);
  const auto c = type({dims[1]});
  return m.make("batch_norm", {{"epsilon", 1e-3}}, {type(dims), c, c, c, c});
}

inline random_case attention_case(case_maker& m) {
  const auto heads = m.size(3);
  const auto b = m.size(2);
  const auto t = m.size();
  const auto d = heads * m.size(3);
  const auto p = heads * m.size(3);
  const shape features{m.size(), m.size(), m.size()};
  return m.make("attention", {{"heads", heads}},
                {type({b, m.size(), features[0]}), type({b, t, features[1]}), type({b, t, features[2]}),
                 type({features[0], d}), type({features[1], d}), type({features[2], p}), type({p, m.size()})});
}

inline random_case lstm_case(case_maker& m) {
  const auto b = m.size();
  const auto f = m.size();
  const auto n = m.size();
  return m.make("lstm_cell", {},
                {type({b, f}), type({b, n}), type({b, n}), type({4, n, f}), type({4, n, n}), type({4, n})});
}

inline random_case matmul_case(case_maker& m) {
  const auto batch = m.dims(0, 2);
  const auto k = m.size(7);
  auto a = m.stretched(batch);
  auto b = m.stretched(batch);
  for (const auto size : {m.size(7), k}) {
    a.push_back(size);
  }
  for (const auto size : {k, m.size(7)}) {
    b.push_back(size);
  }
  return m.make("matmul", {{"activation", m.below(5)}}, {type(a), type(b)});
}

inline random_case linear_case(case_maker& m) {
  auto x = m.dims(1, 3);
  const auto n = m.size(6);
  types inputs{type(x), type({x.back(), n})};
  if (m.below(2) == 0) {
    inputs.push_back(type({n}));
  }
  return m.make("linear", {{"activation", m.below(5)}}, std::move(inputs));
}

inline void add_layers(case_table& table) {
  const std::pair<std::string, std::int64_t> layers[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};
  for (const auto& l : layers) {
    table[l.first] = [name = l.first, gates = l.second](case_maker& m) {
      const auto direction = m.below(3);
      const auto d = direction == 2 ? 2 : 1;
      const auto b = m.size(2);
      const auto f = m.size(3);
      const auto n = m.size(3);
      const shape flags{m.below(2), m.below(2), m.below(2)};
      types inputs{type({m.size(3), b, f}), type({d, gates * n, f}), type({d, gates * n, n})};
      if (flags[0] == 1) {
        inputs.push_back(type({d, 2 * gates * n}));
      }
      for (std::size_t i = 1; i < (name == "lstm" ? 3U : 2U); ++i) {
        if (flags[i] == 1) {
          inputs.push_back(type({d, b, n}));
        }
      }
      std::vector<named_attribute> a{{"direction", direction}, {"bias", flags[0]}, {"initial_h", flags[1]}};
      if (name != "rnn") {
        a.push_back({name == "gru" ? "reset_after" : "initial_c", flags[2]});
      }
      return random_case{standard().make_operation(name, a), std::move(inputs)};
    };
  }
  table["conv2d_transpose"] = [](case_maker& m) {
    const shape x{m.size(2), 2 * m.size(2), m.size(), m.size()};
    const shape w{x[1], m.size(2), m.size(3), m.size(3)};
    const auto s = m.size(2);
    const shape dims{x[0], 2 * w[1], s * (x[2] - 1) + w[2], s * (x[3] - 1) + w[3]};
    return m.make("conv2d_transpose", {{"stride", {s, s}}, {"groups", 2}, {"dims", dims}}, {type(x), type(w)});
  };
  table["conv_transpose"] = [](case_maker& m) {
    const auto spatial = m.size(2);
    const auto groups = m.size(2);
    shape x{m.size(2), groups * m.size(2)};
    shape w{x[1], m.size(2)};
    shape lists[4];
    for (std::int64_t d = 0; d < spatial; ++d) {
      x.push_back(m.size());
      w.push_back(m.size(3));
      lists[0].push_back(m.size(3));
      lists[1].push_back(m.size(2));
      lists[2].push_back(m.below(lists[0].back()));
    }
    for (std::int64_t i = 0; i < 2 * spatial; ++i) {
      lists[3].push_back(m.below(2));
    }
    types inputs{type(x), type(w)};
    if (m.below(2) == 0) {
      inputs.push_back(type({w[1] * groups}));
    }
    return m.make("conv_transpose",
                  {{"stride", lists[0]},
                   {"dilation", lists[1]},
                   {"output_padding", lists[2]},
                   {"pads", lists[3]},
                   {"groups", groups}},
                  inputs);
  };
  table["resize"] = [](case_maker& m) {
    const auto from = m.dims(1, 3);
    shape dims;
    for (std::size_t d = 0; d < from.size(); ++d) {
      dims.push_back(m.size(6));
    }
    return m.make("resize",
                  {{"mode", m.below(2)}, {"coordinates", m.below(4)}, {"rounding", m.below(4)}, {"dims", dims}},
                  {type(from)});
  };
  table["einsum"] = [](case_maker& m) {
    const shape s{m.size(), m.size(), m.size(), m.size()};
    const auto of = [&](std::initializer_list<std::size_t> letters) {
      shape dims;
      for (const auto l : letters) {
        dims.push_back(s[l]);
      }
      return type(dims);
    };
    const std::pair<const char*, types> forms[] = {{"abc,acd->abd", {of({0, 1, 2}), of({0, 2, 3})}},
                                                   {"ab,b", {of({0, 1}), of({1})}},
                                                   {"...ab->...b", {of({2, 3, 0, 1})}},
                                                   {"ab,cb,cd->da", {of({0, 1}), of({2, 1}), of({2, 3})}},
                                                   {"abc,db->dac", {of({0, 1, 2}), of({3, 1})}},
                                                   {"ab->ba", {of({0, 1})}}};
    const auto& [equation, inputs] = forms[m.below(std::ssize(forms))];
    return m.make("einsum", {{"equation", equation}}, inputs);
  };
}

// A scale of x, per element of `block` of the axis, and a zero point or none.
inline types scaled_types(case_maker& m, tensor_type x, std::int64_t axis, std::int64_t block, tensor_type scale,
                          dtype zero_point) {
  const auto size = x.dims[static_cast<std::size_t>(axis)];
  if (block > 0) {
    scale.dims = x.dims;
    scale.dims[static_cast<std::size_t>(axis)] = size / block;
  } else if (m.below(2) == 0) {
    scale.dims = {size};
  }
  types all{std::move(x), scale};
  if (m.below(2) == 0) {
    all.push_back(type(scale.dims, zero_point));
  }
  return all;
}

inline void add_quantizations(case_table& table) {
  const auto byte = [](case_maker& m) { return m.below(2) == 0 ? dtype::int8 : dtype::uint8; };
  for (const std::string name : {"quantize", "dequantize"}) {
    table[name] = [name, byte](case_maker& m) {
      auto x = m.dims(1, 3);
      const auto axis = m.below(std::ssize(x));
      const auto block = m.below(2) == 0 ? 0 : m.size(3);
      x[static_cast<std::size_t>(axis)] *= block > 0 ? block : 1;
      const auto element = byte(m);
      if (name == "dequantize") {
        return m.make(name, {{"axis", axis}, {"block", block}},
                      scaled_types(m, type(x, element), axis, block, type({}), element));
      }
      return m.make(name, {{"axis", axis}, {"block", block}, {"element", name_of(element)}},
                    scaled_types(m, type(x), axis, block, type({}), element));
    };
  }
  table["dynamic_quantize"] = [](case_maker& m) { return m.make("dynamic_quantize", {}, {type(m.dims(0, 3))}); };
  // One number for all, or one for each.
  const auto some = [](case_maker& m, std::int64_t each, dtype element) {
    return type(m.below(2) == 0 ? shape{} : shape{each}, element);
  };
  table["integer_matmul"] = [=](case_maker& m) {
    auto a = m.dims(0, 2);
    const shape b{m.size(), m.size()};
    a.push_back(m.size());
    a.push_back(b[0]);
    types all{type(a, byte(m)), type(b, byte(m))};
    const auto zero_points = m.below(3);
    if (zero_points > 0) {
      all.push_back(some(m, a[a.size() - 2], all[0].element));
    }
    if (zero_points > 1) {
      all.push_back(some(m, b[1], all[1].element));
    }
    return m.make("integer_matmul", {}, all);
  };
  table["quantized_matmul"] = [=](case_maker& m) {
    const shape a{m.size(), m.size(), m.size()};
    const shape b{a[2], m.size()};
    const auto first = byte(m);
    const auto second = byte(m);
    const auto rows = some(m, a[1], first).dims;
    const auto columns = some(m, b[1], second).dims;
    return m.make("quantized_matmul", {},
                  {type(a, first), type(rows), type(rows, first), type(b, second), type(columns), type(columns, second),
                   type({}), type({}, byte(m))});
  };
  for (const std::string name : {"integer_conv2d", "quantized_conv2d"}) {
    table[name] = [=](case_maker& m) {
      const auto groups = m.size(2);
      const shape w{groups * m.size(2), m.size(2), m.size(2), m.size(2)};
      const auto x = type({m.size(2), groups * w[1], m.size(3) + 2, m.size(3) + 2}, byte(m));
      const auto weights = type(w, byte(m));
      const std::int64_t strides[] = {m.size(2), m.size(2)};
      const std::int64_t pads[] = {m.below(2), m.below(2), m.below(2), m.below(2)};
      const auto channels = some(m, w[0], weights.element);
      if (name == "integer_conv2d") {
        types all{x, weights, type({}, x.element), channels};
        all.resize(static_cast<std::size_t>(m.size(3)) + 1);
        return m.make(name, {{"stride", strides}, {"pads", pads}, {"groups", groups}}, all);
      }
      types all{x, type({}), type({}, x.element), weights, type(channels.dims), channels, type({}), type({}, byte(m))};
      if (m.below(2) == 0) {
        all.push_back(type({w[0]}, dtype::int32));
      }
      return m.make(name, {{"stride", strides}, {"pads", pads}, {"groups", groups}}, all);
    };
  }
}

}  // namespace unity::tensor::test
