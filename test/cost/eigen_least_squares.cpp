#include <unity/cost/eigen_least_squares.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <unity/core/random.hpp>

namespace tests_of_eigen_least_squares {

using namespace unity;

static_assert(learner<least_squares, std::span<const double>>);
static_assert(learner<least_squares, std::vector<double>>);
static_assert(predictor<linear_predictor, std::span<const double>>);

namespace {

double uniform(random_engine& r, double low, double high) {
  return low + (high - low) * static_cast<double>(r.below(1'000'000)) / 1e6;
}

// By elimination on the normal equations, for comparison: (A^T W^2 A + ridge I) x = A^T W^2 b, features as they are.
std::vector<double> by_normal_equations(const std::vector<std::vector<double>>& rows, const std::vector<double>& y,
                                        const std::vector<double>& weights, double ridge) {
  const auto n = rows[0].size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n + 1, 0));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto w = weights[r] * weights[r];
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        m[i][j] += w * rows[r][i] * rows[r][j];
      }
      m[i][n] += w * rows[r][i] * y[r];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    m[i][i] += ridge;
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto pivot = i;
    for (std::size_t k = i; k < n; ++k) {
      pivot = std::abs(m[k][i]) > std::abs(m[pivot][i]) ? k : pivot;
    }
    std::swap(m[i], m[pivot]);
    for (std::size_t k = 0; k < n; ++k) {
      const auto f = m[k][i] / m[i][i];
      for (std::size_t j = i; k != i && j <= n; ++j) {
        m[k][j] -= f * m[i][j];
      }
    }
  }
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = m[i][n] / m[i][i];
  }
  return x;
}

TEST_CASE("least squares coefficients match the normal equations", "[law]") {
  const auto seed = GENERATE(range(1U, 21U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto n = 1 + random.below(5);
  const auto ridge = random.below(2) == 0 ? 0.0 : uniform(random, 1e-3, 1);
  least_squares fit{n, ridge};
  std::vector<std::vector<double>> rows;
  std::vector<double> y;
  std::vector<double> weights;
  // The largest of each feature is 1, so that the ridge counts alike in both.
  for (std::size_t r = 0; r < n + 20; ++r) {
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      row.push_back(r == 0 ? 1 : uniform(random, -1, 1));
    }
    y.push_back(uniform(random, -5, 5));
    weights.push_back(uniform(random, 0.1, 3));
    fit.observe(row, y.back(), weights.back());
  }
  const auto expected = by_normal_equations(rows, y, weights, ridge);
  const auto learned = fit.snapshot();
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(learned.coefficients()[i] == Approx(expected[i]).margin(1e-9));
  }
}

TEST_CASE("least squares recovers exact coefficients for features of very different scales") {
  least_squares fit{3};
  for (const double operations : {1e6, 5e7, 2e9, 8e9}) {
    for (const double moved : {1e3, 4e5, 7e6}) {
      fit.observe(std::array{1.0, operations, moved}, 4e-6 + operations / 1e12 + moved / 1e11);
    }
  }
  const auto learned = fit.snapshot();
  CHECK(learned.coefficients()[0] == Approx(4e-6).epsilon(1e-6));
  CHECK(1 / learned.coefficients()[1] == Approx(1e12).epsilon(1e-6));
  CHECK(1 / learned.coefficients()[2] == Approx(1e11).epsilon(1e-6));
}

TEST_CASE("least squares splits the coefficient equally between identical features") {
  least_squares fit{2};
  random_engine random{7};
  for (int i = 0; i < 50; ++i) {
    const auto x = uniform(random, 1, 10);
    fit.observe(std::array{x, x}, 6 * x);
  }
  const auto learned = fit.snapshot();
  CHECK(learned.coefficients()[0] == Approx(3));
  CHECK(learned.coefficients()[1] == Approx(3));
}

TEST_CASE("the least squares interval contains four of five observations", "[law]") {
  const auto seed = GENERATE(1U, 2U, 3U, 4U);
  CAPTURE(seed);
  random_engine random{seed};
  least_squares fit{2};
  std::vector<std::pair<double, double>> seen;
  for (int i = 0; i < 400; ++i) {
    const auto x = uniform(random, 1, 100);
    seen.emplace_back(x, (2 + 3 * x) * uniform(random, 0.8, 1.3));
    fit.observe(std::array{1.0, x}, seen.back().second, 1 / seen.back().second);
  }
  const auto learned = fit.snapshot();
  std::size_t inside = 0;
  for (const auto& [x, y] : seen) {
    const auto p = learned.predict(std::array{1.0, x});
    CHECK(p.low <= p.expected);
    CHECK(p.expected <= p.high);
    inside += p.low <= y && y <= p.high ? 1 : 0;
  }
  CHECK(inside >= seen.size() * 4 / 5 - 1);
  CHECK(inside < seen.size());
}

TEST_CASE("a least squares snapshot is immutable and its version identifies its observations") {
  least_squares fit{1};
  fit.observe(std::array{1.0}, 2);
  const auto first = fit.snapshot();
  CHECK(first == fit.snapshot());
  CHECK(first.version() == fit.snapshot().version());
  fit.observe(std::array{1.0}, 4);
  CHECK(first.predict(std::array{1.0}).expected == Approx(2));
  CHECK(fit.snapshot().predict(std::array{1.0}).expected == Approx(3));
  CHECK(first.version() != fit.snapshot().version());
  CHECK(fit.observations() == 2);
}

TEST_CASE("least squares without observations predicts zero") {
  CHECK(least_squares{2}.snapshot().predict(std::array{1.0, 5.0}) == prediction{});
  CHECK(least_squares{2, 0.1}.snapshot().predict(std::array{1.0, 5.0}) == prediction{});
}

}  // namespace

}  // namespace tests_of_eigen_least_squares
