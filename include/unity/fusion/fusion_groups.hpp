// A fusion strategy that changes step by step, and what each of its kernels reads, computes and writes. Over 500 lines
// because all changes share the same arrays and one journal.
// Source: Yi et al., Optimizing DNN compilation for distributed training with joint OP and tensor fusion (DisCo), TPDS
// 2022, section 4.5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>

namespace unity::fusion {

// Changes apply to the strategy of the last reset and are undone together. Groups are named by handles, which stay the
// same while the content of a group changes; number(handle) is the group's number in a strategy. Holds a reference to
// the graph, which must outlive it.
// Invariants: kernels do not depend on each other in a cycle, are within the limits, and read within themselves only
// what they may (may_read_inside). The only copy of an instruction is kept even if unread; other copies that nobody
// reads are removed.
class fusion_groups {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  fusion_groups(const instruction_graph& g, const kernel_limits& limits);

  // Precondition: a strategy of the graph, within the limits. Complexity: linear in the graph.
  void reset(const fusion_strategy& s);
  // Effects: restores the strategy of the last reset. Complexity: linear in the changes.
  void undo() { back_to(start_); }

  [[nodiscard]] const instruction_graph& graph() const noexcept { return *graph_; }
  // Complexity: linear in the graph.
  [[nodiscard]] fusion_strategy strategy() const;
  [[nodiscard]] unity::fingerprint fingerprint() const noexcept { return fingerprint_; }
  // The group that provides the instruction's result to others.
  [[nodiscard]] std::uint32_t group_of(instruction_id i) const { return group_[i]; }
  // Ascending; empty if there is no such group.
  [[nodiscard]] std::span<const instruction_id> members(std::uint32_t group) const {
    return {pool_.data() + begin_[group], pool_.data() + end_[group]};
  }
  [[nodiscard]] std::uint32_t number(std::uint32_t group) const { return number_[group]; }
  [[nodiscard]] const kernel_sums& sums(std::uint32_t group) const { return sums_[group]; }
  // Per group: how many operands of its members are results of other groups.
  [[nodiscard]] const std::vector<std::uint32_t>& waits() const noexcept { return waits_; }
  // Groups that differ from the last reset. May contain duplicates and groups that are gone.
  [[nodiscard]] std::span<const std::uint32_t> changed() const noexcept { return changed_; }
  // Complexity: linear in the kernel's members and their operands.
  [[nodiscard]] kernel_description description(std::uint32_t group) const;
  // Calls f(group) for each read of a result of this group by another one.
  template <class F>
  void for_each_successor(std::uint32_t group, const F& f) const {
    for (const auto m : members(group)) {
      if (group_[m] == group) {
        for_each_waiting(group, m, f);
      }
    }
  }

  // Calls f(group) for each read of a result of another group by this one.
  template <class F>
  void for_each_predecessor(std::uint32_t group, const F& f) const {
    for (const auto m : members(group)) {
      for (const auto& o : graph_->operands(m)) {
        if (graph_->role(o.from) != instruction_role::source && !contains(group, o.from)) {
          f(group_[o.from]);
        }
      }
    }
  }

  // Each of these makes one change or none, and returns whether it did.
  // Merges two kernels, the second of which reads the first. The merged kernel provides the results of both.
  bool fuse(std::uint32_t from, std::uint32_t to);
  // The second kernel recomputes the results of the first that it reads. Others keep reading the first, which drops
  // what nobody reads any more.
  bool duplicate(std::uint32_t from, std::uint32_t to);
  // Merges two buckets of one domain.
  bool join(std::uint32_t a, std::uint32_t b);
  // Separates an instruction into a group of its own. Only possible if no other kernel computes it, and either nobody
  // in its group reads it, or it reads nobody there.
  bool separate(instruction_id i);

 private:
  // Distance of neighbouring groups in the order, so that separated groups fit between them.
  static constexpr std::uint32_t order_step = 1024;

  enum class array : std::uint8_t { group, begin, end, order, waits, copies, number };
  struct change {
    array what;
    std::uint32_t at;
    std::uint32_t before;
  };
  struct totals {
    kernel_sums sums{};
    unity::fingerprint fingerprint{};
  };
  struct mark {
    std::size_t changes = 0;
    std::size_t totals = 0;
    std::size_t pool = 0;
    std::size_t links = 0;
    std::uint32_t room = order_step;
  };
  struct copy_link {
    std::uint32_t group;
    std::uint32_t next;
  };

