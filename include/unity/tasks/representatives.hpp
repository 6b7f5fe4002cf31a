// Folds a program: of all resources that do the same, one represents the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::tasks {

// Resources and devices keep the numbers of the whole program; represented ones have no tasks and no buffers.
struct represented_program {
  tasks::program program{};
  std::vector<resource_id> resource{};  // by resource: its representative
  std::vector<device_index> device{};   // by device: its representative
  bool is_exact = true;                 // false: joined resources whose tasks wait for different tasks
};

// Two resources are alike if they have equal tasks in the same fragments and in the same order of ties, and
// corresponding tasks wait for corresponding tasks of resources that are alike. Corresponding tasks then have the same
// times in every simulation, and so does the program with one resource of each kind; this also holds if both programs
// are repeated. One exception: if tasks of zero duration make two tasks of a resource ready in the same picosecond,
// these may run in the other order, because ties are not compared between tasks of different resources. Two devices are
// alike if they have equal buffers that corresponding tasks make and read. All of this follows from the program alone;
// no symmetry of the machine need be known.
// If more than `most` tasks would remain, or refinement takes more than 64 rounds, resources are also joined if their
// tasks wait for different tasks, unless a task would then wait for itself or for a task that it represents. A task
// then waits for everything that the tasks it represents wait for, so it usually starts too late, but a different order
// of tasks can also make it start too early.
// If tasks wait for each other, nothing is joined, so that simulations report it.
// The classes of the partition (colours) are 64-bit hashes: classes whose hashes collide are joined.
// Source: the coarsest stable partition of Paige and Tarjan, Three partition refinement algorithms, SIAM J. Comput.
// 16(6), 1987; computed by refining the whole partition in each round.
// Complexity: linear in the program, up to logarithms, per round.
[[nodiscard]] represented_program representatives(const program& p,
                                                  std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace unity::tasks

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TASKS_REPRESENTATIVES)

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

namespace unity::tasks::detail {

class representative_finder {
 public:
  explicit representative_finder(const program& p) : program_{p} {}

  [[nodiscard]] represented_program run(std::size_t most);

 private:
  // Lanes are the resources, followed by one lane for each task without a resource.
  void find_lanes();
  // Finds roles of transfers: which tasks of operators they follow, and over how many hops, regardless of lanes.
  void find_roles();
  // Effects: divides lanes of one colour that differ in their tasks or, with by_others, in the colours of what these
  // wait for.
  void refine(bool by_others);
  // The number of tasks in the first lanes of all colours.
  [[nodiscard]] std::size_t tasks_left() const;
  [[nodiscard]] represented_program folded();
  // Effects: finds the first lane of each colour.
  void choose();
  void find_devices();
  [[nodiscard]] std::uint32_t place(const task_ref& r, fragment_id own) const {
    return program_.find(r.fragment.valid() ? r.fragment : own, r.index).index();
  }
  // A hash that corresponding tasks of alike lanes share.
  [[nodiscard]] std::uint64_t common(std::uint32_t place) const {
    return hash_combine(colours_[lane_[place]], number_[place]);
  }
  [[nodiscard]] std::uint32_t representative(std::uint32_t place) const {
    return tasks_[first_[chosen_[lane_[place]]] + number_[place]];
  }
  [[nodiscard]] bool is_kept(std::uint32_t place) const { return chosen_[lane_[place]] == lane_[place]; }
  [[nodiscard]] task_ref folded(const task_ref& r, fragment_id own) const;
  [[nodiscard]] fragment folded(fragment_id f);

  static constexpr int most_rounds = 64;

