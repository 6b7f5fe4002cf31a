// The cheapest choice of options for all operators of a graph, by a method unlike the library's: elimination of
// operators one by one, for any graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::test {

// The cost of a mapping is a sum: the price of each operator's option, and for each operand produced by another
// operator the shortest chain of steps from the layout in which it is produced to the one in which it is read. Prices
// and step costs come from the tables; everything else is computed here. Refers to the tables, and caches chains.
class all_mappings {
 public:
  all_mappings(parallel::mesh_tables& tables, const parallel::mapping_objective& o) : tables_{tables}, objective_{o} {}

  // A lower bound on all mappings: the sum of each operator's cheapest option. Complexity: linear in the options.
  [[nodiscard]] std::int64_t bound(const parallel::operator_graph& g) {
    std::int64_t sum = 0;
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      const auto p = prices(g, i);
      sum += p.empty() ? parallel::unreachable : *std::min_element(p.begin(), p.end());
    }
    return sum;
  }
  // Source: Bertele and Brioschi, Nonserial dynamic programming, 1972.
  // Complexity: options to the power of the number of neighbours that an operator has when eliminated (fewest first).
  [[nodiscard]] std::int64_t least(const parallel::operator_graph& g) {
    auto all = factors(g);
    std::vector<std::size_t> options;
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      options.push_back(tables_.of(g.placed(i)).options.size());
    }
    std::vector<std::uint32_t> left;
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      left.push_back(i);
    }
    while (!left.empty()) {
      const auto next = std::min_element(left.begin(), left.end(), [&](auto a, auto b) {
        return combinations(around(all, a), options) < combinations(around(all, b), options);
      });
      eliminate(all, *next, options);
      left.erase(next);
    }
    std::int64_t sum = 0;
    for (const auto& f : all) {
      sum = std::min(parallel::unreachable, sum + f.costs[0]);
    }
    return sum;
  }
  // The cost of one choice of options.
  [[nodiscard]] std::int64_t cost(const parallel::operator_graph& g, const std::vector<std::uint32_t>& chosen) {
    std::int64_t sum = 0;
    for (const auto& f : factors(g)) {
      std::size_t at = 0;
      for (const auto op : f.over) {
        at = at * tables_.of(g.placed(op)).options.size() + chosen[op];
      }
      sum = std::min(parallel::unreachable, sum + f.costs[at]);
    }
    return sum;
  }

 private:
  // Costs by the options of the operators `over`, row-major.
  struct factor {
    std::vector<std::uint32_t> over{};
    std::vector<std::int64_t> costs{};
  };

  [[nodiscard]] std::vector<std::int64_t> prices(const parallel::operator_graph& g, std::uint32_t i) {
    std::vector<std::int64_t> all;
    for (const auto& o : tables_.of(g.placed(i)).options) {
      all.push_back(parallel::price_of(o, objective_));
    }
    return all;
  }
  [[nodiscard]] std::vector<factor> factors(const parallel::operator_graph& g) {
    std::vector<factor> all;
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      all.push_back({{i}, prices(g, i)});
      const auto sources = g.sources(i);
      for (std::size_t x = 0; x < sources.size(); ++x) {
        if (sources[x].from != parallel::operand_source::none) {
          all.push_back({{sources[x].from, i}, between(g, sources[x], i, x)});
        }
      }
    }
    return all;
  }
  [[nodiscard]] const std::vector<std::int64_t>& between(const parallel::operator_graph& g,
                                                         const parallel::operand_source& from, std::uint32_t to,
                                                         std::size_t operand) {
    const auto& maker = tables_.of(g.placed(from.from));
    const auto& reader = tables_.of(g.placed(to));
    auto& costs = between_[{&maker, &reader, from.result, operand}];
    if (costs.empty()) {
      const auto& space = *reader.operands[operand];
      for (const auto& made : maker.options) {
        const auto& row = chains(space, space.number(made.results[from.result]));
        for (const auto& read : reader.options) {
          costs.push_back(row[space.number(read.operands[operand])]);
        }
      }
    }
    return costs;
  }
  // Costs of the shortest chains from one layout, by final layout. Source: Bellman, On a routing problem, 1958.
  [[nodiscard]] const std::vector<std::int64_t>& chains(const parallel::layout_space& space, std::uint32_t from) {
    auto& d = chains_[{&space, from}];
    if (d.empty()) {
      d.assign(space.size(), parallel::unreachable);
      d[from] = 0;
      for (std::size_t round = 0; round < space.size(); ++round) {
        for (const auto& arc : space.arcs()) {
          d[arc.to] = std::min(d[arc.to], d[arc.from] + arc.takes);
        }
      }
    }
    return d;
  }

  [[nodiscard]] static std::vector<std::uint32_t> around(const std::vector<factor>& all, std::uint32_t op) {
    std::vector<std::uint32_t> others;
    for (const auto& f : all) {
      if (std::find(f.over.begin(), f.over.end(), op) != f.over.end()) {
        others.insert(others.end(), f.over.begin(), f.over.end());
      }
    }
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    others.erase(std::remove(others.begin(), others.end(), op), others.end());
    return others;
  }
  [[nodiscard]] static std::size_t combinations(const std::vector<std::uint32_t>& ops,
                                                const std::vector<std::size_t>& options) {
    std::size_t n = 1;
    for (const auto op : ops) {
      n *= options[op];
    }
    return n;
  }
  // Effects: replaces all factors over the operator by one over its neighbours, with the operator at its best option.
  static void eliminate(std::vector<factor>& all, std::uint32_t op, const std::vector<std::size_t>& options) {
    factor rest{around(all, op), {}};
    auto over = rest.over;
    over.push_back(op);
    const auto first = std::partition(all.begin(), all.end(), [&](const factor& f) {
      return std::find(f.over.begin(), f.over.end(), op) == f.over.end();
    });
    std::vector<factor> held;
    for (auto f = first; f != all.end(); ++f) {
      held.push_back(spread(*f, over, options));
    }
    const auto own = options[op];
    for (std::size_t at = 0; at < combinations(rest.over, options); ++at) {
      auto best = parallel::unreachable;
      for (std::size_t o = 0; o < own; ++o) {
        std::int64_t sum = 0;
        for (const auto& f : held) {
          sum = std::min(parallel::unreachable, sum + f.costs[at * own + o]);
        }
        best = std::min(best, sum);
      }
      rest.costs.push_back(best);
    }
    all.erase(first, all.end());
    all.push_back(std::move(rest));
  }
  // The same costs as a factor over more operators.
  [[nodiscard]] static factor spread(const factor& f, const std::vector<std::uint32_t>& over,
                                     const std::vector<std::size_t>& options) {
    std::vector<std::size_t> strides(over.size(), 0);
    for (std::size_t k = 0; k < over.size(); ++k) {
      std::size_t stride = 1;
      for (auto i = f.over.size(); i-- > 0;) {
        strides[k] += f.over[i] == over[k] ? stride : 0;
        stride *= options[f.over[i]];
      }
    }
    factor wide{over, {}};
    wide.costs.reserve(combinations(over, options));
    std::vector<std::size_t> digits(over.size(), 0);
    std::size_t at = 0;
    while (true) {
      wide.costs.push_back(f.costs[at]);
      auto k = over.size();
      while (k > 0) {
        --k;
        at += strides[k];
        if (++digits[k] < options[over[k]]) {
          break;
        }
        at -= strides[k] * digits[k];
        digits[k] = 0;
        if (k == 0) {
          return wide;
        }
      }
    }
  }

  parallel::mesh_tables& tables_;
  parallel::mapping_objective objective_;
  std::map<std::tuple<const parallel::operator_table*, const parallel::operator_table*, std::uint32_t, std::size_t>,
           std::vector<std::int64_t>>
      between_{};
  std::map<std::pair<const parallel::layout_space*, std::uint32_t>, std::vector<std::int64_t>> chains_{};
};

}  // namespace unity::test
