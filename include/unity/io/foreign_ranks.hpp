// Names the operators of a foreign rule and infers the ranks of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/io/foreign_rule.hpp>

namespace unity::io::detail {

// Why a rule cannot be translated; caught by to_rule_text.
struct outside {
  std::string because;
};

using operations = std::vector<foreign_rule::operation>;
using source_of = foreign_rule::source_of;

inline std::string variable_name(const source_of& v) {
  return fmt::format("?x{}{}", -v.node, v.result == 0 ? "" : fmt::format("_{}", v.result));
}
inline std::string size_of(const std::string& variable, std::int64_t axis) {
  return fmt::format("size({}, {})", variable, axis);
}
std::int64_t required(const foreign_rule::operation& op, const std::string& key);
void require_inputs(const foreign_rule::operation& op, std::size_t count);

// Decodes a permutation of n axes written as one number with digits to base n, first axis most significant.
std::vector<std::int64_t> permutation_of(std::int64_t code, std::int64_t n);

inline bool is_elementwise(std::string_view type) { return type == "add" || type == "mul"; }
inline bool is_activation(std::string_view type) { return type == "relu" || type == "sigmoid" || type == "tanh"; }
inline bool is_matmul(std::string_view type) { return type == "matmul" || type == "linear"; }
inline bool is_pool(std::string_view type) { return type == "max_pool" || type == "average_pool"; }

// The rank of every tensor of a rule, as far as its operators determine it: one equality class per tensor, one rank per
// class.
class foreign_ranks {
 public:
  explicit foreign_ranks(const foreign_rule& rule);
  [[nodiscard]] std::optional<std::int64_t> rank(const source_of& t, int side) const {
    const auto found = known_.find(find(key(t, side)));
    return found == known_.end() ? std::nullopt : std::optional{found->second};
  }
  using tensor_key = std::pair<int, std::int64_t>;  // side (-1: variable) and node; all results have one rank

  // The equality class: tensors of one class have equal ranks.
  [[nodiscard]] tensor_key group(const source_of& t, int side) const { return find(key(t, side)); }

 private:
  static tensor_key key(const source_of& t, int side) {
    return t.node < 0 ? tensor_key{-1, t.node} : tensor_key{side, t.node};
  }

  void scan(const operations& ops, int side);
  [[nodiscard]] tensor_key find(tensor_key k) const;
  void join(tensor_key a, tensor_key b);
  void set(tensor_key k, std::int64_t n);

  std::map<tensor_key, tensor_key> parent_;
  std::map<tensor_key, std::int64_t> known_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOREIGN_RANKS)

#include <algorithm>

#include <unity/core/row_major.hpp>

namespace unity::io::detail {

UNITY_INLINE std::int64_t required(const foreign_rule::operation& op, const std::string& key) {
  const auto value = op.parameter(key);
  if (!value) {
    throw outside{fmt::format("{} has no parameter {}", op.type, key)};
  }
  return *value;
}

UNITY_INLINE void require_inputs(const foreign_rule::operation& op, std::size_t count) {
  if (op.inputs.size() != count) {
    throw outside{fmt::format("{} with {} inputs", op.type, op.inputs.size())};
  }
}

UNITY_INLINE std::vector<std::int64_t> permutation_of(std::int64_t code, std::int64_t n) {
  if (n < 1 || n > 8) {
    throw outside{fmt::format("a transpose of {} dimensions", n)};
  }
  const auto axes = position_of(code, std::vector<std::int64_t>(static_cast<std::size_t>(n), n));
  auto sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t i = 0; i < n; ++i) {
    if (sorted[static_cast<std::size_t>(i)] != i) {
      throw outside{"a transpose whose code is not a permutation"};
    }
  }
  return axes;
}

UNITY_INLINE foreign_ranks::foreign_ranks(const foreign_rule& rule) {
  scan(rule.source, 0);
  scan(rule.target, 1);
  for (const auto& m : rule.outputs) {
    join(key(m.source, 0), key(m.target, 1));
  }
}

UNITY_INLINE void foreign_ranks::scan(const operations& ops, int side) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto& op = ops[i];
    const auto self = key({static_cast<std::int64_t>(i), 0}, side);
    if (op.inputs.empty()) {
      continue;
    }
    if (op.type == "scalar_multiply" || op.type == "linear") {
      join(self, key(op.inputs.front(), side));
      if (op.type == "linear" && op.inputs.size() > 1) {
        set(key(op.inputs[1], side), 2);
      }
      continue;
    }
    for (const auto& in : op.inputs) {
      join(self, key(in, side));
    }
    if (op.type == "conv2d" || is_pool(op.type) || op.type == "enlarge") {
      set(self, 4);
    } else if (op.type == "concat" || op.type == "split" || op.type == "transpose") {
      if (const auto n = op.parameter("num_dims")) {
        set(self, *n);
      }
    }
  }
}

UNITY_INLINE auto foreign_ranks::find(tensor_key k) const -> tensor_key {
  for (auto up = parent_.find(k); up != parent_.end(); up = parent_.find(k)) {
    k = up->second;
  }
  return k;
}

UNITY_INLINE void foreign_ranks::join(tensor_key a, tensor_key b) {
  a = find(a);
  b = find(b);
  if (a == b) {
    return;
  }
  parent_[a] = b;
  if (const auto moved = known_.find(a); moved != known_.end()) {
    const auto n = moved->second;
    known_.erase(moved);
    set(b, n);
  }
}

UNITY_INLINE void foreign_ranks::set(tensor_key k, std::int64_t n) {
  if (n < 1 || n > 16) {
    throw outside{fmt::format("a tensor of {} dimensions", n)};
  }
  const auto [place, fresh] = known_.try_emplace(find(k), n);
  if (!fresh && place->second != n) {
    throw outside{fmt::format("a tensor of both {} and {} dimensions", place->second, n)};
  }
}

}  // namespace unity::io::detail

#endif
