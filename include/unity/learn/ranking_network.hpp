// A network that ranks lists of items: dense layers per item, attention of learned seeds to the items, and a score.
//
//   h = relu(x E)                                per item
//   c = softmax(h S)^T h                         what each seed sees of all items
//   h = h + relu(h U + c V)                      each item is told
//   c = softmax(h S')^T h
//   y = z f + dense(relu(dense([c, mean h, z])))  z: what is known of the list as a whole
//
// Lists are pooled by seeds rather than item by item, so that a score takes time linear in the items
// (Lee et al., Set transformer, ICML 2019). At first y = z f: an estimate that is given, which training corrects.
//
// The loss is that of pairs: the mean over pairs of lists, of which the first is better, of log(1 + exp(y2 - y1))
// (Burges et al., Learning to rank using gradient descent, ICML 2005), which Zhang et al., AutoDist, section 2.4, use
// with a recurrent network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/learn/weight_blocks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::learn {

// Regular.
struct ranking_shape {
  std::size_t item_features = 0;
  std::size_t list_features = 0;
  std::size_t hidden = 32;
  std::size_t seeds = 4;

  friend bool operator==(const ranking_shape&, const ranking_shape&) = default;
};

[[nodiscard]] std::vector<weight_block> weight_blocks(const ranking_shape& s);

// fixed: f, a factor per feature of a list. The corrections start at 0.
[[nodiscard]] std::vector<float> initial_weights(const ranking_shape& s, std::span<const float> fixed,
                                                 std::uint64_t seed);

// Inputs, float32: "weights"; "items" [lists, items, item_features]; "wholes" [lists, list_features]; "pairs" [lists,
// lists], the weight of each pair of which the first is better. Outputs: the loss, [], y, [lists], and the loss'
// gradient by the weights.
[[nodiscard]] tensor::tensor_graph ranking_graph(const tensor::algebra& a, const ranking_shape& s, std::int64_t lists,
                                                 std::int64_t items);

namespace detail {

// Builds the graph, one block of weights after another.
class ranking_writer {
 public:
  ranking_writer(const tensor::algebra& a, const ranking_shape& s, std::int64_t lists, std::int64_t items)
      : b_{a}, shape_{s}, lists_{lists}, items_{items} {}

  [[nodiscard]] tensor::tensor_graph write() &&;

 private:
  [[nodiscard]] value_id next() { return weights_[used_++]; }
  [[nodiscard]] value_id dense(value_id x) {
    const auto product = b_.matmul(x, next());
    return b_.add(product, next());
  }
  // What each seed attends to: [lists, seeds * hidden] from h, [lists * items, hidden].
  [[nodiscard]] value_id seen(value_id h);
  [[nodiscard]] value_id mean(value_id h);
  [[nodiscard]] value_id pair_loss(value_id y, value_id pairs);

  tensor::builder b_;
  ranking_shape shape_;
  std::int64_t lists_;
  std::int64_t items_;
  std::vector<value_id> weights_{};
  std::size_t used_ = 0;
};

}  // namespace detail

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_RANKING_NETWORK)

#include <algorithm>
#include <array>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::learn {

UNITY_INLINE std::vector<weight_block> weight_blocks(const ranking_shape& s) {
  UNITY_EXPECTS(s.item_features > 0 && s.list_features > 0 && s.hidden > 0 && s.seeds > 0, "sizes above 0");
  block_list all;
  all.add_dense("items", s.item_features, s.hidden);
  all.add("first seeds", s.hidden, s.seeds);
  all.add_dense("items again", s.hidden, s.hidden);
  all.add("told", s.seeds * s.hidden, s.hidden);
  all.add("second seeds", s.hidden, s.seeds);
  all.add_dense("join", (s.seeds + 1) * s.hidden + s.list_features, s.hidden);
  all.add_dense("last", s.hidden, 1);
  all.add("fixed", s.list_features, 1);
  return std::move(all).finish();
}

UNITY_INLINE std::vector<float> initial_weights(const ranking_shape& s, std::span<const float> fixed,
                                                std::uint64_t seed) {
  UNITY_EXPECTS(fixed.size() == s.list_features, "a factor for each feature of a list");
  auto all = random_weights(weight_blocks(s), seed);
  std::copy(fixed.begin(), fixed.end(), all.end() - static_cast<std::ptrdiff_t>(fixed.size()));
  return all;
}

