// How programs are simulated that may be too large to simulate all devices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unity::systems {

// Whether a program of all devices would have more than `most` tasks: each operator two on each device of its stage.
[[nodiscard]] constexpr bool is_large_program(std::uint64_t most, std::size_t devices, std::size_t operators,
                                              std::uint32_t stages, std::int64_t microbatches) noexcept {
  return 2 * operators * devices / stages * static_cast<std::uint64_t>(microbatches) > most;
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

}  // namespace unity::systems
