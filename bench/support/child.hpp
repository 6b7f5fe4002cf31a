// Runs work in a process of its own, so that its CPU time and peak memory are the system's.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <type_traits>

namespace bench {

// What f() returns in the child, and what wait4 says of it.
template <class F>
auto in_child(const F& f, rusage& usage) {
  using result = decltype(f());
  static_assert(std::is_trivially_copyable_v<result>);
  int ends[2];
  if (pipe(ends) != 0) {
    throw std::runtime_error{"no pipe"};
  }
  const auto child = fork();
  if (child == 0) {
    const auto r = f();
    _exit(::write(ends[1], &r, sizeof r) == sizeof r ? 0 : 1);
  }
  result r{};
  const auto got = ::read(ends[0], &r, sizeof r);
  int status = 0;
  wait4(child, &status, 0, &usage);
  close(ends[0]);
  close(ends[1]);
  if (got != sizeof r || status != 0) {
    throw std::runtime_error{"the work in the child failed"};
  }
  return r;
}

inline double cpu_seconds(const rusage& u) {
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}
inline double peak_bytes(const rusage& u) { return static_cast<double>(u.ru_maxrss) * 1024; }

}  // namespace bench
