#include <unity/tensor/operators/attention.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_dot_product_attention {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr std::int64_t batch = 2;
constexpr std::int64_t heads = 4;
constexpr std::int64_t key_heads = 2;
constexpr std::int64_t queries = 3;
constexpr std::int64_t keys = 5;
constexpr std::int64_t features = 6;

// [b, h, s, d] as [b, s, h * d].
dense<double> joined(const dense<double>& x) {
  const auto d = x.dims[3];
  return tabulate({x.dims[0], x.dims[2], x.dims[1] * d},
                  [&](const shape& p) { return at(x, {p[0], p[2] / d, p[1], p[2] % d}); });
}

// Without the first query, of [b, h, s, d] or of the same joined.
dense<double> later_queries(const dense<double>& x, bool is_joined) {
  auto dims = x.dims;
  --dims[is_joined ? 1U : 2U];
  return tabulate(dims, [&](const shape& p) {
    return is_joined ? at(x, {p[0], p[1] + 1, p[2]}) : at(x, {p[0], p[1], p[2] + 1, p[3]});
  });
}

}  // namespace

TEST_CASE("dot_product_attention agrees with loops for masks and scales") {
  unity::random_engine random{1};
  const auto q = random_tensor({batch, heads, queries, features}, random);
  const auto k = random_tensor({batch, key_heads, keys, features}, random);
  const auto v = random_tensor({batch, key_heads, keys, 2}, random);
  const auto added = random_tensor({heads, 1, keys}, random);
  dense<double> seen{{queries, keys}};
  for (std::size_t i = 0; i < seen.data.size(); ++i) {
    seen.data[i] = i % 3 == 0 ? 0 : 1;
  }
  for (const int mask : {0, 1, 2}) {
    for (const bool causal : {false, true}) {
      for (const double scale : {0.0, 0.25}) {
        const auto expected = tabulate({batch, heads, queries, 2}, [&](const shape& p) {
          double total = 0;
          double sum = 0;
          for (std::int64_t t = 0; t < keys; ++t) {
            if ((causal && t > p[2]) || (mask == 2 && at(seen, {p[2], t}) == 0)) {
              continue;
            }
            double score = 0;
            for (std::int64_t i = 0; i < features; ++i) {
              score += at(q, {p[0], p[1], p[2], i}) * at(k, {p[0], p[1] / 2, t, i});
            }
            score = score * (scale == 0 ? 1 / std::sqrt(double{features}) : scale) +
                    (mask == 1 ? at(added, {p[1], 0, t}) : 0);
            total += std::exp(score);
            sum += std::exp(score) * at(v, {p[0], p[1] / 2, t, p[3]});
          }
          return sum / total;
        });
        CAPTURE(mask, causal, scale);
        for (const bool flat : {false, true}) {
          std::vector operands{flat ? joined(q) : q, flat ? joined(k) : k, flat ? joined(v) : v};
          if (mask != 0) {
            operands.push_back(mask == 1 ? added : seen);
          }
          auto t = types_of(operands);
          if (mask == 2) {
            t[3].element = dtype::boolean;
          }
          const auto op = standard().make_operation("dot_product_attention", {{"heads", flat ? heads : 0},
                                                                              {"key_heads", flat ? key_heads : 0},
                                                                              {"scale", scale},
                                                                              {"causal", causal ? 1 : 0}});
          const auto found = evaluate<double>(standard(), op, operands, t)[0];
          const auto wanted = flat ? joined(expected) : expected;
          // The second and third query always see a key; the first sees none if both masks apply.
          if (mask == 2 && causal) {
            CHECK(distance(later_queries(found, flat), later_queries(wanted, flat)) < 1e-13);
          } else {
            CHECK(distance(found, wanted) < 1e-13);
          }
        }
      }
    }
  }
}

TEST_CASE("lower_triangle is 1 where the row number is at least the column number") {
  for (const auto& dims : {shape{1, 1}, shape{3, 5}, shape{5, 3}}) {
    CHECK(run("lower_triangle", {{"rows", dims[0]}, {"columns", dims[1]}, {"element", "float32"}}, {}) ==
          tabulate(dims, [](const shape& p) { return p[0] >= p[1] ? 1.0 : 0.0; }));
  }
  CHECK(refusal_of("lower_triangle", {{"rows", 0}, {"columns", 2}, {"element", "float32"}}, {}) ==
        "positive sizes");
}

