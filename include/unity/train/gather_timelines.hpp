// Gathers the timelines of all ranks, with a common origin.
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

// An origin for all ranks, not before the last one arrived: a time of rank 0 if they share its clock; else the end of
// the same barrier on each. To be called by all ranks.
// Throws: unity::error if a rank is lost.
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
  // A time of the same clock lies in this interval; if a time of another clock does, its error is at most the length of
  // the barrier.
  return before <= first && first <= clock::now() ? first : own;
}

// To be called by all ranks; each gets the same result. `labels`: the names to which spans refer, the same on all
// ranks. `memory`: of this rank. Complexity: memory is ranks times the largest number of spans and values of a rank.
// Throws: unity::error if a rank is lost.
template <host_reaching_communicator C>
[[nodiscard]] merged_timeline gather_timelines(C& c, const timeline& own, std::vector<std::string> labels,
                                               const rank_memory& memory = {}) {
  struct size {
    std::uint64_t spans;
    std::uint64_t values;
    std::uint64_t readers;
    std::uint64_t dropped;
    std::int64_t origin;
    std::int64_t kept;
    std::int64_t arena;
    std::int64_t loaded;
    std::int64_t stored;
  };
  const auto ranks = static_cast<std::size_t>(c.size());
  const auto origin = std::chrono::duration_cast<std::chrono::nanoseconds>(own.origin().time_since_epoch());
  const size of_own{own.spans().size(), memory.values.size(), memory.readers.size(), own.dropped(), origin.count(),
                    memory.kept,        memory.arena,         memory.loaded,         memory.stored};
  std::vector<size> sizes(ranks);
  gather_bytes(c, std::as_bytes(std::span{&of_own, 1}), std::as_writable_bytes(std::span{sizes}));
  std::vector<std::uint64_t> spans;
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> readers;
  for (const auto& s : sizes) {
    spans.push_back(s.spans);
    values.push_back(s.values);
    readers.push_back(s.readers);
  }
  auto all_spans = gather_lists(c, own.spans(), spans);
  auto all_values = gather_lists(c, std::span<const needed_memory>{memory.values}, values);
  auto all_readers = gather_lists(c, std::span<const value_reader>{memory.readers}, readers);
  merged_timeline merged{{}, std::move(labels)};
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto& s = sizes[r];
    merged.ranks.push_back(
        {std::move(all_spans[r]),
         s.dropped,
         s.origin,
         {s.kept, s.arena, std::move(all_values[r]), std::move(all_readers[r]), s.loaded, s.stored}});
  }
  return merged;
}

}  // namespace unity::train
