// Measures exchanges between ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/machine/link.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct exchange_options {
  std::int64_t smallest = 256;                     // bytes; sizes double up to this
  std::int64_t largest = std::int64_t{16} << 20U;  // bytes
  std::int64_t volume = std::int64_t{8} << 20U;    // bytes to exchange at each size, within the two bounds below
  std::int64_t least = 5;                          // least repetitions
  std::int64_t most = 100;                         // most repetitions
};

namespace detail {

template <host_communicator Communicator>
class exchange_timer {
 public:
  exchange_timer(Communicator& c, const exchange_options& options)
      : communicator_{c},
        options_{options},
        from_(static_cast<std::size_t>(options.largest / 4 + c.size())),
        to_(from_.size()) {}

  // The median over repetitions of the slowest rank's time. All ranks get the same.
  [[nodiscard]] double time(machine::exchange kind, std::int64_t size) {
    const auto repetitions = std::clamp(options_.volume / size, options_.least, options_.most);
    std::vector<double> seconds;
    constexpr int warm_up = 2;
    for (std::int64_t i = -warm_up; i < repetitions; ++i) {
      communicator_.barrier();
      const auto start = std::chrono::steady_clock::now();
      run(kind, size);
      if (i >= 0) {
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    }
    auto* data = reinterpret_cast<std::byte*>(seconds.data());
    communicator_.all_reduce(data, data, seconds.size(), tensor::dtype::float64, reduction::maximum).wait();
    const auto both_ways = kind == machine::exchange::message ? 2.0 : 1.0;
    return to_seconds(summarize(std::move(seconds)).median) / both_ways;
  }

 private:
  void run(machine::exchange kind, std::int64_t size) {
    constexpr auto type = tensor::dtype::float32;
    const auto all = static_cast<std::size_t>(size / 4);
    const auto part = std::max<std::size_t>(all / static_cast<std::size_t>(communicator_.size()), 1);
    const auto* in = reinterpret_cast<const std::byte*>(from_.data());
    auto* out = reinterpret_cast<std::byte*>(to_.data());
    switch (kind) {
      case machine::exchange::message: return there_and_back(all * 4);
      case machine::exchange::all_reduce: return communicator_.all_reduce(in, out, all, type, reduction::sum).wait();
      case machine::exchange::reduce_scatter:
        return communicator_.reduce_scatter(in, out, part, type, reduction::sum).wait();
      case machine::exchange::all_gather: return communicator_.all_gather(in, out, part, type).wait();
      case machine::exchange::broadcast: return communicator_.broadcast(out, all, type, 0).wait();
      case machine::exchange::all_to_all: return communicator_.all_to_all(in, out, part, type).wait();
    }
  }
  // Between ranks 0 and 1; the others are idle.
  void there_and_back(std::size_t size) {
    const std::span<const std::byte> mine{reinterpret_cast<const std::byte*>(from_.data()), size};
    const std::span<std::byte> theirs{reinterpret_cast<std::byte*>(to_.data()), size};
    if (communicator_.rank() == 0) {
      communicator_.send(1, mine, 0).wait();
      communicator_.receive(1, theirs, 1).wait();
    } else if (communicator_.rank() == 1) {
      communicator_.receive(0, theirs, 0).wait();
      communicator_.send(0, mine, 1).wait();
    }
  }

  Communicator& communicator_;
  exchange_options options_;
  std::vector<float> from_;
  std::vector<float> to_;
};

}  // namespace detail

// Times every kind of exchange at sizes that double, and fits latency and bandwidth. All ranks must call it with the
// same options, and all get the same result. A single rank has nothing to exchange: its link is free.
// Throws: unity::error if a rank is missing.
template <host_communicator Communicator>
[[nodiscard]] machine::link calibrate_link(Communicator& c, std::string name, const exchange_options& options = {}) {
  UNITY_EXPECTS(options.smallest >= 4 * c.size() && options.smallest <= options.largest, "an element for every rank");
  machine::link l{std::move(name), c.size(), {}};
  detail::exchange_timer<Communicator> timer{c, options};
  for (std::size_t k = 0; c.size() > 1 && k < machine::exchange_names.size(); ++k) {
    const auto kind = static_cast<machine::exchange>(k);
    std::vector<machine::exchange_sample> samples;
    for (auto size = options.smallest; size <= options.largest; size *= 2) {
      samples.push_back({size, timer.time(kind, size)});
    }
    l.costs.emplace(kind, machine::fit_ranges(samples));
  }
  return l;
}

}  // namespace unity::backend
