// The choices of dPRO's optimizer as a search space: groups of operators and tensors that it treats as one, and the
// replay of a strategy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/view.hpp>
#include <unity/trace/replay.hpp>

namespace unity::systems {

// The techniques that the optimizer may use.
struct dpro_techniques {
  bool operator_fusion = true;
  bool tensor_fusion = true;
  bool tensor_partition = true;

  friend bool operator==(const dpro_techniques&, const dpro_techniques&) = default;
};

// Operators that run as one, or tensors of one bucket: indices first to last.
struct place_run {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  friend bool operator==(const place_run&, const place_run&) = default;
};
[[nodiscard]] std::vector<place_run> runs_of(const std::vector<std::uint8_t>& with_previous);

// The coarsened view, as a strategy based on `from`. Fuses an operator that makes no tensor with the following ones up
// to the next that makes one, and joins the tensors that one run makes into one bucket, as far as the techniques and
// the job allow. By Theorem 3 this loses nothing if fused operators and tensors take no longer than their parts.
// Complexity: linear in operators and tensors, times the length of runs.
// Source: Hu et al., dPRO, MLSys 2022, section 5.3.
[[nodiscard]] dpro_strategy coarsened(const dpro_view& v, dpro_strategy from, const dpro_techniques& may);

// Keys of a pair of neighbouring runs, which are equal for repeated blocks of a network: from operator names without
// numbers, or from the sizes of the tensors. The same decision is made for pairs with equal keys.
[[nodiscard]] std::uint64_t block_key(const dpro_view& v, const place_run& first, const place_run& second);
[[nodiscard]] std::uint64_t block_key_of_tensors(const dpro_view& v, const place_run& first, const place_run& second);

// Replays a strategy: the time of the iteration, and when operators and buckets run.

struct time_span {
  picoseconds start{};
  picoseconds end{};

  friend bool operator==(const time_span&, const time_span&) = default;
};

// Times of the first rank, by the first operator of each run, and of all ranks, by the last tensor of each bucket.
struct strategy_times {
  picoseconds iteration{};
  std::vector<time_span> operators{};
  std::vector<time_span> buckets{};
  // The critical path: runs in their order and buckets in theirs, each by its index.
  std::vector<std::uint32_t> path_operators{};
  std::vector<std::uint32_t> path_buckets{};

  friend bool operator==(const strategy_times&, const strategy_times&) = default;
};

// Complexity: that of a replay.
[[nodiscard]] strategy_times evaluate(const dpro_view& v, const dpro_strategy& s);
// The iteration time only.
[[nodiscard]] picoseconds iteration_of(const dpro_view& v, const dpro_strategy& s);

// States are strategies, costs are picoseconds of a replayed iteration. Moves: fuse or separate two operators that are
// separate in the start, join or part two tensors, double or halve the parts of a bucket. Models search_space. Refers
// to the view. Pricing replays the job or its representatives: complexity linear in its graph.
class dpro_space {
 public:
  enum class change : std::uint32_t { fuse, join, double_parts, halve_parts };
  struct move_type {
    change what = change::fuse;
    std::uint32_t place = 0;

    friend bool operator==(const move_type&, const move_type&) = default;
  };
  struct state_type {
    dpro_strategy strategy{};
    cost_value cost = 0;
  };
  struct scratch_type {};
  static constexpr std::size_t pricing_slice = 1;

  dpro_space(const dpro_view& v, dpro_strategy start, const dpro_techniques& may, std::uint32_t most_parts = 64);

  [[nodiscard]] state_type initial() const { return at(start_); }
  [[nodiscard]] state_type at(const dpro_strategy& s) const { return {s, iteration_of(view_, s).count()}; }
  [[nodiscard]] cost_value cost(const state_type& s) const { return s.cost; }
  [[nodiscard]] unity::fingerprint fingerprint_of(const state_type& s) const { return s.strategy.fingerprint(); }
  [[nodiscard]] std::span<const move_type> moves(const state_type&) const { return moves_; }
  void prepare(const state_type&, scratch_type&) const {}
  [[nodiscard]] std::optional<candidate> price(const state_type& s, move_type m, scratch_type&) const;
  // Precondition: the move has a price in this state.
  [[nodiscard]] state_type apply(const state_type& s, move_type m, scratch_type&, scratch_type&) const;

