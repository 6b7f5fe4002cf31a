// Values for sources with which a graph can be evaluated and that reveal differences or keep magnitudes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Chooses values for sources with which a graph can be evaluated and that reveal differences.

// The actual values of a source, by name; nothing if there are none.
using source_data = std::function<std::optional<dense<double>>(std::string_view name)>;

// The requirements of the readers of a value.
struct value_role {
  bool positive = false;   // operand of a root, logarithm or reciprocal
  bool exponent = false;   // exponent of a power
  bool offset = false;     // added to something
  bool gain = false;       // multiplies a normalized value
  std::int64_t below = 4;  // for integers: the number of rows that they index
  bool read = false;       // `below` comes from a reader

  void join(const value_role& o);
};

// The requirements of the readers of each source, by its name: walks graphs backward from uses to sources.
// Complexity of read(): linear in the graph.
class source_roles {
 public:
  explicit source_roles(const algebra& a) : algebra_{a} {}

  void read(const tensor_graph& g);
  // Makes all sources positive, for graphs whose computed values must be positive.
  void make_positive();
  [[nodiscard]] value_role of(const std::string& name) const {
    const auto found = named_.find(name);
    return found == named_.end() ? value_role{} : found->second;
  }

 private:
  void pass(const tensor_graph& g, node_id n, const value_role& role, std::vector<value_role>& roles) const;
  // The scalar programs of a primitive with operands; empty for any other operator.
  struct scalar_programs {
    std::vector<scalar_program> all{};
    std::vector<std::int64_t> sizes{};  // of the indices
    bool reduces = false;
  };
  [[nodiscard]] scalar_programs programs_of(const tensor_graph& g, node_id n) const;
  // Whether the result is the operand, possibly with another element type.
  [[nodiscard]] static bool is_copy(const scalar_programs& programs);
  // The requirements of scalar functions on their operands.
  template <class Join>
  static void pass_program(const scalar_program& p, const std::vector<std::int64_t>& sizes, const Join& join) {
    const auto is_operand = [&](std::size_t i) { return p[i].op == scalar_op::operand; };
    const auto number = [&](std::size_t i) { return static_cast<std::size_t>(p[i].number); };
    for (std::size_t i = 1; i < p.size(); ++i) {
      const bool of_operand = is_operand(i - 1);
      switch (p[i].op) {
        case scalar_op::sqrt:
        case scalar_op::log:
        case scalar_op::reciprocal:
        case scalar_op::div:
          if (of_operand) {
            join(number(i - 1), {.positive = true});
          }
          break;
        case scalar_op::pow:
          if (of_operand) {
            join(number(i - 1), {.exponent = true});
          }
          if (of_operand && i >= 2 && is_operand(i - 2)) {
            join(number(i - 2), {.positive = true});
          }
          break;
        case scalar_op::equal:  // compared with a position: the value numbers elements along the index
          if (i >= 2 && is_operand(i - 2) && p[i - 1].op == scalar_op::coordinate) {
            join(number(i - 2), {.below = sizes[number(i - 1)], .read = true});
          }
          break;
        default: break;
      }
    }
  }
  // The required scale of operands, so that signals neither explode nor vanish.
  template <class Join>
  static void pass_sizes(const tensor_graph& g, node_id n, std::string_view name, const Join& join) {
    const auto operands = g.operands(n);
    const bool normalizes = name == "layer_norm" || name == "batch_norm";
    if (normalizes) {
      join(1, {.gain = true});
    }
    if ((normalizes || name == "conv2d" || name == "linear") && operands.size() >= 3) {
      join(2, {.offset = true});
    }
    for (std::size_t i = 0; i < 2 && (name == "add" || name == "sub"); ++i) {
      if (g.type(operands[i]).constant && !g.type(operands[1 - i]).constant) {
        join(i, {.offset = true});
      }
    }
  }
  [[nodiscard]] bool is_view(const operation& op) const {
    return std::holds_alternative<view>(algebra_.definition_of(op.kind).body);
  }
  // Positive operands give positive results, and others might not.
  [[nodiscard]] static bool keeps_positive(std::string_view name);

