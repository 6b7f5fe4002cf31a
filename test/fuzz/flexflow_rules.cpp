// Any text is rules or an error. Each rule has a text that the rule parser accepts, or a reason why it has none; on
// given variables it builds parallel computation graphs, or its operators do not fit.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/flexflow_rules.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/expect_one_line.hpp"

namespace {

const unity::parallel::pcg_algebra& operators() {
  static const unity::parallel::pcg_algebra a{unity::tensor::training_algebra()};
  return a;
}

// Builds both sides with every variable bound to one matrix: undivided, or with each dimension halved.
void write_both_sides(const unity::io::flexflow_parallel_rule& rule, std::int64_t degree) {
  constexpr std::size_t most_variables = 8;
  if (!rule.outside_because().empty() || rule.variables() > most_variables) {
    return;
  }
  unity::parallel::pcg_writer writer{operators()};
  unity::parallel::parallel_type type;
  type.global.dims = {4, 4};
  type.degrees = {degree, degree};
  type.steps = {1, 1};
  std::vector<unity::value_id> variables;
  for (std::size_t v = 0; v <= rule.variables(); ++v) {
    const auto input = operators().operators().make_operation(
        "input", {{"name", "x" + std::to_string(v)}, {"dims", type.global.dims}});
    const auto n = writer.add(input, {});
    variables.push_back(writer.on(writer.graph().results(n)[0], type));
  }
  for (const bool target : {false, true}) {
    const auto outputs = rule.write(writer, operators(), target, variables);
    if (outputs && outputs->size() != rule.rule().outputs.size()) {
      __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<unity::io::foreign_rule> rules;
  try {
    rules = unity::io::parse_flexflow_rules({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;
  }
  for (auto& r : rules) {
    const auto text = unity::io::flexflow_rule_text(r);
    if (text ? unity::parse_rules(text.text).size() != 1 : text.outside_because.empty()) {
      __builtin_trap();
    }
    const unity::io::flexflow_parallel_rule parallel{std::move(r)};
    write_both_sides(parallel, 1);
    write_both_sides(parallel, 2);
  }
  return 0;
}
