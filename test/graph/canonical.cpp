// Two graphs have equal fingerprints if and only if they are isomorphic: checked against a search for an isomorphism.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/canonical.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>

#include "../support/cases.hpp"
#include "random_graph.hpp"

namespace tests_of_canonical {

using namespace unity;

namespace {

// Odd operators are commutative.
bool is_commutative(int operation) { return operation % 2 != 0; }

template <class G>
int operation_number(const G& g, node_id n) {
  if constexpr (std::is_same_v<G, test::plain_boost_graph>) {
    return graph_traits<G>::operation(g, n).kind;
  } else {
    return graph_traits<G>::operation(g, n);
  }
}

template <class G>
fingerprint fingerprint_of(const G& g, canonical_hasher& hasher) {
  return hasher(
      g, [&g](node_id n) { return static_cast<std::uint64_t>(operation_number(g, n)); },
      [&g](node_id n) { return is_commutative(operation_number(g, n)); });
}

template <class G>
fingerprint fingerprint_of(const G& g) {
  canonical_hasher hasher;
  const auto f = fingerprint_of(g, hasher);
  REQUIRE(hasher.exact());
  return f;
}

// Searches for an isomorphism by backtracking: assigns each node of `a`, producers first, to every node of `b`.
class isomorphism_search {
 public:
  isomorphism_search(const test::loose_graph& a, const test::loose_graph& b)
      : a_{a}, b_{b}, order_{*topological_order(a)}, image_(a.node_count()), taken_(b.node_count(), 0) {}

  bool succeeds() {
    return a_.node_count() == b_.node_count() && a_.value_count() == b_.value_count() &&
           a_.outputs().size() == b_.outputs().size() && assign(0);
  }

 private:
  // A value as its producer and its position among the producer's results.
  using place = std::pair<node_id, std::size_t>;

  static place place_of(const test::loose_graph& g, value_id v) {
    const auto& results = g.results(g.producer(v));
    return {g.producer(v), static_cast<std::size_t>(std::ranges::find(results, v) - results.begin())};
  }
  place image_of(value_id v) const {
    const auto [producer, result] = place_of(a_, v);
    return {image_[producer.index()], result};
  }
  bool alike(node_id n, node_id m) const {
    if (a_.operation(n) != b_.operation(m) || a_.results(n).size() != b_.results(m).size()) {
      return false;
    }
    std::vector<place> expected;
    for (const value_id v : a_.operands(n)) {
      expected.push_back(image_of(v));
    }
    std::vector<place> found;
    for (const value_id v : b_.operands(m)) {
      found.push_back(place_of(b_, v));
    }
    if (is_commutative(a_.operation(n))) {
      std::ranges::sort(expected);
      std::ranges::sort(found);
    }
    return expected == found;
  }
  // Whether n and m define the same outputs with the same results.
  bool outputs_agree(node_id n, node_id m) const {
    for (std::size_t i = 0; i < a_.outputs().size(); ++i) {
      const auto [p, result] = place_of(a_, a_.outputs()[i]);
      const auto [q, other] = place_of(b_, b_.outputs()[i]);
      if ((p == n) != (q == m) || (p == n && result != other)) {
        return false;
      }
    }
    return true;
  }
  bool assign(std::size_t i) {
    if (i == order_.size()) {
      return true;
    }
    const node_id n = order_[i];
    for (std::size_t m = 0; m < taken_.size(); ++m) {
      if (taken_[m] == 0 && alike(n, node_id{m}) && outputs_agree(n, node_id{m})) {
        taken_[m] = 1;
        image_[n.index()] = node_id{m};
        if (assign(i + 1)) {
          return true;
        }
        taken_[m] = 0;
      }
    }
    return false;
  }