  const algebra& algebra_;
  std::map<std::string, value_role, std::less<>> named_;
};

namespace detail {

// The values of sources at one point: equal for equal name, sizes and point.
//
// Inputs and weights are uniform in [-1, 1). At biased points, weights are in [-0.6, 1), so that operands of a relu are
// mostly positive and all layers of a deep network stay active. Offsets are smaller.
class source_values {
 public:
  source_values(const algebra& a, source_roles roles, const source_data& data)
      : algebra_{a}, roles_{std::move(roles)}, data_{data} {}

  void move_to(std::uint64_t point, bool biased) noexcept {
    point_ = point;
    biased_ = biased;
  }
  void make_positive() {
    roles_.make_positive();
    scales_ = {};
  }
  // Multiplies the real values of the source by `factor` from now on, at points with the current bias.
  void scale(const std::string& name, double factor) { scales_[biased_].emplace(name, 1.0).first->second *= factor; }

  [[nodiscard]] bool are_given(const operation& op) const {
    return data_ && data_(algebra_.read(op).word("name")).has_value();
  }

  template <class Scalar>
  [[nodiscard]] dense<Scalar> get(const operation& op, const tensor_type& type) const {
    const auto name = algebra_.read(op).word("name");
    dense<Scalar> out{type.dims};
    if (const auto given = data_ ? data_(name) : std::nullopt; given && given->dims == type.dims) {
      std::transform(given->data.begin(), given->data.end(), out.data.begin(), scalar_traits<Scalar>::literal);
      return out;
    }
    const auto role = roles_.of(name);
    const auto scale = scales_[biased_].find(name);
    const auto factor = scale == scales_[biased_].end() ? 1 : scale->second;
    const bool is_weight = algebra_.definition_of(op.kind).source == source_kind::constant;
    const auto stream = hash_combine(point_, hash_bytes(name));
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      const auto bits = hash_combine(stream, i);
      if (role.exponent) {
        out.data[i] = scalar_traits<Scalar>::literal(2);
      } else if (!is_floating(type.element)) {
        const auto below = static_cast<std::uint64_t>(type.element == dtype::boolean ? 2 : role.below);
        out.data[i] = scalar_traits<Scalar>::literal(static_cast<double>(bits % below));
      } else if constexpr (std::is_same_v<Scalar, modular61>) {
        out.data[i] = modular61::of_residue(bits);
      } else {
        const auto unit = static_cast<double>(bits >> 11U) * 0x1.0p-53;
        out.data[i] = static_cast<Scalar>(factor * real_value(unit, role, is_weight));
      }
    }
    return out;
  }

 private:
  // unit: uniform in [0, 1).
  [[nodiscard]] double real_value(double unit, const value_role& role, bool is_weight) const noexcept;

  const algebra& algebra_;
  source_roles roles_;
  const source_data& data_;
  std::array<std::map<std::string, double, std::less<>>, 2> scales_;
  std::uint64_t point_ = 0;
  bool biased_ = false;
};

}  // namespace detail

// Source values that keep the values in a model at about the same magnitude. With arbitrary weights, deep networks
// leave the range of float32 or lose their signal in the first layers.

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
  value_role role{};
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SOURCE_VALUES)

#include <cmath>
#include <span>

