// Derived rules of tensor graphs, as text. Over 500 lines because it holds many rules.
// The program generate_rules prints it: generate_rules --shipped derived.
#pragma once

#include <string_view>

namespace unity::tensor {

// Longer than the string literals that every compiler must support; the supported compilers accept it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
// Read it with parse_rules (rewrite/parse.hpp) and compile it for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view derived_rules = R"rules(# Substitutions too large to enumerate, made and proved by
#   generate_rules --derive all --out FILE
# from compositions of the operators of include/unity/tensor/generation/vocabularies.hpp, which the properties of
# operators (axioms.hpp) were applied to. The prover and the properties that each proof used are named. The searches of
# `optimize` do without: the rules of standard_rules.hpp say most of this.

rule joined_conv2d
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y)... => split{axis=1, sizes=[size(??y, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, concat{axis=0}(??y...)))
  proved "z3 4.8.12" by conv_concat_kernels, split_of_concat
rule derived_conv2d_of_add
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(add(?x, ?x), ?y) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?y, ?y))
  proved "z3 4.8.12" by conv_distributes, conv_distributes_over_kernels
rule derived_conv2d_of_add_2
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(add(?x, ?x), ?y, ?z) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?y, ?y), reshape{dims=[size(?z, 0)]}(reshape{dims=[size(?z, 0), 1, 1]}(?z)))
  proved "z3 4.8.12" by conv_bias, conv_distributes, conv_distributes_over_kernels, reshape_same, reshape_twice
rule derived_batch_norm_of_conv2d
  batch_norm{epsilon=?l}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), ?z, ?w, ?v, ?u) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, mul(?y, reshape{dims=[size(?y, 0), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)))), reshape{dims=[size(?w, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)), negate(reshape{dims=[size(?v, 0), 1, 1]}(?v))), reshape{dims=[size(?w, 0), 1, 1]}(?w))))
  if size(?y, 0) == size(?z, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_scales_channels, mul_distributes, reshape_same, reshape_shifted, reshape_twice, single_in_sum
rule derived_batch_norm_of_add
  batch_norm{epsilon=?l}(add(?x, ?x), ?y, ?z, ?w, ?v) => conv2d{groups=size(?x, 1)}(?x, reshape{dims=[size(?x, 1), 1, 1, 1]}(add(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)), mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)))), reshape{dims=[size(?z, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)), negate(reshape{dims=[size(?w, 0), 1, 1]}(?w))), reshape{dims=[size(?z, 0), 1, 1]}(?z))))
  if rank(?x) == 4, size(?x, 1) == size(?y, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_of_one_weight_a_channel, mul_distributes, reshape_same, reshape_scaled, reshape_shifted, reshape_twice, single_in_product, single_in_sum
rule joined_relu_of_conv2d
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y))... => split{axis=1, sizes=[size(??y, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=relu}(?x, concat{axis=0}(??y...)))
  proved "z3 4.8.12" by concat_of_relu, conv_concat_kernels, conv_relu, split_of_concat
rule joined_sigmoid_of_conv2d
  sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y))... => split{axis=1, sizes=[size(??y, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=sigmoid}(?x, concat{axis=0}(??y...)))
  proved "z3 4.8.12" by concat_of_sigmoid, conv_concat_kernels, conv_sigmoid, split_of_concat
rule joined_tanh_of_conv2d
  tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y))... => split{axis=1, sizes=[size(??y, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=tanh}(?x, concat{axis=0}(??y...)))
  proved "z3 4.8.12" by concat_of_tanh, conv_concat_kernels, conv_tanh, split_of_concat
rule joined_gelu_of_conv2d
  gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y))... => split{axis=1, sizes=[size(??y, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=gelu}(?x, concat{axis=0}(??y...)))
  proved "z3 4.8.12" by concat_of_gelu, conv_concat_kernels, conv_gelu, split_of_concat
rule derived_relu_of_conv2d
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y, ?z)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?y, ?z)
  proved "z3 4.8.12" by conv_bias_relu
rule derived_sigmoid_of_conv2d
  sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y, ?z)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=sigmoid}(?x, ?y, ?z)
  proved "z3 4.8.12" by conv_bias_sigmoid
rule derived_tanh_of_conv2d
  tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y, ?z)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=tanh}(?x, ?y, ?z)
  proved "z3 4.8.12" by conv_bias_tanh
rule derived_gelu_of_conv2d
  gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y, ?z)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=gelu}(?x, ?y, ?z)
  proved "z3 4.8.12" by conv_bias_gelu
rule joined_relu_of_conv2d_2
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y, ??z))... => split{axis=1, sizes=[size(??y, 0)...]}(relu(add(concat{axis=1 - at([4...], 0) + at([3...], 0)}(reshape{dims=[size(??z, 0), 1, 1]}(??z)...), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, concat{axis=0}(??y...)))))
  if size(??y, 0) == size(??z, 0)
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, conv_bias, conv_concat_kernels, split_of_concat
rule joined_sigmoid_of_conv2d_2
  sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y, ??z))... => split{axis=1, sizes=[size(??y, 0)...]}(sigmoid(add(concat{axis=1 - at([4...], 0) + at([3...], 0)}(reshape{dims=[size(??z, 0), 1, 1]}(??z)...), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, concat{axis=0}(??y...)))))
  if size(??y, 0) == size(??z, 0)
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, conv_bias, conv_concat_kernels, split_of_concat
rule joined_tanh_of_conv2d_2
  tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y, ??z))... => split{axis=1, sizes=[size(??y, 0)...]}(tanh(add(concat{axis=1 - at([4...], 0) + at([3...], 0)}(reshape{dims=[size(??z, 0), 1, 1]}(??z)...), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, concat{axis=0}(??y...)))))
  if size(??y, 0) == size(??z, 0)
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, conv_bias, conv_concat_kernels, split_of_concat
rule joined_gelu_of_conv2d_2
  gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??y, ??z))... => split{axis=1, sizes=[size(??y, 0)...]}(gelu(add(concat{axis=1 - at([4...], 0) + at([3...], 0)}(reshape{dims=[size(??z, 0), 1, 1]}(??z)...), conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, concat{axis=0}(??y...)))))
  if size(??y, 0) == size(??z, 0)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, conv_bias, conv_concat_kernels, split_of_concat
