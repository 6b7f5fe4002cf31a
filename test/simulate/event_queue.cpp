#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>

namespace tests_of_event_queue {

using namespace unity;
using simulate::event;

TEST_CASE("event_queue pops events by time and then by tie", "[law]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    simulate::event_queue queue;
    std::vector<event> all;
    const std::int64_t latest = seed % 3 == 0 ? 9 : 3000;
    if (seed % 2 == 0) {
      queue.push({1, 0, 1000});
      queue.clear();
      const auto from = random.between(0, latest / 4);
      queue.spread(from, from + random.between(0, latest), random.below(800));
    }
    for (std::uint32_t i = 0; i < 400; ++i) {
      if (all.empty() || random.below(3) > 0) {
        const event e{random.between(0, latest), random.below(50), i};
        queue.push(e);
        all.push_back(e);
      } else {
        const auto least = std::min_element(all.begin(), all.end(), simulate::earlier);
        const auto got = queue.pop();
        REQUIRE(got.time == least->time);
        REQUIRE(got.tie == least->tie);
        all.erase(std::find_if(all.begin(), all.end(), [&](const event& e) { return e.task == got.task; }));
      }
      REQUIRE(queue.empty() == all.empty());
    }
  }
}

}  // namespace tests_of_event_queue
