// What a rank keeps outside of its arena: values that move to the host and back, and messages of several iterations
// that are in transit at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>

namespace unity::train {

// Values that move from a rank's arena to the host and back to another position.

// Bytes that an iteration copied between host and device. Regular.
struct moved_bytes {
  bytes loaded{};  // to the device
  bytes stored{};  // to the host

  friend bool operator==(const moved_bytes&, const moved_bytes&) = default;
};

// Each value has a copy on the host, and one position for each of its stays (value_places.hpp); its address changes
// when it is fetched.
template <backend::device_backend Backend>
class moved_values {
 public:
  using arena = backend::memory_pool<Backend>;

  // Adds a root of this size; places: the arena offsets of its stays.
  void add(value_id root, std::size_t size, std::vector<std::size_t> places) {
    values_[root] = {std::vector<std::byte>(size), std::move(places), {}, 0};
  }
  [[nodiscard]] bool has(value_id root) const { return values_.contains(root); }
  // Adds a value that lies in a root (which may be the root itself) at this offset. Unit: bytes.
  void add_part(value_id root, value_id part, std::size_t offset) { values_.at(root).parts.emplace_back(part, offset); }

  // Starts an iteration: all values get the addresses of their first stays.
  void begin(arena& a, std::vector<std::byte*>& addresses) {
    moved_ = {};
    for (auto& [root, v] : values_) {
      v.current = 0;
      bind(v, a, addresses);
    }
  }
  // Updates the host copy of a value that was written from outside.
  void keep(value_id v, std::span<const std::byte> from) {
    if (const auto own = values_.find(v); own != values_.end()) {
      std::copy(from.begin(), from.end(), own->second.copy.begin());
    }
  }
  void store(value_id root, Backend& b, const std::vector<std::byte*>& addresses) {
    auto& copy = values_.at(root).copy;
    b.read(copy, addresses[root.index()]);
    moved_.stored += bytes{static_cast<std::int64_t>(copy.size())};
  }
  void fetch(value_id root, Backend& b, arena& a, std::vector<std::byte*>& addresses) {
    auto& v = values_.at(root);
    ++v.current;
    bind(v, a, addresses);
    b.write(addresses[root.index()], v.copy);
    count_load(v.copy.size());
  }
  void count_load(std::size_t size) { moved_.loaded += bytes{static_cast<std::int64_t>(size)}; }
  // The bytes copied since the start of the iteration.
  [[nodiscard]] const moved_bytes& moved() const noexcept { return moved_; }

 private:
  struct moved_value {
    std::vector<std::byte> copy{};
    std::vector<std::size_t> places{};
    std::vector<std::pair<value_id, std::size_t>> parts{};
    std::size_t current = 0;
  };

  void bind(const moved_value& v, arena& a, std::vector<std::byte*>& addresses) {
    for (const auto& [part, offset] : v.parts) {
      addresses[part.index()] = a.at(v.places[v.current]) + offset;
    }
  }

  std::map<value_id, moved_value> values_{};
  moved_bytes moved_{};
};

// Buffers for messages of several iterations that are in transit at once.

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
  // The size of all buffers. Unit: bytes.
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
  backend::memory_pool<Backend> memory_{};  // before the steps: requests in transit end before it is freed
  std::map<std::size_t, kept_step> steps_{};
};

}  // namespace unity::train
