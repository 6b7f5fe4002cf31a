// Chooses small consistent sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/tensor/detail/size_classes.hpp>
#include <unity/tensor/detail/size_relations.hpp>

namespace unity::tensor::detail {

// Gives every class a size, as small and as distinct as possible; sums, products and functions of sizes follow. If no
// smaller size fits a class, it keeps its size and the choice restarts with this constraint.
// Law: the original sizes of the classes are a solution, so a solution always exists.
class size_choice {
 public:
  using number = size_classes::number;

  // least: the lower limit for all sizes. multiples: by number, a divisor that the size of its class must have.
  size_choice(const size_classes& classes, std::span<const size_function> functions, std::int64_t least,
              std::span<const std::int64_t> multiples = {});

  // Indexed by class.
  [[nodiscard]] const std::vector<std::int64_t>& run();

  // Fixes the size of n after all.
  void keep(number n) { kept_[classes_.find(n)] = true; }
  [[nodiscard]] bool keeps(number n) const {
    return kept_[classes_.find(n)] || classes_.fixed(n) || classes_.size(n) == 1;
  }

 private:
  enum class kind : std::uint8_t { sum, product, function };
  struct relation {
    kind what;
    std::size_t whole;       // or the index of a function
    std::size_t product;     // which product of `whole`
    std::int64_t times = 0;  // of a sum: how many of its parts are of the class
  };

  // Running totals of a sum: it can have thousands of parts, such as the steps of a recurrent layer.
  struct partial_sum {
    std::int64_t known = 0;    // the sum of the chosen parts
    std::int64_t unknown = 0;  // parts that are not chosen yet
    std::size_t unknown_classes = 0;
    number last = 0;  // xor of these classes: the last one if there is only one
  };

  void list_relations(number n);
  void list_sum(number whole);

  // Returns the class for which no size fits, if any.
  std::optional<number> choose();

  // The kept sizes belong to a solution, but a function may fail to see that depending on the order.
  [[nodiscard]] number first_unkept() const;

  bool decide(number n);

  [[nodiscard]] std::int64_t least_size(number n) const {
    return std::min(classes_.size(n), std::max(classes_.least(n), least_));
  }

  bool fits(number n, std::int64_t size);

  // Sets a size and all sizes that follow from it. Returns whether they fit.
  bool settle(number n, std::int64_t size);
  bool set(number n, std::int64_t size);
  void forget(number n);
  // Moves the parts of class n from the unknown to the known ones of its sums, or back (by -1).
  void count(number n, std::int64_t by);

  bool follow(const relation& r);
  bool follow_sum(number whole);
  bool follow_product(number whole, std::span<const number> factors);

