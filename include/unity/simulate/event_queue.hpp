// Events in order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unity::simulate {

struct event {
  std::int64_t time = 0;  // picoseconds
  std::uint64_t tie = 0;  // the lower one first at the same time
  std::uint32_t task = 0;
};

[[nodiscard]] constexpr bool earlier(const event& a, const event& b) noexcept {
  return a.time != b.time ? a.time < b.time : a.tie < b.tie;
}

// A heap of four children per node: half as deep as one of two, and the children lie side by side.
// Complexity: logarithmic; memory is kept when it is emptied.
class event_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  void clear() noexcept { heap_.clear(); }

  void push(const event& e) {
    auto i = heap_.size();
    heap_.push_back(e);
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
  void sift_down(const event& e) {
    const auto size = heap_.size();
    auto* const heap = heap_.data();
    std::size_t i = 0;
    for (;;) {
      const auto child = 4 * i + 1;
      if (child >= size) {
        break;
      }
      const auto end = child + 4 < size ? child + 4 : size;
      auto best = child;
      for (auto c = child + 1; c < end; ++c) {
        best = earlier(heap[c], heap[best]) ? c : best;
      }
      if (!earlier(heap[best], e)) {
        break;
      }
      heap[i] = heap[best];
      i = best;
    }
    heap[i] = e;
  }

  std::vector<event> heap_;
};

}  // namespace unity::simulate
