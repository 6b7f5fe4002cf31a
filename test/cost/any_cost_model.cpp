#include <unity/cost/cost_model.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

namespace tests_of_any_cost_model {

namespace {

using namespace unity;

using any = any_cost_model<std::string>;
static_assert(cost_model<any, std::string>);
static_assert(std::is_constructible_v<any, cost_value (*)(const std::string&, cost_value)>);
static_assert(!std::is_constructible_v<any, cost_value (*)(const std::string&)>);

TEST_CASE("a type-erased cost model is exact without a limit or below it") {
  int priced = 0;
  const any length{[&](const std::string& g, cost_value limit) {
    ++priced;
    return std::min(static_cast<cost_value>(g.size()), limit);
  }};
  CHECK(length.cost("graph") == 5);
  CHECK(length.cost_below("graph", 6) == 5);
  CHECK(length.cost_below("graph", 3) >= 3);
  const auto copy = length;
  CHECK(copy.cost("") == 0);
  CHECK(priced == 4);
}

}  // namespace

}  // namespace tests_of_any_cost_model
