// Shortens derivations: removes steps that the search found but that are not needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <range/v3/view/zip.hpp>

#include <unity/rewrite/verification/derivation.hpp>

namespace unity {

// The derivation without redundant steps, trying the last found first. No step of the result can be removed, though
// another derivation may be shorter.
// Complexity: a congruence closure per step.
[[nodiscard]] derivation without_needless_steps(derivation d);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_MINIMIZE)

#include <vector>

#include <unity/rewrite/verification/ground_proof.hpp>
#include <unity/rewrite/verification/prover.hpp>

namespace unity {

UNITY_INLINE derivation without_needless_steps(derivation d) {
  std::vector<bool> kept(d.steps.size(), true);
  const auto still_holds = [&] {
    std::vector<bool> enabled;
    for (const auto& e : d.ground.equalities) {
      enabled.push_back(kept[e.instance]);
    }
    return detail::naive_closure{d.ground, enabled}.goals_hold();
  };
  for (auto i = kept.size(); i-- > 0;) {
    kept[i] = false;
    kept[i] = !still_holds();
  }
  std::vector<derivation::step> steps;
  std::vector<std::uint32_t> number;
  for (const auto& [is_kept, step] : ranges::views::zip(kept, d.steps)) {
    number.push_back(static_cast<std::uint32_t>(steps.size()));
    if (is_kept) {
      steps.push_back(step);
    }
  }
  std::erase_if(d.ground.equalities, [&](const auto& e) { return !kept[e.instance]; });
  for (auto& e : d.ground.equalities) {
    e.instance = number[e.instance];
  }
  d.steps = std::move(steps);
  return d;
}

}  // namespace unity

#endif
