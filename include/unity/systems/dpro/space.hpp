// The choices of dPRO's optimizer as a search space, for the searches of unity/search.hpp.
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
#include <unity/systems/dpro/evaluation.hpp>
#include <unity/systems/dpro/groups.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/view.hpp>

namespace unity::systems {

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
  [[nodiscard]] state_type at(const dpro_strategy& s) const { return {s, iteration_of(view_, s)}; }
  [[nodiscard]] cost_value cost(const state_type& s) const { return s.cost; }
  [[nodiscard]] unity::fingerprint fingerprint_of(const state_type& s) const { return s.strategy.print(); }
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

#include <utility>

namespace unity::systems {

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
  return next ? std::optional{candidate{iteration_of(view_, *next), next->print()}} : std::nullopt;
}

UNITY_INLINE dpro_space::state_type dpro_space::apply(const state_type& s, move_type m, scratch_type&,
                                                      scratch_type&) const {
  auto next = changed(s.strategy, m);
  UNITY_EXPECTS(next.has_value(), "a move that applies");
  const auto time = iteration_of(view_, *next);
  return {std::move(*next), time};
}

}  // namespace unity::systems

#endif
