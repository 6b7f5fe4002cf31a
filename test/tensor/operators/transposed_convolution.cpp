#include <unity/tensor/operators/convolution.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>

#include "../testing.hpp"

namespace tests_of_transposed_convolution {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("conv_transpose agrees with loops that scatter each pixel's products") {
  unity::random_engine random{1};
  for (int round = 0; round < 30; ++round) {
    const auto groups = random.between(1, 2);
    const shape stride{random.between(1, 3), random.between(1, 3)};
    const shape dilation{random.between(1, 2), random.between(1, 2)};
    const shape more{random.between(0, stride[0] - 1), random.between(0, stride[1] - 1)};
    const shape pads{random.between(0, 1), random.between(0, 1), random.between(0, 1), random.between(0, 1)};
    const auto x = random_tensor({2, 2 * groups, random.between(2, 4), random.between(2, 4)}, random);
    const auto w = random_tensor({2 * groups, 3, random.between(2, 3), random.between(2, 3)}, random);
    const auto bias = random_tensor({3 * groups}, random);
    shape dims{2, 3 * groups};
    for (std::size_t d = 0; d < 2; ++d) {
      dims.push_back(stride[d] * (x.dims[2 + d] - 1) + more[d] + dilation[d] * (w.dims[2 + d] - 1) + 1 - pads[d] -
                     pads[2 + d]);
    }
    auto expected = tabulate(dims, [&](const shape& p) { return at(bias, {p[1]}); });
    unity::for_each_position(x.dims, [&](const shape& p) {
      unity::for_each_position(shape{3, w.dims[2], w.dims[3]}, [&](const shape& k) {
        const auto channel = p[1] / 2 * 3 + k[0];
        const auto row = p[2] * stride[0] + k[1] * dilation[0] - pads[0];
        const auto column = p[3] * stride[1] + k[2] * dilation[1] - pads[1];
        if (row >= 0 && row < dims[2] && column >= 0 && column < dims[3]) {
          expected.data[static_cast<std::size_t>(((p[0] * dims[1] + channel) * dims[2] + row) * dims[3] + column)] +=
              at(x, {p[0], p[1], p[2], p[3]}) * at(w, {p[1], k[0], k[1], k[2]});
        }
      });
    });
    CAPTURE(round);
    const auto found =
        run("conv_transpose",
            {{"stride", stride}, {"pads", pads}, {"dilation", dilation}, {"output_padding", more}, {"groups", groups}},
            {x, w, bias});
    CHECK(distance(found, expected) < 1e-12);
  }
}

TEST_CASE("conv_transpose of one spatial dimension equals that of a one-row image") {
  unity::random_engine random{2};
  const auto x = random_tensor({2, 3, 4}, random);
  const auto w = random_tensor({3, 2, 3}, random);
  const auto y =
      run("conv_transpose", {{"stride", {2}}, {"pads", {1, 0}}, {"dilation", {1}}, {"output_padding", {1}}}, {x, w});
  const auto image = run("conv_transpose",
                         {{"stride", {1, 2}}, {"pads", {0, 1, 0, 0}}, {"dilation", {1, 1}}, {"output_padding", {0, 1}}},
                         {dense<double>{{2, 3, 1, 4}, x.data}, dense<double>{{3, 2, 1, 3}, w.data}});
  CHECK(y.dims == shape{2, 2, 9});
  CHECK(y.data == image.data);
}

TEST_CASE("conv_transpose refuses mismatched channels and empty results") {
  const attributes plain{{"stride", {1, 1}}, {"pads", {0, 0, 0, 0}}, {"dilation", {1, 1}}, {"output_padding", {0, 0}}};
  CHECK(refusal_of("conv_transpose", plain, {type({1, 2, 3, 3}), type({3, 2, 2, 2})}) ==
        "as many input channels as the image in operand 1");
  CHECK(refusal_of("conv_transpose",
                   {{"stride", {1, 1}}, {"pads", {2, 0, 2, 0}}, {"dilation", {1, 1}}, {"output_padding", {0, 0}}},
                   {type({1, 2, 3, 3}), type({2, 2, 2, 2})}) ==
        "strides, pads and kernel that leave a result");
}

}  // namespace tests_of_transposed_convolution
