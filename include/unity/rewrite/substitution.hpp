// A substitution (rewrite rule): source pattern, target pattern, and conditions; and its attribute expressions,
// resolved to slots and evaluated on a match.
// Source: Jia's dissertation (TASO, 2020), section 2.3.1.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

// Functions that rule text can call. All work on integer lists; arithmetic is element-wise, and a list of one element
// combines with a list of any length. An undefined value (overflow, division by zero, an index out of range) makes the
// rule not apply.
enum class rule_function : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  remainder,
  negate,
  minimum,
  maximum,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_not,
  at,
  length,
  sum,
  product,
  concat,
  prefix,
  suffix,
  insert,
  remove,
  replace,
  compose,
  inverse,
  iota,
  repeat,
  log2,
  shift_left,
  shift_right,
  bit_and,
  bit_or,
  bit_xor,
  bit_count,
};

struct function_signature {
  std::string_view name;
  rule_function function;
  std::size_t arguments;
};

inline constexpr std::array<function_signature, 38> rule_functions{{
    {"+", rule_function::add, 2},
    {"-", rule_function::subtract, 2},
    {"*", rule_function::multiply, 2},
    {"/", rule_function::divide, 2},
    {"%", rule_function::remainder, 2},
    {"-", rule_function::negate, 1},
    {"min", rule_function::minimum, 2},
    {"max", rule_function::maximum, 2},
    {"==", rule_function::equal, 2},
    {"!=", rule_function::unequal, 2},
    {"<", rule_function::less, 2},
    {"<=", rule_function::less_equal, 2},
    {">", rule_function::greater, 2},
    {">=", rule_function::greater_equal, 2},
    {"&&", rule_function::logical_and, 2},
    {"||", rule_function::logical_or, 2},
    {"!", rule_function::logical_not, 1},
    {"at", rule_function::at, 2},          // at(list, i)
    {"length", rule_function::length, 1},  // number of elements
    {"sum", rule_function::sum, 1},
    {"product", rule_function::product, 1},
    {"concat", rule_function::concat, 2},    // one list followed by the other
    {"prefix", rule_function::prefix, 2},    // the first n elements
    {"suffix", rule_function::suffix, 2},    // all but the first n
    {"insert", rule_function::insert, 3},    // insert(list, i, value)
    {"remove", rule_function::remove, 2},    // remove(list, i)
    {"replace", rule_function::replace, 3},  // replace(list, i, value)
    {"compose", rule_function::compose, 2},  // permutation p after q: result[i] = q[p[i]]
    {"inverse", rule_function::inverse, 1},  // of a permutation
    {"iota", rule_function::iota, 1},        // [0, 1, .., n-1]
    {"repeat", rule_function::repeat, 2},    // repeat(value, n)
    {"log2", rule_function::log2, 1},        // rounded down; the argument is at least 1
    {"shift_left", rule_function::shift_left, 2},
    {"shift_right", rule_function::shift_right, 2},  // negative arguments are rounded down
    {"bit_and", rule_function::bit_and, 2},
    {"bit_or", rule_function::bit_or, 2},
    {"bit_xor", rule_function::bit_xor, 2},
    {"bit_count", rule_function::bit_count, 1},  // number of ones; the argument is at least 0
}};

namespace detail {

std::optional<std::int64_t> checked(rule_function f, std::int64_t a, std::int64_t b);
std::optional<std::int64_t> checked_bits(rule_function f, std::int64_t a, std::int64_t b);

std::optional<attribute> element_wise(rule_function f, const attribute& a, const attribute& b);

bool is_permutation_list(const attribute& p);

}  // namespace detail

// The truth of an attribute: whether it has no element 0.
[[nodiscard]] inline bool truth_of(const attribute& a) {
  return std::all_of(a.begin(), a.end(), [](auto x) { return x != 0; });
}

namespace detail {

// Converts `index` to an index into `list`; the end itself is allowed if `inclusive`.
std::optional<std::size_t> position(const attribute& list, const attribute& index, bool inclusive = false);

std::optional<attribute> fold(rule_function f, const attribute& a);

std::optional<attribute> permute(rule_function f, const attribute& p, const attribute& q);

std::optional<attribute> edit_list(rule_function f, const attribute& list, const attribute& index,
                                   const attribute& value);

std::optional<attribute> repeated(std::int64_t first, std::int64_t step, const attribute& count);

}  // namespace detail

