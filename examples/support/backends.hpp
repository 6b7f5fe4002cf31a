// The devices that a program can run on, chosen by name on its command line.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/cost/kernel_timer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#ifdef UNITY_HAS_ONEDNN
#include <unity/backend/cpu.hpp>  // if found
#endif
#ifdef UNITY_HAS_CUDA_DEVICE
#include "cuda_device.hpp"  // if found
#endif

#include "backend_names.hpp"

namespace support {

// Calls f(backend) with the backend of that name, which check_backend lets pass.
// threads: 0 for all that the machine has.
template <class F>
void with_backend(std::string_view name, const unity::tensor::algebra& operators, [[maybe_unused]] int threads,
                  const F& f) {
#ifdef UNITY_HAS_ONEDNN
  if (name == "cpu") {
    unity::backend::cpu_options options;
    options.threads = threads;
    unity::backend::cpu_backend backend{operators, options};
    return f(backend);
  }
#endif
#ifdef UNITY_HAS_CUDA_DEVICE
  if (name == "cuda") {
    cuda_device backend{operators};
    return f(backend);
  }
#endif
  check_backend(name, "backend");
  unity::backend::reference_backend backend{operators};
  f(backend);
}

// A device_timer of any backend: a search is compiled once for all.
struct any_timer {
  std::function<unity::measurement(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                                   std::span<const unity::tensor::tensor_type>)>
      ask;
  std::string about;

  [[nodiscard]] unity::measurement time(const unity::tensor::operation& op,
                                        std::span<const unity::tensor::tensor_type> inputs,
                                        std::span<const unity::tensor::tensor_type> outputs) const {
    return ask(op, inputs, outputs);
  }
  [[nodiscard]] std::string description() const { return about; }
};

}  // namespace support
