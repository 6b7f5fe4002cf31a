// Fits the coefficients of kernel_model.hpp to measured kernels. Needs unity::eigen.
#pragma once

#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/hardware/kernel_model.hpp>

namespace unity::hardware {

// What `calibrate` would measure, from samples of one device. bytes_per_second comes from large sums of two tensors
// (`sums`), launch_seconds from the smallest calls in `calls` (samples of one operator), and rates from the large
// products in `calls`, or from `products` if `calls` are not products or run on tensor cores; without products, rates
// do not change.
// Preconditions: `sums` and `calls` are not empty, and sums have several sizes.
// Throws: unity::error if sums do not take longer where they are larger.
[[nodiscard]] kernel_device measured_device(kernel_device known, std::span<const kernel_sample> sums,
                                            std::span<const kernel_sample> calls,
                                            std::span<const kernel_sample> products);

struct placed_sample {
  kernel_shape shape{};
  kernel_device device{};
  double seconds = 0;  // of the call
};

// Coefficients before any measurement; the fit stays near them where samples say nothing.
[[nodiscard]] std::vector<double> usual_coefficients(kernel_kind kind);

// The coefficients that minimize the errors of the logarithm of call_seconds, with less weight on outliers:
// Gauss-Newton over logarithms of coefficients, with step halving. Deterministic. Complexity: 30 times the coefficients
// times the samples.
// Preconditions: samples of `kind` with positive seconds.
// Source: Huber, Robust Statistics, 1981, for iterated weights.
[[nodiscard]] std::vector<double> fit_kernel_coefficients(kernel_kind kind, std::span<const placed_sample> samples);

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_KERNEL_FIT)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/cost/eigen_least_squares.hpp>

namespace unity::hardware::detail {

[[nodiscard]] inline double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// The median time of the smallest calls: this share of all, at least three.
template <class Size>
[[nodiscard]] double smallest_call(std::span<const kernel_sample> calls, double share, const Size& size) {
  std::vector<std::pair<double, double>> all;
  for (const auto& s : calls) {
    all.emplace_back(size(s), s.call_seconds);
  }
  std::sort(all.begin(), all.end());
  const auto count = std::max<std::size_t>(3, static_cast<std::size_t>(share * static_cast<double>(all.size())));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i) {
    seconds.push_back(all[i].second);
  }
  return quantile_of(std::move(seconds), 0.5);
}

// The slope of time over bytes, from sums of at least a quarter of the largest size.
[[nodiscard]] inline double bandwidth_of(std::span<const kernel_sample> sums) {
  double largest = 0;
  for (const auto& s : sums) {
    largest = std::max(largest, bytes_of(s.shape));
  }
  least_squares line{2};
  for (const auto& s : sums) {
    if (const auto bytes = bytes_of(s.shape); bytes >= largest / 4) {
      line.observe(std::array{1e-6, bytes * 1e-12}, s.call_seconds, 1 / s.call_seconds);
    }
  }
  const auto fitted = line.snapshot();
  const auto slope = fitted.coefficients()[1];
  if (!(slope > 0)) {
    throw error{sums.front().device, "sums that do not take longer where they are larger",
                "times that show its bandwidth"};
  }
  return 1e12 / slope;
}

// Counts the operations of full tiles for batched products, including unused elements.
[[nodiscard]] inline double tile_operations(const kernel_shape& s, int tile) {
  if (s.kind != kernel_kind::batched_product) {
    return operations_of(s);
  }
  const auto& t = product_tiles[tile == any_tile ? 2 : static_cast<std::size_t>(tile)];
  return 2 * s.batch * s.k * std::ceil(s.m / t.m) * t.m * std::ceil(s.n / t.n) * t.n;
}

// The rates of the tenth of the products with the most operations, for samples in which few products are large.
[[nodiscard]] inline std::vector<double> rates_of_largest(std::span<const kernel_sample> products, int tile) {
  std::vector<std::pair<double, double>> all;
  for (const auto& s : products) {
    all.emplace_back(-operations_of(s.shape), tile_operations(s.shape, tile) / s.call_seconds);
  }
  std::sort(all.begin(), all.end());
  std::vector<double> rates;
  for (std::size_t i = 0; i < (all.size() + 9) / 10; ++i) {
    rates.push_back(all[i].second);
  }
  return rates;
}

