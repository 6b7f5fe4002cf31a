// Boxes element by element: slow, and independent of the library's box arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::test {

// How many of the boxes contain each element, in row-major order.
inline std::vector<int> counts(const std::vector<box>& boxes, const tensor::shape& dims) {
  std::vector<int> all(static_cast<std::size_t>(tensor::element_count(dims)), 0);
  for (const auto& b : boxes) {
    for (std::size_t e = 0; e < all.size(); ++e) {
      auto rest = static_cast<std::int64_t>(e);
      bool inside = true;
      for (auto d = dims.size(); d-- > 0;) {
        const auto at = rest % dims[d];
        rest /= dims[d];
        inside = inside && b.begin[d] <= at && at < b.end[d];
      }
      all[e] += inside ? 1 : 0;
    }
  }
  return all;
}

// A random box within the sizes, sometimes empty.
inline box random_box(random_engine& random, const tensor::shape& dims) {
  auto b = whole(dims);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    b.begin[d] = random.between(0, dims[d] - 1);
    b.end[d] = random.between(b.begin[d], dims[d]);
  }
  return b;
}

}  // namespace unity::parallel::test
