// Random sizes, shapes and attribute values that often fit together.
#pragma once

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
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// Sizes that rules relate are drawn under the same name and often repeated, so that, for example, sums of two products
// occur; one axis is preferred for all concats and splits.
class guesses {
 public:
  using size = std::int64_t;

  // reals: values for real attributes, if not empty. chained: also draws earlier shapes, and varies preferences more.
  guesses(random_engine& random, std::span<const double> reals, bool chained)
      : random_{random}, reals_{reals}, axis_{random.between(0, 3)}, chained_{chained} {}

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
  last_shape_.clear();
  for (auto rank = random_.between(1, 4); rank > 0; --rank) {
    last_shape_.push_back(any_size());
  }
  return last_shape_;
}

UNITY_INLINE shape guesses::shape_of_rank(std::size_t rank) {
  shape s;
  while (s.size() < rank) {
    s.push_back(any_size());
  }
  return s;
}

UNITY_INLINE attribute guesses::any_value(const attribute_field& f) {
  const auto& a = f.signature;
  if (a.form == attribute_form::choice) {
    return {a.choices.size() > 5 ? 0 : random_.between(0, static_cast<size>(a.choices.size()) - 1)};
  }
  if (a.form == attribute_form::real) {
    static constexpr std::array<double, 4> usual{0.0, 0.5, 1.0, 1e-3};
    const auto& among = reals_.empty() ? std::span<const double>{usual} : reals_;
    return real_attribute(among[random_.below(among.size())]);
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
