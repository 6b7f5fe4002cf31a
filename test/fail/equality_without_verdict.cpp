// expect: satisf[a-z ]+[^a-z]+equality_prover
// expect: p[.]compare
// A prover that answers with a bool: it cannot say where two graphs differ, or that it does not know.
#include <string>

#include <unity/tensor/verification/validate.hpp>

struct oracle {
  bool compare(const unity::tensor::algebra&, const unity::tensor::tensor_graph&, const unity::tensor::tensor_graph&);
  std::string name() const;
};

auto validate(const unity::tensor::algebra& a, const unity::syntax::rule& axiom, oracle& reals) {
  return unity::tensor::validate_axiom(a, axiom, {}, reals);
}
