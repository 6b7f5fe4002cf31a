// Properties of tensor operators, as text. Over 500 lines because it holds many rules.
// The program generate_rules prints it: generate_rules --shipped axioms.
#pragma once

#include <string_view>

namespace unity::tensor {

// Longer than the string literals that every compiler must support; the supported compilers accept it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
// Read it with parse_rules (rewrite/parse.hpp) and compile it for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view standard_axioms =
    R"rules(# Properties of tensor operators: what proofs of substitutions start from.
#
# The format is that of rules (docs/formats.md). `==` may be used from left to right and back; `=>` from left to right
# alone, which is enough where it leads to a simpler spelling that all others are brought to. Every side is typed: a
# property holds where both sides can be built and have equal types, and its conditions are true. How each property is
# checked: include/unity/tensor/verification/validate.hpp; how it is found whether one follows from the others:
# axiom_checks.hpp beside it.
#
# Source: Jia's dissertation (TASO, 2020), table 2.2, for any rank and number of operands where that holds.

# 1. One spelling for what can be spelled in several ways.
rule identity_of_x
  identity(?x) => ?x
rule dropout_of_x
  dropout{..}(?x) => ?x
  safe inference
rule cast_same
  cast{..}(?x) => ?x
rule subtraction
  sub(?x, ?y) => add(?x, negate(?y))
rule division
  div(?x, ?y) => mul(?x, reciprocal(?y))
rule square
  pow(?x, fill{value=2.0, ..}()) => mul(?x, ?x)
rule square_root
  pow(?x, fill{value=0.5, ..}()) => sqrt(?x)
rule power_one
  pow(?x, fill{value=1.0, ..}()) => ?x
rule scaling
  scalar_multiply(?x, ?s) => mul(?x, ?s)
rule linear_is_matmul
  linear{activation=?a}(?x, ?w) => matmul{activation=?a}(?x, ?w)
rule linear_of_vector
  linear{activation=?a}(?x, ?w)
    => reshape{dims=[size(?w, 1)]}(matmul{activation=?a}(reshape{dims=[1, size(?x, 0)]}(?x), ?w))
  if rank(?x) == 1
rule linear_bias
  linear(?x, ?w, ?b) => add(linear(?x, ?w), ?b)
rule conv_bias
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b)
    => add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), reshape{dims=[size(?b, 0), 1, 1]}(?b))

# 2. Activations as attributes.
rule matmul_relu
  matmul{activation=relu}(?x, ?w) => relu(matmul(?x, ?w))
rule matmul_sigmoid
  matmul{activation=sigmoid}(?x, ?w) => sigmoid(matmul(?x, ?w))
rule matmul_tanh
  matmul{activation=tanh}(?x, ?w) => tanh(matmul(?x, ?w))
rule matmul_gelu
  matmul{activation=gelu}(?x, ?w) => gelu(matmul(?x, ?w))
rule linear_relu
  linear{activation=relu}(?x, ?w, ?b) => relu(linear(?x, ?w, ?b))
rule linear_sigmoid
  linear{activation=sigmoid}(?x, ?w, ?b) => sigmoid(linear(?x, ?w, ?b))
rule linear_tanh
  linear{activation=tanh}(?x, ?w, ?b) => tanh(linear(?x, ?w, ?b))
rule linear_gelu
  linear{activation=gelu}(?x, ?w, ?b) => gelu(linear(?x, ?w, ?b))
rule conv_relu
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?w)
    => relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
rule conv_sigmoid
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=sigmoid}(?x, ?w)
    => sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
rule conv_tanh
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=tanh}(?x, ?w)
    => tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
rule conv_gelu
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=gelu}(?x, ?w)
    => gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w))
rule conv_bias_relu
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?w, ?b)
    => relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
rule conv_bias_sigmoid
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=sigmoid}(?x, ?w, ?b)
    => sigmoid(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
rule conv_bias_tanh
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=tanh}(?x, ?w, ?b)
    => tanh(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))
rule conv_bias_gelu
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=gelu}(?x, ?w, ?b)
    => gelu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w, ?b))

# 3. Paddings by name are pads that depend on sizes.
rule conv_valid
  conv2d{stride=?s, padding=valid, dilation=?d, groups=?g}(?x, ?w) => conv2d{stride=?s, dilation=?d, groups=?g}(?x, ?w)
rule conv_same
  conv2d{stride=?s, padding=same, dilation=?d, groups=?g}(?x, ?w)
    => conv2d{stride=?s, dilation=?d, groups=?g, pads=[
         max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (suffix(shape(?w), 2) - 1) + 1 - suffix(shape(?x), 2), 0) / 2,
         (max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (suffix(shape(?w), 2) - 1) + 1 - suffix(shape(?x), 2), 0)
           + 1) / 2]}(?x, ?w)
rule conv_same_lower
  conv2d{stride=?s, padding=same_lower, dilation=?d, groups=?g}(?x, ?w)
    => conv2d{stride=?s, dilation=?d, groups=?g, pads=[
         (max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (suffix(shape(?w), 2) - 1) + 1 - suffix(shape(?x), 2), 0)
           + 1) / 2,
         max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (suffix(shape(?w), 2) - 1) + 1 - suffix(shape(?x), 2), 0) / 2
         ]}(?x, ?w)
rule max_pool_valid
  max_pool{kernel=?k, stride=?s, padding=valid, dilation=?d, ceil_mode=?c}(?x)
    => max_pool{kernel=?k, stride=?s, dilation=?d, ceil_mode=?c}(?x)
