// Claim: operators as one kernel take less time than one after another.
//
// Each region on one thread and on tensors larger than a core's cache; the ratio is that of the medians, of the region
// as one kernel over the sum of its operators alone. The operators are written out: softmax is five of them.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cpu.hpp>
#include <unity/backend/region_timer.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/fusion/row_roles.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>

namespace {

using namespace unity;
using tensor::builder;
using tensor::shape;

const tensor::algebra& operators() {
  static const auto all = tensor::training_algebra();
  return all;
}

value_id apply(builder& b, std::string_view name, std::vector<value_id> in,
               std::initializer_list<tensor::named_attribute> attributes = {}) {
  return b.apply(name, in, attributes)[0];
}
value_id reduced(builder& b, std::string_view name, value_id x, const shape& axes) {
  return apply(b, name, {x}, {{"axes", axes}});
}

fusion::kernel_region region_of(builder b, std::vector<value_id> divided, const std::vector<value_id>& outputs,
                                std::int64_t rows) {
  auto g = std::move(b).finish(outputs);
  auto labels = fusion::row_roles(operators(), g, divided, rows);
  return {std::move(g), std::move(labels.is_divided), rows};
}

fusion::kernel_region softmax() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto powers = apply(b, "exp", {b.sub(x, reduced(b, "reduce_max", x, {2}))});
  return region_of(b, {x}, {b.div(powers, reduced(b, "reduce_sum", powers, {2}))}, 16);
}
fusion::kernel_region layer_norm() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto centred = b.sub(x, reduced(b, "reduce_mean", x, {2}));
  const auto variance = reduced(b, "reduce_mean", b.mul(centred, centred), {2});
  const auto unit = b.div(centred, apply(b, "sqrt", {b.add(variance, b.fill(1e-5))}));
  const auto y = b.add(b.mul(unit, b.input("scale", {1024})), b.input("shift", {1024}));
  return region_of(b, {x}, {y}, 16);
}
// What of the gradient of a normalization adds up over rows, beside what does not.
fusion::kernel_region layer_norm_sums() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto dy = b.input("dy", {16, 512, 1024});
  const auto products = b.mul(x, dy);
  const auto scaled = b.mul(dy, b.input("scale", {1024}));
  const auto y = b.sub(scaled, reduced(b, "reduce_mean", scaled, {2}));
  return region_of(b, {x, dy}, {y, reduced(b, "reduce_sum", products, {0, 1}), reduced(b, "reduce_sum", dy, {0, 1})},
                   16);
}
fusion::kernel_region gelu() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto half = b.mul(x, b.fill(0.5));
  const auto inner = apply(b, "erf", {b.mul(x, b.fill(0.70710678))});
  return region_of(b, {x}, {b.mul(half, b.add(inner, b.fill(1)))}, 16);
}
fusion::kernel_region product() {
  builder b{operators()};
  const auto x = b.input("x", {8, 512, 512});
  const auto y = b.add(b.matmul(x, b.input("w", {512, 2048})), b.input("bias", {2048}));
  return region_of(b, {x}, {b.gelu(y)}, 8);
}
fusion::kernel_region convolution() {
  builder b{operators()};
  const auto x = b.input("x", {16, 64, 56, 56});
  const auto y = b.conv2d(x, b.input("w", {64, 64, 3, 3}), {.pads = {1, 1, 1, 1}});
  return region_of(b, {x},
                   {y, reduced(b, "reduce_mean", y, {0, 2, 3}), reduced(b, "reduce_mean", b.mul(y, y), {0, 2, 3})}, 16);
}
fusion::kernel_region convolution_and_relu() {
  builder b{operators()};
  const auto x = b.input("x", {16, 64, 56, 56});
  const auto y = b.conv2d(x, b.input("w", {64, 64, 3, 3}), {.pads = {1, 1, 1, 1}});
  return region_of(b, {x}, {b.relu(b.add(y, b.input("bias", {64, 1, 1})))}, 16);
}

}  // namespace

int main() {
  backend::cpu_backend device{operators(), {.threads = 1}};
  fmt::print("{:30} {:>10} {:>14} {:>7}\n", "region", "fused, ms", "one by one, ms", "ratio");
  for (const auto& [name, region] :
       {std::pair{"softmax", softmax()}, std::pair{"layer norm", layer_norm()},
        std::pair{"sums of layer norm's gradient", layer_norm_sums()}, std::pair{"gelu", gelu()},
        std::pair{"product, bias, gelu", product()}, std::pair{"convolution, statistics", convolution()},
        std::pair{"convolution, bias, relu", convolution_and_relu()}}) {
    const auto times = backend::time_region_and_parts(device, operators(), region);
    const auto ms = [](picoseconds t) { return static_cast<double>(t.count()) * 1e-9; };
    fmt::print("{:30} {:10.2f} {:14.2f} {:7.3f}\n", name, ms(times.fused.median), ms(times.parts_sum()),
               ms(times.fused.median) / ms(times.parts_sum()));
  }
}
