// What ranks do, written phase by phase: each rank's forward and backward pass of every
// micro-batch, and what comes when all have given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/pipeline_phases.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/alike_ranks.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// A value that is on its way to a rank, and the step that waits for it.
struct awaited_value {
  value_id value{};
  rank_step wait{};
};

class rank_streams {
 public:
  // Of ranks that are not written, nothing is kept but how many messages they send. written: must outlive it.
  // Nor is p kept.
  rank_streams(const tensor::algebra& a, const written_ranks& written, std::size_t ranks, const pipeline& p);

  // What is written from now on belongs to that pass.
  void begin(std::int64_t microbatch, pipeline_pass pass) {
    microbatch_ = microbatch;
    pass_ = pass;
  }
  // Or to another of that micro-batch, on the way back.
  void go_on(pipeline_pass pass) noexcept { pass_ = pass; }
  // And to the operators of a chunk on a stage: on other stages to the next phase of the micro-batch in the order of
  // virtual stages, forward or back, so that messages between two ranks begin in one order at both.
  void enter(std::uint32_t stage, std::uint32_t chunk);
  [[nodiscard]] std::int64_t microbatch() const noexcept { return microbatch_; }
  // What is written for when all have given (on_last, wait_last, update, send_next) comes so many iterations later,
  // before the passes, and so does what is sent to it. 0: behind the passes.
  void lag(std::uint32_t iterations) noexcept { lag_ = iterations; }
  [[nodiscard]] std::uint32_t lag() const noexcept { return lag_; }
  // The tag of the next message. Where messages between ranks that are not written are left out, that of the next which
  // is not.
  [[nodiscard]] std::uint32_t tag() const noexcept { return next_; }
  void tag(std::size_t next) noexcept { next_ = static_cast<std::uint32_t>(next); }
  [[nodiscard]] rank_programs& programs() noexcept { return programs_; }
  [[nodiscard]] rank_program& program(std::uint32_t rank) { return programs_.ranks[rank]; }

  // The writer of a rank; what it writes belongs to that node of the plan's graph.
  [[nodiscard]] region_writer& on(std::uint32_t rank, node_id origin) {
    writers_[rank].begin(now(rank), origin, is_backward(), microbatch_);
    return writers_[rank];
  }
  // A part of an input; is a load, before what reads it.
  [[nodiscard]] value_id loaded(std::uint32_t rank, node_id origin, value_id of, const box& part,
                                const tensor::tensor_type& type);
  // v: of that rank, or of who is like it (written_ranks). Null where the receiver is not written.
  [[nodiscard]] awaited_value sent(node_id origin, value_id v, std::uint32_t from, std::uint32_t to);
  // Likewise, when the iteration begins: of what is there then. v may be null where `from` is not written.
  [[nodiscard]] awaited_value sent_first(node_id origin, value_id v, const tensor::tensor_type& type,
                                         std::uint32_t from, std::uint32_t to);
  // Likewise, of what the sender is being sent, and waits for.
  [[nodiscard]] awaited_value passed_on(node_id origin, const awaited_value& v, const tensor::tensor_type& type,
                                        std::uint32_t from, std::uint32_t to);
  // Adds up a value of each rank of a group: the sum on each. Here and below, values and what is returned are of those
  // of the group that are written.
  [[nodiscard]] std::vector<awaited_value> reduced(node_id origin, const std::vector<std::uint32_t>& group,
                                                   std::span<const value_id> values);
  // Likewise, when all micro-batches have given.
  [[nodiscard]] std::vector<awaited_value> reduced_last(node_id origin, const std::vector<std::uint32_t>& group,
                                                        std::span<const value_id> values);
  // Rows of a value of each, in the order of the group: all of them on each.
  [[nodiscard]] std::vector<awaited_value> gathered(node_id origin, const std::vector<std::uint32_t>& group,
                                                    std::span<const value_id> values);
  // As reduced, and each has its share of rows, of which there is a multiple of the ranks.
  [[nodiscard]] std::vector<awaited_value> scattered(node_id origin, const std::vector<std::uint32_t>& group,
                                                     std::span<const value_id> values);
  // Waits for what comes; once is enough.
  void wait(std::uint32_t rank, const rank_step& w) { now(rank).push_back(w); }
  // When all micro-batches have given: the writer of a rank, and waits for what comes.
  [[nodiscard]] region_writer& on_last(std::uint32_t rank, node_id origin) {
    writers_[rank].begin(served(rank), origin, is_backward(), microbatch_, lag_);
    return writers_[rank];
  }
  void wait_last(std::uint32_t rank, const rank_step& w) { served(rank).push_back(w); }
  // Then the new version of a weight.
  void update(std::uint32_t rank, node_id origin, std::size_t weight);
  // Then the next version goes to where others are made of it, or is made of theirs. Waited for at the end. passes_on:
  // the sender was sent it itself, and waits before it sends. v, next: null where the rank is not written.
  void send_next(node_id origin, value_id v, std::uint32_t from, value_id next, std::uint32_t to,
                 bool passes_on = false);
  void gather_next(node_id origin, const std::vector<std::uint32_t>& group, std::span<const value_id> next);

