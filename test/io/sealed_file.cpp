#include <unity/io/sealed_file.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>

#include "sealed_files.hpp"

namespace tests_of_sealed_file {

namespace io = unity::io;

namespace {

unity::fingerprint sum_of(const std::string& text) {
  io::byte_hasher sum;
  sum.add(std::as_bytes(std::span{text}));
  return sum.result();
}

}  // namespace

TEST_CASE("a checksum does not depend on how its bytes are split into pieces") {
  const auto seed = GENERATE(range(0U, 50U));
  CAPTURE(seed);
  unity::random_engine random{seed};
  std::string text(static_cast<std::size_t>(random.below(100)), '\0');
  for (auto& c : text) {
    c = static_cast<char>(random.below(256));
  }
  io::byte_hasher pieces;
  const auto bytes = std::as_bytes(std::span{text});
  for (std::size_t at = 0; at < bytes.size();) {
    const auto count = static_cast<std::size_t>(random.below(bytes.size() - at + 1));
    pieces.add(bytes.subspan(at, count));
    at += count;
  }
  CHECK(pieces.result() == sum_of(text));
  CHECK(sum_of(text + '\0') != sum_of(text));
}

TEST_CASE("checksums of known texts have their fixed values") {
  CHECK(sum_of("") == unity::fingerprint{0xaaf3a0e4f347dcebU, 0xb77925d5f92d36c2U});
  CHECK(sum_of("unity") == unity::fingerprint{0xb1f2488563b53992U, 0x09cff0a16ed8b3e5U});
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += static_cast<char>(i);
  }
  CHECK(sum_of(text) == unity::fingerprint{0xc308997277c91ba3U, 0xfe54a708e675363dU});
}

TEST_CASE("a sealed file's header and parts of its values are read") {
  const auto path = sealed_files::fresh_folder("sealed") / "f";
  const std::string values = "abcdefgh";
  sealed_files::overwrite(path, sealed_files::sealed("unity example 1\n", "{\"a\": 1}", values));
  const io::sealed_reader reader{path, "unity example 1\n"};
  CHECK(reader.name() == path.string());
  CHECK(reader.header() == "{\"a\": 1}");
  CHECK(reader.value_bytes() == 8);
  std::vector<std::byte> piece(3);
  reader.read(5, piece);
  CHECK(piece == std::vector{std::byte{'f'}, std::byte{'g'}, std::byte{'h'}});
  CHECK(sealed_files::content_of(path).size() == 64 + 8 + 16);
}

}  // namespace tests_of_sealed_file
