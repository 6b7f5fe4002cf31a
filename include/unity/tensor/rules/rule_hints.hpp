// What a rule says about its instances: sizes and values that its conditions and attributes name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/instance.hpp>
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

// Instances have up to usual_count dimensions and parts; up to most_count if conditions name such numbers.
inline constexpr std::size_t usual_count = 4;
inline constexpr std::size_t most_count = 8;

// The numbers above usual_count that conditions compare with a rank or a length, and the ones before and after these,
// ascending: a rule may be false beyond the numbers that its conditions exclude.
struct stated_counts {
  stated_counts(const algebra& a, const substitution& s);

  std::vector<std::size_t> ranks{};        // compared with a rank or a length, which may be that of a list of axes
  std::vector<std::size_t> repetitions{};  // compared with a length
};

// Adds the numbers in an expression that can only be reals: interpreted as bits, small integers are denormal.
void collect_reals(const compiled_expression& e, std::vector<double>& reals);

// What a rule says about its instances.
struct rule_hints {
  rule_hints(const algebra& a, const substitution& s, bool reuses_shapes);

  bool chained;                       // instances often repeat shapes of earlier operands and results
  std::vector<double> reals{};        // values for real attributes, if not empty
  std::vector<shape> stated{};        // shapes to draw often
  stated_counts counts;
  std::vector<fixed_sizes> fixed{};
  std::vector<same_size> related{};  // empty unless chained
};

// Whether all values of a side are scalars although no condition asks for that: lists of unknown meaning are drawn
// empty, which often fits scalars alone. Such instances say nothing about the operators.
[[nodiscard]] bool only_scalars(std::span<const fixed_sizes> fixed, const rule_instance& i, const tensor_graph& side);

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

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_RULE_HINTS)

#include <algorithm>
#include <cmath>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/work.hpp>

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

UNITY_INLINE stated_counts::stated_counts(const algebra& a, const substitution& s) {
  const auto is_rank = [rank = a.find_measure("rank")](const compiled_expression& e) {
    return e.kind == compiled_expression::form::measure && std::optional{e.measure} == rank;
  };
  const auto is_length = [](const compiled_expression& e) {
    return e.kind == compiled_expression::form::call && e.callee == rule_function::length;
  };
  const auto contains = [](const compiled_expression& e, const auto& is, const auto& self) -> bool {
    return is(e) || std::any_of(e.arguments.begin(), e.arguments.end(),
                                [&](const compiled_expression& x) { return self(x, is, self); });
  };
  const auto read = [&](const compiled_expression& e, const auto& self) -> void {
    const bool compares = e.kind == compiled_expression::form::call && e.callee >= rule_function::equal &&
                          e.callee <= rule_function::greater_equal;
    const bool counts_parts = compares && contains(e, is_length, contains);
    const bool counts = counts_parts || (compares && contains(e, is_rank, contains));
    for (const auto& x : e.arguments) {
      const bool is_number = x.kind == compiled_expression::form::literal && x.literal.size() == 1;
      for (std::int64_t more = -1; counts && is_number && more <= 1; ++more) {
        const auto n = saturating_add(x.literal[0], more);
        if (n > static_cast<std::int64_t>(usual_count) && n <= static_cast<std::int64_t>(most_count)) {
          ranks.push_back(static_cast<std::size_t>(n));
          repetitions.insert(repetitions.end(), counts_parts ? 1 : 0, static_cast<std::size_t>(n));
        }
      }
      self(x, self);
    }
  };
  for (const auto& c : s.conditions) {
    read(c, read);
  }
  for (auto* all : {&ranks, &repetitions}) {
    std::sort(all->begin(), all->end());
    all->erase(std::unique(all->begin(), all->end()), all->end());
  }
}

UNITY_INLINE void collect_reals(const compiled_expression& e, std::vector<double>& reals) {
  if (e.kind == compiled_expression::form::literal && e.literal.size() == 1 && std::isnormal(to_real(e.literal[0]))) {
    reals.push_back(to_real(e.literal[0]));
  }
  for (const auto& a : e.arguments) {
    collect_reals(a, reals);
  }
}

UNITY_INLINE rule_hints::rule_hints(const algebra& a, const substitution& s, bool reuses_shapes)
    : chained{reuses_shapes}, stated{stated_shapes(a, s)}, counts{a, s}, fixed{size_reader{a}.read(s)} {
  if (chained) {
    related = size_reader{a}.relations(s);
  }
  for (const auto& c : s.conditions) {
    collect_reals(c, reals);
  }
}

UNITY_INLINE bool only_scalars(std::span<const fixed_sizes> fixed, const rule_instance& i, const tensor_graph& side) {
  for (std::size_t v = 0; v < side.value_count(); ++v) {
    if (side.type(value_id{v}).rank() > 0) {
      return false;
    }
  }
  for (std::size_t v = 0; v < i.values.size(); ++v) {
    if (std::none_of(fixed.begin(), fixed.end(), [&](const auto& f) { return f.variable == v && f.scalar; })) {
      return true;
    }
  }
  return false;
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
