// What an iteration takes under a fusion strategy that is changed step by step.
// Source: Yi et al., Optimizing DNN compilation for distributed training with joint OP and tensor fusion (DisCo), TPDS
// 2022, section 4.4.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/fusion/fusion_groups.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/fusion/target.hpp>

namespace unity::fusion {

// Units: picoseconds.
struct fusion_times {
  std::int64_t iteration = 0;
  std::int64_t compute = 0;        // the sum over kernels
  std::int64_t communication = 0;  // the sum over all-reduces
};

// A group as it was simulated.
struct simulated_group {
  std::uint32_t group = 0;  // its number
  std::int64_t start = 0;
  std::int64_t end = 0;

  friend bool operator==(const simulated_group&, const simulated_group&) = default;
};

// A device runs kernels in the order in which they became ready, a channel all-reduces likewise; of what becomes ready
// at once, the lower number is first. simulate::full_simulation of fusion_program (fusion_program.hpp) gives the same
// times. Refers to graph and target, which must outlive it. One thread uses one session.
class fusion_session {
 public:
  fusion_session(const instruction_graph& g, const fusion_target& t) : groups_{g, t.limits}, target_{&t} {}

  // As of fusion_groups.
  void reset(const fusion_strategy& s);
  void undo();
  bool fuse(std::uint32_t from, std::uint32_t to) { return groups_.fuse(from, to); }
  bool duplicate(std::uint32_t from, std::uint32_t to) { return groups_.duplicate(from, to); }
  bool join(std::uint32_t a, std::uint32_t b) { return groups_.join(a, b); }
  bool separate(instruction_id i) { return groups_.separate(i); }
  [[nodiscard]] const fusion_groups& groups() const noexcept { return groups_; }

  // What an iteration takes now. Complexity: linear in the graph, and the model of what changed.
  [[nodiscard]] std::int64_t iteration();
  [[nodiscard]] fusion_times times();
  // Buckets in the order in which they began in the last simulation.
  [[nodiscard]] std::span<const std::uint32_t> bucket_order() const noexcept { return issued_; }
  // All groups, in the order in which they begin.
  [[nodiscard]] std::vector<simulated_group> schedule();
  // Of a kernel or bucket. Precondition: simulated since the last change.
  [[nodiscard]] std::int64_t duration(std::uint32_t group) const { return duration_[group]; }

 private:
  [[nodiscard]] const instruction_graph& graph() const noexcept { return groups_.graph(); }
  [[nodiscard]] bool reduces(std::uint32_t group) const { return graph().reduces(groups_.members(group).front()); }
  [[nodiscard]] std::int64_t time_of(std::uint32_t group);
  void time_changed();
  // record(group, start, end) of each.
  template <class Record>
  std::int64_t simulate(const Record& record);

  fusion_groups groups_;
  const fusion_target* target_;
  std::vector<std::int64_t> duration_{};                          // by group
  std::vector<std::pair<std::uint32_t, std::int64_t>> before_{};  // durations as of the last reset
  std::size_t timed_ = 0;                                         // of groups_.changed()
  std::unordered_map<fingerprint, std::int64_t> known_{};         // kernels that were estimated

