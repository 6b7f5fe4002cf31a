// The input of a network for one kernel: a feature row per operator, and which operators each one attends to.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/what_if.hpp>

namespace unity::learn {

// Columns of a row. Counts, bytes, flops and times enter as log(1 + x); "kernel ..." columns are the same in all rows
// of a kernel.
inline constexpr std::array<std::string_view, 25> part_feature_names{
    "elementwise",    "broadcast",    "movement",      "reduction",     "product",       "convolution",
    "other",          "folding",      "flops",         "reads",         "writes",        "outside reads",
    "outside writes", "inside reads", "inside writes", "operands",      "readers",       "time",
    "kernel parts",   "kernel flops", "kernel reads",  "kernel writes", "kernel inside", "kernel widest edge",
    "kernel time"};
inline constexpr std::size_t part_features = part_feature_names.size();

// A rough time in picoseconds for an operator that nobody has timed: 1 us, plus 20 ps per flop and 100 ps per byte.
// Only ratios matter: networks learn the error.
[[nodiscard]] double assumed_time(const fusion::kernel_part& p) noexcept;

// Regular.
struct kernel_features {
  std::vector<float> rows{};    // parts x part_features
  std::vector<float> shares{};  // each operator's share of the baseline; the shares add up to 1
  double baseline = 0;          // picoseconds: the operators one after another

  [[nodiscard]] std::size_t parts() const noexcept { return shares.size(); }

  friend bool operator==(const kernel_features&, const kernel_features&) = default;
};

// own_times: whether to use the measured times of single operators, as far as they are known; assumed_time is used
// otherwise. Precondition: at least one operator, edges between operators. Complexity: linear in operators and edges.
[[nodiscard]] kernel_features features_of(const fusion::kernel_description& k, bool own_times);

// Which operators an operator attends to besides itself: those whose results it reads, or those that read its result.
enum class sight : std::uint8_t { operands, readers };

// Calls f(operator, attended) for each pair, in the order of edges.
template <class F>
void for_each_seen(const fusion::kernel_description& k, sight s, const F& f) {
  for (const auto& [from, to] : k.edges) {
    if (s == sight::operands) {
      f(std::size_t{to}, std::size_t{from});
    } else {
      f(std::size_t{from}, std::size_t{to});
    }
  }
  for (std::size_t i = 0; i < k.parts.size(); ++i) {
    f(i, i);
  }
}

// Standardizes each column of rows to mean 0 and variance 1 over the kernels that it was made from. Regular.
struct feature_scaling {
  std::array<float, part_features> means{};
  std::array<float, part_features> scales{};  // 1 / deviation; 0 for constant columns

  // Effects: scales the rows; outliers are clamped to 8 deviations.
  void apply(std::span<float> rows) const noexcept;

  friend bool operator==(const feature_scaling&, const feature_scaling&) = default;
};

[[nodiscard]] feature_scaling scaling_of(std::span<const kernel_features> kernels);

// Batches have kernels padded to these sizes with operators to which no operator attends.
inline constexpr std::array<std::size_t, 4> padded_sizes{8, 16, 32, 64};

// A kernel with more operators than the last size is split into pieces of that many neighbouring operators; its
// estimate is the sum over the pieces, without the edges between them.
inline constexpr std::size_t most_parts = padded_sizes.back();

// Index of the smallest of padded_sizes that is large enough; nothing if none is.
[[nodiscard]] std::optional<std::size_t> padded_size(std::size_t parts) noexcept;

[[nodiscard]] std::vector<fusion::kernel_description> pieces_of(const fusion::kernel_description& k);

// Estimators of kernel times.

// e(k): picoseconds of the kernel, at least 1. Laws: a pure function; safe to call from several threads at once.
// Models: attention_estimator, linear_estimator, sum_of_parts, kernel_time.
template <class E>
concept kernel_estimator = std::copy_constructible<E> && requires(const E& e, const fusion::kernel_description& k) {
  { e(k) } -> std::same_as<picoseconds>;
};

using kernel_time = std::function<picoseconds(const fusion::kernel_description&)>;

// The sum of the operators' times; assumed_time for an operator that nobody has timed.
struct sum_of_parts {
  [[nodiscard]] picoseconds operator()(const fusion::kernel_description& k) const;
};

// Whole picoseconds, at least 1; NaN gives 1.
[[nodiscard]] picoseconds whole_picoseconds(double x) noexcept;

// Finds the description of an operator of a trace as a kernel of its own: all its reads and writes are outside.
using part_lookup = std::function<fusion::kernel_part(trace::name_id)>;

// The time of operators of a trace as a chain: each reads the result of the previous one, and only the last result
// leaves the kernel. The times in the trace replace looked-up ones; their sum is an upper bound for the whole chain.
[[nodiscard]] trace::fusion_time fusion_time_of(kernel_time estimate, part_lookup parts);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_KERNEL_FEATURES)

#include <algorithm>
#include <cmath>
#include <utility>

#include <unity/core/config.hpp>