UNITY_INLINE tensor::tensor_graph ranking_graph(const tensor::algebra& a, const ranking_shape& s, std::int64_t lists,
                                                std::int64_t items) {
  const auto g = detail::ranking_writer{a, s, lists, items}.write();
  return tensor::differentiate(a, g, {g.outputs()[0], {g.results(node_id{std::size_t{0}})[0]}}).graph;
}

}  // namespace unity::learn

namespace unity::learn::detail {

UNITY_INLINE value_id ranking_writer::seen(value_id h) {
  const auto seeds = static_cast<std::int64_t>(shape_.seeds);
  const auto hidden = static_cast<std::int64_t>(shape_.hidden);
  const auto scores = b_.reshape(b_.matmul(h, next()), {lists_, items_, seeds});
  const auto attention = b_.softmax(b_.transpose(scores, {0, 2, 1}), 2);
  const auto all = b_.reshape(h, {lists_, items_, hidden});
  return b_.reshape(b_.matmul(attention, all), {lists_, seeds * hidden});
}

UNITY_INLINE value_id ranking_writer::mean(value_id h) {
  const auto hidden = static_cast<std::int64_t>(shape_.hidden);
  const auto all = b_.reshape(h, {lists_, items_, hidden});
  const auto sum = b_.apply("reduce_sum", {all}, {{"axes", {1}}, {"keep_dims", 0}})[0];
  return b_.mul(sum, b_.fill(1.0 / static_cast<double>(items_)));
}

// log(1 + exp(d)) as relu(d) + log(1 + exp(-|d|)), which never overflows. -|d| is written as d - 2 relu(d). At d = 0
// its slope is 1, so the slope of the whole is 1/2 there, as it should be.
UNITY_INLINE value_id ranking_writer::pair_loss(value_id y, value_id pairs) {
  const auto worse = b_.reshape(y, {1, lists_});
  const auto better = b_.reshape(y, {lists_, 1});
  const auto apart = b_.sub(worse, better);
  const auto above = b_.relu(apart);
  const auto distance = b_.sub(apart, b_.mul(above, b_.fill(2)));
  const auto rest = b_.apply("log", {b_.add(b_.apply("exp", {distance})[0], b_.fill(1))})[0];
  const auto losses = b_.mul(pairs, b_.add(above, rest));
  return b_.apply("reduce_sum", {losses}, {{"axes", {0, 1}}, {"keep_dims", 0}})[0];
}

UNITY_INLINE tensor::tensor_graph ranking_writer::write() && {
  const auto features = static_cast<std::int64_t>(shape_.item_features);
  const auto hidden = static_cast<std::int64_t>(shape_.hidden);
  const auto blocks = weight_blocks(shape_);
  const auto all = b_.input("weights", {static_cast<std::int64_t>(size_of(blocks))});
  const auto items = b_.input("items", {lists_, items_, features});
  const auto wholes = b_.input("wholes", {lists_, static_cast<std::int64_t>(shape_.list_features)});
  const auto pairs = b_.input("pairs", {lists_, lists_});
  weights_ = split_blocks(b_, all, blocks);
  auto h = b_.relu(dense(b_.reshape(items, {lists_ * items_, features})));
  const auto first = seen(h);
  const auto own = b_.reshape(dense(h), {lists_, items_, hidden});
  const auto told = b_.reshape(b_.matmul(first, next()), {lists_, 1, hidden});
  h = b_.add(h, b_.reshape(b_.relu(b_.add(own, told)), {lists_ * items_, hidden}));
  const auto second = seen(h);
  const auto joined = b_.concat(1, std::array{second, mean(h), wholes});
  const auto corrected = dense(b_.relu(dense(joined)));
  const auto y = b_.reshape(b_.add(corrected, b_.matmul(wholes, next())), {lists_});
  const auto loss = pair_loss(y, pairs);
  return std::move(b_).finish({loss, y});
}

}  // namespace unity::learn::detail

#endif
