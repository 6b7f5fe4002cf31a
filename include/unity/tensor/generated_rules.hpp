// Generated rules of tensor graphs, as text. Over 500 lines because it holds many rules.
// The program generate_rules prints it: generate_rules --shipped generated.
#pragma once

#include <string_view>

namespace unity::tensor {

// Longer than the string literals that every compiler must support; the supported compilers accept it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
// Read it with parse_rules (rewrite/parse.hpp) and compile it for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view generated_rules =
    R"rules(# Substitutions that nobody wrote: made, pruned and proved by
#   generate_rules --ops tensor --max-ops 3 --out FILE
# from the operators of include/unity/tensor/generation/vocabularies.hpp, without the rule that was found and could not
# be proved, which that file has as a comment. Two have names that rules of standard_rules.hpp have, with `_found` after
# them. The last one is of size 4, found over its operators with --rewrites 1: without it two of TASO's published rules
# take 7 rewrites instead of 6. The conditions of concat_of_mul_2, transpose_of_concat_3 and 4, and matmul_of_concat_7
# and 8 were added by hand: instances had not shown that they are needed. The program has changed since; on 2026-11-30 it
# gave 227 rules, 180 of which are among these 230. The prover and the properties of operators (axioms.hpp) that each
# proof used are named.

rule conv2d
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, ?y) => conv2d{stride=?s, padding=valid, dilation=?d, groups=?g, activation=?a}(?x, ?y)
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_tanh, conv_valid
rule conv2d_2
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, ?y) => conv2d{stride=?s, padding=same, dilation=?d, groups=?g, activation=?a}(?x, ?y)
  if suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_tanh, conv_valid
rule enlarge
  enlarge{kernel=?k}(?x) => ?x
  proved "z3 4.8.12" by enlarge_same
rule mul
  mul(?x, ?y) == scalar_multiply(?x, ?y)
  proved "z3 4.8.12" by scaling
rule matmul_of_identity_matrix
  matmul(?x, identity_matrix{size=?n}()) => ?x
  proved "z3 4.8.12" by matmul_identity_right
rule matmul_of_matmul
  matmul{activation=?a}(?x, matmul(?y, ?z)) == matmul{activation=?a}(matmul(?x, ?y), ?z)
  proved "z3 4.8.12" by matmul_associates, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_identity_matrix_2
  matmul(identity_matrix{size=?n}(), ?x) => ?x
  proved "z3 4.8.12" by matmul_identity_left
rule matmul_of_scalar_multiply
  matmul{activation=?a}(?x, scalar_multiply(?y, ?z)) == matmul{activation=?a}(scalar_multiply(?x, ?z), ?y)
  proved "z3 4.8.12" by matmul_gelu, matmul_relu, matmul_scales_columns, matmul_scales_left, matmul_sigmoid, matmul_tanh, scaling
rule add_of_add
  add(?x, add(?y, ?z)) == add(?y, add(?x, ?z))
  proved "z3 4.8.12" by add_associates
rule mul_of_mul
  mul(?x, mul(?y, ?z)) == mul(?y, mul(?x, ?z))
  proved "z3 4.8.12" by mul_associates
rule mul_of_fill
  mul(?x, fill{value=1.0, dims=?m}()) => ?x
  proved "z3 4.8.12" by ones_in_product
rule conv2d_of_identity_kernel
  conv2d{padding=?p, dilation=?d, groups=?g}(?x, identity_kernel{channels=?n, groups=?g, kernel=?k}()) => ?x
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by conv_identity, conv_same, conv_same_lower, pad_nothing, slice_of_pad, slice_whole
rule conv2d_of_enlarge
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, enlarge{kernel=?k}(?y)) => conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, ?y)
  if (?p == same) || (?p == same_lower), suffix(shape(?y), 2) >= ?s
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, enlarge_same, slice_of_conv
rule conv2d_3
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, ?y) => conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(?x, enlarge{kernel=[3, 3]}(?y))
  if (?p == same) || (?p == same_lower), suffix(shape(?y), 2) >= ?s
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, enlarge_same, slice_of_conv
rule conv2d_of_scalar_multiply
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, scalar_multiply(?y, ?z)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(scalar_multiply(?x, ?z), ?y)
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_scales, conv_scales_kernel, conv_sigmoid, conv_tanh, scaling
rule conv2d_of_conv2d
  conv2d{stride=[2, 2], padding=same}(conv2d{padding=same}(?x, ?y), ?z) => conv2d{padding=same}(conv2d{stride=[2, 2], padding=same}(?x, ?y), ?z)
  if rank(?x) == 4, rank(?y) == 4, rank(?z) == 4, suffix(shape(?y), 2) == [1, 1], suffix(shape(?z), 2) == [1, 1]
  proved "z3 4.8.12" by conv_same, conv_strided, slice_of_pointwise
rule conv2d_of_conv2d_2
  conv2d{stride=[2, 2], padding=same}(conv2d{padding=same, activation=relu}(?x, ?y), ?z) => conv2d{padding=same}(conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y), ?z)
  if rank(?x) == 4, rank(?y) == 4, rank(?z) == 4, suffix(shape(?y), 2) == [1, 1], suffix(shape(?z), 2) == [1, 1]
  proved "z3 4.8.12" by conv_relu, conv_same, conv_strided, slice_of_pointwise, slice_of_relu
rule conv2d_of_pool_kernel
  conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x, pool_kernel{channels=?g, kernel=?k}()) => average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=1}(?x)
  proved "z3 4.8.12" by average_pool_is_conv
rule average_pool_of_conv2d
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(conv2d{padding=?p2, dilation=?d, groups=?g}(?x, ?y)) == conv2d{padding=?p2, dilation=?d, groups=?g}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x), ?y)
  if suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by average_pool_of_pointwise, conv_same, conv_same_lower, conv_valid
rule max_pool_of_fill
  max_pool{kernel=?k, padding=?p, ceil_mode=?e}(fill{value=1.0, dims=?m}()) => fill{value=1.0, dims=?m}()
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by fill_is_expanded, max_pool_of_expanded, max_pool_same, max_pool_same_lower
rule fill
  fill{value=1.0, dims=?m}() => max_pool{kernel=[3, 3], padding=same}(fill{value=1.0, dims=?m}())
  proved "z3 4.8.12" by fill_is_expanded, max_pool_of_expanded, max_pool_same
rule average_pool_of_fill
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}()) == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}())
  proved "z3 4.8.12" by average_pool_of_expanded, fill_is_expanded
rule matmul_of_scalar_multiply_2
  matmul(?x, scalar_multiply(?y, ?z)) == scalar_multiply(matmul(?x, ?y), ?z)
  proved "z3 4.8.12" by matmul_scales_columns, scaling
rule conv2d_of_scalar_multiply_2
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, scalar_multiply(?y, ?z)) == scalar_multiply(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), ?z)
  proved "z3 4.8.12" by conv_scales_kernel, scaling
rule average_pool_of_scalar_multiply
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(scalar_multiply(?x, ?y)) == scalar_multiply(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x), ?y)
  proved "z3 4.8.12" by average_pool_scales, scaling
rule enlarge_of_scalar_multiply
  enlarge{kernel=?k}(scalar_multiply(?x, ?y)) == scalar_multiply(enlarge{kernel=?k}(?x), ?y)
  proved "z3 4.8.12" by enlarge_same, enlarge_scaled, scaling
rule scalar_multiply_of_mul
  scalar_multiply(?x, mul(?y, ?z)) == scalar_multiply(scalar_multiply(?x, ?y), ?z)
  proved "z3 4.8.12" by mul_associates, scaling
rule relu_of_conv2d
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?y)
  proved "z3 4.8.12" by conv_relu
rule max_pool_of_relu
  max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(relu(?x)) == relu(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?x))
  proved "z3 4.8.12" by max_pool_of_relu
rule relu_of_fill
  relu(fill{value=1.0, dims=?m}()) == fill{value=1.0, dims=?m}()
  proved "z3 4.8.12" by relu_of_ones
rule relu_of_relu
  relu(relu(?x)) => relu(?x)
  proved "z3 4.8.12" by relu_twice
rule concat_of_concat
  concat{axis=?c}(?x, concat{axis=?c}(?y, ?z)) == concat{axis=?c}(concat{axis=?c}(?x, ?y), ?z)
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last
rule split_of_concat_found
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(concat{axis=?c}(?x, ?y)).0 => ?x
  proved "z3 4.8.12" by split_of_concat
rule split_of_concat_2
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(concat{axis=?c}(?x, ?y)).1 => ?y
  proved "z3 4.8.12" by split_of_concat
rule transpose_of_identity_matrix
  transpose{permutation=?o}(identity_matrix{size=?n}()) => identity_matrix{size=?n}()
  proved "z3 4.8.12" by single_in_product, square_of_identity_matrix, transpose_of_product, transpose_same, transpose_scaled, transpose_twice, transposed_diagonal
rule identity_matrix
  identity_matrix{size=?n}() => transpose{permutation=[1, 0]}(identity_matrix{size=?n}())
  proved "z3 4.8.12" by square_of_identity_matrix, transpose_of_product, transpose_same, transpose_twice, transposed_diagonal
rule scalar_multiply_of_transpose
  scalar_multiply(transpose{permutation=?o}(?x), ?y) == transpose{permutation=?o}(scalar_multiply(?x, ?y))
  proved "z3 4.8.12" by scaling, transpose_same, transpose_scaled
