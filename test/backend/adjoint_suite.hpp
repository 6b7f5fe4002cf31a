// Checks on a backend every operator that occurs in adjoints of standard operators, against the double reference.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/device_backend.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../tensor/random_case.hpp"
#include "../tensor/random_edges.hpp"
#include "kernel_run.hpp"
#include "operator_suite.hpp"

namespace unity::backend::test {

// The operator kinds that occur in adjoints in addition to the standard ones.
inline std::vector<std::string> adjoint_kinds() {
  std::vector<std::string> kinds;
  for (auto k = standard().kind_count(); k < training().kind_count(); ++k) {
    kinds.push_back(training().definition_of(kind_id{k}).signature.name);
  }
  return kinds;
}

// Runs single nodes of graphs, on operands that the reference computes.
template <class Backend>
class node_checker {
 public:
  // others: backends whose results must equal those of `backend` bit by bit.
  node_checker(Backend& backend, const suite_options& options, random_engine& random, std::vector<Backend*> others = {})
      : backend_{backend}, others_{std::move(others)}, options_{options}, random_{random} {}

  // given: values of the first nodes. Checks the nodes of non-standard kinds, and those of the bodies of pooling's
  // adjoints.
  void check(const tensor::tensor_graph& g, std::vector<dense<double>> given) {
    std::vector<dense<double>> values(g.value_count());
    for (const auto n : node_ids(g)) {
      if (n.index() < given.size()) {
        values[g.results(n)[0].index()] = std::move(given[n.index()]);
        continue;
      }
      auto results = compute(g, n, values);
      for (std::size_t r = 0; r < results.size(); ++r) {
        values[g.results(n)[r].index()] = std::move(results[r]);
      }
    }
  }
  void check(const suite_case& c, const std::vector<dense<double>>& numbers) {
    if (c.op.kind.index() >= standard().kind_count()) {
      check_node(c, numbers);
    }
  }
  [[nodiscard]] const std::map<std::string, int>& counts() const { return counts_; }

 private:
  [[nodiscard]] bool takes(std::span<const tensor_type> types) const {
    return std::all_of(types.begin(), types.end(), [&](const tensor_type& t) {
      return options_.types.empty() || std::count(options_.types.begin(), options_.types.end(), t.element) > 0;
    });
  }

  [[nodiscard]] std::vector<dense<double>> compute(const tensor::tensor_graph& g, node_id n,
                                                   const std::vector<dense<double>>& values) {
    suite_case c{g.operation(n), {}, {}};
    std::vector<dense<double>> operands;
    for (const auto v : g.operands(n)) {
      c.inputs.push_back(g.type(v));
      operands.push_back(values[v.index()]);
    }
    check(c, operands);
    return tensor::evaluate<double>(training(), c.op, operands, c.inputs);
  }

  void check_node(suite_case c, const std::vector<dense<double>>& numbers) {
    const auto& name = training().signature(c.op.kind).name;
    if (name == "max_pool_gradient" || name == "average_pool_gradient") {
      check(*training().body(c.op, c.inputs), numbers);
    }
    vary_types(c);
    if (!takes(c.inputs) || !takes(c.outputs)) {
      return;
    }
    suite_operands operands;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      operands.add(numbers[i], c.inputs[i]);
    }
    const auto expected = tensor::evaluate<double>(training(), c.op, operands.numbers, c.inputs);
    if (!all_finite(expected) || is_ill_conditioned(c, operands, expected, options_.tolerance)) {
      return;
    }
    CAPTURE(describe(c.op, c.inputs));
    const auto run = [&](Backend& b) {
      return run_kernel(b, b.prepare(c.op, c.inputs, c.outputs), c.inputs, c.outputs, operands.bytes);
    };
    const auto found = run(backend_);
    check_results(found, c.outputs, expected, options_.tolerance);
    for (auto* other : others_) {
      CHECK(run(*other) == found);
    }
    ++counts_[name];
  }

  // Varies layouts and constant operands as graphs do.
  void vary_types(suite_case& c) {
    for (auto& t : c.inputs) {
      t.order = t.rank() >= 2 && random_.below(3) == 0 ? tensor::layout::column_major : tensor::layout::row_major;
      t.constant = packing_backend<Backend> && random_.below(2) == 0;
    }
    const auto variants = training().variants(c.op, c.inputs);
    if (!variants.empty() && random_.below(2) == 0) {
      c.op = variants[0];
    }
    c.outputs = *training().infer(c.op, c.inputs);
  }