rule max_pool_same
  max_pool{kernel=?k, stride=?s, padding=same, dilation=?d, ceil_mode=?c}(?x)
    => max_pool{kernel=?k, stride=?s, dilation=?d, pads=[
         max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (?k - 1) + 1 - suffix(shape(?x), 2), 0) / 2,
         (max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (?k - 1) + 1 - suffix(shape(?x), 2), 0) + 1) / 2
         ]}(?x)
rule max_pool_same_lower
  max_pool{kernel=?k, stride=?s, padding=same_lower, dilation=?d, ceil_mode=?c}(?x)
    => max_pool{kernel=?k, stride=?s, dilation=?d, pads=[
         (max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (?k - 1) + 1 - suffix(shape(?x), 2), 0) + 1) / 2,
         max(((suffix(shape(?x), 2) - 1) / ?s) * ?s + ?d * (?k - 1) + 1 - suffix(shape(?x), 2), 0) / 2
         ]}(?x)
# 4. Element by element. Operands broadcast.
rule add_commutes
  add(?x, ?y) == add(?y, ?x)
rule mul_commutes
  mul(?x, ?y) == mul(?y, ?x)
rule add_associates
  add(?x, add(?y, ?z)) == add(add(?x, ?y), ?z)
rule mul_associates
  mul(?x, mul(?y, ?z)) == mul(mul(?x, ?y), ?z)
rule mul_distributes
  mul(?x, add(?y, ?z)) == add(mul(?x, ?y), mul(?x, ?z))
rule negate_of_product
  negate(mul(?x, ?y)) == mul(?x, negate(?y))
rule negate_of_sum
  negate(add(?x, ?y)) == add(negate(?x), negate(?y))
rule negate_twice
  negate(negate(?x)) => ?x
rule relu_twice
  relu(relu(?x)) => relu(?x)
rule relu_of_positive_sum
  relu(add(relu(?x), relu(?y))) => add(relu(?x), relu(?y))
  if dtype(?x) <= 3
  real
rule relu_selects
  mul(?x, relu(?x)) => mul(relu(?x), relu(?x))
rule relu_of_doubled
  relu(add(?x, relu(?x))) => relu(add(relu(?x), relu(?x)))
rule expand_same
  expand{..}(?x) => ?x
rule expand_twice
  expand{dims=?d}(expand{..}(?x)) => expand{dims=?d}(?x)
rule expand_of_sum
  add(?x, expand{dims=?d}(?y)) => expand{dims=?d}(add(?x, ?y))
rule expand_of_product
  mul(?x, expand{dims=?d}(?y)) => expand{dims=?d}(mul(?x, ?y))
rule expand_of_power
  pow(?x, expand{dims=?d}(?y)) => expand{dims=?d}(pow(?x, ?y))
rule expand_of_relu
  expand{dims=?d}(relu(?x)) == relu(expand{dims=?d}(?x))
rule expand_of_sigmoid
  expand{dims=?d}(sigmoid(?x)) == sigmoid(expand{dims=?d}(?x))
rule expand_of_tanh
  expand{dims=?d}(tanh(?x)) == tanh(expand{dims=?d}(?x))
rule expand_of_gelu
  expand{dims=?d}(gelu(?x)) == gelu(expand{dims=?d}(?x))
rule expand_of_sqrt
  expand{dims=?d}(sqrt(?x)) == sqrt(expand{dims=?d}(?x))
rule expand_of_reciprocal
  expand{dims=?d}(reciprocal(?x)) == reciprocal(expand{dims=?d}(?x))
rule mean_of_expanded
  reduce_mean{axes=?a}(expand{..}(?x)) => reduce_mean{axes=?a}(?x)
rule expand_in_product
  mul(?x, expand{..}(?y)) => mul(?x, ?y)
rule leading_one_in_sum
  add(?x, ?y) == add(?x, reshape{dims=suffix(shape(?y), 1)}(?y))
  if rank(?y) <= rank(?x), size(?y, 0) == 1, product(shape(?y)) > 1
rule leading_one_in_product
  mul(?x, ?y) == mul(?x, reshape{dims=suffix(shape(?y), 1)}(?y))
  if rank(?y) <= rank(?x), size(?y, 0) == 1, product(shape(?y)) > 1
rule single_in_sum
  add(?x, ?y) == add(?x, reshape{dims=[]}(?y))
  if rank(?y) <= rank(?x), rank(?y) > 0, product(shape(?y)) == 1
rule single_in_product
  mul(?x, ?y) == mul(?x, reshape{dims=[]}(?y))
  if rank(?y) <= rank(?x), rank(?y) > 0, product(shape(?y)) == 1

# 5. Constants.
rule ones_in_product
  mul(?x, fill{value=1.0, ..}()) => ?x
rule zeros_in_sum
  add(?x, fill{value=0.0, ..}()) => ?x
rule reciprocal_of_ones
  reciprocal(fill{value=1.0, element=?e, dims=?d}()) => fill{value=1.0, element=?e, dims=?d}()
rule relu_of_ones
  relu(fill{value=1.0, element=?e, dims=?d}()) => fill{value=1.0, element=?e, dims=?d}()
rule relu_of_pool_kernel
  relu(pool_kernel{channels=?c, kernel=?k}()) => pool_kernel{channels=?c, kernel=?k}()
  real
rule relu_of_identity_kernel
  relu(identity_kernel{channels=?c, groups=?g, kernel=?k}()) => identity_kernel{channels=?c, groups=?g, kernel=?k}()
rule relu_of_identity_matrix
  relu(identity_matrix{size=?n}()) => identity_matrix{size=?n}()
