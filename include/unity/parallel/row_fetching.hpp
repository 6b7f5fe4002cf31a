// Whether devices without a copy of a table have its server look up rows for them.
#pragma once

#include <cstddef>

#include <unity/core/units.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The bytes of all lookups of a batch as indices and rows: a row per index, or per sum for bags. For a table that only
// lookups read.
[[nodiscard]] bytes row_bytes(const tensor::algebra& a, const tensor::tensor_graph& g, const weight_uses& w);

// The number of devices that read the weight.
[[nodiscard]] std::size_t reading_devices(const strategy& s, const weight_uses& w);

// True if all parts of the table, along its first axis, are on servers without proxies, gradients are sent as indices
// and rows, and fetching rows moves fewer bytes than fetching the table. Devices then send indices, and each server
// returns a row for each, zeros for rows that it lacks. Assumes that each device reads the whole table.
[[nodiscard]] bool are_rows_fetched(const tensor::algebra& a, const tensor::tensor_graph& g, const strategy& s,
                                    const weight_uses& w, const weight_sync& sync);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_ROW_FETCHING)

#include <algorithm>
#include <cstdint>
#include <set>

#include <unity/core/config.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE bytes row_bytes(const tensor::algebra& a, const tensor::tensor_graph& g, const weight_uses& w) {
  const auto& table = g.type(w.value);
  const auto width = tensor::element_count(table.dims) / table.dims[0] * tensor::size_of(table.element);
  bytes all{};
  for (const auto& use : w.uses) {
    const auto& ids = g.type(g.operands(use.node)[1]);
    const bool is_bag = a.signature(g.operation(use.node).kind).name == "embedding_bag";
    const auto count = tensor::element_count(ids.dims);
    all += bytes{count * tensor::size_of(ids.element) + count / (is_bag ? ids.dims.back() : 1) * width};
  }
  return all;
}

UNITY_INLINE std::size_t reading_devices(const strategy& s, const weight_uses& w) {
  std::set<hardware::device_id> all;
  for (const auto& use : w.uses) {
    all.insert(s[use.node.index()].devices.begin(), s[use.node.index()].devices.end());
  }
  return all.size();
}

UNITY_INLINE bool are_rows_fetched(const tensor::algebra& a, const tensor::tensor_graph& g, const strategy& s,
                                   const weight_uses& w, const weight_sync& sync) {
  const bool is_served = std::all_of(sync.parts.begin(), sync.parts.end(), [](const synchronizer& part) {
    return part.kind == sync_kind::parameter_server && part.is_sparse && !part.is_proxied;
  });
  if (!is_served || sync.axis != 0) {
    return false;
  }
  const auto& type = g.type(w.value);
  const auto table = tensor::element_count(type.dims) * tensor::size_of(type.element);
  const auto rows = row_bytes(a, g, w).count() * static_cast<std::int64_t>(sync.parts.size());
  return rows < table * static_cast<std::int64_t>(reading_devices(s, w));
}

}  // namespace unity::parallel

#endif
