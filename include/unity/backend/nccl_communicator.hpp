// GPUs as ranks, over NCCL.
//
// Ranks meet over a host communicator (MPI, threads) or in a folder that all can access. Operations run on the
// communicator's own stream(), which must wait for other streams that write their buffers.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/communication/meeting.hpp>
#include <unity/backend/communication/nccl_state.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// The reason why no nccl_communicator can be used here; empty if one can.
[[nodiscard]] inline std::string why_no_nccl() {
  int count = 0;
  const auto code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    return fmt::format("no GPU can be used here ({})", cudaGetErrorString(code));
  }
  return count == 0 ? "no GPU here" : "";
}

// Models communication_request. Used by one thread at a time.
class nccl_request {
 public:
  nccl_request(nccl_request&& o) noexcept = default;
  nccl_request& operator=(nccl_request&& o) noexcept {
    if (this != &o) {
      end();
      state_ = std::move(o.state_);
      batch_ = std::move(o.batch_);
      until_ = o.until_;
      unwinding_ = o.unwinding_;
    }
    return *this;
  }
  ~nccl_request() { end(); }

  void wait() {
    while (!done()) {
      std::this_thread::yield();
    }
  }
  [[nodiscard]] bool done() {
    if (batch_) {
      // Cleared first: after an error there is nothing left to wait for.
      const auto batch = std::exchange(batch_, nullptr);
      if (!state_->ended(*batch)) {
        if (!until_) {
          until_ = detail::deadline_after(state_->limit());
        } else if (std::chrono::steady_clock::now() >= *until_) {
          state_->time_out(batch->what);
        }
        batch_ = batch;
      }
    }
    return batch_ == nullptr;
  }

 private:
  friend class nccl_communicator;

  nccl_request(std::shared_ptr<detail::nccl_state> state, std::shared_ptr<detail::nccl_batch> batch) noexcept
      : state_{std::move(state)}, batch_{std::move(batch)} {}

  void end() noexcept {
    if (batch_) {
      detail::end_request(unwinding_, [this] { state_->stop(batch_->what); }, [this] { wait(); });
    }
  }

  std::shared_ptr<detail::nccl_state> state_;
  std::shared_ptr<detail::nccl_batch> batch_;
  std::optional<std::chrono::steady_clock::time_point> until_{};
  detail::unwinding unwinding_{};
};

// Models splitting_communicator and host_gathering_communicator. Buffers are on the GPU.
// NCCL has no tags: messages in transit between two ranks at the same time arrive in the order of their tags, so both
// ends must start the same messages before either waits for one.
class nccl_communicator {
 public:
  using request = nccl_request;

  // Uses GPU `device` of this machine; every rank needs its own. `host` must outlive this and all that split() makes of
  // it.
  // Throws: unity::error if there is no such GPU, or a rank does not arrive within the limit.
  template <host_communicator Host>
  nccl_communicator(Host& host, int device, const nccl_options& options = {})
      : state_{std::make_shared<detail::nccl_state>(detail::meet_on(host), device, options)} {}
  // Ranks meet in a folder that all can access and no other run uses.
  nccl_communicator(const std::filesystem::path& folder, int rank, int size, int device,
                    const nccl_options& options = {})
      : state_{std::make_shared<detail::nccl_state>(detail::meet_in(folder, rank, size, options.limit), device,
                                                    options)} {}

  nccl_communicator(nccl_communicator&&) noexcept = default;
  nccl_communicator& operator=(nccl_communicator&&) noexcept = default;

  [[nodiscard]] int rank() const noexcept { return state_->rank(); }
  [[nodiscard]] int size() const noexcept { return state_->size(); }
  // The number of the GPU on this machine.
  [[nodiscard]] int device() const noexcept { return state_->device(); }
  // The stream on which operations run, in the order in which they are started.
  [[nodiscard]] cudaStream_t stream() const noexcept { return state_->stream(); }

  void barrier() {
    auto* const data = state_->scratch(1);
    start("barrier", [data](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(data, data, 1, ncclUint8, ncclMax, comm, stream);
    }).wait();
  }

  request all_reduce(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    return start("all_reduce", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(in, out, count, detail::nccl_type(type), detail::nccl_operator(type, op), comm, stream);
    });
  }
  request reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    return start("reduce_scatter", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(in, out, count, detail::nccl_type(type), detail::nccl_operator(type, op), comm, stream);
    });
  }
  request all_gather(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    return start("all_gather", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(in, out, count, detail::nccl_type(type), comm, stream);
    });
  }
  request broadcast(std::byte* data, std::size_t count, tensor::dtype type, int root) {
    detail::check_rank("broadcast", root, size());
    return start("broadcast", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(data, data, count, detail::nccl_type(type), root, comm, stream);
    });
  }
  request all_to_all(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    const auto part = count * static_cast<std::size_t>(tensor::size_of(type));
    const auto whole = part * static_cast<std::size_t>(size());
    if (in == out && whole > 0) {
      // NCCL writes parts before it has read all others.
      auto* const copy = state_->scratch(whole);
      state_->use_device();
      detail::check_cuda(cudaMemcpyAsync(copy, in, whole, cudaMemcpyDeviceToDevice, stream()), "all_to_all");
      in = copy;
    }
    return start("all_to_all", [&](ncclComm_t comm, cudaStream_t stream) {
      detail::nccl_group group{"all_to_all"};
      for (std::size_t r = 0; r < static_cast<std::size_t>(size()); ++r) {
        group.add(ncclSend(in + r * part, part, ncclUint8, static_cast<int>(r), comm, stream));
        group.add(ncclRecv(out + r * part, part, ncclUint8, static_cast<int>(r), comm, stream));
      }
      return group.end();
    });
  }

  request send(int to, std::span<const std::byte> bytes, int tag) {
    detail::check_rank("send", to, size());
    // NCCL only reads it.
    return {state_, state_->add({true, to, tag, const_cast<std::byte*>(bytes.data()), bytes.size()})};
  }
  request receive(int from, std::span<std::byte> bytes, int tag) {
    detail::check_rank("receive", from, size());
    return {state_, state_->add({false, from, tag, bytes.data(), bytes.size()})};
  }

  // Gathers small data of the host, for setup.
  void gather_on_host(std::span<const std::byte> in, std::span<std::byte> out) {
    auto* const to = state_->scratch(out.size() + in.size());
    auto* const from = to + out.size();
    state_->use_device();
    state_->copy(from, in.data(), in.size(), cudaMemcpyHostToDevice, "gather");
    all_gather(from, to, in.size(), tensor::dtype::uint8).wait();
    state_->copy(out.data(), to, out.size(), cudaMemcpyDeviceToHost, "gather");
  }

  std::optional<nccl_communicator> split(int color) {
    auto part = detail::nccl_state::split(*state_, color);
    return part ? std::optional{nccl_communicator{std::move(part)}} : std::nullopt;
  }

 private:
  explicit nccl_communicator(std::shared_ptr<detail::nccl_state> state) noexcept : state_{std::move(state)} {}

  template <class Call>
  request start(const char* what, const Call& call) {
    return {state_, state_->begin(what, call)};
  }

  std::shared_ptr<detail::nccl_state> state_;
};

}  // namespace unity::backend