rule square_of_identity_kernel
  mul(identity_kernel{channels=?c, groups=?g, kernel=?k}(), identity_kernel{channels=?c, groups=?g, kernel=?k}())
    => identity_kernel{channels=?c, groups=?g, kernel=?k}()
rule square_of_identity_matrix
  mul(identity_matrix{size=?n}(), identity_matrix{size=?n}()) => identity_matrix{size=?n}()
rule transposed_diagonal
  mul(identity_matrix{size=?n}(), transpose{permutation=[1, 0]}(?x)) => mul(identity_matrix{size=?n}(), ?x)
  if shape(?x) == [?n, ?n]
rule product_of_diagonals
  matmul(mul(?x, identity_matrix{size=?n}()), mul(?y, identity_matrix{size=?n}()))
    => mul(mul(?x, ?y), identity_matrix{size=?n}())
  if shape(?x) == [?n, ?n], shape(?y) == [?n, ?n]
rule transpose_of_matrix_fill
  transpose{permutation=[1, 0]}(fill{value=?v, element=?e, dims=?d}())
    => fill{value=?v, element=?e, dims=[at(?d, 1), at(?d, 0)]}()
rule reshape_of_fill
  reshape{dims=?d}(fill{value=?v, element=?e, ..}()) => fill{value=?v, element=?e, dims=?d}()
rule fill_is_expanded
  expand{dims=?d}(fill{value=?v, element=?e, dims=[]}()) => fill{value=?v, element=?e, dims=?d}()
rule concat_of_fills
  concat{axis=?a}(fill{value=?v, element=?e, dims=?d}(), fill{value=?v, element=?e, dims=?c}())
    => fill{value=?v, element=?e, dims=replace(?d, ?a, at(?d, ?a) + at(?c, ?a))}()
rule concat_of_pool_kernels
  concat{axis=0}(pool_kernel{channels=?c, kernel=?k}(), pool_kernel{channels=?d, kernel=?k}())
    => pool_kernel{channels=?c + ?d, kernel=?k}()
rule concat_of_identity_kernels
  concat{axis=0}(identity_kernel{channels=?c, groups=?g, kernel=?k}(),
      identity_kernel{channels=?d, groups=?h, kernel=?k}())
    => identity_kernel{channels=?c + ?d, groups=?g + ?h, kernel=?k}()
  if ?c * ?h == ?d * ?g
rule pointwise_pool_kernel
  pool_kernel{channels=?c, kernel=[1, 1]}() => identity_kernel{channels=?c, groups=?c, kernel=[1, 1]}()
rule enlarge_identity_kernel
  enlarge{kernel=?l}(identity_kernel{channels=?c, groups=?g, kernel=?k}())
    => identity_kernel{channels=?c, groups=?g, kernel=?l}()

# 6. Matrix products.
rule matmul_associates
  matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z)
rule matmul_distributes_right
  matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z))
rule matmul_distributes_left
  matmul(add(?x, ?y), ?z) == add(matmul(?x, ?z), matmul(?y, ?z))
rule matmul_scales_columns
  mul(matmul(?x, ?w), ?s) == matmul(?x, mul(?w, ?s))
  if rank(?s) <= 1
rule matmul_scales_left
  mul(matmul(?x, ?w), ?s) == matmul(mul(?x, ?s), ?w)
  if rank(?s) == 0
rule matmul_identity_right
  matmul(?x, identity_matrix{size=?n}()) => ?x
rule matmul_identity_left
  matmul(identity_matrix{size=?n}(), ?x) => ?x
rule matmul_of_concat
  matmul(concat{axis=rank(?x) - 1}(?x, ?y), concat{axis=rank(?w) - 2}(?w, ?v))
    == add(matmul(?x, ?w), matmul(?y, ?v))
rule matmul_concat_columns
  concat{axis=?c}(matmul(?x, ??w)...) == matmul(?x, concat{axis=?c}(??w...))
  if rank(?x) <= rank(??w),
     ?c == rank(??w) - 1 || ?c < rank(??w) - 2 && at(concat(repeat(1, rank(??w) - rank(?x)), shape(?x)), ?c) == 1
rule matmul_concat_matrix_columns
  concat{axis=rank(?x) - 1}(matmul(?x, ??w)...) == matmul(?x, concat{axis=1}(??w...))
  if rank(??w) == 2, rank(?x) > 2
rule matmul_concat_rows
  concat{axis=?c}(matmul(??x, ?w)...) == matmul(concat{axis=?c}(??x...), ?w)
  if rank(?w) <= rank(??x),
     ?c == rank(??x) - 2 || ?c < rank(??x) - 2 && at(concat(repeat(1, rank(??x) - rank(?w)), shape(?w)), ?c) == 1
rule matmul_concat_batch
  concat{axis=?c}(matmul(??x, ??w)...) == matmul(concat{axis=?c}(??x...), concat{axis=?c}(??w...))
  if rank(??x) == rank(??w), ?c < rank(??x) - 2
rule matmul_of_transposes
  matmul(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y)) == transpose{permutation=?p}(matmul(?y, ?x))
  if ?p == concat(iota(rank(?x) - 2), [rank(?x) - 1, rank(?x) - 2])

# 7. Convolutions.
rule conv_distributes
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(add(?x, ?y), ?w)
    == add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w),
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?y, ?w))
  if shape(?x) == shape(?y)
rule conv_distributes_over_kernels
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, add(?w, ?v))
    == add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w),
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?v))
  if suffix(shape(?w), 1) == suffix(shape(?v), 1)