// Applies `f` to as many arguments as its signature says. Nothing if the result is undefined.
[[nodiscard]] std::optional<attribute> evaluate_function(rule_function f, std::span<const attribute> a);

// An expression with resolved names: attribute variables and values are slots, measures are numbers.
struct compiled_expression {
  enum class form : std::uint8_t { literal, attribute_variable, measure, call, list, pack };

  form kind = form::literal;
  attribute literal{};
  std::size_t slot = 0;  // of the attribute variable, or of the measured value
  int measure = 0;
  rule_function callee = rule_function::add;
  bool indexed = false;  // depends on the index of the repetition
  std::vector<compiled_expression> arguments{};

  friend bool operator==(const compiled_expression&, const compiled_expression&) = default;
};

// Evaluates under `env`, which supplies
//   env.attribute_at(slot) -> const attribute&
//   env.measure(measure, slot, index, arguments) -> std::optional<attribute>
//   env.repetitions() -> std::size_t
// `index` is the repetition that indexed variables refer to. Nothing if a part has no value.
template <class Environment>
[[nodiscard]] std::optional<attribute> evaluate(const compiled_expression& e, const Environment& env,
                                                std::size_t index = 0) {
  using form = compiled_expression::form;
  if (e.kind == form::literal) {
    return e.literal;
  }
  if (e.kind == form::attribute_variable) {
    return env.attribute_at(e.slot);
  }
  std::vector<attribute> values;
  for (const auto& a : e.arguments) {
    const auto times = a.kind == form::pack ? env.repetitions() : 1;
    for (std::size_t i = 0; i < times; ++i) {
      auto value = a.kind == form::pack ? evaluate(a.arguments[0], env, i) : evaluate(a, env, index);
      if (!value) {
        return std::nullopt;
      }
      values.push_back(*std::move(value));
    }
  }
  if (e.kind == form::call) {
    return evaluate_function(e.callee, values);
  }
  attribute flat;
  for (const auto& v : values) {
    flat.append(v.begin(), v.end());
  }
  return e.kind == form::measure ? env.measure(e.measure, e.slot, index, flat) : std::optional{flat};
}

// An operand of a pattern node or an output of a pattern: the value of a variable or a result of a node.
struct pattern_operand {
  static constexpr std::int32_t each = -1;  // the i-th result in the i-th repetition

  bool is_variable = false;
  std::uint32_t slot = 0;   // index of the variable, or of the node in pattern::nodes
  std::int32_t result = 0;  // of the node
  bool repeated = false;    // stands for one operand per repetition

  friend bool operator==(const pattern_operand&, const pattern_operand&) = default;
};

// How an attribute is matched (source) or built (target).
struct pattern_attribute {
  enum class form : std::uint8_t { any, bind, value };

  form kind = form::value;
  std::size_t slot = 0;         // of the attribute variable that is bound here, or compared if it is bound already
  compiled_expression value{};  // compared (source) or used (target)

  friend bool operator==(const pattern_attribute&, const pattern_attribute&) = default;
};

struct pattern_node {
  kind_id kind{};
  bool commutative = false;
  bool indexed = false;                         // one per repetition
  std::vector<pattern_attribute> attributes{};  // one per attribute of the kind's signature
  std::vector<pattern_operand> operands{};

  friend bool operator==(const pattern_node&, const pattern_node&) = default;
};

// A directed acyclic graph over value variables. Equal subterms are one node; operands come before users.
struct pattern {
  std::vector<pattern_node> nodes{};
  std::vector<pattern_operand> roots{};

  friend bool operator==(const pattern&, const pattern&) = default;
};

// `Attribute`: the type that represents an attribute; its null value is an empty slot.
template <class Attribute>
struct attribute_check {
  std::uint32_t position = 0;
  bool binds = false;
  std::uint32_t slot = 0;  // is bound
  Attribute literal{};     // is compared otherwise
};

