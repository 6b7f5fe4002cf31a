// The time of an iteration under a fusion strategy that changes step by step. Over 500 lines because a full run and a
// run from the first changed kernel share one state.
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

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_groups.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>

namespace unity::fusion {

struct fusion_times {
  picoseconds iteration{};
  picoseconds compute{};        // the sum over kernels
  picoseconds communication{};  // the sum over all-reduces
};

// The simulated times of a group.
struct simulated_group {
  std::uint32_t group = 0;  // its number
  picoseconds start{};
  picoseconds end{};

  friend bool operator==(const simulated_group&, const simulated_group&) = default;
};

// Simulates an iteration. A device runs kernels, and a channel runs all-reduces, in the order in which they become
// ready; ties go to the lower number. Gives the same times as simulate::full_simulation of fusion_program
// (fusion_program.hpp). Holds references to graph and target, which must outlive it. Not safe for several threads at
// once.
//
// Simulates the strategy of the last reset from the start, and changed strategies from the first kernel that the change
// can affect. To this end it saves the state of the simulation every few kernels.
class fusion_session {
 public:
  fusion_session(const instruction_graph& g, const fusion_target& t);

  // Effects: as in fusion_groups.
  void reset(const fusion_strategy& s);
  void undo();
  bool fuse(std::uint32_t from, std::uint32_t to) { return groups_.fuse(from, to); }
  bool duplicate(std::uint32_t from, std::uint32_t to) { return groups_.duplicate(from, to); }
  bool join(std::uint32_t a, std::uint32_t b) { return groups_.join(a, b); }
  bool separate(instruction_id i) { return groups_.separate(i); }
  [[nodiscard]] const fusion_groups& groups() const noexcept { return groups_; }

  // The time of an iteration now. Complexity: linear in the kernels that run from the first change on.
  [[nodiscard]] picoseconds iteration();
  // Times of the strategy of the last reset.
  [[nodiscard]] const fusion_times& times() const noexcept { return times_; }
  // All groups in the order in which they begin. Precondition: nothing changed since the last reset.
  [[nodiscard]] std::vector<simulated_group> schedule() const;
  [[nodiscard]] std::vector<std::uint32_t> order() const;
  // One member of each bucket, in the order in which the buckets are reduced.
  [[nodiscard]] std::span<const instruction_id> buckets() const noexcept { return buckets_; }
  [[nodiscard]] picoseconds duration(std::uint32_t group) const { return duration_[group]; }

 private:
  static constexpr std::uint32_t never = 0xffffffffU;

  // The progress of a simulation. Events are ends of kernels, numbered from 1.
  struct progress {
    std::uint32_t event = 0;    // number of kernels that have ended
    std::uint32_t queued = 0;   // number of kernels that have become ready
    std::uint32_t issued = 0;   // number of buckets that have become ready
    std::uint32_t arrived = 0;  // number of buckets that have been reduced
    picoseconds clock{};
    picoseconds channel{};      // when the channel becomes free
  };
  struct successor {
    std::uint32_t group;
    std::uint32_t reads;
  };

  [[nodiscard]] const instruction_graph& graph() const noexcept { return groups_.graph(); }
  [[nodiscard]] picoseconds time_of(std::uint32_t group);
  void time_changed();
  void list_successors();
  // Effects: marks the groups whose successors are no longer those in successors_. Returns the first event that the
  // change can affect.
  [[nodiscard]] std::uint32_t first_touched();
  void begin(progress& at);
  // Effects: queues the kernels and buckets that became ready at that time, after everything that has ended.
  void enqueue(progress& at, picoseconds now);
  void sort_ready(std::vector<std::uint32_t>& groups, std::uint32_t count) const;
  void read(std::uint32_t group, std::uint32_t reads) {
    if ((waits_[group] -= reads) == 0) {
      is_bucket_[group] != 0 ? ready_buckets_[ready_bucket_count_++] = group : ready_[ready_count_++] = group;
    }
  }
  // Effects: lets readers of the group stop waiting for it.
  void release(std::uint32_t group) {
    if (is_touched_[group] + 1 >= stamp_) {
      groups_.for_each_successor(group, [&](std::uint32_t s) { read(s, 1); });
      return;
    }
    for (auto x = first_successor_[group]; x < first_successor_[group + 1]; ++x) {
      read(successors_[x].group, successors_[x].reads);
    }
  }
  void arrive(progress& at, picoseconds now);
  template <class Keep>
  picoseconds go_on(progress at, const Keep& keep);
  void simulate_base();

