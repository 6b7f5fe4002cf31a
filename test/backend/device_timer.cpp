#include <unity/backend/device_timer.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/tensor/algebra.hpp>

#include "toy_host.hpp"

namespace tests_of_device_timer {

namespace {

using namespace unity;
using namespace unity::backend;
using tensor::tensor_type;
using backend::test::operators;

// What a toy device did.
struct diary {
  std::size_t runs = 0;
  std::size_t waits = 0;
  std::size_t packs = 0;
  std::size_t allocated = 0;                               // bytes
  std::vector<std::vector<const std::byte*>> operands{};  // of each run
  std::set<const std::byte*> results{};
  std::set<const std::byte*> packed{};
  std::set<std::byte*> workspaces{};
};

// A device that does nothing but keep a diary, and takes the time that it is told.
class toy_backend : public backend::test::toy_host {
 public:
  struct kernel {
    std::size_t work = 0;
    [[nodiscard]] std::size_t workspace() const { return work; }
  };

  [[nodiscard]] device_description description() const {
    return {"toy", "a diary, 1 thread", {{"ink", "1.2"}, {"paper", "3"}}};
  }
  [[nodiscard]] memory allocate(std::size_t bytes) {
    diary_.allocated += bytes;
    return toy_host::allocate(bytes);
  }
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor_type>,
                               std::span<const tensor_type>) {
    if (operators().signature(op.kind).name == "tanh") {
      throw error{"tanh", "no kernel", "another operator"};
    }
    return {128};
  }
  void run(const kernel&, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    ++diary_.runs;
    diary_.operands.emplace_back(in.begin(), in.end());
    diary_.results.insert(out.begin(), out.end());
    diary_.workspaces.insert(work);
    std::memset(work, 1, 128);
    const auto until = std::chrono::steady_clock::now() + busy;
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  void wait() { ++diary_.waits; }

  [[nodiscard]] diary& log() { return diary_; }
  std::chrono::microseconds busy{0};

 protected:
  diary diary_;
};
static_assert(device_backend<toy_backend>);
static_assert(!clocked_backend<toy_backend> && !packing_backend<toy_backend>);
static_assert(kernel_timer<device_timer<toy_backend>, tensor::algebra>);

// With a clock of its own, on which runs take 2, 4, 6, ... microseconds.
class clocked_toy : public toy_backend {
 public:
  using moment = std::size_t;
  [[nodiscard]] moment mark() const { return diary_.runs; }
  [[nodiscard]] double seconds(moment from, moment to) const {
    double sum = 0;
    for (auto run = from; run < to; ++run) {
      sum += 2e-6 * static_cast<double>(run + 1);
    }
    return sum;
  }
};
static_assert(clocked_backend<clocked_toy>);

// Packs operand 1 into twice the bytes.
class packing_toy : public toy_backend {
 public:
  struct kernel : toy_backend::kernel {
    std::size_t plain = 0;
    [[nodiscard]] std::size_t packed_size(std::size_t i) const { return i == 1 ? 2 * plain : 0; }
  };
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor_type> in,
                               std::span<const tensor_type> out) {
    return {toy_backend::prepare(op, in, out), byte_count(in[1])};
  }
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    toy_backend::run(k, in, out, work);
  }
  void pack(const kernel& k, std::size_t i, const std::byte* from, std::byte* to) {
    REQUIRE(i == 1);
    ++diary_.packs;
    std::memcpy(to, from, k.plain);
    std::memcpy(to + k.plain, from, k.plain);
    diary_.packed.insert(to);
  }
};
static_assert(packing_backend<packing_toy>);

// Replays what it recorded: as many runs, which take what its clock says.
class recording_toy : public clocked_toy {
 public:
  using recording = std::size_t;  // runs
  template <class F>
  [[nodiscard]] recording record(const F& f) {
    const auto before = diary_;
    f();
    const auto runs = diary_.runs - before.runs;
    diary_ = before;  // nothing ran
    ++recordings;
    return runs;
  }
  void replay(const recording& runs) {
    diary_.runs += runs;
    ++replays;
  }
  int recordings = 0;
  int replays = 0;
};
static_assert(recording_backend<recording_toy> && clocked_backend<recording_toy>);

tensor_type matrix(std::int64_t rows, std::int64_t columns, bool constant = false) {
  return {tensor::dtype::float32, tensor::layout::row_major, constant, {rows, columns}};
}
template <class Backend>
measurement time_matmul(Backend& b, timing_options o, std::int64_t size, bool constant) {
  const auto op = operators().make_operation("matmul");
  const std::vector<tensor_type> in{matrix(size, size), matrix(size, size, constant)};
  return device_timer{b, o}.time(op, in, *operators().infer(op, in));
}

