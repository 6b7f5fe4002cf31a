#include <cstddef>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/node_store.hpp>

#include "../support/circuits.hpp"
#include "../support/matrices.hpp"

namespace tests_of_node_store {

using namespace unity;
using namespace unity::test;

namespace {

struct circuit_store : node_store<circuits> {
  circuit_store() : node_store{circuits{}} {}
  operator_id op(gate::form kind) { return intern(gate{kind, {}}); }
  using node_store::op;
};

}  // namespace

TEST_CASE("node_store interns equal attributes and operators and types once") {
  circuit_store s;
  CHECK(s.intern(attribute{1, 2}) == s.intern(attribute{1, 2}));
  CHECK(s.intern(attribute{1, 2}) != s.intern(attribute{2, 1}));
  CHECK(s.intern(attribute{}) != s.intern(attribute{0}));
  CHECK(s.value(s.intern(attribute{7})) == attribute{7});
  const gate input{gate::form::input, {'a'}};
  CHECK(s.intern(input) == s.intern(input));
  CHECK(s.intern(input) != s.intern(gate{gate::form::input, {'b'}}));
  CHECK(s.operation(s.intern(input)) == input);
  REQUIRE(s.attributes(s.intern(input)).size() == 1);
  CHECK(s.value(s.attributes(s.intern(input))[0]) == attribute{'a'});
  CHECK(s.type_of(s.new_value(bit{})) == s.type_of(s.new_value(bit{})));
}

TEST_CASE("node_store::cons returns one node per operator and operand list") {
  circuit_store s;
  const auto x = s.new_value(bit{});
  const auto y = s.new_value(bit{});
  const auto n = s.cons(s.op(gate::form::difference), std::vector{x, y}).value();
  CHECK(s.cons(s.op(gate::form::difference), std::vector{x, y}) == n);
  CHECK(s.cons(s.op(gate::form::difference), std::vector{x, x}) != n);
  CHECK(s.cons(s.op(gate::form::disjunction), std::vector{x, y}) != n);
  CHECK(s.canonical(s.results(n)[0]) == n);
  CHECK_FALSE(s.canonical(x).valid());
  CHECK_FALSE(s.cons(s.op(gate::form::difference), std::vector{x}));
  CHECK(s.results(s.cons(s.op(gate::form::half_adder), std::vector{x, y}).value()).size() == 2);
}

TEST_CASE("node_store ignores operand order for commutative operators only") {
  circuit_store s;
  const auto x = s.new_value(bit{});
  const auto y = s.new_value(bit{});
  const auto z = s.new_value(bit{});
  CHECK(s.cons(s.op(gate::form::conjunction), std::vector{y, x}) ==
        s.cons(s.op(gate::form::conjunction), std::vector{x, y}));
  CHECK(s.define(s.op(gate::form::conjunction), std::vector{y, x}, std::vector{z}) ==
        s.define(s.op(gate::form::conjunction), std::vector{x, y}, std::vector{z}));

  node_store<matrices> m{matrices{}};
  const auto a = m.new_value({2, 2});
  const auto b = m.new_value({2, 2});
  const auto product = m.intern(matrix_op{matrix_op::form::matmul, {}});
  CHECK(m.cons(product, std::vector{a, b}) != m.cons(product, std::vector{b, a}));
}

TEST_CASE("node_store::define returns the node for given results and cons does not find it") {
  circuit_store s;
  const auto x = s.new_value(bit{});
  const auto r = s.new_value(bit{});
  const auto negation = s.op(gate::form::negation);
  const auto d = s.define(negation, std::vector{x}, std::vector{r});
  CHECK(s.define(negation, std::vector{x}, std::vector{r}) == d);
  CHECK(s.results(d)[0] == r);
  CHECK_FALSE(s.canonical(r).valid());
  const auto n = s.cons(negation, std::vector{x}).value();
  CHECK(n != d);
  CHECK(s.mix(n) != s.mix(d));
  CHECK(s.mix(d) == s.mix_of(negation, std::vector{x}, std::vector{r}));
}

TEST_CASE("node_store::cons finds the first adopted definition") {
  circuit_store s;
  const auto x = s.new_value(bit{});
  const auto negation = s.op(gate::form::negation);
  const auto first = s.define(negation, std::vector{x}, std::vector{s.new_value(bit{})});
  const auto second = s.define(negation, std::vector{x}, std::vector{s.new_value(bit{})});
  s.adopt(first);
  s.adopt(second);
  CHECK(s.cons(negation, std::vector{x}) == first);
  CHECK(s.canonical(s.results(first)[0]) == first);
  CHECK_FALSE(s.canonical(s.results(second)[0]).valid());
}

TEST_CASE("a node_store node without an operator is a sink") {
  circuit_store s;
  const auto x = s.new_value(bit{});
  const auto n = s.define(operator_id{}, std::vector{x, x}, {});
  CHECK_FALSE(s.op(n).valid());
  CHECK_FALSE(s.kind(n).valid());
  CHECK(s.operands(n).size() == 2);
  CHECK(s.results(n).empty());
}

TEST_CASE("node_store infers types and its reported memory grows with nodes") {
  node_store<matrices> m{matrices{}};
  const auto a = m.new_value({2, 3});
  const auto b = m.new_value({3, 5});
  const auto product = m.intern(matrix_op{matrix_op::form::matmul, {}});
  CHECK(m.infer(product, std::vector{a, b}) == std::vector<matrix_shape>{{2, 5}});
  CHECK_FALSE(m.infer(product, std::vector{b, a}));
  CHECK(m.types(std::vector{b, a}) == std::vector<matrix_shape>{{3, 5}, {2, 3}});
  const auto before = m.memory();
  for (int i = 0; i < 1000; ++i) {
    (void)m.cons(product, std::vector{a, m.new_value({3, 5})});
  }
  CHECK(m.node_count() == 1000);
  CHECK(m.memory() > before + 1000 * sizeof(value_id));
}

}  // namespace tests_of_node_store