 private:
  [[nodiscard]] std::optional<dpro_strategy> changed(const dpro_strategy& s, move_type m) const;

  const dpro_view& view_;
  dpro_strategy start_;
  std::uint32_t most_parts_;
  std::vector<move_type> moves_;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_SPACE)

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>
#include <utility>

namespace unity::systems {

UNITY_INLINE std::vector<place_run> runs_of(const std::vector<std::uint8_t>& with_previous) {
  std::vector<place_run> all;
  for (std::uint32_t p = 0; p < with_previous.size(); ++p) {
    if (p > 0 && with_previous[p] != 0) {
      all.back().last = p;
    } else {
      all.push_back({p, p});
    }
  }
  return all;
}

UNITY_INLINE dpro_strategy coarsened(const dpro_view& v, dpro_strategy from, const dpro_techniques& may) {
  std::vector<bool> makes(v.operators().size());
  for (const auto& t : v.tensors()) {
    if (t.producer != trace::no_index) {
      makes[t.producer] = true;
    }
  }
  std::vector<std::uint32_t> run_of(v.operators().size());
  std::uint32_t first = 0;
  for (std::uint32_t o = 0; o < v.operators().size(); ++o) {
    if (o > 0 && may.operator_fusion && !makes[o - 1] && v.may_fuse(first, o)) {
      from.fused[o] = 1;
    } else if (from.fused[o] == 0) {
      first = o;
    }
    run_of[o] = first;
  }
  for (std::uint32_t t = 1; t < v.tensors().size() && may.tensor_fusion; ++t) {
    const auto a = v.tensors()[t - 1].producer;
    const auto b = v.tensors()[t].producer;
    if (a != trace::no_index && b != trace::no_index && run_of[a] == run_of[b] && v.may_join(t)) {
      from.joined[t] = 1;
    }
  }
  return from;
}

namespace detail {

inline std::uint64_t add_name(std::uint64_t h, const std::string& name) {
  for (const char c : name) {
    h = std::isdigit(static_cast<unsigned char>(c)) != 0 ? h : hash_combine(h, static_cast<unsigned char>(c));
  }
  return hash_combine(h, 0x1f);
}

}  // namespace detail

UNITY_INLINE std::uint64_t block_key(const dpro_view& v, const place_run& first, const place_run& second) {
  std::uint64_t h = 0;
  for (auto o = first.first; o <= second.last; ++o) {
    const auto& t = v.job().tasks[v.operators()[o].tasks.front()];
    h = detail::add_name(hash_combine(h, o == second.first ? 2 : 1), v.names().text(t.name));
  }
  return h;
}

UNITY_INLINE std::uint64_t block_key_of_tensors(const dpro_view& v, const place_run& first, const place_run& second) {
  std::uint64_t h = 1;
  for (auto t = first.first; t <= second.last; ++t) {
    h = hash_combine(hash_combine(h, t == second.first ? 2 : 1),
                     static_cast<std::uint64_t>(v.tensors()[t].size.count()));
  }
  return h;
}

UNITY_INLINE picoseconds iteration_of(const dpro_view& v, const dpro_strategy& s) {
  return trace::replay(v.apply(s).graph, v.names()).iteration;
}

UNITY_INLINE strategy_times evaluate(const dpro_view& v, const dpro_strategy& s) {
  const auto all = v.apply(s);
  const auto r = trace::replay(all.graph, v.names());
  strategy_times times;
  times.iteration = r.iteration;
  times.operators.resize(v.operators().size());
  constexpr picoseconds never{std::numeric_limits<std::int64_t>::max()};
  times.buckets.assign(v.tensors().size(), {never, {}});
  for (std::uint32_t t = 0; t < all.graph.tasks.size(); ++t) {
    const time_span own{picoseconds{r.times[t].start}, picoseconds{r.times[t].end}};
    if (const auto o = all.operator_of[t]; o != trace::no_index) {
      // If ranks are alike, the slowest determines the times.
      times.operators[o] = times.operators[o].end > own.end ? times.operators[o] : own;
    }
    if (const auto b = all.bucket_of[t]; b != trace::no_index) {
      auto& span = times.buckets[b];
      span = {std::min(span.start, own.start), std::max(span.end, own.end)};
    }
  }
  for (const auto& step : trace::critical_path(all.graph, r)) {
    const auto add = [](std::vector<std::uint32_t>& list, std::uint32_t place) {
      if (place != trace::no_index && (list.empty() || list.back() != place)) {
        list.push_back(place);
      }
    };
    add(times.path_operators, all.operator_of[step.task]);
    add(times.path_buckets, all.bucket_of[step.task]);
  }
  return times;
}

UNITY_INLINE dpro_space::dpro_space(const dpro_view& v, dpro_strategy start, const dpro_techniques& may,
                                    std::uint32_t most_parts)
    : view_{v}, start_{std::move(start)}, most_parts_{most_parts} {
  for (std::uint32_t o = 1; o < v.operators().size() && may.operator_fusion; ++o) {
    if (start_.fused[o] == 0 && v.operators()[o].follows_previous) {
      moves_.push_back({change::fuse, o});
    }
  }
  for (std::uint32_t t = 0; t < v.tensors().size(); ++t) {
    if (may.tensor_fusion && v.may_join(t)) {
      moves_.push_back({change::join, t});
    }
    if (may.tensor_partition && v.knows_sizes()) {
      moves_.push_back({change::double_parts, t});
      moves_.push_back({change::halve_parts, t});
    }
  }
}

UNITY_INLINE std::optional<dpro_strategy> dpro_space::changed(const dpro_strategy& s, move_type m) const {
  auto next = s;
  const auto p = m.place;
  if (m.what == change::fuse) {
    next.fused[p] = s.fused[p] == 0 ? 1 : 0;
    auto first = p;
    auto last = p;
    while (first > 0 && next.fused[first] != 0) {
      --first;
    }
    while (last + 1 < next.fused.size() && next.fused[last + 1] != 0) {
      ++last;
    }
    if (next.fused[p] != 0 && !view_.may_fuse(first, last)) {
      return std::nullopt;
    }
    return next;
  }
  if (m.what == change::join) {
    next.joined[p] = s.joined[p] == 0 ? 1 : 0;
    next.parts[p - 1] = 1;
    return next;
  }
  if (p + 1 < s.joined.size() && s.joined[p + 1] != 0) {
    return std::nullopt;  // not the last of its bucket
  }
  if (m.what == change::double_parts ? 2 * s.parts[p] > most_parts_ : s.parts[p] == 1) {
    return std::nullopt;
  }
  next.parts[p] = m.what == change::double_parts ? 2 * s.parts[p] : s.parts[p] / 2;
  return next;
}

UNITY_INLINE std::optional<candidate> dpro_space::price(const state_type& s, move_type m, scratch_type&) const {
  const auto next = changed(s.strategy, m);
  return next ? std::optional{candidate{iteration_of(view_, *next).count(), next->fingerprint()}} : std::nullopt;
}

UNITY_INLINE dpro_space::state_type dpro_space::apply(const state_type& s, move_type m, scratch_type&,
                                                      scratch_type&) const {
  auto next = changed(s.strategy, m);
  UNITY_EXPECTS(next.has_value(), "a move that applies");
  const auto time = iteration_of(view_, *next).count();
  return {std::move(*next), time};
}

}  // namespace unity::systems

#endif
