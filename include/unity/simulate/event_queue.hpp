// A priority queue of events in order of time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unity::simulate {

struct event {
  std::int64_t time = 0;  // picoseconds, not negative
  std::uint64_t tie = 0;  // breaks ties: the lower one first
  std::uint32_t task = 0;
};

// One branch-free comparison of 128 bits: which of two events is earlier is unpredictable.
[[nodiscard]] constexpr bool earlier(const event& a, const event& b) noexcept {
  __extension__ using wide = unsigned __int128;
  return (wide{static_cast<std::uint64_t>(a.time)} << 64U | a.tie) <
         (wide{static_cast<std::uint64_t>(b.time)} << 64U | b.tie);
}

// Divides time into intervals of equal length. Events of later intervals go to lists; the events of the current
// interval are sorted when it begins, and later additions, or earlier events, go through a heap. So most events are
// sorted among few others, and the next ones are known. Until intervals exist (spread), all events go through the heap.
// The heap has four children per node: it is half as deep as a binary one, and the children are adjacent. Complexity:
// logarithmic in the events of an interval, amortized; memory is kept when it is emptied.
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
  // Announces about `count` events between these times. Call it at most once between two clears, before adding any
  // event later than `from`.
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

  // The earliest event. Precondition: not empty.
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
  // An event that comes soon, about this many positions later in its interval; null if not known.
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
  // Advances to the next interval that has events.
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
  // Moves the hole down to a leaf along the earliest children, then e up from there: e was the last one, so it rarely
  // moves far.
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
  std::vector<later_event> later_;    // all events put into lists since the last clear
  std::vector<std::uint32_t> lists_;  // by interval: the last one put in
  std::size_t taken_ = 0;             // how many of them left their lists
  std::int64_t current_ = 0;          // the current interval
  std::int64_t from_ = 0;
  int shift_ = 0;
};

}  // namespace unity::simulate
