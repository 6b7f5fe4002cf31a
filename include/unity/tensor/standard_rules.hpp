// The shipped rules of tensor graphs, as text. Over 500 lines because it holds many rules.
// The program generate_rules prints it: generate_rules --shipped standard.
#pragma once

#include <string_view>

namespace unity::tensor {

// Longer than the string literals that every compiler must support; the supported compilers accept it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
// Read it with parse_rules (rewrite/parse.hpp) and compile it for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view standard_rules =
    R"rules(# Substitutions of tensor graphs: the rules that an optimizer uses where it is given no others.
#
# The format is told in docs/formats.md. `proved` names the properties of operators (axioms.hpp) that a rule follows
# from, as the program verify_rules finds; tests besides try each rule on shapes and values.
#
# They hold every true rewrite of TASO's published set: test/io/published_rules.cpp derives each. A direction that would
# only undo another rule is left out where nothing is known to need it: a move that saves nothing makes searches longer.
# Some rules do in one step what others do in several of which the first saves nothing.

# 1. What does nothing, or undoes what was just done. No rule applies where it would change a type: a slice, reshape or
# cast that leaves the type as it is leaves all as it is.
rule identity
  identity(?x) => ?x
  proved "z3 4.8.12" by identity_of_x
rule dropout
  dropout{..}(?x) => ?x
  safe inference
  proved "z3 4.8.12" by dropout_of_x
rule cast_same
  cast{..}(?x) => ?x
  proved "z3 4.8.12" by cast_same
rule transpose_same
  transpose{permutation=?p}(?x) => ?x
  if ?p == iota(rank(?x))
  proved "z3 4.8.12" by transpose_same
rule transpose_twice
  transpose{permutation=?p}(transpose{permutation=?q}(?x)) => transpose{permutation=compose(?p, ?q)}(?x)
  proved "z3 4.8.12" by transpose_same, transpose_twice
rule reshape_same
  reshape{..}(?x) => ?x
  proved "z3 4.8.12" by reshape_same
rule reshape_twice
  reshape{dims=?d}(reshape{dims=?e}(?x)) => reshape{dims=?d}(?x)
  proved "z3 4.8.12" by reshape_same, reshape_twice
rule reshape_of_squeeze
  reshape{dims=?d}(squeeze{axes=?e}(?x)) => reshape{dims=?d}(?x)
  proved "z3 4.8.12" by reshape_of_squeeze
rule reshape_of_unsqueeze
  reshape{dims=?d}(unsqueeze{axes=?e}(?x)) => reshape{dims=?d}(?x)
  proved "z3 4.8.12" by reshape_of_squeeze, squeeze_of_unsqueeze
rule squeeze_of_unsqueeze
  squeeze{axes=?a}(unsqueeze{axes=?a}(?x)) => ?x
  proved "z3 4.8.12" by squeeze_of_unsqueeze
rule unsqueeze_of_squeeze
  unsqueeze{axes=?a}(squeeze{axes=?a}(?x)) => ?x
  proved "z3 4.8.12" by unsqueeze_of_squeeze
rule expand_same
  expand{..}(?x) => ?x
  proved "z3 4.8.12" by expand_same
rule expand_in_add
  add(?x, expand{..}(?y)) => add(?x, ?y)
  proved "z3 4.8.12" by expand_of_sum, expand_same
rule expand_in_mul
  mul(?x, expand{..}(?y)) => mul(?x, ?y)
  proved "z3 4.8.12" by expand_in_product, expand_same
rule pad_nothing
  pad{..}(?x) => ?x
  proved "z3 4.8.12" by pad_nothing
rule enlarge_same
  enlarge{..}(?w) => ?w
  proved "z3 4.8.12" by enlarge_same
rule slice_whole
  slice{..}(?x) => ?x
  proved "z3 4.8.12" by slice_whole
rule slice_twice
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(slice{axes=?a, starts=?b, ends=?c, steps=?d}(?x))
    => slice{axes=?a, starts=?b + ?s * ?d, ends=?b + (?e - 1) * ?d + 1, steps=?t * ?d}(?x)
  proved "z3 4.8.12" by slice_twice, slice_whole
rule relu_twice
  relu(relu(?x)) => relu(?x)
  proved "z3 4.8.12" by relu_twice
rule negate_twice
  negate(negate(?x)) => ?x
  proved "z3 4.8.12" by negate_twice
rule mul_by_ones
  mul(?x, fill{value=1.0, ..}()) => ?x
  proved "z3 4.8.12" by ones_in_product
rule div_by_ones
  div(?x, fill{value=1.0, ..}()) => ?x
  proved "z3 4.8.12" by division, ones_in_product, reciprocal_of_ones
rule add_zeros
  add(?x, fill{value=0.0, ..}()) => ?x
  proved "z3 4.8.12" by zeros_in_sum
rule sub_zeros
  sub(?x, fill{value=0.0, ..}()) => ?x
  proved "z3 4.8.12" by leading_one_in_sum, negate_of_sum, negate_twice, reshape_of_fill, single_in_sum, subtraction,
    zeros_in_sum
rule pow_one
  pow(?x, fill{value=1.0, ..}()) => ?x
  proved "z3 4.8.12" by power_one
rule scale_by_one
  scalar_multiply(?x, fill{value=1.0, ..}()) => ?x
  proved "z3 4.8.12" by ones_in_product, scaling
rule matmul_identity_right
  matmul(?x, identity_matrix{size=?n}()) => ?x
  proved "z3 4.8.12" by matmul_identity_right
rule matmul_identity_left
  matmul(identity_matrix{size=?n}(), ?x) => ?x
  proved "z3 4.8.12" by matmul_identity_left
rule conv_identity
  conv2d{padding=?p, dilation=?d, groups=?g}(?x, identity_kernel{channels=?c, groups=?g, kernel=?k}()) => ?x
  if ?p == same || ?p == same_lower
  proved "z3 4.8.12" by conv_identity, conv_same, conv_same_lower, pad_nothing, slice_of_pad, slice_whole
rule pool_identity
  max_pool{kernel=[1, 1], ..}(?x) => ?x
  proved "z3 4.8.12" by max_pool_of_one

# 2. One spelling for what can be spelled in several ways.
rule linear_without_bias
  linear{activation=?a}(?x, ?w) => matmul{activation=?a}(?x, ?w)
  proved "z3 4.8.12" by linear_is_matmul
rule mul_by_scalar
  mul(?x, ?s) => scalar_multiply(?x, ?s)
  if rank(?s) == 0, constant(?x) == 0
  proved "z3 4.8.12" by scaling
rule mul_by_single
  mul(?x, ?s) => scalar_multiply(?x, reshape{dims=[]}(?s))
  if rank(?s) > 0, rank(?s) <= rank(?x), product(shape(?s)) == 1, constant(?x) == 0
  proved "z3 4.8.12" by scaling, single_in_product
rule div_by_constant
  div(?x, ?c) => mul(?x, reciprocal(?c))
  if constant(?c) == 1, constant(?x) == 0
  proved "z3 4.8.12" by division
rule sub_constant
  sub(?x, ?c) => add(?x, negate(?c))
  if constant(?c) == 1, constant(?x) == 0
  proved "z3 4.8.12" by subtraction
rule square
  pow(?x, fill{value=2.0, ..}()) => mul(?x, ?x)
  proved "z3 4.8.12" by square
rule square_root
  pow(?x, fill{value=0.5, ..}()) => sqrt(?x)
  proved "z3 4.8.12" by square_root

# 3. Activations into the operators that can apply them. A pool with dilation can have windows of padding alone, whose
# maximum is not a number: relu does not move past it.
rule relu_into_matmul
  relu(matmul(?x, ?w)) => matmul{activation=relu}(?x, ?w)
  proved "z3 4.8.12" by matmul_relu
rule relu_into_linear
  relu(linear(?x, ?w, ?b)) => linear{activation=relu}(?x, ?w, ?b)
  proved "z3 4.8.12" by linear_relu
rule relu_into_conv
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?w)
  proved "z3 4.8.12" by conv_relu
rule relu_into_conv_bias
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?w, ?b)
  proved "z3 4.8.12" by conv_bias_relu
rule sigmoid_into_matmul
  sigmoid(matmul(?x, ?w)) => matmul{activation=sigmoid}(?x, ?w)
  proved "z3 4.8.12" by matmul_sigmoid
rule sigmoid_into_linear
  sigmoid(linear(?x, ?w, ?b)) => linear{activation=sigmoid}(?x, ?w, ?b)
  proved "z3 4.8.12" by linear_sigmoid
rule sigmoid_into_conv
  sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=sigmoid}(?x, ?w)
  proved "z3 4.8.12" by conv_sigmoid
rule sigmoid_into_conv_bias
  sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=sigmoid}(?x, ?w, ?b)
  proved "z3 4.8.12" by conv_bias_sigmoid
rule tanh_into_matmul
  tanh(matmul(?x, ?w)) => matmul{activation=tanh}(?x, ?w)
  proved "z3 4.8.12" by matmul_tanh
rule tanh_into_linear
  tanh(linear(?x, ?w, ?b)) => linear{activation=tanh}(?x, ?w, ?b)
  proved "z3 4.8.12" by linear_tanh
rule tanh_into_conv
  tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=tanh}(?x, ?w)
  proved "z3 4.8.12" by conv_tanh
rule tanh_into_conv_bias
  tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=tanh}(?x, ?w, ?b)
  proved "z3 4.8.12" by conv_bias_tanh
rule gelu_into_matmul
  gelu(matmul(?x, ?w)) => matmul{activation=gelu}(?x, ?w)
  proved "z3 4.8.12" by matmul_gelu
rule gelu_into_linear
  gelu(linear(?x, ?w, ?b)) => linear{activation=gelu}(?x, ?w, ?b)
  proved "z3 4.8.12" by linear_gelu
rule gelu_into_conv
  gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=gelu}(?x, ?w)
  proved "z3 4.8.12" by conv_gelu
rule gelu_into_conv_bias
  gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=gelu}(?x, ?w, ?b)
  proved "z3 4.8.12" by conv_bias_gelu
rule relu_before_max_pool
  max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c}(relu(?x))
    == relu(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c}(?x))
  proved "z3 4.8.12" by max_pool_of_relu

