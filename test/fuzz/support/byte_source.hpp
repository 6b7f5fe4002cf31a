// Choices decoded from the bytes of an input; after its end, every choice is the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace unity::test {

class byte_source {
 public:
  explicit byte_source(std::span<const std::uint8_t> bytes) : bytes_{bytes} {}

  [[nodiscard]] bool ended() const noexcept { return bytes_.empty(); }
  // Returns a number below n. Precondition: n is at most 65536.
  [[nodiscard]] std::size_t below(std::size_t n) {
    std::size_t number = next();
    if (n > 256) {
      number = number << 8U | next();
    }
    return number % n;
  }

 private:
  std::uint8_t next() {
    if (bytes_.empty()) {
      return 0;
    }
    const auto b = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return b;
  }

  std::span<const std::uint8_t> bytes_;
};

}  // namespace unity::test
