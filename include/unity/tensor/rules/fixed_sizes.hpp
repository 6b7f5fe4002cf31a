// Sizes that the conditions of a rule fix to numbers, which random guesses seldom hit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/algebra.hpp>
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

 private:
  [[nodiscard]] bool is_size(const expression& e) const {
    return e.kind == expression::form::measure && std::optional{e.measure} == size_ && e.arguments.size() == 1;
  }
  // Variable and dimension; -1 for all dimensions.
  [[nodiscard]] std::optional<std::pair<std::size_t, int>> dimension_of(const expression& e) const;
  void read(const expression& c, std::vector<fixed_sizes>& all) const;
  [[nodiscard]] std::optional<fixed_sizes> place_of(const expression& e) const;
  // A number or a list of numbers.
  [[nodiscard]] static std::optional<attribute> number_of(const expression& e);

  std::optional<int> size_;
  std::optional<int> shape_;
  std::optional<int> rank_;
};

// Sets the fixed sizes in the shape of the variable, for the dimensions that it has.
void fix_sizes(const std::vector<fixed_sizes>& fixed, std::size_t variable, shape& dims);

// The same for sizes of other variables, if known(variable) gives their types.
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

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_FIXED_SIZES)

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
    if (c.kind != expression::form::call || c.callee != function::equal || c.indexed) {
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

UNITY_INLINE std::optional<std::pair<std::size_t, int>> size_reader::dimension_of(const expression& e) const {
  if (e.kind != expression::form::measure) {
    return std::nullopt;
  }
  if (std::optional{e.measure} == shape_) {
    return std::pair{e.slot, -1};
  }
  const auto d = is_size(e) ? number_of(e.arguments[0]) : std::nullopt;
  return d && d->size() == 1 && (*d)[0] >= 0 ? std::optional{std::pair{e.slot, static_cast<int>((*d)[0])}}
                                             : std::nullopt;
}

UNITY_INLINE void size_reader::read(const expression& c, std::vector<fixed_sizes>& all) const {
  if (c.kind != expression::form::call) {
    return;
  }
  if (c.callee == function::logical_and) {
    read(c.arguments[0], all);
    read(c.arguments[1], all);
  }
  if (c.callee != function::equal || c.indexed) {
    return;
  }
  const auto value = number_of(c.arguments[1]);
  const auto& measured = c.arguments[0];
  if (measured.kind == expression::form::measure && std::optional{measured.measure} == rank_ && value == attribute{0}) {
    all.push_back({measured.slot, 0, {}, true});
  }
  if (auto place = place_of(c.arguments[0]); place && value) {
    place->sizes = *value;
    all.push_back(*std::move(place));
  }
}

UNITY_INLINE std::optional<fixed_sizes> size_reader::place_of(const expression& e) const {
  if (e.kind == expression::form::measure && std::optional{e.measure} == shape_) {
    return fixed_sizes{e.slot, 0, {}, false};
  }
  const bool is_suffix = e.kind == expression::form::call && e.callee == function::suffix;
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

UNITY_INLINE std::optional<attribute> size_reader::number_of(const expression& e) {
  if (e.kind == expression::form::literal) {
    return e.literal;
  }
  if (e.kind != expression::form::list) {
    return std::nullopt;
  }
  attribute all;
  for (const auto& a : e.arguments) {
    if (a.kind != expression::form::literal) {
      return std::nullopt;
    }
    all.append(a.literal.begin(), a.literal.end());
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

}  // namespace unity::tensor::detail

#endif
