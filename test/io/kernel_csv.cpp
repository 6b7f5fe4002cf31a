#include <unity/io/measurements_csv.hpp>

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <unity/core/error.hpp>

namespace tests_of_kernel_csv {

namespace {

using namespace unity;
using namespace unity::hardware;

const std::string one = "device,latency_ms,grid,block,kernel,";
const std::string all = "device,operator,element,latency_ms,kernel_ms,grid,block,kernel,sizes\n";

std::string complaint(const std::string& text, const std::string& op) {
  try {
    static_cast<void>(io::parse_kernels(text, "t.csv", op));
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

TEST_CASE("measured kernels are read from both CSV formats") {
  const kernel_sample product{"P4", "bmm", {kernel_kind::batched_product, 6, 27, 390, 21}, 0.25e-3};
  CHECK(io::parse_kernels(one + "b,m,n,k\r\nP4,0.25,24,256,sgemm,6,27,21,390\r\n", "t.csv", "bmm") ==
        std::vector{product});
  auto same = product;
  same.kernel_seconds = 0.125e-3;
  auto narrow = same;
  narrow.op = "bmm_bfloat16";
  narrow.shape.kind = kernel_kind::tensor_product;
  narrow.shape.element_bytes = 2;
  const kernel_sample attention{
      "P4", "causal_attention", {kernel_kind::attention, 1, 2, 2, 3, 2, 4, true}, 1e-3, 0.5e-3};
  CHECK(io::parse_kernels(all + "P4,bmm,float32,0.25,0.125,24,256,\"a<1,2>\",6 27 390 21\n"
                                "P4,bmm,bfloat16,0.25,0.125,24,256,a,6 27 390 21\nP4,bias_gelu,float32,1,1,1,1,a,1 2\n"
                                "P4,causal_attention,float32,1,0.5,1,1,a,1 2 3\n",
                          "t.csv", "") == std::vector{same, narrow, attention});
  const auto sums = io::parse_kernels(all + "P4,add,float32,1,0,1,1,a,7 8\nP4,relu,float32,1,0,1,1,a,7 8", "t", "");
  REQUIRE(sums.size() == 2);
  CHECK(sums[0].shape == kernel_shape{kernel_kind::elementwise, 1, 7, 8, 0, 3});
  CHECK(sums[1].shape == kernel_shape{kernel_kind::elementwise, 1, 7, 8, 0, 2});
}

TEST_CASE("kernel CSV keeps 3x3 convolutions and skips other kernel sizes") {
  const auto text = one + "b,i,o,k,s,t,p\nP4,1,1,1,a,8,3,64,3,32,1,1\nP4,1,1,1,a,8,3,64,5,32,1,1\n";
  const auto samples = io::parse_kernels(text, "t.csv", "conv");
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].shape == kernel_shape{kernel_kind::convolution, 8, 32, 64, 3});
}

TEST_CASE("an unreadable line of a kernel CSV file is reported with its number") {
  CHECK(complaint("", "add") ==
        "t.csv: no kernel that is known; expected times of bmm, linear, conv, softmax, ln or of element-wise "
        "operators");
  CHECK(complaint("a,b\n", "add").starts_with("t.csv:1: a,b; expected device,latency_ms,grid,block,kernel,..., or "));
  CHECK(complaint(one + "b,h\nP4,1,1,1,a,2\n", "add") == "t.csv:2: P4,1,1,1,a,2; expected 7 fields");
  CHECK(complaint(one + "b,h\nP4,-1,1,1,a,2,3\n", "add") ==
        "t.csv:2: -1; expected a number from 1e-06 to 1000000000000");
  CHECK(complaint(one + "b,h\nP4,1,1,1,a,2,nan\n", "add") == "t.csv:2: nan; expected a number from 1 to 1000000000000");
  CHECK(complaint(one + "b,h\nP4,1,1,1,a,2,3\n", "bmm") == "t.csv:2: 2 sizes of bmm; expected 4");
  CHECK(complaint(all + "P4,bmm,float32,1,1,1,1,a,1 2 3\n", "") == "t.csv:2: 3 sizes of bmm; expected 4");
}

}  // namespace

}  // namespace tests_of_kernel_csv
