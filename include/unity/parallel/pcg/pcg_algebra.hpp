// The algebra of parallel computation graphs: tensor operators on divided tensors, and the operators that divide them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/dimension_cache.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// A parallel computation graph. Regular.
using pcg = compact_graph<tensor::operation, parallel_type>;

// A value type; models pattern_algebra. Kinds of the tensor algebra keep their numbers; the parallelization operators
// follow.
class pcg_algebra {
 public:
  using op_type = tensor::operation;
  using value_type = parallel_type;

  // Throws: unity::error if the algebra already has an operator with the name of a parallelization operator.
  explicit pcg_algebra(tensor::algebra operators);
  pcg_algebra() : pcg_algebra{tensor::standard_algebra()} {}

  [[nodiscard]] const tensor::algebra& operators() const noexcept { return operators_; }

  [[nodiscard]] std::size_t kind_count() const noexcept { return operators_.kind_count() + signatures_.size(); }
  [[nodiscard]] std::optional<kind_id> find_kind(std::string_view name) const;
  [[nodiscard]] kind_id kind(parallel_kind k) const noexcept {
    return kind_id{operators_.kind_count() + static_cast<std::size_t>(k)};
  }
  [[nodiscard]] const op_signature& signature(kind_id k) const {
    return is_parallel(k) ? signatures_[k.index() - operators_.kind_count()] : operators_.signature(k);
  }
  [[nodiscard]] bool is_parallel(kind_id k) const noexcept {
    return k.index() >= operators_.kind_count() && k.index() < kind_count();
  }

  [[nodiscard]] kind_id kind_of(const tensor::operation& op) const noexcept { return op.kind; }
  [[nodiscard]] attribute_list attributes_of(const tensor::operation& op) const { return op.attributes; }
  [[nodiscard]] std::optional<tensor::operation> make(kind_id k, std::span<const attribute> values) const;

  // Converts a parallelization operator to a node's operation and back; nothing if the operation is of another kind.
  [[nodiscard]] tensor::operation make(const parallel_operator& p) const;
  [[nodiscard]] std::optional<parallel_operator> read(const tensor::operation& op) const;

  // The dimensions of a tensor operator on the global tensors; null if it does not accept them, has no operands, or is
  // no tensor operator. Valid as long as the algebra.
  // Complexity: as dimensions_of the first time, then a lookup.
  [[nodiscard]] const operator_dimensions* dimensions(const tensor::operation& op,
                                                      std::span<const parallel_type> inputs) const;
  // The unique grid of tasks on which a tensor operator accepts the operands. Nothing if there is none, or if a
  // composite cannot run on such parts.
  [[nodiscard]] std::optional<operator_grid> grid(const tensor::operation& op,
                                                  std::span<const parallel_type> inputs) const;

  // Sources are undivided. Never throws, whatever the operation and the inputs.
  // Complexity: linear in operands and indices, besides dimensions().
  [[nodiscard]] std::optional<std::vector<parallel_type>> infer(const tensor::operation& op,
                                                                std::span<const parallel_type> inputs) const;

  // Measures of the tensor algebra, applied to the global tensor, and degree(?x, axis), where a negative axis counts
  // from the back; copies(?x); partial(?x).
  [[nodiscard]] std::optional<int> find_measure(std::string_view name) const;
  [[nodiscard]] std::size_t measure_arguments(int number) const noexcept {
    return number < first_own ? operators_.measure_arguments(number) : number == first_own ? 1 : 0;
  }
  [[nodiscard]] std::optional<attribute> measure(int number, const parallel_type& t,
                                                 std::span<const std::int64_t> arguments) const;

 private:
  static constexpr std::array<std::string_view, 3> own_measures{"degree", "copies", "partial"};
  static constexpr int first_own = 1 << 16;

  // Primitives and views run on any part of their loops and elements.
  [[nodiscard]] bool has_tasks(const operator_dimensions& o, const operator_grid& g) const;
  [[nodiscard]] std::optional<std::vector<parallel_type>> infer_source(const tensor::operation& op) const;

  tensor::algebra operators_;
  std::vector<op_signature> signatures_{};
  mutable dimension_cache cache_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_PCG_ALGEBRA)

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/parallel/tasks/composite_parts.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE pcg_algebra::pcg_algebra(tensor::algebra operators) : operators_{std::move(operators)} {
  for (std::size_t k = 0; k < parallel_names.size(); ++k) {
    if (operators_.find_kind(parallel_names[k])) {
      throw error{fmt::format("operator {}", parallel_names[k]), "a definition", "the parallelization operator alone"};
    }
    signatures_.push_back(signature_of(static_cast<parallel_kind>(k)));
  }
}

UNITY_INLINE std::optional<kind_id> pcg_algebra::find_kind(std::string_view name) const {
  const auto found = std::find(parallel_names.begin(), parallel_names.end(), name);
  return found == parallel_names.end()
             ? operators_.find_kind(name)
             : std::optional{kind(static_cast<parallel_kind>(found - parallel_names.begin()))};
}

