// Features of a synchronization that a ranker learns from.
//
// For each weight: its properties and its synchronization. For the whole: the load by a network model without overlap,
// for servers and for groups: {maximum, sum} of {bytes over bandwidth, number of messages, latencies}, as in Zhang et
// al., AutoDist, section 2.4 and appendix C; and an estimate of the iteration time from these, which ranks candidates
// before anything is learned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/learn/ranker.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>

namespace unity::systems {

inline constexpr std::size_t sync_item_features = 18;
inline constexpr std::size_t sync_list_features = 14;
// The index of the estimate among the list features, in seconds.
inline constexpr std::size_t sync_estimate = 0;

// Initial factors: a smaller estimate is better.
[[nodiscard]] constexpr std::array<float, sync_list_features> fixed_sync_factors() noexcept {
  std::array<float, sync_list_features> all{};
  all[sync_estimate] = -1;
  return all;
}

class sync_features {
 public:
  // Replicas produce gradients. Precondition: at least one replica and one server, all on the machine.
  sync_features(const sync_problem& p, const hardware::machine& m, std::span<const hardware::device_id> replicas);

  [[nodiscard]] learn::ranking_shape shape() const { return {sync_item_features, sync_list_features}; }
  // The number of trained weights.
  [[nodiscard]] std::size_t items() const noexcept { return trained_.size(); }
  // Complexity: linear in the parts. Precondition: the synchronization fits the problem.
  [[nodiscard]] learn::ranked_list of(const parallel::synchronization& s) const;

 private:
  // A load of messages, or of transfers that take turns on a server.
  struct load {
    double seconds = 0;
    double messages = 0;
    double latency = 0;  // seconds

    load& operator+=(const load& x) {
      seconds += x.seconds;
      messages += x.messages;
      latency += x.latency;
      return *this;
    }
  };

  // A ring all-reduce over all replicas.
  [[nodiscard]] load reduced(double size) const;
  [[nodiscard]] load gathered(double size) const;
  // Sent to a server by all replicas, and back.
  [[nodiscard]] load served(double gradients, double weights) const;
  [[nodiscard]] static std::array<double, 6> most_and_sum(std::span<const load> all);

  const sync_problem& problem_;
  std::vector<std::size_t> trained_;
  double replicas_;
  double senders_;       // to a server: replicas, or their nodes
  double ring_rate_;     // bytes per second of the slowest hop in a ring of the replicas
  double ring_latency_;  // seconds per hop
  double server_rate_;   // bytes per second of the slowest route from the first or last replica to a server
  double server_latency_;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_FEATURES)

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE sync_features::sync_features(const sync_problem& p, const hardware::machine& m,
                                          std::span<const hardware::device_id> replicas)
    : problem_{p},
      replicas_{static_cast<double>(replicas.size())},
      senders_{replicas_},
      ring_rate_{std::numeric_limits<double>::infinity()},
      ring_latency_{0},
      server_rate_{std::numeric_limits<double>::infinity()},
      server_latency_{0} {
  UNITY_EXPECTS(!replicas.empty() && !p.servers.empty(), "a replica and a server");
  for (std::size_t w = 0; w < p.weights.size(); ++w) {
    if (p.weights[w].is_trained) {
      trained_.push_back(w);
    }
  }
  if (p.is_per_node) {
    std::set<std::uint32_t> nodes;
    for (const auto d : replicas) {
      nodes.insert(m.network[d].node);
    }
    senders_ = static_cast<double>(nodes.size());
  }
  const hardware::route_table routes{m.network};
  const auto widen = [&](hardware::device_id from, hardware::device_id to, double& rate, double& latency) {
    const auto c = routes.cost(m.network, from, to);
    if (c.bytes_per_second > 0) {
      rate = std::min(rate, static_cast<double>(c.bytes_per_second));
      latency = std::max(latency, to_seconds(c.latency));
    }
  };
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    widen(replicas[i], replicas[(i + 1) % replicas.size()], ring_rate_, ring_latency_);
  }
  for (const auto server : p.servers) {
    widen(replicas.front(), server, server_rate_, server_latency_);
    widen(replicas.back(), server, server_rate_, server_latency_);
  }
}

UNITY_INLINE auto sync_features::reduced(double size) const -> load {
  const auto rounds = 2 * (replicas_ - 1);
  return {size * rounds / replicas_ / ring_rate_, rounds, rounds * ring_latency_};
}

UNITY_INLINE auto sync_features::gathered(double size) const -> load {
  const auto rounds = replicas_ - 1;
  return {size * rounds / replicas_ / ring_rate_, rounds, rounds * ring_latency_};
}

UNITY_INLINE auto sync_features::served(double gradients, double weights) const -> load {
  return {(gradients + weights) / server_rate_, 2 * senders_, 2 * server_latency_};
}

UNITY_INLINE std::array<double, 6> sync_features::most_and_sum(std::span<const load> all) {
  load most;
  load sum;
  for (const auto& l : all) {
    most = {std::max(most.seconds, l.seconds), std::max(most.messages, l.messages), std::max(most.latency, l.latency)};
    sum += l;
  }
  return {most.seconds, sum.seconds, most.messages, sum.messages, most.latency, sum.latency};
}

