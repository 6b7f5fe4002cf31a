// Every node, operator and value that a search has met, stored once and immutable.
//
// States of a search are sets of ids into one store. A value stands for what it computes: two nodes that define the
// same value id compute the same, and at most one of them lives in a state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity {

using attribute_id = id<struct attribute_tag>;
using operator_id = id<struct operator_tag>;
using type_id = id<struct type_tag>;

// Interns operators, types, values and nodes of an algebra.
// Complexity: interning is linear (expected) in the size of what is interned; accessors take constant time.
template <pattern_algebra Algebra>
class node_store {
 public:
  using algebra_type = Algebra;
  using op_type = typename Algebra::op_type;
  using value_type = typename Algebra::value_type;

  static constexpr std::size_t most_operands = 65535;  // per node; the same limit holds for results

  explicit node_store(Algebra algebra) : algebra_{std::move(algebra)} {}

  [[nodiscard]] const Algebra& algebra() const noexcept { return algebra_; }

  attribute_id intern(const attribute& a) {
    const auto hash = mix64(hash_value(a));
    const auto found = attribute_table_.find(hash, [&](auto i) { return attributes_[i] == a; });
    if (found != index_table::none) {
      return attribute_id{found};
    }
    attributes_.push_back(a);
    attribute_table_.insert(hash, static_cast<std::uint32_t>(attributes_.size() - 1));
    return attribute_id{attributes_.size() - 1};
  }

  // Throws: unity::error if the operator does not have the number of attributes of its kind.
  operator_id intern(const op_type& op) {
    const auto hash = mix64(std::hash<op_type>{}(op));
    const auto found = operator_table_.find(hash, [&](auto i) { return operators_[i].op == op; });
    if (found != index_table::none) {
      return operator_id{found};
    }
    operator_record r{op, algebra_.kind_of(op), algebra_.signature(algebra_.kind_of(op)).commutative, hash, {}};
    hasher label{r.kind.index()};
    label.add(hash);
    const auto attributes = algebra_.attributes_of(op);
    if (const auto& s = algebra_.signature(r.kind); attributes.size() != s.attributes.size()) {
      throw error{fmt::format("operator '{}'", s.name), fmt::format("{} attributes", attributes.size()),
                  fmt::format("{}, as its signature has", s.attributes.size())};
    }
    for (const auto& a : attributes) {
      r.attributes.push_back(intern(a));
      label.add(hash_value(a));
    }
    r.hash = new_label(label.result().low);
    operators_.push_back(std::move(r));
    operator_table_.insert(hash, static_cast<std::uint32_t>(operators_.size() - 1));
    label_table_.insert(operators_.back().hash, static_cast<std::uint32_t>(operators_.size() - 1));
    return operator_id{operators_.size() - 1};
  }

  value_id new_value(const value_type& type) {
    value_types_.push_back(intern_type(type));
    canonical_.push_back(node_id{});
    return value_id{value_types_.size() - 1};
  }

  // The node that applies `op` to `operands` and defines exactly `results`.
  node_id define(operator_id op, std::span<const value_id> operands, std::span<const value_id> results) {
    const auto key = ordered(op, operands);
    const auto mixed = mix_of(op, key, results);
    const auto found = node_table_.find(mixed.low, [&](auto i) { return nodes_[i].mix == mixed; });
    return found != index_table::none ? node_id{found} : append(op, key, results, mixed);
  }

  // The value-defining node for (op, operands), with new values if there is none yet; nothing if the operator does not
  // accept such operands.
  std::optional<node_id> cons(operator_id op, std::span<const value_id> operands) {
    const auto key = ordered(op, operands);
    const auto hash = mix_of(op, key, {}).low;
    const auto found = cons_table_.find(
        hash, [&](auto i) { return nodes_[i].op == op && std::ranges::equal(this->operands(node_id{i}), key); });
    if (found != index_table::none) {
      return node_id{found};
    }
    const auto types = infer(op, operands);
    if (!types) {
      return std::nullopt;
    }
    small_vector<value_id, 4> results;
    for (const auto& t : *types) {
      results.push_back(new_value(t));
    }
    const auto n = append(op, key, results, mix_of(op, key, results));
    adopt(n, hash);
    return n;
  }

  // Makes cons return `n` for its operator and operands, unless there is such a node already.
  void adopt(node_id n) {
    const auto hash = mix_of(nodes_[n.index()].op, operands(n), {}).low;
    const auto found = cons_table_.find(hash, [&](auto i) {
      return nodes_[i].op == nodes_[n.index()].op && std::ranges::equal(operands(node_id{i}), operands(n));
    });
    if (found == index_table::none) {
      adopt(n, hash);
    }
  }

  [[nodiscard]] std::optional<std::vector<value_type>> infer(operator_id op, std::span<const value_id> operands) const {
    return algebra_.infer(operation(op), types(operands));
  }
  [[nodiscard]] std::vector<value_type> types(std::span<const value_id> values) const {
    std::vector<value_type> all;
    all.reserve(values.size());
    for (const auto v : values) {
      all.push_back(type(v));
    }
    return all;
  }

  [[nodiscard]] std::size_t node_count() const noexcept { return nodes_.size(); }
  [[nodiscard]] std::size_t value_count() const noexcept { return value_types_.size(); }

