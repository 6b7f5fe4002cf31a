// The kind of parallelism that dividing an index of an operator gives.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include <unity/parallel/dimensions.hpp>

#include "operators.hpp"

namespace tests_of_parallelism_kinds {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::type;

namespace {

// One letter per index of size above 1, in order: d(ata), m(odel), s(patial), r(eduction), o(perator's own).
std::string uses_of(const operator_dimensions& o) {
  std::string all;
  for (std::size_t i = 0; i < o.structure.indices.size(); ++i) {
    if (o.structure.indices[i].size > 1) {
      all += std::string_view{"dmsro"}[static_cast<std::size_t>(use_of(operators(), o, i))];
    }
  }
  return all;
}

std::string sorted(std::string text) {
  std::sort(text.begin(), text.end());
  return text;
}

}  // namespace

TEST_CASE("index use: samples are data; weight columns are model; sums are reduction") {
  CHECK(uses_of(parallel::test::dimensions("matmul", {}, {type({8, 4}), type({4, 6}, true)})) == "dmr");
  CHECK(uses_of(parallel::test::dimensions("relu", {}, {type({8, 4})})) == "ds");
  CHECK(uses_of(parallel::test::dimensions("softmax", {{"axis", 1}}, {type({8, 4})})).front() == 'd');
}

TEST_CASE("index use: a batched matmul and attention have own indices; pooling has spatial ones") {
  const auto product = uses_of(parallel::test::dimensions("matmul", {}, {type({2, 3, 8, 4}), type({2, 3, 4, 6})}));
  CHECK(product.front() == 'd');
  CHECK(sorted(product) == "dorss");  // samples; heads; the sum; rows and columns
  const auto pool = uses_of(
      parallel::test::dimensions("average_pool", {{"kernel", {2, 2}}, {"stride", {2, 2}}}, {type({8, 4, 6, 6})}));
  CHECK(pool.front() == 'd');
  CHECK(pool.find('s') != std::string::npos);
  const auto heads = uses_of(parallel::test::dimensions("attention", {{"heads", 2}},
                                              {type({8, 4, 6}), type({8, 4, 6}), type({8, 4, 6}), type({6, 4}, true),
                                               type({6, 4}, true), type({6, 4}, true), type({4, 6}, true)}));
  CHECK(heads.find('o') != std::string::npos);
}

TEST_CASE("a set of index uses contains exactly its members") {
  for (std::size_t i = 0; i < index_use_names.size(); ++i) {
    const auto use = static_cast<index_use>(i);
    CHECK(has(all_index_uses, use));
    CHECK_FALSE(has(all_index_uses & ~(index_uses{1} << i), use));
    CHECK(has(index_uses{1} << i, use));
  }
  CHECK(all_index_uses >> index_use_names.size() == 0);
}

}  // namespace tests_of_parallelism_kinds
