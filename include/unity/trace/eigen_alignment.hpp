// The most likely clock offsets of ranks: a quadratic program under difference constraints. Needs unity::eigen.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/trace/alignment.hpp>
#include <unity/trace/transactions.hpp>

namespace unity::trace {

// Offsets that minimize the function under the constraints, up to an error that `feasible` repairs. The first rank of
// each connected component keeps its `start`, because only differences of offsets are determined. `start` must satisfy
// the constraints.
// Complexity: at most 60 Cholesky factorizations of a matrix of ranks by ranks, usually about 15.
// Source: Mehrotra's predictor and corrector; Nocedal and Wright, Numerical Optimization, 2006, section 16.6.
[[nodiscard]] std::vector<double> least_offsets(const quadratic_function& f,
                                                const std::vector<difference_constraint>& all,
                                                const std::vector<double>& start);

// One common clock for all ranks: the clocks that ranks state, plus the most likely corrections by alignment_problem,
// which satisfy all its constraints. Solves it repeatedly, each time with the weights of the previous solution, until
// the solution changes by less than a tenth of a microsecond, at most 20 times. Complexity: that of quadratic programs
// with one variable per rank and one constraint per pair of ranks that communicate.
// Throws: unity::error that names transactions which no clocks can satisfy.
// Source: Hu et al., dPRO, MLSys 2022, section 4.2.
[[nodiscard]] clock_offsets align_clocks(const job_trace& job, const transactions& x);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_EIGEN_ALIGNMENT)

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include <Eigen/Cholesky>

#include <unity/core/config.hpp>

namespace unity::trace {

namespace detail {

// min x'Hx / 2 + g'x subject to Ax + s = b, s >= 0; `prices` are the Lagrange multipliers of the rows of A.
struct interior_point {
  Eigen::MatrixXd h;
  Eigen::VectorXd g;
  Eigen::VectorXd b;
  const std::vector<difference_constraint>* all = nullptr;
  std::vector<bool> is_fixed;
  Eigen::VectorXd x;
  Eigen::VectorXd slack;
  Eigen::VectorXd prices;

  struct step {
    Eigen::VectorXd x;
    Eigen::VectorXd slack;
    Eigen::VectorXd prices;
  };

  // Solves for the difference x from `start`, which keeps numbers small.
  interior_point(const quadratic_function& f, const std::vector<difference_constraint>& constraints,
                 const std::vector<double>& start);
  [[nodiscard]] Eigen::VectorXd times(const Eigen::VectorXd& v) const;             // Av
  [[nodiscard]] Eigen::VectorXd transposed_times(const Eigen::VectorXd& v) const;  // A'v
  // Newton's step for slack * price = current value minus `products`.
  [[nodiscard]] step towards(const Eigen::LLT<Eigen::MatrixXd>& factor, const Eigen::VectorXd& products) const;
  [[nodiscard]] Eigen::LLT<Eigen::MatrixXd> factor() const;
  void solve();
};

UNITY_INLINE interior_point::interior_point(const quadratic_function& f,
                                            const std::vector<difference_constraint>& constraints,
                                            const std::vector<double>& start)
    : all{&constraints} {
  const auto n = static_cast<Eigen::Index>(f.size);
  const auto m = static_cast<Eigen::Index>(constraints.size());
  const Eigen::Map<const Eigen::VectorXd> from{start.data(), n};
  h = Eigen::Map<const Eigen::MatrixXd>{f.quadratic.data(), n, n};
  g = Eigen::Map<const Eigen::VectorXd>{f.linear.data(), n} + h * from;
  b = -times(from);
  for (Eigen::Index c = 0; c < m; ++c) {
    b[c] += static_cast<double>(constraints[static_cast<std::size_t>(c)].bound.count()) * 1e-6;
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const auto& c : constraints) {
    pairs.emplace_back(c.before, c.after);
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < i; ++j) {
      if (h(i, j) != 0) {
        pairs.emplace_back(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j));
      }
    }
  }
  const auto first = first_joined(f.size, pairs);
  for (std::size_t r = 0; r < f.size; ++r) {
    is_fixed.push_back(first[r] == r);
  }
  x = Eigen::VectorXd::Zero(n);
  slack = b.cwiseMax(1);
  prices = Eigen::VectorXd::Ones(m);
}

UNITY_INLINE Eigen::VectorXd interior_point::times(const Eigen::VectorXd& v) const {
  Eigen::VectorXd product{static_cast<Eigen::Index>(all->size())};
  for (Eigen::Index c = 0; c < product.size(); ++c) {
    const auto& one = (*all)[static_cast<std::size_t>(c)];
    product[c] = v[one.before] - v[one.after];
  }
  return product;
}

UNITY_INLINE Eigen::VectorXd interior_point::transposed_times(const Eigen::VectorXd& v) const {
  Eigen::VectorXd product = Eigen::VectorXd::Zero(h.rows());
  for (Eigen::Index c = 0; c < v.size(); ++c) {
    const auto& one = (*all)[static_cast<std::size_t>(c)];
    product[one.before] += v[c];
    product[one.after] -= v[c];
  }
  return product;
}

