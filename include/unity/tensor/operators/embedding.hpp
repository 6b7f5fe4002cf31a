// Lookup of rows by number, and sums of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// The iteration space of a lookup; `bag`: sums over the last dimension of ids.
void iterate_lookup(space& s, bool bag);

// Defined as a product with the one-hot rows of ids, which evaluation does not materialize.
[[nodiscard]] definition lookup(std::string name, bool bag);

// Row numbers outside of the table give zero.
// Shapes: table[v, e...], ids[...] -> [..., e...].
[[nodiscard]] inline definition embedding() { return lookup("embedding", false); }

// The sum of the rows of each bag of s numbers. Row numbers outside of the table give zero.
// Shapes: table[v, e...], ids[b..., s] -> [b..., e...].
// Source: Unity (OSDI 2022) figure 16c.
[[nodiscard]] inline definition embedding_bag() { return lookup("embedding_bag", true); }

// The iteration space of the adjoint of a lookup; `bag`: all numbers of a bag get the cotangent of the bag.
void iterate_lookup_gradient(space& s, std::int64_t rows, bool bag);

[[nodiscard]] definition lookup_gradient(std::string name, bool bag);

// Each row of the result is the sum of the cotangents at its number.
// Shapes: ids[...], cotangent[..., e...] -> table[rows, e...].
[[nodiscard]] inline definition embedding_gradient() { return lookup_gradient("embedding_gradient", false); }

// The same with one cotangent per bag.
// Shapes: ids[b..., s], cotangent[b..., e...] -> table[rows, e...].
[[nodiscard]] inline definition embedding_bag_gradient() { return lookup_gradient("embedding_bag_gradient", true); }

[[nodiscard]] inline std::vector<definition> lookups() { return {embedding()}; }
[[nodiscard]] inline std::vector<definition> bag_lookups() { return {embedding_bag()}; }
[[nodiscard]] inline std::vector<definition> lookup_gradients() { return {embedding_gradient()}; }
[[nodiscard]] inline std::vector<definition> bag_lookup_gradients() { return {embedding_bag_gradient()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_EMBEDDING)

#include <span>

#include <fmt/core.h>

#include <unity/tensor/operators/parts.hpp>

namespace unity::tensor::operators {

UNITY_INLINE void iterate_lookup(space& s, bool bag) {
  const auto least = bag ? std::size_t{1} : std::size_t{0};
  s.allow_mixed_elements();
  if ((bag && !s.require_floating()) || !s.require(is_integral(s.inputs()[1].element), "integers", 1) ||
      !s.require(s.rank(0) >= 1, "rank 1 or more", 0) || !s.require(s.rank(1) >= least, "rank 1 or more", 1)) {
    return;
  }
  accesses table{s.reduced("v")};
  accesses ids;
  accesses result;
  for (std::size_t d = 0; d + least < s.rank(1); ++d) {
    ids.push_back(s.parallel("i"));
    result.push_back(ids.back());
  }
  if (bag) {
    ids.push_back(s.reduced("s"));
  }
  for (std::size_t d = 1; d < s.rank(0); ++d) {
    table.push_back(s.parallel("e"));
    result.push_back(table.back());
  }
  s.read(table);
  s.read(ids);
  s.write(result);
}

UNITY_INLINE definition lookup(std::string name, bool bag) {
  const auto iteration = [bag](space& s, const attribute_reader&) { iterate_lookup(s, bag); };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(1), coordinate(0)) * x(0));
  };
  const auto adjoint = [gradient = fmt::format("{}_gradient", name)](body_builder& b, const attribute_reader&,
                                                                     const adjoint_problem& p) {
    return std::vector{b.add(gradient, {p.operand(1), p.cotangents[0]}, {{"rows", p.inputs[0].dims[0]}}), value_id{}};
  };
  return define(std::move(name), 2, 1, {}, primitive{iteration, kernel})
      .with_adjoint(adjoint)
      .with_elements({dtype::float32, dtype::int64});
}

UNITY_INLINE void iterate_lookup_gradient(space& s, std::int64_t rows, bool bag) {
  const auto least = bag ? std::size_t{1} : std::size_t{0};
  s.allow_mixed_elements();
  if (!s.require(is_integral(s.inputs()[0].element), "integers", 0) ||
      !s.require(is_floating(s.inputs()[1].element), "floating-point elements", 1) ||
      !s.require(s.rank(0) >= least, "rank 1 or more", 0) ||
      !s.require(s.rank(1) + least >= s.rank(0), "a dimension per dimension of the ids", 1) ||
      !s.require(rows > 0 && rows <= max_elements, "a positive number of rows")) {
    return;
  }
  accesses table{s.parallel("v", rows)};
  accesses ids;
  accesses cotangent;
  for (std::size_t d = 0; d + least < s.rank(0); ++d) {
    ids.push_back(s.reduced("i"));
    cotangent.push_back(ids.back());
  }
  if (bag) {
    ids.push_back(s.reduced("s"));
  }
  for (auto d = cotangent.size(); d < s.rank(1); ++d) {
    table.push_back(s.parallel("e"));
    cotangent.push_back(table.back());
  }
  s.read(ids);
  s.read(cotangent);
  s.write(table, s.inputs()[1].element);
}

UNITY_INLINE definition lookup_gradient(std::string name, bool bag) {
  const auto iteration = [bag](space& s, const attribute_reader& a) {
    iterate_lookup_gradient(s, a.integer("rows"), bag);
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(0), coordinate(0)) * x(1));
  };
  return define(std::move(name), 2, 1, {integer_field("rows")}, primitive{iteration, kernel})
      .with_elements({dtype::int64});
}

}  // namespace unity::tensor::operators

#endif