rule derived_relu_of_batch_norm
  relu(batch_norm{epsilon=?l}(?x, ?y, ?z, ?w, ?v)) => conv2d{groups=size(?x, 1), activation=relu}(?x, reshape{dims=[size(?x, 1), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y))), reshape{dims=[size(?z, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)), negate(reshape{dims=[size(?w, 0), 1, 1]}(?w))), reshape{dims=[size(?z, 0), 1, 1]}(?z))))
  if rank(?x) == 4, size(?x, 1) == size(?y, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_relu, conv_of_one_weight_a_channel, conv_scales_channels, mul_associates, mul_distributes, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_same, reshape_scaled, reshape_shifted, reshape_twice, single_in_product, single_in_sum
rule derived_sigmoid_of_batch_norm
  sigmoid(batch_norm{epsilon=?l}(?x, ?y, ?z, ?w, ?v)) => conv2d{groups=size(?x, 1), activation=sigmoid}(?x, reshape{dims=[size(?x, 1), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y))), reshape{dims=[size(?z, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)), negate(reshape{dims=[size(?w, 0), 1, 1]}(?w))), reshape{dims=[size(?z, 0), 1, 1]}(?z))))
  if rank(?x) == 4, size(?x, 1) == size(?y, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_sigmoid, conv_of_one_weight_a_channel, conv_scales_channels, mul_associates, mul_distributes, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_same, reshape_scaled, reshape_shifted, reshape_twice, single_in_product, single_in_sum
rule derived_tanh_of_batch_norm
  tanh(batch_norm{epsilon=?l}(?x, ?y, ?z, ?w, ?v)) => conv2d{groups=size(?x, 1), activation=tanh}(?x, reshape{dims=[size(?x, 1), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y))), reshape{dims=[size(?z, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)), negate(reshape{dims=[size(?w, 0), 1, 1]}(?w))), reshape{dims=[size(?z, 0), 1, 1]}(?z))))
  if rank(?x) == 4, size(?x, 1) == size(?y, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_tanh, conv_of_one_weight_a_channel, conv_scales_channels, mul_associates, mul_distributes, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_same, reshape_scaled, reshape_shifted, reshape_twice, single_in_product, single_in_sum
rule derived_gelu_of_batch_norm
  gelu(batch_norm{epsilon=?l}(?x, ?y, ?z, ?w, ?v)) => conv2d{groups=size(?x, 1), activation=gelu}(?x, reshape{dims=[size(?x, 1), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y))), reshape{dims=[size(?z, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?v), dims=[]}(), reshape{dims=[size(?v, 0), 1, 1]}(?v)))), reshape{dims=[size(?y, 0), 1, 1]}(?y)), negate(reshape{dims=[size(?w, 0), 1, 1]}(?w))), reshape{dims=[size(?z, 0), 1, 1]}(?z))))
  if rank(?x) == 4, size(?x, 1) == size(?y, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_gelu, conv_of_one_weight_a_channel, conv_scales_channels, mul_associates, mul_distributes, reshape_of_product, reshape_of_reciprocal, reshape_of_sqrt, reshape_same, reshape_scaled, reshape_shifted, reshape_twice, single_in_product, single_in_sum
rule derived_relu_of_batch_norm_conv2d
  relu(batch_norm{epsilon=?l}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), ?z, ?w, ?v, ?u)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, mul(?y, reshape{dims=[size(?y, 0), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)))), reshape{dims=[size(?w, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)), negate(reshape{dims=[size(?v, 0), 1, 1]}(?v))), reshape{dims=[size(?w, 0), 1, 1]}(?w))))
  if size(?y, 0) == size(?z, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_relu, conv_scales_channels, mul_distributes, reshape_same, reshape_shifted, reshape_twice, single_in_sum
rule derived_sigmoid_of_batch_norm_conv2d
  sigmoid(batch_norm{epsilon=?l}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), ?z, ?w, ?v, ?u)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=sigmoid}(?x, mul(?y, reshape{dims=[size(?y, 0), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)))), reshape{dims=[size(?w, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)), negate(reshape{dims=[size(?v, 0), 1, 1]}(?v))), reshape{dims=[size(?w, 0), 1, 1]}(?w))))
  if size(?y, 0) == size(?z, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_sigmoid, conv_scales_channels, mul_distributes, reshape_same, reshape_shifted, reshape_twice, single_in_sum
rule derived_tanh_of_batch_norm_conv2d
  tanh(batch_norm{epsilon=?l}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), ?z, ?w, ?v, ?u)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=tanh}(?x, mul(?y, reshape{dims=[size(?y, 0), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)))), reshape{dims=[size(?w, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)), negate(reshape{dims=[size(?v, 0), 1, 1]}(?v))), reshape{dims=[size(?w, 0), 1, 1]}(?w))))
  if size(?y, 0) == size(?z, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_tanh, conv_scales_channels, mul_distributes, reshape_same, reshape_shifted, reshape_twice, single_in_sum
rule derived_gelu_of_batch_norm_conv2d
  gelu(batch_norm{epsilon=?l}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?y), ?z, ?w, ?v, ?u)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=gelu}(?x, mul(?y, reshape{dims=[size(?y, 0), 1, 1, 1]}(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)))), reshape{dims=[size(?w, 0)]}(add(mul(mul(reciprocal(sqrt(add(fill{value=?l, element=dtype(?u), dims=[]}(), reshape{dims=[size(?u, 0), 1, 1]}(?u)))), reshape{dims=[size(?z, 0), 1, 1]}(?z)), negate(reshape{dims=[size(?v, 0), 1, 1]}(?v))), reshape{dims=[size(?w, 0), 1, 1]}(?w))))
  if size(?y, 0) == size(?z, 0)
  proved "z3 4.8.12" by add_associates, batch_norm_is_affine, conv_bias, conv_bias_gelu, conv_scales_channels, mul_distributes, reshape_same, reshape_shifted, reshape_twice, single_in_sum