  // What a rank does in a pass; the same wait may come more than once.
  [[nodiscard]] const std::vector<rank_step>& steps(std::size_t rank, const pipeline_phase& p) const {
    return ranks_[rank].phases[place_of(p)];
  }
  // What it does before its passes: what is sent then, and what is for batches of earlier iterations.
  [[nodiscard]] const std::vector<rank_step>& first(std::size_t rank) const { return ranks_[rank].first; }
  // What it does when all micro-batches have given.
  [[nodiscard]] const std::vector<rank_step>& last(std::size_t rank) const { return ranks_[rank].last; }
  // What it waits for then.
  [[nodiscard]] const std::vector<rank_step>& end(std::size_t rank) const { return ranks_[rank].end; }

 private:
  struct passes {
    std::vector<std::vector<rank_step>> phases{};  // by place_of
    std::vector<rank_step> first{};
    std::vector<rank_step> last{};
    std::vector<rank_step> end{};
  };
  // A rank, and where its step is written; null: nowhere.
  struct message_end {
    std::uint32_t rank = 0;
    std::vector<rank_step>* steps = nullptr;
  };
  [[nodiscard]] awaited_value sent(node_id origin, value_id v, const tensor::tensor_type& type, const message_end& from,
                                   const message_end& to);
  // A collective; result(rank's graph, value) -> type
  template <class Result>
  std::vector<awaited_value> together(step_kind kind, node_id origin, const std::vector<std::uint32_t>& group,
                                      std::span<const value_id> values, const Result& result, bool is_last = false) {
    const auto number = number_of(group);
    const auto tag = next_++;
    std::vector<awaited_value> all;
    const auto own = written_.of(group);
    for (std::size_t i = 0; i < own.size(); ++i) {
      auto& graph = programs_.ranks[own[i]].graph;
      const auto made = writers_[own[i]].outside(result(graph.type(values[i])));
      auto r = step(kind, origin);
      r.node = graph.producer(made);
      r.value = values[i];
      r.peer = number;
      r.tag = tag;
      (is_last ? served(own[i]) : now(own[i])).push_back(r);
      all.push_back({made, wait_for(r)});
    }
    return all;
  }
  [[nodiscard]] std::uint32_t number_of(const std::vector<std::uint32_t>& group);

  [[nodiscard]] bool is_backward() const noexcept { return pass_ != pipeline_pass::forward; }
  [[nodiscard]] std::size_t place_of(const pipeline_phase& p) const {
    return (static_cast<std::size_t>(p.pass) * chunks_ + p.chunk) * microbatches_ +
           static_cast<std::size_t>(p.microbatch);
  }
  [[nodiscard]] std::vector<rank_step>& now(std::uint32_t rank) {
    const auto chunk = chunk_now_[stages_.empty() ? 0 : stages_[rank]];
    return ranks_[rank].phases[place_of({microbatch_, pass_, chunk})];
  }
  [[nodiscard]] std::vector<rank_step>& served(std::uint32_t rank) {
    return lag_ > 0 ? ranks_[rank].first : ranks_[rank].last;
  }
  [[nodiscard]] rank_step step(step_kind kind, node_id origin) const {
    return {kind, {}, {}, 0, 0, origin, is_backward(), false, microbatch_, 0, 0};
  }
  [[nodiscard]] static rank_step wait_for(rank_step begun) {
    begun.kind = step_kind::wait;
    return begun;
  }

