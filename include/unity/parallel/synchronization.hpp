// How the replicas of each weight are kept equal: by reductions or a server, at once or late, whole or compressed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// How gradients are compressed before they are sent.

// none
// float16, bfloat16  rounds each element to 16 bits and sums the rounded values (Horovod's compression)
// top_k              sends the elements of largest magnitude, the first of equal ones; a NaN counts as the largest, so
//                    that it is not lost (Lin et al., Deep gradient compression, ICLR 2018)
// power_sgd          approximates the matrix of the first axis by all others with a product of two narrow ones
//                    (Vogels et al., PowerSGD, NeurIPS 2019); sends a vector unchanged
enum class compression : std::uint8_t { none, float16, bfloat16, top_k, power_sgd };
inline constexpr std::array<std::string_view, 5> compression_names{"none", "float16", "bfloat16", "top_k", "power_sgd"};

[[nodiscard]] constexpr std::optional<compression> find_compression(std::string_view name) noexcept {
  return find_enumerator<compression>(compression_names, name);
}

// Regular.
struct compressor {
  compression kind = compression::none;
  // Error feedback: what compression lost is added to the next gradient. Always true for top_k and power_sgd, which
  // would not converge without it.
  bool has_feedback = false;
  // top_k: elements sent per 1,000, at least one in total. power_sgd: columns of the narrow matrices. Otherwise 0.
  std::uint32_t amount = 0;

  friend bool operator==(const compressor&, const compressor&) = default;
};

// The number of elements that top_k sends out of `elements`.
[[nodiscard]] constexpr std::int64_t sent_elements(const compressor& c, std::int64_t elements) noexcept {
  const auto share = elements * static_cast<std::int64_t>(c.amount) / 1000;
  return share > 0 ? share : 1;
}

// Messages are of one weight or a part of one, so they are not bucketed.
[[nodiscard]] constexpr bool is_of_one_weight(const compressor& c) noexcept {
  return c.kind == compression::top_k || c.kind == compression::power_sgd;
}

// Messages have 16-bit elements.
[[nodiscard]] constexpr bool is_rounded(const compressor& c) noexcept {
  return c.kind == compression::float16 || c.kind == compression::bfloat16;
}

// The sizes of the messages with which each device contributes a piece of a weight, of those dimensions. Each message
// is summed over devices, one after another: a sum starts when the previous one has ended. The time for rounding,
// products and the like is not included. Precondition: not top_k, whose messages are gathered.
[[nodiscard]] std::vector<bytes> message_sizes(const compressor& c, tensor::dtype element, const tensor::shape& piece);

// Per device, the device that communicates with the server on its behalf: the server itself for devices of the server's
// node, otherwise the first device of the node. Complexity: devices, times the logarithm of nodes.
// Source: Zhang et al., AutoDist, section 2.2 (transfer destination); Li et al., Scaling distributed machine learning
// with the parameter server, OSDI 2014.
[[nodiscard]] std::vector<hardware::device_id> stations_of(std::span<const hardware::device_id> devices,
                                                           hardware::device_id server, const hardware::topology& t);

// all_reduce        devices add up the gradients of elements that they share; each updates all that it holds
// sharded           gradients are reduce-scattered, each device updates its share, and shares are gathered: optimizer
//                   state is divided among the replicas; stages 2 and 3 divide gradients and weights, too (Rajbhandari
//                   et al., ZeRO, SC 2020)
// parameter_server  gradients are sent to one device, which updates the weight and sends it out; that device need not
//                   read the weight
// none              each device updates by its own gradient: replicas drift apart
enum class sync_kind : std::uint8_t { all_reduce, sharded, parameter_server, none };
inline constexpr std::array<std::string_view, 4> sync_kind_names{"all_reduce", "sharded", "parameter_server", "none"};

[[nodiscard]] constexpr std::optional<sync_kind> find_sync_kind(std::string_view name) noexcept {
  return find_enumerator<sync_kind>(sync_kind_names, name);
}

// The implementation of an all-reduce. AutoDist's names, kept for compatibility and without effect: simulated
// all-reduces use the algorithm that chosen_way gives for their size (hardware/collective_cost.hpp), and ranks use
// their communicator's.
enum class reduction_algorithm : std::uint8_t { automatic, nccl, ring };
inline constexpr std::array<std::string_view, 3> reduction_algorithm_names{"automatic", "nccl", "ring"};

