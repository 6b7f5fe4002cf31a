#include <unity/hardware/collective_fit.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/machine.hpp>

namespace tests_of_link {

namespace {

using namespace unity;
using hardware::cost_range;
using hardware::exchange_sample;

std::vector<exchange_sample> sampled(const std::vector<cost_range>& truth) {
  std::vector<exchange_sample> samples;
  for (std::int64_t size = 4; size <= std::int64_t{1} << 26U; size *= 2) {
    samples.push_back({bytes{size}, hardware::exchange_seconds(truth, bytes{size})});
  }
  return samples;
}
double squares(const std::vector<cost_range>& ranges, const std::vector<exchange_sample>& samples) {
  double sum = 0;
  for (const auto& s : samples) {
    const auto relative = hardware::exchange_seconds(ranges, s.size) / s.seconds - 1;
    sum += relative * relative;
  }
  return sum;
}

TEST_CASE("exchange_seconds uses the range of the size including its end") {
  const std::vector<cost_range> ranges{{bytes{100}, 1, 0.5}, {bytes{200}, 2, 0.25}, {cost_range::no_end, 0, 1}};
  CHECK(hardware::exchange_seconds(ranges, bytes{0}) == 1);
  CHECK(hardware::exchange_seconds(ranges, bytes{100}) == 51);
  CHECK(hardware::exchange_seconds(ranges, bytes{104}) == 28);
  CHECK(hardware::exchange_seconds(ranges, bytes{200}) == 52);
  CHECK(hardware::exchange_seconds(ranges, bytes{201}) == 201);
}

TEST_CASE("fit_ranges finds the latency and bandwidth of one line in one range") {
  const auto fitted = hardware::fit_ranges(sampled({{cost_range::no_end, 5e-6, 1e-10}}));
  REQUIRE(fitted.size() == 1);
  CHECK(fitted[0].up_to == cost_range::no_end);
  CHECK(fitted[0].alpha == Approx(5e-6));
  CHECK(fitted[0].beta == Approx(1e-10));
}

TEST_CASE("fit_ranges finds several lines and the sizes where they part") {
  const std::vector<cost_range> truth{
      {bytes{1024}, 2e-6, 5e-10}, {bytes{1 << 18}, 8e-6, 2e-10}, {cost_range::no_end, 5e-5, 1e-10}};
  const auto fitted = hardware::fit_ranges(sampled(truth));
  REQUIRE(fitted.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(fitted[i].up_to == truth[i].up_to);
    CHECK(fitted[i].alpha == Approx(truth[i].alpha));
    CHECK(fitted[i].beta == Approx(truth[i].beta));
  }
}

TEST_CASE("fit_ranges has no negative coefficient and the least squares in one range") {
  const auto seed = GENERATE(range(1U, 30U));
  CAPTURE(seed);
  random_engine random{seed};
  std::vector<exchange_sample> samples;
  for (std::int64_t size = 8; size <= 1 << 20; size *= 4) {
    samples.push_back({bytes{size}, static_cast<double>(random.between(1, 1000)) * 1e-6});
  }
  const auto fitted = hardware::fit_ranges(samples, 1);
  REQUIRE(fitted.size() == 1);
  CHECK(fitted[0].alpha >= 0);
  CHECK(fitted[0].beta >= 0);
  const auto best = squares(fitted, samples);
  for (int i = 0; i < 200; ++i) {
    const auto scaled = [&](double x, double unit) { return std::max(0.0, x + unit * (2 * random.unit() - 1)); };
    const auto unit = std::pow(10.0, -static_cast<double>(random.between(0, 6)));
    const std::vector<cost_range> other{
        {cost_range::no_end, scaled(fitted[0].alpha, 1e-4 * unit), scaled(fitted[0].beta, 1e-9 * unit)}};
    REQUIRE(squares(other, samples) >= best * (1 - 1e-9));
  }
}

TEST_CASE("fit_ranges with more ranges fits no worse and keeps three samples per ascending range") {
  const auto seed = GENERATE(range(1U, 30U));
  CAPTURE(seed);
  random_engine random{seed};
  std::vector<exchange_sample> samples;
  for (std::int64_t size = 4; size <= 1 << 22; size *= 2) {
    const auto disturbed = 1 + 0.3 * random.unit();
    samples.push_back({bytes{size}, disturbed * (1e-6 * static_cast<double>(random.between(1, 5)) +
                                                 1e-9 * static_cast<double>(size))});
  }
  auto before = std::numeric_limits<double>::infinity();
  for (std::size_t most = 1; most <= 4; ++most) {
    const auto fitted = hardware::fit_ranges(samples, most);
    REQUIRE(fitted.size() <= most);
    CHECK(squares(fitted, samples) <= before * (1 + 1e-9));
    before = squares(fitted, samples);
    CHECK(fitted.back().up_to == cost_range::no_end);
    bytes begin;
    for (const auto& r : fitted) {
      CHECK(r.up_to > begin);
      CHECK(std::count_if(samples.begin(), samples.end(),
                          [&](const auto& s) { return s.size > begin && s.size <= r.up_to; }) >= 3);
      begin = r.up_to;
    }
  }
}

// The least sum of squares of the first `end` samples in exactly that many ranges of three samples or more, over all
// boundaries.
double least_squares(const std::vector<exchange_sample>& samples, std::size_t end, std::size_t ranges) {
  const auto alone = [&](std::size_t begin) {
    const std::vector<exchange_sample> part(samples.begin() + static_cast<std::ptrdiff_t>(begin),
                                            samples.begin() + static_cast<std::ptrdiff_t>(end));
    return squares(hardware::fit_ranges(part, 1), part);
  };
  if (ranges == 1) {
    return alone(0);
  }
  auto least = std::numeric_limits<double>::infinity();
  for (auto begin = 3 * (ranges - 1); begin + 3 <= end; ++begin) {
    least = std::min(least, least_squares(samples, begin, ranges - 1) + alone(begin));
  }
  return least;
}

TEST_CASE("fit_ranges has the least squares over all boundaries and another range only for a tenth less") {
  const std::vector<std::vector<cost_range>> truths{
      {{cost_range::no_end, 5e-6, 1e-10}},
      {{bytes{512}, 2e-6, 5e-9}, {cost_range::no_end, 2e-5, 1e-10}},
      {{bytes{64}, 2e-6, 5e-9}, {bytes{1024}, 8e-6, 2e-9}, {cost_range::no_end, 4e-5, 1e-10}}};
  std::vector<std::size_t> chosen_ranges(4);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const bool is_disturbed = seed % 4 == 3;
    const auto& truth = truths[is_disturbed ? random.below(3) : seed % 4];
    std::vector<exchange_sample> samples;
    for (std::int64_t size = 8; size <= 1 << 16; size *= 2) {
      samples.push_back({bytes{size}, hardware::exchange_seconds(truth, bytes{size}) *
                                          (is_disturbed ? 1 + 0.3 * random.unit() : 1)});
    }
    constexpr double rounding = 1e-18;
    std::vector<double> least{0};  // by number of ranges
    std::size_t chosen = 1;
    for (std::size_t ranges = 1; ranges <= 3; ++ranges) {
      least.push_back(least_squares(samples, samples.size(), ranges));
      chosen = ranges > 1 && least[ranges] + rounding < 0.9 * least[chosen] ? ranges : chosen;
    }
    const auto fitted = hardware::fit_ranges(samples, 3);
    REQUIRE(fitted.size() == chosen);
    CHECK(squares(fitted, samples) == Approx(least[chosen]).margin(rounding));
    ++chosen_ranges[chosen];
  }
  // The undisturbed samples alone give each number of ranges ten times.
  for (std::size_t ranges = 1; ranges <= 3; ++ranges) {
    CHECK(chosen_ranges[ranges] >= 10);
  }
}

TEST_CASE("fit_ranges of one sample reproduces its time") {
  const std::vector<exchange_sample> one{{bytes{64}, 3e-6}};
  const auto fitted = hardware::fit_ranges(one);
  REQUIRE(fitted.size() == 1);
  CHECK(hardware::exchange_seconds(fitted, bytes{64}) == Approx(3e-6));
}

TEST_CASE("fit_interval has four of five samples between its ends", "[law]") {
  const auto seed = GENERATE(range(1U, 20U));
  CAPTURE(seed);
  random_engine random{seed};
  const std::vector<cost_range> ranges{{bytes{1000}, 2e-6, 5e-10}, {cost_range::no_end, 8e-6, 2e-10}};
  std::vector<exchange_sample> samples;
  std::vector<double> ratios;
  for (auto n = random.between(1, 300); n > 0; --n) {
    const bytes size{random.between(0, 100'000)};
    samples.push_back({size, hardware::exchange_seconds(ranges, size) * (0.5 + 1.5 * random.unit())});
    ratios.push_back(samples.back().seconds / hardware::exchange_seconds(ranges, size));
  }
  std::sort(ratios.begin(), ratios.end());
  const auto i = hardware::fit_interval(ranges, samples);
  CHECK(i.low <= 1);
  CHECK(i.high >= 1);
  const auto outside = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
    return ratio < i.low * (1 - 1e-9) || ratio > i.high * (1 + 1e-9);
  });
  CHECK(5 * outside <= std::ssize(samples) + 8);
  // The ends are no further out than the samples next to the 10th and the 90th percentile.
  const auto last = ratios.size() - 1;
  CHECK(i.low >= std::min(1.0, ratios[last / 10]) * (1 - 1e-9));
  CHECK(i.low <= std::min(1.0, ratios[std::min(last / 10 + 1, last)]) * (1 + 1e-9));
  CHECK(i.high >= std::max(1.0, ratios[9 * last / 10]) * (1 - 1e-9));
  CHECK(i.high <= std::max(1.0, ratios[std::min(9 * last / 10 + 1, last)]) * (1 + 1e-9));
}

TEST_CASE("fit_interval of one sample ends there or at the widest interval") {
  const std::vector<cost_range> ranges{{cost_range::no_end, 2e-6, 5e-10}};  // 2.005e-6 s for 10 bytes
  const auto around = [&](double seconds) {
    return hardware::fit_interval(ranges, std::vector<exchange_sample>{{bytes{10}, seconds}});
  };
  CHECK(around(2.005e-6).low == Approx(1));
  CHECK(around(2.005e-6).high == Approx(1));
  CHECK(around(4.01e-6).low == 1);
  CHECK(around(4.01e-6).high == Approx(2));
  CHECK(around(0.5 * 2.005e-6).low == Approx(0.5));
  CHECK(around(0.5 * 2.005e-6).high == 1);
  CHECK(around(1).high == hardware::widest_interval);
  CHECK(around(1e-12).low == 1 / hardware::widest_interval);
}

TEST_CASE("machine_at scales measured exchanges and cables to an end of their intervals") {
  using hardware::exchange;
  const auto with = [](std::map<exchange, hardware::cost_interval> intervals) {
    hardware::machine m{"pair", {{}}, {}, {}};
    m.devices[0].name = "toy";
    m.devices[0].bytes_per_second = 1e9;
    m.devices[0].memory = bytes{4'000'000};
    m.links.push_back({"local",
                       2,
                       {{exchange::all_reduce, {{bytes{100}, 1e-6, 1e-8}, {cost_range::no_end, 2e-6, 1e-7}}},
                        {exchange::message, {{cost_range::no_end, 4e-6, 1e-8}}}},
                       std::move(intervals)});
    return hardware::with_topology(std::move(m), "test");
  };
  const auto m = with({{exchange::all_reduce, {0.5, 2}}, {exchange::message, {0.8, 1.25}}});
  REQUIRE(m.network.cables().size() == 2);
  CHECK(m.network.cables()[0].bytes_per_second == 10'000'000);
  const auto slow = hardware::machine_at(m, &hardware::cost_interval::high);
  CHECK(slow.network.cables()[1].bytes_per_second == 5'000'000);
  CHECK(slow.network.cables()[1].latency == 5 * m.network.cables()[1].latency / 4);
  CHECK(slow.links[0].costs.at(exchange::all_reduce)[1].beta == Approx(2e-7));
  CHECK(slow.links[0].costs.at(exchange::all_reduce)[0].alpha == Approx(2e-6));
  CHECK(slow.links[0].costs.at(exchange::message)[0].alpha == Approx(5e-6));
  const auto fast = hardware::machine_at(m, &hardware::cost_interval::low);
  CHECK(fast.network.cables()[0].bytes_per_second == 20'000'000);
  CHECK(fast.links[0].costs.at(exchange::message)[0].beta == Approx(0.8e-8));
  auto stated = m;  // as from a data sheet
  stated.network = hardware::topology{{{"a", 0, 0}, {"b", 0, 1}},
                                      {},
                                      {{hardware::vertex_id{0U}, hardware::vertex_id{1U}, 25'000'000, picoseconds{7}}}};
  CHECK(hardware::machine_at(stated, &hardware::cost_interval::high).network == stated.network);
  const auto unknown = with({});
  CHECK(hardware::machine_at(unknown, &hardware::cost_interval::high) == unknown);
}

}  // namespace

}  // namespace tests_of_link
