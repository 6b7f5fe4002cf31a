// Chains of element-wise operators on a fusing backend, against the double reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../tensor/random_case.hpp"
#include "kernel_run.hpp"

namespace unity::backend::test {

using tensor::test::standard;

// A random graph of element-wise operators; some inputs are broadcast.
inline tensor_graph random_elementwise_graph(random_engine& random, tensor::dtype element) {
  tensor::builder b{standard()};
  tensor::test::case_maker m{random};
  const auto joint = m.dims(0, 4);
  int inputs = 0;
  const auto input = [&](bool whole) {
    return b.input("x" + std::to_string(inputs++), whole ? joint : m.stretched(joint), element);
  };
  const auto apply = [&](std::string_view name, std::initializer_list<value_id> operands) {
    return b.apply(name, operands)[0];
  };
  auto last = input(true);
  const auto earlier = input(true);
  for (auto left = random.between(2, 9); left > 0; --left) {
    const auto other = random.below(3) == 0 ? earlier : input(random.below(2) == 0);
    switch (random.below(12)) {
      case 0: last = b.relu(last); break;
      case 1: last = b.tanh(last); break;
      case 2: last = b.mul(b.sigmoid(last), last); break;
      case 3: last = b.gelu(last); break;
      case 4: last = b.sub(other, last); break;
      case 5: last = b.add(last, other); break;
      case 6: last = b.mul(last, other); break;
      case 7: last = apply("maximum", {last, other}); break;
      case 8: last = b.div(other, apply("exp", {b.tanh(last)})); break;
      case 9: last = apply("identity", {apply("erf", {last})}); break;
      case 10: last = apply("minimum", {other, apply("abs", {last})}); break;
      default: last = apply("sqrt", {apply("exp", {b.tanh(last)})}); break;
    }
  }
  // The output always has the joint size, and the last operators always form one chain.
  return std::move(b).finish({b.add(apply("negate", {b.add(last, input(true))}), earlier)});
}

// The region with every layout swapped.
inline tensor_graph in_column_major(const tensor_graph& region) {
  tensor_graph turned;
  for (const auto n : node_ids(region)) {
    auto types = types_of(region, region.results(n));
    auto op = region.operation(n);
    for (auto& t : types) {
      t.order = t.rank() >= 2 ? tensor::layout::column_major : t.order;
    }
    op.order = region.operands(n).empty() ? op.order : types[0].order;
    turned.add_node(std::move(op), region.operands(n), types);
  }
  turned.set_outputs(region.outputs());
  return turned;
}

// Runs a region on random operands.
template <class Backend>
void check_region(Backend& backend, const tensor_graph& region, double tolerance, random_engine& random) {
  suite_operands operands;
  std::vector<tensor_type> inputs;
  for (const auto n : node_ids(region)) {
    if (!region.operands(n).empty()) {
      continue;
    }
    inputs.push_back(region.type(region.results(n)[0]));
    dense<double> values{inputs.back().dims};
    for (auto& x : values.data) {
      x = 2 * random.unit() - 1;
    }
    operands.add(std::move(values), inputs.back());
  }
  std::size_t next = 0;
  const auto given = [&](const operation&, const tensor_type&) { return std::optional{operands.numbers[next++]}; };
  const auto expected = tensor::evaluate<double>(standard(), region, given);
  const auto outputs = types_of(region, region.outputs());
  CAPTURE(region.node_count(), tensor::to_string(outputs[0]));
  check_results(run_kernel(backend, backend.prepare_chain(region), inputs, outputs, operands.bytes), outputs, expected,
                tolerance);
}

// Chains of random element-wise graphs on a fusing backend.
template <class MakeBackend>
void check_chains(const MakeBackend& make, const suite_options& options = {}) {
  auto backend = make(standard());
  int ran = 0;
  for (int i = 0; i < 4 * options.cases; ++i) {
    const auto seed = hash_combine(options.seed, static_cast<std::uint64_t>(i));
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = random_elementwise_graph(random, options.element);
    for (const auto& chain : elementwise_chains(standard(), g)) {
      check_region(backend, chain.region, options.tolerance, random);
      check_region(backend, in_column_major(chain.region), options.tolerance, random);
      ++ran;
    }
  }
  INFO("chains that ran");
  CHECK(ran >= 4 * options.cases);
}

}  // namespace unity::backend::test
