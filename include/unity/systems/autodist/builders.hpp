// AutoDist's strategy builders: each applies one rule to choose the synchronization of every weight.
// Source: Zhang et al., AutoDist: a composable and automated synchronization system for distributed deep learning,
// section 3.1; the builders are those of its project.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::systems {

// A weight from the view of builders. Regular.
struct weight_facts {
  std::string name{};
  tensor::shape dims{};
  tensor::dtype element{};
  bool is_trained = false;
  bool is_sparse = false;  // read by lookups only: its gradients are indices and rows
  bytes rows{};            // of such a gradient, for a whole batch
  [[nodiscard]] bytes size() const { return bytes{tensor::element_count(dims) * tensor::size_of(element)}; }

  friend bool operator==(const weight_facts&, const weight_facts&) = default;
};

// The input of builders. Regular.
struct sync_problem {
  std::vector<weight_facts> weights{};        // of the graph, in node order
  std::vector<hardware::device_id> servers{};  // candidates for parameter servers; at least one
  bool is_per_node = true;                    // devices of a node exchange with a server as one, like AutoDist's
};

[[nodiscard]] sync_problem sync_problem_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                           std::vector<hardware::device_id> servers);

// Options of builders. Regular.
struct builder_options {
  // The number of consecutive weights, or parts, that are all-reduced together, at least 1. With a compressor that
  // works on a single weight, each is reduced alone.
  std::uint32_t chunk = 128;
  bool is_proxied = false;      // all devices keep copies of served weights
  std::uint32_t staleness = 0;  // of served weights
  parallel::reduction_algorithm algorithm = parallel::reduction_algorithm::automatic;
  parallel::compressor compressor{};  // of dense all-reduced gradients
  std::uint64_t seed = 1;             // for random axes

  friend bool operator==(const builder_options&, const builder_options&) = default;
};

// All weights on the first server.
[[nodiscard]] parallel::synchronization ps(const sync_problem& p, const builder_options& o = {});
// Each weight on the server with the fewest bytes so far; ties go to the first.
[[nodiscard]] parallel::synchronization ps_load_balancing(const sync_problem& p, const builder_options& o = {});
// Like ps_load_balancing, but the number of parts of each weight is the smallest divisor, from 2 on, of its first
// dimension; each part goes to one of the servers with the fewest bytes. Whole weights if there is one server.
[[nodiscard]] parallel::synchronization partitioned_ps(const sync_problem& p, const builder_options& o = {});
// Likewise, but the number of parts is the smallest number, from 2 on, that does not divide the dimension; its size if
// there is none.
[[nodiscard]] parallel::synchronization uneven_partitioned_ps(const sync_problem& p, const builder_options& o = {});
// Divides weights of 1 MB or more along the first dimension into as many parts as there are servers, at most its size;
// each part goes to one of the servers with the fewest bytes. The paper calls it hand-optimized.
[[nodiscard]] parallel::synchronization sharded_ps(const sync_problem& p, const builder_options& o = {});
// All-reduces `chunk` weights together; gathers rows of lookups.
[[nodiscard]] parallel::synchronization all_reduce(const sync_problem& p, const builder_options& o = {});
// Likewise, with the parts of partitioned_ps.
[[nodiscard]] parallel::synchronization partitioned_all_reduce(const sync_problem& p, const builder_options& o = {});
// Likewise, divided along a random axis of more than one element; tables of lookups along the first.
[[nodiscard]] parallel::synchronization random_axis_all_reduce(const sync_problem& p, const builder_options& o = {});
// Dense gradients by all_reduce, sparse ones by ps_load_balancing without proxies.
// Source: Kim et al., Parallax: automatic data-parallel training of deep neural networks, 2018.
[[nodiscard]] parallel::synchronization parallax(const sync_problem& p, const builder_options& o = {});
// All-reduces up to 64 MB together, from the last weight to the first; gathers rows of lookups.
// Source: Sergeev and Del Balso, Horovod: fast and easy distributed deep learning in TensorFlow, 2018.
[[nodiscard]] parallel::synchronization horovod(const sync_problem& p, const builder_options& o = {});
// TensorFlow's parameter servers with the load balancing that AutoDist compares with: ps_load_balancing without
// proxies, so without staleness.
[[nodiscard]] parallel::synchronization tf_ps_load_balancing(const sync_problem& p, const builder_options& o = {});