rule joined_relu_of_add_conv2d
  relu(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ??z)))... => split{axis=1, sizes=[size(??z, 0)...]}(relu(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, concat{axis=0}(??z...)))))
  if at(concat(repeat(1, 4 - rank(?x)), shape(?x)), 1) == 1, rank(?x) <= 4
  proved "z3 4.8.12" by concat_of_relu, concat_of_shifted, conv_concat_kernels, split_of_concat
rule joined_sigmoid_of_add_conv2d
  sigmoid(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ??z)))... => split{axis=1, sizes=[size(??z, 0)...]}(sigmoid(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, concat{axis=0}(??z...)))))
  if at(concat(repeat(1, 4 - rank(?x)), shape(?x)), 1) == 1, rank(?x) <= 4
  proved "z3 4.8.12" by concat_of_shifted, concat_of_sigmoid, conv_concat_kernels, split_of_concat
rule joined_tanh_of_add_conv2d
  tanh(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ??z)))... => split{axis=1, sizes=[size(??z, 0)...]}(tanh(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, concat{axis=0}(??z...)))))
  if at(concat(repeat(1, 4 - rank(?x)), shape(?x)), 1) == 1, rank(?x) <= 4
  proved "z3 4.8.12" by concat_of_shifted, concat_of_tanh, conv_concat_kernels, split_of_concat
rule joined_gelu_of_add_conv2d
  gelu(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ??z)))... => split{axis=1, sizes=[size(??z, 0)...]}(gelu(add(?x, conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, concat{axis=0}(??z...)))))
  if at(concat(repeat(1, 4 - rank(?x)), shape(?x)), 1) == 1, rank(?x) <= 4
  proved "z3 4.8.12" by concat_of_gelu, concat_of_shifted, conv_concat_kernels, split_of_concat
rule joined_matmul
  matmul(?x, ??y)... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul(?x, concat{axis=rank(?x) - 1}(??y...)))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by matmul_concat_columns, split_of_concat
rule joined_matmul_2
  matmul(?x, ??y)... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul(?x, concat{axis=1}(??y...)))
  if rank(??y) == 2, rank(?x) > 2
  proved "z3 4.8.12" by matmul_concat_matrix_columns, split_of_concat
rule joined_linear
  linear(?x, ??y, ??z)... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear(?x, concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??z) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_sums, linear_bias, linear_is_matmul, matmul_concat_columns, split_of_concat
rule joined_linear_2
  linear(?x, ??y, ??z)... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear(?x, concat{axis=1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??y) == 2, rank(??z) <= rank(?x), rank(?x) > 2, size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_sums, linear_bias, linear_is_matmul, matmul_concat_matrix_columns, split_of_concat
rule derived_linear_of_matmul
  linear(matmul(?x, ?y), ?z, ?w) => linear(?x, matmul(?y, ?z), ?w)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, matmul_associates
rule derived_linear_of_scalar_multiply
  linear(scalar_multiply(?x, ?y), ?z, ?w) => linear(?x, mul(?y, ?z), ?w)
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, matmul_scales_columns, matmul_scales_left, reshape_scaled, scaling
rule derived_add_of_matmul
  add(?x, matmul(?y, ?z)) => linear(?y, ?z, ?x)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul
rule derived_add_of_linear
  add(?x, linear(?y, ?z, ?w)) => linear(?y, ?z, add(?w, ?x))
  proved "z3 4.8.12" by add_associates, linear_bias
rule derived_relu_of_matmul
  relu(matmul(?x, ?y)) => matmul{activation=relu}(?x, ?y)
  proved "z3 4.8.12" by matmul_relu
rule derived_sigmoid_of_matmul
  sigmoid(matmul(?x, ?y)) => matmul{activation=sigmoid}(?x, ?y)
  proved "z3 4.8.12" by matmul_sigmoid
rule derived_tanh_of_matmul
  tanh(matmul(?x, ?y)) => matmul{activation=tanh}(?x, ?y)
  proved "z3 4.8.12" by matmul_tanh
rule derived_gelu_of_matmul
  gelu(matmul(?x, ?y)) => matmul{activation=gelu}(?x, ?y)
  proved "z3 4.8.12" by matmul_gelu
rule joined_relu_of_matmul
  relu(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=relu}(?x, concat{axis=rank(?x) - 1}(??y...)))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_columns, matmul_relu, split_of_concat
rule joined_sigmoid_of_matmul
  sigmoid(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=sigmoid}(?x, concat{axis=rank(?x) - 1}(??y...)))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_columns, matmul_sigmoid, split_of_concat
rule joined_tanh_of_matmul
  tanh(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=tanh}(?x, concat{axis=rank(?x) - 1}(??y...)))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_columns, matmul_tanh, split_of_concat
rule joined_gelu_of_matmul
  gelu(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=gelu}(?x, concat{axis=rank(?x) - 1}(??y...)))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_columns, matmul_gelu, split_of_concat
rule joined_relu_of_matmul_2
  relu(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=relu}(?x, concat{axis=1}(??y...)))
  if rank(??y) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_matrix_columns, matmul_relu, split_of_concat
rule joined_sigmoid_of_matmul_2
  sigmoid(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=sigmoid}(?x, concat{axis=1}(??y...)))
  if rank(??y) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_matrix_columns, matmul_sigmoid, split_of_concat
rule joined_tanh_of_matmul_2
  tanh(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=tanh}(?x, concat{axis=1}(??y...)))
  if rank(??y) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_matrix_columns, matmul_tanh, split_of_concat
rule joined_gelu_of_matmul_2
  gelu(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=gelu}(?x, concat{axis=1}(??y...)))
  if rank(??y) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_matrix_columns, matmul_gelu, split_of_concat
rule derived_relu_of_linear
  relu(linear(?x, ?y, ?z)) => linear{activation=relu}(?x, ?y, ?z)
  proved "z3 4.8.12" by linear_relu