// Regular.
// Source: Zhang et al., AutoDist: a composable and automated synchronization system for distributed deep learning,
// section 2.2.
struct synchronizer {
  static constexpr std::uint32_t no_bucket = std::numeric_limits<std::uint32_t>::max();

  sync_kind kind = sync_kind::all_reduce;
  std::uint32_t bucket = no_bucket;   // all_reduce: weights of one bucket are reduced together
  hardware::device_id destination{};  // parameter_server: the device
  reduction_algorithm algorithm = reduction_algorithm::automatic;  // all_reduce
  parallel::compressor compressor{};                               // all_reduce: of each contribution
  // parameter_server: devices keep a copy, which the server refreshes when it has a new version. false: they fetch the
  // weight at the beginning of an iteration and drop it at its end.
  bool is_proxied = true;
  // parameter_server: the number of iterations by which the weight that an iteration reads may be out of date.
  std::uint32_t staleness = 0;
  // parameter_server: one device per node adds up the node's gradients and sends the sum, and receives the weight and
  // forwards it (stations_of). Sparse gradients are sent by each device, and stale versions to each.
  bool is_per_node = false;
  // Gradients are sent as indices and rows. For weights that only lookups read.
  bool is_sparse = false;
  // sharded: what is divided among replicas. 1: optimizer state. 2: gradients, too, which are reduce-scattered after
  // each micro-batch. 3: the weight, too, which is gathered before operators read it, in each micro-batch.
  std::uint32_t stage = 1;
  // Stage 3: the weight is dropped after the forward pass and gathered again for the backward pass. false: it is kept
  // until the backward pass is over.
  bool is_resharded = true;
  // Stage 3: how far ahead weights are gathered, counted in operators that need a gather. A gather begins when the
  // operator `prefetch` + 1 places before its reader has ended, but not before the pass begins. 0: nothing is gathered
  // while such an operator runs.
  // Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.3.
  std::uint32_t prefetch = 1;

  friend bool operator==(const synchronizer&, const synchronizer&) = default;
};

// How one weight is synchronized. It is split along the axis into parts, each with its own synchronizer; if its
// elements do not divide evenly, the first parts have one more. Regular.
struct weight_sync {
  std::uint32_t axis = 0;
  std::vector<synchronizer> parts = std::vector<synchronizer>(1);

  [[nodiscard]] bool is_default() const { return parts.size() == 1 && parts.front() == synchronizer{}; }

  friend bool operator==(const weight_sync&, const weight_sync&) = default;
};

// The box of each part of a weight of that shape. Precondition: if there are several parts, the axis is one of the
// shape.
[[nodiscard]] std::vector<box> boxes_of(const weight_sync& sync, const tensor::shape& dims);

// The most parts of one weight. Each part has its own messages between all devices.
inline constexpr std::size_t most_weight_parts = 4096;

// The most iterations by which servers may lag; for each, a version of the weight is stored.
inline constexpr std::uint32_t most_staleness = 64;

// Regular. Buckets are reduced in their order: among the same devices, one does not begin before the previous one is
// ready (Li et al., PyTorch distributed, VLDB 2020, section 3.2.3).
struct synchronization {
  std::vector<std::string> buckets{};  // names
  std::vector<weight_sync> weights{};  // of the graph, in the order of their nodes; empty: all_reduce, each alone

  [[nodiscard]] bool is_trivial() const {
    return std::all_of(weights.begin(), weights.end(), [](const weight_sync& w) { return w.is_default(); });
  }

  friend bool operator==(const synchronization&, const synchronization&) = default;
};

// Each replica keeps a share of the part's gradient, or of the part itself.
[[nodiscard]] constexpr bool divides_gradient(const synchronizer& s) noexcept {
  return s.kind == sync_kind::sharded && s.stage >= 2;
}
[[nodiscard]] constexpr bool divides_weight(const synchronizer& s) noexcept {
  return s.kind == sync_kind::sharded && s.stage >= 3;
}

// Calls f(synchronizer) for each part of each weight.
template <class F>
void for_each_part(const synchronization& s, const F& f) {
  for (const auto& w : s.weights) {
    for (const auto& part : w.parts) {
      f(part);
    }
  }
}

// Only lookups read the weight, as their table, so its gradient may be sent as indices and rows.
[[nodiscard]] bool is_looked_up(const tensor::algebra& a, const tensor::tensor_graph& g, const weight_uses& w);

