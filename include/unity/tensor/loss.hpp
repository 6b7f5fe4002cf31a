// A graph as it is trained: with the loss of the model appended, and with dropout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// A graph as it is trained, if this differs from its use in inference: with dropout.

// The elements of a mask: 0 with probability rate, otherwise 1 / (1 - rate), which preserves the mean.
struct dropout_rule {
  double rate = 0;
  std::int64_t seed = 0;

  friend bool operator==(const dropout_rule&, const dropout_rule&) = default;
};

// The name of the mask input of dropout `number`, in node order; it encodes the rule.
[[nodiscard]] std::string mask_name(std::size_t number, const dropout_rule& rule);

// The rule that a name encodes; nothing if it is not the name of a mask.
[[nodiscard]] std::optional<dropout_rule> rule_of_mask(std::string_view name) noexcept;

// Regular.
struct dropout_mask {
  node_id node{};  // the input, in the new graph
  std::string name{};
  dropout_rule rule{};

  friend bool operator==(const dropout_mask&, const dropout_mask&) = default;
};

struct trained_form {
  tensor_graph graph{};
  std::vector<dropout_mask> masks{};
  std::vector<node_id> nodes{};  // per node of the given graph: the node that now computes its results
};

// The graph with every dropout replaced by a product with a mask, a new input of its operand's type. A mask is ordinary
// data: which elements are dropped does not depend on how the graph is divided. A graph without dropouts stays as it
// is. Complexity: linear in the graph.
[[nodiscard]] trained_form training_form(const algebra& a, const tensor_graph& g);

enum class loss : std::uint8_t { cross_entropy, mean_square };
inline constexpr std::array<std::string_view, 2> loss_names{"cross_entropy", "mean_square"};

[[nodiscard]] constexpr std::optional<loss> find_loss(std::string_view name) noexcept {
  return find_enumerator<loss>(loss_names, name);
}

// The inputs that with_loss adds for output k. Shapes: labels, the output's without the last dimension; target, the
// output's.
[[nodiscard]] inline std::string labels_name(std::size_t output) { return fmt::format("labels of {}", output); }
[[nodiscard]] inline std::string target_name(std::size_t output) { return fmt::format("target of {}", output); }

namespace detail {

// Appends the losses of outputs to a graph under construction.
class loss_writer {
 public:
  loss_writer(const algebra& a, const tensor_graph& g, std::int64_t parts) : graph_{g}, b_{a, g}, parts_{parts} {}

  [[nodiscard]] tensor_graph write(loss what) &&;

 private:
  [[nodiscard]] value_id cross_entropy(std::size_t k, value_id output);
  [[nodiscard]] value_id mean_square(std::size_t k, value_id output);

  // The operand of the softmax if `v` is a softmax along its last dimension, otherwise `v`. Cross entropy of the
  // operand needs no logarithm of the softmax.
  [[nodiscard]] value_id logits_of(value_id v) const;

  [[nodiscard]] value_id input(const std::string& name, dtype element, std::span<const std::int64_t> dims) {
    expect_free_name(b_.operators(), graph_, "loss", name);
    return b_.add("input", {}, {{"name", name}, {"element", name_of(element)}, {"dims", dims}});
  }

  // Adds up before scaling: in a divided batch, the sums are partial sums, all scaled alike.
  [[nodiscard]] value_id mean(value_id terms, std::int64_t count);

  const tensor_graph& graph_;
  body_graph b_;
  std::int64_t parts_;
};

}  // namespace detail

// The graph with a single output: the sum of the losses of all floating-point outputs. Nodes and values keep their
// numbers; the nodes of the loss follow. Cross entropy: the mean over rows of minus the logarithm of the softmax at the
// row's label, where classes are the last dimension and rows are all others. Mean square: the mean over elements of the
// squared difference from the target. Labels (int32) and targets are new inputs. If an output is a softmax along its
// last dimension, cross entropy reads the operand of that softmax.
// parts: the samples of the graph are one of this many parts of a batch. The loss is then their share of the batch's
// mean, so losses and gradients of the parts add up to those of the batch.
// The algebra must have the losses, as training_algebra() does. Complexity: linear in the graph.
// Throws: unity::error if no output is floating-point, an output has no dimension of classes, or an input already has
// one of the new names.
[[nodiscard]] inline tensor_graph with_loss(const algebra& a, const tensor_graph& g, loss what,
                                            std::int64_t parts = 1) {
  UNITY_EXPECTS(parts > 0, "a positive number of parts");
  return detail::loss_writer{a, g, parts}.write(what);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_LOSS)

#include <charconv>
#include <system_error>

#include <unity/core/error.hpp>
#include <unity/core/small_vector.hpp>