rule derived_sigmoid_of_linear
  sigmoid(linear(?x, ?y, ?z)) => linear{activation=sigmoid}(?x, ?y, ?z)
  proved "z3 4.8.12" by linear_sigmoid
rule derived_tanh_of_linear
  tanh(linear(?x, ?y, ?z)) => linear{activation=tanh}(?x, ?y, ?z)
  proved "z3 4.8.12" by linear_tanh
rule derived_gelu_of_linear
  gelu(linear(?x, ?y, ?z)) => linear{activation=gelu}(?x, ?y, ?z)
  proved "z3 4.8.12" by linear_gelu
rule joined_relu_of_linear
  relu(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=relu}(?x, concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??z) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, linear_bias, linear_is_matmul, linear_relu, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_linear
  sigmoid(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=sigmoid}(?x, concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??z) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, linear_bias, linear_is_matmul, linear_sigmoid, matmul_concat_columns, split_of_concat
rule joined_tanh_of_linear
  tanh(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=tanh}(?x, concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??z) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, linear_bias, linear_is_matmul, linear_tanh, matmul_concat_columns, split_of_concat
rule joined_gelu_of_linear
  gelu(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=gelu}(?x, concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??z) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, linear_bias, linear_gelu, linear_is_matmul, matmul_concat_columns, split_of_concat
rule joined_relu_of_linear_2
  relu(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=relu}(?x, concat{axis=1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??y) == 2, rank(??z) <= rank(?x), rank(?x) > 2, size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, linear_bias, linear_is_matmul, linear_relu, matmul_concat_matrix_columns, split_of_concat
rule joined_sigmoid_of_linear_2
  sigmoid(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=sigmoid}(?x, concat{axis=1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??y) == 2, rank(??z) <= rank(?x), rank(?x) > 2, size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, linear_bias, linear_is_matmul, linear_sigmoid, matmul_concat_matrix_columns, split_of_concat
rule joined_tanh_of_linear_2
  tanh(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=tanh}(?x, concat{axis=1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??y) == 2, rank(??z) <= rank(?x), rank(?x) > 2, size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, linear_bias, linear_is_matmul, linear_tanh, matmul_concat_matrix_columns, split_of_concat
rule joined_gelu_of_linear_2
  gelu(linear(?x, ??y, ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, 1)...]}(linear{activation=gelu}(?x, concat{axis=1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??z)...], 0)}(??z...)))
  if rank(??y) == 2, rank(??z) <= rank(?x), rank(?x) > 2, size(??y, -1) == size(??z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, linear_bias, linear_gelu, linear_is_matmul, matmul_concat_matrix_columns, split_of_concat
rule derived_scalar_multiply_of_linear
  scalar_multiply(linear(?x, ?y, ?z), ?w) => linear(?x, mul(?w, ?y), mul(?w, ?z))
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, matmul_scales_columns, mul_distributes, reshape_scaled, scaling
rule derived_linear_of_scalar_multiply_matmul
  linear(scalar_multiply(matmul(?x, ?y), ?z), ?w, ?v) => linear(?x, matmul(mul(?y, ?z), ?w), ?v)
  if rank(?z) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, matmul_associates, matmul_scales_columns, scaling
rule derived_add_of_matmul_scalar_multiply
  add(?x, matmul(scalar_multiply(?y, ?z), ?w)) => linear(?y, mul(?w, ?z), ?x)
  if rank(?z) <= 1, rank(?z) == 0
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, matmul_scales_columns, matmul_scales_left, scaling
rule derived_add_of_linear_matmul
  add(?x, linear(matmul(?y, ?z), ?w, ?v)) => linear(?y, matmul(?z, ?w), add(?v, ?x))
  proved "z3 4.8.12" by add_associates, linear_bias, linear_is_matmul, matmul_associates, single_in_sum
rule derived_add_of_scalar_multiply_matmul
  add(?x, scalar_multiply(matmul(?y, ?z), ?w)) => linear(?y, mul(?w, ?z), ?x)
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, matmul_scales_columns, scaling
rule derived_add_of_scalar_multiply_linear
  add(?x, scalar_multiply(linear(?y, ?z, ?w), ?v)) => linear(?y, mul(?v, ?z), add(?x, mul(?v, ?w)))
  if rank(?v) <= 1
  proved "z3 4.8.12" by add_associates, linear_bias, linear_is_matmul, linear_of_vector, matmul_scales_columns, mul_distributes, reshape_scaled, scaling, single_in_sum
rule derived_relu_of_matmul_scalar_multiply
  relu(matmul(scalar_multiply(?x, ?y), ?z)) => matmul{activation=relu}(?x, mul(?y, ?z))
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by matmul_relu, matmul_scales_columns, matmul_scales_left, scaling
rule derived_sigmoid_of_matmul_scalar_multiply
  sigmoid(matmul(scalar_multiply(?x, ?y), ?z)) => matmul{activation=sigmoid}(?x, mul(?y, ?z))
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by matmul_scales_columns, matmul_scales_left, matmul_sigmoid, scaling
rule derived_tanh_of_matmul_scalar_multiply
  tanh(matmul(scalar_multiply(?x, ?y), ?z)) => matmul{activation=tanh}(?x, mul(?y, ?z))
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by matmul_scales_columns, matmul_scales_left, matmul_tanh, scaling
rule derived_gelu_of_matmul_scalar_multiply
  gelu(matmul(scalar_multiply(?x, ?y), ?z)) => matmul{activation=gelu}(?x, mul(?y, ?z))
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by matmul_gelu, matmul_scales_columns, matmul_scales_left, scaling
rule joined_relu_of_matmul_scalar_multiply
  relu(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=relu}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(?x) - 1 == rank(??z) - 1 || rank(?x) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??z)
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_columns, matmul_relu, matmul_scales_columns, matmul_scales_left, scaling, split_of_concat
rule joined_sigmoid_of_matmul_scalar_multiply
  sigmoid(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=sigmoid}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(?x) - 1 == rank(??z) - 1 || rank(?x) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??z)
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_columns, matmul_scales_columns, matmul_scales_left, matmul_sigmoid, scaling, split_of_concat
rule joined_tanh_of_matmul_scalar_multiply
  tanh(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=tanh}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(?x) - 1 == rank(??z) - 1 || rank(?x) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??z)
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_columns, matmul_scales_columns, matmul_scales_left, matmul_tanh, scaling, split_of_concat
rule joined_gelu_of_matmul_scalar_multiply
  gelu(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=gelu}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(?x) - 1 == rank(??z) - 1 || rank(?x) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??z)
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_columns, matmul_gelu, matmul_scales_columns, matmul_scales_left, scaling, split_of_concat
rule joined_relu_of_matmul_scalar_multiply_2
  relu(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=relu}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(??z) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_matrix_columns, matmul_relu, matmul_scales_columns, matmul_scales_left, scaling, split_of_concat
