#include <unity/core/printable.hpp>

#include <string>

#include <catch2/catch.hpp>

using unity::printable;

TEST_CASE("what a file says is shown in one short line of ASCII") {
  CHECK(printable("a line") == "a line");
  CHECK(printable("two\nlines\t\x7f") == "two?lines??");
  CHECK(printable("\xc3\xa9") == "??");
  CHECK(printable(std::string(1, '\0')) == "?");
  CHECK(printable(std::string(100, 'x')) == std::string(60, 'x') + "...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("abc", 2) == "ab...");
  CHECK(printable("").empty());
}
