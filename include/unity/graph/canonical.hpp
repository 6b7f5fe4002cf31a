// Fingerprints of graphs up to isomorphism, by which search recognises a state that it reached by another route.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/canonical_mix.hpp>
#include <unity/graph/canonical_refinement.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/flat_graph.hpp>
#include <unity/graph/topological_order.hpp>

namespace unity {

// label(n): 64 bits that are equal for two nodes if and only if they do the same (operator, attributes, result types).
template <class F>
concept node_labelling = std::invocable<F&, node_id> && requires(F& f, node_id n) {
  { f(n) } -> std::convertible_to<std::uint64_t>;
};

// A node predicate that is always false.
struct no_node {
  constexpr bool operator()(node_id) const noexcept { return false; }
};

// Computes canonical fingerprints and keeps its working memory, so that one object per thread serves a whole search
// without allocating.
//
// Two acyclic graphs have the same fingerprint if and only if they are isomorphic: some renaming of nodes preserves
// labels, the numbers of results, operands with their order (for a commutative node: up to order) and the result index
// of each one at its producer, and outputs with their order. Nodes that do not reach an output count too. "If" can fail
// only if exact() is false; "only if" only by a collision of 128-bit hashes.
//
// Complexity: O(N + E) if no two nodes compute the same from the same. Otherwise O(D (N + E) log N), where the number D
// of rounds is at most the number of such nodes and usually two; if rounds cannot distinguish nodes, one more such step
// for each tried member of a group, within the limit.
// Source: Merkle hashing; colour refinement and individualisation as in McKay and Piperno, Practical graph isomorphism
// II, J. Symbolic Computation 60 (2014), with separate canonisation of components of indistinct nodes.
class canonical_hasher {
 public:
  // `effort_limit` bounds the work of trying members for one graph, in visited nodes. Beyond it only the first member
  // of a group is tried: graphs that are not isomorphic still differ, but isomorphic ones may differ too.
  explicit canonical_hasher(std::size_t effort_limit = 65536) : refinement_{effort_limit} {}

  // commutative(n): whether the operands of n may be permuted. Expects an acyclic graph.
  template <dataflow_graph G, node_labelling Label, std::predicate<node_id> Commutative = no_node>
  [[nodiscard]] fingerprint operator()(const G& g, Label&& label, Commutative&& commutative = {}) {
    exact_ = true;
    const fingerprint plain = hash_forward(g, label, commutative);
    if (!find_ambiguous()) {
      return plain;
    }
    flatten(g, commutative);
    const fingerprint refined = refinement_.run(flat_);
    exact_ = refinement_.exact();
    return detail::absorb(plain, refined);
  }

  // Whether the last fingerprint is equal for every isomorphic graph.
  [[nodiscard]] bool exact() const noexcept { return exact_; }

 private:
  template <dataflow_graph G, class Label, class Commutative>
  fingerprint hash_forward(const G& g, Label& label, Commutative& commutative);
  template <dataflow_graph G, class Label, class Commutative>
  fingerprint hash_node(const G& g, node_id n, Label& label, Commutative& commutative) const;
  bool find_ambiguous();
  template <dataflow_graph G, class Commutative>
  void flatten(const G& g, Commutative& commutative);