// Cholesky factors of H + A' diag(price / slack) A, without the fixed variables.
UNITY_INLINE Eigen::LLT<Eigen::MatrixXd> interior_point::factor() const {
  Eigen::MatrixXd k = h;
  for (Eigen::Index c = 0; c < slack.size(); ++c) {
    const auto& one = (*all)[static_cast<std::size_t>(c)];
    const auto weight = prices[c] / slack[c];
    k(one.before, one.before) += weight;
    k(one.after, one.after) += weight;
    k(one.before, one.after) -= weight;
    k(one.after, one.before) -= weight;
  }
  for (Eigen::Index r = 0; r < k.rows(); ++r) {
    if (is_fixed[static_cast<std::size_t>(r)]) {
      k.row(r).setZero();
      k.col(r).setZero();
      k(r, r) = 1;
    }
  }
  return Eigen::LLT<Eigen::MatrixXd>{k};
}

UNITY_INLINE interior_point::step interior_point::towards(const Eigen::LLT<Eigen::MatrixXd>& factor,
                                                          const Eigen::VectorXd& products) const {
  const Eigen::VectorXd broken = times(x) + slack - b;
  const Eigen::VectorXd known = (prices.cwiseProduct(broken) - products).cwiseQuotient(slack);
  Eigen::VectorXd right = -(h * x + g + transposed_times(prices)) - transposed_times(known);
  for (Eigen::Index r = 0; r < right.size(); ++r) {
    right[r] = is_fixed[static_cast<std::size_t>(r)] ? 0 : right[r];
  }
  step d;
  d.x = factor.solve(right);
  const Eigen::VectorXd moved = times(d.x);
  d.slack = -broken - moved;
  d.prices = known + prices.cwiseProduct(moved).cwiseQuotient(slack);
  return d;
}

// The longest step, at most 1, along which nothing becomes negative.
inline double longest(const Eigen::VectorXd& from, const Eigen::VectorXd& step) {
  double length = 1;
  for (Eigen::Index c = 0; c < from.size(); ++c) {
    length = step[c] < 0 ? std::min(length, -from[c] / step[c]) : length;
  }
  return length;
}

UNITY_INLINE void interior_point::solve() {
  const auto m = static_cast<double>(slack.size());
  {
    const auto d = towards(factor(), slack.cwiseProduct(prices));
    slack = (slack + d.slack).cwiseAbs().cwiseMax(1);
    prices = (prices + d.prices).cwiseAbs().cwiseMax(1);
  }
  constexpr double negligible = 1e-12;  // square microseconds
  for (int round = 0; round < 60; ++round) {
    const auto gap = slack.dot(prices) / m;
    const auto cholesky = factor();
    const Eigen::VectorXd products = slack.cwiseProduct(prices);
    const auto predicted = towards(cholesky, products);
    const auto length = std::min(longest(slack, predicted.slack), longest(prices, predicted.prices));
    const auto left = (slack + length * predicted.slack).dot(prices + length * predicted.prices) / m;
    const auto centre = std::pow(left / gap, 3) * gap;
    const auto d = towards(cholesky, products + predicted.slack.cwiseProduct(predicted.prices) -
                                         Eigen::VectorXd::Constant(slack.size(), centre));
    const auto taken = 0.995 * std::min(longest(slack, d.slack), longest(prices, d.prices));
    if (!d.x.allFinite() || !d.slack.allFinite() || !d.prices.allFinite()) {
      return;  // doubles have no more precision: weights have become too large
    }
    x += taken * d.x;
    slack += taken * d.slack;
    prices += taken * d.prices;
    if (gap < negligible && (taken * d.x).cwiseAbs().maxCoeff() < 1e-6) {
      return;
    }
  }
}

}  // namespace detail

UNITY_INLINE std::vector<double> least_offsets(const quadratic_function& f,
                                               const std::vector<difference_constraint>& all,
                                               const std::vector<double>& start) {
  detail::interior_point point{f, all, start};
  point.solve();
  auto found = start;
  for (std::size_t r = 0; r < found.size(); ++r) {
    found[r] += point.x[static_cast<Eigen::Index>(r)];
  }
  return found;
}

UNITY_INLINE clock_offsets align_clocks(const job_trace& job, const transactions& x) {
  auto offsets = stated_offsets(job);
  const alignment_problem problem{job, x};
  if (problem.constraints().empty()) {
    return offsets;
  }
  std::vector<double> at;
  for (const auto o : problem.feasible(clock_offsets(job.ranks.size()))) {
    at.push_back(static_cast<double>(o.count()) * 1e-6);
  }
  at = least_offsets(problem.objective(std::nullopt), problem.constraints(), at);
  for (int round = 0; round < 20; ++round) {
    const auto next = least_offsets(problem.objective(at), problem.constraints(), at);
    double moved = 0;
    for (std::size_t r = 0; r < at.size(); ++r) {
      moved = std::max(moved, std::abs(next[r] - at[r]));
    }
    at = next;
    if (moved < 0.1) {
      break;
    }
  }
  clock_offsets rounded;
  for (const auto o : at) {
    rounded.emplace_back(std::llround(o * 1e6));
  }
  rounded = problem.feasible(std::move(rounded));
  for (std::size_t r = 0; r < at.size(); ++r) {
    offsets[r] += rounded[r];
  }
  return offsets;
}

}  // namespace unity::trace

#endif
