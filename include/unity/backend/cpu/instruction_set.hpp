// Compiles code for the widest vectors of the current processor, without a compiler flag.
#pragma once

namespace unity::backend::cpu {

#if defined(__x86_64__) && defined(__GNUC__)

namespace detail {

// A function compiled for a larger instruction set may inline functions compiled for the baseline: loops in f are
// vectorized for the wider set.
template <class F>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"), flatten)) void run_avx512(const F& f) {
  f();
}
template <class F>
__attribute__((target("avx2,fma"), flatten)) void run_avx2(const F& f) {
  f();
}

}  // namespace detail

// Calls f. Results may differ in the last bit between processors, but not between runs on one processor.
template <class F>
void with_widest_vectors(const F& f) {
  static const int level = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                               ? 2
                           : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1
                                                                                             : 0;
  if (level == 2) {
    detail::run_avx512(f);
  } else if (level == 1) {
    detail::run_avx2(f);
  } else {
    f();
  }
}

#else

template <class F>
void with_widest_vectors(const F& f) {
  f();
}

#endif

}  // namespace unity::backend::cpu
