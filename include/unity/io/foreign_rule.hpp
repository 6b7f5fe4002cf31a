// A substitution from another system's rule file: two lists of operators, and which results replace which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unity::io {

// Regular. Operator names are this library's if it has the operator ("matmul"), else the file's in lower case
// ("replicate"). Parameters keep the file's values under plain names (kernel_h, stride_w, axis, ...).
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOREIGN_RULE)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

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
  const auto where = fmt::format("{}: {}", file, rule.name);
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

#endif
