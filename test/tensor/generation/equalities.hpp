// The equalities between terms of a vocabulary, as written terms.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/specific_rule.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "../testing.hpp"

namespace unity::tensor::test {

// Equalities of one result first, then those of several results.
struct equalities {
  term_language language;
  std::vector<std::pair<written_side, written_side>> all{};

  equalities(std::string_view text, std::size_t most)
      : language{standard(), parse_vocabulary(standard(), text, "words")} {
    enumeration<term_language> e{language, {.most_operators = most}};
    e.run();
    for (const auto& r : e.rules()) {
      all.emplace_back(write_terms(e.store(), {&r.left, 1}, r.facts), write_terms(e.store(), {&r.right, 1}, r.facts));
    }
    for (const auto& r : e.joint_rules()) {
      all.emplace_back(write_terms(e.store(), r.right, r.facts), write_terms(e.store(), r.left, r.facts));
    }
  }
};

}  // namespace unity::tensor::test
