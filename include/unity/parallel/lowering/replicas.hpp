// Finds which devices hold which parts of a weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>

namespace unity::parallel {

// Elements held by the same set of devices.
struct replica_group {
  std::vector<hardware::device_id> devices{};  // ascending
  std::int64_t elements = 0;
  std::vector<std::uint32_t> boxes{};  // distinct boxes that contain some of them, ascending

  friend bool operator==(const replica_group&, const replica_group&) = default;
};

// The share of the elements that the device at `place` in the group keeps if they are divided among the group. Unit:
// elements.
[[nodiscard]] inline std::int64_t share_of(const replica_group& g, std::size_t place) {
  const auto count = static_cast<std::int64_t>(g.devices.size());
  const auto k = static_cast<std::int64_t>(place);
  return g.elements * (k + 1) / count - g.elements * k / count;
}

struct replicas {
  std::vector<box> boxes{};             // distinct
  std::vector<std::uint32_t> box_of{};  // per reader
  std::vector<replica_group> groups{};  // ordered by devices
};

// Boxes without duplicates.
struct distinct_boxes {
  std::vector<box> boxes{};
  std::vector<std::uint32_t> of{};  // by original box: its index

  friend bool operator==(const distinct_boxes&, const distinct_boxes&) = default;
};

// Complexity: linear in the boxes, times the distinct ones.
[[nodiscard]] distinct_boxes distinct(std::span<const box> all);

// Boxes that tasks read, and the devices of these tasks in the same order.
struct reading {
  const distinct_boxes* read = nullptr;
  std::span<const hardware::device_id> on{};
};

namespace detail {

class replica_finder {
 public:
  [[nodiscard]] replicas run(std::span<const reading> readings) &&;

 private:
  using device_set = std::vector<std::uint64_t>;  // a bit per device

  void add(const reading& r);
  void find_cuts();
  // Visits each cell between the cuts.
  void visit(box& cell, std::size_t d, std::int64_t volume);
  [[nodiscard]] static bool has(const box& b, const box& cell);
  void add_cell(const box& cell, std::int64_t volume);
  [[nodiscard]] std::uint32_t group_of(const std::vector<std::uint32_t>& having);

  replicas all_{};
  std::vector<device_set> holders_{};  // per distinct box
  std::vector<std::vector<std::int64_t>> cuts_{};
  std::map<std::vector<std::uint32_t>, std::uint32_t> group_of_{};  // by the boxes that contain a cell
  std::map<device_set, std::uint32_t> group_with_{};
  std::vector<std::uint32_t> numbers_{};
  std::vector<std::uint32_t> having_{};
};

}  // namespace detail

// Readers are numbered consecutively, one reading after another. Complexity: linear in readers; plus the number of
// cells between all box boundaries, times distinct boxes.
[[nodiscard]] inline replicas replicas_of(std::span<const reading> readings) {
  return detail::replica_finder{}.run(readings);
}

[[nodiscard]] replicas replicas_of(std::span<const box> read, std::span<const hardware::device_id> on);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_REPLICAS)

#include <algorithm>
#include <bit>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE distinct_boxes distinct(std::span<const box> all) {
  distinct_boxes d;
  for (const auto& b : all) {
    auto found = std::find(d.boxes.begin(), d.boxes.end(), b);
    if (found == d.boxes.end()) {
      d.boxes.push_back(b);
      found = d.boxes.end() - 1;
    }
    d.of.push_back(static_cast<std::uint32_t>(found - d.boxes.begin()));
  }
  return d;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE replicas replica_finder::run(std::span<const reading> readings) && {
  for (const auto& r : readings) {
    add(r);
  }
  if (all_.boxes.empty()) {
    return std::move(all_);
  }
  find_cuts();
  box cell{all_.boxes.front().begin, all_.boxes.front().begin};
  visit(cell, 0, 1);
  std::sort(all_.groups.begin(), all_.groups.end(),
            [](const replica_group& a, const replica_group& b) { return a.devices < b.devices; });
  for (auto& g : all_.groups) {
    std::sort(g.boxes.begin(), g.boxes.end());
    g.boxes.erase(std::unique(g.boxes.begin(), g.boxes.end()), g.boxes.end());
  }
  return std::move(all_);
}