// User-defined builders are functions of this type.
struct named_builder {
  std::string_view name{};
  parallel::synchronization (*build)(const sync_problem&, const builder_options&) = nullptr;
};
inline constexpr std::array<named_builder, 11> sync_builders{{{"ps", ps},
                                                              {"ps_load_balancing", ps_load_balancing},
                                                              {"partitioned_ps", partitioned_ps},
                                                              {"uneven_partitioned_ps", uneven_partitioned_ps},
                                                              {"sharded_ps", sharded_ps},
                                                              {"all_reduce", all_reduce},
                                                              {"partitioned_all_reduce", partitioned_all_reduce},
                                                              {"random_axis_all_reduce", random_axis_all_reduce},
                                                              {"parallax", parallax},
                                                              {"horovod", horovod},
                                                              {"tf_ps_load_balancing", tf_ps_load_balancing}}};

// The first of "compressor" and "staleness" that is set in the options but not used by any part of the strategy; "" if
// there is none.
[[nodiscard]] std::string_view left_out_of(const parallel::synchronization& s, const builder_options& o);

// Bytes of weights on each server, in the order of the servers.
[[nodiscard]] std::vector<bytes> served_bytes(const sync_problem& p, const parallel::synchronization& s);

// The number of parts for a first dimension of this size: the smallest divisor from 2 on (for a prime, the prime
// itself), and the smallest non-divisor from 2 on, or the size if there is none. One part for size one.
[[nodiscard]] constexpr std::int64_t divided_parts(std::int64_t size) noexcept {
  for (std::int64_t k = 2; k < size; ++k) {
    if (size % k == 0) {
      return k;
    }
  }
  return size;
}
[[nodiscard]] constexpr std::int64_t uneven_parts(std::int64_t size) noexcept {
  for (std::int64_t k = 2; k < size; ++k) {
    if (size % k != 0) {
      return k;
    }
  }
  return size;
}

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_BUILDERS)

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/row_fetching.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::systems {

namespace detail {

// Assigns parts of weights to servers and to all-reduce groups.
class sync_writer {
 public:
  sync_writer(const sync_problem& p, const builder_options& o) : problem_{p}, options_{o}, loads_(p.servers.size()) {
    all_.weights.resize(p.weights.size());
  }

  // Calls f(index of the weight, weight) for trained weights.
  template <class F>
  void each(const F& f) const {
    for (std::size_t w = 0; w < problem_.weights.size(); ++w) {
      if (problem_.weights[w].is_trained) {
        f(w, problem_.weights[w]);
      }
    }
  }
  void serve_first(std::size_t w) { all_.weights[w].parts.front() = server(problem_.servers.front(), w, true); }
  // Puts parts on the servers with the fewest bytes, which take turns in that order.
  void serve(std::size_t w, std::int64_t parts, bool may_proxy = true) {
    std::vector<std::size_t> order(loads_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t x, std::size_t y) { return std::tuple{loads_[x], x} < std::tuple{loads_[y], y}; });
    auto& own = all_.weights[w].parts;
    own.clear();
    for (std::int64_t k = 0; k < parts; ++k) {
      const auto s = order[static_cast<std::size_t>(k) % order.size()];
      loads_[s] += static_cast<double>(problem_.weights[w].size().count()) / static_cast<double>(parts);
      own.push_back(server(problem_.servers[s], w, may_proxy));
    }
  }
  // All-reduces parts along an axis; the first is the `place`-th of all grouped parts.
  void reduce(std::size_t w, std::uint32_t axis, std::int64_t parts, std::size_t place) {
    all_.weights[w].axis = parts > 1 ? axis : 0;
    auto& own = all_.weights[w].parts;
    own.assign(static_cast<std::size_t>(parts), reduction(w));
    for (std::size_t k = 0; k < own.size() && may_share(w); ++k) {
      groups_[{(place + k) / options_.chunk, problem_.weights[w].element}].emplace_back(w, k);
    }
  }
  void reduce_in(std::size_t w, std::size_t group) {
    all_.weights[w].parts.assign(1, reduction(w));
    if (may_share(w)) {
      groups_[{group, problem_.weights[w].element}].emplace_back(w, 0);
    }
  }
  // Groups are reduced from the last to the first, because the backward pass yields the gradients of the last weights
  // first.
  [[nodiscard]] parallel::synchronization finish(bool is_last_first = true) && {
    std::vector<std::pair<std::string, std::vector<std::pair<std::size_t, std::size_t>>>> named;
    std::size_t before = ~std::size_t{0};
    for (auto& [key, parts] : groups_) {
      const auto [number, element] = key;
      named.emplace_back(number == before ? fmt::format("group {} {}", number, tensor::name_of(element))
                                          : fmt::format("group {}", number),
                         std::move(parts));
      before = number;
    }
    if (is_last_first) {
      std::reverse(named.begin(), named.end());
    }
    for (auto& [name, parts] : named) {
      for (const auto& [w, k] : parts) {
        all_.weights[w].parts[k].bucket = static_cast<std::uint32_t>(all_.buckets.size());
      }
      all_.buckets.push_back(std::move(name));
    }
    return std::move(all_);
  }

 private:
  [[nodiscard]] bool may_share(std::size_t w) const {
    return !problem_.weights[w].is_sparse && !is_of_one_weight(options_.compressor);
  }
  [[nodiscard]] parallel::synchronizer server(hardware::device_id d, std::size_t w, bool may_proxy) const {
    parallel::synchronizer s;
    s.kind = parallel::sync_kind::parameter_server;
    s.destination = d;
    s.is_proxied = (options_.is_proxied && may_proxy) || options_.staleness > 0;  // staleness implies a copy
    s.staleness = options_.staleness;
    s.is_per_node = problem_.is_per_node;
    s.is_sparse = problem_.weights[w].is_sparse;
    return s;
  }
  [[nodiscard]] parallel::synchronizer reduction(std::size_t w) const {
    parallel::synchronizer s;
    s.algorithm = options_.algorithm;
    s.is_sparse = problem_.weights[w].is_sparse;
    s.compressor = s.is_sparse ? parallel::compressor{} : options_.compressor;
    return s;
  }

  const sync_problem& problem_;
  const builder_options& options_;
  std::vector<double> loads_;  // bytes
  parallel::synchronization all_{};
  std::map<std::pair<std::size_t, tensor::dtype>, std::vector<std::pair<std::size_t, std::size_t>>> groups_{};
};

// The number of parts of the first dimension, from parts(its size).
template <class Parts>
[[nodiscard]] std::int64_t first_axis_parts(const weight_facts& w, const Parts& parts) {
  return w.dims.empty() ? 1 : std::max<std::int64_t>(parts(w.dims[0]), 1);
}

template <class Parts>
[[nodiscard]] parallel::synchronization served_in_parts(const sync_problem& p, const builder_options& o,
                                                        const Parts& parts) {
  sync_writer all{p, o};
  all.each([&](std::size_t w, const weight_facts& facts) {
    all.serve(w, p.servers.size() == 1 ? 1 : first_axis_parts(facts, parts));
  });
  return std::move(all).finish();
}

}  // namespace detail

