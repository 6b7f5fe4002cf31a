#include <unity/search/mcmc.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>

namespace tests_of_metropolis {

using namespace unity;

TEST_CASE("metropolis acceptance rates match the Metropolis-Hastings rule") {
  random_engine random{11};
  for (const auto& [change, log_ratio] :
       {std::pair<cost_value, double>{0, 0}, {-500, 0}, {100, 0}, {300, 0}, {300, 1.5}, {-100, -2}, {0, -0.7}}) {
    CAPTURE(change, log_ratio);
    detail::metropolis rule{5, 1000};
    int taken = 0;
    constexpr int draws = 40'000;
    for (int i = 0; i < draws; ++i) {
      rule.draw(random);
      taken += rule.takes(1000, 1000 + change, log_ratio) ? 1 : 0;
    }
    const auto expected = std::min(1.0, std::exp(-5e-3 * static_cast<double>(change) + log_ratio));
    CHECK(taken / static_cast<double>(draws) == Approx(expected).margin(0.012));
  }
}

TEST_CASE("metropolis accepts no cost above its bound and the bound is nearly tight") {
  random_engine random{12};
  const auto slack = static_cast<cost_value>(std::ceil(1000 * std::log(2) / 5)) + 2;
  for (int i = 0; i < 20'000; ++i) {
    detail::metropolis rule{5, 1000};
    rule.draw(random);
    const auto log_ratio = 4 * random.unit() - 2;
    const auto here = random.between(-1000, 1000);
    const auto bound = rule.bound(here, log_ratio);
    REQUIRE(bound);
    REQUIRE_FALSE(rule.takes(here, *bound + 1, log_ratio));
    REQUIRE(rule.takes(here, *bound - slack, log_ratio));
  }
}

TEST_CASE("metropolis with beta 0 accepts symmetric proposals of any cost") {
  random_engine random{13};
  detail::metropolis rule{0, 1000};
  for (int i = 0; i < 100; ++i) {
    rule.draw(random);
    CHECK(rule.bound(5, 0) == std::numeric_limits<cost_value>::max());
    CHECK(rule.takes(5, std::numeric_limits<cost_value>::max(), 0));
  }
}

TEST_CASE("metropolis rescales when the best cost falls below a sixteenth of the start") {
  random_engine random{14};
  detail::metropolis near{200, 16'000};
  detail::metropolis far{200, 16'000};
  near.found(1000);  // exactly a sixteenth, not below it
  far.found(999);
  int as_before = 0;
  int stricter = 0;
  for (int i = 0; i < 1000; ++i) {
    auto same = random;
    near.draw(random);
    far.draw(same);
    as_before += near.takes(999, 1029, 0) ? 1 : 0;
    stricter += far.takes(999, 1029, 0) ? 1 : 0;
  }
  CHECK(as_before > 500);
  CHECK(stricter < 20);
}

}  // namespace tests_of_metropolis
