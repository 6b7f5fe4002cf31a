// Random parallel types, grids and chains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/shape.hpp>

#include "operators.hpp"

namespace unity::parallel::test {

inline const pcg_algebra& parallel_operators() {
  static const pcg_algebra a{operators()};
  return a;
}

// The operator's dimensions at the graph's own sizes; null for sources.
inline const operator_dimensions* dimensions_in(const tensor::tensor_graph& g, node_id n) {
  std::vector<parallel_type> inputs;
  for (const auto v : g.operands(n)) {
    inputs.push_back(undivided(g.type(v)));
  }
  return parallel_operators().dimensions(g.operation(n), inputs);
}

// Has a split, a weight that is read twice, and an output that other operators read.
inline tensor::tensor_graph some_graph() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6});
  const auto w = b.weight("w", {6, 6});
  const auto y = b.relu(b.linear(x, w, b.weight("bias", {6})));
  const auto parts = b.split(b.add(y, b.matmul(y, w)), 1, {2, 4});
  return std::move(b).finish({b.softmax(parts[0], 1), parts[1], y});
}

inline parallel_type divided(tensor::shape dims, degree_list degrees, std::int64_t copies = 1,
                             std::int64_t partial = 1) {
  auto t = undivided(type(std::move(dims)));
  t.degrees = std::move(degrees);
  t.copies = copies;
  t.partial = partial;
  return t;
}

// Returns 1 more often than not.
inline std::int64_t random_divisor(random_engine& random, std::int64_t n) {
  const auto d = random.between(1, n);
  return random.below(2) == 0 && n % d == 0 ? d : 1;
}

// A random division of the tensor; with steps only on request.
inline parallel_type random_division(random_engine& random, const tensor::tensor_type& t, bool with_steps = false) {
  auto p = undivided(t);
  for (std::size_t d = 0; d < t.rank(); ++d) {
    p.degrees[d] = random_divisor(random, t.dims[d]);
    p.steps[d] = with_steps ? random_divisor(random, t.dims[d] / p.degrees[d]) : 1;
  }
  p.copies = random_divisor(random, 6);
  p.partial = random_divisor(random, 6);
  return p;
}

// A random grid of the operator with at most `most_tasks` tasks.
inline operator_grid random_grid(random_engine& random, const operator_dimensions& o, std::int64_t most_tasks) {
  while (true) {
    auto g = undivided_grid(o);
    for (std::size_t i = 0; i < g.indices.size(); ++i) {
      const auto size = o.structure.indices[i].size;
      g.indices[i] = random_divisor(random, size);
      g.steps[i] = random.below(8) == 0 ? random_divisor(random, size / g.indices[i]) : 1;
    }
    for (auto& p : g.partials) {
      p = random.below(4) == 0 ? random.between(1, 3) : 1;
    }
    g.copies = random.below(4) == 0 ? random.between(1, 3) : 1;
    if (task_count(g) <= most_tasks && types_on(o, g)) {
      return g;
    }
  }
}

// A random chain of operators that accept the current type.
inline parallel_chain random_chain(random_engine& random, parallel_type t, std::size_t most) {
  parallel_chain chain;
  for (auto tries = random.below(4 * most); tries > 0 && chain.size() < most; --tries) {
    const auto kind = static_cast<parallel_kind>(random.below(8));
    const auto rank = static_cast<std::int64_t>(t.global.rank());
    if (has_axis(kind) && rank == 0) {
      continue;
    }
    const parallel_operator p{kind, has_axis(kind) ? random.between(0, rank - 1) : 0, random.between(2, 3)};
    if (auto next = result_type(p, {&t, 1}); next && total(*next) * product(next->steps) <= 24) {
      chain.push_back(p);
      t = *std::move(next);
    }
  }
  return chain;
}

}  // namespace unity::parallel::test
