// NCCL's and CUDA's objects behind a communicator of GPUs, and the wait that can be given up.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unity/backend/communication/meeting.hpp>
#include <unity/backend/communication/time_limit.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::backend {

struct nccl_options {
  std::chrono::milliseconds limit = default_time_limit;
};

namespace detail {

inline void check_cuda(cudaError_t code, std::string_view what) {
  if (code != cudaSuccess) {
    throw error{what, cudaGetErrorString(code), "cudaSuccess"};
  }
}
inline void check_nccl(ncclResult_t code, std::string_view what) {
  if (code != ncclSuccess && code != ncclInProgress) {
    throw error{what, ncclGetErrorString(code), "ncclSuccess"};
  }
}

[[nodiscard]] inline ncclDataType_t nccl_type(tensor::dtype type) noexcept {
  using tensor::dtype;
  switch (type) {
    case dtype::float32: return ncclFloat32;
    case dtype::float64: return ncclFloat64;
    case dtype::float16: return ncclFloat16;
    case dtype::bfloat16: return ncclBfloat16;
    case dtype::int64: return ncclInt64;
    case dtype::int32: return ncclInt32;
    case dtype::int8: return ncclInt8;
    case dtype::uint8:
    case dtype::boolean: break;
  }
  return ncclUint8;
}
[[nodiscard]] inline ncclRedOp_t nccl_operator(tensor::dtype type, reduction op) noexcept {
  const bool truth = type == tensor::dtype::boolean;  // 0 and 1
  switch (op) {
    case reduction::product: return truth ? ncclMin : ncclProd;
    case reduction::minimum: return ncclMin;
    case reduction::maximum: return ncclMax;
    case reduction::sum: break;
  }
  return truth ? ncclMax : ncclSum;
}

// Device memory.
class gpu_buffer {
 public:
  explicit gpu_buffer(std::size_t bytes) {
    check_cuda(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  }
  gpu_buffer(gpu_buffer&& o) noexcept : data_{std::exchange(o.data_, nullptr)} {}
  gpu_buffer& operator=(gpu_buffer&& o) noexcept {
    std::swap(data_, o.data_);
    return *this;
  }
  ~gpu_buffer() { cudaFree(data_); }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// A message that has not been handed to NCCL.
struct nccl_message {
  bool sends = false;
  int peer = 0;
  int tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// What is handed to NCCL at once, and the event that says that it has ended.
struct nccl_batch {
  const char* what = "";
  std::vector<nccl_message> messages{};  // in the order of tags
  cudaEvent_t ended = nullptr;           // null: not handed over yet
  std::optional<gpu_buffer> copy{};      // of an operand that NCCL may not overwrite

  nccl_batch() = default;
  nccl_batch(const nccl_batch&) = delete;
  nccl_batch& operator=(const nccl_batch&) = delete;
  ~nccl_batch() {
    if (ended != nullptr) {
      cudaEventDestroy(ended);
    }
  }
};

class nccl_state {
 public:
  // Throws: unity::error where there is no such GPU, or a rank does not come.
  nccl_state(meeting ranks, int device, const nccl_options& options)
      : ranks_{std::move(ranks)}, device_{device}, limit_{options.limit} {
    ncclUniqueId id{};
    // Before the others wait for it.
    use_device();
    if (ranks_.rank == 0) {
      check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    ranks_.share(std::as_writable_bytes(std::span{&id, 1}));
    auto config = configuration();
    check_nccl(ncclCommInitRankConfig(&comm_, ranks_.size, id, ranks_.rank, &config), "ncclCommInitRank");
    open("ncclCommInitRank", comm_);
  }
  // A part of another one; null where the color is negative.
  [[nodiscard]] static std::shared_ptr<nccl_state> split(nccl_state& whole, int color) {
    whole.use_device();
    whole.hand_over();
    auto config = configuration();
    ncclComm_t comm = nullptr;
    check_nccl(ncclCommSplit(whole.comm(), color < 0 ? NCCL_SPLIT_NOCOLOR : color, whole.rank(), &comm, &config),
               "split");
    whole.settle("split", whole.comm_);
    if (color < 0) {
      return nullptr;
    }
    return std::shared_ptr<nccl_state>{new nccl_state{whole, comm}};
  }
  nccl_state(const nccl_state&) = delete;
  nccl_state& operator=(const nccl_state&) = delete;
  ~nccl_state() {
    cudaSetDevice(device_);
    if (comm_ != nullptr) {
      leave();
    }
    if (stream_ != nullptr) {
      cudaStreamDestroy(stream_);
    }
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] ncclComm_t comm() const {
    if (comm_ == nullptr) {
      throw error{failure_};
    }
    return comm_;
  }
  void use_device() const { check_cuda(cudaSetDevice(device_), "GPU " + std::to_string(device_)); }

  // Hands over what call(comm, stream) asks of NCCL, after the messages before it.
  template <class Call>
  [[nodiscard]] std::shared_ptr<nccl_batch> begin(const char* what, std::shared_ptr<nccl_batch> batch,
                                                  const Call& call) {
    use_device();
    hand_over();
    batch->what = what;
    check_nccl(call(comm(), stream_), what);
    settle(what, comm_);
    record(*batch);
    return batch;
  }
  // NCCL knows no tags, and two messages in opposite directions handed over one after the other wait for each other. So
  // messages are collected until one is asked about, and go as one group, for each peer in the order of tags.
  [[nodiscard]] std::shared_ptr<nccl_batch> add(const nccl_message& m) {
    static_cast<void>(comm());
    if (!open_) {
      open_ = std::make_shared<nccl_batch>();
      open_->what = "message";
    }
    auto& messages = open_->messages;
    messages.insert(std::upper_bound(messages.begin(), messages.end(), m,
                                     [](const auto& a, const auto& b) { return a.tag < b.tag; }),
                    m);
    return open_;
  }
  void hand_over() {
    if (!open_) {
      return;
    }
    const auto batch = std::exchange(open_, nullptr);
    check_nccl(ncclGroupStart(), "message");
    for (const auto& m : batch->messages) {
      check_nccl(m.sends ? ncclSend(m.data, m.bytes, ncclUint8, m.peer, comm(), stream_)
                         : ncclRecv(m.data, m.bytes, ncclUint8, m.peer, comm(), stream_),
                 "message");
    }
    check_nccl(ncclGroupEnd(), "message");
    settle("message", comm_);
    record(*batch);
  }

  [[nodiscard]] bool ended(nccl_batch& batch) {
    use_device();
    if (batch.ended == nullptr) {
      hand_over();
    }
    const auto state = cudaEventQuery(batch.ended);
    if (state == cudaSuccess) {
      return true;
    }
    if (state != cudaErrorNotReady) {
      check_cuda(state, batch.what);
    }
    ncclResult_t asynchronous = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm(), &asynchronous), batch.what);
    if (asynchronous != ncclSuccess && asynchronous != ncclInProgress) {
      give_up(batch.what, ncclGetErrorString(asynchronous));
    }
    return false;
  }
  [[noreturn]] void time_out(const char* what) { give_up(what, "did not end within " + to_string(limit_)); }
  [[nodiscard]] std::chrono::milliseconds limit() const noexcept { return limit_; }

 private:
  nccl_state(const nccl_state& whole, ncclComm_t comm)
      : ranks_{whole.ranks_}, device_{whole.device_}, limit_{whole.limit_}, comm_{comm} {
    open("split", comm_);
  }
  [[nodiscard]] static ncclConfig_t configuration() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // calls return at once, so that none waits for ever
    return config;
  }
  void open(const char* what, ncclComm_t comm) {
    settle(what, comm);
    check_nccl(ncclCommUserRank(comm, &rank_), what);
    check_nccl(ncclCommCount(comm, &size_), what);
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), what);
  }
  // In order where all ranks do the same in time: what the others still read must reach them.
  void leave() noexcept {
    const auto until = deadline_after(limit_);
    auto state = std::uncaught_exceptions() > 0 ? ncclInternalError : ncclCommFinalize(comm_);
    while (state == ncclInProgress && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
      if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) {
        state = ncclInternalError;
      }
    }
    if (state == ncclSuccess) {
      ncclCommDestroy(comm_);
    } else {
      ncclCommAbort(comm_);
    }
  }
  void record(nccl_batch& batch) const {
    check_cuda(cudaEventCreateWithFlags(&batch.ended, cudaEventDisableTiming), batch.what);
    check_cuda(cudaEventRecord(batch.ended, stream_), batch.what);
  }
  // Until NCCL has taken what was asked of it.
  void settle(const char* what, ncclComm_t comm) {
    const auto until = deadline_after(limit_);
    for (;;) {
      ncclResult_t state = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(comm, &state), what);
      if (state == ncclSuccess) {
        return;
      }
      if (state != ncclInProgress) {
        give_up(what, ncclGetErrorString(state));
      }
      if (std::chrono::steady_clock::now() >= until) {
        time_out(what);
      }
      std::this_thread::yield();
    }
  }
  [[noreturn]] void give_up(const char* what, const std::string& why) {
    failure_ = std::string{what} + ": " + why + "; expected all ranks to come to the same operations in the same order";
    if (comm_ != nullptr) {
      ncclCommAbort(std::exchange(comm_, nullptr));
    }
    try {
      ranks_.call_roll();
    } catch (const error& e) {
      failure_ = e.what();
    }
    throw error{failure_};
  }

  meeting ranks_;
  int device_;
  std::chrono::milliseconds limit_;
  ncclComm_t comm_ = nullptr;  // null: given up, failure_ says why
  std::string failure_{};
  int rank_ = 0;
  int size_ = 1;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<nccl_batch> open_{};
};

}  // namespace detail
}  // namespace unity::backend
