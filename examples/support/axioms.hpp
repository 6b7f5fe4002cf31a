// Properties of operators, from which rules are proved: the shipped ones, or those of a file.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/verification/validate.hpp>
#include <unity/tensor/z3_reals.hpp>

namespace support {

struct axioms {
  std::string text;
  std::vector<unity::syntax::rule> rules;
};

// file: empty for the shipped ones. Throws: unity::error if the file cannot be read, or one of its properties is found
// false. Shipped properties are not validated again: the library's tests validate them at more sizes.
inline axioms load_axioms(const unity::tensor::algebra& operators, const std::string& file) {
  using namespace unity;
  const auto shipped = parse_rules(tensor::standard_axioms, "shipped axioms");
  if (file.empty()) {
    return {std::string{tensor::standard_axioms}, shipped};
  }
  axioms all{read_file(file), {}};
  all.rules = parse_rules(all.text, file);
  std::vector<syntax::rule> own;
  std::copy_if(all.rules.begin(), all.rules.end(), std::back_inserter(own),
               [&](const auto& r) { return std::find(shipped.begin(), shipped.end(), r) == shipped.end(); });
  tensor::validation_options quick;
  quick.effort = 20'000;
  tensor::z3_reals reals;
  tensor::require_valid(operators, own, file, quick, reals);
  return all;
}

// Finds the property that a rule states, regardless of names and direction: such a rule is not proved from other ones.
class stated_properties {
 public:
  // The algebra must outlive it.
  stated_properties(const unity::tensor::algebra& operators, std::span<const unity::syntax::rule> properties)
      : operators_{operators} {
    for (auto r : properties) {
      names_.emplace(text(r), r.name);
      std::swap(r.source, r.target);
      names_.emplace(text(r), r.name);
    }
  }

  // Its name; empty if the rule states none.
  [[nodiscard]] std::string find(const unity::syntax::rule& r) const {
    const auto found = names_.find(text(r));
    return found == names_.end() ? std::string{} : found->second;
  }

 private:
  [[nodiscard]] std::string text(unity::syntax::rule r) const {
    r.both_ways = true;
    return unity::statement_text(unity::canonical_rule(operators_, r));
  }

  const unity::tensor::algebra& operators_;
  std::map<std::string, std::string> names_{};
};

}  // namespace support