rule relu_of_transpose_found
  relu(transpose{permutation=?o}(?x)) == transpose{permutation=?o}(relu(?x))
  proved "z3 4.8.12" by transpose_of_relu
rule transpose_of_transpose
  transpose{permutation=?o}(transpose{permutation=?o}(?x)) => ?x
  if ?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by transpose_same, transpose_twice
rule matmul_of_add
  matmul{activation=?a}(?x, add(?y, ?y)) == matmul{activation=?a}(add(?x, ?x), ?y)
  proved "z3 4.8.12" by matmul_distributes_left, matmul_distributes_right, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule conv2d_of_add
  conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=?a}(?x, add(?y, ?y)) == conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=?a}(add(?x, ?x), ?y)
  proved "z3 4.8.12" by conv_distributes, conv_distributes_over_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh
rule mul_of_identity_kernel
  mul(identity_kernel{channels=?n, groups=?g, kernel=?k}(), identity_kernel{channels=?n, groups=?g, kernel=?k}()) == identity_kernel{channels=?n, groups=?g, kernel=?k}()
  proved "z3 4.8.12" by square_of_identity_kernel
rule mul_of_identity_matrix
  mul(identity_matrix{size=?n}(), identity_matrix{size=?n}()) == identity_matrix{size=?n}()
  proved "z3 4.8.12" by square_of_identity_matrix
rule mul_of_relu
  mul(?x, relu(?x)) == mul(relu(?x), relu(?x))
  proved "z3 4.8.12" by relu_selects
rule concat_of_matmul_3
  concat{axis=?c}(matmul(?x, ?x), matmul(?x, ?x)) == matmul(concat{axis=?c}(?x, ?x), concat{axis=?c}(?x, ?x))
  if ?c < rank(?x) - 1
  proved "z3 4.8.12" by matmul_concat_batch
rule concat_of_concat_2
  concat{axis=?c}(concat{axis=?c2}(?x, ?x), concat{axis=?c2}(?x, ?x)) == concat{axis=?c2}(concat{axis=?c}(?x, ?x), concat{axis=?c}(?x, ?x))
  proved "z3 4.8.12" by concat_interchange
rule matmul_of_concat_3
  matmul{activation=?a}(concat{axis=1}(?x, ?y), concat{axis=0}(?z, ?w)) == matmul{activation=?a}(concat{axis=1}(?y, ?x), concat{axis=0}(?w, ?z))
  if rank(?w) == 2, rank(?y) == rank(?z), size(?w, 0) == size(?x, 1), size(?x, 1) == size(?y, 1)
  proved "z3 4.8.12" by matmul_gelu, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_transpose_2
  matmul{activation=?a}(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) == transpose{permutation=?o}(matmul{activation=?a}(?y, ?x))
  if ?o == concat(iota(rank(?y) - 2), [rank(?y) - 1, rank(?y) - 2])
  proved "z3 4.8.12" by matmul_gelu, matmul_of_transposes, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_gelu, transpose_of_relu, transpose_of_sigmoid, transpose_of_tanh
rule matmul_of_mul_scalar_multiply
  matmul{activation=?a}(mul(?x, ?y), scalar_multiply(?z, ?w)) == matmul{activation=?a}(mul(?x, scalar_multiply(?y, ?w)), ?z)
  proved "z3 4.8.12" by matmul_gelu, matmul_relu, matmul_scales_columns, matmul_scales_left, matmul_sigmoid, matmul_tanh, mul_associates, scaling
rule matmul_of_concat_4
  matmul(concat{axis=0}(?x, identity_matrix{size=?n}()), ?y) => concat{axis=0}(matmul(?x, ?y), ?y)
  proved "z3 4.8.12" by matmul_concat_rows, matmul_identity_left
rule matmul_of_concat_5
  matmul(concat{axis=0}(identity_matrix{size=?n}(), ?x), ?y) => concat{axis=0}(?y, matmul(?x, ?y))
  proved "z3 4.8.12" by matmul_concat_rows, matmul_identity_left
rule add_of_matmul_2
  add(matmul(?x, ?y), matmul(?z, ?w)) == matmul(concat{axis=rank(?x) - 1}(?x, ?z), concat{axis=rank(?y) - 2}(?y, ?w))
  proved "z3 4.8.12" by matmul_of_concat
