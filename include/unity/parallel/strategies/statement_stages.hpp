// What the stages of a plan statement compute, send and hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_shards.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// A chunk of layers on one micro-batch, on one device.
struct statement_chunk {
  picoseconds forward{};  // with exchanges of the tensor-parallel group
  picoseconds backward{};
  bytes kept{};
  bytes again{};
  bytes handed_on{};
  bool is_handed_on_whole = true;
  // If gradients or weights are divided:
  bytes gathered{};         // the most that the weights of one piece take in the forward pass
  bytes whole{};            // the same in the backward pass, with the gradients that begin there
  picoseconds exchanged{};  // the sum of all exchanges of weights and gradients in both passes
};

// Chunk c is on stage c mod p. Refers to the work.
class statement_stages {
 public:
  // Precondition: the work is that of the statement, possibly for another d: with_data_groups would make it that.
  // Complexity: linear in the steps of the work.
  statement_stages(const plan_statement& s, const transformer_work& work, statement_groups& groups);

  [[nodiscard]] const std::vector<statement_chunk>& chunks() const noexcept { return chunks_; }
  // The chunk of a piece (the embedding, a layer or the head), by its number.
  [[nodiscard]] std::int64_t chunk_of(std::int64_t piece) const { return numbers_[static_cast<std::size_t>(piece)]; }
  // As received_chunk; null if there is none.
  [[nodiscard]] const statement_chunk* sent_to(std::int64_t chunk, bool is_backward) const;
  // The numbers of elements of a stage's weights, by type.
  using weights = std::map<tensor::dtype, std::int64_t>;
  [[nodiscard]] const weights& weights_of(std::int64_t stage) const { return all_[static_cast<std::size_t>(stage)]; }
  // The same, only of weights whose gradients are sums over the tensor-parallel group.
  [[nodiscard]] const weights& summed_of(std::int64_t stage) const { return summed_[static_cast<std::size_t>(stage)]; }
  // The buckets of a chunk, in the order of its forward pass; none if exchanges do not overlap.
  [[nodiscard]] const std::vector<piece_bucket>& buckets_of(std::int64_t chunk) const {
    return buckets_[static_cast<std::size_t>(chunk)];
  }
  // The weights that both the first and the last stage have.
  [[nodiscard]] const weights& tied() const noexcept { return tied_; }
  // What a device holds during the whole iteration, at least: weights, gradients, optimizer state.
  [[nodiscard]] bytes permanent_bytes(std::int64_t stage, optimizer updates) const;

 private:
  void find_shares(statement_groups& groups);

  plan_statement statement_;
  const transformer_work* work_;
  std::vector<std::int64_t> numbers_;  // of chunks, by piece
  std::vector<statement_chunk> chunks_{};
  std::vector<weights> all_{};
  std::vector<weights> summed_{};
  weights tied_{};
  std::vector<std::vector<piece_bucket>> buckets_{};
};

// The work of a model of so many layers, from that of three: the middle one is repeated.
// Precondition: three layers are given, and at most one of them reads a weight; at least three are wanted.
// Complexity: linear in the result.
[[nodiscard]] transformer_work with_layers(const transformer_work& few, std::uint32_t layers);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_STAGES)

#include <algorithm>
#include <span>

#include <unity/core/config.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

UNITY_INLINE statement_stages::statement_stages(const plan_statement& s, const transformer_work& work,
                                                statement_groups& groups)
    : statement_{s},
      work_{&work},
      numbers_{chunks_of_pieces(s, static_cast<std::int64_t>(work.pieces.size()) - 2)},
      chunks_(static_cast<std::size_t>(s.chunks())),
      all_(static_cast<std::size_t>(s.pipeline)),
      summed_(all_.size()) {
  const auto time_of = [&](std::span<const work_step> steps) {
    picoseconds sum{};
    for (const auto& step : steps) {
      sum += step.kind == tasks::task_kind::transfer ? groups.time(group_kind::tensor, step.exchange, step.size)
                                                     : step.time;
    }
    return sum;
  };
  for (std::size_t i = 0; i < work.pieces.size(); ++i) {
    const auto& piece = work.pieces[i];
    auto& c = chunks_[static_cast<std::size_t>(chunk_of(static_cast<std::int64_t>(i)))];
    c.forward += time_of(piece.forward);
    c.backward += time_of(piece.backward);
    c.kept += piece.kept;
    c.again = std::max(c.again, piece.again);
    c.handed_on = piece.handed_on;
    c.is_handed_on_whole = piece.is_handed_on_whole;
  }
  std::vector<bool> has(all_.size());
  for (const auto& w : work.weights) {
    std::fill(has.begin(), has.end(), false);
    for (const auto piece : w.pieces) {
      has[static_cast<std::size_t>(chunk_of(piece) % s.pipeline)] = true;
    }
    for (std::size_t k = 0; k < has.size(); ++k) {
      if (has[k]) {
        all_[k][w.element] += w.elements;
        summed_[k][w.element] += w.adds_up ? w.elements : 0;
      }
    }
    if (has.size() > 1 && has.front() && has.back()) {
      tied_[w.element] += w.elements;
    }
  }
  buckets_.resize(chunks_.size());
  if (s.overlaps_sums()) {
    buckets_ = parallel::buckets_of(s, work, numbers_);
  }
  if (s.divides_gradients()) {
    find_shares(groups);
  }
}