# 4. Biases.
rule bias_of_matmul
  add(matmul(?x, ?w), ?b) => linear(?x, ?w, ?b)
  if rank(?w) == 2, rank(?b) == 1, size(?b, 0) == size(?w, 1)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul
rule row_bias_of_matmul
  add(matmul(?x, ?w), ?b) => linear(?x, ?w, reshape{dims=[size(?w, 1)]}(?b))
  if rank(?w) == 2, constant(?b) == 1, rank(?b) > 1, rank(?b) <= rank(?x),
     shape(?b) == concat(repeat(1, rank(?b) - 1), [size(?w, 1)])
  proved "z3 4.8.12" by leading_one_in_sum, linear_bias, linear_is_matmul, reshape_twice, single_in_sum
rule bias_of_linear
  add(linear(?x, ?w, ?b), ?c) => linear(?x, ?w, add(?b, ?c))
  if rank(?c) == 1, size(?c, 0) == size(?w, 1)
  proved "z3 4.8.12" by add_associates, linear_bias
rule second_bias_of_conv
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b), ?c)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w,
        add(?b, reshape{dims=[size(?w, 0)]}(?c)))
  if rank(?c) == 3 || rank(?c) == 4 && size(?c, 0) == 1, size(?c, -3) == size(?w, 0),
     product(shape(?c)) == size(?w, 0), constant(?c) == 1
  proved "z3 4.8.12" by add_associates, conv_bias, leading_one_in_sum, reshape_of_sum, reshape_same, reshape_shifted,
    reshape_twice, single_in_sum
rule bias_of_conv
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?c)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, reshape{dims=[size(?w, 0)]}(?c))
  if rank(?c) == 3 || rank(?c) == 4 && size(?c, 0) == 1, size(?c, -3) == size(?w, 0),
     product(shape(?c)) == size(?w, 0), constant(?c) == 1
  proved "z3 4.8.12" by conv_bias, leading_one_in_sum, reshape_same, reshape_twice, single_in_sum
rule biased_siblings
  add(matmul(?x, ??w), ??b)...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(linear(?x, concat{axis=1}(??w...), concat{axis=0}(??b...)))
  if rank(??w) == 2, rank(??b) == 1, size(??b, 0) == size(??w, 1)
  proved "z3 4.8.12" by concat_of_sums, linear_bias, linear_is_matmul, matmul_concat_columns,
    matmul_concat_matrix_columns, split_of_concat
rule biased_parts
  add(split{axis=?a, sizes=?s}(?x).*, ??b)... => split{axis=?a, sizes=?s}(add(?x, concat{axis=0}(??b...)))
  if ?a == rank(?x) - 1, rank(??b) == 1, [size(??b, 0)...] == ?s
  proved "z3 4.8.12" by concat_of_split, concat_of_sums, split_of_concat
rule relu_of_biased_siblings
  relu(add(matmul(?x, ??w), ??b))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(linear{activation=relu}(?x, concat{axis=1}(??w...),
        concat{axis=0}(reshape{dims=[size(??w, 1)]}(??b)...)))
  if rank(??w) == 2, constant(??b) == 1, rank(??b) > 0, rank(??b) <= rank(?x),
     shape(??b) == concat(repeat(1, rank(??b) - 1), [size(??w, 1)])
  proved "z3 4.8.12" by concat_of_relu, concat_of_rows, concat_of_sums, leading_one_in_sum, linear_bias,
    linear_is_matmul, linear_relu, matmul_concat_columns, matmul_concat_matrix_columns, reshape_same, reshape_twice,
    single_in_sum, split_of_concat
rule sigmoid_of_biased_siblings
  sigmoid(add(matmul(?x, ??w), ??b))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(linear{activation=sigmoid}(?x, concat{axis=1}(??w...),
        concat{axis=0}(reshape{dims=[size(??w, 1)]}(??b)...)))
  if rank(??w) == 2, constant(??b) == 1, rank(??b) > 0, rank(??b) <= rank(?x),
     shape(??b) == concat(repeat(1, rank(??b) - 1), [size(??w, 1)])
  proved "z3 4.8.12" by concat_of_rows, concat_of_sigmoid, concat_of_sums, leading_one_in_sum, linear_bias,
    linear_is_matmul, linear_sigmoid, matmul_concat_columns, matmul_concat_matrix_columns, reshape_same, reshape_twice,
    single_in_sum, split_of_concat
rule tanh_of_biased_siblings
  tanh(add(matmul(?x, ??w), ??b))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(linear{activation=tanh}(?x, concat{axis=1}(??w...),
        concat{axis=0}(reshape{dims=[size(??w, 1)]}(??b)...)))
  if rank(??w) == 2, constant(??b) == 1, rank(??b) > 0, rank(??b) <= rank(?x),
     shape(??b) == concat(repeat(1, rank(??b) - 1), [size(??w, 1)])
  proved "z3 4.8.12" by concat_of_rows, concat_of_sums, concat_of_tanh, leading_one_in_sum, linear_bias,
    linear_is_matmul, linear_tanh, matmul_concat_columns, matmul_concat_matrix_columns, reshape_same, reshape_twice,
    single_in_sum, split_of_concat
rule gelu_of_biased_siblings
  gelu(add(matmul(?x, ??w), ??b))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(linear{activation=gelu}(?x, concat{axis=1}(??w...),
        concat{axis=0}(reshape{dims=[size(??w, 1)]}(??b)...)))
  if rank(??w) == 2, constant(??b) == 1, rank(??b) > 0, rank(??b) <= rank(?x),
     shape(??b) == concat(repeat(1, rank(??b) - 1), [size(??w, 1)])
  proved "z3 4.8.12" by concat_of_gelu, concat_of_rows, concat_of_sums, leading_one_in_sum, linear_bias, linear_gelu,
    linear_is_matmul, matmul_concat_columns, matmul_concat_matrix_columns, reshape_same, reshape_twice, single_in_sum,
    split_of_concat

# 5. Matrix products: order, sums, factors. Cells of recurrent networks have many sums of two products under the same
# activation: they are joined in one step, as joining the products first would leave the sums apart.
rule matmul_assoc
  matmul{activation=?a}(?x, matmul(?y, ?z)) == matmul{activation=?a}(matmul(?x, ?y), ?z)
  proved "z3 4.8.12" by matmul_associates, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule linear_of_matmul
  linear{activation=?a}(matmul(?x, ?w), ?v, ?b) => linear{activation=?a}(?x, matmul(?w, ?v), ?b)
  if rank(?w) == 2
  proved "z3 4.8.12" by linear_bias, linear_gelu, linear_is_matmul, linear_relu, linear_sigmoid, linear_tanh,
    matmul_associates
rule matmul_of_linear
  matmul{activation=?a}(linear(?x, ?w, ?b), ?v) => linear{activation=?a}(?x, matmul(?w, ?v), linear(?b, ?v))
  if rank(?v) == 2
  proved "z3 4.8.12" by leading_one_in_sum, linear_bias, linear_gelu, linear_is_matmul, linear_of_vector, linear_relu,
    linear_sigmoid, linear_tanh, matmul_associates, matmul_distributes_left, matmul_gelu, matmul_relu, matmul_sigmoid,
    matmul_tanh, reshape_same, reshape_twice, single_in_sum
rule linear_of_linear
  linear{activation=?a}(linear(?x, ?w, ?b), ?v, ?c) => linear{activation=?a}(?x, matmul(?w, ?v), linear(?b, ?v, ?c))
  proved "z3 4.8.12" by add_associates, leading_one_in_sum, linear_bias, linear_gelu, linear_is_matmul,
    linear_of_vector, linear_relu, linear_sigmoid, linear_tanh, matmul_associates, matmul_distributes_left,
    reshape_of_sum, reshape_same, reshape_shifted, reshape_twice, single_in_sum
rule matmul_of_sum_right
  matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z))
  proved "z3 4.8.12" by matmul_distributes_right
rule matmul_of_sum_left
  matmul(add(?x, ?y), ?z) == add(matmul(?x, ?z), matmul(?y, ?z))
  proved "z3 4.8.12" by matmul_distributes_left
rule sum_of_products
  add(matmul(?x, ?w), matmul(?y, ?v)) => matmul(concat{axis=rank(?x) - 1}(?x, ?y), concat{axis=rank(?w) - 2}(?w, ?v))
  proved "z3 4.8.12" by matmul_of_concat
rule sum_with_linear
  add(linear(?x, ?w, ?b), matmul(?y, ?v)) => linear(concat{axis=rank(?x) - 1}(?x, ?y), concat{axis=0}(?w, ?v), ?b)
  proved "z3 4.8.12" by add_associates, linear_bias, linear_is_matmul, matmul_of_concat, single_in_sum
rule sum_of_linears
  add(linear(?x, ?w, ?b), linear(?y, ?v, ?c))
    => linear(concat{axis=rank(?x) - 1}(?x, ?y), concat{axis=0}(?w, ?v), add(?b, ?c))
  proved "z3 4.8.12" by add_associates, linear_bias, linear_is_matmul, linear_of_vector, matmul_of_concat,
    reshape_of_sum, row_of_concat, single_in_sum
rule relu_of_sums
  relu(add(matmul(?x, ??w), matmul(?y, ??v)))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(matmul{activation=relu}(concat{axis=rank(?x) - 1}(?x, ?y),
        concat{axis=0}(concat{axis=1}(??w...), concat{axis=1}(??v...))))
  if rank(??w) == 2, rank(??v) == 2
  proved "z3 4.8.12" by concat_interchange, concat_of_relu, matmul_concat_columns, matmul_of_concat, matmul_relu,
    split_of_concat
rule sigmoid_of_sums
  sigmoid(add(matmul(?x, ??w), matmul(?y, ??v)))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(matmul{activation=sigmoid}(concat{axis=rank(?x) - 1}(?x, ?y),
        concat{axis=0}(concat{axis=1}(??w...), concat{axis=1}(??v...))))
  if rank(??w) == 2, rank(??v) == 2
  proved "z3 4.8.12" by concat_interchange, concat_of_sigmoid, matmul_concat_columns, matmul_of_concat, matmul_sigmoid,
    split_of_concat
