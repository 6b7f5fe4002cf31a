// Distributes devices among parallel branches of a graph.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace unity::systems {

// Consecutive entries of a mesh's device list.
struct device_range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  friend auto operator<=>(const device_range&, const device_range&) = default;
};

// Branches of a join that share a block and run one after another on it.
struct block_branches {
  device_range block{};
  std::vector<std::uint32_t> branches{};

  friend auto operator<=>(const block_branches&, const block_branches&) = default;
};

// One way to run the branches of a join: blocks do not overlap, and each branch is on exactly one of them.
using branch_division = std::vector<block_branches>;

// Ways to distribute `devices` among branches, cheapest first; the cost is that of the slowest block. cost: the cost of
// a branch on a range of devices; called once per pair. can_cut: whether a range may be cut before a device. Orders the
// branches by decreasing and by increasing cost (few branches: in all orders). Neighbours in an order run one after
// another on a range of devices, or in two groups on two parts of the range, recursively. Returns the cheapest division
// for each first cut and order, but never the undivided range.
// Complexity: for each order, branches^3 times device ranges that cuts lead to, times cuts.
// Source: Unger et al., Unity (OSDI 2022), section 5.2.
[[nodiscard]] std::vector<std::pair<std::int64_t, branch_division>> branch_divisions(
    std::size_t branches, device_range devices, const std::function<bool(device_range, std::uint32_t)>& can_cut,
    const std::function<std::int64_t(std::size_t, device_range)>& cost);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_BRANCH_DIVISIONS)

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>

namespace unity::systems::detail {

using range_costs = std::map<device_range, std::vector<std::int64_t>>;  // by branch

// The dynamic program behind branch_divisions, for one order of the branches.
class division_program {
 public:
  using cut_test = std::function<bool(device_range, std::uint32_t)>;
  using branch_cost = std::function<std::int64_t(std::size_t, device_range)>;

  // known: costs computed so far.
  division_program(std::span<const std::uint32_t> order, const cut_test& can_cut, const branch_cost& cost,
                   range_costs& known)
      : order_{order}, can_cut_{can_cut}, cost_{cost}, known_{known} {}

  struct best {
    std::int64_t cost = -1;    // -1: unknown
    std::uint32_t cut = 0;     // a cut of the devices; 0: undivided
    std::uint32_t branch = 0;  // the first branch of the second part
  };
  // The best division of branches [first, last) of the order on those devices.
  best of(std::uint32_t first, std::uint32_t last, device_range on);
  [[nodiscard]] best cut_at(std::uint32_t first, std::uint32_t last, device_range on, std::uint32_t cut);
  // Appends the blocks of a solution.
  void write(std::uint32_t first, std::uint32_t last, device_range on, const best& b, branch_division& d);

 private:
  struct solutions {
    std::vector<std::uint32_t> cuts{};
    std::vector<std::int64_t> sums{};  // prefix sums of branch costs in the order
    std::vector<best> all{};           // by first and last
  };
  [[nodiscard]] solutions& on(device_range devices);