  [[nodiscard]] const attribute& value(attribute_id a) const { return attributes_[a.index()]; }
  [[nodiscard]] const op_type& operation(operator_id op) const { return operators_[op.index()].op; }
  [[nodiscard]] kind_id kind(operator_id op) const { return operators_[op.index()].kind; }
  // 63 bits, different for each operator of the store.
  [[nodiscard]] std::uint64_t hash(operator_id op) const { return operators_[op.index()].hash; }
  [[nodiscard]] bool commutative(operator_id op) const { return operators_[op.index()].commutative; }
  [[nodiscard]] std::span<const attribute_id> attributes(operator_id op) const {
    return operators_[op.index()].attributes;
  }
  [[nodiscard]] const value_type& type(value_id v) const { return types_[value_types_[v.index()].index()]; }
  [[nodiscard]] type_id type_of(value_id v) const { return value_types_[v.index()]; }
  // The node that cons made v for; null for values that only define() introduced.
  [[nodiscard]] node_id canonical(value_id v) const { return canonical_[v.index()]; }

  [[nodiscard]] operator_id op(node_id n) const { return nodes_[n.index()].op; }
  [[nodiscard]] kind_id kind(node_id n) const { return nodes_[n.index()].kind; }
  // The hash of the node's operator; odd if it is commutative. 0 without an operator.
  [[nodiscard]] std::uint64_t label(node_id n) const { return nodes_[n.index()].label; }
  [[nodiscard]] fingerprint mix(node_id n) const { return nodes_[n.index()].mix; }
  [[nodiscard]] std::span<const value_id> operands(node_id n) const {
    const auto& r = nodes_[n.index()];
    return {pool_.data() + r.first, r.operands};
  }
  [[nodiscard]] std::span<const value_id> results(node_id n) const {
    const auto& r = nodes_[n.index()];
    return {pool_.data() + r.first + r.operands, r.results};
  }

  // The mix of a node (op, operands, results), without interning it. `operands` in stored order.
  [[nodiscard]] fingerprint mix_of(operator_id op, std::span<const value_id> operands,
                                   std::span<const value_id> results) const {
    hasher h{op.index()};
    for (const auto v : operands) {
      h.add(v.index());
    }
    h.add(operands.size());
    for (const auto v : results) {
      h.add(v.index());
    }
    return h.result();
  }

  // The operands in stored order: sorted if the operator is commutative.
  [[nodiscard]] small_vector<value_id, 8> ordered(operator_id op, std::span<const value_id> operands) const {
    small_vector<value_id, 8> key{operands};
    if (op.valid() && commutative(op)) {
      std::sort(key.begin(), key.end());
    }
    return key;
  }

  // Approximate bytes held.
  [[nodiscard]] std::size_t memory() const noexcept {
    return nodes_.capacity() * sizeof(node_record) + pool_.capacity() * sizeof(value_id) +
           value_types_.capacity() * (sizeof(type_id) + sizeof(node_id)) + node_table_.memory() + cons_table_.memory() +
           operators_.size() * (sizeof(operator_record) + 64) + attributes_.size() * sizeof(attribute);
  }

 private:
  struct operator_record {
    op_type op;
    kind_id kind;
    bool commutative;
    std::uint64_t hash;
    std::vector<attribute_id> attributes;
  };
  struct node_record {
    fingerprint mix;
    std::uint64_t label;  // copy of the operator's hash and whether it is commutative: read for every node of a state
    operator_id op;
    kind_id kind;
    std::uint32_t first;
    std::uint16_t operands;
    std::uint16_t results;
  };

  // A number that no other operator has: `wanted`, or one derived from it. Unequal operators may have equal hashes, but
  // canonical fingerprints are built from these numbers. 63 bits, since a label also has the bit for commutative.
  [[nodiscard]] std::uint64_t new_label(std::uint64_t wanted) const {
    wanted >>= 1U;
    while (label_table_.find(wanted, [&](auto i) { return operators_[i].hash == wanted; }) != index_table::none) {
      wanted = mix64(wanted) >> 1U;
    }
    return wanted;
  }

  type_id intern_type(const value_type& t) {
    const auto hash = mix64(std::hash<value_type>{}(t));
    const auto found = type_table_.find(hash, [&](auto i) { return types_[i] == t; });
    if (found != index_table::none) {
      return type_id{found};
    }
    types_.push_back(t);
    type_table_.insert(hash, static_cast<std::uint32_t>(types_.size() - 1));
    return type_id{types_.size() - 1};
  }

  node_id append(operator_id op, std::span<const value_id> operands, std::span<const value_id> results,
                 fingerprint mixed) {
    UNITY_EXPECTS(operands.size() <= most_operands, "at most 65535 operands");
    UNITY_EXPECTS(results.size() <= most_operands, "at most 65535 results");
    const node_id n{nodes_.size()};
    const auto label = op.valid() ? (hash(op) << 1U | (commutative(op) ? 1U : 0U)) : 0;
    nodes_.push_back({mixed, label, op, op.valid() ? kind(op) : kind_id{}, static_cast<std::uint32_t>(pool_.size()),
                      static_cast<std::uint16_t>(operands.size()), static_cast<std::uint16_t>(results.size())});
    pool_.insert(pool_.end(), operands.begin(), operands.end());
    pool_.insert(pool_.end(), results.begin(), results.end());
    node_table_.insert(mixed.low, n.index());
    return n;
  }

  void adopt(node_id n, std::uint64_t hash) {
    cons_table_.insert(hash, n.index());
    for (const auto v : results(n)) {
      canonical_[v.index()] = n;
    }
  }

  Algebra algebra_;
  std::vector<attribute> attributes_;
  std::vector<operator_record> operators_;
  std::vector<value_type> types_;
  std::vector<type_id> value_types_;
  std::vector<node_id> canonical_;
  std::vector<node_record> nodes_;
  std::vector<value_id> pool_;
  index_table attribute_table_;
  index_table operator_table_;
  index_table label_table_;
  index_table type_table_;
  index_table node_table_;
  index_table cons_table_;
};

}  // namespace unity