  fusion_groups groups_;
  const fusion_target* target_;
  std::vector<picoseconds> duration_{};                          // by group
  std::vector<std::pair<std::uint32_t, picoseconds>> before_{};  // durations at the last reset
  std::size_t timed_ = 0;                                        // how many of groups_.changed() have been timed
  std::unordered_map<fingerprint, picoseconds> known_{};         // kernels whose time was estimated

  // The simulation of the last reset.
  fusion_times times_{};
  std::vector<picoseconds> starts_{};  // start times of the kernels of base_queue_
  std::vector<instruction_id> buckets_{};
  std::vector<std::uint32_t> first_successor_{};  // by group
  std::vector<successor> successors_{};
  std::vector<std::uint32_t> first_predecessor_{};
  std::vector<std::uint32_t> predecessors_{};
  std::vector<std::uint32_t> is_bucket_{};    // by group
  std::vector<std::uint32_t> ready_event_{};  // by group: the event after which it was ready
  std::vector<std::uint32_t> done_event_{};   // by group: the event after which others could read it
  std::vector<std::uint32_t> base_queue_{};
  std::vector<std::uint32_t> base_issued_{};
  std::vector<picoseconds> base_ends_{};
  std::vector<progress> stops_{};
  std::vector<std::uint32_t> stop_waits_{};  // of each stop, by group

  // The current simulation.
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> is_touched_{};  // by group, stamped
  std::vector<std::uint32_t> waits_{};       // by group: reads of unfinished groups
  std::vector<std::uint32_t> queue_{};
  std::vector<std::uint32_t> issued_{};
  std::vector<picoseconds> ends_{};     // end times of the buckets of issued_
  std::vector<std::uint32_t> ready_{};  // kernels that became ready now
  std::vector<std::uint32_t> ready_buckets_{};
  std::uint32_t ready_count_ = 0;
  std::uint32_t ready_bucket_count_ = 0;
};

// Effects: runs every kernel, then the buckets that end after the last one, and calls keep(at, group, start) at each
// kernel's end.
template <class Keep>
picoseconds fusion_session::go_on(progress at, const Keep& keep) {
  while (true) {
    if (at.event == at.queued) {
      if (at.arrived == at.issued) {
        break;
      }
      at.clock = std::max(at.clock, ends_[at.arrived]);
      arrive(at, at.clock);
      enqueue(at, at.clock);
      continue;
    }
    const auto g = queue_[at.event++];
    const auto start = at.clock;
    at.clock += duration_[g];
    if (at.arrived < at.issued && ends_[at.arrived] <= at.clock) {
      arrive(at, at.clock);
    }
    release(g);
    if (ready_count_ == 1 && ready_bucket_count_ == 0) {
      queue_[at.queued++] = ready_[0];
      ready_count_ = 0;
    } else if (ready_count_ + ready_bucket_count_ > 0) {
      enqueue(at, at.clock);
    }
    keep(at, g, start);
  }
  return std::max(at.clock, at.issued == 0 ? picoseconds{} : ends_[at.issued - 1]);
}

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_FUSION_SESSION)

