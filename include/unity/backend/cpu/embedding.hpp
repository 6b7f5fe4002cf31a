// Lookup of rows by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/threads.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Inputs: row-major; numbers of any integer type.
class embedding_routine final : public routine {
 public:
  explicit embedding_routine(types inputs)
      : rows_{inputs[0].dims[0]}, count_{tensor::element_count(inputs[1].dims)}, number_{inputs[1].element} {
    row_bytes_ = static_cast<std::int64_t>(byte_count(inputs[0])) / rows_;
  }

  void run(const call& c) const override {
    constexpr std::int64_t least_bytes = 65536;
    const auto size = static_cast<std::size_t>(row_bytes_);
    parallel_for(c.threads, count_, least_bytes / row_bytes_ + 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        double row = 0;
        load_elements(number_, &row, c.inputs[1], i, 1, 1);
        auto* to = c.outputs[0] + i * row_bytes_;
        if (row >= 0 && row < static_cast<double>(rows_)) {
          std::memcpy(to, c.inputs[0] + static_cast<std::int64_t>(row) * row_bytes_, size);
        } else {
          std::memset(to, 0, size);
        }
      }
    });
  }

 private:
  std::int64_t rows_;
  std::int64_t count_;
  std::int64_t row_bytes_ = 1;
  tensor::dtype number_;
};

}  // namespace unity::backend::cpu
