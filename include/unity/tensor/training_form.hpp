// A graph as it is trained, if that differs from how it is used: with dropout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

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

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_TRAINING_FORM)

#include <charconv>
#include <span>
#include <system_error>

#include <fmt/core.h>

#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

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

#endif
