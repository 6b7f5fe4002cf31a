// The core compiles under nvcc, for host and device, and what it computes at compile time is there in a kernel.
#include <cstdint>

#include <unity/search.hpp>

static_assert(unity::mutable_dataflow_graph<unity::compact_graph<int, int>>);

constexpr std::uint64_t salt = unity::mix64(1);

__global__ void fill(std::uint64_t* out, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x;
  if (i < count) {
    out[i] = i ^ salt;
  }
}
