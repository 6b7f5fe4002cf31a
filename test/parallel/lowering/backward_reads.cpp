#include <initializer_list>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/parallel/lowering/backward_reads.hpp>

#include "../operators.hpp"

namespace tests_of_backward_reads {

using namespace unity;
using parallel::backward_reads;
using parallel::test::type;

namespace {

backward_reads reads(std::string_view name, std::initializer_list<tensor::named_attribute> attributes,
                     const std::vector<tensor::tensor_type>& inputs, std::vector<bool> wanted = {}) {
  const auto o = parallel::test::dimensions(name, attributes, inputs);
  wanted.resize(inputs.size(), wanted.empty());
  return parallel::reads_of_adjoint(parallel::test::operators(), o.op, o.inputs, o.outputs.size(), wanted);
}

}  // namespace

TEST_CASE("the backward pass reads only the operands and results that the adjoint uses") {
  CHECK(reads("relu", {}, {type({4, 6})}) == backward_reads{{false}, {true}});
  CHECK(reads("add", {}, {type({4, 6}), type({4, 6})}) == backward_reads{{false, false}, {false}});
  CHECK(reads("matmul", {{"activation", "none"}}, {type({4, 6}), type({6, 8}, true)}) ==
        backward_reads{{true, true}, {false}});
  // The gradient of the matrix alone needs only the other operand.
  CHECK(reads("matmul", {{"activation", "none"}}, {type({4, 6}), type({6, 8}, true)}, {false, true}) ==
        backward_reads{{true, false}, {false}});
  CHECK(reads("transpose", {{"permutation", {1, 0}}}, {type({4, 6})}) == backward_reads{{false}, {false}});
  CHECK(reads("softmax", {{"axis", 1}}, {type({4, 6})}) == backward_reads{{false}, {true}});
}

}  // namespace tests_of_backward_reads