rule add_of_average_pool_2
  add(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?y)) == average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(add(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by average_pool_distributes
rule add_of_enlarge_2
  add(enlarge{kernel=?k}(?x), enlarge{kernel=?k}(?y)) == enlarge{kernel=?k}(add(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by enlarge_of_sum
rule add_of_concat_2
  add(concat{axis=?c}(?x, ?y), concat{axis=?c}(?z, ?w)) == add(concat{axis=?c}(?x, ?w), concat{axis=?c}(?z, ?y))
  proved "z3 4.8.12" by concat_of_sums
rule add_of_transpose_2
  add(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) == transpose{permutation=?o}(add(?x, ?y))
  proved "z3 4.8.12" by transpose_of_sum
rule mul_of_add_2
  mul(?x, add(?y, fill{value=1.0, dims=?m}())) => add(?x, mul(?x, ?y))
  proved "z3 4.8.12" by expand_in_product, expand_of_sum, fill_is_expanded, mul_distributes, ones_in_product, reshape_of_fill, single_in_sum
rule mul_of_scalar_multiply
  mul(?x, scalar_multiply(fill{value=1.0, dims=?m}(), ?y)) => scalar_multiply(?x, ?y)
  proved "z3 4.8.12" by mul_associates, ones_in_product, scaling
rule mul_of_identity_matrix_transpose
  mul(identity_matrix{size=?n}(), transpose{permutation=?o}(?x)) => mul(?x, identity_matrix{size=size(?x, 0)}())
  if ?n == size(?x, 0), rank(?x) == 2
  proved "z3 4.8.12" by mul_associates, square_of_identity_matrix, transpose_of_product, transpose_same, transposed_diagonal
rule mul_of_enlarge
  mul(enlarge{kernel=?k}(?x), enlarge{kernel=?k}(?y)) == enlarge{kernel=?k}(mul(?x, ?y))
  if shape(?x) == shape(?y)
  proved "z3 4.8.12" by enlarge_of_product
rule mul_of_concat
  mul(concat{axis=?c}(?x, ?y), concat{axis=?c}(?z, ?w)) == mul(concat{axis=?c}(?x, ?w), concat{axis=?c}(?z, ?y))
  proved "z3 4.8.12" by concat_of_products
rule mul_of_transpose_2
  mul(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) == transpose{permutation=?o}(mul(?x, ?y))
  proved "z3 4.8.12" by transpose_of_product
rule conv2d_of_add_2
  conv2d{padding=?p, dilation=?d, groups=?g}(?x, add(?y, identity_kernel{channels=?n, groups=?g, kernel=?k}())) => add(?x, conv2d{padding=?p, dilation=?d, groups=?g}(?x, ?y))
  if (?p == same) || (?p == same_lower), ?k == suffix(shape(?y), 2), ?n == size(?x, 1)
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_identity, conv_of_one_weight_a_channel, conv_same, conv_same_lower, conv_scales_kernel, mul_distributes, pad_nothing, reshape_shifted, single_in_product, single_in_sum, slice_of_pad, slice_whole, square_of_identity_kernel
rule add_of_conv2d_2
  add(conv2d{stride=?s, padding=?p, dilation=?d}(?x, ?y), conv2d{stride=?s, padding=?p, dilation=?d}(?z, ?w)) == conv2d{stride=?s, padding=?p, dilation=?d}(concat{axis=1}(?x, ?z), concat{axis=1}(?y, ?w))
  if (?p == same) || (?p == valid)
  proved "z3 4.8.12" by conv_of_concat
rule conv2d_of_mul_scalar_multiply
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(mul(?x, ?y), scalar_multiply(?z, ?w)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(mul(?x, scalar_multiply(?y, ?w)), ?z)
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_scales, conv_scales_kernel, conv_sigmoid, conv_tanh, mul_associates, scaling
rule conv2d_of_conv2d_5
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(conv2d{padding=?p2, pads=?q, dilation=?d, groups=?g}(?x, identity_kernel{channels=?n, groups=?g, kernel=?k}()), ?y) => conv2d{stride=?s, padding=?p2, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, enlarge{kernel=?k}(?y))
  if (?p2 == valid) || (?p2 == explicit), suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_gelu, conv_identity, conv_of_pad, conv_of_slice, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, enlarge_same, pad_nothing, slice_of_pad, slice_whole
rule conv2d_of_concat_3
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(concat{axis=1}(?x, ?y), concat{axis=1}(?z, ?w)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(concat{axis=1}(?y, ?x), concat{axis=1}(?w, ?z))
  if size(?w, 0) == size(?w, 1), size(?y, 1) == size(?z, 0)
  proved "z3 4.8.12" by conv_gelu, conv_of_concat, conv_relu, conv_sigmoid, conv_tanh
rule conv2d_of_relu_identity_kernel
  conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(relu(?x), identity_kernel{channels=?n, groups=?g, kernel=?k}()) => conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=relu}(?x, identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  proved "z3 4.8.12" by conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, conv_valid, pad_of_relu, slice_of_relu, slice_twice, slice_whole
rule conv2d_of_conv2d_identity_kernel
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(conv2d{stride=?s2, padding=?p2, pads=?q2, dilation=?d2, groups=?g2}(?x, ?y), identity_kernel{channels=?n, groups=?g, kernel=?k}()) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(conv2d{stride=?s2, padding=?p2, pads=?q2, dilation=?d2, groups=?g2, activation=relu}(?x, ?y), identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  if ?n == size(?x, 1)
  proved "z3 4.8.12" by conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, conv_valid, pad_of_relu, slice_of_relu, slice_twice, slice_whole
rule conv2d_of_relu_identity_kernel_2
  conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=relu}(relu(?x), identity_kernel{channels=?n, groups=?g, kernel=?k}()) => conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=relu}(?x, identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  proved "z3 4.8.12" by conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, conv_valid, pad_nothing, pad_of_relu, relu_twice, slice_of_relu, slice_whole
rule conv2d_of_conv2d_identity_kernel_2
  conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(conv2d{padding=?p2, groups=?g}(?x, ?y), identity_kernel{channels=?n, groups=?g, kernel=?k}()) => conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(?x, ?y)
  if (?p2 == same) || (?p2 == same_lower), ?k == suffix(shape(?y), 2)
  proved "z3 4.8.12" by conv_gelu, conv_identity, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, pad_nothing, slice_of_conv, slice_of_pad, slice_twice
rule conv2d_of_conv2d_enlarge
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(conv2d{padding=?p2, dilation=?d, groups=?g2, activation=?a2}(?x, ?y), enlarge{kernel=?k}(?z)) => conv2d{stride=?s, padding=?p2, dilation=?d, groups=?g, activation=?a}(conv2d{padding=?p, dilation=?d, groups=?g2, activation=?a2}(?x, ?y), ?z)
  if (?p == valid) || (?p == explicit), (?p2 == same) || (?p2 == same_lower), ?k == suffix(shape(?y), 2), suffix(shape(?z), 2) == [1, 1]
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, enlarge_same, slice_of_conv, slice_of_gelu, slice_of_pointwise, slice_of_relu, slice_of_sigmoid, slice_of_tanh, slice_twice, slice_whole
rule conv2d_of_conv2d_6
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(conv2d{padding=?p2, dilation=?d, groups=?g2, activation=?a2}(?x, ?y), ?z) => conv2d{stride=?s, padding=?p2, dilation=?d, groups=?g, activation=?a}(conv2d{padding=?p, dilation=?d, groups=?g2, activation=?a2}(?x, ?y), enlarge{kernel=suffix(shape(?y), 2)}(?z))
  if (?p == same) || (?p == same_lower), (?p2 == valid) || (?p2 == explicit), suffix(shape(?z), 2) == [1, 1]
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_gelu, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, enlarge_same, slice_of_conv, slice_of_gelu, slice_of_pointwise, slice_of_relu, slice_of_sigmoid, slice_of_tanh
rule conv2d_of_conv2d_identity_kernel_4
  conv2d{stride=?s, padding=?p, groups=?g}(conv2d{padding=?p2, groups=?g, activation=relu}(?x, ?y), identity_kernel{channels=?n, groups=?g, kernel=?k}()) => relu(conv2d{stride=?s, padding=?p, groups=?g}(?x, ?y))
  if (?p2 == same) || (?p2 == same_lower), ?k == suffix(shape(?y), 2)
  proved "z3 4.8.12" by conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, conv_valid, pad_nothing, pad_of_relu, slice_of_conv, slice_of_pad, slice_of_relu, slice_twice
rule conv2d_of_conv2d_identity_kernel_5
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g}(conv2d{padding=?p2, dilation=?d2, groups=?g2, activation=?a}(?x, ?y), identity_kernel{channels=?n, groups=?g, kernel=?k}()) => conv2d{stride=?s, padding=?p2, dilation=?d2, groups=?g2, activation=?a}(conv2d{padding=?p, dilation=?d, groups=?g}(?x, identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}()), ?y)
  if (?p == valid) || (?p == explicit), suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by conv_gelu, conv_identity, conv_of_slice, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, pad_nothing, slice_of_gelu, slice_of_pointwise, slice_of_relu, slice_of_sigmoid, slice_of_tanh, slice_twice, slice_whole
rule conv2d_of_conv2d_7
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g}(conv2d{padding=?p, pads=?q, dilation=?d2, groups=?g}(?x, identity_kernel{channels=?n, groups=?g, kernel=?k}()), ?y) => conv2d{stride=?s, padding=?p, dilation=?d2, groups=?g}(conv2d{padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  if (?p == valid) || (?p == explicit)
  proved "z3 4.8.12" by conv_identity, conv_of_pad, conv_of_slice, conv_strided, conv_valid, pad_nothing, slice_twice, slice_whole
rule conv2d_of_conv2d_8
  conv2d{padding=valid}(conv2d{padding=valid}(?x, enlarge{kernel=[3, 3]}(?y)), ?z) => conv2d{padding=valid}(conv2d{padding=valid}(?x, ?y), enlarge{kernel=[3, 3]}(?z))
  if rank(?x) == 4, rank(?y) == 4, rank(?z) == 4, suffix(shape(?y), 2) == [1, 3], suffix(shape(?z), 2) == [1, 3]
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_of_slice, conv_valid
rule conv2d_of_mul
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(mul(?x, scalar_multiply(?y, ?z)), ?w) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=size(?x, -3), activation=?a}(mul(?x, ?y), scalar_multiply(?w, ?z))
  proved "z3 4.8.12" by conv_gelu, conv_relu, conv_scales, conv_scales_kernel, conv_sigmoid, conv_tanh, mul_associates, scaling
rule average_pool_of_conv2d_2
  average_pool{kernel=?k, stride=?s, padding=?p, ceil_mode=?e}(conv2d{stride=?s2, padding=?p2, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)) == conv2d{stride=?s2, padding=?p2, dilation=?d, groups=?g, activation=?a}(average_pool{kernel=?k, stride=?s, padding=?p, ceil_mode=?e}(fill{value=1.0, dims=?m}()), ?x)
  if suffix(shape(?x), 2) == [1, 1]
  proved "z3 4.8.12" by average_pool_is_conv, average_pool_of_expanded, average_pool_of_one, average_pool_of_pointwise, conv_gelu, conv_of_expanded, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_strided, conv_tanh, conv_valid, expand_of_gelu, expand_of_relu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_ceil, max_pool_of_expanded, max_pool_of_relu, max_pool_same, max_pool_same_lower, max_pool_valid, slice_whole
rule max_pool_of_add
  max_pool{kernel=?k, padding=?p, ceil_mode=?e}(add(?x, fill{value=1.0, dims=?m}())) => add(fill{value=1.0, dims=shape(?x)}(), max_pool{kernel=?k, padding=?p, ceil_mode=?e}(?x))
  if (?p == same) || (?p == same_lower)
  real
  proved "z3 4.8.12" by expand_of_sum, expand_same, fill_is_expanded, max_pool_of_one, max_pool_shifted
rule max_pool_of_conv2d
  max_pool{kernel=[3, 3], stride=?s, padding=?p, dilation=?d, ceil_mode=?e}(conv2d{padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)) => conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)
  if (?p == same) || (?p == same_lower), suffix(shape(?x), 2) == [1, 1]
  proved "z3 4.8.12" by conv_gelu, conv_of_expanded, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_tanh, expand_of_gelu, expand_of_relu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_of_expanded, max_pool_of_relu, max_pool_same, max_pool_same_lower
rule conv2d_of_fill
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x) => max_pool{kernel=[3, 3], stride=?s, padding=?p, dilation=?d}(conv2d{padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x))
  if (?p == same) || (?p == same_lower), suffix(shape(?x), 2) == [1, 1]
  proved "z3 4.8.12" by conv_gelu, conv_of_expanded, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_tanh, expand_of_gelu, expand_of_relu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_of_expanded, max_pool_of_relu, max_pool_same, max_pool_same_lower
rule max_pool_of_conv2d_2
  max_pool{kernel=[3, 3], padding=same}(conv2d{stride=[2, 2], padding=same}(fill{value=1.0, dims=?m}(), ?x)) => conv2d{stride=[2, 2], padding=same}(fill{value=1.0, dims=?m}(), ?x)
  if rank(?x) == 4, suffix(shape(?x), 2) == [1, 1]
  proved "z3 4.8.12" by conv_of_expanded, conv_same, fill_is_expanded, max_pool_of_expanded, max_pool_same
rule max_pool_of_conv2d_4
  max_pool{kernel=?k, stride=?s, padding=?p, ceil_mode=?e}(conv2d{stride=?s, padding=?p2, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)) => conv2d{stride=?s, padding=?p2, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)
  if (?p == same) || (?p == valid), (?p2 == valid) || (?p2 == explicit)
  proved "z3 4.8.12" by conv_gelu, conv_of_expanded, conv_relu, conv_sigmoid, conv_tanh, conv_valid, expand_of_gelu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_of_expanded, max_pool_of_one, max_pool_of_relu, max_pool_same
rule conv2d_of_fill_2
  conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x) => max_pool{kernel=suffix(shape(?x), 2), stride=?s, padding=same}(conv2d{stride=?s, padding=?p, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x))
  if (?p == valid) || (?p == explicit)
  proved "z3 4.8.12" by conv_gelu, conv_of_expanded, conv_relu, conv_sigmoid, conv_tanh, conv_valid, expand_of_gelu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_of_expanded, max_pool_of_one, max_pool_of_relu, max_pool_same
rule max_pool_of_average_pool
  max_pool{kernel=?k, padding=?p, ceil_mode=?e}(average_pool{kernel=?k2, stride=?s, padding=?p2, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}())) => average_pool{kernel=?k2, stride=?s, padding=?p2, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}())
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by average_pool_is_conv, average_pool_of_expanded, conv_of_expanded, conv_valid, fill_is_expanded, max_pool_ceil, max_pool_of_expanded, max_pool_same, max_pool_same_lower
rule average_pool_of_fill_2
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}()) => max_pool{kernel=[3, 3], padding=same, ceil_mode=?e}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}()))
  proved "z3 4.8.12" by average_pool_is_conv, average_pool_of_expanded, conv_of_expanded, conv_valid, fill_is_expanded, max_pool_ceil, max_pool_of_expanded, max_pool_same, max_pool_same_lower, max_pool_valid
