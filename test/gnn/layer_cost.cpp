#include <unity/gnn/range_costs.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/cost/eigen_least_squares.hpp>
#include <unity/gnn/generators.hpp>
#include <unity/gnn/vertex_features.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"

namespace tests_of_layer_cost {

using namespace unity;
using gnn::vertex_features;
using gnn::vertex_id;

namespace {

const gnn::csr_graph& graph() {
  static const auto g = gnn::generate(gnn::rmat{12, 60000, 3}, {.both_directions = true, .self_edges = true});
  return g;
}

gnn::vertex_range drawn_range(random_engine& random, vertex_id vertices) {
  const auto a = static_cast<vertex_id>(random.below(vertices));
  const auto b = static_cast<vertex_id>(random.below(vertices));
  return {std::min(a, b), std::max(a, b) + 1};
}

}  // namespace

TEST_CASE("the layer cost learner recovers weights from noisy times") {
  const gnn::vertex_feature_sums sums{graph(), {64}};
  const gnn::layer_cost truth{{3e-9, 1e-9, 2e-9, 0, 5e-10}};
  random_engine random{5};
  gnn::layer_cost_learner learner;
  for (int i = 0; i < 200; ++i) {
    const auto x = sums.of(drawn_range(random, sums.vertices()));
    learner.observe(x, truth.seconds(x) * (1 + 0.02 * (random.unit() - 0.5)));
  }
  const auto learned = learner.snapshot();
  for (int i = 0; i < 200; ++i) {
    const auto x = sums.of(drawn_range(random, sums.vertices()));
    CHECK(std::abs(learned.seconds(x) - truth.seconds(x)) < 0.02 * truth.seconds(x) + 1e-7);
  }
  CHECK(learner.observations() == 200);
  CHECK(learned == learner.snapshot());
}

TEST_CASE("learned layer weights are nonnegative and locally optimal") {
  for (std::uint64_t seed = 0; seed < test::cases(50); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    std::vector<vertex_features> rows;
    std::vector<double> times;
    gnn::layer_cost_learner learner{1e-6};
    for (int i = 0; i < 8; ++i) {
      vertex_features x{};
      for (auto& f : x) {
        f = random.below(1000);
      }
      rows.push_back(x);
      times.push_back(random.unit() * 1e-3);
      learner.observe(rows.back(), times.back());
    }
    const auto found = learner.snapshot();
    // The loss to minimize, relative to the longest time.
    const auto longest = *std::max_element(times.begin(), times.end());
    const auto loss = [&](const gnn::layer_cost& c) {
      double sum = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        sum += std::pow((c.seconds(rows[r]) - times[r]) / longest, 2);
      }
      for (std::size_t i = 0; i < c.weights.size(); ++i) {
        std::uint64_t largest = 0;
        for (const auto& r : rows) {
          largest = std::max(largest, r[i]);
        }
        sum += 1e-6 * std::pow(c.weights[i] * static_cast<double>(largest) / longest, 2);
      }
      return sum;
    };
    const auto least = loss(found);
    for (std::size_t i = 0; i < found.weights.size(); ++i) {
      REQUIRE(found.weights[i] >= 0);
      for (const auto step : {-1e-8, 1e-8, -1e-10, 1e-10}) {
        auto other = found;
        other.weights[i] = std::max(0.0, other.weights[i] + step);
        REQUIRE(loss(other) >= least * (1 - 1e-9));
      }
    }
  }
}

TEST_CASE("the ridge of a layer cost weighs less the more observations there are") {
  for (const int observations : {1, 2, 10}) {
    gnn::layer_cost_learner learner{1};
    for (int i = 0; i < observations; ++i) {
      learner.observe({1, 0, 0, 0, 0}, 1);
    }
    CHECK(learner.snapshot().weights[0] == Approx(observations / (observations + 1.0)));
  }
}

TEST_CASE("layer costs are learned from times of any size") {
  for (const auto seconds : {1e-200, 1e-9, 1e300}) {
    gnn::layer_cost_learner learner;
    learner.observe({2, 0, 0, 0, 0}, seconds);
    CHECK(learner.snapshot().weights[0] / (seconds / 2) == Approx(1));
  }
}

