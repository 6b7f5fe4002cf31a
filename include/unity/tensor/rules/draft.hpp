// One attempt to construct an instance of a substitution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/fixed_sizes.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/rules/proposal.hpp>
#include <unity/tensor/rules/proposals.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

// Collects the numbers in an expression that can only be reals: interpreted as bits, small integers are denormal.
void collect_reals(const expression& e, std::vector<double>& reals);

// One attempt: walks the source from its variables up and guesses what each operator leaves open.
class instance_draft {
 public:
  instance_draft(const algebra& a, const substitution& s, random_engine& random, std::span<const double> reals,
                 const std::vector<fixed_sizes>& fixed, const std::vector<same_size>& related, bool chained)
      : algebra_{a},
        s_{s},
        random_{random},
        proposer_{random, reals, chained},
        fixed_{fixed},
        related_{related},
        chained_{chained} {}

  // Nothing if the guesses are inconsistent.
  std::optional<rule_instance> make(std::size_t repetitions);

 private:
  void meet(const proposal& p, std::span<const tensor_type> results);

  const algebra& algebra_;
  const substitution& s_;
  random_engine& random_;
  proposer proposer_;
  const std::vector<fixed_sizes>& fixed_;
  const std::vector<same_size>& related_;  // empty unless chained
  bool chained_;
};

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_DRAFT)

#include <cmath>

#include <unity/tensor/rules/partial_instance.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void collect_reals(const expression& e, std::vector<double>& reals) {
  if (e.kind == expression::form::literal && e.literal.size() == 1 && std::isnormal(to_real(e.literal[0]))) {
    reals.push_back(to_real(e.literal[0]));
  }
  for (const auto& a : e.arguments) {
    collect_reals(a, reals);
  }
}

UNITY_INLINE std::optional<rule_instance> instance_draft::make(std::size_t repetitions) {
  const auto constant_percent = random_.between(0, 2) * 45 + 5;
  partial_instance made{algebra_, s_, repetitions};
  const auto type_of_variable = [&](std::size_t variable, dtype element, shape dims) {
    fix_sizes(fixed_, variable, dims);
    relate_sizes(related_, variable, dims, [&](std::size_t v) { return made.known_dims(v); });
    return tensor_type{element, layout::row_major, random_.between(1, 100) <= constant_percent, std::move(dims)};
  };
  for (std::size_t slot = 0; slot < s_.source.nodes.size(); ++slot) {
    for (std::size_t i = 0; i < made.times(slot); ++i) {
      auto p = made.ask(slot, i);
      if (!p) {
        return std::nullopt;
      }
      proposer_.fill_in(*p);
      if (!made.add(slot, i, *p, type_of_variable) || (chained_ && !made.conditions_may_hold())) {
        return std::nullopt;
      }
      meet(*p, made.last_results(slot));
    }
  }
  return made.finish();
}

UNITY_INLINE void instance_draft::meet(const proposal& p, std::span<const tensor_type> results) {
  for (const auto& o : p.operands) {
    proposer_.meet(*o);
  }
  for (const auto& t : results) {
    proposer_.meet(t.dims);
  }
}

}  // namespace unity::tensor::detail

#endif
