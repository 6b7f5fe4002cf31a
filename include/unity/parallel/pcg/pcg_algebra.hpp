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
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The parallelization operators, which change how a tensor is divided among tasks, but not its value.

// On shards: partition splits block b into blocks bk, ..., bk + k - 1, combine joins them again; replicate makes k
// copies of each shard, discard keeps one of k; reduce adds up k partials, inject makes k partials of one, all but the
// first zero; pipeline processes a dimension in m steps, one after another, batch processes it at once again. `terms`
// and `blocks` move nothing: n tensors of one type become the partials of a sum, or the blocks along a dimension.
// Source: Unger et al., Unity (OSDI 2022), section 3.1 and figure 11. Discard and inject are needed to drop copies and
// to divide operands outside of a sum along with it; they are adjoints of each other.
enum class parallel_kind : std::uint8_t {
  partition,
  combine,
  replicate,
  reduce,
  discard,
  inject,
  pipeline,
  batch,
  terms,
  blocks
};
inline constexpr std::array<std::string_view, 10> parallel_names{
    "partition", "combine", "replicate", "reduce", "discard", "inject", "pipeline", "batch", "terms", "blocks"};

// Whether the operator has a dimension, and a degree (of pipeline and batch: steps).
[[nodiscard]] constexpr bool has_axis(parallel_kind k) noexcept {
  return k == parallel_kind::partition || k == parallel_kind::combine || k >= parallel_kind::pipeline
             ? k != parallel_kind::terms
             : false;
}
[[nodiscard]] constexpr bool has_degree(parallel_kind k) noexcept { return k < parallel_kind::terms; }
// Whether it takes one operand; terms and blocks take any number.
[[nodiscard]] constexpr bool is_unary(parallel_kind k) noexcept { return k < parallel_kind::terms; }

// Regular. An operator with its parameters; parameters that it lacks are 0.
struct parallel_operator {
  parallel_kind kind = parallel_kind::partition;
  std::int64_t axis = 0;
  std::int64_t degree = 0;

  friend bool operator==(const parallel_operator&, const parallel_operator&) = default;
};

// The adjoint of a unary operator, which acts on cotangents. Partition and combine, and pipeline and batch, are
// inverses; the others are not.
[[nodiscard]] constexpr parallel_operator adjoint_of(parallel_operator p) noexcept {
  constexpr std::array<parallel_kind, 8> adjoints{
      parallel_kind::combine, parallel_kind::partition, parallel_kind::reduce, parallel_kind::replicate,
      parallel_kind::inject,  parallel_kind::discard,   parallel_kind::batch,  parallel_kind::pipeline};
  p.kind = adjoints[static_cast<std::size_t>(p.kind)];
  return p;
}

namespace detail {

inline constexpr std::int64_t most_tasks = std::int64_t{1} << 30U;

// Complexity: constant.
[[nodiscard]] inline bool multiply(std::int64_t& value, std::int64_t factor) noexcept {
  return !__builtin_mul_overflow(value, factor, &value) && value <= most_tasks;
}
[[nodiscard]] bool divide(std::int64_t& value, std::int64_t factor) noexcept;

[[nodiscard]] std::optional<parallel_type> apply_unary(const parallel_operator& p, parallel_type t);

[[nodiscard]] std::optional<parallel_type> gathered(const parallel_operator& p, std::span<const parallel_type> inputs);

}  // namespace detail

// The type of the result; nothing if the operator does not accept such operands.
// Complexity: linear in operands and rank.
[[nodiscard]] std::optional<parallel_type> result_type(const parallel_operator& p,
                                                       std::span<const parallel_type> inputs);

// The signature of the kind for rules.
[[nodiscard]] op_signature signature_of(parallel_kind k);

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
  [[nodiscard]] static std::span<const std::string_view> uses() { return tensor::algebra::uses(); }
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
#include <unity/core/small_vector.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::parallel::detail {

UNITY_INLINE bool divide(std::int64_t& value, std::int64_t factor) noexcept {
  const bool divides = value % factor == 0;
  value /= factor;
  return divides;
}