  const program& program_;
  std::vector<std::uint32_t> lane_{};        // by place of a task
  std::vector<std::uint32_t> number_{};      // by place of a task: its place in its lane
  std::vector<std::uint64_t> own_{};         // by place of a task: what does not depend on others
  std::vector<std::uint64_t> roles_{};       // by place of a task; zero: not known
  bool has_cycle_ = false;                   // whether tasks wait for each other
  bool waits_for_like_ = false;              // whether a dependency between tasks with one representative was left out
  std::vector<std::uint32_t> first_{};       // by lane, and an end
  std::vector<std::uint32_t> tasks_{};       // places, by lane
  std::vector<std::uint64_t> colours_{};     // by lane; equal: alike, as far as known
  std::vector<std::uint32_t> chosen_{};      // by lane: the first lane like it
  std::vector<std::uint32_t> index_{};       // by place of a task that is kept: its index in the folded fragment
  std::vector<std::size_t> first_buffer_{};  // by fragment
  std::vector<device_index> devices_{};      // by device: its representative
  std::vector<std::uint32_t> buffer_index_{};  // by buffer: its index in the folded fragment, or none
};

inline constexpr std::uint32_t no_index = 0xffffffffU;

// The places of tasks in topological order, without tasks that wait, directly or indirectly, for themselves.
UNITY_INLINE std::vector<std::uint32_t> order_of(const program& p) {
  std::vector<std::uint32_t> waiting(p.capacity(), 0);
  std::vector<std::uint32_t> ready;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const auto range = p.tasks_of(fragment_id{f});
    for (auto t = range.first; t < range.first + range.count; ++t) {
      waiting[t] = p.timed(t).before_count;
      if (waiting[t] == 0) {
        ready.push_back(t);
      }
    }
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const auto link : p.after(ready[i])) {
      if (--waiting[link.task()] == 0) {
        ready.push_back(link.task());
      }
    }
  }
  return ready;
}

UNITY_INLINE represented_program representative_finder::run(std::size_t most) {
  find_lanes();
  if (has_cycle_) {
    std::iota(colours_.begin(), colours_.end(), std::uint64_t{0});
    return folded();
  }
  refine(false);
  const auto coarse = colours_;
  std::size_t before = 0;
  auto left = tasks_left();
  for (int round = 0; round < most_rounds && left != before && left <= most; ++round) {
    before = left;
    refine(true);
    left = tasks_left();
  }
  if (left == before) {
    return folded();
  }
  colours_ = coarse;
  auto r = folded();
  for (; waits_for_like_ || order_of(r.program).size() != r.program.task_count(); r = folded()) {
    refine(true);
  }
  r.is_exact = false;
  return r;
}

UNITY_INLINE represented_program representative_finder::folded() {
  choose();
  find_devices();
  waits_for_like_ = false;
  represented_program r;
  r.program = program_.without_fragments();
  std::vector<fragment> bodies;
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    r.program.add_fragment(program_.owner_of(fragment_id{f}));
    bodies.push_back(folded(fragment_id{f}));
  }
  r.program.replace(replacements_of(bodies));
  r.program.commit();
  for (std::size_t i = 0; i < program_.resources().size(); ++i) {
    r.resource.push_back(resource_id{std::size_t{chosen_[i]}});
  }
  r.device = devices_;
  return r;
}