// Reference: fits every subset of features to all observations, and returns the best.
gnn::layer_cost refit(const std::vector<vertex_features>& rows, const std::vector<double>& times, double ridge) {
  const auto longest = *std::max_element(times.begin(), times.end());
  gnn::layer_cost best;
  auto least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 32; ++set) {
    unity::least_squares fit{5, ridge};  // features outside the subset are 0, and get weight 0
    vertex_features largest{};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<double> x(5);
      for (std::size_t i = 0; i < 5; ++i) {
        x[i] = (set >> i & 1U) != 0 ? static_cast<double>(rows[r][i]) : 0;
        largest[i] = std::max(largest[i], rows[r][i]);
      }
      fit.observe(x, times[r] / longest);
    }
    gnn::layer_cost cost;
    double loss = 0;
    bool is_feasible = true;
    const auto found = fit.snapshot();
    for (std::size_t i = 0; i < 5; ++i) {
      const auto weight = found.coefficients()[i];
      is_feasible = is_feasible && weight >= 0;
      cost.weights[i] = weight * longest;
      loss += ridge * std::pow(weight * static_cast<double>(largest[i]), 2);
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      loss += std::pow((cost.seconds(rows[r]) - times[r]) / longest, 2);
    }
    if (is_feasible && loss < least) {
      least = loss;
      best = cost;
    }
  }
  return best;
}

// The learner's memory and time do not grow with the number of observations.
static_assert(std::is_trivially_copyable_v<gnn::layer_cost_learner>);

TEST_CASE("incremental layer cost learning matches a fit to all observations") {
  for (std::uint64_t seed = 0; seed < test::cases(20); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto is_dependent = seed % 2 == 0;  // dependent features, as with widths that are multiples of 32
    gnn::layer_cost_learner learner{1e-6};
    std::vector<vertex_features> rows;
    std::vector<double> times;
    for (std::size_t n = 1; n <= 40; ++n) {
      vertex_features x{};
      for (auto& f : x) {
        f = random.below(1'000'000);
      }
      x[4] = is_dependent ? 2 * x[1] : x[4];
      rows.push_back(x);
      times.push_back((1e-9 * static_cast<double>(x[0]) + 4e-9 * static_cast<double>(x[1])) *
                      (0.8 + 0.4 * random.unit()));
      learner.observe(x, times.back());
      if (n % 8 != 1) {
        continue;
      }
      CAPTURE(n);
      const auto learned = learner.snapshot();
      const auto expected = refit(rows, times, 1e-6);
      for (std::size_t i = 0; i < 5; ++i) {
        REQUIRE(learned.weights[i] * 1e6 == Approx(expected.weights[i] * 1e6).epsilon(1e-7).margin(1e-12));
      }
    }
  }
}

TEST_CASE("layer cost models are kept per layer and device with a default") {
  gnn::layer_cost_models models;
  CHECK(models.snapshot(0, 0) == gnn::unmeasured_layer);
  models.observe(1, 2, {10, 20, 5, 5, 10}, 1e-3);
  CHECK(models.snapshot(1, 0) == gnn::unmeasured_layer);
  CHECK(models.snapshot(1, 2).seconds({10, 20, 5, 5, 10}) == Approx(1e-3));
  models.observe(0, 0, {10, 20, 5, 5, 10}, 0);
  CHECK(models.snapshot(0, 0) == gnn::unmeasured_layer);
  CHECK(gnn::unmeasured_layer.seconds({10, 20, 5, 5, 10}) == Approx(30e-9));
}

TEST_CASE("the layer cost learner refuses invalid times and ridges") {
  gnn::layer_cost_learner learner;
  CHECK(test::message_of([&] { learner.observe({}, -1); }) ==
        "time of a layer: -1 s; expected a finite number that is not below 0");
  CHECK(test::message_of([&] { learner.observe({}, std::nan("")); }) ==
        "time of a layer: nan s; expected a finite number that is not below 0");
  CHECK(test::message_of([] { gnn::layer_cost_learner{-1}; }) ==
        "costs of layers: a ridge of -1; expected a finite number that is not below 0");
}

}  // namespace tests_of_layer_cost