rule tanh_of_sums
  tanh(add(matmul(?x, ??w), matmul(?y, ??v)))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(matmul{activation=tanh}(concat{axis=rank(?x) - 1}(?x, ?y),
        concat{axis=0}(concat{axis=1}(??w...), concat{axis=1}(??v...))))
  if rank(??w) == 2, rank(??v) == 2
  proved "z3 4.8.12" by concat_interchange, concat_of_tanh, matmul_concat_columns, matmul_of_concat, matmul_tanh,
    split_of_concat
rule gelu_of_sums
  gelu(add(matmul(?x, ??w), matmul(?y, ??v)))...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(matmul{activation=gelu}(concat{axis=rank(?x) - 1}(?x, ?y),
        concat{axis=0}(concat{axis=1}(??w...), concat{axis=1}(??v...))))
  if rank(??w) == 2, rank(??v) == 2
  proved "z3 4.8.12" by concat_interchange, concat_of_gelu, matmul_concat_columns, matmul_gelu, matmul_of_concat,
    split_of_concat

# 6. Matrix products that share an operand.
rule matmul_siblings
  matmul{activation=?a}(?x, ??w)...
    => split{axis=rank(?x) - 1, sizes=[size(??w, -1)...]}(matmul{activation=?a}(?x, concat{axis=rank(?x) - 1}(
        ??w...)))
  if rank(??w) == rank(?x)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_columns,
    matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule matmul_rows_siblings
  matmul{activation=?a}(?x, ??w)...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(matmul{activation=?a}(?x, concat{axis=1}(??w...)))
  if rank(??w) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_matrix_columns,
    matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule linear_siblings
  linear{activation=?a}(?x, ??w, ??b)...
    => split{axis=rank(?x) - 1, sizes=[size(??w, 1)...]}(linear{activation=?a}(?x, concat{axis=1}(??w...),
        concat{axis=0}(??b...)))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_rows, concat_of_sigmoid, concat_of_sums,
    concat_of_tanh, linear_bias, linear_gelu, linear_is_matmul, linear_of_vector, linear_relu, linear_sigmoid,
    linear_tanh, matmul_concat_columns, matmul_concat_matrix_columns, split_of_concat
rule matmul_left_siblings
  matmul{activation=?a}(??x, ?w)...
    => split{axis=rank(?w) - 2, sizes=[size(??x, -2)...]}(matmul{activation=?a}(concat{axis=rank(?w) - 2}(??x...),
        ?w))
  if rank(??x) == rank(?w)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_rows,
    matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule linear_left_siblings
  linear{activation=?a}(??x, ?w, ?b)...
    => split{axis=0, sizes=[size(??x, 0)...]}(linear{activation=?a}(concat{axis=0}(??x...), ?w, ?b))
  if rank(??x) > 1
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_shifted, concat_of_sigmoid, concat_of_tanh,
    linear_bias, linear_gelu, linear_is_matmul, linear_relu, linear_sigmoid, linear_tanh, matmul_concat_rows,
    split_of_concat
rule concat_of_matmuls
  concat{axis=?c}(matmul{activation=?a}(?x, ??w)...) == matmul{activation=?a}(?x, concat{axis=?c}(??w...))
  if rank(??w) == rank(?x), ?c == rank(?x) - 1
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh,
    matmul_concat_columns, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule concat_of_left_matmuls
  concat{axis=?c}(matmul{activation=?a}(??x, ?w)...) == matmul{activation=?a}(concat{axis=?c}(??x...), ?w)
  if rank(?w) == 2, ?c < rank(??x) - 1
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh,
    matmul_concat_rows, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh

# 7. Convolutions: sums and factors. Where channels are joined, groups must be 1.
rule conv_of_sum
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(add(?x, ?y), ?w)
    == add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w),
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?y, ?w))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by conv_distributes
rule conv_of_kernel_sum
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?w, ?v))
    == add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w),
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?v))
  if shape(?w) == shape(?v)
  proved "z3 4.8.12" by conv_distributes_over_kernels
rule conv_of_kernel_sum_bias
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b),
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?v))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?w, ?v), ?b)
  if shape(?w) == shape(?v)
  proved "z3 4.8.12" by add_associates, conv_bias, conv_distributes_over_kernels
rule conv_of_kernel_sum_biases
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b),
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?v, ?c))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?w, ?v), add(?b, ?c))
  if shape(?w) == shape(?v)
  proved "z3 4.8.12" by add_associates, conv_bias, conv_distributes_over_kernels, reshape_of_sum
rule conv_of_enlarged_kernel
  conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(?x, enlarge{kernel=?k}(?w))
    => conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(?x, ?w)
  if ?p == same || ?p == same_lower, suffix(shape(?w), 2) >= ?s
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid,
    conv_strided, conv_tanh, enlarge_same, slice_of_conv
rule conv_of_enlarged_kernel_sum
  add(conv2d{stride=?s, padding=?p, groups=?g}(?x, ?w), conv2d{stride=?s, padding=?p, groups=?g}(?x, ?v))
    => conv2d{stride=?s, padding=?p, groups=?g}(?x, add(enlarge{kernel=suffix(shape(?v), 2)}(?w), ?v))
  if ?p == same || ?p == same_lower, suffix(shape(?w), 2) <= suffix(shape(?v), 2),
     suffix(shape(?w), 2) != suffix(shape(?v), 2), suffix(shape(?w), 2) >= ?s, size(?w, 0) == size(?v, 0)
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_enlarged_kernel, conv_same, conv_same_lower, conv_strided,
    slice_of_conv
rule conv_sum
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ?w),
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ?v))
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(concat{axis=1}(?x, ?y), concat{axis=1}(?w, ?v))
  if size(?x, 1) == size(?w, 1), shape(?x) == replace(shape(?y), 1, size(?x, 1))
  proved "z3 4.8.12" by conv_of_concat
rule conv_sum_bias
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ?w, ?b),
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ?v))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(concat{axis=1}(?x, ?y), concat{axis=1}(?w, ?v), ?b)
  if shape(?x) == replace(shape(?y), 1, size(?x, 1))
  proved "z3 4.8.12" by add_associates, conv_bias, conv_of_concat
rule conv_sum_biases
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ?w, ?b),
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ?v, ?c))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(concat{axis=1}(?x, ?y), concat{axis=1}(?w, ?v),
        add(?b, ?c))
  if shape(?x) == replace(shape(?y), 1, size(?x, 1))
  proved "z3 4.8.12" by add_associates, conv_bias, conv_of_concat, reshape_of_sum
rule conv_after_pointwise
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(conv2d(?x, ?w), ?v)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x,
        conv2d(?v, transpose{permutation=[1, 0, 2, 3]}(?w)))
  if suffix(shape(?w), 2) == [1, 1]
  proved "z3 4.8.12" by conv_after_pointwise, conv_gelu, conv_relu, conv_sigmoid, conv_tanh
rule pointwise_after_conv
  conv2d{activation=?a}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ?w), ?v)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, transpose{permutation=[1, 0, 2, 3]}(
        conv2d(transpose{permutation=[1, 0, 2, 3]}(?w), ?v)))
  if suffix(shape(?v), 2) == [1, 1]
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_sigmoid, conv_tanh, pointwise_after_conv
rule pad_into_conv
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(pad{pads=?r, value=0.0}(?x), ?w)
    => conv2d{stride=?s, pads=?q + [at(?r, 2), at(?r, 3), at(?r, 6), at(?r, 7)], dilation=?d, groups=?g,
        activation=?a}(?x, ?w)
  if ?p == explicit || ?p == valid, at(?r, 0) + at(?r, 1) + at(?r, 4) + at(?r, 5) == 0
  proved "z3 4.8.12" by conv_gelu, conv_of_pad, conv_relu, conv_sigmoid, conv_tanh, conv_valid, pad_nothing
rule pad_into_conv_bias
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(pad{pads=?r, value=0.0}(?x), ?w, ?b)
    => conv2d{stride=?s, pads=?q + [at(?r, 2), at(?r, 3), at(?r, 6), at(?r, 7)], dilation=?d, groups=?g,
        activation=?a}(?x, ?w, ?b)
  if ?p == explicit || ?p == valid, at(?r, 0) + at(?r, 1) + at(?r, 4) + at(?r, 5) == 0
  proved "z3 4.8.12" by conv_bias, conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_of_pad, conv_valid,
    pad_nothing
rule residual_into_conv
  add(conv2d{padding=?p, dilation=?d, groups=?g}(?x, ?w), ?x)
    => conv2d{padding=?p, dilation=?d, groups=?g}(?x,
        add(?w, identity_kernel{channels=size(?x, 1), groups=?g, kernel=suffix(shape(?w), 2)}()))
  if ?p == same || ?p == same_lower, size(?w, 0) == size(?x, 1), size(?w, 1) * ?g == size(?x, 1), dtype(?w) == 0
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_identity, conv_same, conv_same_lower, pad_nothing,
    slice_of_pad, slice_whole
rule residual_into_padded_conv
  add(conv2d{pads=?q, dilation=?d, groups=?g}(?x, ?w), ?x)
    => conv2d{pads=?q, dilation=?d, groups=?g}(?x,
        add(?w, identity_kernel{channels=size(?x, 1), groups=?g, kernel=suffix(shape(?w), 2)}()))
  if size(?w, 0) == size(?x, 1), ?q == [?d * (suffix(shape(?w), 2) / 2), ?d * (suffix(shape(?w), 2) / 2)],
     dtype(?w) == 0
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_identity, conv_of_one_weight_a_channel, conv_scales_kernel,
    mul_distributes, pad_nothing, reshape_shifted, single_in_product, single_in_sum, slice_of_pad, slice_whole,
    square_of_identity_kernel

