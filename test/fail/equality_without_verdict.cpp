// expect: satisf[a-z ]+[^a-z]+equality_prover
// expect: p[.]compare
// Yes or no is not enough: where two graphs differ has to be said, or that nothing is known.
#include <string>

#include <unity/tensor/verification/validate.hpp>

struct oracle {
  bool compare(const unity::tensor::algebra&, const unity::tensor::tensor_graph&, const unity::tensor::tensor_graph&);
  std::string name() const;
};

auto validate(const unity::tensor::algebra& a, const unity::syntax::rule& axiom, oracle& reals) {
  return unity::tensor::validate_axiom(a, axiom, {}, reals);
}
