#include <unity/hardware/kernel_model.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/kernel_table.hpp>

namespace tests_of_kernel_model {

namespace {

using namespace unity;
using namespace unity::hardware;

kernel_device board() { return {80, 1.5e9, 6e6, 8e11, 3e-5, {12e12, 11e12, 0.5}}; }

double seconds(const kernel_shape& s, const kernel_device& d = board()) {
  return kernel_seconds(s, d, kernel_coefficients(s.kind));
}

TEST_CASE("the modelled time of large kernels follows the bandwidth or the arithmetic rate") {
  const kernel_shape sum{kernel_kind::elementwise, 1, 50000, 10000, 0, 3};
  CHECK(bytes_of(sum) == 6e9);
  CHECK(seconds(sum) == Approx(6e9 / 8e11).epsilon(0.03));
  const kernel_shape product{kernel_kind::product, 1, 8192, 8192, 4096};
  CHECK(operations_of(product) == 2 * 8192.0 * 8192 * 4096);
  CHECK(seconds(product) == Approx(operations_of(product) / 11e12).epsilon(0.05));
  auto deep = product;
  deep.k *= 16;
  CHECK(seconds(deep) > 1.8 * 16 * seconds(product));
}

TEST_CASE("kernel shapes have the operations and the least bytes of their definitions") {
  struct expectation {
    kernel_shape shape;
    double operations;
    double bytes;
  };
  // All sizes differ, so that no two can be confused.
  const std::vector<expectation> all{
      {{kernel_kind::softmax, 1, 5, 7}, 0, 4.0 * 2 * 35},
      {{kernel_kind::batched_product, 3, 5, 7, 11}, 2.0 * 3 * 5 * 7 * 11, 4.0 * 3 * (5 * 11 + 11 * 7 + 5 * 7)},
      {{kernel_kind::tensor_product, 1, 5, 7, 11, 2, 2}, 2.0 * 5 * 7 * 11, 2.0 * (5 * 11 + 11 * 7 + 5 * 7)},
      // 2 images of 9 x 9 with 3 channels, 5 filters of 3 x 3
      {{kernel_kind::convolution, 2, 9, 5, 3}, 2.0 * 2 * 81 * 5 * 27, 4.0 * (2 * 81 * 3 + 2 * 81 * 5 + 5 * 27)},
      // 6 heads of size 4, 10 queries, 20 keys: two products, and five for the gradient
      {{kernel_kind::attention, 6, 10, 20, 4, 2, 2}, 2 * 2.0 * 6 * 200 * 4, 2.0 * 6 * (2 * 10 + 2 * 20) * 4},
      {{kernel_kind::attention, 6, 10, 20, 4, 2, 2, true}, 2.0 * 6 * 200 * 4, 2.0 * 6 * (2 * 10 + 2 * 20) * 4},
      {{kernel_kind::attention_gradient, 6, 10, 20, 4, 2, 2}, 5 * 2.0 * 6 * 200 * 4, 2.0 * 6 * 4 * (10 + 20) * 4},
      {{kernel_kind::attention_gradient, 6, 10, 20, 4, 2, 2, true}, 5.0 * 6 * 200 * 4, 2.0 * 6 * 4 * (10 + 20) * 4}};
  for (const auto& e : all) {
    CAPTURE(kernel_kind_names[static_cast<std::size_t>(e.shape.kind)], e.shape.causal);
    CHECK(operations_of(e.shape) == e.operations);
    CHECK(bytes_of(e.shape) == e.bytes);
  }
}

// Each product is one 128 x 128 tile, on 80 units: 80 products take as long as 79, and 81 take nearly twice as long.
TEST_CASE("the modelled time of batched products grows with the number of waves") {
  auto d = board();
  d.batched_tile = 0;
  auto c = kernel_coefficients(kernel_kind::batched_product);
  std::vector<double> whole{c.begin(), c.end()};
  whole[6] = 1;
  const auto of = [&](double batch) {
    return kernel_seconds({kernel_kind::batched_product, batch, 128, 128, 1024}, d, whole);
  };
  CHECK(of(80) == Approx(of(79)).epsilon(0.01));
  CHECK(of(81) > 1.8 * of(80));
  CHECK(of(160) == Approx(of(81)).epsilon(0.03));  // two waves as well, with more bytes
}

TEST_CASE("a modelled call takes at least its launch time and adds overhead to long kernels") {
  const auto d = board();
  const kernel_shape one{kernel_kind::elementwise, 1, 1, 1};
  const auto c = kernel_coefficients(kernel_kind::elementwise);
  CHECK(call_seconds(one, d, c) == d.launch_seconds);
  const kernel_shape many{kernel_kind::elementwise, 1, 30000, 30000};
  CHECK(call_seconds(many, d, c) == Approx(kernel_seconds(many, d, c) + c.back() * d.launch_seconds));
}

// Softmax is one kernel for rows of up to 1024 columns and another, which may be faster, for longer rows.
TEST_CASE("the modelled kernel time does not decrease with the problem size") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{200}));
  CAPTURE(seed);
  random_engine random{seed};
  const auto size = [&](double most) { return std::ceil(std::exp(random.unit() * std::log(most))); };
  for (std::size_t kind = 0; kind < kernel_kind_names.size(); ++kind) {
    CAPTURE(kernel_kind_names[kind]);
    const kernel_shape s{static_cast<kernel_kind>(kind), size(64), size(1000), size(1000), size(1000)};
    const auto before = seconds(s);
    CHECK(before > 0);
    const auto check = [&](double kernel_shape::* dimension, double step = 1) {
      auto larger = s;
      larger.*dimension += step * size(100);
      CAPTURE(s.batch, s.m, s.n, s.k, larger.batch, larger.m, larger.n, larger.k);
      CHECK(seconds(larger) >= before * (1 - 1e-12));
    };
    check(&kernel_shape::m);
    if (s.kind != kernel_kind::softmax || s.n > 1024) {
      check(&kernel_shape::n, s.kind == kernel_kind::tensor_product ? 8 : 1);  // keeps the alignment of rows
    }
    if (operations_of(s) > 0) {
      check(&kernel_shape::batch);
    }
    auto faster = board();
    faster.bytes_per_second *= 2;
    faster.rates.brief *= 2;
    faster.rates.sustained *= 2;
    CHECK(seconds(s, faster) <= before);
  }
}

