// Offsets in one block of memory for values with different lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/units.hpp>

namespace unity::tasks {

// A value that must be in memory from step `first` to step `last`, both included.
struct stored_value {
  bytes size{};
  std::size_t first = 0;
  std::size_t last = 0;

  friend bool operator==(const stored_value&, const stored_value&) = default;
};

[[nodiscard]] constexpr bool alive_together(const stored_value& a, const stored_value& b) noexcept {
  return a.first <= b.last && b.first <= a.last;
}

struct storage_plan {
  std::vector<bytes> offsets{};  // one per value, multiples of the alignment
  bytes peak{};                  // the size of the block, a multiple of the alignment

  friend bool operator==(const storage_plan&, const storage_plan&) = default;
};

// The size rounded up to a multiple of the alignment, which must be positive. Unit: bytes.
[[nodiscard]] constexpr std::int64_t rounded_up(bytes size, bytes alignment) noexcept {
  return (size.count() + alignment.count() - 1) / alignment.count() * alignment.count();
}

namespace detail {

struct byte_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
// Ascending, with gaps between them.
using byte_ranges = std::vector<byte_range>;

void add(byte_ranges& all, byte_range more);
// Adds several. buffer: memory for that.
void add(byte_ranges& all, const byte_ranges& more, byte_ranges& buffer);

// Places values in a given order, each into the smallest gap that fits between those that are alive with it, the first
// of equal ones. In a binary tree over the steps at which values begin, a lifetime is a few subtrees: each node has the
// bytes that are taken somewhere below it, and those that are taken by values alive during all of it. So most values
// that are alive together are seen as one range, and others are not seen at all.
class best_fit {
 public:
  best_fit(std::span<const stored_value> values, bytes alignment);

  // Complexity: n log n for n values, times the ranges of a node: few where values leave few gaps, n at most.
  [[nodiscard]] storage_plan run(std::span<const std::size_t> order);

 private:
  struct node {
    byte_ranges whole{};    // of values of which this is one of the largest subtrees
    byte_ranges touched{};  // of values alive at some step below, but for those of which a node above is such a subtree
    bool is_asked = false;  // whether it is such a subtree of any value; touched is empty otherwise
  };
  struct leaf_range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  // Calls largest(node) for the largest subtrees of a lifetime, and above(node) for all nodes that contain one.
  template <class Largest, class Above>
  void visit(const leaf_range& alive, const Largest& largest, const Above& above);
  [[nodiscard]] std::int64_t find_gap(std::size_t i);
  void place(std::size_t i, std::int64_t offset);

  std::vector<std::int64_t> sizes_{};
  std::vector<leaf_range> alive_{};  // by value
  std::size_t leaves_ = 1;           // a power of two
  std::vector<node> nodes_{};        // the children of i are 2 i and 2 i + 1; the root is 1
  byte_ranges taken_{};
  byte_ranges buffer_{};
  storage_plan plan_{};
};

}  // namespace detail

// A lower bound for any plan: the largest sum of sizes, rounded up to the alignment, that are alive at one step.
// Complexity: n log n.
[[nodiscard]] bytes least_storage(std::span<const stored_value> values, bytes alignment);

// Offsets such that values which are alive at one step never overlap. Tries several greedy orders (by size, by size
// times lifetime, by first step; and each again with the highest values first) and returns the plan with the lowest
// peak. Equal values give equal plans. Values of size 0 have offset 0. Complexity: as best_fit::run, for each order.
// Source: Pisarchyk and Lee, Efficient memory management for deep neural net inference, 2020: greedy by size.
[[nodiscard]] storage_plan plan_storage(std::span<const stored_value> values, bytes alignment);

}  // namespace unity::tasks

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TASKS_STORAGE)

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include <unity/core/config.hpp>

