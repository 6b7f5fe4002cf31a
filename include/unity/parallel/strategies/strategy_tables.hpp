// Tables of times for each choice of configurations, for bounds on all strategies that include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <range/v3/view/cartesian_product.hpp>
#include <range/v3/view/indices.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/delays.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The configurations that each operator may have. Operators are in topological order and are not sources.
struct strategy_choices {
  std::vector<node_id> operators{};
  std::vector<std::vector<configuration>> configurations{};  // per operator

  [[nodiscard]] std::size_t size() const noexcept { return operators.size(); }
};

// The choices of all operators, from a model with all(node), such as placements.
template <class Placements>
[[nodiscard]] strategy_choices choices_of(const tensor::tensor_graph& g, const Placements& all) {
  strategy_choices c;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      c.operators.push_back(n);
      c.configurations.push_back(all.all(n));
    }
  }
  return c;
}

// The time for which a resource is busy.
struct resource_load {
  std::uint32_t resource = 0;
  picoseconds time{};
};

// The tasks of an operator under one configuration.
struct operator_times {
  std::vector<std::int64_t> forward{};   // per task
  std::vector<std::int64_t> backward{};  // zeros without a backward pass
  std::vector<std::uint32_t> devices{};
  std::int64_t work = 0;  // the sum of all tasks
};

// Delays between two operators, each under one configuration: from the end of a producer's task to the start of a
// consumer's, and from the end of the consumer's backward task to the start of the producer's.
struct edge_delays {
  delay_matrix forward{};   // producers x consumers
  delay_matrix backward{};  // consumers x producers
  std::vector<resource_load> links{};
};

// The effect of a weight whose users have one configuration each: the updates that it adds to each device, when they
// can begin after the ends of backward tasks (of all users, one after another), and the load of its reductions on
// links.
struct weight_delays {
  delay_matrix until_update{};         // backward tasks x devices
  std::vector<std::int64_t> update{};  // per device; 0: none
  std::vector<resource_load> links{};
  std::int64_t work = 0;  // of all updates
};

// All tables, computed once; indexed by operator (its index in the choices), by edge or weight of the training graph,
// and by choice. They are derived from the fragments that the lowering makes, however it makes them. A value type.
// Complexity: a fragment for each pair of choices of an edge, and for each choice of all users of a weight.
class strategy_tables {
 public:
  static constexpr std::size_t most_joint_choices = std::size_t{1} << 17U;
  // pairs of choices of all edges together: about ten seconds
  static constexpr std::size_t most_pairs = std::size_t{1} << 19U;

  struct edge {
    std::size_t from = 0;
    std::size_t to = 0;
    std::vector<edge_delays> delays{};  // [choice of from][choice of to]
    // [choice of from]: the longest path from the end of a forward task of `from` to the start of one of its backward
    // tasks through `to` and its successors, minimized over all their configurations.
    std::vector<delay_matrix> turnarounds{};
  };
  struct weight {
    std::vector<std::size_t> users{};                  // ascending
    std::vector<std::vector<weight_delays>> delays{};  // [number of decided users][their choices, row-major]
  };

  // Throws: unity::error, before anything is computed, for more pairs of choices than `most_pairs`, and for a weight
  // whose users have more joint choices than `most_joint_choices`.
  strategy_tables(lowering& l, const strategy_choices& choices, std::size_t devices);

  [[nodiscard]] std::size_t device_count() const noexcept { return devices_; }
  [[nodiscard]] std::size_t operator_count() const noexcept { return operators_.size(); }
  [[nodiscard]] const std::vector<operator_times>& times(std::size_t i) const { return operators_[i]; }
  [[nodiscard]] const std::vector<edge>& edges() const noexcept { return edges_; }
  [[nodiscard]] const std::vector<weight>& weights() const noexcept { return weights_; }
  [[nodiscard]] const std::vector<std::uint32_t>& edges_from(std::size_t i) const { return edges_from_[i]; }
  [[nodiscard]] const std::vector<std::uint32_t>& edges_to(std::size_t i) const { return edges_to_[i]; }
  [[nodiscard]] const std::vector<std::uint32_t>& weights_of(std::size_t i) const { return weights_of_[i]; }

