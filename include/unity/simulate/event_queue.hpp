// Events in order of time.
#pragma once

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

// A heap of four children per node: half as deep as one of two, and the children lie side by side.
// Complexity: logarithmic; memory is kept when it is emptied.
class event_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  void clear() noexcept { heap_.clear(); }

  void push(const event& e) {
    heap_.push_back(e);
    sift_up(heap_.size() - 1, e);
  }

  // The earliest; not empty.
  [[nodiscard]] const event& front() const noexcept { return heap_.front(); }
  event pop() {
    const auto first = heap_.front();
    const auto last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      sift_down(last);
    }
    return first;
  }

 private:
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
};

}  // namespace unity::simulate