rule max_pool_of_scalar_multiply
  max_pool{kernel=?k, padding=?p, ceil_mode=?e}(scalar_multiply(fill{value=1.0, dims=?m}(), ?x)) => scalar_multiply(fill{value=1.0, dims=?m}(), ?x)
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by expand_of_product, fill_is_expanded, max_pool_of_expanded, max_pool_same, max_pool_same_lower, scaling
rule scalar_multiply_of_fill
  scalar_multiply(fill{value=1.0, dims=?m}(), ?x) => max_pool{kernel=[3, 3], padding=same}(scalar_multiply(fill{value=1.0, dims=?m}(), ?x))
  proved "z3 4.8.12" by expand_of_product, fill_is_expanded, max_pool_of_expanded, max_pool_same, scaling
rule conv2d_of_average_pool
  conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(average_pool{kernel=?k, stride=?s2, padding=?p2, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}()), ?x) == max_pool{kernel=?k, stride=?s2, padding=?p2, pads=?q, ceil_mode=?e}(conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x))
  if suffix(shape(?x), 2) == [1, 1]
  proved "z3 4.8.12" by average_pool_is_conv, average_pool_of_expanded, average_pool_of_one, average_pool_of_pointwise, conv_gelu, conv_of_expanded, conv_relu, conv_same, conv_same_lower, conv_sigmoid, conv_tanh, conv_valid, expand_of_gelu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_ceil, max_pool_of_expanded, max_pool_of_one, max_pool_of_relu, max_pool_same, max_pool_same_lower, max_pool_valid
rule average_pool_of_conv2d_3
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q}(conv2d{stride=?s2, padding=?p, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)) == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q}(conv2d{stride=?s2, padding=?p, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x))
  if (?p == valid) || (?p == explicit), suffix(shape(?x), 2) >= ?s2
  proved "z3 4.8.12" by average_pool_of_expanded, average_pool_of_one, conv_gelu, conv_of_expanded, conv_relu, conv_sigmoid, conv_tanh, conv_valid, expand_of_gelu, expand_of_relu, expand_of_sigmoid, expand_of_tanh, fill_is_expanded, max_pool_of_one
rule average_pool_of_average_pool
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(average_pool{kernel=?k, stride=?s2, padding=?p2, pads=?q2, ceil_mode=?e2}(fill{value=1.0, dims=?m}())) == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(average_pool{kernel=?k, stride=?s2, padding=?p2, pads=?q2, ceil_mode=?e2}(fill{value=1.0, dims=?m}()))
  proved "z3 4.8.12" by average_pool_is_conv, average_pool_of_expanded, average_pool_of_one, conv_of_expanded, conv_valid, fill_is_expanded, max_pool_ceil, max_pool_of_expanded, max_pool_of_one, max_pool_same, max_pool_same_lower, max_pool_valid
rule average_pool_of_scalar_multiply_2
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(scalar_multiply(fill{value=1.0, dims=?m}(), ?x)) == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(scalar_multiply(fill{value=1.0, dims=?m}(), ?x))
  proved "z3 4.8.12" by average_pool_of_expanded, expand_of_product, fill_is_expanded, scaling
rule relu_of_conv2d_3
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, identity_kernel{channels=?n, groups=?g, kernel=?k}())) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(relu(?x), identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  proved "z3 4.8.12" by conv_identity, conv_same, conv_same_lower, conv_strided, conv_valid, pad_nothing, pad_of_relu, slice_of_relu, slice_twice, slice_whole
rule relu_of_conv2d_4
  relu(conv2d{stride=?s, padding=?p, dilation=?d, groups=?g}(?x, enlarge{kernel=?k}(?y))) => conv2d{stride=?s, padding=?p, dilation=?d, groups=?g}(conv2d{padding=same, dilation=?d, groups=?g, activation=relu}(?x, ?y), identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  proved "z3 4.8.12" by conv_enlarged_kernel, conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, conv_valid, enlarge_same, pad_nothing, slice_of_conv, slice_of_pad, slice_of_relu, slice_twice
rule relu_of_concat
  relu(concat{axis=?c}(?x, relu(?y))) => relu(concat{axis=?c}(?x, ?y))
  proved "z3 4.8.12" by concat_of_relu, relu_twice
rule relu_of_concat_3
  relu(concat{axis=?c}(relu(?x), ?y)) => relu(concat{axis=?c}(?x, ?y))
  proved "z3 4.8.12" by concat_of_relu, relu_twice
rule matmul_of_concat_6
  matmul{activation=?a}(concat{axis=0}(?x, ?y), concat{axis=0}(?z, ?w)) => concat{axis=0}(matmul{activation=?a}(?x, ?z), matmul{activation=?a}(?y, ?w))
  if rank(?w) == 3, rank(?x) == 3, rank(?y) == 3, rank(?z) == 3
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_batch, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule add_of_concat_3
  add(concat{axis=?c}(?x, ?y), concat{axis=?c}(?z, ?w)) == concat{axis=?c}(add(?x, ?z), add(?w, ?y))
  if rank(?w) == rank(?x)
  proved "z3 4.8.12" by concat_of_sums
rule concat_of_mul_2
  concat{axis=?c}(mul(?x, ?y), mul(?z, ?w)) => mul(concat{axis=?c}(?x, ?w), concat{axis=?c}(?y, ?z))
  if rank(?x) == rank(?y), size(?x, ?c) == size(?y, ?c)
  proved "z3 4.8.12" by concat_of_products
rule mul_of_concat_2
  mul(concat{axis=?c}(?x, ?y), concat{axis=?c}(?z, ?w)) => concat{axis=?c}(mul(?x, ?z), mul(?w, ?y))
  if rank(?w) == rank(?x)
  proved "z3 4.8.12" by concat_of_products
rule concat_of_average_pool
  concat{axis=?c}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?y)) == average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(concat{axis=?c}(?x, ?y))
  if ?c < 2
  proved "z3 4.8.12" by average_pool_concat
rule concat_of_max_pool_2
  concat{axis=?c}(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?x), max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?y)) == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(concat{axis=?c}(?x, ?y))
  if ?c < 2
  proved "z3 4.8.12" by max_pool_concat
rule concat_of_enlarge_2
  concat{axis=?c}(enlarge{kernel=?k}(?x), enlarge{kernel=?k}(?y)) == enlarge{kernel=?k}(concat{axis=?c}(?x, ?y))
  proved "z3 4.8.12" by enlarge_concat
rule concat_of_relu_2
  concat{axis=?c}(relu(?x), relu(?y)) == relu(concat{axis=?c}(?x, ?y))
  proved "z3 4.8.12" by concat_of_relu
rule concat_of_transpose_2
  concat{axis=?c}(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) => transpose{permutation=?o}(concat{axis=at(?o, ?c)}(?x, ?y))
  proved "z3 4.8.12" by transpose_of_concat, transpose_same
rule transpose_of_concat_2
  transpose{permutation=?o}(concat{axis=?c}(?x, ?y)) => concat{axis=at(?o, ?c)}(transpose{permutation=?o}(?x), transpose{permutation=?o}(?y))
  proved "z3 4.8.12" by transpose_of_concat
rule concat_of_concat_3
  concat{axis=?c}(concat{axis=?c2}(?x, ?y), concat{axis=?c2}(?z, ?w)) == concat{axis=?c2}(concat{axis=?c}(?x, ?z), concat{axis=?c}(?y, ?w))
  if ?c != ?c2
  proved "z3 4.8.12" by concat_interchange
rule split_of_matmul
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(matmul{activation=?a}(concat{axis=?c}(?x, ?y), ?z)).0 => matmul{activation=?a}(?x, ?z)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_rows, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule split_of_conv2d
  split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(?x, ?y), ?z)).0 => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ?z)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_images, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule split_of_scalar_multiply
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(scalar_multiply(concat{axis=?c}(?x, ?y), ?z)).0 => scalar_multiply(?x, ?z)
  proved "z3 4.8.12" by concat_of_scaled, scaling, split_of_concat
rule split_of_matmul_2
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(matmul{activation=?a}(concat{axis=?c}(?x, ?y), ?z)).1 => matmul{activation=?a}(?y, ?z)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_rows, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule split_of_conv2d_2
  split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(?x, ?y), ?z)).1 => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?y, ?z)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_images, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule split_of_scalar_multiply_2
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(scalar_multiply(concat{axis=?c}(?x, ?y), ?z)).1 => scalar_multiply(?y, ?z)
  proved "z3 4.8.12" by concat_of_scaled, scaling, split_of_concat
