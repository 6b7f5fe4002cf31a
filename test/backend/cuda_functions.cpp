// The cuda backend's device functions, run here as loops on the host from the same source. Only launches, reductions
// within a thread group, and library calls need a device (test/cuda).
#include <unity/backend/cuda/kernel_factory.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/executor.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/message_of.hpp"
#include "adjoint_suite.hpp"
#include "cuda_host_backend.hpp"
#include "operator_suite.hpp"

namespace tests_of_cuda_functions {

using namespace unity::backend;
using namespace unity::backend::test;
using unity::random_engine;
using unity::tensor::dtype;
using unity::tensor::layout;
using unity::tensor::test::type;

TEST_CASE("the CUDA index division by loop sizes is exact", "[cuda]") {
  random_engine random{1};
  const auto check = [](std::int64_t n, std::int64_t size) {
    auto flat = n;
    const auto at = cuda::loop_size{size}.split(flat);
    CAPTURE(n, size);
    REQUIRE(flat == n / size);
    REQUIRE(at == n % size);
  };
  const auto limit = cuda::loop_size::limit;
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{1} << 30,
        (std::int64_t{1} << 30) + 1, limit - 1, limit, limit + 1, limit * 5}) {
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, size - 1, size, size + 1, 2 * size - 1, limit - 1,
                                 limit, limit + 1, std::int64_t{1} << 45}) {
      check(n, size);
    }
  }
  for (int i = 0; i < 200000; ++i) {
    const auto size = static_cast<std::int64_t>(1 + random.below(std::uint64_t{1} << (1 + random.below(31))));
    check(static_cast<std::int64_t>(random.below(std::uint64_t{1} << (1 + random.below(34)))), size);
  }
}

TEST_CASE("CUDA functions run on the host match the reference for every operator", "[cuda]") {
  check_operators(with_libraries, {.cases = 100});
  check_operators(without_libraries, {.cases = 30, .seed = 2});
}

TEST_CASE("CUDA functions run on the host match the reference in other element types", "[cuda]") {
  check_operators(with_libraries, {.tolerance = 1e-2, .cases = 15, .element = dtype::bfloat16});
  check_operators(with_libraries, {.tolerance = 3e-3, .cases = 15, .element = dtype::float16});
  check_operators(with_libraries, {.cases = 10, .element = dtype::float64});
  check_operators(without_libraries, {.tolerance = 1e-2, .cases = 5, .element = dtype::bfloat16});
}

TEST_CASE("CUDA functions run on the host match the reference for large operators", "[cuda]") {
  check_large_operators(with_libraries);
}

TEST_CASE("CUDA functions run on the host match the reference for adjoint operators", "[cuda]") {
  check_adjoint_operators(with_libraries, {.cases = 40});
  check_adjoint_operators(without_libraries, {.cases = 20, .seed = 2});
  check_adjoint_operators(in_teams, {.cases = 4, .seed = 3});
  check_adjoint_operators(with_libraries, {.tolerance = 1e-2, .cases = 10, .element = dtype::bfloat16});
  check_adjoint_operators(with_libraries, {.cases = 10, .element = dtype::float64});
}

TEST_CASE("CUDA functions run on the host match the reference for large adjoints", "[cuda]") {
  auto b = with_libraries(training());
  for (const auto& c : large_adjoint_cases()) {
    check_large_adjoint(b, c);
  }
}

TEST_CASE("CUDA functions run on the host in thread groups match the reference", "[cuda]") {
  check_operators(in_teams, {.cases = 6, .seed = 3});
  check_large_operators(in_teams, {.seed = 3});
}

TEST_CASE("the CUDA softmax is accurate for large inputs", "[cuda]") {
  auto b = with_libraries(standard());
  const auto op = standard().make_operation("softmax", {{"axis", 1}});
  const std::vector<tensor_type> t{type({2, 3})};
  const dense<double> x{{2, 3}, {1000, 1001, 999, -1000, -1001, -999}};
  const std::vector<dense<double>> operands{x};
  const auto expected = unity::tensor::evaluate<double>(standard(), op, operands, t);
  check_results(run_kernel(b, b.prepare(op, t, t), t, t, {encode(x, t[0])}), t, expected, 1e-5);
}

