// The cuda backend on a device: every operator, chains, models through the executor, recordings, the clock, errors.
// Without a device: the errors that say so, and a line that the rest is skipped.
#include <unity/backend/cuda.cuh>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/backend/calibration.hpp>
#include <unity/backend/executor.hpp>
#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

#include "../backend/adjoint_suite.hpp"
#include "../backend/operator_suite.hpp"

namespace {

using namespace unity::backend;
using namespace unity::backend::test;
using unity::random_engine;
using unity::tensor::dtype;
namespace zoo = unity::tensor::zoo;

static_assert(device_backend<cuda_backend> && fusing_backend<cuda_backend> && recording_backend<cuda_backend> &&
              clocked_backend<cuda_backend>);
static_assert(accelerator_backend<cuda_backend> && narrow_float_backend<cuda_backend>);
static_assert(!packing_backend<cuda_backend>);

// A number of cases: a tenth under compute-sanitizer, where everything takes a hundred times as long.
int divisor = 1;
int cases(int n) { return std::max(n / divisor, 2); }
template <class T, std::size_t N>
std::span<const T> some(const std::array<T, N>& all) {
  return std::span{all}.first(static_cast<std::size_t>(cases(static_cast<int>(N))));
}

cuda_backend make_cuda(const unity::tensor::algebra& a) { return cuda_backend{a}; }

template <class F>
std::string failure_of(const F& f) {
  try {
    f();
  } catch (const unity::error& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The largest error of an output against the double reference.
double error_of(executor<cuda_backend>& e, const tensor_graph& g, std::uint64_t seed) {
  e.run();
  e.wait();
  const auto expected = unity::tensor::evaluate<double>(standard(), g, seed);
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, relative_error(e.output(i), expected[i]));
  }
  return error;
}

constexpr std::array small_models{"zoo:bert?layers=2&hidden=8&heads=2&seq=4&vocab=9",
                                  "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4", "zoo:nasrnn?hidden=4&seq=3",
                                  "zoo:mlp?layers=3&hidden=6&batch=2", "zoo:squeezenet1_1?image=25"};

}  // namespace

TEST_CASE("CUDA kernels on the GPU match the reference for every operator",
          "[cuda]") { check_operators(make_cuda, {.cases = cases(60)}); }

TEST_CASE("CUDA kernels on the GPU match the reference in 16-bit floats and float64", "[cuda]") {
  check_operators(make_cuda, {.tolerance = 1e-2, .cases = cases(15), .element = dtype::bfloat16});
  check_operators(make_cuda, {.tolerance = 3e-3, .cases = cases(15), .element = dtype::float16});
  check_operators(make_cuda, {.cases = cases(10), .element = dtype::float64});
}

TEST_CASE("CUDA kernels on the GPU match the reference for adjoint operators", "[cuda]") {
  check_adjoint_operators(make_cuda, {.cases = cases(60)});
  check_adjoint_operators(make_cuda, {.tolerance = 1e-2, .cases = cases(10), .element = dtype::bfloat16});
  check_adjoint_operators(make_cuda, {.cases = cases(10), .element = dtype::float64});
}

TEST_CASE("CUDA kernels on the GPU match the reference for large adjoints", "[cuda]") {
  cuda_backend b{training()};
  const auto all = large_adjoint_cases();
  for (std::size_t i = 0; i < all.size(); i += divisor == 1 ? 1 : 5) {
    static_cast<void>(check_large_adjoint(b, all[i]));
  }
}

TEST_CASE("CUDA kernels on the GPU match the reference for large operators", "[cuda]") {
  if (divisor == 1) {
    check_large_operators(make_cuda);
    check_large_operators(make_cuda, {.tolerance = 1e-2, .element = dtype::bfloat16});
    return;
  }
  cuda_backend b{standard()};
  random_engine random{1};
  const auto all = large_cases();
  for (std::size_t i = 0; i < all.size(); i += 3) {
    check_case(b, all[i], {}, random);
  }
}

