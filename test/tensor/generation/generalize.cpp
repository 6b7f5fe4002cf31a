#include <unity/tensor/generation/generalize.hpp>

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/rule_test.hpp>

#include "../testing.hpp"

namespace tests_of_generalize {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

syntax::rule rule(const std::string& text) { return parse_rules("rule r\n  " + text).at(0); }

// The generalized rules as text, without names.
std::vector<std::string> general(const std::string& specific) {
  std::vector<std::string> texts;
  for (const auto& r : generalize(standard(), rule(specific))) {
    texts.push_back(statement_text(r));
  }
  return texts;
}
void check(const std::string& specific, const std::vector<std::string>& expected) {
  INFO(specific);
  std::vector<std::string> texts;
  for (const auto& e : expected) {
    texts.push_back(statement_text(rule(e)));
  }
  CHECK(general(specific) == texts);
}

const std::string matrices = " if rank(?a) == 2, rank(?b) == 2, rank(?c) == 2";
const std::string images = " if rank(?a) == 4, rank(?b) == 4, rank(?c) == 4";
const std::string sliding = "stride=?s, padding=?p, pads=?q, dilation=?d";

}  // namespace

TEST_CASE("generalize turns rules about matrices into rules of any rank", "[exhaustive]") {
  check("matmul(?a, matmul(?b, ?c)) == matmul(matmul(?a, ?b), ?c)" + matrices,
        {"matmul{activation=?a}(?x, matmul(?y, ?z)) == matmul{activation=?a}(matmul(?x, ?y), ?z)"});
  check("matmul(?a, add(?b, ?c)) == add(matmul(?a, ?b), matmul(?a, ?c))" + matrices + ", shape(?b) == shape(?c)",
        {"add(matmul(?x, ?y), matmul(?x, ?z)) == matmul(?x, add(?y, ?z))"});
  check("concat{axis=1}(matmul(?a, ?b), matmul(?a, ?c)) == matmul(?a, concat{axis=1}(?b, ?c))" + matrices,
        {"concat{axis=?c}(matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?x, ?z)) == "
         "matmul{activation=?a}(?x, concat{axis=?c}(?y, ?z))"});
  check("add(matmul(?a, ?b), matmul(?c, ?d)) == matmul(concat{axis=1}(?a, ?c), concat{axis=0}(?b, ?d))" + matrices +
            ", rank(?d) == 2",
        {"add(matmul(?x, ?y), matmul(?z, ?w)) == "
         "matmul(concat{axis=rank(?x) - 1}(?x, ?z), concat{axis=rank(?y) - 2}(?y, ?w))"});
}

TEST_CASE("generalize drops rank and shape conditions that are not needed") {
  const std::string equal =
      " if rank(?a) == 4, rank(?b) == 4, rank(?c) == 4, shape(?a) == shape(?b), shape(?b) == shape(?c)";
  check("add(?a, add(?b, ?c)) == add(add(?a, ?b), ?c)" + equal, {"add(?x, add(?y, ?z)) == add(?y, add(?x, ?z))"});
  check("relu(relu(?a)) => relu(?a) if rank(?a) == 4", {"relu(relu(?x)) => relu(?x)"});
  check(
      "matmul(scalar_multiply(?a, ?b), ?c) == scalar_multiply(matmul(?a, ?c), ?b) if rank(?a) == 2, rank(?b) == 0, "
      "rank(?c) == 2",
      {"matmul(scalar_multiply(?x, ?y), ?z) == scalar_multiply(matmul(?x, ?z), ?y)"});
}

TEST_CASE("generalize keeps a shape condition that operands must meet") {
  check("conv2d{padding=same}(add(?a, ?b), ?c) == add(conv2d{padding=same}(?a, ?c), conv2d{padding=same}(?b, ?c))" +
            images + ", shape(?a) == shape(?b), suffix(shape(?c), 2) == [3, 3]",
        {"add(conv2d{" + sliding + ", groups=?g}(?x, ?y), conv2d{" + sliding + ", groups=?g}(?z, ?y)) == conv2d{" +
         sliding + ", groups=?g}(add(?x, ?z), ?y) if shape(?x) == shape(?z)"});
}

