// Results that are computed once and shared by threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace unity {

// Values by key. Several threads may call all members at the same time. What is stored does not depend on the threads
// if `make` depends on the key alone. Complexity: logarithmic in the number of values, besides `make`.
template <class Key, class Value>
class shared_memo {
 public:
  // The value, or nothing if it is unknown or still being made.
  [[nodiscard]] std::optional<Value> find(const Key& key) const {
    const std::lock_guard lock{mutex_};
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : found->second;
  }
  // The value; made by make() if it is unknown. A value that is being made by another thread is waited for, so each is
  // made once. If make() returns nothing or throws, so does this call, nothing is stored, and threads that wait try for
  // themselves. Precondition: make() does not ask for the same key.
  template <class Make>
  [[nodiscard]] std::optional<Value> get(const Key& key, const Make& make) {
    std::unique_lock lock{mutex_};
    for (;;) {
      const auto [at, is_new] = values_.try_emplace(key);
      if (is_new) {
        break;
      }
      if (at->second) {
        return at->second;
      }
      made_.wait(lock);
    }
    lock.unlock();
    std::optional<Value> made;
    try {
      made = make();
    } catch (...) {
      store(key, std::nullopt);
      throw;
    }
    store(key, made);
    return made;
  }
  // Effects: stores a value unless there is one.
  void insert(const Key& key, const Value& value) {
    const std::lock_guard lock{mutex_};
    auto& at = values_[key];
    if (!at) {
      at = value;
      made_.notify_all();
    }
  }
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return values_.size();
  }

 private:
  void store(const Key& key, const std::optional<Value>& value) {
    const std::lock_guard lock{mutex_};
    const auto at = values_.find(key);
    if (value && !at->second) {
      at->second = value;
    } else if (!at->second) {
      values_.erase(at);
    }
    made_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<Key, std::optional<Value>> values_;  // nothing: being made
};

}  // namespace unity
