// The number of elements that a parallel computation graph moves in an iteration of training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>

namespace unity::parallel {

namespace detail {

// Counts the elements that a chain moves. Drops copies first and adds up partials next, which minimizes what is moved.
class chain_count {
 public:
  chain_count(const parallel_type& from, const parallel_type& to);

  [[nodiscard]] std::int64_t run() &&;

 private:
  [[nodiscard]] std::int64_t elements() const noexcept { return size_ * copies_now_ * partial_now_; }
  // Elements moved if k devices hold the elements together and one needs them, or vice versa.
  [[nodiscard]] static std::int64_t split(std::int64_t elements, std::int64_t k) noexcept {
    return elements / k * (k - 1);
  }
  // Divides both by their greatest common divisor and returns it.
  [[nodiscard]] static std::int64_t pair(std::int64_t& a, std::int64_t& b) noexcept;

  void discard();
  void reduce();
  void combine(degree_change& b);

  std::int64_t size_;
  std::int64_t copies_now_;
  std::int64_t partial_now_;
  degree_change copies_;
  degree_change partial_;
  std::vector<degree_change> blocks_{};
  std::int64_t moved_ = 0;
};

}  // namespace detail

// Elements that a chain between two types of one tensor moves; all chains between them count the same. Adjacent
// operators of the same degree form one pattern: reduce and replicate an all-reduce, reduce and partition a
// reduce-scatter, combine and replicate an all-gather, combine and partition an all-to-all; discard before partition
// and combine before inject are free. Complexity: quadratic in the rank.
// Source: Unger et al., Unity (OSDI 2022), section 5.3; volumes of ring collectives.
[[nodiscard]] inline std::int64_t moved_elements(const parallel_type& from, const parallel_type& to) {
  UNITY_EXPECTS(are_of_one_tensor(from, to), "types of one tensor");
  return detail::chain_count{from, to}.run();
}

// Elements that all devices together move in an iteration.
struct communication {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t weights = 0;  // all-reduces of gradients

  [[nodiscard]] std::int64_t total() const noexcept { return forward + backward + weights; }
  friend bool operator==(const communication&, const communication&) = default;
};

namespace detail {

// Weights are stored where they are read, so dividing them is free and the gradients of their copies are all-reduced.
[[nodiscard]] std::int64_t weight_elements(const parallel_type& stored, const parallel_type& read);

// Per value: whether it depends on trained weights, so that it has a gradient.
[[nodiscard]] std::vector<bool> differentiated_values(const pcg_algebra& a, const pcg& g);

// The types in which consumers read a producer's result, at the ends of all chains.
class chain_ends {
 public:
  chain_ends(const pcg_algebra& a, const pcg& g);
  [[nodiscard]] std::span<const parallel_type> of(value_id v) const { return ends_[v.index()]; }

 private:
  void add(value_id from, const parallel_type& t);

  std::vector<std::vector<parallel_type>> ends_;
};

}  // namespace detail

// Conventions: the backward pass moves what the dual chains move, for values with a gradient. Inputs and constants
// arrive in any division and have no gradient. Weights are replicated where they are stored; only the gradients of
// their copies are added up. Outputs stay as they are. Preconditions: outputs are no partial sums. Complexity: linear
// in the graph.
[[nodiscard]] communication communication_of(const pcg_algebra& a, const pcg& g);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_COMMUNICATION)

#include <algorithm>
#include <numeric>

#include <unity/parallel/pcg/erasure.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE chain_count::chain_count(const parallel_type& from, const parallel_type& to)
    : size_{tensor::element_count(from.global.dims)},
      copies_now_{from.copies},
      partial_now_{from.partial},
      copies_{change_of(from.copies, to.copies)},
      partial_{change_of(from.partial, to.partial)} {
  for (std::size_t d = 0; d < from.global.rank(); ++d) {
    blocks_.push_back(blocks_of(from, to, d));
  }
}

UNITY_INLINE std::int64_t chain_count::run() && {
  discard();
  reduce();
  for (auto& b : blocks_) {
    combine(b);
  }
  for (auto& b : blocks_) {
    moved_ += split(elements(), b.up);
  }
  moved_ += (copies_.up - 1) * elements();
  return moved_;
}

