// Tutorial 7: a new backend, a device that runs operators.
//
// run:
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/executor.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

namespace tensor = unity::tensor;
namespace backend = unity::backend;

// Wraps a device, and counts its runs, their operations and the allocated bytes.
template <backend::device_backend Device>
class metered {
 public:
  using memory = typename Device::memory;
  struct kernel {
    typename Device::kernel inner;
    std::int64_t operations = 0;
    [[nodiscard]] std::size_t workspace() const { return inner.workspace(); }
  };

  metered(Device& device, const tensor::algebra& operators) : device_{&device}, operators_{&operators} {}

  [[nodiscard]] backend::device_description description() const {
    auto d = device_->description();
    d.backend = "metered " + d.backend;
    return d;
  }
  [[nodiscard]] memory allocate(std::size_t bytes) {
    allocated += bytes;
    return device_->allocate(bytes);
  }
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                               std::span<const tensor::tensor_type> outputs) {
    return {device_->prepare(op, inputs, outputs), operators_->work(op, inputs, outputs).operations.count()};
  }
  void run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* work) {
    ++runs;
    operations += k.operations;
    device_->run(k.inner, inputs, outputs, work);
  }
  void write(std::byte* to, std::span<const std::byte> from) { device_->write(to, from); }
  void read(std::span<std::byte> to, const std::byte* from) { device_->read(to, from); }
  void wait() { device_->wait(); }

  std::size_t runs = 0;
  std::int64_t operations = 0;
  std::size_t allocated = 0;

 private:
  Device* device_;
  const tensor::algebra* operators_;
};
static_assert(backend::device_backend<metered<backend::reference_backend>>);

int failures = 0;
void check(bool holds, const std::string& what) {
  fmt::print("{:8}{}\n", holds ? "ok" : "FAILED", what);
  failures += holds ? 0 : 1;
}

int main() {
  const auto operators = tensor::standard_algebra();
  const auto graph = tensor::zoo::build(operators, "zoo:mlp?layers=3&hidden=16&batch=8");

  backend::reference_backend reference{operators};
  metered device{reference, operators};
  backend::executor run{device, operators, graph};
  const auto before = device.runs;
  device.operations = 0;
  run.run();
  fmt::print("{}: {} runs, {} operations, {} bytes\n", device.description().backend, device.runs - before,
             device.operations, device.allocated);

  backend::executor plain{reference, operators, graph, {.fuse = false}};
  plain.run();
  check(run.output(0) == plain.output(0), "it computes what the device computes");
  check(device.runs - before == run.counts().launches, "a run for each launch of the executor");
  check(device.operations >= std::int64_t{3} * 2 * 8 * 16 * 16, "at least the operations of three products");
  return failures == 0 ? 0 : 1;
}
