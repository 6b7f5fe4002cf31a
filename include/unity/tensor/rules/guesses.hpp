// Random sizes, shapes and attribute values for instances of a rule, which often fit together.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/rule_hints.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

[[nodiscard]] inline bool is_element_type(const attribute_signature& a) {
  return std::ranges::equal(a.choices, dtype_names);
}

// Whether the operators that have this attribute are meant for the value: an epsilon is not negative.
[[nodiscard]] inline bool is_usual(const attribute_signature& a, double value) {
  return value >= 0 || a.name != "epsilon";
}

// Sizes that rules relate are drawn under the same name and often repeated, so that, for example, sums of two products
// occur; one axis is preferred for all concats and splits.
class guesses {
 public:
  using size = std::int64_t;

  // If the hints say `chained`: also draws earlier shapes and scalars, and lets either of two operands broadcast.
  guesses(random_engine& random, const rule_hints& hints)
      : random_{random},
        reals_{hints.reals},
        stated_{hints.stated},
        ranks_{hints.counts.ranks},
        axis_{random.between(0, ranks_.empty() ? 3 : static_cast<size>(ranks_.back()) - 1)},
        chained_{hints.chained} {}

  // Records the shape of an operand or result.
  void meet(const shape& s);
  // Often: a recorded shape, or one that differs from it along the preferred axis.
  [[nodiscard]] std::optional<shape> met_shape();

  [[nodiscard]] size between(size least, size most) { return random_.between(least, most); }
  [[nodiscard]] std::size_t below(std::size_t n) { return random_.below(n); }
  [[nodiscard]] bool chance(int percent) { return random_.between(1, 100) <= percent; }
  // Whether the first of two operands is the one that broadcasts.
  [[nodiscard]] bool swaps() { return chained_ && chance(50); }
  [[nodiscard]] size any_size() {
    constexpr std::array<size, 7> sizes{1, 2, 2, 3, 3, 4, 5};
    return sizes[random_.below(sizes.size())];
  }
  // A size that other operators use under the same name: mostly the last one.
  [[nodiscard]] size shared(const char* name, int percent = 70);
  [[nodiscard]] size shared_kernel(const char* name);
  [[nodiscard]] size shared_extent(const char* name);
  [[nodiscard]] shape any_shape();
  [[nodiscard]] shape shape_of_rank(std::size_t rank);
  [[nodiscard]] attribute any_value(const attribute_field& f);
  [[nodiscard]] size axis_below(std::size_t rank) {
    const bool usual = static_cast<std::size_t>(axis_) < rank && chance(80);
    return usual ? axis_ : static_cast<size>(random_.below(rank));
  }
  [[nodiscard]] attribute some_axes(std::size_t rank);
  // A shape that broadcasts with `s`.
  [[nodiscard]] shape fitting(const shape& s);
  // Another shape with equally many elements.
  [[nodiscard]] shape reshaped(const shape& s);
  // Splits a whole into `count` parts.
  [[nodiscard]] attribute parts(size whole, std::size_t count);

 private:
  random_engine& random_;
  std::span<const double> reals_;
  std::span<const shape> stated_;
  std::span<const std::size_t> ranks_;
  size axis_;
  std::map<std::string_view, size> last_{};
  shape last_shape_{};
  bool chained_;
  std::vector<shape> met_{};
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_GUESSES)

