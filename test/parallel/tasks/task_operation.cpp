// What tasks run on their parts is what the whole operator makes there.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/tasks/task_operation.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>

#include "../divided_at_random.hpp"
#include "../operators.hpp"
#include "../random_model.hpp"

namespace {

using namespace unity;
using namespace unity::parallel;
using parallel::test::operators;
using values = tensor::dense<double>;

// The elements of a box, row-major.
values part_of(const values& x, const box& b) {
  values y{b.sizes(), {}};
  for_each_position(b.begin, b.end, [&](const auto& at) { y.data.push_back(x.data[offset_of(x.dims, at)]); });
  return y;
}

// The largest difference of what all terms of a block add up to and what the whole operator makes there; nothing is
// compared where the operator does not run on such parts.
double compare(const operator_dimensions& o, const configuration& c, const std::vector<values>& operands,
               std::size_t& tasks) {
  const auto results = tensor::evaluate<double>(operators(), o.op, operands, o.inputs);
  division_table table;
  const auto& d = table.of(0, o, c);
  double error = 0;
  for (std::uint32_t copy = 0; copy < d.copies; ++copy) {
    for (std::uint32_t block = 0; block < d.blocks; ++block) {
      std::vector<values> sums;
      for (std::uint32_t term = 0; term < d.result_terms; ++term) {
        const auto t = d.task(term, copy, block);
        const auto made = operation_of_task(operators(), o, c.grid(), d.parts[t]);
        std::vector<values> read;
        for (std::size_t x = 0; x < operands.size(); ++x) {
          read.push_back(d.terms[x].of_task(t) == 0 ? part_of(operands[x], d.parts[t].operands[x])
                                                    : values{made.part.inputs[x].dims});
        }
        for (std::size_t i = 0; made.first_row != 0 && i < read[1].data.size(); ++i) {
          read[1].data[i] -= static_cast<double>(made.first_row);
        }
        auto own = tensor::evaluate<double>(operators(), made.part.op, read, made.part.inputs);
        for (auto& result : own) {
          for (auto& element : result.data) {
            element *= made.share;
          }
        }
        for (std::size_t r = 0; r < own.size(); ++r) {
          if (term == 0) {
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
        const auto whole = part_of(results[r], d.parts[block].results[r]);
        REQUIRE(whole.dims == sums[r].dims);
        for (std::size_t i = 0; i < whole.data.size(); ++i) {
          error = std::max(error, std::abs(whole.data[i] - sums[r].data[i]) / (1 + std::abs(whole.data[i])));
        }
      }
    }
  }
  return error;
}

}  // namespace

TEST_CASE("the parts that tasks compute are those of the whole result, for operators and divisions at random") {
  std::map<std::string, std::size_t> compared;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    random_engine random{seed};
    parallel::test::model_maker maker{random, operators()};
    maker.add(6);
    const auto g = std::move(maker).finish();
    const graph_dimensions all{operators(), g};
    std::vector<values> made(g.value_count());
    for (std::size_t n = 0; n < g.node_count(); ++n) {
      const node_id node{n};
      const auto& o = all[node];
      std::vector<values> operands;
      for (const auto v : g.operands(node)) {
        operands.push_back(made[v.index()]);
      }
      const auto results = tensor::evaluate<double>(operators(), o.op, operands, o.inputs, seed);
      for (std::size_t r = 0; r < results.size(); ++r) {
        made[g.results(node)[r].index()] = results[r];
      }
      const auto c = parallel::test::divided_at_random(o, 12, random, {true, true});
      if (c.task_count() < 2) {
        continue;
      }
      const auto& name = operators().signature(o.op.kind).name;
      CAPTURE(seed, n, name, c.degrees.size(), c.task_count());
      if (name == "enlarge") {
        continue;  // parts of kernels are no kernels: it runs on none
      }
      CHECK(compare(o, c, operands, compared[name]) < 1e-9);
    }
  }
  for (const auto* name :
       {"conv2d", "max_pool", "average_pool", "matmul", "linear", "layer_norm", "softmax", "attention", "concat",
        "reshape", "transpose", "slice", "pad", "split", "embedding", "reduce_sum", "batch_norm"}) {
    CAPTURE(name);
    CHECK(compared[name] > 0);
  }
}
