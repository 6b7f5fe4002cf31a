#include <unity/learn/adam_step.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../support/operators.hpp"

namespace tests_of_adam_step {

using namespace unity;
using unity::test::training::operators;

TEST_CASE("an Adam step decays the weights and moves them by the corrected moments") {
  constexpr std::size_t count = 37;
  random_engine random{11};
  const auto draw = [&] {
    std::vector<float> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(static_cast<float>(2 * random.unit() - 1));
    }
    return all;
  };
  const auto start = draw();
  auto s = learn::adam_start(start);
  CHECK(s == learn::adam_state{0, start, std::vector<float>(count), std::vector<float>(count)});
  learn::adam_step step{operators(), count};
  std::vector<double> weights(start.begin(), start.end());
  std::vector<double> first(count);
  std::vector<double> second(count);
  constexpr double decay = 0.4;
  for (std::uint64_t t = 1; t <= 5; ++t) {
    CAPTURE(t);
    const auto steps = static_cast<double>(t);
    const auto rate = 0.05 / steps;
    auto gradient = draw();
    gradient[3] = 0;
    step(s, gradient, rate, decay);
    CHECK(s.steps == t);
    REQUIRE(s.weights.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      const double g = gradient[i];
      first[i] = 0.9 * first[i] + 0.1 * g;
      second[i] = 0.999 * second[i] + 0.001 * g * g;
      const auto mean = first[i] / (1 - std::pow(0.9, steps));
      const auto square = second[i] / (1 - std::pow(0.999, steps));
      weights[i] = weights[i] * (1 - rate * decay) - rate * mean / (std::sqrt(square) + 1e-8);
      REQUIRE(std::abs(s.weights[i] - weights[i]) < 1e-5);
      REQUIRE(std::abs(s.first_moment[i] - first[i]) < 1e-6);
      REQUIRE(std::abs(s.second_moment[i] - second[i]) < 1e-8);
    }
  }
}

}  // namespace tests_of_adam_step