# 8. Convolutions that share an operand.
rule conv_siblings
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, ??w)...
    => split{axis=1, sizes=[size(??w, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x,
        concat{axis=0}(??w...)))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels,
    conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule conv_bias_siblings
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, ??w, ??b)...
    => split{axis=1, sizes=[size(??w, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x,
        concat{axis=0}(??w...), concat{axis=0}(??b...)))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_sums, concat_of_tanh, conv_bias,
    conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_bias_tanh, conv_concat_kernels, reshape_of_concat,
    split_of_concat
rule conv_enlarged_siblings
  (conv2d{stride=?s, padding=?p, activation=?a}(?x, ?w), conv2d{stride=?s, padding=?p, activation=?a}(?x, ?v))
    => split{axis=1, sizes=[size(?w, 0), size(?v, 0)]}(conv2d{stride=?s, padding=?p, activation=?a}(?x,
        concat{axis=0}(enlarge{kernel=suffix(shape(?v), 2)}(?w), ?v)))
  if ?p == same || ?p == same_lower, suffix(shape(?w), 2) <= suffix(shape(?v), 2),
     suffix(shape(?w), 2) != suffix(shape(?v), 2), suffix(shape(?w), 2) >= ?s
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels,
    conv_enlarged_kernel, conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh,
    slice_of_conv, split_of_concat
rule conv_left_siblings
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(??x, ?w)...
    => split{axis=0, sizes=[size(??x, 0)...]}(
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(??x...), ?w))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_images,
    conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule conv_bias_left_siblings
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(??x, ?w, ?b)...
    => split{axis=0, sizes=[size(??x, 0)...]}(
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(??x...), ?w, ?b))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_shifted, concat_of_sigmoid, concat_of_tanh, conv_bias,
    conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_bias_tanh, conv_concat_images, split_of_concat
rule concat_of_convs
  concat{axis=1}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, ??w)...)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, concat{axis=0}(??w...))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh,
    conv_concat_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh
rule concat_of_left_convs
  concat{axis=0}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(??x, ?w)...)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(??x...), ?w)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh,
    conv_concat_images, conv_gelu, conv_relu, conv_sigmoid, conv_tanh