rule split_of_matmul_3
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(matmul{activation=?a}(?z, concat{axis=?c}(?x, ?y))).0 => matmul{activation=?a}(?z, ?x)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_columns, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule split_of_conv2d_3
  split{axis=1, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, concat{axis=0}(?x, ?y))).0 => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, ?x)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule split_of_matmul_4
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(matmul{activation=?a}(?z, concat{axis=?c}(?x, ?y))).1 => matmul{activation=?a}(?z, ?y)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_columns, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule split_of_conv2d_4
  split{axis=1, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, concat{axis=0}(?x, ?y))).1 => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, ?y)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule transpose_of_matmul
  transpose{permutation=?o}(matmul{activation=?a}(?x, transpose{permutation=?o}(?y))) == matmul{activation=?a}(?y, transpose{permutation=?o}(?x))
  if ?o == concat(iota(rank(?y) - 2), [rank(?y) - 1, rank(?y) - 2])
  proved "z3 4.8.12" by matmul_gelu, matmul_of_transposes, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_gelu, transpose_of_relu, transpose_of_sigmoid, transpose_of_tanh, transpose_same, transpose_twice
rule transpose_of_matmul_2
  transpose{permutation=?o}(matmul{activation=?a}(transpose{permutation=?o}(?x), ?y)) == matmul{activation=?a}(transpose{permutation=?o}(?y), ?x)
  if ?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by matmul_gelu, matmul_of_transposes, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_gelu, transpose_of_relu, transpose_of_sigmoid, transpose_of_tanh, transpose_same, transpose_twice
rule transpose_of_add
  transpose{permutation=?o}(add(?x, transpose{permutation=?o}(?y))) == add(?y, transpose{permutation=?o}(?x))
  if ?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by transpose_of_sum, transpose_same, transpose_twice
rule scalar_multiply_of_transpose_2
  scalar_multiply(transpose{permutation=?o}(mul(?x, ?y)), ?z) == transpose{permutation=?o}(mul(?x, scalar_multiply(?y, ?z)))
  proved "z3 4.8.12" by mul_associates, scaling, transpose_same, transpose_scaled
rule transpose_of_mul_2
  transpose{permutation=?o}(mul(?x, transpose{permutation=?o}(?y))) == mul(?y, transpose{permutation=?o}(?x))
  if ?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by transpose_of_product, transpose_same, transpose_twice
rule transpose_of_concat_3
  transpose{permutation=?o}(concat{axis=?c}(?x, transpose{permutation=?o}(?y))) => concat{axis=at(?o, ?c)}(transpose{permutation=?o}(?x), ?y)
  if ?o == inverse(?o)
  proved "z3 4.8.12" by transpose_of_concat, transpose_same, transpose_twice
rule concat_of_transpose_3
  concat{axis=?c}(transpose{permutation=?o}(?x), ?y) => transpose{permutation=?o}(concat{axis=at(?o, ?c)}(?x, transpose{permutation=?o}(?y)))
  if ?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by transpose_of_concat, transpose_same, transpose_twice
rule transpose_of_concat_4
  transpose{permutation=?o}(concat{axis=?c}(transpose{permutation=?o}(?x), ?y)) => concat{axis=at(?o, ?c)}(?x, transpose{permutation=?o}(?y))
  if ?o == inverse(?o)
  proved "z3 4.8.12" by transpose_of_concat, transpose_same, transpose_twice
rule concat_of_transpose_4
  concat{axis=?c}(?x, transpose{permutation=?o}(?y)) => transpose{permutation=?o}(concat{axis=at(?o, ?c)}(transpose{permutation=?o}(?x), ?y))
  if ?o == concat(iota(rank(?y) - 2), [rank(?y) - 1, rank(?y) - 2])
  proved "z3 4.8.12" by transpose_of_concat, transpose_same, transpose_twice
rule matmul_of_concat_7
  matmul{activation=?a}(concat{axis=?c}(?x, ?y), concat{axis=?c2}(?z, ?z)) => matmul{activation=?a}(add(?x, ?y), ?z)
  if ?c == rank(?x) - 1
  proved "z3 4.8.12" by matmul_distributes_left, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_add_4
  matmul{activation=?a}(add(?x, ?y), ?z) => matmul{activation=?a}(concat{axis=rank(?x) - 1}(?x, ?y), concat{axis=0}(?z, ?z))
  proved "z3 4.8.12" by matmul_distributes_left, matmul_gelu, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_concat_8
  matmul{activation=?a}(concat{axis=?c}(?x, ?x), concat{axis=?c2}(?y, ?z)) => matmul{activation=?a}(?x, add(?y, ?z))
  if ?c == rank(?x) - 1
  proved "z3 4.8.12" by matmul_distributes_right, matmul_gelu, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_add_5
  matmul{activation=?a}(?x, add(?y, ?z)) => matmul{activation=?a}(concat{axis=1}(?x, ?x), concat{axis=rank(?y) - 2}(?y, ?z))
  proved "z3 4.8.12" by matmul_distributes_right, matmul_gelu, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_add_6
  matmul{activation=?a}(?x, add(?y, matmul(?z, ?y))) == matmul{activation=?a}(add(?x, matmul(?x, ?z)), ?y)
  proved "z3 4.8.12" by matmul_associates, matmul_distributes_left, matmul_distributes_right, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule matmul_of_add_7
  matmul{activation=?a}(?x, add(?y, scalar_multiply(?y, ?z))) == matmul{activation=?a}(add(?x, scalar_multiply(?x, ?z)), ?y)
  proved "z3 4.8.12" by matmul_distributes_left, matmul_distributes_right, matmul_gelu, matmul_relu, matmul_scales_columns, matmul_scales_left, matmul_sigmoid, matmul_tanh, scaling
rule add_of_matmul_3
  add(matmul(?x, ?y), matmul(?z, ?y)) == matmul(add(?x, ?z), ?y)
  proved "z3 4.8.12" by matmul_distributes_left
rule add_of_matmul_4
  add(matmul(?x, ?y), matmul(?x, ?z)) == matmul(?x, add(?y, ?z))
  proved "z3 4.8.12" by matmul_distributes_right
rule add_of_mul_2
  add(mul(?x, ?y), mul(?x, ?z)) == mul(?x, add(?y, ?z))
  proved "z3 4.8.12" by mul_distributes
rule add_of_conv2d_3
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?z, ?y)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(add(?x, ?z), ?y)
  if shape(?x) == shape(?z)
  proved "z3 4.8.12" by conv_distributes
rule add_of_conv2d_4
  add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?z)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?y, ?z))
  if shape(?y) == shape(?z)
  proved "z3 4.8.12" by conv_distributes_over_kernels
rule add_of_average_pool_conv2d
  add(average_pool{kernel=[3, 3], padding=same, count_include_pad=1}(?x), conv2d{padding=same, groups=?g}(?x, ?y)) => conv2d{padding=same, groups=size(?x, 1)}(?x, add(?y, pool_kernel{channels=size(?x, 1), kernel=[3, 3]}()))
  if ?g == size(?x, 1), rank(?x) == 4, rank(?y) == 4, suffix(shape(?y), 1) == [1, 3, 3]
  proved "z3 4.8.12" by average_pool_is_conv, conv_distributes_over_kernels
rule add_of_scalar_multiply
  add(scalar_multiply(?x, ?y), scalar_multiply(?z, ?y)) == scalar_multiply(add(?x, ?z), ?y)
  proved "z3 4.8.12" by mul_distributes, scaling
rule add_of_scalar_multiply_2
  add(scalar_multiply(?x, ?y), scalar_multiply(?x, ?z)) == scalar_multiply(?x, add(?y, ?z))
  proved "z3 4.8.12" by mul_distributes, scaling
rule mul_of_add_3
  mul(?x, add(?y, scalar_multiply(?y, ?z))) == mul(?y, add(?x, scalar_multiply(?x, ?z)))
  proved "z3 4.8.12" by mul_associates, mul_distributes, scaling
rule conv2d_of_concat_4
  conv2d{stride=?s, padding=same, activation=?a}(concat{axis=1}(?x, ?y), concat{axis=1}(?z, ?z)) == conv2d{stride=?s, padding=same, activation=?a}(add(?x, ?y), ?z)
  proved "z3 4.8.12" by conv_distributes, conv_gelu, conv_of_concat, conv_relu, conv_sigmoid, conv_tanh
rule conv2d_of_concat_5
  conv2d{padding=?p, pads=?q, dilation=?d, activation=?a}(concat{axis=1}(?x, ?x), concat{axis=1}(?y, ?z)) == conv2d{padding=?p, pads=?q, dilation=?d, activation=?a}(?x, add(?y, ?z))
  if ((?p == same) || (?p == explicit)) || (?p == same_lower)
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_gelu, conv_of_concat, conv_relu, conv_sigmoid, conv_tanh
rule conv2d_of_add_3
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, add(?y, scalar_multiply(?y, ?z))) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(add(?x, scalar_multiply(?x, ?z)), ?y)
  proved "z3 4.8.12" by conv_distributes, conv_distributes_over_kernels, conv_gelu, conv_relu, conv_scales, conv_scales_kernel, conv_sigmoid, conv_tanh, scaling
