// How the replicas of each weight stay equal.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/machine/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// all_reduce        devices that hold elements add up their gradients, and each updates all that it holds
// sharded           the gradient is reduced and scattered, each device updates its share, and the shares are gathered:
//                   what the optimizer keeps is divided among the replicas (Rajbhandari et al., ZeRO, SC 2020, stage 1)
// parameter_server  gradients go to one device, which updates and hands out what it made; it need not read the weight
// none              each device updates by its own gradient: replicas drift apart
enum class sync_kind : std::uint8_t { all_reduce, sharded, parameter_server, none };
inline constexpr std::array<std::string_view, 4> sync_kind_names{"all_reduce", "sharded", "parameter_server", "none"};

[[nodiscard]] constexpr std::optional<sync_kind> find_sync_kind(std::string_view name) noexcept {
  for (std::size_t i = 0; i < sync_kind_names.size(); ++i) {
    if (sync_kind_names[i] == name) {
      return static_cast<sync_kind>(i);
    }
  }
  return std::nullopt;
}

// Regular.
struct synchronizer {
  static constexpr std::uint32_t no_bucket = std::numeric_limits<std::uint32_t>::max();

  sync_kind kind = sync_kind::all_reduce;
  std::uint32_t bucket = no_bucket;  // all_reduce: those of one bucket are reduced together
  machine::device_id destination{};  // parameter_server: the device

  friend bool operator==(const synchronizer&, const synchronizer&) = default;
};

// Of a weight, which is cut along the axis into parts, as even as can be; each has its own synchronizer. Regular.
struct weight_sync {
  std::uint32_t axis = 0;
  std::vector<synchronizer> parts = std::vector<synchronizer>(1);

  [[nodiscard]] bool is_default() const { return parts.size() == 1 && parts.front() == synchronizer{}; }

  friend bool operator==(const weight_sync&, const weight_sync&) = default;
};

// What each part has of a weight of that shape. Precondition: the axis is one of it where there are several parts.
[[nodiscard]] std::vector<box> boxes_of(const weight_sync& how, const tensor::shape& dims);

// Regular. Buckets are reduced in their order: one does not begin before the one before it could, among the same
// devices (Li et al., PyTorch distributed, VLDB 2020, section 3.2.3).
struct synchronization {
  std::vector<std::string> buckets{};  // names
  std::vector<weight_sync> weights{};  // of the graph, in the order of their nodes; empty: all_reduce, each alone

  [[nodiscard]] bool is_trivial() const {
    return std::all_of(weights.begin(), weights.end(), [](const weight_sync& w) { return w.is_default(); });
  }

  friend bool operator==(const synchronization&, const synchronization&) = default;
};

// Throws: unity::error that names the weight's node and says why, where it is none of the graph on so many devices:
// buckets without a weight or of two element types, destinations that are no devices, more parts than the axis has
// elements, or weights that training leaves alone.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const synchronization& s, std::size_t devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_SYNCHRONIZATION)

#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::parallel {

namespace detail {

UNITY_INLINE void check_part(const std::string& where, const synchronizer& part, const synchronization& s,
                             std::size_t devices) {
  const bool is_in_bucket = part.bucket != synchronizer::no_bucket;
  if (is_in_bucket && part.kind != sync_kind::all_reduce) {
    throw error{where, fmt::format("a bucket of {}", sync_kind_names[static_cast<std::size_t>(part.kind)]),
                "buckets of all_reduce alone"};
  }
  if (is_in_bucket && part.bucket >= s.buckets.size()) {
    throw error{where, fmt::format("bucket {}", part.bucket), fmt::format("one of the {} buckets", s.buckets.size())};
  }
  if (part.kind == sync_kind::parameter_server &&
      (!part.destination.valid() || part.destination.index() >= devices)) {
    throw error{where, "a parameter server that is no device", fmt::format("one of the {} devices", devices)};
  }
}

}  // namespace detail

UNITY_INLINE std::vector<box> boxes_of(const weight_sync& how, const tensor::shape& dims) {
  const auto count = static_cast<std::int64_t>(how.parts.size());
  std::vector<box> all(how.parts.size(), whole(dims));
  for (std::int64_t k = 0; k < count && count > 1; ++k) {
    auto& part = all[static_cast<std::size_t>(k)];
    part.begin[how.axis] = dims[how.axis] * k / count;
    part.end[how.axis] = dims[how.axis] * (k + 1) / count;
  }
  return all;
}

UNITY_INLINE void check(const tensor::algebra& a, const tensor::tensor_graph& g, const synchronization& s,
                        std::size_t devices) {
  if (s.weights.empty() && s.buckets.empty()) {
    return;
  }
  const training_graph training{a, g};
  if (s.weights.size() != training.weights().size()) {
    throw error{"synchronization", fmt::format("of {} weights", s.weights.size()),
                fmt::format("of the {} that the graph has", training.weights().size())};
  }
  std::vector<std::optional<tensor::dtype>> elements(s.buckets.size());
  for (std::size_t w = 0; w < s.weights.size(); ++w) {
    const auto& own = s.weights[w];
    const auto& weight = training.weights()[w];
    const auto& type = g.type(weight.value);
    const auto where = fmt::format("synchronization, weight of node {}", g.producer(weight.value).index());
    if (own.is_default()) {
      continue;
    }
    if (!weight.is_trained) {
      throw error{where, "a way of its own", "none for what training does not change"};
    }
    if (own.parts.empty() || (own.parts.size() > 1 && own.axis >= type.dims.size()) ||
        (own.parts.size() > 1 && type.dims[own.axis] < static_cast<std::int64_t>(own.parts.size()))) {
      throw error{where, fmt::format("{} parts along axis {}", own.parts.size(), own.axis),
                  "an axis of the weight with as many elements or more"};
    }
    for (const auto& part : own.parts) {
      detail::check_part(where, part, s, devices);
      if (part.bucket == synchronizer::no_bucket) {
        continue;
      }
      auto& element = elements[part.bucket];
      if (element && *element != type.element) {
        throw error{where, fmt::format("a bucket, {}, of weights of other elements", s.buckets[part.bucket]),
                    "one element type in a bucket"};
      }
      element = type.element;
    }
  }
  if (std::set<std::string>(s.buckets.begin(), s.buckets.end()).size() < s.buckets.size()) {
    throw error{"synchronization", "two buckets of one name", "names that tell buckets apart"};
  }
  for (std::size_t b = 0; b < elements.size(); ++b) {
    if (!elements[b]) {
      throw error{"synchronization", fmt::format("no weight in bucket {}", s.buckets[b]), "one at least"};
    }
  }
}

}  // namespace unity::parallel

#endif