 private:
  static void expect_few_pairs(const lowering& l, const strategy_choices& choices,
                               const std::vector<std::size_t>& number);
  void add_operators(lowering& l, const strategy_choices& choices);

  [[nodiscard]] std::vector<resource_load> links_of(const tasks::fragment& f) const;

  void add_edge(lowering& l, const strategy_choices& choices, std::uint32_t number);

  // Works backwards: minimizes over the choices of the next operator, whose own turnarounds are known.
  void find_turnarounds();
  [[nodiscard]] delay_matrix through(const edge& e, std::size_t a, std::size_t b) const;

  void add_weight(lowering& l, const strategy_choices& choices, const std::vector<std::size_t>& number,
                  std::uint32_t w);
  [[nodiscard]] weight_delays delays_of(lowering& l, const strategy_choices& choices,
                                        const std::vector<std::size_t>& users, const strategy& s,
                                        std::uint32_t w) const;
  // The elementwise minimum of `count` entries, without the last user's rows.
  [[nodiscard]] weight_delays least_of(const std::vector<weight_delays>& all, std::size_t first, std::size_t count,
                                       std::size_t rows) const;

  std::size_t devices_;
  strategy empty_;
  std::vector<std::vector<operator_times>> operators_{};
  std::vector<bool> has_backward_{};
  std::vector<edge> edges_{};
  std::vector<weight> weights_{};
  std::vector<std::vector<std::uint32_t>> edges_from_{};
  std::vector<std::vector<std::uint32_t>> edges_to_{};
  std::vector<std::vector<std::uint32_t>> weights_of_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STRATEGY_TABLES)

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/row_major.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::parallel {

UNITY_INLINE strategy_tables::strategy_tables(lowering& l, const strategy_choices& choices, std::size_t devices)
    : devices_{devices}, empty_(l.dimensions().node_count()) {
  std::vector<std::size_t> number(l.dimensions().node_count(), choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    number[choices.operators[i].index()] = i;
  }
  expect_few_pairs(l, choices, number);
  add_operators(l, choices);
  for (std::uint32_t e = 0; e < l.training().edges().size(); ++e) {
    const auto& of = l.training().edges()[e];
    edges_.push_back({number[of.from.index()], number[of.to.index()], {}, {}});
    edges_from_[edges_.back().from].push_back(e);
    edges_to_[edges_.back().to].push_back(e);
    add_edge(l, choices, e);
  }
  find_turnarounds();
  for (std::uint32_t w = 0; w < l.training().weights().size(); ++w) {
    add_weight(l, choices, number, w);
  }
}

UNITY_INLINE void strategy_tables::expect_few_pairs(const lowering& l, const strategy_choices& choices,
                                                    const std::vector<std::size_t>& number) {
  std::size_t pairs = 0;
  for (const auto& e : l.training().edges()) {
    pairs +=
        choices.configurations[number[e.from.index()]].size() * choices.configurations[number[e.to.index()]].size();
  }
  if (pairs > most_pairs) {
    throw error{"exact search", fmt::format("{} pairs of configurations of neighbouring operators", pairs),
                fmt::format("at most {}: fewer operators or devices", most_pairs)};
  }
}

UNITY_INLINE void strategy_tables::add_operators(lowering& l, const strategy_choices& choices) {
  edges_from_.resize(choices.size());
  edges_to_.resize(choices.size());
  weights_of_.resize(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto n = choices.operators[i];
    has_backward_.push_back(l.training().has_backward(n));
    operators_.emplace_back();
    for (const auto& c : choices.configurations[i]) {
      auto s = empty_;
      s[n.index()] = c;
      const auto fragment = l.lowered_operator(s, n);
      auto& o = operators_.back().emplace_back();
      for (std::size_t t = 0; t < c.task_count(); ++t) {
        o.forward.push_back(fragment.tasks[t].duration.count());
        o.backward.push_back(has_backward_.back() ? fragment.tasks[c.task_count() + t].duration.count() : 0);
        o.devices.push_back(c.devices[t].index());
        o.work += o.forward.back() + o.backward.back();
      }
    }
  }
}

UNITY_INLINE std::vector<resource_load> strategy_tables::links_of(const tasks::fragment& f) const {
  std::vector<resource_load> all;
  for (const auto& t : f.tasks) {
    if (!t.resource.valid() || t.resource.index() < devices_) {
      continue;
    }
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const resource_load& r) { return r.resource == t.resource.index(); });
    if (same != all.end()) {
      same->time += t.duration;
    } else {
      all.push_back({t.resource.index(), t.duration});
    }
  }
  return all;
}

