#include <unity/io/vertex_files.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"

namespace tests_of_vertex_files {

using namespace unity;
using gnn::vertex_role;

TEST_CASE("vertex features survive round trips through binary and CSV text exactly") {
  random_engine random{7};
  for (std::uint64_t seed = 0; seed < test::cases(100); ++seed) {
    CAPTURE(seed);
    gnn::feature_matrix m;
    const auto rows = random.below(8) + 1;
    m.columns = random.below(8) + 1;
    for (std::uint64_t i = 0; i < rows * m.columns; ++i) {
      m.values.push_back(static_cast<float>(random.unit() - 0.5) * (random.below(2) == 0 ? 1e-20F : 3e9F));
    }
    REQUIRE(io::parse_features_bin(io::features_bin(m), rows, "a.bin") == m);
    REQUIRE(io::parse_features_csv(io::features_csv(m), "a.csv") == m);
  }
  const std::string text = "1,0,-0.5\n1e-05,3.4028235e+38,0.1\n";
  CHECK(io::features_csv(io::parse_features_csv(text, "a.csv")) == text);
  CHECK(io::parse_features_csv("1,2\r\n3,4", "a.csv") == gnn::feature_matrix{2, {1, 2, 3, 4}});
  CHECK(io::parse_features_csv("", "a.csv") == gnn::feature_matrix{});
  CHECK(io::parse_features_bin("", 0, "a.bin") == gnn::feature_matrix{});
}

TEST_CASE("invalid vertex features are refused with their line or row") {
  const auto complaint_of = [](std::string_view text) {
    return test::message_of([&] { static_cast<void>(io::parse_features_csv(text, "a.csv")); });
  };
  CHECK(complaint_of("1,2\n3\n") == "a.csv:2: 1 numbers; expected 2 as in the first line");
  CHECK(complaint_of("1,2\n3,x\n") == "a.csv:2: x; expected a finite number");
  CHECK(complaint_of("1,nan\n") == "a.csv:1: nan; expected a finite number");
  CHECK(complaint_of("1,\n") == "a.csv:1: the end of the line; expected a finite number");
  CHECK(complaint_of("1\n\n") == "a.csv:2: the end of the line; expected a finite number");
  CHECK(test::message_of([] { static_cast<void>(io::parse_features_bin("12345678", 3, "a.bin")); }) ==
        "a.bin: 8 bytes; expected float32 numbers in 3 rows");
  for (const auto odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto bytes = io::features_bin({2, {1, 2, odd, 4}});
    CHECK(test::message_of([&] { static_cast<void>(io::parse_features_bin(bytes, 2, "a.bin")); }) ==
          fmt::format("a.bin: row 1, column 0: {}; expected a finite number", odd));
  }
}

TEST_CASE("vertex labels and roles survive text round trips byte for byte") {
  const std::string labels = "3\n0\n12\n";
  CHECK(io::parse_labels(labels, "a.label") == std::vector<std::int32_t>{3, 0, 12});
  CHECK(io::labels_text(io::parse_labels(labels, "a.label")) == labels);
  const std::vector roles{vertex_role::train, vertex_role::none, vertex_role::test, vertex_role::validation};
  CHECK(io::mask_text(roles) == "Train\nNone\nTest\nVal\n");
  CHECK(io::parse_mask(io::mask_text(roles), "a.mask") == roles);
  CHECK(io::split_text(roles) == "1\n0\n3\n2\n");
  CHECK(io::parse_split(io::split_text(roles), "a.split") == roles);
}

TEST_CASE("invalid vertex labels and roles are refused with their line") {
  const auto labels = [](std::string_view text) {
    return test::message_of([&] { static_cast<void>(io::parse_labels(text, "a.label")); });
  };
  CHECK(labels("1\n-1\n") == "a.label:2: -1; expected a class, 0 to 2147483646");
  CHECK(labels("1\n2147483647\n") == "a.label:2: 2147483647; expected a class, 0 to 2147483646");
  CHECK(labels("1 2\n") == "a.label:1: 1 2; expected a class, 0 to 2147483646");
  CHECK(test::message_of([] { static_cast<void>(io::parse_mask("Train\ntrain\n", "a.mask")); }) ==
        "a.mask:2: train; expected Train, Val, Test or None");
  CHECK(test::message_of([] { static_cast<void>(io::parse_split("1\n\n", "a.split")); }) ==
        "a.split:2: the end of the line; expected 0, 1, 2 or 3");
}

}  // namespace tests_of_vertex_files
