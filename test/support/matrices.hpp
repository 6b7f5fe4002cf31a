// A small algebra without tensors: matrices modulo a prime, with attributes of every form, operators of any arity and
// number of results, and shapes as types.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>

#include "unused_values.hpp"

namespace unity::test {

struct matrix_op {
  enum class form : std::uint8_t {
    input,
    add,
    mul,
    matmul,
    concat,
    split,
    transpose,
    scale,
    shift,
    power,
    parts,
    join
  };

  form kind = form::add;
  attribute_list attributes{};

  friend bool operator==(const matrix_op&, const matrix_op&) = default;
};

struct matrix_shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] std::int64_t& operator[](std::int64_t axis) { return axis == 0 ? rows : columns; }
  [[nodiscard]] std::int64_t operator[](std::int64_t axis) const { return axis == 0 ? rows : columns; }
  friend bool operator==(matrix_shape, matrix_shape) = default;
};

}  // namespace unity::test

template <>
struct std::hash<unity::test::matrix_op> {
  std::size_t operator()(const unity::test::matrix_op& op) const {
    auto h = static_cast<std::uint64_t>(op.kind);
    for (const auto& a : op.attributes) {
      h = unity::hash_combine(h, unity::hash_value(a));
    }
    return h;
  }
};
template <>
struct std::hash<unity::test::matrix_shape> {
  std::size_t operator()(unity::test::matrix_shape s) const {
    return unity::hash_combine(static_cast<std::uint64_t>(s.rows), static_cast<std::uint64_t>(s.columns));
  }
};

namespace unity::test {

// input{name, rows, columns}()   add, mul (element-wise, commutative)   matmul   concat{axis}(x...)
// split{axis, sizes}(x)          transpose       scale{by}(x)           shift{by}(x) adds floor(by)
// power{form=square|cube}(x)     parts(x) -> x mod 16, x div 16         join(low, high) = low + 16 high
// Measures: size(?x, axis), rows(?x).
class matrices {
 public:
  using op_type = matrix_op;
  using value_type = matrix_shape;
  using form = matrix_op::form;

