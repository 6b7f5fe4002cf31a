// The meaning of nodes. Graphs, rewriting and search are generic over an algebra.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>

namespace unity {

// A list of integers: a scalar is a list of one, a word (a name) is the list of its bytes, a real number is the bits of
// its double. The signature of the operator says which (attribute_form).
using attribute = small_vector<std::int64_t, 4>;
using attribute_list = std::vector<attribute>;

[[nodiscard]] std::uint64_t hash_value(std::span<const std::int64_t> a) noexcept;

template <class T>
concept hashable = requires(const T& x) {
  { std::hash<T>{}(x) } -> std::convertible_to<std::size_t>;
};

template <class A>
concept has_operators = std::regular<typename A::op_type> && hashable<typename A::op_type>;
template <class A>
concept has_value_types = std::regular<typename A::value_type> && hashable<typename A::value_type>;
template <class A>
concept has_inference =
    requires(const A& a, const typename A::op_type& op, std::span<const typename A::value_type> inputs) {
      { a.infer(op, inputs) } -> std::same_as<std::optional<std::vector<typename A::value_type>>>;
    };

// Operators and the types of their results.
//   op_type      a regular, hashable operator with all its parameters; equal operators compute the same
//   value_type   what an edge carries (a shape, a schema, a bit)
//   infer(op, inputs)  the types of the results, or nothing if the operator does not accept such inputs
// Laws: infer is a pure function. The hash of an op_type is the same in every process.
template <class A>
concept algebra = has_operators<A> && has_value_types<A> && has_inference<A>;

// How an attribute is written in rule text and printed.
enum class attribute_form : std::uint8_t {
  integer,   // axis=1
  integers,  // sizes=[2, 3]
  real,      // epsilon=1e-05   (bits of a double)
  word,      // name="x"        (bytes)
  choice,    // padding=same    (index into attribute_signature::choices)
};

// Whether an attribute of this form is a list of one element.
[[nodiscard]] constexpr bool is_single(attribute_form f) noexcept {
  return f == attribute_form::integer || f == attribute_form::real || f == attribute_form::choice;
}

struct attribute_signature {
  std::string name;
  attribute_form form = attribute_form::integer;
  std::vector<std::string> choices{};  // for attribute_form::choice, in order of value
  attribute default_value{};           // for new operators, if the rule text omits the attribute
};

// How many operands an operator takes: an exact number, any number, or a range.
struct operand_count {
  static constexpr int unlimited = std::numeric_limits<int>::max();

  int least = 0;
  int most = 0;

  constexpr operand_count() noexcept = default;
  // An exact number, or any if it is negative.
  constexpr operand_count(int n) noexcept : least{n < 0 ? 0 : n}, most{n < 0 ? unlimited : n} {}
  constexpr operand_count(int lowest, int highest) noexcept : least{lowest}, most{highest} {}

  [[nodiscard]] constexpr bool accepts(std::size_t count) const noexcept {
    return count >= static_cast<std::size_t>(least) && count <= static_cast<std::size_t>(most);
  }
  friend constexpr bool operator==(const operand_count&, const operand_count&) = default;
};

// "2", "2 to 3", "1 or more".
[[nodiscard]] std::string to_string(const operand_count& c);

// One kind of operator as rules see it. An operator together with its attributes is one op_type.
struct op_signature {
  static constexpr int any = -1;

