// Sums gradients over ranks, optionally compressed: contributions become smaller messages, whose combined result is the
// sum of gradients except for the loss of compression.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// A sum over the ranks of a group.
struct gradient_sum {
  node_id origin{};                         // in the plan's graph: whose gradients
  node_id reader{};                         // whose backward pass contributed the last of them
  const std::vector<std::uint32_t>& group;  // ranks
  std::span<const value_id> values;         // per written rank; equal shapes
};

class gradient_sums {
 public:
  gradient_sums(const divided_training& d, rank_streams& streams) : training_{d}, streams_{streams} {}

  // The sum on each written rank. Messages leave in the backward pass; their processing follows after the contributions
  // of all micro-batches. Waits are null if there is nothing to wait for.
  [[nodiscard]] std::vector<awaited_value> of(const gradient_sum& s, const compressor& method);

 private:
  // A rank's contribution including the loss of its last message, and the kept value that receives the loss of this
  // one.
  struct given_value {
    value_id value{};
    value_id before{};
  };

  [[nodiscard]] tensor::tensor_type type_of(std::uint32_t rank, value_id v) const {
    return streams_.program(rank).graph.type(v);
  }
  [[nodiscard]] static value_id run(region_writer& w, const tensor::algebra& a, std::string_view name,
                                    const std::vector<value_id>& operands,
                                    std::initializer_list<tensor::named_attribute> with = {}) {
    return w.run(a.make_operation(name, with), operands);
  }
  [[nodiscard]] value_id cast(region_writer& w, value_id v, tensor::dtype to) const {
    return run(w, training_.algebra(), "cast", {v}, {{"element", tensor::name_of(to)}});
  }
  [[nodiscard]] value_id transposed(region_writer& w, value_id m) const {
    return run(w, training_.algebra(), "transpose", {m}, {{"permutation", {1, 0}}});
  }
  [[nodiscard]] value_id product(region_writer& w, value_id x, value_id y) const {
    return run(w, training_.algebra(), "matmul", {x, y}, {{"activation", "none"}});
  }
  [[nodiscard]] given_value with_feedback(std::uint32_t rank, region_writer& w, value_id v);
  void keep_rest(std::uint32_t rank, region_writer& w, const given_value& given, value_id sent);

  [[nodiscard]] std::vector<awaited_value> rounded(const gradient_sum& s, const compressor& method);
  [[nodiscard]] std::vector<awaited_value> selected(const gradient_sum& s, const compressor& method);
  [[nodiscard]] std::vector<awaited_value> factored(const gradient_sum& s, const compressor& method);
  // Orthonormal columns, or nearly zero ones: subtracts from each its projection on those before it (Gram and Schmidt).
  [[nodiscard]] value_id orthonormal(region_writer& w, value_id m) const;
  // Columns normalized to length 1. least: added to squared lengths, so that much shorter columns stay short, and zeros
  // stay zero.
  [[nodiscard]] value_id unit_columns(region_writer& w, value_id m, double least = 1e-30) const;
  // The normalized columns of q plus a thousandth of the previous ones, so that the next iteration keeps a direction if
  // a column of q is zero or depends on others.
  [[nodiscard]] value_id turned(region_writer& w, value_id before, value_id q) const;

  const divided_training& training_;
  rank_streams& streams_;
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_GRADIENT_SUMS)

#include <algorithm>
#include <cstddef>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::vector<awaited_value> gradient_sums::of(const gradient_sum& s, const compressor& method) {
  const auto ranks = training_.written().of(s.group);
  if (s.group.size() > 1 && is_rounded(method)) {
    return rounded(s, method);
  }
  if (s.group.size() > 1 && method.kind == compression::top_k) {
    return selected(s, method);
  }
  const auto dims = type_of(ranks.front(), s.values.front()).dims;
  if (s.group.size() > 1 && method.kind == compression::power_sgd && dims.size() > 1) {
    const auto columns = tensor::element_count(dims) / dims[0];
    if (std::min(dims[0], columns) > static_cast<std::int64_t>(method.amount)) {
      return factored(s, method);
    }
  }
  return streams_.reduced(s.origin, s.group, s.values);
}