  [[nodiscard]] std::optional<std::vector<matrix_shape>> infer(const matrix_op& op,
                                                               std::span<const matrix_shape> in) const {
    const auto& s = signature(kind_of(op));
    if (!s.operands.accepts(in.size())) {
      return std::nullopt;
    }
    switch (op.kind) {
      case form::input: return std::vector<matrix_shape>{{op.attributes[1][0], op.attributes[2][0]}};
      case form::add:
      case form::mul:
      case form::join: return in[0] == in[1] ? std::optional{std::vector{in[0]}} : std::nullopt;
      case form::matmul:
        return in[0].columns == in[1].rows ? std::optional{std::vector<matrix_shape>{{in[0].rows, in[1].columns}}}
                                           : std::nullopt;
      case form::concat: return infer_concat(op.attributes[0][0], in);
      case form::split: return infer_split(op, in[0]);
      case form::transpose: return std::vector<matrix_shape>{{in[0].columns, in[0].rows}};
      case form::scale:
      case form::shift:
      case form::power: return std::vector{in[0]};
      case form::parts: return std::vector{in[0], in[0]};
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t kind_count() const { return signatures_.size(); }
  [[nodiscard]] std::optional<kind_id> find_kind(std::string_view name) const {
    for (std::size_t i = 0; i < signatures_.size(); ++i) {
      if (signatures_[i].name == name) {
        return kind_id{i};
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] const op_signature& signature(kind_id k) const { return signatures_[k.index()]; }
  [[nodiscard]] kind_id kind_of(const matrix_op& op) const { return kind_id{static_cast<std::size_t>(op.kind)}; }
  [[nodiscard]] attribute_list attributes_of(const matrix_op& op) const { return op.attributes; }
  [[nodiscard]] std::optional<matrix_op> make(kind_id k, std::span<const attribute> values) const {
    const auto& s = signature(k);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool one = s.attributes[i].form != attribute_form::integers && s.attributes[i].form != attribute_form::word;
      if (one && values[i].size() != 1) {
        return std::nullopt;
      }
    }
    return matrix_op{static_cast<form>(k.index()), {values.begin(), values.end()}};
  }
  [[nodiscard]] std::optional<int> find_measure(std::string_view name) const {
    return name == "size" ? std::optional{0} : name == "rows" ? std::optional{1} : std::nullopt;
  }
  [[nodiscard]] std::optional<attribute> measure(int m, matrix_shape s, std::span<const std::int64_t> arguments) const {
    if (m == 1) {
      return arguments.empty() ? std::optional{attribute{s.rows}} : std::nullopt;
    }
    const bool fits = arguments.size() == 1 && (arguments[0] == 0 || arguments[0] == 1);
    return fits ? std::optional{attribute{s[arguments[0]]}} : std::nullopt;
  }

 private:
  static std::optional<std::vector<matrix_shape>> infer_concat(std::int64_t axis, std::span<const matrix_shape> in) {
    if (in.empty() || (axis != 0 && axis != 1)) {
      return std::nullopt;
    }
    auto all = in[0];
    for (const auto& s : in.subspan(1)) {
      if (s[1 - axis] != all[1 - axis]) {
        return std::nullopt;
      }
      all[axis] += s[axis];
    }
    return std::vector{all};
  }
  static std::optional<std::vector<matrix_shape>> infer_split(const matrix_op& op, matrix_shape in) {
    const auto axis = op.attributes[0][0];
    if (axis != 0 && axis != 1) {
      return std::nullopt;
    }
    std::vector<matrix_shape> all;
    std::int64_t sum = 0;
    for (const auto size : op.attributes[1]) {
      auto part = in;
      part[axis] = size;
      sum += size;
      all.push_back(part);
      if (size <= 0) {
        return std::nullopt;
      }
    }
    return sum == in[axis] ? std::optional{all} : std::nullopt;
  }

  std::vector<op_signature> signatures_{
      {"input",
       0,
       1,
       false,
       {{"name", attribute_form::word, {}, {}},
        {"rows", attribute_form::integer, {}, {}},
        {"columns", attribute_form::integer, {}, {}}}},
      {"add", 2, 1, true, {}},
      {"mul", 2, 1, true, {}},
      {"matmul", 2, 1, false, {}},
      {"concat", op_signature::any, 1, false, {{"axis", attribute_form::integer, {}, attribute{0}}}},
      {"split",
       1,
       op_signature::any,
       false,
       {{"axis", attribute_form::integer, {}, attribute{0}}, {"sizes", attribute_form::integers, {}, {}}}},
      {"transpose", 1, 1, false, {}},
      {"scale", 1, 1, false, {{"by", attribute_form::integer, {}, attribute{1}}}},
      {"shift", 1, 1, false, {{"by", attribute_form::real, {}, attribute{std::bit_cast<std::int64_t>(0.5)}}}},
      {"power", 1, 1, false, {{"form", attribute_form::choice, {"square", "cube"}, attribute{0}}}},
      {"parts", 1, 2, false, {}},
      {"join", 2, 1, false, {}},
  };
};

using matrix_graph = compact_graph<matrix_op, matrix_shape>;

// Multiplications dominate; small operators cost their start.
struct matrix_cost {
  using cost_type = std::int64_t;
  [[nodiscard]] std::int64_t node_cost(const matrix_op& op, std::span<const matrix_shape> in,
                                       std::span<const matrix_shape> out) const {
    using form = matrix_op::form;
    std::int64_t elements = 0;
    for (const auto& s : out) {
      elements += s.rows * s.columns;
    }
    switch (op.kind) {
      case form::input: return 0;
      case form::matmul: return 20 + 2 * in[0].columns * elements;
      case form::concat:
      case form::split: return 3 + elements;
      default: return 8 + elements;
    }
  }
  [[nodiscard]] std::int64_t objective(const std::int64_t& total) const { return total; }
};

// Builds graphs. Precondition: operators accept their operands.
class matrix_builder {
 public:
  using form = matrix_op::form;

  value_id input(char name, std::int64_t rows, std::int64_t columns) {
    return one(form::input, {attribute{name}, attribute{rows}, attribute{columns}}, {});
  }
  value_id add(value_id x, value_id y) { return one(form::add, {}, {x, y}); }
  value_id mul(value_id x, value_id y) { return one(form::mul, {}, {x, y}); }
  value_id matmul(value_id x, value_id y) { return one(form::matmul, {}, {x, y}); }
  value_id transpose(value_id x) { return one(form::transpose, {}, {x}); }
  value_id scale(std::int64_t by, value_id x) { return one(form::scale, {attribute{by}}, {x}); }
  value_id shift(double by, value_id x) { return one(form::shift, {attribute{std::bit_cast<std::int64_t>(by)}}, {x}); }
  value_id power(std::int64_t choice, value_id x) { return one(form::power, {attribute{choice}}, {x}); }
  value_id concat(std::int64_t axis, std::vector<value_id> x) {
    return one(form::concat, {attribute{axis}}, std::move(x));
  }
  std::vector<value_id> split(std::int64_t axis, const attribute& sizes, value_id x) {
    return *add_node(form::split, {attribute{axis}, sizes}, {x});
  }
  std::vector<value_id> parts(value_id x) { return *add_node(form::parts, {}, {x}); }
  value_id join(value_id x, value_id y) { return one(form::join, {}, {x, y}); }

  [[nodiscard]] matrix_shape shape(value_id v) const { return graph_.type(v); }
  [[nodiscard]] std::size_t value_count() const { return graph_.value_count(); }

  // The results, or nothing if the operator does not accept the operands.
  std::optional<std::vector<value_id>> add_node(form kind, attribute_list attributes,
                                                const std::vector<value_id>& operands) {
    std::vector<matrix_shape> in;
    for (const auto v : operands) {
      in.push_back(graph_.type(v));
    }
    const matrix_op op{kind, std::move(attributes)};
    const auto out = matrices{}.infer(op, in);
    if (!out) {
      return std::nullopt;
    }
    const auto results = graph_.results(graph_.add_node(op, operands, *out));
    return std::vector<value_id>{results.begin(), results.end()};
  }
  matrix_graph build(const std::vector<value_id>& outputs) {
    graph_.set_outputs(outputs);
    return graph_;
  }

 private:
  value_id one(form kind, attribute_list attributes, std::vector<value_id> operands) {
    return add_node(kind, std::move(attributes), operands).value().at(0);
  }
  matrix_graph graph_;
};

// A row-major matrix modulo a prime.
struct residues {
  static constexpr std::int64_t prime = 1'000'003;

  matrix_shape shape;
  std::vector<std::int64_t> elements{};

  [[nodiscard]] std::int64_t& at(std::int64_t r, std::int64_t c) {
    return elements[static_cast<std::size_t>(r * shape.columns + c)];
  }
  [[nodiscard]] std::int64_t at(std::int64_t r, std::int64_t c) const {
    return elements[static_cast<std::size_t>(r * shape.columns + c)];
  }
  explicit residues(matrix_shape s) : shape{s}, elements(static_cast<std::size_t>(s.rows * s.columns)) {}
  friend bool operator==(const residues&, const residues&) = default;
};

namespace detail {

template <class F>
residues each_element(const residues& x, F f) {
  residues r{x.shape};
  std::transform(x.elements.begin(), x.elements.end(), r.elements.begin(), [&](auto e) {
    const auto value = f(e) % residues::prime;
    return value < 0 ? value + residues::prime : value;
  });
  return r;
}
template <class F>
residues each_pair(const residues& x, const residues& y, F f) {
  residues r{x.shape};
  for (std::size_t i = 0; i < r.elements.size(); ++i) {
    r.elements[i] = f(x.elements[i], y.elements[i]) % residues::prime;
  }
  return r;
}
template <class F>
residues from_places(matrix_shape s, F f) {
  residues r{s};
  for (std::int64_t i = 0; i < s.rows; ++i) {
    for (std::int64_t j = 0; j < s.columns; ++j) {
      r.at(i, j) = f(i, j);
    }
  }
  return r;
}
inline std::int64_t dot(const residues& x, const residues& y, std::int64_t i, std::int64_t j) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < x.shape.columns; ++k) {
    sum = (sum + x.at(i, k) * y.at(k, j)) % residues::prime;
  }
  return sum;
}
// The part of x with shape s that begins at `from` along `axis`.
inline residues part(const residues& x, std::int64_t axis, std::int64_t from, matrix_shape s) {
  return from_places(s, [&](auto i, auto j) { return axis == 0 ? x.at(i + from, j) : x.at(i, j + from); });
}

}  // namespace detail

// Evaluates one operator.
inline std::vector<residues> evaluate_matrix_op(const matrix_op& op, const std::vector<residues>& in,
                                                std::span<const matrix_shape> out) {
  using form = matrix_op::form;
  constexpr auto p = residues::prime;
  switch (op.kind) {
    case form::input:
      return {detail::from_places(out[0], [&](auto i, auto j) {
        return static_cast<std::int64_t>(
            hash_combine(hash_value(op.attributes[0]), static_cast<std::uint64_t>(i * 1000 + j)) % p);
      })};
    case form::add: return {detail::each_pair(in[0], in[1], [](auto a, auto b) { return a + b; })};
    case form::mul: return {detail::each_pair(in[0], in[1], [](auto a, auto b) { return a * b; })};
    case form::join: return {detail::each_pair(in[0], in[1], [](auto a, auto b) { return a + 16 * b; })};
    case form::matmul:
      return {detail::from_places(out[0], [&](auto i, auto j) { return detail::dot(in[0], in[1], i, j); })};
    case form::transpose: return {detail::from_places(out[0], [&](auto i, auto j) { return in[0].at(j, i); })};
    case form::scale: return {detail::each_element(in[0], [&](auto a) { return a * (op.attributes[0][0] % p); })};
    case form::shift:
      return {detail::each_element(in[0], [&](auto a) {
        return a + static_cast<std::int64_t>(std::floor(std::bit_cast<double>(op.attributes[0][0])));
      })};
    case form::power:
      return {detail::each_element(in[0], [&](auto a) { return op.attributes[0][0] == 0 ? a * a : a * a % p * a; })};
    case form::parts:
      return {detail::each_element(in[0], [](auto a) { return a % 16; }),
              detail::each_element(in[0], [](auto a) { return a / 16; })};
    case form::concat: {
      residues r{out[0]};
      std::int64_t from = 0;
      const auto axis = op.attributes[0][0];
      for (const auto& x : in) {
        for (std::int64_t i = 0; i < x.shape.rows; ++i) {
          for (std::int64_t j = 0; j < x.shape.columns; ++j) {
            r.at(axis == 0 ? i + from : i, axis == 0 ? j : j + from) = x.at(i, j);
          }
        }
        from += x.shape[axis];
      }
      return {r};
    }
    case form::split: {
      std::vector<residues> all;
      std::int64_t from = 0;
      for (const auto& s : out) {
        all.push_back(detail::part(in[0], op.attributes[0][0], from, s));
        from += s[op.attributes[0][0]];
      }
      return all;
    }
  }
  return {};
}

// The outputs, for inputs whose values depend on their names.
inline std::vector<residues> meaning(const matrix_graph& g) {
  std::vector<residues> values(g.value_count(), residues{{0, 0}});
  for (const auto n : node_ids(g)) {
    std::vector<residues> in;
    std::vector<matrix_shape> out;
    for (const auto v : g.operands(n)) {
      in.push_back(values[v.index()]);
    }
    for (const auto v : g.results(n)) {
      out.push_back(g.type(v));
    }
    auto results = evaluate_matrix_op(g.operation(n), in, out);
    for (std::size_t r = 0; r < out.size(); ++r) {
      values[g.results(n)[r].index()] = std::move(results[r]);
    }
  }
  std::vector<residues> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(values[v.index()]);
  }
  return outputs;
}

// A random graph of small matrices whose shapes often match.
inline matrix_graph random_matrix_graph(random_engine& random, std::size_t inputs, std::size_t nodes) {
  using form = matrix_op::form;
  matrix_builder b;
  for (std::size_t i = 0; i < inputs; ++i) {
    b.input(static_cast<char>('a' + i), random.between(2, 3), random.between(2, 3));
  }
  const auto any = [&] { return value_id{random.below(b.value_count())}; };
  const auto attempt = [&](form kind, attribute_list attributes, const std::vector<value_id>& operands) {
    return b.add_node(kind, std::move(attributes), operands).has_value();
  };
  for (std::size_t i = 0; i < nodes;) {
    const auto x = any();
    const auto s = b.shape(x);
    bool made = false;
    switch (random.below(16)) {
      case 0:
      case 1: made = attempt(form::add, {}, {x, any()}); break;
      case 2: made = attempt(form::mul, {}, {x, any()}); break;
      case 3:
      case 4: {  // two operators that share an operand
        made = attempt(form::matmul, {}, {x, any()});
        attempt(form::matmul, {}, {x, any()});
        break;
      }
      case 5: made = attempt(form::matmul, {}, {any(), x}); break;
      case 6:
      case 7:
        made = s.rows + s.columns < 10 && attempt(form::concat, {attribute{random.between(0, 1)}}, {x, any()});
        break;
      case 8:
        made = s.rows + s.columns < 10 && attempt(form::concat, {attribute{random.between(0, 1)}}, {x, any(), any()});
        break;
      case 9:
      case 10: made = s.rows > 1 && attempt(form::split, {attribute{0}, attribute{1, s.rows - 1}}, {x}); break;
      case 11: made = s.columns > 1 && attempt(form::split, {attribute{1}, attribute{s.columns - 1, 1}}, {x}); break;
      case 12: made = attempt(form::transpose, {}, {x}); break;
      case 13: made = attempt(form::scale, {attribute{random.between(1, 3)}}, {x}); break;
      case 14: made = attempt(form::power, {attribute{random.between(0, 1)}}, {x}); break;
      default: made = random.below(2) == 0 ? attempt(form::parts, {}, {x}) : attempt(form::join, {}, {x, any()}); break;
    }
    i += made ? 1 : 0;
  }
  return b.build(unused_values(b.build({})));
}

// Rules that hold for all matrices; they cover every feature of rules.
inline constexpr std::string_view matrix_rules = R"(
rule matmul_associative  matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z)
rule matmul_distributive matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z))
rule mul_distributive    mul(?x, add(?y, ?z)) == add(mul(?x, ?y), mul(?x, ?z))
rule add_associative     add(?x, add(?y, ?z)) => add(add(?x, ?y), ?z)
rule add_itself          add(?x, ?x) == scale{by=2}(?x)
rule unscale             scale{by=?k}(?x) => add(?x, scale{by=?k - 1}(?x)) if ?k > 2
rule scale_one           scale(?x) => ?x
rule scale_twice         scale{by=?j}(scale{by=?k}(?x)) => scale{by=?j * ?k}(?x)
rule scale_add           scale{by=?k}(add(?x, ?y)) == add(scale{by=?k}(?x), scale{by=?k}(?y))
rule scale_pair          (scale{by=?k}(?x), scale{by=?k}(?y)) =>
                         split{axis=0, sizes=[rows(?x), rows(?y)]}(scale{by=?k}(concat{axis=0}(?x, ?y)))
