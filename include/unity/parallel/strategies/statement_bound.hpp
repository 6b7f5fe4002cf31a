// Lower bounds on the time and memory of a plan statement, without simulating it, and its work in fewer tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_shards.hpp>
#include <unity/parallel/strategies/statement_stages.hpp>
#include <unity/parallel/tasks/task_times.hpp>

namespace unity::parallel {

// Lower bounds on the peak memory of statements. Caches the orders of phases, which many statements share.
class statement_peaks {
 public:
  // At most the peak of any device in the simulated iteration. Exact for ZeRO's stages 0 and 1: a device runs one phase
  // after another, so what it holds follows from their order, whatever their times. For stages 2 and 3 it does not
  // include what a device holds of the pieces before and after the one that runs.
  // Complexity: stages times chunks times 4 p micro-batches, because after these the order repeats.
  [[nodiscard]] bytes least_of(const plan_statement& s, const statement_stages& all, optimizer updates);

 private:
  using orders = std::vector<std::vector<pipeline_phase>>;  // by stage

  [[nodiscard]] const orders& orders_of(const plan_statement& s);

  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, orders> known_{};  // p, chunks, micro-batches
};

// A lower bound on the simulated iteration, made of what follows in sequence: a stage waits for its first micro-batch
// and runs all its phases; the last backward pass goes back to the first stage; gradients are summed, then come their
// norm and the update. For ZeRO's stages 2 and 3, gradients are not summed at the end, and a pipeline stage takes at
// least as long as its exchanges of gradients and weights, which go through one link one after another. If exchanges
// overlap, a stage first waits for its first bucket of new weights, and its last gradients follow its last backward
// pass.
// Complexity: linear in chunks and stages.
[[nodiscard]] picoseconds iteration_bound(const plan_statement& s, const statement_stages& all,
                                          const hardware::machine& m, const task_times& times,
                                          statement_groups& groups);

// The same work with a single step for each pass of each chunk. Its program takes exactly as long and holds as much.
// Nothing if exchanges of tensor-parallel groups share links with other transfers, because their order would matter,
// nor for ZeRO's stages 2 and 3, whose exchanges are between layers. If exchanges overlap, only use it for phases that
// nothing overlaps (program_of, inner).
// Complexity: linear in pieces, quadratic in stages.
[[nodiscard]] std::optional<transformer_work> in_one_step_each(const plan_statement& s, const statement_stages& all,
                                                               const transformer_work& work, statement_groups& groups);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_BOUND)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/tasks/fragment.hpp>

namespace unity::parallel::detail {

// The times of chunks for one micro-batch, and of the messages before them.
class phase_clock {
 public:
  phase_clock(const plan_statement& s, const statement_stages& all, statement_groups& groups)
      : statement_{s}, all_{all}, groups_{groups} {}

  [[nodiscard]] picoseconds message(std::int64_t chunk, bool is_backward) const {
    const auto* what = all_.sent_to(chunk, is_backward);
    if (what == nullptr) {
      return {};
    }
    const bytes size{what->handed_on.count() / (what->is_handed_on_whole ? statement_.tensor : 1)};
    return groups_.time(is_backward ? group_kind::backward : group_kind::onward, hardware::exchange::message, size);
  }
  [[nodiscard]] picoseconds phase(std::int64_t chunk, bool is_backward) const {
    const auto& c = all_.chunks()[static_cast<std::size_t>(chunk)];
    const auto* what = all_.sent_to(chunk, is_backward);
    const bool is_gathered = what != nullptr && what->is_handed_on_whole && statement_.tensor > 1;
    return (is_backward ? c.backward : c.forward) +
           (is_gathered ? groups_.time(group_kind::tensor, hardware::exchange::all_gather, what->handed_on)
                        : picoseconds{});
  }

