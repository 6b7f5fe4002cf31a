// The devices of an operator's tasks, as numbers.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/parallel/configuration.hpp>

namespace unity::parallel::test {

inline std::vector<std::size_t> devices_of(const configuration& c) {
  std::vector<std::size_t> all;
  for (const auto d : c.devices) {
    all.push_back(d.index());
  }
  return all;
}

}  // namespace unity::parallel::test
