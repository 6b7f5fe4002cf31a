// The shapes of each variable of a substitution in exhaustive instances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/verification/completions.hpp>

namespace unity::tensor::detail {

// Indexed by variable, rank and dimension.
using dimension_flags = std::vector<std::vector<std::vector<bool>>>;

// Dimensions start narrow, with sizes 1 and 2, unless the substitution names their size. A widened dimension has all
// sizes up to the bound. If `...` stands for more than two terms, all sizes are 1 and 2.
class size_menus {
 public:
  size_menus(const algebra& a, const substitution& s, const instance_bounds& b);

  // The dimensions whose sizes conditions or attributes distinguish.
  [[nodiscard]] const dimension_flags& named() const { return named_; }
  [[nodiscard]] const std::vector<shape>& of(std::size_t variable, std::size_t repetitions) const {
    return repetitions > 2 ? small_[variable] : menus_[variable];
  }
  [[nodiscard]] bool wide(std::size_t variable, std::size_t rank, std::size_t dimension) const {
    return wide_[variable][rank][dimension];
  }
  void widen(std::size_t variable, std::size_t rank, std::size_t dimension) {
    wide_[variable][rank][dimension] = true;
    fill(variable);
  }

 private:
  // Names sizes in conditions other than equations of sizes. Equations hold for 2 if they hold for 3; other conditions
  // may not.
  void name_compared(const expression& c);
  [[nodiscard]] bool is_list_of_sizes(const expression& e) const;
  // Names all sizes that an expression reads.
  void name_measured(const expression& e);

  void fill(std::size_t v);
  // Whether the conditions on this variable alone hold.
  [[nodiscard]] bool allowed(std::size_t v, const shape& s) const;
  [[nodiscard]] static bool is_about(const expression& e, std::size_t v);

  const algebra& algebra_;
  const substitution& s_;
  instance_bounds bounds_;
  dimension_flags named_;
  dimension_flags wide_{};
  std::vector<std::vector<shape>> menus_;  // by variable
  std::vector<std::vector<shape>> small_;  // with sizes 1 and 2
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_SIZE_MENUS)

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/rules/instance.hpp>

namespace unity::tensor::detail {

UNITY_INLINE size_menus::size_menus(const algebra& a, const substitution& s, const instance_bounds& b)
    : algebra_{a}, s_{s}, bounds_{b}, named_(s.variables) {
  for (auto& by_rank : named_) {
    for (std::size_t rank = 0; rank <= b.rank; ++rank) {
      by_rank.emplace_back(rank, false);
    }
  }
  for (const auto& c : s.conditions) {
    name_compared(c);
  }
  for (const auto* side : {&s.source, &s.target}) {
    for (const auto& n : side->nodes) {
      for (const auto& attribute : n.attributes) {
        name_measured(attribute.value);
      }
    }
  }
  wide_ = named_;
  menus_.resize(s.variables);
  small_.resize(s.variables);
  for (std::size_t v = 0; v < s.variables; ++v) {
    fill(v);
  }
}

UNITY_INLINE void size_menus::name_compared(const expression& c) {
  const bool joins =
      c.kind == expression::form::call && (c.callee == function::logical_and || c.callee == function::logical_or);
  if (joins) {
    name_compared(c.arguments[0]);
    name_compared(c.arguments[1]);
  } else if (c.kind != expression::form::call || c.callee != function::equal || !is_list_of_sizes(c.arguments[0]) ||
             !is_list_of_sizes(c.arguments[1])) {
    name_measured(c);
  }
}

UNITY_INLINE bool size_menus::is_list_of_sizes(const expression& e) const {
  constexpr std::array moves{function::prefix, function::suffix, function::replace, function::remove,
                             function::insert, function::concat, function::at,      function::repeat};
  const bool moved = e.kind != expression::form::call || std::find(moves.begin(), moves.end(), e.callee) != moves.end();
  const bool small = std::all_of(e.literal.begin(), e.literal.end(), [](auto n) { return n <= 2; });
  // Arguments of a measure and positions that cut a list are numbers of dimensions and may be computed.
  return e.kind == expression::form::measure ||
         (moved && small && (e.kind != expression::form::call || is_list_of_sizes(e.arguments[0])) &&
          (e.kind == expression::form::call ||
           std::all_of(e.arguments.begin(), e.arguments.end(), [&](const auto& a) { return is_list_of_sizes(a); })));
}

UNITY_INLINE void size_menus::name_measured(const expression& e) {
  const auto is = [&](const char* name) { return std::optional{e.measure} == algebra_.find_measure(name); };
  if (e.kind == expression::form::measure && (is("size") || is("shape"))) {
    const bool one = is("size") && e.arguments.size() == 1 && e.arguments[0].literal.size() == 1;
    for (std::size_t rank = 0; rank <= bounds_.rank; ++rank) {
      for (std::size_t d = 0; d < rank; ++d) {
        const auto number = static_cast<std::int64_t>(d);
        const auto asked = one ? e.arguments[0].literal[0] : number;
        named_[e.slot][rank][d] =
            named_[e.slot][rank][d] || asked == number || asked == number - static_cast<std::int64_t>(rank);
      }
    }
  }
  for (const auto& a : e.arguments) {
    name_measured(a);
  }
}

UNITY_INLINE void size_menus::fill(std::size_t v) {
  menus_[v].clear();
  small_[v].clear();
  for (const auto& s : all_shapes(bounds_)) {
    bool listed = true;
    for (std::size_t d = 0; listed && d < s.size(); ++d) {
      listed = s[d] <= 2 || wide_[v][s.size()][d];
    }
    if (listed && allowed(v, s)) {
      menus_[v].push_back(s);
      if (std::all_of(s.begin(), s.end(), [](auto d) { return d <= 2; })) {
        small_[v].push_back(s);
      }
    }
  }
}

UNITY_INLINE bool size_menus::allowed(std::size_t v, const shape& s) const {
  rule_instance alone;
  alone.values.resize(s_.variables);
  alone.values[v] = {tensor_type{dtype::float32, layout::row_major, false, s}};
  const instance_environment env{algebra_, alone};
  return std::all_of(s_.conditions.begin(), s_.conditions.end(), [&](const expression& c) {
    const auto value = is_about(c, v) ? evaluate(c, env, 0) : attribute{1};
    return value && unity::detail::truth(*value);
  });
}

UNITY_INLINE bool size_menus::is_about(const expression& e, std::size_t v) {
  const bool other = e.kind == expression::form::attribute_variable || e.kind == expression::form::pack ||
                     (e.kind == expression::form::measure && e.slot != v);
  return !other && std::all_of(e.arguments.begin(), e.arguments.end(), [&](const auto& a) { return is_about(a, v); });
}

}  // namespace unity::tensor::detail

#endif
