// A slow reference for plan_storage: each search for a gap reads all placed values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/tasks/storage.hpp>

namespace unity::tasks::test {

// Places values in a given order, each into the smallest gap that fits between those that are alive with it.
class scanning_fit {
 public:
  scanning_fit(std::span<const stored_value> values, bytes alignment) : values_{values}, plan_{{}, {}} {
    plan_.offsets.resize(values.size());
    for (const auto& v : values) {
      sizes_.push_back(rounded_up(v.size, alignment));
    }
  }

  [[nodiscard]] storage_plan run(std::span<const std::size_t> order) {
    for (const auto i : order) {
      if (sizes_[i] > 0) {
        place(i, find_gap(i));
      }
    }
    return std::move(plan_);
  }

 private:
  // Side by side in memory, because each search for a gap reads all of them.
  struct placed_value {
    std::int64_t begin;
    std::int64_t end;
    std::size_t first;
    std::size_t last;
  };

  // Linear in the placed values.
  [[nodiscard]] std::int64_t find_gap(std::size_t i) const {
    std::int64_t best = -1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;  // values alive together with i, so far
    const auto [size, from, until] = std::tuple{sizes_[i], values_[i].first, values_[i].last};
    for (const auto& p : placed_) {
      if (p.first > until || p.last < from) {
        continue;
      }
      if (p.begin - end >= size && p.begin - end < least) {
        least = p.begin - end;
        best = end;
      }
      end = std::max(end, p.end);
    }
    return best < 0 ? end : best;
  }

  void place(std::size_t i, std::int64_t offset) {
    plan_.offsets[i] = bytes{offset};
    plan_.peak = std::max(plan_.peak, bytes{offset + sizes_[i]});
    const auto later = [](std::int64_t o, const placed_value& p) { return o < p.begin; };
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), offset, later),
                   {offset, offset + sizes_[i], values_[i].first, values_[i].last});
  }

  std::span<const stored_value> values_;
  std::vector<std::int64_t> sizes_;
  std::vector<placed_value> placed_;  // by offset
  storage_plan plan_;
};

// Matching values before the others, each in their previous order.
template <class Predicate>
[[nodiscard]] std::vector<std::size_t> put_first(std::span<const std::size_t> order, const Predicate& matches) {
  std::vector<std::size_t> arranged;
  std::copy_if(order.begin(), order.end(), std::back_inserter(arranged), matches);
  std::copy_if(order.begin(), order.end(), std::back_inserter(arranged), std::not_fn(matches));
  return arranged;
}

// As plan_storage, with a quadratic search.
[[nodiscard]] inline storage_plan plan_by_scanning(std::span<const stored_value> values, bytes alignment) {
  constexpr int improvements = 20;  // one per order
  const auto size = [&](std::size_t i) { return static_cast<double>(values[i].size.count()); };
  const auto length = [&](std::size_t i) { return static_cast<double>(values[i].last - values[i].first + 1); };
  const auto first = [&](std::size_t i) { return -static_cast<double>(values[i].first); };
  const std::array<std::function<double(std::size_t)>, 3> urgencies{
      size, [&](std::size_t i) { return size(i) * length(i); }, first};
  const auto least = least_storage(values, alignment);
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
      auto plan = scanning_fit{values, alignment}.run(order);
      order = put_first(order, [&](std::size_t v) { return plan.offsets[v] + values[v].size > least; });
      if (!is_planned || plan.peak < best.peak) {
        best = std::move(plan);
        is_planned = true;
      }
    }
  }
  return best;
}

}  // namespace unity::tasks::test
