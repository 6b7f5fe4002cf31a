#include <unity/tensor/operators/pooling.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_pooling {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

struct naive_pool {
  bool average = false;
  bool ceil = false;
  bool count_padding = false;
  shape kernel{1, 1};
  shape stride{1, 1};
  shape dilation{1, 1};
  shape pads{0, 0, 0, 0};

  // Counts, one by one, the windows that begin inside the image or the padding before it.
  [[nodiscard]] std::int64_t out(std::size_t d, std::int64_t in) const {
    const auto reach = (kernel[d] - 1) * dilation[d] + 1;
    std::int64_t windows = 0;
    for (auto begin = -pads[d]; begin < in; begin += stride[d]) {
      const bool fits = begin + reach <= in + pads[2 + d];
      const bool previous_ended = begin == -pads[d] || begin - stride[d] + reach < in + pads[2 + d];
      windows += fits || (ceil && previous_ended) ? 1 : 0;
    }
    return windows;
  }

  [[nodiscard]] dense<double> operator()(const dense<double>& x) const {
    const shape in{x.dims[2], x.dims[3]};
    return tabulate({x.dims[0], x.dims[1], out(0, in[0]), out(1, in[1])}, [&](const shape& p) {
      double sum = 0;
      double largest = -HUGE_VAL;
      int count = 0;
      for (std::int64_t i = 0; i < kernel[0]; ++i) {
        for (std::int64_t j = 0; j < kernel[1]; ++j) {
          const auto y = p[2] * stride[0] + i * dilation[0] - pads[0];
          const auto z = p[3] * stride[1] + j * dilation[1] - pads[1];
          const bool inside = y >= 0 && y < in[0] && z >= 0 && z < in[1];
          const bool padded = y < in[0] + pads[2] && z < in[1] + pads[3];
          count += inside || (count_padding && padded) ? 1 : 0;
          if (inside) {
            sum += at(x, {p[0], p[1], y, z});
            largest = std::max(largest, at(x, {p[0], p[1], y, z}));
          }
        }
      }
      return average ? sum / count : largest;
    });
  }
};

}  // namespace

TEST_CASE("pools agree with nested loops for random stride / padding / dilation / mode") {
  unity::random_engine random{1};
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    naive_pool naive;
    naive.average = random.below(2) == 0;
    naive.ceil = random.below(2) == 0;
    naive.count_padding = naive.average && random.below(2) == 0;
    for (std::size_t d = 0; d < 2; ++d) {
      naive.kernel[d] = random.between(1, 4);
      naive.stride[d] = random.between(1, 3);
      naive.dilation[d] = naive.average ? 1 : random.between(1, 2);
      naive.pads[d] = random.between(0, naive.kernel[d] / 2);
      naive.pads[2 + d] = random.between(0, naive.kernel[d] / 2);
    }
    const auto x = random_tensor(
        {random.between(1, 2), random.between(1, 3), random.between(7, 11), random.between(7, 11)}, random);
    const auto mode = naive.ceil ? 1 : 0;
    const auto found = naive.average ? run("average_pool",
                                           {{"kernel", naive.kernel},
                                            {"stride", naive.stride},
                                            {"pads", naive.pads},
                                            {"ceil_mode", mode},
                                            {"count_include_pad", naive.count_padding ? 1 : 0}},
                                           {x})
                                     : run("max_pool",
                                           {{"kernel", naive.kernel},
                                            {"stride", naive.stride},
                                            {"pads", naive.pads},
                                            {"dilation", naive.dilation},
                                            {"ceil_mode", mode}},
                                           {x});
    CHECK(distance(found, naive(x)) < 1e-14);
  }
}

TEST_CASE("pools with padding same equal pools with explicit pads") {
  unity::random_engine random{2};
  const auto x = random_tensor({1, 2, 7, 8}, random);
  const shape kernel{3, 2};
  const shape stride{2, 1};
  // height: 4 windows of reach 3 over 7 need 2 more; width: 8 windows of reach 2 over 8 need 1 more
  CHECK(run("max_pool", {{"kernel", kernel}, {"stride", stride}, {"padding", "same"}}, {x}) ==
        run("max_pool", {{"kernel", kernel}, {"stride", stride}, {"pads", {1, 0, 1, 1}}}, {x}));
  CHECK(run("max_pool", {{"kernel", kernel}, {"stride", stride}, {"padding", "same_lower"}}, {x}) ==
        run("max_pool", {{"kernel", kernel}, {"stride", stride}, {"pads", {1, 1, 1, 0}}}, {x}));
  CHECK(run("average_pool", {{"kernel", kernel}, {"stride", stride}, {"padding", "same"}, {"count_include_pad", 1}},
            {x}) == run("average_pool",
                        {{"kernel", kernel}, {"stride", stride}, {"pads", {1, 0, 1, 1}}, {"count_include_pad", 1}},
                        {x}));
}

TEST_CASE("average_pool equals a depthwise convolution with pool_kernel") {
  unity::random_engine random{3};
  const auto x = random_tensor({2, 3, 6, 5}, random);
  const auto kernel = run("pool_kernel", {{"channels", 3}, {"kernel", {2, 3}}}, {});
  CHECK(distance(run("conv2d", {{"groups", 3}}, {x, kernel}), run("average_pool", {{"kernel", {2, 3}}}, {x})) < 1e-14);
}

TEST_CASE("ceil_mode drops a window that would begin beyond the image") {
  CHECK(shapes("max_pool", {{"kernel", {2, 2}}, {"stride", {2, 2}}, {"ceil_mode", 1}}, {type({1, 1, 5, 4})})[0] ==
        shape{1, 1, 3, 2});
  CHECK(shapes("max_pool", {{"kernel", {1, 1}}, {"stride", {3, 3}}, {"ceil_mode", 1}}, {type({1, 1, 3, 4})})[0] ==
        shape{1, 1, 1, 2});
}

TEST_CASE("global pools equal reductions over the image") {
  unity::random_engine random{4};
  const auto x = random_tensor({2, 3, 5, 4}, random);
  CHECK(distance(run("global_average_pool", {}, {x}), run("reduce_mean", {{"axes", {2, 3}}}, {x})) < 1e-15);
  CHECK(run("global_max_pool", {}, {x}) == run("reduce_max", {{"axes", {2, 3}}}, {x}));
  CHECK(refusal_of("global_max_pool", {}, {type({2, 3, 5})}) == "rank 4 in operand 0");
}

TEST_CASE("pools refuse invalid operands and attributes") {
  const auto x = type({1, 4, 8, 8});
  CHECK(refusal_of("max_pool", {{"kernel", {3, 3}}}, {type({4, 8, 8})}) == "rank 4 in operand 0");
  CHECK(refusal_of("max_pool", {{"kernel", {3, 3}}, {"pads", {3, 0, 0, 0}}}, {x}) ==
        "pads smaller than the kernel");
  CHECK(refusal_of("max_pool", {{"kernel", {9, 3}}}, {x}) == "a padded image at least as large as the kernel");
  CHECK(refusal_of("max_pool", {{"kernel", {0, 3}}}, {x}) ==
        "positive kernel, stride and dilation of sensible size");
  CHECK(refusal_of("average_pool", {{"kernel", {3, 3}}}, {type({1, 4, 8, 8}, dtype::int32)}) ==
        "floating-point elements");
  CHECK(refusal_of("max_pool", {{"kernel", {3, 3}}}, {type({1, 4, 8, 8}, dtype::boolean)}) ==
        "numeric elements");
}

}  // namespace tests_of_pooling
