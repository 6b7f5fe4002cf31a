// Checks that all ranks run the same program, and that what they exchange matches.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

namespace detail {

template <class C>
[[nodiscard]] std::vector<fingerprint> gathered(C& c, fingerprint own) {
  std::vector<fingerprint> all(static_cast<std::size_t>(c.size()));
  const auto in = std::as_bytes(std::span{&own, 1});
  const auto out = std::as_writable_bytes(std::span{all});
  if constexpr (host_gathering_communicator<C>) {
    c.gather_on_host(in, out);
  } else {
    c.all_gather(in.data(), out.data(), sizeof own, tensor::dtype::uint8).wait();
  }
  return all;
}

}  // namespace detail

// Compares a fingerprint over all ranks. All ranks must call it before their first collective: different programs would
// exchange garbage or wait for each other forever. mpi_environment does it with mpi_options::program.
// Throws: the same unity::error on every rank, naming the first rank that differs from rank 0.
template <class C>
  requires host_communicator<C> || host_gathering_communicator<C>
void agree(C& c, fingerprint own, std::string_view what) {
  const auto all = detail::gathered(c, own);
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) {
      throw error{what, fmt::format("rank {} differs from rank 0", r), "the same on all ranks"};
    }
  }
}

// Fingerprints of what ranks exchange (parallel/ranks/rank_program.hpp), which add up to zero over all ranks if each
// message has both its ends. All ranks must call it.
// Throws: the same unity::error on every rank.
template <class C>
  requires host_communicator<C> || host_gathering_communicator<C>
void cancel(C& c, fingerprint own, std::string_view what) {
  fingerprint sum;
  for (const auto& f : detail::gathered(c, own)) {
    sum += f;
  }
  if (sum != fingerprint{}) {
    throw error{what, "messages of which a rank has one end, and no rank the other", "both ends of each on its ranks"};
  }
}

}  // namespace unity::backend
