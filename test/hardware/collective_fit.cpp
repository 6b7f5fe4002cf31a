#include <unity/hardware/collective_fit.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>

namespace tests_of_collective_fit {

namespace {

using namespace unity;
using hardware::collective_sample;
using hardware::exchange;

constexpr double alpha = 3e-5;
constexpr double beta = 2e-11;

// The true time is a power of the number of ranks, so a line of collective_seconds through two group sizes predicts
// every other.
double truth(int ranks, std::int64_t size) { return (alpha + beta * static_cast<double>(size)) * std::pow(ranks, 0.5); }
std::vector<collective_sample> sampled(const std::vector<int>& groups) {
  std::vector<collective_sample> samples;
  for (const auto ranks : groups) {
    for (std::int64_t size = 0; size <= 60 << 20; size += 1 << 20) {
      samples.push_back({exchange::all_reduce, ranks, bytes{size}, truth(ranks, size)});
    }
  }
  return samples;
}

TEST_CASE("fit_collectives fits measured group sizes and predicts those between and beyond") {
  const auto links = hardware::fit_collectives(sampled({2, 8}));
  REQUIRE(links.size() == 2);
  CHECK((links[0].ranks == 2 && links[1].ranks == 8));
  for (const auto ranks : {2, 4, 5, 8, 16}) {
    for (const std::int64_t size : {0, 1 << 20, 7 << 20, 500 << 20}) {
      CHECK(hardware::collective_seconds(links, exchange::all_reduce, ranks, bytes{size}) ==
            Approx(truth(ranks, size)).epsilon(1e-9));
    }
  }
}

TEST_CASE("fit_collectives uses the only measured group size for all sizes") {
  const auto links = hardware::fit_collectives(sampled({4}));
  CHECK(hardware::collective_seconds(links, exchange::all_reduce, 2, bytes{1 << 20}) == Approx(truth(4, 1 << 20)));
  CHECK(hardware::collective_seconds(links, exchange::all_reduce, 8, bytes{1 << 20}) == Approx(truth(4, 1 << 20)));
}

TEST_CASE("the time of an unmeasured group size lies between those of its neighbours") {
  const auto links = hardware::fit_collectives(sampled({2, 3, 64}));
  const auto between = hardware::collective_seconds(links, exchange::all_reduce, 4, bytes{1 << 20});
  CHECK(between > truth(3, 1 << 20));
  CHECK(between < truth(64, 1 << 20));
}

TEST_CASE("unmeasured group sizes use the nearest group on either side or the nearest two of one side") {
  std::vector<hardware::link> groups;
  for (const auto& [ranks, seconds] :
       std::vector<std::pair<int, double>>{{2, 1}, {4, 2}, {8, 0}, {16, 32}}) {  // no power of the number of ranks
    auto& l = groups.emplace_back();
    l.ranks = ranks;
    const auto kind = ranks == 8 ? exchange::broadcast : exchange::all_reduce;
    l.costs[kind] = {{hardware::cost_range::no_end, ranks == 8 ? 7 : seconds, 0}};
  }
  const auto seconds = [&](exchange kind, int ranks) {
    return hardware::collective_seconds(groups, kind, ranks, bytes{100});
  };
  CHECK(seconds(exchange::all_reduce, 4) == 2);
  CHECK(seconds(exchange::all_reduce, 3) == Approx(1.5));   // 2 * (1 / 2)^log2(4 / 3)
  CHECK(seconds(exchange::all_reduce, 8) == Approx(8));     // halfway between 4 and 16 ranks, in logarithms
  CHECK(seconds(exchange::all_reduce, 32) == Approx(128));  // on the line through 4 and 16 ranks
  for (const int ranks : {2, 8, 100}) {
    CHECK(seconds(exchange::broadcast, ranks) == 7);
  }
  CHECK(hardware::measured_time(groups, exchange::all_reduce, 4, bytes{100}) == picoseconds{2'000'000'000'000});
  CHECK_FALSE(hardware::measured_time(groups, exchange::all_gather, 4, bytes{100}));
}

TEST_CASE("fit_collectives fits the median of the samples of each size") {
  std::vector<collective_sample> samples;
  for (const auto& s : sampled({4})) {
    const bool is_odd = (s.size.count() >> 20) % 2 != 0;
    for (const auto factor : is_odd ? std::vector{1.09, 1.02, 1.0} : std::vector{1.03, 1.01}) {
      samples.push_back(s);
      samples.back().seconds *= factor;
    }
  }
  const auto links = hardware::fit_collectives(samples);
  for (const std::int64_t size : {0, 1 << 20, 7 << 20, 500 << 20}) {
    CHECK(hardware::collective_seconds(links, exchange::all_reduce, 4, bytes{size}) ==
          Approx(1.02 * truth(4, size)).epsilon(1e-9));
  }
}

TEST_CASE("unpadded drops samples over ten percent slower than one of at least their size") {
  const std::uint64_t seed = 20261124;
  INFO("seed " << seed);
  auto random = random_engine{seed};
  for (int round = 0; round < 50; ++round) {
    std::vector<collective_sample> samples;
    for (std::size_t i = 0; i < 40; ++i) {
      const auto size = static_cast<std::int64_t>(random.below(12)) << 20;
      samples.push_back({random.below(2) == 0 ? exchange::all_gather : exchange::all_to_all,
                         random.below(2) == 0 ? 2 : 4, bytes{size},
                         truth(2, size) * (1 + 4e-4 * static_cast<double>(random.below(1000)))});
    }
    std::vector<collective_sample> expected;
    for (const auto& s : samples) {
      bool is_padded = false;
      for (const auto& other : samples) {
        is_padded = is_padded || (other.kind == s.kind && other.ranks == s.ranks && other.size >= s.size &&
                                  s.seconds > 1.1 * other.seconds);
      }
      if (!is_padded) {
        expected.push_back(s);
      }
    }
    CHECK(hardware::unpadded(samples) == expected);
  }
}

TEST_CASE("held-out errors of collective fits are those of samples that the fit did not see") {
  auto samples = sampled({2, 4, 8});
  const auto exact = hardware::held_out_errors(samples).at(exchange::all_reduce);
  for (const auto ranks : {2, 4, 8}) {
    CHECK(exact.at(ranks).sizes < 1e-9);
    CHECK(exact.at(ranks).group < 1e-9);
    CHECK((exact.at(ranks).samples == 61 && exact.at(ranks).padded == 0));
  }
  // Group 4 takes twice the time: predicted from the other groups it is off by half, while its held-out sizes are
  // exact.
  for (auto& s : samples) {
    s.seconds *= s.ranks == 4 ? 2 : 1;
  }
  const auto off = hardware::held_out_errors(samples).at(exchange::all_reduce);
  CHECK(off.at(4).sizes < 1e-9);
  CHECK(off.at(4).group == Approx(0.5));
  CHECK(hardware::held_out_errors(sampled({2})).at(exchange::all_reduce).at(2).group < 0);
}

TEST_CASE("held-out sizes of collective fits are every fifth one and were not fitted") {
  auto samples = sampled({2});
  for (std::size_t i = 2; i < samples.size(); i += 5) {
    samples[i].seconds *= 1.05;
  }
  const auto seen = hardware::held_out_errors(samples).at(exchange::all_reduce).at(2);
  CHECK(seen.sizes == Approx(1 - 1 / 1.05).epsilon(1e-6));
  CHECK(seen.sizes_all == Approx(1 - 1 / 1.05).epsilon(1e-6));
  CHECK(seen.padded == 0);

  // One held-out size takes three times as long as larger ones: callers pad it.
  samples = sampled({2});
  samples[7].seconds *= 3;
  const auto padded = hardware::held_out_errors(samples).at(exchange::all_reduce).at(2);
  CHECK(padded.samples == samples.size());
  CHECK(padded.padded == 1);
  CHECK(padded.sizes < 1e-9);
  CHECK(padded.sizes_all == Approx(2.0 / 3 / 12).epsilon(1e-6));  // 12 of 61 sizes are held out
}

}  // namespace

}  // namespace tests_of_collective_fit