UNITY_INLINE sync_problem sync_problem_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                          std::vector<hardware::device_id> servers) {
  sync_problem p{{}, std::move(servers)};
  const parallel::training_graph training{a, g};
  for (const auto& w : training.weights()) {
    const auto& t = g.type(w.value);
    const bool is_sparse = parallel::is_looked_up(a, g, w);
    p.weights.push_back({std::string{a.read(g.operation(g.producer(w.value))).word("name")}, t.dims, t.element,
                         w.is_trained, is_sparse, is_sparse ? parallel::row_bytes(a, g, w) : bytes{}});
  }
  return p;
}

UNITY_INLINE parallel::synchronization ps(const sync_problem& p, const builder_options& o) {
  detail::sync_writer all{p, o};
  all.each([&](std::size_t w, const weight_facts&) { all.serve_first(w); });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization ps_load_balancing(const sync_problem& p, const builder_options& o) {
  detail::sync_writer all{p, o};
  all.each([&](std::size_t w, const weight_facts&) { all.serve(w, 1); });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization partitioned_ps(const sync_problem& p, const builder_options& o) {
  return detail::served_in_parts(p, o, divided_parts);
}

UNITY_INLINE parallel::synchronization uneven_partitioned_ps(const sync_problem& p, const builder_options& o) {
  return detail::served_in_parts(p, o, uneven_parts);
}

UNITY_INLINE parallel::synchronization sharded_ps(const sync_problem& p, const builder_options& o) {
  constexpr std::int64_t least = 1 << 20;
  detail::sync_writer all{p, o};
  const auto count = static_cast<std::int64_t>(p.servers.size());
  all.each([&](std::size_t w, const weight_facts& facts) {
    const bool is_large = facts.size().count() >= least;
    all.serve(w, is_large ? detail::first_axis_parts(facts, [&](std::int64_t n) { return std::min(n, count); }) : 1);
  });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization all_reduce(const sync_problem& p, const builder_options& o) {
  detail::sync_writer all{p, o};
  std::size_t place = 0;
  all.each([&](std::size_t w, const weight_facts&) { all.reduce(w, 0, 1, place++); });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization partitioned_all_reduce(const sync_problem& p, const builder_options& o) {
  detail::sync_writer all{p, o};
  std::size_t place = 0;
  all.each([&](std::size_t w, const weight_facts& facts) {
    const auto parts = detail::first_axis_parts(facts, divided_parts);
    all.reduce(w, 0, parts, place);
    place += static_cast<std::size_t>(parts);
  });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization random_axis_all_reduce(const sync_problem& p, const builder_options& o) {
  detail::sync_writer all{p, o};
  random_engine random{o.seed};
  std::size_t place = 0;
  all.each([&](std::size_t w, const weight_facts& facts) {
    std::vector<std::uint32_t> axes;
    for (std::uint32_t d = 0; d < facts.dims.size() && (d == 0 || !facts.is_sparse); ++d) {
      if (facts.dims[d] > 1) {
        axes.push_back(d);
      }
    }
    const auto axis = axes.empty() ? 0 : axes[random.below(axes.size())];
    const auto parts = axes.empty() ? 1 : divided_parts(facts.dims[axis]);
    all.reduce(w, axis, parts, place);
    place += static_cast<std::size_t>(parts);
  });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization parallax(const sync_problem& p, const builder_options& o) {
  detail::sync_writer all{p, o};
  std::size_t place = 0;
  all.each([&](std::size_t w, const weight_facts& facts) {
    if (facts.is_sparse) {
      all.serve(w, 1, false);
    } else {
      all.reduce(w, 0, 1, place);
    }
    ++place;
  });
  return std::move(all).finish();
}

UNITY_INLINE parallel::synchronization horovod(const sync_problem& p, const builder_options& o) {
  constexpr std::int64_t most = std::int64_t{64} << 20;
  detail::sync_writer all{p, o};
  std::size_t group = 0;
  std::int64_t filled = 0;
  for (auto w = p.weights.size(); w-- > 0;) {
    const auto size = p.weights[w].size().count();
    if (!p.weights[w].is_trained) {
      continue;
    }
    if (filled > 0 && filled + size > most && !p.weights[w].is_sparse) {
      ++group;
      filled = 0;
    }
    filled += p.weights[w].is_sparse ? 0 : size;
    all.reduce_in(w, group);
  }
  return std::move(all).finish(false);
}

UNITY_INLINE parallel::synchronization tf_ps_load_balancing(const sync_problem& p, const builder_options& o) {
  auto plain = o;
  plain.is_proxied = false;
  plain.staleness = 0;
  return ps_load_balancing(p, plain);
}

UNITY_INLINE std::string_view left_out_of(const parallel::synchronization& s, const builder_options& o) {
  bool is_compressed = false;
  bool is_stale = false;
  for_each_part(s, [&](const parallel::synchronizer& part) {
    is_compressed = is_compressed || part.compressor == o.compressor;
    is_stale = is_stale || part.staleness == o.staleness;
  });
  if (o.compressor != parallel::compressor{} && !is_compressed) {
    return "compressor";
  }
  return o.staleness > 0 && !is_stale ? "staleness" : "";
}

UNITY_INLINE std::vector<bytes> served_bytes(const sync_problem& p, const parallel::synchronization& s) {
  std::vector<bytes> all(p.servers.size());
  for (std::size_t w = 0; w < p.weights.size() && !s.weights.empty(); ++w) {
    const auto& own = s.weights[w];
    const auto boxes = boxes_of(own, p.weights[w].dims);
    for (std::size_t k = 0; k < own.parts.size(); ++k) {
      const auto found = std::find(p.servers.begin(), p.servers.end(), own.parts[k].destination);
      if (own.parts[k].kind == parallel::sync_kind::parameter_server && found != p.servers.end()) {
        all[static_cast<std::size_t>(found - p.servers.begin())] +=
            bytes{boxes[k].volume() * tensor::size_of(p.weights[w].element)};
      }
    }
  }
  return all;
}

}  // namespace unity::systems

#endif
