// Events in order of time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unity::simulate {

struct event {
  std::int64_t time = 0;  // picoseconds, not below zero
  std::uint64_t tie = 0;  // the lower one first at the same time
  std::uint32_t task = 0;
};

// One comparison of 128 bits, without a branch: which of two events is earlier cannot be predicted.
[[nodiscard]] constexpr bool earlier(const event& a, const event& b) noexcept {
  __extension__ using wide = unsigned __int128;
  return (wide{static_cast<std::uint64_t>(a.time)} << 64U | a.tie) <
         (wide{static_cast<std::uint64_t>(b.time)} << 64U | b.tie);
}

// Intervals of equal length. Events of later ones are put into lists; those of the interval that is under way are
// sorted when it begins, and what is put in after that, or is earlier, goes through a heap. So most events are sorted
// among few others, and it is known which come next. Until there are intervals (spread) all events go through the heap.
// It has four children per node: half as deep as one of two, and the children lie side by side.
// Complexity: logarithmic in the events of an interval, amortized; memory is kept when it is emptied.
class event_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return heap_.empty() && now_.empty(); }
  void clear() noexcept {
    heap_.clear();
    now_.clear();
    later_.clear();
    lists_.clear();
    taken_ = 0;
    current_ = from_ = 0;
  }
  // Some `count` events are expected between these times. Once between two clears, and before any event that is later
  // than `from` is put in.
  void spread(std::int64_t from, std::int64_t until, std::size_t count) {
    lists_.assign(std::bit_ceil(count / 8 + 1), none);
    from_ = from;
    const auto length = static_cast<std::uint64_t>(std::max<std::int64_t>(until - from, 1));
    shift_ =
        std::max(0, static_cast<int>(std::bit_width(length)) + 1 - static_cast<int>(std::bit_width(lists_.size())));
  }

  void push(const event& e) {
    const auto i = interval(e.time);
    if (i <= current_ || empty()) {
      current_ = std::max(current_, i);
      heap_.push_back(e);
      sift_up(heap_.size() - 1, e);
    } else {
      auto& last = lists_[static_cast<std::size_t>(i)];
      later_.push_back({e, last});
      last = static_cast<std::uint32_t>(later_.size() - 1);
    }
  }

  // The earliest; not empty.
  [[nodiscard]] const event& front() const noexcept { return is_heap_next() ? heap_.front() : now_.back(); }
  event pop() {
    event first;
    if (is_heap_next()) {
      first = pop_heap();
    } else {
      first = now_.back();
      now_.pop_back();
    }
    if (empty() && taken_ < later_.size()) {
      advance();
    }
    return first;
  }
  // One that comes soon, after so many others of its interval or a few more; null where that is not known.
  [[nodiscard]] const event* ahead(std::size_t count) const noexcept {
    return count < now_.size() ? &now_[now_.size() - 1 - count] : nullptr;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  struct later_event {
    event what{};
    std::uint32_t next = none;  // in its list
  };

  [[nodiscard]] std::int64_t interval(std::int64_t time) const noexcept {
    return std::min((time - from_) >> shift_, static_cast<std::int64_t>(lists_.size()) - 1);
  }
  [[nodiscard]] bool is_heap_next() const noexcept {
    return now_.empty() || (!heap_.empty() && earlier(heap_.front(), now_.back()));
  }
  event pop_heap() {
    const auto first = heap_.front();
    const auto last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      sift_down(last);
    }
    return first;
  }
  // To the next interval that has events.
  void advance() {
    for (auto i = current_ + 1; i < static_cast<std::int64_t>(lists_.size()); ++i) {
      auto at = lists_[static_cast<std::size_t>(i)];
      if (at != none) {
        for (; at != none; at = later_[at].next, ++taken_) {
          now_.push_back(later_[at].what);
        }
        std::sort(now_.begin(), now_.end(), [](const event& a, const event& b) { return earlier(b, a); });
        current_ = i;
        return;
      }
    }
  }
  // The hole goes down to a leaf along the earliest children, then e goes up from there: it was the last one, so it
  // seldom goes far.
  void sift_down(const event& e) {
    const auto size = heap_.size();
    auto* const heap = heap_.data();
    std::size_t i = 0;
    auto child = std::size_t{1};
    for (; child + 4 <= size; child = 4 * i + 1) {
      const auto left = earlier(heap[child + 1], heap[child]) ? child + 1 : child;
      const auto right = earlier(heap[child + 3], heap[child + 2]) ? child + 3 : child + 2;
      const auto best = earlier(heap[right], heap[left]) ? right : left;
      heap[i] = heap[best];
      i = best;
    }
    if (child < size) {
      auto best = child;
      for (auto c = child + 1; c < size; ++c) {
        best = earlier(heap[c], heap[best]) ? c : best;
      }
      heap[i] = heap[best];
      i = best;
    }
    sift_up(i, e);
  }
  void sift_up(std::size_t i, const event& e) {
    while (i > 0) {
      const auto parent = (i - 1) / 4;
      if (!earlier(e, heap_[parent])) {
        break;
      }
      heap_[i] = heap_[parent];
      i = parent;
    }
    heap_[i] = e;
  }

  std::vector<event> heap_;
  std::vector<event> now_;            // sorted, the earliest last
  std::vector<later_event> later_;    // all that were put into lists since the last clear
  std::vector<std::uint32_t> lists_;  // by interval: the last that was put in
  std::size_t taken_ = 0;             // so many of them left their lists
  std::int64_t current_ = 0;          // the interval that is under way
  std::int64_t from_ = 0;
  int shift_ = 0;
};

}  // namespace unity::simulate
