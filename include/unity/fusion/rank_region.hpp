// The kernels of rank programs as backends see them.
#pragma once

#include <unity/fusion/kernel_region.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::fusion {

// The graph that a backend compiles as one kernel: its operators, with inputs as nodes of kind "input".
[[nodiscard]] kernel_region region_of(const tensor::algebra& a, const parallel::rank_program& p,
                                      const parallel::rank_kernel& k);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_RANK_REGION)

#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::fusion {

UNITY_INLINE kernel_region region_of(const tensor::algebra& a, const parallel::rank_program& p,
                                     const parallel::rank_kernel& k) {
  kernel_region r;
  r.rows = k.rows;
  std::vector<value_id> now(p.graph.value_count());
  for (const auto v : k.inputs) {
    const auto& t = p.graph.type(v);
    auto op = a.make_operation(
        "input",
        {{"name", fmt::format("{}", r.is_divided.size())}, {"element", tensor::name_of(t.element)}, {"dims", t.dims}});
    now[v.index()] = r.graph.results(r.graph.add_node(std::move(op), {}, {&t, 1}))[0];
    r.is_divided.push_back(p.is_divided[v.index()]);
  }
  for (const auto n : k.nodes) {
    static_cast<void>(copy_node(p.graph, n, r.graph, now));
    for (const auto v : p.graph.results(n)) {
      r.is_divided.push_back(p.is_divided[v.index()]);
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : k.outputs) {
    outputs.push_back(now[v.index()]);
  }
  r.graph.set_outputs(outputs);
  return r;
}

}  // namespace unity::fusion

#endif
