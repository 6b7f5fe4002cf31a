// Reverse-mode differentiation: the adjoint of one operator as a graph, and that of a graph.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/detail/reverse_sweep.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// Throws: unity::error if the graph already has an input of that name. `what`: what needs the new input, for the
// message.
void expect_free_name(const algebra& a, const tensor_graph& g, std::string_view what, const std::string& name);

}  // namespace unity::tensor::detail

namespace unity::tensor {

// The first nodes, without a kind, stand for the operands, then the results, then the cotangents of the results.
struct operator_adjoint {
  tensor_graph graph{};                 // outputs: one cotangent per entry of `operands`
  std::vector<std::size_t> operands{};  // ascending; the cotangents of all others are zero or not wanted
};

// wanted: per operand, whether to compute its cotangent; integer operands have none. Empty: all operands that have one.
// How: a view uses its transposed index map; a primitive derives its adjoint from its scalar kernel (element-wise) or
// its iteration space (sums of products: the same loops with result and operand exchanged; other sums: at each point
// of the space); a composite uses the adjoint of its body. Operators with an adjoint in their definition (convolution,
// pooling, lookups, normalizations) use that one.
// Complexity: linear in the definition; a composite recomputes the inner values that it needs.
// Throws: unity::error if the operator does not accept the inputs or has no adjoint.
[[nodiscard]] operator_adjoint adjoint_of(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                          std::vector<bool> wanted = {});

struct differentiation {
  // What to differentiate: a value of the graph that is one real number. The null id: all outputs, weighted by
  // cotangents that become inputs of the result, named "cotangent0", "cotangent1", ...
  value_id loss{};
  // The values to differentiate with respect to. Empty: all weights that training changes (all but running statistics).
  std::vector<value_id> sources{};
};

// Nodes and values of the given graph keep their numbers; the nodes that compute gradients follow.
struct differentiated_graph {
  tensor_graph graph{};               // outputs: those of the given graph, then one gradient per source
  std::vector<value_id> sources{};    // differentiated with respect to these
  std::vector<value_id> gradients{};  // per source
  std::size_t forward_nodes = 0;      // nodes below this number are the given graph's
  // Per later node: the node whose adjoint it belongs to; the null id if none, as for the seeds of the sweep.
  std::vector<node_id> origins{};
};

// The weights that training changes, in order.
[[nodiscard]] std::vector<value_id> trained_weights(const algebra& a, const tensor_graph& g);

namespace detail {

[[nodiscard]] inline std::string place_of(const algebra& a, const tensor_graph& g, value_id v) {
  const auto n = g.producer(v);
  return fmt::format("node {} ({})", n, a.signature(g.operation(n).kind).name);
}

// Throws: unity::error that names the node if it has no adjoint.
[[nodiscard]] std::vector<value_id> append_node_adjoint(body_builder& b, const algebra& a, const tensor_graph& g,
                                                        node_id n, const adjoint_problem& p);

// Throws: unity::error if the value is not floating-point and so has no gradient.
void require_real(const algebra& a, const tensor_graph& g, value_id v);

void seed_loss(reverse_sweep& sweep, body_builder& b, const algebra& a, const tensor_graph& g, value_id loss);

void seed_outputs(reverse_sweep& sweep, body_builder& b, const algebra& a, const tensor_graph& g);

}  // namespace detail

// The graph with the gradients of a loss, or of its outputs, appended. A source that several operators use has one
// gradient, the sum of their contributions; a source that nothing depends on has zeros. The algebra must have the
// gradient operators, as training_algebra() does. Complexity: linear in the graph.
// Throws: unity::error that names the node if the backward sweep reaches an operator without adjoint; also if the loss
// is not one real number, a source is not floating-point, an input of the graph has the name of a new one (cotangent0,
// ...), or the algebra lacks a gradient operator.
[[nodiscard]] differentiated_graph differentiate(const algebra& a, const tensor_graph& g,
                                                 const differentiation& what = {});

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DIFFERENTIATE)

