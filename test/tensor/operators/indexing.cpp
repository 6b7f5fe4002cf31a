#include <unity/tensor/operators/indexing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_indexing {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// Distinct numbers of [0, n), about half of them counted from the end.
std::vector<double> distinct(std::int64_t count, std::int64_t n, unity::random_engine& random) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < n; ++i) {
    all.push_back(static_cast<double>(random.below(2) == 0 ? i : i - n));
  }
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

dense<double> numbers(shape dims, std::int64_t n, unity::random_engine& random) {
  return tabulate(std::move(dims), [&](const shape&) { return static_cast<double>(random.between(-n, n - 1)); });
}

// The position from the front that a number stands for.
std::int64_t front(double number, std::int64_t n) { return static_cast<std::int64_t>(number) + (number < 0 ? n : 0); }

// Runs an operator whose operand number `integers` is int64.
dense<double> run_mixed(std::string_view name, attributes a, const std::vector<dense<double>>& inputs,
                        std::size_t integers, dtype element = dtype::float32) {
  auto all = types_of(inputs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].element = i == integers ? dtype::int64 : element;
  }
  return evaluate<double>(standard(), standard().make_operation(name, a), inputs, all)[0];
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("gather reads along any axis and counts negative indices from the end") {
  unity::random_engine random{1};
  auto x = random_tensor({3, 4, 2}, random);
  x.data[0] = -infinity;
  const auto n = numbers({2, 3}, 4, random);
  CHECK(run_mixed("gather", {{"axis", 1}}, {x, n}, 1) ==
        tabulate({3, 2, 3, 2}, [&](const shape& p) { return at(x, {p[0], front(at(n, {p[1], p[2]}), 4), p[3]}); }));
  const auto last = numbers({}, 2, random);
  const auto whole = numbers({3, 4, 2}, 100, random);
  CHECK(run_mixed("gather", {{"axis", 2}}, {whole, last}, 1, dtype::int64) == tabulate({3, 4}, [&](const shape& p) {
          return at(whole, {p[0], p[1], front(last.data[0], 2)});
        }));
  CHECK(refusal_of("gather", {{"axis", 3}}, {type({2}), type({2}, dtype::int64)}) ==
        "an axis within the rank");
  CHECK(refusal_of("gather", {}, {type({2}), type({2})}) == "integers in operand 1");
}

TEST_CASE("gather_elements reads one element per index") {
  unity::random_engine random{2};
  const auto x = random_tensor({3, 4, 3}, random);
  const auto n = numbers({2, 5, 3}, 4, random);
  CHECK(run_mixed("gather_elements", {{"axis", 1}}, {x, n}, 1) ==
        tabulate({2, 5, 3}, [&](const shape& p) { return at(x, {p[0], front(at(n, {p[0], p[1], p[2]}), 4), p[2]}); }));
  CHECK(refusal_of("gather_elements", {{"axis", 0}}, {type({2, 2}), type({2, 3}, dtype::int64)}) ==
        "sizes within those of operand 0 in operand 1");
}

TEST_CASE("gather_nd reads rows by index tuples in each part of a batch") {
  unity::random_engine random{3};
  const auto x = random_tensor({2, 3, 4, 2}, random);
  const auto n = tabulate({2, 5, 2}, [&](const shape& p) {
    const auto size = p[2] == 0 ? 3 : 4;
    return static_cast<double>(random.between(-size, size - 1));
  });
  CHECK(run_mixed("gather_nd", {{"batch", 1}}, {x, n}, 1) == tabulate({2, 5, 2}, [&](const shape& p) {
          return at(x, {p[0], front(at(n, {p[0], p[1], 0}), 3), front(at(n, {p[0], p[1], 1}), 4), p[2]});
        }));
}

TEST_CASE("scatter_elements writes or adds one element per index") {
  unity::random_engine random{4};
  auto x = random_tensor({2, 5}, random);
  x.data[3] = -infinity;
  const auto u = random_tensor({2, 3}, random);
  dense<double> n{{2, 3}};
  for (std::ptrdiff_t row = 0; row < 2; ++row) {
    std::ranges::copy(distinct(3, 5, random), n.data.begin() + 3 * row);
  }
  for (const bool adds : {false, true}) {
    auto expected = x;
    for (std::size_t i = 0; i < 6; ++i) {
      auto& y = expected.data[i / 3 * 5 + static_cast<std::size_t>(front(n.data[i], 5))];
      y = adds ? y + u.data[i] : u.data[i];
    }
    CHECK(run_mixed("scatter_elements", {{"axis", 1}, {"reduction", adds ? 1 : 0}}, {x, n, u}, 1) == expected);
  }
}

