#include <unity/tensor/operators/convolution.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_convolution {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

struct naive_convolution {
  shape stride{1, 1};
  shape dilation{1, 1};
  shape before{0, 0};
  shape out{0, 0};
  std::int64_t groups = 1;

  [[nodiscard]] dense<double> operator()(const dense<double>& x, const dense<double>& w,
                                         const dense<double>* bias) const {
    const auto per_group = w.dims[1];
    const auto outs = w.dims[0] / groups;
    return tabulate({x.dims[0], w.dims[0], out[0], out[1]}, [&](const shape& p) {
      double sum = bias != nullptr ? at(*bias, {p[1]}) : 0;
      for (std::int64_t c = 0; c < per_group; ++c) {
        for (std::int64_t i = 0; i < w.dims[2]; ++i) {
          for (std::int64_t j = 0; j < w.dims[3]; ++j) {
            const auto y = p[2] * stride[0] + i * dilation[0] - before[0];
            const auto z = p[3] * stride[1] + j * dilation[1] - before[1];
            if (y >= 0 && y < x.dims[2] && z >= 0 && z < x.dims[3]) {
              sum += at(x, {p[0], p[1] / outs * per_group + c, y, z}) * at(w, {p[1], c, i, j});
            }
          }
        }
      }
      return sum;
    });
  }
};

// ONNX's SAME_UPPER and SAME_LOWER, as its documentation states them.
std::int64_t same_before(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t reach, bool lower) {
  const auto total = std::max<std::int64_t>((out - 1) * stride + reach - in, 0);
  return lower ? (total + 1) / 2 : total / 2;
}

}  // namespace

TEST_CASE("conv2d agrees with nested loops for random padding / stride / dilation / groups") {
  unity::random_engine random{3};
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    naive_convolution naive;
    naive.groups = random.between(1, 3);
    const shape kernel{random.between(1, 3), random.between(1, 4)};
    const auto x = random_tensor(
        {random.between(1, 2), naive.groups * random.between(1, 3), random.between(6, 9), random.between(7, 12)},
        random);
    const auto w =
        random_tensor({naive.groups * random.between(1, 3), x.dims[1] / naive.groups, kernel[0], kernel[1]}, random);
    const auto bias = random_tensor({w.dims[0]}, random);
    const auto padding = static_cast<std::size_t>(random.below(4));
    shape pads(4, 0);
    for (std::size_t d = 0; d < 2; ++d) {
      naive.stride[d] = random.between(1, 3);
      naive.dilation[d] = random.between(1, 2);
      const auto reach = (kernel[d] - 1) * naive.dilation[d] + 1;
      const auto in = x.dims[2 + d];
      if (padding == 1 || padding == 2) {
        naive.out[d] = (in + naive.stride[d] - 1) / naive.stride[d];
        naive.before[d] = same_before(in, naive.out[d], naive.stride[d], reach, padding == 2);
      } else {
        pads[d] = padding == 0 ? random.between(0, 4) : 0;
        pads[2 + d] = padding == 0 ? random.between(0, 4) : 0;
        naive.before[d] = pads[d];
        naive.out[d] = (in + pads[d] + pads[2 + d] - reach) / naive.stride[d] + 1;
      }
    }
    const std::string names[] = {"explicit", "same", "same_lower", "valid"};
    const bool biased = random.below(2) == 0;
    std::vector operands{x, w};
    if (biased) {
      operands.push_back(bias);
    }
    const auto found = run("conv2d",
                           {{"stride", naive.stride},
                            {"padding", names[padding]},
                            {"pads", pads},
                            {"dilation", naive.dilation},
                            {"groups", naive.groups}},
                           operands);
    CHECK(distance(found, naive(x, w, biased ? &bias : nullptr)) < 1e-13);
  }
}

