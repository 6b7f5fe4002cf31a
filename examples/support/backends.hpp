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

namespace support {

// Those of this build; which there are depends on what was found when it was configured.
inline std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
#ifdef UNITY_HAS_ONEDNN
  names.push_back("cpu");
#endif
#ifdef UNITY_HAS_CUDA_DEVICE
  names.push_back("cuda");
#endif
  names.push_back("reference");
  return names;
}

// For messages and help: "cpu or reference".
inline std::string backend_list() {
  std::string all;
  for (const auto name : backend_names()) {
    all += fmt::format("{}{}", (all.empty() ? "" : " or "), name);
  }
  return all;
}

// Throws: unity::error where this build has no such backend; `where`: what named it.
inline void check_backend(std::string_view name, std::string_view where) {
  const auto known = backend_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const bool elsewhere = name == "cpu" || name == "cuda";
    throw unity::error{where, fmt::format("{}{}'", (elsewhere ? "this build has no backend '" : "no backend '"), name),
                       backend_list()};
  }
}

// Throws: unity::error where a number of threads is given for a backend that has none.
inline void check_threads(std::string_view name, int threads) {
  if (threads != 0 && name != "cpu") {
    throw unity::error{"--backend-threads", fmt::format("threads for the backend {}", name), "the backend cpu"};
  }
}

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
