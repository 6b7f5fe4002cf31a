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
  // layers, for any number of earlier iterations.
  void observe(const gnn::vertex_partition& p, std::span<const layer_seconds> parts);
  // Seconds of each part under the partition of the last observation.
  [[nodiscard]] const std::vector<part_seconds>& last() const noexcept { return last_; }

  // A new partition, if its predicted gain is worth the cost of moving; nullopt without observations.
  [[nodiscard]] std::optional<gnn::vertex_partition> better(const gnn::vertex_partition& now,
                                                            const gnn::repartition_rule& rule) const;
  // The partition of another graph with the same model that is predicted to be the fastest.
  // Source: section 4.7.6 of Jia's dissertation.
  [[nodiscard]] gnn::vertex_partition partition_of(gnn::csr_view other) const;
  // The predicted total time of the part's layers.
  [[nodiscard]] double predicted(const gnn::vertex_partition& p, std::size_t part) const;

 private:
  // The learned costs of each part's layers on a graph with these sums.
  [[nodiscard]] gnn::range_costs costs_on(const gnn::vertex_feature_sums& sums) const;

  gnn::csr_view graph_;
  std::vector<std::size_t> places_{};  // by layer: the index of its width in the sums
  std::vector<std::size_t> kinds_;
  gnn::vertex_feature_sums sums_;
  gnn::layer_cost_models costs_{};
  std::vector<part_seconds> last_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_RANGE_BALANCER)

#include <algorithm>
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
  last_.assign(parts.size(), {});
  for (std::size_t k = 0; k < parts.size(); ++k) {
    last_[k] = {predicted(p, k), std::accumulate(parts[k].begin(), parts[k].end(), 0.0)};
  }
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (std::size_t l = 0; l < places_.size(); ++l) {
      costs_.observe(l, kinds_[k], sums_.of(p.range(k), places_[l]), parts[k][l]);
    }
  }
}

UNITY_INLINE gnn::range_costs range_balancer::costs_on(const gnn::vertex_feature_sums& sums) const {
  std::vector<std::vector<gnn::layer_on_device>> devices(kinds_.size());
  for (std::size_t k = 0; k < devices.size(); ++k) {
    for (std::size_t l = 0; l < places_.size(); ++l) {
      devices[k].push_back({costs_.snapshot(l, kinds_[k]), places_[l]});
    }
  }
  return gnn::range_costs{sums, devices};
}

UNITY_INLINE gnn::vertex_partition range_balancer::partition_of(gnn::csr_view other) const {
  const gnn::vertex_feature_sums sums{other, sums_.widths()};
  return gnn::balanced_partition(costs_on(sums));
}

UNITY_INLINE double range_balancer::predicted(const gnn::vertex_partition& p, std::size_t part) const {
  double sum = 0;
  for (std::size_t l = 0; l < places_.size(); ++l) {
    sum += costs_.snapshot(l, kinds_[part]).seconds(sums_.of(p.range(part), places_[l]));
  }
  return sum;
}

UNITY_INLINE std::optional<gnn::vertex_partition> range_balancer::better(const gnn::vertex_partition& now,
                                                                         const gnn::repartition_rule& rule) const {
  if (last_.empty()) {
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
