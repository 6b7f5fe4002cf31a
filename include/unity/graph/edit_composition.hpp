// Two edits in a row as one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/edit.hpp>
#include <unity/graph/node_set.hpp>

namespace unity {

namespace detail {

// Names what two edits in a row speak of as one edit would. Nodes and values before the first keep their names.
template <class Op, class Type>
class edit_composer {
 public:
  edit_composer(const edit<Op, Type>& first, const edited<Op, Type>& between, const edit<Op, Type>& second);

  [[nodiscard]] edit<Op, Type> compose() const;

 private:
  // Of a value as the second edit names it: its name in the composition; null if the second edit removes it.
  [[nodiscard]] value_id name(value_id v) const { return names_[v.index()]; }
  // What a node that stays reads after the second edit where it read v between the two.
  [[nodiscard]] value_id read_after(value_id between) const { return name(now_[between.index()]); }
  [[nodiscard]] bool dropped(std::size_t added) const { return dropped_[added] != 0; }
  void mark_removed();
  void name_values();
  void redirect(edit<Op, Type>& both) const;

  const edit<Op, Type>& first_;
  const edited<Op, Type>& between_;
  const edit<Op, Type>& second_;
  std::size_t values_before_;
  std::vector<node_id> removed_{};  // nodes from before the first edit that the second removes
  std::vector<char> dropped_;       // nodes that the first edit adds and the second removes
  std::vector<value_id> names_;
  std::vector<value_id> now_;  // redirections of the second edit, over the values between
};

template <class Op, class Type>
edit_composer<Op, Type>::edit_composer(const edit<Op, Type>& first, const edited<Op, Type>& between,
                                       const edit<Op, Type>& second)
    : first_{first},
      between_{between},
      second_{second},
      values_before_{between.values.size()},
      dropped_(first.added.size(), 0),
      names_(between.graph.value_count()),
      now_{redirections(between.graph.value_count(), second.redirected)} {
  for (const auto& added : first.added) {
    values_before_ -= added.types.size();
  }
  mark_removed();
  name_values();
}

template <class Op, class Type>
void edit_composer<Op, Type>::mark_removed() {
  const node_set gone{between_.graph.node_count(), second_.removed};
  for (std::size_t n = 0; n < between_.nodes.size(); ++n) {
    if (between_.nodes[n].valid() && gone.contains(between_.nodes[n])) {
      removed_.emplace_back(n);
    }
  }
  for (std::size_t i = 0; i < dropped_.size(); ++i) {
    dropped_[i] = static_cast<char>(gone.contains(between_.added[i]));
  }
}

template <class Op, class Type>
void edit_composer<Op, Type>::name_values() {
  for (std::size_t v = 0; v < values_before_; ++v) {
    if (between_.values[v].valid()) {
      names_[between_.values[v].index()] = value_id{v};
    }
  }
  std::size_t next = values_before_;      // among the values of the composition
  std::size_t of_first = values_before_;  // among those of the first edit
  for (std::size_t i = 0; i < first_.added.size(); ++i) {
    for (std::size_t r = 0; r < first_.added[i].types.size(); ++r, ++of_first) {
      names_[between_.values[of_first].index()] = dropped(i) ? value_id{} : value_id{next++};
    }
  }
  for (const auto& added : second_.added) {
    for (std::size_t r = 0; r < added.types.size(); ++r) {
      names_.emplace_back(next++);
    }
  }
}

template <class Op, class Type>
edit<Op, Type> edit_composer<Op, Type>::compose() const {
  edit<Op, Type> both;
  both.removed = first_.removed;
  both.removed.insert(both.removed.end(), removed_.begin(), removed_.end());
  std::ranges::sort(both.removed);
  for (std::size_t i = 0; i < first_.added.size(); ++i) {
    if (!dropped(i)) {
      both.added.push_back(first_.added[i]);
      for (auto& v : both.added.back().operands) {
        v = read_after(between_.values[v.index()]);
      }
    }
  }
  for (const auto& added : second_.added) {
    both.added.push_back(added);
    for (auto& v : both.added.back().operands) {
      v = name(v);
    }
  }
  redirect(both);
  return both;
}

template <class Op, class Type>
void edit_composer<Op, Type>::redirect(edit<Op, Type>& both) const {
  std::vector<char> done(values_before_, 0);
  const auto add = [&](value_id from, value_id to) {
    done[from.index()] = 1;
    // What leads to a value that is gone, nobody reads any more.
    if (to.valid() && to != from) {
      both.redirected.push_back({from, to});
    }
  };
  for (const auto& [from, to] : first_.redirected) {
    add(from, read_after(between_.values[to.index()]));
  }
  for (std::size_t v = 0; v < values_before_; ++v) {
    const value_id between = between_.values[v];
    if (done[v] == 0 && between.valid() && now_[between.index()] != between) {
      add(value_id{v}, read_after(between));
    }
  }
}

}  // namespace detail

// One edit that does what `first` and then `second` do, where `between` is what apply_edit made of `first`.
// Law: apply_edit(g, compose(...)) gives a graph isomorphic to that after both.
// Complexity: O(N + E).
template <class Op, class Type>
[[nodiscard]] edit<Op, Type> compose(const edit<Op, Type>& first, const edited<Op, Type>& between,
                                     const edit<Op, Type>& second) {
  return detail::edit_composer<Op, Type>{first, between, second}.compose();
}

}  // namespace unity
