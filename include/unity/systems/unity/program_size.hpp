// Whether a program is small enough to simulate all devices, and how long it takes if not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace unity::systems {

// The number of tasks of operators of one micro-batch on all devices: each operator has two on each device of its
// stage.
[[nodiscard]] constexpr std::uint64_t operator_tasks(std::size_t devices, std::size_t operators,
                                                     std::uint32_t stages) noexcept {
  return 2 * operators * devices / std::max<std::uint32_t>(stages, 1);
}

// Whether a program of all devices would have more than `most` tasks of operators.
[[nodiscard]] constexpr bool is_large_program(std::uint64_t most, std::size_t devices, std::size_t operators,
                                              std::uint32_t stages, std::int64_t microbatches) noexcept {
  return operator_tasks(devices, operators, stages) * static_cast<std::uint64_t>(microbatches) > most;
}

// Whether neither of two programs is too large: one micro-batch on all devices, which is lowered, and all micro-batches
// on one device of each kind, which is simulated.
[[nodiscard]] constexpr bool can_fold_program(std::uint64_t most, std::size_t devices, std::size_t operators,
                                              std::uint32_t stages, std::int64_t microbatches) noexcept {
  constexpr std::uint64_t tasks = 8;  // about so many for each operator, on all kinds of devices and links together
  return !is_large_program(most, devices, operators, stages, 1) &&
         tasks * operators * static_cast<std::uint64_t>(microbatches) <= most;
}

// The number of tasks of one micro-batch up to which a folded program is exact. More would make the program of all
// micro-batches too large.
[[nodiscard]] constexpr std::size_t most_exact_tasks(std::uint64_t most, std::int64_t microbatches) noexcept {
  return static_cast<std::size_t>(most / 8) / static_cast<std::size_t>(microbatches);
}

// Predicts how long folded reports take, from the one that took longest for each task so far.
class folding_pace {
 public:
  [[nodiscard]] double seconds(std::uint64_t operator_tasks) const noexcept {
    return per_task_ * static_cast<double>(operator_tasks);
  }
  // Effects: notes how long a report took.
  void took(std::uint64_t operator_tasks, double seconds) noexcept {
    per_task_ = std::max(per_task_, seconds / static_cast<double>(std::max<std::uint64_t>(operator_tasks, 1)));
  }

 private:
  double per_task_ = 5e-6;  // seconds, including lowering; more once a report took longer
};

}  // namespace unity::systems
