#include <unity/backend/cpu.hpp>

#include <catch2/catch.hpp>

#include <unity/backend/device_backend.hpp>
#include <unity/tensor/algebra.hpp>

#include "../support/cases.hpp"
#include "operator_suite.hpp"

namespace tests_of_cpu_operators {

namespace {

using namespace unity::backend;
using unity::backend::test::check_chains;
using unity::backend::test::check_integer_ranges;
using unity::backend::test::check_operators;
using unity::tensor::dtype;
using unity::test::all_or;

static_assert(device_backend<cpu_backend> && packing_backend<cpu_backend> && fusing_backend<cpu_backend>);
static_assert(!recording_backend<cpu_backend> && !clocked_backend<cpu_backend>);

cpu_backend one_thread(const unity::tensor::algebra& a) { return cpu_backend{a, {.threads = 1}}; }
cpu_backend three_threads(const unity::tensor::algebra& a) { return cpu_backend{a, {.threads = 3}}; }

}  // namespace

TEST_CASE("cpu kernels match the reference for every operator on one thread", "[cpu]") {
  check_operators(one_thread, {.cases = all_or(120, 15)});
}

TEST_CASE("cpu kernels match the reference for every operator on three threads", "[cpu]") {
  check_operators(three_threads, {.cases = all_or(10, 2), .seed = 2});
}

TEST_CASE("cpu kernels match the reference for every operator in 16-bit floats and float64", "[cpu]") {
  check_operators(one_thread, {.tolerance = 1e-2, .cases = all_or(60, 8), .element = dtype::bfloat16});
  check_operators(one_thread, {.tolerance = 3e-3, .cases = all_or(10, 2), .element = dtype::float16});
  check_operators(one_thread, {.cases = all_or(10, 2), .element = dtype::float64});
}

TEST_CASE("integer results of cpu kernels keep the low bits of numbers that do not fit", "[cpu]") {
  check_integer_ranges(one_thread);
}

TEST_CASE("cpu chain kernels match the reference on 1 and 3 threads", "[cpu]") {
  check_chains(one_thread);
  check_chains(three_threads, {.cases = 5, .seed = 3});
}

}  // namespace tests_of_cpu_operators
