#include <unity/hardware/kernel_durations.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/kernel_table.hpp>
#include <unity/tensor/differentiate.hpp>

namespace tests_of_kernel_durations {

namespace {

using namespace unity;
using namespace unity::hardware;
using namespace unity::tensor;

static_assert(duration_model<kernel_durations, unity::tensor::algebra>);
static_assert(!duration_model<kernel_device, unity::tensor::algebra>);

const unity::tensor::algebra& operators() {
  static const auto all = training_algebra();
  return all;
}

tensor_type type(shape dims, dtype element = dtype::float32) {
  return {element, layout::row_major, false, std::move(dims)};
}

std::vector<kernel_shape> kernels(const operation& op, const std::vector<tensor_type>& inputs) {
  return kernels_of(operators(), op, inputs, operators().infer(op, inputs).value());
}
std::vector<kernel_shape> kernels(const std::string& name, const std::vector<tensor_type>& inputs) {
  return kernels(operators().make_operation(name), inputs);
}

// Of all operators of the adjoint, for all operands.
std::vector<kernel_shape> backward(const operation& op, const std::vector<tensor_type>& inputs) {
  const auto adjoint = adjoint_of(operators(), op, inputs, std::vector<bool>(inputs.size(), true));
  const auto& g = adjoint.graph;
  std::vector<kernel_shape> all;
  for (const auto n : node_ids(g)) {
    std::vector<tensor_type> in;
    for (const auto v : g.operands(n)) {
      in.push_back(g.type(v));
    }
    const auto& inner = g.operation(n);
    if (inner.kind.valid() && !in.empty() && operators().definition_of(inner.kind).runs != runs_in::no_mode) {
      const auto some = kernels(inner, in);
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  return all;
}

kernel_devices_by_element board(double times = 1) {
  kernel_device d{80, 1.5e9 * times, 6e6, 8e11 * times, 5e-6, {12e12 * times, 12e12 * times, 1}};
  kernel_devices_by_element all;
  all.fill(d);
  for (const auto narrow : {dtype::bfloat16, dtype::float16}) {
    auto& x = all[static_cast<std::size_t>(narrow)];
    x.rates = {100e12 * times, 100e12 * times, 1};
  }
  return all;
}

double seconds(const operation& op, const std::vector<tensor_type>& inputs, double times = 1) {
  const kernel_durations model{operators(), {board(times)}};
  return to_seconds(model.duration_of(0, op, inputs, operators().infer(op, inputs).value()).expected);
}

TEST_CASE("kernels_of gives one product kernel for a matmul and two for its gradients") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{20}));
  CAPTURE(seed);
  random_engine random{seed};
  const auto size = [&] { return static_cast<std::int64_t>(1 + random.below(60)); };
  const auto b = size();
  const auto s = size();
  const auto k = size();
  const auto n = size();
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  const std::vector dense{type({b, s, k}), type({k, n})};
  const kernel_shape forward{kernel_kind::product, 1, d(b * s), d(n), d(k)};
  CHECK(kernels("matmul", dense) == std::vector{forward});
  CHECK(kernels("linear", {dense[0], dense[1], type({n})}) == std::vector{forward});
  auto gradients = backward(operators().make_operation("matmul"), dense);
  REQUIRE(gradients.size() == 2);
  CHECK(gradients[0] == kernel_shape{kernel_kind::product, 1, d(b * s), d(k), d(n)});
  CHECK(gradients[1] == kernel_shape{kernel_kind::product, 1, d(k), d(n), d(b * s)});
  const auto heads = b + 1;
  const auto many = kernels("matmul", {type({heads, s, k}, dtype::bfloat16), type({heads, k, n}, dtype::bfloat16)});
  CHECK(many == std::vector{kernel_shape{kernel_kind::tensor_product, d(heads), d(s), d(n), d(k), 2, 2}});
}

TEST_CASE("kernels_of gives no kernel for bias / scale / mask / transpose") {
  const auto x = type({8, 16, 64});
  CHECK(kernels("add", {x, type({64})}).empty());                         // a bias
  CHECK(kernels("scalar_multiply", {x, type({})}).empty());               // the scale of scores
  CHECK(kernels("add", {type({8, 4, 16, 16}), type({16, 16})}).empty());  // their mask
  CHECK(kernels(operators().make_operation("transpose", {{"permutation", {0, 2, 1}}}), {x}).empty());
  const auto sum = kernels("add", {x, x});
  REQUIRE(sum.size() == 1);
  CHECK(bytes_of(sum[0]) == 3 * 4 * 8 * 16 * 64);
  CHECK(bytes_of(kernels("gelu", {x}).at(0)) == 2 * 4 * 8 * 16 * 64);
  const auto bias = backward(operators().make_operation("add"), {x, type({64})});
  REQUIRE(bias.size() == 1);  // the sum over rows
  CHECK(bytes_of(bias[0]) == 4 * (8 * 16 * 64 + 64));
}

TEST_CASE("kernels_of gives the rows of softmax and layer norm and of their gradients") {
  const auto softmax = operators().make_operation("softmax", {{"axis", {3}}});
  const std::vector scores{type({2, 3, 5, 7}, dtype::bfloat16)};
  CHECK(kernels(softmax, scores) == std::vector{kernel_shape{kernel_kind::softmax, 1, 30, 7, 0, 2, 2}});
  CHECK(backward(softmax, scores) == std::vector{kernel_shape{kernel_kind::softmax, 1, 30, 7, 0, 3, 2}});
  const auto norm = operators().make_operation("layer_norm", {{"axis", 1}});
  const std::vector rows{type({6, 5, 7}), type({5, 7}), type({5, 7})};
  CHECK(kernels(norm, rows) == std::vector{kernel_shape{kernel_kind::layer_norm, 1, 6, 35}});
  CHECK(backward(norm, rows) == std::vector{kernel_shape{kernel_kind::layer_norm_gradient, 1, 6, 35, 0, 3}});
}

TEST_CASE("kernels_of gives one kernel for dot_product_attention and five for attention") {
  const auto heads = operators().make_operation("dot_product_attention", {{"causal", true}});
  const auto q = type({2, 3, 128, 64}, dtype::bfloat16);
  const kernel_shape one{kernel_kind::attention, 6, 128, 128, 64, 2, 2, true};
  CHECK(kernels(heads, {q, q, q}) == std::vector{one});
  const auto side_by_side =
      operators().make_operation("dot_product_attention", {{"causal", true}, {"heads", 3}, {"key_heads", 3}});
  const auto x = type({2, 128, 192}, dtype::bfloat16);
  CHECK(kernels(side_by_side, {x, x, x}) == std::vector{one});

  auto gradient = one;
  gradient.kind = kernel_kind::attention_gradient;
  CHECK(backward(heads, {q, q, q}) == std::vector{gradient});

  const auto whole = operators().make_operation("attention", {{"heads", 4}});
  const auto in = type({2, 16, 32});
  const auto w = type({32, 32});
  const auto all = kernels(whole, {in, in, in, w, w, w, w});
  REQUIRE(all.size() == 5);
  CHECK(all[3] == kernel_shape{kernel_kind::attention, 8, 16, 16, 8});
  CHECK(std::count(all.begin(), all.end(), kernel_shape{kernel_kind::product, 1, 32, 32, 32}) == 4);
  const auto adjoint = backward(whole, {in, in, in, w, w, w, w});  // with what is computed again
  CHECK(adjoint.size() == 14);
  CHECK(std::count(adjoint.begin(), adjoint.end(), kernel_shape{kernel_kind::attention_gradient, 8, 16, 16, 8}) == 1);
}

TEST_CASE("kernels_of gives 3x3 convolutions their own kernel and 1x1 convolutions a product") {
  const auto same = operators().make_operation("conv2d", {{"padding", "same"}});
  const std::vector image{type({4, 32, 28, 28}), type({64, 32, 3, 3})};
  CHECK(kernels(same, image) == std::vector{kernel_shape{kernel_kind::convolution, 4, 28, 64, 32}});
  const auto gradients = backward(same, image);
  REQUIRE(gradients.size() == 2);
  CHECK(gradients[0] == kernel_shape{kernel_kind::convolution, 4, 28, 32, 64});
  CHECK(operations_of(gradients[1]) == operations_of({kernel_kind::convolution, 4, 28, 64, 32}));
  const auto points = kernels(same, {type({4, 32, 28, 28}), type({64, 32, 1, 1})});
  CHECK(points == std::vector{kernel_shape{kernel_kind::product, 1, 4 * 28 * 28, 64, 32}});
}

TEST_CASE("kernel_durations follow the kernel model with the launch time as lower bound") {
  const auto matmul = operators().make_operation("matmul");
  const std::vector large{type({4096, 4096}), type({4096, 4096})};
  const kernel_shape k{kernel_kind::product, 1, 4096, 4096, 4096};
  CHECK(seconds(matmul, large) ==
        Approx(kernel_seconds(k, board()[0], kernel_coefficients(kernel_kind::product))).epsilon(1e-6));
  const std::vector narrow{type({4096, 4096}, dtype::bfloat16), type({4096, 4096}, dtype::bfloat16)};
  CHECK(seconds(matmul, narrow) < 0.25 * seconds(matmul, large));
  CHECK(seconds(matmul, {type({2, 2}), type({2, 2})}) == Approx(5e-6));
  CHECK(seconds(matmul, large, 2) == Approx(seconds(matmul, large) / 2).epsilon(0.02));
  CHECK(seconds(operators().make_operation("add"), {type({8, 64}), type({64})}) == 0);
  const kernel_durations model{operators(), {board()}};
  CHECK(model.version() == kernel_durations{operators(), {board()}}.version());
  CHECK(model.version() != kernel_durations{operators(), {board(2)}}.version());
}

TEST_CASE("kernel_durations scale to the ends of kernel_interval except for launches") {
  const kernel_durations model{operators(), {board()}};
  const auto times = [&](const char* name, const std::vector<tensor_type>& inputs) {
    const auto op = operators().make_operation(name);
    return model.duration_of(0, op, inputs, operators().infer(op, inputs).value());
  };
  const auto product = times("matmul", {type({4096, 4096}), type({4096, 4096})});
  const auto [low, high] = kernel_interval(kernel_kind::product);
  CHECK(low < 1);
  CHECK(high > 1);
  CHECK(to_seconds(product.low) == Approx(low * to_seconds(product.expected)).epsilon(1e-6));
  CHECK(to_seconds(product.high) == Approx(high * to_seconds(product.expected)).epsilon(1e-6));
  // A launch is as long as it is.
  CHECK(times("matmul", {type({2, 2}), type({2, 2})}) == duration::exactly(from_seconds(5e-6)));
  CHECK(times("add", {type({8, 64}), type({64})}) == duration{});
  for (std::size_t k = 0; k < kernel_kind_names.size(); ++k) {
    const auto ends = kernel_interval(static_cast<kernel_kind>(k));
    CHECK(ends[0] > 0.4);
    CHECK(ends[0] <= 1);
    CHECK(ends[1] >= 1);
    CHECK(ends[1] < 2);
  }
}

}  // namespace

}  // namespace tests_of_kernel_durations
