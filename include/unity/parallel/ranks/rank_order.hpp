// The order of a rank's passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>

namespace unity::parallel::detail {

// Places the waits of ranks for their sends: as soon as they know that the messages have arrived.

// Simulates all ranks together with vector clocks of their progress. When a rank has waited for a message, it knows
// everything that the sender knew when sending. Source of the clocks: Mattern, Virtual time and global states of
// distributed systems, 1989.
class send_waits {
 public:
  explicit send_waits(rank_programs& p);

  // Adds a wait for each send where the rank knows that the message has arrived: the wait returns immediately, and
  // frees the memory of the value. The remaining waits are put at the end. Lagging sends are not waited for, because
  // their data is kept aside. Waits have tags, but no step numbers yet. Complexity: messages, times ranks and pending
  // messages.
  void add();

  [[nodiscard]] static rank_step wait_for(rank_step s);

 private:
  using clock = std::vector<std::uint32_t>;  // by rank: a lower bound on its completed steps

  struct rank_state {
    std::size_t at = 0;
    clock known{};
    std::vector<rank_step> under_way{};
    std::vector<rank_step> steps{};
  };
  struct message {
    clock known{};            // of the participants that have begun
    std::size_t begun = 0;    // number of senders, or of group members
    std::size_t arrived = 0;  // steps of the receiver on arrival; 0: not yet
  };

  static void join(clock& x, const clock& y);
  // Returns whether the rank could proceed.
  bool take(std::uint32_t r);
  void release(rank_state& rank);

  rank_programs& programs_;
  std::vector<rank_state> ranks_;
  std::map<std::uint32_t, message> messages_{};                           // by tag
  std::map<std::pair<std::uint32_t, std::uint32_t>, rank_step> begun_{};  // by rank and tag
};

// Adds waits for sends. weights_alone: ranks exchange nothing else. Then gradients leave when the passes are nearly
// over, and a rank knows that its gradients have arrived when it has the new version, for which it waits at the end. So
// all waits are placed there, independently of other ranks.
void add_send_waits(rank_programs& p, bool weights_alone);

class rank_order {
 public:
  rank_order(const rank_streams& streams, std::size_t rank, const pipeline& p)
      : streams_{streams}, rank_{rank}, pipeline_{p}, stage_{p.stages.empty() ? 0 : p.stages[rank]} {}

  // Contains each wait once, at its first position. Waits have tags, but no step numbers yet.
  [[nodiscard]] std::vector<rank_step> run() &&;

 private:
  // For schedules without flush: puts after each forward pass the backward pass that follows it in phases_of; at first
  // this belongs to the previous batch. The gradients of a batch are complete in the iteration after it, or at its own
  // end; weights are updated before new gradients replace them.
  void delayed();
  void append(std::span<const rank_step> steps, bool is_late);
  // Waits for a pass's sends of the previous iteration before the pass makes new ones.
  void wait_for_sends(std::span<const rank_step> steps);

  const rank_streams& streams_;
  std::size_t rank_;
  const pipeline& pipeline_;
  std::uint32_t stage_;
  std::vector<rank_step> steps_{};
  std::set<std::uint32_t> waited_{};  // tags
};

// Sets the step numbers that waits refer to.
void find_begun(std::vector<rank_step>& steps);

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_ORDER)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/parallel/pipeline.hpp>

namespace unity::parallel::detail {

UNITY_INLINE send_waits::send_waits(rank_programs& p) : programs_{p}, ranks_(p.ranks.size()) {
  for (auto& r : ranks_) {
    r.known.assign(ranks_.size(), 0);
  }
}

UNITY_INLINE void send_waits::add() {
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      while (ranks_[r].at < programs_.ranks[r].steps.size() && take(r)) {
        goes_on = true;
      }
    }
  }
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    UNITY_EXPECTS(ranks_[r].at == programs_.ranks[r].steps.size(), "no two ranks wait for each other");
    for (const auto& s : ranks_[r].under_way) {
      ranks_[r].steps.push_back(wait_for(s));
    }
    programs_.ranks[r].steps = std::move(ranks_[r].steps);
  }
}

UNITY_INLINE rank_step send_waits::wait_for(rank_step s) {
  s.kind = step_kind::wait;
  s.value = {};
  return s;
}

UNITY_INLINE void send_waits::join(clock& x, const clock& y) {
  x.resize(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    x[i] = std::max(x[i], y[i]);
  }
}

