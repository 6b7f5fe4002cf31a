// dPRO's decisions about a job: which operators run as one, which tensors are synchronized as one, and in how many
// parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/hash.hpp>

namespace unity::systems {

// For a dpro_view. Regular.
struct dpro_strategy {
  std::vector<std::uint8_t> fused{};   // by operator: 1: fused with the operator before it
  std::vector<std::uint8_t> joined{};  // by tensor: 1: in the bucket of the tensor before it
  std::vector<std::uint32_t> parts{};  // by tensor: of the bucket whose last tensor it is; otherwise 1

  [[nodiscard]] unity::fingerprint fingerprint() const {
    hasher h{fused.size()};
    for (const auto f : fused) {
      h.add(f);
    }
    for (const auto j : joined) {
      h.add(j);
    }
    for (const auto p : parts) {
      h.add(p);
    }
    return h.result();
  }
  friend bool operator==(const dpro_strategy&, const dpro_strategy&) = default;
};

}  // namespace unity::systems