# 9. Grouped convolutions that share their input: kernels are interleaved group by group, results cut out again.
# (Joining the kernels one after the other, as with one group, would hand channels to the wrong groups.)
rule grouped_siblings_same
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, ??w)...
    => reshape{dims=[size(?x, 0), size(??w, 0),
           (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
         split{axis=2, sizes=[size(??w, 0) / ?g...]}(
           reshape{dims=[size(?x, 0), ?g, sum([size(??w, 0)...]) / ?g,
               (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
             conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x,
               reshape{dims=[sum([size(??w, 0)...]), suffix(prefix([shape(??w)...], 4), 1)]}(
                 concat{axis=1}(reshape{dims=[?g, size(??w, 0) / ?g, suffix(shape(??w), 1)]}(??w)...))))).*)...
  if ?g > 1, ?p == same || ?p == same_lower
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_gelu,
    conv_interleaved_kernels, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_tanh, reshape_of_gelu,
    reshape_of_relu, reshape_of_sigmoid, reshape_of_tanh, reshape_same, reshape_twice, split_of_concat
rule grouped_siblings_same_bias
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, ??w, ??b)...
    => reshape{dims=[size(?x, 0), size(??w, 0),
           (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
         split{axis=2, sizes=[size(??w, 0) / ?g...]}(
           reshape{dims=[size(?x, 0), ?g, sum([size(??w, 0)...]) / ?g,
               (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
             conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x,
               reshape{dims=[sum([size(??w, 0)...]), suffix(prefix([shape(??w)...], 4), 1)]}(
                 concat{axis=1}(reshape{dims=[?g, size(??w, 0) / ?g, suffix(shape(??w), 1)]}(??w)...)),
                 reshape{dims=[sum([size(??b, 0)...])]}(
                   concat{axis=1}(reshape{dims=[?g, size(??b, 0) / ?g]}(??b)...))))).*)...
  if ?g > 1, ?p == same || ?p == same_lower
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_sums,
    concat_of_tanh, conv_bias, conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_bias_tanh,
    conv_interleaved_kernels, conv_same, conv_same_lower, conv_strided, reshape_of_concat, reshape_of_gelu,
    reshape_of_relu, reshape_of_shifted_channels, reshape_of_sigmoid, reshape_of_tanh, reshape_same, reshape_twice,
    slice_of_pointwise, slice_whole, split_of_concat
rule grouped_siblings_padded
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ??w)...
    => reshape{dims=[size(?x, 0), size(??w, 0),
           (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - 1
                 - ?d * (suffix(prefix([shape(??w)...], 4), 2) - 1)) / ?s + 1]}(
         split{axis=2, sizes=[size(??w, 0) / ?g...]}(
           reshape{dims=[size(?x, 0), ?g, sum([size(??w, 0)...]) / ?g,
               (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - 1
                 - ?d * (suffix(prefix([shape(??w)...], 4), 2) - 1)) / ?s + 1]}(
             conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x,
               reshape{dims=[sum([size(??w, 0)...]), suffix(prefix([shape(??w)...], 4), 1)]}(
                 concat{axis=1}(reshape{dims=[?g, size(??w, 0) / ?g, suffix(shape(??w), 1)]}(??w)...))))).*)...
  if ?g > 1, ?p == explicit || ?p == valid
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_gelu,
    conv_interleaved_kernels, conv_relu, conv_sigmoid, conv_tanh, conv_valid, reshape_of_gelu, reshape_of_relu,
    reshape_of_sigmoid, reshape_of_tanh, reshape_same, reshape_twice, split_of_concat
rule grouped_siblings_padded_bias
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ??w, ??b)...
    => reshape{dims=[size(?x, 0), size(??w, 0),
           (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - 1
                 - ?d * (suffix(prefix([shape(??w)...], 4), 2) - 1)) / ?s + 1]}(
         split{axis=2, sizes=[size(??w, 0) / ?g...]}(
           reshape{dims=[size(?x, 0), ?g, sum([size(??w, 0)...]) / ?g,
               (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - 1
                 - ?d * (suffix(prefix([shape(??w)...], 4), 2) - 1)) / ?s + 1]}(
             conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x,
               reshape{dims=[sum([size(??w, 0)...]), suffix(prefix([shape(??w)...], 4), 1)]}(
                 concat{axis=1}(reshape{dims=[?g, size(??w, 0) / ?g, suffix(shape(??w), 1)]}(??w)...)),
                 reshape{dims=[sum([size(??b, 0)...])]}(
                   concat{axis=1}(reshape{dims=[?g, size(??b, 0) / ?g]}(??b)...))))).*)...
  if ?g > 1, ?p == explicit || ?p == valid
  proved "z3 4.8.12" by concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_sums,
    concat_of_tanh, conv_bias, conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_bias_tanh,
    conv_interleaved_kernels, conv_strided, conv_valid, reshape_of_concat, reshape_of_gelu, reshape_of_relu,
    reshape_of_shifted_channels, reshape_of_sigmoid, reshape_of_tanh, reshape_same, reshape_twice, slice_of_pointwise,
    split_of_concat
rule grouped_enlarged_siblings
  (conv2d{stride=?s, padding=?p, groups=?g}(?x, ?w),
   conv2d{stride=?s, padding=?p, groups=?g}(?x, ?v))
    => (reshape{dims=[size(?x, 0), size(?w, 0),
               (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
             split{axis=2, sizes=[size(?w, 0) / ?g, size(?v, 0) / ?g]}(
               reshape{dims=[size(?x, 0), ?g, size(?w, 0) / ?g + size(?v, 0) / ?g,
                   (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
                 conv2d{stride=?s, padding=?p, groups=?g}(?x,
                   reshape{dims=[size(?w, 0) + size(?v, 0), size(?w, 1), suffix(shape(?v), 2)]}(concat{axis=1}(
                     reshape{dims=[?g, size(?w, 0) / ?g, size(?w, 1), suffix(shape(?v), 2)]}(
                       enlarge{kernel=suffix(shape(?v), 2)}(?w)),
                     reshape{dims=[?g, size(?v, 0) / ?g, size(?w, 1), suffix(shape(?v), 2)]}(
                       ?v)))))).0),
        reshape{dims=[size(?x, 0), size(?v, 0),
               (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
             split{axis=2, sizes=[size(?w, 0) / ?g, size(?v, 0) / ?g]}(
               reshape{dims=[size(?x, 0), ?g, size(?w, 0) / ?g + size(?v, 0) / ?g,
                   (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
                 conv2d{stride=?s, padding=?p, groups=?g}(?x,
                   reshape{dims=[size(?w, 0) + size(?v, 0), size(?w, 1), suffix(shape(?v), 2)]}(concat{axis=1}(
                     reshape{dims=[?g, size(?w, 0) / ?g, size(?w, 1), suffix(shape(?v), 2)]}(
                       enlarge{kernel=suffix(shape(?v), 2)}(?w)),
                     reshape{dims=[?g, size(?v, 0) / ?g, size(?w, 1), suffix(shape(?v), 2)]}(
                       ?v)))))).1))
  if ?g > 1, ?p == same || ?p == same_lower, suffix(shape(?w), 2) <= suffix(shape(?v), 2),
     suffix(shape(?w), 2) != suffix(shape(?v), 2), suffix(shape(?w), 2) >= ?s
  proved "z3 4.8.12" by concat_of_one, conv_enlarged_kernel, conv_interleaved_kernels, conv_same, conv_same_lower,
    conv_strided, reshape_same, reshape_twice, slice_of_conv, split_of_concat
rule depthwise_and_pool_same
  (conv2d{stride=?s, padding=?p, groups=?g}(?x, ?w),
   average_pool{kernel=?k, stride=?s, padding=?p, count_include_pad=1}(?x))
    => (reshape{dims=[size(?x, 0), size(?w, 0),
               (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
             split{axis=2, sizes=[size(?w, 0) / ?g, 1]}(
               reshape{dims=[size(?x, 0), ?g, size(?w, 0) / ?g + 1,
                   (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
                 conv2d{stride=?s, padding=?p, groups=?g}(?x,
                   reshape{dims=[size(?w, 0) + ?g, size(?w, 1), ?k]}(concat{axis=1}(
                     reshape{dims=[?g, size(?w, 0) / ?g, size(?w, 1), ?k]}(
                       ?w),
                     reshape{dims=[?g, 1, size(?w, 1), ?k]}(
                       pool_kernel{channels=size(?x, 1), kernel=?k}())))))).0),
        reshape{dims=[size(?x, 0), ?g,
               (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
             split{axis=2, sizes=[size(?w, 0) / ?g, 1]}(
               reshape{dims=[size(?x, 0), ?g, size(?w, 0) / ?g + 1,
                   (suffix(shape(?x), 2) + ?s - 1) / ?s]}(
                 conv2d{stride=?s, padding=?p, groups=?g}(?x,
                   reshape{dims=[size(?w, 0) + ?g, size(?w, 1), ?k]}(concat{axis=1}(
                     reshape{dims=[?g, size(?w, 0) / ?g, size(?w, 1), ?k]}(
                       ?w),
                     reshape{dims=[?g, 1, size(?w, 1), ?k]}(
                       pool_kernel{channels=size(?x, 1), kernel=?k}())))))).1))
  if ?g == size(?x, 1), ?k == suffix(shape(?w), 2), ?p == same || ?p == same_lower, dtype(?w) == 0
  proved "z3 4.8.12" by average_pool_is_conv, concat_of_one, conv_interleaved_kernels, conv_same, conv_same_lower,
    reshape_same, reshape_twice, split_of_concat
rule depthwise_and_pool_padded
  (conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x, ?w),
   average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=1}(?x))
    => (reshape{dims=[size(?x, 0), size(?w, 0),
               (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?k) / ?s + 1]}(
             split{axis=2, sizes=[size(?w, 0) / ?g, 1]}(
               reshape{dims=[size(?x, 0), ?g, size(?w, 0) / ?g + 1,
                   (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?k) / ?s + 1]}(
                 conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x,
                   reshape{dims=[size(?w, 0) + ?g, size(?w, 1), ?k]}(concat{axis=1}(
                     reshape{dims=[?g, size(?w, 0) / ?g, size(?w, 1), ?k]}(
                       ?w),
                     reshape{dims=[?g, 1, size(?w, 1), ?k]}(
                       pool_kernel{channels=size(?x, 1), kernel=?k}())))))).0),
        reshape{dims=[size(?x, 0), ?g,
               (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?k) / ?s + 1]}(
             split{axis=2, sizes=[size(?w, 0) / ?g, 1]}(
               reshape{dims=[size(?x, 0), ?g, size(?w, 0) / ?g + 1,
                   (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?k) / ?s + 1]}(
                 conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x,
                   reshape{dims=[size(?w, 0) + ?g, size(?w, 1), ?k]}(concat{axis=1}(
                     reshape{dims=[?g, size(?w, 0) / ?g, size(?w, 1), ?k]}(
                       ?w),
                     reshape{dims=[?g, 1, size(?w, 1), ?k]}(
                       pool_kernel{channels=size(?x, 1), kernel=?k}())))))).1))
  if ?g == size(?x, 1), ?k == suffix(shape(?w), 2), ?p == explicit || ?p == valid, dtype(?w) == 0
  proved "z3 4.8.12" by average_pool_is_conv, concat_of_one, conv_interleaved_kernels, conv_valid, reshape_same,
    reshape_twice, split_of_concat
rule sum_of_separable_convs
  add(conv2d{stride=?t, padding=?m, pads=?n, dilation=?e}(
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ?w), ?y),
      conv2d{stride=?t, padding=?m, pads=?n, dilation=?e}(
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ?v), ?z))
    => conv2d{stride=?t, padding=?m, pads=?n, dilation=?e}(
         conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x,
           reshape{dims=[size(?w, 0) + size(?v, 0), suffix(shape(?w), 1)]}(concat{axis=1}(
             reshape{dims=[?g, size(?w, 0) / ?g, suffix(shape(?w), 1)]}(?w),
             reshape{dims=[?g, size(?v, 0) / ?g, suffix(shape(?v), 1)]}(?v)))),
         reshape{dims=[size(?y, 0), size(?y, 1) + size(?z, 1), suffix(shape(?y), 2)]}(concat{axis=2}(
           reshape{dims=[size(?y, 0), ?g, size(?y, 1) / ?g, suffix(shape(?y), 2)]}(?y),
           reshape{dims=[size(?z, 0), ?g, size(?z, 1) / ?g, suffix(shape(?z), 2)]}(?z))))
  proved "z3 4.8.12" by concat_of_concat_last, concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid,
    concat_of_tanh, conv_gelu, conv_interleaved_kernels, conv_of_concat, conv_of_interleaved_channels, conv_relu,
    conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, reshape_of_gelu, reshape_of_relu,
    reshape_of_sigmoid, reshape_of_tanh, reshape_same, reshape_twice, slice_of_gelu, slice_of_pointwise
rule sum_of_enlarged_separable_convs
  add(conv2d{stride=?t, padding=?m, pads=?n, dilation=?e}(
        conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(?x, ?w), ?y),
      conv2d{stride=?t, padding=?m, pads=?n, dilation=?e}(
        conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(?x, ?v), ?z))
    => conv2d{stride=?t, padding=?m, pads=?n, dilation=?e}(
         conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(?x,
           reshape{dims=[size(?w, 0) + size(?v, 0), suffix(shape(?v), 1)]}(concat{axis=1}(
             reshape{dims=[?g, size(?w, 0) / ?g, suffix(shape(?v), 1)]}(enlarge{kernel=suffix(shape(?v), 2)}(?w)),
             reshape{dims=[?g, size(?v, 0) / ?g, suffix(shape(?v), 1)]}(?v)))),
         reshape{dims=[size(?y, 0), size(?y, 1) + size(?z, 1), suffix(shape(?y), 2)]}(concat{axis=2}(
           reshape{dims=[size(?y, 0), ?g, size(?y, 1) / ?g, suffix(shape(?y), 2)]}(?y),
           reshape{dims=[size(?z, 0), ?g, size(?z, 1) / ?g, suffix(shape(?z), 2)]}(?z))))
  if ?p == same || ?p == same_lower, suffix(shape(?w), 2) <= suffix(shape(?v), 2),
     suffix(shape(?w), 2) != suffix(shape(?v), 2), suffix(shape(?w), 2) >= ?s
  proved "z3 4.8.12" by concat_of_one, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_enlarged_kernel,
    conv_interleaved_kernels, conv_of_concat, conv_of_interleaved_channels, conv_relu, conv_same, conv_same_lower,
    conv_sigmoid, conv_strided, conv_tanh, conv_valid, reshape_of_relu, reshape_of_sigmoid, reshape_of_tanh,
    reshape_same, reshape_twice, slice_of_conv
rule branches_to_groups
  concat{axis=1}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(
      split{axis=1, sizes=?z}(?x).*, ??w)...)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g * length(?z), activation=?a}(?x,
        concat{axis=0}(??w...))
  if ?z == repeat(at(?z, 0), length(?z)), [size(??w, 0)...] == repeat(at([size(??w, 0)...], 0), length(?z))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_gelu, concat_of_one, concat_of_relu, concat_of_sigmoid,
    concat_of_split, concat_of_tanh, conv_concat_groups, conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid,
    conv_tanh, conv_valid
rule branches_to_groups_bias
  concat{axis=1}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(
      split{axis=1, sizes=?z}(?x).*, ??w, ??b)...)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g * length(?z), activation=?a}(?x,
        concat{axis=0}(??w...), concat{axis=0}(??b...))
  if ?z == repeat(at(?z, 0), length(?z)), [size(??w, 0)...] == repeat(at([size(??w, 0)...], 0), length(?z))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last, concat_of_gelu, concat_of_one, concat_of_relu,
    concat_of_sigmoid, concat_of_split, concat_of_sums, concat_of_tanh, conv_bias, conv_bias_gelu, conv_bias_relu,
    conv_bias_sigmoid, conv_bias_tanh, conv_concat_groups, conv_concat_kernels, conv_same, conv_same_lower,
    reshape_of_concat

# 10. Average pooling is a depthwise convolution (Jia's dissertation (2020) section 2.9.3, figure 2.8b); sums of it in one step.
rule pool_to_conv
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=?i}(?x)
    => conv2d{stride=?s, padding=?p, pads=?q, groups=size(?x, 1)}(?x, pool_kernel{channels=size(?x, 1), kernel=?k}())
  if ?i == 1 || ?p == valid || ?p == explicit && sum(?q) == 0, dtype(?x) == 0
  proved "z3 4.8.12" by average_pool_is_conv
rule sum_of_pools
  add(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=1}(?x),
      average_pool{kernel=?l, stride=?t, padding=?m, pads=?n, count_include_pad=1}(?x))
    => conv2d{stride=?s, padding=?p, pads=?q, groups=size(?x, 1)}(?x,
        add(pool_kernel{channels=size(?x, 1), kernel=?k}(), pool_kernel{channels=size(?x, 1), kernel=?l}()))
  if ?k == ?l, ?s == ?t, ?p == ?m, ?q == ?n, dtype(?x) == 0
  proved "z3 4.8.12" by average_pool_is_conv, conv_distributes_over_kernels
rule sum_of_pool_and_input
  add(average_pool{kernel=?k, padding=?p, count_include_pad=1}(?x), ?x)
    => conv2d{padding=?p, groups=size(?x, 1)}(?x, add(pool_kernel{channels=size(?x, 1), kernel=?k}(),
        identity_kernel{channels=size(?x, 1), groups=size(?x, 1), kernel=?k}()))
  if ?p == same || ?p == same_lower, dtype(?x) == 0
  proved "z3 4.8.12" by average_pool_is_conv, conv_distributes_over_kernels, conv_identity, conv_same, conv_same_lower,
    pad_nothing, slice_of_pad, slice_whole
rule sum_of_pool_and_depthwise
  add(conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x, ?w),
      average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=1}(?x))
    => conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x, add(?w, pool_kernel{channels=?g, kernel=?k}()))
  if ?g == size(?x, 1), size(?w, 0) == ?g, ?k == suffix(shape(?w), 2), dtype(?w) == 0
  proved "z3 4.8.12" by average_pool_is_conv, conv_distributes_over_kernels