TEST_CASE("the device timer with a device clock summarizes the runs after the warm-up") {
  clocked_toy b;
  timing_options o;
  o.warm_up = 3;
  o.least = 5;
  o.most = 5;
  o.sample_seconds = 0;
  // Runs 4 to 8 take 8, 10, 12, 14 and 16 us.
  CHECK(time_matmul(b, o, 4, false) ==
        measurement{picoseconds{12'000'000}, picoseconds{8'800'000}, picoseconds{15'200'000}, 5});
  CHECK(b.log().runs == 8);
}

TEST_CASE("the device timer repeats short kernels in a sample and reports the time of one run") {
  clocked_toy b;
  timing_options o;
  o.warm_up = 1;
  o.least = o.most = 1;
  o.sample_seconds = 19e-6;
  // The warm-up takes 2 us, so ten runs make a sample: of 4, 6, ... 22 us.
  const auto m = time_matmul(b, o, 4, false);
  CHECK(m == measurement{picoseconds{13'000'000}, picoseconds{13'000'000}, picoseconds{13'000'000}, 1});
  CHECK(b.log().runs == 11);
}

TEST_CASE("the device timer times the second of two replays of a recording") {
  recording_toy b;
  timing_options o;
  o.warm_up = 1;
  o.least = o.most = 3;
  o.sample_seconds = 19e-6;
  // The warm-up takes 2 us, so ten runs make a recording. Each sample replays it twice and times the second.
  const auto m = time_matmul(b, o, 4, false);
  CHECK(b.recordings == 1);
  CHECK(b.replays == 6);
  CHECK(b.log().runs == 1 + 6 * 10);
  // Of the second sample: runs 32 to 41, of 64, 66 ... 82 us.
  CHECK(m.median == picoseconds{73'000'000});
  CHECK(m.repetitions == 3);
}

