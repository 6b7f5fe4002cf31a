// Lookup of rows by number.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/broadcasting.hpp>

namespace unity::tensor::operators {

// Shapes: table[v, e...], ids[...] -> [..., e...]. A row that the table does not have is zero.
// Stated as a product with the one-hot rows of ids, which evaluation does not form.
[[nodiscard]] inline definition embedding() {
  const auto iteration = [](space& s, const attribute_reader&) {
    s.allow_mixed_elements();
    if (!s.require_floating() || !s.require(is_integral(s.inputs()[1].element), "integers", 1) ||
        !s.require(s.rank(0) >= 1, "an operand of rank 1 or more", 0)) {
      return;
    }
    accesses table{s.reduced("v")};
    accesses ids;
    accesses result;
    for (std::size_t d = 0; d < s.rank(1); ++d) {
      ids.push_back(s.parallel("i"));
      result.push_back(ids.back());
    }
    for (std::size_t d = 1; d < s.rank(0); ++d) {
      table.push_back(s.parallel("e"));
      result.push_back(table.back());
    }
    s.read(table);
    s.read(ids);
    s.write(result);
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(1), coordinate(0)) * x(0));
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    return std::vector{
        b.add("embedding_gradient", {p.operand(1), p.cotangents[0]}, {{"rows", p.inputs[0].dims[0]}}), value_id{}};
  };
  return define("embedding", 2, 1, {}, primitive{iteration, kernel}).with_adjoint(adjoint);
}

// Shapes: ids[...], cotangent[..., e...] -> table[rows, e...]: each row is the sum of those that its number stands for.
[[nodiscard]] inline definition embedding_gradient() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    s.allow_mixed_elements();
    if (!s.require(is_integral(s.inputs()[0].element), "integers", 0) ||
        !s.require(is_floating(s.inputs()[1].element), "floating-point elements", 1) ||
        !s.require(s.rank(1) >= s.rank(0), "a dimension per dimension of the ids", 1) ||
        !s.require(a.integer("rows") > 0 && a.integer("rows") <= max_elements, "a positive number of rows")) {
      return;
    }
    accesses table{s.parallel("v", a.integer("rows"))};
    accesses ids;
    accesses cotangent;
    for (std::size_t d = 0; d < s.rank(0); ++d) {
      ids.push_back(s.reduced("i"));
      cotangent.push_back(ids.back());
    }
    for (std::size_t d = s.rank(0); d < s.rank(1); ++d) {
      table.push_back(s.parallel("e"));
      cotangent.push_back(table.back());
    }
    s.read(ids);
    s.read(cotangent);
    s.write(table, s.inputs()[1].element);
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(0), coordinate(0)) * x(1));
  };
  return define("embedding_gradient", 2, 1, {integer_field("rows")}, primitive{iteration, kernel});
}

[[nodiscard]] inline std::vector<definition> lookups() { return {embedding()}; }
[[nodiscard]] inline std::vector<definition> lookup_gradients() { return {embedding_gradient()}; }

}  // namespace unity::tensor::operators
