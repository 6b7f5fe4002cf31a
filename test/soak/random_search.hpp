// Random models and searches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unity/core/random.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/generator.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/shrink.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/random_model.hpp"

namespace unity::test {

struct named_model {
  std::string name{};
  tensor::tensor_graph graph{};
};

// A random model: from the zoo at small sizes, an example of a rule, or random operators that fit each other.
inline named_model random_model(const tensor::algebra& a, const rule_set& rules, random_engine& random) {
  constexpr std::array<std::string_view, 14> zoo{
      "nasrnn", "bert?layers=1", "bert?layers=2", "resnet50", "squeezenet1_1", "inception_v3", "nasnet_a", "resnext50",
      "densenet121", "rnnlm?seq=2", "lenet", "dlrm", "mlp", "xdl"};
  switch (random.below(8)) {
    case 0: {
      const auto name = std::string{tensor::zoo::prefix} + std::string{zoo[random.below(zoo.size())]};
      const auto whole = tensor::zoo::build(a, name);
      return {name, tensor::shrink(a, whole, whole).first};
    }
    case 1:
    case 2:
    case 3:
      while (true) {
        const auto& rule = rules[random.below(rules.size())];
        tensor::instance_generator instances{a, rule, random(), true};
        if (const auto i = instances.next(2000)) {
          if (auto g = random.below(2) == 0 ? tensor::source_graph(a, rule, *i) : tensor::target_graph(a, rule, *i)) {
            return {"rule " + rule.name, *std::move(g)};
          }
        }
      }
    default: {
      const auto operators = static_cast<std::size_t>(random.between(3, 20));
      return {std::to_string(operators) + " operators", parallel::test::random_model(random, operators)};
    }
  }
}

// Effects: runs a random search over the space.
template <class Space>
void random_search(Space& space, random_engine& random) {
  best_first_options common;
  common.limits.expansions = static_cast<std::uint64_t>(random.between(20, 400));
  const auto seed = random();
  common.threads = random.below(8) == 0 ? 2 : 1;
  switch (random.below(4)) {
    case 0: {
      backtracking_options o{common};
      o.alpha = 1 + random.unit();
      o.sleep_sets = random.below(2) == 0;
      static_cast<void>(backtracking(space, o));
      return;
    }
    case 1: {
      static_cast<void>(exact(space, common));
      return;
    }
    case 2: {
      beam_options o{common, common.threads};
      o.width = static_cast<std::size_t>(random.between(1, 32));
      static_cast<void>(beam(space, o));
      return;
    }
    default: {
      mcmc_options o{common, seed};
      o.beta = static_cast<double>(std::uint64_t{1} << random.below(10));
      o.proposals = 4 * common.limits.expansions;
      o.restart_after = random.below(2) * 100;
      static_cast<void>(mcmc(space, o));
    }
  }
}

}  // namespace unity::test