  // Changes to arrays are written to a journal, which back_to undoes.
  [[nodiscard]] std::vector<std::uint32_t>& of(array what);
  void put(array what, std::uint32_t at, std::uint32_t value) {
    auto& a = of(what);
    if (a[at] != value) {
      journal_.push_back({what, at, a[at]});
      a[at] = value;
    }
  }
  void set_members(std::uint32_t group, std::span<const instruction_id> sorted);
  void set_copies(instruction_id i, std::span<const std::uint32_t> groups);
  [[nodiscard]] mark here() const { return {journal_.size(), changed_.size(), pool_.size(), links_.size(), room_}; }
  void back_to(const mark& m);

  // Which groups compute an instruction, and which wait for it.
  [[nodiscard]] bool is_copied(instruction_id i) const { return copies_[i] != none; }
  [[nodiscard]] std::vector<std::uint32_t> copies_of(instruction_id i) const;
  [[nodiscard]] bool contains(std::uint32_t group, instruction_id i) const;
  // Calls f(group) for each group that computes the instruction.
  template <class F>
  void for_each_container(instruction_id i, const F& f) const {
    f(group_[i]);
    for (auto l = copies_[i]; l != none; l = links_[l].next) {
      f(links_[l].group);
    }
  }
  // Calls f(group) for each other group that reads the instruction's result from this one.
  template <class F>
  void for_each_waiting(std::uint32_t group, instruction_id i, const F& f) const {
    const bool is_plain = !is_copied(i);
    for (const auto r : graph_->readers(i)) {
      if (is_plain && !is_copied(r)) {
        if (group_[r] != group) {
          f(group_[r]);
        }
      } else {
        for_each_container(r, [&](std::uint32_t c) {
          if (c != group && (is_plain || !contains(c, i))) {
            f(c);
          }
        });
      }
    }
  }
  [[nodiscard]] bool is_needed_outside(std::uint32_t group, instruction_id i) const;

  // Parts of changes. After one returns false, only back_to may be called.
  [[nodiscard]] bool may_fuse(std::uint32_t from, std::uint32_t to) const;
  // Whether the second kernel may read the first one's results within one kernel, row by row.
  [[nodiscard]] bool may_read_inside(std::uint32_t from, std::uint32_t to) const;
  // Effects: moves the members of both groups into group `to`.
  void merge(std::uint32_t from, std::uint32_t to);
  // Effects: recomputes the group's sums. Returns false if it exceeds the limits of a kernel.
  bool update(std::uint32_t group);
  // Effects: removes members that nobody reads from the group, and then from the groups that provide their operands.
  bool prune(std::uint32_t group);
  // Effects: changes the order so that the merged group has a position. Returns false if a path leads from one to the
  // other through other groups, or directly unless `may_touch`.
  bool make_adjacent(std::uint32_t from, std::uint32_t to, bool may_touch);
  void order_groups();

  const instruction_graph* graph_;
  kernel_limits limits_;
  std::vector<std::uint32_t> group_{};   // by instruction
  std::vector<std::uint32_t> copies_{};  // by instruction: the first link
  std::vector<copy_link> links_{};
  std::vector<instruction_id> pool_{};  // members, by begin_ and end_ of groups
  std::vector<std::uint32_t> begin_{};
  std::vector<std::uint32_t> end_{};
  std::vector<std::uint32_t> order_{};              // by group: a topological order
  std::vector<std::uint32_t> waits_{};              // by group
  std::vector<std::uint32_t> number_{};             // by group
  std::vector<kernel_sums> sums_{};                 // by group
  std::vector<unity::fingerprint> fingerprints_{};  // by group
  unity::fingerprint fingerprint_{};

  std::vector<change> journal_{};
  std::vector<std::uint32_t> changed_{};
  std::vector<totals> before_{};  // of changed_
  std::uint32_t room_ = order_step;
  mark start_{};

