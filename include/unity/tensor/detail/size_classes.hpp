// Related sizes: classes of equal sizes, and which of them are sums or products of others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace unity::tensor::detail {

// Numbers every added size. Equal sizes form a class. A class may be a sum of others (concat, split: parts along an
// axis, first to last) and a product of others (reshape: factors of an axis, outer to inner). Two sums of the same
// class are refined until they have the same parts, and two products until they have the same factors, so that a
// position along an axis means the same in all of them.
class size_classes {
 public:
  using number = std::size_t;

  number add(std::int64_t size) {
    classes_.push_back({classes_.size(), size, 1, false, {}, {}});
    return classes_.size() - 1;
  }
  [[nodiscard]] std::size_t count() const noexcept { return classes_.size(); }
  // The representative of the class.
  [[nodiscard]] number find(number n) const;
  [[nodiscard]] std::int64_t size(number n) const { return classes_[n].size; }
  // At most one sum is kept per class; a further one refines it.
  [[nodiscard]] std::span<const number> parts(number n) const { return classes_[find(n)].parts; }
  [[nodiscard]] std::span<const std::vector<number>> products(number n) const { return classes_[find(n)].products; }

  // Sizes of fixed classes must stay; other classes have a minimum.
  void fix(number n) { classes_[find(n)].fixed = true; }
  [[nodiscard]] bool fixed(number n) const { return classes_[find(n)].fixed; }
  void require_at_least(number n, std::int64_t least) {
    auto& c = classes_[find(n)];
    c.least = std::max(c.least, std::min(least, c.size));
  }
  [[nodiscard]] std::int64_t least(number n) const { return classes_[find(n)].least; }

  // Sizes that differ are never united: both are fixed instead.
  void unite(number a, number b);

  // Precondition: the parts add up to the size of `whole`.
  void add_sum(number whole, const std::vector<number>& parts);

  // Precondition: the product of the factors is the size of `whole`.
  void add_product(number whole, std::vector<number> factors);

  // Propagates cuts through products: if an axis is outer * inner, it is cut at multiples of inner where outer is cut.
  void settle();

 private:
  struct entry {
    mutable number parent;  // shortened by find
    std::int64_t size;
    std::int64_t least;
    bool fixed;
    std::vector<number> parts;
    std::vector<std::vector<number>> products;
  };

  [[nodiscard]] bool same(const std::vector<number>& a, const std::vector<number>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](number x, number y) { return find(x) == find(y); });
  }

  // Pops the next leaf from a stack of sizes; a size that consists of others is replaced by them.
  template <class Consists>
  number pop(std::vector<number>& stack, bool reversed, const Consists& consists) const {
    while (true) {
      const auto top = find(stack.back());
      stack.pop_back();
      const std::span<const number> inside = consists(top);
      if (inside.empty()) {
        return top;
      }
      if (reversed) {
        stack.insert(stack.end(), inside.rbegin(), inside.rend());
      } else {
        stack.insert(stack.end(), inside.begin(), inside.end());
      }
    }
  }

  // Compares two stacks leaf by leaf: unites equal leaves, and otherwise divides the larger one. divide(x, y) divides x
  // into y and a rest, and returns the rest, which is pushed back onto the stack of x; nothing if x cannot be divided.
  template <class Consists, class Divide>
  void align(std::vector<number>& a, std::vector<number>& b, bool reversed, const Consists& consists,
             const Divide& divide) {
    while (!a.empty() && !b.empty()) {
      auto x = pop(a, reversed, consists);
      auto y = pop(b, reversed, consists);
      if (size(x) == size(y)) {
        unite(x, y);
        continue;
      }
      auto& longer = size(x) > size(y) ? a : b;
      if (size(x) < size(y)) {
        std::swap(x, y);
      }
      const auto rest = divide(x, y);
      if (!rest) {
        return;
      }
      longer.push_back(*rest);
    }
  }

  void align_sums(std::vector<number> a, std::vector<number> b);

  // Aligns the factors from the innermost one on; from a factor that does not match, from the outermost one on.
  void align_products(std::vector<number> a, std::vector<number> b);

  // The interior positions where the class is cut.
  [[nodiscard]] std::vector<std::int64_t> cuts(number n) const;
  // Cuts the class at every position times `unit`; returns the pieces.
  std::vector<number> cut(number n, std::span<const std::int64_t> at, std::int64_t unit);

  void carry_cuts(number whole, const std::vector<number>& factors);

  std::vector<entry> classes_;
  std::set<std::tuple<number, number, std::vector<std::int64_t>>> carried_;
  std::size_t changes_ = 0;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_SIZE_CLASSES)

#include <optional>

#include <unity/core/config.hpp>

