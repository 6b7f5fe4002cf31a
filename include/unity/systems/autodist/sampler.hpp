// Random synchronizations of a model's weights, concentrated around good ones.
// Source: Zhang et al., AutoDist: a composable and automated synchronization system for distributed deep learning,
// section 2.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>

namespace unity::systems {

// Guides the draws. Regular.
struct sampling_guide {
  bytes whole{1 << 20};     // smaller weights are never divided
  bytes cut{64 << 20};      // weights of at least this size are always divided; those between at random
  std::uint32_t parts = 0;  // maximum per weight; 0: twice the number of servers, at least 16

  friend bool operator==(const sampling_guide&, const sampling_guide&) = default;
};

// Renumbers buckets without gaps: drops empty ones, divides those with several element types, and orders them by the
// time at which the backward pass, from the last weight to the first, completes their gradients. Buckets of `s` may
// have any numbers; their names are ignored.
[[nodiscard]] parallel::synchronization with_ordered_buckets(const sync_problem& p, parallel::synchronization s);

// Assigns each served part, from the largest to the smallest, to the server with the fewest bytes so far.
void balance_servers(const sync_problem& p, parallel::synchronization& s);

// The maximum number of parts that a draw makes of the weight along the axis.
[[nodiscard]] std::uint32_t most_parts(const sync_problem& p, const sampling_guide& guide, const weight_facts& w,
                                       std::uint32_t axis);

// Draws a synchronization without compressors and staleness, which would change the training result. Drawn once for all
// weights: the probability that a weight is served, or a size threshold for it; the probability that devices keep
// copies; the probability that a lookup's gradient is sent as rows; whether all-reduces are grouped, and the number of
// groups. The rest is drawn for each weight. Servers are balanced. Groups have about equal bytes, and contain
// neighbouring weights or arbitrary ones.
[[nodiscard]] parallel::synchronization random_synchronization(const sync_problem& p, const sampling_guide& guide,
                                                               random_engine& random);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_SAMPLER)

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::systems {

namespace detail {

struct part_place {
  std::size_t weight = 0;
  std::size_t part = 0;
  bytes size{};
};

// Calls f(place, its synchronizer) for all parts of trained weights.
template <class Sync, class F>
void for_each_place(const sync_problem& p, Sync& s, const F& f) {
  for (std::size_t w = 0; w < p.weights.size(); ++w) {
    if (!p.weights[w].is_trained) {
      continue;
    }
    auto& own = s.weights[w];
    const auto boxes = boxes_of(own, p.weights[w].dims);
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      f(part_place{w, k, bytes{boxes[k].volume() * tensor::size_of(p.weights[w].element)}}, own.parts[k]);
    }
  }
}

// Draws one synchronization.
class sync_draw {
 public:
  sync_draw(const sync_problem& p, const sampling_guide& guide, random_engine& random)
      : problem_{p}, guide_{guide}, random_{random} {
    all_.weights.resize(p.weights.size());
  }

  [[nodiscard]] parallel::synchronization draw() &&;

 private:
  enum class served_by : std::uint8_t { coin, large, small };

  [[nodiscard]] bool toss(double probability) { return random_.unit() < probability; }
  // 0, 1 or a uniform number between them, with equal probability.
  [[nodiscard]] double any_probability() {
    const auto corner = random_.below(3);
    return corner == 0 ? 0 : corner == 1 ? 1 : random_.unit();
  }
  void draw_whole();
  void draw_weight(std::size_t w);
  void group();

  const sync_problem& problem_;
  const sampling_guide& guide_;
  random_engine& random_;
  parallel::synchronization all_{};
  served_by served_ = served_by::coin;
  double server_share_ = 0;
  bytes threshold_{};
  double proxy_share_ = 0;
  double row_share_ = 0;
};

UNITY_INLINE void sync_draw::draw_whole() {
  served_ = static_cast<served_by>(random_.below(3));
  server_share_ = any_probability();
  threshold_ = problem_.weights[random_.below(problem_.weights.size())].size();
  proxy_share_ = any_probability();
  row_share_ = toss(0.75) ? 1 : random_.unit();
}

UNITY_INLINE void sync_draw::draw_weight(std::size_t w) {
  const auto& facts = problem_.weights[w];
  const auto size = facts.size();
  parallel::synchronizer s;
  const bool is_served = served_ == served_by::coin    ? toss(server_share_)
                         : served_ == served_by::large ? size >= threshold_
                                                       : size < threshold_;
  s.kind = is_served ? parallel::sync_kind::parameter_server : parallel::sync_kind::all_reduce;
  s.is_proxied = !is_served || toss(proxy_share_);
  s.is_per_node = is_served && problem_.is_per_node;
  s.is_sparse = facts.is_sparse && toss(row_share_);
  auto& own = all_.weights[w];
  std::vector<std::uint32_t> axes;
  for (std::uint32_t d = 0; d < facts.dims.size() && (d == 0 || !facts.is_sparse); ++d) {
    if (most_parts(problem_, guide_, facts, d) > 1) {
      axes.push_back(d);
    }
  }
  // Gathered rows are not divided, because each part would gather them all.
  const bool may_cut = !axes.empty() && (is_served || !s.is_sparse) && size >= guide_.whole;
  std::uint32_t parts = 1;
  if (may_cut && (size >= guide_.cut || toss(0.5))) {
    own.axis = axes[random_.below(axes.size())];
    parts = 2 + static_cast<std::uint32_t>(random_.below(most_parts(problem_, guide_, facts, own.axis) - 1));
  }
  if (is_served) {
    s.destination = problem_.servers.front();
  }
  own.parts.assign(parts, s);
}

// Assigns parts to groups of about equal bytes.
UNITY_INLINE void sync_draw::group() {
  std::vector<part_place> grouped;
  bytes all{};
  for_each_place(problem_, all_, [&](const part_place& at, const parallel::synchronizer& s) {
    if (s.kind == parallel::sync_kind::all_reduce && !s.is_sparse) {
      grouped.push_back(at);
      all += at.size;
    }
  });
  const auto alone = random_.below(3) == 0;
  const auto neighbours = toss(0.5);
  const auto share = random_.unit();
  if (alone || grouped.empty()) {
    return;
  }
  const auto count =
      static_cast<std::size_t>(std::llround(std::pow(static_cast<double>(grouped.size()), share)));  // log-uniform
  if (!neighbours) {
    for (std::size_t i = grouped.size(); i > 1; --i) {
      std::swap(grouped[i - 1], grouped[random_.below(i)]);
    }
  }
  std::vector<bytes> loads(count);
  std::size_t at = 0;
  bytes before{};
  for (const auto& g : grouped) {
    if (neighbours) {
      at = static_cast<std::size_t>(static_cast<double>(before.count()) / static_cast<double>(all.count() + 1) *
                                    static_cast<double>(count));
      before += g.size;
    } else {
      at = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    }
    loads[at] += g.size;
    all_.weights[g.weight].parts[g.part].bucket = static_cast<std::uint32_t>(at);
  }
}

UNITY_INLINE parallel::synchronization sync_draw::draw() && {
  draw_whole();
  for (std::size_t w = 0; w < problem_.weights.size(); ++w) {
    if (problem_.weights[w].is_trained) {
      draw_weight(w);
    }
  }
  group();
  balance_servers(problem_, all_);
  return with_ordered_buckets(problem_, std::move(all_));
}

}  // namespace detail

