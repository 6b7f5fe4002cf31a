// Policies that synchronize all weights of a strategy alike.
#pragma once

#include <cstdint>

#include <unity/core/units.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/synchronization.hpp>

namespace unity::parallel {

[[nodiscard]] constexpr synchronizer sharded_by_stage(std::uint32_t stage) noexcept {
  synchronizer s;
  s.kind = sync_kind::sharded;
  s.stage = stage;
  return s;
}

// Buckets of up to that many bytes per device; a larger weight has its own bucket. The first bucket has the weights
// whose gradients the backward pass computes first, and so on; weights of a bucket have one element type.
// Complexity: w log w in weights, besides dividing operators.
// Source: Li et al., PyTorch distributed, VLDB 2020, section 3.2.3.
[[nodiscard]] synchronization bucketed_sync(lowering& l, const strategy& s, bytes size);

// Synchronizes every trained weight by `sync`. Precondition: its kind is sharded.
[[nodiscard]] synchronization sharded_sync(const lowering& l, const synchronizer& sync = sharded_by_stage(1));

// Assigns every trained weight to a server, the largest first, each to the first device with the fewest bytes to serve
// so far.
// Source: AutoDist's load-balanced parameter servers.
[[nodiscard]] synchronization served_sync(lowering& l, const strategy& s);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_SYNC_POLICIES)

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

// Per weight, the largest part that a task reads, in bytes.
UNITY_INLINE std::vector<std::int64_t> bytes_on_devices(lowering& l, const strategy& s) {
  std::vector<std::int64_t> all;
  for (const auto& w : l.training().weights()) {
    std::int64_t most = 0;
    for (const auto& use : w.uses) {
      for (const auto& b : l.parts_of(s, use.node).operands[use.operand].boxes) {
        most = std::max(most, b.volume());
      }
    }
    all.push_back(most * tensor::size_of(l.graph().type(w.value).element));
  }
  return all;
}

}  // namespace detail

UNITY_INLINE synchronization bucketed_sync(lowering& l, const strategy& s, bytes size) {
  const auto& weights = l.training().weights();
  const auto sizes = detail::bytes_on_devices(l, s);
  // The gradient is complete after the backward task of the weight's first reader.
  std::vector<std::uint32_t> first(weights.size(), 0);
  std::vector<std::size_t> order;
  for (std::size_t w = 0; w < weights.size(); ++w) {
    auto least = ~std::uint32_t{0};
    for (const auto& use : weights[w].uses) {
      least = l.training().has_backward(use.node) ? std::min(least, use.node.index()) : least;
    }
    if (weights[w].is_trained && least != ~std::uint32_t{0}) {
      first[w] = least;
      order.push_back(w);
    }
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::tie(first[a], a) > std::tie(first[b], b); });
  struct open_bucket {
    std::uint32_t number = 0;
    std::int64_t filled = 0;
  };
  synchronization all;
  all.weights.resize(weights.size());
  std::map<tensor::dtype, open_bucket> open;
  for (const auto w : order) {
    const auto element = l.graph().type(weights[w].value).element;
    auto found = open.find(element);
    if (found == open.end() || found->second.filled + sizes[w] > size.count()) {
      found = open.insert_or_assign(element, open_bucket{static_cast<std::uint32_t>(all.buckets.size()), 0}).first;
      all.buckets.push_back(fmt::format("bucket {}", all.buckets.size()));
    }
    found->second.filled += sizes[w];
    all.weights[w].parts.front().bucket = found->second.number;
  }
  return all;
}

UNITY_INLINE synchronization sharded_sync(const lowering& l, const synchronizer& sync) {
  synchronization all;
  for (const auto& w : l.training().weights()) {
    all.weights.emplace_back().parts.front() = w.is_trained ? sync : synchronizer{};
  }
  return all;
}

UNITY_INLINE synchronization served_sync(lowering& l, const strategy& s) {
  const auto& weights = l.training().weights();
  const auto sizes = detail::bytes_on_devices(l, s);
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b; });
  std::vector<std::int64_t> loads(l.links().device_count());
  synchronization all;
  all.weights.resize(weights.size());
  for (const auto w : order) {
    if (weights[w].is_trained) {
      const auto least = std::min_element(loads.begin(), loads.end());
      *least += sizes[w];
      all.weights[w].parts.front() = {sync_kind::parameter_server, synchronizer::no_bucket,
                                      hardware::device_id{static_cast<std::size_t>(least - loads.begin())}};
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
