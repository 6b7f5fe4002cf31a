// The program that simulators time and ranks execute: fragments whose tasks are linked into one flat graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/tasks/detail/links.hpp>
#include <unity/tasks/fragment.hpp>

namespace unity::tasks {

// The most tasks of a program that repeats those of a micro-batch; larger ones are refused before they are made. A task
// takes about 1 KB with its links, buffers and times, so these take about 24 GB. GPT-3, with 96 layers and 1,536
// micro-batches, has 20 million if one device of each stage recomputes all results.
inline constexpr std::int64_t most_tasks = 24 << 20;

using task_id = id<struct task_tag>;  // an index into the program's arrays; tasks of a fragment are contiguous

enum class resource_kind : std::uint8_t { stream, link, host };  // host: a thread that launches what a stream runs

struct resource {
  std::string name{};
  resource_kind kind = resource_kind::stream;
  device_index device = 0;  // of a stream, or of the streams that a host thread launches to

  friend bool operator==(const resource&, const resource&) = default;
};

// The part of a plan that a fragment belongs to; the owner's index is its number in the plan. shares: the exchanges of
// a weight's shards in each micro-batch, for a weight that is divided among replicas.
enum class owner_kind : std::uint8_t { node, edge, weight, bucket, shares, other };

struct owner {
  owner_kind kind = owner_kind::other;
  std::uint32_t index = 0;
  std::string name{};  // for messages and pictures

  friend bool operator==(const owner&, const owner&) = default;
};

// A task as simulators see it, in half a cache line.
struct alignas(32) timed_task {
  std::int64_t duration = 1;  // picoseconds
  std::int64_t latency = 0;
  resource_id resource{};
  std::uint32_t before_count = 0;  // tasks it depends on
  std::uint32_t after_first = 0;   // position and number of the links to the tasks that depend on it
  std::uint32_t after_count = 0;
};

// The new body of a fragment.
struct replacement {
  fragment_id fragment{};
  const tasks::fragment* body = nullptr;
};
// A replacement for every fragment of a program, in order. The result refers to `bodies`.
[[nodiscard]] inline std::vector<replacement> replacements_of(std::span<const fragment> bodies) {
  std::vector<replacement> all;
  for (std::size_t f = 0; f < bodies.size(); ++f) {
    all.push_back({fragment_id{f}, &bodies[f]});
  }
  return all;
}

// What an open edit changed, as positions of tasks. Tasks of replaced fragments keep their positions until the edit is
// closed.
struct edit_record {
  struct range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::vector<range> removed{};
  std::vector<range> added{};
  // tasks of other fragments whose predecessors changed, each once
  std::vector<std::uint32_t> relinked{};
};

// Regular; copies are independent. Resources and fragments are declared once, in tie-breaking order; then fragments are
// replaced, several at a time. While an edit is open, the program has the new bodies; commit() keeps them, rollback()
// restores the old ones with every task at its position.
class program {
 public:
  resource_id add_resource(resource r) {
    resources_.push_back(std::move(r));
    return resource_id{resources_.size() - 1};
  }
  // Adds a kind of task besides those of task_kind, for pictures and reports. Precondition: fewer than 256 kinds in
  // total.
  task_kind add_kind(std::string name) {
    UNITY_EXPECTS(kinds_.size() < 256, "fewer than 256 kinds of tasks");
    kinds_.push_back(std::move(name));
    return static_cast<task_kind>(kinds_.size() - 1);
  }
  [[nodiscard]] const std::string& name_of(task_kind k) const { return kinds_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] std::span<const std::string> kinds() const noexcept { return kinds_; }
  // A program with the same resources and kinds, without fragments.
  [[nodiscard]] program without_fragments() const {
    program other;
    other.resources_ = resources_;
    other.kinds_ = kinds_;
    return other;
  }
  // Adds an empty fragment.
  fragment_id add_fragment(owner o = {}) {
    UNITY_EXPECTS(!is_open_, "no open edit");
    slots_.push_back({});
    slots_.back().of = std::move(o);
    return fragment_id{slots_.size() - 1};
  }