namespace unity::learn {

UNITY_INLINE double assumed_time(const fusion::kernel_part& p) noexcept {
  return 1e6 + 20 * p.flops + 100 * (p.reads + p.writes);
}

namespace detail {

[[nodiscard]] inline float logarithm(double x) { return static_cast<float>(std::log1p(std::max(x, 0.0))); }

// Columns from "kernel parts" on.
[[nodiscard]] inline std::array<float, 7> kernel_columns(const fusion::kernel_description& k, double baseline) {
  fusion::kernel_part sum;
  double inside = 0;
  double widest = 0;
  for (const auto& p : k.parts) {
    sum.flops += p.flops;
    sum.reads_outside += p.reads_outside;
    sum.writes_outside += p.writes_outside;
    inside += p.reads - p.reads_outside;
  }
  for (const auto& e : k.edges) {
    widest = std::max(widest, k.parts[e.first].writes);
  }
  return {logarithm(static_cast<double>(k.parts.size())),
          logarithm(sum.flops),
          logarithm(sum.reads_outside),
          logarithm(sum.writes_outside),
          logarithm(inside),
          logarithm(widest),
          logarithm(baseline)};
}

}  // namespace detail

UNITY_INLINE kernel_features features_of(const fusion::kernel_description& k, bool own_times) {
  UNITY_EXPECTS(!k.parts.empty(), "a kernel of at least one part");
  const auto count = k.parts.size();
  std::vector<double> times(count);
  std::vector<std::size_t> operands(count);
  std::vector<std::size_t> readers(count);
  kernel_features f;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& p = k.parts[i];
    times[i] = own_times && p.duration > picoseconds{} ? static_cast<double>(p.duration.count()) : assumed_time(p);
    f.baseline += times[i];
  }
  for (const auto& [from, to] : k.edges) {
    UNITY_EXPECTS(from < count && to < count, "edges between parts");
    ++readers[from];
    ++operands[to];
  }
  const auto common = detail::kernel_columns(k, f.baseline);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& p = k.parts[i];
    std::array<float, part_features> row{};
    row[static_cast<std::size_t>(p.kind)] = 1;
    auto* at = row.data() + fusion::operator_class_names.size();
    *at++ = p.is_folding ? 1.0F : 0.0F;
    for (const auto x :
         {p.flops, p.reads, p.writes, p.reads_outside, p.writes_outside, p.reads - p.reads_outside,
          p.writes - p.writes_outside, static_cast<double>(operands[i]), static_cast<double>(readers[i]), times[i]}) {
      *at++ = detail::logarithm(x);
    }
    std::copy(common.begin(), common.end(), at);
    f.rows.insert(f.rows.end(), row.begin(), row.end());
    f.shares.push_back(static_cast<float>(times[i] / f.baseline));
  }
  return f;
}

UNITY_INLINE void feature_scaling::apply(std::span<float> rows) const noexcept {
  constexpr float far = 8;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto c = i % part_features;
    rows[i] = std::clamp((rows[i] - means[c]) * scales[c], -far, far);
  }
}

UNITY_INLINE feature_scaling scaling_of(std::span<const kernel_features> kernels) {
  std::array<double, part_features> sums{};
  std::array<double, part_features> squares{};
  double count = 0;
  for (const auto& k : kernels) {
    count += static_cast<double>(k.parts());
    for (std::size_t i = 0; i < k.rows.size(); ++i) {
      sums[i % part_features] += k.rows[i];
      squares[i % part_features] += double{k.rows[i]} * k.rows[i];
    }
  }
  feature_scaling s;
  for (std::size_t c = 0; c < part_features && count > 0; ++c) {
    const auto mean = sums[c] / count;
    const auto deviation = std::sqrt(std::max(squares[c] / count - mean * mean, 0.0));
    s.means[c] = static_cast<float>(mean);
    s.scales[c] = deviation > 1e-3 ? static_cast<float>(1 / deviation) : 0;
  }
  return s;
}

UNITY_INLINE std::optional<std::size_t> padded_size(std::size_t parts) noexcept {
  const auto* const found = std::find_if(padded_sizes.begin(), padded_sizes.end(), [&](auto n) { return parts <= n; });
  return found == padded_sizes.end() ? std::nullopt
                                     : std::optional{static_cast<std::size_t>(found - padded_sizes.begin())};
}

UNITY_INLINE std::vector<fusion::kernel_description> pieces_of(const fusion::kernel_description& k) {
  std::vector<fusion::kernel_description> pieces((k.parts.size() + most_parts - 1) / most_parts);
  for (std::size_t i = 0; i < k.parts.size(); ++i) {
    pieces[i / most_parts].parts.push_back(k.parts[i]);
  }
  for (const auto& [from, to] : k.edges) {
    if (from / most_parts == to / most_parts) {
      pieces[from / most_parts].edges.emplace_back(static_cast<std::uint16_t>(from % most_parts),
                                                   static_cast<std::uint16_t>(to % most_parts));
    }
  }
  return pieces;
}

UNITY_INLINE picoseconds whole_picoseconds(double x) noexcept {
  constexpr double most = 1e18;
  return picoseconds{x > 1 ? std::llround(std::min(x, most)) : 1};
}

UNITY_INLINE picoseconds sum_of_parts::operator()(const fusion::kernel_description& k) const {
  double sum = 0;
  for (const auto& p : k.parts) {
    sum += p.duration > picoseconds{} ? static_cast<double>(p.duration.count()) : assumed_time(p);
  }
  return whole_picoseconds(sum);
}

UNITY_INLINE trace::fusion_time fusion_time_of(kernel_time estimate, part_lookup parts) {
  return [estimate = std::move(estimate), parts = std::move(parts)](std::span<const trace::fused_part> fused) {
    fusion::kernel_description k;
    picoseconds sum;
    for (std::size_t i = 0; i < fused.size(); ++i) {
      auto p = parts(fused[i].name);
      p.duration = fused[i].duration;
      sum += fused[i].duration;
      if (i > 0) {
        p.reads_outside -= std::min(k.parts.back().writes, p.reads_outside);
        k.parts.back().writes_outside = 0;
        k.edges.emplace_back(static_cast<std::uint16_t>(i - 1), static_cast<std::uint16_t>(i));
      }
      k.parts.push_back(p);
    }
    return fused.size() == 1 ? sum : std::min(sum, estimate(k));
  };
}

}  // namespace unity::learn

#endif
