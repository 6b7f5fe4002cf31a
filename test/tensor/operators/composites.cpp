// Lookup, attention and recurrent cells: each against loops written here.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/operators/attention.hpp>
#include <unity/tensor/operators/embedding.hpp>
#include <unity/tensor/operators/recurrent.hpp>

#include "../testing.hpp"

namespace tests_of_composites {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("embedding returns rows of the table and zeros for missing rows") {
  unity::random_engine random{1};
  const auto table = random_tensor({5, 3}, random);
  const dense<double> ids{{2, 2}, {4, 0, 7, 2}};
  const types t{type({5, 3}), type({2, 2}, dtype::int64)};
  const auto found =
      evaluate<double>(standard(), standard().make_operation("embedding"), std::vector{table, ids}, t)[0];
  CHECK(found == tabulate({2, 2, 3}, [&](const shape& p) {
          const auto row = static_cast<std::int64_t>(at(ids, {p[0], p[1]}));
          return row < 5 ? at(table, {row, p[2]}) : 0;
        }));
  CHECK(refusal_of("embedding", {}, {type({5, 3}), type({2})}) == "integers in operand 1");
  CHECK(refusal_of("embedding", {}, {type({}), type({2}, dtype::int32)}) == "rank 1 or more in operand 0");
}

TEST_CASE("attention agrees with loops over heads / queries / keys") {
  unity::random_engine random{2};
  constexpr std::int64_t heads = 2;
  constexpr std::int64_t d = 3;
  constexpr std::int64_t p = 2;
  const auto q = random_tensor({2, 4, 5}, random);
  const auto k = random_tensor({2, 3, 6}, random);
  const auto v = random_tensor({2, 3, 7}, random);
  const auto wq = random_tensor({5, heads * d}, random);
  const auto wk = random_tensor({6, heads * d}, random);
  const auto wv = random_tensor({7, heads * p}, random);
  const auto wo = random_tensor({heads * p, 8}, random);
  const auto project = [](const dense<double>& x, const dense<double>& w, std::int64_t b, std::int64_t row,
                          std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < w.dims[0]; ++i) {
      sum += at(x, {b, row, i}) * at(w, {i, column});
    }
    return sum;
  };
  const auto expected = tabulate({2, 4, 8}, [&](const shape& at_) {
    double out = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> weights;
      double total = 0;
      for (std::int64_t t = 0; t < 3; ++t) {
        double score = 0;
        for (std::int64_t i = 0; i < d; ++i) {
          score += project(q, wq, at_[0], at_[1], h * d + i) * project(k, wk, at_[0], t, h * d + i);
        }
        weights.push_back(std::exp(score / std::sqrt(double{d})));
        total += weights.back();
      }
      for (std::int64_t i = 0; i < p; ++i) {
        for (std::int64_t t = 0; t < 3; ++t) {
          out += weights[static_cast<std::size_t>(t)] / total * project(v, wv, at_[0], t, h * p + i) *
                 at(wo, {h * p + i, at_[2]});
        }
      }
    }
    return out;
  });
  CHECK(distance(run("attention", {{"heads", heads}}, {q, k, v, wq, wk, wv, wo}), expected) < 1e-13);
}

TEST_CASE("attention refuses invalid heads and operands") {
  const types good{type({2, 4, 5}), type({2, 3, 6}), type({2, 3, 7}), type({5, 6}),
                   type({6, 6}),    type({7, 4}),    type({4, 8})};
  CHECK(refusal_of("attention", {{"heads", 2}}, good).empty());
  CHECK(refusal_of("attention", {{"heads", 4}}, good) == "columns that are a multiple of heads");
  CHECK(refusal_of("attention", {{"heads", 0}}, good) == "columns that are a multiple of heads");
  auto bad = good;
  bad[2].dims[1] = 4;
  CHECK(refusal_of("attention", {{"heads", 2}}, bad) == "one number of keys and values");
  bad = good;
  bad[6].dims = {4};
  CHECK(refusal_of("attention", {{"heads", 2}}, bad) == "rank 2 in operand 6");
}

TEST_CASE("lstm_cell agrees with its equations") {
  unity::random_engine random{3};
  const auto x = random_tensor({2, 3}, random);
  const auto h = random_tensor({2, 4}, random);
  const auto c = random_tensor({2, 4}, random);
  const auto w = random_tensor({4, 4, 3}, random);
  const auto r = random_tensor({4, 4, 4}, random);
  const auto bias = random_tensor({4, 4}, random);
  const auto gate = [&](std::int64_t g, std::int64_t b, std::int64_t n) {
    double sum = at(bias, {g, n});
    for (std::int64_t i = 0; i < 3; ++i) {
      sum += at(x, {b, i}) * at(w, {g, n, i});
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      sum += at(h, {b, i}) * at(r, {g, n, i});
    }
    return g == 3 ? std::tanh(sum) : 1 / (1 + std::exp(-sum));
  };
  const auto cell = tabulate({2, 4}, [&](const shape& p) {
    return gate(2, p[0], p[1]) * at(c, {p[0], p[1]}) + gate(0, p[0], p[1]) * gate(3, p[0], p[1]);
  });
  const auto state = tabulate({2, 4}, [&](const shape& p) {
    return gate(1, p[0], p[1]) * std::tanh(at(cell, {p[0], p[1]}));
  });
  const auto found = run_all("lstm_cell", {}, {x, h, c, w, r, bias});
  REQUIRE(found.size() == 2);
  CHECK(distance(found[0], state) < 1e-14);
  CHECK(distance(found[1], cell) < 1e-14);
  CHECK(refusal_of("lstm_cell", {}, types_of({x, h, x, w, r, bias})) ==
        "weights [4, cells, features] in operand 3");
  CHECK(refusal_of("lstm_cell", {}, types_of({x, x, c, w, r, bias})) ==
        "weights [4, cells, states] in operand 4");
}

}  // namespace tests_of_composites
