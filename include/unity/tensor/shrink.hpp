// Shrinks the sizes of two graphs, so that they can be evaluated and compared in a moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/detail/size_choice.hpp>
#include <unity/tensor/detail/size_classes.hpp>
#include <unity/tensor/detail/size_relations.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Which sizes stay although smaller ones are valid.
enum class shrink_care : std::uint8_t {
  none,
  numbers,    // sizes from which the value of a fill may be computed: 1 / 768, 1 / sqrt(64)
  structure,  // also sizes of values that are split, joined, or reshaped to other sizes
};

struct shrink_options {
  // No size becomes smaller than this; at least 2, because tensors of size 1 broadcast.
  std::int64_t least = 2;
  shrink_care care = shrink_care::none;
  // Whether the sizes of a source must stay, because it has data; called with its name.
  std::function<bool(std::string_view)> keeps{};
  // By graph (0: the first), value and dimension: if the size changes, it stays a multiple of this number.
  std::function<std::int64_t(std::size_t, value_id, std::size_t)> multiple{};
  // By graph and node: whether the operator is acceptable on smaller operands; if not, the sizes of the node stay.
  std::function<bool(std::size_t, node_id, const operation&, std::span<const tensor_type>)> accepts{};
};

// Nodes, values and outputs keep the numbers of the given graphs.
struct shrunk_graphs {
  tensor_graph first{};
  tensor_graph second{};
  std::string sizes{};        // in one line: the dimensions of the inputs before and after
  std::int64_t elements = 0;  // in all values of both graphs
};

namespace detail {

// The graph with the chosen sizes, or the first node whose results do not get the chosen sizes.
struct resized_graph {
  tensor_graph graph{};
  std::optional<node_id> failed{};
};

class graph_resizer {
 public:
  using node_predicate = std::function<bool(node_id, const operation&, std::span<const tensor_type>)>;

  graph_resizer(const algebra& a, const tensor_graph& g, const graph_sizes& numbers, const size_classes& classes,
                std::span<const std::int64_t> chosen, const node_predicate& accepts)
      : algebra_{a}, graph_{g}, numbers_{numbers}, classes_{classes}, chosen_{chosen}, accepts_{accepts} {}

  [[nodiscard]] resized_graph run();

 private:
  [[nodiscard]] static std::vector<tensor_type> types_of(const tensor_graph& g, std::span<const value_id> values);
  [[nodiscard]] std::int64_t size_of(std::size_t number) const {
    return number == size_none ? 0 : chosen_[classes_.find(number)];
  }
  [[nodiscard]] std::vector<shape> dims_of(std::span<const value_id> values) const;
  [[nodiscard]] shape sizes_of(const size_numbers& own, std::size_t half) const;
  [[nodiscard]] static bool fit(std::vector<tensor_type> results, const std::vector<tensor_type>& before,
                                const std::vector<shape>& dims);

  const algebra& algebra_;
  const tensor_graph& graph_;
  const graph_sizes& numbers_;
  const size_classes& classes_;
  std::span<const std::int64_t> chosen_;
  const node_predicate& accepts_;
};

class shrinker {
 public:
  shrinker(const algebra& a, const tensor_graph& first, const tensor_graph& second, const shrink_options& o);

  [[nodiscard]] shrunk_graphs run();

 private:
  // By size number.
  [[nodiscard]] std::vector<std::int64_t> multiples() const;
  void unite_outputs();

  // The whole numbers from which values of fills may have been computed.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  void fix_counted();
  void fix_related();

  // Returns whether a size is newly kept.
  bool keep_sizes(size_choice& choice, std::size_t graph, node_id n);

  [[nodiscard]] static std::int64_t elements_of(const tensor_graph& g);
  [[nodiscard]] shrunk_graphs describe(tensor_graph first, tensor_graph second) const;

  const algebra& algebra_;
  const tensor_graph* graphs_[2];
  const shrink_options& options_;
  size_relations relations_;
  std::vector<graph_sizes> numbers_;
};

}  // namespace detail

