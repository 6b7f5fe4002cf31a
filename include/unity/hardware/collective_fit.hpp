// Models of measured exchanges: ranges of sizes fitted to samples, and one link per group size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>

namespace unity::hardware {

// A measured exchange.
struct exchange_sample {
  bytes size{};  // as link counts it
  double seconds = 0;
};

namespace detail {

struct line_fit {
  double alpha = 0;
  double beta = 0;
  double error = 0;  // sum of squared relative errors
};

// Least squares of relative errors, so that small sizes count as much as large ones; no coefficient is negative.
[[nodiscard]] line_fit fit_line(std::span<const exchange_sample> samples);

}  // namespace detail

// At most `most` ranges of at least three samples, fitted by least squares of relative errors. Boundaries minimize the
// sum of squares; another range is added only if it reduces the sum by at least a tenth.
// Preconditions: samples ascend in size, times are positive, and there is at least one sample.
// Complexity: O(most * samples^2) fits, linear each.
[[nodiscard]] std::vector<cost_range> fit_ranges(std::span<const exchange_sample> samples, std::size_t most = 3);

// How far the times of samples are from what the ranges give. Precondition: there is at least one sample.
// Complexity: n log n.
[[nodiscard]] cost_interval fit_interval(std::span<const cost_range> ranges, std::span<const exchange_sample> samples);

// The time of a collective: from the link of its group; for a group that was not measured, by interpolation along the
// line through the nearest two, in logarithms of ranks and time. If only one group was measured, its time is used.
// In seconds; size: as link counts it. Precondition: some link has that kind.
// Complexity: linear in the links and their ranges.
[[nodiscard]] double collective_seconds(std::span<const link> groups, exchange kind, int ranks, bytes size);

// The same, or nothing if no link has that kind. Precondition: at least two ranks.
[[nodiscard]] std::optional<picoseconds> measured_time(std::span<const link> groups, exchange kind, std::size_t ranks,
                                                       bytes size);

// A measured collective of a group of ranks on one kind of link.
struct collective_sample {
  exchange kind = exchange::all_reduce;
  int ranks = 2;
  bytes size{};  // as link counts it
  double seconds = 0;

  friend bool operator==(const collective_sample&, const collective_sample&) = default;
};

// The samples that padding cannot make faster: no sample of the same kind and group that is at least as large takes
// less than 1 / (1 + slack) of their time. Removes slow samples at sizes that libraries cannot move in whole words;
// callers can avoid these by padding. Keeps the order. Complexity: n log n.
[[nodiscard]] std::vector<collective_sample> unpadded(std::span<const collective_sample> samples, double slack = 0.1);

// One link per group size, ascending: ranges by fit_ranges, over the medians by size of unpadded(samples).
// Preconditions: times are positive, sizes not negative, groups of at least 2.
// Complexity: cubic in the sizes of each kind and group.
[[nodiscard]] std::vector<link> fit_collectives(std::span<const collective_sample> samples);

// Mean absolute relative errors of predictions for samples that were left out of the fit.
struct held_out_error {
  double sizes = 0;      // every fifth size was left out
  double sizes_all = 0;  // likewise, over all samples, including those that unpadded removes
  double group = -1;     // the whole group was left out; negative if no other group was measured
  std::size_t samples = 0;
  std::size_t padded = 0;  // of these: removed by unpadded
};

// Predictions are compared with unpadded samples, except for sizes_all. Complexity: as fit_collectives, per group.
[[nodiscard]] std::map<exchange, std::map<int, held_out_error>> held_out_errors(
    std::span<const collective_sample> samples);

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_COLLECTIVE_FIT)

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/cost/duration.hpp>

