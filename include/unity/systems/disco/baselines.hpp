// Fusion strategies by the rules of compilers and frameworks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>

namespace unity::systems {

// Buckets of gradients in the order in which they become ready; kernels as in `kernels`. A bucket is closed at `most`
// bytes or more; the first at `first`.
// Source: Li et al., PyTorch distributed, VLDB 2020, section 3.2.3 (25 MB; torch begins with 1 MB).
[[nodiscard]] fusion::fusion_strategy ddp_buckets(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                                  const fusion::fusion_strategy& kernels,
                                                  double most = 25.0 * (1 << 20), double first = 1.0 * (1 << 20));

// Gradients that become ready in the same cycle are reduced together, at most `most` bytes at a time. The wait for the
// end of the cycle is not simulated, which favours it.
// Source: Sergeev and Del Balso, Horovod, 2018; its defaults of 64 MB and 5 ms.
[[nodiscard]] fusion::fusion_strategy horovod_buckets(const fusion::instruction_graph& g,
                                                      const fusion::fusion_target& t,
                                                      const fusion::fusion_strategy& kernels,
                                                      double most = 64.0 * (1 << 20),
                                                      picoseconds cycle = from_seconds(5e-3));

// XLA's combiner of all-reduces: merges neighbours up to `most` bytes.
[[nodiscard]] fusion::fusion_strategy combined_reductions(const fusion::instruction_graph& g,
                                                          const fusion::fusion_target& t,
                                                          const fusion::fusion_strategy& kernels,
                                                          double most = 30.0 * (1 << 20));

// XLA's rule: from the last instruction to the first, each fuses its operands unless they are products, convolutions or
// reductions. An operand is fused if all its readers are in the kernel; otherwise it is duplicated if it is cheap.
// Nothing follows a product, convolution or reduction in its kernel.
// Source: instruction fusion of XLA for GPUs (Leary and Wang, XLA: TensorFlow, compiled, 2017).
[[nodiscard]] fusion::fusion_strategy xla_kernels(const fusion::instruction_graph& g, const fusion::fusion_target& t);

// TVM's rule: element-wise operators, broadcasts and data movement are fused into their operand, including products and
// convolutions, if it has no other readers; reductions end a kernel.
// Source: Chen et al., TVM, OSDI 2018, section 3.
[[nodiscard]] fusion::fusion_strategy tvm_kernels(const fusion::instruction_graph& g, const fusion::fusion_target& t);

struct named_fusion {
  std::string name{};
  fusion::fusion_strategy strategy{};
};

// no_fusion, xla_kernels, xla_reductions, xla (both), tvm, tvm_ddp, ddp, horovod.
[[nodiscard]] std::vector<named_fusion> fusion_baselines(const fusion::instruction_graph& g,
                                                         const fusion::fusion_target& t);

// A lower bound on the iteration of any strategy: the larger of a bound on all kernels and the time of one all-reduce
// of all bytes. With the roofline model of kernels, the former is the sum of the instructions that run alone, the
// launches of products and convolutions, and the larger of the arithmetic of all fusible instructions and the reads of
// products and convolutions; of each instruction no more than it takes as a kernel of its own. With other kernel
// estimates it is zero.
[[nodiscard]] picoseconds full_overlap_bound(const fusion::instruction_graph& g, const fusion::fusion_target& t);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DISCO_BASELINES)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/fusion/fusion_session.hpp>