UNITY_INLINE std::optional<tensor::operation> pcg_algebra::make(kind_id k, std::span<const attribute> values) const {
  if (!is_parallel(k)) {
    return operators_.make(k, values);
  }
  tensor::operation op{k, {values.begin(), values.end()}, tensor::layout::row_major};
  return read(op) ? std::optional{std::move(op)} : std::nullopt;
}

UNITY_INLINE tensor::operation pcg_algebra::make(const parallel_operator& p) const {
  tensor::operation op{kind(p.kind), {}, tensor::layout::row_major};
  if (has_axis(p.kind)) {
    op.attributes.push_back({p.axis});
  }
  if (has_degree(p.kind)) {
    op.attributes.push_back({p.degree});
  }
  return op;
}

UNITY_INLINE std::optional<parallel_operator> pcg_algebra::read(const tensor::operation& op) const {
  if (!is_parallel(op.kind)) {
    return std::nullopt;
  }
  const auto k = static_cast<parallel_kind>(op.kind.index() - operators_.kind_count());
  const auto& fields = signatures_[static_cast<std::size_t>(k)].attributes;
  bool fit = op.attributes.size() == fields.size() && op.order == tensor::layout::row_major;
  for (std::size_t i = 0; fit && i < fields.size(); ++i) {
    fit = op.attributes[i].size() == 1;
  }
  if (!fit) {
    return std::nullopt;
  }
  return parallel_operator{k, has_axis(k) ? op.attributes[0][0] : 0, has_degree(k) ? op.attributes.back()[0] : 0};
}

UNITY_INLINE const operator_dimensions* pcg_algebra::dimensions(const tensor::operation& op,
                                                                std::span<const parallel_type> inputs) const {
  std::vector<tensor::tensor_type> global;
  for (const auto& t : inputs) {
    global.push_back(t.global);
  }
  return global.empty() || is_parallel(op.kind) ? nullptr : cache_.of(operators_, op, global);
}

UNITY_INLINE std::optional<operator_grid> pcg_algebra::grid(const tensor::operation& op,
                                                            std::span<const parallel_type> inputs) const {
  const auto* o = std::all_of(inputs.begin(), inputs.end(), is_valid) ? dimensions(op, inputs) : nullptr;
  auto g = o != nullptr ? infer_grid(*o, inputs) : std::nullopt;
  return g && has_tasks(*o, *g) ? g : std::nullopt;
}

UNITY_INLINE std::optional<std::vector<parallel_type>> pcg_algebra::infer(const tensor::operation& op,
                                                                          std::span<const parallel_type> inputs) const {
  if (is_parallel(op.kind)) {
    const auto p = read(op);
    auto t = p ? result_type(*p, inputs) : std::nullopt;
    return t ? std::optional{std::vector{std::move(*t)}} : std::nullopt;
  }
  if (inputs.empty()) {
    return infer_source(op);
  }
  const auto g = grid(op, inputs);
  auto types = g ? types_on(*dimensions(op, inputs), *g) : std::nullopt;
  return types ? std::optional{std::move(types->results)} : std::nullopt;
}

UNITY_INLINE std::optional<int> pcg_algebra::find_measure(std::string_view name) const {
  const auto found = std::find(own_measures.begin(), own_measures.end(), name);
  return found == own_measures.end() ? operators_.find_measure(name)
                                     : std::optional{first_own + static_cast<int>(found - own_measures.begin())};
}

UNITY_INLINE std::optional<attribute> pcg_algebra::measure(int number, const parallel_type& t,
                                                           std::span<const std::int64_t> arguments) const {
  if (number < first_own) {
    return operators_.measure(number, t.global, arguments);
  }
  if (number == first_own && arguments.size() == 1) {
    const auto rank = static_cast<std::int64_t>(t.global.rank());
    const auto axis = arguments[0] < 0 ? arguments[0] + rank : arguments[0];
    return axis >= 0 && axis < rank ? std::optional{attribute{t.degrees[static_cast<std::size_t>(axis)]}}
                                    : std::nullopt;
  }
  if (number == first_own || !arguments.empty()) {
    return std::nullopt;
  }
  return attribute{number == first_own + 1 ? t.copies : t.partial};
}

UNITY_INLINE bool pcg_algebra::has_tasks(const operator_dimensions& o, const operator_grid& g) const {
  const auto& body = operators_.definition_of(o.op.kind).body;
  const bool is_loop = std::holds_alternative<tensor::primitive>(body) || std::holds_alternative<tensor::view>(body);
  return is_loop || composite_on(operators_, o, first_task(o, g)).has_value();
}

UNITY_INLINE std::optional<std::vector<parallel_type>> pcg_algebra::infer_source(const tensor::operation& op) const {
  const auto results = operators_.infer(op, {});
  if (!results) {
    return std::nullopt;
  }
  std::vector<parallel_type> types;
  for (const auto& t : *results) {
    types.push_back(undivided(t));
  }
  return types;
}

}  // namespace unity::parallel

#endif
