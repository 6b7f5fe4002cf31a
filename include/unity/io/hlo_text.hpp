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

#include <unity/core/config.hpp>
#include <unity/core/file.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Prints HLO modules as text that XLA parses.

// Parsing the text gives the same module.
[[nodiscard]] std::string to_text(const hlo_module& m);

}  // namespace unity::io

namespace unity::io::detail {

// Parses HLO modules from text.

// Accepts what XLA accepts, except that a module must have an entry, opcodes may be unknown, and shapes are not checked
// here (check does that). Each name must be defined before its use, so that nothing depends on itself.
// Throws: unity::error that names file, line and column.
[[nodiscard]] hlo_module parse_hlo_syntax(std::string_view text, std::string_view file);

}  // namespace unity::io::detail

namespace unity::io {

// Checks that an HLO module is valid: shapes, parameters, order.

// Each known instruction has the inferred shape (infer_shape), parameters are numbered from 0, operands and callees
// precede their users, and names are unique. `file`: for messages, which name the instruction and, if it was parsed,
// its line.
// Throws: unity::error.
void check(const hlo_module& m, std::string_view file);

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_TEXT)

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/hlo/infer.hpp>
#include <unity/io/hlo/scanner.hpp>

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

namespace unity::io::detail {

class hlo_parser {
 public:
  hlo_parser(std::string_view text, std::string_view file) : scan_{text, file} {}

  hlo_module run();

 private:
  struct signature {
    std::vector<hlo_shape> parameters{};
    hlo_shape result{};
  };

  void header();
  void computation();
  signature read_signature();
  void check(const hlo_computation& c, const signature& s) const;
  void instruction(hlo_computation& c, bool& has_root);
  void operands(const hlo_computation& c, hlo_instruction& i);
  hlo_instruction_id operand(const hlo_computation& c);
  std::vector<hlo_attribute> attributes(const hlo_instruction* of);
  template <class Names>
  auto references(const Names& names, std::string_view expected);

  static bool names_computations(std::string_view key, const hlo_instruction& of);