rule power_pair          (power{form=?f}(?x), power{form=?f}(?y)) =>
                         (split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(power{form=?f}(concat{axis=1}(?x, ?y))).0,
                          split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(power{form=?f}(concat{axis=1}(?x, ?y))).1)
rule square              power(?x) == mul(?x, ?x)
rule power_transpose     power{form=?f}(transpose(?x)) == transpose(power{form=?f}(?x))
rule transpose_twice     transpose(transpose(?x)) => ?x
rule transpose_matmul    transpose(matmul(?x, ?y)) == matmul(transpose(?y), transpose(?x))
rule merge_right         matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))
rule merge_left          matmul(??x, ?w)... => split{axis=0, sizes=[size(??x, 0)...]}(matmul(concat{axis=0}(??x...), ?w))
rule sum_of_products     add(matmul(?x, ?w), matmul(?y, ?v)) == matmul(concat{axis=1}(?x, ?y), concat{axis=0}(?w, ?v))
rule split_concat        split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => (??x...) if ?s == [size(??x, ?a)...]
rule concat_split        concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x
rule scale_split         scale{by=?k}(split{axis=?a, sizes=?s}(?x).*)... == split{axis=?a, sizes=?s}(scale{by=?k}(?x))
rule power_concat        concat{axis=?a}(power{form=?f}(??x)...) == power{form=?f}(concat{axis=?a}(??x...))
rule matmul_split        matmul(?w, split{axis=1, sizes=?s}(?x).*)... == split{axis=1, sizes=?s}(matmul(?w, ?x))
rule rejoin              join(parts(?x).0, parts(?x).1) => ?x
rule parts_transpose     parts(transpose(?x)) == (transpose(parts(?x).0), transpose(parts(?x).1))
rule low_alone           (join(?x, ?y), parts(join(?x, ?y)).0) => (add(?x, scale{by=16}(?y)), parts(join(?x, ?y)).0)
)";

}  // namespace unity::test
