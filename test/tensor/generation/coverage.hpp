// What follows from a set of rules by a few rewrites.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

#include "plain_enumeration.hpp"

namespace unity::tensor::test {

class coverage {
 public:
  coverage(const algebra& a, std::span<const syntax::rule> rules)
      : known_{a, rules}, ask_{a, known_, {.rounds = 8, .nodes = 4000}} {}

  // How many rewrites were found to turn the first half of the outputs into the second; nothing where none were.
  // The first derivation that is found need not be the shortest: while it has more than `enough`, others are
  // looked for that do without one of its rules.
  [[nodiscard]] std::optional<std::size_t> rewrites(std::span<const tensor_graph> worlds, std::size_t enough) {
    const auto first = ask_.prove_outputs(worlds);
    if (!first) {
      return std::nullopt;
    }
    auto fewest = without_needless_steps(*first).steps.size();
    for (const auto rule : first->axioms()) {
      if (fewest <= enough) {
        break;
      }
      ask_.leave_out(rule);
      if (const auto other = ask_.prove_outputs(worlds)) {
        fewest = std::min(fewest, without_needless_steps(*other).steps.size());
      }
      ask_.leave_out(std::nullopt);
    }
    return fewest;
  }

  // The equalities that do not follow by so many rewrites.
  [[nodiscard]] std::vector<std::string> missing(const plain_enumeration& plain, std::size_t most) {
    std::vector<std::string> all;
    for (const auto& e : plain.equalities()) {
      const auto worlds = plain.question(e);
      const auto found = rewrites(std::span<const tensor_graph>{worlds}, most);
      if (!found || *found > most) {
        all.push_back(plain.text(e) + (found ? ": " + std::to_string(*found) + " rewrites" : ""));
      }
    }
    return all;
  }

 private:
  theory known_;
  entailment<algebra> ask_;
};

}  // namespace unity::tensor::test
