// When to fuse two neighbouring operators or the tensors that they make: dPRO's theorems, with their premises.
#pragma once

#include <cstdint>

#include <unity/core/config.hpp>

namespace unity::systems {

// Operators n - 1 and n of a device, which runs them one after another, and the tensors that they make, which a network
// synchronizes one after another, each once its operator has ended. Picoseconds; a missing tensor takes 0.
struct fusion_pair {
  std::int64_t begin = 0;       // end of operator n - 2
  std::int64_t sync_begin = 0;  // end of the synchronization of tensor n - 2
  std::int64_t first = 0;       // operator n - 1
  std::int64_t second = 0;      // operator n
  std::int64_t fused = 0;       // both operators as one
  std::int64_t first_sync = 0;  // tensors n - 1, n, and both as one, each with the best number of parts
  std::int64_t second_sync = 0;
  std::int64_t fused_sync = 0;

  // End times without fusion, and of the fused operator.
  [[nodiscard]] std::int64_t first_end() const noexcept;
  [[nodiscard]] std::int64_t second_end() const noexcept;
  [[nodiscard]] std::int64_t fused_end() const noexcept;
  [[nodiscard]] std::int64_t first_sync_end() const noexcept;

  // T_n, the time when everything has ended: with nothing fused, with the operators, the tensors, or both fused.
  [[nodiscard]] std::int64_t separate() const noexcept;
  [[nodiscard]] std::int64_t operators_fused() const noexcept;
  [[nodiscard]] std::int64_t tensors_fused() const noexcept;
  [[nodiscard]] std::int64_t both_fused() const noexcept;

  friend bool operator==(const fusion_pair&, const fusion_pair&) = default;
};

// The premises of Theorem 1: operator n ends no earlier than tensor n - 1, and the fused operator no earlier than
// tensor n - 2. Without them the theorem is wrong (a test has counterexamples), though the paper states neither.
[[nodiscard]] bool fits_theorem_1(const fusion_pair& p) noexcept;
// Whether fusing the operators ends earlier: if it saves more than tensor n - 1 takes. Precondition: fits_theorem_1.
// Law: fusing_operators_pays(p) == (p.operators_fused() < p.separate()).
// Source: Hu et al., dPRO, MLSys 2022, Theorem 1.
[[nodiscard]] bool fusing_operators_pays(const fusion_pair& p);

// The premises of Theorem 2: the fused tensor takes at least as long as tensor n, and either at most as long as both,
// or tensor n - 2 has ended when operator n has.
[[nodiscard]] bool fits_theorem_2(const fusion_pair& p) noexcept;
// Whether fusing the tensors ends no later. Precondition: fits_theorem_2. Laws: true implies p.tensors_fused() <=
// p.separate(), and <, unless fused_sync == first_sync + second_sync; false implies p.separate() <= p.tensors_fused().
// Source: Theorem 2.
[[nodiscard]] bool fusing_tensors_pays(const fusion_pair& p);

// The premises of Theorem 3: whatever is fused takes at most as long as its parts, for operators and tensors alike.
// Law: then p.both_fused() <= p.tensors_fused() and p.both_fused() <= p.operators_fused().
// Source: Theorem 3.
[[nodiscard]] bool fits_theorem_3(const fusion_pair& p) noexcept;

// A number of parts of a tensor, and its synchronization time with them.
struct partition_choice {
  std::uint32_t parts = 1;
  std::int64_t time = 0;

  friend bool operator==(const partition_choice&, const partition_choice&) = default;
};

// The smallest number of parts, from 1 to `most`, that minimizes time(parts). `least_each`: time(k) >= k * least_each,
// which ends the search early. Complexity: min(most, least time / least_each) calls. Precondition: most >= 1.
template <class Time>
[[nodiscard]] partition_choice best_partition(const Time& time, std::int64_t least_each, std::uint32_t most) {
  UNITY_EXPECTS(most >= 1, "at least one part");
  partition_choice best{1, time(1)};
  for (std::uint32_t k = 2; k <= most && k * least_each < best.time; ++k) {
    if (const auto t = time(k); t < best.time) {
      best = {k, t};
    }
  }
  return best;
}

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_THEOREMS)

#include <algorithm>

namespace unity::systems {

UNITY_INLINE std::int64_t fusion_pair::first_end() const noexcept { return begin + first; }
UNITY_INLINE std::int64_t fusion_pair::second_end() const noexcept { return begin + first + second; }
UNITY_INLINE std::int64_t fusion_pair::fused_end() const noexcept { return begin + fused; }
UNITY_INLINE std::int64_t fusion_pair::first_sync_end() const noexcept {
  return std::max(first_end(), sync_begin) + first_sync;
}

UNITY_INLINE std::int64_t fusion_pair::separate() const noexcept {
  return std::max(second_end(), first_sync_end()) + second_sync;
}
UNITY_INLINE std::int64_t fusion_pair::operators_fused() const noexcept {
  return std::max(fused_end(), sync_begin) + first_sync + second_sync;
}
UNITY_INLINE std::int64_t fusion_pair::tensors_fused() const noexcept {
  return std::max(second_end(), sync_begin) + fused_sync;
}
UNITY_INLINE std::int64_t fusion_pair::both_fused() const noexcept {
  return std::max(fused_end(), sync_begin) + fused_sync;
}

UNITY_INLINE bool fits_theorem_1(const fusion_pair& p) noexcept {
  return p.second_end() >= p.first_sync_end() && p.sync_begin <= p.fused_end();
}
UNITY_INLINE bool fusing_operators_pays(const fusion_pair& p) {
  UNITY_EXPECTS(fits_theorem_1(p), "the premises of Theorem 1");
  return p.first_sync < p.first + p.second - p.fused;
}

UNITY_INLINE bool fits_theorem_2(const fusion_pair& p) noexcept {
  return p.fused_sync >= p.second_sync &&
         (p.fused_sync <= p.first_sync + p.second_sync || p.sync_begin <= p.second_end());
}
UNITY_INLINE bool fusing_tensors_pays(const fusion_pair& p) {
  UNITY_EXPECTS(fits_theorem_2(p), "the premises of Theorem 2");
  return p.first_sync_end() > p.second_end() + p.fused_sync - p.second_sync;
}

UNITY_INLINE bool fits_theorem_3(const fusion_pair& p) noexcept {
  return p.fused <= p.first + p.second && p.fused_sync <= p.first_sync + p.second_sync;
}

}  // namespace unity::systems

#endif
