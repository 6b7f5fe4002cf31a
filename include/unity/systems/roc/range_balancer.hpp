// Learns the times of layers on vertex ranges during training, and repartitions the vertices if it pays off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_costs.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::systems {

// Seconds of each layer of a part in an iteration, forward and backward. Regular.
using layer_seconds = std::vector<double>;

// Seconds of a part, summed over its layers. Regular.
struct part_seconds {
  double predicted = 0;  // from all iterations except the last
  double measured = 0;   // in the last iteration

  friend bool operator==(const part_seconds&, const part_seconds&) = default;
};

// Devices of parts have kinds; a measurement on one device counts for all of its kind. The same observations give the
// same partitions on all ranks.
class range_balancer {
 public:
  // widths: by layer, columns of the rows that are summed. kinds: by part, the kind of its device. The graph must
  // outlive it. Complexity: as vertex_feature_sums.
  range_balancer(gnn::csr_view g, std::span<const std::uint32_t> widths, std::vector<std::size_t> kinds);

  // Records an iteration under the partition: for each part, the seconds of each layer. Complexity: linear in parts and
  // layers, for any number of earlier iterations; nothing is fitted.
  void observe(const gnn::vertex_partition& p, std::span<const layer_seconds> parts);
  // Seconds of each part under the partition of the last observation. Complexity: linear in parts and layers, and a fit
  // for each layer and kind of device.
  [[nodiscard]] std::vector<part_seconds> last() const;

  // A new partition, if its predicted gain is worth the cost of moving; nullopt without observations.
  [[nodiscard]] std::optional<gnn::vertex_partition> better(const gnn::vertex_partition& now,
                                                            const gnn::repartition_rule& rule) const;
  // The partition of another graph with the same model that is predicted to be the fastest.
  // Source: section 4.7.6 of Jia's dissertation.
  [[nodiscard]] gnn::vertex_partition partition_of(gnn::csr_view other) const;

 private:
  // The layers of each part with their costs. A fit takes far longer than what is done with it for a part, so there is
  // one for each layer and kind of device.
  [[nodiscard]] std::vector<std::vector<gnn::layer_on_device>> layers_by(const gnn::layer_cost_models& costs) const;
  // The learned costs of each part's layers on a graph with these sums.
  [[nodiscard]] gnn::range_costs costs_on(const gnn::vertex_feature_sums& sums) const;

  gnn::csr_view graph_;
  std::vector<std::size_t> places_{};  // by layer: the index of its width in the sums
  std::vector<std::size_t> kinds_;
  gnn::vertex_feature_sums sums_;
  gnn::layer_cost_models costs_{};
  gnn::layer_cost_models before_{};    // without the last observation
  gnn::vertex_partition partition_{};  // of the last observation
  std::vector<double> measured_{};     // seconds of each part in it
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_RANGE_BALANCER)

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace unity::systems {

namespace detail {

[[nodiscard]] UNITY_INLINE std::vector<std::uint32_t> distinct_widths(std::span<const std::uint32_t> widths) {
  std::vector<std::uint32_t> all(widths.begin(), widths.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace detail

UNITY_INLINE range_balancer::range_balancer(gnn::csr_view g, std::span<const std::uint32_t> widths,
                                            std::vector<std::size_t> kinds)
    : graph_{g}, kinds_{std::move(kinds)}, sums_{g, detail::distinct_widths(widths)} {
  for (const auto w : widths) {
    const auto& all = sums_.widths();
    places_.push_back(static_cast<std::size_t>(std::find(all.begin(), all.end(), w) - all.begin()));
  }
}

UNITY_INLINE void range_balancer::observe(const gnn::vertex_partition& p, std::span<const layer_seconds> parts) {
  UNITY_EXPECTS(parts.size() == p.parts() && parts.size() == kinds_.size(), "the seconds of each part");
  before_ = costs_;
  partition_ = p;
  measured_.clear();
  for (std::size_t k = 0; k < parts.size(); ++k) {
    measured_.push_back(std::accumulate(parts[k].begin(), parts[k].end(), 0.0));
    for (std::size_t l = 0; l < places_.size(); ++l) {
      costs_.observe(l, kinds_[k], sums_.of(p.range(k), places_[l]), parts[k][l]);
    }
  }
}

UNITY_INLINE std::vector<std::vector<gnn::layer_on_device>> range_balancer::layers_by(
    const gnn::layer_cost_models& costs) const {
  std::map<std::size_t, std::vector<gnn::layer_on_device>> fitted;  // by kind
  std::vector<std::vector<gnn::layer_on_device>> all;
  for (const auto kind : kinds_) {
    const auto [place, is_new] = fitted.try_emplace(kind);
    for (std::size_t l = 0; l < places_.size() && is_new; ++l) {
      place->second.push_back({costs.snapshot(l, kind), places_[l]});
    }
    all.push_back(place->second);
  }
  return all;
}

UNITY_INLINE std::vector<part_seconds> range_balancer::last() const {
  const auto layers = layers_by(before_);
  std::vector<part_seconds> all;
  for (std::size_t k = 0; k < measured_.size(); ++k) {
    double predicted = 0;
    for (const auto& l : layers[k]) {
      predicted += l.cost.seconds(sums_.of(partition_.range(k), l.width));
    }
    all.push_back({predicted, measured_[k]});
  }
  return all;
}

UNITY_INLINE gnn::range_costs range_balancer::costs_on(const gnn::vertex_feature_sums& sums) const {
  return gnn::range_costs{sums, layers_by(costs_)};
}

UNITY_INLINE gnn::vertex_partition range_balancer::partition_of(gnn::csr_view other) const {
  const gnn::vertex_feature_sums sums{other, sums_.widths()};
  return gnn::balanced_partition(costs_on(sums));
}

UNITY_INLINE std::optional<gnn::vertex_partition> range_balancer::better(const gnn::vertex_partition& now,
                                                                         const gnn::repartition_rule& rule) const {
  if (measured_.empty()) {
    return std::nullopt;
  }
  const auto costs = costs_on(sums_);
  auto next = gnn::balanced_partition(costs);
  for (std::size_t k = 0; k < next.parts(); ++k) {
    if (next.range(k).size() == 0) {
      return std::nullopt;  // a rank without vertices has nothing to run
    }
  }
  const auto decision = gnn::judge_repartition(costs, graph_, now, next, rule);
  return decision.is_worth_it ? std::optional{std::move(next)} : std::nullopt;
}

}  // namespace unity::systems

#endif