UNITY_INLINE bool send_waits::take(std::uint32_t r) {
  auto& rank = ranks_[r];
  const auto& s = programs_.ranks[r].steps[rank.at];
  auto& m = messages_[s.tag];
  if (s.lag > 0) {
    rank.known[r] = static_cast<std::uint32_t>(++rank.at);
    rank.steps.push_back(s);
    if (s.kind == step_kind::send) {
      join(m.known, rank.known);
      ++m.begun;
    }
    return true;
  }
  const bool is_wait = s.kind == step_kind::wait;
  if (is_wait) {
    const auto& begun = begun_.at({r, s.tag});
    if (m.begun < (is_collective(begun.kind) ? programs_.groups[begun.peer].size() : 1)) {
      return false;
    }
    join(rank.known, m.known);
  }
  rank.known[r] = static_cast<std::uint32_t>(++rank.at);
  rank.steps.push_back(s);
  switch (s.kind) {
    case step_kind::send: rank.under_way.push_back(s); [[fallthrough]];
    case step_kind::reduce:
    case step_kind::scatter:
    case step_kind::gather:
      join(m.known, rank.known);
      ++m.begun;
      [[fallthrough]];
    case step_kind::receive: begun_[{r, s.tag}] = s; break;
    case step_kind::wait:
      m.arrived = rank.at;
      release(rank);
      break;
    default: break;
  }
  return true;
}

UNITY_INLINE void add_send_waits(rank_programs& p, bool weights_alone) {
  if (!weights_alone) {
    send_waits{p}.add();
    return;
  }
  for (auto& r : p.ranks) {
    const auto count = r.steps.size();
    for (std::size_t s = 0; s < count; ++s) {
      if (r.steps[s].kind == step_kind::send && r.steps[s].lag == 0) {
        r.steps.push_back(send_waits::wait_for(r.steps[s]));
      }
    }
  }
}

UNITY_INLINE void send_waits::release(rank_state& rank) {
  std::erase_if(rank.under_way, [&](const rank_step& s) {
    const auto arrived = messages_.at(s.tag).arrived;
    const bool is_known = arrived != 0 && rank.known[s.peer] >= arrived;
    if (is_known) {
      rank.steps.push_back(wait_for(s));
    }
    return is_known;
  });
}

UNITY_INLINE std::vector<rank_step> rank_order::run() && {
  if (pipeline_.is_delayed) {
    delayed();
  } else {
    append(streams_.first(rank_), false);
    for (const auto& phase : phases_of(pipeline_, stage_)) {
      append(streams_.steps(rank_, phase), false);
    }
    append(streams_.last(rank_), false);
    append(streams_.end(rank_), false);
  }
  return std::move(steps_);
}

UNITY_INLINE void rank_order::delayed() {
  const auto count = pipeline_.microbatches;
  const auto ahead = static_cast<std::int64_t>(pipeline_.stage_count() - stage_) - 1;
  for (std::int64_t m = 0; m < count; ++m) {
    append(streams_.steps(rank_, {m, pipeline_pass::forward}), false);
    if (ahead == 0 && m + 1 == count) {
      append(streams_.last(rank_), true);
    }
    append(streams_.steps(rank_, {m >= ahead ? m - ahead : m - ahead + count, pipeline_pass::backward}), m < ahead);
  }
  if (ahead != 0) {
    append(streams_.last(rank_), true);
  }
}

UNITY_INLINE void rank_order::append(std::span<const rank_step> steps, bool is_late) {
  if (pipeline_.is_delayed) {
    wait_for_sends(steps);
  }
  for (auto s : steps) {
    s.is_late = is_late;
    if (s.kind != step_kind::wait || waited_.insert(s.tag).second) {
      steps_.push_back(s);
    }
  }
}

UNITY_INLINE void rank_order::wait_for_sends(std::span<const rank_step> steps) {
  for (auto s : steps) {
    if (s.kind == step_kind::send) {
      s.kind = step_kind::wait;
      s.is_late = true;
      steps_.push_back(s);
    }
  }
}

UNITY_INLINE void find_begun(std::vector<rank_step>& steps) {
  std::map<std::uint32_t, std::uint32_t> begun;  // by tag
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto kind = steps[s].kind;
    if (kind == step_kind::send || kind == step_kind::receive || is_collective(kind)) {
      begun[steps[s].tag] = static_cast<std::uint32_t>(s);
    }
  }
  for (auto& s : steps) {
    if (s.kind == step_kind::wait) {
      s.peer = begun.at(s.tag);
      s.value = {};
    }
  }
}

}  // namespace unity::parallel::detail

#endif
