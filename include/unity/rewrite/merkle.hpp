// A hash of a state's graph that is independent of the names of its values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

// Hashes every node from its operator and the hashes of its operands. Equal operators without operands are the same
// source (the law of `algebra`), so this decides isomorphism up to collisions; the number of repetitions of a subgraph
// counts as well. Reusable. Complexity: linear in the state.
class merkle_hasher {
 public:
  template <class Store>
  fingerprint operator()(const Store& store, const state_view& view) {
    hashes_.resize(view.nodes().size());
    fingerprint sum;
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      hashes_[i] = node_hash(store, view, view.nodes()[i]);
      sum += hashes_[i];
    }
    return sum;
  }

 private:
  template <class Store>
  fingerprint node_hash(const Store& store, const state_view& view, node_id n) {
    const auto operands = store.operands(n);
    const auto label = store.label(n);
    fingerprint h{label, operands.size()};
    if ((label & 1U) == 0) {
      for (const auto v : operands) {
        absorb(h, value_hash(view, v));
      }
    } else {
      operands_.clear();
      for (const auto v : operands) {
        operands_.push_back(value_hash(view, v));
      }
      std::sort(operands_.begin(), operands_.end());
      for (const auto& o : operands_) {
        absorb(h, o);
      }
    }
    return {mix64(h.low), mix64(h.high ^ h.low)};
  }
  [[nodiscard]] fingerprint value_hash(const state_view& view, value_id v) const {
    const auto [position, result] = view.place(v);
    return {hashes_[position].low + result * 0x9e3779b97f4a7c15U, hashes_[position].high};
  }
  // Two independent multiplicative lanes. Operands are already hashes, so little mixing is needed between them.
  static void absorb(fingerprint& h, fingerprint o);

  std::vector<fingerprint> hashes_;
  small_vector<fingerprint, 8> operands_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_MERKLE)

namespace unity {

UNITY_INLINE void merkle_hasher::absorb(fingerprint& h, fingerprint o) {
  h.low = (h.low ^ o.low) * 0x9fb21c651e98df25U;
  h.low ^= h.low >> 32U;
  h.high = (h.high + o.high) * 0xd6e8feb86659fd93U;
  h.high ^= h.high >> 29U;
}

}  // namespace unity

#endif
