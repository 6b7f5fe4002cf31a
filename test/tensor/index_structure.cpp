#include <unity/tensor/index_structure.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "testing.hpp"

namespace tests_of_index_structure {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// The indices of each dimension of each tensor, as letters in order of first use: "ab,bc->ac". Upper case: whole.
// Indices that are neither parallel nor whole follow with their kind: "b red". A window is its sliding index and *.
std::string spell(std::string_view name, attributes a, const types& inputs) {
  const auto s = dimension_indices(standard(), standard().make_operation(name, a), inputs);
  REQUIRE(s.has_value());
  std::vector<std::size_t> seen;
  std::string kinds;
  const auto letter = [&](std::size_t i) {
    std::size_t n = 0;
    while (n < seen.size() && seen[n] != i) {
      ++n;
    }
    if (n == seen.size()) {
      seen.push_back(i);
      const auto kind = s->indices[i].kind;
      if (kind == index_kind::reduction || kind == index_kind::statistic) {
        kinds += std::string{" "} + static_cast<char>('a' + n) + (kind == index_kind::reduction ? " red" : " stat");
      }
    }
    return static_cast<char>((s->indices[i].kind == index_kind::whole ? 'A' : 'a') + static_cast<char>(n));
  };
  const auto spell_tensor = [&](const tensor_indices& dims) {
    std::string text;
    for (const auto& d : dims) {
      text += text.empty() ? "" : " ";
      for (const auto i : d.indices) {
        text += letter(i);
      }
      if (d.window) {
        text += letter(static_cast<std::size_t>(s->windows[*d.window].outer));
        text += '*';
      }
      text += d.indices.empty() && !d.window ? "1" : "";
    }
    return text;
  };
  std::string text;
  for (const auto& t : s->operands) {
    text += (text.empty() ? "" : ", ") + spell_tensor(t);
  }
  text += " ->";
  for (const auto& t : s->results) {
    text += " " + spell_tensor(t);
  }
  return text + ";" + kinds;
}

using groups = std::vector<std::vector<std::size_t>>;

groups linear(std::string_view name, attributes a, const types& inputs) {
  return linear_groups(standard(), standard().make_operation(name, a), inputs);
}

const types attention_operands{type({2, 12, 32}), type({2, 13, 33}), type({2, 13, 34}), type({32, 20}),
                               type({33, 20}),    type({34, 28}),    type({28, 19})};
const types lstm_operands{type({2, 6}), type({2, 5}), type({2, 5}), type({4, 5, 6}), type({4, 5, 5}), type({4, 5})};

}  // namespace

TEST_CASE("index structure of primitives follows their iteration spaces") {
  CHECK(spell("matmul", {}, {type({8, 64, 32}), type({32, 16})}) == "a b c, c d -> a b d; c red");
  CHECK(spell("linear", {}, {type({64, 32}), type({32, 16}), type({16})}) == "a b, b c, c -> a c; b red");
  CHECK(spell("conv2d", {{"groups", 2}, {"padding", "same"}}, {type({1, 4, 8, 8}), type({6, 2, 3, 3})}) ==
        "a bc d* e*, bf c g h -> a bf d e; c red g red h red");
  CHECK(spell("max_pool", {{"kernel", {2, 2}}}, {type({1, 4, 8, 8})}) == "a b c* d* -> a b c d;");
  CHECK(spell("add", {}, {type({5, 6}), type({5, 1})}) == "a b, a 1 -> a b;");
  CHECK(spell("reduce_sum", {{"axes", {1}}}, {type({5, 6})}) == "a b -> a 1; b red");
  CHECK(spell("reduce_max", {{"axes", {1}}, {"keep_dims", 0}}, {type({5, 6})}) == "a B -> a;");
  CHECK(spell("embedding", {}, {type({100, 8}), type({3, 7}, dtype::int64)}) == "a b, c d -> c d b; a red");
  CHECK(spell("embedding_bag", {}, {type({100, 8}), type({3, 7}, dtype::int64)}) == "a b, c d -> c b; a red d red");
}

TEST_CASE("index structure of views keeps uncut dimensions and marks cut ones as whole") {
  CHECK(spell("transpose", {{"permutation", {1, 0}}}, {type({5, 6})}) == "a b -> b a;");
  CHECK(spell("concat", {{"axis", 1}}, {type({5, 6}), type({5, 7})}) == "a B, a C -> a D;");
  CHECK(spell("split", {{"axis", 1}, {"sizes", {2, 4}}}, {type({5, 6})}) == "a B -> a C a D;");
  CHECK(spell("slice", {{"axes", {1}}, {"starts", {0}}, {"ends", {3}}, {"steps", {1}}}, {type({5, 6})}) ==
        "a B -> a C;");
  CHECK(spell("pad", {{"pads", {0, 1, 0, 1}}}, {type({5, 6})}) == "a B -> a C;");
  CHECK(spell("expand", {{"dims", {2, 3, 4}}}, {type({3, 4})}) == "a b -> c a b;");
}

TEST_CASE("index structure of a reshape is the common refinement of its shapes") {
  CHECK(spell("reshape", {{"dims", {12}}}, {type({3, 4})}) == "a b -> ab;");
  CHECK(spell("reshape", {{"dims", {8, 3}}}, {type({4, 6})}) == "a bc -> ab c;");
  CHECK(spell("reshape", {{"dims", {6, 4}}}, {type({4, 6})}) == "aB C -> aD E;");
  CHECK(spell("reshape", {{"dims", {3, 2, 5}}}, {type({2, 3, 5})}) == "A B c -> D E c;");
}

