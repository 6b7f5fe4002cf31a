// Ranks, sizes and shapes of terms as expressions of those of their variables, as far as they can be derived.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::tensor {

// The terms bound to the variables of a rule in a larger term. Names of indexed variables begin with '?'.
struct term_bindings {
  std::map<std::string, syntax::term> values{};
  std::map<std::string, syntax::expression> attributes{};
};

namespace detail {

[[nodiscard]] inline std::string binding_name(const syntax::term& variable) {
  return variable.kind == syntax::term::form::indexed_variable ? "?" + variable.name : variable.name;
}

// Whether the term has an indexed variable that is not repeated by a `...` within the term.
[[nodiscard]] bool is_indexed(const syntax::term& t);

[[nodiscard]] syntax::expression simplified_expression(syntax::expression e);

}  // namespace detail

// Assumes that weights broadcast to data and that later operands broadcast to the first; so results are guesses that
// tests must confirm.
class term_measures {
 public:
  // flowing: the variables that are data, not weights.
  explicit term_measures(const std::set<std::string>& flowing) : flowing_{flowing} {}

  [[nodiscard]] bool flows(const syntax::term& t) const;
  [[nodiscard]] std::optional<syntax::expression> rank(const syntax::term& t) const;
  [[nodiscard]] std::optional<syntax::expression> size(const syntax::term& t, const syntax::expression& axis) const;
  [[nodiscard]] std::optional<syntax::expression> shape(const syntax::term& t) const;

  // Substitutes the bindings into the expression; nothing if a measure cannot be derived or a variable is unbound.
  [[nodiscard]] std::optional<syntax::expression> replaced(const syntax::expression& e, const term_bindings& b) const;
  [[nodiscard]] std::optional<syntax::term> replaced(const syntax::term& t, const term_bindings& b) const;

 private:
  [[nodiscard]] const syntax::term* shaped_like(const syntax::term& t) const;
  [[nodiscard]] std::optional<syntax::expression> measured(const syntax::expression& e, const syntax::term& t,
                                                           const term_bindings& b) const;

