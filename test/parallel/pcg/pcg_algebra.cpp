// The algebra of parallel computation graphs.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/definition.hpp>

#include "../operators.hpp"
#include "../random_pcg.hpp"

namespace tests_of_pcg_algebra {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::divided;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;

static_assert(std::semiregular<pcg_algebra>);
static_assert(pattern_algebra<pcg_algebra>);

namespace {

std::string inferred(const tensor::operation& op, const std::vector<parallel_type>& inputs) {
  const auto results = parallel_operators().infer(op, inputs);
  std::string text = results ? "" : "refused";
  for (std::size_t i = 0; results && i < results->size(); ++i) {
    text += (i == 0 ? "" : "; ") + to_string((*results)[i]);
  }
  return text;
}
std::string applied(parallel_kind k, std::int64_t axis, std::int64_t degree, const std::vector<parallel_type>& inputs) {
  return inferred(parallel_operators().make(parallel_operator{k, axis, degree}), inputs);
}
std::string computed(std::string_view name, std::initializer_list<tensor::named_attribute> attributes,
                     const std::vector<parallel_type>& inputs) {
  return inferred(operators().make_operation(name, attributes), inputs);
}

}  // namespace

TEST_CASE("each parallelization operator changes one factor of a parallel type") {
  const auto t = divided({8, 6}, {2, 1}, 2, 3);
  CHECK(applied(parallel_kind::partition, 0, 2, {t}) == "float32[8/4,6] copies 2 partial 3");
  CHECK(applied(parallel_kind::partition, 1, 3, {t}) == "float32[8/2,6/3] copies 2 partial 3");
  CHECK(applied(parallel_kind::combine, 0, 2, {t}) == "float32[8,6] copies 2 partial 3");
  CHECK(applied(parallel_kind::replicate, 0, 4, {t}) == "float32[8/2,6] copies 8 partial 3");
  CHECK(applied(parallel_kind::reduce, 0, 3, {t}) == "float32[8/2,6] copies 2");
  CHECK(applied(parallel_kind::discard, 0, 2, {t}) == "float32[8/2,6] partial 3");
  CHECK(applied(parallel_kind::inject, 0, 2, {t}) == "float32[8/2,6] copies 2 partial 6");
  CHECK(applied(parallel_kind::pipeline, 1, 3, {t}) == "float32[8/2,6/1*3] copies 2 partial 3");
  CHECK(applied(parallel_kind::terms, 0, 0, {t, t}) == "float32[8/2,6] copies 2 partial 6");
  CHECK(applied(parallel_kind::blocks, 0, 0, {t, t, t}) == "float32[24/6,6] copies 2 partial 3");
}

TEST_CASE("parallelization operators refuse invalid axes or degrees or operands") {
  const auto t = divided({8, 6}, {2, 1}, 2, 3);
  CHECK(applied(parallel_kind::partition, 0, 3, {t}) == "refused");
  CHECK(applied(parallel_kind::partition, 2, 2, {t}) == "refused");
  CHECK(applied(parallel_kind::partition, -1, 2, {t}) == "refused");
  CHECK(applied(parallel_kind::partition, 0, 1, {t}) == "refused");
  CHECK(applied(parallel_kind::partition, 0, 0, {t}) == "refused");
  CHECK(applied(parallel_kind::partition, 0, -2, {t}) == "refused");
  CHECK(applied(parallel_kind::combine, 1, 2, {t}) == "refused");
  CHECK(applied(parallel_kind::replicate, 0, std::int64_t{1} << 62, {t}) == "refused");
  CHECK(applied(parallel_kind::reduce, 0, 2, {t}) == "refused");
  CHECK(applied(parallel_kind::discard, 0, 3, {t}) == "refused");
  CHECK(applied(parallel_kind::pipeline, 0, 2, {t}) == "refused");
  CHECK(applied(parallel_kind::terms, 0, 0, {t}) == "refused");
  CHECK(applied(parallel_kind::terms, 0, 0, {t, divided({8, 6}, {2, 1}, 2, 1)}) == "refused");
  CHECK(applied(parallel_kind::reduce, 0, 3, {t, t}) == "refused");
  CHECK(applied(parallel_kind::reduce, 0, 3, {}) == "refused");
  auto flags = divided({8}, {1});
  flags.global.element = tensor::dtype::boolean;
  CHECK(applied(parallel_kind::inject, 0, 2, {flags}) == "refused");
}

TEST_CASE("parallel types of a matmul: divided rows or columns or sums or partial sums of operands") {
  CHECK(computed("matmul", {}, {divided({4, 6}, {2, 1}), divided({6, 2}, {1, 1}, 2)}) == "float32[4/2,2]");
  CHECK(computed("matmul", {}, {divided({4, 6}, {1, 1}, 2), divided({6, 2}, {1, 2})}) == "float32[4,2/2]");
  CHECK(computed("matmul", {}, {divided({4, 6}, {1, 2}), divided({6, 2}, {2, 1})}) == "float32[4,2] partial 2");
  CHECK(computed("matmul", {}, {divided({4, 6}, {1, 1}, 1, 2), divided({6, 2}, {1, 1}, 2, 1)}) ==
        "float32[4,2] partial 2");
  CHECK(computed("matmul", {}, {divided({4, 6}, {1, 1}, 2, 2), divided({6, 2}, {1, 1}, 2, 2)}) ==
        "float32[4,2] partial 4");
  CHECK(computed("matmul", {}, {divided({4, 6}, {1, 1}, 3), divided({6, 2}, {1, 1}, 3)}) == "float32[4,2] copies 3");
  CHECK(computed("matmul", {}, {divided({4, 6}, {2, 1}), divided({6, 2}, {1, 2})}) == "refused");
  CHECK(computed("matmul", {}, {divided({4, 6}, {1, 1}, 1, 2), divided({6, 2}, {1, 1}, 1, 2)}) == "refused");
  CHECK(computed("matmul", {{"activation", "relu"}}, {divided({4, 6}, {1, 2}), divided({6, 2}, {2, 1})}) == "refused");
}

TEST_CASE("a bias added to a partial sum must be a partial sum") {
  const auto x = divided({4, 6}, {1, 2});
  const auto w = divided({6, 2}, {2, 1});
  CHECK(computed("linear", {}, {x, w, divided({2}, {1}, 1, 2)}) == "float32[4,2] partial 2");
  CHECK(computed("linear", {}, {x, w, divided({2}, {1}, 2, 1)}) == "refused");
}

TEST_CASE("operators that are not linear refuse partial sums") {
  CHECK(computed("relu", {}, {divided({4}, {2}, 3)}) == "float32[4/2] copies 3");
  CHECK(computed("relu", {}, {divided({4}, {1}, 1, 2)}) == "refused");
  CHECK(computed("softmax", {{"axis", 1}}, {divided({4, 4}, {2, 2})}) == "float32[4/2,4/2]");
  CHECK(computed("reduce_max", {{"axes", {1}}}, {divided({4, 4}, {1, 2})}) == "refused");
  CHECK(computed("reduce_sum", {{"axes", {1}}}, {divided({4, 4}, {2, 2}, 1, 3)}) == "float32[4/2,1] partial 6");
}

TEST_CASE("conv2d divided along rows is accepted; its weight gradient is a partial sum") {
  const auto x = divided({1, 2, 4, 4}, {1, 1, 2, 1});
  const auto w = divided({2, 2, 3, 3}, {1, 1, 1, 1}, 2);
  CHECK(computed("conv2d", {{"padding", "same"}}, {x, w}) == "float32[1,2,4/2,4]");
  CHECK(computed("conv2d_input_gradient", {{"padding", "same"}, {"dims", {1, 2, 4, 4}}}, {x, w}) ==
        "float32[1,2,4/2,4]");
  CHECK(computed("conv2d_weight_gradient", {{"padding", "same"}, {"dims", {2, 2, 3, 3}}}, {x, x}) ==
        "float32[2,2,3,3] partial 2");
}

TEST_CASE("sources of a parallel computation graph are undivided") {
  CHECK(computed("weight", {{"name", "w"}, {"dims", {4, 2}}}, {}) == "float32[4,2]");
  CHECK(parallel_operators()
            .infer(operators().make_operation("weight", {{"name", "w"}, {"dims", {4, 2}}}), {})
            ->front()
            .global.constant);
}

TEST_CASE("the PCG algebra keeps kind numbers; parallelization operators survive make and read") {
  const auto& a = parallel_operators();
  CHECK(a.kind(parallel_kind::partition).index() == operators().kind_count());
  for (std::size_t k = 0; k < a.kind_count(); ++k) {
    const kind_id kind{k};
    CHECK(a.find_kind(a.signature(kind).name) == kind);
  }
  for (std::size_t k = 0; k < parallel_names.size(); ++k) {
    const parallel_operator p{static_cast<parallel_kind>(k), has_axis(static_cast<parallel_kind>(k)) ? 1 : 0,
                              has_degree(static_cast<parallel_kind>(k)) ? 2 : 0};
    const auto op = a.make(p);
    CHECK(a.read(op) == p);
    CHECK(a.make(a.kind_of(op), a.attributes_of(op)) == op);
    CHECK_FALSE(a.make(a.kind_of(op), std::vector<attribute>{{1}, {2}, {3}}));
  }
  CHECK_FALSE(a.read(operators().make_operation("relu")));
  CHECK_THROWS_AS(pcg_algebra{[] {
                    auto own = operators();
                    own.add(tensor::define("reduce", 1, 1, {}, tensor::opaque{}));
                    return own;
                  }()},
                  error);
}

TEST_CASE("rule measures give the degree and copies and partial of a parallel type") {
  const auto& a = parallel_operators();
  const auto t = divided({8, 6}, {2, 3}, 5, 7);
  const auto measured = [&](const char* name, std::vector<std::int64_t> arguments) {
    const auto value = a.measure(a.find_measure(name).value(), t, arguments);
    return value ? (*value)[0] : -1;
  };
  CHECK(measured("degree", {0}) == 2);
  CHECK(measured("degree", {-1}) == 3);
  CHECK(measured("degree", {2}) == -1);
  CHECK(measured("degree", {}) == -1);
  CHECK(measured("copies", {}) == 5);
  CHECK(measured("partial", {}) == 7);
  CHECK(measured("copies", {0}) == -1);
  CHECK(measured("size", {1}) == 6);
  CHECK(measured("rank", {}) == 2);
  CHECK_FALSE(a.find_measure("steps"));
}

TEST_CASE("rules with parallelization operators compile") {
  const auto rules = compile_rules(parallel_operators(), parse_rules(R"(
rule undone
  combine{axis=?a, degree=?k}(partition{axis=?a, degree=?k}(?x)) => ?x
rule columns
  matmul{activation=?f}(?x, ?w) => combine{axis=1, degree=2}(matmul{activation=?f}(replicate{degree=2}(?x), partition{axis=1, degree=2}(?w)))
  if degree(?w, 1) == 1
  if copies(?x) == partial(?x)
)"));
  CHECK(rules.size() == 2);
}

TEST_CASE("a copied pcg_algebra infers the same types") {
  const pcg_algebra a{operators()};
  const auto op = operators().make_operation("relu");
  const std::vector inputs{divided({4}, {2})};
  CHECK(a.dimensions(op, inputs) == a.dimensions(op, inputs));
  auto b = a;
  CHECK(b.infer(op, inputs) == a.infer(op, inputs));
  b = pcg_algebra{};
  CHECK(b.kind_count() == tensor::standard_algebra().kind_count() + parallel_names.size());
}

}  // namespace tests_of_pcg_algebra
