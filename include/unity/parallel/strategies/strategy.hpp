// Rule-based and random strategies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Runs the whole operator on one device.
[[nodiscard]] inline configuration on_device(const operator_dimensions& o, hardware::device_id d) {
  return o.inputs.empty() ? configuration{} : configuration{degree_list(o.divisible.size(), 1), {d}};
}

namespace detail {

[[nodiscard]] std::vector<hardware::device_id> all_devices(const hardware::topology& t);

// The first dimension of that kind.
[[nodiscard]] std::optional<std::size_t> find_dimension(const operator_dimensions& o, parallelism kind);

// Divides the dimension into as many parts as possible, on the first of the devices; runs whole on the first device if
// it cannot be divided.
[[nodiscard]] configuration divided(const operator_dimensions& o, std::optional<std::size_t> dimension,
                                    std::span<const hardware::device_id> devices);

[[nodiscard]] strategy data_parallel_on(const graph_dimensions& all, std::span<const hardware::device_id> devices);

// Divides the sum over samples into as many parts as possible; copies on all devices if there is no such sum.
[[nodiscard]] configuration of_all_samples(const operator_dimensions& o, std::optional<std::size_t> sum,
                                           std::span<const hardware::device_id> devices);

}  // namespace detail

// Divides samples among all devices, as far as their number permits. Sums over samples, such as the statistics of a
// batch, add up the samples of each device; what is computed from such sums is computed on all devices.
[[nodiscard]] strategy data_parallel(const graph_dimensions& all, const hardware::topology& t);

// The same, but values computed from weights alone are computed on all devices instead of one, so that devices exchange
// only gradients.
[[nodiscard]] strategy replicated_data_parallel(const graph_dimensions& all, const hardware::topology& t);
// On a subset of the devices. Precondition: it is not empty.
[[nodiscard]] strategy replicated_data_parallel(const graph_dimensions& all,
                                                std::span<const hardware::device_id> devices);

// The layer of each node. Operators that share a weight (steps of an unrolled cell) are in one layer, as are operators
// without weights that follow them. Layers are numbered in the order of their first operators; sources have number
// none.
struct graph_layers {
  static constexpr std::uint32_t none = 0xffffffffU;
  std::vector<std::uint32_t> layer_of{};
  std::uint32_t count = 0;
};

// Complexity: linear in the graph.
[[nodiscard]] graph_layers layers_of(const tensor::algebra& a, const tensor::tensor_graph& g);

namespace detail {

// The group of each layer: consecutive layers, with about equal work per group.
[[nodiscard]] std::vector<std::size_t> balanced_groups(const tensor::algebra& a, const graph_dimensions& all,
                                                       const graph_layers& layers, std::size_t groups);

}  // namespace detail

// Each layer on one device: consecutive layers, with about equal work per device.
// Source: Jia's dissertation (2020), section 3.4.1, figure 3.4a.
[[nodiscard]] strategy model_parallel(const tensor::algebra& a, const tensor::tensor_graph& g,
                                      const graph_dimensions& all, const hardware::topology& t);

// Divides convolutions and operators between them by samples, dense layers by their parameters; elementwise operators
// after dense layers are divided like them.
// Source: Krizhevsky, One weird trick, 2014; Jia's dissertation (2020), section 3.7.1.
[[nodiscard]] strategy expert_convolutional(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            const graph_dimensions& all, const hardware::topology& t);

// Divides samples among nodes; within each node, assigns consecutive layers to devices, with about equal work per
// device.
// Source: Wu et al., Google's neural machine translation system, 2016; Jia's dissertation (2020), section 3.7.1.
[[nodiscard]] strategy expert_recurrent(const tensor::algebra& a, const tensor::tensor_graph& g,
                                        const graph_dimensions& all, const hardware::topology& t);

// expert_recurrent if the graph has recurrent cells, otherwise expert_convolutional.
[[nodiscard]] strategy expert(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all,
                              const hardware::topology& t);

// Draws degrees one after another, in random order of dimensions, uniformly from those that keep the configuration
// valid; draws devices without repetition.
// Complexity: at worst quadratic in devices, for each dimension.
[[nodiscard]] configuration random_configuration(const operator_dimensions& o, std::size_t devices,
                                                 random_engine& random);

[[nodiscard]] strategy random_strategy(const graph_dimensions& all, std::size_t devices, random_engine& random);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STRATEGY)

#include <algorithm>
#include <numeric>

#include <unity/core/config.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/tensor/algebra_inference.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::vector<hardware::device_id> all_devices(const hardware::topology& t) {
  std::vector<hardware::device_id> all;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    all.push_back(hardware::device_id{d});
  }
  return all;
}

UNITY_INLINE std::optional<std::size_t> find_dimension(const operator_dimensions& o, parallelism kind) {
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    if (o.divisible[k].kind == kind) {
      return k;
    }
  }
  return std::nullopt;
}

