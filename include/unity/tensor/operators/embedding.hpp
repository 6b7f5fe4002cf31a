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
  return define("embedding", 2, 1, {}, primitive{iteration, kernel});
}

[[nodiscard]] inline std::vector<definition> lookups() { return {embedding()}; }

}  // namespace unity::tensor::operators
