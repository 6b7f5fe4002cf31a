// Groups of operators and tensors that dPRO's search treats as one, and keys of equal groups.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/systems/dpro/strategy.hpp>
#include <unity/systems/dpro/view.hpp>

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

// The coarsened view, as a strategy based on `from`: an operator that makes no tensor is fused with those after it up
// to the next that makes one, and tensors made by one run form one bucket, as far as the techniques and the job allow.
// By Theorem 3 this loses nothing if whatever is fused takes no longer than its parts. Complexity: linear in operators
// and tensors, times the length of runs.
// Source: Hu et al., dPRO, MLSys 2022, section 5.3.
[[nodiscard]] dpro_strategy coarsened(const dpro_view& v, dpro_strategy from, const dpro_techniques& may);

// Keys of a pair of neighbouring runs, which are equal for repeated blocks of a network: from operator names without
// numbers, or from the sizes of the tensors. The same decision is made for pairs with equal keys.
[[nodiscard]] std::uint64_t block_key(const dpro_view& v, const place_run& first, const place_run& second);
[[nodiscard]] std::uint64_t block_key_of_tensors(const dpro_view& v, const place_run& first, const place_run& second);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_GROUPS)

#include <cctype>
#include <string>

#include <unity/core/hash.hpp>

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
    h = hash_combine(hash_combine(h, t == second.first ? 2 : 1), static_cast<std::uint64_t>(v.tensors()[t].size));
  }
  return h;
}

}  // namespace unity::systems

#endif
