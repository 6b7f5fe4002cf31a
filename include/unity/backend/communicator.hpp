// Ranks that exchange data, as executors of parallel programs need them, and a check that all run the same program.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// Default time limit for waiting for other ranks.
inline constexpr std::chrono::seconds default_time_limit{60};
// Time without a sign of life after which a rank counts as lost.
inline constexpr std::chrono::seconds default_silence{6};

enum class reduction : std::uint8_t { sum, product, minimum, maximum };

// A collective or message in progress.
//   r.wait()   returns when the operation's buffers may be used again; call it at most once. For a message it may block
//              until the other end has started
//   r.done()   whether wait() would return at once; may do part of the work, but never waits for another rank
// The destructor waits for a request that nobody has waited for. During stack unwinding, the rank gives up instead, and
// the other ranks get an error. An error in a destructor is thrown by the rank's next operation.
// Errors: unity::error that names the missing rank if one died or did not arrive within the time limit: from wait(),
// and from done() at most some seconds later; also if a message has another length than expected.
template <class R>
concept communication_request = std::movable<R> && requires(R& r) {
  r.wait();
  { r.done() } -> std::convertible_to<bool>;
};

// Messages between two ranks, and a barrier.
//   c.rank(), c.size()
//   c.barrier()
//   c.send(to, bytes, tag), c.receive(from, bytes, tag)   start; messages with equal ends and tag arrive in order
// All ranks call the same collectives in the same order. Buffers are in memory that the communicator's device can
// access: on the host for local and mpi, on the GPU for nccl.
// Errors: unity::error if there is no such rank or a rank has failed before; from the call or from its request.
// Models: local_communicator, mpi_communicator, nccl_communicator.
template <class C>
concept communicator =
    communication_request<typename C::request> &&
    requires(C& c, const C& d, int rank, std::span<std::byte> to, std::span<const std::byte> from, int tag) {
      { d.rank() } -> std::convertible_to<int>;
      { d.size() } -> std::convertible_to<int>;
      c.barrier();
      { c.send(rank, from, tag) } -> std::same_as<typename C::request>;
      { c.receive(rank, to, tag) } -> std::same_as<typename C::request>;
    };

// Collectives. `count` is in elements of `type`. Either no buffers overlap, or the operation is in place on all ranks:
// in == out for all_reduce and all_to_all; for reduce_scatter and all_gather, the shorter buffer is the rank's own part
// of the longer one.
//   all_reduce(in, out, count, type, op)       out[i] = op over ranks of in[i]
//   reduce_scatter(in, out, count, type, op)   in: size() x count; out: the rank's part of the reduction
//   all_gather(in, out, count, type)           out: size() x count, in the order of ranks
//   broadcast(data, count, type, root)
//   all_to_all(in, out, count, type)           part r of in goes to rank r; size() x count both
// MPI limits a count, and the bytes of a message, to 2^31 - 1 (an int): unity::error beyond.
template <class C>
concept collective_communicator =
    communicator<C> &&
    requires(C& c, const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op, int root) {
      { c.all_reduce(in, out, count, type, op) } -> std::same_as<typename C::request>;
      { c.reduce_scatter(in, out, count, type, op) } -> std::same_as<typename C::request>;
      { c.all_gather(in, out, count, type) } -> std::same_as<typename C::request>;
      { c.broadcast(out, count, type, root) } -> std::same_as<typename C::request>;
      { c.all_to_all(in, out, count, type) } -> std::same_as<typename C::request>;
    };

// Collectives on host memory.
//   C::on_host   true
template <class C>
concept host_communicator = collective_communicator<C> && requires { requires static_cast<bool>(C::on_host); };

// A communicator on other memory, which can also gather small data of the host, for setup.
//   c.gather_on_host(in, out)   out: size() times the bytes of in, in the order of ranks; returns when it is complete
template <class C>
concept host_gathering_communicator =
    communicator<C> &&
    requires(C& c, std::span<const std::byte> in, std::span<std::byte> out) { c.gather_on_host(in, out); };

// An all_reduce that returns when it is complete, if that is faster than to start one and wait.
//   c.all_reduce_now(in, out, count, type, op)
// Errors: unity::error as from wait(), or the process ends with that line, because a blocking library call cannot be
// aborted.
template <class C>
concept blocking_communicator =
    collective_communicator<C> &&
    requires(C& c, const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
      c.all_reduce_now(in, out, count, type, op);
    };

// Groups of ranks: ranks that pass the same color form a group, in the order of their ranks; a negative color joins
// none.
//   c.split(color) -> a communicator of the same kind; nothing if the color is negative
template <class C>
concept splitting_communicator = communicator<C> && requires(C& c, int color) {
  { static_cast<bool>(c.split(color)) };
};

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

// Checks that a fingerprint is equal on all ranks. All ranks must call it before their first collective: different
// programs would exchange garbage or deadlock. mpi_environment calls it with mpi_options::program.
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

// Checks that the fingerprints of what ranks exchange (exchanges_of in parallel/ranks/rank_program.hpp) add up to zero,
// as they do if each message has both ends. All ranks must call it.
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
