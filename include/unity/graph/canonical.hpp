// Fingerprints of graphs up to isomorphism, for tests. Searches use those of rewrite/state_view.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/flat_graph.hpp>
#include <unity/graph/topological_order.hpp>

namespace unity::detail {

// Distinguishes nodes whose computations are equal, by what reads their results.

// Refines the colours of ambiguous nodes until they are distinguished as far as isomorphism allows.
class canonical_refinement {
 public:
  explicit canonical_refinement(std::size_t effort_limit) : effort_limit_{effort_limit} {}

  // The hash of the ambiguous nodes and their connections. Effects: changes the colours.
  [[nodiscard]] fingerprint run(flat_graph& g);
  [[nodiscard]] bool exact() const noexcept { return exact_; }

 private:
  using place = flat_graph::place;
  using places = std::vector<place>;
  using place_span = std::span<const place>;

  [[nodiscard]] fingerprint certificate(place_span nodes);
  [[nodiscard]] fingerprint component_certificate(place_span component);
  [[nodiscard]] fingerprint least_choice(place_span component, place_span choices);
  [[nodiscard]] places refine(place_span nodes);
  [[nodiscard]] std::vector<std::size_t> gather_components(places& nodes);
  [[nodiscard]] place leader(place n);

  void spend(std::size_t effort);
  void sweep_backward(place_span nodes);
  void sweep_forward(place_span nodes);
  void sort_by_colour(place_span nodes);
  [[nodiscard]] std::size_t sorted_run(std::size_t begin) const;
  [[nodiscard]] std::size_t count_colours(place_span nodes);
  void drop_singles(places& nodes);

  flat_graph* graph_ = nullptr;
  std::size_t effort_limit_;
  std::size_t effort_left_ = 0;
  std::size_t depth_ = 0;  // choices made above
  bool exact_ = true;
  std::vector<std::pair<fingerprint, place>> sorted_{};
  std::vector<char> single_{};
  std::vector<std::uint32_t> leader_{};  // by position, in the union-find forest of components
  std::vector<std::uint32_t> epoch_{};   // the call of components() that last set leader_
  std::uint32_t now_ = 0;
};

inline fingerprint canonical_refinement::run(flat_graph& g) {
  graph_ = &g;
  effort_left_ = effort_limit_;
  depth_ = 0;
  exact_ = true;
  single_.assign(g.colour.size(), 0);
  leader_.resize(g.colour.size());
  epoch_.assign(g.colour.size(), 0);
  now_ = 0;
  places nodes;
  for (place n = 0; n < g.ambiguous.size(); ++n) {
    if (g.ambiguous[n] != 0) {
      nodes.push_back(n);
    }
  }
  return certificate(nodes);
}

// Nodes with a unique colour are identified by it. Two others that differ only in their connections to each other are
// connected within one component, so components can be processed one by one.
inline fingerprint canonical_refinement::certificate(place_span nodes) {
  places rest = refine(nodes);
  fingerprint sum;
  auto next = rest.begin();
  for (const place n : nodes) {
    if (next != rest.end() && *next == n) {
      ++next;
    } else {
      sum += absorb(set_seed, graph_->colour[n]);
    }
  }
  const auto ends = gather_components(rest);
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    sum += component_certificate(place_span{rest}.subspan(begin, end - begin));
    begin = end;
  }
  return sum;
}

// If all colours in a component differ, a colour identifies a node. Otherwise individualizes each node of a smallest
// group in turn, and takes the least certificate, which does not depend on ids.
inline fingerprint canonical_refinement::component_certificate(place_span component) {
  sort_by_colour(component);
  fingerprint sum;
  std::size_t smallest = 0;
  std::size_t smallest_size = component.size() + 1;
  for (std::size_t i = 0; i < sorted_.size();) {
    const std::size_t size = sorted_run(i);
    if (size > 1 && size < smallest_size) {
      smallest = i;
      smallest_size = size;
    }
    for (const std::size_t end = i + size; i < end; ++i) {
      sum += absorb(set_seed, sorted_[i].first);
    }
  }
  if (smallest_size <= component.size()) {
    places choices;
    for (std::size_t i = smallest; i < smallest + smallest_size; ++i) {
      choices.push_back(sorted_[i].second);
    }
    sum = absorb(chosen_seed, least_choice(component, choices));
  }
  return finish(absorb(component_seed, sum), component.size());
}

inline fingerprint canonical_refinement::least_choice(place_span component, place_span choices) {
  std::vector<fingerprint> before;
  before.reserve(component.size());
  for (const place n : component) {
    before.push_back(graph_->colour[n]);
  }
  std::optional<fingerprint> least;
  for (const place choice : choices) {
    if (least && !exact_) {
      break;
    }
    graph_->colour[choice] = absorb(chosen_seed, graph_->colour[choice]);
    ++depth_;
    const fingerprint found = certificate(component);
    --depth_;
    least = least ? std::min(*least, found) : found;
    for (std::size_t i = 0; i < component.size(); ++i) {
      graph_->colour[component[i]] = before[i];
    }
  }
  return *least;
}

