// A workspace that begins where libraries want theirs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/device_backend.hpp>

namespace unity::backend::cuda {

// cuBLASLt refuses every other workspace as an invalid value. Unit: bytes.
// Source: the manual of cuBLAS, cublasLtMatmul.
inline constexpr std::size_t library_alignment = 256;

// Any workspace is at a multiple of memory_alignment: with this much more there is one of library_alignment within.
template <class Queue>
class aligned_routine final : public routine<Queue> {
 public:
  explicit aligned_routine(routine_ptr<Queue> inner) : inner_{std::move(inner)} {}

  [[nodiscard]] std::size_t workspace() const override {
    return inner_->workspace() + library_alignment - memory_alignment;
  }

  void run(const call<Queue>& c) const override {
    const auto beyond = reinterpret_cast<std::uintptr_t>(c.work) % library_alignment;
    inner_->run({c.inputs, c.outputs, c.work + (beyond == 0 ? 0 : library_alignment - beyond), c.queue});
  }

 private:
  routine_ptr<Queue> inner_;
};

// What a library gave, which may be null, for any workspace.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> with_aligned_workspace(routine_ptr<Queue> r) {
  return r == nullptr || r->workspace() == 0 ? std::move(r) : std::make_unique<aligned_routine<Queue>>(std::move(r));
}

}  // namespace unity::backend::cuda
