#include <unity/io/measurements_csv.hpp>

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/hardware/collective_fit.hpp>

#include "../support/shared_file.hpp"

namespace tests_of_collective_csv {

namespace {

using namespace unity;
using hardware::collective_sample;
using hardware::exchange;

const std::string head = "collective,gpus,size_mb,time_ms\n";

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(io::parse_collectives(text, "t.csv"));
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

TEST_CASE("collective CSV sizes become link bytes and failed measurements are skipped") {
  const auto samples = io::parse_collectives(
      head + "all_reduce,8,64,1.5\r\n\nall_gather,4,0.5,0.25\nall_to_all,2,6144,1000000000", "t.csv");
  CHECK(samples == std::vector<collective_sample>{{exchange::all_reduce, 8, bytes{64 << 20}, 1.5e-3},
                                                  {exchange::all_gather, 4, bytes{2 << 20}, 0.25e-3}});
}

TEST_CASE("an unreadable line of a collective CSV file is reported with its number") {
  CHECK(complaint("") == "t.csv: no measured collective; expected lines as in collective,gpus,size_mb,time_ms");
  CHECK(complaint("a,b\n") == "t.csv:1: a,b; expected collective,gpus,size_mb,time_ms");
  CHECK(complaint(head + "all_reduce,8,64\n") ==
        "t.csv:2: all_reduce,8,64; expected four fields as in collective,gpus,size_mb,time_ms");
  CHECK(complaint(head + "all_reduce,8,64,1,\n").starts_with("t.csv:2: all_reduce,8,64,1,; expected four fields"));
  CHECK(complaint(head + "message,8,64,1\n").starts_with("t.csv:2: message; expected a collective: all_reduce"));
  CHECK(complaint(head + "all_reduce,1,64,1\n") == "t.csv:2: 1; expected 2 to 1000000 GPUs");
  CHECK(complaint(head + "all_reduce,2.5,64,1\n") == "t.csv:2: 2.5; expected 2 to 1000000 GPUs");
  CHECK(complaint(head + "all_reduce,2,-1,1\n") == "t.csv:2: -1; expected 0 to 1000000 MB");
  CHECK(complaint(head + "all_reduce,2,nan,1\n") == "t.csv:2: nan; expected 0 to 1000000 MB");
  CHECK(complaint(head + "all_reduce,2,1,0\n") == "t.csv:2: 0; expected a positive time in ms");
}

// The bounds are those of docs/performance.md, rounded up: for NCCL within one node of 8 V100.
TEST_CASE("collective times on one V100 node are predicted for held-out sizes and group sizes", "[shared]") {
  const auto file = test::shared_file("data/collectives/v100_node.csv");
  if (!file) {
    return;
  }
  const auto errors = hardware::held_out_errors(io::read_collectives(*file));
  for (const auto& [kind, groups] : errors) {
    for (const auto& [ranks, e] : groups) {
      CAPTURE(kind, ranks);
      CHECK(e.sizes < 0.03);
      CHECK(e.group < (kind == exchange::all_gather ? 0.06 : kind == exchange::reduce_scatter ? 0.12 : 0.22));
    }
  }
}

}  // namespace

}  // namespace tests_of_collective_csv
