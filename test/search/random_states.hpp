// Random spaces of numbered states with many equal costs, for comparing searches with plain ones.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>

#include "../support/explicit_space.hpp"

namespace unity::test {

// 2 to 39 states of cost 90 to 109 with up to four edges each, of which a tenth leads nowhere.
inline explicit_space random_states(random_engine& random) {
  const auto states = static_cast<std::uint32_t>(2 + random.below(38));
  explicit_space s;
  for (std::uint32_t i = 0; i < states; ++i) {
    s.costs.push_back(static_cast<cost_value>(90 + random.below(20)));
    s.edges.emplace_back();
    for (auto more = random.below(5); more > 0; --more) {
      const auto to = static_cast<std::uint32_t>(random.below(states));
      s.edges.back().push_back(random.below(10) == 0 ? explicit_space::nowhere : to);
    }
  }
  return s;
}

}  // namespace unity::test
