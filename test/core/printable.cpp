// Quoted text stays on one line, and is valid UTF-8 whatever the input was.
#include <cstddef>
#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include <unity/core/printable.hpp>
#include <unity/core/random.hpp>

namespace tests_of_printable {

using unity::printable;

TEST_CASE("printable replaces control characters by question marks and white space by one space") {
  CHECK(printable("a line") == "a line");
  CHECK(printable("two\nlines\t\x7f") == "two lines ?");
  CHECK(printable(" \r\n  a \n\n b ") == " a b ");
  CHECK(printable("\xc2\x85\x1b[2J") == "???[2J");
  CHECK(printable(std::string(1, '\0')) == "?");
  CHECK(printable("").empty());
}

TEST_CASE("printable cuts long text at a UTF-8 character boundary") {
  CHECK(printable(std::string(100, 'x')) == std::string(60, 'x') + "...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("abc", 2) == "ab...");
  CHECK(printable("a\xc3\xa9", 2) == "a...");
  CHECK(printable("a\xc3\xa9", 3) == "a\xc3\xa9");
}

TEST_CASE("printable keeps valid UTF-8 and replaces invalid bytes") {
  for (const char* text : {"\xc3\xa9", "\xe5\xb1\x82", "\xf0\x9f\x99\x82", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    CHECK(printable(text) == text);
  }
  CHECK(printable("\xc3") == "?");                  // truncated character
  CHECK(printable("\x80z") == "?z");                // continuation byte without a first byte
  CHECK(printable("\xc0\xaf") == "??");             // overlong encoding
  CHECK(printable("\xe0\x80\xaf") == "???");        // overlong encoding
  CHECK(printable("\xed\xa0\x80") == "???");        // UTF-16 surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "????");   // above U+10FFFF
  CHECK(printable("\xc3\x28") == "?(");             // first byte without a continuation byte
}

TEST_CASE("printable is idempotent and removes line breaks", "[law]") {
  const auto seed = GENERATE(range(std::uint64_t{0}, std::uint64_t{200}));
  CAPTURE(seed);
  unity::random_engine random{seed};
  std::string text;
  for (std::size_t i = 0; i < 40; ++i) {
    text += static_cast<char>(random());
  }
  const auto line = printable(text, 1000);
  CHECK(printable(line, 1000) == line);
  CHECK(line.find_first_of("\n\r\t\x1b\x7f") == std::string::npos);
}

}  // namespace tests_of_printable