TEST_CASE("generalize frees a permutation or lets it swap the last two axes of any rank", "[exhaustive]") {
  check("relu(transpose{permutation=[1, 0]}(?a)) == transpose{permutation=[1, 0]}(relu(?a)) if rank(?a) == 2",
        {"relu(transpose{permutation=?o}(?x)) == transpose{permutation=?o}(relu(?x))"});
  check("transpose{permutation=[1, 0]}(transpose{permutation=[1, 0]}(?a)) => ?a if rank(?a) == 2",
        {"transpose{permutation=?o}(transpose{permutation=?o}(?x)) => ?x if "
         "?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])"});
  check(
      "transpose{permutation=[1, 0]}(matmul(?a, ?b)) == matmul(transpose{permutation=[1, 0]}(?b), "
      "transpose{permutation=[1, 0]}(?a)) if rank(?a) == 2, rank(?b) == 2",
      {"matmul{activation=?a}(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) == "
       "transpose{permutation=?o}(matmul{activation=?a}(?y, ?x)) if "
       "?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])"});
}

TEST_CASE("generalize lets a permutation in a sum with a transpose swap only the last two axes") {
  check(
      "transpose{permutation=[1, 0]}(add(?a, transpose{permutation=[1, 0]}(?b))) == add(?b, transpose{permutation=[1, "
      "0]}(?a)) if rank(?a) == 2, rank(?b) == 2, shape(?b) == [size(?a, 1), size(?a, 0)]",
      {"transpose{permutation=?o}(add(?x, transpose{permutation=?o}(?y))) == add(?y, transpose{permutation=?o}(?x)) if "
       "?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])"});
}

TEST_CASE("generalize maps an axis through a permutation and makes a rule per direction", "[exhaustive]") {
  check(
      "concat{axis=1}(transpose{permutation=[1, 0]}(?a), transpose{permutation=[1, 0]}(?b)) == "
      "transpose{permutation=[1, 0]}(concat{axis=0}(?a, ?b)) if rank(?a) == 2, rank(?b) == 2",
      {"concat{axis=?c}(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) => "
       "transpose{permutation=?o}(concat{axis=at(?o, ?c)}(?x, ?y))",
       "transpose{permutation=?o}(concat{axis=?c}(?x, ?y)) => "
       "concat{axis=at(?o, ?c)}(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y))"});
}

TEST_CASE("generalize keeps a condition that two axes differ", "[exhaustive]") {
  check(
      "concat{axis=1}(concat{axis=0}(?a, ?b), concat{axis=0}(?c, ?d)) == concat{axis=0}(concat{axis=1}(?a, ?c), "
      "concat{axis=1}(?b, ?d))" +
          matrices + ", rank(?d) == 2",
      {"concat{axis=?c}(concat{axis=?c2}(?x, ?y), concat{axis=?c2}(?z, ?w)) == "
       "concat{axis=?c2}(concat{axis=?c}(?x, ?z), concat{axis=?c}(?y, ?w)) if ?c != ?c2"});
}

TEST_CASE("generalize frees a concat axis of images only where the operator allows it", "[exhaustive]") {
  const std::string pool = "kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e";
  check(
      "concat{axis=1}(max_pool{kernel=[3, 3], padding=same}(?a), max_pool{kernel=[3, 3], padding=same}(?b)) == "
      "max_pool{kernel=[3, 3], padding=same}(concat{axis=1}(?a, ?b)) if rank(?a) == 4, rank(?b) == 4",
      {"concat{axis=?c}(max_pool{" + pool + "}(?x), max_pool{" + pool + "}(?y)) == max_pool{" + pool +
       "}(concat{axis=?c}(?x, ?y)) if ?c < 2"});
  check(
      "concat{axis=1}(conv2d{padding=same}(?a, ?b), conv2d{padding=same}(?a, ?c)) == conv2d{padding=same}(?a, "
      "concat{axis=0}(?b, ?c))" +
          images + ", suffix(shape(?b), 2) == [3, 3], suffix(shape(?c), 2) == [3, 3]",
      {"concat{axis=1}(conv2d{" + sliding + ", activation=?a}(?x, ?y), conv2d{" + sliding +
       ", activation=?a}(?x, ?z)) == conv2d{" + sliding + ", activation=?a}(?x, concat{axis=0}(?y, ?z))"});
}