UNITY_INLINE std::int64_t chain_count::pair(std::int64_t& a, std::int64_t& b) noexcept {
  const auto k = std::gcd(a, b);
  a /= k;
  b /= k;
  return k;
}

UNITY_INLINE void chain_count::discard() {
  copies_now_ /= copies_.down;
  for (auto& b : blocks_) {
    static_cast<void>(pair(copies_.down, b.up));
  }
}

UNITY_INLINE void chain_count::reduce() {
  const auto add_up = [&](std::int64_t k, std::int64_t rounds) {
    partial_now_ /= k;
    moved_ += rounds * (k - 1) * elements();
  };
  for (auto& b : blocks_) {
    add_up(pair(partial_.down, b.up), 1);
  }
  const auto all = pair(partial_.down, copies_.up);
  add_up(all, 2);
  copies_now_ *= all;
  add_up(partial_.down, 1);
}

UNITY_INLINE void chain_count::combine(degree_change& b) {
  partial_now_ *= pair(b.down, partial_.up);
  for (auto& other : blocks_) {
    moved_ += split(elements(), pair(b.down, other.up));
  }
  const auto all = pair(b.down, copies_.up);
  moved_ += (all - 1) * elements();
  copies_now_ *= all;
  moved_ += split(elements(), b.down);
}

UNITY_INLINE std::int64_t weight_elements(const parallel_type& stored, const parallel_type& read) {
  std::int64_t moved = 0;
  auto t = stored;
  for (const auto& p : canonical_chain(stored, read)) {
    moved += p.kind == parallel_kind::replicate ? 2 * (p.degree - 1) * element_count(t) : 0;
    t = *result_type(p, {&t, 1});
  }
  return moved;
}

UNITY_INLINE std::vector<bool> differentiated_values(const pcg_algebra& a, const pcg& g) {
  const auto erased = erase_values(a, g);
  const auto weights = tensor::trained_weights(a.operators(), erased.graph);
  std::vector<bool> all(g.value_count());
  for (const auto n : node_ids(g)) {
    const auto operands = g.operands(n);
    const bool any = std::any_of(operands.begin(), operands.end(), [&](value_id v) { return bool{all[v.index()]}; });
    for (const auto v : g.results(n)) {
      const bool is_weight =
          operands.empty() && std::find(weights.begin(), weights.end(), erased.values[v.index()]) != weights.end();
      all[v.index()] = is_floating(g.type(v).global.element) && (any || is_weight);
    }
  }
  return all;
}

UNITY_INLINE chain_ends::chain_ends(const pcg_algebra& a, const pcg& g) : ends_(g.value_count()) {
  std::vector<value_id> origin(g.value_count());
  for (const auto n : node_ids(g)) {
    const auto p = a.read(g.operation(n));
    const bool is_chained = p && is_unary(p->kind);
    for (const auto v : g.results(n)) {
      origin[v.index()] = is_chained ? origin[g.operands(n)[0].index()] : v;
    }
    for (const auto v : is_chained ? std::span<const value_id>{} : g.operands(n)) {
      add(origin[v.index()], g.type(v));
    }
  }
  for (const auto v : g.outputs()) {
    add(origin[v.index()], g.type(v));
  }
}

UNITY_INLINE void chain_ends::add(value_id from, const parallel_type& t) {
  auto& known = ends_[from.index()];
  if (std::find(known.begin(), known.end(), t) == known.end()) {
    known.push_back(t);
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE communication communication_of(const pcg_algebra& a, const pcg& g) {
  const detail::chain_ends ends{a, g};
  const auto has_gradient = detail::differentiated_values(a, g);
  communication all;
  for (const auto v : g.outputs()) {
    UNITY_EXPECTS(g.type(v).partial == 1, "outputs whose partials are added up");
  }
  for (const auto n : node_ids(g)) {
    const bool is_source = g.operands(n).empty();
    for (const auto v : g.results(n)) {
      for (const auto& to : ends.of(v)) {
        const auto& from = g.type(v);
        if (is_source) {
          all.weights += has_gradient[v.index()] ? detail::weight_elements(from, to) : 0;
        } else {
          all.forward += moved_elements(from, to);
          all.backward += has_gradient[v.index()] ? moved_elements(dual(to), dual(from)) : 0;
        }
      }
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
