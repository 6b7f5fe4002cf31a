#include <unity/parallel/mesh/mesh_tables.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

#include <unity/core/random.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>

namespace tests_of_mesh_tables {

using unity::parallel::price_of_memory;
using unity::parallel::unreachable;

TEST_CASE("memory costs what it costs in 128 bits, up to more than anything takes", "[law]") {
  const std::uint64_t seed = 21;
  INFO("seed " << seed);
  unity::random_engine random{seed};
  std::size_t large = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto bytes = random.between(0, std::int64_t{1} << random.between(1, 62));
    const auto price = random.between(0, std::int64_t{1} << random.between(1, 40));
    CAPTURE(bytes, price);
    __extension__ using wide = __int128;
    const auto exact = static_cast<wide>(bytes / 1024) * price / 1024;
    const auto found = price_of_memory(bytes, price);
    REQUIRE(found <= unreachable);
    if (found != unreachable) {
      REQUIRE(static_cast<wide>(found) == exact);
    } else {
      REQUIRE(exact >= unreachable / 2);
      ++large;
    }
  }
  CHECK(large > 100);
  // 640 GB at the highest of unity's prices.
  CHECK(price_of_memory(640'000'000'000, std::int64_t{1} << 34U) == 10'485'760'000'000'000);
}

}  // namespace tests_of_mesh_tables
