// The devices of one host and what connects them.
#pragma once

#include <string>
#include <vector>

#include <unity/machine/device.hpp>
#include <unity/machine/link.hpp>

namespace unity::machine {

// Regular. Every rank of a link reaches every other over it.
struct machine {
  std::string name{};
  std::vector<device> devices{};
  std::vector<link> links{};

  friend bool operator==(const machine&, const machine&) = default;
};

}  // namespace unity::machine