# 11. Batch normalization into the convolution before it: the statistics must not change any more. Scales and shifts per
# channel, as exporters leave them behind.
rule batch_norm_into_conv
  batch_norm{epsilon=?e}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?k, ?b, ?m, ?v)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}(
        )))))), sub(?b, mul(?m, div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}()))))))
  safe inference
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_same, conv_same_lower,
    conv_scales_channels, conv_scales_kernel, conv_strided, conv_valid, division, mul_associates, mul_distributes,
    negate_of_product, reshape_of_negation, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_of_sum,
    reshape_shifted, reshape_twice, single_in_product, single_in_sum, slice_whole, subtraction, zeros_in_sum
rule batch_norm_into_conv_bias
  batch_norm{epsilon=?e}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?c), ?k, ?b, ?m, ?v)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}(
        )))))), add(?b, mul(sub(?c, ?m), div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}()))))))
  safe inference
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_same, conv_same_lower,
    conv_scales_channels, conv_scales_kernel, conv_valid, division, mul_associates, mul_distributes,
    reshape_of_negation, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_of_sum, reshape_scaled,
    reshape_shifted, reshape_twice, single_in_product, single_in_sum, subtraction, zeros_in_sum
rule relu_of_conv_batch_norm
  relu(batch_norm{epsilon=?e}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?k, ?b, ?m, ?v))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}(
        )))))), sub(?b, mul(?m, div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}()))))))
  safe inference
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_relu, conv_same_lower,
    conv_scales_channels, conv_scales_kernel, division, mul_associates, mul_distributes, negate_of_product,
    reshape_of_negation, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_of_sum, reshape_shifted,
    reshape_twice, single_in_product, single_in_sum, subtraction, zeros_in_sum
rule relu_of_conv_bias_batch_norm
  relu(batch_norm{epsilon=?e}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?c), ?k, ?b, ?m,
      ?v))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}(
        )))))), add(?b, mul(sub(?c, ?m), div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}()))))))
  safe inference
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_relu, conv_scales_channels,
    conv_scales_kernel, division, mul_associates, mul_distributes, reshape_of_negation, reshape_of_product,
    reshape_of_reciprocal, reshape_of_sqrt, reshape_of_sum, reshape_shifted, reshape_twice, single_in_product,
    single_in_sum, subtraction, zeros_in_sum
rule relu_of_batch_norm
  relu(batch_norm{epsilon=?e}(?x, ?k, ?b, ?m, ?v))
    => conv2d{groups=size(?x, 1), activation=relu}(?x, reshape{dims=[size(?x, 1), 1, 1, 1]}(div(?k,
        sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}())))),
        sub(?b, mul(?m, div(?k, sqrt(add(?v, fill{value=?e, element=dtype(?v), dims=[]}()))))))
  if rank(?x) == 4
  safe inference
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_relu, conv_of_one_weight_a_channel,
    division, mul_associates, mul_distributes, negate_of_product, reshape_of_negation, reshape_of_product,
    reshape_of_reciprocal, reshape_of_sqrt, reshape_of_sum, reshape_scaled, reshape_shifted, reshape_twice,
    single_in_product, single_in_sum, subtraction, zeros_in_sum
rule channel_scale_after_conv
  conv2d{groups=?h, activation=?a}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?k)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, mul(?w, ?k))
  if ?h == size(?w, 0), shape(?k) == [size(?w, 0), 1, 1, 1]
  proved "z3 4.8.12" by conv_gelu, conv_of_one_weight_a_channel, conv_relu, conv_same, conv_same_lower, conv_scales,
    conv_scales_channels, conv_scales_kernel, conv_sigmoid, conv_strided, conv_tanh, conv_valid, reshape_same,
    reshape_twice, single_in_product, slice_of_pointwise
rule channel_affine_after_conv
  conv2d{groups=?h, activation=?a}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?k, ?b)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, mul(?w, ?k), ?b)
  if ?h == size(?w, 0), shape(?k) == [size(?w, 0), 1, 1, 1]
  proved "z3 4.8.12" by conv_bias, conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_bias_tanh,
    conv_of_one_weight_a_channel, conv_same, conv_same_lower, conv_scales_channels, conv_scales_kernel, conv_strided,
    conv_valid, reshape_same, reshape_twice, single_in_product, slice_of_pointwise, slice_twice, slice_whole
rule channel_affine_after_conv_bias
  conv2d{groups=?h, activation=?a}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?c), ?k, ?b)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, mul(?w, ?k),
        add(?b, mul(?c, reshape{dims=[size(?w, 0)]}(?k))))
  if ?h == size(?w, 0), shape(?k) == [size(?w, 0), 1, 1, 1]
  proved "z3 4.8.12" by add_associates, conv_bias, conv_bias_gelu, conv_bias_relu, conv_bias_sigmoid, conv_bias_tanh,
    conv_of_one_weight_a_channel, conv_same, conv_same_lower, conv_scales_channels, conv_scales_kernel, conv_strided,
    conv_valid, mul_associates, mul_distributes, reshape_of_product, reshape_of_sum, reshape_same, reshape_scaled,
    reshape_shifted, reshape_twice, single_in_product, single_in_sum, slice_of_pointwise, slice_twice, slice_whole
rule scale_into_conv
  mul(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?c)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(?c)))
  if rank(?c) == 3 || rank(?c) == 4 && size(?c, 0) == 1, size(?c, -3) == size(?w, 0),
     product(shape(?c)) == size(?w, 0), constant(?c) == 1
  proved "z3 4.8.12" by conv_scales_channels
rule scale_into_conv_bias
  mul(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b), ?c)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(?c)), mul(?b, reshape{dims=[size(?w, 0)]}(?c)))
  if rank(?c) == 3 || rank(?c) == 4 && size(?c, 0) == 1, size(?c, -3) == size(?w, 0),
     product(shape(?c)) == size(?w, 0), constant(?c) == 1
  proved "z3 4.8.12" by conv_bias, conv_scales_channels, conv_scales_kernel, leading_one_in_product, mul_distributes,
    reshape_of_product, reshape_same, reshape_scaled, reshape_twice, single_in_product

# 12. Element-wise algebra. Addition and multiplication commute: matching tries both orders.
rule add_assoc
  add(?x, add(?y, ?z)) => add(add(?x, ?y), ?z)
  proved "z3 4.8.12" by add_associates
rule mul_assoc
  mul(?x, mul(?y, ?z)) => mul(mul(?x, ?y), ?z)
  proved "z3 4.8.12" by mul_associates
rule mul_of_sum
  mul(?x, add(?y, ?z)) == add(mul(?x, ?y), mul(?x, ?z))
  proved "z3 4.8.12" by mul_distributes
rule scale_twice
  scalar_multiply(scalar_multiply(?x, ?s), ?t) => scalar_multiply(?x, mul(?s, ?t))
  proved "z3 4.8.12" by mul_associates, scaling
rule scale_of_sum
  add(scalar_multiply(?x, ?s), scalar_multiply(?y, ?s)) => scalar_multiply(add(?x, ?y), ?s)
  proved "z3 4.8.12" by mul_distributes, scaling
rule scale_through_matmul_left
  scalar_multiply(matmul(?x, ?y), ?s) == matmul(scalar_multiply(?x, ?s), ?y)
  proved "z3 4.8.12" by matmul_scales_left, scaling
rule scale_through_matmul_right
  scalar_multiply(matmul(?x, ?y), ?s) == matmul(?x, scalar_multiply(?y, ?s))
  proved "z3 4.8.12" by matmul_scales_columns, scaling
rule scale_into_linear
  scalar_multiply(linear(?x, ?w, ?b), ?s) => linear(?x, scalar_multiply(?w, ?s), scalar_multiply(?b, ?s))
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, matmul_scales_columns, mul_distributes,
    reshape_scaled, scaling
rule scale_of_linear_operand
  linear{activation=?a}(scalar_multiply(?x, ?s), ?w, ?b) => linear{activation=?a}(?x, scalar_multiply(?w, ?s), ?b)
  proved "z3 4.8.12" by linear_bias, linear_gelu, linear_is_matmul, linear_of_vector, linear_relu, linear_sigmoid,
    linear_tanh, matmul_scales_columns, matmul_scales_left, reshape_scaled, scaling
rule scalar_into_conv
  scalar_multiply(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?s)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, scalar_multiply(?w, ?s))
  proved "z3 4.8.12" by conv_scales_kernel, scaling
rule scalar_into_conv_bias
  scalar_multiply(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b), ?s)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, scalar_multiply(?w, ?s), scalar_multiply(?b,
        ?s))
  proved "z3 4.8.12" by conv_bias, conv_scales_kernel, mul_distributes, reshape_scaled, scaling
rule scale_of_conv_operand
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(scalar_multiply(?x, ?s), ?w)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, scalar_multiply(?w, ?s))
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_scales, conv_scales_kernel, conv_sigmoid, conv_tanh, scaling

# 13. Attention: the scale of the scores goes into the weights of the queries, in one step past reshape and transpose;
# of joint queries, keys and values into the columns of the queries.
rule scale_into_queries
  scalar_multiply(matmul(transpose{permutation=?p}(reshape{dims=?d}(matmul(?x, ?w))), ?k), ?s)
    => matmul(transpose{permutation=?p}(reshape{dims=?d}(matmul(?x, scalar_multiply(?w, ?s)))), ?k)
  proved "z3 4.8.12" by matmul_scales_columns, matmul_scales_left, reshape_same, reshape_scaled, scaling,
    transpose_same, transpose_scaled
rule scale_into_biased_queries
  scalar_multiply(matmul(transpose{permutation=?p}(reshape{dims=?d}(linear(?x, ?w, ?b))), ?k), ?s)
    => matmul(transpose{permutation=?p}(reshape{dims=?d}(linear(?x, scalar_multiply(?w, ?s), scalar_multiply(?b,
        ?s)))), ?k)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, matmul_scales_columns, matmul_scales_left,
    mul_distributes, reshape_of_sum, reshape_same, reshape_scaled, reshape_shifted, reshape_twice, scaling,
    single_in_sum, transpose_same, transpose_scaled
