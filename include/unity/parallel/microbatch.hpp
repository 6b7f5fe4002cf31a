// A graph on a part of its batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The batch size of a graph: the first dimension of its first output, if an input has the same first dimension;
// otherwise 0.
[[nodiscard]] std::int64_t sample_count(const tensor::algebra& a, const tensor::tensor_graph& g);

namespace detail {

class microbatch_maker {
 public:
  microbatch_maker(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all,
                   std::int64_t count)
      : algebra_{a},
        graph_{g},
        all_{all},
        count_{count},
        samples_{sample_count(a, g)},
        types_(g.value_count()),
        now_(g.value_count()) {}

  [[nodiscard]] std::optional<tensor::tensor_graph> run() &&;

 private:
  [[nodiscard]] bool divide_source(node_id n);
  // An operator that reads samples must produce samples: a sum over them would cover only some.
  [[nodiscard]] bool divide(node_id n);
  [[nodiscard]] bool add(node_id n);
  [[nodiscard]] tensor::tensor_type part_of(value_id v) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  const graph_dimensions& all_;
  std::int64_t count_;
  std::int64_t samples_;
  std::vector<parallel_type> types_;  // by value
  std::vector<value_id> now_;
  tensor::tensor_graph out_{};
};

}  // namespace detail

// The graph on one of `count` equal parts of its batch, which is the first dimension of all inputs of that size.
// Running it on each part yields the parts of the results of the whole graph. Nothing if that does not hold: if the
// count does not divide the sizes, or there are statistics or sums over samples.
// Complexity: linear in the graph.
[[nodiscard]] inline std::optional<tensor::tensor_graph> microbatch(const tensor::algebra& a,
                                                                    const tensor::tensor_graph& g,
                                                                    const graph_dimensions& all, std::int64_t count) {
  return count == 1 ? std::optional{g} : detail::microbatch_maker{a, g, all, count}.run();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MICROBATCH)

#include <algorithm>
#include <span>
#include <string>

#include <range/v3/algorithm/equal.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/parallel/operator_grid.hpp>
#include <unity/tensor/convert.hpp>

namespace unity::parallel {

UNITY_INLINE std::int64_t sample_count(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto first = [&](value_id v) { return g.type(v).dims.empty() ? 0 : g.type(v).dims[0]; };
  const auto samples = g.outputs().empty() ? 0 : first(g.outputs()[0]);
  const auto input = a.kind("input");
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == input && first(g.results(n)[0]) == samples) {
      return samples;
    }
  }
  return 0;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::optional<tensor::tensor_graph> microbatch_maker::run() && {
  for (const auto n : node_ids(graph_)) {
    if (!(graph_.operands(n).empty() ? divide_source(n) : divide(n)) || !add(n)) {
      return std::nullopt;
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : graph_.outputs()) {
    if (product(types_[v.index()].steps) != count_) {
      return std::nullopt;
    }
    outputs.push_back(now_[v.index()]);
  }
  out_.set_outputs(outputs);
  return std::move(out_);
}

UNITY_INLINE bool microbatch_maker::divide_source(node_id n) {
  const bool is_input = graph_.operation(n).kind == algebra_.kind("input");
  for (const auto v : graph_.results(n)) {
    auto t = undivided(graph_.type(v));
    if (is_input && !t.global.dims.empty() && t.global.dims[0] == samples_) {
      t.steps[0] = count_;
    }
    types_[v.index()] = std::move(t);
  }
  return samples_ > 0 && samples_ % count_ == 0;
}

UNITY_INLINE bool microbatch_maker::divide(node_id n) {
  const auto& o = all_[n];
  std::vector<parallel_type> operands;
  bool is_divided = false;
  for (const auto v : graph_.operands(n)) {
    operands.push_back(types_[v.index()]);
    is_divided = is_divided || product(operands.back().steps) > 1;
  }
  const auto g = infer_grid(o, operands);
  const auto types = g ? types_on(o, *g) : std::nullopt;
  if (!types) {
    return false;
  }
  for (std::size_t r = 0; r < types->results.size(); ++r) {
    const auto& t = types->results[r];
    if (t.partial > 1 || (product(t.steps) == count_) != is_divided) {
      return false;
    }
    types_[graph_.results(n)[r].index()] = t;
  }
  return true;
}

UNITY_INLINE bool microbatch_maker::add(node_id n) {
  const auto& op = graph_.operation(n);
  std::vector<tensor::tensor_type> inputs;
  std::vector<tensor::tensor_type> outputs;
  std::vector<tensor::tensor_type> new_inputs;
  std::vector<tensor::tensor_type> new_outputs;
  std::vector<tensor::shape> input_dims;
  std::vector<tensor::shape> output_dims;
  std::vector<value_id> operands;
  for (const auto v : graph_.operands(n)) {
    inputs.push_back(graph_.type(v));
    new_inputs.push_back(part_of(v));
    input_dims.push_back(new_inputs.back().dims);
    operands.push_back(now_[v.index()]);
  }
  for (const auto v : graph_.results(n)) {
    outputs.push_back(graph_.type(v));
    new_outputs.push_back(part_of(v));
    output_dims.push_back(new_outputs.back().dims);
  }
  const auto resized = new_inputs == inputs && new_outputs == outputs
                           ? op
                           : tensor::detail::resized(algebra_, {op, inputs, outputs, input_dims, output_dims});
  const auto made = algebra_.infer(resized, new_inputs);
  if (!made || made->size() != new_outputs.size()) {
    return false;
  }
  if (!ranges::equal(*made, new_outputs, {}, &tensor::tensor_type::dims, &tensor::tensor_type::dims)) {
    return false;
  }
  const auto own = out_.add_node(resized, operands, *made);
  for (const auto& [whole, part] : ranges::views::zip(graph_.results(n), out_.results(own))) {
    now_[whole.index()] = part;
  }
  return true;
}

UNITY_INLINE tensor::tensor_type microbatch_maker::part_of(value_id v) const {
  auto t = graph_.type(v);
  t.dims = shard_type(types_[v.index()]).dims;
  return t;
}

}  // namespace unity::parallel::detail

#endif