rule joined_sigmoid_of_matmul_scalar_multiply_2
  sigmoid(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=sigmoid}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(??z) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_matrix_columns, matmul_scales_columns, matmul_scales_left, matmul_sigmoid, scaling, split_of_concat
rule joined_tanh_of_matmul_scalar_multiply_2
  tanh(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=tanh}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(??z) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_matrix_columns, matmul_scales_columns, matmul_scales_left, matmul_tanh, scaling, split_of_concat
rule joined_gelu_of_matmul_scalar_multiply_2
  gelu(matmul(scalar_multiply(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??z, -1)...]}(matmul{activation=gelu}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) <= 1, rank(??y) == 0, rank(??z) == 2, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_matrix_columns, matmul_gelu, matmul_scales_columns, matmul_scales_left, scaling, split_of_concat
rule derived_relu_of_linear_matmul
  relu(linear(matmul(?x, ?y), ?z, ?w)) => linear{activation=relu}(?x, matmul(?y, ?z), ?w)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_relu, matmul_associates
rule derived_sigmoid_of_linear_matmul
  sigmoid(linear(matmul(?x, ?y), ?z, ?w)) => linear{activation=sigmoid}(?x, matmul(?y, ?z), ?w)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_sigmoid, matmul_associates
rule derived_tanh_of_linear_matmul
  tanh(linear(matmul(?x, ?y), ?z, ?w)) => linear{activation=tanh}(?x, matmul(?y, ?z), ?w)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_tanh, matmul_associates
rule derived_gelu_of_linear_matmul
  gelu(linear(matmul(?x, ?y), ?z, ?w)) => linear{activation=gelu}(?x, matmul(?y, ?z), ?w)
  proved "z3 4.8.12" by linear_bias, linear_gelu, linear_is_matmul, matmul_associates