inline void measure_rates(std::span<const kernel_sample> products, int tile, product_rates& rates) {
  std::vector<double> brief;
  std::vector<double> sustained;
  std::vector<double> deep;
  for (const auto& s : products) {
    if (s.shape.kind == kernel_kind::tensor_product && !is_aligned(s.shape)) {
      continue;
    }
    const auto rate = tile_operations(s.shape, tile) / s.call_seconds;
    const auto side = std::min(s.shape.m, s.shape.n);
    if (side >= 400 && s.shape.k >= 200 && s.shape.k <= 4096) {
      if (s.call_seconds > 2e-3 && s.call_seconds < 6e-3) {
        brief.push_back(rate);
      } else if (s.call_seconds > 20e-3) {
        sustained.push_back(rate);
      }
    }
    if (side >= 600 && s.shape.k > 16000) {
      deep.push_back(rate);
    }
  }
  constexpr std::size_t enough = 4;
  constexpr double quantile = 0.6;
  if (brief.size() < enough && sustained.size() < enough) {
    brief = rates_of_largest(products, tile);
  }
  if (brief.empty() && sustained.empty()) {
    return;
  }
  rates.brief = quantile_of(brief.empty() ? sustained : brief, quantile);
  rates.sustained = sustained.size() < enough ? rates.brief : quantile_of(sustained, quantile);
  rates.deep_share = deep.size() < enough ? 1 : std::min(1.0, quantile_of(deep, 0.5) / rates.sustained);
}

// How strongly a logarithm is pulled to its usual value: times of calls cannot separate the start of a kernel from its
// launch.
[[nodiscard]] inline double prior_weight(kernel_kind kind, std::size_t coefficient) {
  constexpr double held = 6;
  constexpr double loose = 0.3;
  constexpr auto no_start = static_cast<std::size_t>(-1);  // only kernels were measured
  constexpr std::array<std::size_t, kernel_kind_names.size()> starts{1, 6, 6, 6, 9, 9, 9, 9, no_start, no_start};
  if (coefficient == starts[static_cast<std::size_t>(kind)]) {
    return held;
  }
  return coefficient + 1 < coefficient_count(kind) ? loose : 2;
}

class kernel_fitting {
 public:
  kernel_fitting(kernel_kind kind, std::span<const placed_sample> samples)
      : kind_{kind}, samples_{samples}, usual_{logarithms(usual_coefficients(kind))} {}

  [[nodiscard]] std::vector<double> run() const {
    auto at = usual_;
    auto loss = loss_of(at);
    constexpr int most_steps = 30;
    for (int step = 0; step < most_steps; ++step) {
      const auto change = direction(at);
      double length = 1;
      bool better = false;
      for (; length > 1e-3 && !better; length /= 2) {
        auto next = at;
        for (std::size_t i = 0; i < at.size(); ++i) {
          next[i] += length * std::clamp(change[i], -1.0, 1.0);
        }
        if (const auto l = loss_of(next); l < loss) {
          better = l < loss * (1 - 1e-5);
          loss = l;
          at = next;
          break;
        }
      }
      if (!better) {
        break;
      }
    }
    return exponentials(at);
  }

 private:
  static constexpr double outlier = 0.15;  // larger errors count linearly, not quadratically