// Blocks of 128 queries on 80 units: twice the keys or heads take twice as long, and a causal mask halves the time.
TEST_CASE("the modelled time of attention scales with heads and keys and the causal mask") {
  const auto of = [&](double heads, double tokens, bool causal) {
    return seconds({kernel_kind::attention, heads, tokens, tokens, 128, 2, 2, causal});
  };
  CHECK(of(2000, 4096, false) == Approx(2 * of(1000, 4096, false)).epsilon(0.02));
  CHECK(of(1000, 8192, false) == Approx(4 * of(1000, 4096, false)).epsilon(0.05));
  CHECK(of(1000, 8192, true) == Approx(of(1000, 8192, false) / 2).epsilon(0.05));
  CHECK(of(1, 4096, true) == of(1, 4096, false));  // the last block sees all keys
  const kernel_shape forward{kernel_kind::attention, 64, 2048, 2048, 128, 2, 2};
  auto backward = forward;
  backward.kind = kernel_kind::attention_gradient;
  CHECK(operations_of(backward) == 2.5 * operations_of(forward));
  CHECK(seconds(backward) > 2 * seconds(forward));
}

TEST_CASE("the modelled tensor cores are slower for rows not aligned to 16 bytes") {
  const auto of = [&](double n) { return seconds({kernel_kind::tensor_product, 1, 8192, n, 8192, 2, 2}); };
  CHECK(is_aligned({kernel_kind::tensor_product, 1, 3, 8, 16, 2, 2}));
  CHECK_FALSE(is_aligned({kernel_kind::tensor_product, 1, 8, 12, 16, 2, 2}));
  CHECK(of(8190) > 2 * of(8192));
  CHECK(of(8191) > 1.2 * of(8190));
}

}  // namespace

}  // namespace tests_of_kernel_model
