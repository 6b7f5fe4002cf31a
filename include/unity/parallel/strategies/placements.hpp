// Configurations on aligned blocks of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::parallel {

// `size` devices from `first` on, every `stride`-th. Aligned: first / stride, rounded down, is a multiple of size, so
// that blocks of one size and stride are disjoint and cover all devices.
struct device_block {
  std::uint32_t first = 0;
  std::uint32_t stride = 1;
  std::uint32_t size = 1;

  [[nodiscard]] hardware::device_id operator[](std::size_t k) const noexcept {
    return hardware::device_id{first + k * stride};
  }

  friend bool operator==(const device_block&, const device_block&) = default;
};

enum class block_strides : std::uint8_t { one, all };

// Complexity: linear in the answer. Precondition: size divides devices.
[[nodiscard]] std::vector<device_block> aligned_blocks(std::size_t devices, std::size_t size, block_strides strides);

[[nodiscard]] configuration on_block(const degree_list& degrees, const device_block& block);

namespace detail {

void add_degrees(const operator_dimensions& o, std::size_t devices, degree_list& degrees, std::size_t dimension,
                 std::vector<degree_list>& all);

}  // namespace detail

// All valid degrees whose number of tasks divides the number of devices, in lexicographic order; none for sources.
// Complexity: the number of divisors of `devices`, to the power of the dimensions.
[[nodiscard]] std::vector<degree_list> degrees_of(const operator_dimensions& o, std::size_t devices);

// The degrees and blocks that each operator of a graph can have. A value type; threads may share it.
class placements {
 public:
  // Complexity: as degrees_of, for each distinct operator; and linear in the blocks.
  placements(const graph_dimensions& all, std::size_t devices, block_strides strides = block_strides::all);

  // Of a node; empty for sources.
  [[nodiscard]] std::span<const degree_list> degrees(node_id n) const { return degrees_[kind_of_[n.index()]]; }
  // Blocks of that many devices; empty if the number does not divide the number of all devices.
  [[nodiscard]] std::span<const device_block> blocks(std::size_t size) const { return blocks_.at(size); }

  // Draws degrees uniformly, then one of the blocks of that many devices. Precondition: not a source.
  [[nodiscard]] configuration sample(node_id n, random_engine& random) const;
  // All configurations, by degrees, then by block.
  [[nodiscard]] std::vector<configuration> all(node_id n) const;

  [[nodiscard]] static std::size_t tasks_of(const degree_list& degrees);

 private:
  std::vector<std::vector<degree_list>> degrees_;    // by kind
  std::vector<std::vector<device_block>> blocks_{};  // by size
  std::vector<std::uint32_t> kind_of_{};             // by node
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_PLACEMENTS)

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<device_block> aligned_blocks(std::size_t devices, std::size_t size, block_strides strides) {
  UNITY_EXPECTS(size > 0 && devices % size == 0, "a size that divides the number of devices");
  std::vector<device_block> all;
  for (std::size_t stride = 1; size * stride <= devices; ++stride) {
    if (devices % (size * stride) != 0) {
      continue;
    }
    for (std::size_t outer = 0; outer < devices; outer += size * stride) {
      for (std::size_t inner = 0; inner < stride; ++inner) {
        all.push_back({static_cast<std::uint32_t>(outer + inner), static_cast<std::uint32_t>(stride),
                       static_cast<std::uint32_t>(size)});
      }
    }
    if (size == 1 || strides == block_strides::one) {
      break;  // blocks of one device are the same for all strides
    }
  }
  return all;
}

UNITY_INLINE configuration on_block(const degree_list& degrees, const device_block& block) {
  configuration c{degrees, {}};
  for (std::size_t k = 0; k < block.size; ++k) {
    c.devices.push_back(block[k]);
  }
  return c;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE void add_degrees(const operator_dimensions& o, std::size_t devices, degree_list& degrees,
                              std::size_t dimension, std::vector<degree_list>& all) {
  if (dimension == degrees.size()) {
    std::size_t tasks = 1;
    for (const auto d : degrees) {
      tasks *= static_cast<std::size_t>(d);
    }
    if (devices % tasks == 0 &&
        why_not(o, on_block(degrees, {0, 1, static_cast<std::uint32_t>(tasks)}), devices).empty()) {
      all.push_back(degrees);
    }
    return;
  }
  for (std::size_t degree = 1; degree <= devices; ++degree) {
    if (devices % degree == 0 && o.divisible[dimension].size % static_cast<std::int64_t>(degree) == 0) {
      degrees[dimension] = static_cast<std::int64_t>(degree);
      add_degrees(o, devices, degrees, dimension + 1, all);
    }
  }
  degrees[dimension] = 1;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<degree_list> degrees_of(const operator_dimensions& o, std::size_t devices) {
  std::vector<degree_list> all;
  if (!o.inputs.empty()) {
    degree_list degrees(o.divisible.size(), 1);
    detail::add_degrees(o, devices, degrees, 0, all);
  }
  return all;
}

UNITY_INLINE placements::placements(const graph_dimensions& all, std::size_t devices, block_strides strides)
    : degrees_(all.kind_count()) {
  blocks_.resize(devices + 1);
  for (std::size_t size = 1; size <= devices; ++size) {
    if (devices % size == 0) {
      blocks_[size] = aligned_blocks(devices, size, strides);
    }
  }
  for (const auto n : node_ids(all)) {
    kind_of_.push_back(all.kind(n));
    auto& degrees = degrees_[kind_of_.back()];
    if (degrees.empty()) {
      degrees = degrees_of(all[n], devices);
    }
  }
}

UNITY_INLINE configuration placements::sample(node_id n, random_engine& random) const {
  const auto all = degrees(n);
  UNITY_EXPECTS(!all.empty(), "an operator, not a source");
  const auto& d = all[random.below(all.size())];
  const auto fitting = blocks(tasks_of(d));
  return on_block(d, fitting[random.below(fitting.size())]);
}

UNITY_INLINE std::vector<configuration> placements::all(node_id n) const {
  std::vector<configuration> every;
  for (const auto& d : degrees(n)) {
    for (const auto& b : blocks(tasks_of(d))) {
      every.push_back(on_block(d, b));
    }
  }
  return every;
}

UNITY_INLINE std::size_t placements::tasks_of(const degree_list& degrees) {
  std::size_t tasks = 1;
  for (const auto d : degrees) {
    tasks *= static_cast<std::size_t>(d);
  }
  return tasks;
}

}  // namespace unity::parallel

#endif
