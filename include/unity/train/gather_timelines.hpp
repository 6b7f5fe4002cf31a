// The timelines of all ranks, with one origin, and brought together.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/train/host_exchange.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

// What all ranks may count from, none before the last one came: the moment of rank 0 where they share its clock; else
// the end of the same barrier on each. To be called by all ranks.
// Throws: unity::error where a rank is lost.
template <host_reaching_communicator C>
[[nodiscard]] timeline::clock::time_point common_origin(C& c) {
  using clock = timeline::clock;
  const auto of_first_rank = [&](clock::time_point own) {
    std::vector<clock::time_point> all(static_cast<std::size_t>(c.size()));
    gather_bytes(c, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
    return all[0];
  };
  const auto before = clock::now();
  static_cast<void>(of_first_rank(before));  // a barrier
  const auto own = clock::now();
  const auto first = of_first_rank(own);
  // Of the same clock it lies between; and where another's does, it is not further off than the barrier is long.
  return before <= first && first <= clock::now() ? first : own;
}

// To be called by all ranks; each gets the same.
// `labels`: the names that spans refer to, the same on all ranks.
// Complexity: of memory, ranks times the spans of the rank that has most.
// Throws: unity::error where a rank is lost.
template <host_reaching_communicator C>
[[nodiscard]] merged_timeline gather_timelines(C& c, const timeline& own, std::vector<std::string> labels) {
  struct size {
    std::uint64_t spans;
    std::uint64_t dropped;
    std::int64_t origin;
  };
  const auto ranks = static_cast<std::size_t>(c.size());
  const auto origin = std::chrono::duration_cast<std::chrono::nanoseconds>(own.origin().time_since_epoch());
  const size of_own{own.spans().size(), own.dropped(), origin.count()};
  std::vector<size> sizes(ranks);
  gather_bytes(c, std::as_bytes(std::span{&of_own, 1}), std::as_writable_bytes(std::span{sizes}));
  std::uint64_t most = 0;
  for (const auto& s : sizes) {
    most = std::max(most, s.spans);
  }
  std::vector<activity_span> sent(own.spans().begin(), own.spans().end());
  sent.resize(static_cast<std::size_t>(most));
  std::vector<activity_span> all(ranks * sent.size());
  if (most > 0) {
    gather_bytes(c, std::as_bytes(std::span{sent}), std::as_writable_bytes(std::span{all}));
  }
  merged_timeline merged{{}, std::move(labels)};
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto part = std::span{all}.subspan(r * sent.size(), static_cast<std::size_t>(sizes[r].spans));
    merged.ranks.push_back({{part.begin(), part.end()}, sizes[r].dropped, sizes[r].origin});
  }
  return merged;
}

}  // namespace unity::train
