#include <unity/tensor/terms.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>

#include "../support/operators.hpp"

namespace tests_of_terms {

namespace {

using unity::compile_rule;
using unity::to_text;
using unity::test::standard::operators;
using namespace unity::tensor::terms;

const variable x{"x"}, y{"y"}, z{"z"}, v{"v"}, a{"a"}, s{"s"}, p{"p"}, g{"g"};
const variable xs = indexed("x"), ws = indexed("w");

// Both must have the same syntax and the same substitutions.
void check_equal(const statement& written, const std::string& text) {
  INFO(text);
  INFO(to_text(written));
  const auto parsed = unity::parse_rules(text);
  REQUIRE(parsed.size() == 1);
  CHECK(static_cast<const unity::syntax::rule&>(written) == parsed[0]);
  CHECK(compile_rule(operators(), written) == compile_rule(operators(), parsed[0]));
}

// Rules can be written as in the literature, at namespace scope.
const auto associative = matmul(x, matmul(y, z)) == matmul(matmul(x, y), z);

}  // namespace

TEST_CASE("an associativity rule written as C++ terms equals its parsed text", "[terms]") {
  check_equal(rule("associative", associative),
              "rule associative matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z)");
}

TEST_CASE("tensor rules written as C++ terms equal their parsed texts", "[terms]") {
  check_equal(rule("distributive", add(matmul(x, y), matmul(x, z)) == matmul(x, add(y, z))),
              "rule distributive add(matmul(?x, ?y), matmul(?x, ?z)) == matmul(?x, add(?y, ?z))");
  check_equal(rule("fuse", relu(matmul(x, y)) == matmul(x, y, activation = "relu")),
              "rule fuse relu(matmul(?x, ?y)) == matmul{activation=relu}(?x, ?y)");
  check_equal(rule("merge", all(matmul(x, ws, activation = a)) >>
                                split(matmul(x, concat(all(ws), axis = rank(x) - 1), activation = a),
                                      axis = rank(x) - 1, sizes = {all(size(ws, -1))}))
                  .when(rank(ws) == rank(x)),
              "rule merge matmul{activation=?a}(?x, ??w)... => split{axis=rank(?x)-1, sizes=[size(??w, -1)...]}("
              "matmul{activation=?a}(?x, concat{axis=rank(?x)-1}(??w...))) if rank(??w) == rank(?x)");
  check_equal(rule("sum", add(matmul(x, z), matmul(y, v)) == matmul(concat(x, y, axis = 1), concat(z, v, axis = 0)))
                  .when(rank(x) == 2, rank(z) == 2, rank(y) == 2, rank(v) == 2),
              "rule sum add(matmul(?x, ?z), matmul(?y, ?v)) == matmul(concat{axis=1}(?x, ?y), concat{axis=0}(?z, ?v)) "
              "if rank(?x) == 2, rank(?z) == 2, rank(?y) == 2, rank(?v) == 2");
  check_equal(rule("parts", all(relu(split(x, axis = a, sizes = s)[each])) >> split(relu(x), axis = a, sizes = s)),
              "rule parts relu(split{axis=?a, sizes=?s}(?x).*)... => split{axis=?a, sizes=?s}(relu(?x))");
  check_equal(rule("joined", concat(all(split(x, axis = a, sizes = s)[each]), axis = a) >> x),
              "rule joined concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x");
  check_equal(rule("siblings", outputs(tanh(x), tanh(y)) >>
                                   split(tanh(concat(x, y, axis = 0)), axis = 0, sizes = {size(x, 0), size(y, 0)})),
              "rule siblings (tanh(?x), tanh(?y)) => "
              "split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(tanh(concat{axis=0}(?x, ?y)))");
  check_equal(rule("transposes", transpose(transpose(x, permutation = p), permutation = s) >>
                                     transpose(x, permutation = compose(s, p))),
              "rule transposes transpose{permutation=?s}(transpose{permutation=?p}(?x)) => "
              "transpose{permutation=compose(?s, ?p)}(?x)");
  check_equal(rule("relu_into_conv", relu(conv2d(x, y, stride = s, padding = p, groups = g)) >>
                                         conv2d(x, y, stride = s, padding = p, groups = g, activation = "relu"))
                  .only_for("inference")
                  .when(p == "same", is_constant(y) == 1, length(shape_of(x)) == 4, dtype_of(x) == dtype_of(y)),
              "rule relu_into_conv relu(conv2d{stride=?s, padding=?p, groups=?g}(?x, ?y)) => "
              "conv2d{stride=?s, padding=?p, groups=?g, activation=relu}(?x, ?y) safe inference "
              "if ?p == same, constant(?y) == 1, length(shape(?x)) == 4, dtype(?x) == dtype(?y)");
  check_equal(rule("identity", matmul(x, identity_matrix(size = a)) >> x),
              "rule identity matmul(?x, identity_matrix{size=?a}()) => ?x");
  check_equal(rule("gates", outputs(lstm_cell(x, y, z, v, s, p)[0], lstm_cell(x, y, z, v, s, p)[1]) ==
                                lstm_cell(x, y, z, v, s, p)),
              "rule gates (lstm_cell(?x, ?y, ?z, ?v, ?s, ?p).0, lstm_cell(?x, ?y, ?z, ?v, ?s, ?p).1) == "
              "lstm_cell(?x, ?y, ?z, ?v, ?s, ?p)");
}

TEST_CASE("compile_rule refuses C++ terms that do not fit the algebra", "[terms]") {
  CHECK_THROWS_WITH(compile_rule(operators(), rule("short", matmul(x) >> x)), Catch::Contains("rule short"));
  CHECK_THROWS_WITH(compile_rule(operators(), rule("loose", relu(x) >> add(x, y))), Catch::Contains("?y"));
  CHECK_THROWS_WITH(compile_rule(operators(), rule("bare", x >> relu(x))), Catch::Contains("not a variable"));
}

TEST_CASE("every standard operator but opaque has a term function", "[terms]") {
  const std::vector<term> called{input(),
                                 weight(),
                                 constant(),
                                 fill(),
                                 pool_kernel(),
                                 identity_kernel(),
                                 identity_matrix(),
                                 matmul(),
                                 linear(),
                                 conv2d(),
                                 attention(),
                                 lstm_cell(),
                                 max_pool(),
                                 average_pool(),
                                 global_average_pool(),
                                 global_max_pool(),
                                 relu(),
                                 gelu(),
                                 unity::tensor::terms::tanh(),
                                 sigmoid(),
                                 unity::tensor::terms::exp(),
                                 unity::tensor::terms::log(),
                                 unity::tensor::terms::erf(),
                                 unity::tensor::terms::sqrt(),
                                 reciprocal(),
                                 negate(),
                                 unity::tensor::terms::abs(),
                                 identity(),
                                 cast(),
                                 dropout(),
                                 add(),
                                 sub(),
                                 mul(),
                                 unity::tensor::terms::div(),
                                 unity::tensor::terms::pow(),
                                 maximum(),
                                 minimum(),
                                 scalar_multiply(),
                                 softmax(),
                                 layer_norm(),
                                 batch_norm(),
                                 reduce_sum(),
                                 reduce_mean(),
                                 reduce_max(),
                                 concat(),
                                 split(),
                                 slice(),
                                 pad(),
                                 enlarge(),
                                 transpose(),
                                 reshape(),
                                 squeeze(),
                                 unsqueeze(),
                                 expand(),
                                 embedding(),
                                 embedding_bag(),
                                 incidence(),
                                 segment_sum(),
                                 segment_mean(),
                                 segment_max(),
                                 segment_softmax(),
                                 segment_weighted_sum(),
                                 unity::tensor::terms::sin(),
                                 unity::tensor::terms::cos(),
                                 unity::tensor::terms::tan(),
                                 sign(),
                                 unity::tensor::terms::floor(),
                                 unity::tensor::terms::ceil(),
                                 unity::tensor::terms::round(),
                                 clip(),
                                 integer_div(),
                                 mod(),
                                 leaky_relu(),
                                 prelu(),
                                 elu(),
                                 selu(),
                                 celu(),
                                 thresholded_relu(),
                                 shrink(),
                                 hard_sigmoid(),
                                 hard_swish(),
                                 softplus(),
                                 softsign(),
                                 mish(),
                                 swish(),
                                 gelu_tanh(),
                                 equal(),
                                 less(),
                                 less_or_equal(),
                                 greater(),
                                 greater_or_equal(),
                                 logical_and(),
                                 logical_or(),
                                 logical_xor(),
                                 logical_not(),
                                 is_nan(),
                                 is_inf(),
                                 where(),
                                 linear_index(),
                                 scatter_sum(),
                                 gather(),
                                 gather_elements(),
                                 gather_nd(),
                                 scatter_elements(),
                                 scatter_nd(),
                                 one_hot_values(),
                                 tile(),
                                 strided_slice(),
                                 border_pad(),
                                 depth_to_space(),
                                 space_to_depth(),
                                 trilu(),
                                 eye_like(),
                                 rnn(),
                                 gru(),
                                 lstm(),
                                 conv2d_transpose(),
                                 conv_transpose(),
                                 einsum(),
                                 resize(),
                                 dequantize(),
                                 quantize(),
                                 dynamic_quantize(),
                                 integer_matmul(),
                                 integer_conv2d(),
                                 quantized_matmul(),
                                 quantized_conv2d(),
                                 top_elements(),
                                 unity::tensor::terms::reduce_min(),
                                 unity::tensor::terms::reduce_prod(),
                                 unity::tensor::terms::reduce_l1(),
                                 unity::tensor::terms::reduce_l2(),
                                 unity::tensor::terms::reduce_sum_square(),
                                 unity::tensor::terms::reduce_log_sum(),
                                 unity::tensor::terms::reduce_log_sum_exp(),
                                 unity::tensor::terms::arg_max(),
                                 unity::tensor::terms::arg_min(),
                                 unity::tensor::terms::hardmax(),
                                 unity::tensor::terms::cumulative_sum(),
                                 unity::tensor::terms::is_position(),
                                 unity::tensor::terms::equal_positions(),
                                 unity::tensor::terms::log_softmax(),
                                 unity::tensor::terms::flat_softmax(),
                                 unity::tensor::terms::instance_norm(),
                                 unity::tensor::terms::group_norm(),
                                 unity::tensor::terms::rms_norm(),
                                 unity::tensor::terms::local_response_norm(),
                                 unity::tensor::terms::lp_norm(),
                                 unity::tensor::terms::mean_variance_norm(),
                                 unity::tensor::terms::negative_log_likelihood(),
                                 unity::tensor::terms::softmax_cross_entropy(),
                                 unity::tensor::terms::dot_product_attention(),
                                 unity::tensor::terms::rotary_embedding(),
                                 unity::tensor::terms::lower_triangle()};
  std::set<std::string> names;
  for (const auto& t : called) {
    CHECK(operators().find_kind(t.tree.name).has_value());
    names.insert(t.tree.name);
  }
  names.insert("opaque");  // never matched by rules
  for (std::size_t k = 0; k < operators().kind_count(); ++k) {
    INFO(operators().signature(unity::kind_id{k}).name);
    CHECK(names.contains(operators().signature(unity::kind_id{k}).name));
  }
}

TEST_CASE("every attribute of a standard operator but opaque has a term name", "[terms]") {
  std::set<std::string> names{"signature", "elements"};  // of opaque
  for (const auto& key : {activation,
                          axes,
                          axis,
                          ceil_mode,
                          channels,
                          unity::tensor::terms::count,
                          count_include_pad,
                          dilation,
                          dims,
                          edges,
                          element,
                          ends,
                          epsilon,
                          groups,
                          heads,
                          keep_dims,
                          kernel,
                          largest,
                          name,
                          padding,
                          pads,
                          permutation,
                          rate,
                          seed,
                          static_cast<const attribute_name&>(size),
                          sizes,
                          starts,
                          steps,
                          stride,
                          value,
                          alpha,
                          beta,
                          bias,
                          high,
                          low,
                          negative,
                          positive,
                          scale,
                          threshold,
                          truncated,
                          batch,
                          block,
                          coordinates,
                          counts,
                          depth,
                          direction,
                          equation,
                          initial_c,
                          initial_h,
                          k,
                          mode,
                          order,
                          output_padding,
                          reduction,
                          repeats,
                          reset_after,
                          rounding,
                          rows,
                          start,
                          strides,
                          upper,
                          causal,
                          columns,
                          exclusive,
                          function,
                          ignored,
                          ignores,
                          interleaved,
                          key_heads,
                          last,
                          unity::tensor::terms::p,
                          reverse}) {
    names.insert(key.name);
  }
  for (std::size_t k = 0; k < operators().kind_count(); ++k) {
    for (const auto& attribute : operators().signature(unity::kind_id{k}).attributes) {
      INFO(attribute.name);
      CHECK(names.contains(attribute.name));
    }
  }
}

}  // namespace tests_of_terms
