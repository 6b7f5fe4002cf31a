// Ranks lists of items with a network that learns from pairs of lists with a known order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/executor.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/learn/adam_step.hpp>
#include <unity/learn/weight_blocks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::learn {

// A network that ranks lists of items: dense layers per item, attention of learned seeds to the items, and a score.
//
//   h = relu(x E)                                per item
//   c = softmax(h S)^T h                         what each seed sees of all items
//   h = h + relu(h U + c V)                      each item gets what the seeds saw
//   c = softmax(h S')^T h
//   y = z f + dense(relu(dense([c, mean h, z])))  z: what is known of the list as a whole
//
// Seeds attend to the items, instead of items to each other, so that a score takes time linear in the items (Lee et
// al., Set transformer, ICML 2019). Before training, y = z f: a given estimate, which training corrects.
//
// The loss is the mean of log(1 + exp(y2 - y1)) over pairs of lists in which the first is better (Burges et al.,
// Learning to rank using gradient descent, ICML 2005). Zhang et al., AutoDist, section 2.4, use this loss with a
// recurrent network.

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
// lists], the weight of each pair (better list, worse list). Outputs: the loss, []; y, [lists]; and the gradient of the
// loss by the weights.
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

// Row-major: features per item, and features of the whole list. Regular.
struct ranked_list {
  std::vector<float> items{};
  std::vector<float> whole{};

  friend bool operator==(const ranked_list&, const ranked_list&) = default;
};

// Per feature an offset and a divisor; the divisor of a constant feature is 1.
class ranked_scaling {
 public:
  ranked_scaling(const ranking_shape& s, std::span<const ranked_list> all);

  // Values beyond 10 deviations are clamped to 10.
  void apply(ranked_list& l) const;

 private:
  struct column {
    double mean = 0;
    double deviation = 1;
  };

  static std::vector<column> columns_of(std::size_t width, std::span<const ranked_list> all,
                                        std::vector<float> ranked_list::* rows);
  static void apply(std::vector<float>& rows, const std::vector<column>& columns);

  std::vector<column> items_;
  std::vector<column> whole_;
};

// y of ranking_graph, up to rounding: higher is better. Runs on the calling thread. Preconditions: as many weights as
// the shape has; at least one item. Complexity: items times hidden^2.
[[nodiscard]] float ranking_score(const ranking_shape& s, std::span<const float> weights, const ranked_list& l);

// The number of pairs of lists whose values differ by more than the share `apart` of the smaller one, and how often the
// list with the smaller value has the higher score; equal scores count half. 0 pairs if there are none.
struct pair_accuracy {
  std::size_t pairs = 0;
  double right = 0;

  [[nodiscard]] double share() const noexcept { return pairs == 0 ? 0 : right / static_cast<double>(pairs); }
};
[[nodiscard]] pair_accuracy accuracy_of(std::span<const float> scores, std::span<const double> values, double apart);

struct ranker_settings {
  std::size_t batch = 32;  // lists per step
  double rate = 3e-3;      // learning rate of Adam
  double decay = 0.02;     // weight decay, per step and learning rate
  double apart = 0.001;    // pairs whose values differ by less than this share are ignored
};

// All lists have the same number of items. Not safe for several threads at once; results depend on the input and the
// seed only. The algebra must outlive the ranker.
class ranker {
 public:
  ranker(const tensor::algebra& a, const ranking_shape& s, std::size_t items, std::span<const float> fixed,
         std::uint64_t seed, const ranker_settings& settings = {});

  [[nodiscard]] float score(const ranked_list& l) const { return ranking_score(shape_, adam_.weights, l); }
  // Effects: trains this many steps, each on a random batch of the lists; a list with a smaller value is better.
  // Precondition: one value per list. Returns the mean of the batches' losses.
  double learn(std::span<const ranked_list> lists, std::span<const double> values, std::size_t steps);

 private:
  // Sets the weights of a batch's pairs. Returns false if the batch has no pairs.
  [[nodiscard]] bool weigh(std::span<const std::size_t> batch, std::span<const double> values);

