// HLO, the graphs that XLA compiles, as data: a module of computations, each a list of instructions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>

namespace unity::io {

namespace detail {

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace detail

using hlo_instruction_id = id<struct hlo_instruction_tag>;  // within its computation
using hlo_computation_id = id<struct hlo_computation_tag>;  // within its module

// An array, a token ("token[]") or a tuple. Regular.
struct hlo_shape {
  std::string element{};                   // "f32"; empty for a tuple
  std::vector<std::int64_t> dimensions{};  // -1: any size
  std::vector<bool> is_dynamic{};          // by dimension; empty if none is
  std::string layout{};                    // as written, "{1,0:T(8,128)S(1)}"; may be empty
  std::vector<hlo_shape> parts{};          // of a tuple

  [[nodiscard]] bool is_tuple() const noexcept { return element.empty(); }

  friend bool operator==(const hlo_shape& a, const hlo_shape& b) {
    return std::tie(a.element, a.dimensions, a.is_dynamic, a.layout, a.parts) ==
           std::tie(b.element, b.dimensions, b.is_dynamic, b.layout, b.parts);
  }
};

[[nodiscard]] inline hlo_shape array_shape(std::string element, std::vector<std::int64_t> dimensions) {
  return {std::move(element), std::move(dimensions), {}, {}, {}};
}
[[nodiscard]] inline hlo_shape tuple_shape(std::vector<hlo_shape> parts) { return {{}, {}, {}, {}, std::move(parts)}; }

// Whether they are equal except for layouts.
[[nodiscard]] bool are_compatible(const hlo_shape& a, const hlo_shape& b);

// The elements of an array; 0 for tuples. A dimension of any size counts as one.
[[nodiscard]] std::int64_t element_count(const hlo_shape& s);

// The bits of an element ("bf16" has 16); 0 for tokens and unknown types.
[[nodiscard]] int element_bits(std::string_view element);

// The sum over all parts.
[[nodiscard]] double byte_count(const hlo_shape& s);

// "(f32[2,3]{1,0}, token[])".
[[nodiscard]] std::string to_text(const hlo_shape& s, bool with_layout = true);

// An attribute, written after the operands. It names computations ("to_apply") or instructions
// ("control-predecessors"), or is kept as written. Regular.
struct hlo_attribute {
  std::string key{};
  std::string text{};                              // empty if it names something
  std::vector<hlo_computation_id> computations{};  // callees, which precede their callers
  std::vector<hlo_instruction_id> instructions{};

  friend bool operator==(const hlo_attribute&, const hlo_attribute&) = default;
};

struct hlo_instruction {
  std::string name{};  // without '%'
  hlo_shape shape{};
  std::string opcode{};
  std::vector<hlo_instruction_id> operands{};  // precede their users
  std::string literal{};                       // of constants and parameters: the text in parentheses, as written
  std::vector<hlo_attribute> attributes{};
  std::size_t line = 0;  // where it was parsed, for messages; does not affect equality

  [[nodiscard]] const hlo_attribute* find(std::string_view key) const;
  // The text of an attribute; empty if it is missing.
  [[nodiscard]] std::optional<std::string_view> text_of(std::string_view key) const;
  // The only computation of an attribute, or nothing.
  [[nodiscard]] std::optional<hlo_computation_id> callee(std::string_view key) const;
  [[nodiscard]] bool is(std::string_view code) const noexcept { return opcode == code; }

  friend bool operator==(const hlo_instruction& a, const hlo_instruction& b) {
    return std::tie(a.name, a.shape, a.opcode, a.operands, a.literal, a.attributes) ==
           std::tie(b.name, b.shape, b.opcode, b.operands, b.literal, b.attributes);
  }
};

// Regular.
struct hlo_computation {
  std::string name{};
  std::vector<hlo_instruction> instructions{};  // operands before users; in a scheduled module, in execution order
  hlo_instruction_id root{};
  std::vector<hlo_attribute> attributes{};  // after the closing bracket: execution_thread

  [[nodiscard]] const hlo_instruction& operator[](hlo_instruction_id i) const { return instructions[i.index()]; }
  // In order of their numbers.
  [[nodiscard]] std::vector<hlo_instruction_id> parameters() const;

  friend bool operator==(const hlo_computation&, const hlo_computation&) = default;
};

// Regular.
struct hlo_module {
  std::string name{};
  std::vector<hlo_attribute> attributes{};      // "entry_computation_layout", ...
  std::vector<std::string> tables{};            // FileNames and so on, to which metadata refer, as written
  std::vector<hlo_computation> computations{};  // callees before callers
  hlo_computation_id entry{};

  [[nodiscard]] const hlo_computation& operator[](hlo_computation_id c) const { return computations[c.index()]; }
  [[nodiscard]] std::optional<hlo_computation_id> find(std::string_view computation) const;

