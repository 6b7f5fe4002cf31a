// Finds chains of element-wise operators, which a fusing backend runs as one kernel.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// A maximal set of element-wise nodes with a single result that leaves it.
struct elementwise_chain {
  std::vector<node_id> nodes{};    // ascending; the chain's result is that of the last one
  std::vector<value_id> inputs{};  // its operands, each once, in the order of the region's inputs
  tensor::tensor_graph region{};   // the operators without copies; see fusing_backend
};

// The types of values of a graph, in their order.
[[nodiscard]] std::vector<tensor::tensor_type> types_of(const tensor::tensor_graph& g,
                                                        std::span<const value_id> values);

namespace detail {

// Per node: whether the outputs need it.
[[nodiscard]] std::vector<bool> needed_nodes(const tensor::tensor_graph& g);

// The element-wise function of an operator; nothing if it is not element-wise. Operands may be broadcast as in NumPy.
[[nodiscard]] std::optional<tensor::scalar_program> elementwise_program(const tensor::algebra& a,
                                                                        const tensor::operation& op,
                                                                        std::span<const tensor::tensor_type> inputs);

// Whether the operator copies its operand: equal elements at equal positions, stored in the same way.
[[nodiscard]] inline bool is_copy(const tensor::scalar_program& p, const tensor::tensor_type& from,
                                  const tensor::tensor_type& to) {
  return p.size() == 1 && p[0].op == tensor::scalar_op::operand && from.element == to.element && from.dims == to.dims &&
         (from.order == to.order || from.rank() < 2);
}

// Finds the chains of one graph, from its outputs up.
class chain_finder {
 public:
  chain_finder(const tensor::algebra& a, const tensor::tensor_graph& g);

  [[nodiscard]] std::vector<elementwise_chain> run();

 private:
  enum class role : unsigned char { other, copies, computes };

  [[nodiscard]] role role_of(node_id n) const;

  // The last node of the single chain that contains all readers of the result, if the result is as large as the
  // chain's.
  [[nodiscard]] std::optional<node_id> chain_that_absorbs(node_id n) const;

  [[nodiscard]] elementwise_chain assemble(std::vector<node_id> nodes) const;

  [[nodiscard]] value_id add_input(elementwise_chain& c, value_id v) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  users uses_;
  std::vector<bool> needed_;
  std::vector<bool> is_output_;
  std::vector<role> roles_;
  std::vector<node_id> last_;  // per node with a role: the last node of its chain
};

}  // namespace detail

// The chains of two or more operators among the nodes that the outputs need and that do not depend on constants alone.
// An intermediate result of a chain has no other readers, is not an output, and has the sizes of the chain's result, so
// that a part of the result needs the same part of it. All elements are floating-point; all tensors of two or more
// dimensions have the same layout; operands of a chain may be broadcast as in NumPy. Nodes that only copy are left out
// of the region. No node is in two chains. A chain can run at the position of its last node.
// Complexity: linear in the graph, and quadratic in the nodes of a chain.
[[nodiscard]] inline std::vector<elementwise_chain> elementwise_chains(const tensor::algebra& a,
                                                                       const tensor::tensor_graph& g) {
  return detail::chain_finder{a, g}.run();
}

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_CHAINS)

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/core.h>

#include <unity/tensor/space.hpp>

namespace unity::backend {

UNITY_INLINE std::vector<tensor::tensor_type> types_of(const tensor::tensor_graph& g,
                                                       std::span<const value_id> values) {
  std::vector<tensor::tensor_type> types;
  for (const auto v : values) {
    types.push_back(g.type(v));
  }
  return types;
}

}  // namespace unity::backend

