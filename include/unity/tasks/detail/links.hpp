// Lists of dependencies, one per task, in one array. A program has one for tasks before and one for tasks after each.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>

namespace unity::tasks::detail {

// Allocates ranges of places. Sizes are rounded up to powers of two; released ranges are reused, last in first out, so
// places depend only on the calls made. Complexity: constant.
class ranges {
 public:
  [[nodiscard]] static constexpr std::uint32_t size_class(std::size_t size) noexcept {
    return size <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(size - 1));
  }

  // Returns the first place of a range of 2^size_class places.
  [[nodiscard]] std::uint32_t take(std::uint32_t size_class) {
    auto& free = free_[size_class];
    if (!free.empty()) {
      const auto first = free.back();
      free.pop_back();
      return first;
    }
    const auto first = end_;
    end_ += std::uint32_t{1} << size_class;
    return first;
  }
  void give_back(std::uint32_t first, std::uint32_t size_class) { free_[size_class].push_back(first); }

  // Upper bound (exclusive) of the places handed out so far.
  [[nodiscard]] std::size_t end() const noexcept { return end_; }

 private:
  std::uint32_t end_ = 0;
  std::array<std::vector<std::uint32_t>, 32> free_{};
};

}  // namespace unity::tasks::detail

namespace unity::tasks {

// The other end of a dependency.
class task_link {
 public:
  constexpr task_link() noexcept = default;
  constexpr task_link(std::uint32_t task, bool cut_through) noexcept : bits_{task << 1U | (cut_through ? 1U : 0U)} {}

  [[nodiscard]] constexpr std::uint32_t task() const noexcept { return bits_ >> 1U; }
  [[nodiscard]] constexpr bool cut_through() const noexcept { return (bits_ & 1U) != 0; }

  friend constexpr bool operator==(task_link, task_link) noexcept = default;

 private:
  std::uint32_t bits_ = 0;
};

namespace detail {

// A list within the pool.
struct link_list {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t size_class = none;

  static constexpr std::uint32_t none = 0xffffffffU;
};

class link_pool {
 public:
  [[nodiscard]] std::span<const task_link> view(std::uint32_t first, std::uint32_t count) const noexcept {
    return {links_.data() + first, count};
  }
  // Complexity: amortized constant.
  void add(link_list& l, task_link link) {
    if (l.size_class == link_list::none || l.count == std::uint32_t{1} << l.size_class) {
      grow(l);
    }
    links_[l.first + l.count++] = link;
  }
  // Reserves space for `count` links. Precondition: the list is empty and has no space yet.
  void reserve(link_list& l, std::uint32_t count) {
    if (count > 0) {
      l.size_class = ranges::size_class(count);
      l.first = places_.take(l.size_class);
      fit();
    }
  }
  // Removes the last link of the list that equals this one; the last link of all takes its place.
  // Complexity: linear in the list.
  void remove(link_list& l, task_link link) {
    auto* const begin = links_.data() + l.first;
    auto i = l.count;
    while (i > 0 && !(begin[i - 1] == link)) {
      --i;
    }
    UNITY_EXPECTS(i > 0, "a dependency that was linked");
    begin[i - 1] = begin[--l.count];
  }
  void release(link_list& l) {
    if (l.size_class != link_list::none) {
      places_.give_back(l.first, l.size_class);
    }
    l = {};
  }

 private:
  void grow(link_list& l) {
    link_list larger;
    larger.size_class = l.size_class == link_list::none ? 1 : l.size_class + 1;
    larger.first = places_.take(larger.size_class);
    larger.count = l.count;
    fit();
    std::copy_n(links_.begin() + l.first, l.count, links_.begin() + larger.first);
    release(l);
    l = larger;
  }

  void fit() {
    if (links_.size() < places_.end()) {
      links_.resize(std::max(places_.end(), links_.size() + links_.size() / 2));
    }
  }

  ranges places_;
  std::vector<task_link> links_;
};

}  // namespace detail

}  // namespace unity::tasks