  Backend& backend_;
  std::vector<Backend*> others_;
  const suite_options& options_;
  random_engine& random_;
  std::map<std::string, int> counts_;
};

// Operators of losses and messages: not standard, with adjoints of their own.
inline constexpr std::array loss_kinds{"one_hot", "cross_entropy", "magnitude_place", "elements_at_places", "top_k"};

inline tensor::test::random_case draw_selection(const std::string& kind, random_engine& random) {
  const auto n = random.between(1, 40);
  const auto vector = tensor::test::type({n});
  if (kind == "magnitude_place") {
    return {training().make_operation(kind), {vector, vector}};
  }
  const auto operand = kind == "top_k" ? vector : tensor::test::type({n}, tensor::dtype::int32);
  return {training().make_operation(kind, {{"count", random.between(1, n)}}), {operand}};
}

inline tensor::test::random_case draw_loss(const std::string& kind, random_engine& random) {
  if (kind != "one_hot" && kind != "cross_entropy") {
    return draw_selection(kind, random);
  }
  tensor::test::case_maker m{random};
  const auto logits = m.dims(1, 3);
  const tensor::shape rows(std::span<const std::int64_t>{logits}.first(logits.size() - 1));
  const auto labels = tensor::test::type(rows, tensor::dtype::int32);
  if (kind == "one_hot") {
    return {training().make_operation(kind, {{"classes", m.size(6)}}), {labels}};
  }
  return {training().make_operation(kind, std::span<const tensor::named_attribute>{}),
          {tensor::test::type(logits), labels}};
}

// Operands of a drawn case, rounded to their types. Half of the operands of maximum-like operators have few different
// elements, so that the maximum is tied.
inline std::vector<dense<double>> adjoint_operands(const tensor::test::random_case& c, random_engine& random) {
  const std::string_view kind = training().signature(c.op.kind).name;
  const bool ties = kind.ends_with("max_pool") || kind.ends_with("imum") || kind == "reduce_max" || kind == "relu" ||
                    kind == "top_k" || kind == "magnitude_place" || kind == "segment_max";
  const bool coarse = ties && random.below(2) == 0;
  std::vector<dense<double>> drawn;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    auto& values = drawn.emplace_back(random_values(kind, i, c.inputs[i], random));
    if (coarse) {
      std::ranges::transform(values.data, values.data.begin(), [](double x) { return std::round(2 * x) / 2; });
    }
  }
  tensor::test::draw_lists(kind, drawn, random);
  suite_operands operands;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    operands.add(std::move(drawn[i]), c.inputs[i]);
  }
  return std::move(operands.numbers);
}

// Checks one drawn case (if it is not of the standard algebra) and its adjoint, node by node.
template <class Backend>
void check_adjoint(node_checker<Backend>& checker, tensor::test::random_case c, const suite_options& options,
                   random_engine& random) {
  for (auto& t : c.inputs) {
    t.element = t.element == tensor::dtype::float32 ? options.element : t.element;
  }
  const auto outputs = training().infer(c.op, c.inputs);
  if (!outputs) {
    return;
  }
  auto given = adjoint_operands(c, random);
  checker.check({c.op, c.inputs, *outputs}, given);
  auto results = tensor::evaluate<double>(training(), c.op, given, c.inputs);
  const auto count = results.size();
  std::move(results.begin(), results.end(), std::back_inserter(given));
  for (std::size_t r = 0; r < count; ++r) {
    given.push_back(tensor::test::random_tensor((*outputs)[r].dims, random));
  }
  checker.check(tensor::adjoint_of(training(), c.op, c.inputs).graph, std::move(given));
}

