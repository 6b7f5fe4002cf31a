#include <unity/io/vertex_files.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "../support/message_of.hpp"

namespace tests_of_svmlight {

using namespace unity;

TEST_CASE("SVMlight rows of a label and features are read and written") {
  const auto rows = io::parse_svmlight("# no row\n3 1:0.5 7:-2e3 # of a comment\n \n+1\t2:1\n-1 \n", "a.svmlight");
  CHECK(rows.labels == std::vector<std::optional<std::int32_t>>{3, std::nullopt, 1, -1});
  CHECK(rows.offsets == std::vector<std::size_t>{0, 2, 2, 3, 3});
  CHECK(rows.indices == std::vector<std::uint32_t>{1, 7, 2});
  CHECK(rows.values == std::vector<double>{0.5, -2000, 1});
  const std::string text = "3 1:0.5 7:-2000\n \n1 2:1\n-1 \n";
  CHECK(io::svmlight_text(rows) == text);
  CHECK(io::parse_svmlight(text, "a.svmlight") == rows);
  CHECK(io::parse_svmlight("", "a.svmlight") == io::svmlight_rows{});
}

TEST_CASE("dense SVMlight features are zero-filled with indices from 0 or 1") {
  const auto rows = io::parse_svmlight("0 1:1 3:2\n1 2:3\n", "a.svmlight");
  CHECK(io::column_count(rows) == 4);
  CHECK(io::dense(rows, "a.svmlight") == gnn::feature_matrix{4, {0, 1, 0, 2, 0, 0, 3, 0}});
  CHECK(io::dense(rows, "a.svmlight", 1) == gnn::feature_matrix{3, {1, 0, 2, 0, 3, 0}});
  CHECK(test::message_of([&] { static_cast<void>(io::dense(rows, "a.svmlight", 2)); }) ==
        "a.svmlight: index 1 in row 0; expected indices from 2 on");
}

TEST_CASE("dense SVMlight features are refused if they would be much larger than their file") {
  const auto numbers_of = [](const std::string& text, std::size_t small) {
    return io::dense(io::parse_svmlight(text, ""), "a.svmlight", 1, small).values.size();
  };
  const auto complaint_of = [&](const std::string& text, std::size_t small) {
    return test::message_of([&] { static_cast<void>(numbers_of(text, small)); });
  };
  CHECK(numbers_of("0 1:1 1024:1\n1\n", 0) == 2048);
  CHECK(complaint_of("0 1:1 1025:1\n1\n", 2049) ==
        "a.svmlight: 2 rows of 1025 features; expected 2049 numbers at most, 2 of them not 0");
  CHECK(numbers_of("0 1:1 1025:1\n1\n", 2050) == 2050);
  CHECK(test::message_of([&] {
          static_cast<void>(io::dense(io::parse_svmlight("0 4294967295:1\n", ""), "a.svmlight"));
        }) == "a.svmlight: 1 rows of 4294967296 features; expected 536870912 numbers at most, 1 of them not 0");
}

TEST_CASE("invalid SVMlight rows are refused with their line") {
  const auto complaint_of = [](std::string_view text) {
    return test::message_of([&] { static_cast<void>(io::parse_svmlight(text, "a.svmlight")); });
  };
  const std::string feature = "index:value, an integer of 32 bits and a finite number";
  CHECK(complaint_of("1 2:1\nx 2:1\n") == "a.svmlight:2: x; expected an integer as a label");
  CHECK(complaint_of(" 2:1\n") == "a.svmlight:1: 2:1; expected an integer as a label");
  CHECK(complaint_of("1 2\n") == "a.svmlight:1: 2; expected " + feature);
  CHECK(complaint_of("1 2:inf\n") == "a.svmlight:1: 2:inf; expected " + feature);
  CHECK(complaint_of("1 -2:1\n") == "a.svmlight:1: -2:1; expected " + feature);
  CHECK(complaint_of("1 2:1 2:1\n") == "a.svmlight:1: 2:1; expected an index above 2");
}

}  // namespace tests_of_svmlight
