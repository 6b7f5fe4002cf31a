// Exchanges between ranks in host memory, wherever the communicator's own memory is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::train {

template <class C>
concept host_reaching_communicator = backend::host_communicator<C> || backend::host_gathering_communicator<C>;

// Gathers `in` of all ranks into `out`, which has size() times as many bytes, in the order of ranks. To be called by
// all ranks.
// Throws: unity::error if a rank is lost.
template <host_reaching_communicator C>
void gather_bytes(C& c, std::span<const std::byte> in, std::span<std::byte> out) {
  if constexpr (backend::host_gathering_communicator<C>) {
    c.gather_on_host(in, out);
  } else {
    c.all_gather(in.data(), out.data(), in.size(), tensor::dtype::uint8).wait();
  }
}

// The lists of all ranks, copied bytewise. sizes: their lengths. To be called by all ranks. Complexity: ranks times the
// longest list.
// Throws: unity::error if a rank is lost.
template <class T, host_reaching_communicator C>
[[nodiscard]] std::vector<std::vector<T>> gather_lists(C& c, std::span<const T> own,
                                                       const std::vector<std::uint64_t>& sizes) {
  const auto most = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<T> sent(own.begin(), own.end());
  sent.resize(most);
  std::vector<T> all(sizes.size() * most);
  if (most > 0) {
    gather_bytes(c, std::as_bytes(std::span{sent}), std::as_writable_bytes(std::span{all}));
  }
  std::vector<std::vector<T>> lists;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const auto part = std::span{all}.subspan(r * most, static_cast<std::size_t>(sizes[r]));
    lists.emplace_back(part.begin(), part.end());
  }
  return lists;
}

// The sum of the ranks' numbers, added in the order of ranks, so that it is the same on all. To be called by all ranks.
template <host_reaching_communicator C>
[[nodiscard]] double sum_over_ranks(C& c, double own) {
  std::vector<double> all(static_cast<std::size_t>(c.size()));
  gather_bytes(c, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
  double sum = 0;
  for (const auto x : all) {
    sum += x;
  }
  return sum;
}

// Effects: copies `count` bytes from rank `from` to rank `to`. To be called by all ranks; the others need no memory.
// Complexity: one message, or ranks times the bytes if the communicator has no messages between hosts.
// Throws: unity::error if a rank is lost.
template <host_reaching_communicator C>
void copy_between_ranks(C& c, int from, int to, std::size_t count, std::span<std::byte> bytes) {
  constexpr std::size_t most = std::size_t{1} << 24U;
  constexpr int tag = 0;  // no message of an iteration is in transit
  const bool is_end = c.rank() == from || c.rank() == to;
  UNITY_EXPECTS(!is_end || bytes.size() == count, "as much memory as is handed over");
  for (std::size_t at = 0; from != to && at < count; at += most) {
    const auto size = std::min(most, count - at);
    if constexpr (backend::host_communicator<C>) {
      if (c.rank() == from) {
        c.send(to, bytes.subspan(at, size), tag).wait();
      } else if (c.rank() == to) {
        c.receive(from, bytes.subspan(at, size), tag).wait();
      }
    } else {
      std::vector<std::byte> own(size);
      std::vector<std::byte> all(size * static_cast<std::size_t>(c.size()));
      if (c.rank() == from) {
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, own.begin());
      }
      gather_bytes(c, own, all);
      if (c.rank() == to) {
        std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(size * static_cast<std::size_t>(from)), size,
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
}

}  // namespace unity::train
