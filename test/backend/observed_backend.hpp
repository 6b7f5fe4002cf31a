// The reference backend with every optional capability, instrumented: it packs, fuses and records, needs workspace,
// fills new memory with NaN, and counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>

namespace unity::backend::test {

class observed_backend {
 public:
  using memory = host_memory;

  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const noexcept { return scratch; }
    // Constants of rank 2 are packed: every bit inverted, after a header.
    [[nodiscard]] std::size_t packed_size(std::size_t i) const {
      return inputs_[i].constant && inputs_[i].rank() == 2 ? header + byte_count(inputs_[i]) : 0;
    }

   private:
    friend class observed_backend;
    kernel(reference_backend::kernel k, std::vector<tensor::tensor_type> inputs)
        : what_{std::move(k)}, inputs_{std::move(inputs)} {}
    reference_backend::kernel what_;
    std::vector<tensor::tensor_type> inputs_;
  };

  struct launch {
    const kernel* what;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::byte* work;
  };
  using recording = std::vector<launch>;

  explicit observed_backend(const tensor::algebra& a) : reference_{a} {}

  [[nodiscard]] device_description description() const { return reference_.description(); }
  [[nodiscard]] memory allocate(std::size_t size) {
    if (size > limit) {
      throw error{"device", "no " + std::to_string(size) + " bytes", "at most " + std::to_string(limit)};
    }
    ++allocations;
    memory m{size};
    std::fill_n(m.data(), size, std::byte{0xFF});
    return m;
  }
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                               std::span<const tensor::tensor_type> outputs) {
    ++prepared;
    return {reference_.prepare(op, inputs, outputs), {inputs.begin(), inputs.end()}};
  }
  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph& region) {
    ++prepared;
    std::vector<tensor::tensor_type> inputs;
    for (const auto n : node_ids(region)) {
      if (region.operands(n).empty()) {
        inputs.push_back(region.type(region.results(n)[0]));
      }
    }
    return {reference_.prepare_chain(region), std::move(inputs)};
  }
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    if (recording_) {
      recording_->push_back({&k, {in.begin(), in.end()}, {out.begin(), out.end()}, work});
      return;
    }
    ++runs;
    std::vector<std::vector<std::byte>> unpacked(in.size());
    std::vector<const std::byte*> plain(in.begin(), in.end());
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (const auto size = k.packed_size(i); size > 0) {
        std::transform(in[i] + header, in[i] + size, std::back_inserter(unpacked[i]), [](std::byte b) { return ~b; });
        plain[i] = unpacked[i].data();
      }
    }
    std::fill_n(work, scratch, std::byte{0xEE});
    reference_.run(k.what_, plain, out, nullptr);
  }
  void pack(const kernel& k, std::size_t i, const std::byte* from, std::byte* to) {
    ++packs;
    std::transform(from, from + byte_count(k.inputs_[i]), to + header, [](std::byte b) { return ~b; });
  }
  template <class F>
  [[nodiscard]] recording record(const F& f) {
    recording_.emplace();
    f();
    return *std::exchange(recording_, std::nullopt);
  }
  void replay(const recording& all) {
    ++replays;
    for (const auto& l : all) {
      run(*l.what, l.in, l.out, l.work);
    }
  }
  void write(std::byte* to, std::span<const std::byte> from) { reference_.write(to, from); }
  void read(std::span<std::byte> to, const std::byte* from) { reference_.read(to, from); }
  void wait() noexcept {}

  std::size_t limit = static_cast<std::size_t>(-1);  // most bytes per allocation
  int allocations = 0;
  int prepared = 0;
  int runs = 0;
  int packs = 0;
  int replays = 0;

 private:
  static constexpr std::size_t header = 24;
  static constexpr std::size_t scratch = 40;

  reference_backend reference_;
  std::optional<recording> recording_;
};

static_assert(device_backend<observed_backend> && packing_backend<observed_backend>);
static_assert(fusing_backend<observed_backend> && recording_backend<observed_backend>);

}  // namespace unity::backend::test