TEST_CASE("zoo models run by the CUDA functions on the host match the double reference", "[cuda]") {
  for (const char* text :
       {"zoo:bert?layers=2&hidden=8&heads=2&seq=4&vocab=9", "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4",
        "zoo:nasrnn?hidden=4&seq=3", "zoo:mlp?layers=3&hidden=6&batch=2", "zoo:squeezenet1_1?image=25"}) {
    CAPTURE(text);
    const auto g = unity::tensor::zoo::build(standard(), text);
    auto b = with_libraries(standard());
    executor e{b, standard(), g, {.seed = 1}};
    e.run();
    const auto expected = unity::tensor::evaluate<double>(standard(), g, 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(relative_error(e.output(i), expected[i]) < 1e-5);
    }
  }
}

TEST_CASE("CUDA reductions with few results and many elements are computed in parts", "[cuda]") {
  auto b = with_libraries(standard());
  auto teams = in_teams(standard());
  const auto check = [&](const char* name, std::int64_t axis, unity::tensor::shape dims, dtype element, bool in_parts) {
    CAPTURE(name, axis, dims[0], dims[1], unity::tensor::name_of(element));
    const auto op = standard().make_operation(name, {{"axes", {axis}}});
    const std::vector<tensor_type> in{type(dims, element)};
    const auto out = *standard().infer(op, in);
    random_engine random{3};
    suite_operands operands;
    dense<double> values{dims};
    for (auto& x : values.data) {
      x = 2 * random.unit() - 1;
    }
    operands.add(std::move(values), in[0]);
    const auto expected = unity::tensor::evaluate<double>(standard(), op, operands.numbers, in);
    const auto kernel = b.prepare(op, in, out);
    CHECK((kernel.workspace() > 0) == in_parts);
    const auto found = run_kernel(b, kernel, in, out, operands.bytes);
    check_results(found, out, expected, element == dtype::float32 ? 1e-5 : 1e-2);
    check_results(run_kernel(teams, teams.prepare(op, in, out), in, out, operands.bytes), out, expected,
                  element == dtype::float32 ? 1e-5 : 1e-2);
  };
  for (const char* name : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    check(name, 1, {1, 100000}, dtype::float32, true);
    check(name, 1, {3, 40004}, dtype::bfloat16, true);
    check(name, 1, {3, 40003}, dtype::float32, true);
    check(name, 0, {33333, 2}, dtype::float32, true);
    check(name, 1, {2, 8192}, dtype::float32, false);
    check(name, 1, {600, 64}, dtype::float16, false);
  }
}

TEST_CASE("a CUDA product plan has the right strides and counts and alignments", "[cuda]") {
  const std::vector<tensor_type> in{type({5, 3, 2, 3}), type({3, 3, 7})};
  const auto p = cuda::plan_product(in, type({5, 3, 2, 7}), false, unity::tensor::operators::activation::none);
  CHECK(cuda::to_string(p) ==
        "float32, left 7 x 3 by 7 step 21, right 3 x 2 by 3 step 6, result 7 x 2 by 7 step 14, 3 at once, 5 times");
  CHECK(cuda::alignment_of(p, 0) == 64);  // the second operand's offset is the same in every product
  CHECK(cuda::alignment_of(p, 1) == 8);
  CHECK(cuda::alignment_of(p, 2) == 8);
}

