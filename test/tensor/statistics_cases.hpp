// Random operations of reductions, positions, normalizations, losses and attention (random_case.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include <unity/tensor/shape.hpp>

#include "testing.hpp"

namespace unity::tensor::test {

template <class Maker, class Table>
void add_further_reductions(Table& table) {
  for (const std::string name : {"reduce_min", "reduce_prod", "reduce_l1", "reduce_l2", "reduce_sum_square",
                                 "reduce_log_sum", "reduce_log_sum_exp"}) {
    table[name] = [name](Maker& m) {
      const auto dims = m.dims(1, 4);
      return m.make(name, {{"axes", m.axes(dims.size())}, {"keep_dims", m.below(2)}}, {type(dims)});
    };
  }
  for (const std::string name : {"arg_max", "arg_min"}) {
    table[name] = [name](Maker& m) {
      const auto dims = m.dims(1, 4);
      return m.make(name, {{"axis", m.below(std::ssize(dims))}, {"keep_dims", m.below(2)}, {"last", m.below(2)}},
                    {type(dims)});
    };
  }
  table["is_position"] = [](Maker& m) {
    const auto dims = m.dims(0, 3);
    return m.make("is_position", {{"axis", m.below(std::ssize(dims) + 1)}, {"size", m.size()}, {"element", "float32"}},
                  {type(dims, dtype::int64)});
  };
  table["equal_positions"] = [](Maker& m) {
    const auto dims = m.dims(1, 4);
    const auto axis = m.below(std::ssize(dims));
    auto of = dims;
    of[static_cast<std::size_t>(axis)] = 1;
    return m.make("equal_positions", {{"axis", axis}, {"last", m.below(2)}}, {type(dims), type(of)});
  };
  table["cumulative_sum"] = [](Maker& m) {
    const auto dims = m.dims(1, 4);
    return m.make("cumulative_sum",
                  {{"axis", m.below(std::ssize(dims))}, {"exclusive", m.below(2)}, {"reverse", m.below(2)}},
                  {type(dims)});
  };
}

template <class Maker, class Table>
void add_further_normalizations(Table& table) {
  for (const std::string name : {"hardmax", "log_softmax"}) {
    table[name] = [name](Maker& m) {
      const auto dims = m.dims(1, 4);
      return m.make(name, {{"axis", m.below(std::ssize(dims))}}, {type(dims)});
    };
  }
  table["flat_softmax"] = [](Maker& m) {
    const auto dims = m.dims(1, 4);
    return m.make("flat_softmax", {{"axis", m.below(std::ssize(dims) + 1)}, {"function", m.below(3)}}, {type(dims)});
  };
  table["group_norm"] = [](Maker& m) {
    auto dims = m.dims(2, 4);
    const auto groups = m.size(3);
    dims[1] = groups * m.size(3);
    const auto each = type({m.below(2) == 0 ? groups : dims[1]});
    return m.make("group_norm", {{"groups", groups}, {"epsilon", 1e-3}}, {type(dims), each, each});
  };
  table["instance_norm"] = [](Maker& m) {
    const auto dims = m.dims(2, 4);
    return m.make("instance_norm", {{"epsilon", 1e-3}}, {type(dims), type({dims[1]}), type({dims[1]})});
  };
  table["rms_norm"] = [](Maker& m) {
    const auto dims = m.dims(1, 4);
    const auto axis = m.below(std::ssize(dims));
    const shape normalized(std::span<const std::int64_t>{dims}.subspan(static_cast<std::size_t>(axis)));
    return m.make("rms_norm", {{"axis", axis}, {"epsilon", 1e-3}}, {type(dims), type(m.stretched(normalized))});
  };
  table["local_response_norm"] = [](Maker& m) {
    return m.make("local_response_norm", {{"size", m.size(6)}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 1.5}},
                  {type(m.dims(2, 4))});
  };
  table["lp_norm"] = [](Maker& m) {
    const auto dims = m.dims(1, 4);
    return m.make("lp_norm", {{"axis", m.below(std::ssize(dims))}, {"p", m.size(2)}}, {type(dims)});
  };
  table["mean_variance_norm"] = [](Maker& m) {
    auto dims = m.dims(1, 4);
    const auto axes = m.axes(dims.size());
    ++dims[static_cast<std::size_t>(axes[0])];  // the deviation of one element is 0, where the root has no derivative
    return m.make("mean_variance_norm", {{"axes", axes}}, {type(dims)});
  };
}

template <class Maker, class Table>
void add_likelihood_losses(Table& table) {
  for (const std::string name : {"negative_log_likelihood", "softmax_cross_entropy"}) {
    table[name] = [name](Maker& m) {
      auto dims = m.dims(2, 4);
      dims[0] += 4;  // enough labels that some class counts: a mean over none is 0 / 0
      ++dims[1];
      auto labels = dims;
      labels.erase(labels.begin() + 1);
      types inputs{type(dims), type(labels, dtype::int64)};
      if (m.below(2) == 0) {
        inputs.push_back(type({dims[1]}));
      }
      return m.make(name, {{"reduction", m.below(3)}, {"ignores", m.below(2)}, {"ignored", m.random().between(-1, 3)}},
                    std::move(inputs));
    };
  }
}

template <class Maker, class Table>
void add_attentions(Table& table) {
  table["lower_triangle"] = [](Maker& m) {
    return m.make("lower_triangle", {{"rows", m.size()}, {"columns", m.size()}, {"element", "float32"}}, {});
  };
  table["dot_product_attention"] = [](Maker& m) {
    const auto b = m.size(2);
    const auto g = m.size(2);
    const auto h = g * m.size(2);
    const auto s = m.size();
    const auto t = m.size();
    const auto d = m.size();
    const auto p = m.size();
    const bool flat = m.below(2) == 0;
    types inputs{type({b, h, s, d}), type({b, g, t, d}), type({b, g, t, p})};
    if (flat) {
      inputs = {type({b, s, h * d}), type({b, t, g * d}), type({b, t, g * p})};
    }
    if (m.below(2) == 0) {
      inputs.push_back(type(m.stretched({b, h, s, t})));
    }
    return m.make("dot_product_attention",
                  {{"heads", flat ? h : 0}, {"key_heads", flat ? g : 0}, {"scale", 0.5}, {"causal", m.below(2)}},
                  std::move(inputs));
  };
  table["rotary_embedding"] = [](Maker& m) {
    const auto b = m.size(2);
    const auto h = m.size(3);
    const auto s = m.size();
    const auto r = m.size(2);
    const auto d = 2 * r + m.below(3);
    const bool flat = m.below(2) == 0;
    types inputs{flat ? type({b, s, h * d}) : type({b, h, s, d})};
    const bool numbered = m.below(2) == 0;
    inputs.resize(3, numbered ? type({m.size() + 1, r}) : type({b, s, r}));
    if (numbered) {
      inputs[2] = inputs[1];
      inputs.push_back(type({b, s}, dtype::int64));
    }
    return m.make("rotary_embedding", {{"heads", flat ? h : 0}, {"interleaved", m.below(2)}}, std::move(inputs));
  };
}

template <class Maker, class Table>
void add_statistics(Table& table) {
  add_further_reductions<Maker>(table);
  add_further_normalizations<Maker>(table);
  add_likelihood_losses<Maker>(table);
  add_attentions<Maker>(table);
}

}  // namespace unity::tensor::test