// Repeats rounds over the nodes until no round distinguishes more of them. A node with a unique colour keeps it: its
// connections were included in that round. Returns the nodes that still share a colour, ascending.
inline canonical_refinement::places canonical_refinement::refine(place_span nodes) {
  places active{nodes.begin(), nodes.end()};
  std::size_t told_apart = count_colours(active);
  while (!active.empty()) {
    spend(active.size());
    sweep_backward(active);
    sweep_forward(active);
    const std::size_t frozen = nodes.size() - active.size();
    const std::size_t now = frozen + count_colours(active);
    drop_singles(active);
    if (now == told_apart) {
      break;
    }
    told_apart = now;
  }
  return active;
}

// Only choices are cut short. Their number does not depend on ids, so neither does whether any is cut short.
inline void canonical_refinement::spend(std::size_t effort) {
  exact_ = exact_ && (depth_ == 0 || effort <= effort_left_);
  effort_left_ -= depth_ == 0 ? 0 : std::min(effort, effort_left_);
}

inline void canonical_refinement::sweep_backward(place_span nodes) {
  auto& g = *graph_;
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    fingerprint sum;
    for (auto i = g.first_reader[*n]; i < g.first_reader[*n + std::size_t{1}]; ++i) {
      const auto& [user, tag] = g.readers[i];
      sum += absorb({use_seed.low ^ tag, use_seed.high}, g.colour[user]);
    }
    g.colour[*n] = finish(absorb(g.colour[*n], sum), 1);
  }
}

inline void canonical_refinement::sweep_forward(place_span nodes) {
  auto& g = *graph_;
  for (const place n : nodes) {
    fingerprint h = g.colour[n];
    fingerprint sum;
    for (auto i = g.first_operand[n]; i < g.first_operand[n + std::size_t{1}]; ++i) {
      const auto operand = result_hash(g.colour[g.operands[i].producer], g.operands[i].result);
      if (g.commutative[n] != 0) {
        sum += operand;
      } else {
        h = absorb(h, operand);
      }
    }
    g.colour[n] = finish(absorb(h, sum), 2);
  }
}

inline void canonical_refinement::sort_by_colour(place_span nodes) {
  sorted_.clear();
  for (const place n : nodes) {
    sorted_.emplace_back(graph_->colour[n], n);
  }
  std::ranges::sort(sorted_);
}

// The number of equal colours in sorted_ from `begin` on.
inline std::size_t canonical_refinement::sorted_run(std::size_t begin) const {
  std::size_t end = begin;
  while (end < sorted_.size() && sorted_[end].first == sorted_[begin].first) {
    ++end;
  }
  return end - begin;
}

inline std::size_t canonical_refinement::count_colours(place_span nodes) {
  sort_by_colour(nodes);
  std::size_t colours = 0;
  for (std::size_t i = 0; i < sorted_.size(); i += sorted_run(i)) {
    ++colours;
  }
  return colours;
}

// Expects sorted_ to hold the nodes.
inline void canonical_refinement::drop_singles(places& nodes) {
  for (std::size_t i = 0; i < sorted_.size();) {
    const std::size_t size = sorted_run(i);
    for (const std::size_t end = i + size; i < end; ++i) {
      single_[sorted_[i].second] = static_cast<char>(size == 1);
    }
  }
  std::erase_if(nodes, [this](place n) { return single_[n] != 0; });
}

inline canonical_refinement::place canonical_refinement::leader(place n) {
  while (leader_[n] != n) {
    n = leader_[n] = leader_[leader_[n]];
  }
  return n;
}

// Reorders the nodes so that those connected by uses among them are contiguous, each group ascending; returns the ends
// of the groups.
inline std::vector<std::size_t> canonical_refinement::gather_components(places& nodes) {
  ++now_;
  for (const place n : nodes) {
    epoch_[n] = now_;
    leader_[n] = n;
  }
  for (const place n : nodes) {
    for (auto i = graph_->first_operand[n]; i < graph_->first_operand[n + std::size_t{1}]; ++i) {
      const place p = graph_->operands[i].producer;
      if (epoch_[p] == now_) {
        const place a = leader(p);
        const place b = leader(n);
        leader_[std::max(a, b)] = std::min(a, b);
      }
    }
  }
  const auto by_leader = [this](place n) { return std::pair{leader(n), n}; };
  std::ranges::sort(nodes, {}, by_leader);
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= nodes.size(); ++i) {
    if (i == nodes.size() || leader(nodes[i]) != leader(nodes[i - 1])) {
      ends.push_back(i);
    }
  }
  return ends;
}

}  // namespace unity::detail

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
// Complexity: O(N + E) if no two nodes have equal computations (equal operators on equally computed operands).
// Otherwise O(D (N + E) log N), where the number D of rounds is at most the number of such nodes and usually two; if
// rounds cannot distinguish nodes, one more such step for each tried member of a group, within the limit.
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