UNITY_INLINE gradient_sums::given_value gradient_sums::with_feedback(std::uint32_t rank, region_writer& w, value_id v) {
  const auto before = w.outside(type_of(rank, v));
  return {w.sum(v, before), before};
}

UNITY_INLINE void gradient_sums::keep_rest(std::uint32_t rank, region_writer& w, const given_value& given,
                                           value_id sent) {
  streams_.program(rank).kept.push_back({given.before, run(w, training_.algebra(), "sub", {given.value, sent}), 0});
}

UNITY_INLINE std::vector<awaited_value> gradient_sums::rounded(const gradient_sum& s, const compressor& method) {
  const auto ranks = training_.written().of(s.group);
  const auto element = type_of(ranks.front(), s.values.front()).element;
  const auto small = method.kind == compression::float16 ? tensor::dtype::float16 : tensor::dtype::bfloat16;
  std::vector<value_id> messages;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& w = streams_.on(ranks[i], s.reader);
    const auto given = method.has_feedback ? with_feedback(ranks[i], w, s.values[i]) : given_value{s.values[i], {}};
    messages.push_back(cast(w, given.value, small));
    if (method.has_feedback) {
      keep_rest(ranks[i], w, given, cast(w, messages.back(), element));
    }
  }
  auto sums = streams_.reduced(s.origin, s.group, messages);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    streams_.wait_last(ranks[i], sums[i].wait);
    sums[i] = {cast(streams_.on_last(ranks[i], s.origin), sums[i].value, element), {}};
  }
  return sums;
}

// Each rank contributes indices and values of selected elements. All ranks get all pairs and add them in the order of
// the group, so the sums are identical.
UNITY_INLINE std::vector<awaited_value> gradient_sums::selected(const gradient_sum& s, const compressor& method) {
  const auto ranks = training_.written().of(s.group);
  const auto& a = training_.algebra();
  const auto dims = type_of(ranks.front(), s.values.front()).dims;
  const auto count = tensor::element_count(dims);
  const auto scattered = [&](region_writer& w, value_id numbers, value_id elements) {
    return run(w, a, "embedding_gradient", {numbers, elements}, {{"rows", count}});
  };
  std::vector<value_id> numbers;
  std::vector<value_id> elements;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& w = streams_.on(ranks[i], s.reader);
    const auto given = with_feedback(ranks[i], w, run(w, a, "reshape", {s.values[i]}, {{"dims", {count}}}));
    numbers.push_back(run(w, a, "top_k", {given.value}, {{"count", sent_elements(method, count)}}));
    elements.push_back(run(w, a, "embedding", {given.value, numbers.back()}));
    keep_rest(ranks[i], w, given, scattered(w, numbers.back(), elements.back()));
  }
  const auto all_numbers = streams_.gathered(s.origin, s.group, numbers);
  const auto all_elements = streams_.gathered(s.origin, s.group, elements);
  std::vector<awaited_value> sums;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    streams_.wait_last(ranks[i], all_numbers[i].wait);
    streams_.wait_last(ranks[i], all_elements[i].wait);
    auto& w = streams_.on_last(ranks[i], s.origin);
    const auto sum = scattered(w, all_numbers[i].value, all_elements[i].value);
    sums.push_back({run(w, a, "reshape", {sum}, {{"dims", {dims.begin(), dims.end()}}}), {}});
  }
  return sums;
}

