// Checks on the attributes of a node that a pattern node matches.
#pragma once

#include <cstdint>
#include <vector>

namespace unity {

// `Attribute`: the type that represents an attribute; its null value is an empty slot.
template <class Attribute>
struct attribute_check {
  std::uint32_t position = 0;
  bool binds = false;
  std::uint32_t slot = 0;  // is bound
  Attribute literal{};     // is compared otherwise
};

// Binds slots, and appends those that were empty to `bound`, even if it fails.
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
