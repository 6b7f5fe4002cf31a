// The text format for operators, attribute ranges and input types over which terms are generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/lexer.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::tensor {

// A number, or a size named by a letter.
struct vocabulary_size {
  std::string symbol{};  // empty: a number
  std::int64_t number = 0;

  friend bool operator==(const vocabulary_size&, const vocabulary_size&) = default;
};

// The role of a value: data or a trained weight.
enum class role : std::uint8_t { any, input, weight };

struct vocabulary_sort {
  std::string name{};
  tensor::role role = role::input;
  std::vector<vocabulary_size> dims{};
};

// One choice for every explicit attribute; the others have their defaults.
struct vocabulary_operator {
  kind_id kind{};
  std::vector<std::pair<std::size_t, std::vector<vocabulary_size>>> attributes{};  // index in the signature, value
  std::vector<role> operands{};
  bool same_shape = false;  // for all operands
  bool same_role = false;
  bool same_rank = false;
  std::vector<std::int64_t> ranks{};  // allowed for all operands; empty: any
  role result = role::any;            // any: input if an operand is an input
  bool like_first = false;            // the result has the role of the first operand
};

struct vocabulary {
  std::vector<std::pair<std::string, std::int64_t>> sizes{};  // letters, and their sizes for sampling
  std::vector<vocabulary_sort> sorts{};
  std::vector<vocabulary_operator> operators{};
};

namespace detail {

// Recursive descent; see docs/formats.md for the grammar.
class vocabulary_parser {
 public:
  vocabulary_parser(const algebra& a, std::string_view text, std::string_view file) : algebra_{a}, lexer_{text, file} {}

  vocabulary parse();

 private:
  using token_form = unity::rule_token::form;
  using value = std::vector<vocabulary_size>;
  struct ranged {
    std::size_t attribute = 0;
    std::vector<value> values{};
  };

  std::string take_name(std::string_view expected);
  std::int64_t take_integer(std::string_view expected);
  // Parses elements up to the end token, which is not consumed.
  template <class F>
  void parse_list(std::string_view end, const F& parse_element) {
    if (lexer_.at(end)) {
      return;
    }
    do {
      parse_element();
    } while (lexer_.accept(","));
    if (!lexer_.at(end)) {
      lexer_.fail(fmt::format("',' or '{}'", end));
    }
  }
  void parse_sizes();
  [[nodiscard]] bool find_size(std::string_view name) const;
  role take_role();
  vocabulary_size take_size();
  void parse_sort();

  void parse_operator();
  void parse_clause(vocabulary_operator& o);
  void parse_ranks(vocabulary_operator& o);
  void parse_operands(vocabulary_operator& o);
  std::vector<ranged> parse_ranges(kind_id kind);
  void parse_range(const attribute_signature& a, std::vector<value>& values);
  value parse_value(const attribute_signature& a);
  vocabulary_size parse_number() {
    return lexer_.peek().kind == token_form::number ? vocabulary_size{{}, take_integer("an integer")} : take_size();
  }

  void expand(const vocabulary_operator& o, const std::vector<ranged>& ranges, std::size_t i);

  // Requires that attributes without default are given and that all have a valid length; the sizes of a split are those
  // of the parts from which its operand was concatenated.
  void check(const vocabulary_operator& o);
  [[nodiscard]] attribute values_of(const value& sizes) const;
  [[nodiscard]] std::int64_t size_of(std::string_view symbol) const;

  const algebra& algebra_;
  unity::rule_lexer lexer_;
  vocabulary result_;
};

}  // namespace detail

// Throws: unity::error with file, line and column, the text found and what was expected.
[[nodiscard]] inline vocabulary parse_vocabulary(const algebra& a, std::string_view text, std::string_view file) {
  return detail::vocabulary_parser{a, text, file}.parse();
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_VOCABULARY)

#include <unity/core/printable.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

UNITY_INLINE vocabulary vocabulary_parser::parse() {
  while (lexer_.peek().kind != token_form::end) {
    if (lexer_.at_name("sizes")) {
      parse_sizes();
    } else if (lexer_.at_name("sort")) {
      parse_sort();
    } else if (lexer_.at_name("operator")) {
      parse_operator();
    } else {
      lexer_.fail("'sizes', 'sort' or 'operator'");
    }
  }
  if (result_.operators.empty() || result_.sorts.empty()) {
    lexer_.fail("at least one sort and one operator");
  }
  return std::move(result_);
}

UNITY_INLINE std::string vocabulary_parser::take_name(std::string_view expected) {
  if (lexer_.peek().kind != token_form::name) {
    lexer_.fail(expected);
  }
  return std::string{lexer_.next().text};
}