TEST_CASE("CUDA chain kernels on the GPU match the reference", "[cuda]") {
  check_chains(make_cuda, {.cases = cases(25)});
  check_chains(make_cuda, {.tolerance = 1e-2, .cases = cases(5), .seed = 4, .element = dtype::bfloat16});
}

TEST_CASE("models on the GPU match the double reference with and without replay and fusion", "[cuda]") {
  cuda_backend b{standard()};
  for (const char* text : some(small_models)) {
    CAPTURE(text);
    const auto g = zoo::build(standard(), text);
    for (const bool record : {true, false}) {
      for (const bool fuse : {true, false}) {
        if (divisor > 1 && record != fuse) {
          continue;
        }
        executor e{b, standard(), g, {.seed = 1, .fuse = fuse, .record = record}};
        CHECK(error_of(e, g, 1) < 1e-5);
        CHECK(error_of(e, g, 1) < 1e-5);
      }
    }
  }
}

TEST_CASE("optimized models give the outputs of their originals on the GPU", "[cuda]") {
  cuda_backend b{standard()};
  const auto rules = unity::compile_rules(standard(), unity::parse_rules(unity::tensor::standard_rules));
  for (const char* text : some(small_models)) {
    CAPTURE(text);
    const auto g = zoo::build(standard(), text);
    unity::systems::taso_options options;
    options.limits.expansions = static_cast<std::size_t>(cases(5));
    const auto found = unity::systems::taso(standard(), rules, g, options);
    CHECK(max_relative_error(b, standard(), g, found.graph) < 1e-5);
  }
}

TEST_CASE("a CUDA replay equals a direct run after inputs change", "[cuda]") {
  cuda_backend b{standard()};
  const auto g = zoo::build(standard(), "zoo:mlp?layers=3&hidden=64&batch=8");
  executor replayed{b, standard(), g, {.seed = 3}};
  executor plain{b, standard(), g, {.seed = 3, .record = false}};
  random_engine random{5};
  for (int i = 0; i < 3; ++i) {
    for (std::size_t n = 0; n < g.node_count(); ++n) {
      const auto& op = g.operation(unity::node_id{n});
      if (standard().definition_of(op.kind).source == unity::tensor::source_kind::input) {
        dense<float> value{g.type(g.results(unity::node_id{n})[0]).dims};
        for (auto& x : value.data) {
          x = static_cast<float>(2 * random.unit() - 1);
        }
        replayed.set(standard().read(op).word("name"), value);
        plain.set(standard().read(op).word("name"), value);
      }
    }
    replayed.run();
    plain.run();
    replayed.wait();
    CHECK(replayed.output_bytes(0) == plain.output_bytes(0));
  }
}

TEST_CASE("the CUDA clock measures execution time rather than launch time", "[cuda]") {
  cuda_backend b{standard()};
  unity::tensor::builder made{standard()};
  const auto g = std::move(made).finish({made.matmul(made.input("x", {2048, 2048}), made.weight("w", {2048, 2048}))});
  executor e{b, standard(), g};
  e.run();
  const auto first = b.mark();
  e.run();
  const auto second = b.mark();
  for (int i = 0; i < 20; ++i) {
    e.run();
  }
  const auto third = b.mark();
  const auto one = b.seconds(first, second);
  const auto twenty = b.seconds(second, third);
  CHECK(one > 2.0 * 2048 * 2048 * 2048 / 1e15);
  CHECK(twenty > 5 * one);
  e.wait();
}

TEST_CASE("an oversized CUDA allocation is refused with its size and a later one succeeds", "[cuda]") {
  cuda_backend b{standard()};
  const auto text = failure_of([&] { static_cast<void>(b.allocate(std::size_t{1} << 50U)); });
  CAPTURE(text);
  CHECK(contains(text, "1125899906842624 bytes"));
  CHECK(contains(text, "cudaErrorMemoryAllocation"));
  CHECK(b.allocate(1 << 20).size() == std::size_t{1} << 20U);
  b.wait();
}