  [[nodiscard]] static std::vector<double> logarithms(std::vector<double> x) {
    std::transform(x.begin(), x.end(), x.begin(), [](double v) { return std::log(v); });
    return x;
  }
  [[nodiscard]] static std::vector<double> exponentials(std::vector<double> x) {
    std::transform(x.begin(), x.end(), x.begin(), [](double v) { return std::exp(v); });
    return x;
  }
  [[nodiscard]] std::vector<double> residuals(const std::vector<double>& at) const {
    const auto c = exponentials(at);
    std::vector<double> r;
    r.reserve(samples_.size());
    for (const auto& s : samples_) {
      r.push_back(std::log(call_seconds(s.shape, s.device, c) / s.seconds));
    }
    return r;
  }
  [[nodiscard]] double loss_of(const std::vector<double>& at) const {
    double sum = 0;
    for (const auto r : residuals(at)) {
      sum += 2 * outlier * outlier * (std::sqrt(1 + r * r / (outlier * outlier)) - 1);
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto off = (at[i] - usual_[i]) * prior_weight(kind_, i);
      sum += off * off;
    }
    return sum;
  }
  [[nodiscard]] std::vector<double> direction(const std::vector<double>& at) const {
    constexpr double step = 1e-3;
    const auto r = residuals(at);
    std::vector<std::vector<double>> columns;
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto moved = at;
      moved[i] += step;
      columns.push_back(residuals(moved));
    }
    least_squares solver{at.size()};
    std::vector<double> row(at.size());
    for (std::size_t j = 0; j < r.size(); ++j) {
      for (std::size_t i = 0; i < at.size(); ++i) {
        row[i] = (columns[i][j] - r[j]) / step;
      }
      solver.observe(row, -r[j], std::pow(1 + r[j] * r[j] / (outlier * outlier), -0.25));
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::fill(row.begin(), row.end(), 0.0);
      row[i] = 1;
      solver.observe(row, usual_[i] - at[i], prior_weight(kind_, i));
    }
    const auto solved = solver.snapshot();
    return {solved.coefficients().begin(), solved.coefficients().end()};
  }

  kernel_kind kind_;
  std::span<const placed_sample> samples_;
  std::vector<double> usual_;
};

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE kernel_device measured_device(kernel_device known, std::span<const kernel_sample> sums,
                                           std::span<const kernel_sample> calls,
                                           std::span<const kernel_sample> products) {
  UNITY_EXPECTS(!sums.empty() && !calls.empty(), "sums and calls of the device");
  known.bytes_per_second = detail::bandwidth_of(sums);
  known.launch_seconds = operations_of(calls.front().shape) > 0
                             ? detail::smallest_call(calls, 0.02, [](const auto& s) { return s.call_seconds; })
                             : detail::smallest_call(calls, 0.125, [](const auto& s) { return bytes_of(s.shape); });
  const auto kind = calls.front().shape.kind;
  const bool has_rates = is_product(kind) && kind != kernel_kind::tensor_product;
  detail::measure_rates(has_rates ? calls : products, known.batched_tile, known.rates);
  return known;
}

UNITY_INLINE std::vector<double> usual_coefficients(kernel_kind kind) {
  const std::vector<double> products{1, 1, 0.9, 0.8, 0.6, 20, 0.8, 1, 1.2, 2};
  auto all = products;
  switch (kind) {
    case kernel_kind::elementwise: return {1, 1.5, 0.3, 0.02, 0.5};
    case kernel_kind::softmax: return {1, 1, 30, 0.5, 100, 1.5, 2, 0.5, 0.5};
    case kernel_kind::layer_norm:
    case kernel_kind::layer_norm_gradient: return {1, 1, 100, 0.7, 100, 0.7, 2, 0.5, 0.5};
    case kernel_kind::attention: return {1.2, 0.1, 0.5, 1, 0.8, 0.7, 3, 1, 1, 0.5, 1.5, 0.5, 0.7, 3, 0.5};
    case kernel_kind::attention_gradient: return {1, 0.3, 0.5, 1, 0.8, 0.7, 6, 1, 1, 0.5, 1.5, 0.5, 0.7, 6, 0.5};
    case kernel_kind::tensor_product: all.insert(all.end(), {0.4, 0.2}); break;
    case kernel_kind::convolution: all.insert(all.end(), {0.9, 0.7, 0.8, 1, 1}); break;
    default: break;
  }
  all.push_back(0.5);
  return all;
}

UNITY_INLINE std::vector<double> fit_kernel_coefficients(kernel_kind kind, std::span<const placed_sample> samples) {
  for (const auto& s : samples) {
    UNITY_EXPECTS(s.shape.kind == kind && s.seconds > 0, "samples of that kind, of positive seconds");
  }
  return detail::kernel_fitting{kind, samples}.run();
}

}  // namespace unity::hardware

#endif