rule conv2d_of_concat_6
  conv2d{stride=?s, padding=?p, pads=?q, activation=?a}(concat{axis=1}(?x, ?x), concat{axis=1}(?y, ?z)) == conv2d{stride=?s, padding=?p, pads=?q, activation=?a}(?x, add(?y, ?z))
  if ((?p == same) || (?p == explicit)) || (?p == same_lower)
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_gelu, conv_of_concat, conv_relu, conv_sigmoid, conv_tanh
rule relu_of_add
  relu(add(?x, conv2d{stride=?s, padding=?p, dilation=?d, groups=?g}(?x, ?y))) => conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=relu}(?x, add(?y, identity_kernel{channels=size(?x, 1), groups=?g, kernel=suffix(shape(?y), 2)}()))
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by conv_distributes_over_kernels, conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, pad_nothing, slice_of_pad, slice_whole
rule relu_of_concat_4
  relu(concat{axis=1}(?x, conv2d{stride=?s, padding=?p, dilation=?d}(?x, ?y))) => conv2d{stride=?s, padding=?p, dilation=?d, activation=relu}(?x, concat{axis=0}(identity_kernel{channels=size(?x, 1), kernel=suffix(shape(?y), 2)}(), ?y))
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by conv_concat_kernels, conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, pad_nothing, slice_of_pad, slice_whole, split_of_concat
rule relu_of_concat_5
  relu(concat{axis=1}(conv2d{stride=?s, padding=?p, dilation=?d}(?x, ?y), ?x)) => conv2d{stride=?s, padding=?p, dilation=?d, activation=relu}(?x, concat{axis=0}(?y, identity_kernel{channels=size(?x, 1), kernel=suffix(shape(?y), 2)}()))
  if (?p == same) || (?p == same_lower)
  proved "z3 4.8.12" by conv_concat_kernels, conv_identity, conv_relu, conv_same, conv_same_lower, conv_strided, pad_nothing, slice_of_pad, slice_whole, split_of_concat
rule concat_of_matmul_4
  concat{axis=?c}(matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?z, ?y)) == matmul{activation=?a}(concat{axis=?c}(?x, ?z), ?y)
  if ?c < rank(?x) - 1
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_rows, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule concat_of_conv2d_3
  concat{axis=0}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ?y), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?z, ?y)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(?x, ?z), ?y)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_images, conv_gelu, conv_relu, conv_sigmoid, conv_tanh
rule concat_of_scalar_multiply_2
  concat{axis=?c}(scalar_multiply(?x, ?y), scalar_multiply(?z, ?y)) == scalar_multiply(concat{axis=?c}(?x, ?z), ?y)
  proved "z3 4.8.12" by concat_of_scaled, scaling
rule concat_of_matmul_5
  concat{axis=?c}(matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?x, ?z)) == matmul{activation=?a}(?x, concat{axis=?c}(?y, ?z))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_columns, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule concat_of_conv2d_4
  concat{axis=1}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, ?y), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, ?z)) == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, concat{axis=0}(?y, ?z))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh
rule split_of_conv2d_5
  split{axis=1, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?z, concat{axis=0}(?x, ?y))).0 => split{axis=1, sizes=[size(?x, 0), size(?x, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=size(?z, 1), activation=?a}(?z, concat{axis=0}(?x, ?x))).0
  if size(?x, 0) == size(?y, 0)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_split, concat_of_tanh, conv_concat_kernels, conv_first_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule split_of_conv2d_6
  split{axis=1, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?z, concat{axis=0}(?x, ?y))).1 => split{axis=1, sizes=[size(?y, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=size(?z, 1), activation=?a}(?z, concat{axis=0}(?y, ?y))).1
  if size(?x, 0) == size(?y, 0)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_split, concat_of_tanh, conv_concat_kernels, conv_gelu, conv_last_kernels, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule concat_of_matmul_6
  concat{axis=?c}(matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?x, ?y)) => matmul{activation=?a}(concat{axis=?c}(?x, ?x), concat{axis=?c}(?y, ?y))
  if ?c < rank(?x) - 1
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_batch, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule mul_of_scalar_multiply_2
  mul(?x, scalar_multiply(?x, mul(?y, ?y))) == mul(scalar_multiply(?x, ?y), scalar_multiply(?x, ?y))
  proved "z3 4.8.12" by mul_associates, scaling
rule conv2d_of_add_5
  conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=?a}(?x, add(?y, add(?y, ?y))) == conv2d{stride=?s, padding=?p, pads=?q, groups=?g, activation=?a}(add(?x, add(?x, ?x)), ?y)
  proved "z3 4.8.12" by conv_distributes, conv_distributes_over_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh
rule scalar_multiply_of_add
  scalar_multiply(?x, add(?y, add(?y, ?y))) == scalar_multiply(add(?x, add(?x, ?x)), ?y)
  proved "z3 4.8.12" by mul_distributes, scaling
rule conv2d_of_add_7
  conv2d{stride=?s, padding=?p, pads=?q, groups=?g}(?x, add(pool_kernel{channels=?g, kernel=?k}(), pool_kernel{channels=?g, kernel=?k}())) => average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=1}(add(?x, ?x))
  proved "z3 4.8.12" by average_pool_is_conv, conv_distributes, conv_distributes_over_kernels
rule average_pool_of_add
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}())) == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}()))
  proved "z3 4.8.12" by average_pool_of_expanded, expand_of_sum, expand_same, fill_is_expanded
rule relu_of_add_2
  relu(add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}())) == add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}())
  real
  proved "z3 4.8.12" by relu_of_ones, relu_of_positive_sum
rule mul_of_scalar_multiply_3
  mul(?x, scalar_multiply(relu(?x), ?y)) == mul(relu(?x), scalar_multiply(relu(?x), ?y))
  proved "z3 4.8.12" by mul_associates, relu_selects, scaling
rule mul_of_scalar_multiply_transpose
  mul(scalar_multiply(transpose{permutation=?o}(?x), ?y), transpose{permutation=?o}(?x)) == scalar_multiply(transpose{permutation=?o}(mul(?x, ?x)), ?y)
  proved "z3 4.8.12" by mul_associates, scaling, transpose_of_product, transpose_same
rule relu_of_add_3
  relu(add(?x, relu(?x))) == relu(add(relu(?x), relu(?x)))
  proved "z3 4.8.12" by relu_of_doubled
rule matmul_of_transpose_concat
  matmul{activation=?a}(transpose{permutation=?o}(concat{axis=?c}(?x, ?y)), concat{axis=?c}(?x, ?y)) == matmul{activation=?a}(transpose{permutation=?o}(concat{axis=?c}(?y, ?x)), concat{axis=?c}(?y, ?x))
  if ?c == (rank(?x) - 2), ?o == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])
  proved "z3 4.8.12" by matmul_gelu, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_concat
rule add_of_mul_scalar_multiply
  add(mul(?x, scalar_multiply(?y, ?z)), scalar_multiply(?y, ?z)) == scalar_multiply(add(?y, mul(?x, ?y)), ?z)
  proved "z3 4.8.12" by mul_associates, mul_distributes, scaling
rule conv2d_of_mul_2
  conv2d{stride=[2, 2], padding=same}(mul(conv2d{padding=same}(?x, ?y), conv2d{padding=same}(?x, ?y)), ?z) => conv2d{padding=same}(mul(conv2d{stride=[2, 2], padding=same}(?x, ?y), conv2d{stride=[2, 2], padding=same}(?x, ?y)), ?z)
  if rank(?x) == 4, rank(?y) == 4, rank(?z) == 4, suffix(shape(?y), 2) == [1, 1], suffix(shape(?z), 2) == [1, 1]
  proved "z3 4.8.12" by conv_same, conv_strided, slice_of_pointwise, slice_of_product
rule conv2d_of_mul_3
  conv2d{stride=[2, 2], padding=same}(mul(conv2d{padding=same, activation=relu}(?x, ?y), conv2d{padding=same, activation=relu}(?x, ?y)), ?z) => conv2d{padding=same}(mul(conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y), conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y)), ?z)
  if rank(?x) == 4, rank(?y) == 4, rank(?z) == 4, suffix(shape(?y), 2) == [1, 1], suffix(shape(?z), 2) == [1, 1]
  proved "z3 4.8.12" by conv_relu, conv_same, conv_strided, slice_of_pointwise, slice_of_product, slice_of_relu, slice_whole
rule concat_of_scalar_multiply_3
  concat{axis=?c}(scalar_multiply(?x, ?y), mul(?z, scalar_multiply(?x, ?y))) == scalar_multiply(concat{axis=?c}(?x, mul(?x, ?z)), ?y)
  proved "z3 4.8.12" by concat_of_scaled, mul_associates, scaling
rule concat_of_mul_scalar_multiply
  concat{axis=?c}(mul(?x, scalar_multiply(?y, ?z)), scalar_multiply(?y, ?z)) == scalar_multiply(concat{axis=?c}(mul(?x, ?y), ?y), ?z)
  proved "z3 4.8.12" by concat_of_scaled, mul_associates, scaling
rule matmul_of_mul
  matmul{activation=?a}(?x, mul(scalar_multiply(?x, ?y), scalar_multiply(?x, ?y))) == matmul{activation=?a}(scalar_multiply(?x, ?y), mul(?x, scalar_multiply(?x, ?y)))
  proved "z3 4.8.12" by matmul_gelu, matmul_relu, matmul_scales_columns, matmul_scales_left, matmul_sigmoid, matmul_tanh, mul_associates, scaling