UNITY_INLINE void replica_finder::add(const reading& r) {
  UNITY_EXPECTS(r.read->of.size() == r.on.size(), "a device per reader");
  numbers_.clear();
  for (const auto& b : r.read->boxes) {
    const auto found = std::find(all_.boxes.begin(), all_.boxes.end(), b);
    numbers_.push_back(static_cast<std::uint32_t>(found - all_.boxes.begin()));
    if (found == all_.boxes.end()) {
      all_.boxes.push_back(b);
      holders_.emplace_back();
    }
  }
  for (std::size_t i = 0; i < r.on.size(); ++i) {
    const auto number = numbers_[r.read->of[i]];
    all_.box_of.push_back(number);
    auto& set = holders_[number];
    const auto word = r.on[i].index() / 64U;
    if (set.size() <= word) {
      set.resize(word + std::size_t{1}, 0);
    }
    set[word] |= std::uint64_t{1} << r.on[i].index() % 64U;
  }
}

UNITY_INLINE void replica_finder::find_cuts() {
  cuts_.resize(all_.boxes.front().begin.size());
  for (std::size_t d = 0; d < cuts_.size(); ++d) {
    for (const auto& b : all_.boxes) {
      cuts_[d].push_back(b.begin[d]);
      cuts_[d].push_back(b.end[d]);
    }
    std::sort(cuts_[d].begin(), cuts_[d].end());
    cuts_[d].erase(std::unique(cuts_[d].begin(), cuts_[d].end()), cuts_[d].end());
  }
}

UNITY_INLINE void replica_finder::visit(box& cell, std::size_t d, std::int64_t volume) {
  if (d == cuts_.size()) {
    add_cell(cell, volume);
    return;
  }
  for (std::size_t k = 0; k + 1 < cuts_[d].size(); ++k) {
    cell.begin[d] = cuts_[d][k];
    visit(cell, d + 1, volume * (cuts_[d][k + 1] - cuts_[d][k]));
  }
}

UNITY_INLINE bool replica_finder::has(const box& b, const box& cell) {
  for (std::size_t d = 0; d < cell.begin.size(); ++d) {
    if (cell.begin[d] < b.begin[d] || cell.begin[d] >= b.end[d]) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE void replica_finder::add_cell(const box& cell, std::int64_t volume) {
  having_.clear();
  for (std::uint32_t b = 0; b < all_.boxes.size(); ++b) {
    if (has(all_.boxes[b], cell)) {
      having_.push_back(b);
    }
  }
  if (having_.empty()) {
    return;
  }
  const auto [found, is_new] = group_of_.try_emplace(having_, 0U);
  if (is_new) {
    found->second = group_of(having_);
  }
  all_.groups[found->second].elements += volume;
}

UNITY_INLINE std::uint32_t replica_finder::group_of(const std::vector<std::uint32_t>& having) {
  device_set set;
  for (const auto b : having) {
    set.resize(std::max(set.size(), holders_[b].size()), 0);
    for (std::size_t w = 0; w < holders_[b].size(); ++w) {
      set[w] |= holders_[b][w];
    }
  }
  const auto [found, is_new] = group_with_.try_emplace(set, static_cast<std::uint32_t>(all_.groups.size()));
  if (is_new) {
    auto& g = all_.groups.emplace_back();
    for (std::size_t w = 0; w < set.size(); ++w) {
      for (auto bits = set[w]; bits != 0; bits &= bits - 1) {
        g.devices.push_back(hardware::device_id{w * 64 + static_cast<std::size_t>(std::countr_zero(bits))});
      }
    }
  }
  auto& boxes = all_.groups[found->second].boxes;
  boxes.insert(boxes.end(), having.begin(), having.end());
  return found->second;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE replicas replicas_of(std::span<const box> read, std::span<const hardware::device_id> on) {
  const auto boxes = distinct(read);
  const reading one{&boxes, on};
  return replicas_of({&one, 1});
}

}  // namespace unity::parallel

#endif