  [[nodiscard]] std::span<const resource> resources() const noexcept { return resources_; }
  [[nodiscard]] std::size_t fragment_count() const noexcept { return slots_.size(); }
  [[nodiscard]] const fragment& operator[](fragment_id f) const { return slots_[f.index()].body; }
  [[nodiscard]] const owner& owner_of(fragment_id f) const { return slots_[f.index()].of; }
  [[nodiscard]] std::size_t task_count() const noexcept { return task_count_; }
  // Upper bound (exclusive) of the positions of tasks.
  [[nodiscard]] std::size_t capacity() const noexcept { return places_.end(); }

  [[nodiscard]] task_id find(fragment_id f, std::uint32_t index) const {
    return task_id{slots_[f.index()].first + index};
  }
  [[nodiscard]] edit_record::range tasks_of(fragment_id f) const {
    const auto& s = slots_[f.index()];
    return {s.first, static_cast<std::uint32_t>(s.body.tasks.size())};
  }
  // The inverse of find; the null fragment for positions without a task.
  [[nodiscard]] task_ref where(task_id t) const {
    const auto f = fragments_of_[t.index()];
    return f.valid() ? task_ref{f, t.index() - slots_[f.index()].first} : task_ref{};
  }
  [[nodiscard]] const task& operator[](task_id t) const {
    const auto at = where(t);
    return (*this)[at.fragment].tasks[at.index];
  }
  // The task at a position in use, or at one that an open edit removed.
  [[nodiscard]] const timed_task& timed(std::uint32_t place) const noexcept { return tasks_[place]; }
  // Breaks ties: among tasks of a resource that are ready at the same time, the lowest tie comes first. Ordered by
  // fragment, shard, kind and index in the fragment; no two are equal. Returned by reference so that callers can
  // prefetch it.
  [[nodiscard]] const std::uint64_t& tie(std::uint32_t place) const noexcept { return ties_[place]; }
  [[nodiscard]] std::span<const task_link> before(std::uint32_t place) const noexcept {
    return before_links_.view(lists_[place].before.first, lists_[place].before.count);
  }
  [[nodiscard]] std::span<const task_link> after(std::uint32_t place) const noexcept {
    return after_links_.view(tasks_[place].after_first, tasks_[place].after_count);
  }

