#include <unity/core/stable_sort.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <memory>
#include <vector>

#include <unity/core/random.hpp>

namespace tests_of_stable_sort {

namespace {

struct card {
  std::size_t value = 0;
  std::size_t place = 0;
};

TEST_CASE("unity::stable_sort keeps the order of equal elements", "[law]") {
  const auto seed = GENERATE(1U, 2U, 3U, 4U);
  CAPTURE(seed);
  unity::random_engine random{seed};
  std::vector<card> all;
  for (std::size_t i = 0; i < 500; ++i) {
    all.push_back({random.below(20), i});
  }
  unity::stable_sort(all, [](const card& a, const card& b) { return a.value < b.value; });
  REQUIRE(all.size() == 500);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const bool is_in_order =
        all[i - 1].value < all[i].value || (all[i - 1].value == all[i].value && all[i - 1].place < all[i].place);
    CHECK(is_in_order);
  }
}

TEST_CASE("unity::stable_sort sorts move-only elements") {
  std::vector<std::unique_ptr<int>> all;
  for (const int x : {3, 1, 2}) {
    all.push_back(std::make_unique<int>(x));
  }
  unity::stable_sort(all, [](const auto& a, const auto& b) { return *a < *b; });
  CHECK(*all[0] == 1);
  CHECK(*all[2] == 3);
}

}  // namespace

}  // namespace tests_of_stable_sort