UNITY_INLINE std::int64_t vocabulary_parser::take_integer(std::string_view expected) {
  const auto text = lexer_.peek().text;
  const auto number = to_number<std::int64_t>(text);
  if (lexer_.peek().kind != token_form::number || !number || text.size() > 9) {
    lexer_.fail(expected);
  }
  lexer_.next();
  return *number;
}

UNITY_INLINE void vocabulary_parser::parse_sizes() {
  lexer_.next();
  do {
    // term_language has sizes for eight letters in every world.
    if (result_.sizes.size() == 8) {
      lexer_.fail("at most 8 letters");
    }
    auto name = take_name("the letter of a size");
    if (find_size(name)) {
      lexer_.fail(fmt::format("a new letter before it, not '{}' again", name));
    }
    lexer_.expect("=");
    const auto number = take_integer("a size of 1 to 64");
    if (number < 1 || number > 64) {
      lexer_.fail("a size of 1 to 64 before it");
    }
    result_.sizes.emplace_back(std::move(name), number);
  } while (lexer_.accept(","));
}

UNITY_INLINE bool vocabulary_parser::find_size(std::string_view name) const {
  for (const auto& s : result_.sizes) {
    if (s.first == name) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE role vocabulary_parser::take_role() {
  for (const auto& [name, r] : {std::pair{"any", role::any}, {"input", role::input}, {"weight", role::weight}}) {
    if (lexer_.at_name(name)) {
      lexer_.next();
      return r;
    }
  }
  lexer_.fail("'any', 'input' or 'weight'");
}

UNITY_INLINE vocabulary_size vocabulary_parser::take_size() {
  if (lexer_.peek().kind == token_form::number) {
    const auto n = take_integer("a size");
    if (n < 1) {
      lexer_.fail("a positive size before it");
    }
    return {{}, n};
  }
  auto name = take_name("a size");
  if (!find_size(name)) {
    lexer_.fail(fmt::format("a letter that 'sizes' declares before it, not '{}'", name));
  }
  return {std::move(name), 0};
}

UNITY_INLINE void vocabulary_parser::parse_sort() {
  lexer_.next();
  vocabulary_sort s{take_name("the name of a sort"), take_role(), {}};
  lexer_.expect("[");
  parse_list("]", [&] { s.dims.push_back(take_size()); });
  lexer_.expect("]");
  if (result_.sorts.size() == 16) {
    lexer_.fail("at most 16 sorts");
  }
  // Values of several variables are held in memory, and terms concatenate them.
  constexpr std::int64_t most_elements = 1 << 16;
  if (checked_element_count(values_of(s.dims)).value_or(most_elements + 1) > most_elements) {
    lexer_.fail("a sort of at most 65536 elements before it");
  }
  result_.sorts.push_back(std::move(s));
}

UNITY_INLINE void vocabulary_parser::parse_operator() {
  lexer_.next();
  if (lexer_.peek().kind != token_form::name || !algebra_.find_kind(lexer_.peek().text)) {
    lexer_.fail("the name of an operator");
  }
  vocabulary_operator o;
  o.kind = *algebra_.find_kind(lexer_.next().text);
  const auto ranges = parse_ranges(o.kind);
  parse_operands(o);
  while (lexer_.peek().kind == token_form::name && !lexer_.at_name("operator") && !lexer_.at_name("sort") &&
         !lexer_.at_name("sizes")) {
    parse_clause(o);
  }
  expand(o, ranges, 0);
}

UNITY_INLINE void vocabulary_parser::parse_clause(vocabulary_operator& o) {
  if ((lexer_.at_name("same_shape") || lexer_.at_name("same_role")) && o.operands.size() < 2) {
    lexer_.fail("two operands before it");
  }
  if (lexer_.at_name("same_shape")) {
    o.same_shape = true;
  } else if (lexer_.at_name("same_role")) {
    o.same_role = true;
  } else if (lexer_.at_name("same_rank")) {
    o.same_rank = true;
  } else if (!lexer_.at_name("rank") && !lexer_.at_name("gives")) {
    lexer_.fail("'same_shape', 'same_rank', 'same_role', 'rank', 'gives' or the next line");
  }
  const auto word = std::string{lexer_.next().text};
  if (word == "rank") {
    parse_ranks(o);
  } else if (word == "gives" && lexer_.at_name("first")) {
    lexer_.next();
    o.like_first = true;
  } else if (word == "gives") {
    o.result = take_role();
  }
}

UNITY_INLINE void vocabulary_parser::parse_ranks(vocabulary_operator& o) {
  if (!lexer_.accept("{")) {
    o.ranks.push_back(take_integer("a rank"));
    return;
  }
  do {
    o.ranks.push_back(take_integer("a rank"));
  } while (lexer_.accept(","));
  lexer_.expect("}");
}

UNITY_INLINE void vocabulary_parser::parse_operands(vocabulary_operator& o) {
  lexer_.expect("(");
  parse_list(")", [&] { o.operands.push_back(take_role()); });
  const auto& signature = algebra_.signature(o.kind);
  if (!signature.operands.accepts(o.operands.size()) || o.operands.size() > 2) {
    lexer_.fail(fmt::format("as many operands as '{}' takes, two at most", signature.name));
  }
  lexer_.expect(")");
}

UNITY_INLINE auto vocabulary_parser::parse_ranges(kind_id kind) -> std::vector<ranged> {
  std::vector<ranged> all;
  if (!lexer_.accept("{")) {
    return all;
  }
  do {
    const auto& attributes = algebra_.signature(kind).attributes;
    ranged r;
    while (r.attribute < attributes.size() && !lexer_.at_name(attributes[r.attribute].name)) {
      ++r.attribute;
    }
    if (r.attribute == attributes.size()) {
      lexer_.fail(fmt::format("an attribute of '{}'", algebra_.signature(kind).name));
    }
    for (const auto& other : all) {
      if (other.attribute == r.attribute) {
        lexer_.fail("an attribute that was not given before");
      }
    }
    lexer_.next();
    lexer_.expect("=");
    parse_range(attributes[r.attribute], r.values);
    all.push_back(std::move(r));
  } while (lexer_.accept(","));
  lexer_.expect("}");
  return all;
}

UNITY_INLINE void vocabulary_parser::parse_range(const attribute_signature& a, std::vector<value>& values) {
  if (!lexer_.accept("{")) {
    values.push_back(parse_value(a));
    return;
  }
  if (lexer_.at("}")) {
    lexer_.fail(fmt::format("a value: the range of '{}' is empty", a.name));
  }
  do {
    values.push_back(parse_value(a));
  } while (lexer_.accept(","));
  lexer_.expect("}");
}

UNITY_INLINE auto vocabulary_parser::parse_value(const attribute_signature& a) -> value {
  if (a.form == attribute_form::choice) {
    for (std::size_t c = 0; c < a.choices.size(); ++c) {
      if (lexer_.at_name(a.choices[c])) {
        lexer_.next();
        return {{{}, static_cast<std::int64_t>(c)}};
      }
    }
    lexer_.fail(fmt::format("a choice of '{}'", a.name));
  }
  if (a.form == attribute_form::real) {
    const auto number = to_number<double>(lexer_.peek().text);
    if (lexer_.peek().kind != token_form::number || !number) {
      lexer_.fail("a number");
    }
    lexer_.next();
    return {{{}, real_attribute(*number)[0]}};
  }
  if (!lexer_.accept("[")) {
    return {parse_number()};
  }
  value list;
  parse_list("]", [&] { list.push_back(parse_number()); });
  lexer_.expect("]");
  return list;
}

UNITY_INLINE void vocabulary_parser::expand(const vocabulary_operator& o, const std::vector<ranged>& ranges,
                                            std::size_t i) {
  if (i == ranges.size()) {
    check(o);
    if (result_.operators.size() == 4096) {
      lexer_.fail("at most 4096 operators, each choice of attributes counted");
    }
    result_.operators.push_back(o);
    return;
  }
  for (const auto& v : ranges[i].values) {
    auto chosen = o;
    chosen.attributes.emplace_back(ranges[i].attribute, v);
    expand(chosen, ranges, i + 1);
  }
}

UNITY_INLINE void vocabulary_parser::check(const vocabulary_operator& o) {
  const auto& signature = algebra_.signature(o.kind);
  attribute_list values;
  for (const auto& a : signature.attributes) {
    values.push_back(signature.name == "split" && a.name == "sizes" ? attribute{1, 1} : a.default_value);
  }
  for (const auto& [number, chosen] : o.attributes) {
    values[number] = values_of(chosen);
  }
  if (!algebra_.make(o.kind, values)) {
    lexer_.fail(fmt::format(
        "values before it for all attributes of '{}' that have no default, as long as it takes them", signature.name));
  }
}

UNITY_INLINE attribute vocabulary_parser::values_of(const value& sizes) const {
  attribute values;
  for (const auto& s : sizes) {
    values.push_back(s.symbol.empty() ? s.number : size_of(s.symbol));
  }
  return values;
}

UNITY_INLINE std::int64_t vocabulary_parser::size_of(std::string_view symbol) const {
  for (const auto& [name, number] : result_.sizes) {
    if (name == symbol) {
      return number;
    }
  }
  return 0;
}

}  // namespace unity::tensor::detail

#endif
