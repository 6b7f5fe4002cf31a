// Builds parallel computation graphs of tensor operators on operands with any divisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/pcg/pcg_writer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

namespace detail {

// The grid that one operand implies if nothing is known of the others.
[[nodiscard]] std::optional<operator_grid> grid_around(const operator_dimensions& o, std::size_t x,
                                                       const parallel_type& t);

}  // namespace detail

// Appends tensor operators to a graph on operands of any types. The algebra must outlive the writer.
class dividing_writer {
 public:
  dividing_writer(const pcg_algebra& a, pcg g) : algebra_{a}, writer_{a, std::move(g)} {}

  [[nodiscard]] pcg_writer& writer() noexcept { return writer_; }

  // If the operands have no common grid, a composite is expanded into its body. For other operators the operands are
  // divided anew: for the grid of one of them, or for computing everything on every task, whichever moves least.
  std::vector<value_id> add(const tensor::operation& op, std::vector<value_id> operands);
  // values: the values of the first nodes of `g`, which are not added themselves. Returns the outputs of `g`.
  std::vector<value_id> add_all(const tensor::tensor_graph& g, std::vector<value_id> values);
  [[nodiscard]] value_id add(std::string_view name, std::initializer_list<tensor::named_attribute> attributes,
                             std::vector<value_id> operands) {
    return add(algebra_.operators().make_operation(name, attributes), std::move(operands))[0];
  }

 private:
  [[nodiscard]] grid_types cheapest(const tensor::operation& op, std::span<const value_id> operands,
                                    std::span<const parallel_type> types) const;

  const pcg_algebra& algebra_;
  pcg_writer writer_;
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_DIVIDING_WRITER)

#include <algorithm>
#include <limits>

#include <unity/parallel/pcg/communication.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<operator_grid> grid_around(const operator_dimensions& o, std::size_t x,
                                                      const parallel_type& t) {
  const auto& s = o.structure;
  std::vector<std::optional<std::pair<std::int64_t, std::int64_t>>> known(s.indices.size());
  for (std::size_t d = 0; d < s.operands[x].size(); ++d) {
    const auto& dim = s.operands[x][d];
    const auto along = dim.window ? std::vector{static_cast<std::size_t>(s.windows[*dim.window].outer)} : dim.indices;
    if (!assign(s, along, t.degrees[d], t.steps[d], known)) {
      return std::nullopt;
    }
  }
  auto g = undivided_grid(o);
  auto partial = t.partial;
  for (std::size_t i = 0; i < known.size(); ++i) {
    g.indices[i] = known[i] ? known[i]->first : 1;
    g.steps[i] = known[i] ? known[i]->second : 1;
  }
  for (std::size_t p = 0; p < g.groups.size(); ++p) {
    if (is_in(o.groups[p], x)) {
      g.groups[p] = std::exchange(partial, 1);
    }
  }
  g.copies = t.copies;
  const auto types = types_on(o, g);
  return partial == 1 && types && types->operands[x] == t ? std::optional{std::move(g)} : std::nullopt;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<value_id> dividing_writer::add(const tensor::operation& op, std::vector<value_id> operands) {
  std::vector<parallel_type> types;
  std::vector<tensor::tensor_type> global;
  for (const auto v : operands) {
    types.push_back(writer_.type(v));
    global.push_back(types.back().global);
  }
  if (!operands.empty() && !algebra_.grid(op, types)) {
    if (const auto body = algebra_.operators().body(op, global)) {
      return add_all(*body, std::move(operands));
    }
    const auto chosen = cheapest(op, operands, types);
    for (std::size_t x = 0; x < operands.size(); ++x) {
      operands[x] = writer_.on(operands[x], chosen.operands[x]);
    }
  }
  const auto results = writer_.graph().results(writer_.add(op, operands));
  return {results.begin(), results.end()};
}

UNITY_INLINE std::vector<value_id> dividing_writer::add_all(const tensor::tensor_graph& g,
                                                            std::vector<value_id> values) {
  for (auto i = values.size(); i < g.node_count(); ++i) {
    std::vector<value_id> operands;
    for (const auto v : g.operands(node_id{i})) {
      operands.push_back(values[v.index()]);
    }
    const auto made = add(g.operation(node_id{i}), std::move(operands));
    values.insert(values.end(), made.begin(), made.end());
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(values[v.index()]);
  }
  return outputs;
}

UNITY_INLINE grid_types dividing_writer::cheapest(const tensor::operation& op, std::span<const value_id> operands,
                                                  std::span<const parallel_type> types) const {
  const auto& o = *algebra_.dimensions(op, types);
  auto everywhere = undivided_grid(o);
  for (const auto& t : types) {
    everywhere.copies = std::max(everywhere.copies, total(t));
  }
  std::vector candidates{everywhere};
  for (std::size_t x = 0; x < types.size(); ++x) {
    if (const auto g = detail::grid_around(o, x, types[x])) {
      candidates.push_back(*g);
    }
  }
  grid_types best;
  // elements moved, minus the number of tasks
  auto least = std::pair{std::numeric_limits<std::int64_t>::max(), std::int64_t{0}};
  for (const auto& g : candidates) {
    const auto made = types_on(o, g);
    std::pair cost{std::int64_t{0}, -task_count(g)};
    for (std::size_t x = 0; x < types.size(); ++x) {
      const bool is_source = writer_.graph().operands(writer_.graph().producer(operands[x])).empty();
      cost.first += is_source ? 0 : moved_elements(types[x], made->operands[x]);
    }
    if (cost < least && algebra_.grid(op, made->operands)) {
      least = cost;
      best = *made;
    }
  }
  return best;
}

}  // namespace unity::parallel

#endif