  std::string name;
  operand_count operands{};  // `any` for any number
  int results = 1;           // exact number, or `any`
  bool commutative = false;  // of two operands: matching tries both orders
  std::vector<attribute_signature> attributes{};
};

template <class A>
concept has_signatures = requires(const A& a, kind_id kind, std::string_view name) {
  { a.kind_count() } -> std::convertible_to<std::size_t>;
  { a.find_kind(name) } -> std::same_as<std::optional<kind_id>>;
  { a.signature(kind) } -> std::convertible_to<const op_signature&>;
};
template <class A>
concept has_attributes =
    requires(const A& a, const typename A::op_type& op, kind_id kind, std::span<const attribute> values) {
      { a.kind_of(op) } -> std::same_as<kind_id>;
      { a.attributes_of(op) } -> std::same_as<attribute_list>;
      { a.make(kind, values) } -> std::same_as<std::optional<typename A::op_type>>;
    };
template <class A>
concept has_measures = requires(const A& a, std::string_view name, int measure, const typename A::value_type& type,
                                std::span<const std::int64_t> arguments) {
  { a.find_measure(name) } -> std::same_as<std::optional<int>>;
  { a.measure(measure, type, arguments) } -> std::same_as<std::optional<attribute>>;
};

// For an algebra that states how many arguments of a measure follow the value: a rule with another number is refused,
// instead of never matching.
template <class A>
concept has_measure_arguments = requires(const A& a, int measure) {
  { a.measure_arguments(measure) } -> std::same_as<std::size_t>;
};

// For an algebra with facts that do not belong to a value, such as the number of devices: rules read them as name().
//   constant(name)   the value, or nothing for an unknown name
// Law: a constant does not change during the lifetime of the algebra; rules are compiled with its value.
template <class A>
concept has_constants = requires(const A& a, std::string_view name) {
  { a.constant(name) } -> std::same_as<std::optional<attribute>>;
};

// For an algebra with rules that hold in one use alone, such as inference: rules say so as `safe name`.
//   uses()   the names that rules may use; a rule with another name is refused
template <class A>
concept has_uses = requires(const A& a) {
  { a.uses() } -> std::convertible_to<std::span<const std::string_view>>;
};

// What rules need in addition: taking operators apart into kind and attributes, and putting them together again.
//   kind_count(), find_kind(name), signature(kind)   the kinds, dense from 0
//   kind_of(op), attributes_of(op)                   one attribute per attribute of the signature, in order
//   make(kind, attributes)                           the operator, or nothing if the attributes are invalid
//   find_measure(name), measure(m, type, arguments)  named facts about a value for rule expressions:
//                                                    size(?x, 1), rank(?x); nothing if it has none
// Law: make(kind_of(op), attributes_of(op)) == op.
template <class A>
concept pattern_algebra = algebra<A> && has_signatures<A> && has_attributes<A> && has_measures<A>;

struct operator_work {
  flops operations{};
  bytes moved{};
};

// work(op, inputs, outputs): floating-point operations, and bytes read and written at least once.
template <class A>
concept costed_algebra =
    algebra<A> && requires(const A& a, const typename A::op_type& op, std::span<const typename A::value_type> inputs,
                           std::span<const typename A::value_type> outputs) {
  { a.work(op, inputs, outputs) } -> std::same_as<operator_work>;
    };

// For an algebra whose operators have variants, such as a product that writes its result in another layout. A move of a
// search is then a match together with a choice of variants.
//   variants(op, inputs)   operators other than op with the same results up to how values are stored, which types state
template <class A>
concept variant_algebra =
    algebra<A> && requires(const A& a, const typename A::op_type& op, std::span<const typename A::value_type> inputs) {
      { a.variants(op, inputs) } -> std::same_as<std::vector<typename A::op_type>>;
    };

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_ALGEBRA)

#include <fmt/core.h>

#include <unity/core/hash.hpp>

namespace unity {

UNITY_INLINE std::string to_string(const operand_count& c) {
  if (c.most == operand_count::unlimited) {
    return c.least == 0 ? "any number" : fmt::format("{} or more", c.least);
  }
  return c.least == c.most ? fmt::format("{}", c.least) : fmt::format("{} to {}", c.least, c.most);
}

UNITY_INLINE std::uint64_t hash_value(std::span<const std::int64_t> a) noexcept {
  std::uint64_t h = a.size();
  for (const auto i : a) {
    h = hash_combine(h, static_cast<std::uint64_t>(i));
  }
  return h;
}

}  // namespace unity

#endif
