#include <catch2/catch.hpp>

#include <unity/hardware/device_rates.hpp>
#include <unity/hardware/device_table.hpp>

namespace tests_of_device_rates {

namespace {

using namespace unity;
using namespace unity::hardware;

TEST_CASE("find_device finds known devices by exact name only") {
  for (const auto& d : known_devices) {
    CAPTURE(d.id);
    const auto found = hardware::find_device(d.id);
    REQUIRE(found);
    CHECK(found->name == d.id);
    CHECK(found->flops_per_second == d.float32);
    CHECK(d.float32 > 0);
    CHECK(d.bytes_per_second > 0);
    CHECK(d.launch_seconds > 0);
    CHECK_FALSE(d.source.empty());
  }
  CHECK(hardware::find_device("v100")->product_efficiency[1][0] == 1);
  CHECK(hardware::find_device("v100")->product_efficiency[0][0] == 2.0 / 3);
  CHECK(hardware::find_device("t4")->product_efficiency[0][0] == 1);
  CHECK_FALSE(hardware::find_device("abacus"));
  CHECK_FALSE(hardware::find_device(""));
}

}  // namespace

}  // namespace tests_of_device_rates
