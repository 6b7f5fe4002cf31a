// Small random tensor graphs of any operators, and parallel computation graphs of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

#include "operators.hpp"
#include "random_pcg.hpp"

namespace unity::parallel::test {

// Draws operators that accept existing values; their other operands are new weights.
class model_maker {
 public:
  model_maker(random_engine& random, const tensor::algebra& a) : random_{random}, b_{a} {
    values_.push_back(b_.input("x", dims(2, 3)));
    values_.push_back(b_.input("image", {size(), size(), even(), even()}));
  }

  // Draws again if a drawn operator does not accept its operands.
  void add(std::size_t operators) {
    for (std::size_t left = operators; left > 0;) {
      const auto before = values_.size();
      try {
        draw();
      } catch (const error&) {
      }
      left -= values_.size() > before ? 1 : 0;
    }
  }
  [[nodiscard]] tensor::tensor_graph finish() && {
    std::vector<value_id> outputs{values_.back()};
    for (const auto v : values_) {
      if (random_.below(4) == 0) {
        outputs.push_back(v);
      }
    }
    return std::move(b_).finish(outputs);
  }

 private:
  std::int64_t below(std::int64_t n) { return random_.between(0, n - 1); }
  std::int64_t size() { return std::array<std::int64_t, 6>{1, 2, 2, 3, 4, 4}[random_.below(6)]; }
  std::int64_t even() { return 2 * random_.between(1, 3); }
  tensor::shape dims(std::int64_t least, std::int64_t most) {
    tensor::shape s;
    for (auto rank = random_.between(least, most); rank > 0; --rank) {
      s.push_back(size());
    }
    return s;
  }
  value_id any() { return values_[random_.below(values_.size())]; }
  value_id any_of_rank(std::size_t least) {
    while (true) {
      if (const auto v = any(); b_.dims(v).size() >= least) {
        return v;
      }
    }
  }
  value_id weight(tensor::shape s) { return b_.weight("w" + std::to_string(count_++), s); }
  std::int64_t axis_of(value_id v) { return below(static_cast<std::int64_t>(b_.dims(v).size())); }
  void put(const std::vector<value_id>& results) {
    for (const auto v : results) {
      if (tensor::element_count(b_.dims(v)) <= 400) {
        values_.push_back(v);
      }
    }
  }
  // Another value of the same sizes, or a weight that broadcasts to them.
  value_id other(value_id v) {
    for (int tries = 0; tries < 4; ++tries) {
      if (const auto w = any(); b_.dims(w) == b_.dims(v)) {
        return w;
      }
    }
    auto s = b_.dims(v);
    for (auto& d : s) {
      d = random_.below(4) == 0 ? 1 : d;
    }
    return weight(s);
  }