namespace unity::tensor::detail {

UNITY_INLINE void guesses::meet(const shape& s) {
  if (chained_) {
    met_.push_back(s);
  }
}

UNITY_INLINE std::optional<shape> guesses::met_shape() {
  if (met_.empty() || !chance(50)) {
    return std::nullopt;
  }
  auto s = met_[random_.below(met_.size())];
  if (chance(40) && static_cast<std::size_t>(axis_) < s.size()) {
    s[static_cast<std::size_t>(axis_)] = any_size();
  }
  return s;
}

UNITY_INLINE auto guesses::shared(const char* name, int percent) -> size {
  auto& last = last_[name];
  if (last == 0 || !chance(percent)) {
    last = any_size();
  }
  return last;
}

UNITY_INLINE auto guesses::shared_kernel(const char* name) -> size {
  auto& last = last_[name];
  if (last == 0 || !chance(75)) {
    last = random_.between(1, 4);
  }
  return last;
}

UNITY_INLINE auto guesses::shared_extent(const char* name) -> size {
  auto& last = last_[name];
  if (last == 0 || !chance(80)) {
    last = chance(15) ? 1 : random_.between(3, 8);  // 1 broadcasts
  }
  return last;
}

UNITY_INLINE shape guesses::any_shape() {
  if (!stated_.empty() && chance(30)) {
    return stated_[random_.below(stated_.size())];
  }
  if (auto met = met_shape()) {
    return *std::move(met);
  }
  if (chained_ && chance(5)) {
    return {};
  }
  if (!last_shape_.empty() && chance(60)) {
    auto s = last_shape_;
    if (chance(50) && static_cast<std::size_t>(axis_) < s.size()) {
      s[static_cast<std::size_t>(axis_)] = any_size();
    }
    return s;
  }
  const bool is_stated = !ranks_.empty() && chance(40);
  last_shape_ = shape_of_rank(is_stated ? ranks_[random_.below(ranks_.size())]
                                        : static_cast<std::size_t>(random_.between(1, usual_count)));
  if (chance(15)) {  // dimensions that a wrong rule may exchange
    std::fill(last_shape_.begin(), last_shape_.end(), last_shape_[0]);
  }
  return last_shape_;
}

UNITY_INLINE shape guesses::shape_of_rank(std::size_t rank) {
  shape s;
  while (s.size() < rank) {
    s.push_back(rank > usual_count ? between(1, 2) : any_size());  // else there would be too many elements
  }
  return s;
}

UNITY_INLINE attribute guesses::any_value(const attribute_field& f) {
  const auto& a = f.signature;
  if (a.form == attribute_form::choice) {
    const bool is_usual_element = is_element_type(a) && chance(50);  // so that operands fit together
    return {is_usual_element ? 0 : random_.between(0, static_cast<size>(a.choices.size()) - 1)};
  }
  if (a.form == attribute_form::real) {
    static constexpr std::array<double, 7> usual{0.0, 0.5, 1.0, 1e-3, 2.0, -0.5, -2.0};
    const bool is_stated = !reals_.empty() && chance(80);
    const auto& among = is_stated ? reals_ : std::span<const double>{usual};
    const auto value = among[random_.below(among.size())];
    return real_attribute(!is_stated && !is_usual(a, value) ? -value : value);
  }
  if (a.form == attribute_form::word) {
    return word_attribute("w");
  }
  if (!a.default_value.empty() && (f.length != 1 || chance(50))) {
    return a.default_value;
  }
  return f.length == 1 ? attribute{f.is_flag ? random_.between(0, 1) : any_size()} : attribute{};
}

UNITY_INLINE attribute guesses::some_axes(std::size_t rank) {
  attribute axes;
  const bool suffix = chance(50);
  const auto from = static_cast<size>(random_.below(rank));
  for (size d = 0; d < static_cast<size>(rank); ++d) {
    if (suffix ? d >= from : chance(40)) {
      axes.push_back(d);
    }
  }
  return axes.empty() ? attribute{from} : axes;
}

UNITY_INLINE shape guesses::fitting(const shape& s) {
  if (chance(50)) {
    return s;
  }
  shape other(std::span<const size>{s}.subspan(random_.below(s.size() + 1)));
  for (auto& d : other) {
    d = chance(30) ? 1 : d;
  }
  return other;
}

UNITY_INLINE shape guesses::reshaped(const shape& s) {
  auto left = element_count(s);
  shape other;
  for (auto parts = random_.between(0, 4); parts > 0; --parts) {
    const auto d = s.empty() ? 1 : s[random_.below(s.size())];
    other.push_back(left % d == 0 ? d : 1);
    left /= other.back();
  }
  if (left > 1 || other.empty()) {
    other.push_back(left);
  }
  return other;
}

UNITY_INLINE attribute guesses::parts(size whole, std::size_t count) {
  attribute sizes;
  for (auto left = static_cast<size>(count); left > 0; --left) {
    const auto most = whole - (left - 1);
    sizes.push_back(left == 1 ? whole : most > 0 ? random_.between(1, most) : 1);
    whole -= sizes.back();
  }
  return sizes;
}

}  // namespace unity::tensor::detail

#endif
