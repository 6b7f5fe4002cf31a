// Enumerates all graphs up to a size as TASO's Algorithm 1 does: the reference for the generator of rules. Source:
// Jia's dissertation (TASO, 2020), section 2.3.2. It shares only the types of operators (term_language::apply) with the
// generator: graphs are whole, values are evaluated, and sharing and symmetry are not exploited.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/generation/detail/language.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/comparison.hpp>
#include <unity/tensor/scalar.hpp>

namespace unity::tensor::test {

class plain_enumeration {
 public:
  using tensor_number = std::uint32_t;
  // Two tensors that were equal in every comparison.
  using equality = std::pair<tensor_number, tensor_number>;

  // variables: the number of variables of each sort.
  plain_enumeration(term_language& language, std::size_t variables) : language_{language} {
    for (std::size_t s = 0; s < language.sorts().size(); ++s) {
      for (std::size_t v = 0; v < variables; ++v) {
        tensor t{language.sorts()[s], none, 0, {}, static_cast<std::uint16_t>(s), static_cast<std::uint16_t>(v)};
        const auto type = language.type_in(t.type, 0);
        t.value.dims = type.dims;
        for (std::size_t i = 0; i < static_cast<std::size_t>(element_count(type.dims)); ++i) {
          t.value.data.push_back(modular61::of_residue(hash_combine(hash_combine(s, v), i)));
        }
        inputs_.push_back(add(std::move(t)));
      }
    }
  }

  // Effects: enumerates all graphs of 1 to `most` operators.
  void run(std::size_t most) {
    most_ = most;
    std::vector<std::uint32_t> graph;
    build(graph, inputs_);
  }

  [[nodiscard]] std::size_t graphs() const noexcept { return graphs_; }
  [[nodiscard]] std::size_t fingerprints() const noexcept { return table_.size(); }

  // The equalities of graphs with equal fingerprints, output by output, each once up to the names of inputs and its
  // direction. Each graph is compared with the first of its fingerprint.
  [[nodiscard]] std::vector<equality> equalities() const {
    std::map<std::string, equality> found;
    for (const auto& [fingerprint, same] : table_) {
      const auto outputs = by_value(same[0]);
      for (std::size_t g = 1; g < same.size(); ++g) {
        for (const auto& [value, t] : by_value(same[g])) {
          const auto other = outputs.find(value);
          if (other != outputs.end() && other->second != t) {
            found.emplace(key(t, other->second), equality{t, other->second});
          }
        }
      }
    }
    std::vector<equality> all;
    for (const auto& [text, e] : found) {
      if (is_equal(e)) {
        all.push_back(e);
      }
    }
    return all;
  }