UNITY_INLINE learn::ranked_list sync_features::of(const parallel::synchronization& s) const {
  using parallel::sync_kind;
  std::vector<load> servers(problem_.servers.size());
  std::vector<load> groups;
  std::vector<double> bucket_bytes(s.buckets.size());
  std::vector<double> bucket_parts(s.buckets.size());
  const auto server_of = [&](const parallel::synchronizer& part) {
    const auto at = std::find(problem_.servers.begin(), problem_.servers.end(), part.destination);
    return static_cast<std::size_t>(at == problem_.servers.end() ? 0 : at - problem_.servers.begin());
  };
  // The size of a part of a weight, assuming equal parts.
  const auto part_bytes = [&](std::size_t w) {
    return static_cast<double>(problem_.weights[w].size().count()) / static_cast<double>(s.weights[w].parts.size());
  };
  const auto rows_of = [&](std::size_t w) { return static_cast<double>(problem_.weights[w].rows.count()); };
  // Bytes of a part that are sent to all devices: only looked-up rows, if servers look them up
  // (parallel/row_fetching.hpp).
  const auto fetched = [&](std::size_t w, const parallel::synchronizer& part) {
    const auto all = senders_ * part_bytes(w);
    return part.is_sparse && !part.is_proxied ? std::min(rows_of(w), all) : all;
  };
  double proxied = 0;
  double all_served = 0;
  for (const auto w : trained_) {
    bool has_rows = false;
    for (const auto& part : s.weights[w].parts) {
      const auto size = part_bytes(w);
      if (part.kind == sync_kind::parameter_server) {
        const auto gradients = !part.is_sparse ? senders_ * size : has_rows ? 0 : rows_of(w);
        servers[server_of(part)] += served(gradients, fetched(w, part));
        all_served += size;
        proxied += part.is_proxied ? size : 0;
      } else if (part.is_sparse && !has_rows) {
        groups.push_back(gathered(rows_of(w)));
      } else if (part.bucket != parallel::synchronizer::no_bucket) {
        bucket_bytes[part.bucket] += size;
        bucket_parts[part.bucket] += 1;
      } else if (!part.is_sparse) {
        groups.push_back(reduced(size));
      }
      has_rows = has_rows || part.is_sparse;
    }
  }
  for (const auto b : bucket_bytes) {
    groups.push_back(reduced(b));
  }
  learn::ranked_list l;
  const auto count = static_cast<double>(trained_.size());
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const auto w = trained_[i];
    const auto& facts = problem_.weights[w];
    const auto& parts = s.weights[w].parts;
    const auto& first = parts.front();
    const bool is_served = first.kind == sync_kind::parameter_server;
    const bool is_grouped = first.bucket != parallel::synchronizer::no_bucket;
    double busiest = 0;
    double message = part_bytes(w);
    for (const auto& part : parts) {
      if (is_served) {
        busiest = std::max(busiest, servers[server_of(part)].seconds);
      } else if (part.bucket != parallel::synchronizer::no_bucket) {
        message = std::max(message, bucket_bytes[part.bucket]);
      }
    }
    const auto size = static_cast<double>(facts.size().count());
    const auto parts_count = static_cast<double>(parts.size());
    const auto takes =
        is_served ? served(first.is_sparse ? rows_of(w) : senders_ * size, parts_count * fetched(w, first)).seconds
        : first.is_sparse ? gathered(rows_of(w)).seconds
                          : reduced(message).seconds;
    const auto flag = [](bool is) { return is ? 1.0 : 0.0; };
    const std::array<double, sync_item_features> row{
        std::log2(size + 1),
        static_cast<double>(i) / count,
        static_cast<double>(facts.dims.size()),
        flag(facts.is_sparse),
        flag(is_served),
        flag(is_served && first.is_proxied),
        flag(first.is_sparse),
        flag(!is_served && !is_grouped),
        flag(is_grouped),
        std::log2(static_cast<double>(parts.size())),
        static_cast<double>(s.weights[w].axis),
        std::log2(message + 1),
        is_grouped ? static_cast<double>(first.bucket) / static_cast<double>(s.buckets.size()) : 0.0,
        is_grouped ? std::log2(bucket_parts[first.bucket] + 1) : 0.0,
        std::log2(1e6 * busiest + 1),
        std::log2(1e6 * takes + 1),
        flag(is_served) * size / 1e6,
        flag(!is_served) * size / 1e6,
    };
    l.items.insert(l.items.end(), row.begin(), row.end());
  }
  const auto on_servers = most_and_sum(servers);
  const auto in_groups = most_and_sum(groups);
  const std::array<double, sync_list_features> whole{
      on_servers[0] + on_servers[4] + in_groups[1] + in_groups[5],
      on_servers[0],
      on_servers[1],
      on_servers[2],
      on_servers[3],
      on_servers[4],
      in_groups[0],
      in_groups[1],
      in_groups[2],
      in_groups[3],
      in_groups[4],
      in_groups[5],
      all_served > 0 ? proxied / all_served : 0,
      all_served / 1e6,
  };
  l.whole.assign(whole.begin(), whole.end());
  return l;
}

}  // namespace unity::systems

#endif
