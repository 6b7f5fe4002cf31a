// Checks whether input is a valid dataflow graph. For graphs from outside: files, other libraries, users.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>

namespace unity {

namespace detail {

// Composes the errors of one graph, with common wording for the known ids.
template <dataflow_graph G>
class graph_checker {
 public:
  graph_checker(const G& g, std::string_view where)
      : graph_{g}, where_{where}, nodes_{graph_traits<G>::node_count(g)}, values_{graph_traits<G>::value_count(g)} {}

  // Each check may rely on what the previous ones have established.
  [[nodiscard]] std::optional<error> find() {
    auto found = find_bad_result();
    if (!found) {
      found = find_bad_producer();
    }
    if (!found) {
      found = find_bad_operand();
    }
    if (!found) {
      found = find_bad_output();
    }
    return found ? found : find_bad_cycle();
  }

 private:
  static std::string node_name(std::size_t n) { return fmt::format("node {}", n); }
  static std::string value_name(value_id v) {
    return v.valid() ? fmt::format("value {}", v.index()) : std::string{"the null value"};
  }
  [[nodiscard]] std::string place(const std::string& inside) const {
    return where_.empty() ? inside : fmt::format("{}: {}", where_, inside);
  }
  [[nodiscard]] std::string known_values() const { return fmt::format("one of the {} values", values_); }

  // A result that is not a value, or that an earlier node (or an earlier result of the same node) already defines.
  [[nodiscard]] std::optional<error> find_bad_result() {
    definer_.assign(values_, node_id{});
    for (std::size_t n = 0; n < nodes_; ++n) {
      std::size_t position = 0;
      for (const value_id v : graph_traits<G>::results(graph_, node_id{n})) {
        const auto here = [&] { return place(fmt::format("{}, result {}", node_name(n), position)); };
        if (v.index() >= values_) {
          return error{here(), value_name(v), known_values()};
        }
        if (definer_[v.index()].valid()) {
          return error{here(),
                       fmt::format("{}, which {} defines", value_name(v), node_name(definer_[v.index()].index())),
                       "a value that one node defines, once"};
        }
        definer_[v.index()] = node_id{n};
        ++position;
      }
    }
    return std::nullopt;
  }

  // A value whose producer is not a node, or is a node that does not list it.
  [[nodiscard]] std::optional<error> find_bad_producer() const {
    for (std::size_t i = 0; i < values_; ++i) {
      const value_id v{i};
      const node_id p = graph_traits<G>::producer(graph_, v);
      if (p.index() >= nodes_) {
        return error{place(value_name(v)),
                     p.valid() ? fmt::format("producer {}", node_name(p.index())) : std::string{"no producer"},
                     fmt::format("one of the {} nodes", nodes_)};
      }
      if (definer_[i] != p) {
        return error{place(value_name(v)), fmt::format("producer {}, which does not list it", node_name(p.index())),
                     "a node among whose results it is"};
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<error> find_bad_operand() const {
    for (std::size_t n = 0; n < nodes_; ++n) {
      std::size_t position = 0;
      for (const value_id v : graph_traits<G>::operands(graph_, node_id{n})) {
        if (v.index() >= values_) {
          return error{place(fmt::format("{}, operand {}", node_name(n), position)), value_name(v), known_values()};
        }
        ++position;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<error> find_bad_output() const {
    std::size_t position = 0;
    for (const value_id v : graph_traits<G>::outputs(graph_)) {
      if (v.index() >= values_) {
        return error{place(fmt::format("output {}", position)), value_name(v), known_values()};
      }
      ++position;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<error> find_bad_cycle() const {
    const auto cycle = find_cycle(graph_);
    if (cycle.empty()) {
      return std::nullopt;
    }
    // A long cycle would not fit in a readable line; its first nodes suffice to find it.
    constexpr std::size_t most = 8;
    std::string text = fmt::format("a cycle of {}:", cycle.size());
    for (std::size_t i = 0; i < cycle.size() && i < most; ++i) {
      text += fmt::format(" {} ->", cycle[i].index());
    }
    text += cycle.size() > most ? " ..." : fmt::format(" {}", cycle.front().index());
    return error{place(node_name(cycle.front().index())), text, "no node that depends on itself"};
  }

  const G& graph_;
  std::string_view where_;
  std::size_t nodes_;
  std::size_t values_;
  std::vector<node_id> definer_{};  // by value: the node that lists it among its results
};

}  // namespace detail

// The first violation of the laws of dataflow_graph in `g`, or a cycle, as the error that validate throws; nothing if
// it is valid. `where` begins the message: a file, or a description of the graph. Results are checked first, then
// producers, operands, outputs, cycles.
// Complexity: O((N + E) log N); O(N + E) if ids are topological.
template <dataflow_graph G>
[[nodiscard]] std::optional<error> find_defect(const G& g, std::string_view where = "graph") {
  return detail::graph_checker<G>{g, where}.find();
}

// Effects: none on a valid graph.
// Throws: unity::error, one line, as find_defect.
template <dataflow_graph G>
void validate(const G& g, std::string_view where = "graph") {
  if (const auto defect = find_defect(g, where)) {
    throw error{*defect};
  }
}

}  // namespace unity
