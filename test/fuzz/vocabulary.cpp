// Any text is a vocabulary or an error. An accepted vocabulary is a term language whose operators answer for every pair
// of sorts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/detail/language.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "support/expect_one_line.hpp"

namespace {

using namespace unity;

void apply_all(tensor::term_language& language) {
  constexpr std::size_t most_elements = 256;
  constexpr std::size_t most_operators = 32;
  const auto sorts = language.sorts();
  for (std::size_t op = 0; op < std::min(most_operators, language.operator_count()); ++op) {
    for (const auto left : sorts) {
      for (const auto right : sorts) {
        const std::array types{left, right};
        const auto operands = std::span{types}.first(language.arity(op));
        const auto made = language.apply(op, operands);
        if (made && language.elements(made->type) <= most_elements && language.elements(left) <= most_elements &&
            language.elements(right) <= most_elements && language.infer(op, operands)->type != made->type) {
          __builtin_trap();
        }
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto algebra = tensor::standard_algebra();
  tensor::vocabulary words;
  try {
    words = tensor::parse_vocabulary(algebra, {reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const error& e) {
    test::expect_one_line(e);
    return 0;  // refused: not a vocabulary
  }
  try {
    tensor::term_language language{algebra, std::move(words)};
    apply_all(language);
  } catch (const error& e) {
    test::expect_one_line(e);  // refused: an operator without a known meaning
  }
  return 0;
}
