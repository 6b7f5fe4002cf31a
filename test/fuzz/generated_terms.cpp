// Whatever a checkpoint of an enumeration with a valid checksum contains, the enumeration resumes from it or reports
// why it cannot. The first byte of an input selects the operators.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "../support/polynomial_terms.hpp"
#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

namespace {

using namespace unity;

// A vocabulary with two sorts and an operator of two results.
constexpr std::string_view words = R"(
sizes M=2, K=2
sort activation input [M, K]
sort matrix weight [K, K]
operator matmul(any, any)
operator relu(input)
operator concat{axis=1}(any, any) same_role
operator split{axis=1}(any)
)";

template <class Language>
void go_on(Language language, const std::string& path, std::size_t variables) {
  enumeration<Language> e{language, {.most_operators = 3, .variables = variables}};
  try {
    e.resume(path, 0);
  } catch (const error& problem) {
    test::expect_one_line(problem);
    return;  // refused: not an enumeration of these terms
  }
  e.run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto algebra = tensor::standard_algebra();
  static const tensor::term_language tensors{algebra, tensor::parse_vocabulary(algebra, words, "words")};
  static test::memory_file file;
  if (size == 0) {
    return 0;
  }
  file.assign(test::archive_of("unity enumeration 2\n", {reinterpret_cast<const char*>(data) + 1, size - 1}));
  if (data[0] == 0) {
    go_on(test::polynomial_terms{}, file.path(), 3);
  } else {
    go_on(tensors, file.path(), 2);
  }
  return 0;
}