rule scale_into_joint_queries
  (scalar_multiply(matmul(
     transpose{permutation=?p}(reshape{dims=?d}(split{axis=?a, sizes=?z}(linear(?x, ?w, ?b)).0)),
     transpose{permutation=?q}(reshape{dims=?e}(split{axis=?a, sizes=?z}(linear(?x, ?w, ?b)).1))), ?s),
   split{axis=?a, sizes=?z}(linear(?x, ?w, ?b)).2)
    => (matmul(
          transpose{permutation=?p}(reshape{dims=?d}(split{axis=?a, sizes=?z}(linear(?x,
             mul(?w, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())),
             mul(?b, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())))).0)),
          transpose{permutation=?q}(reshape{dims=?e}(split{axis=?a, sizes=?z}(linear(?x,
             mul(?w, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())),
             mul(?b, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())))).1))),
        split{axis=?a, sizes=?z}(linear(?x,
             mul(?w, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())),
             mul(?b, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())))).2)
  if length(?z) == 3, ?a == rank(?x) - 1
  proved "z3 4.8.12" by concat_of_concat_last, concat_of_products, concat_of_split, expand_in_product, linear_bias,
    linear_is_matmul, linear_of_vector, matmul_scales_columns, matmul_scales_left, mul_distributes, ones_in_product,
    reshape_same, reshape_scaled, scaling, split_of_concat, transpose_same, transpose_scaled
rule scaled_queries
  scalar_multiply(transpose{permutation=?p}(reshape{dims=?d}(linear(?x, ?w, ?b))), ?s)
    => transpose{permutation=?p}(reshape{dims=?d}(linear(?x, scalar_multiply(?w, ?s), scalar_multiply(?b, ?s))))
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, matmul_scales_columns, mul_distributes,
    reshape_of_sum, reshape_same, reshape_scaled, reshape_twice, scaling, transpose_same, transpose_scaled
rule scaled_joint_queries
  (scalar_multiply(transpose{permutation=?p}(reshape{dims=?d}(split{axis=?a, sizes=?z}(linear(?x, ?w, ?b)).0)), ?s),
   split{axis=?a, sizes=?z}(linear(?x, ?w, ?b)).1, split{axis=?a, sizes=?z}(linear(?x, ?w, ?b)).2)
    => (transpose{permutation=?p}(reshape{dims=?d}(split{axis=?a, sizes=?z}(linear(?x,
             mul(?w, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())),
             mul(?b, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())))).0)),
        split{axis=?a, sizes=?z}(linear(?x,
             mul(?w, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())),
             mul(?b, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())))).1,
        split{axis=?a, sizes=?z}(linear(?x,
             mul(?w, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())),
             mul(?b, concat{axis=0}(expand{dims=prefix(?z, 1)}(?s),
               fill{value=1.0, element=dtype(?x), dims=[sum(suffix(?z, 1))]}())))).2)
  if length(?z) == 3, ?a == rank(?x) - 1
  proved "z3 4.8.12" by concat_of_concat_last, concat_of_products, concat_of_split, expand_in_product, linear_bias,
    linear_is_matmul, linear_of_vector, matmul_scales_columns, mul_distributes, ones_in_product, reshape_same,
    reshape_scaled, scaling, split_of_concat, transpose_same, transpose_scaled

# 14. Joining and cutting.
rule concat_of_one
  concat{axis=?a}(?x) => ?x
  proved "z3 4.8.12" by concat_of_one
rule split_into_one
  split{..}(?x).0 => ?x
  proved "z3 4.8.12" by concat_of_one, concat_of_split
rule concat_of_split
  concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x
  proved "z3 4.8.12" by concat_of_split
rule split_of_concat
  split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => ??x...
  if ?s == [size(??x, ?a)...]
  proved "z3 4.8.12" by split_of_concat
rule concat_of_concat_first
  concat{axis=?a}(concat{axis=?a}(??x...), ?y) => concat{axis=?a}(??x..., ?y)
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_one
rule concat_of_concat_last
  concat{axis=?a}(?x, concat{axis=?a}(??y...)) => concat{axis=?a}(?x, ??y...)
  proved "z3 4.8.12" by concat_of_concat_last, concat_of_one
rule concat_of_concat_inside
  concat{axis=?a}(?x, concat{axis=?a}(??y...), ?z) => concat{axis=?a}(?x, ??y..., ?z)
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last, concat_of_one
rule concat_of_concats
  concat{axis=?a}(concat{axis=?a}(?x, ?y), concat{axis=?a}(?z, ?w)) => concat{axis=?a}(?x, ?y, ?z, ?w)
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last
rule concat_interchange
  concat{axis=?a}(concat{axis=?b}(?x, ?y), concat{axis=?b}(?z, ?w))
    => concat{axis=?b}(concat{axis=?a}(?x, ?z), concat{axis=?a}(?y, ?w))
  if ?a != ?b
  proved "z3 4.8.12" by concat_interchange
rule split_of_first_part
  (split{axis=?a, sizes=?t}(split{axis=?a, sizes=?s}(?x).0).0, split{axis=?a, sizes=?t}(split{axis=?a, sizes=?s}(
      ?x).0).1, split{axis=?a, sizes=?s}(?x).1)
    => split{axis=?a, sizes=concat(?t, suffix(?s, 1))}(?x)
  if length(?t) == 2, length(?s) == 2
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_split, split_of_concat
rule split_of_last_part
  (split{axis=?a, sizes=?s}(?x).0, split{axis=?a, sizes=?t}(split{axis=?a, sizes=?s}(?x).1).0,
      split{axis=?a, sizes=?t}(split{axis=?a, sizes=?s}(?x).1).1)
    => split{axis=?a, sizes=concat(prefix(?s, 1), ?t)}(?x)
  if length(?t) == 2, length(?s) == 2
  proved "z3 4.8.12" by concat_of_concat_last, concat_of_split, split_of_concat
rule slice_of_first_part
  slice{axes=?b, starts=?s, ends=?e, steps=?t}(concat{axis=?a}(?x, ?y))
    => slice{axes=?b, starts=?s, ends=?e, steps=?t}(?x)
  if ?b == ?a, at(?e, 0) <= size(?x, ?a)
  proved "z3 4.8.12" by slice_of_first_part
rule slice_of_last_part
  slice{axes=?b, starts=?s, ends=?e, steps=?t}(concat{axis=?a}(?x, ?y))
    => slice{axes=?b, starts=?s - size(?x, ?a), ends=?e - size(?x, ?a), steps=?t}(?y)
  if ?b == ?a, at(?s, 0) >= size(?x, ?a)
  proved "z3 4.8.12" by slice_of_last_part
rule slice_across_parts
  slice{axes=?b, starts=?s, ends=?e, steps=?t}(concat{axis=?a}(??x...))
    => concat{axis=?a}(slice{axes=?b, starts=?s, ends=?e, steps=?t}(??x)...)
  if length(?b) == 1, ?b != ?a
  proved "z3 4.8.12" by slice_across_parts

# 15. Joining and cutting commute with what works on each element.
rule concat_of_relu
  concat{axis=?c}(relu(??x)...) == relu(concat{axis=?c}(??x...))
  proved "z3 4.8.12" by concat_of_relu
rule relu_of_parts
  relu(split{axis=?c, sizes=?s}(?x).*)... => split{axis=?c, sizes=?s}(relu(?x))
  proved "z3 4.8.12" by concat_of_relu, concat_of_split, split_of_concat
rule concat_of_sigmoid
  concat{axis=?c}(sigmoid(??x)...) == sigmoid(concat{axis=?c}(??x...))
  proved "z3 4.8.12" by concat_of_sigmoid
rule sigmoid_of_parts
  sigmoid(split{axis=?c, sizes=?s}(?x).*)... => split{axis=?c, sizes=?s}(sigmoid(?x))
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_split, split_of_concat
rule concat_of_tanh
  concat{axis=?c}(tanh(??x)...) == tanh(concat{axis=?c}(??x...))
  proved "z3 4.8.12" by concat_of_tanh
rule tanh_of_parts
  tanh(split{axis=?c, sizes=?s}(?x).*)... => split{axis=?c, sizes=?s}(tanh(?x))
  proved "z3 4.8.12" by concat_of_split, concat_of_tanh, split_of_concat
rule concat_of_gelu
  concat{axis=?c}(gelu(??x)...) == gelu(concat{axis=?c}(??x...))
  proved "z3 4.8.12" by concat_of_gelu
rule gelu_of_parts
  gelu(split{axis=?c, sizes=?s}(?x).*)... => split{axis=?c, sizes=?s}(gelu(?x))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_split, split_of_concat
rule concat_of_add
  concat{axis=?c}(add(??x, ??y)...) == add(concat{axis=?c}(??x...), concat{axis=?c}(??y...))
  if shape(??x) == shape(??y)
  proved "z3 4.8.12" by concat_of_sums
rule add_of_parts
  add(split{axis=?c, sizes=?s}(?x).*, split{axis=?c, sizes=?s}(?y).*)... => split{axis=?c, sizes=?s}(add(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by concat_of_split, concat_of_sums, split_of_concat
rule concat_of_mul
  concat{axis=?c}(mul(??x, ??y)...) == mul(concat{axis=?c}(??x...), concat{axis=?c}(??y...))
  if shape(??x) == shape(??y)
  proved "z3 4.8.12" by concat_of_products
rule mul_of_parts
  mul(split{axis=?c, sizes=?s}(?x).*, split{axis=?c, sizes=?s}(?y).*)... => split{axis=?c, sizes=?s}(mul(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by concat_of_products, concat_of_split, split_of_concat
rule concat_of_scaled
  concat{axis=?c}(scalar_multiply(??x, ?s)...) => scalar_multiply(concat{axis=?c}(??x...), ?s)
  proved "z3 4.8.12" by concat_of_one, concat_of_scaled, scaling
rule scaled_parts
  scalar_multiply(split{axis=?c, sizes=?z}(?x).*, ?s)... => split{axis=?c, sizes=?z}(scalar_multiply(?x, ?s))
  proved "z3 4.8.12" by concat_of_scaled, concat_of_split, scaling, split_of_concat
rule concat_of_max_pools
  concat{axis=?c}(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?e}(??x)...)
    => max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?e}(concat{axis=?c}(??x...))
  if ?c < 2
  proved "z3 4.8.12" by max_pool_concat
rule concat_of_average_pools
  concat{axis=?c}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(??x)...)
    => average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(concat{axis=?c}(
        ??x...))
  if ?c < 2
  proved "z3 4.8.12" by average_pool_concat
rule max_pool_of_parts
  max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?e}(split{axis=?c, sizes=?z}(?x).*)...
    => split{axis=?c, sizes=?z}(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?e}(?x))
  if ?c < 2
  proved "z3 4.8.12" by concat_of_split, max_pool_concat, split_of_concat
