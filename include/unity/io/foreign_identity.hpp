// Decides which foreign rules are equal, and which are no valid rules, from their structure alone, for any operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/io/foreign_ranks.hpp>
#include <unity/io/foreign_rule.hpp>

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

// A variable, as named in rule text, that the target reads but no operator of the source does. Such a rule has no
// meaning: its target is not determined by what its source matches.
[[nodiscard]] std::optional<std::string> unbound_input(const foreign_rule& rule);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOREIGN_IDENTITY)

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::io::detail {

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
