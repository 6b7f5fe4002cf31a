// Small random training graphs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::test {

// Draws operators of networks on values whose sizes are divisible by 4; the second operand of an operator is also
// drawn. Values that nobody reads are outputs.
class training_graph_maker {
 public:
  training_graph_maker(random_engine& random, const tensor::algebra& a) : random_{random}, b_{a} {
    is_image_ = random_.below(3) == 0;
    put(is_image_ ? b_.input("x", {64, 32, 16, 16}) : b_.input("x", {size(), size()}));
  }
  [[nodiscard]] tensor::tensor_graph run(std::size_t operators) && {
    while (count_ < operators) {
      try {
        draw();
      } catch (const error&) {  // the drawn values do not fit: draws again
      }
    }
    std::vector<value_id> outputs;
    for (std::size_t i = 1; i < values_.size(); ++i) {
      if (!is_read_[i]) {
        outputs.push_back(values_[i]);
      }
    }
    return std::move(b_).finish(outputs);
  }

 private:
  std::int64_t size() { return std::array<std::int64_t, 3>{64, 256, 1024}[random_.below(3)]; }
  void put(value_id v) {
    values_.push_back(v);
    is_read_.push_back(false);
  }
  // Adds an operator's results, and marks its operands as read.
  void put(const std::vector<value_id>& operands, const std::vector<value_id>& results) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      is_read_[i] = is_read_[i] || std::find(operands.begin(), operands.end(), values_[i]) != operands.end();
    }
    for (const auto v : results) {
      put(v);
    }
    ++count_;
  }
  // Prefers the last value, so that graphs are deep as well as wide.
  value_id any() { return random_.below(2) == 0 ? values_.back() : values_[random_.below(values_.size())]; }
  value_id weight(const tensor::shape& s) { return b_.weight("w" + std::to_string(weights_++), s); }

  void draw() {
    const auto v = any();
    const auto w = any();
    switch (random_.below(12)) {
      case 0: return put({v}, {b_.relu(v)});
      case 1: return put({v}, {is_image_ ? b_.relu(v) : b_.tanh(v)});
      case 2: return put({v, w}, {b_.add(v, w)});
      case 3: return put({v, w}, {random_.below(2) == 0 ? b_.mul(v, w) : b_.add(v, w)});
      case 4: {
        const std::array parts{v, w};
        return put({v, w}, {b_.concat(1, parts)});
      }
      case 5: {
        const auto half = b_.dims(v)[1] / 2;
        return put({v}, b_.split(v, 1, {half, half}));
      }
      case 6: return is_image_ ? put({v}, {b_.average_pool(v, {{2, 2}, {2, 2}})}) : put({v}, {b_.softmax(v, 1)});
      case 7:
        return is_image_ ? put({v}, {b_.max_pool(v, {{3, 3}, {1, 1}, "same"})}) : put({v}, {b_.transpose(v, {1, 0})});
      case 8: return put({v}, {b_.scalar_multiply(v, weight({}))});
      default: return is_image_ ? put({v}, {convolved(v)}) : product(v, w);
    }
  }
  value_id convolved(value_id v) {
    const auto k = std::array<std::int64_t, 2>{1, 3}[random_.below(2)];
    return b_.conv2d(v, weight({32, b_.dims(v)[1], k, k}), {.padding = "same"});
  }
  void product(value_id v, value_id w) {
    if (random_.below(4) == 0) {
      return put({v, w}, {b_.matmul(v, w)});
    }
    const auto n = size();
    const auto by = weight({b_.dims(v)[1], n});
    put({v}, {random_.below(3) == 0 ? b_.linear(v, by, weight({n})) : b_.matmul(v, by)});
  }

  random_engine& random_;
  tensor::builder b_;
  bool is_image_ = false;
  std::vector<value_id> values_{};
  std::vector<bool> is_read_{};
  std::size_t count_ = 0;
  std::size_t weights_ = 0;
};

[[nodiscard]] inline tensor::tensor_graph random_training_graph(random_engine& random, const tensor::algebra& a,
                                                                std::size_t operators) {
  return training_graph_maker{random, a}.run(operators);
}

}  // namespace unity::test