UNITY_INLINE std::optional<parallel_type> apply_unary(const parallel_operator& p, parallel_type t) {
  if (p.degree < 2) {
    return std::nullopt;
  }
  const auto axis = static_cast<std::size_t>(p.axis);
  bool is_possible = true;
  switch (p.kind) {
    case parallel_kind::partition: is_possible = multiply(t.degrees[axis], p.degree); break;
    case parallel_kind::combine: is_possible = divide(t.degrees[axis], p.degree); break;
    case parallel_kind::replicate: is_possible = multiply(t.copies, p.degree); break;
    case parallel_kind::discard: is_possible = divide(t.copies, p.degree); break;
    case parallel_kind::inject:
      is_possible = t.global.element != tensor::dtype::boolean && multiply(t.partial, p.degree);
      break;
    case parallel_kind::reduce: is_possible = divide(t.partial, p.degree); break;
    // Steps are outside of degrees: steps of a divided dimension would change which blocks a task has.
    case parallel_kind::pipeline: is_possible = t.degrees[axis] == 1 && multiply(t.steps[axis], p.degree); break;
    case parallel_kind::batch: is_possible = t.degrees[axis] == 1 && divide(t.steps[axis], p.degree); break;
    case parallel_kind::terms:
    case parallel_kind::blocks: return std::nullopt;
  }
  return is_possible && total(t) <= most_tasks && is_valid(t) ? std::optional{std::move(t)} : std::nullopt;
}

UNITY_INLINE std::optional<parallel_type> gathered(const parallel_operator& p, std::span<const parallel_type> inputs) {
  auto t = inputs[0];
  const auto n = static_cast<std::int64_t>(inputs.size());
  bool is_constant = true;
  for (const auto& x : inputs) {
    auto same = x;
    same.global.constant = t.global.constant;
    is_constant = is_constant && x.global.constant;
    if (same != t) {
      return std::nullopt;
    }
  }
  bool is_possible = n >= 2;
  if (p.kind == parallel_kind::terms) {
    is_possible = is_possible && t.global.element != tensor::dtype::boolean && multiply(t.partial, n);
  } else {
    const auto axis = static_cast<std::size_t>(p.axis);
    std::int64_t size = 0;
    is_possible = is_possible && t.steps[axis] == 1 && multiply(t.degrees[axis], n) &&
                  !__builtin_mul_overflow(t.global.dims[axis], n, &size);
    t.global.dims[axis] = size;
  }
  t.global.constant = is_constant;
  return is_possible && total(t) <= most_tasks && is_valid(t) ? std::optional{std::move(t)} : std::nullopt;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<parallel_type> result_type(const parallel_operator& p,
                                                      std::span<const parallel_type> inputs) {
  if (inputs.empty() || (is_unary(p.kind) && inputs.size() != 1) || !is_valid(inputs[0])) {
    return std::nullopt;
  }
  if (has_axis(p.kind) && (p.axis < 0 || p.axis >= static_cast<std::int64_t>(inputs[0].global.rank()))) {
    return std::nullopt;
  }
  return is_unary(p.kind) ? detail::apply_unary(p, inputs[0]) : detail::gathered(p, inputs);
}

UNITY_INLINE op_signature signature_of(parallel_kind k) {
  const auto takes = is_unary(k) ? operand_count{1} : operand_count{1, operand_count::unlimited};
  op_signature s{std::string{parallel_names[static_cast<std::size_t>(k)]}, takes, 1, false, {}};
  if (has_axis(k)) {
    s.attributes.push_back({"axis", attribute_form::integer, {}, {}});
  }
  if (has_degree(k)) {
    const bool steps = k == parallel_kind::pipeline || k == parallel_kind::batch;
    s.attributes.push_back({steps ? "steps" : "degree", attribute_form::integer, {}, {}});
  }
  return s;
}

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
  return global.empty() || is_parallel(op.kind) ? nullptr : cache_.of(operators_, op, global).get();
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