rule matmul_of_transpose_3
  matmul{activation=?a}(?x, transpose{permutation=?o}(add(?x, ?x))) == matmul{activation=?a}(concat{axis=rank(?x) - 1}(?x, ?x), transpose{permutation=?o}(concat{axis=rank(?x) - 1}(?x, ?x)))
  proved "z3 4.8.12" by matmul_distributes_right, matmul_gelu, matmul_of_concat, matmul_relu, matmul_sigmoid, matmul_tanh, transpose_of_concat, transpose_of_sum
rule matmul_of_matmul_2
  matmul{activation=?a}(?x, matmul(matmul(?y, ?x), matmul(?y, ?x))) == matmul{activation=?a}(matmul(matmul(?x, ?y), matmul(?x, ?y)), ?x)
  proved "z3 4.8.12" by matmul_associates, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule add_of_conv2d_5
  add(conv2d{padding=same}(conv2d{stride=[2, 2], padding=same}(?x, ?y), ?y), conv2d{stride=[2, 2], padding=same}(?x, ?y)) => conv2d{stride=[2, 2], padding=same}(add(?x, conv2d{padding=same}(?x, ?y)), ?y)
  if rank(?x) == 4, rank(?y) == 4, suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by conv_distributes, conv_same, conv_strided, slice_of_pointwise
rule mul_of_matmul
  mul(?x, matmul(scalar_multiply(?x, ?y), scalar_multiply(?x, ?y))) == mul(matmul(?x, scalar_multiply(?x, ?y)), scalar_multiply(?x, ?y))
  proved "z3 4.8.12" by matmul_scales_left, mul_associates, scaling
rule concat_of_conv2d_5
  concat{axis=0}(conv2d{stride=[2, 2], padding=same}(?x, ?y), conv2d{padding=same}(conv2d{stride=[2, 2], padding=same}(?x, ?y), ?y)) => conv2d{stride=[2, 2], padding=same}(concat{axis=0}(?x, conv2d{padding=same}(?x, ?y)), ?y)
  if rank(?x) == 4, rank(?y) == 4, suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by conv_concat_images, conv_same, conv_strided, slice_of_pointwise, slice_whole
rule concat_of_conv2d_6
  concat{axis=0}(conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y), conv2d{padding=same, activation=relu}(conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y), ?y)) => conv2d{stride=[2, 2], padding=same, activation=relu}(concat{axis=0}(?x, conv2d{padding=same, activation=relu}(?x, ?y)), ?y)
  if rank(?x) == 4, rank(?y) == 4, suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by concat_of_relu, conv_concat_images, conv_relu, conv_same, conv_strided, slice_of_pointwise, slice_of_relu, slice_whole
rule concat_of_conv2d_7
  concat{axis=0}(conv2d{padding=same}(conv2d{stride=[2, 2], padding=same}(?x, ?y), ?y), conv2d{stride=[2, 2], padding=same}(?x, ?y)) => conv2d{stride=[2, 2], padding=same}(concat{axis=0}(conv2d{padding=same}(?x, ?y), ?x), ?y)
  if rank(?x) == 4, rank(?y) == 4, suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by conv_concat_images, conv_same, conv_strided, slice_of_pointwise, slice_whole
rule concat_of_conv2d_8
  concat{axis=0}(conv2d{padding=same, activation=relu}(conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y), ?y), conv2d{stride=[2, 2], padding=same, activation=relu}(?x, ?y)) => conv2d{stride=[2, 2], padding=same, activation=relu}(concat{axis=0}(conv2d{padding=same, activation=relu}(?x, ?y), ?x), ?y)
  if rank(?x) == 4, rank(?y) == 4, suffix(shape(?y), 2) == [1, 1]
  proved "z3 4.8.12" by concat_of_relu, conv_concat_images, conv_relu, conv_same, conv_strided, slice_of_pointwise, slice_of_relu, slice_whole
rule concat_of_concat_4
  concat{axis=?c}(?x, concat{axis=?c}(concat{axis=?c}(?y, ?x), concat{axis=?c}(?y, ?x))) == concat{axis=?c}(concat{axis=?c}(concat{axis=?c}(?x, ?y), concat{axis=?c}(?x, ?y)), ?x)
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last
rule mul_of_average_pool
  mul(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}()), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}())) == average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(fill{value=1.0, dims=?m}())
  proved "z3 4.8.12" by average_pool_is_conv, average_pool_of_expanded, conv_of_expanded, conv_valid, fill_is_expanded, max_pool_ceil, max_pool_of_expanded, max_pool_same, max_pool_same_lower, max_pool_valid, ones_in_product
rule matmul_of_mul_2
  matmul(mul(?x, identity_matrix{size=?n}()), mul(?x, identity_matrix{size=?n}())) => mul(?x, mul(?x, identity_matrix{size=size(?x, 0)}()))
  if ?n == size(?x, 0), rank(?x) == 2
  proved "z3 4.8.12" by mul_associates, product_of_diagonals, square_of_identity_matrix
rule mul_of_conv2d
  mul(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, identity_kernel{channels=?n, groups=?g, kernel=?k}()), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, identity_kernel{channels=?n, groups=?g, kernel=?k}())) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(mul(?x, ?x), identity_kernel{channels=size(?x, 1), groups=?g, kernel=?k}())
  proved "z3 4.8.12" by conv_identity, conv_same, conv_same_lower, conv_strided, conv_valid, pad_nothing, pad_of_product, slice_of_product, slice_twice, slice_whole
rule mul_of_scalar_multiply_4
  mul(scalar_multiply(identity_kernel{channels=?n, groups=?g, kernel=?k}(), ?x), scalar_multiply(identity_kernel{channels=?n, groups=?g, kernel=?k}(), ?x)) == scalar_multiply(identity_kernel{channels=?n, groups=?g, kernel=?k}(), mul(?x, ?x))
  proved "z3 4.8.12" by mul_associates, scaling, square_of_identity_kernel
rule mul_of_scalar_multiply_5
  mul(scalar_multiply(identity_matrix{size=?n}(), ?x), scalar_multiply(identity_matrix{size=?n}(), ?x)) == scalar_multiply(identity_matrix{size=?n}(), mul(?x, ?x))
  proved "z3 4.8.12" by mul_associates, scaling, square_of_identity_matrix
rule concat_of_conv2d_9
  concat{axis=1}(conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x), conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(fill{value=1.0, dims=?m}(), ?x)) => conv2d{stride=?s, padding=?p, dilation=?d, groups=size(?x, 0), activation=?a}(fill{value=1.0, dims=?m}(), concat{axis=0}(?x, ?x))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels, conv_gelu, conv_of_fill, conv_relu, conv_sigmoid, conv_tanh
rule concat_of_matmul_transpose
  concat{axis=0}(matmul(?x, ?x), transpose{permutation=[0, 2, 1]}(matmul(?x, ?x))) == matmul(concat{axis=0}(?x, transpose{permutation=[0, 2, 1]}(?x)), concat{axis=0}(?x, transpose{permutation=[0, 2, 1]}(?x)))
  proved "z3 4.8.12" by matmul_concat_batch, matmul_of_transposes
rule concat_of_transpose_matmul
  concat{axis=0}(transpose{permutation=[0, 2, 1]}(matmul(?x, ?x)), matmul(?x, ?x)) == matmul(concat{axis=0}(transpose{permutation=[0, 2, 1]}(?x), ?x), concat{axis=0}(transpose{permutation=[0, 2, 1]}(?x), ?x))
  proved "z3 4.8.12" by matmul_concat_batch, matmul_of_transposes
rule add_of_add_transpose
  add(add(?x, ?x), transpose{permutation=?o}(add(?x, ?x))) == add(add(?x, transpose{permutation=?o}(?x)), add(?x, transpose{permutation=?o}(?x)))
  proved "z3 4.8.12" by add_associates, leading_one_in_sum, transpose_of_sum, transpose_same
rule add_of_add_average_pool
  add(add(?x, ?x), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(add(?x, ?x))) == add(add(?x, average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x)), add(?x, average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x)))
  proved "z3 4.8.12" by add_associates, average_pool_distributes, average_pool_of_one, leading_one_in_sum
rule mul_of_mul_transpose
  mul(mul(?x, ?x), transpose{permutation=?o}(mul(?x, ?x))) == mul(mul(?x, transpose{permutation=?o}(?x)), mul(?x, transpose{permutation=?o}(?x)))
  proved "z3 4.8.12" by leading_one_in_product, mul_associates, transpose_of_product, transpose_same
rule concat_of_mul_3
  concat{axis=?c}(mul(?x, scalar_multiply(?y, ?z)), mul(?x, scalar_multiply(?y, ?z))) == scalar_multiply(concat{axis=?c}(mul(?x, ?y), mul(?x, ?y)), ?z)
  proved "z3 4.8.12" by concat_of_products, concat_of_scaled, mul_associates, scaling
rule add_of_add_mul
  add(add(?x, ?x), mul(?y, add(?x, ?x))) == add(add(?x, mul(?x, ?y)), add(?x, mul(?x, ?y)))
  proved "z3 4.8.12" by add_associates, leading_one_in_sum, mul_distributes, single_in_sum
rule add_of_add_matmul
  add(add(?x, ?x), matmul(?y, add(?x, ?x))) == add(add(?x, matmul(?y, ?x)), add(?x, matmul(?y, ?x)))
  proved "z3 4.8.12" by add_associates, leading_one_in_sum, matmul_distributes_right
rule matmul_of_matmul_3
  matmul{activation=?a}(matmul(?x, ?x), matmul(matmul(?x, ?x), matmul(?x, ?x))) == matmul{activation=?a}(matmul(?x, matmul(?x, ?x)), matmul(?x, matmul(?x, ?x)))
  proved "z3 4.8.12" by matmul_associates, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh
