// An equality of generated terms as graphs, one per world: the input of an entailment query.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/specific_rule.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

namespace detail {

// Builds both sides on shared inputs. Several results of one operation share a node.
class question_builder {
 public:
  question_builder(term_language& language, std::size_t world) : language_{language}, world_{world} {}

  void add_root(const written_term& t);
  [[nodiscard]] tensor_graph take() {
    graph_.set_outputs(outputs_);
    return std::move(graph_);
  }

 private:
  value_id variable(const term_node& n);
  value_id apply(const term_node& n, const term_language::typed_node& typed, const std::vector<value_id>& values);

  term_language& language_;
  std::size_t world_;
  tensor_graph graph_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, value_id> variables_;
  std::vector<std::pair<std::pair<operation, std::vector<value_id>>, node_id>> made_;
  std::vector<value_id> outputs_;
};

}  // namespace detail

// One graph per world; the first half of its outputs are the values of the left side, the second half those of the
// right side.
[[nodiscard]] std::vector<tensor_graph> rule_question(term_language& language, const written_side& left,
                                                      const written_side& right);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_RULE_QUESTION)

#include <unity/tensor/algebra.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void question_builder::add_root(const written_term& t) {
  const auto nodes = language_.typed(t);
  std::vector<value_id> values;
  for (std::size_t n = 0; n < t.size(); ++n) {
    values.push_back(t[n].op == term_node::variable ? variable(t[n]) : apply(t[n], nodes[n], values));
  }
  outputs_.push_back(values.back());
}

UNITY_INLINE value_id question_builder::variable(const term_node& n) {
  const std::pair key{n.sort, n.number};
  const auto found = variables_.find(key);
  if (found != variables_.end()) {
    return found->second;
  }
  const auto type = language_.type_in(language_.sorts()[n.sort], world_);
  const auto op = language_.operators().make_operation("input", {{"name", detail::typed_term::name(n)},
                                                                 {"element", name_of(type.element)},
                                                                 {"dims", std::span<const std::int64_t>{type.dims}}});
  return variables_[key] = graph_.results(graph_.add_node(op, {}, {&type, 1}))[0];
}

UNITY_INLINE value_id question_builder::apply(const term_node& n, const term_language::typed_node& typed,
                                              const std::vector<value_id>& values) {
  std::vector<value_id> operands;
  std::vector<tensor_type> types;
  for (const auto o : n.operands) {
    operands.push_back(values[o]);
    types.push_back(graph_.type(values[o]));
  }
  const auto& op = typed.by->operations[world_];
  for (const auto& [made, node] : made_) {
    if (made.first == op && made.second == operands) {
      return graph_.results(node)[typed.by->result];
    }
  }
  const auto results = language_.operators().infer(op, types);
  const auto node = graph_.add_node(op, operands, *results);
  made_.emplace_back(std::pair{op, operands}, node);
  return graph_.results(node)[typed.by->result];
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<tensor_graph> rule_question(term_language& language, const written_side& left,
                                                     const written_side& right) {
  std::vector<tensor_graph> worlds;
  for (std::size_t w = 0; w < world_count; ++w) {
    detail::question_builder builder{language, w};
    for (const auto& side : {&left, &right}) {
      for (const auto& t : *side) {
        builder.add_root(t);
      }
    }
    worlds.push_back(builder.take());
  }
  return worlds;
}

}  // namespace unity::tensor

#endif