// M is n x m. P = M Q is summed and made orthonormal, Q = M^T P is summed, and the sum of all M is about P Q^T. The
// next iteration begins with the directions of Q. Each rank adds M minus P Q^T, with its own Q, to its next gradient:
// in total, this is what the sum lost.
UNITY_INLINE std::vector<awaited_value> gradient_sums::factored(const gradient_sum& s, const compressor& method) {
  const auto ranks = training_.written().of(s.group);
  const auto& a = training_.algebra();
  const auto type = type_of(ranks.front(), s.values.front());
  const auto n = type.dims[0];
  const auto m = tensor::element_count(type.dims) / n;
  struct rank_state {
    given_value given{};
    value_id q{};
  };
  std::vector<rank_state> states;
  std::vector<value_id> messages;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& w = streams_.on(ranks[i], s.reader);
    auto narrow = type;
    narrow.dims = {m, static_cast<std::int64_t>(method.amount)};
    const auto matrix = run(w, a, "reshape", {s.values[i]}, {{"dims", {n, m}}});
    states.push_back({with_feedback(ranks[i], w, matrix), w.outside(narrow)});
    messages.push_back(product(w, states.back().given.value, states.back().q));
  }
  const auto first = streams_.reduced(s.origin, s.group, messages);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    streams_.wait_last(ranks[i], first[i].wait);
    auto& w = streams_.on_last(ranks[i], s.origin);
    const auto p = orthonormal(w, first[i].value);
    const auto q = product(w, transposed(w, states[i].given.value), p);
    keep_rest(ranks[i], w, states[i].given, product(w, p, transposed(w, q)));
    states[i].given.value = p;
    messages[i] = q;
  }
  auto sums = streams_.reduced_last(s.origin, s.group, messages);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    streams_.wait_last(ranks[i], sums[i].wait);
    auto& w = streams_.on_last(ranks[i], s.origin);
    // The same values on all ranks, so that the next P is a sum.
    constexpr std::uint64_t seed = 1;
    streams_.program(ranks[i]).kept.push_back({states[i].q, turned(w, states[i].q, sums[i].value), seed});
    const auto all = product(w, states[i].given.value, transposed(w, sums[i].value));
    sums[i] = {run(w, a, "reshape", {all}, {{"dims", {type.dims.begin(), type.dims.end()}}}), {}};
  }
  return sums;
}

UNITY_INLINE value_id gradient_sums::orthonormal(region_writer& w, value_id m) const {
  const auto& a = training_.algebra();
  const auto type = w.graph().type(m);
  const auto column = [&](std::int64_t k) {
    return unit_columns(w, w.cut({whole(type.dims), m}, {{0, k}, {type.dims[0], k + 1}}));
  };
  // If a column depends on earlier ones, only rounding errors remain, which are not a direction; such columns become
  // short.
  const double rounding = type.element == tensor::dtype::float64 ? 1e-10 : 1e-4;
  auto all = column(0);
  for (std::int64_t k = 1; k < type.dims[1]; ++k) {
    const auto rows = transposed(w, all);
    const auto rest = [&](value_id c) { return run(w, a, "sub", {c, product(w, all, product(w, rows, c))}); };
    // Repeated, because a small remainder still has components along the others ("twice is enough", Kahan), especially
    // one of rounding errors.
    const auto next = rest(rest(unit_columns(w, rest(column(k)), rounding * rounding)));
    all = run(w, a, "concat", {all, next}, {{"axis", 1}});
  }
  return all;
}

UNITY_INLINE value_id gradient_sums::unit_columns(region_writer& w, value_id m, double least) const {
  const auto& a = training_.algebra();
  const auto element = w.graph().type(m).element;
  const auto squares = run(w, a, "reduce_sum", {run(w, a, "mul", {m, m})}, {{"axes", {0}}});
  const auto lengths = run(w, a, "sqrt", {w.sum(squares, w.filled({1, 1}, element, least))});
  return run(w, a, "div", {m, lengths});
}

UNITY_INLINE value_id gradient_sums::turned(region_writer& w, value_id before, value_id q) const {
  return unit_columns(w, w.sum(before, w.scaled(unit_columns(w, q), 1000)));
}

}  // namespace unity::parallel::detail

#endif
