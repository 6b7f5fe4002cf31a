#include <unity/tensor/operators/matmul.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>

#include "../testing.hpp"

namespace tests_of_einsum {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// The sum over all values of all letters. Sizes: by letter.
dense<double> sum_over_all(const std::vector<std::string>& letters, const std::string& result,
                           const std::map<char, std::int64_t>& sizes, const std::vector<dense<double>>& x) {
  std::string all;
  shape space;
  for (const auto& [letter, size] : sizes) {
    all += letter;
    space.push_back(size);
  }
  const auto offset = [&](const std::string& term, const shape& p) {
    std::size_t o = 0;
    for (const auto c : term) {
      o = o * static_cast<std::size_t>(sizes.at(c)) + static_cast<std::size_t>(p[all.find(c)]);
    }
    return o;
  };
  shape dims;
  for (const auto c : result) {
    dims.push_back(sizes.at(c));
  }
  dense<double> sum{dims};
  unity::for_each_position(space, [&](const shape& p) {
    double product = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      product *= x[i].data[offset(letters[i], p)];
    }
    sum.data[offset(result, p)] += product;
  });
  return sum;
}

}  // namespace

TEST_CASE("einsum agrees with a loop over all letters") {
  const std::map<char, std::int64_t> sizes{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 2}, {'e', 3}};
  const std::vector<std::pair<std::vector<std::string>, std::string>> forms{{{"abc", "acd"}, "abd"},
                                                                            {{"abc", "adc"}, "abd"},
                                                                            {{"ab", "cd"}, "dbca"},
                                                                            {{"abc"}, "cb"},
                                                                            {{"ab"}, ""},
                                                                            {{"abc", "bc", "ce"}, "ea"},
                                                                            {{"ab", "ab"}, "ab"},
                                                                            {{"abcd", "aebd"}, "acbe"},
                                                                            {{"a", "a"}, ""},
                                                                            {{"abd", "c"}, "ca"}};
  unity::random_engine random{1};
  for (const auto& [letters, result] : forms) {
    std::map<char, std::int64_t> used;
    std::vector<dense<double>> x;
    std::string equation;
    for (const auto& term : letters) {
      shape dims;
      for (const auto c : term) {
        used[c] = sizes.at(c);
        dims.push_back(sizes.at(c));
      }
      x.push_back(random_tensor(dims, random));
      equation += (equation.empty() ? "" : ", ") + term;
    }
    equation += " -> " + result;
    CAPTURE(equation);
    CHECK(distance(run("einsum", {{"equation", equation}}, x), sum_over_all(letters, result, used, x)) < 1e-12);
  }
}

TEST_CASE("einsum without an arrow sorts the output letters; ellipses are leading dimensions") {
  unity::random_engine random{2};
  const auto x = random_tensor({2, 3}, random);
  const auto y = random_tensor({3, 2}, random);
  CHECK(run("einsum", {{"equation", "ba"}}, {x}) == run("transpose", {{"permutation", {1, 0}}}, {x}));
  CHECK(distance(run("einsum", {{"equation", "ij,jk"}}, {x, y}), run("matmul", {}, {x, y})) < 1e-12);
  const auto a = random_tensor({2, 3, 4, 2}, random);
  const auto b = random_tensor({2, 3, 2, 3}, random);
  CHECK(distance(run("einsum", {{"equation", "...ij,...jk->...ik"}}, {a, b}), run("matmul", {}, {a, b})) < 1e-12);
}

TEST_CASE("einsum refuses invalid equations and sizes") {
  const auto refusal = "an equation of the operands' ranks, no letter twice in one";
  CHECK(refusal_of("einsum", {{"equation", "ii->i"}}, {type({2, 2})}) == refusal);
  CHECK(refusal_of("einsum", {{"equation", "ij->k"}}, {type({2, 2})}) == refusal);
  CHECK(refusal_of("einsum", {{"equation", "ij,jk"}}, {type({2, 2})}) == refusal);
  CHECK(refusal_of("einsum", {{"equation", "i.j"}}, {type({2, 2})}) == refusal);
  CHECK(refusal_of("einsum", {{"equation", "ij,jk"}}, {type({2, 2}), type({3, 2})}) == "one size per letter");
}

}  // namespace tests_of_einsum
