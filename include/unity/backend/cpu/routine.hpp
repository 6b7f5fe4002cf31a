// The interface of a prepared kernel.
#pragma once

#include <cstddef>
#include <span>

#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Addresses for one run. Operands and results are in the order of the operator; work is aligned.
struct call {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* work = nullptr;
  int threads = 1;
};

// A kernel. A run does not allocate memory; one kernel must not run twice concurrently.
class routine {
 public:
  routine() = default;
  routine(const routine&) = delete;
  routine& operator=(const routine&) = delete;
  virtual ~routine() = default;

  virtual void run(const call& c) const = 0;

  // Unit: bytes.
  [[nodiscard]] virtual std::size_t workspace() const { return 0; }
  // Size in bytes of the packed form of operand i that run expects instead of the plain one; 0: plain.
  [[nodiscard]] virtual std::size_t packed_size(std::size_t) const { return 0; }
  virtual void pack(std::size_t, const std::byte*, std::byte*) const {}
};

using types = std::span<const tensor::tensor_type>;

[[nodiscard]] inline bool is_plain(const tensor::tensor_type& t) {
  return t.element == tensor::dtype::float32 && is_row_major(t);
}

}  // namespace unity::backend::cpu
