// From a plan to what ranks do: one for each device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::parallel {

// An iteration on a rank for each device of the plan's machine. Who sends what to whom is what lowering.hpp simulates:
// operands come from the tasks that it has them come from, cotangents go back the same ways. Backward passes are the
// adjoints of what tasks ran. Gradients are added up over micro-batches on each rank, then over the ranks that hold a
// part of a weight, while the backward pass goes on; ranks that gave nothing take no part but to receive it.
// Every rank's steps are in one order that all agree on (topological, phase by phase), and nobody waits for what it
// sent but where it knows that it came, or at the end: no two wait for each other.
// only: of other ranks nothing is written, and their programs are empty; that of this rank is as if all were written,
// and so are groups. Where ranks are alike (alike_ranks.hpp), as data parallelism has them, and no servers look up
// rows, others are not followed; elsewhere all are lowered. Complexity: linear in tasks, micro-batches and flows,
// besides send_waits; of one of ranks that are alike, in its own, and in who sends to whom. Throws: unity::error where
// the plan is not valid, or an operator does not run on its parts; where updates are delayed and there are fewer
// micro-batches than stages, so that two versions of weights would not do, or weights have ways of their own.
// Likewise as check_gathers, and where replicas would drift apart (sync_kind::none): ranks hold one model.
[[nodiscard]] rank_programs programs_of_ranks(const tensor::algebra& a, const plan& p,
                                              std::optional<std::uint32_t> only = {});

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_LOWERING)

#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/pipeline_phases.hpp>
#include <unity/parallel/ranks/backward_tasks.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/forward_tasks.hpp>
#include <unity/parallel/ranks/rank_order.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/rank_tasks.hpp>
#include <unity/parallel/ranks/send_waits.hpp>
#include <unity/parallel/ranks/unread_steps.hpp>
#include <unity/parallel/ranks/weight_cells.hpp>

namespace unity::parallel {

UNITY_INLINE rank_programs programs_of_ranks(const tensor::algebra& a, const plan& p,
                                             std::optional<std::uint32_t> only) {
  const auto count = p.pipeline.microbatches;
  if (p.pipeline.is_delayed && count < static_cast<std::int64_t>(p.pipeline.stage_count())) {
    throw error{"delayed updates", fmt::format("{} micro-batches", count),
                fmt::format("as many as the {} stages, or more", p.pipeline.stage_count())};
  }
  if (p.pipeline.is_delayed && !p.synchronization.is_trivial()) {
    throw error{"delayed updates", "weights that are synchronized in ways of their own", "all-reduces, each alone"};
  }
  if (p.pipeline.chunks > 1) {
    for_each_part(p.synchronization, [](const synchronizer& part) {
      if (!part.is_proxied) {
        throw error{"pipeline", "interleaved, with weights that micro-batches fetch", "proxies"};
      }
    });
  }
  const detail::divided_training training{a, p, only};
  check_gathers(p.graph, training.training(), p.configurations, p.pipeline, p.synchronization);
  detail::rank_streams streams{a, training.written(), p.machine.network.device_count(), p.pipeline};
  detail::weight_cells weights{training, streams};
  for (std::int64_t m = 0; m < count; ++m) {
    auto nodes = detail::tasks_of(training);
    streams.begin(m, pipeline_pass::forward);
    detail::forward_tasks{training, streams, weights, nodes}.write();
    streams.begin(m, pipeline_pass::backward);
    detail::backward_tasks{training, streams, weights, nodes}.write(m + 1 == count);
  }
  auto programs = std::move(streams.programs());
  for (std::uint32_t r = 0; r < programs.ranks.size(); ++r) {
    if (!training.written().has(r)) {
      continue;
    }
    programs.ranks[r].steps = detail::rank_order{streams, r, p.pipeline}.run();
  }
  if (!p.pipeline.is_delayed) {
    detail::add_send_waits(programs, training.exchanges_weights_alone());
  }
  bool is_sparse = false;  // gradients of whole tables were written, and nobody reads them
  for_each_part(p.synchronization, [&](const synchronizer& part) { is_sparse = is_sparse || part.is_sparse; });
  for (std::uint32_t r = 0; r < programs.ranks.size(); ++r) {
    auto& own = programs.ranks[r];
    if (only && *only != r) {
      own = {};
      continue;
    }
    detail::find_begun(own.steps);
    own = is_sparse ? without_unread(own) : std::move(own);
  }
  return programs;
}

}  // namespace unity::parallel

#endif
