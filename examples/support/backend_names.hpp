// The backends of this build, by their names in flags.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace support {

// The backends of this build, which depend on the libraries found at configuration.
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

// The backends for ranks, the default first. Ranks with GPUs communicate by NCCL only.
inline std::vector<std::string> rank_backends() {
  std::vector<std::string> names;
#ifdef UNITY_HAS_ONEDNN
  names.emplace_back("cpu");
#endif
  names.emplace_back("reference");
#if defined(UNITY_HAS_CUDA_DEVICE) && defined(UNITY_HAS_NCCL)
  names.emplace_back("cuda");
#endif
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

// Throws: unity::error if this build has no such backend; `where`: the flag or file that names it.
inline void check_backend(std::string_view name, std::string_view where) {
  const auto known = backend_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const bool elsewhere = name == "cpu" || name == "cuda";
    throw unity::error{where, fmt::format("{}{}'", (elsewhere ? "this build has no backend '" : "no backend '"), name),
                       backend_list()};
  }
}

// Throws: unity::error if a number of threads is given for a backend without threads.
inline void check_threads(std::string_view name, int threads) {
  if (threads != 0 && name != "cpu") {
    throw unity::error{"--backend-threads", fmt::format("threads for the backend {}", name), "the backend cpu"};
  }
}

}  // namespace support
