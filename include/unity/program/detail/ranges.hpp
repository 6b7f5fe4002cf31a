// Ranges of array places, handed out and taken back.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unity::program::detail {

// Sizes are rounded up to powers of two; what is released is handed out again, last in first out, so the places depend
// on the calls made and on nothing else. Complexity: constant.
class ranges {
 public:
  [[nodiscard]] static constexpr std::uint32_t size_class(std::size_t size) noexcept {
    return size <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(size - 1));
  }

  // The first place of a range of 2^size_class places.
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

  // All places handed out so far lie below.
  [[nodiscard]] std::size_t end() const noexcept { return end_; }

 private:
  std::uint32_t end_ = 0;
  std::array<std::vector<std::uint32_t>, 32> free_{};
};

}  // namespace unity::program::detail