TEST_CASE("conv2d with an identity kernel returns its image") {
  unity::random_engine random{4};
  const auto x = random_tensor({2, 6, 5, 4}, random);
  for (const std::int64_t groups : {1, 2, 3, 6}) {
    const auto kernel = run("identity_kernel", {{"channels", 6}, {"groups", groups}, {"kernel", {3, 5}}}, {});
    CHECK(distance(run("conv2d", {{"padding", "same"}, {"groups", groups}}, {x, kernel}), x) == 0);
  }
}

TEST_CASE("conv2d applies its activation") {
  unity::random_engine random{5};
  const auto x = random_tensor({1, 2, 4, 4}, random);
  const auto w = random_tensor({3, 2, 2, 2}, random);
  const auto plain = run("conv2d", {}, {x, w});
  CHECK(run("conv2d", {{"activation", "relu"}}, {x, w}) == run("relu", {}, {plain}));
  CHECK(distance(run("conv2d", {{"activation", "gelu"}}, {x, w}), run("gelu", {}, {plain})) < 1e-14);
}

TEST_CASE("conv2d infers the output sizes of well-known layers") {
  const auto image = type({1, 3, 224, 224});
  CHECK(shapes("conv2d", {{"stride", {2, 2}}, {"pads", {3, 3, 3, 3}}}, {image, type({64, 3, 7, 7})})[0] ==
        shape{1, 64, 112, 112});
  CHECK(shapes("conv2d", {{"padding", "same"}, {"stride", {2, 2}}}, {image, type({64, 3, 7, 7})})[0] ==
        shape{1, 64, 112, 112});
  CHECK(shapes("conv2d", {{"padding", "valid"}}, {image, type({64, 3, 7, 7})})[0] == shape{1, 64, 218, 218});
  CHECK(shapes("conv2d", {{"groups", 32}, {"pads", {1, 1, 1, 1}}}, {type({1, 128, 56, 56}), type({128, 4, 3, 3})})[0] ==
        shape{1, 128, 56, 56});
}

TEST_CASE("conv2d refuses invalid operands and attributes") {
  const auto x = type({1, 4, 8, 8});
  const auto w = type({6, 4, 3, 3});
  CHECK(refusal_of("conv2d", {}, {x, w}).empty());
  CHECK(refusal_of("conv2d", {}, {x}) == "2 to 3 operand(s)");
  CHECK(refusal_of("conv2d", {}, {type({4, 8, 8}), w}) == "rank 4 in operand 0");
  CHECK(refusal_of("conv2d", {}, {x, type({6, 4, 3})}) == "rank 4 in operand 1");
  CHECK(refusal_of("conv2d", {}, {x, type({6, 3, 3, 3})}) == "agreement with the size of ic in operand 1");
  CHECK(refusal_of("conv2d", {{"groups", 3}}, {x, w}) == "agreement with the size of ic in operand 0");
  CHECK(refusal_of("conv2d", {{"groups", 4}}, {x, type({6, 1, 3, 3})}) ==
        "agreement with the size of oc in operand 1");
  CHECK(refusal_of("conv2d", {{"groups", 0}}, {x, w}) == "positive groups");
  CHECK(refusal_of("conv2d", {}, {x, w, type({5})}) == "agreement with the size of oc in operand 2");
  CHECK(refusal_of("conv2d", {{"padding", "same"}, {"pads", {1, 1, 1, 1}}}, {x, w}) ==
        "zero pads unless padding is explicit");
  CHECK(refusal_of("conv2d", {{"pads", {0, -1, 0, 0}}}, {x, w}) == "non-negative pads of sensible size");
  CHECK(refusal_of("conv2d", {}, {type({1, 4, 8, 2}), w}) == "a padded image at least as large as the kernel");
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    CHECK(refusal_of("conv2d", {{"stride", {1, bad}}}, {x, w}) ==
          "positive kernel, stride and dilation of sensible size");
    CHECK(refusal_of("conv2d", {{"dilation", {bad, 1}}}, {x, w}) ==
          "positive kernel, stride and dilation of sensible size");
  }
}

}  // namespace tests_of_convolution
