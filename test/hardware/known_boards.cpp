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
  CHECK(id_of_board("Tesla V100S-PCIE-32GB") == "v100");
  for (const auto* const other :
       {"NVIDIA Tesla P40", "Quadro P4000", "Quadro P400", "NVIDIA T400 4GB", "NVIDIA RTX A1000"}) {
    CAPTURE(other);
    CHECK_FALSE(id_of_board(other));
  }
  CHECK_FALSE(id_of_board("abacus"));
  CHECK_FALSE(known_kernel_device("abacus"));
}

}  // namespace

}  // namespace tests_of_known_boards
