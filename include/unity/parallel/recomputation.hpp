// Which results are recomputed in the backward pass instead of being kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Per node of a graph: its results are dropped after the forward pass has read them, and recomputed once, before the
// first backward task that needs them, from the nearest kept results, one operator after another. They are dropped
// after their last use. Empty: all are kept. Has no effect on a result that no backward task needs.
// Source: Chen et al., Training deep nets with sublinear memory cost, 2016.
using recomputation = std::vector<bool>;

// True for operators with operands, unless a result is an output of the graph, which is kept. Operators are stateless
// here, and a dropout takes its mask as data (tensor/loss.hpp), so the second run computes the same as the
// first.
[[nodiscard]] bool can_recompute(const tensor::tensor_graph& g, node_id n);

// Throws: unity::error that names the node, if the list does not fit the graph.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const recomputation& r);

namespace detail {

// Per operator: no value from before it is read after it.
[[nodiscard]] std::vector<bool> cuts_of(const tensor::tensor_graph& g);
// Whether operands are multiplied with each other and summed up.
[[nodiscard]] bool is_product(const tensor::index_structure& s);

}  // namespace detail

[[nodiscard]] inline bool is_recomputed(const recomputation& r, node_id n) { return !r.empty() && r[n.index()]; }

// Keeps only checkpoints: about the square root of the number of operators, evenly spaced, at cuts of the graph. A
// chain of n equal results then holds about 2 sqrt(n) at a time.
// Complexity: linear in the graph.
// Source: Chen et al., section 4.1; dominators as cuts.
[[nodiscard]] recomputation full_recomputation(const tensor::tensor_graph& g);

// Keeps results of summed products: matrix products, convolutions, recurrent cells. Operators between them are cheap to
// recompute.
// Complexity: linear in the graph, and dimensions_of for each distinct operator.
// Source: Hu et al., dPRO, MLSys 2022, its memory passes.
[[nodiscard]] recomputation recomputation_between_products(const tensor::algebra& a, const tensor::tensor_graph& g);

// Of the operators to recompute, those that remain when some are kept as checkpoints, at cuts of the graph. All
// operators between two checkpoints are recomputed and held together. The sum of what is kept and of the largest such
// span is at most 10% above the minimum, unless spans of less than 1/256 of all bytes would be best. held: the bytes of
// each node's results. Complexity: linear in the graph, times 64.
[[nodiscard]] recomputation with_checkpoints(const tensor::tensor_graph& g, const recomputation& r,
                                             std::span<const bytes> held);

// Keeps every k-th operator, in the order of the graph. Precondition: k is positive; 1 keeps all.
[[nodiscard]] recomputation recomputation_but_every(const tensor::tensor_graph& g, std::size_t k);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RECOMPUTATION)

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>

namespace unity::parallel {

namespace detail {

UNITY_INLINE std::vector<bool> cuts_of(const tensor::tensor_graph& g) {
  std::vector<std::size_t> last(g.node_count());  // last reader, per operator
  for (const auto n : node_ids(g)) {
    for (const auto v : g.operands(n)) {
      last[g.producer(v).index()] = n.index();
    }
  }
  for (const auto v : g.outputs()) {
    last[g.producer(v).index()] = g.node_count();
  }
  std::vector<bool> all(g.node_count());
  std::size_t open = 0;  // last reader of the preceding operators
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      all[n.index()] = open <= n.index();
      open = std::max(open, last[n.index()]);
    }
  }
  return all;
}

// An index along dimensions of two or more operands and of no result: elements are multiplied and summed along it.
UNITY_INLINE bool is_product(const tensor::index_structure& s) {
  const auto has = [&](const tensor::tensor_indices& dims, std::size_t index) {
    return std::any_of(dims.begin(), dims.end(), [&](const tensor::dimension_index& d) {
      const auto is_of = [&](int part) { return part == static_cast<int>(index); };
      return std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end() ||
             (d.window && (is_of(s.windows[*d.window].outer) || is_of(s.windows[*d.window].inner)));
    });
  };
  for (std::size_t i = 0; i < s.indices.size(); ++i) {
    const auto is_along = [&](const tensor::tensor_indices& dims) { return has(dims, i); };
    if (std::count_if(s.operands.begin(), s.operands.end(), is_along) > 1 &&
        std::none_of(s.results.begin(), s.results.end(), is_along)) {
      return true;
    }
  }
  return false;
}

}  // namespace detail

UNITY_INLINE bool can_recompute(const tensor::tensor_graph& g, node_id n) {
  const auto results = g.results(n);
  return !g.operands(n).empty() && std::none_of(g.outputs().begin(), g.outputs().end(), [&](value_id v) {
    return std::find(results.begin(), results.end(), v) != results.end();
  });
}