  hlo_scanner scan_;
  hlo_module module_{};
  std::map<std::string, hlo_computation_id, std::less<>> computations_;
  std::map<std::string, hlo_instruction_id, std::less<>> instructions_;  // of the current computation
};

UNITY_INLINE hlo_module hlo_parser::run() {
  header();
  for (scan_.skip_space(); !scan_.at_end(); scan_.skip_space()) {
    computation();
  }
  if (!module_.entry.valid()) {
    scan_.fail("a computation that is the ENTRY");
  }
  return std::move(module_);
}

UNITY_INLINE void hlo_parser::header() {
  scan_.skip_space();
  if (!scan_.accept_word("HloModule")) {
    scan_.fail("'HloModule' and a name");
  }
  module_.name = scan_.name("the module's name");
  module_.attributes = attributes(nullptr);
  constexpr std::array<std::string_view, 4> tables{"FileNames", "FunctionNames", "FileLocations", "StackFrames"};
  for (scan_.skip_space(); std::any_of(tables.begin(), tables.end(), [&](auto t) { return scan_.at(t); });
       scan_.skip_space()) {
    module_.tables.push_back(scan_.paragraph());
  }
}

UNITY_INLINE void hlo_parser::computation() {
  const bool is_entry = scan_.accept_word("ENTRY");
  if (is_entry && module_.entry.valid()) {
    scan_.fail_behind(5, "ENTRY a second time", "one entry");
  }
  hlo_computation c;
  c.name = scan_.name("the name of a computation");
  if (computations_.contains(c.name)) {
    scan_.fail_behind(c.name.size(), fmt::format("'{}' a second time", printable(c.name)), "each computation once");
  }
  scan_.skip_space();
  const bool has_signature = scan_.at("(");
  const auto stated = has_signature ? read_signature() : signature{};
  scan_.expect("{");
  instructions_.clear();
  bool has_root = false;
  while (!scan_.accept("}")) {
    instruction(c, has_root);
  }
  if (c.instructions.empty()) {
    scan_.fail_behind(1, fmt::format("no instruction in '{}'", printable(c.name)), "at least one");
  }
  c.root = has_root ? c.root : hlo_instruction_id{c.instructions.size() - 1};
  if (has_signature) {
    check(c, stated);
  }
  c.attributes = attributes(nullptr);
  const hlo_computation_id id{module_.computations.size()};
  computations_.emplace(c.name, id);
  module_.entry = is_entry ? id : module_.entry;
  module_.computations.push_back(std::move(c));
}

UNITY_INLINE hlo_parser::signature hlo_parser::read_signature() {
  signature s;
  scan_.expect("(");
  while (!scan_.accept(")")) {
    if (!s.parameters.empty()) {
      scan_.expect(",");
    }
    static_cast<void>(scan_.name("the name of a parameter"));
    scan_.expect(":");
    s.parameters.push_back(scan_.shape());
  }
  scan_.expect("->");
  s.result = scan_.shape();
  return s;
}

UNITY_INLINE void hlo_parser::check(const hlo_computation& c, const signature& s) const {
  const auto parameters = c.parameters();
  const bool is_same = std::equal(s.parameters.begin(), s.parameters.end(), parameters.begin(), parameters.end(),
                                  [&](const auto& a, auto p) { return are_compatible(a, c[p].shape); });
  if (!is_same || !are_compatible(s.result, c[c.root].shape)) {
    scan_.fail_behind(1, fmt::format("'{}' whose signature differs from its parameters and root", printable(c.name)),
                      "the shapes of these");
  }
}

UNITY_INLINE void hlo_parser::instruction(hlo_computation& c, bool& has_root) {
  const bool is_root = scan_.accept_word("ROOT");
  if (is_root && has_root) {
    scan_.fail_behind(4, "ROOT a second time", "one root");
  }
  hlo_instruction i;
  i.name = scan_.name("an instruction or '}'");
  i.line = scan_.line();
  if (instructions_.contains(i.name)) {
    scan_.fail_behind(i.name.size(), fmt::format("'{}' a second time", printable(i.name)), "each instruction once");
  }
  scan_.expect("=");
  i.shape = scan_.shape();
  i.opcode = scan_.name("an opcode");
  operands(c, i);
  i.attributes = attributes(&i);
  if (is_root) {
    c.root = hlo_instruction_id{c.instructions.size()};
    has_root = true;
  }
  instructions_.emplace(i.name, hlo_instruction_id{c.instructions.size()});
  c.instructions.push_back(std::move(i));
}

UNITY_INLINE void hlo_parser::operands(const hlo_computation& c, hlo_instruction& i) {
  if (i.is("constant") || i.is("parameter")) {
    scan_.skip_space();
    if (!scan_.at("(")) {
      scan_.fail("'('");
    }
    const auto text = scan_.bracketed();
    i.literal = text.substr(1, text.size() - 2);
    if (i.is("parameter") && (parameter_number(i) < 0 || i.literal.front() == '-')) {
      scan_.fail_behind(text.size() - 1, fmt::format("'{}'", printable(i.literal)), "the number of a parameter");
    }
    return;
  }
  scan_.expect("(");
  while (!scan_.accept(")")) {
    if (!i.operands.empty()) {
      scan_.expect(",");
    }
    i.operands.push_back(operand(c));
  }
}

// "%x" or, in XLA's older form, "f32[2]{0} %x".
UNITY_INLINE hlo_instruction_id hlo_parser::operand(const hlo_computation& c) {
  scan_.skip_space();
  auto trial = scan_;
  const bool is_tuple = scan_.at("(");
  const bool has_shape = is_tuple || (static_cast<void>(trial.name("an operand")), trial.at("["));
  const auto shape = has_shape ? scan_.shape() : hlo_shape{};
  const auto name = scan_.name("an operand");
  const auto at = instructions_.find(name);
  if (at == instructions_.end()) {
    scan_.fail_behind(name.size(), fmt::format("no instruction '{}' above", printable(name)),
                      "an operand that is defined before");
  }
  if (has_shape && !are_compatible(shape, c[at->second].shape)) {
    scan_.fail_behind(name.size(), fmt::format("'{}' as {}", printable(name), printable(to_text(shape))),
                      printable(to_text(c[at->second].shape)));
  }
  return at->second;
}

UNITY_INLINE bool hlo_parser::names_computations(std::string_view key, const hlo_instruction& of) {
  constexpr std::array<std::string_view, 8> keys{"to_apply",
                                                 "calls",
                                                 "condition",
                                                 "body",
                                                 "branch_computations",
                                                 "true_computation",
                                                 "false_computation",
                                                 "called_computations"};
  return is_one_of(key, keys) || (of.is("select-and-scatter") && (key == "select" || key == "scatter"));
}

template <class Names>
auto hlo_parser::references(const Names& names, std::string_view expected) {
  std::vector<typename Names::mapped_type> all;
  const bool is_list = scan_.accept("{");
  while (!is_list || !scan_.accept("}")) {
    if (!all.empty()) {
      scan_.expect(",");
    }
    const auto name = scan_.name(expected);
    const auto at = names.find(name);
    if (at == names.end()) {
      scan_.fail_behind(name.size(), fmt::format("no '{}' above", printable(name)), expected);
    }
    all.push_back(at->second);
    if (!is_list) {
      break;
    }
  }
  return all;
}

UNITY_INLINE std::vector<hlo_attribute> hlo_parser::attributes(const hlo_instruction* of) {
  std::vector<hlo_attribute> all;
  for (scan_.skip_blanks(); scan_.at(","); scan_.skip_blanks()) {
    scan_.expect(",");
    hlo_attribute a;
    a.key = scan_.name("the name of an attribute");
    if (std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.key == a.key; })) {
      scan_.fail_behind(a.key.size(), fmt::format("'{}' a second time", printable(a.key)), "each attribute once");
    }
    scan_.expect("=");
    if (of != nullptr && names_computations(a.key, *of)) {
      a.computations = references(computations_, "a computation that is defined before, as calls form no cycle");
    } else if (of != nullptr && a.key == "control-predecessors") {
      a.instructions = references(instructions_, "an instruction that is defined before");
    } else {
      a.text = scan_.raw("a value");
    }
    a.text = a.text.empty() && a.computations.empty() && a.instructions.empty() ? "{}" : a.text;
    all.push_back(std::move(a));
  }
  return all;
}

UNITY_INLINE hlo_module parse_hlo_syntax(std::string_view text, std::string_view file) {
  return hlo_parser{text, file}.run();
}

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
