// A stable sort of vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace unity {

// Equivalent elements keep their order. std::stable_sort of libstdc++ 12 allocates by a deprecated function, for which
// clang warns at each instantiation.
// Complexity: n log n; an index and a second vector.
template <class T, class Less>
void stable_sort(std::vector<T>& all, const Less& less) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return less(all[a], all[b]) || (!less(all[b], all[a]) && a < b);
  });
  std::vector<T> sorted;
  sorted.reserve(all.size());
  for (const auto i : order) {
    sorted.push_back(std::move(all[i]));
  }
  all = std::move(sorted);
}

}  // namespace unity
