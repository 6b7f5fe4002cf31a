// Values that share one block of a backend's memory: first counted, then placed, then allocated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/program/storage.hpp>

namespace unity::backend::detail {

template <device_backend Backend>
class memory_pool {
 public:
  // Reserves this many bytes from step `first` on; extend it to the last step that needs them.
  std::size_t add(std::size_t size, std::size_t first) {
    values_.push_back({bytes{static_cast<std::int64_t>(size)}, first, first});
    return values_.size() - 1;
  }
  void extend(std::size_t place, std::size_t step) { values_[place].last = std::max(values_[place].last, step); }

  // Throws: unity::error that says for what how much was wanted, if there is not enough memory.
  void allocate(Backend& backend, std::string_view what) {
    plan_ = program::plan_storage(values_, bytes{static_cast<std::int64_t>(memory_alignment)});
    try {
      memory_.emplace(backend.allocate(size()));
    } catch (const error& e) {
      throw error{fmt::format("{}: {} bytes wanted: {}", what, size(), e.what())};
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(plan_.peak.count()); }
  // The size of the block. Unit: bytes.
  [[nodiscard]] std::size_t sum() const noexcept {
    std::int64_t total = 0;
    for (const auto& v : values_) {
      total += v.size.count();
    }
    return static_cast<std::size_t>(total);
  }
  // By place.
  [[nodiscard]] const std::vector<program::stored_value>& values() const noexcept { return values_; }
  [[nodiscard]] std::byte* at(std::size_t place) { return memory_->data() + plan_.offsets[place].count(); }

 private:
  std::vector<program::stored_value> values_;
  program::storage_plan plan_;
  std::optional<typename Backend::memory> memory_;
};

}  // namespace unity::backend::detail