  const written_ranks& written_;
  std::vector<passes> ranks_;
  rank_programs programs_{};
  std::vector<region_writer> writers_{};
  std::vector<std::uint32_t> stages_;  // by rank
  std::size_t chunks_;
  std::size_t microbatches_;
  std::vector<std::uint32_t> chunk_now_;  // by stage
  std::int64_t microbatch_ = 0;
  pipeline_pass pass_ = pipeline_pass::forward;
  std::uint32_t next_ = 0;  // tag
  std::uint32_t lag_ = 0;   // iterations
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_STREAMS)

#include <algorithm>

#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

UNITY_INLINE rank_streams::rank_streams(const tensor::algebra& a, const written_ranks& written, std::size_t ranks,
                                        const pipeline& p)
    : written_{written},
      ranks_(ranks),
      stages_{p.stages},
      chunks_{p.chunks},
      microbatches_{static_cast<std::size_t>(p.microbatches)},
      chunk_now_(p.stage_count()) {
  programs_.ranks.resize(ranks);
  writers_.reserve(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    writers_.emplace_back(a, programs_.ranks[r].graph, ranks_[r].last);
    if (!written.has(r)) {
      continue;
    }
    ranks_[r].phases.resize(3 * chunks_ * microbatches_);
  }
}

UNITY_INLINE void rank_streams::enter(std::uint32_t stage, std::uint32_t chunk) {
  const auto last = static_cast<std::uint32_t>(chunks_ - 1);
  for (std::uint32_t k = 0; k < chunk_now_.size(); ++k) {
    if (is_backward()) {
      chunk_now_[k] = k > stage && chunk > 0 ? chunk - 1 : chunk;
    } else {
      chunk_now_[k] = k < stage ? std::min(chunk + 1, last) : chunk;
    }
  }
}

UNITY_INLINE value_id rank_streams::loaded(std::uint32_t rank, node_id origin, value_id of, const box& part,
                                           const tensor::tensor_type& type) {
  const auto v = writers_[rank].outside(type);
  auto& inputs = programs_.ranks[rank].inputs;
  auto s = step(step_kind::load, origin);
  s.node = programs_.ranks[rank].graph.producer(v);
  s.peer = static_cast<std::uint32_t>(inputs.size());
  now(rank).push_back(s);
  inputs.push_back({of, part, v, microbatch_});
  return v;
}

UNITY_INLINE awaited_value rank_streams::sent(node_id origin, value_id v, std::uint32_t from, std::uint32_t to) {
  if (!written_.has(from) && !written_.has(to)) {
    ++next_;
    return {};
  }
  return sent(origin, v, program(written_.like(from)).graph.type(v), {from, written_.has(from) ? &now(from) : nullptr},
              {to, written_.has(to) ? &now(to) : nullptr});
}

UNITY_INLINE awaited_value rank_streams::sent_first(node_id origin, value_id v, const tensor::tensor_type& type,
                                                    std::uint32_t from, std::uint32_t to) {
  if (!written_.has(from) && !written_.has(to)) {
    ++next_;
    return {};
  }
  return sent(origin, v, type, {from, written_.has(from) ? &ranks_[from].first : nullptr},
              {to, written_.has(to) ? &ranks_[to].first : nullptr});
}

UNITY_INLINE awaited_value rank_streams::passed_on(node_id origin, const awaited_value& v,
                                                   const tensor::tensor_type& type, std::uint32_t from,
                                                   std::uint32_t to) {
  if (written_.has(from)) {
    wait(from, v.wait);
  }
  return sent(origin, v.value, type, {from, written_.has(from) ? &now(from) : nullptr},
              {to, written_.has(to) ? &now(to) : nullptr});
}

