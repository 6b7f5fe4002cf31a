// Reads and writes protocol buffers' wire format field by field, without a schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::io {

// Iterates over the fields of one message. Supports varints and length-delimited fields; skips fixed-width ones.
// Complexity: linear in the bytes; allocates nothing.
class wire_reader {
 public:
  struct field {
    std::uint32_t number = 0;
    bool is_bytes = false;
    std::uint64_t integer = 0;  // for a varint
    std::string_view bytes{};   // for a length-delimited field
    std::size_t position = 0;   // where the field starts in the file
  };

  // `position` is where `message` starts in the file named `file`.
  wire_reader(std::string_view message, std::string_view file, std::size_t position = 0)
      : message_{message}, file_{file}, base_{position} {}

  // False at the end of the message.
  // Throws: unity::error naming the byte if the message is malformed.
  bool next(field& f);

  // Where a length-delimited field's bytes start in the file.
  [[nodiscard]] std::size_t start_of(const field& f) const {
    return base_ + static_cast<std::size_t>(f.bytes.data() - message_.data());
  }
  [[noreturn]] void fail(const std::string& found, std::string_view expected) const {
    throw error{fmt::format("{}, byte {}", file_, base_ + at_), found, expected};
  }

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t length);

  std::string_view message_;
  std::string_view file_;
  std::size_t base_;
  std::size_t at_ = 0;
};

// The tag and length of a field whose bytes follow.
[[nodiscard]] std::string length_delimited(std::uint32_t field, std::uint64_t size);

// Writes one message: fields in the order of the calls.
class wire_writer {
 public:
  // A varint; negative ones as int32 and int64 have them.
  void integer(std::uint32_t field, std::int64_t value);
  // A text, or a message.
  void bytes(std::uint32_t field, std::string_view value) {
    text_ += length_delimited(field, value.size());
    text_ += value;
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_{};
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_WIRE)

#include <unity/core/config.hpp>

namespace unity::io {

UNITY_INLINE bool wire_reader::next(field& f) {
  while (at_ < message_.size()) {
    f = {};
    f.position = base_ + at_;
    const auto tag = varint();
    f.number = static_cast<std::uint32_t>(tag >> 3U);
    if (f.number == 0 || (tag >> 3U) > 0x1fffffffU) {
      fail(fmt::format("field number {}", tag >> 3U), "one from 1 to 536870911");
    }
    switch (tag & 7U) {
      case 0: f.integer = varint(); return true;
      case 2:
        f.bytes = take(varint());
        f.is_bytes = true;
        return true;
      case 1: (void)take(8); break;
      case 5: (void)take(4); break;
      default: fail(fmt::format("wire type {}", tag & 7U), "0, 1, 2 or 5");
    }
  }
  return false;
}

UNITY_INLINE std::uint64_t wire_reader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == message_.size()) {
      fail("the message ends within a number", "more bytes (is the file truncated?)");
    }
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) {
      return value;
    }
  }
  fail("a number of more than 64 bits", "a varint");
}

UNITY_INLINE std::string_view wire_reader::take(std::uint64_t length) {
  if (length > message_.size() - at_) {
    fail(fmt::format("a field of {} bytes where {} remain", length, message_.size() - at_),
         "a field that fits (is the file truncated?)");
  }
  const auto bytes = message_.substr(at_, static_cast<std::size_t>(length));
  at_ += bytes.size();
  return bytes;
}

namespace detail {

UNITY_INLINE void add_varint(std::string& text, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) {
    text += static_cast<char>((value & 0x7fU) | 0x80U);
  }
  text += static_cast<char>(value);
}

}  // namespace detail

UNITY_INLINE std::string length_delimited(std::uint32_t field, std::uint64_t size) {
  constexpr unsigned length_delimited_type = 2;
  std::string text;
  detail::add_varint(text, std::uint64_t{field} << 3U | length_delimited_type);
  detail::add_varint(text, size);
  return text;
}

UNITY_INLINE void wire_writer::integer(std::uint32_t field, std::int64_t value) {
  detail::add_varint(text_, std::uint64_t{field} << 3U);
  detail::add_varint(text_, static_cast<std::uint64_t>(value));
}

}  // namespace unity::io

#endif
