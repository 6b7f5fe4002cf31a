// Graphs with one error, as an incorrect rewrite would make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::test {

struct mutant {
  tensor_graph graph;
  std::string what;
};

// Changes one node of a graph, and infers the types of the nodes after it again.
class mutator {
 public:
  mutator(const algebra& a, const tensor_graph& g, random_engine& random) : algebra_{a}, graph_{g}, random_{random} {
    needed_.resize(g.value_count());
    for (const auto v : g.outputs()) {
      needed_[v.index()] = true;
    }
    for (auto i = g.node_count(); i-- > 0;) {
      for (const auto v : is_needed(node_id{i}) ? g.operands(node_id{i}) : std::span<const value_id>{}) {
        needed_[v.index()] = true;
      }
    }
  }

  mutant draw() {
    while (true) {
      const node_id n{static_cast<std::size_t>(random_.below(graph_.node_count()))};
      if (!is_needed(n)) {
        continue;
      }
      op_ = graph_.operation(n);
      operands_.assign(graph_.operands(n).begin(), graph_.operands(n).end());
      const auto what = change(n);
      if (auto g = what.empty() ? std::nullopt : rebuild(n)) {
        return {*std::move(g), what + " at node " + std::to_string(n.index()) + " (" + kind() + ")"};
      }
    }
  }

 private:
  [[nodiscard]] bool is_needed(node_id n) const {
    bool needed = false;
    for (const auto v : graph_.results(n)) {
      needed = needed || needed_[v.index()];
    }
    return needed;
  }
  [[nodiscard]] const std::string& kind() const { return algebra_.signature(op_.kind).name; }
  [[nodiscard]] std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(n)); }
  // The attribute of this name, or null.
  attribute* field(std::string_view name) {
    const auto& fields = algebra_.definition_of(op_.kind).fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].signature.name == name) {
        return &op_.attributes[i];
      }
    }
    return nullptr;
  }

  // Changes op_ and operands_; returns a description of the change, empty if there is none.
  std::string change(node_id n) {
    switch (below(6)) {
      case 0: return swap_operands();
      case 1: return drop_relu();
      case 2: return change_weight();
      case 3: return change_axis(n);
      case 4: return change_split();
      default: return change_operand();
    }
  }
  std::string swap_operands() {
    if (operands_.size() < 2 || algebra_.signature(op_.kind).commutative) {
      return {};
    }
    auto& a = operands_[below(operands_.size())];
    auto& b = operands_[below(operands_.size())];
    const bool swaps = a != b && graph_.type(a).dims == graph_.type(b).dims;
    std::swap(a, b);
    return swaps ? "swapped operands" : "";
  }
  std::string drop_relu() {
    constexpr std::int64_t relu = 1;
    auto* activation = field("activation");
    if (kind() == "relu") {
      op_ = algebra_.make_operation("identity");
    } else if (activation != nullptr && (*activation)[0] == relu) {
      *activation = {0};
    } else {
      return {};
    }
    return "dropped relu";
  }
  // Adding the same number to all scores of a softmax has no effect, so the bias of keys has none.
  std::string change_weight() {
    const bool is_weight = algebra_.definition_of(op_.kind).source == source_kind::constant;
    const auto name = is_weight ? algebra_.read(op_).word("name") : "";
    if (!is_weight || name.ends_with("key.bias")) {
      return {};
    }
    *field("name") = word_attribute(name + "'");
    return "another weight";
  }
  std::string change_axis(node_id n) {
    if (kind() == "transpose") {
      auto& permutation = *field("permutation");
      std::swap(permutation[below(permutation.size())], permutation[below(permutation.size())]);
      return permutation == graph_.operation(n).attributes[0] ? "" : "wrong permutation";
    }
    auto* axis = field("axis");
    if (axis == nullptr) {
      return {};
    }
    (*axis)[0] = static_cast<std::int64_t>(below(graph_.type(operands_[0]).rank()));
    return op_ == graph_.operation(n) ? "" : "wrong axis";
  }
  std::string change_split() {
    if (kind() != "split") {
      return {};
    }
    auto& sizes = *field("sizes");
    auto& a = sizes[below(sizes.size())];
    auto& b = sizes[below(sizes.size())];
    if (&a == &b) {
      return {};
    }
    const auto moved = a == b ? a - 1 : a - b;
    a -= moved;
    b += moved;
    return a > 0 ? "wrong split sizes" : "";
  }
  // Reads another value of the same type.
  std::string change_operand() {
    if (operands_.empty()) {
      return {};
    }
    auto& operand = operands_[below(operands_.size())];
    const value_id other{below(operand.index() + std::size_t{1})};
    const bool changes = other != operand && graph_.type(other) == graph_.type(operand);
    operand = other;
    return changes ? "wrong operand" : "";
  }

  // The changed graph, or nothing if the types do not fit.
  [[nodiscard]] std::optional<tensor_graph> rebuild(node_id changed) const {
    tensor_graph g;
    for (const auto n : node_ids(graph_)) {
      const auto& op = n == changed ? op_ : graph_.operation(n);
      const auto operands = n == changed ? std::span<const value_id>{operands_} : graph_.operands(n);
      std::vector<tensor_type> of_operands;
      for (const auto v : operands) {
        of_operands.push_back(g.type(v));
      }
      const auto results = algebra_.infer(op, of_operands);
      if (!results || results->size() != graph_.results(n).size()) {
        return std::nullopt;
      }
      g.add_node(op, operands, *results);
    }
    g.set_outputs(graph_.outputs());
    for (const auto v : g.outputs()) {
      if (g.type(v).dims != graph_.type(v).dims) {
        return std::nullopt;
      }
    }
    return g;
  }

  const algebra& algebra_;
  const tensor_graph& graph_;
  random_engine& random_;
  std::vector<bool> needed_;
  operation op_{};
  std::vector<value_id> operands_;
};

}  // namespace unity::tensor::test
