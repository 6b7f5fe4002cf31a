// Source values that keep the values in a model at about the same magnitude. With arbitrary weights, deep networks
// leave the range of float32 or lose their signal in the first layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/source_roles.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

// Per value: the largest number of products with its elements that are summed per result element. 0: not a factor of a
// product.
class fan_ins {
 public:
  fan_ins(const algebra& a, const tensor_graph& g);
  [[nodiscard]] std::int64_t operator[](value_id v) const { return counts_[v.index()]; }

 private:
  [[nodiscard]] static std::int64_t own(std::string_view name, std::size_t operand, const shape& dims);

  std::vector<std::int64_t> counts_;
};

struct balanced_source {
  tensor_type type{};
  detail::value_role role{};
  std::int64_t fan_in = 0;
  bool constant = false;
};

// unit: uniform in [0, 1).
[[nodiscard]] double balanced_value(const balanced_source& s, double unit);

}  // namespace detail

// Source values by name, for `model` and graphs rewritten from it. Equal names and seeds give equal values. Weights in
// sums of products are uniform with variance 2 / (number of summed products); inputs are uniform in [-1, 1); values
// that must be positive and gains of normalizations in [1/2, 3/2); added values in [-1/4, 1/4). Integers are row
// numbers of the tables that they index.
// Source: He et al., Delving deep into rectifiers, ICCV 2015: the variance.
[[nodiscard]] source_data balanced_values(const algebra& a, const tensor_graph& model, std::uint64_t seed = 0);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_BALANCED_VALUES)

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include <unity/core/hash.hpp>
#include <unity/tensor/dense.hpp>

namespace unity::tensor::detail {

UNITY_INLINE fan_ins::fan_ins(const algebra& a, const tensor_graph& g) : counts_(g.value_count()) {
  for (auto i = g.node_count(); i-- > 0;) {
    const node_id n{i};
    const auto& d = a.definition_of(g.operation(n).kind);
    const auto operands = g.operands(n);
    for (std::size_t k = 0; k < operands.size(); ++k) {
      auto summed = own(d.signature.name, k, g.type(operands[k]).dims);
      if (std::holds_alternative<view>(d.body) || d.signature.name == "identity" || d.signature.name == "cast") {
        for (const auto v : g.results(n)) {
          summed = std::max(summed, counts_[v.index()]);
        }
      }
      counts_[operands[k].index()] = std::max(counts_[operands[k].index()], summed);
    }
  }
}

UNITY_INLINE std::int64_t fan_ins::own(std::string_view name, std::size_t operand, const shape& dims) {
  if (name == "conv2d" && operand == 1) {
    return element_count(dims) / dims[0];
  }
  if (name == "matmul" || (name == "linear" && operand <= 1)) {
    return dims[operand == 0 ? dims.size() - 1 : dims.size() - 2];
  }
  if (name == "attention" && operand >= 3) {
    return dims[0];
  }
  return name == "lstm_cell" && (operand == 3 || operand == 4) ? dims[2] : 0;
}

UNITY_INLINE double balanced_value(const balanced_source& s, double unit) {
  if (s.role.positive || s.role.gain) {
    return unit + 0.5;
  }
  if (s.constant && s.fan_in > 0) {
    return (2 * unit - 1) * std::sqrt(6.0 / static_cast<double>(s.fan_in));
  }
  const bool added = s.role.offset || (s.constant && s.type.rank() <= 1);
  return (2 * unit - 1) * (added ? 0.25 : 1);
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE source_data balanced_values(const algebra& a, const tensor_graph& model, std::uint64_t seed) {
  detail::source_roles roles{a};
  roles.read(model);
  const detail::fan_ins fan_ins{a, model};
  std::map<std::string, detail::balanced_source, std::less<>> sources;
  for (const auto i : node_ids(model)) {
    const auto& op = model.operation(i);
    const auto kind = a.definition_of(op.kind).source;
    if (kind != source_kind::none) {
      const auto v = model.results(i)[0];
      auto name = a.read(op).word("name");
      const auto role = roles.of(name);
      auto& s = sources.try_emplace(std::move(name), detail::balanced_source{model.type(v), role}).first->second;
      s.fan_in = std::max(s.fan_in, fan_ins[v]);
      s.constant = kind == source_kind::constant;
    }
  }
  return [sources = std::move(sources), seed](std::string_view name) -> std::optional<dense<double>> {
    const auto found = sources.find(name);
    if (found == sources.end()) {
      return std::nullopt;
    }
    const auto& s = found->second;
    dense<double> values{s.type.dims};
    const auto stream = hash_combine(seed, hash_bytes(name));
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      const auto bits = hash_combine(stream, i);
      if (s.role.exponent) {
        values.data[i] = 2;
      } else if (!is_floating(s.type.element)) {
        const auto below = s.type.element == dtype::boolean ? 2 : s.role.below;
        values.data[i] = static_cast<double>(bits % static_cast<std::uint64_t>(below));
      } else {
        values.data[i] = detail::balanced_value(s, static_cast<double>(bits >> 11U) * 0x1.0p-53);
      }
    }
    return values;
  };
}

}  // namespace unity::tensor

#endif
