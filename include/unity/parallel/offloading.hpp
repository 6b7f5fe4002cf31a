// Which results wait on the host for the backward pass instead of in the memory of their device.
#pragma once

#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Per node of a graph: its results are copied to the host as soon as they are made, dropped after the forward pass has
// read them, and copied back before the first task of the backward pass that reads them. Empty: none are. Has no effect
// on a result that no backward task reads. Copies that other devices received stay there.
// Source: Rhu et al., vDNN: virtualized deep neural networks for scalable, memory-efficient neural network design,
// MICRO 2016.
using offloading = std::vector<bool>;

[[nodiscard]] inline bool is_offloaded(const offloading& o, node_id n) { return !o.empty() && o[n.index()]; }

// True for operators with operands, unless a result is an output of the graph, which stays.
[[nodiscard]] inline bool can_offload(const tensor::tensor_graph& g, node_id n) { return can_recompute(g, n); }

// Throws: unity::error that names the node, if the list does not fit the graph, or a result is recomputed as well.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const offloading& o, const recomputation& r);

// Throws: unity::error that names a device whose rate to its host is unknown.
void expect_host_rates(const hardware::machine& m);

// All operators that can be offloaded and are not recomputed; empty if there are none. only_products: only operators
// whose results the backward pass reads, and that have summed products, such as matrix products and convolutions, or
// compute their results from these through values that the backward pass does not read. A rectifier's backward pass
// reads the rectifier's result, so that result is offloaded instead of the product's; if the rectifier is recomputed,
// the product's is.
// Complexity: linear in the graph, and dimensions_of and adjoint_of for each distinct operator.
[[nodiscard]] offloading offloaded_results(const tensor::algebra& a, const tensor::tensor_graph& g,
                                           const recomputation& r, bool only_products);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_OFFLOADING)

#include <algorithm>
#include <cstddef>
#include <functional>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>

namespace unity::parallel::detail {

// By node: whether it has summed products, or computes its results from these through values that the backward pass
// does not read, and the backward pass, including recomputation, reads its results.
UNITY_INLINE std::vector<bool> read_products(const tensor::algebra& a, const tensor::tensor_graph& g,
                                             const recomputation& r) {
  const graph_dimensions dimensions{a, g};
  const auto reads = reads_of_adjoints(a, dimensions, {a, g});
  std::vector<bool> is_read(g.value_count());
  for (const auto n : node_ids(g)) {
    const auto& own = reads[n.index()];
    const auto operands = g.operands(n);
    const auto results = g.results(n);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool reads_it = is_recomputed(r, n) || (i < own.operands.size() && own.operands[i]);
      is_read[operands[i].index()] = is_read[operands[i].index()] || reads_it;
    }
    for (std::size_t i = 0; i < own.results.size(); ++i) {
      is_read[results[i].index()] = is_read[results[i].index()] || own.results[i];
    }
  }
  std::vector<bool> of_products(g.value_count());
  std::vector<bool> all(g.node_count());
  for (const auto n : node_ids(g)) {
    bool makes = detail::is_product(dimensions[n].structure);
    for (const auto v : g.operands(n)) {
      makes = makes || (of_products[v.index()] && !is_read[v.index()]);
    }
    for (const auto v : g.results(n)) {
      of_products[v.index()] = makes;
      all[n.index()] = all[n.index()] || (makes && is_read[v.index()]);
    }
  }
  return all;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE void check(const tensor::algebra& a, const tensor::tensor_graph& g, const offloading& o,
                        const recomputation& r) {
  if (!o.empty() && o.size() != g.node_count()) {
    throw error{"offloading", fmt::format("of {} nodes", o.size()),
                fmt::format("of the {} that the graph has", g.node_count())};
  }
  for (std::size_t i = 0; i < o.size(); ++i) {
    const node_id n{i};
    const auto where = [&] {
      return fmt::format("offloading, node {} ({})", i, a.signature(g.operation(n).kind).name);
    };
    if (o[i] && !can_offload(g, n)) {
      throw error{where(), g.operands(n).empty() ? "what has no operands" : "an output of the graph, which stays",
                  "an operator whose results nobody but operators reads"};
    }
    if (o[i] && is_recomputed(r, n)) {
      throw error{where(), "an operator that is recomputed", "results that are kept"};
    }
  }
}

UNITY_INLINE void expect_host_rates(const hardware::machine& m) {
  for (std::size_t d = 0; d < m.network.device_count(); ++d) {
    if (hardware::model_of(m, hardware::device_id{d}).host_bytes_per_second <= 0) {
      throw error{fmt::format("machine {}, device {}", m.name, m.network.devices()[d].name),
                  "no rate between it and its host", "host_bytes_per_second, for a plan that offloads results"};
    }
  }
}

UNITY_INLINE offloading offloaded_results(const tensor::algebra& a, const tensor::tensor_graph& g,
                                          const recomputation& r, bool only_products) {
  offloading all(g.node_count());
  for (const auto n : node_ids(g)) {
    all[n.index()] = can_offload(g, n) && !is_recomputed(r, n);
  }
  if (only_products) {
    const auto products = detail::read_products(a, g, r);
    std::transform(all.begin(), all.end(), products.begin(), all.begin(), std::logical_and<>{});
  }
  return std::find(all.begin(), all.end(), true) == all.end() ? offloading{} : all;
}

}  // namespace unity::parallel

#endif