// Throws: unity::error that names the weight's node and says why, if this is not a synchronization of the graph on that
// many devices: buckets without a weight, or with two element types or compressors; destinations that do not exist;
// more parts than the axis has elements; weights that are not trained; staleness without a server; compression of
// integers, or of gradients that are not all-reduced; sparse gradients of weights that operators other than lookups
// read.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const synchronization& s, std::size_t devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_SYNCHRONIZATION)

#include <map>
#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<bytes> message_sizes(const compressor& c, tensor::dtype element, const tensor::shape& piece) {
  const std::int64_t each = tensor::size_of(element);
  const auto elements = tensor::element_count(piece);
  if (is_rounded(c)) {
    return {bytes{elements * 2}};
  }
  if (c.kind == compression::power_sgd && piece.size() > 1) {
    const auto columns = elements / piece[0];
    if (std::min(piece[0], columns) > c.amount) {
      return {bytes{piece[0] * c.amount * each}, bytes{columns * c.amount * each}};
    }
  }
  return {bytes{elements * each}};
}

UNITY_INLINE std::vector<hardware::device_id> stations_of(std::span<const hardware::device_id> devices,
                                                          hardware::device_id server, const hardware::topology& t) {
  std::map<std::uint32_t, hardware::device_id> of_node{{t[server].node, server}};
  std::vector<hardware::device_id> all;
  all.reserve(devices.size());
  for (const auto d : devices) {
    all.push_back(of_node.try_emplace(t[d].node, d).first->second);
  }
  return all;
}

namespace detail {

// Rejects settings of a synchronizer that do not apply to its kind.
UNITY_INLINE void check_kind(const std::string& where, const synchronizer& part, tensor::dtype element) {
  const bool is_reduced = part.kind == sync_kind::all_reduce;
  const bool is_served = part.kind == sync_kind::parameter_server;
  const auto name = sync_kind_names[static_cast<std::size_t>(part.kind)];
  const auto refuse = [&](bool is_wrong, std::string_view what, std::string_view expected) {
    if (is_wrong) {
      throw error{where, fmt::format("{} of {}", what, name), expected};
    }
  };
  const auto& c = part.compressor;
  refuse(part.bucket != synchronizer::no_bucket && !is_reduced, "a bucket", "buckets of all_reduce alone");
  refuse(part.algorithm != reduction_algorithm::automatic && !is_reduced, "an algorithm",
         "algorithms of all_reduce alone");
  refuse(c != compressor{} && !is_reduced, "a compressor", "compressors of all_reduce alone");
  refuse(part.staleness > 0 && !is_served, "staleness", "staleness of parameter_server alone");
  refuse(part.staleness > most_staleness, fmt::format("staleness {}", part.staleness),
         fmt::format("{} at most", most_staleness));
  refuse(!part.is_proxied && !is_served, "no proxy", "proxies of parameter_server alone");
  refuse(part.is_per_node && !is_served, "messages per node", "those of parameter_server alone");
  const bool is_sharded = part.kind == sync_kind::sharded;
  refuse(part.stage != 1 && !is_sharded, fmt::format("stage {}", part.stage), "stages of sharded alone");
  refuse(part.stage < 1 || part.stage > 3, fmt::format("stage {}", part.stage), "1, 2 or 3");
  refuse(part.prefetch != 1 && !divides_weight(part), fmt::format("prefetch {}", part.prefetch),
         "that of sharded, stage 3, alone");
  refuse(!part.is_resharded && !divides_weight(part), "a weight that is kept after the forward pass",
         "that of sharded, stage 3, alone");
  refuse(!part.is_proxied && part.staleness > 0, "staleness without a proxy",
         "a proxy: a copy of the weight that may be older");
  refuse(part.is_sparse && !is_served && !is_reduced, "indices and rows", "those of all_reduce or parameter_server");
  refuse(part.is_sparse && (c != compressor{} || part.bucket != synchronizer::no_bucket),
         "indices and rows in a bucket or compressed", "one or the other");
  refuse(c.kind != compression::none && !tensor::is_floating(element),
         fmt::format("a compressor for {}", tensor::name_of(element)), "a floating-point weight, or no compressor");
  const bool has_amount = is_of_one_weight(c);
  refuse(has_amount != (c.amount > 0), fmt::format("an amount of {}", c.amount),
         "1 or more for top_k and power_sgd, 0 for others");
  refuse(has_amount && part.bucket != synchronizer::no_bucket,
         fmt::format("{} in a bucket", compression_names[static_cast<std::size_t>(c.kind)]), "each weight alone");
  refuse(c.kind == compression::top_k && c.amount > 1000, fmt::format("{} of 1,000 elements", c.amount),
         "1,000 at most");
  refuse(c.kind == compression::none && c.has_feedback, "feedback without a compressor", "a compressor");
}

UNITY_INLINE void check_part(const std::string& where, const synchronizer& part, const synchronization& s,
                             std::size_t devices, tensor::dtype element) {
  check_kind(where, part, element);
  if (part.bucket != synchronizer::no_bucket && part.bucket >= s.buckets.size()) {
    throw error{where, fmt::format("bucket {}", part.bucket), fmt::format("one of the {} buckets", s.buckets.size())};
  }
  if (part.kind == sync_kind::parameter_server && (!part.destination.valid() || part.destination.index() >= devices)) {
    throw error{where, "a parameter server that is not a device", fmt::format("one of the {} devices", devices)};
  }
}

}  // namespace detail