namespace unity::tensor {

UNITY_INLINE void value_role::join(const value_role& o) {
  positive = positive || o.positive;
  exponent = exponent || o.exponent;
  offset = offset || o.offset;
  gain = gain || o.gain;
  below = !o.read ? below : read ? std::min(below, o.below) : o.below;
  read = read || o.read;
}

UNITY_INLINE void source_roles::read(const tensor_graph& g) {
  std::vector<value_role> roles(g.value_count());
  for (auto i = g.node_count(); i-- > 0;) {
    const node_id n{i};
    value_role of_results;
    for (const auto v : g.results(n)) {
      of_results.join(roles[v.index()]);
    }
    const auto& op = g.operation(n);
    if (algebra_.definition_of(op.kind).source != source_kind::none) {
      named_[algebra_.read(op).word("name")].join(of_results);
    }
    pass(g, n, of_results, roles);
  }
}

UNITY_INLINE void source_roles::make_positive() {
  for (auto& [name, role] : named_) {
    role.positive = true;
  }
}

UNITY_INLINE void source_roles::pass(const tensor_graph& g, node_id n, const value_role& role,
                                     std::vector<value_role>& roles) const {
  constexpr value_role positive{.positive = true};
  const std::string_view name = algebra_.signature(g.operation(n).kind).name;
  const auto operands = g.operands(n);
  const auto join = [&](std::size_t operand, const value_role& r) { roles[operands[operand].index()].join(r); };
  const auto programs = programs_of(g, n);
  const bool copies = is_copy(programs) || is_view(g.operation(n));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (copies) {
      join(i, role);
    } else if (role.positive && keeps_positive(name) && !(operands.size() == 2 && operands[0] == operands[1])) {
      join(i, positive);
    }
  }
  for (const auto& p : programs.all) {
    pass_program(p, programs.sizes, join);
  }
  if (name == "batch_norm") {
    join(4, positive);
  } else if (name == "cross_entropy" || name == "cross_entropy_gradient") {
    join(1, {.below = g.type(operands[0]).dims[g.type(operands[0]).rank() - 1], .read = true});
  }
  pass_sizes(g, n, name, join);
}

UNITY_INLINE auto source_roles::programs_of(const tensor_graph& g, node_id n) const -> scalar_programs {
  scalar_programs found;
  const auto& op = g.operation(n);
  const auto* p = std::get_if<primitive>(&algebra_.definition_of(op.kind).body);
  if (p == nullptr || g.operands(n).empty()) {
    return found;
  }
  std::vector<tensor_type> types;
  for (const auto v : g.operands(n)) {
    types.push_back(g.type(v));
  }
  const auto s = algebra_.iteration(op, types);
  if (!s) {
    return found;
  }
  for (const auto& i : s->indices()) {
    found.sizes.push_back(i.size);
  }
  const auto kernel = p->kernel(algebra_.read(op), types);
  found.reduces = kernel.reduce != reduction::none;
  found.all = {kernel.inner, kernel.outer};
  return found;
}

UNITY_INLINE bool source_roles::is_copy(const scalar_programs& programs) {
  if (programs.reduces || programs.all.empty()) {
    return false;
  }
  const auto& p = programs.all[1];
  const bool converts = p.size() == 2 && (p[1].op == scalar_op::truncate || p[1].op == scalar_op::nonzero);
  return !p.empty() && p[0].op == scalar_op::operand && (p.size() == 1 || converts);
}

UNITY_INLINE bool source_roles::keeps_positive(std::string_view name) {
  constexpr std::array<std::string_view, 16> kinds{"add",
                                                   "mul",
                                                   "div",
                                                   "maximum",
                                                   "minimum",
                                                   "scalar_multiply",
                                                   "matmul",
                                                   "linear",
                                                   "conv2d",
                                                   "reduce_sum",
                                                   "reduce_mean",
                                                   "reduce_max",
                                                   "max_pool",
                                                   "average_pool",
                                                   "global_average_pool",
                                                   "global_max_pool"};
  return std::find(kinds.begin(), kinds.end(), name) != kinds.end();
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE double source_values::real_value(double unit, const value_role& role, bool is_weight) const noexcept {
  if (role.positive) {
    return unit + 0.125;
  }
  if (role.gain) {
    return unit + 0.5;
  }
  const auto value = is_weight && biased_ ? 1.6 * unit - 0.6 : 2 * unit - 1;
  return role.offset ? value / 4 : value;
}

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
  source_roles roles{a};
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
