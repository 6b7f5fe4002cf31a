// The devices on which a program can run, chosen by name on its command line.
#pragma once

#include <string_view>

#include <unity/backend/reference.hpp>
#include <unity/tensor/algebra.hpp>
#ifdef UNITY_HAS_ONEDNN
#include <unity/backend/cpu.hpp>  // if found
#endif
#ifdef UNITY_HAS_CUDA_DEVICE
#include "cuda_device.hpp"  // if found
#endif

#include "backend_names.hpp"

namespace support {

// Calls f(backend) with the backend of that name, which check_backend accepts.
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

}  // namespace support
