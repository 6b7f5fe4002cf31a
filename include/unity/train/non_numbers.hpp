// Finds the origin of the first infinity or NaN.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::train {

// Complexity: linear in the bytes.
[[nodiscard]] bool is_finite(tensor::dtype element, std::span<const std::byte> bytes) noexcept;

// A position in an iteration, in the topological order of the plan's graph: forward operators, then backward operators
// in reverse order. Of equal positions, a sum over ranks comes last, because one of its terms may be the cause.
// Regular.
struct iteration_place {
  std::uint64_t order = std::numeric_limits<std::uint64_t>::max();  // none by default

  [[nodiscard]] static iteration_place of(const parallel::rank_step& s, std::size_t nodes) noexcept {
    const auto n = s.origin.index();
    return {2 * (s.is_backward ? 2 * nodes - 1 - n : n) + (s.kind == parallel::step_kind::reduce ? 1U : 0U)};
  }
  [[nodiscard]] bool is_none() const noexcept { return *this == iteration_place{}; }
  [[nodiscard]] bool is_backward(std::size_t nodes) const noexcept { return order / 2 >= nodes; }
  [[nodiscard]] node_id node(std::size_t nodes) const noexcept {
    const auto n = static_cast<std::size_t>(order / 2);
    return node_id{n < nodes ? n : 2 * nodes - 1 - n};
  }

  friend bool operator==(const iteration_place&,
                         const iteration_place&) = default;  // nvcc does not derive it from operator<=>
  friend auto operator<=>(const iteration_place&, const iteration_place&) = default;
};

// Such as: matmul 12, backward; weight 3 "fc1.weight".
[[nodiscard]] std::string to_string(const tensor::algebra& a, const tensor::tensor_graph& g, iteration_place p);

// Observes a rank's iteration to find the first step whose operands are finite and whose results are not.
template <class Executor>
class non_number_search {
 public:
  // g: the plan's graph. Checks the values that exist before the iteration at once. The executor must outlive this
  // object.
  non_number_search(Executor& e, const tensor::tensor_graph& g)
      : executor_{e}, graph_{g}, is_bad_(e.program().graph.value_count()) {
    for (const auto& w : e.program().weights) {
      look(w.weight);
    }
  }

  // To be called after step s of the executor's program.
  void operator()(std::size_t s) {
    const auto& p = executor_.program();
    using kinds = parallel::step_kind;
    auto step = p.steps[s];
    if (step.kind == kinds::load) {
      look(p.inputs[step.peer]);
      return;
    }
    if (step.kind == kinds::wait) {
      step = p.steps[step.peer];
    } else if (step.kind != kinds::run && step.kind != kinds::fused) {
      return;
    }
    if (step.kind == kinds::fused) {
      const auto& k = p.kernels[step.peer];
      look(step, are_good(k.inputs), k.outputs);
      return;
    }
    if (step.kind == kinds::send || step.kind == kinds::gather) {  // of weights: checked when they are read
      return;
    }
    const bool was_good = is_collective(step.kind) ? !is_bad_[step.value.index()]
                                                   : step.kind == kinds::run && are_good(p.graph.operands(step.node));
    look(step, was_good, p.graph.results(step.node));
  }

  [[nodiscard]] iteration_place first() const noexcept { return first_; }

 private:
  void look(const parallel::given_part& x) {
    if (is_bad(x.value)) {
      blame({parallel::step_kind::run, {}, {}, 0, 0, graph_.producer(x.of), false, false, 0});
    }
  }
  void look(const parallel::rank_step& step, bool was_good, std::span<const value_id> results) {
    bool is_good = true;
    for (const auto v : results) {
      is_good = !is_bad(v) && is_good;
    }
    if (was_good && !is_good) {
      blame(step);
    }
  }
  [[nodiscard]] bool is_bad(value_id v) {
    buffer_.resize(executor_.size_of(v));
    executor_.read(v, buffer_);
    is_bad_[v.index()] = !is_finite(executor_.program().graph.type(v).element, buffer_);
    return is_bad_[v.index()];
  }
  [[nodiscard]] bool are_good(std::span<const value_id> values) const {
    return std::none_of(values.begin(), values.end(), [&](value_id v) { return is_bad_[v.index()]; });
  }
  void blame(const parallel::rank_step& s) { first_ = std::min(first_, iteration_place::of(s, graph_.node_count())); }

  Executor& executor_;
  const tensor::tensor_graph& graph_;
  std::vector<bool> is_bad_;  // per value of the rank's graph; false for values not computed yet
  std::vector<std::byte> buffer_{};
  iteration_place first_{};
};

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_NON_NUMBERS)

#include <cmath>

#include <fmt/core.h>

#include <unity/backend/host_values.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::train {

UNITY_INLINE bool is_finite(tensor::dtype element, std::span<const std::byte> bytes) noexcept {
  if (!tensor::is_floating(element)) {
    return true;
  }
  const auto size = static_cast<std::size_t>(tensor::size_of(element));
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    if (!std::isfinite(backend::read_element<double>(element, bytes.data() + i))) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE std::string to_string(const tensor::algebra& a, const tensor::tensor_graph& g, iteration_place p) {
  const auto n = p.node(g.node_count());
  const auto& op = g.operation(n);
  const auto text = fmt::format("{} {}", a.signature(op.kind).name, n.index());
  if (a.definition_of(op.kind).source != tensor::source_kind::none) {
    return fmt::format("{} \"{}\"", text, a.read(op).word("name"));
  }
  return fmt::format("{}{}", text, p.is_backward(g.node_count()) ? ", backward" : ", forward");
}

}  // namespace unity::train

#endif