rule concat_of_concat_5
  concat{axis=?c}(concat{axis=?c}(?x, ?x), concat{axis=?c}(concat{axis=?c}(?x, ?x), concat{axis=?c}(?x, ?x))) == concat{axis=?c}(concat{axis=?c}(?x, concat{axis=?c}(?x, ?x)), concat{axis=?c}(?x, concat{axis=?c}(?x, ?x)))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last
rule add_of_add_2
  add(add(identity_matrix{size=?n}(), identity_matrix{size=?n}()), add(identity_matrix{size=?n}(), identity_matrix{size=?n}())) == matmul(add(identity_matrix{size=?n}(), identity_matrix{size=?n}()), add(identity_matrix{size=?n}(), identity_matrix{size=?n}()))
  proved "z3 4.8.12" by matmul_distributes_left, matmul_distributes_right, product_of_diagonals, square_of_identity_matrix
rule matmul_of_add_8
  matmul(add(identity_matrix{size=?n}(), identity_matrix{size=?n}()), add(identity_matrix{size=?n}(), identity_matrix{size=?n}())) == mul(add(identity_matrix{size=?n}(), identity_matrix{size=?n}()), add(identity_matrix{size=?n}(), identity_matrix{size=?n}()))
  proved "z3 4.8.12" by matmul_distributes_left, matmul_distributes_right, mul_distributes, product_of_diagonals, square_of_identity_matrix
rule add_of_add_3
  add(add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}()), add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}())) == mul(add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}()), add(fill{value=1.0, dims=?m}(), fill{value=1.0, dims=?m}()))
  proved "z3 4.8.12" by mul_distributes, ones_in_product
rule split_of_conv2d_7
  split{axis=1, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, concat{axis=0}(?x, ?y))) == (conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, ?x), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?z, ?y))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_kernels, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule split_of_conv2d_8
  split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(concat{axis=0}(?x, ?y), ?z)) == (conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ?z), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?y, ?z))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_images, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule split_of_transpose
  split{axis=?c, sizes=[size(?x, -2), size(?y, -2)]}(transpose{permutation=?o}(concat{axis=?c2}(?x, ?y))) => (transpose{permutation=?o}(?x), transpose{permutation=?o}(?y))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last, split_of_concat, transpose_of_concat, transpose_same
rule split_of_transpose_2
  split{axis=?c, sizes=[size(?x, -1), size(?y, -1)]}(transpose{permutation=?o}(concat{axis=?c2}(?x, ?y))) => (transpose{permutation=?o}(?x), transpose{permutation=?o}(?y))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last, split_of_concat, transpose_of_concat, transpose_same
rule split_of_matmul_7
  split{axis=?c, sizes=[size(?x, ?c), size(?y, ?c)]}(matmul{activation=?a}(concat{axis=?c}(?x, ?y), concat{axis=?c}(?x, ?y))) => (matmul{activation=?a}(?x, ?x), matmul{activation=?a}(?y, ?y))
  if ?c < rank(?x) - 1
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_batch, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule matmul_and_matmul
  (matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?x, ?z)) => split{axis=rank(?x) - 1, sizes=[size(?y, -1), size(?z, -1)]}(matmul{activation=?a}(?x, concat{axis=rank(?y) - 1}(?y, ?z)))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_columns, matmul_concat_matrix_columns, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule matmul_and_matmul_2
  (matmul{activation=?a}(?x, ?y), matmul{activation=?a}(?z, ?y)) => split{axis=rank(?x) - 2, sizes=[size(?x, -2), size(?z, -2)]}(matmul{activation=?a}(concat{axis=rank(?x) - 2}(?x, ?z), ?y))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, matmul_concat_rows, matmul_gelu, matmul_relu, matmul_sigmoid, matmul_tanh, split_of_concat
rule conv2d_and_conv2d
  (conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?x, ?y), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=?a}(?z, ?y)) => split{axis=0, sizes=[size(?x, 0), size(?z, 0)]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=size(?x, 1), activation=?a}(concat{axis=0}(?x, ?z), ?y))
  if ((?p == same) || (?p == explicit)) || (?p == valid)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_relu, concat_of_sigmoid, concat_of_tanh, conv_concat_images, conv_gelu, conv_relu, conv_sigmoid, conv_tanh, split_of_concat
rule average_pool_and_average_pool_2
  (average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by average_pool_concat, split_of_concat
rule average_pool_and_average_pool_3
  (average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?x), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e, count_include_pad=?i}(concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by average_pool_concat, split_of_concat
rule average_pool_and_average_pool_4
  (average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?x), average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by average_pool_concat, split_of_concat
rule max_pool_and_max_pool_2
  (max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?x), max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by max_pool_concat, split_of_concat
rule max_pool_and_max_pool_3
  (max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?x), max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?e}(concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by max_pool_concat, split_of_concat
rule enlarge_and_enlarge
  (enlarge{kernel=?k}(?x), enlarge{kernel=?k}(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(enlarge{kernel=?k}(concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by enlarge_concat, split_of_concat
rule enlarge_and_enlarge_2
  (enlarge{kernel=?k}(?x), enlarge{kernel=?k}(?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(enlarge{kernel=?k}(concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last, enlarge_concat, enlarge_same, split_of_concat
rule scalar_multiply_and_scalar_multiply
  (scalar_multiply(?x, ?y), scalar_multiply(?z, ?y)) => split{axis=0, sizes=[size(?x, 0), size(?z, 0)]}(scalar_multiply(concat{axis=0}(?x, ?z), ?y))
  proved "z3 4.8.12" by concat_of_scaled, scaling, split_of_concat
rule scalar_multiply_and_scalar_multiply_2
  (scalar_multiply(?x, ?y), scalar_multiply(?z, ?y)) => split{axis=1, sizes=[size(?x, 1), size(?z, 1)]}(scalar_multiply(concat{axis=1}(?x, ?z), ?y))
  proved "z3 4.8.12" by concat_of_scaled, scaling, split_of_concat
rule relu_and_relu
  (relu(?x), relu(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(relu(concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_relu, split_of_concat
rule relu_and_relu_2
  (relu(?x), relu(?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(relu(concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_relu, split_of_concat
rule transpose_and_transpose
  (transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) => split{axis=rank(?x) - 1, sizes=[size(?x, -2), size(?y, -2)]}(transpose{permutation=?o}(concat{axis=rank(?x) - 2}(?x, ?y)))
  proved "z3 4.8.12" by split_of_concat, transpose_of_concat
rule transpose_and_transpose_2
  (transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) => split{axis=rank(?x) - 2, sizes=[size(?x, -1), size(?y, -1)]}(transpose{permutation=?o}(concat{axis=rank(?x) - 1}(?x, ?y)))
  proved "z3 4.8.12" by split_of_concat, transpose_of_concat
rule transpose_and_transpose_3
  (transpose{permutation=?o}(?x), transpose{permutation=?o}(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(transpose{permutation=?o}(concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_concat_first, concat_of_concat_last, split_of_concat, transpose_of_concat, transpose_same
rule add_and_add
  (add(?x, ?x), add(?y, ?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(add(concat{axis=0}(?x, ?y), concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_sums, split_of_concat
rule add_and_add_2
  (add(?x, ?x), add(?y, ?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(add(concat{axis=1}(?x, ?y), concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_sums, split_of_concat
rule mul_and_mul
  (mul(?x, ?x), mul(?y, ?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(mul(concat{axis=0}(?x, ?y), concat{axis=0}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_products, split_of_concat
rule mul_and_mul_2
  (mul(?x, ?x), mul(?y, ?y)) => split{axis=1, sizes=[size(?x, 1), size(?y, 1)]}(mul(concat{axis=1}(?x, ?y), concat{axis=1}(?x, ?y)))
  proved "z3 4.8.12" by concat_of_products, split_of_concat
rule concat_and_concat
  (concat{axis=?c}(?x, ?x), concat{axis=?c}(?y, ?y)) => split{axis=rank(?x) - 1, sizes=[size(?x, -1), size(?y, -1)]}(concat{axis=?c}(concat{axis=rank(?x) - 1}(?x, ?y), concat{axis=rank(?x) - 1}(?x, ?y)))
  proved "z3 4.8.12" by concat_interchange, split_of_concat
rule concat_and_concat_2
  (concat{axis=?c}(?x, ?x), concat{axis=?c}(?y, ?y)) => split{axis=rank(?x) - 2, sizes=[size(?x, -2), size(?y, -2)]}(concat{axis=?c}(concat{axis=rank(?x) - 2}(?x, ?y), concat{axis=rank(?x) - 2}(?x, ?y)))
  proved "z3 4.8.12" by concat_interchange, split_of_concat
rule relu_of_add_conv2d
  relu(add(conv2d{stride=?s, padding=?p, dilation=?d}(?x, ?y), conv2d{stride=?s, padding=?p, dilation=?d}(?z, ?w))) == conv2d{stride=?s, padding=?p, dilation=?d, activation=relu}(concat{axis=1}(?x, ?z), concat{axis=1}(?y, ?w))
  if (?p == same) || (?p == valid)
  proved "z3 4.8.12" by conv_of_concat, conv_relu
)rules";
#pragma GCC diagnostic pop

}  // namespace unity::tensor