// Binds slots, and appends those that were empty to `bound`, even if it fails.
template <class Attribute, class Attributes, class Slots, class Bound>
[[nodiscard]] bool take_attributes(const std::vector<attribute_check<Attribute>>& checks, const Attributes& actual,
                                   Slots& slots, Bound& bound) {
  for (const auto& c : checks) {
    const auto value = actual[c.position];
    if (!c.binds) {
      if (value != c.literal) {
        return false;
      }
    } else if (!slots[c.slot].valid()) {
      slots[c.slot] = value;
      bound.push_back(c.slot);
    } else if (slots[c.slot] != value) {
      return false;
    }
  }
  return true;
}

// One direction of a rule, compiled for an algebra and checked: build one with compile_rule (rewrite/compile.hpp). Root
// i of the source and root i of the target are the same value. Regular.
struct substitution {
  std::string name{};  // of the rule; the second direction of `==` has ".reverse" appended
  pattern source{};
  pattern target{};
  std::vector<compiled_expression> conditions{};  // on values and attributes only: once true, they stay true
  std::size_t variables = 0;                      // number of value variables of the source, including indexed ones
  std::vector<bool> indexed_variables{};
  std::size_t attribute_variables = 0;
  syntax::rule rule{};  // as written

  [[nodiscard]] bool repeats() const noexcept;

  friend bool operator==(const substitution&, const substitution&) = default;
};

using rule_set = std::vector<substitution>;

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_SUBSTITUTION)

#include <bit>
#include <limits>

namespace unity::detail {

UNITY_INLINE std::optional<std::int64_t> checked(rule_function f, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  switch (f) {
    case rule_function::add: return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional{r};
    case rule_function::subtract: return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional{r};
    case rule_function::multiply: return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional{r};
    case rule_function::divide:
    case rule_function::remainder:
      if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) {
        return std::nullopt;
      }
      return f == rule_function::divide ? a / b : a % b;
    case rule_function::minimum: return std::min(a, b);
    case rule_function::maximum: return std::max(a, b);
    case rule_function::less: return a < b;
    case rule_function::less_equal: return a <= b;
    case rule_function::greater: return a > b;
    case rule_function::greater_equal: return a >= b;
    default: return checked_bits(f, a, b);
  }
}

// Functions of one argument ignore `b`.
UNITY_INLINE std::optional<std::int64_t> checked_bits(rule_function f, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most_places = 62;  // 2^62 is the largest power of two that fits
  const auto ones = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  switch (f) {
    case rule_function::log2:
      return a < 1 ? std::nullopt : std::optional<std::int64_t>{static_cast<std::int64_t>(std::bit_width(ones(a))) - 1};
    case rule_function::shift_left:
      return b < 0 || b > most_places ? std::nullopt : checked(rule_function::multiply, a, std::int64_t{1} << b);
    case rule_function::shift_right: return b < 0 || b > most_places ? std::nullopt : std::optional{a >> b};
    case rule_function::bit_and: return a & b;
    case rule_function::bit_or: return a | b;
    case rule_function::bit_xor: return a ^ b;
    case rule_function::bit_count: return a < 0 ? std::nullopt : std::optional<std::int64_t>{std::popcount(ones(a))};
    default: return std::nullopt;
  }
}