  const std::set<std::string>& flowing_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_TERM_MEASURES)

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace unity::tensor::detail {

UNITY_INLINE bool is_indexed(const syntax::term& t) {
  return t.kind == syntax::term::form::indexed_variable ||
         std::ranges::any_of(t.operands, [](const auto& o) { return !o.repeated && is_indexed(o); });
}

[[nodiscard]] inline bool is_integer(const syntax::expression& e) {
  return e.kind == syntax::expression::form::integer;
}

// A list without `...`.
[[nodiscard]] inline bool is_plain_list(const syntax::expression& e) {
  return e.kind == syntax::expression::form::list &&
         std::ranges::none_of(e.arguments, [](const auto& a) { return a.kind == syntax::expression::form::pack; });
}

// The value of a call whose arguments are integers; nothing on overflow.
[[nodiscard]] inline std::optional<syntax::expression> computed(const syntax::expression& call) {
  std::vector<attribute> arguments;
  for (const auto& a : call.arguments) {
    arguments.push_back({a.integer});
  }
  const auto called = std::ranges::find_if(
      rule_functions, [&](const auto& f) { return f.name == call.name && f.arguments == arguments.size(); });
  const auto value = evaluate_function(called->function, arguments);
  return value ? std::optional{syntax::integer((*value)[0])} : std::nullopt;
}

UNITY_INLINE syntax::expression simplified_expression(syntax::expression e) {
  for (auto& a : e.arguments) {
    a = simplified_expression(std::move(a));
  }
  const auto& args = e.arguments;
  if (syntax::is_call(e, "product", 1) && is_plain_list(args[0])) {
    auto factors = args[0].arguments;
    std::erase(factors, syntax::integer(1));
    return factors.empty() ? syntax::integer(1) : factors.size() == 1 ? factors[0] : e;
  }
  if (syntax::is_call(e, "-", 1) && is_integer(args[0])) {
    return computed(e).value_or(e);
  }
  if (e.kind != syntax::expression::form::call || args.size() != 2) {
    return e;
  }
  const bool numbers = is_integer(args[0]) && is_integer(args[1]);
  if (is_plain_list(args[0]) && is_integer(args[1])) {
    const auto length = static_cast<std::int64_t>(args[0].arguments.size());
    const auto at = args[1].integer < 0 ? args[1].integer + length : args[1].integer;
    if (e.name == "at" && at >= 0 && at < length) {
      return args[0].arguments[static_cast<std::size_t>(at)];
    }
    if (e.name == "suffix" && at >= 0 && at <= length) {
      return syntax::list({args[0].arguments.begin() + at, args[0].arguments.end()});
    }
  }
  if (e.name == "==" && args[0] == args[1]) {
    return syntax::integer(1);
  }
  if (e.name == "==" && is_plain_list(args[0]) && is_plain_list(args[1]) &&
      args[0].arguments.size() == args[1].arguments.size()) {
    std::vector<syntax::expression> open;
    for (std::size_t i = 0; i < args[0].arguments.size(); ++i) {
      if (args[0].arguments[i] != args[1].arguments[i]) {
        open.push_back(syntax::equal(args[0].arguments[i], args[1].arguments[i]));
      }
    }
    return open.size() == 1 ? open[0] : e;
  }
  if (e.name == "-" && args[1] == syntax::integer(0)) {
    return args[0];
  }
  if (e.name == "||" && (args[0] == syntax::integer(1) || args[1] == syntax::integer(1))) {
    return syntax::integer(1);
  }
  if (e.name == "||" && args[0] == syntax::integer(0)) {
    return args[1];
  }
  if (e.name == "||" && args[1] == syntax::integer(0)) {
    return args[0];
  }
  if (numbers) {
    static constexpr std::array<std::string_view, 9> simplified{"+", "-", "*", "==", "!=", "<=", "<", ">=", ">"};
    return std::ranges::find(simplified, e.name) == simplified.end() ? e : computed(e).value_or(e);
  }
  return e;
}

[[nodiscard]] inline syntax::expression measure_of(const char* name, const syntax::term& variable,
                                                   std::vector<syntax::expression> more = {}) {
  auto v = syntax::variable(variable.name);
  if (variable.kind == syntax::term::form::indexed_variable) {
    v.kind = syntax::expression::form::indexed_variable;
  }
  more.insert(more.begin(), std::move(v));
  return syntax::call(name, std::move(more));
}

[[nodiscard]] inline const syntax::expression* attribute_of(const syntax::term& t, std::string_view name) {
  const auto found = std::ranges::find_if(t.attributes, [&](const auto& a) { return a.name == name; });
  return found == t.attributes.end() ? nullptr : &found->value;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE bool term_measures::flows(const syntax::term& t) const {
  return t.kind == syntax::term::form::application
             ? std::ranges::any_of(t.operands, [&](const auto& o) { return flows(o); })
             : flowing_.contains(detail::binding_name(t));
}

UNITY_INLINE const syntax::term* term_measures::shaped_like(const syntax::term& t) const {
  static const std::set<std::string, std::less<>> elementwise{
      "relu", "sigmoid",         "tanh",       "gelu",       "negate", "reciprocal", "sqrt",
      "erf",  "scalar_multiply", "batch_norm", "layer_norm", "softmax"};
  static const std::set<std::string, std::less<>> broadcasting{"add", "mul", "sub", "div"};
  if (t.kind != syntax::term::form::application) {
    return nullptr;
  }
  if (broadcasting.contains(t.name)) {
    return flows(t.operands[1]) && !flows(t.operands[0]) ? &t.operands[1] : t.operands.data();
  }
  return elementwise.contains(t.name) ? t.operands.data() : nullptr;
}

UNITY_INLINE std::optional<syntax::expression> term_measures::rank(const syntax::term& t) const {
  if (t.kind != syntax::term::form::application) {
    return detail::measure_of("rank", t);
  }
  if (t.name == "conv2d" || t.name == "average_pool" || t.name == "max_pool") {
    return syntax::integer(4);
  }
  if (t.name == "reshape" || t.name == "expand" || t.name == "fill") {
    const auto* dims = detail::attribute_of(t, "dims");
    if (dims == nullptr) {
      return std::nullopt;
    }
    return detail::is_plain_list(*dims) ? syntax::integer(static_cast<std::int64_t>(dims->arguments.size()))
                                        : syntax::call("length", {*dims});
  }
  if (t.name == "concat" || t.name == "transpose" || t.name == "matmul" || t.name == "linear") {
    return rank(t.operands[0]);
  }
  const auto* like = shaped_like(t);
  return like != nullptr ? rank(*like) : std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> term_measures::size(const syntax::term& t,
                                                                   const syntax::expression& axis) const {
  if (t.kind != syntax::term::form::application) {
    return detail::measure_of("size", t, {axis});
  }
  if (t.name == "reshape" || t.name == "expand" || t.name == "fill") {
    const auto* dims = detail::attribute_of(t, "dims");
    return dims == nullptr ? std::nullopt
                           : std::optional{detail::simplified_expression(syntax::call("at", {*dims, axis}))};
  }
  const auto r = rank(t);
  const bool last = axis == syntax::integer(-1) || (r && axis == syntax::call("-", {*r, syntax::integer(1)}));
  if (t.name == "matmul" || t.name == "linear") {
    return last ? size(t.operands[1], t.name == "linear" ? syntax::integer(1) : syntax::integer(-1))
                : size(t.operands[0], axis);
  }
  if (t.name == "conv2d") {
    return axis == syntax::integer(1) || axis == syntax::integer(-3) ? size(t.operands[1], syntax::integer(0))
           : axis == syntax::integer(0)                              ? size(t.operands[0], axis)
                                                                     : std::nullopt;
  }
  if (t.name == "average_pool" || t.name == "max_pool") {
    return axis == syntax::integer(0) || axis == syntax::integer(1) ? size(t.operands[0], axis) : std::nullopt;
  }
  if (t.name == "concat") {
    const auto* along = detail::attribute_of(t, "axis");
    if (along == nullptr) {
      return std::nullopt;
    }
    if (*along != axis) {
      return size(t.operands[0], axis);
    }
    std::vector<syntax::expression> parts;
    for (const auto& o : t.operands) {
      const auto s = size(o, axis);
      if (!s) {
        return std::nullopt;
      }
      parts.push_back(o.repeated ? syntax::expression{syntax::expression::form::pack, 0, {}, {*s}} : *s);
    }
    return syntax::call("sum", {syntax::list(std::move(parts))});
  }
  const auto* like = shaped_like(t);
  return like != nullptr ? size(*like, axis) : std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> term_measures::shape(const syntax::term& t) const {
  if (t.kind != syntax::term::form::application) {
    return detail::measure_of("shape", t);
  }
  if (t.name == "reshape" || t.name == "expand" || t.name == "fill") {
    const auto* dims = detail::attribute_of(t, "dims");
    return dims == nullptr ? std::nullopt : std::optional{*dims};
  }
  const auto* like = shaped_like(t);
  return like != nullptr ? shape(*like) : std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> term_measures::measured(const syntax::expression& e,
                                                                       const syntax::term& t,
                                                                       const term_bindings& b) const {
  if (e.name == "rank") {
    return rank(t);
  }
  if (e.name == "shape") {
    return shape(t);
  }
  if (e.name == "size") {
    const auto axis = replaced(e.arguments[1], b);
    return axis ? size(t, *axis) : std::nullopt;
  }
  if (e.name == "dtype") {
    const auto* leaf = &t;
    while (leaf->kind == syntax::term::form::application && !leaf->operands.empty()) {
      leaf = leaf->operands.data();
    }
    return leaf->kind == syntax::term::form::application ? std::nullopt
                                                         : std::optional{detail::measure_of("dtype", *leaf)};
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> term_measures::replaced(const syntax::expression& e,
                                                                       const term_bindings& b) const {
  using form = syntax::expression::form;
  if (e.kind == form::variable) {
    const auto found = b.attributes.find(e.name);
    return found == b.attributes.end() ? std::nullopt : std::optional{found->second};
  }
  const bool measures = e.kind == form::call && !e.arguments.empty() &&
                        (e.arguments[0].kind == form::variable || e.arguments[0].kind == form::indexed_variable);
  if (measures) {
    const auto& v = e.arguments[0];
    const auto found = b.values.find(v.kind == form::variable ? v.name : "?" + v.name);
    if (found != b.values.end()) {
      return measured(e, found->second, b);
    }
  }
  auto made = e;
  for (auto& a : made.arguments) {
    auto r = replaced(a, b);
    if (!r) {
      return std::nullopt;
    }
    a = *std::move(r);
  }
  return detail::simplified_expression(std::move(made));
}

UNITY_INLINE std::optional<syntax::term> term_measures::replaced(const syntax::term& t, const term_bindings& b) const {
  if (t.kind != syntax::term::form::application) {
    const auto found = b.values.find(detail::binding_name(t));
    if (found == b.values.end()) {
      return std::nullopt;
    }
    auto made = found->second;
    made.repeated = t.repeated;
    return made;
  }
  auto made = t;
  for (auto& a : made.attributes) {
    auto value = replaced(a.value, b);
    if (!value) {
      return std::nullopt;
    }
    a.value = *std::move(value);
  }
  for (auto& o : made.operands) {
    auto operand = replaced(o, b);
    if (!operand) {
      return std::nullopt;
    }
    o = *std::move(operand);
  }
  return made;
}

}  // namespace unity::tensor

#endif
