#include <unity/hardware/kernel_model.hpp>

#include <catch2/catch.hpp>

namespace tests_of_known_boards {

namespace {

using namespace unity;
using namespace unity::hardware;

TEST_CASE("known boards are found by driver names") {
  CHECK(id_of_board("Tesla-P4") == "p4");
  CHECK(id_of_board("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(known_kernel_device("T4")->units == 40);
  CHECK(known_kernel_device("P100-PCIE-16GB")->clock_hz == 1.48e9);
  CHECK_FALSE(id_of_board("abacus"));
  CHECK_FALSE(known_kernel_device("abacus"));
}

}  // namespace

}  // namespace tests_of_known_boards