  ranking_shape shape_;
  std::size_t items_;
  ranker_settings settings_;
  random_engine random_;
  adam_state adam_;
  adam_step step_;
  std::unique_ptr<backend::cpu_backend> backend_;  // the executor refers to it
  backend::executor<backend::cpu_backend> network_;
  std::vector<float> pairs_{};  // of a batch
};

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_RANKER)

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
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

namespace unity::learn {

namespace detail {

class ranking_pass {
 public:
  ranking_pass(const ranking_shape& s, std::span<const float> weights, const ranked_list& l)
      : shape_{s}, weights_{weights}, list_{l}, items_{l.items.size() / s.item_features} {}

  [[nodiscard]] float run();

 private:
  using numbers = std::vector<float>;

  [[nodiscard]] numbers seen(const numbers& h);

  const ranking_shape& shape_;
  block_reader weights_;
  const ranked_list& list_;
  std::size_t items_;
};

UNITY_INLINE auto ranking_pass::seen(const numbers& h) -> numbers {
  const auto hidden = shape_.hidden;
  const auto seeds = shape_.seeds;
  numbers scores(items_ * seeds);
  add_product(h.data(), items_, hidden, weights_.take(hidden * seeds), seeds, scores.data());
  numbers turned(seeds * items_);  // the softmax of each seed
  for (std::size_t s = 0; s < seeds; ++s) {
    auto* const row = turned.data() + s * items_;
    auto most = scores[s];
    for (std::size_t i = 0; i < items_; ++i) {
      row[i] = scores[i * seeds + s];
      most = std::max(most, row[i]);
    }
    float sum = 0;
    for (std::size_t i = 0; i < items_; ++i) {
      row[i] = std::exp(row[i] - most);
      sum += row[i];
    }
    for (std::size_t i = 0; i < items_; ++i) {
      row[i] /= sum;
    }
  }
  numbers out(seeds * hidden);
  add_product(turned.data(), seeds, items_, h.data(), hidden, out.data());
  return out;
}

UNITY_INLINE float ranking_pass::run() {
  const auto hidden = shape_.hidden;
  auto h = weights_.dense(list_.items, items_, shape_.item_features, hidden);
  relu(h);
  const auto first = seen(h);
  auto more = weights_.dense(h, items_, hidden, hidden);
  numbers told(hidden);
  add_product(first.data(), 1, first.size(), weights_.take(first.size() * hidden), hidden, told.data());
  for (std::size_t i = 0; i < more.size(); ++i) {
    more[i] += told[i % hidden];
  }
  relu(more);
  for (std::size_t i = 0; i < h.size(); ++i) {
    h[i] += more[i];
  }
  auto joined = seen(h);
  const auto at = joined.size();
  joined.resize(at + hidden);
  for (std::size_t i = 0; i < h.size(); ++i) {
    joined[at + i % hidden] += h[i] / static_cast<float>(items_);
  }
  joined.insert(joined.end(), list_.whole.begin(), list_.whole.end());
  auto last = weights_.dense(joined, 1, joined.size(), hidden);
  relu(last);
  auto y = weights_.dense(last, 1, hidden, 1)[0];
  const auto* const fixed = weights_.take(list_.whole.size());
  for (std::size_t i = 0; i < list_.whole.size(); ++i) {
    y += list_.whole[i] * fixed[i];
  }
  return y;
}

}  // namespace detail

UNITY_INLINE float ranking_score(const ranking_shape& s, std::span<const float> weights, const ranked_list& l) {
  return detail::ranking_pass{s, weights, l}.run();
}

UNITY_INLINE ranked_scaling::ranked_scaling(const ranking_shape& s, std::span<const ranked_list> all)
    : items_{columns_of(s.item_features, all, &ranked_list::items)},
      whole_{columns_of(s.list_features, all, &ranked_list::whole)} {}

UNITY_INLINE std::vector<ranked_scaling::column> ranked_scaling::columns_of(std::size_t width,
                                                                            std::span<const ranked_list> all,
                                                                            std::vector<float> ranked_list::* rows) {
  std::vector<column> columns(width);
  for (std::size_t c = 0; c < width; ++c) {
    double count = 0;
    double sum = 0;
    double squares = 0;
    for (const auto& l : all) {
      for (std::size_t i = c; i < (l.*rows).size(); i += width) {
        const double x = (l.*rows)[i];
        count += 1;
        sum += x;
        squares += x * x;
      }
    }
    const auto mean = count > 0 ? sum / count : 0;
    const auto variance = count > 0 ? squares / count - mean * mean : 0;
    columns[c] = {mean, variance > 1e-12 * mean * mean ? std::sqrt(variance) : 1};  // below: rounding alone
  }
  return columns;
}

UNITY_INLINE void ranked_scaling::apply(std::vector<float>& rows, const std::vector<column>& columns) {
  constexpr double most = 10;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& c = columns[i % columns.size()];
    rows[i] = static_cast<float>(std::clamp((double{rows[i]} - c.mean) / c.deviation, -most, most));
  }
}

