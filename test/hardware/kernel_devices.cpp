#include <unity/hardware/kernel_devices.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>

#include <unity/core/error.hpp>
#include <unity/hardware/kernel_table.hpp>
#include <unity/hardware/presets.hpp>

namespace tests_of_kernel_devices {

namespace {

using namespace unity;
using namespace unity::hardware;

const kernel_device& of(const hardware::kernel_devices_by_element& all, tensor::dtype e) {
  return all[static_cast<std::size_t>(e)];
}

TEST_CASE("kernel devices take calibrated rates as they are") {
  hardware::device d;
  d.name = "Some H100 of a cloud";
  d.peaks = {{tensor::dtype::float32, "matmul", 3e13}, {tensor::dtype::bfloat16, "matmul", 5e14}};
  d.bytes_per_second = 2e12;
  d.launch_seconds = 4e-6;
  d.sources = {{"bytes_per_second", "measured: sums"}, {"peaks.bfloat16", "measured"}, {"peaks.float32", "measured"}};
  const auto all = hardware::kernel_devices_of(d);
  const auto& narrow = of(all, tensor::dtype::bfloat16);
  CHECK(narrow.rates.brief == 5e14);
  CHECK(narrow.bytes_per_second == 2e12);
  CHECK(narrow.launch_seconds == 4e-6);
  CHECK(narrow.units == 132);  // the board's
  CHECK(of(all, tensor::dtype::float32).rates.sustained == 3e13);
  CHECK(of(all, tensor::dtype::float16).rates.brief == 3e13);  // no rate for float16: uses that of float32
  d.units = 100;
  CHECK(of(hardware::kernel_devices_of(d), tensor::dtype::float32).units == 100);
}

TEST_CASE("kernel devices have measured rates if known and else a share of the data sheet") {
  const auto table_of = [](const char* id) -> const measured_kernel_device& {
    const auto* const found = std::find_if(measured_kernel_devices.begin(), measured_kernel_devices.end(),
                                           [&](const auto& k) { return k.id == id; });
    REQUIRE(found != measured_kernel_devices.end());
    return *found;
  };
  const auto h100_model = *hardware::find_model("h100");
  const auto h100 = hardware::kernel_devices_of(h100_model);
  const auto& measured = table_of("h100");
  for (const auto narrow : {tensor::dtype::bfloat16, tensor::dtype::float16}) {
    CHECK(of(h100, narrow).rates.brief == measured.bfloat16.brief);
    CHECK(of(h100, narrow).rates.sustained == measured.bfloat16.sustained);
    CHECK(of(h100, narrow).rates.deep_share == measured.bfloat16.deep_share);
  }
  CHECK(of(h100, tensor::dtype::bfloat16).rates.brief > 0.6 * 989e12);
  CHECK(of(h100, tensor::dtype::bfloat16).rates.brief < 0.9 * 989e12);
  CHECK(of(h100, tensor::dtype::float32).rates.brief == measured.float32.brief);
  CHECK(of(h100, tensor::dtype::float32).rates.deep_share == measured.float32.deep_share);
  // Measured in float32 and bfloat16 only.
  CHECK(of(h100, tensor::dtype::float64).rates.brief == Approx(34e12 * share_of_float32_rate));
  CHECK(of(h100, tensor::dtype::float64).rates.deep_share == 1);
  CHECK(of(h100, tensor::dtype::float32).bytes_per_second == measured.bytes_per_second);
  CHECK(of(h100, tensor::dtype::float32).bytes_per_second < 3.35e12);
  CHECK(of(h100, tensor::dtype::float32).launch_seconds == h100_model.launch_seconds);
  const auto p100 = hardware::kernel_devices_of(*hardware::find_model("p100"));
  CHECK(of(p100, tensor::dtype::float32).rates.sustained == table_of("p100").float32.sustained);
  CHECK(of(p100, tensor::dtype::float16).rates.brief == Approx(21.2e12 * share_of_bfloat16_rate));  // not measured
  const auto l4 = hardware::kernel_devices_of(*hardware::find_model("l4"));
  CHECK(of(l4, tensor::dtype::float32).rates.brief == Approx(30.3e12 * share_of_float32_rate));
  CHECK(of(l4, tensor::dtype::bfloat16).rates.brief == Approx(121e12 * share_of_bfloat16_rate));
  CHECK(of(l4, tensor::dtype::float32).bytes_per_second == Approx(300e9 * share_of_bandwidth));
  CHECK(of(l4, tensor::dtype::float32).l2 == 50331648);
}

TEST_CASE("kernel_durations_of rejects a device without a float32 rate") {
  hardware::machine m;
  m.name = "pair";
  m.devices.push_back({.name = "odd"});
  const auto operators = tensor::standard_algebra();
  CHECK_THROWS_WITH(hardware::kernel_durations_of(operators, m),
                    "machine pair, device odd: no float32 rate; expected one, to predict times");
}

}  // namespace

}  // namespace tests_of_kernel_devices