UNITY_INLINE parallel::synchronization with_ordered_buckets(const sync_problem& p, parallel::synchronization s) {
  using key = std::pair<std::uint32_t, tensor::dtype>;
  std::map<key, std::size_t> first;  // the weight whose gradient is ready last
  for (std::size_t w = 0; w < p.weights.size(); ++w) {
    for (const auto& part : s.weights[w].parts) {
      if (part.bucket != parallel::synchronizer::no_bucket) {
        first.try_emplace({part.bucket, p.weights[w].element}, w);
      }
    }
  }
  std::vector<std::pair<std::size_t, key>> order;
  for (const auto& [k, w] : first) {
    order.emplace_back(w, k);
  }
  std::sort(order.begin(), order.end(),
            [](const auto& x, const auto& y) { return std::tie(y.first, x.second) < std::tie(x.first, y.second); });
  std::map<key, std::uint32_t> number;
  s.buckets.clear();
  for (const auto& [w, k] : order) {
    number[k] = static_cast<std::uint32_t>(s.buckets.size());
    s.buckets.push_back(fmt::format("group {}", s.buckets.size()));
  }
  for (std::size_t w = 0; w < p.weights.size(); ++w) {
    for (auto& part : s.weights[w].parts) {
      if (part.bucket != parallel::synchronizer::no_bucket) {
        part.bucket = number.at({part.bucket, p.weights[w].element});
      }
    }
  }
  return s;
}

UNITY_INLINE void balance_servers(const sync_problem& p, parallel::synchronization& s) {
  std::vector<detail::part_place> served;
  detail::for_each_place(p, s, [&](const detail::part_place& at, const parallel::synchronizer& sync) {
    if (sync.kind == parallel::sync_kind::parameter_server) {
      served.push_back(at);
    }
  });
  std::sort(served.begin(), served.end(), [](const auto& x, const auto& y) {
    return std::tuple{y.size, x.weight, x.part} < std::tuple{x.size, y.weight, y.part};
  });
  std::vector<bytes> loads(p.servers.size());
  for (const auto& at : served) {
    const auto least = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    loads[least] += at.size;
    s.weights[at.weight].parts[at.part].destination = p.servers[least];
  }
}

UNITY_INLINE std::uint32_t most_parts(const sync_problem& p, const sampling_guide& guide, const weight_facts& w,
                                      std::uint32_t axis) {
  const auto most =
      guide.parts > 0 ? std::size_t{guide.parts} : std::max<std::size_t>(2 * p.servers.size(), std::size_t{16});
  return static_cast<std::uint32_t>(std::min<std::int64_t>(w.dims[axis], static_cast<std::int64_t>(most)));
}

UNITY_INLINE parallel::synchronization random_synchronization(const sync_problem& p, const sampling_guide& guide,
                                                              random_engine& random) {
  return detail::sync_draw{p, guide, random}.draw();
}

}  // namespace unity::systems

#endif