UNITY_INLINE void representative_finder::find_lanes() {
  const auto resources = static_cast<std::uint32_t>(program_.resources().size());
  lane_.resize(program_.capacity());
  number_.resize(program_.capacity());
  own_.resize(program_.capacity());
  roles_.assign(program_.capacity(), 0);
  std::vector<std::uint32_t> ordered;  // places in the order of ties
  ordered.reserve(program_.task_count());
  std::vector<std::uint32_t> counts(resources, 0);
  std::vector<std::uint32_t> last(resources, 0);  // by resource: the place of its last task
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    const auto range = program_.tasks_of(fragment_id{f});
    const auto& own = program_[fragment_id{f}].tasks;
    const auto begin = ordered.size();
    ordered.resize(begin + range.count);
    for (auto t = range.first; t < range.first + range.count; ++t) {
      ordered[begin + (program_.tie(t) & 0xffffffffU)] = t;
    }
    for (auto i = begin; i < ordered.size(); ++i) {
      const auto t = ordered[i];
      const auto& task = own[t - range.first];
      bool is_of_last_shard = false;  // ties of repeated tasks go by shard and kind first
      if (task.resource.valid()) {
        const auto r = task.resource.index();
        const auto before = last[r];
        is_of_last_shard = counts[r] > 0 && before >= range.first && before < range.first + range.count &&
                           own[before - range.first].shard == task.shard;
        last[r] = t;
        lane_[t] = r;
        number_[t] = counts[r]++;
      } else {
        lane_[t] = static_cast<std::uint32_t>(counts.size());
        number_[t] = 0;
        counts.push_back(1);
      }
      auto h = hash_combine(f, static_cast<std::uint64_t>(task.kind) * 2 + (is_of_last_shard ? 1 : 0));
      h = hash_combine(h, static_cast<std::uint64_t>(task.duration.count()));
      h = hash_combine(h, static_cast<std::uint64_t>(task.latency.count()));
      own_[t] = hash_combine(h, static_cast<std::uint64_t>(task.volume.count()));
      if (task.resource.valid() && program_.resources()[task.resource.index()].kind != resource_kind::link) {
        roles_[t] = hash_combine(f, static_cast<std::uint64_t>(task.kind)) | 1U;
      }
    }
  }
  first_.assign(1, 0);
  for (const auto n : counts) {
    first_.push_back(first_.back() + n);
  }
  tasks_.resize(ordered.size());
  for (const auto t : ordered) {
    tasks_[first_[lane_[t]] + number_[t]] = t;
  }
  find_roles();
  colours_.assign(counts.size(), 0);
  for (std::size_t r = 0; r < resources; ++r) {
    colours_[r] = 1 + static_cast<std::uint64_t>(program_.resources()[r].kind);
  }
}

UNITY_INLINE void representative_finder::find_roles() {
  std::vector<std::uint64_t> before;
  const auto order = order_of(program_);
  has_cycle_ = order.size() != program_.task_count();
  for (const auto t : order) {
    if (roles_[t] == 0) {
      before.clear();
      for (const auto link : program_.before(t)) {
        before.push_back(roles_[link.task()]);
      }
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
      std::uint64_t h = program_.where(task_id{t}).fragment.index();
      for (const auto role : before) {
        h = hash_combine(h, role);
      }
      roles_[t] = h | 1U;
    }
    own_[t] = hash_combine(own_[t], roles_[t]);
  }
}

UNITY_INLINE void representative_finder::refine(bool by_others) {
  auto next = colours_;
  for (std::size_t l = 0; l < next.size(); ++l) {
    for (auto i = first_[l]; i < first_[l + 1]; ++i) {
      const auto t = tasks_[i];
      std::uint64_t before = 0;
      for (const auto link : by_others ? program_.before(t) : std::span<const task_link>{}) {
        before += hash_combine(common(link.task()), link.cut_through() ? 1 : 0);
      }
      next[l] = hash_combine(hash_combine(next[l], own_[t]), before);
    }
  }
  colours_.swap(next);
}

UNITY_INLINE std::size_t representative_finder::tasks_left() const {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> sizes;
  for (std::size_t l = 0; l < colours_.size(); ++l) {
    sizes.emplace_back(colours_[l], first_[l + 1] - first_[l]);
  }
  std::sort(sizes.begin(), sizes.end());
  std::size_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sum += i == 0 || sizes[i].first != sizes[i - 1].first ? sizes[i].second : 0;
  }
  return sum;
}

UNITY_INLINE void representative_finder::choose() {
  chosen_.clear();
  std::unordered_map<std::uint64_t, std::uint32_t> first;
  for (std::uint32_t l = 0; l < colours_.size(); ++l) {
    chosen_.push_back(first.try_emplace(colours_[l], l).first->second);
  }
  index_.assign(program_.capacity(), no_index);
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    const auto range = program_.tasks_of(fragment_id{f});
    std::uint32_t count = 0;
    for (auto t = range.first; t < range.first + range.count; ++t) {
      index_[t] = is_kept(t) ? count++ : no_index;
    }
  }
}

