// A workspace that begins where libraries want theirs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/device_backend.hpp>

namespace unity::backend::cuda {

// cuBLASLt refuses every other workspace as an invalid value, one of no bytes too. Unit: bytes.
// Source: the manual of cuBLAS, cublasLtMatmul.
inline constexpr std::size_t library_alignment = 256;

// What a library gave, for any workspace: where the library needs none, it gets none.
template <class Queue>
class aligned_routine final : public routine<Queue> {
 public:
  explicit aligned_routine(routine_ptr<Queue> inner) : inner_{std::move(inner)} {}

  // Any workspace is at a multiple of memory_alignment: with this much more there is one of library_alignment within.
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

// Null where there is none.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> with_aligned_workspace(routine_ptr<Queue> r) {
  return r == nullptr ? nullptr : std::make_unique<aligned_routine<Queue>>(std::move(r));
}

}  // namespace unity::backend::cuda