TEST_CASE("generalize keeps an applied activation and frees the other attributes", "[exhaustive]") {
  check(
      "relu(conv2d{padding=same}(?a, ?b)) == conv2d{padding=same, activation=relu}(?a, ?b) if rank(?a) == 4, "
      "rank(?b) == 4, suffix(shape(?b), 2) == [3, 3]",
      {"relu(conv2d{" + sliding + ", groups=?g}(?x, ?y)) == conv2d{" + sliding +
       ", groups=?g, activation=relu}(?x, ?y)"});
}

TEST_CASE("generalize takes sizes of split parts along the general axis", "[exhaustive]") {
  check(
      "(matmul(?a, ?b), matmul(?a, ?c)) => split{axis=1, sizes=[size(?b, 1), size(?c, 1)]}(matmul(?a, concat{axis=1}("
      "?b, ?c)))" +
          matrices,
      {"(matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?x, ?z)) => split{axis=rank(?x) - 1, sizes=[size(?y, "
       "-1), "
       "size(?z, -1)]}(matmul{activation=?a}(?x, concat{axis=rank(?y) - 1}(?y, ?z)))"});
  check(
      "split{axis=1, sizes=[size(?a, 1), size(?b, 1)]}(concat{axis=1}(?a, ?b)).0 => ?a if rank(?a) == 2, rank(?b) == 2",
      {"split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(concat{axis=?c}(?x, ?y)).0 => ?x"});
}

TEST_CASE("generalize frees enlarged kernel sizes on condition that strides are no larger", "[exhaustive]") {
  const std::string conv = "stride=?s, padding=?p, dilation=?d, groups=?g";
  check(
      "conv2d{padding=same}(?a, enlarge{kernel=[3, 3]}(?b)) => conv2d{padding=same}(?a, ?b) if rank(?a) == 4, "
      "rank(?b) == 4, suffix(shape(?b), 2) == [1, 1]",
      {"conv2d{" + conv + ", activation=?a}(?x, enlarge{kernel=?k}(?y)) => conv2d{" + conv +
       ", activation=?a}(?x, ?y) if ?p == same || ?p == same_lower, suffix(shape(?y), 2) >= ?s"});
  check(
      "add(conv2d{padding=same}(?a, ?b), conv2d{padding=same}(?a, ?c)) == conv2d{padding=same}(?a, add(?c, "
      "enlarge{kernel=[3, 3]}(?b)))" +
          images +
          ", suffix(shape(?b), 2) == [1, 3], suffix(shape(?c), 2) == [3, 3], size(?b, 0) == size(?c, 0), size(?b, 1) "
          "== size(?c, 1)",
      {"add(conv2d{" + conv + "}(?x, ?y), conv2d{" + conv + "}(?x, ?z)) == conv2d{" + conv +
       "}(?x, add(?y, enlarge{kernel=suffix(shape(?y), 2)}(?z))) if ?p == same || ?p == same_lower, suffix(shape(?z), "
       "2) >= ?s"});
}

TEST_CASE("generalize gives joined relus of matrices and images the same rule") {
  const std::string siblings =
      "(relu(?a), relu(?b)) => split{axis=1, sizes=[size(?a, 1), size(?b, 1)]}(relu(concat{axis=1}(?a, ?b))) if ";
  CHECK(general(siblings + "rank(?a) == 2, rank(?b) == 2") == general(siblings + "rank(?a) == 4, rank(?b) == 4"));
}

TEST_CASE("generalize replaces literal kernel sizes by a condition of equal shapes", "[exhaustive]") {
  const std::string conv = sliding + ", groups=?g";
  check("conv2d{padding=same}(?a, add(?b, ?c)) == add(conv2d{padding=same}(?a, ?b), conv2d{padding=same}(?a, ?c))" +
            images + ", suffix(shape(?b), 2) == [3, 3], suffix(shape(?c), 2) == [3, 3], shape(?b) == shape(?c)",
        {"add(conv2d{" + conv + "}(?x, ?y), conv2d{" + conv + "}(?x, ?z)) == conv2d{" + conv +
         "}(?x, add(?y, ?z)) if shape(?y) == shape(?z)"});
}