TEST_CASE("a relu with two operands has no CUDA kernel and is refused by name", "[cuda]") {
  cuda_backend b{standard()};
  const auto op = standard().make_operation("relu", {});
  const std::array types{tensor_type{}, tensor_type{}};
  CHECK(contains(failure_of([&] { static_cast<void>(b.prepare(op, types, types)); }), "cuda kernel of relu"));
}

TEST_CASE("an exception during a CUDA recording leaves the backend usable", "[cuda]") {
  cuda_backend b{standard()};
  const auto text = failure_of(
      [&] { static_cast<void>(b.record([] { throw unity::error{"recorded function", "an exception", "none"}; })); });
  CHECK(contains(text, "recorded function"));
  b.wait();
  const auto g = zoo::build(standard(), small_models[3]);
  executor e{b, standard(), g, {.seed = 1}};
  CHECK(error_of(e, g, 1) < 1e-5);
}

TEST_CASE("large reductions and a tiled transpose on the GPU are correct", "[cuda]") {
  random_engine random{2};
  cuda_backend b{standard()};
  for (const auto& [name, key, value, dims] :
       {std::tuple{"reduce_sum", "axes", std::vector<std::int64_t>{1}, unity::tensor::shape{1, 3000001}},
        {"reduce_mean", "axes", {1}, {3, 400000}},
        {"reduce_max", "axes", {0}, {100003, 2}},
        {"transpose", "permutation", {0, 2, 1}, {3, 301, 517}}}) {
    CAPTURE(name);
    // Not check_case: adding up one by one in float, it takes the mean for a case that says nothing.
    const auto op = standard().make_operation(name, {{key, value}});
    const std::vector<tensor_type> in{unity::tensor::test::type(dims)};
    const auto out = *standard().infer(op, in);
    suite_operands operands;
    operands.add(random_values(name, 0, in[0], random), in[0]);
    const auto expected = unity::tensor::evaluate<double>(standard(), op, operands.numbers, in);
    check_results(run_kernel(b, b.prepare(op, in, out), in, out, operands.bytes), out, expected, 1e-5);
  }
}

// A fault in a kernel is an error that names it, now and whatever is asked afterwards. On its own, as
// the device's context does not survive it.
static int check_fault() {
  cuda_backend b{standard()};
  const std::array types{unity::tensor::test::type({1000})};
  const auto kernel = b.prepare(standard().make_operation("relu", {}), types, types);
  const std::array<const std::byte*, 1> from{
      reinterpret_cast<const std::byte*>(std::uintptr_t{64})};  // no memory is there
  const auto to = b.allocate(4000);
  const std::array<std::byte*, 1> out{const_cast<std::byte*>(to.data())};
  b.run(kernel, from, out, nullptr);
  int failed = 0;
  for (int i = 0; i < 2; ++i) {
    const auto text = failure_of([&] { b.wait(); });
    std::printf("%s\n", text.c_str());
    failed += contains(text, "kernel of relu") && contains(text, "cudaError") && !contains(text, "\n") ? 0 : 1;
    b.run(kernel, from, out, nullptr);
  }
  return failed == 0 ? 0 : 1;
}

// --few: fewer cases. --faults: only what ends the device's context.
int main(int count, char** arguments) {
  const auto why = cuda::why_no_device();
  if (!why) {
    const std::string_view choice{count == 2 ? arguments[1] : ""};
    divisor = choice == "--few" ? 10 : 1;
    return choice == "--faults" ? check_fault() : plain_catch::run_all() == 0 ? 0 : 1;
  }
  const auto text = failure_of([] { static_cast<void>(make_cuda(standard())); });
  if (!contains(text, why->c_str()) || contains(text, "\n")) {
    std::printf("FAILED: making a backend said: %s\n", text.c_str());
    return 1;
  }
  std::printf("no GPU here: %s\n", why->c_str());
  return 0;
}
