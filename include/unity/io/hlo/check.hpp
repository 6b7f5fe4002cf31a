// Checks that an HLO module is valid: shapes, parameters, order.
#pragma once

#include <string_view>

#include <unity/core/config.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Each known instruction has the inferred shape (infer_shape), parameters are numbered from 0, operands and callees
// precede their users, and names are unique. `file`: for messages, which name the instruction and, if it was parsed,
// its line.
// Throws: unity::error.
void check(const hlo_module& m, std::string_view file);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_CHECK)

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/hlo/infer.hpp>

namespace unity::io::detail {

inline std::string hlo_place(const hlo_instruction& i, std::string_view file) {
  return fmt::format("{}{}: %{}", file, i.line > 0 ? fmt::format(":{}", i.line) : "", printable(i.name));
}

inline void check_hlo_order(const hlo_instruction& i, std::size_t own, std::size_t computation, std::string_view file) {
  const auto is_above = [&](auto o) { return o.index() < own; };
  bool holds = std::all_of(i.operands.begin(), i.operands.end(), is_above);
  for (const auto& a : i.attributes) {
    holds = holds && std::all_of(a.instructions.begin(), a.instructions.end(), is_above) &&
            std::all_of(a.computations.begin(), a.computations.end(), [&](auto f) { return f.index() < computation; });
  }
  if (!holds) {
    throw error{hlo_place(i, file), "reads or calls what is below", "operands and computations that are above"};
  }
}

inline void check_hlo_parameters(const hlo_computation& c, std::string_view file) {
  const auto parameters = c.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameter_number(c[parameters[p]]) != static_cast<std::int64_t>(p)) {
      throw error{hlo_place(c[parameters[p]], file),
                  fmt::format("parameter {} of {}", printable(c[parameters[p]].literal), parameters.size()),
                  "the numbers from 0 on, each once"};
    }
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE void check(const hlo_module& m, std::string_view file) {
  std::set<std::string_view> computations;
  for (std::size_t k = 0; k < m.computations.size(); ++k) {
    const auto& c = m.computations[k];
    if (!computations.insert(c.name).second) {
      throw error{file, fmt::format("computation %{} a second time", printable(c.name)), "each once"};
    }
    detail::check_hlo_parameters(c, file);
    std::set<std::string_view> names;
    for (std::size_t n = 0; n < c.instructions.size(); ++n) {
      const auto& i = c.instructions[n];
      const auto where = detail::hlo_place(i, file);
      if (!names.insert(i.name).second) {
        throw error{where, "a second time", "each instruction once"};
      }
      detail::check_hlo_order(i, n, k, file);
      const auto inferred = infer_shape(m, c, i, where);
      if (inferred && !are_compatible(*inferred, i.shape)) {
        throw error{where, fmt::format("{} gives {}", printable(i.opcode), printable(to_text(i.shape, false), 200)),
                    printable(to_text(*inferred, false), 200)};
      }
    }
  }
}

}  // namespace unity::io

#endif
