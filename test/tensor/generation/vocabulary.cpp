#include <unity/tensor/generation/vocabulary.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/tensor/generation/vocabularies.hpp>

#include "../../support/message_of.hpp"
#include "../testing.hpp"

namespace tests_of_vocabulary {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

vocabulary parse(std::string_view text) { return parse_vocabulary(standard(), text, "my.ops"); }
std::string why_refused(std::string_view text) {
  return unity::test::message_of([&] { static_cast<void>(parse(text)); });
}
// The message about an operator's line after a valid line of sizes and one of a sort.
std::string operator_refused(const std::string& text) {
  return why_refused("sizes M=3, K=4\nsort activation input [M, K]\noperator " + text);
}

}  // namespace

TEST_CASE("parse_vocabulary reads sizes / sorts / operators in any order with comments") {
  const auto v = parse(R"(
# Sizes first.
sizes M=3, K=4
sort x input [M, 2]   # a number and a letter
operator matmul{activation={none, relu}}(input, weight) rank {2, 3} gives input
sizes N=5
sort w weight [K, N]
sort s any []
operator fill{value=1.5, dims={[M, N], [K]}}() gives weight
operator add(any, any) same_shape same_role
operator scalar_multiply(any, input) gives first
operator split{axis={0, 1}}(any)
)");
  CHECK(v.sizes == std::vector<std::pair<std::string, std::int64_t>>{{"M", 3}, {"K", 4}, {"N", 5}});
  REQUIRE(v.sorts.size() == 3);
  CHECK(v.sorts[0].dims == std::vector<vocabulary_size>{{"M", 0}, {"", 2}});
  CHECK(v.sorts[1].role == role::weight);
  CHECK(v.sorts[2].role == role::any);
  CHECK(v.sorts[2].dims.empty());
  REQUIRE(v.operators.size() == 2 + 2 + 1 + 1 + 2);
  CHECK(v.operators[0].operands == std::vector{role::input, role::weight});
  CHECK(v.operators[0].ranks == std::vector<std::int64_t>{2, 3});
  CHECK(v.operators[0].result == role::input);
  CHECK(v.operators[0].attributes[0].second != v.operators[1].attributes[0].second);
  CHECK(v.operators[3].attributes[1].second == std::vector<vocabulary_size>{{"K", 0}});
  CHECK((v.operators[4].same_shape && v.operators[4].same_role));
  CHECK(v.operators[5].like_first);
}

TEST_CASE("the shipped vocabularies have the expected numbers of operators and sorts") {
  CHECK(parse(taso_vocabulary).operators.size() == 19);
  CHECK(parse(taso_vocabulary).sorts.size() == 8);
  CHECK(parse(tensor_vocabulary).sorts.size() == 10);
  CHECK(parse(matrix_vocabulary).sorts.size() == 3);
  CHECK(parse(image_vocabulary).sorts.size() == 3);
}

TEST_CASE("parse_vocabulary errors on sizes and sorts give position and expectation") {
  CHECK(why_refused("sizes M=3\nsort x input [M]\noperator matmull(any, any)") ==
        "my.ops:3:10: found 'matmull'; expected the name of an operator");
  CHECK(why_refused("sizes M=3\nsort x input [M, N]") ==
        "my.ops:2:19: found ']'; expected a letter that 'sizes' declares before it, not 'N'");
  CHECK(why_refused("sort x activation [3]") == "my.ops:1:8: found 'activation'; expected 'any', 'input' or 'weight'");
  CHECK(why_refused("sort x input [0]") == "my.ops:1:16: found ']'; expected a positive size before it");
  CHECK(why_refused("sort x input [3") == "my.ops:1:16: found end of file; expected ',' or ']'");
  CHECK(why_refused("sort x input [3,]") == "my.ops:1:17: found ']'; expected a size");
  CHECK(why_refused("sizes M=0") == "my.ops:1:10: found end of file; expected a size of 1 to 64 before it");
  CHECK(why_refused("sizes M=65, N=2") == "my.ops:1:11: found ','; expected a size of 1 to 64 before it");
  CHECK(why_refused("sizes M=3, M=4") == "my.ops:1:13: found '='; expected a new letter before it, not 'M' again");
  CHECK(why_refused("sizes A=1, B=1, C=1, D=1, E=1, F=1, G=1, H=1, I=1") ==
        "my.ops:1:47: found 'I'; expected at most 8 letters");
  CHECK(why_refused("rules") == "my.ops:1:1: found 'rules'; expected 'sizes', 'sort' or 'operator'");
  CHECK(why_refused("") == "my.ops:1:1: found end of file; expected at least one sort and one operator");
  CHECK(why_refused("sort x input [3]") ==
        "my.ops:1:17: found end of file; expected at least one sort and one operator");
  std::string many;
  for (int i = 0; i < 17; ++i) {
    many += "sort s" + std::to_string(i) + " input [3]\n";
  }
  CHECK_THAT(why_refused(many), Catch::StartsWith("my.ops:18:1: found end of file; expected at most 16 sorts"));
  const auto large = [](const std::string& dims) { return why_refused("sizes M=64\nsort x input " + dims); };
  CHECK_THAT(large("[M, M, 16]"), Catch::Contains("at least one sort and one operator"));
  for (const auto* dims :
       {"[M, M, 17]", "[999999999, 999999999, 999999999]", "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"}) {
    CAPTURE(dims);
    CHECK_THAT(large(dims), Catch::Contains("a sort of at most 65536 elements before it"));
  }
}

