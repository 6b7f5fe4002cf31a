// How long operators take on devices, and a timer of single operators.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>

namespace unity {

// A summary of the times of several runs. low and high are the 10th and 90th percentiles, interpolated: of many runs,
// four of five take between them.
struct measurement {
  picoseconds median{};
  picoseconds low{};
  picoseconds high{};
  std::int64_t repetitions = 0;

  friend bool operator==(const measurement&, const measurement&) = default;
};

// Times operators on operands of given types.
//   t.time(op, inputs, outputs)   a measurement; outputs: what the algebra infers from the inputs
//   t.description()               one line: the device, the software and the method of measurement
// Laws: 0 < low <= median <= high, repetitions > 0. Measurements with equal descriptions may be compared and stored.
// Errors: unity::error that names the operator if it cannot run.
// Models: backend::device_timer, tensor::timing_cache. Not a model: an estimate, which repeats nothing (that is a
// duration_model).
template <class T, class Algebra>
concept kernel_timer = requires(T& t, const T& c, const typename Algebra::op_type& op,
                                std::span<const typename Algebra::value_type> types) {
  { t.time(op, types, types) } -> std::same_as<measurement>;
  { c.description() } -> std::convertible_to<std::string>;
};

// The number below which this part of the numbers lies: interpolates linearly between the two nearest of the sorted
// numbers, of which there is at least one; 0 <= part <= 1.
[[nodiscard]] inline double quantile(std::span<const double> sorted, double part) noexcept {
  const auto place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The 10th and 90th percentiles of at least one sorted number.
[[nodiscard]] inline std::pair<double, double> percentiles_10_90(std::span<const double> sorted) noexcept {
  return {quantile(sorted, 0.1), quantile(sorted, 0.9)};
}

// Summarizes the seconds of at least one run. A time below a picosecond counts as one.
[[nodiscard]] inline measurement summarize(std::vector<double> seconds) {
  UNITY_EXPECTS(!seconds.empty(), "a run");
  std::sort(seconds.begin(), seconds.end());
  const auto time = [](double s) { return std::max(from_seconds(s), picoseconds{1}); };
  const auto [low, high] = percentiles_10_90(seconds);
  return {time(quantile(seconds, 0.5)), time(low), time(high), static_cast<std::int64_t>(seconds.size())};
}

// Four of five runs are expected to take between low and high, as far as the model knows. A model that knows no
// spread returns low == expected == high. Law: low <= expected <= high.
struct duration {
  picoseconds expected{};
  picoseconds low{};
  picoseconds high{};

  [[nodiscard]] static constexpr duration exactly(picoseconds t) noexcept { return {t, t, t}; }

  // The duration of one after another: the ends of the intervals add up, as if a disturbance of one affected all.
  constexpr duration& operator+=(const duration& o) noexcept {
    expected += o.expected;
    low += o.low;
    high += o.high;
    return *this;
  }
  friend constexpr bool operator==(const duration&, const duration&) noexcept = default;
};

// A snapshot of how long operators take.
//   m.duration_of(device, op, inputs, outputs)   on the kind of device with this number in the machine; outputs: what
//                                                the algebra infers from the inputs
//   m.version()                                  identifies the rates, coefficients or measurements behind the results
// Laws: duration_of is a pure function and thread-safe. Snapshots of one type with equal versions give equal results,
// measured ones as far as measurements repeat.
// Errors: unity::error that names the operator if it cannot run.
// Models: tensor::roofline_durations, hardware::kernel_durations, tensor::measured_durations, any_durations. Not a
// model: a kernel_timer, which measures anew.
template <class M, class Algebra>
concept duration_model = requires(const M& m, std::uint32_t device, const typename Algebra::op_type& op,
                                  std::span<const typename Algebra::value_type> types) {
  { m.duration_of(device, op, types, types) } -> std::same_as<duration>;
  { m.version() } -> std::same_as<fingerprint>;
};

// Any duration model of an algebra. Copies share the model, which is immutable.
template <class Algebra>
class any_durations {
 public:
  using op_type = typename Algebra::op_type;
  using types = std::span<const typename Algebra::value_type>;

  template <class M>
    requires(!std::same_as<M, any_durations> && duration_model<M, Algebra>)
  any_durations(M m) : model_{std::make_shared<const holder<M>>(std::move(m))} {}

  [[nodiscard]] duration duration_of(std::uint32_t device, const op_type& op, types inputs, types outputs) const {
    return model_->duration_of(device, op, inputs, outputs);
  }
  [[nodiscard]] fingerprint version() const { return model_->version(); }

 private:
  struct interface {
    interface() = default;
    interface(const interface&) = delete;
    interface& operator=(const interface&) = delete;
    virtual ~interface() = default;
    [[nodiscard]] virtual duration duration_of(std::uint32_t, const op_type&, types, types) const = 0;
    [[nodiscard]] virtual fingerprint version() const = 0;
  };
  template <class M>
  struct holder final : interface {
    explicit holder(M model) : m{std::move(model)} {}
    [[nodiscard]] duration duration_of(std::uint32_t device, const op_type& op, types inputs,
                                       types outputs) const override {
      return m.duration_of(device, op, inputs, outputs);
    }
    [[nodiscard]] fingerprint version() const override { return m.version(); }
    M m;
  };

  std::shared_ptr<const interface> model_;
};

// The durations of another model at one end of their intervals, &duration::low or &duration::high: for the time of a
// plan in which all operators are as fast, or as slow, as expected.
template <class M>
class durations_at {
 public:
  durations_at(M m, picoseconds duration::* end) : model_{std::move(m)}, end_{end} {}

  template <class Op, class Type>
  [[nodiscard]] duration duration_of(std::uint32_t device, const Op& op, std::span<const Type> inputs,
                                     std::span<const Type> outputs) const {
    return duration::exactly(model_.duration_of(device, op, inputs, outputs).*end_);
  }
  [[nodiscard]] fingerprint version() const {
    const auto v = model_.version();
    return hasher{v.low}.add(v.high).add(end_ == &duration::low ? 1 : end_ == &duration::high ? 2 : 0).result();
  }

 private:
  M model_;
  picoseconds duration::* end_;
};

}  // namespace unity
