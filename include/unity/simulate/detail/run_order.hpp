// The tasks of one resource in the order in which it runs them, rewritten from some point on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unity::simulate::detail {

// While it is open: entries below done() are in the new order, those from next() on still in the old one, and the gap
// between takes what comes in. Entries keep the ready time that they were ordered by.
class run_order {
 public:
  struct entry {
    std::int64_t ready = 0;
    std::uint32_t task = 0;
  };

  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::uint32_t back() const noexcept { return entries_.back().task; }
  void append(std::int64_t ready, std::uint32_t task) { entries_.push_back({ready, task}); }

  // Opens at the first entry that is not before the given time and tie; what follows can be brought back.
  template <class Ties>
  void open(std::int64_t time, std::uint64_t tie, const Ties& ties) {
    const auto before = [&](const entry& e) { return is_before(e, time, tie, ties); };
    const auto at = std::partition_point(entries_.begin(), entries_.end(), before);
    done_ = next_ = saved_from_ = static_cast<std::size_t>(at - entries_.begin());
    saved_.assign(at, entries_.end());
    is_open_ = true;
  }
  [[nodiscard]] std::size_t count() const noexcept { return entries_.size(); }
  [[nodiscard]] std::uint32_t task(std::size_t i) const noexcept { return entries_[i].task; }
  // Entries that are not before the given time and tie, while it is closed.
  template <class Ties>
  [[nodiscard]] std::size_t count_from(std::int64_t time, std::uint64_t tie, const Ties& ties) const {
    const auto before = [&](const entry& e) { return is_before(e, time, tie, ties); };
    return static_cast<std::size_t>(entries_.end() - std::partition_point(entries_.begin(), entries_.end(), before));
  }
  // Drops all that comes at or after the point.
  void drop_rest() noexcept { next_ = entries_.size(); }
  // Moves the point to the first entry that is not before the given time and tie; drops what is gone on the way.
  template <class Ties, class IsGone>
  void advance(std::int64_t time, std::uint64_t tie, const Ties& ties, const IsGone& is_gone) {
    while (next_ < entries_.size() && is_before(entries_[next_], time, tie, ties)) {
      if (!is_gone(entries_[next_].task)) {
        entries_[done_++] = entries_[next_];
      }
      ++next_;
    }
  }
  // Drops what is gone at the point.
  template <class IsGone>
  void skip(const IsGone& is_gone) {
    while (next_ < entries_.size() && is_gone(entries_[next_].task)) {
      ++next_;
    }
  }
  // At the point: what ran last, and what comes next. Check that there is one.
  [[nodiscard]] bool has_last() const noexcept { return done_ > 0; }
  [[nodiscard]] std::uint32_t last() const noexcept { return entries_[done_ - 1].task; }
  [[nodiscard]] bool has_next() const noexcept { return next_ < entries_.size(); }
  [[nodiscard]] std::uint32_t next() const noexcept { return entries_[next_].task; }

  template <class Ties>
  [[nodiscard]] bool is_next_before(std::int64_t time, std::uint64_t tie, const Ties& ties) const {
    return is_before(entries_[next_], time, tie, ties);
  }
  // Complexity: constant where a task was dropped before; else linear in what follows.
  void insert(std::int64_t ready, std::uint32_t task) {
    if (done_ == next_) {
      const auto room = 4 + (entries_.size() - next_) / 8;
      entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(next_), room, entry{});
      next_ += room;
    }
    entries_[done_++] = {ready, task};
  }

  // Leaves the rest as it is. Complexity: linear in the rest where there is a gap.
  void close() {
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(done_),
                   entries_.begin() + static_cast<std::ptrdiff_t>(next_));
    is_open_ = false;
  }
  // Undoes everything since it was last opened.
  void restore() {
    entries_.resize(saved_from_);
    entries_.insert(entries_.end(), saved_.begin(), saved_.end());
    is_open_ = false;
  }

 private:
  template <class Ties>
  [[nodiscard]] static bool is_before(const entry& e, std::int64_t time, std::uint64_t tie, const Ties& ties) {
    return e.ready != time ? e.ready < time : ties(e.task) < tie;
  }

  std::vector<entry> entries_;
  std::vector<entry> saved_;
  std::size_t done_ = 0;
  std::size_t next_ = 0;
  std::size_t saved_from_ = 0;
  bool is_open_ = false;
};

}  // namespace unity::simulate::detail
