// Sizes, shapes and attribute values for instances of a rule: fixed by its conditions, or random ones that often fit
// together.
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

#include <range/v3/view/zip.hpp>

#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// The sizes of the variable from dimension `from` on are `sizes`.
struct fixed_sizes {
  std::size_t variable = 0;
  std::size_t from = 0;
  attribute sizes{};
  bool scalar = false;  // has no dimensions
};

// Dimension `dimension` of a variable equals dimension `other_dimension` of another; negative: all dimensions.
struct same_size {
  std::size_t variable = 0;
  int dimension = -1;
  std::size_t other = 0;
  int other_dimension = -1;
};

// Reads the sizes fixed by conditions size(?v, d) == n, shape(?v) == [..], suffix(shape(?v), d) == [..] and rank(?v) ==
// 0, for variables that stand for a single value.
class size_reader {
 public:
  explicit size_reader(const algebra& a)
      : size_{a.find_measure("size")}, shape_{a.find_measure("shape")}, rank_{a.find_measure("rank")} {}

  [[nodiscard]] std::vector<fixed_sizes> read(const substitution& s) const;
  // The relations of conditions size(?v, d) == size(?w, e) and shape(?v) == shape(?w), in both directions.
  [[nodiscard]] std::vector<same_size> relations(const substitution& s) const;
  // A number or a list of numbers.
  [[nodiscard]] static std::optional<attribute> number_of(const compiled_expression& e);

 private:
  [[nodiscard]] bool is_size(const compiled_expression& e) const {
    return e.kind == compiled_expression::form::measure && std::optional{e.measure} == size_ && e.arguments.size() == 1;
  }
  // Variable and dimension; -1 for all dimensions.
  [[nodiscard]] std::optional<std::pair<std::size_t, int>> dimension_of(const compiled_expression& e) const;
  void read(const compiled_expression& c, std::vector<fixed_sizes>& all) const;
  [[nodiscard]] std::optional<fixed_sizes> place_of(const compiled_expression& e) const;

  std::optional<int> size_;
  std::optional<int> shape_;
  std::optional<int> rank_;
};

// The shapes that attributes of either side state as lists of numbers.
[[nodiscard]] std::vector<shape> stated_shapes(const algebra& a, const substitution& s);

[[nodiscard]] inline bool is_element_type(const attribute_signature& a) {
  return std::ranges::equal(a.choices, dtype_names);
}

// Whether the operators that have this attribute are meant for the value: an epsilon is not negative.
[[nodiscard]] inline bool is_usual(const attribute_signature& a, double value) {
  return value >= 0 || a.name != "epsilon";
}

// Sets the fixed sizes in the shape of the variable, for the dimensions that it has.
void fix_sizes(const std::vector<fixed_sizes>& fixed, std::size_t variable, shape& dims);

// Sets the sizes that relations make equal to those of other variables. known(variable): the shape of a variable, or
// null if it is not known yet.
template <class Known>
void relate_sizes(const std::vector<same_size>& relations, std::size_t variable, shape& dims, const Known& known) {
  for (const auto& r : relations) {
    if (r.variable != variable) {
      continue;
    }
    const auto* other = r.other == variable ? &dims : known(r.other);
    if (other == nullptr) {
      continue;
    }
    if (r.dimension < 0) {
      dims = shape(*other);
    } else if (static_cast<std::size_t>(r.dimension) < dims.size() &&
               static_cast<std::size_t>(r.other_dimension) < other->size()) {
      dims[static_cast<std::size_t>(r.dimension)] = (*other)[static_cast<std::size_t>(r.other_dimension)];
    }
  }
}

// Sizes that rules relate are drawn under the same name and often repeated, so that, for example, sums of two products
// occur; one axis is preferred for all concats and splits.
class guesses {
 public:
  using size = std::int64_t;

  // reals: values for real attributes, if not empty. stated: shapes to draw often. chained: also draws earlier shapes
  // and scalars, and lets either of two operands broadcast.
  guesses(random_engine& random, std::span<const double> reals, std::span<const shape> stated, bool chained)
      : random_{random}, reals_{reals}, stated_{stated}, axis_{random.between(0, 3)}, chained_{chained} {}

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
  size axis_;
  std::map<std::string_view, size> last_{};
  shape last_shape_{};
  bool chained_;
  std::vector<shape> met_{};
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_GUESSES)