 private:
  const plan_statement& statement_;
  const statement_stages& all_;
  statement_groups& groups_;
};

UNITY_INLINE bytes weight_bytes(const statement_stages::weights& all) {
  std::int64_t sum = 0;
  for (const auto& [element, count] : all) {
    sum += count * static_cast<std::int64_t>(tensor::size_of(element));
  }
  return bytes{sum};
}

UNITY_INLINE bytes gradients_of(const statement_stages::weights& all) {
  std::int64_t sum = 0;
  for (const auto& [element, count] : all) {
    sum += count * gradient_bytes(element);
  }
  return bytes{sum};
}

// The time of the update, computed as in programs of statements.
UNITY_INLINE picoseconds update_of(const statement_stages::weights& all, std::int64_t parts, const task_times& times,
                                   std::uint32_t model) {
  picoseconds sum{};
  const auto each = step_bytes_of_float32(times.updates());
  for (const auto& [element, count] : all) {
    const auto moved = step_bytes((count + parts - 1) / parts, element, times.updates());
    sum += times.update((moved + each - 1) / each, tensor::dtype::float32, model);
  }
  return sum;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE const statement_peaks::orders& statement_peaks::orders_of(const plan_statement& s) {
  const auto few = std::min(s.microbatches(), 4 * s.pipeline);
  const auto [at, is_new] = known_.try_emplace({s.pipeline, s.interleave, few});
  if (is_new) {
    pipeline order;
    order.microbatches = few;
    order.chunks = static_cast<std::uint32_t>(s.interleave);
    order.schedule = s.interleave > 1 ? pipeline_schedule::interleaved : pipeline_schedule::one_forward_one_backward;
    for (std::int64_t k = 0; k < s.pipeline; ++k) {
      order.stages.push_back(static_cast<std::uint32_t>(k));
    }
    for (const auto k : order.stages) {
      at->second.push_back(phases_of(order, k));
    }
  }
  return at->second;
}

UNITY_INLINE bytes statement_peaks::least_of(const plan_statement& s, const statement_stages& all, optimizer updates) {
  const auto& by_stage = orders_of(s);
  bytes peak{};
  for (std::int64_t k = 0; k < s.pipeline; ++k) {
    bytes held{};
    bytes most{};
    for (const auto& p : by_stage[static_cast<std::size_t>(k)]) {
      const auto& c = all.chunks()[static_cast<std::size_t>(p.chunk * s.pipeline + k)];
      const bool is_backward = p.pass == pipeline_pass::backward;
      held += is_backward ? c.again : c.kept;
      most = std::max(most, held + (is_backward ? c.whole : c.gathered));
      held -= is_backward ? c.again + c.kept : bytes{};
    }
    peak = std::max(peak, most + all.permanent_bytes(k, updates));
  }
  return peak;
}

UNITY_INLINE picoseconds iteration_bound(const plan_statement& s, const statement_stages& all,
                                         const hardware::machine& m, const task_times& times,
                                         statement_groups& groups) {
  using hardware::exchange;
  const detail::phase_clock clock{s, all, groups};
  const auto exchanged_in = [&](const std::vector<piece_bucket>& buckets, std::size_t count, bytes piece_bucket::*what,
                                exchange collective) {
    picoseconds sum{};
    for (std::size_t i = 0; i < std::min(count, buckets.size()); ++i) {
      sum += buckets[i].*what > bytes{} ? groups.time(group_kind::data, collective, buckets[i].*what) : picoseconds{};
    }
    return sum;
  };
  std::vector<picoseconds> done(static_cast<std::size_t>(s.pipeline));  // when a stage has done its phases, at least
  picoseconds first{};                                                  // when its first micro-batch comes
  for (std::int64_t k = 0; k < s.pipeline; ++k) {
    first += clock.message(k, false);
    if (s.overlaps_gathers()) {
      first = std::max(first, exchanged_in(all.buckets_of(k), 1, &piece_bucket::weights, exchange::all_gather));
    }
    picoseconds each{};
    picoseconds exchanged{};
    for (auto c = k; c < s.chunks(); c += s.pipeline) {
      each += clock.phase(c, false) + clock.phase(c, true);
      exchanged += all.chunks()[static_cast<std::size_t>(c)].exchanged;
    }
    done[static_cast<std::size_t>(k)] = std::max(first + picoseconds{each.count() * s.microbatches()},
                                                 picoseconds{exchanged.count() * s.microbatches()});
    first += clock.phase(k, false);
  }
  for (auto k = s.pipeline - 1; k-- > 0;) {
    const auto at = static_cast<std::size_t>(k);
    done[at] = std::max(done[at], done[at + 1] + clock.message(k, true) + clock.phase(k, true));
  }
  const bool is_divided = s.zero > 0 && s.data > 1;
  for (std::int64_t k = 0; k < s.pipeline && s.overlaps_sums(); ++k) {
    // Those of the chunk that is done last begin with its last backward pass.
    const auto collective = is_divided ? exchange::reduce_scatter : exchange::all_reduce;
    const auto& own = all.buckets_of(k);
    auto& end = done[static_cast<std::size_t>(k)];
    end = std::max(end + exchanged_in(own, 1, &piece_bucket::gradients, collective),
                   end - clock.phase(k, true) + exchanged_in(own, own.size(), &piece_bucket::gradients, collective));
  }
  const auto add = [&](std::int64_t stage, group_kind group, exchange collective, bytes size) {
    done[static_cast<std::size_t>(stage)] += size > bytes{} ? groups.time(group, collective, size) : picoseconds{};
  };
  for (std::int64_t k = 0; k < s.pipeline && !s.divides_gradients(); ++k) {
    if (s.tensor > 1) {
      add(k, group_kind::tensor, exchange::all_reduce, detail::gradients_of(all.summed_of(k)));
    }
    if (s.data > 1 && !s.overlaps_sums()) {
      add(k, group_kind::data, is_divided ? exchange::reduce_scatter : exchange::all_reduce,
          detail::gradients_of(all.weights_of(k)));
    }
  }
  if (const auto tied = detail::gradients_of(all.tied()); tied > bytes{}) {
    done.front() = done.back() = std::max(done.front(), done.back());
    const auto summed = s.divides_gradients() ? bytes{} : tied;
    add(0, group_kind::ends, exchange::all_reduce, summed);
    add(s.pipeline - 1, group_kind::ends, exchange::all_reduce, summed);
  }
  if (s.tensor * s.pipeline * s.data > 1) {  // the norm of gradients, a number: all wait for all
    const auto norm = groups.time(group_kind::all, exchange::all_reduce, bytes{gradient_bytes(tensor::dtype::float32)});
    std::fill(done.begin(), done.end(), *std::max_element(done.begin(), done.end()) + norm);
  }
  picoseconds end{};
  const auto model = m.network[groups.device({})].model;
  for (std::int64_t k = 0; k < s.pipeline; ++k) {
    done[static_cast<std::size_t>(k)] += detail::update_of(all.weights_of(k), is_divided ? s.data : 1, times, model);
    if (is_divided && !s.divides_weights() && !s.overlaps_gathers()) {
      add(k, group_kind::data, exchange::all_gather, detail::weight_bytes(all.weights_of(k)));
    }
    end = std::max(end, done[static_cast<std::size_t>(k)]);
  }
  return end;
}

UNITY_INLINE std::optional<transformer_work> in_one_step_each(const plan_statement& s, const statement_stages& all,
                                                              const transformer_work& work, statement_groups& groups) {
  if (s.divides_gradients()) {
    return std::nullopt;
  }
  for (std::int64_t k = 0; k < s.pipeline && s.tensor > 1; ++k) {
    const auto own = groups.link(group_kind::tensor, {k, 0, 0});
    for (std::int64_t other = 0; other < s.pipeline; ++other) {
      const auto uses = [&](group_kind kind) { return groups.link(kind, {other, 0, 0}) == own; };
      if ((other != k && uses(group_kind::tensor)) ||
          (s.data > 1 && (other != k || s.overlaps_sums()) && uses(group_kind::data)) ||
          (s.pipeline > 1 && (uses(group_kind::onward) || uses(group_kind::backward)))) {
        return std::nullopt;
      }
    }
    for (const auto end : {std::int64_t{0}, s.pipeline - 1}) {
      if (s.pipeline > 1 && end != k && groups.link(group_kind::ends, {end, 0, 0}) == own) {
        return std::nullopt;
      }
    }
  }
  auto one = work;
  std::int64_t before = -1;
  for (std::size_t i = 0; i < one.pieces.size(); ++i) {
    auto& piece = one.pieces[i];
    piece.forward.clear();
    piece.backward.clear();
    const auto chunk = all.chunk_of(static_cast<std::int64_t>(i));
    if (chunk != before) {
      const auto& c = all.chunks()[static_cast<std::size_t>(chunk)];
      piece.forward.push_back({tasks::task_kind::forward, c.forward, {}, {}});
      piece.backward.push_back({tasks::task_kind::backward, c.backward, {}, {}});
    }
    before = chunk;
  }
  return one;
}

}  // namespace unity::parallel

#endif
