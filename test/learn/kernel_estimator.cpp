#include <unity/learn/kernel_features.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/estimator_report.hpp>

#include "../support/message_of.hpp"
#include "synthetic_kernels.hpp"

namespace tests_of_kernel_estimator {

using namespace unity;
using fusion::kernel_description;
using fusion::operator_class;
using learn::kernel_estimator;

static_assert(kernel_estimator<learn::sum_of_parts>);
static_assert(kernel_estimator<learn::linear_estimator>);
static_assert(kernel_estimator<learn::attention_estimator>);
static_assert(kernel_estimator<learn::kernel_time>);

namespace {

struct archetype {
  picoseconds operator()(const kernel_description&) const { return picoseconds{1}; }
};
struct estimates_seconds {
  double operator()(const kernel_description&) const { return 1; }
};
struct changes_as_it_estimates {
  picoseconds operator()(const kernel_description&) { return picoseconds{1}; }
};

static_assert(kernel_estimator<archetype>);
static_assert(!kernel_estimator<estimates_seconds>);
static_assert(!kernel_estimator<changes_as_it_estimates>);

// A kernel whose time is linear: a launch plus a cost per flop and byte that depends on the class.
learn::kernel_sample linear_sample(random_engine& random) {
  learn::kernel_sample s{"net", {}, {}};
  double time = 3e6;
  for (auto parts = 1 + random.below(6); parts > 0; --parts) {
    fusion::kernel_part p;
    p.kind = static_cast<operator_class>(random.below(fusion::operator_class_names.size()));
    p.flops = static_cast<double>(random.below(1'000'000));
    p.reads = static_cast<double>(random.below(1'000'000));
    p.writes = static_cast<double>(random.below(1'000'000));
    p.reads_outside = random.below(2) == 0 ? p.reads : 0;
    p.writes_outside = random.below(2) == 0 ? p.writes : 0;
    const auto c = 1 + static_cast<double>(p.kind);
    const auto outside = p.reads_outside + p.writes_outside;
    time += 2e5 * c + p.flops / c + 30 * outside + 2 * c * (p.reads + p.writes - outside);
    s.kernel.parts.push_back(p);
  }
  s.time = picoseconds{std::llround(time)};
  return s;
}

}  // namespace

TEST_CASE("the sum-of-parts estimate adds measured durations and assumed times") {
  kernel_description k;
  k.parts.resize(2);
  k.parts[0].duration = picoseconds{5'000'000};
  k.parts[1].flops = 1000;
  CHECK(learn::sum_of_parts{}(k) == picoseconds{5'000'000 + 1'020'000});
}

TEST_CASE("estimates are rounded to at least 1 ps including NaN and infinity") {
  CHECK(learn::whole_picoseconds(2.5) == picoseconds{3});
  CHECK(learn::whole_picoseconds(-7) == picoseconds{1});
  CHECK(learn::whole_picoseconds(std::numeric_limits<double>::quiet_NaN()) == picoseconds{1});
  CHECK(learn::whole_picoseconds(std::numeric_limits<double>::infinity()) == picoseconds{1'000'000'000'000'000'000});
}

TEST_CASE("the linear estimator learns linear kernel times to rounding") {
  random_engine random{5};
  std::vector<learn::kernel_sample> samples;
  for (int i = 0; i < 500; ++i) {
    samples.push_back(linear_sample(random));
  }
  const learn::linear_estimator e{samples};
  for (int i = 0; i < 50; ++i) {
    const auto s = linear_sample(random);
    CHECK(static_cast<double>(e(s.kernel).count()) == Approx(static_cast<double>(s.time.count())).epsilon(1e-5));
  }
}

TEST_CASE("a fused trace chain is estimated as a kernel and at most as the sum of its parts") {
  kernel_description seen;
  const auto parts = [](trace::name_id name) {
    fusion::kernel_part p;
    p.reads = p.reads_outside = name == trace::name_id{std::size_t{0}} ? 100 : 150;
    p.writes = p.writes_outside = 80;
    return p;
  };
  const auto time = learn::fusion_time_of(
      [&](const kernel_description& k) {
        seen = k;
        return picoseconds{70};
      },
      parts);
  const trace::name_id first{std::size_t{0}};
  const trace::name_id second{std::size_t{1}};
  CHECK(time(std::array<trace::fused_part, 2>{{{first, picoseconds{60}}, {second, picoseconds{40}}}}) ==
        picoseconds{70});
  REQUIRE(seen.parts.size() == 2);
  CHECK(seen.edges == std::vector<std::pair<std::uint16_t, std::uint16_t>>{{0, 1}});
  CHECK(seen.parts[0].reads_outside == 100);
  CHECK(seen.parts[0].writes_outside == 0);
  CHECK(seen.parts[0].duration == picoseconds{60});
  CHECK(seen.parts[1].reads_outside == 70);
  CHECK(seen.parts[1].writes_outside == 80);
  CHECK(time(std::array<trace::fused_part, 2>{{{first, picoseconds{30}}, {second, picoseconds{20}}}}) ==
        picoseconds{50});  // at most the sum of the parts
  CHECK(time(std::array<trace::fused_part, 1>{{{first, picoseconds{30}}}}) == picoseconds{30});
}

TEST_CASE("a kernel above the part limit is estimated as the sum of its pieces") {
  random_engine random{9};
  learn::attention_estimator e;
  e.shape = {8, 2, 1};
  e.scaling.scales.fill(0.1F);
  for (auto i = learn::weight_count(e.shape); i > 0; --i) {
    e.weights.push_back(static_cast<float>(0.2 * random.unit() - 0.1));
  }
  kernel_description k;
  for (std::size_t i = 0; i < learn::most_parts + 3; ++i) {
    auto& p = k.parts.emplace_back();
    p.kind = static_cast<operator_class>(i % fusion::operator_class_names.size());
    p.flops = static_cast<double>(random.below(1'000'000));
    p.reads = p.reads_outside = static_cast<double>(random.below(1'000'000));
    p.writes = static_cast<double>(random.below(1'000'000));
    p.duration = picoseconds{1'000'000 + static_cast<std::int64_t>(random.below(1'000'000))};
  }
  constexpr auto limit = static_cast<std::uint16_t>(learn::most_parts);
  k.edges = {{0, 1}, {limit - 1, limit}, {limit, limit + 1}};
  const auto parts_from = [&](std::size_t from, std::size_t count) {
    kernel_description piece;
    for (std::size_t i = from; i < from + count; ++i) {
      piece.parts.push_back(k.parts[i]);
    }
    piece.edges = {{0, 1}};
    return piece;
  };
  const auto first = parts_from(0, limit);
  const auto last = parts_from(limit, 3);
  CHECK(e(first) > picoseconds{1});
  CHECK(e(last) > picoseconds{1});
  CHECK(e(k) == e(first) + e(last));
  auto apart = first;
  apart.edges.clear();
  CHECK(e(apart) != e(first));
  // The whole at once has another estimate.
  auto f = learn::features_of(k, e.own_times);
  e.scaling.apply(f.rows);
  const auto whole = f.baseline * std::exp(double{learn::attention_forward(e.shape, e.weights, k, f)});
  CHECK(learn::whole_picoseconds(whole) != e(k));
}

TEST_CASE("estimator accuracy reports quantiles and shares of relative errors") {
  std::vector<learn::kernel_sample> samples;
  for (std::int64_t i = 1; i <= 20; ++i) {
    kernel_description k;
    k.parts.resize(1);
    k.parts[0].duration = picoseconds{1000 + 10 * i};
    samples.push_back({"net", k, picoseconds{1000}});
  }
  const auto r = learn::accuracy_of(learn::sum_of_parts{}, samples);
  CHECK(r.samples == 20);
  CHECK(r.median == Approx(0.10));
  CHECK(r.p90 == Approx(0.18));
  CHECK(r.within_14 == Approx(0.7));
  CHECK(r.within_20 == Approx(1));
  CHECK(learn::accuracy_of(learn::sum_of_parts{}, {}) == learn::accuracy{});
}

TEST_CASE("the test samples are a tenth of the kernels or one network") {
  auto samples = test::synthetic_kernels{8}.next(2000);
  for (std::size_t i = 0; i < 1000; ++i) {
    samples[i] = samples[i + 1000];
  }
  const auto d = learn::divide_samples(samples, "", 3);
  CHECK(d.tested.size() + d.learned.size() == 2000);
  CHECK(d.tested.size() > 140);
  CHECK(d.tested.size() < 260);
  for (const auto& t : d.tested) {
    CHECK(std::find(d.learned.begin(), d.learned.end(), t) == d.learned.end());
  }
  const auto held = learn::divide_samples(samples, "net3", 3);
  CHECK(learn::by_network(held.tested).size() == 1);
  CHECK(learn::by_network(held.learned).size() == 7);
  CHECK(held.tested.front().network == "net3");
  CHECK(test::message_of([&] { static_cast<void>(learn::divide_samples(samples, "resnet", 3)); }) ==
        "holdout: 0 of 2000 samples are of network \"resnet\"; expected some, and others to learn from");
}

}  // namespace tests_of_kernel_estimator