UNITY_INLINE void strategy_tables::add_edge(lowering& l, const strategy_choices& choices, std::uint32_t number) {
  auto& e = edges_[number];
  auto s = empty_;
  for (const auto& a : choices.configurations[e.from]) {
    s[choices.operators[e.from].index()] = a;
    for (const auto& b : choices.configurations[e.to]) {
      s[choices.operators[e.to].index()] = b;
      const auto fragment = l.lowered_edge(s, number);
      const auto from = l.fragment_of(choices.operators[e.from]);
      const auto to = l.fragment_of(choices.operators[e.to]);
      const auto producers = static_cast<std::uint32_t>(a.task_count());
      const auto consumers = static_cast<std::uint32_t>(b.task_count());
      edge_delays d{{producers, consumers}, {consumers, producers}, links_of(fragment)};
      for (std::uint32_t p = 0; p < producers; ++p) {
        const fragment_delays after{fragment, {from, p}};
        for (std::uint32_t c = 0; c < consumers; ++c) {
          d.forward(p, c) = after.until({to, c});
        }
      }
      for (std::uint32_t c = 0; c < consumers; ++c) {
        const fragment_delays after{fragment, {to, consumers + c}};
        for (std::uint32_t p = 0; p < producers; ++p) {
          d.backward(c, p) = after.until({from, producers + p});
        }
      }
      e.delays.push_back(std::move(d));
    }
  }
}

UNITY_INLINE void strategy_tables::find_turnarounds() {
  for (auto i = operators_.size(); i-- > 0;) {
    for (const auto in : edges_to_[i]) {
      auto& e = edges_[in];
      using ranges::views::indices;
      const auto pairs =
          ranges::views::cartesian_product(indices(operators_[e.from].size()), indices(operators_[i].size()));
      for (const auto& [a, b] : pairs) {
        const auto tasks = operators_[e.from][a].forward.size();
        auto way = has_backward_[i] ? through(e, a, b) : delay_matrix{tasks, tasks};
        if (b == 0) {
          e.turnarounds.push_back(std::move(way));
        } else {
          e.turnarounds.back().limit_to(way);
        }
      }
    }
  }
}

UNITY_INLINE delay_matrix strategy_tables::through(const edge& e, std::size_t a, std::size_t b) const {
  const auto& there = e.delays[a * operators_[e.to].size() + b];
  const auto& o = operators_[e.to][b];
  delay_matrix inside{o.forward.size(), o.forward.size()};
  for (std::size_t t = 0; t < o.forward.size(); ++t) {
    inside(t, t) = 0;  // a backward task follows its forward task
  }
  for (const auto out : edges_from_[e.to]) {
    inside.raise_to(edges_[out].turnarounds[b]);
  }
  return chained(chained(there.forward, o.forward, inside), o.backward, there.backward);
}

