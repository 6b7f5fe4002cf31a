#include <unity/tensor/generation/detail/language.hpp>
#include <unity/tensor/generation/language.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/generation/vocabularies.hpp>

#include "../testing.hpp"

namespace tests_of_trace {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

using integers = std::vector<std::vector<std::int64_t>>;

integers random_operands(std::span<const tensor_type> types, random_engine& random) {
  integers all;
  for (const auto& t : types) {
    auto& values = all.emplace_back();
    for (std::int64_t i = 0; i < element_count(t.dims); ++i) {
      values.push_back(random.between(-5, 5));
    }
  }
  return all;
}
std::vector<residue> run(const sample_program& p, const integers& operands) {
  std::vector<std::vector<residue>> values(2);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (const auto n : operands[i]) {
      values[i].push_back(residue::of_integer(n));
    }
  }
  std::vector<residue> scratch(p.temporaries());
  std::vector<residue> out(p.output_count());
  p.run({values[0].data(), values[1].data()}, scratch.data(), out.data());
  return out;
}
template <class Scalar>
std::vector<dense<Scalar>> evaluated(const operation& op, std::span<const tensor_type> types,
                                     const integers& operands) {
  std::vector<dense<Scalar>> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    auto& t = inputs.emplace_back(types[i].dims);
    for (std::size_t e = 0; e < t.data.size(); ++e) {
      t.data[e] = Scalar(operands[i][e]);
    }
  }
  return evaluate<Scalar>(standard(), op, inputs, types);
}

// Results are fractions with denominator 36: times 36, they are equal integers modulo both primes.
void check_operator(const operation& op, std::span<const tensor_type> types, std::size_t result,
                    random_engine& random) {
  const auto operands = random_operands(types, random);
  const auto traced_values = run(trace(standard(), op, types, result), operands);
  const auto modular = evaluated<modular61>(op, types, operands)[result].data;
  const auto real = evaluated<double>(op, types, operands)[result].data;
  REQUIRE(traced_values.size() == modular.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < modular.size(); ++i) {
    const auto exact = std::int64_t{(traced_values[i] * residue::of(36)).as_signed()};
    different += exact != (modular[i] * modular61{36}).as_signed() || exact != std::llround(real[i] * 36) ? 1U : 0U;
  }
  CHECK(different == 0);
}
std::vector<residue> traced_on(std::string_view name, std::initializer_list<named_attribute> attributes,
                               const std::vector<tensor_type>& types, const integers& operands) {
  return run(trace(standard(), standard().make_operation(name, attributes), types), operands);
}

}  // namespace

TEST_CASE("traced operators of the vocabularies agree with the evaluator on integers") {
  const auto text = GENERATE(taso_vocabulary, tensor_vocabulary);
  const auto seed = std::uint64_t{3};
  CAPTURE(seed);
  random_engine random{seed};
  tensor::term_language language{standard(), parse_vocabulary(standard(), text, "shipped")};
  std::set<std::size_t> seen;
  // Applies all operators to all pairs of types, and again with the types of their results, so that splits see concats.
  const std::size_t sorts = language.sorts().size();
  std::size_t before = 0;
  for (int round = 0; round < 2; ++round) {
    const auto count = language.type_count();
    for (std::size_t op = 0; op < language.operator_count(); ++op) {
      for (std::size_t a = 0; a < (language.arity(op) > 0 ? count : 1); ++a) {
        for (std::size_t b = 0; b < (language.arity(op) > 1 ? count : 1); ++b) {
          const std::array<std::uint16_t, 2> types{static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b)};
          // The second round needs only one pair with a new type for each operator.
          if ((round > 0 && ((a < before && b < before) || seen.contains(op))) || (round == 0 && a >= sorts)) {
            continue;
          }
          const auto applied = language.apply(op, std::span{types}.first(language.arity(op)));
          if (applied) {
            seen.insert(op);
            std::vector<tensor_type> inputs;
            for (std::size_t i = 0; i < language.arity(op); ++i) {
              inputs.push_back(language.type_in(types[i], 0));
            }
            CAPTURE(op, a, b);
            check_operator(applied->operations[0], inputs, applied->result, random);
          }
        }
      }
    }
    before = count;
  }
  CHECK(seen.size() == language.operator_count());
}