namespace unity::tensor {

UNITY_INLINE std::string mask_name(std::size_t number, const dropout_rule& rule) {
  char rate[32];
  const auto end = std::to_chars(std::begin(rate), std::end(rate), rule.rate).ptr;
  return fmt::format("mask {} rate {} seed {}", number, std::string_view{std::begin(rate), end}, rule.seed);
}

UNITY_INLINE std::optional<dropout_rule> rule_of_mask(std::string_view name) noexcept {
  const auto* at = name.data();
  const auto* const end = name.data() + name.size();
  const auto take = [&](std::string_view word, auto& number) {
    const std::string_view rest{at, static_cast<std::size_t>(end - at)};
    if (!rest.starts_with(word)) {
      return false;
    }
    const auto [next, status] = std::from_chars(at + word.size(), end, number);
    at = next;
    return status == std::errc{};
  };
  std::size_t number = 0;
  dropout_rule rule;
  const bool fits = take("mask ", number) && take(" rate ", rule.rate) && take(" seed ", rule.seed) && at == end;
  return fits && rule.rate >= 0 && rule.rate < 1 ? std::optional{rule} : std::nullopt;
}

UNITY_INLINE trained_form training_form(const algebra& a, const tensor_graph& g) {
  const auto dropout = a.kind("dropout");
  trained_form form;
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    auto op = g.operation(n);
    std::vector<value_id> operands;
    bool is_fixed = true;
    for (const auto v : g.operands(n)) {
      operands.push_back(now[v.index()]);
      is_fixed = is_fixed && form.graph.type(operands.back()).constant;
    }
    std::vector<tensor_type> results;
    for (const auto v : g.results(n)) {
      results.push_back(g.type(v));
      results.back().constant = results.back().constant && is_fixed;
    }
    if (op.kind == dropout) {
      const dropout_rule rule{a.read(op).real("rate"), a.read(op).integer("seed")};
      const auto name = mask_name(form.masks.size(), rule);
      const tensor_type type{results[0].element, layout::row_major, false, results[0].dims};
      const auto mask = form.graph.add_node(
          a.make_operation("input", {{"name", name}, {"element", name_of(type.element)}, {"dims", type.dims}}), {},
          {&type, 1});
      form.masks.push_back({mask, name, rule});
      operands.push_back(form.graph.results(mask)[0]);
      const auto order = op.order;
      op = a.make_operation("mul");
      op.order = order;
      results[0].constant = false;
    }
    form.nodes.push_back(form.graph.add_node(std::move(op), operands, results));
    for (std::size_t r = 0; r < results.size(); ++r) {
      now[g.results(n)[r].index()] = form.graph.results(form.nodes.back())[r];
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(now[v.index()]);
  }
  form.graph.set_outputs(outputs);
  return form;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE tensor_graph loss_writer::write(loss what) && {
  value_id sum;
  for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
    const auto v = graph_.outputs()[k];
    if (is_floating(graph_.type(v).element)) {
      const auto one = what == loss::cross_entropy ? cross_entropy(k, v) : mean_square(k, v);
      sum = sum.valid() ? b_.add("add", {sum, one}) : one;
    }
  }
  if (!sum.valid()) {
    throw error{"loss", "no output of real numbers", "a graph that computes some"};
  }
  return std::move(b_).finish(std::array{sum});
}

UNITY_INLINE value_id loss_writer::cross_entropy(std::size_t k, value_id output) {
  const auto logits = logits_of(output);
  const auto& t = graph_.type(logits);
  if (t.rank() == 0) {
    throw error{fmt::format("output {}", k), fmt::format("cross entropy of {}", to_string(t)),
                "a dimension of classes"};
  }
  const std::span<const std::int64_t> rows = std::span<const std::int64_t>{t.dims}.first(t.rank() - 1);
  const auto labels = input(labels_name(k), dtype::int32, rows);
  return mean(b_.add("cross_entropy", {logits, labels}), element_count(rows));
}

UNITY_INLINE value_id loss_writer::mean_square(std::size_t k, value_id output) {
  const auto t = graph_.type(output);
  const auto apart = b_.add("sub", {output, input(target_name(k), t.element, t.dims)});
  return mean(b_.add("mul", {apart, apart}), element_count(t.dims));
}

UNITY_INLINE value_id loss_writer::logits_of(value_id v) const {
  const auto n = graph_.producer(v);
  const auto& op = graph_.operation(n);
  const auto& a = b_.operators();
  if (op.kind != a.kind("softmax") ||
      a.read(op).integer("axis") + 1 != static_cast<std::int64_t>(graph_.type(v).rank())) {
    return v;
  }
  return graph_.operands(n)[0];
}

UNITY_INLINE value_id loss_writer::mean(value_id terms, std::int64_t count) {
  const auto t = b_.type(terms);
  small_vector<std::int64_t, 6> axes;
  for (std::size_t d = 0; d < t.rank(); ++d) {
    axes.push_back(static_cast<std::int64_t>(d));
  }
  const auto sum = axes.empty() ? terms : b_.add("reduce_sum", {terms}, {{"axes", axes}, {"keep_dims", 0}});
  const auto share = 1 / (static_cast<double>(count) * static_cast<double>(parts_));
  const auto scale = b_.add("fill", {}, {{"value", share}, {"element", name_of(t.element)}, {"dims", {}}});
  return b_.add("mul", {sum, scale});
}

}  // namespace unity::tensor::detail

#endif