  void draw() {
    const auto kind = random_.below(20);
    const auto v =
        any_of_rank(std::array<std::size_t, 20>{0, 1, 1, 1, 1, 4, 4, 1, 1, 1, 1, 2, 1, 1, 0, 0, 1, 2, 0, 0}[kind]);
    const auto s = b_.dims(v);
    const auto last = s.empty() ? 1 : s.back();
    switch (kind) {
      case 0: return unary(v);
      case 1:
      case 2: return binary(v);
      case 3: return put({b_.matmul(v, weight({last, size()}), random_.below(4) == 0 ? "relu" : "none")});
      case 4: {
        const auto n = size();
        return put({b_.linear(v, weight({last, n}), weight({n}), random_.below(4) == 0 ? "tanh" : "none")});
      }
      case 5:
      case 6: return image(v);
      case 7: return reduce(v);
      case 8:
      case 9: return move(v);
      case 10: return put({b_.softmax(v, axis_of(v))});
      case 11: return normalize(v);
      case 12: return attention(v);
      case 13: return lstm(v);
      case 14: return lookup();
      case 15: return put({b_.scalar_multiply(v, weight({}))});
      case 16: return joined(v);
      case 17: {
        tensor::shape batch{s};
        batch[batch.size() - 2] = last;
        batch.back() = size();
        return put({b_.matmul(v, weight(batch))});
      }
      case 18: return put(b_.apply("dropout", {v}, {{"rate", 0.5}}));
      default: return put(b_.apply("cast", {v}, {{"element", "float32"}}));
    }
  }
  void unary(value_id v) {
    constexpr std::array<std::string_view, 15> names{"relu",   "gelu",     "tanh",     "sigmoid",    "exp",
                                                     "log",    "erf",      "sqrt",     "abs",        "reciprocal",
                                                     "negate", "identity", "softplus", "hard_swish", "gelu_tanh"};
    put(b_.apply(names[random_.below(names.size())], {v}));
  }
  void binary(value_id v) {
    constexpr std::array<std::string_view, 8> names{"add", "add", "sub", "mul", "div", "maximum", "minimum", "pow"};
    const auto w = other(v);
    const auto name = names[random_.below(names.size())];
    if (random_.below(4) == 0) {
      return put(b_.apply("where", {b_.apply("less", {w, v})[0], v, w}));
    }
    put(random_.below(2) == 0 ? b_.apply(name, {v, w}) : b_.apply(name, {w, v}));
  }
  void image(value_id v) {
    const tensor::extent2 kernel{random_.between(1, 3), random_.between(1, 3)};
    const tensor::extent2 stride{random_.between(1, 2), random_.between(1, 2)};
    const auto padding = random_.below(2) == 0 ? "same" : "valid";
    const auto c = b_.dims(v)[1];
    switch (random_.below(7)) {
      case 0:
      case 1: {
        const auto groups = c % 2 == 0 && random_.below(2) == 0 ? 2 : 1;
        const auto oc = groups * random_.between(1, 2);
        const auto w = weight({oc, c / groups, kernel[0], kernel[1]});
        const tensor::conv2d_options options{stride, padding, {0, 0, 0, 0}, {1, 1}, groups, "none"};
        return put({random_.below(2) == 0 ? b_.conv2d(v, w, options) : b_.conv2d(v, w, weight({oc}), options)});
      }
      case 2: return put({b_.max_pool(v, {kernel, stride, padding, {0, 0, 0, 0}, false})});
      case 3: return put({b_.average_pool(v, {kernel, stride, padding, {0, 0, 0, 0}, false}, random_.below(2) == 0)});
      case 4: return put({b_.global_average_pool(v)});
      case 5: return put({b_.global_max_pool(v)});
      default: return put(b_.apply("enlarge", {v}, {{"kernel", {b_.dims(v)[2] + 2, b_.dims(v)[3]}}}));
    }
  }
  void reduce(value_id v) {
    constexpr std::array<std::string_view, 3> names{"reduce_sum", "reduce_mean", "reduce_max"};
    put(b_.apply(names[random_.below(3)], {v}, {{"axes", {axis_of(v)}}, {"keep_dims", below(2)}}));
  }
  void move(value_id v) {
    const auto s = b_.dims(v);
    const auto axis = axis_of(v);
    const auto a = static_cast<std::size_t>(axis);
    switch (random_.below(8)) {
      case 0: {
        tensor::shape order;
        for (std::int64_t d = 0; d < static_cast<std::int64_t>(s.size()); ++d) {
          order.insert(order.begin() + below(d + 1), d);
        }
        return put({b_.transpose(v, order)});
      }
      case 1: {
        auto flat = s;
        if (flat.size() > 1 && a > 0) {
          flat[a - 1] *= flat[a];
          flat.erase(flat.begin() + axis);
        }
        return put({b_.reshape(v, flat)});
      }
      case 2: {
        auto apart = s;
        if (apart[a] % 2 == 0) {
          apart[a] /= 2;
          apart.insert(apart.begin() + axis, 2);
        }
        return put({b_.reshape(v, apart)});
      }
      case 3: {
        const auto first = random_.between(1, s[a]);
        return put(first == s[a] ? b_.split(v, axis, {first}) : b_.split(v, axis, {first, s[a] - first}));
      }
      case 4: return put({b_.slice(v, {axis}, {below(s[a])}, {s[a]})});
      case 5: {
        tensor::shape pads(2 * s.size(), 0);
        pads[a] = below(3);
        pads[a + s.size()] = 1;
        return put({b_.pad(v, pads, random_.below(4) == 0 ? 0.5 : 0)});
      }
      case 6: {
        const auto wide = b_.apply("unsqueeze", {v}, {{"axes", {axis}}});
        auto to = b_.dims(wide[0]);
        to[a] = size();
        put(wide);
        return put(b_.apply("expand", wide, {{"dims", to}}));
      }
      default: return put(b_.apply("squeeze", {v}, {{"axes", {axis}}}));
    }
  }
  void normalize(value_id v) {
    const auto s = b_.dims(v);
    if (random_.below(2) == 0) {
      const auto axis = axis_of(v);
      const tensor::shape n(std::span<const std::int64_t>{s}.subspan(static_cast<std::size_t>(axis)));
      return put({b_.layer_norm(v, weight(n), weight(n), axis, 1e-2)});
    }
    const auto c = s[1];
    put({b_.batch_norm(v, weight({c}), weight({c}), weight({c}), weight({c}))});
  }
  void attention(value_id v) {
    const auto s = b_.dims(v);
    const auto heads = random_.between(1, 2);
    const auto d = heads * random_.between(1, 2);
    const std::array weights{weight({s.back(), d}), weight({s.back(), d}), weight({s.back(), d}), weight({d, size()})};
    put({b_.attention(v, v, v, std::span<const value_id, 4>{weights}, heads)});
  }
  void lstm(value_id v) {
    const auto s = b_.dims(v);
    const auto n = size();
    put(b_.apply("lstm_cell", {v, weight({s[0], n}), weight({s[0], n}), weight({4, n, s.back()}), weight({4, n, n}),
                               weight({4, n})}));
  }
  void lookup() {
    const auto ids = b_.input("ids" + std::to_string(count_++), dims(1, 2), tensor::dtype::int64);
    put({b_.embedding(weight({4, size()}), ids)});
  }
  void joined(value_id v) {
    const auto w = other(v);
    const std::array parts{v, w};
    put({b_.concat(axis_of(v), parts)});
  }

