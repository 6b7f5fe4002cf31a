// A hash of a state's graph that does not depend on what its values are called.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

// Hashes every node from its operator and its operands' hashes. Equal operators without operands are the same
// source (the law of `algebra`), so this decides isomorphism up to collisions; how often a subgraph is repeated
// counts as well. Reusable. Complexity: linear in the state.
class merkle_hasher {
 public:
  template <class Store>
  fingerprint operator()(const Store& store, state_view& view) {
    view.sort_topologically(store);
    hashes_.resize(view.nodes().size());
    fingerprint sum;
    for (const auto i : view.order()) {
      hashes_[i] = node_hash(store, view, view.nodes()[i]);
      sum += hashes_[i];
    }
    return sum;
  }

 private:
  template <class Store>
  fingerprint node_hash(const Store& store, const state_view& view, node_id n) {
    const auto op = store.op(n);
    operands_.clear();
    for (const auto v : store.operands(n)) {
      const auto d = view.definition(v);
      const auto results = store.results(d);
      const auto result = results.size() == 1 ? 0 : std::find(results.begin(), results.end(), v) - results.begin();
      auto h = hashes_[view.position(d)];
      h.low += static_cast<std::uint64_t>(result) * 0x9e3779b97f4a7c15U;
      operands_.push_back(h);
    }
    if (op.valid() && store.commutative(op)) {
      std::sort(operands_.begin(), operands_.end());
    }
    hasher h{op.valid() ? store.hash(op) : 0};
    for (const auto& o : operands_) {
      h.add(o.low ^ mix64(o.high));
    }
    return h.add(operands_.size()).result();
  }

  std::vector<fingerprint> hashes_;
  std::vector<fingerprint> operands_;
};

}  // namespace unity
