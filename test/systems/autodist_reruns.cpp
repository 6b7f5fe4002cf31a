#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/systems/autodist/reruns.hpp>

namespace tests_of_autodist_reruns {

namespace {

using namespace unity;

std::vector<picoseconds> times_of(const std::vector<double>& milliseconds) {
  std::vector<picoseconds> all;
  for (const auto t : milliseconds) {
    all.push_back(from_seconds(t / 1e3));
  }
  return all;
}

// Candidates whose measured times deviate from the true ones by up to `noise` (three standard deviations).
struct noisy_ways {
  noisy_ways(std::size_t rules, std::size_t others, double least_of_others, std::uint64_t seed) : random{seed} {
    for (std::size_t i = 0; i < rules + others; ++i) {
      truly.push_back((i < rules ? 1.0 : least_of_others) + 0.5 * random.unit());
    }
  }
  picoseconds run(std::size_t i) {
    const auto bell = 2 * (random.unit() + random.unit() + random.unit()) / 3 - 1;
    return from_seconds(truly[i] * (1 + noise * bell));
  }

  static constexpr double noise = 0.15;
  random_engine random;
  std::vector<double> truly{};
};

}  // namespace

TEST_CASE("rerunning noisy candidates finds truly faster ones than the fastest first run", "[law]") {
  constexpr std::size_t rules = 11;
  constexpr int count = 1000;
  for (const double least : {0.9, 1.0, 1.05}) {  // true times of trials relative to rules: faster, equal, slower
    CAPTURE(least);
    int lucky_right = 0;
    int right = 0;
    double lucky_loss = 0;  // over the fastest candidate
    double loss = 0;
    int lucky_far = 0;  // slower than the fastest rule by more than a run's deviation
    int far = 0;
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
      CAPTURE(seed);
      noisy_ways ways{rules, 24, least, seed};
      std::vector<picoseconds> first;
      for (std::size_t i = 0; i < ways.truly.size(); ++i) {
        first.push_back(ways.run(i));
      }
      const auto found = systems::run_again(first, rules, [&](std::size_t i) { return ways.run(i); });
      const auto lucky = static_cast<std::size_t>(std::min_element(first.begin(), first.end()) - first.begin());
      const auto fastest = *std::min_element(ways.truly.begin(), ways.truly.end());
      const auto rule = *std::min_element(ways.truly.begin(), ways.truly.begin() + rules);
      lucky_right += ways.truly[lucky] <= fastest ? 1 : 0;
      right += ways.truly[found.best] <= fastest ? 1 : 0;
      lucky_loss += ways.truly[lucky] / fastest - 1;
      loss += ways.truly[found.best] / fastest - 1;
      lucky_far += ways.truly[lucky] > (1 + noisy_ways::noise / 3) * rule ? 1 : 0;
      far += ways.truly[found.best] > (1 + noisy_ways::noise / 3) * rule ? 1 : 0;
      // Holds for any noise: each median is within it.
      CHECK(ways.truly[found.best] <= rule * (1 + noisy_ways::noise) / (1 - noisy_ways::noise) * 1.000001);
    }
    CHECK(10 * right > 13 * lucky_right);
    CHECK(2 * loss < lucky_loss);
    CHECK(2 * far <= lucky_far);
    CHECK(20 * far <= count);
  }
}

TEST_CASE("the three fastest rules and the three fastest others are rerun in turns") {
  // The first five are rules.
  const auto first = times_of({5, 3, 9, 4, 8, 7, 1, 6, 2});
  std::vector<std::size_t> runs;
  const auto found = systems::run_again(first, 5,
                                        [&](std::size_t i) {
                                          runs.push_back(i);
                                          return picoseconds{static_cast<std::int64_t>(100 + i)};
                                        },
                                        {.rounds = 2});
  CHECK(runs == std::vector<std::size_t>{1, 3, 0, 6, 8, 7, 1, 3, 0, 6, 8, 7});
  CHECK(found.best == 0);  // first measurements, of which candidate 6 was the fastest, do not count
  for (std::size_t i = 0; i < first.size(); ++i) {
    CAPTURE(i);
    const bool is_finalist = std::find(runs.begin(), runs.end(), i) != runs.end();
    REQUIRE(found.again[i].has_value() == is_finalist);
    if (is_finalist) {
      CHECK(found.again[i]->median == picoseconds{static_cast<std::int64_t>(100 + i)});
      CHECK(found.again[i]->repetitions == 2);
    }
  }
}

TEST_CASE("a slowing machine and one disturbed run do not change the best candidate") {
  const std::vector<double> truly{1.0, 1.1, 0.97, 1.05};
  double slower = 1;
  std::size_t runs = 0;
  const auto found = systems::run_again(times_of(truly), 2, [&](std::size_t i) {
    slower *= 1.001;
    return from_seconds(truly[i] * slower * (runs++ == 2 ? 9 : 1));
  });
  CHECK(runs == 20);
  CHECK(found.best == 2);
}

TEST_CASE("a rule wins unless another candidate is over half a percent faster") {
  for (const double other : {0.9960, 0.9940}) {
    const std::vector<double> truly{1.0, other};
    const auto found = systems::run_again(times_of(truly), 1, [&](std::size_t i) { return from_seconds(truly[i]); });
    CHECK(found.best == (other > 0.995 ? 0 : 1));
  }
}

TEST_CASE("a candidate without competitors is not rerun") {
  const auto never = [](std::size_t) -> picoseconds {
    FAIL("a run");
    return {};
  };
  CHECK(systems::run_again(times_of({3}), 1, never).best == 0);
  CHECK(systems::run_again(times_of({3, 2, 1.9, 5}), 2, never, {.rounds = 0}).best == 2);
  CHECK(systems::run_again(times_of({3}), 0, never).best == 0);
}

}  // namespace tests_of_autodist_reruns