UNITY_INLINE void check(const tensor::algebra& a, const tensor::tensor_graph& g, const recomputation& r) {
  if (!r.empty() && r.size() != g.node_count()) {
    throw error{"recomputation", fmt::format("of {} nodes", r.size()),
                fmt::format("of the {} that the graph has", g.node_count())};
  }
  for (std::size_t n = 0; n < r.size(); ++n) {
    if (r[n] && !can_recompute(g, node_id{n})) {
      throw error{fmt::format("recomputation, node {} ({})", n, a.signature(g.operation(node_id{n}).kind).name),
                  g.operands(node_id{n}).empty() ? "what has no operands" : "an output of the graph, which is kept",
                  "an operator whose results nobody but operators reads"};
    }
  }
}

UNITY_INLINE recomputation full_recomputation(const tensor::tensor_graph& g) {
  const auto cuts = detail::cuts_of(g);
  std::size_t operators = 0;
  for (const auto n : node_ids(g)) {
    operators += g.operands(n).empty() ? 0 : 1;
  }
  recomputation all(g.node_count());
  std::size_t since = 0;  // operators since the last checkpoint
  for (const auto n : node_ids(g)) {
    since += g.operands(n).empty() ? 0 : 1;
    const bool is_checkpoint = cuts[n.index()] && since * since >= operators;
    since = is_checkpoint ? 0 : since;
    all[n.index()] = !is_checkpoint && can_recompute(g, n);
  }
  return all;
}

UNITY_INLINE recomputation recomputation_between_products(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const graph_dimensions dimensions{a, g};
  recomputation all(g.node_count());
  for (const auto n : node_ids(g)) {
    all[n.index()] = can_recompute(g, n) && !detail::is_product(dimensions[n].structure);
  }
  return all;
}

namespace detail {

// A place where a span may end: a cut, or the end of the graph.
struct checkpoint_place {
  std::size_t node = 0;
  bytes before{};  // that are recomputed from the beginning of the graph up to it, itself not included
  bytes behind{};  // the same with it included
  bytes costs{};   // to keep it
};

// The places to keep with the least sum, so that no span has more bytes than `most`; empty if there are none.
UNITY_INLINE std::vector<std::size_t> checkpoints_of(std::span<const checkpoint_place> places, bytes most) {
  std::vector<bytes> sums;  // by place: of the best choice that ends with it
  std::vector<std::size_t> previous;
  std::deque<std::size_t> window;  // candidates for the previous place, with ascending sums
  for (std::size_t k = 0; k < places.size(); ++k) {
    while (!window.empty() && places[k].before - places[window.front()].behind > most) {
      window.pop_front();
    }
    const bool is_first = places[k].before <= most;  // no place is needed in front of it
    if (!is_first && window.empty()) {
      return {};
    }
    previous.push_back(is_first ? places.size() : window.front());
    sums.push_back(places[k].costs + (is_first ? bytes{} : sums[window.front()]));
    while (!window.empty() && sums[window.back()] >= sums[k]) {
      window.pop_back();
    }
    window.push_back(k);
  }
  std::vector<std::size_t> kept;
  for (auto k = places.size() - 1; k < places.size(); k = previous[k]) {
    kept.push_back(k);
  }
  return kept;
}

}  // namespace detail

UNITY_INLINE recomputation with_checkpoints(const tensor::tensor_graph& g, const recomputation& r,
                                            std::span<const bytes> held) {
  UNITY_EXPECTS(r.size() == g.node_count() && held.size() == g.node_count(), "an entry for each node");
  const auto cuts = detail::cuts_of(g);
  std::vector<detail::checkpoint_place> places;
  bytes all;
  for (std::size_t n = 0; n < r.size(); ++n) {
    const auto own = r[n] ? held[n] : bytes{};
    if (cuts[n]) {
      places.push_back({n, all, all + own, own});
    }
    all += own;
  }
  places.push_back({r.size(), all, all, {}});
  auto best = r;
  auto least = all;
  constexpr int bounds = 64;
  for (int k = 1; k <= bounds; ++k) {
    const bytes most{static_cast<std::int64_t>(static_cast<double>(all.count()) * std::exp2(-k / 8.0))};
    const auto kept = detail::checkpoints_of(places, most);
    auto sum = most;
    auto now = r;
    for (const auto place : kept) {
      sum += places[place].costs;
      if (places[place].node < now.size()) {
        now[places[place].node] = false;
      }
    }
    if (!kept.empty() && sum < least) {
      least = sum;
      best = std::move(now);
    }
  }
  return best;
}

UNITY_INLINE recomputation recomputation_but_every(const tensor::tensor_graph& g, std::size_t k) {
  UNITY_EXPECTS(k > 0, "a positive number");
  recomputation all(g.node_count());
  std::size_t number = 0;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      all[n.index()] = ++number % k != 0 && can_recompute(g, n);
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