TEST_CASE("index structure of composites follows their bodies") {
  CHECK(spell("softmax", {{"axis", 1}}, {type({5, 6})}) == "a b -> a b; b stat");
  CHECK(spell("layer_norm", {{"axis", 1}}, {type({5, 6}), type({6}), type({6})}) == "a b, b, b -> a b; b stat");
  const auto c = type({3});
  CHECK(spell("batch_norm", {}, {type({2, 3, 4, 5}), c, c, c, c}) == "a b c d, b, b, b, b -> a b c d;");
  // queries, keys, values [b s e], [b t f], [b t g]; heads reduce, their sizes are whole or reduce
  CHECK(spell("attention", {{"heads", 4}}, attention_operands) ==
        "a b C, a d E, a d f, C gH, E gH, f gi, gi j -> a b j; d stat f red g red i red");
  CHECK(spell("lstm_cell", {}, lstm_operands) == "a B, a C, a d, E d B, E d C, E d -> a d a d;");
}

// The operands are x, y and z [a b]; an operator joins the sums over b of x * z and of y * z.
TEST_CASE("two sums share a reduction index only if addition or subtraction joins them") {
  const auto spelled = [](const char* join, bool nested) {
    const auto body = [=](body_builder& b, const attribute_reader&, std::span<const unity::value_id> x) {
      const auto sum = [&](unity::value_id of) {
        return b.add("reduce_sum", {b.add("mul", {of, x[2]})}, {{"axes", {1}}});
      };
      const auto first = sum(x[0]);
      return std::vector{b.add(join, {first, sum(nested ? b.add("mul", {x[1], first}) : x[1])})};
    };
    auto a = standard_algebra();
    a.add(define("two_sums", 3, 1, {}, composite{body}));
    const types inputs(3, type({4, 6}));
    const auto s = dimension_indices(a, a.make_operation("two_sums", {}), inputs);
    REQUIRE(s.has_value());
    return s->indices[s->operands[2][1].indices[0]].kind;
  };
  CHECK(spelled("add", false) == index_kind::reduction);
  CHECK(spelled("sub", false) == index_kind::reduction);
  CHECK(spelled("mul", false) == index_kind::whole);
  CHECK(spelled("maximum", false) == index_kind::whole);
  CHECK(spelled("add", true) == index_kind::whole);
}

TEST_CASE("index structure of causal attention marks the query dimension as whole") {
  const types operands{type({2, 3, 8, 4}), type({2, 3, 9, 4}), type({2, 3, 9, 5})};
  CHECK(spell("dot_product_attention", {}, operands) == "a b c D, a b e D, a b e f -> a b c f; e stat");
  CHECK(spell("dot_product_attention", {{"causal", true}}, operands) ==
        "a b C D, a b e D, a b e f -> a b C f; e stat");
}

TEST_CASE("index structure of an opaque operator is whole") {
  CHECK(spell("opaque", {{"name", "x"}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 5}}}, {type({5})}) ==
        "A -> B;");
}

TEST_CASE("linear_groups gives the operands in which each operator is jointly additive") {
  const auto m = type({4, 4});
  const auto v = type({4});
  CHECK(linear("matmul", {}, {m, m}) == groups{{0}, {1}});
  CHECK(linear("matmul", {{"activation", "relu"}}, {m, m}).empty());
  CHECK(linear("linear", {}, {m, m, v}) == groups{{0, 2}, {1, 2}});
  CHECK(linear("conv2d", {}, {type({1, 4, 4, 4}), type({4, 4, 1, 1}), v}) == groups{{0, 2}, {1, 2}});
  CHECK(linear("add", {}, {m, m}) == groups{{0, 1}});
  CHECK(linear("mul", {}, {m, m}) == groups{{0}, {1}});
  CHECK(linear("div", {}, {m, m}) == groups{{0}});
  CHECK(linear("maximum", {}, {m, m}).empty());
  CHECK(linear("relu", {}, {m}).empty());
  CHECK(linear("concat", {{"axis", 0}}, {m, m, m}) == groups{{0, 1, 2}});
  CHECK(linear("pad", {{"pads", {0, 0, 1, 0}}}, {m}) == groups{{0}});
  CHECK(linear("pad", {{"pads", {0, 0, 1, 0}}, {"value", 1.0}}, {m}).empty());
  CHECK(linear("average_pool", {{"kernel", {2, 2}}}, {type({1, 1, 4, 4})}) == groups{{0}});
  CHECK(linear("max_pool", {{"kernel", {2, 2}}}, {type({1, 1, 4, 4})}).empty());
  CHECK(linear("embedding", {}, {m, type({2}, dtype::int64)}) == groups{{0}});
  CHECK(linear("embedding_bag", {}, {m, type({2}, dtype::int64)}) == groups{{0}});
  CHECK(linear("softmax", {{"axis", 0}}, {m}).empty());
  CHECK(linear("layer_norm", {{"axis", 1}}, {m, v, v}) == groups{{1, 2}});
  CHECK(linear("attention", {{"heads", 4}}, attention_operands) == groups{{2}, {5}, {6}});
  CHECK(linear("lstm_cell", {}, lstm_operands).empty());
}

TEST_CASE("a linear group makes each result additive, not only those that depend on it") {
  const auto a = training_algebra();
  const tensor_type x{dtype::float32, {}, false, {4, 8}};
  const tensor_type s{dtype::float32, {}, false, {8}};
  const auto op = a.make_operation("layer_norm_gradient", {{"axis", 1}, {"epsilon", 1e-5}, {"of", shape{0, 1, 2}}});
  // The first result is additive in scale and shift (1 and 2), of which the others are independent.
  CHECK(linear_groups(a, op, std::vector{x, s, s, x}) == std::vector<std::vector<std::size_t>>{{2, 3}});
}

}  // namespace tests_of_index_structure
