// Quoted text stays on one line, and is valid UTF-8 whatever the input was.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/core/printable.hpp>
#include <unity/core/random.hpp>

namespace tests_of_printable {

using unity::printable;

namespace {

// The number of bytes of the first character, by table 3-7 of the Unicode standard; 0 if it is not well-formed.
std::size_t well_formed(std::string_view text) {
  struct form {
    unsigned first_from;
    unsigned first_to;
    unsigned second_from;
    unsigned second_to;
    std::size_t size;
  };
  static constexpr form forms[]{{0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  for (const auto& f : forms) {
    if (byte(0) < f.first_from || byte(0) > f.first_to || text.size() < f.size) {
      continue;
    }
    bool fits = f.size == 1 || (byte(1) >= f.second_from && byte(1) <= f.second_to);
    for (std::size_t i = 2; i < f.size; ++i) {
      fits = fits && byte(i) >= 0x80 && byte(i) <= 0xbf;
    }
    if (fits) {
      return f.size;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("printable replaces control characters by question marks and white space by one space") {
  CHECK(printable("a line") == "a line");
  CHECK(printable("two\nlines\t\x7f") == "two lines ?");
  CHECK(printable(" \r\n  a \n\n b ") == " a b ");
  CHECK(printable("\xc2\x85\x1b[2J") == "???[2J");
  CHECK(printable(std::string(1, '\0')) == "?");
  CHECK(printable("").empty());
}

TEST_CASE("a byte order mark is left out at the beginning alone, and once") {
  using unity::without_byte_order_mark;
  CHECK(without_byte_order_mark("\xef\xbb\xbfone") == "one");
  CHECK(without_byte_order_mark("\xef\xbb\xbf\xef\xbb\xbf") == "\xef\xbb\xbf");
  CHECK(without_byte_order_mark("\xef\xbb") == "\xef\xbb");
  CHECK(without_byte_order_mark("one\xef\xbb\xbf") == "one\xef\xbb\xbf");
  CHECK(without_byte_order_mark("").empty());
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
  CHECK(printable("\xc3") == "?");                 // truncated character
  CHECK(printable("\x80z") == "?z");               // continuation byte without a first byte
  CHECK(printable("\xc0\xaf") == "??");            // overlong encoding
  CHECK(printable("\xe0\x80\xaf") == "???");       // overlong encoding
  CHECK(printable("\xed\xa0\x80") == "???");       // UTF-16 surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "????");  // above U+10FFFF
  CHECK(printable("\xc3\x28") == "?(");            // first byte without a continuation byte
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

TEST_CASE("printable keeps exactly the well-formed visible characters of random mixtures", "[law]") {
  static constexpr std::string_view pieces[]{"a",
                                             "~",
                                             "\x7f",
                                             " \n",
                                             "\xc2\x80",
                                             "\xc2\x9f",
                                             "\xc2\xa0",
                                             "\xc3\xa9",
                                             "\xc0\xaf",
                                             "\xe0\xa0\x80",
                                             "\xe0\x9f\xbf",
                                             "\xe5\xb1\x82",
                                             "\xed\x9f\xbf",
                                             "\xed\xa0\x80",
                                             "\xee\x80\x80",
                                             "\xf0\x90\x80\x80",
                                             "\xf0\x8f\xbf\xbf",
                                             "\xf0\x9f\x99\x82",
                                             "\xf4\x8f\xbf\xbf",
                                             "\xf4\x90\x80\x80",
                                             "\xf5\x80\x80\x80"};
  std::array<std::size_t, 5> kept{};  // by number of bytes
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    unity::random_engine random{seed};
    std::string text;
    for (int i = 0; i < 30; ++i) {
      const auto piece = pieces[random.below(std::size(pieces))];
      text += piece.substr(0, 1 + random.below(piece.size()));  // some are cut short
      if (random.below(4) == 0) {
        text += static_cast<char>(random());
      }
    }
    std::string expected;
    for (std::size_t at = 0; at < text.size();) {
      const auto rest = std::string_view{text}.substr(at);
      auto size = well_formed(rest);
      const auto first = static_cast<unsigned char>(rest[0]);
      if (std::string_view{" \t\n\v\f\r"}.find(rest[0]) != std::string_view::npos) {
        expected += expected.ends_with(' ') ? "" : " ";
      } else if (size == 0 || first < 0x20 || first == 0x7f ||
                 (first == 0xc2 && static_cast<unsigned char>(rest[1]) < 0xa0)) {
        expected += '?';
        size = 1;
      } else {
        expected += rest.substr(0, size);
        ++kept.at(size);
      }
      at += size;
    }
    REQUIRE(printable(text, text.size()) == expected);
  }
  for (std::size_t size = 1; size < kept.size(); ++size) {
    CAPTURE(size);
    CHECK(kept.at(size) > 100);
  }
}

TEST_CASE("markup escapes what XML and HTML reserve and keeps line breaks") {
  CHECK(unity::markup("a < b && \"c\" > d\n\xc3\xa9") == "a &lt; b &amp;&amp; &quot;c&quot; &gt; d\n\xc3\xa9");
}

}  // namespace tests_of_printable
