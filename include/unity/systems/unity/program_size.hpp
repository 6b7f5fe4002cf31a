// How programs are simulated that may be too large to simulate all devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace unity::systems {

// The tasks of operators of a micro-batch on all devices: each operator two on each device of its stage.
[[nodiscard]] constexpr std::uint64_t operator_tasks(std::size_t devices, std::size_t operators,
                                                     std::uint32_t stages) noexcept {
  return 2 * operators * devices / std::max<std::uint32_t>(stages, 1);
}

// Whether a program of all devices would have more than `most` tasks of operators.
[[nodiscard]] constexpr bool is_large_program(std::uint64_t most, std::size_t devices, std::size_t operators,
                                              std::uint32_t stages, std::int64_t microbatches) noexcept {
  return operator_tasks(devices, operators, stages) * static_cast<std::uint64_t>(microbatches) > most;
}

// Whether one micro-batch can be lowered for all devices, and all micro-batches simulated for one device of each kind.
[[nodiscard]] constexpr bool can_fold_program(std::uint64_t most, std::size_t devices, std::size_t operators,
                                              std::uint32_t stages, std::int64_t microbatches) noexcept {
  constexpr std::uint64_t tasks = 8;  // of an operator, about, on all kinds of devices and links
  return !is_large_program(most, devices, operators, stages, 1) &&
         tasks * operators * static_cast<std::uint64_t>(microbatches) <= most;
}

// The tasks of a micro-batch that a folded program may keep to be exact, so that many can be simulated.
[[nodiscard]] constexpr std::size_t most_exact_tasks(std::uint64_t most, std::int64_t microbatches) noexcept {
  return static_cast<std::size_t>(most / 8) / static_cast<std::size_t>(microbatches);
}

// Predicts how long folded reports take, by the slowest so far.
class folding_pace {
 public:
  [[nodiscard]] double seconds(std::uint64_t operator_tasks) const noexcept {
    return per_task_ * static_cast<double>(operator_tasks);
  }
  // Effects: notes that one took so many seconds.
  void took(std::uint64_t operator_tasks, double seconds) noexcept {
    per_task_ = std::max(per_task_, seconds / static_cast<double>(std::max<std::uint64_t>(operator_tasks, 1)));
  }

 private:
  double per_task_ = 5e-6;  // on the machine of docs/performance.md, with what is lowered beside
};

}  // namespace unity::systems