#include <unity/core/error.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/statistics.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void expect_free_name(const algebra& a, const tensor_graph& g, std::string_view what,
                                   const std::string& name) {
  const auto kind = a.kind("input");
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (op.kind == kind && a.read(op).word("name") == name) {
      throw error{what, fmt::format("an input \"{}\" in the graph", name), "that name to be free"};
    }
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE operator_adjoint adjoint_of(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                         std::vector<bool> wanted) {
  const auto outputs = a.infer(op, inputs);
  if (!outputs) {
    throw error{"adjoint", "operands that the operator does not take", a.why_not(op, inputs)};
  }
  std::vector<tensor_type> given{inputs.begin(), inputs.end()};
  given.insert(given.end(), outputs->begin(), outputs->end());
  given.insert(given.end(), outputs->begin(), outputs->end());
  wanted.resize(inputs.size(), wanted.empty());
  body_graph b{a, given};
  const std::vector<value_id> values{b.operands().begin(), b.operands().end()};
  adjoint_problem p{inputs, *outputs, {}, {}, {}, std::move(wanted)};
  p.operand = [&](std::size_t i) { return values[i]; };
  p.result = [&](std::size_t r) { return values[inputs.size() + r]; };
  for (std::size_t r = 0; r < outputs->size(); ++r) {
    const bool real = is_floating((*outputs)[r].element);
    p.cotangents.push_back(real ? values[inputs.size() + outputs->size() + r] : value_id{});
  }
  bool any_result = false;
  for (const auto v : p.cotangents) {
    any_result = any_result || v.valid();
  }
  bool any_operand = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    p.wanted[i] = p.wanted[i] && is_floating(inputs[i].element);
    any_operand = any_operand || p.wanted[i];
  }
  const auto cotangents = any_result && any_operand ? append_adjoint(b, op, p) : std::vector<value_id>{};
  operator_adjoint result;
  std::vector<value_id> found;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (p.wanted[i] && cotangents[i].valid()) {
      result.operands.push_back(i);
      found.push_back(cotangents[i]);
    }
  }
  result.graph = std::move(b).finish(found);
  return result;
}

UNITY_INLINE std::vector<value_id> trained_weights(const algebra& a, const tensor_graph& g) {
  const auto weight = a.kind("weight");
  const detail::statistic_uses uses{a, g};
  std::vector<value_id> weights;
  for (const auto i : node_ids(g)) {
    const auto v = g.operation(i).kind == weight ? g.results(i)[0] : value_id{};
    if (v.valid() && is_floating(g.type(v).element) && !uses.is_statistic(v)) {
      weights.push_back(v);
    }
  }
  return weights;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE std::vector<value_id> append_node_adjoint(body_builder& b, const algebra& a, const tensor_graph& g,
                                                       node_id n, const adjoint_problem& p) {
  if (!has_derivative(a, g.operation(n))) {
    throw error{fmt::format("node {} ({})", n.index(), operator_name(a, g.operation(n))), "no adjoint",
                "operators with adjoints between the sources and the loss"};
  }
  return append_adjoint(b, g.operation(n), p);
}

UNITY_INLINE void require_real(const algebra& a, const tensor_graph& g, value_id v) {
  if (!is_floating(g.type(v).element)) {
    throw error{place_of(a, g, v), fmt::format("a gradient of {}", to_string(g.type(v))), "floating-point elements"};
  }
}

UNITY_INLINE void seed_loss(reverse_sweep& sweep, body_builder& b, const algebra& a, const tensor_graph& g,
                            value_id loss) {
  const auto& t = g.type(loss);
  require_real(a, g, loss);
  if (element_count(t.dims) != 1) {
    throw error{place_of(a, g, loss), fmt::format("a loss of {}", to_string(t)), "one number"};
  }
  sweep.seed(loss, b.add("fill", {}, {{"value", 1.0}, {"element", name_of(t.element)}, {"dims", t.dims}}));
}

UNITY_INLINE void seed_outputs(reverse_sweep& sweep, body_builder& b, const algebra& a, const tensor_graph& g) {
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    const auto& t = g.type(g.outputs()[i]);
    if (is_floating(t.element)) {
      const auto name = fmt::format("cotangent{}", i);
      expect_free_name(a, g, "gradients of outputs", name);
      sweep.seed(g.outputs()[i],
                 b.add("input", {}, {{"name", name}, {"element", name_of(t.element)}, {"dims", t.dims}}));
    }
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE differentiated_graph differentiate(const algebra& a, const tensor_graph& g, const differentiation& what) {
  differentiated_graph result;
  result.forward_nodes = g.node_count();
  result.sources = what.sources.empty() ? trained_weights(a, g) : what.sources;
  body_graph b{a, g};
  const auto name_origin = [&](node_id n) {  // of the nodes that have none yet
    result.origins.resize(b.graph().node_count() - result.forward_nodes, n);
  };
  node_id last;
  detail::reverse_sweep sweep{b, g, [](value_id v) { return v; },
                              [&](node_id n, const adjoint_problem& p) {
                                name_origin(last);  // the sweep sums cotangents after the adjoint that gives them
                                last = n;
                                return detail::append_node_adjoint(b, a, g, n, p);
                              }};
  for (const auto v : result.sources) {
    detail::require_real(a, g, v);
    sweep.want(v);
  }
  if (what.loss.valid()) {
    detail::seed_loss(sweep, b, a, g, what.loss);
  } else {
    detail::seed_outputs(sweep, b, a, g);
  }
  sweep.run();
  name_origin(last);
  std::vector<value_id> outputs{g.outputs().begin(), g.outputs().end()};
  for (const auto v : result.sources) {
    result.gradients.push_back(or_zeros(b, sweep.gradient(v), g.type(v)));
  }
  name_origin({});
  outputs.insert(outputs.end(), result.gradients.begin(), result.gradients.end());
  result.graph = std::move(b).finish(outputs);
  return result;
}

}  // namespace unity::tensor

#endif
