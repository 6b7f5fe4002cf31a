// A fingerprint of a plan, which all its ranks must share.
#pragma once

#include <unity/core/hash.hpp>
#include <unity/parallel/plan.hpp>

namespace unity::parallel {

// Covers everything that lowering to ranks reads: each rank lowers on its own, and ranks with different plans would
// exchange wrong data or deadlock. Equal in all processes of one program. Complexity: linear in the plan, plus a
// comparison for each device of an operator with the same devices as the previous one.
[[nodiscard]] fingerprint fingerprint_of(const plan& p);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_PLAN_FINGERPRINT)

#include <cstdint>
#include <functional>

#include <unity/core/config.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

class plan_hasher {
 public:
  [[nodiscard]] fingerprint run(const plan& p) {
    number(p.machine.network.device_count());
    add(p.graph);
    for (std::size_t n = 0; n < p.configurations.size(); ++n) {
      add(p.configurations[n], n == 0 ? configuration{} : p.configurations[n - 1]);
    }
    number(p.pipeline.microbatches);
    number(p.pipeline.is_delayed);
    list(p.pipeline.stages);
    number(p.pipeline.schedule);
    number(p.pipeline.chunks);
    number(p.updates);
    add(p.synchronization);
    list(p.recomputed);
    return all_.result();
  }

 private:
  template <class T>
  void number(T x) {
    all_.add(static_cast<std::uint64_t>(x));
  }
  template <class List>
  void list(const List& numbers) {
    number(numbers.size());
    for (const auto x : numbers) {
      number(x);
    }
  }
  void add(const tensor::tensor_graph& g);
  // Omits devices that equal those of the previous configuration.
  void add(const configuration& c, const configuration& before);
  void add(const synchronization& s);

  hasher all_{};
};

UNITY_INLINE void plan_hasher::add(const tensor::tensor_graph& g) {
  number(g.node_count());
  for (const auto n : node_ids(g)) {
    number(std::hash<tensor::operation>{}(g.operation(n)));
    number(g.operands(n).size());
    for (const auto v : g.operands(n)) {
      number(v.index());
    }
    for (const auto v : g.results(n)) {
      number(std::hash<tensor::tensor_type>{}(g.type(v)));
    }
  }
  for (const auto v : g.outputs()) {
    number(v.index());
  }
}

UNITY_INLINE void plan_hasher::add(const configuration& c, const configuration& before) {
  list(c.degrees);
  list(c.reductions);
  list(c.terms);
  number(c.copies);
  const bool is_same = c.devices == before.devices;
  number(is_same);
  for (const auto d : is_same ? decltype(c.devices){} : c.devices) {
    number(d.index());
  }
}

UNITY_INLINE void plan_hasher::add(const synchronization& s) {
  number(s.buckets.size());
  number(s.weights.size());
  for (const auto& w : s.weights) {
    number(w.axis);
    number(w.parts.size());
    for (const auto& part : w.parts) {
      number(part.kind);
      number(part.bucket);
      number(part.destination.valid() ? part.destination.index() + 1 : 0);
      number(part.compressor.kind);
      number(part.compressor.has_feedback);
      number(part.compressor.amount);
      number(part.is_proxied);
      number(part.staleness);
      number(part.is_per_node);
      number(part.is_sparse);
      number(part.stage);
      number(part.is_resharded);
      number(part.prefetch);
    }
  }
}

}  // namespace detail

UNITY_INLINE fingerprint fingerprint_of(const plan& p) { return detail::plan_hasher{}.run(p); }

}  // namespace unity::parallel

#endif