  const test::loose_graph& a_;
  const test::loose_graph& b_;
  std::vector<node_id> order_;
  std::vector<node_id> image_;
  std::vector<char> taken_;
};

bool isomorphic(const test::loose_graph& a, const test::loose_graph& b) { return isomorphism_search{a, b}.succeeds(); }

test::loose_graph as_loose(const test::number_graph& g) {
  test::loose_graph loose;
  for (const auto n : node_ids(g)) {
    const auto operands = g.operands(n);
    const auto results = g.results(n);
    loose.nodes.push_back({g.operation(n), {operands.begin(), operands.end()}, {results.begin(), results.end()}});
    loose.producers.insert(loose.producers.end(), results.size(), n);
    loose.types.insert(loose.types.end(), results.size(), 0);
  }
  loose.output_values.assign(g.outputs().begin(), g.outputs().end());
  return loose;
}

void shuffle(std::vector<value_id>& values, random_engine& rng) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    std::swap(values[i], values[rng.below(i + 1)]);
  }
}

// The same graph with permuted ids and with the operands of commutative operators shuffled.
template <class G>
test::loose_graph disguised(const G& g, random_engine& rng) {
  auto r = test::relabelled(g, rng);
  for (auto& node : r.nodes) {
    if (is_commutative(node.operation)) {
      shuffle(node.operands, rng);
    }
  }
  return r;
}

// Makes one random change; the result may still be isomorphic, or cyclic.
void disturb(test::loose_graph& g, random_engine& rng) {
  auto& node = g.nodes[rng.below(g.nodes.size())];
  auto& other = g.nodes[rng.below(g.nodes.size())];
  const auto any_value = [&] { return value_id{rng.below(g.value_count())}; };
  switch (rng.below(6)) {
    case 0: node.operation = static_cast<int>(rng.below(3)); break;
    case 1:
      if (!g.output_values.empty()) {
        g.output_values[rng.below(g.output_values.size())] = any_value();
      }
      break;
    case 2: std::swap(node.operation, other.operation); break;
    case 3: shuffle(node.operands, rng); break;
    case 4:
      if (!node.operands.empty() && !other.operands.empty()) {
        auto& operand = node.operands[rng.below(node.operands.size())];
        std::swap(operand, other.operands[rng.below(other.operands.size())]);
      }
      break;
    default:
      if (!node.operands.empty()) {
        node.operands[rng.below(node.operands.size())] = any_value();
      }
  }
}

// A graph that is one random change away from g and not isomorphic to it; a copy of g if 50 attempts find none.
test::loose_graph near_miss(const test::loose_graph& g, random_engine& rng) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    auto changed = g;
    disturb(changed, rng);
    if (topological_order(changed) && !isomorphic(g, changed)) {
      return changed;
    }
  }
  return g;
}

// An undirected or directed graph as a dataflow graph: equal sources for its vertices, an operator for each edge, and a
// commutative operator that reads all edges. Regular graphs are the hardest case for colour refinement.
test::number_graph pairs_graph(const std::vector<std::pair<std::size_t, std::size_t>>& pairs, std::size_t points,
                               int pair_operation) {
  test::number_graph g;
  std::vector<value_id> sources;
  std::vector<value_id> all;
  const auto add = [&g](int operation, std::span<const value_id> operands) {
    return g.results(g.add_node(operation, operands, std::array{0})).front();
  };
  for (std::size_t i = 0; i < points; ++i) {
    sources.push_back(add(0, {}));
    for (const auto& [a, b] : pairs) {
      if (std::max(a, b) == i) {
        all.push_back(add(pair_operation, std::array{sources[a], sources[b]}));
      }
    }
  }
  g.set_outputs(std::array{add(3, all)});
  return g;
}

// The edges of a regular graph: a ring in which each vertex is linked to the next two, then random exchanges of ends.
std::vector<std::pair<std::size_t, std::size_t>> regular_pairs(random_engine& rng, std::size_t points,
                                                               std::size_t exchanges) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < points; ++i) {
    pairs.emplace_back(i, (i + 1) % points);
    pairs.emplace_back(i, (i + 2) % points);
  }
  for (; exchanges > 0; --exchanges) {
    auto& [a, b] = pairs[rng.below(pairs.size())];
    auto& [c, d] = pairs[rng.below(pairs.size())];
    if (a != d && c != b) {
      std::swap(b, d);
    }
  }
  return pairs;
}

}  // namespace

static_assert(node_labelling<std::uint64_t (*)(node_id)>);
static_assert(!node_labelling<std::uint64_t (*)(value_id)>);  // near miss: labels values, not nodes
static_assert(!node_labelling<std::string (*)(node_id)>);     // near miss: the label is not a number

