// Hash tables over externally stored objects, in flat memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>

namespace unity {

// Maps a hash and an equality test to a 32-bit index: interning without storing keys twice.
// Linear probing, at most half full. Complexity: expected constant time; allocates only to grow.
class index_table {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  // The index whose key has this hash and for which equal(index) holds, or `none`.
  template <class Equal>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, Equal equal) const {
    if (slots_.empty()) {
      return none;
    }
    const auto tag = static_cast<std::uint32_t>(hash >> 32U);
    for (auto i = static_cast<std::size_t>(hash) & mask();; i = (i + 1) & mask()) {
      if (slots_[i].index == none) {
        return none;
      }
      if (slots_[i].tag == tag && equal(slots_[i].index)) {
        return slots_[i].index;
      }
    }
  }

  // Precondition: find(hash, ..) is none.
  void insert(std::uint64_t hash, std::uint32_t index) {
    if (2 * (size_ + 1) > slots_.size()) {
      grow();
    }
    place({hash, static_cast<std::uint32_t>(hash >> 32U), index});
    ++size_;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t memory() const noexcept { return slots_.capacity() * sizeof(slot); }

 private:
  struct slot {
    std::uint64_t hash = 0;
    std::uint32_t tag = 0;
    std::uint32_t index = none;
  };

  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  void place(slot s) {
    auto i = static_cast<std::size_t>(s.hash) & mask();
    while (slots_[i].index != none) {
      i = (i + 1) & mask();
    }
    slots_[i] = s;
  }
  void grow() {
    std::vector<slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    std::swap(old, slots_);
    for (const auto& s : old) {
      if (s.index != none) {
        place(s);
      }
    }
  }

  std::vector<slot> slots_;
  std::size_t size_ = 0;
};

// A set of fingerprints. The all-zero fingerprint counts as a member like any other.
class fingerprint_set {
 public:
  // Whether f was new. Complexity: expected constant time.
  bool insert(fingerprint f) {
    if (f == fingerprint{}) {
      return !std::exchange(holds_zero_, true);
    }
    if (2 * (size_ + 1) > slots_.size()) {
      grow();
    }
    const bool added = place(f);
    size_ += added ? 1 : 0;
    return added;
  }

  // Complexity: expected constant time.
  [[nodiscard]] bool contains(fingerprint f) const noexcept {
    if (f == fingerprint{} || slots_.empty()) {
      return f == fingerprint{} && holds_zero_;
    }
    const auto mask = slots_.size() - 1;
    auto i = static_cast<std::size_t>(mix64(f.low)) & mask;
    while (slots_[i] != fingerprint{} && slots_[i] != f) {
      i = (i + 1) & mask;
    }
    return slots_[i] == f;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_ + (holds_zero_ ? 1 : 0); }
  [[nodiscard]] std::size_t memory() const noexcept { return slots_.capacity() * sizeof(fingerprint); }

  // Calls visit(f) for every member, in no stated order.
  template <class Visit>
  void for_each(Visit visit) const {
    if (holds_zero_) {
      visit(fingerprint{});
    }
    for (const auto& s : slots_) {
      if (s != fingerprint{}) {
        visit(s);
      }
    }
  }

 private:
  bool place(fingerprint f) {
    const auto mask = slots_.size() - 1;
    auto i = static_cast<std::size_t>(mix64(f.low)) & mask;
    for (; slots_[i] != fingerprint{}; i = (i + 1) & mask) {
      if (slots_[i] == f) {
        return false;
      }
    }
    slots_[i] = f;
    return true;
  }
  void grow() {
    std::vector<fingerprint> old(slots_.empty() ? 32 : slots_.size() * 2);
    std::swap(old, slots_);
    for (const auto f : old) {
      if (f != fingerprint{}) {
        place(f);
      }
    }
  }

  std::vector<fingerprint> slots_;
  std::size_t size_ = 0;
  bool holds_zero_ = false;
};

}  // namespace unity