  // Both tensors of an equality as the outputs of a graph, in each world.
  [[nodiscard]] std::vector<tensor_graph> question(const equality& e) const {
    std::vector<tensor_graph> worlds;
    for (std::size_t w = 0; w < world_count; ++w) {
      worlds.push_back(graph_of({e.first, e.second}, w));
    }
    return worlds;
  }
  [[nodiscard]] std::string text(const equality& e) const {
    std::map<tensor_number, std::string> names;
    return term(e.first, names) + " = " + term(e.second, names);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;

  struct tensor {
    std::uint16_t type = 0;
    std::uint32_t step = none;  // the step that made it; none: an input
    std::uint64_t hash = 0;     // of its type and value
    dense<modular61> value{};
    std::uint16_t sort = 0;  // of an input
    std::uint16_t name = 0;
  };
  // An operator applied to tensors. The steps that make its operands come before it.
  struct step {
    std::size_t op = 0;
    std::vector<tensor_number> operands{};
    std::vector<tensor_number> results{};
    bool valid = false;
  };

  tensor_number add(tensor t) {
    t.hash = hash_combine(t.type, t.value.data.size());
    for (const auto& x : t.value.data) {
      t.hash = hash_combine(t.hash, x.residue());
    }
    tensors_.push_back(std::move(t));
    return static_cast<tensor_number>(tensors_.size() - 1);
  }

  // Algorithm 1's BUILD. Adds steps in increasing order of their numbers, so that each graph comes once.
  void build(std::vector<std::uint32_t>& graph, const std::vector<tensor_number>& available) {
    if (!graph.empty()) {
      ++graphs_;
      table_[fingerprint(graph)].push_back(graph);
    }
    if (graph.size() == most_) {
      return;
    }
    for (std::size_t op = 0; op < language_.operator_count(); ++op) {
      if (is_first_result(op)) {
        std::vector<tensor_number> operands;
        choose_operands(graph, available, op, operands);
      }
    }
  }
  [[nodiscard]] bool is_first_result(std::size_t op) const { return op == 0 || language_.next_result(op - 1) != op; }

  void choose_operands(std::vector<std::uint32_t>& graph, const std::vector<tensor_number>& available, std::size_t op,
                       std::vector<tensor_number>& operands) {
    if (operands.size() < language_.arity(op)) {
      for (const auto t : available) {
        operands.push_back(t);
        choose_operands(graph, available, op, operands);
        operands.pop_back();
      }
      return;
    }
    const auto s = apply(op, operands);
    if (!steps_[s].valid || (!graph.empty() && s <= graph.back())) {
      return;
    }
    graph.push_back(s);
    auto more = available;
    more.insert(more.end(), steps_[s].results.begin(), steps_[s].results.end());
    build(graph, more);
    graph.pop_back();
  }
  std::uint32_t apply(std::size_t op, const std::vector<tensor_number>& operands) {
    const auto [known, is_new] =
        step_index_.emplace(std::pair{op, operands}, static_cast<std::uint32_t>(steps_.size()));
    if (is_new) {
      steps_.push_back({op, operands, {}, false});
      evaluate_step(known->second);
    }
    return known->second;
  }
  void evaluate_step(std::uint32_t number) {
    const auto op = steps_[number].op;
    std::vector<std::uint16_t> operand_types;
    std::vector<tensor_type> inputs;
    std::vector<dense<modular61>> values;
    for (const auto o : steps_[number].operands) {
      operand_types.push_back(tensors_[o].type);
      inputs.push_back(language_.type_in(operand_types.back(), 0));
      values.push_back(tensors_[o].value);
    }
    auto result = language_.apply(op, operand_types);
    if (!result) {
      return;
    }
    const auto computed = evaluate<modular61>(language_.operators(), result->operations[0], values, inputs);
    for (auto next = std::optional{op}; next; next = language_.next_result(*next)) {
      result = language_.apply(*next, operand_types);
      steps_[number].results.push_back(add({result->type, number, 0, computed[result->result], 0, 0}));
    }
    steps_[number].valid = true;
  }

  // The results that no operator of the graph reads.
  [[nodiscard]] std::vector<tensor_number> outputs(const std::vector<std::uint32_t>& graph) const {
    std::set<tensor_number> read;
    for (const auto s : graph) {
      read.insert(steps_[s].operands.begin(), steps_[s].operands.end());
    }
    std::vector<tensor_number> all;
    for (const auto s : graph) {
      for (const auto t : steps_[s].results) {
        if (!read.contains(t)) {
          all.push_back(t);
        }
      }
    }
    return all;
  }
  // A fingerprint of the set of outputs, independent of their order (equation 2.1).
  [[nodiscard]] std::uint64_t fingerprint(const std::vector<std::uint32_t>& graph) const {
    std::uint64_t sum = 0;
    for (const auto t : outputs(graph)) {
      sum += mix64(tensors_[t].hash);
    }
    return sum;
  }
  [[nodiscard]] std::map<std::uint64_t, tensor_number> by_value(const std::vector<std::uint32_t>& graph) const {
    std::map<std::uint64_t, tensor_number> all;
    for (const auto t : outputs(graph)) {
      all.emplace(tensors_[t].hash, t);
    }
    return all;
  }

  // Step 2 of Algorithm 1: compares at other sizes and points, on reals and on residues.
  [[nodiscard]] bool is_equal(const equality& e) const {
    const rule_test_options options{.points = 4};
    for (std::size_t w = 0; w + 1 < world_count; ++w) {
      auto left = graph_of({e.first, e.second}, w);
      auto right = left;
      const std::vector<value_id> outputs(left.outputs().begin(), left.outputs().end());
      left.set_outputs(std::vector{outputs[0]});
      right.set_outputs(std::vector{outputs[1]});
      if (unity::tensor::detail::side_comparison{language_.operators(), options, left, right}.run(false, w)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] tensor_graph graph_of(const std::vector<tensor_number>& wanted, std::size_t world) const {
    tensor_graph g;
    std::map<tensor_number, value_id> made;
    std::vector<value_id> all;
    for (const auto t : wanted) {
      all.push_back(value(g, made, t, world));
    }
    g.set_outputs(all);
    return g;
  }
  value_id value(tensor_graph& g, std::map<tensor_number, value_id>& made, tensor_number number,
                 std::size_t world) const {
    if (const auto known = made.find(number); known != made.end()) {
      return known->second;
    }
    const auto& t = tensors_[number];
    if (t.step == none) {
      const auto type = language_.type_in(t.type, world);
      const auto op = language_.operators().make_operation(
          "input", {{"name", input_name(t)}, {"element", name_of(type.element)}, {"dims", std::span{type.dims}}});
      return made[number] = g.results(g.add_node(op, {}, {&type, 1}))[0];
    }
    const auto& s = steps_[t.step];
    std::vector<value_id> operands;
    std::vector<std::uint16_t> operand_types;
    std::vector<tensor_type> inputs;
    for (const auto o : s.operands) {
      operands.push_back(value(g, made, o, world));
      operand_types.push_back(tensors_[o].type);
      inputs.push_back(g.type(operands.back()));
    }
    const auto op = language_.apply(s.op, operand_types)->operations[world];
    const auto node = g.add_node(op, operands, *language_.operators().infer(op, inputs));
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      made[s.results[r]] = g.results(node)[r];
    }
    return made.at(number);
  }
  [[nodiscard]] static std::string input_name(const tensor& t) {
    return "s" + std::to_string(t.sort) + "_" + std::to_string(t.name);
  }

  // A term whose inputs are named by sort and order of appearance.
  [[nodiscard]] std::string term(tensor_number number, std::map<tensor_number, std::string>& names) const {
    const auto& t = tensors_[number];
    if (t.step == none) {
      return names.emplace(number, "?s" + std::to_string(t.sort) + "_" + std::to_string(names.size())).first->second;
    }
    const auto& s = steps_[t.step];
    const auto result =
        static_cast<std::size_t>(std::find(s.results.begin(), s.results.end(), number) - s.results.begin());
    auto text = language_.operators().signature(language_.kind(s.op)).name + std::to_string(s.op) + "(";
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      text += (i == 0 ? "" : ", ") + term(s.operands[i], names);
    }
    return text + ")" + (s.results.size() > 1 ? "." + std::to_string(result) : "");
  }
  [[nodiscard]] std::string key(tensor_number a, tensor_number b) const { return std::min(text({a, b}), text({b, a})); }

  term_language& language_;
  std::vector<tensor> tensors_;
  std::vector<tensor_number> inputs_;
  std::vector<step> steps_;
  std::map<std::pair<std::size_t, std::vector<tensor_number>>, std::uint32_t> step_index_;
  std::map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> table_;  // graphs by fingerprint
  std::size_t most_ = 0;
  std::size_t graphs_ = 0;
};

}  // namespace unity::tensor::test