TEST_CASE("canonical fingerprints are equal exactly for isomorphic graphs among random pairs") {
  std::uint64_t alike = 0;
  std::uint64_t different = 0;
  canonical_hasher hasher;
  for (std::uint64_t seed = 0; seed < test::cases(100'000); ++seed) {
    random_engine rng{seed};
    auto shape = test::random_shape(rng, 12);
    shape.nodes = 1 + rng.below(12);
    shape.labels = 1 + rng.below(3);
    const auto g = as_loose(test::random_graph(rng, shape));
    auto h = seed % 2 == 0 ? g : near_miss(g, rng);
    h = disguised(h, rng);
    const bool expected = isomorphic(g, h);
    const bool found = fingerprint_of(g, hasher) == fingerprint_of(h, hasher);
    (expected ? alike : different)++;
    if (found != expected || !hasher.exact() || (seed % 2 == 0 && !expected)) {
      CAPTURE(seed, expected, found);
      FAIL("the fingerprint and the search disagree");
    }
  }
  CHECK(alike >= test::cases(50'000));
  CHECK(different > test::cases(49'000));
}

TEST_CASE("canonical fingerprints agree with isomorphism on regular graphs") {
  std::uint64_t alike = 0;
  std::uint64_t different = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(600); ++seed) {
    random_engine rng{seed};
    const std::size_t points = 5 + rng.below(4);
    const int pair_operation = rng.below(2) == 0 ? 1 : 2;  // 1 is commutative: unordered pairs; 2: ordered pairs
    const auto pairs = regular_pairs(rng, points, seed % 5);
    auto others = pairs;
    if (seed % 2 != 0) {
      others = regular_pairs(rng, points, seed % 5);
    }
    const auto g = as_loose(pairs_graph(pairs, points, pair_operation));
    const auto h = disguised(pairs_graph(others, points, pair_operation), rng);
    const bool expected = isomorphic(g, h);
    CAPTURE(seed, points, expected);
    REQUIRE((fingerprint_of(g) == fingerprint_of(h)) == expected);
    (expected ? alike : different)++;
  }
  CHECK(alike > unity::test::cases(300));
  CHECK(different > unity::test::cases(100));
}

TEST_CASE("canonical fingerprints distinguish two triangles from a hexagon of equal nodes") {
  // Equal sources a0, a1 and f(a0), f(a1). Without twist: h(f(a), a) of each; with it, the sources are exchanged.
  const auto make = [](std::size_t twist) {
    test::number_graph g;
    for (std::uint32_t i = 0; i < 2; ++i) {
      g.add_node(0, {}, std::array{0});
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      g.add_node(2, std::array{value_id{i}}, std::array{0});
    }
    for (std::size_t i = 0; i < 2; ++i) {
      g.add_node(4, std::array{value_id{2 + i}, value_id{(i + twist) % 2}}, std::array{0});
    }
    g.add_node(1, std::array{value_id{4U}, value_id{5U}}, std::array{0});
    g.set_outputs(std::array{value_id{6U}});
    return g;
  };
  CHECK(fingerprint_of(make(0)) != fingerprint_of(make(1)));
  random_engine rng{5};
  CHECK(fingerprint_of(make(0)) == fingerprint_of(disguised(make(0), rng)));
  CHECK(fingerprint_of(make(1)) == fingerprint_of(disguised(make(1), rng)));
}

TEST_CASE("canonical fingerprints depend on which results a commutative node reads") {
  // Two equal sources with two results each; each reader takes the first result of one and the second of the other.
  const auto make = [](std::uint32_t second_reader) {
    test::number_graph g;
    g.add_node(0, {}, std::array{0, 0});
    g.add_node(0, {}, std::array{0, 0});
    g.add_node(1, std::array{value_id{0U}, value_id{3U}}, std::array{0});
    g.add_node(3, std::array{value_id{second_reader}, value_id{3 - second_reader}}, std::array{0});
    return as_loose(g);
  };
  CHECK(!isomorphic(make(0), make(2)));
  CHECK(fingerprint_of(make(0)) != fingerprint_of(make(2)));
  CHECK(isomorphic(make(0), make(3)));
  CHECK(fingerprint_of(make(0)) == fingerprint_of(make(3)));
}

TEST_CASE("canonical fingerprints are the same for each representation of a graph") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, seed % 10 == 0 ? 400 : 30));
  const auto expected = fingerprint_of(g);
  test::in_every_form(g, rng, [&](const auto& form) { REQUIRE(fingerprint_of(form) == expected); });
}

TEST_CASE("a truncated canonical search gives non-isomorphic graphs different fingerprints") {
  canonical_hasher hasher{0};
  std::uint64_t cut_short = 0;
  std::uint64_t different = 0;
  for (std::uint64_t seed = 0; seed < test::cases(3000); ++seed) {
    random_engine rng{seed};
    const std::size_t points = 5 + rng.below(3);
    const auto g = as_loose(pairs_graph(regular_pairs(rng, points, 0), points, 1));
    const auto h = disguised(pairs_graph(regular_pairs(rng, points, 3), points, 1), rng);
    const auto f = fingerprint_of(g, hasher);
    cut_short += hasher.exact() ? 0 : 1;
    if (f == fingerprint_of(h, hasher)) {
      CAPTURE(seed);
      REQUIRE(isomorphic(g, h));
    } else {
      ++different;
    }
  }
  CHECK(cut_short == test::cases(3000));
  CHECK(different > test::cases(1000));
}

TEST_CASE("canonical fingerprints depend on labels and operand order and outputs and dead nodes") {
  const auto base = [] {
    test::number_graph g;
    g.add_node(0, {}, std::array{0, 0});
    g.add_node(2, std::array{value_id{0U}, value_id{1U}}, std::array{0});
    g.add_node(4, {}, std::array{0});
    g.set_outputs(std::array{value_id{2U}, value_id{0U}});
    return as_loose(g);
  };
  std::vector<test::loose_graph> graphs(8, base());
  graphs[1].nodes[1].operation = 4;
  graphs[2].nodes[1].operands = {value_id{1U}, value_id{0U}};
  graphs[3].nodes[1].operands = {value_id{0U}, value_id{0U}};
  graphs[4].output_values = {value_id{0U}, value_id{2U}};
  graphs[5].output_values = {value_id{2U}, value_id{1U}};
  graphs[6].nodes[2].operation = 6;  // reaches no output
  graphs[7].output_values = {value_id{2U}, value_id{0U}, value_id{0U}};
  std::set<fingerprint> distinct;
  for (const auto& g : graphs) {
    distinct.insert(fingerprint_of(g));
  }
  CHECK(distinct.size() == graphs.size());
  graphs[1].nodes[1].operation = 1;  // commutative
  graphs[2].nodes[1].operation = 1;
  CHECK(fingerprint_of(graphs[1]) == fingerprint_of(graphs[2]));
}

TEST_CASE("canonical fingerprints distinguish graphs of many nearly equal branches") {
  // `count` chains of equal nodes that end in one commutative node; the first `longer` chains are longer.
  const auto chains = [](std::size_t count, std::size_t longer) {
    test::number_graph g;
    std::vector<value_id> ends;
    for (std::size_t i = 0; i < count; ++i) {
      auto v = g.results(g.add_node(0, {}, std::array{0})).front();
      for (std::size_t j = 0; j < (i < longer ? 6U : 5U); ++j) {
        v = g.results(g.add_node(2, std::array{v}, std::array{0})).front();
      }
      ends.push_back(v);
    }
    const auto sum = g.add_node(1, ends, std::array{0});
    g.set_outputs(g.results(sum));
    return g;
  };
  std::set<fingerprint> distinct;
  random_engine rng{11};
  for (std::size_t longer = 0; longer <= 40; ++longer) {
    const auto f = fingerprint_of(chains(40, longer));
    REQUIRE(f == fingerprint_of(disguised(chains(40, longer), rng)));
    distinct.insert(f);
  }
  CHECK(distinct.size() == 41);
}

TEST_CASE("canonical_fingerprint agrees with a reused canonical_hasher") {
  canonical_hasher hasher;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 40));
    const auto label = [&g](node_id n) { return static_cast<std::uint64_t>(g.operation(n)); };
    REQUIRE(hasher(g, label) == canonical_fingerprint(g, label));
  }
}

}  // namespace tests_of_canonical