UNITY_INLINE void statement_stages::find_shares(statement_groups& groups) {
  const auto all = shards_of(*work_, numbers_);
  const auto takes = [&](hardware::exchange exchange, bytes size) {
    return size > bytes{} ? groups.time(group_kind::data, exchange, size) : picoseconds{};
  };
  const auto runs = [](std::span<const work_step> steps) {
    return std::any_of(steps.begin(), steps.end(), [](const auto& step) {
      return step.kind == tasks::task_kind::transfer || step.time > picoseconds{};
    });
  };
  piece_shards before;
  picoseconds time{};  // of those before
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& c = chunks_[static_cast<std::size_t>(numbers_[i])];
    const auto gathered = statement_.divides_weights() ? all[i].gathered : bytes{};
    auto whole = gathered;
    for (const auto& [until, size] : all[i].begun) {
      whole += size;
    }
    c.gathered = std::max(c.gathered, runs(work_->pieces[i].forward) ? gathered : bytes{});
    c.whole = std::max(c.whole, runs(work_->pieces[i].backward) ? whole : bytes{});
    if (i == 0 || all[i].gathered != before.gathered || all[i].scattered != before.scattered) {
      const auto once = takes(hardware::exchange::all_gather, gathered);
      time = once + once + takes(hardware::exchange::reduce_scatter, all[i].scattered);
      before = all[i];
    }
    c.exchanged += time;
  }
}

UNITY_INLINE const statement_chunk* statement_stages::sent_to(std::int64_t chunk, bool is_backward) const {
  const auto from = received_chunk(statement_, chunk, is_backward);
  return from ? &chunks_[static_cast<std::size_t>(*from)] : nullptr;
}

UNITY_INLINE bytes statement_stages::permanent_bytes(std::int64_t stage, optimizer updates) const {
  std::int64_t held = 0;
  for (const auto& [element, count] : weights_of(stage)) {
    const auto share = (count + statement_.data - 1) / statement_.data;
    const auto from = [&](std::int64_t zero) { return statement_.zero >= zero ? share : count; };
    held += from(3) * static_cast<std::int64_t>(tensor::size_of(element)) + from(2) * gradient_bytes(element) +
            from(1) * state_bytes(updates, element);
  }
  return bytes{held};
}

UNITY_INLINE transformer_work with_layers(const transformer_work& few, std::uint32_t layers) {
  transformer_work all;
  const auto more = layers - 3;  // than there are
  for (std::uint32_t i = 0; i < few.pieces.size(); ++i) {
    for (std::uint32_t copies = i == 2 ? more + 1 : 1; copies > 0; --copies) {
      all.pieces.push_back(few.pieces[i]);
    }
  }
  const auto is_middle = [](const held_weight& w) { return w.pieces.size() == 1 && w.pieces[0] == 2; };
  for (std::size_t i = 0; i < few.weights.size();) {
    auto end = i;
    while (end < few.weights.size() && is_middle(few.weights[end])) {
      ++end;
    }
    for (std::uint32_t copy = 0; copy <= more && end > i; ++copy) {
      for (auto k = i; k < end; ++k) {
        all.weights.push_back(few.weights[k]);
        all.weights.back().pieces[0] += copy;
      }
    }
    if (end == i) {
      all.weights.push_back(few.weights[end++]);
      for (auto& piece : all.weights.back().pieces) {
        piece += piece > 2 ? more : 0;
      }
    }
    i = end;
  }
  return all;
}

}  // namespace unity::parallel

#endif