namespace unity::tensor::detail {

UNITY_INLINE auto size_classes::find(number n) const -> number {
  while (classes_[n].parent != n) {
    n = classes_[n].parent = classes_[classes_[n].parent].parent;
  }
  return n;
}

UNITY_INLINE void size_classes::unite(number a, number b) {
  a = find(a);
  b = find(b);
  if (a == b) {
    return;
  }
  if (classes_[a].size != classes_[b].size) {
    fix(a);
    fix(b);
    return;
  }
  if (b < a) {
    std::swap(a, b);
  }
  ++changes_;
  classes_[b].parent = a;
  classes_[a].fixed = classes_[a].fixed || classes_[b].fixed;
  require_at_least(a, classes_[b].least);
  const auto parts = std::exchange(classes_[b].parts, {});
  const auto products = std::exchange(classes_[b].products, {});
  if (!parts.empty()) {
    add_sum(a, parts);
  }
  for (const auto& factors : products) {
    add_product(a, factors);
  }
}

UNITY_INLINE void size_classes::add_sum(number whole, const std::vector<number>& parts) {
  whole = find(whole);
  if (parts.size() == 1) {
    unite(whole, parts[0]);
  } else if (classes_[whole].parts.empty()) {
    classes_[whole].parts = parts;
    ++changes_;
  } else {
    align_sums(classes_[whole].parts, parts);
  }
}

UNITY_INLINE void size_classes::add_product(number whole, std::vector<number> factors) {
  whole = find(whole);
  std::erase_if(factors, [&](number f) { return size(f) == 1; });
  if (factors.size() == 1) {
    unite(whole, factors[0]);
    return;
  }
  auto& known = classes_[whole].products;
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const auto& k) { return same(k, factors); });
  if (factors.empty() || is_known) {
    return;
  }
  ++changes_;
  known.push_back(factors);
  if (known.size() > 1) {
    align_products(std::vector<number>(known[0]), std::move(factors));
  }
}

UNITY_INLINE void size_classes::settle() {
  for (auto before = changes_ + 1; before != changes_;) {
    before = changes_;
    for (number n = 0; n < classes_.size(); ++n) {
      for (std::size_t p = 0; find(n) == n && p < classes_[n].products.size(); ++p) {
        carry_cuts(n, std::vector<number>(classes_[n].products[p]));
      }
    }
  }
}

UNITY_INLINE void size_classes::align_sums(std::vector<number> a, std::vector<number> b) {
  std::reverse(a.begin(), a.end());
  std::reverse(b.begin(), b.end());
  align(
      a, b, true, [&](number n) { return parts(n); },
      [&](number x, number y) -> std::optional<number> {
        const auto rest = add(size(x) - size(y));
        add_sum(x, {y, rest});
        return rest;
      });
}

UNITY_INLINE void size_classes::align_products(std::vector<number> a, std::vector<number> b) {
  const auto consists = [&](number n) {
    const auto all = products(n);
    return all.empty() ? std::span<const number>{} : std::span<const number>{all[0]};
  };
  align(a, b, false, consists, [&](number x, number y) -> std::optional<number> {
    if (size(x) % size(y) != 0) {
      return std::nullopt;
    }
    const auto rest = add(size(x) / size(y));
    add_product(x, {rest, y});
    return rest;
  });
  std::reverse(a.begin(), a.end());
  std::reverse(b.begin(), b.end());
  while (!a.empty() && !b.empty()) {
    const auto x = pop(a, true, consists);
    const auto y = pop(b, true, consists);
    if (size(x) != size(y)) {
      break;
    }
    unite(x, y);
  }
}

UNITY_INLINE std::vector<std::int64_t> size_classes::cuts(number n) const {
  std::vector<std::int64_t> at;
  std::vector<number> rest{n};
  std::int64_t position = 0;
  while (!rest.empty()) {
    position += size(pop(rest, true, [&](number c) { return parts(c); }));
    at.push_back(position);
  }
  at.pop_back();
  return at;
}

UNITY_INLINE auto size_classes::cut(number n, std::span<const std::int64_t> at, std::int64_t unit)
    -> std::vector<number> {
  std::vector<number> pieces;
  std::int64_t from = 0;
  for (const auto position : at) {
    pieces.push_back(add((position - from) * unit));
    from = position;
  }
  pieces.push_back(add(size(n) - from * unit));
  add_sum(n, pieces);
  return pieces;
}

UNITY_INLINE void size_classes::carry_cuts(number whole, const std::vector<number>& factors) {
  const auto outer = find(factors[0]);
  const auto inner = size(whole) / size(outer);
  auto at = cuts(outer);
  for (const auto position : cuts(whole)) {
    if (position % inner == 0) {
      at.push_back(position / inner);
    }
  }
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  if (at.empty() || !carried_.insert({whole, outer, at}).second) {
    return;
  }
  const auto outer_pieces = cut(outer, at, 1);
  const auto pieces = cut(whole, at, inner);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto piece_factors = factors;
    piece_factors[0] = outer_pieces[i];
    add_product(pieces[i], std::move(piece_factors));
  }
}

}  // namespace unity::tensor::detail

#endif