  random_engine& random_;
  tensor::builder b_;
  std::vector<value_id> values_{};
  std::size_t count_ = 0;
};

inline tensor::tensor_graph random_model(random_engine& random, std::size_t operators) {
  model_maker m{random, test::operators()};
  m.add(operators);
  return std::move(m).finish();
}

// Adds the names of the graph's operators.
template <class Algebra, class Graph>
void count_kinds(const Algebra& a, const Graph& g, std::set<std::string>& names) {
  for (const auto n : node_ids(g)) {
    names.insert(a.signature(g.operation(n).kind).name);
  }
}

// Divides a graph at random: a grid per operator, redundant chains in between, sometimes a sum or concat expressed as
// terms or blocks. Its erasure is the graph.
class graph_divider {
 public:
  graph_divider(random_engine& random, const pcg_algebra& a, const tensor::tensor_graph& g)
      : random_{random}, algebra_{a}, graph_{g}, writer_{a}, values_(g.value_count()) {}

  [[nodiscard]] pcg run() && {
    for (const auto n : node_ids(graph_)) {
      add(n);
    }
    std::vector<value_id> outputs;
    for (const auto v : graph_.outputs()) {
      auto wanted = writer_.type(values_[v.index()]);
      wanted.partial = 1;
      outputs.push_back(writer_.on(values_[v.index()], wanted));
    }
    return std::move(writer_).finish(outputs);
  }

 private:
  void add(node_id n) {
    std::vector<parallel_type> types;
    std::vector<value_id> operands;
    for (const auto v : graph_.operands(n)) {
      types.push_back(undivided(graph_.type(v)));
      operands.push_back(wander(values_[v.index()]));
    }
    const auto* o = algebra_.dimensions(graph_.operation(n), types);
    if (o != nullptr && gather(n, operands)) {
      return;
    }
    if (o != nullptr) {
      const auto wanted = types_on(*o, random_grid(random_, *o, 8));
      for (std::size_t x = 0; x < operands.size(); ++x) {
        operands[x] = writer_.on(operands[x], wanted->operands[x]);
      }
    }
    const auto made = writer_.add(graph_.operation(n), operands);
    for (std::size_t r = 0; r < graph_.results(n).size(); ++r) {
      values_[graph_.results(n)[r].index()] = writer_.graph().results(made)[r];
    }
  }
  value_id wander(value_id v) {
    for (const auto& p : random_below(3) ? parallel_chain{} : random_chain(random_, writer_.type(v), 4)) {
      v = writer_.add(p, {&v, 1});
    }
    return v;
  }
  bool random_below(std::uint64_t n) { return random_.below(n) != 0; }

  // Expresses a sum as terms, or a concat as blocks.
  bool gather(node_id n, const std::vector<value_id>& operands) {
    const auto& name = algebra_.signature(graph_.operation(n).kind).name;
    const bool is_sum = name == "add";
    if ((!is_sum && name != "concat") || random_.below(2) == 0) {
      return false;
    }
    const auto first = writer_.type(operands[0]).global;
    auto common = random_division(random_, first);
    const auto axis = is_sum ? 0 : graph_.operation(n).attributes[0][0];
    for (const auto v : operands) {
      auto t = writer_.type(v).global;
      t.constant = first.constant;
      if (t != first || total(common) > 8) {
        return false;
      }
    }
    std::vector<value_id> parts;
    for (const auto v : operands) {
      auto wanted = common;
      wanted.global = writer_.type(v).global;
      parts.push_back(writer_.on(v, wanted));
    }
    const auto k = static_cast<std::int64_t>(parts.size());
    const auto gathered =
        writer_.add(parallel_operator{is_sum ? parallel_kind::terms : parallel_kind::blocks, axis, 0}, parts);
    values_[graph_.results(n)[0].index()] = writer_.add(
        parallel_operator{is_sum ? parallel_kind::reduce : parallel_kind::combine, axis, k}, {&gathered, 1});
    return true;
  }

  random_engine& random_;
  const pcg_algebra& algebra_;
  const tensor::tensor_graph& graph_;
  pcg_writer writer_;
  std::vector<value_id> values_;
};

inline pcg random_division_of(random_engine& random, const pcg_algebra& a, const tensor::tensor_graph& g) {
  return graph_divider{random, a, g}.run();
}

}  // namespace unity::parallel::test
