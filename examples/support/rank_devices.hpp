// The backends and communicators of programs that train on ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <type_traits>

#include <unity/backend/communicator.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/tensor/algebra.hpp>
#ifdef UNITY_HAS_ONEDNN
#include <unity/backend/cpu.hpp>  // if found
#endif
#ifdef UNITY_HAS_NCCL
#include <unity/backend/nccl_communicator.hpp>  // if found
#endif

#ifdef UNITY_HAS_CUDA_DEVICE
#include "cuda_device.hpp"  // if found
#endif

namespace support {

// The time limit for ranks that wait for each other. It allows for long computations; lost ranks are noticed sooner.
inline constexpr std::chrono::minutes patience{10};

// Calls f(backend) with the backend of that name; each rank has its own.
template <class Communicator, class F>
auto with_backend([[maybe_unused]] std::string_view name, const unity::tensor::algebra& operators,
                  [[maybe_unused]] const Communicator& world, const F& f) {
  if constexpr (unity::backend::host_communicator<Communicator>) {
#ifdef UNITY_HAS_ONEDNN
    if (name == "cpu") {
      unity::backend::cpu_options o;
      o.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(world.size(), 1));
      unity::backend::cpu_backend b{operators, o};
      return f(b);
    }
#endif
    unity::backend::reference_backend b{operators};
    return f(b);
  } else {
#ifdef UNITY_HAS_CUDA_DEVICE
    cuda_device b{operators, world.device()};
    return f(b);
#endif
  }
}

#if defined(UNITY_HAS_CUDA_DEVICE) && defined(UNITY_HAS_NCCL)
// The device with the rank's number on its machine.
template <class Host>
int gpu_for(const Host& host) {
  if constexpr (!std::is_same_v<Host, unity::backend::local_communicator>) {
    if (const char* const own = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK"); own != nullptr) {
      return std::atoi(own);
    }
  }
  return host.rank();
}
#endif

// Calls f(communicator) with the host's communicator, or with one of GPUs.
template <class Host, class F>
auto with_communicator(std::string_view name, Host& host, const F& f) {
#if defined(UNITY_HAS_CUDA_DEVICE) && defined(UNITY_HAS_NCCL)
  if (name == "cuda") {
    unity::backend::nccl_communicator world{host, gpu_for(host), {patience}};
    return f(world);
  }
#endif
  static_cast<void>(name);
  return f(host);
}

}  // namespace support
