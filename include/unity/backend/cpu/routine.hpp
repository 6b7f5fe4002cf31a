// The interface of a prepared kernel, and its data parallelism.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Data parallelism on oneDNN's threads: a second set of threads would compete with them for the cores.

namespace detail {

// The entry points of the OpenMP runtime that Debian's oneDNN uses. Compilers only emit calls to them with a flag that
// users of a header should not need.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_thread_num() noexcept;
int omp_get_num_threads() noexcept;
void omp_set_num_threads(int threads) noexcept;
#ifdef UNITY_THREAD_SANITIZER
void __tsan_acquire(void* place);
void __tsan_release(void* place);
#endif
}

// Everything a thread did before happened_here(place) happens before what another does after see_what_happened(place).
// Informs the thread sanitizer, which cannot see this because the OpenMP runtime is compiled without it.
inline void happened_here([[maybe_unused]] void* place) {
#ifdef UNITY_THREAD_SANITIZER
  __tsan_release(place);
#endif
}
inline void see_what_happened([[maybe_unused]] void* place) {
#ifdef UNITY_THREAD_SANITIZER
  __tsan_acquire(place);
#endif
}

}  // namespace detail

// Sets the number of threads that oneDNN uses for calls from this thread.
inline void use_threads(int threads) noexcept { detail::omp_set_num_threads(threads); }

// Calls body(thread, begin, end) on at most `threads` contiguous parts of [0, count); a part has at least `grain`
// elements. body must not throw.
template <class Body>
void parallel_for(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  const auto parts = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, threads);
  if (parts == 1) {
    if (count > 0) {
      body(0, std::int64_t{0}, count);
    }
    return;
  }
  struct job {
    const Body& body;
    std::int64_t count;
  } j{body, count};
  const auto part = [](void* data) {
    detail::see_what_happened(data);
    const auto& [run, all] = *static_cast<job*>(data);
    const std::int64_t t = detail::omp_get_thread_num();
    const std::int64_t n = detail::omp_get_num_threads();
    run(static_cast<int>(t), all * t / n, all * (t + 1) / n);
    detail::happened_here(data);
  };
  detail::happened_here(&j);
  detail::GOMP_parallel(part, &j, static_cast<unsigned>(parts), 0);
  detail::see_what_happened(&j);
}

// Addresses for one run. Operands and results are in the order of the operator; work is aligned.
struct call {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* work = nullptr;
  int threads = 1;
};

// A kernel. A run does not allocate memory; one kernel must not run twice concurrently.
class routine {
 public:
  routine() = default;
  routine(const routine&) = delete;
  routine& operator=(const routine&) = delete;
  virtual ~routine() = default;

  virtual void run(const call& c) const = 0;

  // Unit: bytes.
  [[nodiscard]] virtual std::size_t workspace() const { return 0; }
  // Size in bytes of the packed form of operand i that run expects instead of the plain one; 0: plain.
  [[nodiscard]] virtual std::size_t packed_size(std::size_t) const { return 0; }
  virtual void pack(std::size_t, const std::byte*, std::byte*) const {}
};

using types = std::span<const tensor::tensor_type>;

[[nodiscard]] inline bool is_plain(const tensor::tensor_type& t) {
  return t.element == tensor::dtype::float32 && is_row_major(t);
}

}  // namespace unity::backend::cpu
