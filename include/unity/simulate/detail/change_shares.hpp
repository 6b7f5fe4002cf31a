// How much of what follows an edit usually changes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace unity::simulate::detail {

// Learns from edits what share of the tasks after their first change they changed, apart for edits of different sizes
// (new tasks, by powers of two). Depends on the edits alone, never on time.
class change_shares {
 public:
  // From this share on it is faster to time all tasks that follow, and no more than 1.5 times those that change.
  static constexpr double most = 0.67;

  [[nodiscard]] bool expects_most(std::size_t size) const noexcept { return shares_[slot(size)] > most; }
  // is_complete: the edit was not stopped before all of them were looked at; else it changed at least so many.
  void learn(std::size_t size, std::uint64_t changed, std::uint64_t of, bool is_complete) noexcept {
    auto& share = shares_[slot(size)];
    const auto seen = static_cast<double>(changed) / static_cast<double>(std::max<std::uint64_t>(of, 1));
    if (is_complete || seen > share) {
      share += (seen - share) / 4;
    }
  }

 private:
  [[nodiscard]] static std::size_t slot(std::size_t size) noexcept {
    return static_cast<std::size_t>(std::bit_width(size));
  }

  std::array<double, 65> shares_{};
};

}  // namespace unity::simulate::detail
