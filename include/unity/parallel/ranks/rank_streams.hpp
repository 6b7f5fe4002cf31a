// Writes the steps of ranks phase by phase: the forward and backward pass of each
// micro-batch, and the steps after the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// A value that a rank is about to receive, and the step that waits for it.
struct awaited_value {
  value_id value{};
  rank_step wait{};
};

class rank_streams {
 public:
  // Of ranks that are not written, only the number of messages that they send is kept. `written` must outlive
  // this object; p need not.
  rank_streams(const tensor::algebra& a, const written_ranks& written, std::size_t ranks, const pipeline& p);

  // Effects: steps written from now on belong to that pass.
  void begin(std::int64_t microbatch, pipeline_pass pass) {
    microbatch_ = microbatch;
    pass_ = pass;
  }
  // Effects: steps written from now on belong to that pass of the same micro-batch.
  void go_on(pipeline_pass pass) noexcept { pass_ = pass; }
  // Effects: steps written from now on belong to a chunk on a stage; on other stages, to the micro-batch's next phase
  // in the (forward or backward) order of virtual stages, so that the messages between two ranks begin in the same
  // order on both.
  void enter(std::uint32_t stage, std::uint32_t chunk);
  [[nodiscard]] std::int64_t microbatch() const noexcept { return microbatch_; }
  // Effects: steps after the last micro-batch (on_last, wait_last, update, send_next), and messages to them, are done
  // that many iterations later, before the passes. 0: in the same iteration, after the passes.
  void lag(std::uint32_t iterations) noexcept { lag_ = iterations; }
  [[nodiscard]] std::uint32_t lag() const noexcept { return lag_; }
  // The tag of the next message. A caller that leaves out messages between ranks that are not written sets the tag of
  // the next message that is written.
  [[nodiscard]] std::uint32_t tag() const noexcept { return next_; }
  void tag(std::size_t next) noexcept { next_ = static_cast<std::uint32_t>(next); }
  [[nodiscard]] rank_programs& programs() noexcept { return programs_; }
  [[nodiscard]] rank_program& program(std::uint32_t rank) { return programs_.ranks[rank]; }

  // The writer of a rank, for operators that belong to that node of the plan's graph.
  [[nodiscard]] region_writer& on(std::uint32_t rank, node_id origin) {
    writers_[rank].begin(now(rank), origin, is_backward(), microbatch_);
    return writers_[rank];
  }
  // A part of an input, with a load step before its readers.
  [[nodiscard]] value_id loaded(std::uint32_t rank, node_id origin, value_id of, const box& part,
                                const tensor::tensor_type& type);
  // Sends a value of one rank to another. v: of the sender, or of a rank like it (written_ranks). The result is null if
  // the receiver is not written.
  [[nodiscard]] awaited_value sent(node_id origin, value_id v, std::uint32_t from, std::uint32_t to);
  // Likewise, at the beginning of the iteration, a value that exists then. v may be null if `from` is not written.
  [[nodiscard]] awaited_value sent_first(node_id origin, value_id v, const tensor::tensor_type& type,
                                         std::uint32_t from, std::uint32_t to);
  // Likewise, a value that the sender itself receives: the sender waits for it first.
  [[nodiscard]] awaited_value passed_on(node_id origin, const awaited_value& v, const tensor::tensor_type& type,
                                        std::uint32_t from, std::uint32_t to);
  // Adds up a value of each rank of a group; each rank gets the sum. Here and below, `values` and the result have an
  // entry for each rank of the group that is written.
  [[nodiscard]] std::vector<awaited_value> reduced(node_id origin, const std::vector<std::uint32_t>& group,
                                                   std::span<const value_id> values);
  // Likewise, after the last micro-batch.
  [[nodiscard]] std::vector<awaited_value> reduced_last(node_id origin, const std::vector<std::uint32_t>& group,
                                                        std::span<const value_id> values);
  // Concatenates the rows of a value of each rank, in the order of the group; each rank gets all.
  [[nodiscard]] std::vector<awaited_value> gathered(node_id origin, const std::vector<std::uint32_t>& group,
                                                    std::span<const value_id> values);
  // As reduced, but each rank gets only its share of the rows, whose number is a multiple of the ranks.
  [[nodiscard]] std::vector<awaited_value> scattered(node_id origin, const std::vector<std::uint32_t>& group,
                                                     std::span<const value_id> values);
  // Adds a wait; later waits for the same step are not needed.
  void wait(std::uint32_t rank, const rank_step& w) { now(rank).push_back(w); }
  // The writer of a rank for operators after the last micro-batch, and waits there.
  [[nodiscard]] region_writer& on_last(std::uint32_t rank, node_id origin) {
    writers_[rank].begin(served(rank), origin, is_backward(), microbatch_, lag_);
    return writers_[rank];
  }
  void wait_last(std::uint32_t rank, const rank_step& w) { served(rank).push_back(w); }
  // Adds the update of a weight, also after the last micro-batch.
  void update(std::uint32_t rank, node_id origin, std::size_t weight);
  // Sends the next version of a weight after its update; waits are at the end. passes_on: the sender receives the
  // version itself, and waits for it before it sends. v, next: null if the rank is not written.
  void send_next(node_id origin, value_id v, std::uint32_t from, value_id next, std::uint32_t to,
                 bool passes_on = false);
  void gather_next(node_id origin, const std::vector<std::uint32_t>& group, std::span<const value_id> next);

  // The steps of a rank in a phase; the same wait may occur more than once.
  [[nodiscard]] const std::vector<rank_step>& steps(std::size_t rank, const pipeline_phase& p) const {
    return ranks_[rank].phases[place_of(p)];
  }
  // Of all ranks, in all phases.
  [[nodiscard]] std::size_t step_count() const noexcept;
  // A rank's steps before the passes: early sends, and steps for batches of earlier iterations.
  [[nodiscard]] const std::vector<rank_step>& first(std::size_t rank) const { return ranks_[rank].first; }
  // A rank's steps after the last micro-batch.
  [[nodiscard]] const std::vector<rank_step>& last(std::size_t rank) const { return ranks_[rank].last; }
  // The steps after those: waits for new versions of weights, and messages that pass versions on.
  [[nodiscard]] const std::vector<rank_step>& end(std::size_t rank) const { return ranks_[rank].end; }

 private:
  struct passes {
    std::vector<std::vector<rank_step>> phases{};  // by place_of
    std::vector<rank_step> first{};
    std::vector<rank_step> last{};
    std::vector<rank_step> end{};
  };
  // A rank, and the list for its step; null if the rank is not written.
  struct message_end {
    std::uint32_t rank = 0;
    std::vector<rank_step>* steps = nullptr;
  };
  [[nodiscard]] awaited_value sent(node_id origin, value_id v, const tensor::tensor_type& type, const message_end& from,
                                   const message_end& to);
  // Adds a collective. result(t): the type of its result for values of type t.
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

UNITY_INLINE std::size_t rank_streams::step_count() const noexcept {
  std::size_t sum = 0;
  for (const auto& r : ranks_) {
    for (const auto& steps : r.phases) {
      sum += steps.size();
    }
  }
  return sum;
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
  s.lag = lag_;  // a slow receiver may read it later
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
  (passes_on ? ranks_[to].end : served(to)).push_back(r);  // in the order of the sends
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