rule conv_scales
  mul(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?c)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(mul(?x, ?c), ?w)
  if rank(?c) == 0
rule conv_scales_kernel
  mul(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?c)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, mul(?w, ?c))
  if rank(?c) == 0
rule conv_scales_channels
  mul(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w), ?c)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
        mul(?w, reshape{dims=[size(?w, 0), 1, 1, 1]}(?c)))
  if rank(?c) == 3 || rank(?c) == 4, size(?c, -3) == size(?w, 0), product(shape(?c)) == size(?w, 0)
rule conv_of_one_weight_a_channel
  conv2d{groups=size(?x, 1)}(?x, ?w) => mul(?x, reshape{dims=[size(?w, 0), 1, 1]}(?w))
  if shape(?w) == [size(?x, 1), 1, 1, 1]
rule conv_strided
  conv2d{stride=?s, pads=?q, dilation=?d, groups=?g}(?x, ?w)
    => slice{axes=[2, 3], starts=[0, 0], steps=?s,
         ends=suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?d * (suffix(shape(?w), 2) - 1)}(
         conv2d{pads=?q, dilation=?d, groups=?g}(?x, ?w))
rule conv_identity
  conv2d{pads=?q, dilation=?d, groups=?g}(?x, identity_kernel{channels=?c, groups=?g, kernel=?k}())
    => slice{axes=[2, 3], starts=?d * (?k / 2), steps=[1, 1],
         ends=suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?d * (?k / 2)}(
         pad{pads=[0, 0, prefix(?q, 2), 0, 0, suffix(?q, 2)]}(?x))
rule conv_enlarged_kernel
  conv2d{pads=?q, dilation=?d, groups=?g}(?x, enlarge{kernel=?k}(?w))
    => slice{axes=[2, 3], starts=?d * ((?k - suffix(shape(?w), 2)) / 2), steps=[1, 1],
         ends=suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2)
           - ?d * (suffix(shape(?w), 2) - 1 + (?k - suffix(shape(?w), 2)) / 2)}(
         conv2d{pads=?q, dilation=?d, groups=?g}(?x, ?w))
rule conv_of_slice
  conv2d{dilation=?d, groups=?g}(slice{axes=[2, 3], starts=?s, ends=?e, steps=[1, 1]}(?x), ?w)
    => slice{axes=[2, 3], starts=?s, ends=?e - ?d * (suffix(shape(?w), 2) - 1), steps=[1, 1]}(
         conv2d{dilation=?d, groups=?g}(?x, ?w))
rule slice_of_conv
  slice{axes=[2, 3], starts=?s, ends=?e, steps=[1, 1]}(conv2d{pads=?q, dilation=?d, groups=?g}(?x, ?w))
    => conv2d{dilation=?d, groups=?g, pads=[prefix(?q, 2) - ?s,
         ?e - suffix(shape(?x), 2) - prefix(?q, 2) + ?d * (suffix(shape(?w), 2) - 1)]}(?x, ?w)
rule conv_of_pad
  conv2d{stride=?s, pads=?q, dilation=?d, groups=?g}(pad{pads=?r, value=0.0}(?x), ?w)
    => conv2d{stride=?s, pads=?q + [at(?r, 2), at(?r, 3), at(?r, 6), at(?r, 7)], dilation=?d, groups=?g}(?x, ?w)
  if at(?r, 0) + at(?r, 1) + at(?r, 4) + at(?r, 5) == 0
rule conv_after_pointwise
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(conv2d(?x, ?w), ?v)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, conv2d(?v, transpose{permutation=[1, 0, 2, 3]}(?w)))
  if suffix(shape(?w), 2) == [1, 1]
rule pointwise_after_conv
  conv2d(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ?w), ?v)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, transpose{permutation=[1, 0, 2, 3]}(
        conv2d(transpose{permutation=[1, 0, 2, 3]}(?w), ?v)))
  if suffix(shape(?v), 2) == [1, 1]
rule conv_of_concat
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(concat{axis=1}(?x, ?y), concat{axis=1}(?w, ?v))
    == add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ?w),
        conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?y, ?v))
rule conv_concat_kernels
  concat{axis=1}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, ??w)...)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(?x, concat{axis=0}(??w...))
rule conv_concat_images
  concat{axis=0}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(??x, ?w)...)
    == conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(concat{axis=0}(??x...), ?w)
rule conv_concat_groups
  concat{axis=1}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w),
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?h}(?y, ?v))
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g + ?h}(concat{axis=1}(?x, ?y),
        concat{axis=0}(?w, ?v))
  if size(?x, 1) * ?h == size(?y, 1) * ?g, size(?w, 0) * ?h == size(?v, 0) * ?g
# Images that are the same everywhere, or in all channels.
rule conv_of_expanded
  conv2d{stride=?s, dilation=?d, groups=?g}(expand{dims=?m}(?y), ?w)
    => expand{dims=[at(?m, 0), size(?w, 0), (suffix(?m, 2) - ?d * (suffix(shape(?w), 2) - 1) - 1) / ?s + 1]}(
         conv2d{dilation=?d, groups=?g}(
           expand{dims=[prefix(?m, 2), ?d * (suffix(shape(?w), 2) - 1) + 1]}(?y), ?w))
  if suffix(concat(repeat(1, 4 - rank(?y)), shape(?y)), 2) == [1, 1]
rule conv_of_fill
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(fill{value=?v, element=?e, dims=?m}(), ?w)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(
         fill{value=?v, element=?e, dims=replace(?m, 1, size(?w, 1))}(), ?w)
