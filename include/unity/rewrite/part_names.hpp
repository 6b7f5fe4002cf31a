// Names for matched parts of a rule: ?x@const{..}() matches a const, and ?x elsewhere stands for what it matched.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile_expression.hpp>
#include <unity/rewrite/print.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

namespace detail {

// Replaces the name of a part by the part. Attributes that `..` leaves open in the part get new variables, so that they
// can be repeated: their names contain a dot, which no name in rule text does.
template <pattern_algebra Algebra>
class part_name_expansion {
 public:
  part_name_expansion(const Algebra& algebra, const syntax::rule& rule) : algebra_{algebra}, rule_{rule} {}

  syntax::rule run() {
    auto plain = rule_;
    for (auto* side : {&plain.source, &plain.target}) {
      for (auto& t : *side) {
        take_names(t);
      }
    }
    if (parts_.empty()) {
      return plain;
    }
    for (const auto& [name, part] : parts_) {
      if (names_part(part)) {
        fail(fmt::format("?{}@{}", name, to_text(part)), "a part in which no part's name stands");
      }
    }
    for (auto* side : {&plain.source, &plain.target}) {
      for (auto& t : *side) {
        write_parts(t);
      }
    }
    for (const auto& c : plain.conditions) {
      check(c);
    }
    return plain;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    refuse_rule(rule_.place.text, rule_.name, found, expected);
  }

  // Inner parts first, so that a part contains no other part.
  void take_names(syntax::term& t) {
    for (auto& o : t.operands) {
      take_names(o);
    }
    if (t.part.empty()) {
      return;
    }
    const auto name = std::exchange(t.part, {});
    if (t.repeated || t.selector == syntax::term::each) {
      fail(fmt::format("?{}@{}", name, to_text(t)), "a name for one value");
    }
    close(t, name);
    if (!parts_.emplace(name, t).second) {
      fail(fmt::format("?{}@{}", name, to_text(t)), "a name of its own for each part");
    }
  }
  void close(syntax::term& t, const std::string& name) {
    for (std::size_t i = 0; i < t.operands.size(); ++i) {
      close(t.operands[i], fmt::format("{}.{}", name, i));
    }
    const auto kind = std::exchange(t.open, false) ? algebra_.find_kind(t.name) : std::nullopt;
    if (!kind) {
      return;  // nothing is open, or the compiler will report the unknown operator
    }
    for (const auto& a : algebra_.signature(*kind).attributes) {
      if (std::none_of(t.attributes.begin(), t.attributes.end(), [&](const auto& b) { return b.name == a.name; })) {
        syntax::expression variable;
        variable.kind = syntax::expression::form::variable;
        variable.name = fmt::format("{}.{}", name, a.name);
        t.attributes.push_back({a.name, std::move(variable)});
      }
    }
  }
  void write_parts(syntax::term& t) {
    for (auto& o : t.operands) {
      write_parts(o);
    }
    for (const auto& b : t.attributes) {
      check(b.value);
    }
    if (t.kind != syntax::term::form::variable) {
      return;
    }
    if (const auto found = parts_.find(t.name); found != parts_.end()) {
      if (t.selector != syntax::term::whole) {
        fail(to_text(t), fmt::format("?{}, which is one value", t.name));
      }
      const bool repeated = t.repeated;
      t = found->second;
      t.repeated = repeated;
    }
  }
  // Parts must not name parts, so that the expanded text is no longer than parts times names.
  [[nodiscard]] bool names_part(const syntax::term& t) const {
    return (t.kind == syntax::term::form::variable && parts_.contains(t.name)) ||
           std::any_of(t.operands.begin(), t.operands.end(), [&](const auto& o) { return names_part(o); });
  }
  void check(const syntax::expression& e) const {
    if (e.kind == syntax::expression::form::variable && parts_.contains(e.name)) {
      fail(fmt::format("?{} in an expression", e.name), "a variable; this is the name of a part");
    }
    for (const auto& a : e.arguments) {
      check(a);
    }
  }

  const Algebra& algebra_;
  const syntax::rule& rule_;
  std::map<std::string, syntax::term> parts_;
};

}  // namespace detail

// The same rule, with each name of a part replaced by the part. Equal terms are one node, so nothing that was matched
// is built again.
// Complexity: linear in the resulting rule.
// Throws: unity::error that names the rule and the part, if two parts have the same name, a name is used in an
// expression, or a part is not one value.
template <pattern_algebra Algebra>
[[nodiscard]] syntax::rule without_part_names(const Algebra& algebra, const syntax::rule& rule) {
  return detail::part_name_expansion<Algebra>{algebra, rule}.run();
}

}  // namespace unity
