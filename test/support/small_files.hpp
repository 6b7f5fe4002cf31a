// Makes writes fail as on a full disk.
#pragma once

#include <sys/resource.h>
#include <csignal>

namespace unity::test {

// Limits the size of this process's files during its lifetime, so that writes fail as on a full disk.
class small_files {
 public:
  explicit small_files(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    auto now = before_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~small_files() { setrlimit(RLIMIT_FSIZE, &before_); }
  small_files(const small_files&) = delete;
  small_files& operator=(const small_files&) = delete;

 private:
  rlimit before_{};
};

}  // namespace unity::test