namespace unity::fusion {

UNITY_INLINE fusion_session::fusion_session(const instruction_graph& g, const fusion_target& t)
    : groups_{g, t.limits},
      target_{&t},
      duration_(g.size()),
      first_successor_(g.size() + 1),
      first_predecessor_(g.size() + 1),
      is_bucket_(g.size()),
      ready_event_(g.size()),
      done_event_(g.size()),
      base_queue_(g.size()),
      base_issued_(g.size()),
      base_ends_(g.size()),
      is_touched_(g.size()),
      waits_(g.size()),
      queue_(g.size()),
      issued_(g.size()),
      ends_(g.size()),
      ready_(g.size()),
      ready_buckets_(g.size()) {}

UNITY_INLINE void fusion_session::reset(const fusion_strategy& s) {
  groups_.reset(s);
  before_.clear();
  timed_ = 0;
  std::fill(duration_.begin(), duration_.end(), picoseconds{});
  for (std::uint32_t g = 0; g < graph().size(); ++g) {
    if (!groups_.members(g).empty()) {
      duration_[g] = time_of(g);
    }
  }
  list_successors();
  simulate_base();
}

UNITY_INLINE std::vector<simulated_group> fusion_session::schedule() const {
  UNITY_EXPECTS(groups_.changed().empty(), "a strategy as of the last reset");
  std::vector<simulated_group> all;
  for (std::size_t k = 0; k < starts_.size(); ++k) {
    const auto g = base_queue_[k];
    all.push_back({groups_.number(g), starts_[k], starts_[k] + duration_[g]});
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto g = base_issued_[b];
    all.push_back({groups_.number(g), base_ends_[b] - duration_[g], base_ends_[b]});
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.start != b.start ? a.start < b.start : a.group < b.group; });
  return all;
}

UNITY_INLINE std::vector<std::uint32_t> fusion_session::order() const {
  std::vector<std::uint32_t> all;
  for (const auto& g : schedule()) {
    all.push_back(g.group);
  }
  return all;
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
  for (auto c = timed_; c < changed.size(); ++c) {
    const auto g = changed[c];
    before_.emplace_back(g, duration_[g]);
    duration_[g] = groups_.members(g).empty() ? picoseconds{} : time_of(g);
  }
  timed_ = changed.size();
}

UNITY_INLINE picoseconds fusion_session::time_of(std::uint32_t group) {
  const auto all = groups_.members(group);
  const auto& first = graph()[all.front()];
  if (first.role == instruction_role::source) {
    return {};
  }
  auto time = first.duration;
  if (first.role == instruction_role::all_reduce) {
    double size = 0;
    for (const auto m : all) {
      size += graph()[m].size;
    }
    time = target_->all_reduce(size);
  } else if (all.size() > 1) {
    const auto& model = target_->kernels;
    if (!model.estimate) {
      time = model.time_of(groups_.sums(group));
    } else {
      const auto d = groups_.description(group);
      const auto [at, is_new] = known_.try_emplace(fingerprint_of(d));
      if (is_new) {
        at->second = model.estimate(d);
      }
      time = at->second;
    }
  }
  return std::max(time, picoseconds{1});
}

UNITY_INLINE void fusion_session::list_successors() {
  const auto n = static_cast<std::uint32_t>(graph().size());
  successors_.clear();
  std::fill(first_predecessor_.begin(), first_predecessor_.end(), 0U);
  for (std::uint32_t g = 0; g < n; ++g) {
    first_successor_[g] = static_cast<std::uint32_t>(successors_.size());
    const auto all = groups_.members(g);
    is_bucket_[g] = !all.empty() && graph().reduces(all.front()) ? 1 : 0;
    if (all.empty() || graph().role(all.front()) == instruction_role::source) {
      continue;
    }
    groups_.for_each_successor(g, [&](std::uint32_t s) {
      for (auto x = first_successor_[g]; x < successors_.size(); ++x) {
        if (successors_[x].group == s) {
          ++successors_[x].reads;
          return;
        }
      }
      successors_.push_back({s, 1});
      ++first_predecessor_[s + 1];
    });
  }
  first_successor_[n] = static_cast<std::uint32_t>(successors_.size());
  for (std::uint32_t g = 0; g < n; ++g) {
    first_predecessor_[g + 1] += first_predecessor_[g];
  }
  predecessors_.resize(successors_.size());
  auto& next = waits_;
  std::copy_n(first_predecessor_.begin(), n, next.begin());
  for (std::uint32_t g = 0; g < n; ++g) {
    for (auto x = first_successor_[g]; x < first_successor_[g + 1]; ++x) {
      predecessors_[next[successors_[x].group]++] = g;
    }
  }
}