UNITY_INLINE configuration divided(const operator_dimensions& o, std::optional<std::size_t> dimension,
                                   std::span<const hardware::device_id> devices) {
  auto c = on_device(o, devices.front());
  const auto known = std::max_element(devices.begin(), devices.end())->index() + std::size_t{1};
  for (auto degree = devices.size(); dimension && degree > 1; --degree) {
    configuration tried{c.degrees, decltype(c.devices){devices}};
    tried.degrees[*dimension] = static_cast<std::int64_t>(degree);
    tried.devices.resize(degree, devices.front());
    if (why_not(o, tried, known).empty()) {
      return tried;
    }
  }
  return c;
}

UNITY_INLINE configuration of_all_samples(const operator_dimensions& o, std::optional<std::size_t> sum,
                                          std::span<const hardware::device_id> devices) {
  if (!sum) {
    return {degree_list(o.divisible.size(), 1),
            decltype(configuration::devices){devices},
            {},
            {},
            static_cast<std::int64_t>(devices.size())};
  }
  const auto known = std::max_element(devices.begin(), devices.end())->index() + std::size_t{1};
  for (auto degree = devices.size(); degree > 1; --degree) {
    configuration c{degree_list(o.divisible.size(), 1),
                    decltype(configuration::devices){devices},
                    degree_list(o.reductions.size(), 1),
                    {},
                    1};
    c.devices.resize(degree, devices.front());
    c.reductions[*sum] = static_cast<std::int64_t>(degree);
    if (why_not(o, c, known).empty()) {
      return c;
    }
  }
  return on_device(o, devices.front());
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE strategy detail::data_parallel_on(const graph_dimensions& all,
                                               std::span<const hardware::device_id> devices) {
  strategy s;
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    if (o.inputs.empty()) {
      s.emplace_back();
    } else if (all.role(n) == sample_role::of_all) {
      s.push_back(detail::of_all_samples(o, all.sum_over_samples(n), devices));
    } else {
      s.push_back(detail::divided(o, detail::find_dimension(o, parallelism::sample), devices));
    }
  }
  return s;
}

UNITY_INLINE strategy data_parallel(const graph_dimensions& all, const hardware::topology& t) {
  return detail::data_parallel_on(all, detail::all_devices(t));
}

UNITY_INLINE strategy replicated_data_parallel(const graph_dimensions& all, const hardware::topology& t) {
  return replicated_data_parallel(all, detail::all_devices(t));
}

UNITY_INLINE strategy replicated_data_parallel(const graph_dimensions& all,
                                               std::span<const hardware::device_id> devices) {
  auto s = detail::data_parallel_on(all, devices);
  const auto known = std::max_element(devices.begin(), devices.end())->index() + std::size_t{1};
  for (const auto n : node_ids(all)) {
    auto& c = s[n.index()];
    if (!all[n].inputs.empty() && c.task_count() == 1 && devices.size() > 1) {
      auto copies = c;
      copies.devices = decltype(c.devices){devices};
      copies.copies = static_cast<std::int64_t>(devices.size());
      c = why_not(all[n], copies, known).empty() ? copies : c;
    }
  }
  return s;
}

UNITY_INLINE graph_layers layers_of(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto weight = a.kind("weight");
  graph_layers all{std::vector<std::uint32_t>(g.node_count(), graph_layers::none), 0};
  std::vector<std::uint32_t> of_weight(g.node_count(), graph_layers::none);
  for (const auto n : node_ids(g)) {
    auto layer = graph_layers::none;
    auto before = graph_layers::none;
    bool reads_weights = false;
    for (const auto v : g.operands(n)) {
      const auto from = g.producer(v).index();
      const bool is_weight = g.operation(node_id{from}).kind == weight;
      reads_weights = reads_weights || is_weight;
      layer = is_weight && layer == graph_layers::none ? of_weight[from] : layer;
      before = before == graph_layers::none ? all.layer_of[from] : before;
    }
    if (g.operands(n).empty()) {
      continue;
    }
    if (!reads_weights) {
      layer = before;
    }
    all.layer_of[n.index()] = layer == graph_layers::none ? all.count++ : layer;
    for (const auto v : g.operands(n)) {
      if (g.operation(g.producer(v)).kind == weight) {
        of_weight[g.producer(v).index()] = all.layer_of[n.index()];
      }
    }
  }
  return all;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::vector<std::size_t> balanced_groups(const tensor::algebra& a, const graph_dimensions& all,
                                                      const graph_layers& layers, std::size_t groups) {
  std::vector<std::int64_t> work(layers.count, 0);
  std::int64_t sum = 0;
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    if (!o.inputs.empty()) {
      const auto operations = a.work(o.op, o.inputs, o.outputs).operations.count() + 1;
      work[layers.layer_of[n.index()]] += operations;
      sum += operations;
    }
  }
  std::vector<std::size_t> group_of;
  std::int64_t before = 0;
  for (const auto w : work) {  // by the midpoint of its work
    const auto middle = static_cast<double>(before) + static_cast<double>(w) / 2;
    group_of.push_back(std::min(
        static_cast<std::size_t>(middle / static_cast<double>(sum) * static_cast<double>(groups)), groups - 1));
    before += w;
  }
  return group_of;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE strategy model_parallel(const tensor::algebra& a, const tensor::tensor_graph& g,
                                     const graph_dimensions& all, const hardware::topology& t) {
  const auto layers = layers_of(a, g);
  const auto group = detail::balanced_groups(a, all, layers, t.device_count());
  strategy s;
  for (const auto n : node_ids(all)) {
    const auto layer = layers.layer_of[n.index()];
    s.push_back(layer == graph_layers::none ? configuration{} : on_device(all[n], hardware::device_id{group[layer]}));
  }
  return s;
}

UNITY_INLINE strategy expert_convolutional(const tensor::algebra& a, const tensor::tensor_graph& g,
                                           const graph_dimensions& all, const hardware::topology& t) {
  const auto devices = detail::all_devices(t);
  const auto linear = a.kind("linear");
  const auto matmul = a.kind("matmul");
  strategy s;
  std::vector<bool> by_parameters(g.node_count());
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    const auto parameter = detail::find_dimension(o, parallelism::parameter);
    const auto sample = detail::find_dimension(o, parallelism::sample);
    if (o.inputs.empty()) {
      s.emplace_back();
    } else if ((o.op.kind == linear || o.op.kind == matmul) && parameter) {
      s.push_back(detail::divided(o, parameter, devices));
      by_parameters[n.index()] = true;
    } else {
      const auto before = g.producer(g.operands(n)[0]);
      const auto& tried = s[before.index()];
      const bool follows = by_parameters[before.index()] && o.inputs.size() == 1 &&
                           o.outputs[0].dims == o.inputs[0].dims && why_not(o, tried, devices.size()).empty();
      by_parameters[n.index()] = follows;
      s.push_back(follows ? configuration{tried} : detail::divided(o, sample, devices));
    }
  }
  return s;
}

