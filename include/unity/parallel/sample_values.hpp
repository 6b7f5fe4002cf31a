// Finds the values that have the samples of a batch along their first dimension.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

namespace detail {

// Equivalence classes of dimensions of values that operators run along together.
class joined_dimensions {
 public:
  explicit joined_dimensions(const tensor::tensor_graph& g);

  [[nodiscard]] bool has(value_id v, std::size_t d) const { return first_[v.index()] + d < first_[v.index() + 1]; }
  [[nodiscard]] std::size_t root(value_id v, std::size_t d);
  void join(value_id v, std::size_t d, value_id w, std::size_t e) { roots_[root(v, d)] = root(w, e); }

 private:
  std::vector<std::size_t> first_{};  // by value
  std::vector<std::size_t> roots_{};  // over the dimensions of all values
};

}  // namespace detail

// By value: whether its first dimension is equivalent through operators to that of one of `known`, such as labels.
// Excludes, for example, a mask that happens to have as many rows as there are samples. Complexity: n log n in the
// graph.
[[nodiscard]] std::vector<bool> sample_values(const tensor::tensor_graph& g, const graph_dimensions& all,
                                              std::span<const value_id> known);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_SAMPLE_VALUES)

#include <algorithm>
#include <map>
#include <numeric>

namespace unity::parallel::detail {

UNITY_INLINE joined_dimensions::joined_dimensions(const tensor::tensor_graph& g) {
  std::size_t next = 0;
  for (const auto v : value_ids(g)) {
    first_.push_back(next);
    next += g.type(v).dims.size();
  }
  first_.push_back(next);
  roots_.resize(next);
  std::iota(roots_.begin(), roots_.end(), std::size_t{0});
}

UNITY_INLINE std::size_t joined_dimensions::root(value_id v, std::size_t d) {
  auto at = first_[v.index()] + d;
  while (roots_[at] != at) {
    at = roots_[at] = roots_[roots_[at]];
  }
  return at;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<bool> sample_values(const tensor::tensor_graph& g, const graph_dimensions& all,
                                             std::span<const value_id> known) {
  detail::joined_dimensions joined{g};
  for (const auto n : node_ids(g)) {
    const auto& structure = all[n].structure;
    std::map<std::size_t, std::pair<value_id, std::size_t>> seen;  // by index, where it is the outermost one
    const auto visit = [&](value_id v, const tensor::tensor_indices& dims) {
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (!dims[d].indices.empty()) {
          const auto [at, is_new] = seen.try_emplace(dims[d].indices.front(), v, d);
          if (!is_new) {
            joined.join(v, d, at->second.first, at->second.second);
          }
        }
      }
    };
    const auto operands = g.operands(n);
    const auto results = g.results(n);
    for (std::size_t i = 0; i < structure.operands.size(); ++i) {
      visit(operands[i], structure.operands[i]);
    }
    for (std::size_t r = 0; r < structure.results.size(); ++r) {
      visit(results[r], structure.results[r]);
    }
  }
  std::vector<bool> found(g.value_count());
  std::vector<std::size_t> roots;
  for (const auto v : known) {
    if (joined.has(v, 0)) {
      roots.push_back(joined.root(v, 0));
    }
  }
  std::sort(roots.begin(), roots.end());
  for (std::size_t v = 0; v < found.size(); ++v) {
    found[v] =
        joined.has(value_id{v}, 0) && std::binary_search(roots.begin(), roots.end(), joined.root(value_id{v}, 0));
  }
  return found;
}

}  // namespace unity::parallel

#endif