UNITY_INLINE void strategy_tables::add_weight(lowering& l, const strategy_choices& choices,
                                              const std::vector<std::size_t>& number, std::uint32_t w) {
  weight all;
  for (const auto& use : l.training().weights()[w].uses) {
    all.users.push_back(number[use.node.index()]);
  }
  std::sort(all.users.begin(), all.users.end());
  all.users.erase(std::unique(all.users.begin(), all.users.end()), all.users.end());
  std::vector<std::size_t> counts;
  std::size_t joint = 1;
  for (const auto u : all.users) {
    weights_of_[u].push_back(w);
    counts.push_back(operators_[u].size());
    joint *= counts.back();
    if (joint > most_joint_choices) {
      throw error{fmt::format("weight {}", w),
                  fmt::format("{} operators with too many joint configurations", all.users.size()),
                  fmt::format("at most {}", most_joint_choices)};
    }
  }
  all.delays.resize(all.users.size() + 1);
  auto s = empty_;
  for_each_position(counts, [&](const std::vector<std::size_t>& chosen) {
    for (std::size_t u = 0; u < chosen.size(); ++u) {
      s[choices.operators[all.users[u]].index()] = choices.configurations[all.users[u]][chosen[u]];
    }
    all.delays.back().push_back(delays_of(l, choices, all.users, s, w));
  });
  for (auto u = all.users.size(); u-- > 0;) {  // the minimum over the choices of the last user
    const auto count = operators_[all.users[u]].size();
    const auto& more = all.delays[u + 1];
    for (std::size_t k = 0; k < more.size(); k += count) {
      const auto rows = more[k].until_update.rows() - operators_[all.users[u]][0].forward.size();
      all.delays[u].push_back(least_of(more, k, count, rows));
    }
  }
  weights_.push_back(std::move(all));
}

UNITY_INLINE weight_delays strategy_tables::delays_of(lowering& l, const strategy_choices& choices,
                                                      const std::vector<std::size_t>& users, const strategy& s,
                                                      std::uint32_t w) const {
  const auto fragment = l.lowered_weight(s, w);
  std::size_t rows = 0;
  for (const auto u : users) {
    rows += s[choices.operators[u].index()].task_count();
  }
  weight_delays d{{rows, devices_}, std::vector<std::int64_t>(devices_, 0), links_of(fragment), 0};
  for (std::size_t i = 0; i < fragment.tasks.size(); ++i) {
    const auto on = fragment.tasks[i].resource.index();
    if (on < devices_) {
      UNITY_EXPECTS(d.update[on] == 0, "one update of a weight on a device");
      d.update[on] = fragment.tasks[i].duration.count();
      d.work += d.update[on];
    }
  }
  std::size_t row = 0;
  for (const auto u : users) {
    const auto n = choices.operators[u];
    const auto tasks = static_cast<std::uint32_t>(s[n.index()].task_count());
    for (std::uint32_t t = 0; t < tasks; ++t, ++row) {
      const fragment_delays after{fragment, {l.fragment_of(n), tasks + t}};
      for (std::size_t i = 0; i < fragment.tasks.size(); ++i) {
        if (const auto on = fragment.tasks[i].resource.index(); on < devices_) {
          d.until_update(row, on) = after.until_ready(i);
        }
      }
    }
  }
  return d;
}

UNITY_INLINE weight_delays strategy_tables::least_of(const std::vector<weight_delays>& all, std::size_t first,
                                                     std::size_t count, std::size_t rows) const {
  weight_delays least{{rows, devices_}, all[first].update, {}, all[first].work};
  for (std::size_t d = 0; d < devices_; ++d) {
    for (std::size_t r = 0; r < rows; ++r) {
      least.until_update(r, d) = all[first].until_update(r, d);
    }
  }
  for (auto k = first + 1; k < first + count; ++k) {
    least.work = std::min(least.work, all[k].work);
    for (std::size_t d = 0; d < devices_; ++d) {
      least.update[d] = std::min(least.update[d], all[k].update[d]);
      for (std::size_t r = 0; r < rows; ++r) {
        least.until_update(r, d) = std::min(least.until_update(r, d), all[k].until_update(r, d));
      }
    }
  }
  return least;
}

}  // namespace unity::parallel

#endif
