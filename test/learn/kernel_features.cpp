#include <unity/learn/kernel_features.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/units.hpp>

#include "synthetic_kernels.hpp"

namespace tests_of_kernel_features {

using namespace unity;
using fusion::operator_class;
using learn::features_of;
using learn::part_features;

namespace {

// relu(x) and its sum along rows.
fusion::kernel_description relu_and_sum() {
  fusion::kernel_description k;
  k.parts.push_back({operator_class::elementwise, false, 1024, 4096, 4096, 4096, 0, picoseconds{3'000'000}});
  k.parts.push_back({operator_class::reduction, true, 1023, 4096, 64, 0, 64, picoseconds{1'000'000}});
  k.edges.emplace_back(0, 1);
  return k;
}

float column(const learn::kernel_features& f, std::size_t part, std::size_t c) {
  return f.rows.at(part * part_features + c);
}

}  // namespace

TEST_CASE("kernel features have the expected row for each part") {
  const auto f = features_of(relu_and_sum(), true);
  const auto l = [](double x) { return std::log1p(x); };
  const std::array<double, part_features> first{
      1, 0,       0, 0,    0,      0,    0,       0,       l(1024), l(4096), l(4096), l(4096), 0,
      0, l(4096), 0, l(1), l(3e6), l(2), l(2047), l(4096), l(64),   l(4096), l(4096), l(4e6)};
  const std::array<double, part_features> second{0,       0,       0,       1,     0,       0,       0,     1, l(1023),
                                                 l(4096), l(64),   0,       l(64), l(4096), 0,       l(1),  0, l(1e6),
                                                 l(2),    l(2047), l(4096), l(64), l(4096), l(4096), l(4e6)};
  REQUIRE(f.rows.size() == 2 * part_features);
  for (std::size_t c = 0; c < part_features; ++c) {
    INFO(learn::part_feature_names[c]);
    CHECK(column(f, 0, c) == Approx(first[c]));
    CHECK(column(f, 1, c) == Approx(second[c]));
  }
  CHECK(f.baseline == 4e6);
  CHECK(f.shares == std::vector<float>{0.75F, 0.25F});
}

TEST_CASE("kernel features do not use part durations when they are disabled") {
  auto k = relu_and_sum();
  const auto f = features_of(k, false);
  CHECK(f.baseline == learn::assumed_time(k.parts[0]) + learn::assumed_time(k.parts[1]));
  CHECK(f != features_of(k, true));
  k.parts[0].duration = picoseconds{7};
  CHECK(f == features_of(k, false));
}

TEST_CASE("kernel features assume a time for a part without a measured duration") {
  auto k = relu_and_sum();
  k.parts[1].duration = {};
  CHECK(features_of(k, true).baseline == 3e6 + learn::assumed_time(k.parts[1]));
}

TEST_CASE("attention sight covers operands or readers of each part and the part itself") {
  using pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  pairs operands;
  pairs readers;
  learn::for_each_seen(relu_and_sum(), learn::sight::operands, [&](auto i, auto j) { operands.emplace_back(i, j); });
  learn::for_each_seen(relu_and_sum(), learn::sight::readers, [&](auto i, auto j) { readers.emplace_back(i, j); });
  CHECK(operands == pairs{{1, 0}, {0, 0}, {1, 1}});
  CHECK(readers == pairs{{0, 1}, {0, 0}, {1, 1}});
}

TEST_CASE("scaled feature columns have mean 0 and variance 1 or are 0 if constant") {
  test::synthetic_kernels kernels{3};
  std::vector<learn::kernel_features> all;
  for (int i = 0; i < 200; ++i) {
    auto k = kernels.next().kernel;
    for (auto& p : k.parts) {
      p.is_folding = false;
    }
    all.push_back(features_of(k, true));
  }
  const auto scaling = learn::scaling_of(all);
  std::array<double, part_features> sums{};
  std::array<double, part_features> squares{};
  double count = 0;
  for (auto& f : all) {
    scaling.apply(f.rows);
    count += static_cast<double>(f.parts());
    for (std::size_t i = 0; i < f.rows.size(); ++i) {
      sums[i % part_features] += f.rows[i];
      squares[i % part_features] += double{f.rows[i]} * f.rows[i];
    }
  }
  for (std::size_t c = 0; c < part_features; ++c) {
    INFO(learn::part_feature_names[c]);
    const bool is_constant = learn::part_feature_names[c] == "folding";
    CHECK(sums[c] / count == Approx(0).margin(0.02));
    CHECK(squares[c] / count == Approx(is_constant ? 0 : 1).margin(0.05));
  }
}

TEST_CASE("the padded size is the smallest that holds a kernel") {
  CHECK(learn::padded_size(1) == 0U);
  CHECK(learn::padded_size(8) == 0U);
  CHECK(learn::padded_size(9) == 1U);
  CHECK(learn::padded_size(64) == 3U);
  CHECK_FALSE(learn::padded_size(65).has_value());
}

TEST_CASE("a large kernel is split into pieces that keep their inner edges") {
  fusion::kernel_description k;
  k.parts.resize(learn::most_parts + 2);
  k.edges = {{0, 1}, {63, 64}, {64, 65}};
  const auto pieces = learn::pieces_of(k);
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].parts.size() == learn::most_parts);
  CHECK(pieces[1].parts.size() == 2);
  CHECK(pieces[0].edges == std::vector<std::pair<std::uint16_t, std::uint16_t>>{{0, 1}});
  CHECK(pieces[1].edges == std::vector<std::pair<std::uint16_t, std::uint16_t>>{{0, 1}});
}

}  // namespace tests_of_kernel_features
