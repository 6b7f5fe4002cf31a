// Finds which equalities follow from a set of rules by few rewrites.
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

  // The number of rewrites that turn the first half of the outputs into the second; nothing if none were found. The
  // first derivation need not be the shortest: if it has more than `enough` rewrites, searches again without each of
  // its rules.
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

  // The equalities that do not follow by `most` rewrites.
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
