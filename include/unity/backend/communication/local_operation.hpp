// A collective or message between threads of one process, divided into units of work that any of them, or a separate
// thread, can execute.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

struct local_group;

enum class local_kind : std::uint8_t {
  barrier,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  split,
  message
};

inline constexpr std::array<std::string_view, 8> local_kind_names{
    "barrier", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "split", "message"};

// The parameters that all ranks must agree on.
struct local_call {
  local_kind kind = local_kind::barrier;
  std::size_t count = 0;
  tensor::dtype type = tensor::dtype::uint8;
  reduction op = reduction::sum;
  int root = 0;

  friend bool operator==(const local_call&, const local_call&) = default;
};

[[nodiscard]] std::string to_string(const local_call& c);

// A collective or a message of some ranks. Until all ranks have arrived, the world's lock guards everything; once it is
// ready, the description is immutable and units are claimed one by one. No unit reads what another one writes, so
// results do not depend on which thread executes a unit, nor on the order.
class local_operation {
 public:
  static constexpr std::size_t unit_bytes = std::size_t{64} << 10U;

  local_operation(const local_call& call, std::size_t ranks) : call_{call}, in_(ranks), out_(ranks), arrived_(ranks) {}

  [[nodiscard]] const local_call& call() const noexcept { return call_; }
  [[nodiscard]] bool arrived(std::size_t rank) const noexcept { return arrived_[rank]; }
  [[nodiscard]] std::size_t first_missing() const noexcept {
    return static_cast<std::size_t>(std::find(arrived_.begin(), arrived_.end(), false) - arrived_.begin());
  }
  // Returns whether it is ready now.
  bool arrive(std::size_t rank, const std::byte* in, std::byte* out);
  // Publishes the writes of arrive and of the caller.
  void make_ready() noexcept { ready_.store(true, std::memory_order_release); }

  [[nodiscard]] bool ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  [[nodiscard]] bool complete() const noexcept {
    return ready() && finished_.load(std::memory_order_acquire) == units_;
  }
  [[nodiscard]] std::size_t units() const noexcept { return units_; }

  // Executes one unit if one is left; `found` says whether. Returns whether all units are finished now.
  bool do_unit(bool& found) noexcept;

  // Parameters of the ranks, for the communicator that started it.
  std::vector<int> colors{};
  std::vector<std::shared_ptr<local_group>> groups{};
  int from = 0;
  int to = 0;
  int tag = 0;

 private:
  [[nodiscard]] std::size_t element() const noexcept { return static_cast<std::size_t>(tensor::size_of(call_.type)); }
  [[nodiscard]] std::size_t tile() const noexcept { return unit_bytes / element(); }

  void cut() noexcept;

  void run(std::size_t unit) const noexcept;
  // Both directions between two ranks in one unit, so that they may be in place.
  void exchange(std::size_t a, std::size_t b, std::size_t stride, std::size_t at, std::size_t bytes) const noexcept;
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

  local_call call_;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<bool> arrived_;
  std::size_t arrivals_ = 0;
  std::size_t tiles_ = 0;
  std::size_t units_ = 0;
  std::atomic<bool> ready_ = false;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> finished_ = 0;
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_COMMUNICATION_LOCAL_OPERATION)

#include <cstring>
#include <span>

#include <fmt/core.h>

#include <unity/backend/communication/reduce.hpp>

namespace unity::backend::detail {

UNITY_INLINE std::string to_string(const local_call& c) {
  std::string text{local_kind_names[static_cast<std::size_t>(c.kind)]};
  if (c.kind == local_kind::barrier || c.kind == local_kind::split) {
    return text;
  }
  text += fmt::format(" of {} {}", c.count, tensor::name_of(c.type));
  if (c.kind == local_kind::all_reduce || c.kind == local_kind::reduce_scatter) {
    constexpr std::array<std::string_view, 4> names{"sum", "product", "minimum", "maximum"};
    text += fmt::format(" ({})", names[static_cast<std::size_t>(c.op)]);
  }
  return c.kind == local_kind::broadcast ? fmt::format("{} from rank {}", text, c.root) : text;
}

UNITY_INLINE bool local_operation::arrive(std::size_t rank, const std::byte* in, std::byte* out) {
  in_[rank] = in;
  out_[rank] = out;
  arrived_[rank] = true;
  if (++arrivals_ < in_.size()) {
    return false;
  }
  cut();
  return true;
}

UNITY_INLINE bool local_operation::do_unit(bool& found) noexcept {
  // Checks first: repeated calls must not overflow the counter.
  found = next_.load(std::memory_order_relaxed) < units_;
  if (!found) {
    return false;
  }
  const auto unit = next_.fetch_add(1, std::memory_order_relaxed);
  found = unit < units_;
  if (!found) {
    return false;
  }
  run(unit);
  return finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == units_;
}

UNITY_INLINE void local_operation::cut() noexcept {
  const auto ranks = in_.size();
  tiles_ = (call_.count + tile() - 1) / tile();
  switch (call_.kind) {
    case local_kind::barrier:
    case local_kind::split: units_ = 0; break;
    case local_kind::all_reduce:
    case local_kind::broadcast:
    case local_kind::message: units_ = tiles_; break;
    case local_kind::reduce_scatter:
    case local_kind::all_gather: units_ = ranks * tiles_; break;
    case local_kind::all_to_all: units_ = ranks * ranks * tiles_; break;
  }
}

UNITY_INLINE void local_operation::run(std::size_t unit) const noexcept {
  const auto part = unit / tiles_;
  const auto begin = unit % tiles_ * tile();
  const auto length = std::min(tile(), call_.count - begin);
  const auto at = begin * element();
  const auto bytes = length * element();
  const auto stride = call_.count * element();
  switch (call_.kind) {
    case local_kind::all_reduce: reduce(call_.type, call_.op, in_, at, out_, at, length); break;
    case local_kind::reduce_scatter:
      reduce(call_.type, call_.op, in_, part * stride + at, {&out_[part], 1}, at, length);
      break;
    case local_kind::all_gather: {
      // In place: the part is already at its position.
      for (auto* const out : out_) {
        copy(out + part * stride + at, in_[part] + at, bytes);
      }
      break;
    }
    case local_kind::broadcast: {
      const auto root = static_cast<std::size_t>(call_.root);
      for (auto* const out : out_) {
        copy(out + at, in_[root] + at, bytes);
      }
      break;
    }
    case local_kind::all_to_all: exchange(part / in_.size(), part % in_.size(), stride, at, bytes); break;
    case local_kind::message: copy(out_[1] + at, in_[0] + at, bytes); break;
    case local_kind::barrier:
    case local_kind::split: break;
  }
}

UNITY_INLINE void local_operation::exchange(std::size_t a, std::size_t b, std::size_t stride, std::size_t at,
                                            std::size_t bytes) const noexcept {
  if (a > b) {
    return;
  }
  constexpr std::size_t block = 4096;
  std::array<std::byte, block> to_a;
  for (std::size_t done = 0; done < bytes; done += block) {
    const auto length = std::min(block, bytes - done);
    const auto of_a = a * stride + at + done;
    const auto of_b = b * stride + at + done;
    std::memcpy(to_a.data(), in_[b] + of_a, length);
    if (a != b) {
      std::memcpy(out_[b] + of_a, in_[a] + of_b, length);
    }
    std::memcpy(out_[a] + of_b, to_a.data(), length);
  }
}

UNITY_INLINE void local_operation::copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (to != from) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace unity::backend::detail

#endif
