// A substitution from another system's rule file: two lists of operators, and their ranks. Also finds equal and invalid
// rules.
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

namespace unity::io {

// Regular. An operator has this library's name if the library has the operator ("matmul"), otherwise the file's name in
// lower case ("replicate"). Parameters keep the file's values under plain names (kernel_h, stride_w, axis, ...).
struct foreign_rule {
  // Result `result` of operator `node`, or, if node is negative, the variable -node.
  struct source_of {
    std::int64_t node = 0;
    std::int64_t result = 0;
    friend bool operator==(const source_of&, const source_of&) = default;
  };
  struct operation {
    std::string type;
    std::vector<source_of> inputs;
    std::map<std::string, std::int64_t> parameters;
    friend bool operator==(const operation&, const operation&) = default;

    [[nodiscard]] std::optional<std::int64_t> parameter(const std::string& key) const {
      const auto found = parameters.find(key);
      return found == parameters.end() ? std::nullopt : std::optional{found->second};
    }
    [[nodiscard]] std::int64_t result_count() const {
      return type == "split" ? parameter("num_outputs").value_or(2) : 1;
    }
  };
  struct mapping {
    source_of source;
    source_of target;
    friend bool operator==(const mapping&, const mapping&) = default;
  };

  std::string name;
  std::vector<operation> source;
  std::vector<operation> target;
  std::vector<mapping> outputs;

  friend bool operator==(const foreign_rule&, const foreign_rule&) = default;
};

// The result of converting a foreign rule: rule text of this library, or the reason why it has none.
struct converted_rule {
  std::string name;
  std::string text;             // empty if the rule cannot be converted
  std::string outside_because;  // one line

  [[nodiscard]] explicit operator bool() const noexcept { return !text.empty(); }
};

namespace detail {

// Each operator may only read variables and results of operators before it.
void check_operations(const std::vector<foreign_rule::operation>& all, const std::string& where);

void check_mapped(const std::vector<foreign_rule::operation>& all, const foreign_rule::source_of& mapped,
                  const std::string& where);

}  // namespace detail

// Throws: unity::error naming the operator or output if an operator reads something that does not precede it, a mapped
// output does not exist, or there is no mapped output.
void validate(const foreign_rule& rule, std::string_view file);

}  // namespace unity::io

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

namespace unity::io {

namespace detail {

// Writes both sides as terms, starting at the outputs, with variables numbered in order of their first use.
class identity_writer {
 public:
  explicit identity_writer(const foreign_rule& rule) : rule_{rule} {}

  std::string text(const std::vector<std::size_t>& outputs);

 private:
  void append(const source_of& t, int side, std::string& all);

  const foreign_rule& rule_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> variables_{};
  std::map<std::int64_t, std::size_t> written_{};
};

}  // namespace detail

// Equal for rules that differ only in the numbers of variables and operators, in operators that no output needs, and in
// the order of outputs (for up to five outputs; with more, the order counts).
[[nodiscard]] std::string identity_text(const foreign_rule& rule);

// A variable, as named in rule text, that the target reads but no operator of the source does. Such a rule is invalid:
// what its source matches does not determine its target.
[[nodiscard]] std::optional<std::string> unbound_input(const foreign_rule& rule);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOREIGN_RULE)

#include <algorithm>
#include <numeric>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/row_major.hpp>

namespace unity::io::detail {

UNITY_INLINE void check_operations(const std::vector<foreign_rule::operation>& all, const std::string& where) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& in : all[i].inputs) {
      const auto at = fmt::format("{}, operator {}", where, i);
      if (in.node >= static_cast<std::int64_t>(i)) {
        throw error{at, fmt::format("reads operator {}", in.node), "an operator before it or a variable"};
      }
      const auto results = in.node < 0 ? 1 : all[static_cast<std::size_t>(in.node)].result_count();
      if (in.result < 0 || in.result >= results) {
        throw error{at, fmt::format("reads result {} of an operator with {}", in.result, results),
                    "a result that exists"};
      }
    }
  }
}

UNITY_INLINE void check_mapped(const std::vector<foreign_rule::operation>& all, const foreign_rule::source_of& mapped,
                               const std::string& where) {
  const auto count = static_cast<std::int64_t>(all.size());
  if (mapped.node < 0 || mapped.node >= count || mapped.result < 0 ||
      mapped.result >= all[static_cast<std::size_t>(mapped.node)].result_count()) {
    throw error{where, fmt::format("maps result {} of operator {}", mapped.result, mapped.node),
                fmt::format("a result of one of its {} operators", count)};
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE void validate(const foreign_rule& rule, std::string_view file) {
  const auto where = fmt::format("{}: {}", file, printable(rule.name));
  detail::check_operations(rule.source, fmt::format("{}, source", where));
  detail::check_operations(rule.target, fmt::format("{}, target", where));
  if (rule.outputs.empty()) {
    throw error{where, "maps no output", "at least one"};
  }
  for (const auto& m : rule.outputs) {
    detail::check_mapped(rule.source, m.source, fmt::format("{}, source output", where));
    detail::check_mapped(rule.target, m.target, fmt::format("{}, target output", where));
  }
}

}  // namespace unity::io

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

UNITY_INLINE std::string identity_writer::text(const std::vector<std::size_t>& outputs) {
  std::string all;
  for (int side = 0; side < 2; ++side) {
    written_.clear();
    for (const auto o : outputs) {
      append(side == 0 ? rule_.outputs[o].source : rule_.outputs[o].target, side, all);
      all += ';';
    }
  }
  return all;
}

UNITY_INLINE void identity_writer::append(const source_of& t, int side, std::string& all) {
  if (t.node < 0) {
    const auto number = variables_.emplace(std::pair{t.node, t.result}, variables_.size()).first->second;
    all += fmt::format("?{}", number);
    return;
  }
  const auto [place, fresh] = written_.emplace(t.node, written_.size());
  all += fmt::format("%{}", place->second);
  if (fresh) {
    const auto& op = (side == 0 ? rule_.source : rule_.target)[static_cast<std::size_t>(t.node)];
    all += fmt::format("={}", op.type);
    for (const auto& [name, value] : op.parameters) {
      all += fmt::format(",{}={}", name, value);
    }
    all += '(';
    for (const auto& in : op.inputs) {
      append(in, side, all);
      all += ',';
    }
    all += ')';
  }
  all += fmt::format(".{}", t.result);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string identity_text(const foreign_rule& rule) {
  std::vector<std::size_t> order(rule.outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  constexpr std::size_t most_permuted = 5;
  std::string least;
  do {
    auto text = detail::identity_writer{rule}.text(order);
    if (least.empty() || text < least) {
      least = std::move(text);
    }
  } while (order.size() <= most_permuted && std::next_permutation(order.begin(), order.end()));
  return least;
}

UNITY_INLINE std::optional<std::string> unbound_input(const foreign_rule& rule) {
  const auto reads = [&](const foreign_rule::source_of& t) {
    return std::any_of(rule.source.begin(), rule.source.end(), [&](const auto& op) {
      return std::find(op.inputs.begin(), op.inputs.end(), t) != op.inputs.end();
    });
  };
  for (const auto& op : rule.target) {
    for (const auto& in : op.inputs) {
      if (in.node < 0 && !reads(in)) {
        return detail::variable_name(in);
      }
    }
  }
  return std::nullopt;
}

}  // namespace unity::io

#endif