# What comes out in a channel depends on no other channel's kernel.
rule conv_first_kernels
  split{axis=1, sizes=[size(?w, 0), size(?v, 0)]}(
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, concat{axis=0}(?w, ?v))).0
    => split{axis=1, sizes=[size(?w, 0), size(?v, 0)]}(
         conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
           concat{axis=0}(?w, fill{value=0.0, element=dtype(?v), dims=shape(?v)}()))).0
rule conv_last_kernels
  split{axis=1, sizes=[size(?w, 0), size(?v, 0)]}(
      conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, concat{axis=0}(?w, ?v))).1
    => split{axis=1, sizes=[size(?w, 0), size(?v, 0)]}(
         conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x,
           concat{axis=0}(fill{value=0.0, element=dtype(?w), dims=shape(?w)}(), ?v))).1
# Kernels of several convolutions, interleaved group by group: what comes out is interleaved likewise.
rule conv_interleaved_kernels
  conv2d{stride=?s, pads=?q, dilation=?d, groups=?g}(?x, reshape{dims=?f}(concat{axis=1}(??u...)))
    => reshape{dims=[size(?x, 0), at(?f, 0),
           (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - 1 - ?d * (suffix(?f, 2) - 1)) / ?s + 1]}(
         concat{axis=2}(reshape{dims=[size(?x, 0), ?g, size(??u, 1),
             (suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - 1 - ?d * (suffix(?f, 2) - 1)) / ?s + 1]}(
           conv2d{stride=?s, pads=?q, dilation=?d, groups=?g}(?x,
             reshape{dims=[?g * size(??u, 1), suffix(shape(??u), 2)]}(??u)))...))
  if rank(??u) == 5, size(??u, 0) == ?g, ?f == [?g * sum([size(??u, 1)...]), suffix(shape(??u), 2)]

# Channels of images and of kernels, interleaved in the same way.
rule conv_of_interleaved_channels
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(
      reshape{dims=[size(?x, 0), size(?x, 1) * (size(?x, 2) + size(?y, 2)), suffix(shape(?x), 3)]}(
        concat{axis=2}(?x, ?y)),
      reshape{dims=[size(?w, 0), size(?x, 1) * (size(?x, 2) + size(?y, 2)), suffix(shape(?w), 3)]}(
        concat{axis=2}(?w, ?v)))
    => add(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(
             reshape{dims=[size(?x, 0), size(?x, 1) * size(?x, 2), suffix(shape(?x), 3)]}(?x),
             reshape{dims=[size(?w, 0), size(?x, 1) * size(?x, 2), suffix(shape(?w), 3)]}(?w)),
           conv2d{stride=?s, padding=?p, pads=?q, dilation=?d}(
             reshape{dims=[size(?x, 0), size(?x, 1) * size(?y, 2), suffix(shape(?x), 3)]}(?y),
             reshape{dims=[size(?w, 0), size(?x, 1) * size(?y, 2), suffix(shape(?w), 3)]}(?v)))
  if rank(?x) == 5, rank(?w) == 5, size(?x, 1) == size(?w, 1), size(?x, 2) == size(?w, 2)

# 8. Pooling.
rule average_pool_is_conv
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, count_include_pad=?i}(?x)
    => conv2d{stride=?s, padding=?p, pads=?q, groups=size(?x, 1)}(?x, pool_kernel{channels=size(?x, 1), kernel=?k}())
  if ?i == 1 || ?p == valid || ?p == explicit && sum(?q) == 0, dtype(?x) == 0
rule average_pool_distributes
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(add(?x, ?y))
    == add(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(?x),
        average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(?y))
  if shape(?x) == shape(?y)
rule average_pool_scales
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(mul(?x, ?t))
    == mul(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(?x), ?t)
  if rank(?t) == 0
rule average_pool_concat
  concat{axis=?a}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(??x)...)
    == average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(concat{axis=?a}(
        ??x...))
  if ?a < 2
rule average_pool_of_pointwise
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c, count_include_pad=?i}(
      conv2d{dilation=?d, groups=?g}(?x, ?w))
    == conv2d{dilation=?d, groups=?g}(average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c,
         count_include_pad=?i}(?x), ?w)
  if suffix(shape(?w), 2) == [1, 1]
# A last window that begins inside the image may end beyond its padding: it is as if that were wider.
rule max_pool_ceil
  max_pool{kernel=?k, stride=?s, pads=?q, dilation=?d, ceil_mode=1}(?x)
    => max_pool{kernel=?k, stride=?s, dilation=?d, pads=[prefix(?q, 2), max(suffix(?q, 2),
         min((suffix(shape(?x), 2) + prefix(?q, 2) + suffix(?q, 2) - ?d * (?k - 1) - 1 + ?s - 1) / ?s,
             (suffix(shape(?x), 2) + prefix(?q, 2) - 1) / ?s) * ?s
           + ?d * (?k - 1) + 1 - suffix(shape(?x), 2) - prefix(?q, 2))]}(?x)
rule max_pool_concat
  concat{axis=?a}(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?c}(??x)...)
    == max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?c}(concat{axis=?a}(??x...))
  if ?a < 2
rule max_pool_of_relu
  max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c}(relu(?x))
    == relu(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c}(?x))
rule max_pool_shifted
  max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?c}(add(?x, ?t))
    == add(max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, dilation=?d, ceil_mode=?c}(?x), ?t)
  if rank(?t) == 0, dtype(?x) <= 3
  real
rule max_pool_of_max_pool
  max_pool{kernel=?k, stride=?s, pads=?q}(max_pool{kernel=?l, pads=?r}(?x))
    => max_pool{kernel=?k + ?l - 1, stride=?s, pads=?q + ?r}(?x)