UNITY_INLINE void representative_finder::find_devices() {
  first_buffer_.clear();
  buffer_index_.clear();
  devices_.clear();
  std::size_t buffers = 0;
  device_index devices = 0;
  for (const auto& r : program_.resources()) {
    devices = r.kind == resource_kind::stream ? std::max(devices, r.device + 1) : devices;
  }
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    first_buffer_.push_back(buffers);
    buffers += program_[fragment_id{f}].buffers.size();
    for (const auto& b : program_[fragment_id{f}].buffers) {
      devices = std::max(devices, b.device + 1);
    }
  }
  std::vector<std::uint64_t> readers(buffers, 0);
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    const fragment_id id{f};
    for (const auto& r : program_[id].reads) {
      readers[first_buffer_[(r.of.fragment.valid() ? r.of.fragment : id).index()] + r.of.index] +=
          hash_combine(common(place(r.reader, id)), 1);
    }
  }
  std::vector<std::uint64_t> colours(devices, 0);
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    const fragment_id id{f};
    const auto& all = program_[id].buffers;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& h = colours[all[i].device];
      h = hash_combine(hash_combine(h, f), static_cast<std::uint64_t>(all[i].size.count()));
      h = hash_combine(h, all[i].permanent ? 0 : common(place(all[i].producer, id)));
      h = hash_combine(h, readers[first_buffer_[f] + i]);
    }
  }
  std::unordered_map<std::uint64_t, device_index> first;
  for (device_index d = 0; d < devices; ++d) {
    devices_.push_back(first.try_emplace(colours[d], d).first->second);
  }
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    std::uint32_t count = 0;
    for (const auto& b : program_[fragment_id{f}].buffers) {
      buffer_index_.push_back(devices_[b.device] == b.device ? count++ : no_index);
    }
  }
}

UNITY_INLINE task_ref representative_finder::folded(const task_ref& r, fragment_id own) const {
  return {r.fragment, index_[representative(place(r, own))]};
}

UNITY_INLINE fragment representative_finder::folded(fragment_id f) {
  const auto& from = program_[f];
  fragment body;
  const auto range = program_.tasks_of(f);
  for (std::uint32_t i = 0; i < range.count; ++i) {
    if (is_kept(range.first + i)) {
      body.tasks.push_back(from.tasks[i]);
    }
  }
  for (const auto& d : from.dependencies) {
    if (representative(place(d.before, f)) != representative(place(d.after, f))) {
      body.dependencies.push_back({folded(d.before, f), folded(d.after, f), d.cut_through});
    } else {
      waits_for_like_ = true;
    }
  }
  for (const auto& b : from.buffers) {
    if (devices_[b.device] == b.device) {
      body.buffers.push_back(b);
      if (!b.permanent) {
        body.buffers.back().producer = folded(b.producer, f);
      }
    }
  }
  for (const auto& r : from.reads) {
    const auto of = buffer_index_[first_buffer_[(r.of.fragment.valid() ? r.of.fragment : f).index()] + r.of.index];
    if (of != no_index) {
      body.reads.push_back({{r.of.fragment, of}, folded(r.reader, f)});
    }
  }
  const auto drop_repeated = [](auto& all, const auto& key) {
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    all.erase(std::unique(all.begin(), all.end()), all.end());
  };
  drop_repeated(body.dependencies, [](const dependency& d) {
    return std::tuple{d.before.fragment, d.before.index, d.after.fragment, d.after.index, d.cut_through};
  });
  drop_repeated(body.reads, [](const buffer_read& r) {
    return std::tuple{r.of.fragment, r.of.index, r.reader.fragment, r.reader.index};
  });
  return body;
}

}  // namespace unity::tasks::detail

namespace unity::tasks {

UNITY_INLINE represented_program representatives(const program& p, std::size_t most) {
  UNITY_EXPECTS(!p.is_open(), "no open edit");
  return detail::representative_finder{p}.run(most);
}

}  // namespace unity::tasks

#endif
