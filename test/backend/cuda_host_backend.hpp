// A backend made of the cuda backend's device functions, run as loops on the host.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include <unity/backend/cuda/kernel_factory.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_memory.hpp>
#include <unity/tensor/algebra.hpp>

#include "cuda_host_library.hpp"
#include "cuda_host_queue.hpp"
#include "operator_suite.hpp"

namespace unity::backend::test {

class host_backend {
 public:
  using memory = host_memory;
  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const { return routine_->workspace(); }

   private:
    friend class host_backend;
    cuda::routine_ptr<host_queue> routine_{};
  };

  host_backend(const tensor::algebra& a, bool with_libraries, int members)
      : algebra_{&a}, library_{std::make_unique<host_library>(host_library{with_libraries})}, queue_{members} {}

  [[nodiscard]] device_description description() const { return {"cuda functions", "host", {}}; }
  [[nodiscard]] memory allocate(std::size_t bytes) { return memory{bytes}; }
  [[nodiscard]] kernel prepare(const operation& op, std::span<const tensor_type> in, std::span<const tensor_type> out) {
    kernel k;
    k.routine_ = factory().make(op, in, out);
    return k;
  }
  [[nodiscard]] kernel prepare_chain(const tensor_graph& region) {
    kernel k;
    k.routine_ = factory().make_chain(region);
    return k;
  }
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    k.routine_->run({in, out, work, queue_});
  }
  void write(std::byte* to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); }
  void read(std::span<std::byte> to, const std::byte* from) { std::memcpy(to.data(), from, to.size()); }
  void wait() {}

 private:
  [[nodiscard]] cuda::kernel_factory<host_queue, host_library> factory() const { return {*algebra_, *library_}; }

  const tensor::algebra* algebra_;
  std::unique_ptr<host_library> library_;
  host_queue queue_;
};

inline host_backend with_libraries(const tensor::algebra& a) { return {a, true, 1}; }
inline host_backend without_libraries(const tensor::algebra& a) { return {a, false, 1}; }
inline host_backend in_teams(const tensor::algebra& a) { return {a, true, 3}; }

static_assert(device_backend<host_backend> && fusing_backend<host_backend>);

}  // namespace unity::backend::test