rule max_pool_of_one
  max_pool{kernel=[1, 1], ..}(?x) => ?x
rule average_pool_of_one
  average_pool{kernel=[1, 1], ..}(?x) => ?x
# Images that are the same everywhere. With a dilation some window may lie beside all of a small image.
rule max_pool_of_expanded
  max_pool{kernel=?k, stride=?s, pads=?q, dilation=?d}(expand{dims=?m}(?y))
    => expand{dims=[prefix(?m, 2),
         (suffix(?m, 2) + prefix(?q, 2) + suffix(?q, 2) - ?d * (?k - 1) - 1) / ?s + 1]}(?y)
  if suffix(concat(repeat(1, 4 - rank(?y)), shape(?y)), 2) == [1, 1],
     ?d == [1, 1] || product(?d * (?k / 2) >= prefix(?q, 2)) * product(
       (suffix(?m, 2) + prefix(?q, 2) + suffix(?q, 2) - ?d * (?k - 1) - 1) / ?s * ?s - prefix(?q, 2) + ?d * (?k / 2)
         < suffix(?m, 2)) == 1
rule average_pool_of_expanded
  average_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c}(expand{dims=?m}(?y))
    => max_pool{kernel=?k, stride=?s, padding=?p, pads=?q, ceil_mode=?c}(expand{dims=?m}(?y))
  if suffix(concat(repeat(1, 4 - rank(?y)), shape(?y)), 2) == [1, 1]

# 9. Kernels in a frame of zeros.
rule enlarge_same
  enlarge{..}(?w) => ?w
rule enlarge_twice
  enlarge{kernel=?k}(enlarge{..}(?w)) => enlarge{kernel=?k}(?w)
rule enlarge_of_sum
  enlarge{kernel=?k}(add(?w, ?v)) == add(enlarge{kernel=?k}(?w), enlarge{kernel=?k}(?v))
  if shape(?w) == shape(?v)
rule enlarge_of_product
  enlarge{kernel=?k}(mul(?w, ?v)) == mul(enlarge{kernel=?k}(?w), enlarge{kernel=?k}(?v))
  if shape(?w) == shape(?v)
rule enlarge_scaled
  enlarge{kernel=?k}(mul(?w, ?s)) == mul(enlarge{kernel=?k}(?w), ?s)
  if rank(?s) == 0
rule enlarge_of_relu
  enlarge{kernel=?k}(relu(?w)) == relu(enlarge{kernel=?k}(?w))
rule enlarge_concat
  concat{axis=?a}(enlarge{kernel=?k}(??w)...) == enlarge{kernel=?k}(concat{axis=?a}(??w...))
  if ?a < 2

# 10. Joining and cutting. The parts of what is cut, joined again, are what was cut: with it whatever is known of joining
# is known of cutting.
rule concat_of_one
  concat{axis=?a}(?x) => ?x
rule concat_of_split
  concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x
rule split_of_concat
  split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => ??x...
  if ?s == [size(??x, ?a)...]
rule concat_of_concat_first
  concat{axis=?a}(concat{axis=?a}(??x...), ?y) == concat{axis=?a}(??x..., ?y)
rule concat_of_concat_last
  concat{axis=?a}(?x, concat{axis=?a}(??y...)) == concat{axis=?a}(?x, ??y...)
rule concat_interchange
  concat{axis=?a}(concat{axis=?b}(??x, ??y)...) == concat{axis=?b}(concat{axis=?a}(??x...), concat{axis=?a}(??y...))
  if ?a != ?b
rule concat_of_relu
  concat{axis=?c}(relu(??x)...) == relu(concat{axis=?c}(??x...))
rule concat_of_sigmoid
  concat{axis=?c}(sigmoid(??x)...) == sigmoid(concat{axis=?c}(??x...))
rule concat_of_tanh
  concat{axis=?c}(tanh(??x)...) == tanh(concat{axis=?c}(??x...))
rule concat_of_gelu
  concat{axis=?c}(gelu(??x)...) == gelu(concat{axis=?c}(??x...))
rule concat_of_sums
  concat{axis=?c}(add(??x, ??y)...) == add(concat{axis=?c}(??x...),
      concat{axis=?c - at([rank(??x)...], 0) + at([rank(??y)...], 0)}(??y...))
  if rank(??y) <= rank(??x), size(??x, ?c) == size(??y, ?c - rank(??x))
rule concat_of_products
  concat{axis=?c}(mul(??x, ??y)...) == mul(concat{axis=?c}(??x...),
      concat{axis=?c - at([rank(??x)...], 0) + at([rank(??y)...], 0)}(??y...))
  if rank(??y) <= rank(??x), size(??x, ?c) == size(??y, ?c - rank(??x))
rule concat_of_shifted
  concat{axis=?c}(add(??x, ?y)...) == add(concat{axis=?c}(??x...), ?y)
  if rank(?y) <= rank(??x), at(concat(repeat(1, rank(??x) - rank(?y)), shape(?y)), ?c) == 1
rule concat_of_scaled
  concat{axis=?c}(mul(??x, ?y)...) == mul(concat{axis=?c}(??x...), ?y)
  if rank(?y) <= rank(??x), at(concat(repeat(1, rank(??x) - rank(?y)), shape(?y)), ?c) == 1
rule slice_whole
  slice{..}(?x) => ?x
rule slice_of_pointwise
  slice{axes=[2, 3], starts=?s, ends=?e, steps=?t}(conv2d{dilation=?d, groups=?g}(?x, ?w))
    == conv2d{dilation=?d, groups=?g}(slice{axes=[2, 3], starts=?s, ends=?e, steps=?t}(?x), ?w)
  if suffix(shape(?w), 2) == [1, 1]
