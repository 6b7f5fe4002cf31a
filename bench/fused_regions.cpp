// Claim: operators fused into one kernel take less time than run one after another.
//
// Each region runs on one thread, on tensors larger than a core's cache. The ratio is the median time of the region as
// one kernel over the sum of the medians of its operators alone. Composite operators are expanded: softmax is five
// operators.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cpu.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/fusion/row_roles.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>

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

// Expands composite operators; inputs whose names begin with x are divided into rows.
fusion::kernel_region region_of(builder b, const std::vector<value_id>& outputs, std::int64_t rows) {
  auto g = tensor::spelled_out(operators(), std::move(b).finish(outputs));
  std::vector<value_id> divided;
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (op.kind == operators().kind("input") && operators().read(op).word("name").starts_with("x")) {
      divided.push_back(g.results(n)[0]);
    }
  }
  auto labels = fusion::row_roles(operators(), g, divided, rows);
  return {std::move(g), std::move(labels.is_divided), rows};
}

fusion::kernel_region softmax() {
  builder b{operators()};
  return region_of(b, {b.softmax(b.input("x", {16, 512, 1024}), 2)}, 16);
}
fusion::kernel_region layer_norm() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto scale = b.input("scale", {1024});
  return region_of(b, {b.layer_norm(x, scale, b.input("shift", {1024}), 2)}, 16);
}
// The part of a layer norm's gradient that is summed over rows, with the row-local part beside it.
fusion::kernel_region layer_norm_sums() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto dy = b.input("x gradient", {16, 512, 1024});
  const auto products = b.mul(x, dy);
  const auto scaled = b.mul(dy, b.input("scale", {1024}));
  const auto y = b.sub(scaled, reduced(b, "reduce_mean", scaled, {2}));
  return region_of(b, {y, reduced(b, "reduce_sum", products, {0, 1}), reduced(b, "reduce_sum", dy, {0, 1})}, 16);
}
fusion::kernel_region gelu() {
  builder b{operators()};
  const auto x = b.input("x", {16, 512, 1024});
  const auto half = b.mul(x, b.fill(0.5));
  const auto inner = apply(b, "erf", {b.mul(x, b.fill(0.70710678))});
  return region_of(b, {b.mul(half, b.add(inner, b.fill(1)))}, 16);
}
fusion::kernel_region product() {
  builder b{operators()};
  const auto x = b.input("x", {8, 512, 512});
  const auto y = b.add(b.matmul(x, b.input("w", {512, 2048})), b.input("bias", {2048}));
  return region_of(b, {b.gelu(y)}, 8);
}
fusion::kernel_region convolution() {
  builder b{operators()};
  const auto x = b.input("x", {16, 64, 56, 56});
  const auto y = b.conv2d(x, b.input("w", {64, 64, 3, 3}), {.pads = {1, 1, 1, 1}});
  return region_of(b, {y, reduced(b, "reduce_mean", y, {0, 2, 3}), reduced(b, "reduce_mean", b.mul(y, y), {0, 2, 3})},
                   16);
}
fusion::kernel_region convolution_and_relu() {
  builder b{operators()};
  const auto x = b.input("x", {16, 64, 56, 56});
  const auto y = b.conv2d(x, b.input("w", {64, 64, 3, 3}), {.pads = {1, 1, 1, 1}});
  return region_of(b, {b.relu(b.add(y, b.input("bias", {64, 1, 1})))}, 16);
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
