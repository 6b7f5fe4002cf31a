// Prints HLO modules as text that XLA parses.
#pragma once

#include <string>

#include <unity/core/config.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Parsing the text gives the same module.
[[nodiscard]] std::string to_text(const hlo_module& m);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_PRINT)

#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace unity::io::detail {

// "{%a, %b}"; a single reference has braces only if the key requires a list.
template <class Id, class Names>
std::string hlo_references(std::string_view key, const std::vector<Id>& all, const Names& names) {
  std::string text;
  for (const auto i : all) {
    text += fmt::format("{}%{}", text.empty() ? "" : ", ", names[i].name);
  }
  const bool is_list =
      all.size() != 1 || key == "branch_computations" || key == "called_computations" || key == "control-predecessors";
  return is_list ? fmt::format("{{{}}}", text) : text;
}

inline void print_hlo(std::string& out, const hlo_module& m, const hlo_computation& c,
                      const std::vector<hlo_attribute>& attributes) {
  for (const auto& a : attributes) {
    out += fmt::format(", {}={}", a.key,
                       !a.text.empty()           ? a.text
                       : !a.instructions.empty() ? hlo_references(a.key, a.instructions, c)
                                                 : hlo_references(a.key, a.computations, m));
  }
}

inline void print_hlo(std::string& out, const hlo_module& m, const hlo_computation& c) {
  std::string parameters;
  for (const auto p : c.parameters()) {
    parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", c[p].name, to_text(c[p].shape, false));
  }
  out += fmt::format("{}%{} ({}) -> {} {{\n", &c == &m[m.entry] ? "ENTRY " : "", c.name, parameters,
                     to_text(c[c.root].shape, false));
  for (std::size_t i = 0; i < c.instructions.size(); ++i) {
    const auto& x = c.instructions[i];
    std::string operands = x.literal;
    for (const auto o : x.operands) {
      operands += fmt::format("{}%{}", operands.empty() ? "" : ", ", c[o].name);
    }
    out += fmt::format("  {}%{} = {} {}({})", c.root.index() == i ? "ROOT " : "", x.name, to_text(x.shape), x.opcode,
                       operands);
    print_hlo(out, m, c, x.attributes);
    out += "\n";
  }
  out += "}";
  print_hlo(out, m, c, c.attributes);
  out += "\n\n";
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_text(const hlo_module& m) {
  std::string out = fmt::format("HloModule {}", m.name);
  detail::print_hlo(out, m, m[m.entry], m.attributes);
  out += "\n\n";
  for (const auto& table : m.tables) {
    out += table + "\n\n";
  }
  for (const auto& c : m.computations) {
    detail::print_hlo(out, m, c);
  }
  return out;
}

}  // namespace unity::io

#endif
