// Converts a plan to its training form, with dropout masks and a loss.
#pragma once

#include <cstddef>
#include <utility>

#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>

namespace unity::train {

namespace detail {

// The configuration of a dropout for its product with a mask: degrees of the same dimensions, and the same partials of
// the first operand.
[[nodiscard]] parallel::configuration masked(const parallel::operator_dimensions& product,
                                             const parallel::operator_dimensions& dropout,
                                             const parallel::configuration& of);

}  // namespace detail

// Replaces each dropout by a product with a mask, which is an input (tensor/loss.hpp); the product is divided
// like the dropout. Complexity: linear in the plan.
[[nodiscard]] parallel::plan with_masks(const tensor::algebra& a, parallel::plan p);

// Likewise, and adds a loss after the outputs, divided like them; for micro-batches, each one's share of the loss. The
// results of the loss are neither recomputed nor offloaded. With stale servers, the loss consists of partials, one per
// device, so that ranks need not wait for each other's.
// Throws: as tensor::with_loss.
[[nodiscard]] parallel::plan with_loss(const tensor::algebra& a, parallel::plan p, tensor::loss what);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_TRAINING_PLAN)

#include <algorithm>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/strategies/loss_strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::train::detail {

UNITY_INLINE parallel::configuration masked(const parallel::operator_dimensions& product,
                                            const parallel::operator_dimensions& dropout,
                                            const parallel::configuration& of) {
  parallel::configuration c{parallel::degree_list(product.divisible.size(), 1), of.devices, {}, {}, of.copies};
  for (std::size_t k = 0; k < dropout.divisible.size(); ++k) {
    const auto same = std::find_if(product.divisible.begin(), product.divisible.end(),
                                   [&](const auto& d) { return d.dimension == dropout.divisible[k].dimension; });
    c.degrees[static_cast<std::size_t>(same - product.divisible.begin())] = of.degrees[k];
  }
  if (parallel::product(of.partials) > 1) {
    c.partials = parallel::degree_list(product.groups.size(), 1);
    const auto first =
        std::find_if(product.groups.begin(), product.groups.end(), [](const auto& g) { return g.front() == 0; });
    c.partials[static_cast<std::size_t>(first - product.groups.begin())] = parallel::product(of.partials);
  }
  return c;
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE parallel::plan with_masks(const tensor::algebra& a, parallel::plan p) {
  auto form = tensor::training_form(a, p.graph);
  if (form.masks.empty()) {
    return p;
  }
  const parallel::graph_dimensions before{a, p.graph};
  const parallel::graph_dimensions now{a, form.graph};
  parallel::strategy s(form.graph.node_count());
  for (std::size_t n = 0; n < form.nodes.size(); ++n) {
    const auto to = form.nodes[n];
    const bool is_dropout = p.graph.operation(node_id{n}).kind == a.kind("dropout");
    s[to.index()] = is_dropout ? detail::masked(now[to], before[node_id{n}], p.configurations[n]) : p.configurations[n];
  }
  const auto of_form = [&](const std::vector<bool>& nodes) {
    std::vector<bool> all(nodes.empty() ? 0 : form.graph.node_count());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      all[form.nodes[n].index()] = nodes[n];
    }
    return all;
  };
  p.recomputed = of_form(p.recomputed);
  p.offloaded = of_form(p.offloaded);
  p.graph = std::move(form.graph);
  p.configurations = std::move(s);
  return p;
}

UNITY_INLINE parallel::plan with_loss(const tensor::algebra& a, parallel::plan p, tensor::loss what) {
  p = with_masks(a, std::move(p));
  p.graph = tensor::with_loss(a, p.graph, what, p.pipeline.microbatches);
  bool is_stale = false;
  parallel::for_each_part(p.synchronization,
                          [&](const parallel::synchronizer& part) { is_stale = is_stale || part.staleness > 0; });
  const parallel::graph_dimensions all{a, p.graph};
  const auto devices = p.machine.network.device_count();
  auto apart = p.configurations;
  parallel::follow(p.graph, all, devices, apart, parallel::summed_outputs::partial);
  if (is_stale || !parallel::identical_ranks(p.graph, all, parallel::training_graph{a, p.graph}, apart).empty()) {
    p.configurations = std::move(apart);
  } else {
    parallel::follow(p.graph, all, devices, p.configurations, parallel::summed_outputs::added_up);
  }
  p.recomputed.resize(p.recomputed.empty() ? 0 : p.graph.node_count());
  p.offloaded.resize(p.offloaded.empty() ? 0 : p.graph.node_count());
  return p;
}

}  // namespace unity::train

#endif