TEST_CASE("generalize keeps literal kernel sizes of composed pools", "[exhaustive]") {
  const auto texts = general(
      "max_pool{kernel=[3, 3], padding=same}(max_pool{kernel=[3, 3], padding=same}(?a)) == max_pool{kernel=[5, 5], "
      "padding=same}(?a) if rank(?a) == 4");
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].find("kernel=[3, 3]") != std::string::npos);
  CHECK(texts[0].find("kernel=[5, 5]") != std::string::npos);
}

TEST_CASE("generalize frees the sizes of constants", "[exhaustive]") {
  check("matmul(?a, identity_matrix{size=size(?a, 1)}()) => ?a if rank(?a) == 2",
        {"matmul(?x, identity_matrix{size=?n}()) => ?x"});
  check("matmul(identity_matrix{size=size(?a, 1)}(), ?a) => ?a if rank(?a) == 2, size(?a, 0) == size(?a, 1)",
        {"matmul(identity_matrix{size=?n}(), ?x) => ?x"});
  check("mul(?a, fill{value=1.0, dims=[size(?a, 0), size(?a, 1), size(?a, 2), size(?a, 3)]}()) => ?a if rank(?a) == 4",
        {"mul(?x, fill{value=1.0, dims=?m}()) => ?x"});
  check(
      "conv2d{padding=same, groups=?g}(?a, pool_kernel{channels=?g, kernel=[3, 3]}()) => average_pool{kernel=[3, 3], "
      "padding=same, count_include_pad=1}(?a) if rank(?a) == 4, ?g == size(?a, 1)",
      {"conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x, pool_kernel{channels=?g, kernel=?k}()) => "
       "average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=1}(?x)"});
}

TEST_CASE("generalize gives equivalent rules about matrices and images one text", "[exhaustive]") {
  const std::string equal = "relu(concat{axis=1}(?a, ?b)) == concat{axis=1}(relu(?a), relu(?b)) if ";
  CHECK(general(equal + "rank(?a) == 2, rank(?b) == 2") == general(equal + "rank(?a) == 4, rank(?b) == 4"));
  CHECK(general("add(?a, add(?b, ?c)) => add(?b, add(?a, ?c)) if rank(?a) == 2, rank(?b) == 2, rank(?c) == 2") ==
        general("add(add(?p, ?q), ?o) => add(add(?o, ?q), ?p) if rank(?o) == 4, rank(?p) == 4, rank(?q) == 4"));
}

TEST_CASE("generalize gives nothing for false rules or rules without instances") {
  CHECK(general("matmul(?a, ?b) => matmul(?b, ?a) if rank(?a) == 2, rank(?b) == 2").empty());
  CHECK(general("relu(?a) => relu(relu(?a)) if rank(?a) == 2, rank(?a) == 3").empty());
  CHECK(general("concat{axis=1}(conv2d{padding=same}(?a, ?b), conv2d{padding=same}(?c, ?d)) => conv2d{padding=same}("
                "concat{axis=1}(?a, ?c), concat{axis=0}(?b, ?d))" +
                images + ", rank(?d) == 4")
            .empty());
}

TEST_CASE("generalized rules pass rule tests and generalize to themselves", "[exhaustive]") {
  for (const auto* specific :
       {"concat{axis=0}(add(?a, ?b), add(?c, ?d)) == add(concat{axis=0}(?a, ?c), concat{axis=0}(?b, ?d)) if rank(?a) "
        "== "
        "2, rank(?b) == 2, rank(?c) == 2, rank(?d) == 2, shape(?a) == shape(?b), shape(?c) == shape(?d)",
        "concat{axis=0}(conv2d{padding=same}(?a, ?c), conv2d{padding=same}(?b, ?c)) == conv2d{padding=same}(concat{"
        "axis=0}(?a, ?b), ?c) if rank(?a) == 4, rank(?b) == 4, rank(?c) == 4, suffix(shape(?c), 2) == [3, 3]"}) {
    const auto rules = generalize(standard(), rule(specific));
    REQUIRE(rules.size() == 1);
    CHECK(rules == generalize(standard(), rule(specific)));
    for (const auto& s : compile_rule(standard(), rules[0])) {
      const auto report = test_rule(standard(), s, {.seed = 77});
      INFO(report.because);
      CHECK(report.found == rule_report::verdict::passes);
    }
    // A general rule cannot be generalized further.
    CHECK(statement_text(generalize(standard(), rules[0]).at(0)) == statement_text(rules[0]));
  }
}

}  // namespace tests_of_generalize