  detail::flat_graph flat_;
  detail::canonical_refinement refinement_;
  std::vector<fingerprint> value_hash_;
  std::vector<node_id> order_;         // empty if ids are topological
  std::vector<std::uint32_t> place_;   // position of each node in order_
  std::vector<std::uint32_t> table_;   // open addressing: positions of nodes by hash
  std::vector<std::uint32_t> result_;  // index of each value among the results of its producer
  bool exact_ = true;
};

// The fingerprint of one graph; see canonical_hasher, which is faster for many.
template <dataflow_graph G, node_labelling Label, std::predicate<node_id> Commutative = no_node>
[[nodiscard]] fingerprint canonical_fingerprint(const G& g, Label&& label, Commutative&& commutative = {}) {
  return canonical_hasher{}(g, label, commutative);
}

// The hash of the whole computation of n: its label and the hashes of its operands.
template <dataflow_graph G, class Label, class Commutative>
fingerprint canonical_hasher::hash_node(const G& g, node_id n, Label& label, Commutative& commutative) const {
  auto&& results = graph_traits<G>::results(g, n);
  const auto result_count = static_cast<std::uint64_t>(std::ranges::distance(results));
  fingerprint h = detail::seed_hash(static_cast<std::uint64_t>(label(n)), result_count);
  std::uint64_t count = 0;
  if (commutative(n)) {
    fingerprint sum;
    for (const value_id v : graph_traits<G>::operands(g, n)) {
      sum += value_hash_[v.index()];
      ++count;
    }
    h = detail::absorb(h, sum);
  } else {
    for (const value_id v : graph_traits<G>::operands(g, n)) {
      h = detail::absorb(h, value_hash_[v.index()]);
      ++count;
    }
  }
  return detail::finish(h, count);
}

// Fills flat_.colour, in topological order, and value_hash_. The result distinguishes graphs without ambiguous nodes:
// their node hashes identify the operands, so the set of them determines the graph.
template <dataflow_graph G, class Label, class Commutative>
fingerprint canonical_hasher::hash_forward(const G& g, Label& label, Commutative& commutative) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  order_.clear();
  if (!ids_are_topological(g)) {
    auto order = topological_order(g);
    UNITY_EXPECTS(order.has_value(), "an acyclic graph");
    order_ = std::move(*order);
  }
  flat_.colour.resize(nodes);
  value_hash_.resize(graph_traits<G>::value_count(g));
  fingerprint total;
  for (std::size_t i = 0; i < nodes; ++i) {
    const node_id n = order_.empty() ? node_id{i} : order_[i];
    const fingerprint h = hash_node(g, n, label, commutative);
    flat_.colour[i] = h;
    total += detail::absorb(detail::set_seed, h);
    std::uint32_t result = 0;
    for (const value_id v : graph_traits<G>::results(g, n)) {
      value_hash_[v.index()] = detail::result_hash(h, result++);
    }
  }
  fingerprint outputs = detail::seed_hash(nodes, 0);
  std::uint64_t count = 0;
  for (const value_id v : graph_traits<G>::outputs(g)) {
    outputs = detail::absorb(outputs, value_hash_[v.index()]);
    ++count;
  }
  return detail::absorb(detail::finish(outputs, count), total);
}

// Marks the nodes whose hash another node shares. Complexity: O(N) expected.
inline bool canonical_hasher::find_ambiguous() {
  const auto& hashes = flat_.colour;
  const std::size_t slots = std::bit_ceil(2 * hashes.size() + 1);
  constexpr auto empty = static_cast<std::uint32_t>(-1);
  table_.assign(slots, empty);
  flat_.ambiguous.clear();
  for (std::uint32_t i = 0; i < hashes.size(); ++i) {
    auto slot = hashes[i].low & (slots - 1);
    while (table_[slot] != empty && hashes[table_[slot]] != hashes[i]) {
      slot = (slot + 1) & (slots - 1);
    }
    if (table_[slot] == empty) {
      table_[slot] = i;
    } else {
      flat_.ambiguous.resize(hashes.size(), 0);
      flat_.ambiguous[i] = flat_.ambiguous[table_[slot]] = 1;
    }
  }
  return !flat_.ambiguous.empty();
}

// Writes the graph as flat arrays over positions in topological order, and marks producers of outputs in their colours.
template <dataflow_graph G, class Commutative>
void canonical_hasher::flatten(const G& g, Commutative& commutative) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  place_.resize(nodes);
  result_.resize(graph_traits<G>::value_count(g));
  flat_.start(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const node_id n = order_.empty() ? node_id{i} : order_[i];
    place_[n.index()] = i;
    std::uint32_t result = 0;
    for (const value_id v : graph_traits<G>::results(g, n)) {
      result_[v.index()] = result++;
    }
    for (const value_id v : graph_traits<G>::operands(g, n)) {
      flat_.add_operand(place_[graph_traits<G>::producer(g, v).index()], result_[v.index()]);
    }
    flat_.close_node(commutative(n));
  }
  flat_.collect_uses();
  std::uint64_t position = 0;
  for (const value_id v : graph_traits<G>::outputs(g)) {
    flat_.mark_output(place_[graph_traits<G>::producer(g, v).index()], result_[v.index()], position++);
  }
}

}  // namespace unity