namespace unity::tensor::detail {

UNITY_INLINE std::vector<fixed_sizes> size_reader::read(const substitution& s) const {
  std::vector<fixed_sizes> all;
  for (const auto& c : s.conditions) {
    read(c, all);
  }
  return all;
}

UNITY_INLINE std::vector<same_size> size_reader::relations(const substitution& s) const {
  std::vector<same_size> all;
  for (const auto& c : s.conditions) {
    if (c.kind != compiled_expression::form::call || c.callee != rule_function::equal || c.indexed) {
      continue;
    }
    const auto a = dimension_of(c.arguments[0]);
    const auto b = dimension_of(c.arguments[1]);
    if (a && b && (a->second < 0) == (b->second < 0)) {
      all.push_back({a->first, a->second, b->first, b->second});
      all.push_back({b->first, b->second, a->first, a->second});
    }
  }
  return all;
}

UNITY_INLINE std::optional<std::pair<std::size_t, int>> size_reader::dimension_of(const compiled_expression& e) const {
  if (e.kind != compiled_expression::form::measure) {
    return std::nullopt;
  }
  if (std::optional{e.measure} == shape_) {
    return std::pair{e.slot, -1};
  }
  const auto d = is_size(e) ? number_of(e.arguments[0]) : std::nullopt;
  return d && d->size() == 1 && (*d)[0] >= 0 ? std::optional{std::pair{e.slot, static_cast<int>((*d)[0])}}
                                             : std::nullopt;
}

UNITY_INLINE void size_reader::read(const compiled_expression& c, std::vector<fixed_sizes>& all) const {
  if (c.kind != compiled_expression::form::call) {
    return;
  }
  if (c.callee == rule_function::logical_and) {
    read(c.arguments[0], all);
    read(c.arguments[1], all);
  }
  if (c.callee != rule_function::equal || c.indexed) {
    return;
  }
  const auto value = number_of(c.arguments[1]);
  const auto& measured = c.arguments[0];
  if (measured.kind == compiled_expression::form::measure && std::optional{measured.measure} == rank_ &&
      value == attribute{0}) {
    all.push_back({measured.slot, 0, {}, true});
  }
  if (auto place = place_of(c.arguments[0]); place && value) {
    place->sizes = *value;
    all.push_back(*std::move(place));
  }
}

UNITY_INLINE std::optional<fixed_sizes> size_reader::place_of(const compiled_expression& e) const {
  if (e.kind == compiled_expression::form::measure && std::optional{e.measure} == shape_) {
    return fixed_sizes{e.slot, 0, {}, false};
  }
  const bool is_suffix = e.kind == compiled_expression::form::call && e.callee == rule_function::suffix;
  if (!is_size(e) && !is_suffix) {
    return std::nullopt;
  }
  const auto from = number_of(e.arguments.back());
  auto place = is_suffix ? place_of(e.arguments[0]) : fixed_sizes{e.slot, 0, {}, false};
  if (!place || !from || from->size() != 1 || (*from)[0] < 0) {
    return std::nullopt;
  }
  place->from += static_cast<std::size_t>((*from)[0]);
  return place;
}

UNITY_INLINE std::optional<attribute> size_reader::number_of(const compiled_expression& e) {
  if (e.kind == compiled_expression::form::literal) {
    return e.literal;
  }
  if (e.kind != compiled_expression::form::list) {
    return std::nullopt;
  }
  attribute all;
  for (const auto& a : e.arguments) {
    if (a.kind != compiled_expression::form::literal) {
      return std::nullopt;
    }
    all.append(a.literal.begin(), a.literal.end());
  }
  return all;
}

UNITY_INLINE std::vector<shape> stated_shapes(const algebra& a, const substitution& s) {
  std::vector<shape> all;
  for (const auto* side : {&s.source, &s.target}) {
    for (const auto& n : side->nodes) {
      for (const auto& [field, written] : ranges::views::zip(a.definition_of(n.kind).fields, n.attributes)) {
        const bool states = field.signature.name == "dims" && written.kind == pattern_attribute::form::value;
        const auto dims = states ? size_reader::number_of(written.value) : std::nullopt;
        if (dims && !dims->empty() && checked_element_count(*dims)) {
          all.emplace_back(std::span<const std::int64_t>{*dims});
        }
      }
    }
  }
  return all;
}

UNITY_INLINE void fix_sizes(const std::vector<fixed_sizes>& fixed, std::size_t variable, shape& dims) {
  for (const auto& f : fixed) {
    if (f.variable == variable && f.scalar) {
      dims.clear();
    }
    if (f.variable == variable && f.from <= dims.size() && f.sizes.size() <= dims.size() - f.from) {
      for (std::size_t i = 0; i < f.sizes.size(); ++i) {
        dims[f.from + i] = f.sizes[i];
      }
    }
  }
}

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
    const bool is_usual_element = is_element_type(a) && chance(50);  // so that operands fit together
    return {is_usual_element ? 0 : random_.between(0, static_cast<size>(a.choices.size()) - 1)};
  }
  if (a.form == attribute_form::real) {
    static constexpr std::array<double, 7> usual{0.0, 0.5, 1.0, 1e-3, 2.0, -0.5, -2.0};
    const auto& among = reals_.empty() ? std::span<const double>{usual} : reals_;
    const auto value = among[random_.below(among.size())];
    return real_attribute(reals_.empty() && !is_usual(a, value) ? -value : value);
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