TEST_CASE("rotary_embedding rotates feature pairs by the angles of their positions") {
  unity::random_engine random{2};
  constexpr std::int64_t angles = 2;
  const auto x = random_tensor({batch, heads, queries, features}, random);
  const auto cos = random_tensor({7, angles}, random);
  const auto sin = random_tensor({7, angles}, random);
  const dense<double> positions{{batch, queries}, {3, 1, 6, 0, 2, 5}};
  const auto row = [&](const dense<double>& table) {
    return tabulate({batch, queries, angles}, [&](const shape& p) {
      return at(table, {static_cast<std::int64_t>(at(positions, {p[0], p[1]})), p[2]});
    });
  };
  for (const bool interleaved : {false, true}) {
    const auto expected = tabulate(x.dims, [&](const shape& p) {
      if (p[3] >= 2 * angles) {
        return at(x, {p[0], p[1], p[2], p[3]});
      }
      const auto i = interleaved ? p[3] / 2 : p[3] % angles;
      const bool is_first = interleaved ? p[3] % 2 == 0 : p[3] < angles;
      const auto a = at(x, {p[0], p[1], p[2], interleaved ? 2 * i : i});
      const auto b = at(x, {p[0], p[1], p[2], interleaved ? 2 * i + 1 : i + angles});
      const auto c = at(row(cos), {p[0], p[2], i});
      const auto s = at(row(sin), {p[0], p[2], i});
      return is_first ? c * a - s * b : s * a + c * b;
    });
    const auto turned = [&](bool flat, bool numbered) {
      std::vector operands{flat ? joined(x) : x, numbered ? cos : row(cos), numbered ? sin : row(sin)};
      auto t = types_of(operands);
      if (numbered) {
        operands.push_back(positions);
        t.push_back(type(positions.dims, dtype::int64));
      }
      const auto op = standard().make_operation("rotary_embedding",
                                                {{"heads", flat ? heads : 0}, {"interleaved", interleaved ? 1 : 0}});
      return evaluate<double>(standard(), op, operands, t)[0];
    };
    CAPTURE(interleaved);
    for (const bool numbered : {false, true}) {
      CHECK(distance(turned(false, numbered), expected) < 1e-15);
      CHECK(distance(turned(true, numbered), joined(expected)) < 1e-15);
    }
  }
}

TEST_CASE("dot_product_attention and rotary_embedding refuse invalid operands") {
  const auto q = type({2, 4, 3, 6});
  const auto refusal = [](types t, std::int64_t of_queries = 0, std::int64_t of_keys = 0) {
    return refusal_of("dot_product_attention", {{"heads", of_queries}, {"key_heads", of_keys}}, t);
  };
  CHECK(refusal({q, type({2, 2, 5, 6}), type({2, 2, 5, 1})}).empty());
  CHECK(refusal({q, type({2, 3, 5, 6}), type({2, 3, 5, 1})}) ==
        "query heads that are a multiple of key heads");
  CHECK(refusal({q, type({2, 2, 5, 6}), type({2, 2, 4, 1})}) == "one number of keys and values");
  CHECK(refusal({q, q, q, type({5, 3})}) == "a mask that broadcasts with the scores in operand 3");
  CHECK(refusal({q, q, q, type({3, 3}, dtype::int64)}) ==
        "booleans or the element type of the queries in operand 3");
  CHECK(refusal({type({2, 3, 6}), type({2, 3, 6}), type({2, 3, 6})}) == "rank 4 in operand 0");
  CHECK(refusal({type({2, 3, 6}), type({2, 3, 6}), type({2, 3, 6})}, 4, 4) ==
        "features that are a multiple of heads in operand 0");
  CHECK(refusal({type({2, 3, 6}), type({2, 3, 6}), type({2, 3, 6})}, 2) == "heads of both or none");
  CHECK(refusal_of("rotary_embedding", {}, {q, type({2, 3, 4}), type({2, 3, 4})}) ==
        "no more than half as many angles as features in operand 1");
  CHECK(refusal_of("rotary_embedding", {}, {q, type({2, 2, 3}), type({2, 2, 3})}) ==
        "a row per sample and position in operand 1");
}

}  // namespace tests_of_dot_product_attention