rule average_pool_of_parts
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(
      split{axis=?c, sizes=?z}(?x).*)...
    => split{axis=?c, sizes=?z}(
        average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x))
  if ?c < 2
  proved "z3 4.8.12" by average_pool_concat, concat_of_split, split_of_concat
rule concat_of_transposes
  concat{axis=?c}(transpose{permutation=?p}(??x)...) => transpose{permutation=?p}(concat{axis=at(?p, ?c)}(??x...))
  proved "z3 4.8.12" by concat_of_one, transpose_of_concat, transpose_same
rule relu_siblings_along_0
  (relu(?x), relu(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(relu(concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_relu, split_of_concat
rule relu_siblings_along_1
  (relu(?x), relu(?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(relu(concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_relu, split_of_concat

# 16. Transposes and reshapes move past what works on each element, towards the outputs. The last rule gives matrix
# products the layouts of Jia's dissertation (2020) figure 2.5.
rule relu_of_transpose
  relu(transpose{permutation=?p}(?x)) => transpose{permutation=?p}(relu(?x))
  proved "z3 4.8.12" by transpose_of_relu
rule relu_of_reshape
  relu(reshape{dims=?d}(?x)) => reshape{dims=?d}(relu(?x))
  proved "z3 4.8.12" by reshape_of_relu
rule sigmoid_of_transpose
  sigmoid(transpose{permutation=?p}(?x)) => transpose{permutation=?p}(sigmoid(?x))
  proved "z3 4.8.12" by transpose_of_sigmoid
rule sigmoid_of_reshape
  sigmoid(reshape{dims=?d}(?x)) => reshape{dims=?d}(sigmoid(?x))
  proved "z3 4.8.12" by reshape_of_sigmoid
rule tanh_of_transpose
  tanh(transpose{permutation=?p}(?x)) => transpose{permutation=?p}(tanh(?x))
  proved "z3 4.8.12" by transpose_of_tanh
rule tanh_of_reshape
  tanh(reshape{dims=?d}(?x)) => reshape{dims=?d}(tanh(?x))
  proved "z3 4.8.12" by reshape_of_tanh
rule gelu_of_transpose
  gelu(transpose{permutation=?p}(?x)) => transpose{permutation=?p}(gelu(?x))
  proved "z3 4.8.12" by transpose_of_gelu
rule gelu_of_reshape
  gelu(reshape{dims=?d}(?x)) => reshape{dims=?d}(gelu(?x))
  proved "z3 4.8.12" by reshape_of_gelu
rule scaled_transpose
  scalar_multiply(transpose{permutation=?p}(?x), ?s) => transpose{permutation=?p}(scalar_multiply(?x, ?s))
  proved "z3 4.8.12" by scaling, transpose_same, transpose_scaled
rule scaled_reshape
  scalar_multiply(reshape{dims=?d}(?x), ?s) => reshape{dims=?d}(scalar_multiply(?x, ?s))
  proved "z3 4.8.12" by reshape_same, reshape_scaled, scaling
rule add_of_transposes
  add(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y)) => transpose{permutation=?p}(add(?x, ?y))
  proved "z3 4.8.12" by transpose_of_sum
rule add_of_reshapes
  add(reshape{dims=?d}(?x), reshape{dims=?d}(?y)) => reshape{dims=?d}(add(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by reshape_of_sum
rule mul_of_transposes
  mul(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y)) => transpose{permutation=?p}(mul(?x, ?y))
  proved "z3 4.8.12" by transpose_of_product
rule mul_of_reshapes
  mul(reshape{dims=?d}(?x), reshape{dims=?d}(?y)) => reshape{dims=?d}(mul(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by reshape_of_product
rule product_of_transposes
  matmul{activation=?a}(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y))
    => transpose{permutation=?p}(matmul{activation=?a}(?y, ?x))
  if ?p == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by matmul_gelu, matmul_of_transposes, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_gelu,
    transpose_of_relu, transpose_of_sigmoid, transpose_of_tanh
rule product_by_transposes
  matmul{activation=?a}(?x, ?y)
    => transpose{permutation=concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])}(matmul{activation=?a}(
        transpose{permutation=concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])}(?y),
        transpose{permutation=concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])}(?x)))
  if rank(?x) == rank(?y)
  proved "z3 4.8.12" by matmul_gelu, matmul_of_transposes, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_gelu,
    transpose_of_relu, transpose_of_sigmoid, transpose_of_tanh, transpose_same, transpose_twice

# 17. Operators as exporters write them out.
rule gelu_half_first_div
  mul(mul(?x, fill{value=0.5, ..}()), add(erf(div(?x, fill{value=?c, ..}())), fill{value=1.0, ..}())) => gelu(?x)
  if ?c == 1.4142135623730951 || ?c == 1.4142135381698608
  real
  proved "z3 4.8.12" by division, expand_in_product, expand_of_reciprocal, expand_of_sum, expand_same, fill_is_expanded,
    gelu_is_erf, reciprocal_of_float32_root_of_2, reciprocal_of_root_of_2, reshape_of_fill, single_in_product,
    single_in_sum
rule gelu_half_last_div
  mul(mul(?x, add(erf(div(?x, fill{value=?c, ..}())), fill{value=1.0, ..}())), fill{value=0.5, ..}()) => gelu(?x)
  if ?c == 1.4142135623730951 || ?c == 1.4142135381698608
  real
  proved "z3 4.8.12" by division, expand_in_product, expand_of_gelu, expand_of_product, expand_of_reciprocal,
    expand_of_sum, expand_same, fill_is_expanded, gelu_is_erf, mul_associates, ones_in_product,
    reciprocal_of_float32_root_of_2, reciprocal_of_root_of_2
rule gelu_half_inside_div
  mul(?x, mul(add(erf(div(?x, fill{value=?c, ..}())), fill{value=1.0, ..}()), fill{value=0.5, ..}())) => gelu(?x)
  if ?c == 1.4142135623730951 || ?c == 1.4142135381698608
  real
  proved "z3 4.8.12" by division, expand_in_product, expand_of_reciprocal, expand_of_sum, expand_same, fill_is_expanded,
    gelu_is_erf, mul_associates, reciprocal_of_float32_root_of_2, reciprocal_of_root_of_2, reshape_of_fill,
    single_in_product
rule gelu_half_first_mul
  mul(mul(?x, fill{value=0.5, ..}()), add(erf(mul(?x, fill{value=?c, ..}())), fill{value=1.0, ..}())) => gelu(?x)
  if ?c == 0.7071067811865476 || ?c == 0.7071067690849304
  real
  proved "z3 4.8.12" by expand_in_product, expand_of_sum, fill_is_expanded, gelu_is_erf, mul_distributes,
    reshape_of_fill, single_in_sum
rule gelu_half_last_mul
  mul(mul(?x, add(erf(mul(?x, fill{value=?c, ..}())), fill{value=1.0, ..}())), fill{value=0.5, ..}()) => gelu(?x)
  if ?c == 0.7071067811865476 || ?c == 0.7071067690849304
  real
  proved "z3 4.8.12" by expand_in_product, expand_of_sum, fill_is_expanded, gelu_is_erf, mul_associates
rule gelu_half_inside_mul
  mul(?x, mul(add(erf(mul(?x, fill{value=?c, ..}())), fill{value=1.0, ..}()), fill{value=0.5, ..}())) => gelu(?x)
  if ?c == 0.7071067811865476 || ?c == 0.7071067690849304
  real
  proved "z3 4.8.12" by expand_in_product, expand_of_sum, expand_same, fill_is_expanded, gelu_is_erf,
    leading_one_in_product, mul_associates, reshape_of_fill, single_in_product
rule layer_norm_with_pow
  add(mul(div(sub(?x, reduce_mean{axes=?r}(?x)), sqrt(add(reduce_mean{axes=?r}(pow(sub(?x, reduce_mean{axes=?r}(?x)),
      fill{value=2.0, ..}())), fill{value=?e, ..}()))), ?g), ?b)
    => layer_norm{axis=at(?r, 0), epsilon=?e}(?x, ?g, ?b)
  if ?r == suffix(iota(rank(?x)), at(?r, 0))
  proved "z3 4.8.12" by division, expand_in_product, expand_of_power, expand_of_reciprocal, expand_of_sqrt,
    expand_of_sum, fill_is_expanded, layer_norm_is_affine, mean_of_expanded, reshape_of_fill, reshape_of_reciprocal,
    reshape_of_sqrt, reshape_shifted, single_in_product, single_in_sum, square, zeros_in_sum
rule layer_norm_with_mul
  add(mul(div(sub(?x, reduce_mean{axes=?r}(?x)), sqrt(add(reduce_mean{axes=?r}(mul(sub(?x, reduce_mean{axes=?r}(?x)),
      sub(?x, reduce_mean{axes=?r}(?x)))), fill{value=?e, ..}()))), ?g), ?b)
    => layer_norm{axis=at(?r, 0), epsilon=?e}(?x, ?g, ?b)
  if ?r == suffix(iota(rank(?x)), at(?r, 0))
  proved "z3 4.8.12" by division, expand_in_product, expand_of_reciprocal, expand_of_sqrt, expand_of_sum,
    fill_is_expanded, layer_norm_is_affine, reshape_of_fill, reshape_of_reciprocal, reshape_of_sqrt, reshape_shifted,
    single_in_product, single_in_sum, zeros_in_sum

# 18. Sums of rows of a table, as one operator or as two. Source: Unity (OSDI 2022) figure 16c.
rule embedding_bag
  reduce_sum{axes=[rank(?i) - 1], keep_dims=0}(embedding(?t, ?i)) == embedding_bag(?t, ?i)
  proved "z3 4.8.12" by embedding_bag_is_sum
)rules";
#pragma GCC diagnostic pop

}  // namespace unity::tensor
