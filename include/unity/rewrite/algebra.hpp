// What a node means. Graphs, rewriting and search are generic over an algebra.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/rewrite/attribute.hpp>

namespace unity {

template <class T>
concept hashable = requires(const T& x) {
  { std::hash<T>{}(x) } -> std::convertible_to<std::size_t>;
};

template <class A>
concept has_operators = std::regular<typename A::op_type> && hashable<typename A::op_type>;
template <class A>
concept has_value_types = std::regular<typename A::value_type> && hashable<typename A::value_type>;
template <class A>
concept has_inference = requires(const A& a, const typename A::op_type& op,
                                 std::span<const typename A::value_type> inputs) {
  { a.infer(op, inputs) } -> std::same_as<std::optional<std::vector<typename A::value_type>>>;
};

// Operators and the types of what they compute.
//   op_type      a regular, hashable operator with all its parameters; equal operators compute the same
//   value_type   what an edge carries (a shape, a schema, a bit)
//   infer(op, inputs)  the types of the results, or nothing if the operator does not take such inputs
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

// Whether attributes of this form are a list of one.
[[nodiscard]] constexpr bool is_single(attribute_form f) noexcept {
  return f == attribute_form::integer || f == attribute_form::real || f == attribute_form::choice;
}

struct attribute_signature {
  std::string name;
  attribute_form form = attribute_form::integer;
  std::vector<std::string> choices{};  // for attribute_form::choice, in order of value
  attribute default_value{};           // used where rule text leaves the attribute of a new operator out
};

// One kind of operator as rules see it. An operator with its attributes is one op_type.
struct op_signature {
  static constexpr int any = -1;

  std::string name;
  int operands = 0;  // exact number, or `any`
  int results = 1;   // exact number, or `any`
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
concept has_attributes = requires(const A& a, const typename A::op_type& op, kind_id kind,
                                  std::span<const attribute> values) {
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

// Of an algebra that says how many arguments of a measure follow the value: a rule that gives another number of them is
// refused rather than one that never applies.
template <class A>
concept has_measure_arguments = requires(const A& a, int measure) {
  { a.measure_arguments(measure) } -> std::same_as<std::size_t>;
};

// Of an algebra with facts that belong to no value, such as how many devices there are: rules read them as name().
//   constant(name)   nothing for a name that is none
// Law: a constant is one as long as the algebra lives; rules are compiled with its value.
template <class A>
concept has_constants = requires(const A& a, std::string_view name) {
  { a.constant(name) } -> std::same_as<std::optional<attribute>>;
};

// What rules need on top: operators taken apart into kind and attributes, and put together again.
//   kind_count(), find_kind(name), signature(kind)   the kinds, dense from 0
//   kind_of(op), attributes_of(op)                   one attribute per attribute of the signature, in order
//   make(kind, attributes)                           the operator, or nothing where the attributes are bad
//   find_measure(name), measure(m, type, arguments)  named facts about a value for rule expressions:
//                                                    size(?x, 1), rank(?x); nothing where there is none
// Law: make(kind_of(op), attributes_of(op)) == op.
template <class A>
concept pattern_algebra = algebra<A> && has_signatures<A> && has_attributes<A> && has_measures<A>;

struct work {
  flops operations{};
  bytes moved{};
};

// work(op, inputs, outputs): floating-point operations, and bytes read and written at least once.
template <class A>
concept costed_algebra = algebra<A> && requires(const A& a, const typename A::op_type& op,
                                                std::span<const typename A::value_type> inputs,
                                                std::span<const typename A::value_type> outputs) {
  { a.work(op, inputs, outputs) } -> std::same_as<work>;
};

// Equivalent operators that place or lay out their results differently: a move is a match and such a choice.
//   variants(op, inputs)   operators other than op whose results equal op's in all but layout
template <class A>
concept layout_algebra = algebra<A> && requires(const A& a, const typename A::op_type& op,
                                                std::span<const typename A::value_type> inputs) {
  { a.variants(op, inputs) } -> std::same_as<std::vector<typename A::op_type>>;
};

}  // namespace unity
