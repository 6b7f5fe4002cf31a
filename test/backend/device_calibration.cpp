#include <unity/backend/calibration.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/hardware/kernel_devices.hpp>

#include "toy_host.hpp"

namespace tests_of_device_calibration {

namespace {

using namespace unity;
using namespace unity::backend;
using backend::test::operators;
using tensor::tensor_type;

// A device with a simulated clock that follows a roofline: 1 us, 2 TFLOP/s (convolutions 1), 100 GB/s.
class toy_backend : public backend::test::toy_clock {
 public:
  [[nodiscard]] device_description description() const { return {"toy", "a clock", {{"tock", "2"}, {"tick", "1"}}}; }
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor_type> in,
                               std::span<const tensor_type> out) {
    ++prepared;
    const auto work = operators().work(op, in, out);
    const auto rate = operators().signature(op.kind).name == "conv2d" ? 1e12 : 2e12;
    return {slowness * (1e-6 + std::max(static_cast<double>(work.operations.count()) / rate,
                                        static_cast<double>(work.moved.count()) / 1e11))};
  }

  double slowness = 1;
  int prepared = 0;
};
static_assert(clocked_backend<toy_backend> && !accelerator_backend<toy_backend> && !narrow_float_backend<toy_backend>);

// The same device as an accelerator beside the host, with native bfloat16 products.
class toy_accelerator : public toy_backend {
 public:
  [[nodiscard]] std::size_t memory_size() const { return 12345; }
  [[nodiscard]] bool multiplies(tensor::dtype t) const { return t == tensor::dtype::bfloat16; }
};
static_assert(accelerator_backend<toy_accelerator> && narrow_float_backend<toy_accelerator>);

TEST_CASE("device calibration finds the peak rates and bandwidth and launch overhead") {
  toy_backend b;
  const auto d = calibrate_device(b, operators(), {.stream_bytes = 8 << 20});
  CHECK(d.name == "a clock");
  CHECK(d.versions == std::vector<std::pair<std::string, std::string>>{{"tick", "1"}, {"tock", "2"}});
  REQUIRE(d.peaks.size() == 2);
  CHECK(d.peaks[0].operation == "matmul");
  CHECK(d.peaks[0].flops_per_second == Approx(2e12).epsilon(0.01));
  CHECK(d.peaks[1].operation == "conv2d");
  CHECK(d.peaks[1].flops_per_second == Approx(1e12).epsilon(0.01));
  CHECK(d.bytes_per_second == Approx(1e11).epsilon(0.01));
  CHECK(d.launch_seconds == Approx(1e-6).epsilon(0.01));
  CHECK(d.host_bytes_per_second > 1e6);  // copies run at this host's speed
  CHECK(b.prepared == 6 + 5 + 2 + 1);
  CHECK(d.kind == hardware::device_kind::cpu);
  CHECK(d.memory > bytes{std::int64_t{64} << 20U});  // this host's memory
}

TEST_CASE("an accelerator is calibrated with its own memory size and bfloat16 peaks") {
  toy_accelerator b;
  const auto d = calibrate_device(b, operators(), {.stream_bytes = 8 << 20});
  CHECK(d.kind == hardware::device_kind::gpu);
  CHECK(d.memory == bytes{12345});
  REQUIRE(d.peaks.size() == 4);
  CHECK(d.peaks[0].element == tensor::dtype::float32);
  CHECK(d.peaks[2].element == tensor::dtype::bfloat16);
  CHECK(d.peaks[2].operation == "matmul");
  CHECK(d.peaks[2].flops_per_second == Approx(2e12).epsilon(0.01));
  CHECK(d.peaks[3].element == tensor::dtype::bfloat16);
  CHECK(d.peaks[3].operation == "conv2d");
  CHECK(hardware::peak_flops_per_second(d, tensor::dtype::float16) == std::nullopt);
}

TEST_CASE("the kernel cost model uses the calibrated rates") {
  toy_accelerator b;
  hardware::machine m;
  m.devices = {calibrate_device(b, operators(), {.stream_bytes = 8 << 20})};
  const auto& d = m.devices[0];
  const auto kernels = hardware::kernel_devices_of(d);
  for (const auto element : {tensor::dtype::float32, tensor::dtype::bfloat16}) {
    const auto& k = kernels[static_cast<std::size_t>(element)];
    CHECK(k.rates.brief == hardware::peak_flops_per_second(d, element));
    CHECK(k.bytes_per_second == d.bytes_per_second);
    CHECK(k.launch_seconds == d.launch_seconds);
  }
  const tensor_type large{tensor::dtype::float32, tensor::layout::row_major, false, {100'000'000}};
  const std::vector operands{large, large};
  const auto sum = hardware::kernel_durations_of(operators(), m)
                       .duration_of(0, operators().make_operation("add"), operands, {&large, 1});
  CHECK(to_seconds(sum.expected) == Approx(12e8 / 1e11).epsilon(0.03));
}

TEST_CASE("device calibration measures fewer sizes on a slow device") {
  toy_backend b;
  b.slowness = 1e6;
  const auto d = calibrate_device(b, operators(), {.stream_bytes = 4096, .slow_seconds = 0.3});
  CHECK(d.launch_seconds == Approx(1).epsilon(0.01));
  CHECK(b.prepared == 1 + 1 + 2 + 1);
}

}  // namespace

}  // namespace tests_of_device_calibration