UNITY_INLINE std::optional<attribute> element_wise(rule_function f, const attribute& a, const attribute& b) {
  const auto n = a.size() == 1 ? b.size() : a.size();
  if (a.size() != n && a.size() != 1) {
    return std::nullopt;
  }
  if (b.size() != n && b.size() != 1) {
    return std::nullopt;
  }
  attribute r;
  for (std::size_t i = 0; i < n; ++i) {
    const auto element = checked(f, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
    if (!element) {
      return std::nullopt;
    }
    r.push_back(*element);
  }
  return r;
}

UNITY_INLINE bool is_permutation_list(const attribute& p) {
  std::vector<bool> seen(p.size());
  for (const auto i : p) {
    if (i < 0 || static_cast<std::size_t>(i) >= p.size() || seen[static_cast<std::size_t>(i)]) {
      return false;
    }
    seen[static_cast<std::size_t>(i)] = true;
  }
  return true;
}

UNITY_INLINE std::optional<std::size_t> position(const attribute& list, const attribute& index, bool inclusive) {
  if (index.size() != 1 || index[0] < 0 || static_cast<std::size_t>(index[0]) >= list.size() + (inclusive ? 1 : 0)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(index[0]);
}

UNITY_INLINE std::optional<attribute> fold(rule_function f, const attribute& a) {
  std::int64_t r = f == rule_function::sum ? 0 : 1;
  for (const auto x : a) {
    const auto next = checked(f == rule_function::sum ? rule_function::add : rule_function::multiply, r, x);
    if (!next) {
      return std::nullopt;
    }
    r = *next;
  }
  return attribute{r};
}

UNITY_INLINE std::optional<attribute> permute(rule_function f, const attribute& p, const attribute& q) {
  if (!is_permutation_list(p) || !is_permutation_list(q) || p.size() != q.size()) {
    return std::nullopt;
  }
  attribute r(p.size(), 0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (f == rule_function::inverse) {
      r[static_cast<std::size_t>(p[i])] = static_cast<std::int64_t>(i);
    } else {
      r[i] = q[static_cast<std::size_t>(p[i])];
    }
  }
  return r;
}

UNITY_INLINE std::optional<attribute> edit_list(rule_function f, const attribute& list, const attribute& index,
                                                const attribute& value) {
  const auto at =
      position(list, index, f == rule_function::insert || f == rule_function::prefix || f == rule_function::suffix);
  if (!at) {
    return std::nullopt;
  }
  auto r = list;
  const auto where = r.begin() + *at;
  switch (f) {
    case rule_function::at: return attribute{list[*at]};
    case rule_function::prefix: r.resize(*at); return r;
    case rule_function::suffix: return attribute{std::span<const std::int64_t>{where, r.end()}};
    case rule_function::remove: r.erase(where); return r;
    case rule_function::insert:
      if (value.size() != 1) {
        return std::nullopt;
      }
      r.insert(where, value[0]);
      return r;
    default:
      if (value.size() != 1) {
        return std::nullopt;
      }
      *where = value[0];
      return r;
  }
}

UNITY_INLINE std::optional<attribute> repeated(std::int64_t first, std::int64_t step, const attribute& count) {
  constexpr std::int64_t longest = 4096;
  if (count.size() != 1 || count[0] < 0 || count[0] > longest) {
    return std::nullopt;
  }
  attribute r;
  for (std::int64_t i = 0; i < count[0]; ++i) {
    r.push_back(first + step * i);
  }
  return r;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::optional<attribute> evaluate_function(rule_function f, std::span<const attribute> a) {
  switch (f) {
    case rule_function::negate: return detail::element_wise(rule_function::subtract, attribute{0}, a[0]);
    case rule_function::equal: return attribute{a[0] == a[1]};
    case rule_function::unequal: return attribute{!(a[0] == a[1])};
    case rule_function::logical_and: return attribute{truth_of(a[0]) && truth_of(a[1])};
    case rule_function::logical_or: return attribute{truth_of(a[0]) || truth_of(a[1])};
    case rule_function::logical_not: return attribute{!truth_of(a[0])};
    case rule_function::length: return attribute{static_cast<std::int64_t>(a[0].size())};
    case rule_function::sum:
    case rule_function::product: return detail::fold(f, a[0]);
    case rule_function::concat: {
      auto r = a[0];
      r.append(a[1].begin(), a[1].end());
      return r;
    }
    case rule_function::at:
    case rule_function::prefix:
    case rule_function::suffix:
    case rule_function::remove: return detail::edit_list(f, a[0], a[1], {});
    case rule_function::insert:
    case rule_function::replace: return detail::edit_list(f, a[0], a[1], a[2]);
    case rule_function::compose: return detail::permute(f, a[0], a[1]);
    case rule_function::inverse: return detail::permute(f, a[0], a[0]);
    case rule_function::iota: return detail::repeated(0, 1, a[0]);
    case rule_function::repeat: return a[0].size() == 1 ? detail::repeated(a[0][0], 0, a[1]) : std::nullopt;
    case rule_function::log2:
    case rule_function::bit_count: return detail::element_wise(f, a[0], attribute{0});
    default: return detail::element_wise(f, a[0], a[1]);
  }
}

UNITY_INLINE bool substitution::repeats() const noexcept {
  for (const auto& n : source.nodes) {
    if (n.indexed) {
      return true;
    }
    for (const auto& o : n.operands) {
      if (o.repeated) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace unity

#endif
