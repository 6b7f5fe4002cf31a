// Distinguishes nodes that compute the same from the same, for canonical.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/graph/canonical_mix.hpp>
#include <unity/graph/flat_graph.hpp>

namespace unity::detail {

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