namespace unity::hardware::detail {

UNITY_INLINE line_fit fit_line(std::span<const exchange_sample> samples) {
  double one = 0;  // sums of weighted 1, x, x^2, y, x*y, y^2, with y weighted to 1
  double x = 0;
  double xx = 0;
  double y = 0;
  double xy = 0;
  for (const auto& s : samples) {
    const auto weight = 1 / s.seconds;
    const auto size = static_cast<double>(s.size.count()) * weight;
    one += weight * weight;
    x += weight * size;
    xx += size * size;
    y += weight;
    xy += size;
  }
  const auto determinant = one * xx - x * x;
  line_fit best;
  best.error = std::numeric_limits<double>::infinity();
  const auto consider = [&](double alpha, double beta) {
    if (!(alpha >= 0 && beta >= 0)) {
      return;
    }
    double error = 0;
    for (const auto& s : samples) {
      const auto relative = (alpha + beta * static_cast<double>(s.size.count())) / s.seconds - 1;
      error += relative * relative;
    }
    if (error < best.error) {
      best = {alpha, beta, error};
    }
  };
  if (determinant > 1e-12 * one * xx) {
    consider((xx * y - x * xy) / determinant, (one * xy - x * y) / determinant);
  }
  consider(y / one, 0);
  if (xx > 0) {
    consider(0, xy / xx);
  }
  return best;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::vector<cost_range> fit_ranges(std::span<const exchange_sample> samples, std::size_t most) {
  UNITY_EXPECTS(!samples.empty() && most > 0, "samples");
  constexpr std::size_t least = 3;
  const auto count = samples.size();
  // errors[k][end]: the least error of the samples before `end` in k + 1 ranges; the last range begins at
  // begins[k][end].
  const auto never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> errors(most, std::vector<double>(count + 1, never));
  std::vector<std::vector<std::size_t>> begins(most, std::vector<std::size_t>(count + 1, 0));
  for (std::size_t end = 1; end <= count; ++end) {
    errors[0][end] = detail::fit_line(samples.first(end)).error;
  }
  for (std::size_t k = 1; k < most; ++k) {
    for (std::size_t end = (k + 1) * least; end <= count; ++end) {
      for (auto begin = k * least; begin + least <= end; ++begin) {
        const auto error = errors[k - 1][begin] + detail::fit_line(samples.subspan(begin, end - begin)).error;
        if (error < errors[k][end]) {
          errors[k][end] = error;
          begins[k][end] = begin;
        }
      }
    }
  }
  std::size_t ranges = 0;
  constexpr double noise = 1e-18;  // from rounding
  for (std::size_t k = 1; k < most; ++k) {
    if (errors[k][count] + noise < 0.9 * errors[ranges][count]) {
      ranges = k;
    }
  }
  std::vector<cost_range> fitted(ranges + 1);
  auto end = count;
  for (auto k = ranges + 1; k-- > 0;) {
    const auto begin = k == 0 ? 0 : begins[k][end];
    const auto line = detail::fit_line(samples.subspan(begin, end - begin));
    fitted[k] = {end == count ? cost_range::no_end : samples[end - 1].size, line.alpha, line.beta};
    end = begin;
  }
  return fitted;
}

UNITY_INLINE cost_interval fit_interval(std::span<const cost_range> ranges, std::span<const exchange_sample> samples) {
  UNITY_EXPECTS(!samples.empty(), "samples");
  std::vector<double> ratios;
  for (const auto& s : samples) {
    ratios.push_back(s.seconds / std::max(exchange_seconds(ranges, s.size), 1e-12));
  }
  std::sort(ratios.begin(), ratios.end());
  const auto [low, high] = unity::percentiles_10_90(ratios);
  return {std::clamp(low, 1 / widest_interval, 1.0), std::clamp(high, 1.0, widest_interval)};
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

// Two links to interpolate between: that of the group nearest to `ranks`, and that of the nearest group on the other
// side of `ranks`, or the second nearest if all groups are on one side. Null if there is no such group.
[[nodiscard]] inline std::pair<const link*, const link*> groups_around(std::span<const link> groups, exchange kind,
                                                                       int ranks) {
  const auto distance = [&](const link& l) { return std::abs(std::log2(static_cast<double>(l.ranks) / ranks)); };
  const auto nearest = [&](const auto& may_be) {
    const link* best = nullptr;
    for (const auto& l : groups) {
      if (l.costs.contains(kind) && may_be(l) && (best == nullptr || distance(l) < distance(*best))) {
        best = &l;
      }
    }
    return best;
  };
  const auto* near = nearest([](const link&) { return true; });
  if (near == nullptr) {
    return {};
  }
  const auto* across = nearest([&](const link& l) { return (l.ranks > ranks) != (near->ranks > ranks); });
  return {near, across != nullptr ? across : nearest([&](const link& l) { return l.ranks != near->ranks; })};
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE double collective_seconds(std::span<const link> groups, exchange kind, int ranks, bytes size) {
  const auto [near, other] = detail::groups_around(groups, kind, ranks);
  UNITY_EXPECTS(near != nullptr && ranks > 1, "a measured kind and at least two ranks");
  const auto first = exchange_seconds(near->costs.at(kind), size);
  if (near->ranks == ranks || other == nullptr) {
    return first;
  }
  const auto second = exchange_seconds(other->costs.at(kind), size);
  if (!(first > 0 && second > 0)) {
    return first;
  }
  const auto share =
      std::log2(static_cast<double>(ranks) / near->ranks) / std::log2(static_cast<double>(other->ranks) / near->ranks);
  return first * std::pow(second / first, share);
}

UNITY_INLINE std::optional<picoseconds> measured_time(std::span<const link> groups, exchange kind, std::size_t ranks,
                                                      bytes size) {
  const auto has = [&](const link& l) { return l.costs.contains(kind); };
  if (std::none_of(groups.begin(), groups.end(), has)) {
    return std::nullopt;
  }
  return from_seconds(collective_seconds(groups, kind, static_cast<int>(ranks), size));
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

using collective_group = std::pair<exchange, int>;
using samples_by_group = std::map<collective_group, std::vector<exchange_sample>>;

// Ascending in size; for equal sizes, faster samples first.
[[nodiscard]] inline samples_by_group grouped(std::span<const collective_sample> samples) {
  samples_by_group groups;
  for (const auto& s : samples) {
    UNITY_EXPECTS(s.ranks > 1 && s.size >= bytes{} && s.seconds > 0, "a positive time of at least two ranks");
    groups[{s.kind, s.ranks}].push_back({s.size, s.seconds});
  }
  for (auto& [group, all] : groups) {
    std::sort(all.begin(), all.end(), [](const exchange_sample& a, const exchange_sample& b) {
      return std::tie(a.size, a.seconds) < std::tie(b.size, b.seconds);
    });
  }
  return groups;
}

// One sample per size: the median; for an even number, the mean of the middle two.
[[nodiscard]] inline std::vector<exchange_sample> medians(std::span<const exchange_sample> ascending) {
  std::vector<exchange_sample> of_sizes;
  for (std::size_t first = 0; first < ascending.size();) {
    auto last = first;
    while (last < ascending.size() && ascending[last].size == ascending[first].size) {
      ++last;
    }
    const auto low = ascending[first + (last - first - 1) / 2].seconds;
    const auto high = ascending[first + (last - first) / 2].seconds;
    of_sizes.push_back({ascending[first].size, low + (high - low) / 2});
    first = last;
  }
  return of_sizes;
}

[[nodiscard]] inline double mean_error(std::span<const link> fitted, const collective_group& group,
                                       std::span<const exchange_sample> samples) {
  double sum = 0;
  for (const auto& s : samples) {
    sum += std::abs(collective_seconds(fitted, group.first, group.second, s.size) / s.seconds - 1);
  }
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

// Every fifth size of a group, in ascending order.
[[nodiscard]] inline std::vector<bytes> held_out_sizes(std::span<const exchange_sample> ascending) {
  std::vector<bytes> sizes;
  const auto all = medians(ascending);
  for (std::size_t i = 2; i < all.size(); i += 5) {
    sizes.push_back(all[i].size);
  }
  return sizes;
}

[[nodiscard]] inline std::vector<exchange_sample> only(std::span<const exchange_sample> samples,
                                                       std::span<const bytes> sizes) {
  std::vector<exchange_sample> chosen;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(chosen),
               [&](const exchange_sample& s) { return std::binary_search(sizes.begin(), sizes.end(), s.size); });
  return chosen;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::vector<collective_sample> unpadded(std::span<const collective_sample> samples, double slack) {
  auto floors = detail::grouped(samples);  // by size, the least time of samples that are at least as large
  for (auto& [group, all] : floors) {
    auto least = std::numeric_limits<double>::infinity();
    for (auto s = all.rbegin(); s != all.rend(); ++s) {
      s->seconds = least = std::min(least, s->seconds);
    }
  }
  std::vector<collective_sample> kept;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(kept), [&](const collective_sample& s) {
    const auto& floor = floors.at({s.kind, s.ranks});
    const auto at = std::lower_bound(floor.begin(), floor.end(), s.size,
                                     [](const exchange_sample& f, bytes size) { return f.size < size; });
    return s.seconds <= (1 + slack) * at->seconds;
  });
  return kept;
}

UNITY_INLINE std::vector<link> fit_collectives(std::span<const collective_sample> samples) {
  constexpr std::size_t most_ranges = 6;
  std::map<int, link> links;
  for (const auto& [group, all] : detail::grouped(unpadded(samples))) {
    auto& l = links[group.second];
    l.name = "measured";
    l.ranks = group.second;
    l.costs[group.first] = fit_ranges(detail::medians(all), most_ranges);
  }
  std::vector<link> in_order;
  for (auto& [ranks, l] : links) {
    in_order.push_back(std::move(l));
  }
  return in_order;
}

UNITY_INLINE std::map<exchange, std::map<int, held_out_error>> held_out_errors(
    std::span<const collective_sample> samples) {
  const auto all = detail::grouped(samples);
  const auto fast = detail::grouped(unpadded(samples));
  std::vector<collective_sample> seen;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(seen), [&](const collective_sample& s) {
    const auto sizes = detail::held_out_sizes(all.at({s.kind, s.ranks}));
    return !std::binary_search(sizes.begin(), sizes.end(), s.size);
  });
  const auto by_size = fit_collectives(seen);
  const auto by_group = fit_collectives(samples);
  std::map<exchange, std::map<int, held_out_error>> errors;
  for (const auto& [group, those] : all) {
    auto& e = errors[group.first][group.second];
    const auto& floor = fast.at(group);
    const auto sizes = detail::held_out_sizes(those);
    e.samples = those.size();
    e.padded = those.size() - floor.size();
    e.sizes = detail::mean_error(by_size, group, detail::only(floor, sizes));
    e.sizes_all = detail::mean_error(by_size, group, detail::only(those, sizes));
    auto others = by_group;
    others.erase(
        std::remove_if(others.begin(), others.end(),
                       [&](const link& l) { return l.ranks == group.second || !l.costs.contains(group.first); }),
        others.end());
    e.group = others.empty() ? -1 : detail::mean_error(others, group, floor);
  }
  return errors;
}

}  // namespace unity::hardware

#endif