rule joined_relu_of_linear_matmul
  relu(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=relu}(?x, concat{axis=rank(?x) - 1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, linear_bias, linear_is_matmul, linear_relu, matmul_associates, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_linear_matmul
  sigmoid(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=sigmoid}(?x, concat{axis=rank(?x) - 1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, linear_bias, linear_is_matmul, linear_sigmoid, matmul_associates, matmul_concat_columns, split_of_concat
rule joined_tanh_of_linear_matmul
  tanh(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=tanh}(?x, concat{axis=rank(?x) - 1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, linear_bias, linear_is_matmul, linear_tanh, matmul_associates, matmul_concat_columns, split_of_concat
rule joined_gelu_of_linear_matmul
  gelu(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=gelu}(?x, concat{axis=rank(?x) - 1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, linear_bias, linear_gelu, linear_is_matmul, matmul_associates, matmul_concat_columns, split_of_concat
rule joined_relu_of_linear_matmul_2
  relu(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=relu}(?x, concat{axis=1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(??y) == 2, rank(?x) > 2, size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, linear_bias, linear_is_matmul, linear_relu, matmul_associates, matmul_concat_matrix_columns, split_of_concat
rule joined_sigmoid_of_linear_matmul_2
  sigmoid(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=sigmoid}(?x, concat{axis=1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(??y) == 2, rank(?x) > 2, size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, linear_bias, linear_is_matmul, linear_sigmoid, matmul_associates, matmul_concat_matrix_columns, split_of_concat
rule joined_tanh_of_linear_matmul_2
  tanh(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=tanh}(?x, concat{axis=1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(??y) == 2, rank(?x) > 2, size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, linear_bias, linear_is_matmul, linear_tanh, matmul_associates, matmul_concat_matrix_columns, split_of_concat
rule joined_gelu_of_linear_matmul_2
  gelu(linear(matmul(?x, ??y), ??z, ??w))... => split{axis=rank(?x) - 1, sizes=[size(??z, 1)...]}(linear{activation=gelu}(?x, concat{axis=1}(matmul(??y, ??z)...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(??w)...], 0)}(??w...)))
  if rank(??w) <= rank(?x), rank(??y) == 2, rank(?x) > 2, size(??w, rank(?x) - 1 - rank(?x)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, linear_bias, linear_gelu, linear_is_matmul, matmul_associates, matmul_concat_matrix_columns, split_of_concat
rule derived_relu_of_linear_scalar_multiply
  relu(linear(scalar_multiply(?x, ?y), ?z, ?w)) => linear{activation=relu}(?x, mul(?y, ?z), ?w)
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, linear_relu, matmul_scales_columns, matmul_scales_left, reshape_scaled, scaling
rule derived_sigmoid_of_linear_scalar_multiply
  sigmoid(linear(scalar_multiply(?x, ?y), ?z, ?w)) => linear{activation=sigmoid}(?x, mul(?y, ?z), ?w)
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, linear_sigmoid, matmul_scales_columns, matmul_scales_left, reshape_scaled, scaling
rule derived_tanh_of_linear_scalar_multiply
  tanh(linear(scalar_multiply(?x, ?y), ?z, ?w)) => linear{activation=tanh}(?x, mul(?y, ?z), ?w)
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, linear_tanh, matmul_scales_columns, matmul_scales_left, reshape_scaled, scaling
rule derived_gelu_of_linear_scalar_multiply
  gelu(linear(scalar_multiply(?x, ?y), ?z, ?w)) => linear{activation=gelu}(?x, mul(?y, ?z), ?w)
  if rank(?y) <= 1, rank(?y) == 0
  proved "z3 4.8.12" by linear_bias, linear_gelu, linear_is_matmul, linear_of_vector, matmul_scales_columns, matmul_scales_left, reshape_scaled, scaling
rule derived_relu_of_add_matmul
  relu(add(?x, matmul(?y, ?z))) => linear{activation=relu}(?y, ?z, ?x)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_relu
rule derived_sigmoid_of_add_matmul
  sigmoid(add(?x, matmul(?y, ?z))) => linear{activation=sigmoid}(?y, ?z, ?x)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_sigmoid
rule derived_tanh_of_add_matmul
  tanh(add(?x, matmul(?y, ?z))) => linear{activation=tanh}(?y, ?z, ?x)
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_tanh
rule derived_gelu_of_add_matmul
  gelu(add(?x, matmul(?y, ?z))) => linear{activation=gelu}(?y, ?z, ?x)
  proved "z3 4.8.12" by linear_bias, linear_gelu, linear_is_matmul
rule joined_relu_of_add_matmul
  relu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(linear{activation=relu}(?y, concat{axis=rank(?y) - 1}(??z...), concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...)))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, linear_bias, linear_is_matmul, linear_relu, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_add_matmul
  sigmoid(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(linear{activation=sigmoid}(?y, concat{axis=rank(?y) - 1}(??z...), concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...)))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, linear_bias, linear_is_matmul, linear_sigmoid, matmul_concat_columns, split_of_concat
rule joined_tanh_of_add_matmul
  tanh(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(linear{activation=tanh}(?y, concat{axis=rank(?y) - 1}(??z...), concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...)))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, linear_bias, linear_is_matmul, linear_tanh, matmul_concat_columns, split_of_concat
rule joined_gelu_of_add_matmul
  gelu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(linear{activation=gelu}(?y, concat{axis=rank(?y) - 1}(??z...), concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...)))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, linear_bias, linear_gelu, linear_is_matmul, matmul_concat_columns, split_of_concat
rule derived_relu_of_add_linear
  relu(add(?x, linear(?y, ?z, ?w))) => linear{activation=relu}(?y, ?z, add(?w, ?x))
  proved "z3 4.8.12" by add_associates, linear_bias, linear_relu
rule derived_sigmoid_of_add_linear
  sigmoid(add(?x, linear(?y, ?z, ?w))) => linear{activation=sigmoid}(?y, ?z, add(?w, ?x))
  proved "z3 4.8.12" by add_associates, linear_bias, linear_sigmoid
rule derived_tanh_of_add_linear
  tanh(add(?x, linear(?y, ?z, ?w))) => linear{activation=tanh}(?y, ?z, add(?w, ?x))
  proved "z3 4.8.12" by add_associates, linear_bias, linear_tanh
rule derived_gelu_of_add_linear
  gelu(add(?x, linear(?y, ?z, ?w))) => linear{activation=gelu}(?y, ?z, add(?w, ?x))
  proved "z3 4.8.12" by add_associates, linear_bias, linear_gelu
rule derived_relu_of_scalar_multiply_matmul
  relu(scalar_multiply(matmul(?x, ?y), ?z)) => matmul{activation=relu}(?x, mul(?y, ?z))
  if rank(?z) <= 1
  proved "z3 4.8.12" by matmul_relu, matmul_scales_columns, scaling
rule derived_sigmoid_of_scalar_multiply_matmul
  sigmoid(scalar_multiply(matmul(?x, ?y), ?z)) => matmul{activation=sigmoid}(?x, mul(?y, ?z))
  if rank(?z) <= 1
  proved "z3 4.8.12" by matmul_scales_columns, matmul_sigmoid, scaling
rule derived_tanh_of_scalar_multiply_matmul
  tanh(scalar_multiply(matmul(?x, ?y), ?z)) => matmul{activation=tanh}(?x, mul(?y, ?z))
  if rank(?z) <= 1
  proved "z3 4.8.12" by matmul_scales_columns, matmul_tanh, scaling
rule derived_gelu_of_scalar_multiply_matmul
  gelu(scalar_multiply(matmul(?x, ?y), ?z)) => matmul{activation=gelu}(?x, mul(?y, ?z))
  if rank(?z) <= 1
  proved "z3 4.8.12" by matmul_gelu, matmul_scales_columns, scaling
rule joined_relu_of_scalar_multiply_matmul
  relu(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=relu}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??z) <= 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_columns, matmul_relu, matmul_scales_columns, scaling, split_of_concat
rule joined_sigmoid_of_scalar_multiply_matmul
  sigmoid(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=sigmoid}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??z) <= 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_columns, matmul_scales_columns, matmul_sigmoid, scaling, split_of_concat
rule joined_tanh_of_scalar_multiply_matmul
  tanh(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=tanh}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??z) <= 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_columns, matmul_scales_columns, matmul_tanh, scaling, split_of_concat
rule joined_gelu_of_scalar_multiply_matmul
  gelu(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=gelu}(?x, concat{axis=rank(?x) - 1}(mul(??y, ??z)...)))
  if rank(??z) <= 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_columns, matmul_gelu, matmul_scales_columns, scaling, split_of_concat
rule joined_relu_of_scalar_multiply_matmul_2
  relu(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=relu}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) == 2, rank(??z) <= 1, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_matrix_columns, matmul_relu, matmul_scales_columns, scaling, split_of_concat
rule joined_sigmoid_of_scalar_multiply_matmul_2
  sigmoid(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=sigmoid}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) == 2, rank(??z) <= 1, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_matrix_columns, matmul_scales_columns, matmul_sigmoid, scaling, split_of_concat
rule joined_tanh_of_scalar_multiply_matmul_2
  tanh(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=tanh}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) == 2, rank(??z) <= 1, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_matrix_columns, matmul_scales_columns, matmul_tanh, scaling, split_of_concat
rule joined_gelu_of_scalar_multiply_matmul_2
  gelu(scalar_multiply(matmul(?x, ??y), ??z))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=gelu}(?x, concat{axis=1}(mul(??y, ??z)...)))
  if rank(??y) == 2, rank(??z) <= 1, rank(?x) > 2
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_matrix_columns, matmul_gelu, matmul_scales_columns, scaling, split_of_concat
rule derived_relu_of_scalar_multiply_linear
  relu(scalar_multiply(linear(?x, ?y, ?z), ?w)) => linear{activation=relu}(?x, mul(?w, ?y), mul(?w, ?z))
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, linear_relu, matmul_scales_columns, mul_distributes, reshape_scaled, scaling
rule derived_sigmoid_of_scalar_multiply_linear
  sigmoid(scalar_multiply(linear(?x, ?y, ?z), ?w)) => linear{activation=sigmoid}(?x, mul(?w, ?y), mul(?w, ?z))
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, linear_sigmoid, matmul_scales_columns, mul_distributes, reshape_scaled, scaling
rule derived_tanh_of_scalar_multiply_linear
  tanh(scalar_multiply(linear(?x, ?y, ?z), ?w)) => linear{activation=tanh}(?x, mul(?w, ?y), mul(?w, ?z))
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, linear_of_vector, linear_tanh, matmul_scales_columns, mul_distributes, reshape_scaled, scaling
rule derived_gelu_of_scalar_multiply_linear
  gelu(scalar_multiply(linear(?x, ?y, ?z), ?w)) => linear{activation=gelu}(?x, mul(?w, ?y), mul(?w, ?z))
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_gelu, linear_is_matmul, linear_of_vector, matmul_scales_columns, mul_distributes, reshape_scaled, scaling
rule derived_scalar_multiply_of_linear_matmul
  scalar_multiply(linear(matmul(?x, ?y), ?z, ?w), ?v) => linear(?x, mul(?v, matmul(?y, ?z)), mul(?v, ?w))
  if rank(?v) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, matmul_associates, matmul_scales_columns, mul_distributes, scaling
rule derived_scalar_multiply_of_add_matmul
  scalar_multiply(add(?x, matmul(?y, ?z)), ?w) => linear(?y, mul(?w, ?z), mul(?w, ?x))
  if rank(?w) <= 1
  proved "z3 4.8.12" by linear_bias, linear_is_matmul, matmul_scales_columns, mul_distributes, scaling
rule joined_relu_of_matmul_3
  relu(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(relu(matmul(?x, concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_relu, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_matmul_3
  sigmoid(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(sigmoid(matmul(?x, concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_sigmoid, matmul_concat_columns, split_of_concat
rule joined_tanh_of_matmul_3
  tanh(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(tanh(matmul(?x, concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_tanh, matmul_concat_columns, split_of_concat
rule joined_gelu_of_matmul_3
  gelu(matmul(?x, ??y))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(gelu(matmul(?x, concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y)
  proved "z3 4.8.12" by concat_of_gelu, matmul_concat_columns, split_of_concat
rule joined_relu_of_add_matmul_2
  relu(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(relu(add(?x, matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(?x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z)
  proved "z3 4.8.12" by concat_of_relu, concat_of_shifted, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_add_matmul_2
  sigmoid(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(sigmoid(add(?x, matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(?x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z)
  proved "z3 4.8.12" by concat_of_shifted, concat_of_sigmoid, matmul_concat_columns, split_of_concat
rule joined_tanh_of_add_matmul_2
  tanh(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(tanh(add(?x, matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(?x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z)
  proved "z3 4.8.12" by concat_of_shifted, concat_of_tanh, matmul_concat_columns, split_of_concat
rule joined_gelu_of_add_matmul_2
  gelu(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(gelu(add(?x, matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(?x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_shifted, matmul_concat_columns, split_of_concat
rule joined_relu_of_add_matmul_3
  relu(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(relu(add(?x, matmul(?y, concat{axis=1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(??z) == 2, rank(?x) <= rank(?y), rank(?y) > 2
  proved "z3 4.8.12" by concat_of_relu, concat_of_shifted, matmul_concat_matrix_columns, split_of_concat
rule joined_sigmoid_of_add_matmul_3
  sigmoid(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(sigmoid(add(?x, matmul(?y, concat{axis=1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(??z) == 2, rank(?x) <= rank(?y), rank(?y) > 2
  proved "z3 4.8.12" by concat_of_shifted, concat_of_sigmoid, matmul_concat_matrix_columns, split_of_concat
rule joined_tanh_of_add_matmul_3
  tanh(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(tanh(add(?x, matmul(?y, concat{axis=1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(??z) == 2, rank(?x) <= rank(?y), rank(?y) > 2
  proved "z3 4.8.12" by concat_of_shifted, concat_of_tanh, matmul_concat_matrix_columns, split_of_concat
rule joined_gelu_of_add_matmul_3
  gelu(add(?x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(gelu(add(?x, matmul(?y, concat{axis=1}(??z...)))))
  if at(concat(repeat(1, rank(?y) - rank(?x)), shape(?x)), rank(?y) - 1) == 1, rank(??z) == 2, rank(?x) <= rank(?y), rank(?y) > 2
  proved "z3 4.8.12" by concat_of_gelu, concat_of_shifted, matmul_concat_matrix_columns, split_of_concat
rule joined_relu_of_add_matmul_4
  relu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(relu(add(concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...), matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_add_matmul_4
  sigmoid(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(sigmoid(add(concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...), matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, matmul_concat_columns, split_of_concat
rule joined_tanh_of_add_matmul_4
  tanh(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(tanh(add(concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...), matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, matmul_concat_columns, split_of_concat
rule joined_gelu_of_add_matmul_4
  gelu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(gelu(add(concat{axis=rank(?y) - 1 - at([rank(?y)...], 0) + at([rank(??x)...], 0)}(??x...), matmul(?y, concat{axis=rank(?y) - 1}(??z...)))))
  if rank(??x) <= rank(?y), rank(?y) - 1 == rank(??z) - 1 || rank(?y) - 1 < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1) == 1, rank(?y) <= rank(??z), size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, matmul_concat_columns, split_of_concat
rule joined_relu_of_add_matmul_5
  relu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(relu(add(concat{axis=rank(?y) - 1}(??x...), matmul(?y, concat{axis=rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)}(??z...)))))
  if rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) == rank(??z) - 1 || rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)) == 1, rank(?y) <= rank(??x), rank(?y) <= rank(??z), size(??x, rank(?y) - 1) == size(?y, rank(?y) - 1 - rank(??x))
  proved "z3 4.8.12" by concat_of_relu, concat_of_sums, matmul_concat_columns, split_of_concat
rule joined_sigmoid_of_add_matmul_5
  sigmoid(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(sigmoid(add(concat{axis=rank(?y) - 1}(??x...), matmul(?y, concat{axis=rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)}(??z...)))))
  if rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) == rank(??z) - 1 || rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)) == 1, rank(?y) <= rank(??x), rank(?y) <= rank(??z), size(??x, rank(?y) - 1) == size(?y, rank(?y) - 1 - rank(??x))
  proved "z3 4.8.12" by concat_of_sigmoid, concat_of_sums, matmul_concat_columns, split_of_concat
rule joined_tanh_of_add_matmul_5
  tanh(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(tanh(add(concat{axis=rank(?y) - 1}(??x...), matmul(?y, concat{axis=rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)}(??z...)))))
  if rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) == rank(??z) - 1 || rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)) == 1, rank(?y) <= rank(??x), rank(?y) <= rank(??z), size(??x, rank(?y) - 1) == size(?y, rank(?y) - 1 - rank(??x))
  proved "z3 4.8.12" by concat_of_sums, concat_of_tanh, matmul_concat_columns, split_of_concat
rule joined_gelu_of_add_matmul_5
  gelu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}(gelu(add(concat{axis=rank(?y) - 1}(??x...), matmul(?y, concat{axis=rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)}(??z...)))))
  if rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) == rank(??z) - 1 || rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0) < rank(??z) - 2 && at(concat(repeat(1, rank(??z) - rank(?y)), shape(?y)), rank(?y) - 1 - at([rank(??x)...], 0) + at([rank(?y)...], 0)) == 1, rank(?y) <= rank(??x), rank(?y) <= rank(??z), size(??x, rank(?y) - 1) == size(?y, rank(?y) - 1 - rank(??x))
  proved "z3 4.8.12" by concat_of_gelu, concat_of_sums, matmul_concat_columns, split_of_concat
rule joined_relu_of_add_matmul_matmul
  relu(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=relu}(concat{axis=rank(?x) - 1}(?x, ?z), concat{axis=rank(??y) - 2}(concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_relu, matmul_concat_columns, matmul_of_concat, matmul_relu, split_of_concat
rule joined_sigmoid_of_add_matmul_matmul
  sigmoid(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=sigmoid}(concat{axis=rank(?x) - 1}(?x, ?z), concat{axis=rank(??y) - 2}(concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_sigmoid, matmul_concat_columns, matmul_of_concat, matmul_sigmoid, split_of_concat
rule joined_tanh_of_add_matmul_matmul
  tanh(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=tanh}(concat{axis=rank(?x) - 1}(?x, ?z), concat{axis=rank(??y) - 2}(concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_tanh, matmul_concat_columns, matmul_of_concat, matmul_tanh, split_of_concat
rule joined_gelu_of_add_matmul_matmul
  gelu(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=gelu}(concat{axis=rank(?x) - 1}(?x, ?z), concat{axis=rank(??y) - 2}(concat{axis=rank(?x) - 1}(??y...), concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_gelu, matmul_concat_columns, matmul_gelu, matmul_of_concat, split_of_concat
rule joined_relu_of_add_matmul_matmul_2
  relu(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=relu}(concat{axis=rank(?z) - 1}(?z, ?x), concat{axis=rank(??w) - 2}(concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...), concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_relu, matmul_concat_columns, matmul_of_concat, matmul_relu, split_of_concat
rule joined_sigmoid_of_add_matmul_matmul_2
  sigmoid(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=sigmoid}(concat{axis=rank(?z) - 1}(?z, ?x), concat{axis=rank(??w) - 2}(concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...), concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_sigmoid, matmul_concat_columns, matmul_of_concat, matmul_sigmoid, split_of_concat
rule joined_tanh_of_add_matmul_matmul_2
  tanh(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=tanh}(concat{axis=rank(?z) - 1}(?z, ?x), concat{axis=rank(??w) - 2}(concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...), concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_tanh, matmul_concat_columns, matmul_of_concat, matmul_tanh, split_of_concat
rule joined_gelu_of_add_matmul_matmul_2
  gelu(add(matmul(?x, ??y), matmul(?z, ??w)))... => split{axis=rank(?x) - 1, sizes=[size(??y, -1)...]}(matmul{activation=gelu}(concat{axis=rank(?z) - 1}(?z, ?x), concat{axis=rank(??w) - 2}(concat{axis=rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)}(??w...), concat{axis=rank(?x) - 1}(??y...))))
  if rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) == rank(??w) - 1 || rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0) < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?z)), shape(?z)), rank(?x) - 1 - at([rank(?x)...], 0) + at([rank(?z)...], 0)) == 1, rank(?x) - 1 == rank(??y) - 1 || rank(?x) - 1 < rank(??y) - 2 && at(concat(repeat(1, rank(??y) - rank(?x)), shape(?x)), rank(?x) - 1) == 1, rank(?x) <= rank(??y), rank(?z) <= rank(??w), rank(?z) <= rank(?x), size(??y, -1) == size(?z, rank(?x) - 1 - rank(?x))
  proved "z3 4.8.12" by concat_interchange, concat_of_gelu, matmul_concat_columns, matmul_gelu, matmul_of_concat, split_of_concat
)rules";
#pragma GCC diagnostic pop

}  // namespace unity::tensor
