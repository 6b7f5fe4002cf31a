// Messages of several iterations that are under way at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <unity/backend/detail/memory_pool.hpp>

namespace unity::train {

// Until what was begun has ended, if anything was.
template <class Request>
void wait_for(std::optional<Request>& r) {
  if (r) {
    r->wait();
    r.reset();
  }
}

// What is sent, or came, in an iteration and is waited for in a later one lies here, by the step that begins it. A step
// has one place more than it lags iterations: what had a place before has gone, or was read.
template <class Backend, class Communicator>
class messages_aside {
 public:
  // A step that moves so many bytes and lags so many iterations; all are there before allocate().
  void add(std::size_t step, std::size_t size, std::uint32_t lag) {
    auto& own = steps_[step];
    own.size = size;
    own.requests.resize(lag + std::size_t{1});
    for (std::uint32_t i = 0; i <= lag; ++i) {
      own.places.push_back(memory_.add(size, 0));
    }
  }
  // Throws: unity::error where memory does not suffice.
  void allocate(Backend& b) { memory_.allocate(b, "memory for what is sent to stale servers"); }
  // Of all places. Unit: bytes.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }

  // Begins the step's message of an iteration. send_or_receive(memory) -> request
  template <class F>
  void begin(std::size_t step, std::uint64_t iteration, const F& send_or_receive) {
    auto& own = steps_.at(step);
    auto& request = own.requests[iteration % own.places.size()];
    wait_for(request);
    request.emplace(send_or_receive(place(own, iteration)));
  }
  // Waits for that of an iteration. Returns where it lies.
  [[nodiscard]] std::span<const std::byte> end(std::size_t step, std::uint64_t iteration) {
    auto& own = steps_.at(step);
    wait_for(own.requests[iteration % own.places.size()]);
    return place(own, iteration);
  }
  // Waits for all.
  void settle() {
    for (auto& [step, own] : steps_) {
      for (auto& r : own.requests) {
        wait_for(r);
      }
    }
  }

 private:
  struct kept_step {
    std::size_t size = 0;               // bytes
    std::vector<std::size_t> places{};  // in memory, by iteration
    std::vector<std::optional<typename Communicator::request>> requests{};
  };

  [[nodiscard]] std::span<std::byte> place(const kept_step& own, std::uint64_t iteration) {
    return {memory_.at(own.places[iteration % own.places.size()]), own.size};
  }
  std::map<std::size_t, kept_step> steps_{};
  backend::detail::memory_pool<Backend> memory_{};
};

}  // namespace unity::train