UNITY_INLINE void ranked_scaling::apply(ranked_list& l) const {
  apply(l.items, items_);
  apply(l.whole, whole_);
}

UNITY_INLINE pair_accuracy accuracy_of(std::span<const float> scores, std::span<const double> values, double apart) {
  UNITY_EXPECTS(scores.size() == values.size(), "a score for each value");
  pair_accuracy found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[i] * (1 + apart) < values[k]) {
        ++found.pairs;
        found.right += scores[i] > scores[k] ? 1 : scores[i] == scores[k] ? 0.5 : 0;
      }
    }
  }
  return found;
}

UNITY_INLINE ranker::ranker(const tensor::algebra& a, const ranking_shape& s, std::size_t items,
                            std::span<const float> fixed, std::uint64_t seed, const ranker_settings& settings)
    : shape_{s},
      items_{items},
      settings_{settings},
      random_{seed},
      adam_{adam_start(initial_weights(s, fixed, seed))},
      step_{a, adam_.weights.size()},
      backend_{std::make_unique<backend::cpu_backend>(a, backend::cpu_options{1})},
      network_{*backend_, a,
               ranking_graph(a, s, static_cast<std::int64_t>(settings.batch), static_cast<std::int64_t>(items))},
      pairs_(settings.batch * settings.batch) {}

UNITY_INLINE bool ranker::weigh(std::span<const std::size_t> batch, std::span<const double> values) {
  std::fill(pairs_.begin(), pairs_.end(), 0.0F);
  std::size_t count = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t k = 0; k < batch.size(); ++k) {
      if (values[batch[i]] * (1 + settings_.apart) < values[batch[k]]) {
        pairs_[i * settings_.batch + k] = 1;
        ++count;
      }
    }
  }
  for (auto& p : pairs_) {
    p /= static_cast<float>(std::max<std::size_t>(count, 1));
  }
  return count > 0;
}

UNITY_INLINE double ranker::learn(std::span<const ranked_list> lists, std::span<const double> values,
                                  std::size_t steps) {
  UNITY_EXPECTS(lists.size() == values.size(), "a value for each list");
  const auto count = std::min(settings_.batch, lists.size());
  std::vector<std::size_t> order(lists.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<float> items(settings_.batch * items_ * shape_.item_features);
  std::vector<float> wholes(settings_.batch * shape_.list_features);
  double loss = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(order[i], order[i + random_.below(order.size() - i)]);
    }
    const auto batch = std::span{order}.first(count);
    if (!weigh(batch, values)) {
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto& l = lists[batch[i]];
      std::copy(l.items.begin(), l.items.end(), items.data() + i * l.items.size());
      std::copy(l.whole.begin(), l.whole.end(), wholes.data() + i * l.whole.size());
    }
    network_.set("weights", std::as_bytes(std::span{adam_.weights}));
    network_.set("items", std::as_bytes(std::span{items}));
    network_.set("wholes", std::as_bytes(std::span{wholes}));
    network_.set("pairs", std::as_bytes(std::span{pairs_}));
    network_.run();
    network_.wait();
    loss += double{network_.output(0).data[0]};
    step_(adam_, network_.output(2).data, settings_.rate, settings_.decay);
  }
  return steps == 0 ? 0 : loss / static_cast<double>(steps);
}

}  // namespace unity::learn

#endif