namespace unity::tasks {

namespace detail {

UNITY_INLINE void add(byte_ranges& all, byte_range more) {
  const auto ends_before = [](const byte_range& r, std::int64_t begin) { return r.end < begin; };
  const auto first = std::lower_bound(all.begin(), all.end(), more.begin, ends_before);
  auto last = first;
  for (; last != all.end() && last->begin <= more.end; ++last) {
    more = {std::min(more.begin, last->begin), std::max(more.end, last->end)};
  }
  if (first == last) {
    all.insert(first, more);
  } else {
    *first = more;
    all.erase(std::next(first), last);
  }
}

UNITY_INLINE void add(byte_ranges& all, const byte_ranges& more, byte_ranges& buffer) {
  buffer.clear();
  auto a = all.begin();
  auto b = more.begin();
  while (a != all.end() || b != more.end()) {
    const auto& next = b == more.end() || (a != all.end() && a->begin <= b->begin) ? *a++ : *b++;
    if (!buffer.empty() && next.begin <= buffer.back().end) {
      buffer.back().end = std::max(buffer.back().end, next.end);
    } else {
      buffer.push_back(next);
    }
  }
  all.swap(buffer);
}

UNITY_INLINE best_fit::best_fit(std::span<const stored_value> values, bytes alignment) {
  std::vector<std::size_t> begins;
  for (const auto& v : values) {
    sizes_.push_back(rounded_up(v.size, alignment));
    if (sizes_.back() > 0) {
      begins.push_back(v.first);
    }
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  while (leaves_ < begins.size()) {
    leaves_ *= 2;
  }
  nodes_.resize(2 * leaves_);
  // Of two values that are alive together, one begins while the other is alive.
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto begin = std::lower_bound(begins.begin(), begins.end(), values[i].first);
    const auto end = std::upper_bound(begin, begins.end(), values[i].last);
    alive_.push_back(
        {static_cast<std::size_t>(begin - begins.begin()), static_cast<std::size_t>(end - begins.begin())});
    if (sizes_[i] > 0) {
      visit(
          alive_[i], [](node& n) { n.is_asked = true; }, [](const node&) {});
    }
  }
}

UNITY_INLINE storage_plan best_fit::run(std::span<const std::size_t> order) {
  for (auto& n : nodes_) {
    n.whole.clear();
    n.touched.clear();
  }
  plan_ = {std::vector<bytes>(sizes_.size()), {}};
  for (const auto i : order) {
    if (sizes_[i] > 0) {
      place(i, find_gap(i));
    }
  }
  return std::move(plan_);
}

template <class Largest, class Above>
void best_fit::visit(const leaf_range& alive, const Largest& largest, const Above& above) {
  auto begin = leaves_ + alive.begin;
  auto end = leaves_ + alive.end;
  for (; begin < end; begin /= 2, end /= 2) {
    if (begin % 2 == 1) {
      largest(nodes_[begin++]);
    }
    if (end % 2 == 1) {
      largest(nodes_[--end]);
    }
  }
  // What contains a largest subtree also contains the first or the last leaf, and a leaf outside of the lifetime.
  const auto is_above = [&](std::size_t n, std::size_t width) {
    return n * width < leaves_ + alive.begin || (n + 1) * width > leaves_ + alive.end;
  };
  auto left = (leaves_ + alive.begin) / 2;
  auto right = (leaves_ + alive.end - 1) / 2;
  for (std::size_t width = 2; left > 0; left /= 2, right /= 2, width *= 2) {
    if (is_above(left, width)) {
      above(nodes_[left]);
    }
    if (right != left && is_above(right, width)) {
      above(nodes_[right]);
    }
  }
}

UNITY_INLINE std::int64_t best_fit::find_gap(std::size_t i) {
  taken_.clear();
  const auto take = [&](const byte_ranges& some) {
    if (!some.empty()) {
      add(taken_, some, buffer_);
    }
  };
  visit(
      alive_[i], [&](const node& n) { take(n.touched); }, [&](const node& n) { take(n.whole); });
  std::int64_t best = -1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const auto& r : taken_) {
    if (r.begin - end >= sizes_[i] && r.begin - end < least) {
      least = r.begin - end;
      best = end;
    }
    end = r.end;
  }
  return best < 0 ? end : best;
}

UNITY_INLINE void best_fit::place(std::size_t i, std::int64_t offset) {
  const byte_range own{offset, offset + sizes_[i]};
  plan_.offsets[i] = bytes{offset};
  plan_.peak = std::max(plan_.peak, bytes{own.end});
  const auto touch = [&](node& n) {
    if (n.is_asked) {
      add(n.touched, own);
    }
  };
  const auto cover = [&](node& n) {
    add(n.whole, own);
    touch(n);
  };
  visit(alive_[i], cover, touch);
}

// Matching values before the others, each in their previous order.
template <class Predicate>
[[nodiscard]] std::vector<std::size_t> put_first(std::span<const std::size_t> order, const Predicate& matches) {
  std::vector<std::size_t> arranged;
  std::copy_if(order.begin(), order.end(), std::back_inserter(arranged), matches);
  std::copy_if(order.begin(), order.end(), std::back_inserter(arranged), std::not_fn(matches));
  return arranged;
}

}  // namespace detail

UNITY_INLINE bytes least_storage(std::span<const stored_value> values, bytes alignment) {
  UNITY_EXPECTS(alignment.count() > 0, "a positive alignment");
  std::vector<std::pair<std::size_t, std::int64_t>> changes;  // sorted, births follow the deaths of the step before
  for (const auto& v : values) {
    changes.emplace_back(2 * v.first, rounded_up(v.size, alignment));
    changes.emplace_back(2 * v.last + 1, -rounded_up(v.size, alignment));
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t alive = 0;
  std::int64_t most = 0;
  for (const auto& [when, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return bytes{most};
}

UNITY_INLINE storage_plan plan_storage(std::span<const stored_value> values, bytes alignment) {
  UNITY_EXPECTS(alignment.count() > 0, "a positive alignment");
  UNITY_EXPECTS(
      std::all_of(values.begin(), values.end(), [](const auto& v) { return v.size.count() >= 0 && v.first <= v.last; }),
      "sizes of 0 or more, and lifetimes that end after they begin");
  constexpr int improvements = 20;  // one per order
  const auto size = [&](std::size_t i) { return static_cast<double>(values[i].size.count()); };
  const auto length = [&](std::size_t i) { return static_cast<double>(values[i].last - values[i].first + 1); };
  const auto first = [&](std::size_t i) { return -static_cast<double>(values[i].first); };
  const std::array<std::function<double(std::size_t)>, 3> urgencies{
      size, [&](std::size_t i) { return size(i) * length(i); }, first};
  const auto least = least_storage(values, alignment);
  detail::best_fit fit{values, alignment};
  storage_plan best;
  bool is_planned = false;
  std::vector<std::size_t> order(values.size());
  for (const auto& urgency : urgencies) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto x = urgency(a);
      const auto y = urgency(b);
      return x != y ? x > y : values[a].size != values[b].size ? values[a].size > values[b].size : a < b;
    });
    for (int i = 0; i <= improvements && !(is_planned && best.peak == least); ++i) {
      auto plan = fit.run(order);
      order = detail::put_first(order, [&](std::size_t v) { return plan.offsets[v] + values[v].size > least; });
      if (!is_planned || plan.peak < best.peak) {
        best = std::move(plan);
        is_planned = true;
      }
    }
  }
  return best;
}

}  // namespace unity::tasks

#endif