namespace unity::backend::detail {

UNITY_INLINE std::vector<bool> needed_nodes(const tensor::tensor_graph& g) {
  std::vector<bool> needed(g.node_count());
  for (const auto v : g.outputs()) {
    needed[g.producer(v).index()] = true;
  }
  for (auto n = g.node_count(); n-- > 0;) {
    for (const auto v : needed[n] ? g.operands(node_id{n}) : std::span<const value_id>{}) {
      needed[g.producer(v).index()] = true;
    }
  }
  return needed;
}

UNITY_INLINE std::optional<tensor::scalar_program> elementwise_program(const tensor::algebra& a,
                                                                       const tensor::operation& op,
                                                                       std::span<const tensor::tensor_type> inputs) {
  const auto s = inputs.empty() ? std::nullopt : a.iteration(op, inputs);
  if (!s || s->results().size() != 1 || !s->windows().empty()) {
    return std::nullopt;
  }
  const auto result = s->result_accesses(0);
  bool fits = std::all_of(result.begin(), result.end(), [](const auto& access) { return access.size() == 1; });
  for (std::size_t i = 0; fits && i < inputs.size(); ++i) {
    const auto operand = s->operand(i);
    fits = operand.size() <= result.size();
    for (std::size_t d = 0; fits && d < operand.size(); ++d) {
      const auto joint = result[result.size() - operand.size() + d][0];
      fits = operand[d].size() == 0 || (operand[d].size() == 1 && operand[d][0] == joint);
    }
  }
  if (!fits) {
    return std::nullopt;
  }
  auto kernel = std::get<tensor::primitive>(a.definition_of(op.kind).body).kernel(a.read(op), inputs);
  const bool plain =
      kernel.reduce == tensor::reduction::none &&
      std::all_of(kernel.outer.begin(), kernel.outer.end(), [](const tensor::instruction& i) {
        return !tensor::is_leaf(i.op) || i.op == tensor::scalar_op::operand || i.op == tensor::scalar_op::literal;
      });
  return plain ? std::optional{std::move(kernel.outer)} : std::nullopt;
}

UNITY_INLINE chain_finder::chain_finder(const tensor::algebra& a, const tensor::tensor_graph& g)
    : algebra_{a},
      graph_{g},
      uses_{g},
      needed_{needed_nodes(g)},
      is_output_(g.value_count()),
      roles_(g.node_count(), role::other),
      last_(g.node_count()) {
  for (const auto v : g.outputs()) {
    is_output_[v.index()] = true;
  }
}

UNITY_INLINE std::vector<elementwise_chain> chain_finder::run() {
  std::vector<std::vector<node_id>> members(graph_.node_count());  // by the last node
  for (auto i = graph_.node_count(); i-- > 0;) {
    const node_id n{i};
    roles_[i] = needed_[i] ? role_of(n) : role::other;
    if (roles_[i] != role::other) {
      last_[i] = chain_that_absorbs(n).value_or(n);
      members[last_[i].index()].push_back(n);
    }
  }
  std::vector<elementwise_chain> chains;
  for (auto& nodes : members) {
    const auto computing =
        std::count_if(nodes.begin(), nodes.end(), [&](node_id n) { return roles_[n.index()] == role::computes; });
    if (computing >= 2) {
      std::reverse(nodes.begin(), nodes.end());
      chains.push_back(assemble(std::move(nodes)));
    }
  }
  return chains;
}

UNITY_INLINE auto chain_finder::role_of(node_id n) const -> role {
  const auto results = graph_.results(n);
  if (results.size() != 1 || graph_.type(results[0]).constant) {
    return role::other;
  }
  const auto inputs = types_of(graph_, graph_.operands(n));
  const auto& out = graph_.type(results[0]);
  const auto program = elementwise_program(algebra_, graph_.operation(n), inputs);
  const auto alike = [&](const tensor::tensor_type& t) {
    return tensor::is_floating(t.element) && (t.rank() < 2 || t.order == out.order);
  };
  if (!program || !alike(out) || !std::all_of(inputs.begin(), inputs.end(), alike)) {
    return role::other;
  }
  return inputs.size() == 1 && is_copy(*program, inputs[0], out) ? role::copies : role::computes;
}

UNITY_INLINE std::optional<node_id> chain_finder::chain_that_absorbs(node_id n) const {
  const auto v = graph_.results(n)[0];
  std::optional<node_id> last;
  bool inside = !is_output_[v.index()];
  for (const auto& use : uses_[v]) {
    const auto reader = use.user.index();
    if (!needed_[reader]) {
      continue;
    }
    inside = inside && roles_[reader] != role::other && (!last || *last == last_[reader]);
    last = last_[reader];
  }
  if (!inside || !last) {
    return std::nullopt;
  }
  const auto& own = graph_.type(v);
  const auto& joint = graph_.type(graph_.results(*last)[0]);
  return own.dims == joint.dims && (own.order == joint.order || own.rank() < 2) ? last : std::nullopt;
}

UNITY_INLINE elementwise_chain chain_finder::assemble(std::vector<node_id> nodes) const {
  elementwise_chain c{std::move(nodes), {}, {}};
  std::vector<std::pair<value_id, value_id>> inside;  // values of the graph, and of the region
  const auto find = [&](value_id v) {
    const auto at = std::find_if(inside.begin(), inside.end(), [v](const auto& known) { return known.first == v; });
    return at == inside.end() ? value_id{} : at->second;
  };
  for (const auto n : c.nodes) {
    const auto operands = graph_.operands(n);
    for (const auto v : operands) {
      const bool produced = std::binary_search(c.nodes.begin(), c.nodes.end(), graph_.producer(v));
      if (!produced && !find(v).valid()) {
        inside.emplace_back(v, add_input(c, v));
      }
    }
  }
  for (const auto n : c.nodes) {
    std::vector<value_id> operands;
    for (const auto v : graph_.operands(n)) {
      operands.push_back(find(v));
    }
    const auto result = graph_.results(n)[0];
    if (roles_[n.index()] == role::copies) {
      inside.emplace_back(result, operands[0]);
    } else {
      const auto made = c.region.add_node(graph_.operation(n), operands, {&graph_.type(result), 1});
      inside.emplace_back(result, c.region.results(made)[0]);
    }
  }
  const auto output = inside.back().second;
  c.region.set_outputs({&output, 1});
  return c;
}

UNITY_INLINE value_id chain_finder::add_input(elementwise_chain& c, value_id v) const {
  const auto& t = graph_.type(v);
  auto op = algebra_.make_operation(
      "input",
      {{"name", fmt::format("{}", c.inputs.size())}, {"element", tensor::name_of(t.element)}, {"dims", t.dims}});
  c.inputs.push_back(v);
  return c.region.results(c.region.add_node(std::move(op), {}, {&t, 1}))[0];
}

}  // namespace unity::backend::detail

#endif
