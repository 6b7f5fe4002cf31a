// A plan in ONNX's annotations for several devices: for each operator, how its operands and results are divided among
// devices, and its stage.
#pragma once

#include <string>
#include <vector>

#include <unity/io/onnx_model.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io {

struct onnx_plan {
  graph_devices devices{};
  std::vector<std::string> unstated{};  // parts of the plan that ONNX cannot state, one line each
};

// States the devices of the machine, by name, and the division of each operator that has operands.
//
// In ONNX, the operands of an operator are divided as stated before it begins, and its results as stated when it ends,
// whatever messages that takes. So a result that consists of partial sums is stated as the sum: divided as all its
// readers read it or, if they differ or there are none, on all devices that have a partial sum. The following is
// unstated: operators that read partial sums (they get the sum, on the same devices), operands whose parts overlap or
// that are read twice in different ways (they have no division), micro-batches, and everything that only training
// needs. None of this changes a result.
// Complexity: linear in the tasks of all operators.
[[nodiscard]] onnx_plan onnx_plan_of(const tensor::algebra& a, const parallel::plan& p);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_PLAN)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/shard_layout.hpp>

namespace unity::io {

namespace detail {

UNITY_INLINE device_sharding sharding_of(const parallel::shard_layout& layout, const tensor::shape& dims) {
  device_sharding s;
  for (const auto& part : layout.devices) {
    auto& devices = s.devices.emplace_back();
    for (const auto d : part) {
      devices.push_back(static_cast<std::int64_t>(d.index()));
    }
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (layout.parts[d] > 1) {
      s.dimensions.push_back({static_cast<std::int64_t>(d), dims[d], layout.parts[d]});
    }
  }
  return s;
}

// Makes the annotations of the operators of a plan.
class plan_annotator {
 public:
  plan_annotator(const tensor::algebra& a, const parallel::plan& p) : a_{a}, p_{p}, dimensions_{a, p.graph} {}

  [[nodiscard]] onnx_plan make();

 private:
  // Operators with the same unstated property: their number and the first of them.
  struct operators {
    std::size_t count = 0;
    node_id first{};

    void add(node_id n) {
      first = count == 0 ? n : first;
      ++count;
    }
  };

  void add(node_id n);
  // States results that are partial sums in the way that all readers read them, if the readers agree.
  void add_up();
  void list(const operators& which, std::string_view what);
  void list_unstated();

  const tensor::algebra& a_;
  const parallel::plan& p_;
  parallel::graph_dimensions dimensions_;
  onnx_plan made_{};
  operators of_partials_{};
  operators with_halos_{};
  operators in_two_ways_{};
};

UNITY_INLINE void plan_annotator::add(node_id n) {
  const auto& g = p_.graph;
  const auto& o = dimensions_[n];
  const auto& c = p_.configurations[n.index()];
  const auto layout = parallel::layout_of(o, c);
  auto& own = made_.devices.nodes[n.index()];
  bool has_halos = false;
  for (std::size_t i = 0; i < layout.operands.size(); ++i) {
    has_halos = has_halos || layout.operands[i].empty();
    own.operands.push_back(layout.operands[i].empty() ? device_sharding{}
                                                      : sharding_of(layout.operands[i], o.inputs[i].dims));
  }
  for (std::size_t r = 0; r < layout.results.size(); ++r) {
    own.results.push_back(sharding_of(layout.results[r], o.outputs[r].dims));
  }
  bool has_two_ways = false;
  const auto stated = own.operands;
  for (std::size_t i = 0; i < stated.size(); ++i) {
    for (std::size_t k = 0; k < stated.size(); ++k) {
      if (g.operands(n)[i] == g.operands(n)[k] && stated[i] != stated[k]) {
        own.operands[i] = {};
        has_two_ways = true;
      }
    }
  }
  if (has_halos) {
    with_halos_.add(n);
  }
  if (has_two_ways) {
    in_two_ways_.add(n);
  }
  if (parallel::product(c.partials) > 1) {
    of_partials_.add(n);
  }
}

UNITY_INLINE void plan_annotator::add_up() {
  const auto& g = p_.graph;
  std::vector<std::optional<device_sharding>> read(g.value_count());
  std::vector<bool> differs(g.value_count());
  for (const auto n : node_ids(g)) {
    for (std::size_t i = 0; i < g.operands(n).size(); ++i) {
      const auto v = g.operands(n)[i].index();
      const auto& as = made_.devices.nodes[n.index()].operands[i];
      differs[v] = differs[v] || as.devices.empty() || (read[v] && *read[v] != as);
      read[v] = as;
    }
  }
  for (const auto n : node_ids(g)) {
    for (std::size_t r = 0; r < g.results(n).size(); ++r) {
      const auto v = g.results(n)[r].index();
      if (parallel::product(p_.configurations[n.index()].reductions) > 1 && read[v] && !differs[v]) {
        made_.devices.nodes[n.index()].results[r] = *read[v];
      }
    }
  }
}

UNITY_INLINE void plan_annotator::list(const operators& which, std::string_view what) {
  if (which.count > 0) {
    made_.unstated.push_back(fmt::format("{}: {} operator{}, the first is node {} ({})", what, which.count,
                                         which.count > 1 ? "s" : "", which.first.index(),
                                         a_.signature(p_.graph.operation(which.first).kind).name));
  }
}

UNITY_INLINE void plan_annotator::list_unstated() {
  list(of_partials_, "partial sums that are read before they are added up");
  list(with_halos_, "overlapping or unequal parts that are read");
  list(in_two_ways_, "one tensor that is read in two ways");
  if (p_.pipeline.microbatches > 1) {
    const auto schedule = parallel::pipeline_schedule_names[static_cast<std::size_t>(p_.pipeline.schedule)];
    made_.unstated.push_back(
        fmt::format("{} micro-batches{}", p_.pipeline.microbatches,
                    p_.pipeline.stage_count() > 1 ? fmt::format(" ({})", schedule) : std::string{}));
  }
  if (p_.synchronization != parallel::synchronization{}) {
    made_.unstated.emplace_back("synchronization of weights");
  }
  if (p_.recomputed != parallel::recomputation{}) {
    made_.unstated.emplace_back("recomputation");
  }
  if (p_.offloaded != parallel::offloading{}) {
    made_.unstated.emplace_back("offloading");
  }
}

UNITY_INLINE onnx_plan plan_annotator::make() {
  const auto& g = p_.graph;
  made_.devices.name = p_.machine.name;
  made_.devices.nodes.resize(g.node_count());
  for (const auto& d : p_.machine.network.devices()) {
    made_.devices.devices.push_back(d.name);
  }
  const auto chunks = parallel::chunks_of(g, p_.configurations, p_.pipeline);
  const auto stages = p_.pipeline.stage_count();
  for (const auto n : node_ids(g)) {
    if (g.operands(n).empty()) {
      continue;
    }
    add(n);
    if (stages > 1) {
      const auto device = p_.configurations[n.index()].devices[0];
      made_.devices.nodes[n.index()].stage =
          std::int64_t{chunks[n.index()]} * stages + p_.pipeline.stages[device.index()];
    }
  }
  add_up();
  list_unstated();
  return std::move(made_);
}

}  // namespace detail

UNITY_INLINE onnx_plan onnx_plan_of(const tensor::algebra& a, const parallel::plan& p) {
  return detail::plan_annotator{a, p}.make();
}

}  // namespace unity::io

#endif
