#include <unity/io/rule_text.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>

namespace tests_of_rule_text {

namespace io = unity::io;
using rule = io::foreign_rule;

namespace {

std::string converted(const rule& r) {
  const auto result = io::to_rule_text(r);
  INFO(result.outside_because);
  REQUIRE(result);
  CHECK(unity::parse_rules(result.text, r.name).size() == 1);
  return result.text;
}

rule of(std::vector<rule::operation> source, std::vector<rule::operation> target) {
  const auto last = [](const auto& all) { return static_cast<std::int64_t>(all.size()) - 1; };
  return {"r", source, target, {{{last(source), 0}, {last(target), 0}}}};
}

const std::map<std::string, std::int64_t> same_window{{"kernel_h", 3}, {"kernel_w", 3}, {"stride_h", 2},
                                                      {"stride_w", 2}, {"pad", 0},      {"activation", 2}};

}  // namespace

TEST_CASE("rule text numbers variables and nests operators") {
  CHECK_THAT(converted(of({{"relu", {{-3, 0}}, {}}}, {{"relu", {{-3, 0}}, {}}, {"relu", {{0, 0}}, {}}})),
             Catch::Contains("relu(?x3) => relu(relu(?x3))"));
}

TEST_CASE("rule text requires equal shapes of element-wise operands") {
  CHECK_THAT(converted(of({{"add", {{-1, 0}, {-2, 0}}, {}}}, {{"add", {{-2, 0}, {-1, 0}}, {}}})),
             Catch::Contains("shape(?x1) == shape(?x2)"));
}

TEST_CASE("rule text fixes a convolution's kernel size/stride/padding/activation") {
  const auto text =
      converted(of({{"conv2d", {{-1, 0}, {-2, 0}}, same_window}}, {{"conv2d", {{-1, 0}, {-2, 0}}, same_window}}));
  CHECK_THAT(text, Catch::Contains("conv2d{stride=[2, 2], padding=same, activation=relu}(?x1, ?x2)"));
  CHECK_THAT(text, Catch::Contains("size(?x2, 2) == 3") && Catch::Contains("size(?x2, 3) == 3"));
}

TEST_CASE("rule text takes a split's sizes from the concat that it undoes") {
  const rule r{"r",
               {{"relu", {{-1, 0}}, {}}, {"relu", {{-2, 0}}, {}}},
               {{"concat", {{-1, 0}, {-2, 0}}, {{"num_inputs", 2}, {"axis", 1}, {"num_dims", 2}}},
                {"relu", {{0, 0}}, {}},
                {"split", {{1, 0}}, {{"num_outputs", 2}, {"axis", 1}}}},
               {{{0, 0}, {2, 0}}, {{1, 0}, {2, 1}}}};
  CHECK_THAT(converted(r), Catch::Contains("(relu(?x1), relu(?x2)) => split{axis=1, sizes=[size(?x1, 1), size(?x2, 1)]}"
                                           "(relu(concat{axis=1}(?x1, ?x2)))"));
}

TEST_CASE("rule text selects reordered results of a split one by one") {
  const rule r{"r",
               {{"relu", {{-1, 0}}, {}}, {"relu", {{-2, 0}}, {}}},
               {{"concat", {{-2, 0}, {-1, 0}}, {{"axis", 0}, {"num_dims", 3}}},
                {"relu", {{0, 0}}, {}},
                {"split", {{1, 0}}, {{"num_outputs", 2}, {"axis", 0}}}},
               {{{0, 0}, {2, 1}}, {{1, 0}, {2, 0}}}};
  CHECK_THAT(converted(r), Catch::Contains(".1, split{") && Catch::Contains(".0)\n"));
}

TEST_CASE("rule text takes the sizes of a convolution's channel split from its kernels") {
  auto window = same_window;
  window["activation"] = 0;
  const rule r{"r",
               {{"conv2d", {{-1, 0}, {-2, 0}}, window}, {"conv2d", {{-1, 0}, {-3, 0}}, window}},
               {{"concat", {{-2, 0}, {-3, 0}}, {{"axis", 0}, {"num_dims", 4}}},
                {"conv2d", {{-1, 0}, {0, 0}}, window},
                {"split", {{1, 0}}, {{"num_outputs", 2}, {"axis", 1}}}},
               {{{0, 0}, {2, 0}}, {{1, 0}, {2, 1}}}};
  CHECK_THAT(converted(r), Catch::Contains("sizes=[size(?x2, 0), size(?x3, 0)]"));
}

TEST_CASE("rule text decodes a transpose's permutation from a number in base rank") {
  const rule::operation swap{"transpose", {{-1, 0}}, {{"num_dims", 3}, {"permutation", 0 * 9 + 2 * 3 + 1}}};
  CHECK_THAT(converted(of({swap}, {swap})), Catch::Contains("transpose{permutation=[0, 2, 1]}(?x1)"));
}

TEST_CASE("rule text takes the size of an identity matrix from its reader") {
  const auto text =
      converted(of({{"relu", {{-1, 0}}, {}}},
                   {{"identity_matrix", {}, {}}, {"relu", {{-1, 0}}, {}}, {"matmul", {{1, 0}, {0, 0}}, {}}}));
  CHECK_THAT(text, Catch::Contains("matmul(relu(?x1), identity_matrix{size=size(?x1, -1)}())"));
}

TEST_CASE("rules that cannot be stated as rule text are outside with the reason") {
  const auto reason = [](const rule& r) {
    const auto result = io::to_rule_text(r);
    CHECK_FALSE(result);
    return result.outside_because;
  };
  const rule::operation relu{"relu", {{-1, 0}}, {}};
  CHECK_THAT(reason(of({relu}, {{"replicate", {{-1, 0}}, {}}})), Catch::Contains("replicate"));
  CHECK_THAT(reason(of({relu}, {{"relu", {{-2, 0}}, {}}})), Catch::Contains("?x2, which the source does not bind"));
  CHECK_THAT(reason(of({relu}, {{"split", {{-1, 0}}, {{"num_outputs", 2}, {"axis", 0}}}})),
             Catch::Contains("undoes no concat"));
  CHECK_THAT(reason(of({relu}, {{"concat", {}, {{"axis", 0}}}, {"split", {{0, 0}}, {{"axis", 1}}}})),
             Catch::Contains("undoes no concat"));
  CHECK_THAT(reason(of({relu}, {{"add", {{-1, 0}}, {}}})), Catch::Contains("add with 1 inputs"));
  CHECK_THAT(reason(of({relu}, {{"conv2d", {{-1, 0}, {-1, 0}}, {}}})), Catch::Contains("no parameter"));
  CHECK_THAT(reason(of({relu}, {{"transpose", {{-1, 0}}, {{"num_dims", 3}, {"permutation", 0}}}})),
             Catch::Contains("not a permutation"));
}

TEST_CASE("rules of a file whose names are similar get different names") {
  std::vector<io::converted_rule> all;
  auto r = of({{"relu", {{-1, 0}}, {}}}, {{"relu", {{-1, 0}}, {}}, {"relu", {{0, 0}}, {}}});
  const std::string cut(100, 'x');
  for (const auto& name :
       {std::string{"a b"}, std::string{"a_b_2"}, std::string{"a_b"}, std::string{"a.b"}, cut + "1", cut + "2"}) {
    r.name = name;
    all.push_back(io::to_rule_text(r));
  }
  std::vector<std::string> names;
  for (const auto& parsed : unity::parse_rules(io::rule_file_text(all), "r")) {
    names.push_back(parsed.name);
  }
  CHECK(names == std::vector<std::string>{"a_b", "a_b_2", "a_b_3", "a_b_4", cut, cut + "_2"});
}

TEST_CASE("a rule whose text would grow exponentially is outside") {
  rule r = of({{"relu", {{-1, 0}}, {}}}, {{"add", {{-1, 0}, {-1, 0}}, {}}});
  for (std::int64_t i = 0; i < 60; ++i) {
    r.target.push_back({"add", {{i, 0}, {i, 0}}, {}});
  }
  r.outputs[0].target.node = 60;
  const auto result = io::to_rule_text(r);
  CHECK_FALSE(result);
  CHECK_THAT(result.outside_because, Catch::Contains("characters"));
}

}  // namespace tests_of_rule_text