rule slice_of_relu
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(relu(?x)) == relu(slice{axes=?a, starts=?s, ends=?e, steps=?t}(?x))
rule slice_of_product
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(mul(?x, ?y))
    == mul(slice{axes=?a, starts=?s, ends=?e, steps=?t}(?x), slice{axes=?a, starts=?s, ends=?e, steps=?t}(?y))
  if shape(?x) == shape(?y)
rule slice_twice
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(slice{axes=?a, starts=?b, ends=?c, steps=?d}(?x))
    => slice{axes=?a, starts=?b + ?s * ?d, ends=?b + (?e - 1) * ?d + 1, steps=?t * ?d}(?x)
rule slice_of_first_part
  slice{axes=?b, starts=?s, ends=?e, steps=?t}(concat{axis=?a}(?x, ?y))
    => slice{axes=?b, starts=?s, ends=?e, steps=?t}(?x)
  if ?b == ?a, at(?e, 0) <= size(?x, ?a)
rule slice_of_last_part
  slice{axes=?b, starts=?s, ends=?e, steps=?t}(concat{axis=?a}(?x, ?y))
    => slice{axes=?b, starts=?s - size(?x, ?a), ends=?e - size(?x, ?a), steps=?t}(?y)
  if ?b == ?a, at(?s, 0) >= size(?x, ?a)
rule slice_across_parts
  slice{axes=?b, starts=?s, ends=?e, steps=?t}(concat{axis=?a}(??x...))
    => concat{axis=?a}(slice{axes=?b, starts=?s, ends=?e, steps=?t}(??x)...)
  if length(?b) == 1, ?b != ?a
rule slice_of_sigmoid
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(sigmoid(?x))
    == sigmoid(slice{axes=?a, starts=?s, ends=?e, steps=?t}(?x))
rule slice_of_tanh
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(tanh(?x)) == tanh(slice{axes=?a, starts=?s, ends=?e, steps=?t}(?x))
rule slice_of_gelu
  slice{axes=?a, starts=?s, ends=?e, steps=?t}(gelu(?x)) == gelu(slice{axes=?a, starts=?s, ends=?e, steps=?t}(?x))
rule slice_of_pad
  slice{axes=[2, 3], starts=?s, ends=?e, steps=[1, 1]}(pad{pads=?p, value=?v}(?x))
    => pad{value=?v, pads=[0, 0, max([at(?p, 2), at(?p, 3)] - ?s, 0),
           0, 0, max(?e - suffix(shape(?x), 2) - [at(?p, 2), at(?p, 3)], 0)]}(
         slice{axes=[2, 3], starts=max(?s - [at(?p, 2), at(?p, 3)], 0), steps=[1, 1],
           ends=min(?e - [at(?p, 2), at(?p, 3)], suffix(shape(?x), 2))}(?x))
  if at(?p, 0) + at(?p, 1) + at(?p, 4) + at(?p, 5) == 0
rule pad_nothing
  pad{..}(?x) => ?x
rule pad_of_relu
  pad{pads=?p}(relu(?x)) == relu(pad{pads=?p}(?x))
rule pad_of_product
  pad{pads=?p}(mul(?x, ?y)) == mul(pad{pads=?p}(?x), pad{pads=?p}(?y))
  if shape(?x) == shape(?y)

# 11. Transposes.
rule transpose_same
  transpose{permutation=?p}(?x) => ?x
  if ?p == iota(rank(?x))
rule transpose_twice
  transpose{permutation=?p}(transpose{permutation=?q}(?x)) => transpose{permutation=compose(?p, ?q)}(?x)
rule transpose_of_relu
  transpose{permutation=?p}(relu(?x)) == relu(transpose{permutation=?p}(?x))
rule transpose_of_sigmoid
  transpose{permutation=?p}(sigmoid(?x)) == sigmoid(transpose{permutation=?p}(?x))
rule transpose_of_tanh
  transpose{permutation=?p}(tanh(?x)) == tanh(transpose{permutation=?p}(?x))
rule transpose_of_gelu
  transpose{permutation=?p}(gelu(?x)) == gelu(transpose{permutation=?p}(?x))
rule transpose_of_sum
  transpose{permutation=?p}(add(?x, ?y)) == add(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y))
rule transpose_of_product
  transpose{permutation=?p}(mul(?x, ?y)) == mul(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y))
rule transpose_scaled
  transpose{permutation=?p}(mul(?x, ?s)) == mul(transpose{permutation=?p}(?x), ?s)
  if rank(?s) == 0
rule transpose_of_concat
  transpose{permutation=?p}(concat{axis=?a}(??x...))
    => concat{axis=at(inverse(?p), ?a)}(transpose{permutation=?p}(??x)...)

# 12. Reshapes.
rule reshape_same
  reshape{..}(?x) => ?x
rule reshape_twice
  reshape{dims=?d}(reshape{..}(?x)) => reshape{dims=?d}(?x)
rule reshape_of_squeeze
  reshape{dims=?d}(squeeze{..}(?x)) => reshape{dims=?d}(?x)
rule reshape_of_concat
  reshape{dims=?d}(concat{axis=?a}(??x...)) => concat{axis=?a}(reshape{dims=replace(?d, ?a, size(??x, ?a))}(??x)...)
  if prefix(?d, ?a) == prefix(shape(??x), ?a), at(?d, ?a) == sum([size(??x, ?a)...])