  const size_classes& classes_;
  std::span<const size_function> functions_;
  std::int64_t least_;
  std::vector<std::int64_t> multiples_;  // by class
  std::vector<bool> kept_;
  std::vector<bool> follows_;  // determined by other classes
  std::vector<std::vector<relation>> relations_;
  std::vector<std::int64_t> sizes_;  // 0: not chosen yet
  std::vector<number> trail_;        // classes that were chosen, in order
  std::vector<partial_sum> none_chosen_;  // by class that is a sum
  std::vector<partial_sum> sums_;
  std::map<std::int64_t, int> times_used_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_SIZE_CHOICE)

#include <numeric>

namespace unity::tensor::detail {

UNITY_INLINE size_choice::size_choice(const size_classes& classes, std::span<const size_function> functions,
                                      std::int64_t least, std::span<const std::int64_t> multiples)
    : classes_{classes},
      functions_{functions},
      least_{least},
      multiples_(classes.count(), 1),
      kept_(classes.count()),
      follows_(classes.count()),
      relations_(classes.count()),
      sizes_(classes.count()),
      none_chosen_(classes.count()) {
  for (number n = 0; n < classes_.count(); ++n) {
    if (classes_.find(n) == n) {
      list_relations(n);
    }
  }
  for (number n = 0; n < multiples.size(); ++n) {
    auto& m = multiples_[classes_.find(n)];
    m = std::lcm(m, multiples[n]);
  }
  for (std::size_t f = 0; f < functions_.size(); ++f) {
    relations_[classes_.find(functions_[f].from)].push_back({kind::function, f, 0});
    follows_[classes_.find(functions_[f].to)] = true;
  }
}

UNITY_INLINE const std::vector<std::int64_t>& size_choice::run() {
  auto stuck = choose();
  while (stuck) {
    kept_[*stuck] = true;
    stuck = choose();
  }
  return sizes_;
}

UNITY_INLINE void size_choice::list_relations(number n) {
  if (!classes_.parts(n).empty()) {
    list_sum(n);
  }
  for (std::size_t p = 0; p < classes_.products(n).size(); ++p) {
    const relation r{kind::product, n, p};
    relations_[n].push_back(r);
    for (const auto m : classes_.products(n)[p]) {
      relations_[classes_.find(m)].push_back(r);
    }
  }
  follows_[n] = follows_[n] || !classes_.parts(n).empty() || !classes_.products(n).empty();
}

UNITY_INLINE void size_choice::list_sum(number whole) {
  std::map<number, std::int64_t> times;
  for (const auto p : classes_.parts(whole)) {
    ++times[classes_.find(p)];
  }
  relations_[whole].push_back({kind::sum, whole, 0});
  auto& sum = none_chosen_[whole];
  for (const auto& [part, count] : times) {
    relations_[part].push_back({kind::sum, whole, 0, count});
    sum.unknown += count;
    ++sum.unknown_classes;
    sum.last ^= part;
  }
}

UNITY_INLINE auto size_choice::choose() -> std::optional<number> {
  std::fill(sizes_.begin(), sizes_.end(), 0);
  sums_ = none_chosen_;
  trail_.clear();
  times_used_.clear();
  for (number n = 0; n < sizes_.size(); ++n) {
    if (classes_.find(n) == n && keeps(n) && !settle(n, classes_.size(n))) {
      return first_unkept();
    }
  }
  // First the classes that no others determine: the rest may follow from these without a guess.
  for (const bool all : {false, true}) {
    for (number n = 0; n < sizes_.size(); ++n) {
      if (classes_.find(n) == n && sizes_[n] == 0 && (all || !follows_[n]) && !decide(n)) {
        return n;
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE auto size_choice::first_unkept() const -> number {
  number n = 0;
  while (n + 1 < sizes_.size() && (classes_.find(n) != n || keeps(n))) {
    ++n;
  }
  return n;
}

UNITY_INLINE bool size_choice::decide(number n) {
  constexpr std::size_t enough = 6;
  constexpr std::int64_t most_tries = 4096;
  const auto own = classes_.size(n);
  const auto least = least_size(n);
  std::vector<std::int64_t> fitting;
  if (own <= 4 && fits(n, own)) {
    fitting.push_back(own);
  }
  const auto step = multiples_[n];
  for (auto size = (least + step - 1) / step * step; fitting.empty() || (own > 4 && fitting.size() < enough);
       size += step) {
    if (size > std::min(own, least + most_tries)) {
      break;
    }
    if (fits(n, size)) {
      fitting.push_back(size);
    }
  }
  if (fitting.empty()) {
    return settle(n, own);
  }
  const auto chosen = *std::min_element(fitting.begin(), fitting.end(),
                                        [&](auto a, auto b) { return times_used_[a] < times_used_[b]; });
  ++times_used_[chosen];
  return settle(n, chosen);
}

UNITY_INLINE bool size_choice::fits(number n, std::int64_t size) {
  const auto before = trail_.size();
  const bool fits = settle(n, size);
  while (trail_.size() > before) {
    forget(trail_.back());
    trail_.pop_back();
  }
  return fits;
}

UNITY_INLINE bool size_choice::settle(number n, std::int64_t size) {
  auto at = trail_.size();
  if (!set(n, size)) {
    return false;
  }
  for (; at < trail_.size(); ++at) {
    for (const auto& r : relations_[trail_[at]]) {
      if (!follow(r)) {
        return false;
      }
    }
  }
  return true;
}

UNITY_INLINE bool size_choice::set(number n, std::int64_t size) {
  n = classes_.find(n);
  if (sizes_[n] != 0) {
    return sizes_[n] == size;
  }
  const bool is_own = size == classes_.size(n);
  if (size < least_size(n) || size > classes_.size(n) || (!is_own && (keeps(n) || size % multiples_[n] != 0))) {
    return false;
  }
  sizes_[n] = size;
  count(n, 1);
  trail_.push_back(n);
  return true;
}

UNITY_INLINE void size_choice::forget(number n) {
  count(n, -1);
  sizes_[n] = 0;
}

UNITY_INLINE void size_choice::count(number n, std::int64_t by) {
  for (const auto& r : relations_[n]) {
    if (r.what == kind::sum && r.times > 0) {
      auto& sum = sums_[r.whole];
      sum.known += by * r.times * sizes_[n];
      sum.unknown -= by * r.times;
      by > 0 ? --sum.unknown_classes : ++sum.unknown_classes;
      sum.last ^= n;
    }
  }
}

UNITY_INLINE bool size_choice::follow(const relation& r) {
  switch (r.what) {
    case kind::sum: return follow_sum(r.whole);
    case kind::product: return follow_product(r.whole, classes_.products(r.whole)[r.product]);
    case kind::function: {
      const auto& f = functions_[r.whole];
      return set(f.to, f.apply(sizes_[classes_.find(f.from)]));
    }
  }
  return true;
}

UNITY_INLINE bool size_choice::follow_sum(number whole) {
  const auto& sum = sums_[whole];
  if (sum.unknown_classes == 0) {
    return set(whole, sum.known);
  }
  if (sum.unknown_classes > 1 || sizes_[whole] == 0) {
    return true;
  }
  const auto rest = sizes_[whole] - sum.known;
  return rest % sum.unknown == 0 && set(sum.last, rest / sum.unknown);
}

UNITY_INLINE bool size_choice::follow_product(number whole, std::span<const number> factors) {
  std::int64_t known = 1;
  std::size_t unknown_count = 0;
  number unknown = 0;
  for (const auto f : factors) {
    const auto c = classes_.find(f);
    if (sizes_[c] == 0) {
      unknown = c;
      ++unknown_count;
    } else {
      known *= sizes_[c];
    }
  }
  if (unknown_count == 0) {
    return set(whole, known);
  }
  if (unknown_count > 1 || sizes_[whole] == 0) {
    return true;
  }
  return sizes_[whole] % known == 0 && set(unknown, sizes_[whole] / known);
}

}  // namespace unity::tensor::detail

#endif
