// The values that the tasks of a divided operator compute, compared with those of the whole operator.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/tasks/task_operation.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>

#include "operators.hpp"

namespace unity::parallel::test {

using dense_values = tensor::dense<double>;

// The elements of x in a box, row-major.
inline dense_values elements_of(const dense_values& x, const box& b) {
  dense_values y{b.sizes(), {}};
  for_each_position(b.begin, b.end, [&](const auto& at) { y.data.push_back(x.data[offset_of(x.dims, at)]); });
  return y;
}

// The largest difference between the sum of all terms of a block and the whole operator's result there, where that is
// finite.
inline double compare(const operator_dimensions& o, const configuration& c, const std::vector<dense_values>& operands,
                      std::size_t& tasks, const tensor::algebra& a = operators()) {
  const auto results = tensor::evaluate<double>(a, o.op, operands, o.inputs);
  division_table table;
  const auto& d = table.of(0, o, c);
  double error = 0;
  for (std::uint32_t copy = 0; copy < d.copies; ++copy) {
    for (std::uint32_t block = 0; block < d.blocks; ++block) {
      std::vector<dense_values> sums;
      for (std::uint32_t partial = 0; partial < d.result_partials; ++partial) {
        const auto t = d.task(partial, copy, block);
        const auto made = operation_of_task(a, o, c.grid(), d.parts[t]);
        std::vector<dense_values> read;
        for (std::size_t x = 0; x < operands.size(); ++x) {
          read.push_back(d.partials[x].of_task(t) == 0 ? elements_of(operands[x], d.parts[t].operands[x])
                                                       : dense_values{made.part.inputs[x].dims});
        }
        for (const auto& shift : made.shifts) {
          for (auto& element : read[shift.operand].data) {
            element -= static_cast<double>(shift.by);
          }
        }
        auto own = tensor::evaluate<double>(a, made.part.op, read, made.part.inputs);
        for (auto& result : own) {
          for (auto& element : result.data) {
            element *= made.share;
          }
        }
        for (std::size_t r = 0; r < own.size(); ++r) {
          if (partial == 0) {
            sums.push_back(own[r]);
            continue;
          }
          for (std::size_t i = 0; i < own[r].data.size(); ++i) {
            sums[r].data[i] += own[r].data[i];
          }
        }
        ++tasks;
      }
      for (std::size_t r = 0; r < sums.size(); ++r) {
        const auto whole = elements_of(results[r], d.parts[block].results[r]);
        REQUIRE(whole.dims == sums[r].dims);
        for (std::size_t i = 0; i < whole.data.size(); ++i) {
          if (std::isfinite(whole.data[i])) {
            const auto own = std::abs(whole.data[i] - sums[r].data[i]) / (1 + std::abs(whole.data[i]));
            error = std::isnan(own) ? std::numeric_limits<double>::infinity() : std::max(error, own);
          }
        }
      }
    }
  }
  return error;
}

}  // namespace unity::parallel::test
