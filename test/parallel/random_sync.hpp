// Random synchronization, drawn for each weight separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::parallel::test {

// For plans whose weights all have one element type. with_sparse: tables are whole on each device that reads them.
inline synchronization random_sync(random_engine& random, const tensor::algebra& a, const plan& p,
                                   bool with_sparse = false) {
  synchronization all;
  const auto some = [&] {
    synchronizer s;
    switch (random.below(4)) {
      case 0: break;
      case 1: s.bucket = static_cast<std::uint32_t>(random.below(2)); break;
      case 2:
        s.kind = sync_kind::sharded;
        s.stage = 1 + static_cast<std::uint32_t>(random.below(3));
        if (s.stage == 3) {
          s.is_resharded = random.below(3) > 0;
          s.prefetch = static_cast<std::uint32_t>(random.below(4));
        }
        break;
      default:
        s.kind = sync_kind::parameter_server;
        s.destination = hardware::device_id{random.below(p.machine.network.device_count())};
        s.is_proxied = random.below(2) == 0;
        s.is_per_node = random.below(2) == 0;
    }
    return s;
  };
  const training_graph training{a, p.graph};
  for (const auto& w : training.weights()) {
    auto& own = all.weights.emplace_back();
    if (!w.is_trained) {
      continue;
    }
    const auto& dims = p.graph.type(w.value).dims;
    own.axis = dims.empty() ? 0 : static_cast<std::uint32_t>(random.below(dims.size()));
    const auto parts = !dims.empty() && dims[own.axis] > 2 ? 1 + random.below(3) : 1;
    own.axis = parts > 1 ? own.axis : 0;
    own.parts.clear();
    const bool is_table = is_looked_up(a, p.graph, w);
    for (std::size_t k = 0; k < parts; ++k) {
      own.parts.push_back(some());
      auto& part = own.parts.back();
      part.is_sparse = is_table && part.bucket == synchronizer::no_bucket && part.kind != sync_kind::sharded &&
                       with_sparse && random.below(2) == 0;
    }
  }
  // Renumbers and names the buckets that have a weight, in order.
  std::vector<std::uint32_t> number(2, synchronizer::no_bucket);
  for (auto& w : all.weights) {
    for (auto& part : w.parts) {
      if (part.bucket != synchronizer::no_bucket) {
        auto& known = number[part.bucket];
        if (known == synchronizer::no_bucket) {
          known = static_cast<std::uint32_t>(all.buckets.size());
          all.buckets.push_back("bucket " + std::to_string(known));
        }
        part.bucket = known;
      }
    }
  }
  return all;
}

}  // namespace unity::parallel::test