rule row_of_concat
  reshape{dims=[1, sum([size(??x, 0)...])]}(concat{axis=0}(??x...))
    => concat{axis=1}(reshape{dims=[1, size(??x, 0)]}(??x)...)
  if rank(??x) == 1
rule concat_of_rows
  reshape{dims=[sum([size(??x, 1)...])]}(concat{axis=1}(??x...)) => concat{axis=0}(reshape{dims=[size(??x, 1)]}(??x)...)
  if rank(??x) == 2, size(??x, 0) == 1
rule squeeze_of_unsqueeze
  squeeze{axes=?a}(unsqueeze{axes=?a}(?x)) => ?x
rule unsqueeze_of_squeeze
  unsqueeze{axes=?a}(squeeze{axes=?a}(?x)) => ?x
rule reshape_of_relu
  reshape{dims=?d}(relu(?x)) == relu(reshape{dims=?d}(?x))
rule reshape_of_sigmoid
  reshape{dims=?d}(sigmoid(?x)) == sigmoid(reshape{dims=?d}(?x))
rule reshape_of_tanh
  reshape{dims=?d}(tanh(?x)) == tanh(reshape{dims=?d}(?x))
rule reshape_of_gelu
  reshape{dims=?d}(gelu(?x)) == gelu(reshape{dims=?d}(?x))
rule reshape_of_sqrt
  reshape{dims=?d}(sqrt(?x)) == sqrt(reshape{dims=?d}(?x))
rule reshape_of_reciprocal
  reshape{dims=?d}(reciprocal(?x)) == reciprocal(reshape{dims=?d}(?x))
rule reshape_of_negation
  reshape{dims=?d}(negate(?x)) == negate(reshape{dims=?d}(?x))
rule reshape_of_sum
  reshape{dims=?d}(add(?x, ?y)) == add(reshape{dims=?d}(?x), reshape{dims=?d}(?y))
  if shape(?x) == shape(?y)
rule reshape_of_product
  reshape{dims=?d}(mul(?x, ?y)) == mul(reshape{dims=?d}(?x), reshape{dims=?d}(?y))
  if shape(?x) == shape(?y)
rule reshape_shifted
  reshape{dims=?d}(add(?x, ?s)) == add(reshape{dims=?d}(?x), ?s)
  if rank(?s) == 0 || shape(?x) == concat([1], ?d) && rank(?s) < rank(?x)
rule reshape_scaled
  reshape{dims=?d}(mul(?x, ?s)) == mul(reshape{dims=?d}(?x), ?s)
  if rank(?s) == 0 || shape(?x) == concat([1], ?d) && rank(?s) < rank(?x)
rule reshape_of_shifted_channels
  reshape{dims=?d}(add(?x, reshape{dims=[size(?x, 1), 1, 1]}(?b)))
    == add(reshape{dims=?d}(?x), reshape{dims=[at(?d, 1), at(?d, 2), 1, 1]}(?b))
  if rank(?x) == 4, length(?d) == 5, ?d == [size(?x, 0), at(?d, 1), at(?d, 2), suffix(shape(?x), 2)],
     shape(?b) == [size(?x, 1)]

# 13. Normalizations in terms of simpler operators.
rule batch_norm_is_affine
  batch_norm{epsilon=?e}(?x, ?k, ?b, ?m, ?v)
    => add(mul(add(?x, negate(reshape{dims=[size(?m, 0), 1, 1]}(?m))),
             mul(reshape{dims=[size(?k, 0), 1, 1]}(?k), reciprocal(sqrt(
               add(reshape{dims=[size(?v, 0), 1, 1]}(?v), fill{value=?e, element=dtype(?v), dims=[]}()))))),
           reshape{dims=[size(?b, 0), 1, 1]}(?b))
  if rank(?x) == 4
rule layer_norm_is_affine
  layer_norm{axis=?a, epsilon=?e}(?x, ?g, ?b)
    => add(mul(div(sub(?x, reduce_mean{axes=suffix(iota(rank(?x)), ?a)}(?x)),
         sqrt(add(reduce_mean{axes=suffix(iota(rank(?x)), ?a)}(mul(
           sub(?x, reduce_mean{axes=suffix(iota(rank(?x)), ?a)}(?x)),
           sub(?x, reduce_mean{axes=suffix(iota(rank(?x)), ?a)}(?x)))),
         fill{value=?e, element=dtype(?x), dims=[]}()))), ?g), ?b)

# 14. The error function, and the root of 2, which programs round to float64 or to float32: equal to that precision.
rule gelu_is_erf
  mul(mul(?x, fill{value=0.5, element=?e, dims=[]}()),
      add(erf(mul(?x, fill{value=?c, element=?e, dims=[]}())), fill{value=1.0, element=?e, dims=[]}()))
    => gelu(?x)
  if ?c == 0.7071067811865476 || ?c == 0.7071067690849304
  real
rule reciprocal_of_root_of_2
  reciprocal(fill{value=1.4142135623730951, element=?e, dims=?d}())
    => fill{value=0.7071067811865476, element=?e, dims=?d}()
  real
rule reciprocal_of_float32_root_of_2
  reciprocal(fill{value=1.4142135381698608, element=?e, dims=?d}())
    => fill{value=0.7071067690849304, element=?e, dims=?d}()
  real

# 15. Rows of tables.
rule embedding_bag_is_sum
  reduce_sum{axes=[rank(?i) - 1], keep_dims=0}(embedding(?t, ?i)) == embedding_bag(?t, ?i)
)rules";
#pragma GCC diagnostic pop

}  // namespace unity::tensor