// Both graphs with the smallest sizes that all their operators allow, and matching attributes. A size that both graphs
// share stays shared; sizes that differ stay different if small numbers suffice. Sources with equal names are the same
// source. Sizes without a valid smaller one stay; if no choice is valid, all sizes stay.
// Complexity: about linear in nodes for graphs that are trained in practice; evaluates nothing.
[[nodiscard]] inline shrunk_graphs shrink(const algebra& a, const tensor_graph& first, const tensor_graph& second,
                                          const shrink_options& options = {}) {
  UNITY_EXPECTS(options.least >= 2, "a least size of 2 or more");
  return detail::shrinker{a, first, second, options}.run();
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SHRINK)

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace unity::tensor::detail {

UNITY_INLINE resized_graph graph_resizer::run() {
  resized_graph out;
  for (const auto n : node_ids(graph_)) {
    const auto types = types_of(graph_, graph_.operands(n));
    const auto before = types_of(graph_, graph_.results(n));
    resizing r{graph_.operation(n),
               types,
               before,
               dims_of(graph_.operands(n)),
               dims_of(graph_.results(n)),
               sizes_of(numbers_.own[n.index()], 0),
               sizes_of(numbers_.own[n.index()], 1)};
    const auto op = resized(algebra_, r);
    const auto operands = types_of(out.graph, graph_.operands(n));
    const auto results = algebra_.infer(op, operands);
    if (!results || !fit(*results, before, r.new_outputs) || (accepts_ && !accepts_(n, op, operands))) {
      out.failed = n;
      return out;
    }
    out.graph.add_node(op, graph_.operands(n), *results);
  }
  out.graph.set_outputs(graph_.outputs());
  return out;
}

UNITY_INLINE std::vector<tensor_type> graph_resizer::types_of(const tensor_graph& g, std::span<const value_id> values) {
  std::vector<tensor_type> types;
  for (const auto v : values) {
    types.push_back(g.type(v));
  }
  return types;
}

UNITY_INLINE std::vector<shape> graph_resizer::dims_of(std::span<const value_id> values) const {
  std::vector<shape> all;
  for (const auto v : values) {
    auto& dims = all.emplace_back();
    for (const auto n : numbers_.dims[v.index()]) {
      dims.push_back(size_of(n));
    }
  }
  return all;
}

UNITY_INLINE shape graph_resizer::sizes_of(const size_numbers& own, std::size_t half) const {
  shape sizes;
  for (auto i = half * own.size() / 2; i < (half + 1) * own.size() / 2; ++i) {
    sizes.push_back(size_of(own[i]));
  }
  return sizes;
}

UNITY_INLINE bool graph_resizer::fit(std::vector<tensor_type> results, const std::vector<tensor_type>& before,
                                     const std::vector<shape>& dims) {
  bool fit = results.size() == before.size();
  for (std::size_t i = 0; fit && i < results.size(); ++i) {
    fit = results[i].dims == dims[i];
    results[i].dims = before[i].dims;
  }
  return fit && results == before;
}

UNITY_INLINE shrinker::shrinker(const algebra& a, const tensor_graph& first, const tensor_graph& second,
                                const shrink_options& o)
    : algebra_{a}, graphs_{&first, &second}, options_{o}, relations_{a} {
  for (const auto* g : graphs_) {
    numbers_.push_back(relations_.read(*g, o.keeps));
  }
  unite_outputs();
  relations_.settle();
  if (o.care != shrink_care::none) {
    fix_counted();
  }
  if (o.care == shrink_care::structure) {
    fix_related();
  }
}

UNITY_INLINE shrunk_graphs shrinker::run() {
  size_choice choice{relations_.classes, relations_.functions(), options_.least, multiples()};
  while (true) {
    const auto& chosen = choice.run();
    std::optional<node_id> failed;
    std::vector<tensor_graph> made;
    for (std::size_t i = 0; i < 2 && !failed; ++i) {
      graph_resizer::node_predicate accepts;
      if (options_.accepts) {
        accepts = [&, i](node_id n, const operation& op, std::span<const tensor_type> types) {
          return options_.accepts(i, n, op, types);
        };
      }
      auto r = graph_resizer{algebra_, *graphs_[i], numbers_[i], relations_.classes, chosen, accepts}.run();
      failed = r.failed;
      made.push_back(std::move(r.graph));
      if (failed && !keep_sizes(choice, i, *failed)) {
        return describe(*graphs_[0], *graphs_[1]);
      }
    }
    if (!failed) {
      return describe(std::move(made[0]), std::move(made[1]));
    }
  }
}

UNITY_INLINE std::vector<std::int64_t> shrinker::multiples() const {
  std::vector<std::int64_t> all(relations_.classes.count(), 1);
  for (std::size_t i = 0; options_.multiple && i < numbers_.size(); ++i) {
    for (std::size_t v = 0; v < numbers_[i].dims.size(); ++v) {
      for (std::size_t d = 0; d < numbers_[i].dims[v].size(); ++d) {
        all[numbers_[i].dims[v][d]] = options_.multiple(i, value_id{v}, d);
      }
    }
  }
  return all;
}

UNITY_INLINE void shrinker::unite_outputs() {
  const auto& a = *graphs_[0];
  const auto& b = *graphs_[1];
  for (std::size_t i = 0; i < std::min(a.outputs().size(), b.outputs().size()); ++i) {
    const auto x = a.outputs()[i];
    const auto y = b.outputs()[i];
    for (std::size_t d = 0; a.type(x).dims == b.type(y).dims && d < a.type(x).rank(); ++d) {
      relations_.classes.unite(numbers_[0].dims[x.index()][d], numbers_[1].dims[y.index()][d]);
    }
  }
}

UNITY_INLINE std::vector<std::int64_t> shrinker::counts() const {
  constexpr double most = 1e12;
  std::vector<std::int64_t> found;
  for (const auto* g : graphs_) {
    for (const auto i : node_ids(*g)) {
      const auto& op = g->operation(i);
      const auto is_fill = algebra_.signature(op.kind).name == "fill";
      const auto value = is_fill ? std::abs(algebra_.read(op).real("value")) : 0;
      for (const auto count : {value, 1 / value, value * value, 1 / (value * value)}) {
        if (count > 4 && count < most && std::abs(count - std::round(count)) < 1e-6 * count) {
          found.push_back(std::llround(count));
        }
      }
    }
  }
  return found;
}

UNITY_INLINE void shrinker::fix_counted() {
  auto& classes = relations_.classes;
  for (const auto count : counts()) {
    for (size_number n = 0; n < classes.count(); ++n) {
      if (classes.size(n) > 4 && count % classes.size(n) == 0) {
        classes.fix(n);
      }
    }
  }
}

UNITY_INLINE void shrinker::fix_related() {
  auto& classes = relations_.classes;
  const auto fix = [&](std::span<const size_number> members) {
    std::for_each(members.begin(), members.end(), [&](size_number n) { classes.fix(n); });
  };
  for (size_number n = 0; n < classes.count(); ++n) {
    fix(classes.parts(n));
    for (const auto& factors : classes.products(n)) {
      fix(factors);
    }
  }
}

UNITY_INLINE bool shrinker::keep_sizes(size_choice& choice, std::size_t graph, node_id n) {
  bool news = false;
  const auto keep = [&](const size_numbers& numbers) {
    for (const auto number : numbers) {
      if (number != size_none && !choice.keeps(number)) {
        choice.keep(number);
        news = true;
      }
    }
  };
  for (const auto values : {graphs_[graph]->operands(n), graphs_[graph]->results(n)}) {
    for (const auto v : values) {
      keep(numbers_[graph].dims[v.index()]);
    }
  }
  keep(numbers_[graph].own[n.index()]);
  return news;
}

UNITY_INLINE std::int64_t shrinker::elements_of(const tensor_graph& g) {
  std::int64_t sum = 0;
  for (const auto v : value_ids(g)) {
    sum += element_count(g.type(v).dims);
  }
  return sum;
}

UNITY_INLINE shrunk_graphs shrinker::describe(tensor_graph first, tensor_graph second) const {
  shrunk_graphs s{std::move(first), std::move(second), {}, 0};
  s.elements = elements_of(s.first) + elements_of(s.second);
  for (const auto i : node_ids(s.first)) {
    const auto& op = s.first.operation(i);
    if (algebra_.definition_of(op.kind).source == source_kind::input) {
      const auto v = s.first.results(i)[0];
      s.sizes += fmt::format("{} {} as {}, ", algebra_.read(op).word("name"), to_string(graphs_[0]->type(v)),
                             to_string(s.first.type(v)));
    }
  }
  s.sizes += fmt::format("{} elements as {}", elements_of(*graphs_[0]) + elements_of(*graphs_[1]), s.elements);
  return s;
}

}  // namespace unity::tensor::detail

#endif
