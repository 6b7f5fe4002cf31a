// Checks whether an algebra obeys the laws that rewriting relies on, for given operators. For tests of an algebra.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity {

// An operator, and types of operands that it may accept or refuse.
template <algebra A>
struct operator_sample {
  typename A::op_type op;
  std::vector<typename A::value_type> inputs{};
};

namespace detail {

template <pattern_algebra A>
[[nodiscard]] std::optional<error> broken_signature(const A& a) {
  for (std::size_t k = 0; k < a.kind_count(); ++k) {
    const op_signature& s = a.signature(kind_id{k});
    const auto where = fmt::format("kind {} ('{}')", k, s.name);
    if (a.find_kind(s.name) != std::optional{kind_id{k}}) {
      return error{where, "find_kind() of its name is another", "names of their own"};
    }
    if (s.commutative && s.operands != 2) {
      return error{where, fmt::format("commutative, of {} operands", s.operands), "two"};
    }
    for (const auto& field : s.attributes) {
      const auto same = [&](const attribute_signature& other) { return other.name == field.name; };
      if (std::count_if(s.attributes.begin(), s.attributes.end(), same) != 1) {
        return error{where, fmt::format("two attributes '{}'", field.name), "names of their own"};
      }
    }
  }
  return std::nullopt;
}

template <pattern_algebra A>
[[nodiscard]] std::optional<error> broken_by(const A& a, const operator_sample<A>& sample, std::size_t number) {
  const auto& op = sample.op;
  const kind_id kind = a.kind_of(op);
  const auto unnamed = fmt::format("sample {}", number);
  if (!kind.valid() || kind.index() >= a.kind_count()) {
    return error{unnamed, "kind_of() is no kind", fmt::format("one of {}", a.kind_count())};
  }
  const op_signature& s = a.signature(kind);
  const auto where = fmt::format("{} ('{}')", unnamed, s.name);
  const auto attributes = a.attributes_of(op);
  if (attributes.size() != s.attributes.size()) {
    return error{where, fmt::format("{} attributes", attributes.size()),
                 fmt::format("{}, as its signature has", s.attributes.size())};
  }
  const std::optional<typename A::op_type> again = a.make(kind, attributes);
  if (again != std::optional{op}) {
    return error{where,
                 again ? "make() of its kind and attributes is another operator" : "make() refuses its attributes",
                 "the operator itself"};
  }
  const std::hash<typename A::op_type> hash;
  if (hash(*again) != hash(op)) {
    return error{where, "an equal operator with another hash", "equal hashes"};
  }
  const auto results = a.infer(op, sample.inputs);
  if (results != a.infer(op, sample.inputs)) {
    return error{where, "infer() gives something else the second time", "a pure function"};
  }
  if (!results) {
    return std::nullopt;
  }
  if (s.operands != op_signature::any && static_cast<std::size_t>(s.operands) != sample.inputs.size()) {
    return error{where, fmt::format("infer() takes {} operands", sample.inputs.size()),
                 fmt::format("{}, as its signature has", s.operands)};
  }
  if (s.results != op_signature::any && static_cast<std::size_t>(s.results) != results->size()) {
    return error{where, fmt::format("infer() gives {} results", results->size()),
                 fmt::format("{}, as its signature has", s.results)};
  }
  if (s.commutative) {
    auto exchanged = sample.inputs;
    std::reverse(exchanged.begin(), exchanged.end());
    if (a.infer(op, exchanged) != results) {
      return error{where, "infer() gives something else for operands in the other order",
                   "the same: it is commutative"};
    }
  }
  return std::nullopt;
}

}  // namespace detail

// Returns the first violated law, of signatures or for a sample; nothing if all hold. Laws: names are unique;
// make(kind_of(op), attributes_of(op)) == op, with the same hash; the number of attributes, operands and results agrees
// with the signature; infer() is a pure function, and independent of operand order for commutative kinds; equal samples
// have equal hashes. Does not check what samples compute: see test_rules (search/test_rules.hpp).
// Complexity: quadratic in the samples.
template <pattern_algebra A>
[[nodiscard]] std::optional<error> check_algebra(const A& a, const std::vector<operator_sample<A>>& samples) {
  if (auto broken = detail::broken_signature(a)) {
    return broken;
  }
  const std::hash<typename A::op_type> hash;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (auto broken = detail::broken_by(a, samples[i], i)) {
      return broken;
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (samples[k].op == samples[i].op && hash(samples[k].op) != hash(samples[i].op)) {
        return error{fmt::format("samples {} and {}", k, i), "equal operators with different hashes", "equal hashes"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace unity
