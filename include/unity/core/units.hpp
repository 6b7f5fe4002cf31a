// Quantities with a unit in their type.
#pragma once

#include <compare>
#include <cstdint>

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace unity {

// A 64-bit count of one unit; an ordered group under addition. Integer, so that sums do not depend on order.
template <class Unit>
class quantity {
 public:
  using rep = std::int64_t;

  constexpr quantity() noexcept = default;
  constexpr explicit quantity(rep count) noexcept : count_{count} {}

  [[nodiscard]] constexpr rep count() const noexcept { return count_; }

  constexpr quantity& operator+=(quantity o) noexcept {
    count_ += o.count_;
    return *this;
  }
  constexpr quantity& operator-=(quantity o) noexcept {
    count_ -= o.count_;
    return *this;
  }
  friend constexpr quantity operator+(quantity a, quantity b) noexcept { return a += b; }
  friend constexpr quantity operator-(quantity a, quantity b) noexcept { return a -= b; }
  constexpr quantity operator-() const noexcept { return quantity{-count_}; }
  constexpr quantity& operator*=(rep times) noexcept {
    count_ *= times;
    return *this;
  }
  constexpr quantity& operator/=(rep parts) noexcept {  // rounds towards zero
    count_ /= parts;
    return *this;
  }
  friend constexpr quantity operator*(quantity a, rep times) noexcept { return a *= times; }
  friend constexpr quantity operator*(rep times, quantity a) noexcept { return a *= times; }
  friend constexpr quantity operator/(quantity a, rep parts) noexcept { return a /= parts; }
  friend constexpr auto operator<=>(quantity, quantity) noexcept = default;

 private:
  rep count_ = 0;
};

struct picosecond_unit {
  static constexpr const char* symbol = "ps";
};
struct nanosecond_unit {
  static constexpr const char* symbol = "ns";
};
struct byte_unit {
  static constexpr const char* symbol = "B";
};
struct flop_unit {
  static constexpr const char* symbol = "FLOP";
};

using picoseconds = quantity<picosecond_unit>;
using nanoseconds = quantity<nanosecond_unit>;  // of clocks: since 1970 they do not fit in picoseconds
using bytes = quantity<byte_unit>;
using flops = quantity<flop_unit>;

// Precondition: within 9e6 s of either sign.
[[nodiscard]] constexpr picoseconds to_picoseconds(nanoseconds t) noexcept { return picoseconds{t.count() * 1000}; }

[[nodiscard]] constexpr double to_seconds(picoseconds t) noexcept { return static_cast<double>(t.count()) / 1e12; }

// Rounds to the nearest picosecond. Clamps to 9e6 s of either sign; NaN gives 9e6 s.
[[nodiscard]] constexpr picoseconds from_seconds(double s) noexcept {
  constexpr double most = 9e6;
  s = s < -most ? -most : s <= most ? s : most;
  return picoseconds{static_cast<std::int64_t>(s * 1e12 + (s < 0 ? -0.5 : 0.5))};
}

}  // namespace unity

// The count and the unit: "12 ps".
template <class Unit>
struct fmt::formatter<unity::quantity<Unit>> : unity::plain_formatter {
  template <class Context>
  auto format(unity::quantity<Unit> q, Context& context) const -> decltype(context.out()) {
    return put(context, fmt::format("{} {}", q.count(), Unit::symbol));
  }
};