namespace unity::systems {

namespace detail {

// Joins buckets in the order in which they become ready, if may_join(bytes so far, bytes of the next, ready times of
// the first and of the next, index of the bucket) allows it.
template <class MayJoin>
fusion::fusion_strategy joined_in_order(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                        const fusion::fusion_strategy& kernels, const MayJoin& may_join) {
  fusion::fusion_session s{g, t};
  s.reset(kernels);
  std::vector<picoseconds> ends(g.size());
  for (const auto& x : s.schedule()) {
    ends[x.group] = x.end;
  }
  const auto ready = [&](fusion::instruction_id reduction) {
    picoseconds at{};
    for (const auto& o : g.operands(reduction)) {
      at = std::max(at, ends[kernels.group_of[o.from]]);
    }
    return at;
  };
  const std::vector<fusion::instruction_id> order{s.buckets().begin(), s.buckets().end()};
  double size = 0;
  picoseconds begun{};
  std::size_t number = 0;
  for (std::size_t b = 0; b < order.size(); ++b) {
    const auto own = g[order[b]].size;
    const auto at = ready(order[b]);
    const bool joins = b > 0 && may_join(size, own, begun, at, number) &&
                       s.join(s.groups().group_of(order[b - 1]), s.groups().group_of(order[b]));
    if (!joins) {
      begun = at;
      number += b > 0 ? 1U : 0U;
    }
    size = joins ? size + own : own;
  }
  return s.groups().strategy();
}

}  // namespace detail

UNITY_INLINE fusion::fusion_strategy ddp_buckets(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                                 const fusion::fusion_strategy& kernels, double most, double first) {
  return detail::joined_in_order(g, t, kernels, [&](double size, double, picoseconds, picoseconds, std::size_t n) {
    return size < (n == 0 ? first : most);
  });
}

UNITY_INLINE fusion::fusion_strategy horovod_buckets(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                                     const fusion::fusion_strategy& kernels, double most,
                                                     picoseconds cycle) {
  const auto cycle_of = [&](picoseconds at) { return at.count() / cycle.count(); };
  return detail::joined_in_order(g, t, kernels,
                                 [&](double size, double own, picoseconds begun, picoseconds at, std::size_t) {
                                   return size + own <= most && cycle_of(begun) == cycle_of(at);
                                 });
}

UNITY_INLINE fusion::fusion_strategy combined_reductions(const fusion::instruction_graph& g,
                                                         const fusion::fusion_target& t,
                                                         const fusion::fusion_strategy& kernels, double most) {
  return detail::joined_in_order(g, t, kernels, [&](double size, double own, picoseconds, picoseconds, std::size_t) {
    return size + own <= most;
  });
}

UNITY_INLINE fusion::fusion_strategy xla_kernels(const fusion::instruction_graph& g, const fusion::fusion_target& t) {
  auto rule = t;
  rule.limits.may_follow_heads = false;
  rule.limits.may_follow_reductions = false;
  fusion::fusion_session s{g, rule};
  s.reset(fusion::unfused(g));
  constexpr double cheap = 2;  // operations per byte of the result: 8 for a float32
  for (auto i = static_cast<fusion::instruction_id>(g.size()); i-- > 0;) {
    for (const auto& o : g.operands(i)) {
      const auto to = s.groups().group_of(i);
      const auto from = s.groups().group_of(o.from);
      if (!g.computes(i) || !g.computes(o.from) || from == to) {
        continue;
      }
      const auto readers = g.readers(o.from);
      const bool is_read_here = !g[o.from].leaves && std::all_of(readers.begin(), readers.end(),
                                                                 [&](auto r) { return s.groups().group_of(r) == to; });
      if (is_read_here) {
        s.fuse(from, to);
      } else if (g[o.from].flops <= cheap * g[o.from].size) {
        s.duplicate(from, to);
      }
    }
  }
  return s.groups().strategy();
}

UNITY_INLINE fusion::fusion_strategy tvm_kernels(const fusion::instruction_graph& g, const fusion::fusion_target& t) {
  auto rule = t;
  rule.limits.may_follow_reductions = false;
  fusion::fusion_session s{g, rule};
  s.reset(fusion::unfused(g));
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    for (const auto& o : g.operands(i)) {
      const auto to = s.groups().group_of(i);
      const auto from = s.groups().group_of(o.from);
      const auto readers = g.readers(o.from);
      const bool is_alone =
          !g[o.from].leaves && std::all_of(readers.begin(), readers.end(), [&](auto r) { return r == i; });
      if (is_alone && g.computes(i) && g.computes(o.from)) {
        s.fuse(from, to);
      }
    }
  }
  return s.groups().strategy();
}

UNITY_INLINE std::vector<named_fusion> fusion_baselines(const fusion::instruction_graph& g,
                                                        const fusion::fusion_target& t) {
  const auto plain = fusion::unfused(g);
  const auto xla = xla_kernels(g, t);
  const auto tvm = tvm_kernels(g, t);
  return {{"no_fusion", plain},
          {"xla_kernels", xla},
          {"xla_reductions", combined_reductions(g, t, plain)},
          {"xla", combined_reductions(g, t, xla)},
          {"tvm", tvm},
          {"tvm_ddp", ddp_buckets(g, t, tvm)},
          {"ddp", ddp_buckets(g, t, plain)},
          {"horovod", horovod_buckets(g, t, plain)}};
}

UNITY_INLINE picoseconds full_overlap_bound(const fusion::instruction_graph& g, const fusion::fusion_target& t) {
  double arithmetic = 0;  // of all fusible instructions
  double traffic = 0;     // of products and convolutions
  double others = 0;      // instructions that run alone, and launches
  double reduced = 0;
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    const auto& x = g[i];
    reduced += x.role == fusion::instruction_role::all_reduce ? x.size : 0;
    if (t.kernels.estimate || !g.computes(i)) {
      continue;
    }
    if (x.role == fusion::instruction_role::alone) {
      others += static_cast<double>(x.duration.count());
      continue;
    }
    const auto launch = x.is_head() ? std::min(t.kernels.launch, x.duration) : picoseconds{};
    const auto rest = static_cast<double>((x.duration - launch).count());
    others += static_cast<double>(launch.count());
    arithmetic += std::min(x.arithmetic, rest);
    if (x.is_head()) {
      double reads = 0;
      for (const auto& o : g.operands(i)) {
        reads += o.bytes / t.kernels.bytes_per_picosecond;
      }
      traffic += std::min(reads, rest);
    }
  }
  const auto communication = reduced > 0 ? t.all_reduce(reduced) : picoseconds{};
  return std::max(picoseconds{static_cast<std::int64_t>(others + std::max(arithmetic, traffic))}, communication);
}

}  // namespace unity::systems

#endif
