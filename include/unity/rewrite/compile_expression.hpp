// Compiles expressions of rule text for evaluation: names become slots, words and numbers become attribute values.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::detail {

// The variables of one direction of a rule, numbered in order of first appearance in its source.
struct rule_variables {
  struct value {
    std::string name;
    bool indexed;
  };
  struct attribute {
    std::string name;
    attribute_signature by;  // the attribute that binds it first
  };
  std::vector<value> values{};
  std::vector<attribute> attributes{};

  [[nodiscard]] std::optional<std::size_t> find_value(const std::string& name, bool indexed) const;
  [[nodiscard]] std::optional<std::size_t> find_attribute(const std::string& name) const;
};

// place: file and line of the rule, or empty.
[[noreturn]] inline void refuse_rule(const std::string& place, const std::string& name, const std::string& found,
                                     const std::string& expected) {
  throw error{fmt::format("{}{}rule {}", place, place.empty() ? "" : ": ", name), printable(found, 200), expected};
}

// Compiles expressions of one direction of a rule. The rule's place, name and variables must outlive it.
template <pattern_algebra Algebra>
class expression_compiler {
 public:
  expression_compiler(const Algebra& algebra, const std::string& place, const std::string& rule,
                      const rule_variables& variables)
      : algebra_{algebra}, place_{place}, rule_{rule}, variables_{variables} {}

