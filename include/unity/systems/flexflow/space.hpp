// SOAP strategies as a space with enumerable moves, for beam search and descent over the configurations that chains
// sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>

namespace unity::systems {

// A unit and an index into the configurations of its lead.
struct strategy_move {
  std::uint32_t unit = 0;
  std::uint32_t choice = 0;

  friend bool operator==(const strategy_move&, const strategy_move&) = default;
};

// Moves give any unit any of its configurations on aligned blocks. Refers to the strategy_moves.
class strategy_choices {
 public:
  using move_type = strategy_move;

  explicit strategy_choices(const strategy_moves& moves);

  [[nodiscard]] std::span<const strategy_move> moves(const parallel::strategy&) const noexcept { return all_; }
  [[nodiscard]] strategy_change change(strategy_move m) const {
    return moves_->change_unit(m.unit, choices_[m.unit][m.choice]);
  }
  // A sum over operators. Complexity: linear in them.
  [[nodiscard]] unity::fingerprint fingerprint_of(const parallel::strategy& s) const;
  // Complexity: linear in the change.
  [[nodiscard]] std::optional<unity::fingerprint> fingerprint_after(const parallel::strategy& s,
                                                                    unity::fingerprint print,
                                                                    const strategy_change& by) const;

 private:
  [[nodiscard]] static unity::fingerprint print_of(node_id n, const parallel::configuration& c);

  const strategy_moves* moves_;
  std::vector<std::vector<parallel::configuration>> choices_{};  // by unit
  std::vector<strategy_move> all_{};
};

using strategy_space = evaluator_space<strategy_evaluator, strategy_choices>;

}  // namespace unity::systems

// "unit 3: choice 5"
template <>
struct fmt::formatter<unity::systems::strategy_move> : unity::plain_formatter {
  template <class Context>
  auto format(unity::systems::strategy_move m, Context& context) const -> decltype(context.out()) {
    return put(context, fmt::format("unit {}: choice {}", m.unit, m.choice));
  }
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW_SPACE)

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE strategy_choices::strategy_choices(const strategy_moves& moves) : moves_{&moves} {
  for (std::size_t u = 0; u < moves.units().size(); ++u) {
    choices_.push_back(moves.placements().all(moves.units()[u].lead));
    for (std::size_t c = 0; c < choices_.back().size(); ++c) {
      all_.push_back({static_cast<std::uint32_t>(u), static_cast<std::uint32_t>(c)});
    }
  }
}

UNITY_INLINE unity::fingerprint strategy_choices::fingerprint_of(const parallel::strategy& s) const {
  unity::fingerprint sum{};
  for (std::size_t n = 0; n < s.size(); ++n) {
    sum += print_of(node_id{n}, s[n]);
  }
  return sum;
}

UNITY_INLINE std::optional<unity::fingerprint> strategy_choices::fingerprint_after(const parallel::strategy& s,
                                                                                   unity::fingerprint print,
                                                                                   const strategy_change& by) const {
  bool changes = false;
  for (const auto& r : by) {
    const auto& now = s[r.node.index()];
    if (now != r.to) {
      changes = true;
      print -= print_of(r.node, now);
      print += print_of(r.node, r.to);
    }
  }
  return changes ? std::optional{print} : std::nullopt;
}

UNITY_INLINE unity::fingerprint strategy_choices::print_of(node_id n, const parallel::configuration& c) {
  hasher h{n.index()};
  h.add(c.degrees.size());
  for (const auto d : c.degrees) {
    h.add(static_cast<std::uint64_t>(d));
  }
  for (const auto d : c.devices) {
    h.add(d.index());
  }
  return h.result();
}

}  // namespace unity::systems

#endif
