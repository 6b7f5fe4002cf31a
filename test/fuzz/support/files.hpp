// The valid framing of files (first line, lengths, checksum), which a fuzzer would never guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <unity/core/hash.hpp>
#include <unity/io/sealed_file.hpp>

namespace unity::test {

// The framing that core/archive.hpp reads.
[[nodiscard]] inline std::string archive_of(std::string_view magic, std::string_view content) {
  const auto sum = hash_bytes(content);
  std::string all{magic};
  all.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return all.append(content);
}

// The framing that io/sealed_file.hpp reads: `all` and its checksum.
[[nodiscard]] inline std::string sealed(std::string all) {
  io::byte_hasher bytes;
  bytes.add(std::as_bytes(std::span{all}));
  const auto sum = bytes.result();
  const std::uint64_t words[2]{sum.low, sum.high};
  return all.append(reinterpret_cast<const char*>(words), sizeof words);
}
[[nodiscard]] inline std::string sealed_of(std::string_view line, std::string_view header, std::string_view values) {
  return sealed(io::sealed_head(line, header, values.size()).append(values));
}

// An input is a text header, a zero byte, and the values.
struct header_and_values {
  std::string_view header{};
  std::string_view values{};
};
[[nodiscard]] inline header_and_values split_input(const std::uint8_t* data, std::size_t size) {
  const std::string_view all{reinterpret_cast<const char*>(data), size};
  const auto end = all.find('\0');
  return {all.substr(0, end), end == std::string_view::npos ? std::string_view{} : all.substr(end + 1)};
}

}  // namespace unity::test
