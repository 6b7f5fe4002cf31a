// expect: satisf[a-z ]+[^a-z]+device_backend
// expect: b[.]run[(]k, in, out, to[)][^ ]* (is|would be) invalid
// A device that prepares kernels and cannot run them.
#include <cstddef>
#include <span>

#include <unity/backend/executor.hpp>

struct device {
  struct memory {
    std::byte* data();
    std::size_t size() const;
  };
  struct kernel {
    std::size_t workspace() const;
  };
  unity::backend::device_description description() const;
  memory allocate(std::size_t);
  kernel prepare(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                 std::span<const unity::tensor::tensor_type>);
  void write(std::byte*, std::span<const std::byte>);
  void read(std::span<std::byte>, const std::byte*);
  void wait();
};

using runs = unity::backend::executor<device>;