TEST_CASE("traced operators outside the vocabularies agree with the evaluator") {
  random_engine random{5};
  const std::vector<tensor_type> two{tensor::test::type({2, 3}), tensor::test::type({2, 3})};
  const std::vector<tensor_type> one{tensor::test::type({2, 3})};
  const auto checked = [&](std::string_view name, std::initializer_list<named_attribute> attributes,
                           const std::vector<tensor_type>& types) {
    CAPTURE(name);
    check_operator(standard().make_operation(name, attributes), types, 0, random);
  };
  for (const auto* name : {"sub", "maximum", "minimum"}) {
    checked(name, {}, two);
  }
  for (const auto* name : {"negate", "identity", "relu"}) {
    checked(name, {}, one);
  }
  checked("reduce_sum", {{"axes", {0}}}, one);
  checked("reduce_max", {{"axes", {1}}}, one);
  checked("reduce_mean", {{"axes", {0, 1}}}, one);
  checked("pad", {{"pads", {1, 0, 0, 2}}}, one);
  checked("expand", {{"dims", {4, 2, 3}}}, one);
  checked("linear", {}, {tensor::test::type({2, 3}), tensor::test::type({3, 4})});
}

TEST_CASE("operators that compare values cannot be traced") {
  const std::vector<tensor_type> one{tensor::test::type({2, 3})};
  CHECK_THROWS_WITH(trace(standard(), standard().make_operation("is_nan", {}), one),
                    "operator 'is_nan': results that depend on which values are equal; expected an operator of which "
                    "terms can be enumerated");
}

TEST_CASE("traced quotients are exact residues") {
  const std::vector<tensor_type> two{tensor::test::type({3}), tensor::test::type({3})};
  CHECK(traced_on("div", {}, two, {{6, -8, 5}, {3, 2, 5}}) ==
        std::vector{residue::of(2), residue::of_integer(-4), residue::of(1)});
  CHECK(traced_on("reciprocal", {}, {tensor::test::type({2})}, {{2, -1}}) ==
        std::vector{residue::of(1) / residue::of(2), residue::of_integer(-1)});
  const auto shares = traced_on("softmax", {{"axis", {0}}}, {tensor::test::type({3})}, {{1, 2, 3}});
  CHECK(shares[0] + shares[1] + shares[2] == residue::of(1));
}

TEST_CASE("traced non-polynomial functions are fixed and distinct") {
  const std::vector<tensor_type> two{tensor::test::type({2})};
  const auto once = traced_on("tanh", {}, two, {{17, 18}});
  CHECK(once == traced_on("tanh", {}, two, {{17, 18}}));
  CHECK(once[0] != once[1]);
  CHECK(once[0] != traced_on("sigmoid", {}, two, {{17, 18}})[0]);
}

TEST_CASE("traced convolutions and pools have values for windows of padding alone") {
  const std::vector<tensor_type> types{tensor::test::type({1, 1, 2, 2}), tensor::test::type({1, 1, 1, 1})};
  const auto out = traced_on("conv2d", {{"pads", {2, 0, 0, 0}}, {"activation", "sigmoid"}}, types, {{1, 2, 3, 4}, {5}});
  REQUIRE(out.size() == 8);
  CHECK(out[0] == out[3]);
  CHECK(out[0] == traced_on("sigmoid", {}, {tensor::test::type({1})}, {{0}})[0]);
  CHECK(traced_on("conv2d", {{"pads", {2, 0, 0, 0}}, {"activation", "relu"}}, types, {{1, 2, 3, 4}, {-5}}) ==
        std::vector<residue>(8));
  random_engine random{7};
  check_operator(
      standard().make_operation("max_pool", {{"kernel", {2, 2}}, {"stride", {1, 1}}, {"pads", {1, 1, 1, 1}}}),
      std::vector{tensor::test::type({1, 2, 3, 3})}, 0, random);
}

}  // namespace tests_of_trace
