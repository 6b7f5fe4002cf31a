// Which parts of a weight several devices hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/box.hpp>

namespace unity::parallel {

// Elements that the same devices hold.
struct replica_group {
  std::vector<machine::device_id> devices{};  // ascending
  std::int64_t elements = 0;
  std::vector<std::uint32_t> boxes{};  // those of the distinct boxes that have some of them, ascending

  friend bool operator==(const replica_group&, const replica_group&) = default;
};

struct replicas {
  std::vector<box> boxes{};            // distinct
  std::vector<std::uint32_t> box_of{};  // per reader
  std::vector<replica_group> groups{};  // by their devices, ascending
};

namespace detail {

// Calls f(cell) for each cell between the cuts.
template <class F>
void for_each_cell(const std::vector<std::vector<std::int64_t>>& cuts, const F& f) {
  std::vector<std::size_t> at(cuts.size(), 0);
  box cell{tensor::shape(cuts.size(), 0), tensor::shape(cuts.size(), 0)};
  for (;;) {
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      cell.begin[d] = cuts[d][at[d]];
      cell.end[d] = cuts[d][at[d] + 1];
    }
    f(cell);
    auto d = cuts.size();
    while (d > 0 && ++at[d - 1] + 1 == cuts[d - 1].size()) {
      at[--d] = 0;
    }
    if (d == 0) {
      return;
    }
  }
}

}  // namespace detail

// read: what each reader reads, on the device of the same number.
// Complexity: the cells between all ends of boxes, times distinct boxes and devices.
[[nodiscard]] inline replicas replicas_of(std::span<const box> read, std::span<const machine::device_id> on) {
  UNITY_EXPECTS(read.size() == on.size(), "a device per reader");
  replicas all;
  std::vector<std::vector<machine::device_id>> holders;  // per distinct box
  for (std::size_t i = 0; i < read.size(); ++i) {
    const auto found = std::find(all.boxes.begin(), all.boxes.end(), read[i]);
    all.box_of.push_back(static_cast<std::uint32_t>(found - all.boxes.begin()));
    if (found == all.boxes.end()) {
      all.boxes.push_back(read[i]);
      holders.emplace_back();
    }
    holders[all.box_of.back()].push_back(on[i]);
  }
  if (all.boxes.empty()) {
    return all;
  }
  std::vector<std::vector<std::int64_t>> cuts(all.boxes.front().begin.size());
  for (std::size_t d = 0; d < cuts.size(); ++d) {
    for (const auto& b : all.boxes) {
      cuts[d].push_back(b.begin[d]);
      cuts[d].push_back(b.end[d]);
    }
    std::sort(cuts[d].begin(), cuts[d].end());
    cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
  }
  for (auto& h : holders) {
    std::sort(h.begin(), h.end());
    h.erase(std::unique(h.begin(), h.end()), h.end());
  }
  std::map<std::vector<machine::device_id>, replica_group> groups;
  detail::for_each_cell(cuts, [&](const box& cell) {
    std::vector<machine::device_id> devices;
    std::vector<std::uint32_t> having;
    for (std::uint32_t b = 0; b < all.boxes.size(); ++b) {
      if (!intersection(all.boxes[b], cell).empty()) {
        having.push_back(b);
        devices.insert(devices.end(), holders[b].begin(), holders[b].end());
      }
    }
    if (having.empty()) {
      return;
    }
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    auto& g = groups[devices];
    g.devices = std::move(devices);
    g.elements += cell.volume();
    g.boxes.insert(g.boxes.end(), having.begin(), having.end());
  });
  for (auto& [devices, g] : groups) {
    std::sort(g.boxes.begin(), g.boxes.end());
    g.boxes.erase(std::unique(g.boxes.begin(), g.boxes.end()), g.boxes.end());
    all.groups.push_back(std::move(g));
  }
  return all;
}

}  // namespace unity::parallel
