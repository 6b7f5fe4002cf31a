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
  rank_streams(const tensor::algebra& a, std::size_t ranks, std::int64_t microbatches);

  // What is written from now on belongs to that pass.
  void begin(std::int64_t microbatch, bool is_backward) {
    microbatch_ = microbatch;
    is_backward_ = is_backward;
  }
  [[nodiscard]] std::int64_t microbatch() const noexcept { return microbatch_; }
  [[nodiscard]] rank_programs& programs() noexcept { return programs_; }
  [[nodiscard]] rank_program& program(std::uint32_t rank) { return programs_.ranks[rank]; }

  // The writer of a rank; what it writes belongs to that node of the plan's graph.
  [[nodiscard]] region_writer& on(std::uint32_t rank, node_id origin) {
    writers_[rank].begin(now(rank), origin, is_backward_, microbatch_);
    return writers_[rank];
  }
  // A part of an input; is a load, before what reads it.
  [[nodiscard]] value_id loaded(std::uint32_t rank, node_id origin, value_id of, const box& part,
                                const tensor::tensor_type& type);
  [[nodiscard]] awaited_value sent(node_id origin, value_id v, std::uint32_t from, std::uint32_t to);
  // Adds up a value of each rank of a group: the sum on each.
  [[nodiscard]] std::vector<awaited_value> reduced(node_id origin, const std::vector<std::uint32_t>& group,
                                                   std::span<const value_id> values);
  // Waits for what comes; once is enough.
  void wait(std::uint32_t rank, const rank_step& w) { now(rank).push_back(w); }
  // When all micro-batches have given: the new version of a weight, after what it waits for.
  void update(std::uint32_t rank, node_id origin, std::size_t weight, const rank_step* wait);

  // What a rank does in a pass; the same wait may come more than once.
  [[nodiscard]] const std::vector<rank_step>& steps(std::size_t rank, std::int64_t microbatch, bool is_backward) const {
    return (is_backward ? ranks_[rank].backward : ranks_[rank].forward)[static_cast<std::size_t>(microbatch)];
  }
  // What it does when all micro-batches have given.
  [[nodiscard]] const std::vector<rank_step>& last(std::size_t rank) const { return ranks_[rank].last; }

 private:
  struct passes {
    std::vector<std::vector<rank_step>> forward{};  // by micro-batch
    std::vector<std::vector<rank_step>> backward{};
    std::vector<rank_step> last{};
  };

  [[nodiscard]] std::vector<rank_step>& now(std::uint32_t rank) {
    return (is_backward_ ? ranks_[rank].backward : ranks_[rank].forward)[static_cast<std::size_t>(microbatch_)];
  }
  [[nodiscard]] rank_step step(step_kind kind, node_id origin) const {
    return {kind, {}, {}, 0, 0, origin, is_backward_, false, microbatch_};
  }
  [[nodiscard]] static rank_step wait_for(rank_step begun) {
    begun.kind = step_kind::wait;
    return begun;
  }

  std::vector<passes> ranks_;
  rank_programs programs_{};
  std::vector<region_writer> writers_{};
  std::int64_t microbatch_ = 0;
  bool is_backward_ = false;
  std::uint32_t next_ = 0;  // tag
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_STREAMS)

#include <algorithm>

#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

UNITY_INLINE rank_streams::rank_streams(const tensor::algebra& a, std::size_t ranks, std::int64_t microbatches)
    : ranks_(ranks) {
  programs_.ranks.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    ranks_[r].forward.resize(static_cast<std::size_t>(microbatches));
    ranks_[r].backward.resize(static_cast<std::size_t>(microbatches));
    writers_.emplace_back(a, programs_.ranks[r].graph, ranks_[r].last);
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
  auto s = step(step_kind::send, origin);
  s.value = v;
  s.peer = to;
  s.tag = next_++;
  now(from).push_back(s);
  const auto arrived = writers_[to].outside(programs_.ranks[from].graph.type(v));
  auto r = step(step_kind::receive, origin);
  r.node = programs_.ranks[to].graph.producer(arrived);
  r.peer = from;
  r.tag = s.tag;
  now(to).push_back(r);
  return {arrived, wait_for(r)};
}

UNITY_INLINE std::vector<awaited_value> rank_streams::reduced(node_id origin, const std::vector<std::uint32_t>& group,
                                                              std::span<const value_id> values) {
  auto& groups = programs_.groups;
  const auto known = std::find(groups.begin(), groups.end(), group);
  const auto number = static_cast<std::uint32_t>(known - groups.begin());
  if (known == groups.end()) {
    groups.push_back(group);
  }
  const auto tag = next_++;
  std::vector<awaited_value> sums;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& graph = programs_.ranks[group[i]].graph;
    const auto sum = writers_[group[i]].outside(graph.type(values[i]));
    auto r = step(step_kind::reduce, origin);
    r.node = graph.producer(sum);
    r.value = values[i];
    r.peer = number;
    r.tag = tag;
    now(group[i]).push_back(r);
    sums.push_back({sum, wait_for(r)});
  }
  return sums;
}

UNITY_INLINE void rank_streams::update(std::uint32_t rank, node_id origin, std::size_t weight, const rank_step* wait) {
  auto& last = ranks_[rank].last;
  if (wait != nullptr) {
    last.push_back(*wait);
  }
  auto s = step(step_kind::update, origin);
  s.peer = static_cast<std::uint32_t>(weight);
  last.push_back(s);
}

}  // namespace unity::parallel::detail

#endif