TEST_CASE("the device timer without a device clock measures host time until completion") {
  toy_backend b;
  b.busy = std::chrono::microseconds{300};
  timing_options o;
  o.seconds = 0;
  const auto m = time_matmul(b, o, 4, false);
  CHECK(m.repetitions == 5);
  CHECK(m.median >= picoseconds{300'000'000});
  CHECK(m.median < picoseconds{3'000'000'000});
  CHECK(b.log().waits >= b.log().runs);
}

TEST_CASE("the device timer limits samples by time and by a maximum number") {
  toy_backend b;
  b.busy = std::chrono::microseconds{1000};
  timing_options o;
  o.seconds = 0.02;
  const auto some = time_matmul(b, o, 4, false);
  CHECK(some.repetitions >= 5);
  CHECK(some.repetitions <= 20);
  b.busy = {};
  o.seconds = 1e9;
  o.most = 30;
  CHECK(time_matmul(b, o, 4, false).repetitions == 30);
}

TEST_CASE("the device timer runs a slow kernel three times") {
  toy_backend b;
  b.busy = std::chrono::microseconds{3000};
  timing_options o;
  o.seconds = 0.001;
  o.most_seconds = 0.002;
  CHECK(time_matmul(b, o, 4, false).repetitions == 2);
  CHECK(b.log().runs == 3);
}

TEST_CASE("the device timer cycles constants and activations through their memory budgets") {
  toy_backend b;
  timing_options o;
  o.sample_seconds = 0;
  o.constant_bytes = std::size_t{40} << 10U;    // ten matrices of 32 by 32
  o.activation_bytes = std::size_t{24} << 10U;  // three times an operand and a result
  o.seconds = 0;
  o.least = 20;
  time_matmul(b, o, 32, true);
  const auto& runs = b.log().operands;
  REQUIRE(runs.size() >= 20);
  std::set<const std::byte*> activations;
  std::set<const std::byte*> constants;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    activations.insert(runs[i][0]);
    constants.insert(runs[i][1]);
    CHECK(runs[i][0] == runs[i % 3][0]);
    CHECK(runs[i][1] == runs[i % 10][1]);
  }
  CHECK(activations.size() == 3);
  CHECK(constants.size() == 10);
  CHECK(b.log().results.size() == 3);
  CHECK(b.log().workspaces.size() == 1);
}

TEST_CASE("the device timer uses 1 operand set for a tiny budget and 64 for a large one") {
  toy_backend b;
  timing_options o;
  o.constant_bytes = 1;
  o.activation_bytes = 0;
  time_matmul(b, o, 32, true);
  CHECK(std::set<std::vector<const std::byte*>>(b.log().operands.begin(), b.log().operands.end()).size() == 1);
  toy_backend c;
  o.constant_bytes = std::size_t{1} << 30U;
  o.least = 100;
  time_matmul(c, o, 4, true);
  CHECK(std::set<std::vector<const std::byte*>>(c.log().operands.begin(), c.log().operands.end()).size() == 64);
  CHECK(c.log().allocated < (std::size_t{1} << 20U));
}

TEST_CASE("the device timer packs each constant operand once and does not pack activations") {
  packing_toy b;
  timing_options o;
  o.constant_bytes = std::size_t{32} << 10U;
  time_matmul(b, o, 32, true);
  CHECK(b.log().packs == 4);
  for (const auto& run : b.log().operands) {
    CHECK(b.log().packed.contains(run[1]));
    CHECK_FALSE(b.log().packed.contains(run[0]));
  }
  packing_toy c;
  time_matmul(c, o, 32, false);
  CHECK(c.log().packs == 0);
}

TEST_CASE("the device timer's operands are finite with positive constants and small integers") {
  const auto values = [](tensor::dtype element, bool constant) {
    return backend::arbitrary_bytes({element, tensor::layout::row_major, constant, {1000}}, 1000);
  };
  const auto elements = [&]<class T>(T, tensor::dtype element, bool constant) {
    const auto bytes = values(element, constant);
    REQUIRE(bytes.size() == 1000 * sizeof(T));
    std::vector<T> all(1000);
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  };
  const auto within = [](const auto& all, double low, double high) {
    return std::all_of(all.begin(), all.end(),
                       [&](auto x) { return static_cast<double>(x) >= low && static_cast<double>(x) <= high; });
  };
  CHECK(within(elements(float{}, tensor::dtype::float32, true), 0.5, 1));
  CHECK(within(elements(double{}, tensor::dtype::float64, true), 0.5, 1));
  const auto mixed = elements(float{}, tensor::dtype::float32, false);
  CHECK(within(mixed, -1, 1));
  CHECK(std::count_if(mixed.begin(), mixed.end(), [](float x) { return x < 0; }) > 100);
  CHECK(std::all_of(mixed.begin(), mixed.end(), [](float x) { return std::abs(x) >= 0.5F; }));
  CHECK(within(elements(std::int64_t{}, tensor::dtype::int64, false), 0, 3));
  CHECK(within(elements(std::int32_t{}, tensor::dtype::int32, true), 0, 3));
  CHECK(within(elements(std::uint8_t{}, tensor::dtype::uint8, false), 0, 3));
  CHECK(within(elements(std::uint8_t{}, tensor::dtype::boolean, false), 0, 1));
  for (const auto bits : elements(std::uint16_t{}, tensor::dtype::float16, false)) {
    CHECK(((bits & 0x7c00U) == 0x3800U ||
           (bits & 0x7fffU) == 0x3c00U));  // the exponent of 1/2, 14 of 31; or rounded to 1
  }
  for (const auto bits : elements(std::uint16_t{}, tensor::dtype::bfloat16, true)) {
    const auto wide = static_cast<std::uint32_t>(bits) << 16U;
    float x = 0;
    std::memcpy(&x, &wide, sizeof x);
    CHECK((x >= 0.5F && x <= 1));
  }
}

TEST_CASE("the device timer's description names device and versions and settings in one line") {
  toy_backend b;
  const device_timer timer{b};
  const auto text = timer.description();
  CHECK_THAT(text, Catch::StartsWith("toy: a diary, 1 thread; ink 1.2; paper 3; unity " +
                                     std::to_string(UNITY_VERSION_MAJOR) + "." + std::to_string(UNITY_VERSION_MINOR) +
                                     "." + std::to_string(UNITY_VERSION_PATCH) + " by "));
  CHECK_THAT(text, Catch::EndsWith("; constants from 128 MiB, activations from 8 MiB; 5 to 200 runs"));
  CHECK(text.find('\n') == std::string::npos);
  timing_options warm;
  warm.constant_bytes = 0;
  CHECK(device_timer{b, warm}.description() != text);
  warm = {};
  warm.activation_bytes = 0;
  CHECK(device_timer{b, warm}.description() != text);
}

TEST_CASE("the device timer throws an error for an operator without a kernel") {
  toy_backend b;
  device_timer timer{b};
  const auto op = operators().make_operation("tanh");
  const std::vector<tensor_type> types{matrix(4, 4)};
  CHECK_THROWS_WITH(timer.time(op, types, types), Catch::Contains("tanh"));
}

}  // namespace

}  // namespace tests_of_device_timer
