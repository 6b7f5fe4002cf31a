// Common base of the tests' toy devices, whose memory is the host's.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include <unity/tensor/algebra.hpp>

namespace unity::backend::test {

inline const tensor::algebra& operators() {
  static const auto all = tensor::standard_algebra();
  return all;
}

class toy_host {
 public:
  struct memory {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t length = 0;
    [[nodiscard]] std::byte* data() { return bytes.get(); }
    [[nodiscard]] std::size_t size() const { return length; }
  };

  [[nodiscard]] memory allocate(std::size_t bytes) { return {std::make_unique<std::byte[]>(bytes), bytes}; }
  void write(std::byte* to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); }
  void read(std::span<std::byte> to, const std::byte* from) { std::memcpy(to.data(), from, to.size()); }
};

// A toy device with a simulated clock: each kernel advances it by the kernel's own time.
class toy_clock : public toy_host {
 public:
  struct kernel {
    double seconds = 0;
    [[nodiscard]] std::size_t workspace() const { return 0; }
  };
  using moment = double;

  void run(const kernel& k, std::span<const std::byte* const>, std::span<std::byte* const>, std::byte*) {
    now_ += k.seconds;
  }
  void wait() {}
  [[nodiscard]] moment mark() const { return now_; }
  [[nodiscard]] double seconds(moment from, moment to) const { return to - from; }

 private:
  double now_ = 0;
};

}  // namespace unity::backend::test