// make(algebra): a backend. Checks the adjoints of random cases of every operator kind. Fails if a kind that occurs in
// adjoints ran fewer times than cases were asked for.
template <class MakeBackend>
void check_adjoint_operators(const MakeBackend& make, const suite_options& options = {}) {
  auto backend = make(training());
  std::map<std::string, int> counts;
  auto kinds = suite_kinds();
  const auto losses = kinds.insert(kinds.end(), loss_kinds.begin(), loss_kinds.end());
  for (auto kind = kinds.begin(); kind != kinds.end(); ++kind) {
    for (int i = 0; i < options.cases; ++i) {
      const auto seed = hash_combine(hash_combine(options.seed, hash_bytes(*kind)), static_cast<std::uint64_t>(i));
      CAPTURE(*kind, seed);
      random_engine random{seed};
      node_checker checker{backend, options, random};
      auto drawn = kind < losses ? tensor::test::draw(*kind, random) : draw_loss(*kind, random);
      check_adjoint(checker, std::move(drawn), options, random);
      for (const auto& [name, n] : checker.counts()) {
        counts[name] += n;
      }
    }
  }
  for (const auto& kind : adjoint_kinds()) {
    CAPTURE(kind);
    CHECK(counts[kind] >= options.cases / 2);
  }
}

// Cases whose adjoints take more than one tile, row or chunk.
inline std::vector<tensor::test::random_case> large_adjoint_cases() {
  using tensor::test::type;
  std::vector<tensor::test::random_case> all;
  const auto add = [&](std::string_view name, tensor::test::attributes a, tensor::test::types inputs) {
    all.push_back({training().make_operation(name, a), std::move(inputs)});
  };
  add("conv2d", {{"padding", "same"}}, {type({4, 24, 17, 15}), type({130, 24, 3, 3})});
  add("conv2d", {{"padding", "valid"}}, {type({5, 48, 13, 14}), type({72, 48, 1, 1}), type({72})});
  add("conv2d", {{"padding", "valid"}}, {type({3, 160, 5, 5}), type({150, 160, 1, 1})});
  add("conv2d", {{"stride", {2, 2}}, {"padding", "explicit"}, {"pads", {3, 2, 2, 3}}},
      {type({3, 18, 27, 30}), type({33, 18, 7, 5})});
  add("conv2d", {{"stride", {2, 1}}, {"dilation", {1, 2}}, {"padding", "same_lower"}},
      {type({4, 20, 18, 19}), type({70, 20, 3, 3})});
  add("conv2d", {{"groups", 26}, {"padding", "same"}}, {type({3, 78, 14, 15}), type({130, 3, 3, 3})});
  add("conv2d", {{"groups", 70}, {"padding", "same"}}, {type({9, 70, 19, 21}), type({140, 1, 3, 3})});
  for (const std::int64_t stride : {1, 2, 3}) {
    const tensor::shape strides{stride, stride};
    const auto x = type({3, 13, 37, 41});
    add("max_pool", {{"kernel", {3, 3}}, {"stride", strides}, {"padding", "same"}}, {x});
    add("max_pool", {{"kernel", {3, 2}}, {"stride", strides}, {"dilation", {2, 1}}, {"ceil_mode", 1}}, {x});
    add("average_pool", {{"kernel", {4, 3}}, {"stride", strides}, {"padding", "explicit"}, {"pads", {1, 2, 0, 1}}},
        {x});
    add("average_pool", {{"kernel", {4, 3}}, {"stride", strides}, {"padding", "same"}, {"count_include_pad", 1}}, {x});
  }
  add("layer_norm", {{"axis", 2}}, {type({5, 13, 1031}), type({1031}), type({1031})});
  add("layer_norm", {{"axis", 1}}, {type({100, 13, 31}), type({13, 31}), type({13, 31})});
  const auto channels = type({37});
  add("batch_norm", {}, {type({3, 37, 29, 31}), channels, channels, channels, channels});
  add("softmax", {{"axis", 1}}, {type({5, 13, 1031})});
  add("embedding", {}, {type({70, 129}), type({31, 33}, tensor::dtype::int64)});
  add("embedding_bag", {}, {type({70, 529}), type({19, 33}, tensor::dtype::int32)});
  add("cross_entropy", {}, {type({5, 13, 1031}), type({5, 13}, tensor::dtype::int32)});
  add("gelu", {}, {type({5, 13, 1031})});
  return all;
}

// Checks the adjoint of one large case; see node_checker.
template <class Backend>
void check_large_adjoint(Backend& backend, const tensor::test::random_case& c, std::vector<Backend*> others = {}) {
  const suite_options options;
  CAPTURE(options.seed, describe(c.op, c.inputs));
  random_engine random{options.seed};
  node_checker checker{backend, options, random, std::move(others)};
  check_adjoint(checker, c, options, random);
  CHECK(!checker.counts().empty());
}

}  // namespace unity::backend::test
