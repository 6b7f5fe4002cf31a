// What the attributes of a node must be where a pattern's node matches it.
#pragma once

#include <cstdint>
#include <vector>

namespace unity {

// Attribute: what stands for one; null is an empty slot.
template <class Attribute>
struct attribute_check {
  std::uint32_t position = 0;
  bool binds = false;
  std::uint32_t slot = 0;  // that is bound
  Attribute literal{};     // that is compared, else
};

// Binds slots, and appends to `bound` those that were empty, also where it fails.
template <class Attribute, class Attributes, class Slots, class Bound>
[[nodiscard]] bool take_attributes(const std::vector<attribute_check<Attribute>>& checks, const Attributes& actual,
                                   Slots& slots, Bound& bound) {
  for (const auto& c : checks) {
    const auto value = actual[c.position];
    if (!c.binds) {
      if (value != c.literal) {
        return false;
      }
    } else if (!slots[c.slot].valid()) {
      slots[c.slot] = value;
      bound.push_back(c.slot);
    } else if (slots[c.slot] != value) {
      return false;
    }
  }
  return true;
}

}  // namespace unity