  // Scratch.
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> inside_{};  // by instruction, stamped
  std::vector<std::uint32_t> seen_{};    // by instruction or group, stamped
  std::vector<double> read_{};           // by instruction
  std::vector<instruction_id> merged_{};
  std::vector<std::uint32_t> forward_{};
  std::vector<std::uint32_t> backward_{};
  std::vector<std::uint32_t> slots_{};
};

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_FUSION_GROUPS)

#include <algorithm>
#include <iterator>

#include <unity/core/config.hpp>

namespace unity::fusion {

UNITY_INLINE fusion_groups::fusion_groups(const instruction_graph& g, const kernel_limits& limits)
    : graph_{&g},
      limits_{limits},
      group_(g.size()),
      copies_(g.size()),
      begin_(g.size()),
      end_(g.size()),
      order_(g.size()),
      waits_(g.size()),
      number_(g.size()),
      sums_(g.size()),
      fingerprints_(g.size()),
      inside_(g.size()),
      seen_(g.size()),
      read_(g.size()) {}

UNITY_INLINE std::vector<std::uint32_t>& fusion_groups::of(array what) {
  switch (what) {
    case array::group: return group_;
    case array::begin: return begin_;
    case array::end: return end_;
    case array::order: return order_;
    case array::waits: return waits_;
    case array::copies: return copies_;
    case array::number: break;
  }
  return number_;
}

UNITY_INLINE void fusion_groups::back_to(const mark& m) {
  for (; journal_.size() > m.changes; journal_.pop_back()) {
    const auto& c = journal_.back();
    of(c.what)[c.at] = c.before;
  }
  for (; changed_.size() > m.totals; changed_.pop_back(), before_.pop_back()) {
    const auto group = changed_.back();
    fingerprint_ -= fingerprints_[group];
    sums_[group] = before_.back().sums;
    fingerprints_[group] = before_.back().fingerprint;
    fingerprint_ += fingerprints_[group];
  }
  pool_.resize(m.pool);
  links_.resize(m.links);
  room_ = m.room;
}

UNITY_INLINE void fusion_groups::reset(const fusion_strategy& s) {
  UNITY_EXPECTS(s.group_of.size() == graph_->size(), "a strategy of the graph");
  journal_.clear();
  changed_.clear();
  before_.clear();
  pool_.clear();
  links_.clear();
  group_ = s.group_of;
  std::fill(copies_.begin(), copies_.end(), none);
  for (auto c = s.copies.rbegin(); c != s.copies.rend(); ++c) {
    links_.push_back({c->group, copies_[c->instruction]});
    copies_[c->instruction] = static_cast<std::uint32_t>(links_.size() - 1);
  }
  std::fill(end_.begin(), end_.end(), 0U);
  for (instruction_id i = 0; i < graph_->size(); ++i) {
    for_each_container(i, [&](std::uint32_t g) { ++end_[g]; });
  }
  std::uint32_t sum = 0;
  for (std::size_t g = 0; g < graph_->size(); ++g) {
    begin_[g] = sum;
    sum += end_[g];
    end_[g] = begin_[g];
  }
  pool_.resize(sum);
  for (instruction_id i = 0; i < graph_->size(); ++i) {
    for_each_container(i, [&](std::uint32_t g) { pool_[end_[g]++] = i; });
  }
  fingerprint_ = {};
  std::fill(fingerprints_.begin(), fingerprints_.end(), unity::fingerprint{});
  for (instruction_id g = 0; g < graph_->size(); ++g) {
    if (begin_[g] < end_[g]) {
      const bool fits = update(g);
      UNITY_EXPECTS(fits, "groups that kernels can hold");
    }
  }
  order_groups();
  journal_.clear();
  changed_.clear();
  before_.clear();
  room_ = order_step;
  start_ = here();
}

UNITY_INLINE fusion_strategy fusion_groups::strategy() const {
  fusion_strategy s;
  s.group_of.resize(graph_->size());
  for (instruction_id i = 0; i < graph_->size(); ++i) {
    s.group_of[i] = number_[group_[i]];
    for (auto l = copies_[i]; l != none; l = links_[l].next) {
      s.copies.push_back({i, number_[links_[l].group]});
    }
  }
  std::sort(s.copies.begin(), s.copies.end());
  return s;
}

UNITY_INLINE std::vector<std::uint32_t> fusion_groups::copies_of(instruction_id i) const {
  std::vector<std::uint32_t> all;
  for (auto l = copies_[i]; l != none; l = links_[l].next) {
    all.push_back(links_[l].group);
  }
  return all;
}

UNITY_INLINE bool fusion_groups::contains(std::uint32_t group, instruction_id i) const {
  if (group_[i] == group) {
    return true;
  }
  for (auto l = copies_[i]; l != none; l = links_[l].next) {
    if (links_[l].group == group) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE void fusion_groups::set_members(std::uint32_t group, std::span<const instruction_id> sorted) {
  const auto at = static_cast<std::uint32_t>(pool_.size());
  pool_.insert(pool_.end(), sorted.begin(), sorted.end());
  put(array::begin, group, at);
  put(array::end, group, static_cast<std::uint32_t>(pool_.size()));
}

UNITY_INLINE void fusion_groups::set_copies(instruction_id i, std::span<const std::uint32_t> groups) {
  auto first = none;
  for (const auto g : groups) {
    links_.push_back({g, first});
    first = static_cast<std::uint32_t>(links_.size() - 1);
  }
  put(array::copies, i, first);
}

UNITY_INLINE bool fusion_groups::is_needed_outside(std::uint32_t group, instruction_id i) const {
  bool found = (*graph_)[i].leaves;
  if (!found) {
    for_each_waiting(group, i, [&](std::uint32_t) { found = true; });
  }
  return found;
}

UNITY_INLINE bool fusion_groups::update(std::uint32_t group) {
  const auto& g = *graph_;
  const auto all = members(group);
  changed_.push_back(group);
  before_.push_back({sums_[group], fingerprints_[group]});
  kernel_sums s;
  unity::fingerprint sum{};
  std::uint32_t operands = 0;
  std::uint32_t waits = 0;
  auto number = none;
  std::uint32_t sizes = 0;
  bool is_alike = true;
  ++stamp_;
  for (const auto m : all) {
    inside_[m] = stamp_;
  }
  for (const auto m : all) {
    const auto& i = g[m];
    s.arithmetic += i.arithmetic;
    ++s.parts;
    for (const auto& o : g.operands(m)) {
      if (inside_[o.from] == stamp_) {
        continue;
      }
      waits += g.role(o.from) != instruction_role::source ? 1U : 0U;
      if (seen_[o.from] != stamp_) {
        seen_[o.from] = stamp_;
        read_[o.from] = o.bytes;
        s.reads += o.bytes;
        ++operands;
      } else if (read_[o.from] < o.bytes) {
        s.reads += o.bytes - read_[o.from];
        read_[o.from] = o.bytes;
      }
    }
    const bool is_copy = group_[m] != group;
    sum += detail::fingerprint_of_member(m, is_copy);
    if (!is_copy) {
      number = std::min<std::uint32_t>(number, m);
      if (is_needed_outside(group, m)) {
        is_alike = is_alike && (s.writes == 0 || sizes == i.sizes);
        sizes = i.sizes;
        s.writes += i.size;
        ++operands;
      }
    }
  }
  fingerprint_ -= fingerprints_[group];
  fingerprints_[group] = all.empty() ? unity::fingerprint{} : detail::fingerprint_of_group(sum);
  fingerprint_ += fingerprints_[group];
  sums_[group] = s;
  if (all.empty()) {
    return true;
  }
  UNITY_EXPECTS(number != none, "a group that provides a result");
  put(array::number, group, number);
  put(array::waits, group, waits);
  return all.size() == 1 || g.reduces(all.front()) ||
         (all.size() <= limits_.operators && operands <= limits_.operands && (is_alike || !limits_.results_alike));
}

UNITY_INLINE kernel_description fusion_groups::description(std::uint32_t group) const {
  kernel_description d;
  const auto all = members(group);
  const auto place = [&](instruction_id i) {
    return static_cast<std::uint16_t>(std::lower_bound(all.begin(), all.end(), i) - all.begin());
  };
  for (const auto m : all) {
    const auto& i = (*graph_)[m];
    kernel_part p{i.kind, i.is_folding, i.flops, 0, i.size, 0, 0, i.duration};
    for (const auto& o : graph_->operands(m)) {
      p.reads += o.bytes;
      if (contains(group, o.from)) {
        d.edges.emplace_back(place(o.from), place(m));
      } else {
        p.reads_outside += o.bytes;
      }
    }
    if (group_[m] == group && is_needed_outside(group, m)) {
      p.writes_outside = i.size;
    }
    d.parts.push_back(p);
  }
  std::sort(d.edges.begin(), d.edges.end());
  return d;
}

UNITY_INLINE bool fusion_groups::may_fuse(std::uint32_t from, std::uint32_t to) const {
  const auto& limits = limits_;
  if (from == to || members(from).size() + members(to).size() > limits.operators) {
    return false;
  }
  const auto& a = (*graph_)[members(from).front()];
  const auto& b = (*graph_)[members(to).front()];
  if (a.role != instruction_role::fusible || b.role != instruction_role::fusible) {
    return false;
  }
  std::uint32_t heads = 0;
  auto domain = instruction::any_domain;
  for (const auto g : {from, to}) {
    for (const auto m : members(g)) {
      const auto& i = (*graph_)[m];
      heads += i.is_head() ? 1U : 0U;
      if (i.domain != instruction::any_domain) {
        if (domain != instruction::any_domain && domain != i.domain) {
          return false;
        }
        domain = i.domain;
      }
    }
  }
  if (heads > (limits.may_follow_heads ? 1U : 0U)) {
    return false;
  }
  return may_read_inside(from, to) && may_read_inside(to, from);
}

UNITY_INLINE bool fusion_groups::may_read_inside(std::uint32_t from, std::uint32_t to) const {
  for (const auto m : members(to)) {
    for (const auto& o : graph_->operands(m)) {
      if (contains(from, o.from) && !contains(to, o.from)) {
        const auto& i = (*graph_)[o.from];
        if ((*graph_)[m].is_head() || i.is_folding ||
            (i.kind == operator_class::reduction && !limits_.may_follow_reductions)) {
          return false;
        }
      }
    }
  }
  return true;
}

UNITY_INLINE void fusion_groups::merge(std::uint32_t from, std::uint32_t to) {
  const auto a = members(from);
  const auto b = members(to);
  merged_.clear();
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged_));
  for (const auto m : a) {
    if (group_[m] == from) {
      put(array::group, m, to);
    }
  }
  for (const auto m : merged_) {
    if (is_copied(m)) {
      std::vector<std::uint32_t> groups;
      for (auto g : copies_of(m)) {
        g = g == from ? to : g;
        if (g != group_[m] && std::find(groups.begin(), groups.end(), g) == groups.end()) {
          groups.push_back(g);
        }
      }
      set_copies(m, groups);
    }
  }
  set_members(from, {});
  set_members(to, merged_);
}

UNITY_INLINE bool fusion_groups::fuse(std::uint32_t from, std::uint32_t to) {
  if (order_[from] > order_[to]) {
    std::swap(from, to);  // `to` computes what it reads of `from` itself, so it may be first in the order
  }
  if (!may_fuse(from, to)) {
    return false;
  }
  const auto before = here();
  if (!make_adjacent(from, to, true)) {
    return false;
  }
  merge(from, to);
  bool fits = update(from) && update(to);
  for (std::size_t x = 0; fits && x < members(to).size(); ++x) {
    const auto m = members(to)[x];
    if (group_[m] != to) {
      fits = prune(group_[m]);  // its readers in the merged group now read it there
    }
  }
  if (!fits) {
    back_to(before);
  }
  return fits;
}

UNITY_INLINE bool fusion_groups::duplicate(std::uint32_t from, std::uint32_t to) {
  if (!may_fuse(from, to)) {
    return false;
  }
  // Instructions of the first kernel that the second one needs.
  ++stamp_;
  merged_.clear();
  const auto need = [&](instruction_id i) {
    if (contains(from, i) && !contains(to, i) && inside_[i] != stamp_) {
      inside_[i] = stamp_;
      merged_.push_back(i);
    }
  };
  for (const auto m : members(to)) {
    for (const auto& o : graph_->operands(m)) {
      need(o.from);
    }
  }
  if (merged_.empty()) {
    return false;
  }
  for (std::size_t x = 0; x < merged_.size(); ++x) {
    if ((*graph_)[merged_[x]].is_head()) {
      return false;  // too expensive
    }
    for (const auto& o : graph_->operands(merged_[x])) {
      need(o.from);
    }
  }
  const auto before = here();
  const auto copied = merged_;
  for (const auto i : copied) {
    auto groups = copies_of(i);
    groups.push_back(to);
    set_copies(i, groups);
  }
  const auto old = members(to);
  merged_.insert(merged_.end(), old.begin(), old.end());
  std::sort(merged_.begin(), merged_.end());
  set_members(to, merged_);
  bool fits = update(to) && prune(from);
  for (const auto i : copied) {
    fits = fits && (group_[i] == to || prune(group_[i]));  // perhaps nobody reads it from there any more
  }
  if (!fits) {
    back_to(before);
  }
  return fits;
}

UNITY_INLINE bool fusion_groups::prune(std::uint32_t group) {
  const std::vector<instruction_id> old{members(group).begin(), members(group).end()};
  std::vector<instruction_id> kept;
  std::vector<instruction_id> gone;
  // Backwards, so that the readers in the group have been decided before the instruction that they read.
  ++stamp_;
  for (auto m = old.rbegin(); m != old.rend(); ++m) {
    const auto& readers = graph_->readers(*m);
    bool stays = std::any_of(readers.begin(), readers.end(), [&](instruction_id r) { return seen_[r] == stamp_; });
    if (!stays && group_[*m] == group) {
      // The only copy stays, even if nobody reads it.
      stays = !is_copied(*m) || is_needed_outside(group, *m);
    }
    if (stays) {
      seen_[*m] = stamp_;
      kept.push_back(*m);
    } else {
      gone.push_back(*m);
    }
  }
  if (gone.empty()) {
    return update(group);
  }
  std::reverse(kept.begin(), kept.end());
  std::vector<std::uint32_t> touched{group};
  for (const auto m : gone) {
    auto groups = copies_of(m);
    std::erase(groups, group);
    if (group_[m] == group) {  // another group that computes it becomes its provider
      const auto next = std::min_element(groups.begin(), groups.end(),
                                         [&](std::uint32_t a, std::uint32_t b) { return number_[a] < number_[b]; });
      const auto own = *next;
      groups.erase(next);
      put(array::group, m, own);
      touched.push_back(own);
    }
    set_copies(m, groups);
  }
  set_members(group, kept);
  std::vector<std::uint32_t> before;
  for (const auto m : gone) {
    for (const auto& o : graph_->operands(m)) {
      if (is_copied(o.from) && group_[o.from] != group) {
        before.push_back(group_[o.from]);
      }
    }
  }
  for (const auto g : touched) {
    if (!update(g)) {
      return false;
    }
  }
  return std::all_of(before.begin(), before.end(), [&](std::uint32_t g) { return members(g).empty() || prune(g); });
}

UNITY_INLINE bool fusion_groups::join(std::uint32_t a, std::uint32_t b) {
  if (a == b) {
    return false;
  }
  const auto first = members(a).front();
  const auto second = members(b).front();
  if (!graph_->reduces(first) || !graph_->reduces(second) || (*graph_)[first].domain != (*graph_)[second].domain) {
    return false;
  }
  const auto before = here();
  const auto from = order_[a] < order_[b] ? a : b;
  const auto to = from == a ? b : a;
  if (!make_adjacent(from, to, false)) {
    return false;
  }
  merge(from, to);
  const bool fits = update(from) && update(to);
  if (!fits) {
    back_to(before);
  }
  return fits;
}

UNITY_INLINE bool fusion_groups::separate(instruction_id i) {
  const auto group = group_[i];
  const auto all = members(group);
  if (all.size() < 2 || is_copied(i) || room_ < 4) {
    return false;
  }
  const auto& g = *graph_;
  const auto readers = g.readers(i);
  const auto operands = g.operands(i);
  const bool is_read =
      std::any_of(readers.begin(), readers.end(), [&](instruction_id r) { return contains(group, r); });
  const bool reads =
      std::any_of(operands.begin(), operands.end(), [&](const auto& o) { return contains(group, o.from); });
  const bool reads_copy = std::any_of(operands.begin(), operands.end(), [&](const auto& o) {
    return group_[o.from] != group && contains(group, o.from);  // alone, `i` would have to read it from there
  });
  const auto own = std::find_if(all.begin(), all.end(), [&](instruction_id m) { return begin_[m] == end_[m]; });
  const auto others = std::count_if(all.begin(), all.end(), [&](instruction_id m) { return group_[m] == group; });
  if ((is_read && reads) || reads_copy || own == all.end() || others < 2) {
    return false;
  }
  const auto before = here();
  const auto alone = static_cast<std::uint32_t>(*own);
  merged_.assign(all.begin(), all.end());
  std::erase(merged_, i);
  put(array::group, i, alone);
  set_members(group, merged_);
  set_members(alone, {&i, 1});
  room_ /= 2;
  put(array::order, alone, is_read ? order_[group] - room_ : order_[group] + room_);
  bool fits = update(alone) && prune(group) && !members(group).empty();
  const auto place = order_[alone];
  for_each_successor(alone, [&](std::uint32_t s) { fits = fits && order_[s] > place; });
  for_each_predecessor(alone, [&](std::uint32_t p) { fits = fits && order_[p] < place; });
  if (!fits) {
    back_to(before);
  }
  return fits;
}

// Source: Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs, JEA 11, 2006.
UNITY_INLINE bool fusion_groups::make_adjacent(std::uint32_t from, std::uint32_t to, bool may_touch) {
  const auto low = order_[from];
  const auto high = order_[to];
  ++stamp_;
  forward_.clear();
  bool meets = false;
  const auto go_forward = [&](std::uint32_t next, bool may_meet) {
    if (next == to) {
      meets = meets || !may_meet;
    } else if (order_[next] < high && seen_[next] != stamp_) {
      seen_[next] = stamp_;
      forward_.push_back(next);
    }
  };
  for_each_successor(from, [&](std::uint32_t next) { go_forward(next, may_touch); });
  for (std::size_t x = 0; x < forward_.size() && !meets; ++x) {
    for_each_successor(forward_[x], [&](std::uint32_t next) { go_forward(next, false); });
  }
  if (meets) {
    return false;
  }
  if (forward_.empty()) {
    return true;  // the merged group keeps the position of `to`
  }
  ++stamp_;
  backward_.clear();
  const auto go_backward = [&](std::uint32_t before) {
    if (order_[before] > low && seen_[before] != stamp_) {
      seen_[before] = stamp_;
      backward_.push_back(before);
    }
  };
  for_each_predecessor(to, go_backward);
  for (std::size_t x = 0; x < backward_.size(); ++x) {
    for_each_predecessor(backward_[x], go_backward);
  }
  if (backward_.empty()) {
    put(array::order, to, low);  // the merged group takes the position of `from`
    return true;
  }
  slots_.assign({low, high});
  const auto by_order = [&](std::uint32_t a, std::uint32_t b) { return order_[a] < order_[b]; };
  std::sort(forward_.begin(), forward_.end(), by_order);
  std::sort(backward_.begin(), backward_.end(), by_order);
  for (const auto* groups : {&backward_, &forward_}) {
    for (const auto g : *groups) {
      slots_.push_back(order_[g]);
    }
  }
  std::sort(slots_.begin(), slots_.end());
  std::size_t slot = 0;
  for (const auto g : backward_) {
    put(array::order, g, slots_[slot++]);
  }
  put(array::order, to, slots_[slot]);
  slot += 2;
  for (const auto g : forward_) {
    put(array::order, g, slots_[slot++]);
  }
  return true;
}

UNITY_INLINE void fusion_groups::order_groups() {
  // Takes the group that became ready last, so that groups that read each other are close to each other in the order.
  auto remaining = waits_;
  auto& ready = forward_;
  ready.clear();
  std::size_t groups = 0;
  for (auto g = static_cast<std::uint32_t>(graph_->size()); g-- > 0;) {
    if (!members(g).empty() && graph_->role(members(g).front()) != instruction_role::source) {
      ++groups;
      if (remaining[g] == 0) {
        ready.push_back(g);
      }
    }
  }
  std::uint32_t next = 0;
  for (; !ready.empty(); ++next) {
    const auto g = ready.back();
    ready.pop_back();
    order_[g] = (next + 1) * order_step;
    for_each_successor(g, [&](std::uint32_t s) {
      if (--remaining[s] == 0) {
        ready.push_back(s);
      }
    });
  }
  UNITY_EXPECTS(next == groups, "groups without a cycle");
}

}  // namespace unity::fusion

#endif