UNITY_INLINE bool is_looked_up(const tensor::algebra& a, const tensor::tensor_graph& g, const weight_uses& w) {
  return !w.uses.empty() && std::all_of(w.uses.begin(), w.uses.end(), [&](const weight_use& use) {
    const std::string_view name = a.signature(g.operation(use.node).kind).name;
    return use.operand == 0 && (name == "embedding" || name == "embedding_bag");
  });
}

UNITY_INLINE std::vector<box> boxes_of(const weight_sync& sync, const tensor::shape& dims) {
  const auto count = static_cast<std::int64_t>(sync.parts.size());
  std::vector<box> all(sync.parts.size(), whole(dims));
  for (std::int64_t k = 0; k < count && count > 1; ++k) {
    auto& part = all[static_cast<std::size_t>(k)];
    const auto size = dims[sync.axis] / count;
    const auto larger = dims[sync.axis] % count;
    part.begin[sync.axis] = k * size + std::min(k, larger);
    part.end[sync.axis] = (k + 1) * size + std::min(k + 1, larger);
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
  std::vector<std::optional<std::pair<tensor::dtype, compressor>>> messages(s.buckets.size());
  for (std::size_t w = 0; w < s.weights.size(); ++w) {
    const auto& own = s.weights[w];
    const auto& weight = training.weights()[w];
    const auto& type = g.type(weight.value);
    const auto where = fmt::format("synchronization, weight of node {}", g.producer(weight.value).index());
    if (own.is_default()) {
      continue;
    }
    if (!weight.is_trained) {
      throw error{where, "a synchronizer of its own", "none: training does not change the weight"};
    }
    if (own.parts.empty() || (own.parts.size() > 1 && own.axis >= type.dims.size()) ||
        (own.parts.size() > 1 && type.dims[own.axis] < static_cast<std::int64_t>(own.parts.size()))) {
      throw error{where, fmt::format("{} parts along axis {}", own.parts.size(), own.axis),
                  "an axis of the weight with as many elements or more"};
    }
    if (own.parts.size() > most_weight_parts) {
      throw error{where, fmt::format("{} parts", own.parts.size()), fmt::format("{} at most", most_weight_parts)};
    }
    for (const auto& part : own.parts) {
      detail::check_part(where, part, s, devices, type.element);
      if (part.is_sparse && !is_looked_up(a, g, weight)) {
        throw error{where, "a gradient of indices and rows", "a weight that lookups alone read, as their table"};
      }
      if (part.bucket == synchronizer::no_bucket) {
        continue;
      }
      auto& message = messages[part.bucket];
      if (message && *message != std::pair{type.element, part.compressor}) {
        throw error{where, fmt::format("a bucket, {}, of weights of other elements", s.buckets[part.bucket]),
                    "one element type and one compressor in a bucket"};
      }
      message = {type.element, part.compressor};
    }
  }
  if (std::set<std::string>(s.buckets.begin(), s.buckets.end()).size() < s.buckets.size()) {
    throw error{"synchronization", "two buckets of one name", "names that tell buckets apart"};
  }
  for (std::size_t b = 0; b < messages.size(); ++b) {
    if (!messages[b]) {
      throw error{"synchronization", fmt::format("no weight in bucket {}", s.buckets[b]), "one at least"};
    }
  }
}

}  // namespace unity::parallel

#endif