  // Effects: opens an edit in which the fragments, each named once, get new bodies. Dependencies that other fragments
  // list on them are linked again by index within the fragment, so tasks with those indices must exist.
  // Complexity: linear in the old and new fragments, in the lists of fragments that name them, and in the dependencies
  // of tasks that they touch.
  void replace(std::span<const replacement> all) {
    UNITY_EXPECTS(!is_open_, "no open edit");
    is_open_ = true;
    for (const auto& r : all) {
      UNITY_EXPECTS(!slots_[r.fragment.index()].is_replaced, "each fragment once");
      slots_[r.fragment.index()].is_replaced = true;
      replaced_.push_back(r.fragment);
    }
    collect_neighbours();
    link_all(false);
    unlist_targets();
    parked_.resize(std::max(parked_.size(), all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      parked_[i].body = *all[i].body;  // all copies first: a body may be that of a fragment of this program
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      take_out(all[i].fragment, i);
    }
    for (const auto& r : all) {
      put_in(r.fragment);
    }
    reserve_links();
    link_all(true);
  }
  void replace(fragment_id f, const fragment& body) {
    const replacement one{f, &body};
    replace({&one, 1});
  }
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  [[nodiscard]] const edit_record& edit() const noexcept { return edit_; }

  // Complexity: linear in the old fragments.
  void commit() {
    UNITY_EXPECTS(is_open_, "an open edit");
    for (const auto& s : parked_used()) {
      release(s.first, s.size_class, s.body.tasks.size());
    }
    close();
  }
  // Complexity: as replace.
  void rollback() {
    UNITY_EXPECTS(is_open_, "an open edit");
    // Parked lists are unchanged; only lists outside of the replaced fragments were modified.
    link_all(false);
    unlist_targets();
    for (std::size_t i = 0; i < replaced_.size(); ++i) {
      auto& s = slots_[replaced_[i].index()];
      release(s.first, s.size_class, s.body.tasks.size());
      task_count_ -= s.body.tasks.size();
      std::swap(s.first, parked_[i].first);
      std::swap(s.size_class, parked_[i].size_class);
      std::swap(s.body, parked_[i].body);
      task_count_ += s.body.tasks.size();
      list_targets(replaced_[i], true);
      for (std::uint32_t k = 0; k < s.body.tasks.size(); ++k) {
        fragments_of_[s.first + k] = replaced_[i];
      }
    }
    link_all(true, true);
    close();
  }

 private:
  struct slot {
    std::uint32_t first = 0;
    std::uint32_t size_class = 0;
    fragment body{};
    owner of{};
    std::vector<fragment_id> named_by{};  // other fragments that list dependencies of its tasks
    bool is_replaced = false;             // by the open edit
    std::uint64_t visited = 0;
  };
  struct link_lists {
    detail::link_list before{};
    detail::link_list after{};
  };
  // Simulators refuse an iteration of more than 2^61 picoseconds. What is longer than that is cut to what is still
  // refused, so that they can add three times without overflow.
  static constexpr std::int64_t most_time = (std::int64_t{1} << 61U) + 1;
  struct parked_slot {
    std::uint32_t first = 0;
    std::uint32_t size_class = 0;
    fragment body{};
  };

  // Collects the fragments that name a replaced fragment and are not replaced themselves.
  void collect_neighbours() {
    ++visit_;
    for (const auto f : replaced_) {
      for (const auto n : slots_[f.index()].named_by) {
        auto& s = slots_[n.index()];
        if (!s.is_replaced && s.visited != visit_) {
          s.visited = visit_;
          neighbours_.push_back(n);
        }
      }
    }
  }

  [[nodiscard]] bool is_inside(const task_ref& r, fragment_id own) const {
    return slots_[(r.fragment.valid() ? r.fragment : own).index()].is_replaced;
  }
  [[nodiscard]] std::uint32_t place(const task_ref& r, fragment_id own) const {
    const auto& s = slots_[(r.fragment.valid() ? r.fragment : own).index()];
    UNITY_EXPECTS(r.index < s.body.tasks.size(), "a dependency between tasks that exist");
    return s.first + r.index;
  }

  // Links or unlinks the dependencies that replaced fragments list, and those that other fragments list on them.
  // Replaced fragments that are restored (`only_outside`) or removed keep their own lists as they are. Unlinks in the
  // opposite order: a link is then near the end of its list, where it is looked for first.
  void link_all(bool on, bool only_outside = false) {
    const auto of_replaced = [&] {
      for_each_in_order(replaced_, on, [&](fragment_id f) {
        for_each_in_order(slots_[f.index()].body.dependencies, on,
                          [&](const dependency& d) { link(d, f, on, only_outside); });
      });
    };
    const auto of_neighbours = [&] {
      for_each_in_order(neighbours_, on, [&](fragment_id f) {
        for_each_in_order(slots_[f.index()].body.dependencies, on, [&](const dependency& d) {
          if (is_inside(d.before, f) || is_inside(d.after, f)) {
            link(d, f, on, only_outside);
          }
        });
      });
    };
    if (on) {
      of_replaced();
      of_neighbours();
    } else {
      of_neighbours();
      of_replaced();
    }
  }
  // Forwards, or from the last one to the first.
  template <class T, class Visit>
  static void for_each_in_order(const std::vector<T>& all, bool forwards, const Visit& visit) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      visit(all[forwards ? i : all.size() - 1 - i]);
    }
  }
  void link(const dependency& d, fragment_id own, bool on, bool only_outside) {
    const auto from = place(d.before, own);
    const auto to = place(d.after, own);
    const bool from_inside = is_inside(d.before, own);
    const bool to_inside = is_inside(d.after, own);
    if (on) {
      UNITY_EXPECTS(!d.cut_through || tasks_[from].latency > 0, "cut-through over a latency of at least 1");
    }
    if (on ? !(only_outside && from_inside) : !from_inside) {
      change(after_links_, lists_[from].after, {to, d.cut_through}, on);
      tasks_[from].after_first = lists_[from].after.first;
      tasks_[from].after_count = lists_[from].after.count;
    }
    if (on ? !(only_outside && to_inside) : !to_inside) {
      change(before_links_, lists_[to].before, {from, d.cut_through}, on);
      tasks_[to].before_count = lists_[to].before.count;
    }
    if (!to_inside && stamps_[to] != visit_) {
      stamps_[to] = visit_;
      edit_.relinked.push_back(to);
    }
  }
  // Reserves the final size of the lists of new tasks, in their order, so that lists that are traversed together are
  // adjacent in memory.
  void reserve_links() {
    const auto count = [&](const dependency& d, fragment_id own) {
      lists_[place(d.before, own)].after.count += is_inside(d.before, own) ? 1 : 0;
      lists_[place(d.after, own)].before.count += is_inside(d.after, own) ? 1 : 0;
    };
    for (const auto f : replaced_) {
      for (const auto& d : slots_[f.index()].body.dependencies) {
        count(d, f);
      }
    }
    for (const auto f : neighbours_) {
      for (const auto& d : slots_[f.index()].body.dependencies) {
        if (is_inside(d.before, f) || is_inside(d.after, f)) {
          count(d, f);
        }
      }
    }
    for (const auto& range : edit_.added) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        after_links_.reserve(lists_[t].after, std::exchange(lists_[t].after.count, 0));
        before_links_.reserve(lists_[t].before, std::exchange(lists_[t].before.count, 0));
      }
    }
  }
  static void change(detail::link_pool& pool, detail::link_list& l, task_link t, bool on) {
    if (on) {
      pool.add(l, t);
    } else {
      pool.remove(l, t);
    }
  }

  // Swaps the body with the new one, which is parked so far; the tasks stay where they are.
  void take_out(fragment_id f, std::size_t i) {
    auto& s = slots_[f.index()];
    parked_[i].first = s.first;
    parked_[i].size_class = s.size_class;
    std::swap(parked_[i].body, s.body);
    const auto count = parked_[i].body.tasks.size();
    for (std::size_t k = 0; k < count; ++k) {
      fragments_of_[s.first + k] = {};
    }
    task_count_ -= count;
    if (count > 0) {
      edit_.removed.push_back({s.first, static_cast<std::uint32_t>(count)});
    }
  }
  void put_in(fragment_id f) {
    auto& s = slots_[f.index()];
    const auto& body = s.body;
    const auto count = body.tasks.size();
    s.size_class = detail::ranges::size_class(count);
    s.first = count > 0 ? places_.take(s.size_class) : 0;
    if (tasks_.size() < places_.end()) {
      const auto size = std::max(places_.end(), tasks_.size() + tasks_.size() / 2);
      tasks_.resize(size);
      ties_.resize(size);
      lists_.resize(size);
      fragments_of_.resize(size);
      stamps_.resize(size);
    }
    for (std::size_t k = 0; k < count; ++k) {
      const auto& t = body.tasks[k];
      UNITY_EXPECTS(t.duration.count() >= 0 && t.latency.count() >= 0, "durations and latencies of at least 0");
      UNITY_EXPECTS(!t.resource.valid() || t.resource.index() < resources_.size(), "a resource of the program");
      UNITY_EXPECTS(static_cast<std::size_t>(t.kind) < kinds_.size(), "a kind of the program");
      tasks_[s.first + k] = {
          std::min(t.duration.count(), most_time), std::min(t.latency.count(), most_time), t.resource, 0, 0, 0};
      fragments_of_[s.first + k] = f;
    }
    set_ties(s.first, f, body.tasks);
    task_count_ += count;
    if (count > 0) {
      edit_.added.push_back({s.first, static_cast<std::uint32_t>(count)});
    }
    list_targets(f, true);
  }
  void set_ties(std::uint32_t first, fragment_id f, std::span<const task> list) {
    const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
      const auto& x = list[a];
      const auto& y = list[b];
      return x.shard != y.shard ? x.shard < y.shard : x.kind != y.kind ? x.kind < y.kind : a < b;
    };
    ranks_.resize(list.size());
    std::iota(ranks_.begin(), ranks_.end(), std::uint32_t{0});
    if (!std::is_sorted(ranks_.begin(), ranks_.end(), earlier)) {
      std::sort(ranks_.begin(), ranks_.end(), earlier);
    }
    for (std::size_t k = 0; k < list.size(); ++k) {
      ties_[first + ranks_[k]] = std::uint64_t{f.index()} << 32U | k;
    }
  }
  // Adds f to (or removes it from) `named_by` of the other fragments that its dependencies refer to.
  void list_targets(fragment_id f, bool on) {
    ++target_visit_;
    targets_.resize(slots_.size());
    const auto visit = [&](fragment_id other) {
      if (!other.valid() || other == f || targets_[other.index()] == target_visit_) {
        return;
      }
      targets_[other.index()] = target_visit_;
      auto& list = slots_[other.index()].named_by;
      if (on) {
        list.push_back(f);
      } else {
        list.erase(std::prev(std::find(list.rbegin(), list.rend(), f).base()));
      }
    };
    for (const auto& d : slots_[f.index()].body.dependencies) {
      visit(d.before.fragment);
      visit(d.after.fragment);
    }
  }

  // Removes the replaced fragments from all `named_by`, the last one first: it is near the end of the lists.
  void unlist_targets() {
    for_each_in_order(replaced_, false, [&](fragment_id f) { list_targets(f, false); });
  }

  void release(std::uint32_t first, std::uint32_t size_class, std::size_t count) {
    if (count == 0) {
      return;
    }
    for (std::size_t k = 0; k < count; ++k) {
      before_links_.release(lists_[first + k].before);
      after_links_.release(lists_[first + k].after);
      fragments_of_[first + k] = {};
    }
    places_.give_back(first, size_class);
  }
  [[nodiscard]] std::span<const parked_slot> parked_used() const { return {parked_.data(), replaced_.size()}; }
  void close() {
    for (const auto f : replaced_) {
      slots_[f.index()].is_replaced = false;
    }
    replaced_.clear();
    neighbours_.clear();
    edit_.removed.clear();
    edit_.added.clear();
    edit_.relinked.clear();
    is_open_ = false;
  }

  std::vector<resource> resources_;
  std::vector<std::string> kinds_{task_kind_names.begin(), task_kind_names.end()};
  std::vector<slot> slots_;
  std::vector<timed_task> tasks_;
  std::vector<std::uint64_t> ties_;
  std::vector<link_lists> lists_;
  std::vector<fragment_id> fragments_of_;
  std::vector<std::uint64_t> stamps_;  // by task: the last edit that listed it as relinked
  detail::ranges places_;
  detail::link_pool before_links_;
  detail::link_pool after_links_;
  std::size_t task_count_ = 0;

  std::vector<fragment_id> replaced_;
  std::vector<fragment_id> neighbours_;
  std::vector<parked_slot> parked_;
  edit_record edit_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint64_t> targets_;
  std::uint64_t visit_ = 0;
  std::uint64_t target_visit_ = 0;
  bool is_open_ = false;
};

}  // namespace unity::tasks
