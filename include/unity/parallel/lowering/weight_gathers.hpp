// Finds the operators before which divided weights must be gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Weights that a pass reads for the first time at an operator. Regular.
struct gather_point {
  node_id before{};
  std::vector<std::uint32_t> weights{};  // indices

  friend bool operator==(const gather_point&, const gather_point&) = default;
};

// In the order of each pass. Regular.
struct weight_gathers {
  std::vector<gather_point> forward{};
  std::vector<gather_point> backward{};

  friend bool operator==(const weight_gathers&, const weight_gathers&) = default;
};

// Whether the weight has a part that replicas divide, and one that is gathered again for the backward pass.
[[nodiscard]] bool is_gathered(const synchronization& s, std::size_t weight);
[[nodiscard]] bool is_gathered_again(const synchronization& s, std::size_t weight);

// Throws: unity::error that names the weight's node if devices of several stages would gather a weight, because each
// would wait for a micro-batch of the other (a deadlock); or if a gradient or weight is divided in a pipeline whose
// schedule has chunks or separate weight gradients, because passes of other chunks come in between.
void check_gathers(const tensor::tensor_graph& g, const training_graph& t, const strategy& s, const pipeline& p,
                   const synchronization& sync);

// The backward pass reads what adjoints read, and the inputs of recomputed operators at the first operator that needs
// their results. kept: what the backward pass of an operator reads. Complexity: linear in the graph, plus calls of
// kept.
[[nodiscard]] weight_gathers gathers_of(const tensor::tensor_graph& g, const training_graph& t,
                                        const synchronization& s, const recomputation& again,
                                        const std::function<backward_reads(node_id)>& kept);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_WEIGHT_GATHERS)

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>

namespace unity::parallel {

namespace detail {

class gather_finder {
 public:
  gather_finder(const tensor::tensor_graph& g, const training_graph& t, const synchronization& s,
                const recomputation& again)
      : graph_{g}, training_{t}, sync_{s}, recomputed_{again}, is_made_(g.node_count()), weight_of_(g.value_count()) {
    for (std::size_t w = 0; w < t.weights().size(); ++w) {
      weight_of_[t.weights()[w].value.index()] = static_cast<std::uint32_t>(w) + 1;
    }
  }

  [[nodiscard]] weight_gathers run(const std::function<backward_reads(node_id)>& kept) && {
    weight_gathers all;
    is_there_.assign(training_.weights().size(), false);
    for (const auto n : node_ids(graph_)) {
      for (const auto v : graph_.operands(n)) {
        read(v, is_gathered);
      }
      add(n, all.forward);
    }
    is_there_.assign(training_.weights().size(), false);
    for (auto i = graph_.node_count(); i-- > 0;) {
      const node_id n{i};
      if (!training_.has_backward(n)) {
        continue;
      }
      const auto reads = kept(n);
      for (std::size_t x = 0; x < reads.operands.size(); ++x) {
        if (reads.operands[x]) {
          read_back(graph_.operands(n)[x]);
        }
      }
      if (is_recomputed(recomputed_, n) &&
          std::find(reads.results.begin(), reads.results.end(), true) != reads.results.end()) {
        make_again(n);
      }
      add(n, all.backward);
    }
    return all;
  }

 private:
  template <class Condition>
  void read(value_id v, const Condition& is_asked) {
    const auto w = weight_of_[v.index()];
    if (w != 0 && !is_there_[w - 1] && is_asked(sync_, w - 1)) {
      is_there_[w - 1] = true;
      now_.push_back(w - 1);
    }
  }
  void read_back(value_id v) {
    read(v, is_gathered_again);
    if (is_recomputed(recomputed_, graph_.producer(v))) {
      make_again(graph_.producer(v));
    }
  }
  void make_again(node_id n) {
    if (!is_made_[n.index()]) {
      is_made_[n.index()] = true;
      for (const auto v : graph_.operands(n)) {
        read_back(v);
      }
    }
  }
  void add(node_id n, std::vector<gather_point>& to) {
    if (!now_.empty()) {
      to.push_back({n, std::exchange(now_, {})});
    }
  }

  const tensor::tensor_graph& graph_;
  const training_graph& training_;
  const synchronization& sync_;
  const recomputation& recomputed_;
  std::vector<bool> is_made_;             // by node
  std::vector<std::uint32_t> weight_of_;  // by value: the weight's index plus 1; 0: no weight
  std::vector<bool> is_there_{};          // by weight
  std::vector<std::uint32_t> now_{};
};

template <class Condition>
[[nodiscard]] bool has_part(const synchronization& s, std::size_t weight, const Condition& is_so) {
  return !s.weights.empty() && std::any_of(s.weights[weight].parts.begin(), s.weights[weight].parts.end(), is_so);
}

}  // namespace detail

UNITY_INLINE bool is_gathered(const synchronization& s, std::size_t weight) {
  return detail::has_part(s, weight, divides_weight);
}

UNITY_INLINE bool is_gathered_again(const synchronization& s, std::size_t weight) {
  return detail::has_part(s, weight, [](const synchronizer& p) { return divides_weight(p) && p.is_resharded; });
}

UNITY_INLINE void check_gathers(const tensor::tensor_graph& g, const training_graph& t, const strategy& s,
                                const pipeline& p, const synchronization& sync) {
  for (std::size_t w = 0; w < t.weights().size() && !p.stages.empty(); ++w) {
    std::set<std::uint32_t> stages;
    for (const auto& use : t.weights()[w].uses) {
      for (const auto d : s[use.node.index()].devices) {
        if (d.index() < p.stages.size()) {  // otherwise check (pipeline.hpp) complains
          stages.insert(p.stages[d.index()]);
        }
      }
    }
    const auto where = [&] {
      return fmt::format("synchronization, weight of node {}", g.producer(t.weights()[w].value).index());
    };
    if (detail::has_part(sync, w, [](const synchronizer& part) { return part.stage > 1; }) &&
        (p.schedule == pipeline_schedule::interleaved || p.schedule == pipeline_schedule::zero_bubble)) {
      throw error{where(), "stage 2 or 3 of sharded with the schedule interleaved or zero_bubble",
                  "the schedule gpipe or one_forward_one_backward, or stage 1"};
    }
    if (is_gathered(sync, w) && stages.size() > 1) {
      throw error{where(), fmt::format("stage 3 of sharded, and readers in {} stages of the pipeline", stages.size()),
                  "readers in one, or stage 1 or 2"};
    }
  }
}

UNITY_INLINE weight_gathers gathers_of(const tensor::tensor_graph& g, const training_graph& t, const synchronization& s,
                                       const recomputation& again, const std::function<backward_reads(node_id)>& kept) {
  for (std::size_t w = 0; w < t.weights().size(); ++w) {
    if (is_gathered(s, w)) {
      return detail::gather_finder{g, t, s, again}.run(kept);
    }
  }
  return {};
}

}  // namespace unity::parallel

#endif