  // Scratch.
  std::vector<std::uint32_t> remaining_{};
  std::vector<std::uint32_t> queue_{};
  std::vector<std::uint32_t> ready_{};
  std::vector<std::uint32_t> ready_buckets_{};
  std::vector<std::uint32_t> issued_{};
  std::vector<std::int64_t> issued_end_{};
};

template <class Record>
std::int64_t fusion_session::simulate(const Record& record) {
  time_changed();
  remaining_ = groups_.waits();
  queue_.clear();
  issued_.clear();
  issued_end_.clear();
  std::int64_t clock = 0;
  std::int64_t channel = 0;
  std::int64_t last = 0;
  std::size_t head = 0;     // of queue_
  std::size_t arrived = 0;  // all-reduces that have ended
  const auto lower = [&](std::uint32_t a, std::uint32_t b) { return groups_.number(a) < groups_.number(b); };
  const auto release = [&](std::uint32_t group) {
    groups_.for_each_successor(group, [&](std::uint32_t s) {
      if (--remaining_[s] == 0) {
        (reduces(s) ? ready_buckets_ : ready_).push_back(s);
      }
    });
  };
  const auto enqueue = [&](std::int64_t now) {
    if (ready_.size() > 1) {
      std::sort(ready_.begin(), ready_.end(), lower);
    }
    queue_.insert(queue_.end(), ready_.begin(), ready_.end());
    ready_.clear();
    if (ready_buckets_.size() > 1) {
      std::sort(ready_buckets_.begin(), ready_buckets_.end(), lower);
    }
    for (const auto b : ready_buckets_) {
      const auto start = std::max(channel, now);
      channel = start + duration_[b];
      record(b, start, channel);
      issued_.push_back(b);
      issued_end_.push_back(channel);
    }
    ready_buckets_.clear();
  };
  const auto arrive_before = [&](std::int64_t now) {
    while (arrived < issued_.size() && issued_end_[arrived] < now) {
      last = issued_end_[arrived];
      release(issued_[arrived++]);
      enqueue(last);
    }
    if (arrived < issued_.size() && issued_end_[arrived] == now) {
      last = now;
      release(issued_[arrived++]);  // enqueued with what else is ready now
    }
  };
  for (std::uint32_t g = 0; g < graph().size(); ++g) {
    if (remaining_[g] == 0 && !groups_.members(g).empty()) {
      const auto role = graph()[groups_.members(g).front()].role;
      if (role == instruction_role::all_reduce) {
        ready_buckets_.push_back(g);
      } else if (role != instruction_role::source) {
        ready_.push_back(g);
      }
    }
  }
  enqueue(0);
  while (true) {
    if (head == queue_.size()) {
      if (arrived == issued_.size()) {
        break;
      }
      clock = std::max(clock, issued_end_[arrived]);
      arrive_before(clock);
      enqueue(clock);
      continue;
    }
    const auto g = queue_[head++];
    const auto start = clock;
    clock += duration_[g];
    record(g, start, clock);
    arrive_before(clock);
    release(g);
    enqueue(clock);
  }
  return std::max(clock, last);
}

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_FUSION_SESSION)

namespace unity::fusion {

UNITY_INLINE void fusion_session::reset(const fusion_strategy& s) {
  groups_.reset(s);
  before_.clear();
  timed_ = 0;
  duration_.assign(graph().size(), 0);
  for (std::uint32_t g = 0; g < graph().size(); ++g) {
    if (!groups_.members(g).empty()) {
      duration_[g] = time_of(g);
    }
  }
}

UNITY_INLINE void fusion_session::undo() {
  groups_.undo();
  for (; !before_.empty(); before_.pop_back()) {
    duration_[before_.back().first] = before_.back().second;
  }
  timed_ = 0;
}

UNITY_INLINE void fusion_session::time_changed() {
  const auto changed = groups_.changed();
  // What was timed and then taken back stands there no more, and its time is another one again.
  for (auto c = timed_; c < changed.size(); ++c) {
    const auto g = changed[c];
    before_.emplace_back(g, duration_[g]);
    duration_[g] = groups_.members(g).empty() ? 0 : time_of(g);
  }
  timed_ = changed.size();
}

UNITY_INLINE std::int64_t fusion_session::time_of(std::uint32_t group) {
  const auto all = groups_.members(group);
  const auto& s = groups_.sums(group);
  const auto& first = graph()[all.front()];
  if (first.role == instruction_role::source) {
    return 0;
  }
  if (first.role == instruction_role::all_reduce) {
    double bytes = 0;
    for (const auto m : all) {
      bytes += graph()[m].size;
    }
    return std::max<std::int64_t>(target_->all_reduce(bytes), 1);
  }
  if (all.size() == 1) {
    return std::max<std::int64_t>(first.duration, 1);
  }
  const auto& k = target_->kernels;
  if (!k.estimate) {
    return std::max<std::int64_t>(
        k.launch +
            static_cast<std::int64_t>(std::max(s.arithmetic, (s.reads + s.writes) / k.bytes_per_picosecond) + 0.5),
        1);
  }
  auto d = groups_.description(group);
  const auto print = print_of(d);
  const auto [at, is_new] = known_.try_emplace(print, 0);
  if (is_new) {
    at->second = std::max<std::int64_t>(k.estimate(d), 1);
  }
  return at->second;
}

UNITY_INLINE std::int64_t fusion_session::iteration() {
  return simulate([](std::uint32_t, std::int64_t, std::int64_t) {});
}

UNITY_INLINE fusion_times fusion_session::times() {
  fusion_times t;
  t.iteration = simulate([&](std::uint32_t g, std::int64_t start, std::int64_t end) {
    (reduces(g) ? t.communication : t.compute) += end - start;
  });
  return t;
}

UNITY_INLINE std::vector<simulated_group> fusion_session::schedule() {
  std::vector<simulated_group> all;
  simulate(
      [&](std::uint32_t g, std::int64_t start, std::int64_t end) { all.push_back({groups_.number(g), start, end}); });
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.start != b.start ? a.start < b.start : a.group < b.group; });
  return all;
}

}  // namespace unity::fusion

#endif