  friend bool operator==(const hlo_module&, const hlo_module&) = default;
};

// The number of a parameter; -1 for other instructions.
[[nodiscard]] std::int64_t parameter_number(const hlo_instruction& i);

// The readers of each instruction, ascending, once per operand; control predecessors count as operands.
[[nodiscard]] std::vector<std::vector<hlo_instruction_id>> readers_of(const hlo_computation& c);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_MODULE)

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace unity::io {

UNITY_INLINE bool are_compatible(const hlo_shape& a, const hlo_shape& b) {
  return std::tie(a.element, a.dimensions) == std::tie(b.element, b.dimensions) &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), are_compatible);
}

UNITY_INLINE std::int64_t element_count(const hlo_shape& s) {
  std::int64_t count = s.is_tuple() ? 0 : 1;
  for (const auto d : s.dimensions) {
    count *= d < 0 ? 1 : d;
  }
  return count;
}

UNITY_INLINE int element_bits(std::string_view element) {
  if (element == "pred") {
    return 8;
  }
  for (const std::string_view kind : {"bf", "s", "u", "f", "c"}) {  // "f8e4m3fn" has 8
    if (element.starts_with(kind)) {
      const auto digits = element.substr(kind.size());
      return to_number<int>(digits.substr(0, digits.find_first_not_of("0123456789"))).value_or(0);
    }
  }
  return 0;
}

UNITY_INLINE double byte_count(const hlo_shape& s) {
  double bytes = static_cast<double>(element_count(s)) * element_bits(s.element) / 8;
  for (const auto& part : s.parts) {
    bytes += byte_count(part);
  }
  return bytes;
}

UNITY_INLINE std::string to_text(const hlo_shape& s, bool with_layout) {
  std::string text;
  if (s.is_tuple()) {
    for (const auto& part : s.parts) {
      text += (text.empty() ? "" : ", ") + to_text(part, with_layout);
    }
    return fmt::format("({})", text);
  }
  for (std::size_t i = 0; i < s.dimensions.size(); ++i) {
    text += i == 0 ? "" : ",";
    text += s.dimensions[i] < 0                        ? std::string{"?"}
            : !s.is_dynamic.empty() && s.is_dynamic[i] ? fmt::format("<={}", s.dimensions[i])
                                                       : fmt::format("{}", s.dimensions[i]);
  }
  return fmt::format("{}[{}]{}", s.element, text, with_layout ? s.layout : "");
}

UNITY_INLINE const hlo_attribute* hlo_instruction::find(std::string_view key) const {
  const auto at = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.key == key; });
  return at == attributes.end() ? nullptr : &*at;
}

UNITY_INLINE std::optional<std::string_view> hlo_instruction::text_of(std::string_view key) const {
  const auto* const a = find(key);
  return a == nullptr ? std::nullopt : std::optional<std::string_view>{a->text};
}

UNITY_INLINE std::optional<hlo_computation_id> hlo_instruction::callee(std::string_view key) const {
  const auto* const a = find(key);
  return a == nullptr || a->computations.size() != 1 ? std::nullopt : std::optional{a->computations.front()};
}

UNITY_INLINE std::vector<hlo_instruction_id> hlo_computation::parameters() const {
  std::vector<hlo_instruction_id> all;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].is("parameter")) {
      all.emplace_back(i);
    }
  }
  std::sort(all.begin(), all.end(), [&](auto a, auto b) {
    return std::pair{parameter_number((*this)[a]), a} < std::pair{parameter_number((*this)[b]), b};
  });
  return all;
}

UNITY_INLINE std::optional<hlo_computation_id> hlo_module::find(std::string_view computation) const {
  const auto at =
      std::find_if(computations.begin(), computations.end(), [&](const auto& c) { return c.name == computation; });
  return at == computations.end()
             ? std::nullopt
             : std::optional{hlo_computation_id{static_cast<std::size_t>(at - computations.begin())}};
}

UNITY_INLINE std::int64_t parameter_number(const hlo_instruction& i) {
  return i.is("parameter") ? to_number<std::int64_t>(i.literal).value_or(-1) : -1;
}

UNITY_INLINE std::vector<std::vector<hlo_instruction_id>> readers_of(const hlo_computation& c) {
  std::vector<std::vector<hlo_instruction_id>> readers(c.instructions.size());
  for (std::size_t i = 0; i < c.instructions.size(); ++i) {
    for (const auto o : c.instructions[i].operands) {
      readers[o.index()].emplace_back(i);
    }
    for (const auto& a : c.instructions[i].attributes) {
      for (const auto before : a.instructions) {
        readers[before.index()].emplace_back(i);
      }
    }
  }
  return readers;
}

}  // namespace unity::io

#endif
