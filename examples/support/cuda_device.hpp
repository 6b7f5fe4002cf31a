// The cuda backend for programs that nvcc does not compile: the same interface, behind functions of cuda_device.cu.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <unity/backend/device_backend.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace support {

// Models the same concepts as unity::backend::cuda_backend.
class cuda_device {
  using owned = std::unique_ptr<void, void (*)(void*)>;  // of types that only cuda_device.cu defines

 public:
  class memory {
   public:
    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

   private:
    friend class cuda_device;
    memory(owned m, std::byte* data, std::size_t size) : owned_{std::move(m)}, data_{data}, size_{size} {}
    owned owned_;
    std::byte* data_;
    std::size_t size_;
  };
  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const noexcept { return workspace_; }

   private:
    friend class cuda_device;
    kernel(owned k, std::size_t workspace) : owned_{std::move(k)}, workspace_{workspace} {}
    owned owned_;
    std::size_t workspace_;
  };
  class recording {
    friend class cuda_device;
    explicit recording(owned r) : owned_{std::move(r)} {}
    owned owned_;
  };
  class moment {
    friend class cuda_device;
    explicit moment(owned m) : owned_{std::move(m)} {}
    owned owned_;
  };

  // device: number of the GPU. Throws: unity::error that says why there is no such device.
  explicit cuda_device(const unity::tensor::algebra& operators, int device = 0);

  [[nodiscard]] unity::backend::device_description description() const;
  [[nodiscard]] memory allocate(std::size_t bytes);
  [[nodiscard]] kernel prepare(const unity::tensor::operation& op, std::span<const unity::tensor::tensor_type> inputs,
                               std::span<const unity::tensor::tensor_type> outputs);
  [[nodiscard]] kernel prepare_chain(const unity::tensor::tensor_graph& region);
  void run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* work);
  void write(std::byte* to, std::span<const std::byte> from);
  void read(std::span<std::byte> to, const std::byte* from);
  void wait();
  [[nodiscard]] recording record(const std::function<void()>& f);
  void replay(const recording& r);
  [[nodiscard]] moment mark();
  [[nodiscard]] double seconds(const moment& from, const moment& to);
  [[nodiscard]] std::size_t memory_size() const;
  [[nodiscard]] bool multiplies(unity::tensor::dtype t) const;

 private:
  owned owned_;
};

}  // namespace support
