// Aligns workspaces as libraries require.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/device_backend.hpp>

namespace unity::backend::cuda {

// cuBLASLt rejects any other workspace as an invalid value, even one of zero bytes. Unit: bytes.
// Source: the manual of cuBLAS, cublasLtMatmul.
inline constexpr std::size_t library_alignment = 256;

// Wraps a library's routine to accept any workspace; passes null if the library needs none.
template <class Queue>
class aligned_routine final : public routine<Queue> {
 public:
  explicit aligned_routine(routine_ptr<Queue> inner) : inner_{std::move(inner)} {}

  // Workspaces are aligned to memory_alignment: this much extra space always contains one aligned to library_alignment.
  [[nodiscard]] std::size_t workspace() const override {
    const auto needed = inner_->workspace();
    return needed == 0 ? 0 : needed + library_alignment - memory_alignment;
  }

  void run(const call<Queue>& c) const override {
    const auto beyond = reinterpret_cast<std::uintptr_t>(c.work) % library_alignment;
    auto* const work = beyond == 0 ? c.work : c.work + (library_alignment - beyond);
    inner_->run({c.inputs, c.outputs, inner_->workspace() == 0 ? nullptr : work, c.queue});
  }

 private:
  routine_ptr<Queue> inner_;
};

// Null if r is null.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> with_aligned_workspace(routine_ptr<Queue> r) {
  return r == nullptr ? nullptr : std::make_unique<aligned_routine<Queue>>(std::move(r));
}

}  // namespace unity::backend::cuda