UNITY_INLINE void fusion_session::sort_ready(std::vector<std::uint32_t>& groups, std::uint32_t count) const {
  // Insertion sort, as few groups become ready at once.
  for (std::uint32_t x = 1; x < count; ++x) {
    const auto g = groups[x];
    auto to = x;
    for (; to > 0 && groups_.number(groups[to - 1]) > groups_.number(g); --to) {
      groups[to] = groups[to - 1];
    }
    groups[to] = g;
  }
}

UNITY_INLINE void fusion_session::enqueue(progress& at, picoseconds now) {
  constexpr std::uint32_t few = 32;
  const auto sort = [&](std::vector<std::uint32_t>& groups, std::uint32_t count) {
    if (count <= few) {
      sort_ready(groups, count);
    } else {
      std::sort(groups.begin(), groups.begin() + count,
                [&](std::uint32_t a, std::uint32_t b) { return groups_.number(a) < groups_.number(b); });
    }
  };
  sort(ready_, ready_count_);
  for (std::uint32_t x = 0; x < ready_count_; ++x) {
    queue_[at.queued++] = ready_[x];
  }
  ready_count_ = 0;
  sort(ready_buckets_, ready_bucket_count_);
  for (std::uint32_t x = 0; x < ready_bucket_count_; ++x) {
    const auto b = ready_buckets_[x];
    at.channel = std::max(at.channel, now) + duration_[b];
    issued_[at.issued] = b;
    ends_[at.issued++] = at.channel;
  }
  ready_bucket_count_ = 0;
}

// A bucket that ends exactly at that time is released without queueing its readers: they become ready together with
// those of the kernel that ends then.
UNITY_INLINE void fusion_session::arrive(progress& at, picoseconds now) {
  while (at.arrived < at.issued && ends_[at.arrived] < now) {
    const auto end = ends_[at.arrived];
    release(issued_[at.arrived++]);
    enqueue(at, end);
  }
  if (at.arrived < at.issued && ends_[at.arrived] == now) {
    release(issued_[at.arrived++]);
  }
}

UNITY_INLINE void fusion_session::begin(progress& at) {
  for (std::uint32_t g = 0; g < graph().size(); ++g) {
    const auto all = groups_.members(g);
    if (!all.empty() && waits_[g] == 0 && graph().role(all.front()) != instruction_role::source) {
      is_bucket_[g] != 0 ? ready_buckets_[ready_bucket_count_++] = g : ready_[ready_count_++] = g;
    }
  }
  enqueue(at, {});
}

UNITY_INLINE void fusion_session::simulate_base() {
  constexpr std::uint32_t most_stops = 32;
  stamp_ += 2;
  times_ = {};
  starts_.clear();
  stops_.clear();
  stop_waits_.clear();
  waits_ = groups_.waits();
  std::fill(done_event_.begin(), done_event_.end(), never);
  std::fill(ready_event_.begin(), ready_event_.end(), never);
  progress before;
  begin(before);
  std::uint32_t queued = 0;
  std::uint32_t issued = 0;
  std::uint32_t arrived = 0;
  const auto note = [&](const progress& at) {
    for (; queued < at.queued; ++queued) {
      ready_event_[queue_[queued]] = at.event;
    }
    for (; issued < at.issued; ++issued) {
      ready_event_[issued_[issued]] = at.event;
    }
    for (; arrived < at.arrived; ++arrived) {
      done_event_[issued_[arrived]] = at.event;
    }
  };
  note(before);
  const auto stride = std::max<std::uint32_t>(static_cast<std::uint32_t>(graph().size()) / most_stops, 8);
  times_.iteration = go_on(before, [&](const progress& at, std::uint32_t g, picoseconds start) {
    note(at);
    done_event_[g] = at.event;
    times_.compute += duration_[g];
    starts_.push_back(start);
    if (at.event % stride == 0) {
      stops_.push_back(at);
      stop_waits_.insert(stop_waits_.end(), waits_.begin(), waits_.end());
    }
  });
  // Also counts buckets that became ready after the last kernel ended, for which no event was noted.
  buckets_.clear();
  const auto kernels = static_cast<std::uint32_t>(starts_.size());
  for (std::uint32_t g = 0; g < graph().size(); ++g) {
    issued += is_bucket_[g] != 0 && ready_event_[g] == never && !groups_.members(g).empty() ? 1U : 0U;
  }
  for (std::uint32_t b = 0; b < issued; ++b) {
    const auto g = issued_[b];
    times_.communication += duration_[g];
    buckets_.push_back(groups_.members(g).front());
  }
  std::copy_n(queue_.begin(), kernels, base_queue_.begin());
  std::copy_n(issued_.begin(), issued, base_issued_.begin());
  std::copy_n(ends_.begin(), issued, base_ends_.begin());
}

