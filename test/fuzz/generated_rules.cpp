// Whatever a checkpoint of rule generation with a valid checksum contains, generation resumes from it or refuses it;
// accepted rules compile.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/rule_collection.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

namespace {

using namespace unity;

constexpr std::string_view words = R"(
sizes M=3, K=4
sort activation input [M, K]
operator relu(input)
)";

tensor::rule_proof nothing_known(const syntax::rule&) { return {}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto algebra = tensor::standard_algebra();
  static tensor::term_language language{algebra, tensor::parse_vocabulary(algebra, words, "words")};
  static test::memory_file file;
  file.assign(test::archive_of("unity rules 1\n", {reinterpret_cast<const char*>(data), size}));
  tensor::rule_collection collection{language, nothing_known};
  try {
    static_cast<void>(collection.resume(file.path(), 0));
  } catch (const error& e) {
    test::expect_one_line(e);
    return 0;  // refused: not rules of this run
  }
  for (const auto& r : collection.rules()) {
    if (compile_rule(algebra, r.rule).empty()) {
      __builtin_trap();
    }
  }
  return 0;
}