TEST_CASE("CUDA pooling uses the library only if it computes the same windows", "[cuda]") {
  const auto plain = [](const char* name, unity::tensor::test::attributes attributes) {
    const auto op = standard().make_operation(name, attributes);
    const std::vector<tensor_type> in{type({1, 1, 9, 9})};
    REQUIRE(standard().infer(op, in));
    return cuda::plan_pooling(standard().read(op), in, std::string{name} == "average_pool").is_plain();
  };
  using attributes = unity::tensor::test::attributes;
  CHECK(plain("max_pool", attributes{{"kernel", {3, 3}}, {"padding", "explicit"}, {"pads", {1, 1, 1, 1}}}));
  CHECK(plain("max_pool", attributes{{"kernel", {2, 2}}, {"stride", {2, 2}}, {"padding", "valid"}}));
  CHECK(plain("average_pool", attributes{{"kernel", {3, 3}}, {"padding", "same"}}));
  CHECK(plain("average_pool", attributes{{"kernel", {3, 3}}, {"padding", "same"}, {"count_include_pad", 1}}));
  CHECK_FALSE(plain("max_pool", attributes{{"kernel", {3, 3}}, {"padding", "valid"}, {"dilation", {2, 1}}}));
  CHECK_FALSE(
      plain("max_pool", attributes{{"kernel", {2, 2}}, {"stride", {2, 2}}, {"padding", "valid"}, {"ceil_mode", 1}}));
  CHECK_FALSE(plain("max_pool", attributes{{"kernel", {2, 2}}, {"padding", "same"}}));
}

TEST_CASE("CUDA strided copies that transpose go by tiles and are correct", "[cuda]") {
  using copy = cuda::strided_copy;
  CHECK(copy{{0, 0, {{40, 1, 33}, {33, 40, 1}}}, 4}.turns());
  CHECK(copy{{0, 0, {{3, 1320, 1320}, {40, 1, 33}, {33, 40, 1}}}, 2}.turns());
  CHECK_FALSE(copy{{0, 0, {{40, 33, 33}, {33, 1, 1}}}, 4}.turns());
  CHECK_FALSE(copy{{0, 0, {{40, 1, 3}, {3, 40, 1}}}, 4}.turns());
  for (const auto element : {dtype::float32, dtype::bfloat16, dtype::float64, dtype::uint8}) {
    auto b = with_libraries(standard());
    const auto op = standard().make_operation("transpose", {{"permutation", {0, 3, 1, 2}}});
    const std::vector<tensor_type> in{type({2, 9, 5, 70}, element)};
    const auto out = *standard().infer(op, in);
    suite_operands operands;
    dense<double> values{in[0].dims};
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      values.data[i] = static_cast<double>(i % 251);
    }
    operands.add(std::move(values), in[0]);
    check_results(run_kernel(b, b.prepare(op, in, out), in, out, operands.bytes), out,
                  unity::tensor::evaluate<double>(standard(), op, operands.numbers, in), 1e-9);
  }
}

TEST_CASE("a CUDA strided copy uses the widest access that sizes and offsets allow", "[cuda]") {
  using copy = cuda::strided_copy;
  CHECK(copy{{0, 0, {{4, 64, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 16);
  CHECK(copy{{2, 0, {{4, 64, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 8);
  CHECK(copy{{0, 0, {{4, 66, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 8);
  CHECK(copy{{0, 0, {{4, 33, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 4);
  CHECK(copy{{0, 0, {{32, 1, 32}, {32, 32, 1}}}, 4}.moved_at_once() == 4);
  CHECK(copy{{0, 0, {{48, 1, 1}}}, 1}.moved_at_once() == 16);
}

TEST_CASE("CUDA functions refuse a relu of two operands by name in one line", "[cuda]") {
  auto b = with_libraries(standard());
  const auto op = standard().make_operation("relu", {});
  const std::vector<tensor_type> two{type({2}), type({2})};
  const auto text = unity::test::message_of([&] { static_cast<void>(b.prepare(op, two, two)); });
  CAPTURE(text);
  CHECK(text.starts_with("cuda kernel of relu: "));
  CHECK(text.find('\n') == std::string::npos);
}

}  // namespace tests_of_cuda_functions