UNITY_INLINE awaited_value rank_streams::sent(node_id origin, value_id v, const tensor::tensor_type& type,
                                              const message_end& from, const message_end& to) {
  auto s = step(step_kind::send, origin);
  s.value = v;
  s.peer = to.rank;
  s.tag = next_++;
  s.lag = lag_;
  if (from.steps != nullptr) {
    from.steps->push_back(s);
  }
  if (to.steps == nullptr) {
    return {};
  }
  const auto arrived = writers_[to.rank].outside(type);
  auto r = step(step_kind::receive, origin);
  r.node = programs_.ranks[to.rank].graph.producer(arrived);
  r.peer = from.rank;
  r.tag = s.tag;
  r.lag = lag_;
  to.steps->push_back(r);
  auto wait = wait_for(r);
  wait.since = lag_;
  return {arrived, wait};
}

UNITY_INLINE std::uint32_t rank_streams::number_of(const std::vector<std::uint32_t>& group) {
  auto& groups = programs_.groups;
  const auto known = std::find(groups.begin(), groups.end(), group);
  const auto number = static_cast<std::uint32_t>(known - groups.begin());
  if (known == groups.end()) {
    groups.push_back(group);
  }
  return number;
}

UNITY_INLINE std::vector<awaited_value> rank_streams::reduced(node_id origin, const std::vector<std::uint32_t>& group,
                                                              std::span<const value_id> values) {
  return together(step_kind::reduce, origin, group, values, [](const tensor::tensor_type& t) { return t; });
}

UNITY_INLINE std::vector<awaited_value> rank_streams::reduced_last(node_id origin,
                                                                   const std::vector<std::uint32_t>& group,
                                                                   std::span<const value_id> values) {
  return together(step_kind::reduce, origin, group, values, [](const tensor::tensor_type& t) { return t; }, true);
}

UNITY_INLINE std::vector<awaited_value> rank_streams::gathered(node_id origin, const std::vector<std::uint32_t>& group,
                                                               std::span<const value_id> values) {
  return together(step_kind::gather, origin, group, values, [&](tensor::tensor_type t) {
    t.dims[0] *= static_cast<std::int64_t>(group.size());
    return t;
  });
}

UNITY_INLINE std::vector<awaited_value> rank_streams::scattered(node_id origin, const std::vector<std::uint32_t>& group,
                                                                std::span<const value_id> values) {
  return together(step_kind::scatter, origin, group, values, [&](tensor::tensor_type t) {
    t.dims[0] /= static_cast<std::int64_t>(group.size());
    return t;
  });
}

UNITY_INLINE void rank_streams::update(std::uint32_t rank, node_id origin, std::size_t weight) {
  auto s = step(step_kind::update, origin);
  s.peer = static_cast<std::uint32_t>(weight);
  s.since = lag_;
  served(rank).push_back(s);
}

UNITY_INLINE void rank_streams::send_next(node_id origin, value_id v, std::uint32_t from, value_id next,
                                          std::uint32_t to, bool passes_on) {
  if (!written_.has(from) && !written_.has(to)) {
    ++next_;
    return;
  }
  auto s = step(step_kind::send, origin);
  s.value = v;
  s.peer = to;
  s.tag = next_++;
  s.lag = lag_;  // who is slow has it later
  s.since = lag_;
  if (written_.has(from)) {
    (passes_on ? ranks_[from].end : served(from)).push_back(s);
  }
  if (!written_.has(to)) {
    return;
  }
  auto r = step(step_kind::receive, origin);
  r.node = programs_.ranks[to].graph.producer(next);
  r.peer = from;
  r.tag = s.tag;
  r.since = lag_;
  (passes_on ? ranks_[to].end : served(to)).push_back(r);  // in the order in which they are sent
  ranks_[to].end.push_back(wait_for(r));
}

UNITY_INLINE void rank_streams::gather_next(node_id origin, const std::vector<std::uint32_t>& group,
                                            std::span<const value_id> next) {
  const auto number = number_of(group);
  const auto tag = next_++;
  const auto own = written_.of(group);
  for (std::size_t i = 0; i < own.size(); ++i) {
    auto s = step(step_kind::gather, origin);
    s.node = programs_.ranks[own[i]].graph.producer(next[i]);
    s.value = next[i];
    s.peer = number;
    s.tag = tag;
    ranks_[own[i]].last.push_back(s);
    ranks_[own[i]].end.push_back(wait_for(s));
  }
}

}  // namespace unity::parallel::detail

#endif
