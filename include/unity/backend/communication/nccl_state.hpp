// The NCCL and CUDA objects of a communicator of GPUs, and waiting with a time limit.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communication/meeting.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct nccl_options {
  std::chrono::milliseconds limit = default_time_limit;
};

namespace detail {

inline void check_cuda(cudaError_t code, std::string_view what) {
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error, or the next caller that asks for it would report it
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

// A message that has not been passed to NCCL yet.
struct nccl_message {
  bool sends = false;
  int peer = 0;
  int tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// A group of NCCL calls that is always closed: an open one would absorb all following calls.
class nccl_group {
 public:
  explicit nccl_group(const char* what) : what_{what} { check_nccl(ncclGroupStart(), what); }
  nccl_group(const nccl_group&) = delete;
  nccl_group& operator=(const nccl_group&) = delete;
  ~nccl_group() {
    if (open_) {
      static_cast<void>(ncclGroupEnd());
    }
  }
  void add(ncclResult_t code) const { check_nccl(code, what_); }
  [[nodiscard]] ncclResult_t end() {
    open_ = false;
    return ncclGroupEnd();
  }

 private:
  const char* what_;
  bool open_ = true;
};

// Calls that are passed to NCCL together, and the event that marks their completion.
struct nccl_batch {
  const char* what = "";
  std::vector<nccl_message> messages{};  // sorted by tag
  cudaEvent_t ended = nullptr;           // null: not passed to NCCL yet

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
  // Throws: unity::error if there is no such GPU, or a rank does not arrive.
  nccl_state(meeting ranks, int device, const nccl_options& options)
      : nccl_state{std::move(ranks), device, options.limit} {
    ncclUniqueId id{};
    // First, so that it fails before the other ranks wait for this one.
    use_device();
    if (ranks_.rank == 0) {
      check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    ranks_.share(std::as_writable_bytes(std::span{&id, 1}));
    auto config = configuration();
    check_nccl(ncclCommInitRankConfig(&comm_, ranks_.size, id, ranks_.rank, &config), "ncclCommInitRank");
    open("ncclCommInitRank");
  }
  // A part of another communicator; null if the color is negative.
  [[nodiscard]] static std::shared_ptr<nccl_state> split(nccl_state& whole, int color) {
    whole.use_device();
    whole.submit_messages();
    auto config = configuration();
    std::shared_ptr<nccl_state> part{new nccl_state{whole.ranks_, whole.device_, whole.limit_}};
    check_nccl(ncclCommSplit(whole.comm(), color < 0 ? NCCL_SPLIT_NOCOLOR : color, whole.rank(), &part->comm_, &config),
               "split");
    whole.settle("split");
    if (color < 0) {
      return nullptr;
    }
    part->open("split");
    return part;
  }
  nccl_state(const nccl_state&) = delete;
  nccl_state& operator=(const nccl_state&) = delete;
  ~nccl_state() {
    if (comm_ == nullptr && stream_ == nullptr) {
      return;
    }
    static_cast<void>(cudaSetDevice(device_));
    if (comm_ != nullptr) {
      leave();
    }
    if (stream_ != nullptr) {
      static_cast<void>(cudaStreamDestroy(stream_));
    }
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] ncclComm_t comm() const {
    if (comm_ == nullptr) {
      throw error{failure_};
    }
    return comm_;
  }
  void use_device() const { check_cuda(cudaSetDevice(device_), fmt::format("GPU {}", device_)); }

  // Submits call(comm, stream) to NCCL, after earlier messages.
  template <class Call>
  [[nodiscard]] std::shared_ptr<nccl_batch> begin(const char* what, const Call& call) {
    use_device();
    submit_messages();
    auto batch = std::make_shared<nccl_batch>();
    batch->what = what;
    check_nccl(call(comm(), stream_), what);
    settle(what);
    record(*batch);
    return batch;
  }
  // Device memory for operations of this communicator, which share it because they run in order on one stream. It is
  // kept, because allocating and freeing wait for all work on the device.
  [[nodiscard]] std::byte* scratch(std::size_t bytes) {
    if (bytes > scratch_size_) {
      const auto size = std::max(bytes, 2 * scratch_size_);
      use_device();
      scratch_.emplace_back(size);  // operations in flight may still use the smaller ones
      scratch_size_ = size;
    }
    return scratch_.back().data();
  }
  // Copies from or to the host, in the order of the operations. Returns when it is done.
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, const char* what) const {
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream_), what);
    check_cuda(cudaStreamSynchronize(stream_), what);
  }
  // NCCL has no tags, and two messages in opposite directions that are submitted separately deadlock. So messages are
  // collected until one is tested, and submitted as one group, sorted by tag for each peer.
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
  void submit_messages() {
    if (!open_) {
      return;
    }
    const auto to = comm();
    const auto batch = std::exchange(open_, nullptr);
    nccl_group group{"message"};
    for (const auto& m : batch->messages) {
      group.add(m.sends ? ncclSend(m.data, m.bytes, ncclUint8, m.peer, to, stream_)
                        : ncclRecv(m.data, m.bytes, ncclUint8, m.peer, to, stream_));
    }
    check_nccl(group.end(), "message");
    settle("message");
    record(*batch);
  }

  [[nodiscard]] bool ended(nccl_batch& batch) {
    use_device();
    if (batch.ended == nullptr) {
      submit_messages();
    }
    if (batch.ended == nullptr) {
      throw error{batch.what, "it was not passed to NCCL, because another call of its group failed",
                  "all calls of a group to be accepted"};
    }
    const auto state = cudaEventQuery(batch.ended);
    if (state == cudaSuccess) {
      return true;
    }
    if (state != cudaErrorNotReady) {
      check_cuda(state, batch.what);
    }
    static_cast<void>(cudaGetLastError());  // not an error, though the runtime records it as one
    ncclResult_t asynchronous = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm(), &asynchronous), batch.what);
    if (asynchronous != ncclSuccess && asynchronous != ncclInProgress) {
      give_up(batch.what, ncclGetErrorString(asynchronous));
    }
    return false;
  }
  // Withdraws this rank, so that the others do not wait for it in vain.
  void stop(const char* what) noexcept {
    if (comm_ != nullptr) {
      failure_ = fmt::format("{}: given up because of an exception; expected its request to be waited for", what);
      ncclCommAbort(std::exchange(comm_, nullptr));
    }
  }
  [[noreturn]] void time_out(const char* what) {
    give_up(what, fmt::format("did not end within {}", to_string(limit_)));
  }
  [[nodiscard]] std::chrono::milliseconds limit() const noexcept { return limit_; }

 private:
  // Without a communicator and a stream yet. If a constructor that delegates to this one throws, the destructor runs
  // and releases what was acquired.
  nccl_state(meeting ranks, int device, std::chrono::milliseconds limit)
      : ranks_{std::move(ranks)}, device_{device}, limit_{limit} {}
  [[nodiscard]] static ncclConfig_t configuration() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // calls return immediately, so that none blocks forever
    return config;
  }
  void open(const char* what) {
    settle(what);
    check_nccl(ncclCommUserRank(comm_, &rank_), what);
    check_nccl(ncclCommCount(comm_, &size_), what);
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), what);
  }
  // Leaves in order if all ranks do so in time: data that others still read must reach them. Aborts otherwise.
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
  // Waits until NCCL has accepted the calls.
  void settle(const char* what) {
    const auto until = deadline_after(limit_);
    for (;;) {
      ncclResult_t state = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(comm(), &state), what);
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
    failure_ = fmt::format("{}: {}; expected all ranks to come to the same operations in the same order", what, why);
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
  ncclComm_t comm_ = nullptr;  // null: given up, for the reason in failure_
  std::string failure_{};
  int rank_ = 0;
  int size_ = 1;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<nccl_batch> open_{};
  std::vector<gpu_buffer>
      scratch_{};  // the last one is used; freed after leaving NCCL, because freeing might block forever otherwise
  std::size_t scratch_size_ = 0;
};

}  // namespace detail
}  // namespace unity::backend