  // context: the attribute whose value this is; nullptr if there is none, as in a condition.
  [[nodiscard]] compiled_expression compile(const syntax::expression& e, const attribute_signature* context) const {
    using form = syntax::expression::form;
    compiled_expression r;
    switch (e.kind) {
      case form::integer: r.literal = attribute{real_or_integer(e, context)}; return r;
      case form::real: r.literal = real(e, context); return r;
      case form::word: r.literal = word(e, context); return r;
      case form::variable: return attribute_variable(e, context);
      case form::indexed_variable:
        fail(fmt::format("??{}", e.name), fmt::format("size(??{}, ..) or another measure of it", e.name));
      case form::list: r.kind = compiled_expression::form::list; break;
      case form::pack: r.kind = compiled_expression::form::pack; break;
      case form::call: return call(e, context);
    }
    add_arguments(r, e, context, 0);
    r.indexed = r.indexed && e.kind != form::pack;
    return r;
  }
  // Checks that `e`, if it is a variable, is bound by an attribute of the same form as `used_as`, and is not a list if
  // `used_as` is not one.
  void check_form(const syntax::expression& e, const attribute_signature& used_as) const {
    const auto* by = signature_of(e);
    if (by != nullptr && !same_form(*by, used_as)) {
      fail(fmt::format("?{}, which is {}", e.name, form_of(*by)),
           fmt::format("{} for attribute '{}'", form_of(used_as), used_as.name));
    }
    if (e.kind == syntax::expression::form::list && used_as.form != attribute_form::integers) {
      fail(fmt::format("{}, a list", to_text(e)), fmt::format("{} for attribute '{}'", form_of(used_as), used_as.name));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    refuse_rule(place_, rule_, found, expected);
  }

  // The attribute that binds `e`, if `e` is a bound attribute variable.
  const attribute_signature* signature_of(const syntax::expression& e) const {
    const auto slot = e.kind == syntax::expression::form::variable ? variables_.find_attribute(e.name) : std::nullopt;
    return slot ? &variables_.attributes[*slot].by : nullptr;
  }

  static std::string form_of(const attribute_signature& a) {
    switch (a.form) {
      case attribute_form::integer: return "an integer";
      case attribute_form::integers: return "integers";
      case attribute_form::real: return "a real number";
      case attribute_form::word: return "a word";
      case attribute_form::choice: break;
    }
    std::string all;
    for (const auto& c : a.choices) {
      all += fmt::format("{}{}", (all.empty() ? "one of " : ", "), c);
    }
    return all;
  }
  // All attributes are lists of integers; their forms decide which ones have the same meaning.
  static bool same_form(const attribute_signature& a, const attribute_signature& b) {
    const auto form = [](const attribute_signature& s) {
      return s.form == attribute_form::integers ? attribute_form::integer : s.form;
    };
    return form(a) == form(b) && a.choices == b.choices;
  }

  static std::int64_t real_or_integer(const syntax::expression& e, const attribute_signature* context) {
    const bool real = context != nullptr && context->form == attribute_form::real;
    return real ? std::bit_cast<std::int64_t>(static_cast<double>(e.integer)) : e.integer;
  }

  attribute real(const syntax::expression& e, const attribute_signature* context) const {
    if (context == nullptr) {
      fail(to_text(e), "a real number only as an attribute, or beside == or != and a variable");
    }
    if (context->form != attribute_form::real) {
      fail(to_text(e), fmt::format("no real number for attribute '{}'", context->name));
    }
    return {e.integer};
  }

  attribute word(const syntax::expression& e, const attribute_signature* context) const {
    if (context == nullptr) {
      fail(fmt::format("word '{}'", e.name), "a word only as an attribute, or beside == or != and a variable");
    }
    if (context->form == attribute_form::word) {
      attribute bytes_of_word;
      for (const char c : e.name) {
        bytes_of_word.push_back(static_cast<unsigned char>(c));
      }
      return bytes_of_word;
    }
    const auto found = std::find(context->choices.begin(), context->choices.end(), e.name);
    if (found == context->choices.end()) {
      fail(fmt::format("word '{}' for attribute '{}'", e.name, context->name), "one of its choices");
    }
    return attribute{found - context->choices.begin()};
  }

  compiled_expression attribute_variable(const syntax::expression& e, const attribute_signature* context) const {
    const auto slot = variables_.find_attribute(e.name);
    if (!slot && variables_.find_value(e.name, false)) {
      fail(fmt::format("?{}, which stands for a value", e.name), "a variable that an attribute of the source binds");
    }
    if (!slot) {
      fail(fmt::format("unbound attribute variable ?{}", e.name), "one that the source binds before this place");
    }
    if (variables_.attributes[*slot].by.form == attribute_form::real &&
        (context == nullptr || context->form != attribute_form::real)) {
      fail(fmt::format("?{} of real attribute '{}'", e.name, variables_.attributes[*slot].by.name),
           "it only as a real attribute, or beside == or !=");
    }
    compiled_expression r;
    r.kind = compiled_expression::form::attribute_variable;
    r.slot = *slot;
    return r;
  }

  compiled_expression call(const syntax::expression& e, const attribute_signature* context) const {
    if (const auto measure = algebra_.find_measure(e.name)) {
      return measured(e, *measure);
    }
    if constexpr (has_constants<Algebra>) {
      if (auto value = e.arguments.empty() ? algebra_.constant(e.name) : std::nullopt) {
        compiled_expression r;
        r.literal = *std::move(value);
        return r;
      }
    }
    const auto f = std::find_if(rule_functions.begin(), rule_functions.end(), [&](const auto& known) {
      return known.name == e.name && known.arguments == e.arguments.size();
    });
    if (context != nullptr && context->form == attribute_form::real) {
      return negated_real(e, context);
    }
    if (f == rule_functions.end()) {
      fail(to_text(e), fmt::format("a function or measure with {} argument(s)", e.arguments.size()));
    }
    if (std::any_of(e.arguments.begin(), e.arguments.end(),
                    [](const auto& a) { return a.kind == syntax::expression::form::pack; })) {
      fail(to_text(e), "a list around '...', as in [x...]");
    }
    compiled_expression r;
    r.kind = compiled_expression::form::call;
    r.callee = f->function;
    if (is_comparison(f->function)) {
      add_compared(r, e);
    } else {
      add_arguments(r, e, context, 0);
    }
    return r;
  }

  static bool is_comparison(rule_function f) { return f >= rule_function::equal && f <= rule_function::greater_equal; }
  // Compares a number or word with a variable by the attribute that binds the variable: ?epsilon == 1, ?padding ==
  // same.
  void add_compared(compiled_expression& r, const syntax::expression& e) const {
    const auto* left = signature_of(e.arguments[0]);
    const auto* right = signature_of(e.arguments[1]);
    const auto* context = left != nullptr ? left : right;
    const bool real = context != nullptr && context->form == attribute_form::real;
    if (real && r.callee != rule_function::equal && r.callee != rule_function::unequal) {
      fail(to_text(e), "== or != between real numbers");
    }
    for (const auto& argument : e.arguments) {
      if (context != nullptr) {
        check_form(argument, *context);
      }
      const bool computed = argument.kind == syntax::expression::form::call && !real;
      r.arguments.push_back(compile(argument, computed ? nullptr : context));
      r.indexed = r.indexed || r.arguments.back().indexed;
    }
  }

  // Functions of rules see reals as bits: the only operation on a real is to write it with a sign.
  compiled_expression negated_real(const syntax::expression& e, const attribute_signature* context) const {
    using form = syntax::expression::form;
    const bool negates_number = e.name == "-" && e.arguments.size() == 1 &&
                                (e.arguments[0].kind == form::real || e.arguments[0].kind == form::integer);
    if (!negates_number) {
      fail(to_text(e), fmt::format("a number or a variable for real attribute '{}'", context->name));
    }
    const auto& number = e.arguments[0];
    const auto bits = number.kind == form::real ? number.integer : real_or_integer(number, context);
    compiled_expression r;
    r.literal = attribute{std::bit_cast<std::int64_t>(-std::bit_cast<double>(bits))};
    return r;
  }

  compiled_expression measured(const syntax::expression& e, int measure) const {
    using form = syntax::expression::form;
    const bool indexed = !e.arguments.empty() && e.arguments[0].kind == form::indexed_variable;
    if (!indexed && (e.arguments.empty() || e.arguments[0].kind != form::variable)) {
      fail(to_text(e), fmt::format("a variable of the source as the first argument of {}", e.name));
    }
    if constexpr (has_measure_arguments<Algebra>) {
      const auto all = 1 + algebra_.measure_arguments(measure);
      if (e.arguments.size() != all) {
        fail(to_text(e), fmt::format("{} argument(s) of {}", all, e.name));
      }
    }
    const auto slot = variables_.find_value(e.arguments[0].name, indexed);
    if (!slot && !indexed && variables_.find_attribute(e.arguments[0].name)) {
      fail(fmt::format("?{}, which stands for an attribute", e.arguments[0].name),
           fmt::format("a value as the first argument of {}", e.name));
    }
    if (!slot) {
      fail(fmt::format("unbound variable {}{}", indexed ? "??" : "?", e.arguments[0].name),
           "a variable that the source binds");
    }
    compiled_expression r;
    r.kind = compiled_expression::form::measure;
    r.measure = measure;
    r.slot = *slot;
    r.indexed = indexed;
    add_arguments(r, e, nullptr, 1);
    return r;
  }

  void add_arguments(compiled_expression& r, const syntax::expression& e, const attribute_signature* context,
                     std::size_t from) const {
    for (std::size_t i = from; i < e.arguments.size(); ++i) {
      r.arguments.push_back(compile(e.arguments[i], context));
      r.indexed = r.indexed || r.arguments.back().indexed;
    }
  }

  const Algebra& algebra_;
  const std::string& place_;
  const std::string& rule_;
  const rule_variables& variables_;
};

}  // namespace unity::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_COMPILE_EXPRESSION)

namespace unity::detail {

UNITY_INLINE std::optional<std::size_t> rule_variables::find_value(const std::string& name, bool indexed) const {
  const auto found =
      std::ranges::find_if(values, [&](const auto& v) { return v.name == name && v.indexed == indexed; });
  return found == values.end() ? std::nullopt : std::optional{static_cast<std::size_t>(found - values.begin())};
}

UNITY_INLINE std::optional<std::size_t> rule_variables::find_attribute(const std::string& name) const {
  const auto found = std::ranges::find(attributes, name, &attribute::name);
  return found == attributes.end() ? std::nullopt : std::optional{static_cast<std::size_t>(found - attributes.begin())};
}

}  // namespace unity::detail

#endif