TEST_CASE("parse_vocabulary errors on operators give position and expectation") {
  CHECK(operator_refused("matmul{activation={}}(any, any)") ==
        "my.ops:3:29: found '}'; expected a value: the range of 'activation' is empty");
  CHECK(operator_refused("matmul{color=red}(any, any)") ==
        "my.ops:3:17: found 'color'; expected an attribute of 'matmul'");
  CHECK(operator_refused("matmul{activation=red}(any, any)") ==
        "my.ops:3:28: found 'red'; expected a choice of 'activation'");
  CHECK(operator_refused("matmul{activation=relu, activation=none}(any, any)") ==
        "my.ops:3:34: found 'activation'; expected an attribute that was not given before");
  CHECK(operator_refused("fill{value=1, dims=[M, Q]}()") ==
        "my.ops:3:34: found ']'; expected a letter that 'sizes' declares before it, not 'Q'");
  CHECK(operator_refused("fill{value=x}()") == "my.ops:3:21: found 'x'; expected a number");
  CHECK(operator_refused("matmul(any, any,)") == "my.ops:3:26: found ')'; expected 'any', 'input' or 'weight'");
  CHECK(operator_refused("matmul(any, kernel)") == "my.ops:3:22: found 'kernel'; expected 'any', 'input' or 'weight'");
  CHECK(operator_refused("matmul(any)") ==
        "my.ops:3:20: found ')'; expected as many operands as 'matmul' takes, two at most");
  CHECK(operator_refused("batch_norm(any, any, any, any, any)") ==
        "my.ops:3:44: found ')'; expected as many operands as 'batch_norm' takes, two at most");
  CHECK(operator_refused("add(any, any) same_size") ==
        "my.ops:3:24: found 'same_size'; expected 'same_shape', 'same_rank', 'same_role', 'rank', 'gives' or the next "
        "line");
  CHECK(operator_refused("relu(any) same_shape") == "my.ops:3:20: found 'same_shape'; expected two operands before it");
  CHECK(operator_refused("relu(any) rank two") == "my.ops:3:25: found 'two'; expected a rank");
  CHECK(operator_refused("relu(any) gives output") ==
        "my.ops:3:26: found 'output'; expected 'any', 'input' or 'weight'");
  CHECK(operator_refused("concat(any, any)") ==
        "my.ops:3:26: found end of file; expected values before it for all attributes of 'concat' that have no "
        "default, as "
        "long as it takes them");
  CHECK_THAT(operator_refused("split(any)\nsort y input [M]"),
             Catch::StartsWith("my.ops:4:1: found 'sort'; expected values"));
  CHECK_THAT(operator_refused("conv2d{stride=[1, 1, 1]}(any, any)"), Catch::Contains("all attributes of 'conv2d'"));
  std::string channels;
  std::string kernels;
  for (int i = 1; i <= 65; ++i) {
    channels += (i == 1 ? "" : ", ") + std::to_string(i);
    kernels += (i == 1 ? "" : ", ") + ("[1, " + std::to_string(i) + "]");
  }
  CHECK(operator_refused("pool_kernel{channels={" + channels + "}, kernel=[1, 1]}()").empty());
  CHECK_THAT(operator_refused("pool_kernel{channels={" + channels + "}, kernel={" + kernels + "}}()"),
             Catch::Contains("at most 4096 operators"));
}

}  // namespace tests_of_vocabulary
