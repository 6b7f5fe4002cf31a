// Laws of algebras, and algebras that each break one law.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/search/laws.hpp>
#include <unity/search/rewrite_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/circuits.hpp"
#include "../support/message_of.hpp"

namespace tests_of_algebra_laws {

using namespace unity;
using namespace unity::test;

namespace {

template <class A>
std::string fault(const A& a, const std::vector<operator_sample<A>>& samples) {
  const auto broken = check_algebra(a, samples);
  return broken ? broken->what() : "";
}
template <class A>
std::vector<operator_sample<A>> gates() {
  return {{{gate::form::conjunction, {}}, {bit{}, bit{}}},
          {{gate::form::input, attribute{'a'}}, {}},
          {{gate::form::half_adder, {}}, {bit{}, bit{}}},
          {{gate::form::negation, {}}, {bit{}, bit{}}}};
}

struct short_of_attributes : circuits {
  [[nodiscard]] static attribute_list attributes_of(const gate&) { return {}; }
};
struct forgets_names : circuits {
  [[nodiscard]] static std::optional<gate> make(kind_id k, std::span<const attribute>) {
    return gate{static_cast<gate::form>(k.index()), {}};
  }
};
struct takes_anything : circuits {
  [[nodiscard]] static std::optional<std::vector<bit>> infer(const gate&, std::span<const bit>) {
    return std::vector<bit>(1);
  }
};
struct changes_its_mind : circuits {
  int* asked;
  explicit changes_its_mind(int& count) : asked{&count} {}
  [[nodiscard]] std::optional<std::vector<bit>> infer(const gate& g, std::span<const bit> inputs) const {
    return ++*asked % 2 == 0 ? std::nullopt : circuits::infer(g, inputs);
  }
};
struct knows_no_names : circuits {
  [[nodiscard]] static std::optional<kind_id> find_kind(std::string_view) { return std::nullopt; }
};
struct exchanges_one_operand : circuits {
  [[nodiscard]] op_signature signature(kind_id k) const {
    auto s = circuits::signature(k);
    s.commutative = s.commutative || s.name == "not";
    return s;
  }
};
struct names_attributes_alike : circuits {
  [[nodiscard]] op_signature signature(kind_id k) const {
    auto s = circuits::signature(k);
    s.attributes.resize(2 * s.attributes.size(), s.attributes.empty() ? attribute_signature{} : s.attributes[0]);
    return s;
  }
};
struct makes_nothing : circuits {
  [[nodiscard]] static std::optional<gate> make(kind_id, std::span<const attribute>) { return std::nullopt; }
};
struct of_no_kind : circuits {
  [[nodiscard]] static kind_id kind_of(const gate&) { return kind_id{std::size_t{8}}; }
};

}  // namespace

TEST_CASE("check_algebra finds no fault in the circuit and tensor algebras") {
  CHECK(fault(circuits{}, gates<circuits>()).empty());
  const auto a = tensor::standard_algebra();
  tensor::builder b{a};
  const auto x = b.input("x", {2, 3});
  const auto g = std::move(b).finish({b.relu(b.matmul(x, b.weight("w", {3, 4})))});
  std::vector<operator_sample<tensor::algebra>> samples;
  for (const auto n : node_ids(g)) {
    samples.push_back({g.operation(n), {}});
    for (const auto v : g.operands(n)) {
      samples.back().inputs.push_back(g.type(v));
    }
  }
  CHECK(fault(a, samples).empty());
}

TEST_CASE("check_algebra names the broken law and where it breaks") {
  CHECK(fault(short_of_attributes{}, gates<short_of_attributes>()) ==
        "sample 1 ('input'): 0 attributes; expected 1, as its signature has");
  CHECK(fault(forgets_names{}, gates<forgets_names>()) ==
        "sample 1 ('input'): make() of its kind and attributes is another operator; expected the operator itself");
  CHECK(fault(takes_anything{}, gates<takes_anything>()) ==
        "sample 2 ('half_adder'): infer() gives 1 results; expected 2, as its signature has");
  int asked = 0;
  CHECK(fault(changes_its_mind{asked}, gates<changes_its_mind>()) ==
        "sample 0 ('and'): infer() gives something else the second time; expected a pure function");
  CHECK(fault(knows_no_names{}, gates<knows_no_names>()) ==
        "kind 0 ('input'): find_kind() of its name is another; expected names of their own");
  CHECK(fault(exchanges_one_operand{}, gates<exchanges_one_operand>()) ==
        "kind 3 ('not'): commutative, of 1 operands; expected two");
  CHECK(fault(names_attributes_alike{}, gates<names_attributes_alike>()) ==
        "kind 0 ('input'): two attributes 'name'; expected names of their own");
  CHECK(fault(makes_nothing{}, gates<makes_nothing>()) ==
        "sample 0 ('and'): make() refuses its attributes; expected the operator itself");
  CHECK(fault(of_no_kind{}, gates<of_no_kind>()) == "sample 0: kind_of() is not a kind; expected one of 8");
  const std::vector<operator_sample<takes_anything>> of_three{
      {{gate::form::conjunction, {}}, {bit{}, bit{}, bit{}}}};
  CHECK(fault(takes_anything{}, of_three) ==
        "sample 0 ('and'): infer() takes 3 operands; expected 2, as its signature has");
}

TEST_CASE("intern_graph refuses an operator that breaks a law of its algebra") {
  circuit_builder b;
  const auto g = b.build({b.negation(b.input('a'))});
  CHECK(message_of([&] {
          node_store<forgets_names> store{forgets_names{}};
          (void)intern_graph(store, g);
        }) == "node 0 (input): an operator that make() does not give back from its kind and attributes; expected "
              "make(kind_of(op), attributes_of(op)) == op");
  CHECK(message_of([&] {
          node_store<short_of_attributes> store{short_of_attributes{}};
          (void)intern_graph(store, g);
        }) == "operator 'input': 0 attributes; expected 1, as its signature has");
}

}  // namespace tests_of_algebra_laws
