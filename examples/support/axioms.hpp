// Properties of operators, from which rules are proved: the shipped ones, or those of a file.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <unity/core/file.hpp>
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

}  // namespace support
