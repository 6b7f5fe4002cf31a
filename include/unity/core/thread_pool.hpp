// Data parallelism whose result does not depend on the number of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity {

// A fixed set of threads that run one loop at a time. The caller participates, so with one thread there is no other.
class thread_pool {
 public:
  // Throws: unity::error if this many threads cannot be created.
  explicit thread_pool(std::size_t threads = 1) {
    try {
      for (std::size_t i = 1; i < threads; ++i) {
        workers_.emplace_back([this, i] { work(i); });
      }
    } catch (const std::exception& e) {
      stop();
      throw error{fmt::format("thread {}", workers_.size() + 1), fmt::format("cannot be started ({})", e.what()),
                  fmt::format("{} of them", threads)};
    }
  }
  ~thread_pool() { stop(); }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return workers_.size() + 1; }

  // Calls body(worker, begin, end) on disjoint chunks that cover [0, count). The assignment of chunks to workers is not
  // deterministic: write results by index. Rethrows the first exception of a body after all have ended.
  void parallel_for(std::size_t count, std::size_t grain,
                    const std::function<void(std::size_t, std::size_t, std::size_t)>& body) {
    UNITY_EXPECTS(grain > 0, "chunks of at least one");
    if (workers_.empty() || count <= grain) {
      if (count > 0) {
        body(0, 0, count);
      }
      return;
    }
    {
      const std::lock_guard lock{mutex_};
      body_ = &body;
      count_ = count;
      grain_ = grain;
      next_ = 0;
      busy_ = workers_.size();
      failure_ = nullptr;
      ++round_;
    }
    wake_.notify_all();
    take_chunks(0);
    std::unique_lock lock{mutex_};
    done_.wait(lock, [this] { return busy_ == 0; });
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  void stop() {
    {
      const std::lock_guard lock{mutex_};
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) {
      w.join();
    }
  }
  void work(std::size_t worker) {
    std::size_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock{mutex_};
        wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
        if (stopping_) {
          return;
        }
        seen = round_;
      }
      take_chunks(worker);
      const std::lock_guard lock{mutex_};
      if (--busy_ == 0) {
        done_.notify_one();
      }
    }
  }
  void take_chunks(std::size_t worker) {
    try {
      for (;;) {
        const auto begin = next_.fetch_add(grain_);
        if (begin >= count_) {
          return;
        }
        (*body_)(worker, begin, begin + grain_ < count_ ? begin + grain_ : count_);
      }
    } catch (...) {
      const std::lock_guard lock{mutex_};
      failure_ = failure_ ? failure_ : std::current_exception();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(std::size_t, std::size_t, std::size_t)>* body_ = nullptr;
  std::atomic<std::size_t> next_{0};
  std::size_t count_ = 0;
  std::size_t grain_ = 1;
  std::size_t busy_ = 0;
  std::size_t round_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
};

}  // namespace unity
