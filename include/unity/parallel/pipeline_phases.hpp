// The order in which the devices of a stage work on the passes of micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/parallel/plan.hpp>

namespace unity::parallel {

// weight_gradient: the part of the backward pass that only weights need, if the schedule separates it; no stage waits
// for it.
enum class pipeline_pass : std::uint8_t { forward, backward, weight_gradient };

// A pass of a micro-batch through a chunk of the graph. A stage works on one phase at a time.
struct pipeline_phase {
  std::int64_t microbatch = 0;
  pipeline_pass pass = pipeline_pass::forward;
  std::uint32_t chunk = 0;

  friend bool operator==(const pipeline_phase&, const pipeline_phase&) = default;
};

// All phases of a stage in the order of its schedule. For stage i of p, with m micro-batches and v chunks:
// - gpipe: all forward passes, then all backward passes; keeps the activations of m micro-batches. Source: Huang et
//   al., GPipe, NeurIPS 2019.
// - one_forward_one_backward: p - i forward passes, then a backward pass before each further forward pass. A stage
//   keeps the activations of at most min(m, p - i) micro-batches. Source: Narayanan et al., PipeDream, SOSP 2019. All
//   passes end before the iteration does, as in Fan et al., DAPPLE, PPoPP 2021, so there is one version of the
//   weights.
// - interleaved: micro-batches go in groups of p through one chunk after the other, so filling and draining take a
//   v-th of the time; 2 (p - i - 1) + (v - 1) p forward passes of chunks are first. Source: Narayanan et al., Efficient
//   large-scale language model training on GPU clusters using Megatron-LM, SC 2021, section 2.2.
// - zero_bubble: as one_forward_one_backward, but gradients of weights are computed i backward passes later, or when
//   nothing else is left: ZB-H1, which keeps the activations of at most p micro-batches. Source: Qi et al., Zero
//   bubble pipeline parallelism, ICLR 2024, section 2.
// Each pass through a chunk has every micro-batch once, in ascending order.
// Precondition: check (pipeline.hpp) accepts p.
// Complexity: m v.
[[nodiscard]] std::vector<pipeline_phase> phases_of(const pipeline& p, std::uint32_t stage);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PIPELINE_PHASES)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel {

namespace detail {

// `ahead` forward passes, then a backward pass after each further one, then the remaining backward passes.
// forward_of, backward_of: i -> the i-th of them
template <class Forward, class Backward>
std::vector<pipeline_phase> phases_ahead(std::int64_t count, std::int64_t ahead, const Forward& forward_of,
                                         const Backward& backward_of) {
  std::vector<pipeline_phase> all;
  ahead = std::min(count, ahead);
  for (std::int64_t i = 0; i < count + ahead; ++i) {
    if (i < count) {
      all.push_back(forward_of(i));
    }
    if (i >= ahead) {
      all.push_back(backward_of(i - ahead));
    }
  }
  return all;
}

// Adds the gradients of weights, each `later` backward passes after its own.
UNITY_INLINE std::vector<pipeline_phase> with_weight_gradients(const std::vector<pipeline_phase>& passes,
                                                               std::int64_t microbatches, std::int64_t later) {
  std::vector<pipeline_phase> all;
  std::int64_t next = 0;
  for (const auto& p : passes) {
    all.push_back(p);
    if (p.pass == pipeline_pass::backward && p.microbatch >= later) {
      all.push_back({next++, pipeline_pass::weight_gradient});
    }
  }
  while (next < microbatches) {
    all.push_back({next++, pipeline_pass::weight_gradient});
  }
  return all;
}

}  // namespace detail

UNITY_INLINE std::vector<pipeline_phase> phases_of(const pipeline& p, std::uint32_t stage) {
  const auto stages = std::int64_t{p.stage_count()};
  const auto chunks = std::int64_t{p.chunks};
  const auto group = stages * chunks;
  const auto of = [&](std::int64_t i, pipeline_pass pass) -> pipeline_phase {
    const auto chunk = i % group / stages;
    return {i / group * stages + i % stages, pass,
            static_cast<std::uint32_t>(pass == pipeline_pass::forward ? chunk : chunks - 1 - chunk)};
  };
  const auto behind = stages - stage - 1;  // stages
  const auto ahead = p.schedule == pipeline_schedule::gpipe         ? p.microbatches - 1
                     : p.schedule == pipeline_schedule::interleaved ? 2 * behind + (chunks - 1) * stages
                                                                    : behind;
  const auto all = detail::phases_ahead(
      p.microbatches * chunks, ahead, [&](std::int64_t i) { return of(i, pipeline_pass::forward); },
      [&](std::int64_t i) { return of(i, pipeline_pass::backward); });
  return p.schedule == pipeline_schedule::zero_bubble ? detail::with_weight_gradients(all, p.microbatches, stage) : all;
}

}  // namespace unity::parallel

#endif