UNITY_INLINE strategy expert_recurrent(const tensor::algebra& a, const tensor::tensor_graph& g,
                                       const graph_dimensions& all, const hardware::topology& t) {
  std::vector<std::vector<hardware::device_id>> nodes;
  std::vector<std::uint32_t> numbers;
  for (const auto d : detail::all_devices(t)) {
    const auto at = static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), t[d].node) - numbers.begin());
    if (at == numbers.size()) {
      numbers.push_back(t[d].node);
      nodes.emplace_back();
    }
    nodes[at].push_back(d);
  }
  std::size_t least = t.device_count();
  for (const auto& n : nodes) {
    least = std::min(least, n.size());
  }
  const auto layers = layers_of(a, g);
  const auto group = detail::balanced_groups(a, all, layers, least);
  strategy s;
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    if (o.inputs.empty()) {
      s.emplace_back();
      continue;
    }
    std::vector<hardware::device_id> column;
    for (const auto& node : nodes) {
      column.push_back(node[group[layers.layer_of[n.index()]]]);
    }
    s.push_back(detail::divided(o, detail::find_dimension(o, parallelism::sample), column));
  }
  return s;
}

UNITY_INLINE strategy expert(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all,
                             const hardware::topology& t) {
  const auto cell = a.kind("lstm_cell");
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == cell) {
      return expert_recurrent(a, g, all, t);
    }
  }
  return expert_convolutional(a, g, all, t);
}

UNITY_INLINE configuration random_configuration(const operator_dimensions& o, std::size_t devices,
                                                random_engine& random) {
  if (o.inputs.empty()) {
    return {};
  }
  configuration c{degree_list(o.divisible.size(), 1), {}};
  std::vector<hardware::device_id> drawn;
  for (std::size_t d = 0; d < devices; ++d) {
    drawn.push_back(hardware::device_id{d});
  }
  for (std::size_t d = 0; d + 1 < devices; ++d) {
    std::swap(drawn[d], drawn[d + random.below(devices - d)]);
  }
  std::vector<std::size_t> order(o.divisible.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t k = 0; k + 1 < order.size(); ++k) {
    std::swap(order[k], order[k + random.below(order.size() - k)]);
  }
  std::size_t tasks = 1;
  for (const auto k : order) {
    std::vector<std::int64_t> possible;
    for (std::size_t degree = 1; degree * tasks <= devices; ++degree) {
      auto tried = c;
      tried.degrees[k] = static_cast<std::int64_t>(degree);
      tried.devices.resize(degree * tasks, hardware::device_id{std::size_t{0}});
      if (why_not(o, tried, devices).empty()) {
        possible.push_back(static_cast<std::int64_t>(degree));
      }
    }
    c.degrees[k] = possible[random.below(possible.size())];  // at least 1, which changes nothing
    tasks *= static_cast<std::size_t>(c.degrees[k]);
  }
  drawn.resize(tasks);
  c.devices = decltype(c.devices){std::span<const hardware::device_id>{drawn}};
  return c;
}

UNITY_INLINE strategy random_strategy(const graph_dimensions& all, std::size_t devices, random_engine& random) {
  strategy s;
  for (const auto n : node_ids(all)) {
    s.push_back(random_configuration(all[n], devices, random));
  }
  return s;
}

}  // namespace unity::parallel

#endif