  std::span<const std::uint32_t> order_;
  const cut_test& can_cut_;
  const branch_cost& cost_;
  range_costs& known_;
  std::map<device_range, solutions> solved_{};
};

// Orders of decreasing and of increasing cost on all devices; if there are few branches, all orders.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> branch_orders(std::span<const std::int64_t> costs);

UNITY_INLINE auto division_program::on(device_range devices) -> solutions& {
  const auto [at, is_new] = solved_.try_emplace(devices);
  auto& s = at->second;
  if (!is_new) {
    return s;
  }
  auto& costs = known_[devices];
  for (auto i = costs.size(); i < order_.size(); ++i) {
    costs.push_back(cost_(i, devices));
  }
  s.sums.push_back(0);
  for (const auto b : order_) {
    s.sums.push_back(std::min(parallel::unreachable, s.sums.back() + costs[b]));
  }
  for (auto cut = devices.first + 1; cut < devices.first + devices.count; ++cut) {
    if (can_cut_(devices, cut)) {
      s.cuts.push_back(cut);
    }
  }
  s.all.resize((order_.size() + 1) * (order_.size() + 1));
  return s;
}

UNITY_INLINE auto division_program::of(std::uint32_t first, std::uint32_t last, device_range devices) -> best {
  auto& s = on(devices);
  auto& known = s.all[first * (order_.size() + 1) + last];
  if (known.cost >= 0) {
    return known;
  }
  best b{s.sums[last] >= parallel::unreachable ? parallel::unreachable : s.sums[last] - s.sums[first], 0, 0};
  for (const auto cut : s.cuts) {
    const auto other = first < last ? cut_at(first, last, devices, cut) : b;
    b = other.cost < b.cost ? other : b;
  }
  return known = b;
}

UNITY_INLINE auto division_program::cut_at(std::uint32_t first, std::uint32_t last, device_range devices,
                                           std::uint32_t cut) -> best {
  const device_range left{devices.first, cut - devices.first};
  const device_range right{cut, devices.first + devices.count - cut};
  best b{parallel::unreachable, cut, first};
  for (auto m = first; m <= last; ++m) {
    const auto before = m == first ? 0 : of(first, m, left).cost;
    if (before < b.cost) {
      const auto cost = std::max(before, m == last ? 0 : of(m, last, right).cost);
      b = cost < b.cost ? best{cost, cut, m} : b;
    }
  }
  return b;
}

UNITY_INLINE void division_program::write(std::uint32_t first, std::uint32_t last, device_range devices, const best& b,
                                          branch_division& d) {
  if (first == last) {
    return;
  }
  if (b.cut == 0) {
    auto& here = d.emplace_back(block_branches{devices, {order_.begin() + first, order_.begin() + last}});
    std::sort(here.branches.begin(), here.branches.end());
    return;
  }
  const device_range left{devices.first, b.cut - devices.first};
  const device_range right{b.cut, devices.first + devices.count - b.cut};
  write(first, b.branch, left, first == b.branch ? b : of(first, b.branch, left), d);
  write(b.branch, last, right, b.branch == last ? b : of(b.branch, last, right), d);
}

UNITY_INLINE std::vector<std::vector<std::uint32_t>> branch_orders(std::span<const std::int64_t> costs) {
  constexpr std::size_t few = 4;
  std::vector<std::uint32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::vector<std::uint32_t>> all;
  if (costs.size() <= few) {
    do {
      all.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
    return all;
  }
  unity::stable_sort(order, [&](auto a, auto b) { return costs[a] > costs[b]; });
  all.push_back(order);
  std::reverse(order.begin(), order.end());
  all.push_back(std::move(order));
  return all;
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE std::vector<std::pair<std::int64_t, branch_division>> branch_divisions(
    std::size_t branches, device_range devices, const std::function<bool(device_range, std::uint32_t)>& can_cut,
    const std::function<std::int64_t(std::size_t, device_range)>& cost) {
  detail::range_costs known;
  auto& whole = known[devices];
  for (std::size_t i = 0; i < branches; ++i) {
    whole.push_back(cost(i, devices));
  }
  std::set<std::pair<std::int64_t, branch_division>> all;
  const auto count = static_cast<std::uint32_t>(branches);
  for (const auto& order : detail::branch_orders(whole)) {
    detail::division_program p{order, can_cut, cost, known};
    for (auto cut = devices.first + 1; cut < devices.first + devices.count; ++cut) {
      const auto b = can_cut(devices, cut) ? p.cut_at(0, count, devices, cut) : detail::division_program::best{};
      if (b.cost >= 0 && b.cost < parallel::unreachable) {
        branch_division d;
        p.write(0, count, devices, b, d);
        std::sort(d.begin(), d.end());
        all.emplace(b.cost, std::move(d));
      }
    }
  }
  return {all.begin(), all.end()};
}

}  // namespace unity::systems

#endif
