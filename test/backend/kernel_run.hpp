// Runs one kernel on given operands and checks its memory accesses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::test {

using tensor::dense;
using tensor::operation;
using tensor::tensor_graph;
using tensor::tensor_type;

struct suite_options {
  double tolerance = 1e-5;  // relative to the largest magnitude of a result
  int cases = 25;           // small cases per kind of operator
  std::uint64_t seed = 1;
  tensor::dtype element = tensor::dtype::float32;  // replaces float32
  std::vector<tensor::dtype>
      types{};  // element types that the backend supports; empty: all
};

// Tensors on a device, each followed by a margin that no run may change.
template <class Backend>
class device_tensors {
 public:
  explicit device_tensors(Backend& backend) : backend_{backend} {}

  std::byte* add(std::vector<std::byte> content) {
    sizes_.push_back(content.size());
    content.resize((content.size() / memory_alignment + 2) * memory_alignment, margin);
    memories_.push_back(backend_.allocate(content.size()));
    backend_.write(memories_.back().data(), content);
    return memories_.back().data();
  }
  std::byte* add_poisoned(std::size_t size) { return add(std::vector<std::byte>(size, poison)); }
  void poison_again(std::size_t i) { backend_.write(memories_[i].data(), std::vector<std::byte>(sizes_[i], poison)); }

  std::vector<std::byte> read(std::size_t i) {
    std::vector<std::byte> content(memories_[i].size());
    backend_.read(content, memories_[i].data());
    const auto end = content.begin() + static_cast<std::ptrdiff_t>(sizes_[i]);
    CHECK(std::all_of(
        end, content.begin() + static_cast<std::ptrdiff_t>((sizes_[i] / memory_alignment + 2) * memory_alignment),
        [](std::byte b) { return b == margin; }));
    content.erase(end, content.end());
    return content;
  }

 private:
  static constexpr std::byte poison{0xFF};  // NaN in every format
  static constexpr std::byte margin{0x5A};

  Backend& backend_;
  std::vector<typename Backend::memory> memories_;
  std::vector<std::size_t> sizes_;
};

// Packs the operands that the kernel wants packed; returns the addresses to run it with.
template <class Backend>
std::vector<const std::byte*> pack_operands(Backend& backend, const typename Backend::kernel& kernel,
                                            std::span<const tensor_type> types, std::vector<const std::byte*> in,
                                            device_tensors<Backend>& packed) {
  if constexpr (packing_backend<Backend>) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (const auto size = types[i].constant ? static_cast<std::size_t>(kernel.packed_size(i)) : 0; size > 0) {
        auto* to = packed.add_poisoned(size);
        backend.pack(kernel, i, in[i], to);
        in[i] = to;
      }
    }
  }
  return in;
}

// Runs a kernel twice on the same operands: results must be equal, and no other memory may change.
template <class Backend>
std::vector<std::vector<std::byte>> run_kernel(Backend& backend, const typename Backend::kernel& kernel,
                                               std::span<const tensor_type> inputs,
                                               std::span<const tensor_type> outputs,
                                               const std::vector<std::vector<std::byte>>& operands) {
  device_tensors<Backend> given{backend};
  device_tensors<Backend> packed{backend};
  device_tensors<Backend> results{backend};
  device_tensors<Backend> workspace{backend};
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const auto& bytes : operands) {
    in.push_back(given.add(bytes));
  }
  for (const auto& t : outputs) {
    out.push_back(results.add_poisoned(byte_count(t)));
  }
  in = pack_operands(backend, kernel, inputs, std::move(in), packed);
  auto* work = workspace.add_poisoned(kernel.workspace());
  std::vector<std::vector<std::byte>> found;
  for (int repetition = 0; repetition < 2; ++repetition) {
    backend.run(kernel, std::span<const std::byte* const>{in}, std::span<std::byte* const>{out}, work);
    backend.wait();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      auto bytes = results.read(i);
      if (repetition == 0) {
        found.push_back(std::move(bytes));
        results.poison_again(i);
      } else {
        CHECK(bytes == found[i]);
      }
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    CHECK(given.read(i) == operands[i]);
  }
  static_cast<void>(workspace.read(0));
  return found;
}

inline bool all_finite(const std::vector<dense<double>>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& t) {
    return std::all_of(t.data.begin(), t.data.end(), [](double x) { return std::isfinite(x); });
  });
}

// Operands as bytes, and as the numbers that these represent.
struct suite_operands {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<dense<double>> numbers;

  void add(dense<double> values, const tensor_type& t) {
    bytes.push_back(encode(values, t));
    numbers.push_back(decode<double>(bytes.back().data(), t));
  }
};

inline void check_results(const std::vector<std::vector<std::byte>>& found, std::span<const tensor_type> types,
                          const std::vector<dense<double>>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    const auto stored = decode<double>(encode(expected[i], types[i]).data(), types[i]);
    CHECK(relative_error(decode<double>(found[i].data(), types[i]), stored) < tolerance);
  }
}

}  // namespace unity::backend::test
