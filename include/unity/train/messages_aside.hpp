// Buffers for messages of several iterations that are in transit at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <unity/backend/detail/memory_pool.hpp>

namespace unity::train {

// Waits for the request, if there is one.
template <class Request>
void wait_for(std::optional<Request>& r) {
  if (r) {
    r->wait();
    r.reset();
  }
}

// Holds data that is sent or received in one iteration and awaited in a later one, by the step that starts it. A step
// that lags n iterations has n + 1 buffers: the previous content of a buffer has been sent or read by then.
template <class Backend, class Communicator>
class messages_aside {
 public:
  // Adds a step with its bytes and its lag in iterations; all must be added before allocate().
  void add(std::size_t step, std::size_t size, std::uint32_t lag) {
    auto& own = steps_[step];
    own.size = size;
    own.requests.resize(lag + std::size_t{1});
    for (std::uint32_t i = 0; i <= lag; ++i) {
      own.places.push_back(memory_.add(size, 0));
    }
  }
  // Throws: unity::error if memory does not suffice.
  void allocate(Backend& b) { memory_.allocate(b, "memory for what is sent to stale servers"); }
  // Of all buffers. Unit: bytes.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }

  // Starts the step's message of an iteration. send_or_receive(memory) -> request
  template <class F>
  void begin(std::size_t step, std::uint64_t iteration, const F& send_or_receive) {
    auto& own = steps_.at(step);
    auto& request = own.requests[iteration % own.places.size()];
    wait_for(request);
    request.emplace(send_or_receive(place(own, iteration)));
  }
  // Waits for the step's message of an iteration and returns its data.
  [[nodiscard]] std::span<const std::byte> end(std::size_t step, std::uint64_t iteration) {
    auto& own = steps_.at(step);
    wait_for(own.requests[iteration % own.places.size()]);
    return place(own, iteration);
  }
  // Waits for all messages.
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
