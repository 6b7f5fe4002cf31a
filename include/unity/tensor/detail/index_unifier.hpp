// Finds which indices of several operators are equal, and splits them where a reshape merges or splits dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/tensor/detail/index_types.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

// How operators use an index.
struct index_uses {
  bool whole = false;
  bool statistic = false;
  bool summed = false;     // results without the index are sums over it
  bool collapsed = false;  // results without the index are other reductions

  index_uses& operator|=(const index_uses& o) noexcept;
  [[nodiscard]] index_kind kind(bool in_results) const noexcept;
};

// A forest of indices: an index that turned out equal to another, or to a product of two, points to it.
class index_unifier {
 public:
  using atom = std::size_t;
  using list = std::vector<atom>;  // from outer to inner

  atom make(const char* name, std::int64_t size, index_uses uses = {}) {
    atoms_.push_back({name, size, uses, {}});
    return atoms_.size() - 1;
  }

  // The list expanded to its current leaves.
  [[nodiscard]] list leaves(std::span<const atom> atoms) const;

  void mark(std::span<const atom> atoms, index_uses uses);

  // Both lists enumerate the same elements in the same order. Unifies their common refinement; indices without one
  // become whole.
  void unify(std::span<const atom> a, std::span<const atom> b);

  // The structure whose dimensions consist of the lists.
  [[nodiscard]] index_structure finish(const std::vector<std::vector<list>>& operands,
                                       const std::vector<std::vector<list>>& results) const;

 private:
  struct node {
    const char* name;
    std::int64_t size;
    index_uses uses;
    list parts;  // its parts, if it is not a leaf
  };

  void collect(atom a, list& found) const;

  // Splits off the outer part, of size `common`, of the leaf at `i`.
  atom head(list& leaves, std::size_t i, std::int64_t common);

  void merge(atom a, atom b);

  // Advances to where both sides have passed equally many elements.
  void skip(const list& left, std::size_t& l, const list& right, std::size_t& r);

  [[nodiscard]] tensor_indices number(const std::vector<list>& dims, bool in_results,
                                      std::vector<std::optional<std::size_t>>& numbers, index_structure& out) const;

  std::vector<node> atoms_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_INDEX_UNIFIER)

#include <numeric>

#include <unity/core/config.hpp>

namespace unity::tensor::detail {

UNITY_INLINE index_uses& index_uses::operator|=(const index_uses& o) noexcept {
  whole = whole || o.whole;
  statistic = statistic || o.statistic;
  summed = summed || o.summed;
  collapsed = collapsed || o.collapsed;
  return *this;
}

UNITY_INLINE index_kind index_uses::kind(bool in_results) const noexcept {
  const bool reduces = summed || collapsed;
  if (whole || (collapsed && !in_results && !statistic)) {
    return index_kind::whole;
  }
  if (statistic || (reduces && in_results)) {
    return index_kind::statistic;
  }
  return summed ? index_kind::reduction : index_kind::parallel;
}

UNITY_INLINE auto index_unifier::leaves(std::span<const atom> atoms) const -> list {
  list found;
  for (const auto a : atoms) {
    collect(a, found);
  }
  return found;
}

UNITY_INLINE void index_unifier::mark(std::span<const atom> atoms, index_uses uses) {
  for (const auto a : leaves(atoms)) {
    atoms_[a].uses |= uses;
  }
}

UNITY_INLINE void index_unifier::unify(std::span<const atom> a, std::span<const atom> b) {
  list left = leaves(a);
  list right = leaves(b);
  std::size_t l = 0;
  std::size_t r = 0;
  while (l < left.size() && r < right.size()) {
    const auto x = atoms_[left[l]].size;
    const auto y = atoms_[right[r]].size;
    const auto common = std::gcd(x, y);
    if (x != y && (x == 1 || y == 1)) {
      ++(x == 1 ? l : r);
    } else if (common == 1 && x != 1) {
      skip(left, l, right, r);
    } else {
      merge(head(left, l, common), head(right, r, common));
      left = leaves(std::span{left}.subspan(l + 1));
      right = leaves(std::span{right}.subspan(r + 1));
      l = r = 0;
    }
  }
}

UNITY_INLINE index_structure index_unifier::finish(const std::vector<std::vector<list>>& operands,
                                                   const std::vector<std::vector<list>>& results) const {
  index_structure out;
  std::vector<std::optional<std::size_t>> numbers(atoms_.size());
  for (const auto& tensor : results) {
    out.results.push_back(number(tensor, true, numbers, out));
  }
  for (const auto& tensor : operands) {
    out.operands.push_back(number(tensor, false, numbers, out));
  }
  return out;
}

UNITY_INLINE void index_unifier::collect(atom a, list& found) const {
  if (atoms_[a].parts.empty()) {
    found.push_back(a);
  }
  for (const auto part : atoms_[a].parts) {
    collect(part, found);
  }
}

UNITY_INLINE auto index_unifier::head(list& leaves, std::size_t i, std::int64_t common) -> atom {
  const auto a = leaves[i];
  const auto whole = atoms_[a];
  if (whole.size == common) {
    return a;
  }
  const auto outer = make(whole.name, common, whole.uses);
  const auto inner = make(whole.name, whole.size / common, whole.uses);
  atoms_[a].parts = {outer, inner};
  leaves[i] = outer;
  leaves.insert(leaves.begin() + static_cast<std::ptrdiff_t>(i) + 1, inner);
  return outer;
}

UNITY_INLINE void index_unifier::merge(atom a, atom b) {
  if (a != b) {
    atoms_[a].uses |= atoms_[b].uses;
    atoms_[b].parts = {a};
  }
}

UNITY_INLINE void index_unifier::skip(const list& left, std::size_t& l, const list& right, std::size_t& r) {
  std::int64_t passed_left = 1;
  std::int64_t passed_right = 1;
  do {
    const bool is_left = passed_left <= passed_right;
    const auto a = is_left ? left[l++] : right[r++];
    atoms_[a].uses.whole = true;
    (is_left ? passed_left : passed_right) *= atoms_[a].size;
  } while (passed_left != passed_right);
}

UNITY_INLINE tensor_indices index_unifier::number(const std::vector<list>& dims, bool in_results,
                                                  std::vector<std::optional<std::size_t>>& numbers,
                                                  index_structure& out) const {
  tensor_indices result;
  for (const auto& dim : dims) {
    auto& d = result.emplace_back();
    for (const auto a : leaves(dim)) {
      if (!numbers[a]) {
        numbers[a] = out.indices.size();
        out.indices.push_back({atoms_[a].name, atoms_[a].uses.kind(in_results), atoms_[a].size});
      }
      d.indices.push_back(*numbers[a]);
    }
  }
  return result;
}

}  // namespace unity::tensor::detail

#endif
