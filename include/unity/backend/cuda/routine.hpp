// The interface of a prepared kernel, on a queue of launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <unity/backend/device_backend.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// Queue: runs functions on many points, one call after another. Functions are copied; they contain addresses.
//   q.each(n, f)          f(i) for i in [0, n), in any order; those with equal i / block_threads begin together
//   q.rows(n, width, f)   f(group, i) for i in [0, n), each by `width` threads: 1, 32 or 256
//   q.tiles(n, f)         for i in [0, n), by block_threads threads t that share a tile, an array of f.tile_size
//                         F::element: f.read(tile, t, i) by all of them, and then f.write(tile, t, i)
// A group: g.rank() in [0, g.size()); g.sum(x) and g.largest(x) over the threads of the group, returned to each of
// them.
// Models: stream (backend/cuda/stream.cuh), and a loop on the host, for tests without a device.

inline constexpr int block_threads = 256;
inline constexpr int warp_threads = 32;

// Addresses for one run. Operands and results are in the order of the operator; work is aligned.
template <class Queue>
struct call {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* work = nullptr;
  Queue& queue;
};

// A kernel: one or more launches. It must not run twice concurrently.
template <class Queue>
class routine {
 public:
  routine() = default;
  routine(const routine&) = delete;
  routine& operator=(const routine&) = delete;
  virtual ~routine() = default;

  virtual void run(const call<Queue>& c) const = 0;
  // Unit: bytes.
  [[nodiscard]] virtual std::size_t workspace() const { return 0; }
};

template <class Queue>
using routine_ptr = std::unique_ptr<routine<Queue>>;

using types = std::span<const tensor::tensor_type>;

}  // namespace unity::backend::cuda
