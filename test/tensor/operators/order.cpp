#include <unity/tensor/operators/selection.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_order {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("top_elements gives the first elements of a stable sort") {
  unity::random_engine random{8};
  for (int round = 0; round < 20; ++round) {
    dense<double> x{{2, 7, 3}};
    for (auto& e : x.data) {
      e = static_cast<double>(random.between(-3, 3));  // many equal ones
    }
    for (const int largest : {0, 1}) {
      const auto count = random.between(1, 7);
      CAPTURE(round, largest, count);
      const auto found = run_all("top_elements", {{"axis", 1}, {"count", count}, {"largest", largest}}, {x});
      const auto places = tabulate({2, count, 3}, [&](const shape& p) {
        std::vector<std::int64_t> order(7);
        std::iota(order.begin(), order.end(), std::int64_t{0});
        std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
          const auto a = at(x, {p[0], i, p[2]});
          const auto b = at(x, {p[0], j, p[2]});
          return a == b ? i < j : (largest != 0 ? a > b : a < b);
        });
        return static_cast<double>(order[static_cast<std::size_t>(p[1])]);
      });
      CHECK(found[1] == places);
      CHECK(found[0] == tabulate({2, count, 3}, [&](const shape& p) {
              return at(x, {p[0], static_cast<std::int64_t>(at(places, {p[0], p[1], p[2]})), p[2]});
            }));
    }
  }
  CHECK(refusal_of("top_elements", {{"axis", 0}, {"count", 3}}, {type({2})}) ==
        "as many elements as there are at most");
}

}  // namespace tests_of_order
