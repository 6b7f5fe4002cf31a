// Whether a strategy fits the memory of its devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/tasks/fragment.hpp>

namespace unity::parallel {

// Per device; 0: unknown, no limit.
[[nodiscard]] std::vector<bytes> memory_limits(const hardware::machine& m);

struct memory_excess {
  std::size_t device = 0;
  bytes over{};

  friend bool operator==(const memory_excess&, const memory_excess&) = default;
};

// Devices whose peak is above their limit, ascending.
[[nodiscard]] std::vector<memory_excess> excess_over(std::span<const bytes> limits, std::span<const bytes> peaks);

// "n0/gpu1 needs 1234 bytes more than its 5678", for the device with the largest excess. Empty if all fit.
[[nodiscard]] std::string describe(const hardware::machine& m, std::span<const memory_excess> all);

// Per device the sum of all buffers, regardless of when they are held: an upper bound on the peak, updated
// incrementally.
class buffer_sums {
 public:
  explicit buffer_sums(std::size_t devices) : sums_(devices) {}

  void add(const tasks::fragment& f);
  void remove(const tasks::fragment& f);
  [[nodiscard]] std::span<const bytes> sums() const noexcept { return sums_; }

 private:
  std::vector<bytes> sums_;
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_MEMORY_LIMITS)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<bytes> memory_limits(const hardware::machine& m) {
  std::vector<bytes> all;
  for (std::size_t d = 0; d < m.network.device_count(); ++d) {
    all.push_back(hardware::model_of(m, hardware::device_id{d}).memory);
  }
  return all;
}

UNITY_INLINE std::vector<memory_excess> excess_over(std::span<const bytes> limits, std::span<const bytes> peaks) {
  std::vector<memory_excess> all;
  for (std::size_t d = 0; d < std::min(limits.size(), peaks.size()); ++d) {
    if (limits[d] > bytes{} && peaks[d] > limits[d]) {
      all.push_back({d, peaks[d] - limits[d]});
    }
  }
  return all;
}

UNITY_INLINE std::string describe(const hardware::machine& m, std::span<const memory_excess> all) {
  const auto worst =
      std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.over < b.over; });
  if (worst == all.end()) {
    return {};
  }
  const hardware::device_id d{worst->device};
  return fmt::format("{} needs {} bytes more than its {}{}", m.network[d].name, worst->over.count(),
                     hardware::model_of(m, d).memory.count(),
                     all.size() == 1   ? ""
                     : all.size() == 2 ? ", and so does 1 other"
                                       : fmt::format(", and so do {} others", all.size() - 1));
}

UNITY_INLINE void buffer_sums::add(const tasks::fragment& f) {
  for (const auto& b : f.buffers) {
    sums_[b.device] += b.size;
  }
}

UNITY_INLINE void buffer_sums::remove(const tasks::fragment& f) {
  for (const auto& b : f.buffers) {
    sums_[b.device] -= b.size;
  }
}

}  // namespace unity::parallel

#endif
