// Small compositions of operators for which rules are derived.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::tensor {

// An operator of a composition, and the role of each operand: 'i' for data (one or two operands), 'w' for weights.
struct composed_operator {
  std::string kind{};
  std::string operands{};
};

// Parses "conv2d:iw relu:i".
// Throws: unity::error if an operator is unknown or has another number of operands.
[[nodiscard]] std::vector<composed_operator> parse_composed_operators(const algebra& a, std::string_view text);

namespace detail {

// A placeholder for an operand that no operator produces; `finished` names it.
[[nodiscard]] inline syntax::term open_operand(bool flows) {
  syntax::term v;
  v.kind = syntax::term::form::variable;
  v.name = flows ? "i" : "w";
  return v;
}

// The compositions with one operator more than the largest of by_size, which begins with an open operand. An operator
// is not applied to compositions that contain an operator of the same kind: enumeration already covers these.
[[nodiscard]] std::vector<syntax::term> larger_compositions(const std::vector<composed_operator>& operators,
                                                            const std::vector<std::vector<syntax::term>>& by_size);

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_COMPOSITIONS)

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor::detail {

[[nodiscard]] inline bool has_operator(const syntax::term& t, const std::string& kind) {
  return t.kind == syntax::term::form::application &&
         (t.name == kind || std::ranges::any_of(t.operands, [&](const auto& o) { return has_operator(o, kind); }));
}

UNITY_INLINE std::vector<syntax::term> larger_compositions(const std::vector<composed_operator>& operators,
                                                           const std::vector<std::vector<syntax::term>>& by_size) {
  const auto count = by_size.size();
  std::vector<syntax::term> all;
  for (const auto& o : operators) {
    syntax::term t;
    t.name = o.kind;
    std::vector<std::size_t> flowing;
    for (const auto c : o.operands) {
      t.operands.push_back(open_operand(c == 'i'));
      if (c == 'i') {
        flowing.push_back(t.operands.size() - 1);
      }
    }
    // All ways to distribute the other operators over the one or two data operands, except for their order.
    for (std::size_t first = count - 1, second = 0; first >= second; --first, ++second) {
      for (const auto& left : by_size[first]) {
        t.operands[flowing[0]] = left;
        for (const auto& right : flowing.size() > 1 ? by_size[second] : by_size[0]) {
          if (flowing.size() > 1) {
            t.operands[flowing[1]] = right;
          }
          if (!has_operator(left, o.kind) && !has_operator(right, o.kind)) {
            all.push_back(t);
          }
        }
      }
      if (flowing.size() == 1 || first == 0) {
        break;
      }
    }
  }
  return all;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<composed_operator> parse_composed_operators(const algebra& a, std::string_view text) {
  std::vector<composed_operator> all;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const auto colon = std::min(word.find(':'), word.size());
    composed_operator o{std::string{word.substr(0, colon)}, std::string{word.substr(std::min(colon + 1, word.size()))}};
    const auto kind = a.find_kind(o.kind);
    const auto flowing = std::ranges::count(o.operands, 'i');
    const bool reads = kind && flowing >= 1 && flowing <= 2 &&
                       o.operands.find_first_not_of("iw") == std::string::npos &&
                       a.signature(*kind).operands.accepts(o.operands.size());
    if (!reads) {
      throw error{"operators of compositions", fmt::format("'{}'", word),
                  "an operator and its operands, one or two of which flow: conv2d:iw"};
    }
    all.push_back(std::move(o));
  }
  return all;
}

}  // namespace unity::tensor

#endif
