// Reads and writes HLO text, as XLA prints it before and after optimization.
//
//   HloModule f, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
//
//   ENTRY %main (x: f32[2]) -> f32[2] {
//     %x = f32[2]{0} parameter(0)
//     ROOT %y = f32[2]{0} tanh(%x), metadata={op_name="jit(f)/tanh"}
//   }
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <unity/core/file.hpp>
#include <unity/io/hlo/check.hpp>
#include <unity/io/hlo/module.hpp>
#include <unity/io/hlo/parse.hpp>
#include <unity/io/hlo/print.hpp>

namespace unity::io {

// Names of instructions and computations lose '%', comments are removed; unknown opcodes and attributes are kept. The
// output of to_text parses to the same module, here and, if XLA accepts the original text, in XLA. `file`: for
// messages.
// Throws: unity::error with line and column if it is not HLO, and with the instruction if shapes do not fit.
[[nodiscard]] inline hlo_module parse_hlo(std::string_view text, std::string_view file) {
  auto m = detail::parse_hlo_syntax(text, file);
  check(m, file);
  return m;
}

// Throws: unity::error.
[[nodiscard]] inline hlo_module read_hlo(const std::filesystem::path& path) {
  return parse_hlo(read_file(path), path.string());
}

}  // namespace unity::io