UNITY_INLINE std::uint32_t fusion_session::first_touched() {
  const auto changed = groups_.changed();
  stamp_ += 2;  // stamp_: changed; stamp_ - 1: affected, but not changed
  for (const auto g : changed) {
    is_touched_[g] = stamp_;
    const auto all = groups_.members(g);
    is_bucket_[g] = all.empty() ? is_bucket_[g] : graph().reduces(all.front()) ? 1 : 0;
  }
  const auto touch = [&](std::uint32_t p) { is_touched_[p] = std::max(is_touched_[p], stamp_ - 1); };
  auto first = never;
  for (const auto g : changed) {
    first = std::min(first, ready_event_[g]);
    for (auto x = first_predecessor_[g]; x < first_predecessor_[g + 1]; ++x) {
      touch(predecessors_[x]);
    }
    // A group may become ready earlier than before: when the last of its operands ends. If an operand changed itself,
    // the event of that change is early enough.
    std::uint32_t ready = 0;
    bool follows_changed = groups_.members(g).empty();
    groups_.for_each_predecessor(g, [&](std::uint32_t p) {
      follows_changed = follows_changed || is_touched_[p] == stamp_;
      ready = std::max(ready, done_event_[p]);
      touch(p);
    });
    first = follows_changed ? first : std::min(first, ready);
  }
  return first;
}

UNITY_INLINE picoseconds fusion_session::iteration() {
  const auto changed = groups_.changed();
  if (changed.empty()) {
    return times_.iteration;
  }
  time_changed();
  const auto first = first_touched();
  const auto nobody = [](const progress&, std::uint32_t, picoseconds) {};
  // Continues from the last saved state before that event.
  const auto stop =
      std::partition_point(stops_.begin(), stops_.end(), [&](const progress& p) { return p.event < first; });
  progress at;
  if (stop == stops_.begin()) {
    waits_ = groups_.waits();
    begin(at);
    return go_on(at, nobody);
  }
  at = *(stop - 1);
  const auto n = graph().size();
  const auto number = static_cast<std::size_t>(stop - 1 - stops_.begin());
  std::copy_n(stop_waits_.begin() + static_cast<std::ptrdiff_t>(number * n), n, waits_.begin());
  for (const auto g : changed) {
    waits_[g] = 0;
    groups_.for_each_predecessor(g, [&](std::uint32_t p) { waits_[g] += done_event_[p] > at.event ? 1U : 0U; });
  }
  std::copy(base_queue_.begin() + at.event, base_queue_.begin() + at.queued, queue_.begin() + at.event);
  std::copy(base_issued_.begin() + at.arrived, base_issued_.begin() + at.issued, issued_.begin() + at.arrived);
  std::copy(base_ends_.begin() + at.arrived, base_ends_.begin() + at.issued, ends_.begin() + at.arrived);
  return go_on(at, nobody);
}

}  // namespace unity::fusion

#endif