TEST_CASE("scatter_nd writes rows and adds rows of equal indices") {
  unity::random_engine random{5};
  const auto x = random_tensor({2, 3, 2}, random);
  const dense<double> n{{3, 2}, {0, -1, 1, 0, -2, 1}};
  const auto u = random_tensor({3, 2}, random);
  const std::size_t rows[] = {2, 3, 1};
  auto written = x;
  for (std::size_t i = 0; i < 6; ++i) {
    written.data[rows[i / 2] * 2 + i % 2] = u.data[i];
  }
  CHECK(run_mixed("scatter_nd", {}, {x, n, u}, 1) == written);
  auto added = x;
  for (std::size_t i = 0; i < 6; ++i) {
    added.data[2 + i % 2] += u.data[i];
  }
  const dense<double> same{{3, 2}, {0, 1, -2, -2, 0, -2}};
  CHECK(distance(run_mixed("scatter_nd", {{"reduction", 1}}, {x, same, u}, 1), added) < 1e-15);
  CHECK(refusal_of("scatter_nd", {}, {type({2, 3}), type({4, 1}, dtype::int64), type({4, 2})}) ==
        "a row per number in operand 2");
}

TEST_CASE("linear_index is the start plus the strides times the position") {
  CHECK(run("linear_index", {{"dims", {2, 3}}, {"strides", {-2, 5}}, {"start", 4}}, {}) ==
        tabulate({2, 3}, [](const shape& p) { return static_cast<double>(4 - 2 * p[0] + 5 * p[1]); }));
  CHECK(run("linear_index", {{"dims", {2, 2}}, {"strides", {0, -3}}}, {}) ==
        tabulate({2, 2}, [](const shape& p) { return static_cast<double>(-3 * p[1]); }));
  CHECK(refusal_of("linear_index", {{"dims", {2, 3}}, {"strides", {1}}}, {}) == "a stride per dimension");
}

TEST_CASE("scatter_sum adds up the rows of each number and ignores numbers of no row") {
  unity::random_engine random{6};
  const auto x = random_tensor({2, 4, 3}, random);
  const dense<double> n{{2, 4}, {2, 0, 2, -1, 3, 2, 0, 7}};
  const auto expected = tabulate({4, 3}, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) {
        sum += at(n, {i, j}) == static_cast<double>(p[0]) ? at(x, {i, j, p[1]}) : 0;
      }
    }
    return sum;
  });
  CHECK(distance(run_mixed("scatter_sum", {{"rows", 4}}, {n, x}, 0), expected) < 1e-15);
  CHECK(refusal_of("scatter_sum", {{"rows", 0}}, {type({2}, dtype::int64), type({2})}) ==
        "a positive number of rows");
}

TEST_CASE("one_hot_values puts the second value at valid indices only") {
  const dense<double> n{{4}, {0, -1, 7, -9}};
  const dense<double> values{{2}, {-infinity, 3}};
  const auto hot = [&](std::int64_t i, std::int64_t k) {
    return (i == 0 && k == 0) || (i == 1 && k == 2) ? 3 : -infinity;
  };
  CHECK(run_mixed("one_hot_values", {{"axis", 0}, {"depth", 3}}, {n, values}, 0) ==
        tabulate({3, 4}, [&](const shape& p) { return hot(p[1], p[0]); }));
  CHECK(run_mixed("one_hot_values", {{"axis", 1}, {"depth", 3}}, {n, values}, 0) ==
        tabulate({4, 3}, [&](const shape& p) { return hot(p[0], p[1]); }));
}

TEST_CASE("work of gather is the bytes of the read rows / indices / result") {
  const auto op = standard().make_operation("gather", {{"axis", 0}});
  const types in{type({1000, 8}), type({5}, dtype::int64)};
  const auto w = standard().work(op, in, *standard().infer(op, in));
  CHECK(w.operations.count() == 0);
  CHECK(w.moved.count() == 5 * 8 + 2 * 5 * 8 * 4);
}

}  // namespace tests_of_indexing
