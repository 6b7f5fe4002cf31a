// For each tensor that a divided operator reads or writes: its parts, and the devices that have each. For formats that
// describe divisions by equal parts of tensors, without tasks.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::parallel {

// Regular. A tensor in equal parts, each on one or more devices. Empty if the parts that tasks read overlap or differ
// in size, as those of windows may.
struct shard_layout {
  using device_list = small_vector<hardware::device_id, 4>;

  degree_list parts{};                 // how many, per dimension
  std::vector<device_list> devices{};  // of each part, row-major; a device once, in the order of tasks

  [[nodiscard]] bool empty() const noexcept { return devices.empty(); }

  friend bool operator==(const shard_layout&, const shard_layout&) = default;
};

// The layouts of one operator. Partials of a result count as added up: every device that has a partial of a part has
// the part.
struct operator_layout {
  std::vector<shard_layout> operands{};
  std::vector<shard_layout> results{};

  friend bool operator==(const operator_layout&, const operator_layout&) = default;
};

// The layout of a valid configuration. If windows divide an operand, its parts may have elements that no task reads.
// Results always have equal parts.
// Complexity: n log n in tasks, times operands, results and their ranks; each task searches the devices of its part.
[[nodiscard]] operator_layout layout_of(const operator_dimensions& o, const configuration& c);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_SHARD_LAYOUT)

#include <algorithm>
#include <cstdint>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/row_major.hpp>

namespace unity::parallel {

namespace detail {

// The number of different ranges that boxes have along a dimension.
UNITY_INLINE std::int64_t range_count(const std::vector<const box*>& boxes, std::size_t d) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto* b : boxes) {
    ranges.emplace_back(b->begin[d], b->end[d]);
  }
  std::sort(ranges.begin(), ranges.end());
  return std::unique(ranges.begin(), ranges.end()) - ranges.begin();
}

// boxes: of each task.
UNITY_INLINE shard_layout layout_of(const std::vector<const box*>& boxes, const tensor::shape& dims,
                                    const configuration& c) {
  shard_layout layout;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    layout.parts.push_back(range_count(boxes, d));
    if (dims[d] % layout.parts[d] != 0) {
      return {};
    }
  }
  layout.devices.resize(static_cast<std::size_t>(product(layout.parts)));
  for (std::size_t task = 0; task < boxes.size(); ++task) {
    auto part = layout.parts;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto size = dims[d] / layout.parts[d];
      part[d] = layout.parts[d] == 1 ? 0 : boxes[task]->begin[d] / size;
      if (layout.parts[d] > 1 && (part[d] >= layout.parts[d] || boxes[task]->end[d] > (part[d] + 1) * size)) {
        return {};
      }
    }
    auto& devices = layout.devices[offset_of(layout.parts, part)];
    if (std::find(devices.begin(), devices.end(), c.devices[task]) == devices.end()) {
      devices.push_back(c.devices[task]);
    }
  }
  const auto is_read = [](const auto& devices) { return !devices.empty(); };
  return std::all_of(layout.devices.begin(), layout.devices.end(), is_read) ? layout : shard_layout{};
}

}  // namespace detail

UNITY_INLINE operator_layout layout_of(const operator_dimensions& o, const configuration& c) {
  const auto tasks = shards_of(o, c.grid());
  const auto layouts = [&](const auto& types, auto boxes_of) {
    std::vector<shard_layout> all;
    for (std::size_t i = 0; i < types.size(); ++i) {
      std::vector<const box*> boxes;
      for (const auto& t : tasks) {
        boxes.push_back(&boxes_of(t)[i]);
      }
      all.push_back(detail::layout_of(boxes, types[i].dims, c));
    }
    return all;
  };
  operator_layout all;
  all.operands = layouts(
      o.inputs, [](const shard& s) -> auto& { return s.operands; });
  all.results = layouts(
      o.outputs, [](const shard& s) -> auto& { return s.results; });
  return all;
}

}  // namespace unity::parallel

#endif
