// Rules that divide operators, and chains of divisions, as text. Over 500 lines because of so many rules.
// The program generate_rules prints it: generate_rules --shipped parallel.
#pragma once

#include <string_view>

namespace unity::parallel {

// The string is longer than compilers are required to accept; all supported compilers accept it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
// Read with parse_rules (rewrite/parse.hpp), compile for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view parallel_rules = R"rules(# Substitutions of parallel computation graphs.
#
# The format is told in docs/formats.md. Attribute variables that nothing binds are parameters, which a rule is given
# before it is compiled (parallel/rules/rule_lookup.hpp): degrees ?k and ?j, dimensions ?d and ?e. Sections 1 and 2
# are made by parallel/rules/rule_terms.hpp and dividing_rules.hpp; docs/rules.md tells how all are found and proved.

# 1. Chains: what undoes each other, what is one, and what can change places.
rule reduce_of_inject
  reduce{degree=?k}(inject{degree=?k}(?x)) => ?x
  proved "erasure"
rule discard_of_replicate
  discard{degree=?k}(replicate{degree=?k}(?x)) => ?x
  proved "erasure"
rule combine_of_partition
  combine{axis=?d, degree=?k}(partition{axis=?d, degree=?k}(?x)) => ?x
  proved "erasure"
rule batch_of_pipeline
  batch{axis=?d, steps=?k}(pipeline{axis=?d, steps=?k}(?x)) => ?x
  proved "erasure"
rule pipeline_of_batch
  pipeline{axis=?d, steps=?k}(batch{axis=?d, steps=?k}(?x)) => ?x
  proved "erasure"
rule partition_of_combine
  partition{axis=?d, degree=?k}(combine{axis=?d, degree=?k}(?x)) => ?x
  proved "erasure"
rule replicate_of_discard
  replicate{degree=?k}(discard{degree=?k}(?x)) => ?x
  proved "erasure"
rule inject_of_reduce
  inject{degree=?k}(reduce{degree=?k}(?x)) => ?x
  proved "erasure"
rule reduce_twice
  reduce{degree=?k}(reduce{degree=?j}(?x)) == reduce{degree=?j * ?k}(?x)
  proved "erasure"
rule discard_twice
  discard{degree=?k}(discard{degree=?j}(?x)) == discard{degree=?j * ?k}(?x)
  proved "erasure"
rule combine_twice
  combine{axis=?d, degree=?k}(combine{axis=?d, degree=?j}(?x)) == combine{axis=?d, degree=?j * ?k}(?x)
  proved "erasure"
rule batch_twice
  batch{axis=?d, steps=?k}(batch{axis=?d, steps=?j}(?x)) == batch{axis=?d, steps=?j * ?k}(?x)
  proved "erasure"
rule pipeline_twice
  pipeline{axis=?d, steps=?k}(pipeline{axis=?d, steps=?j}(?x)) == pipeline{axis=?d, steps=?j * ?k}(?x)
  proved "erasure"
rule partition_twice
  partition{axis=?d, degree=?k}(partition{axis=?d, degree=?j}(?x)) == partition{axis=?d, degree=?j * ?k}(?x)
  proved "erasure"
rule replicate_twice
  replicate{degree=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j * ?k}(?x)
  proved "erasure"
rule inject_twice
  inject{degree=?k}(inject{degree=?j}(?x)) == inject{degree=?j * ?k}(?x)
  proved "erasure"
rule reduce_past_discard
  reduce{degree=?k}(discard{degree=?j}(?x)) == discard{degree=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule reduce_past_combine
  reduce{degree=?k}(combine{axis=?e, degree=?j}(?x)) == combine{axis=?e, degree=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule reduce_past_batch
  reduce{degree=?k}(batch{axis=?e, steps=?j}(?x)) == batch{axis=?e, steps=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule reduce_past_pipeline
  reduce{degree=?k}(pipeline{axis=?e, steps=?j}(?x)) == pipeline{axis=?e, steps=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule reduce_past_partition
  reduce{degree=?k}(partition{axis=?e, degree=?j}(?x)) == partition{axis=?e, degree=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule reduce_past_replicate
  reduce{degree=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule reduce_past_inject
  reduce{degree=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(reduce{degree=?k}(?x))
  proved "erasure"
rule discard_past_combine
  discard{degree=?k}(combine{axis=?e, degree=?j}(?x)) == combine{axis=?e, degree=?j}(discard{degree=?k}(?x))
  proved "erasure"
rule discard_past_batch
  discard{degree=?k}(batch{axis=?e, steps=?j}(?x)) == batch{axis=?e, steps=?j}(discard{degree=?k}(?x))
  proved "erasure"
rule discard_past_pipeline
  discard{degree=?k}(pipeline{axis=?e, steps=?j}(?x)) == pipeline{axis=?e, steps=?j}(discard{degree=?k}(?x))
  proved "erasure"
rule discard_past_partition
  discard{degree=?k}(partition{axis=?e, degree=?j}(?x)) == partition{axis=?e, degree=?j}(discard{degree=?k}(?x))
  proved "erasure"
rule discard_past_replicate
  discard{degree=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j}(discard{degree=?k}(?x))
  proved "erasure"
rule discard_past_inject
  discard{degree=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(discard{degree=?k}(?x))
  proved "erasure"
rule combine_past_combine
  combine{axis=?d, degree=?k}(combine{axis=?e, degree=?j}(?x)) == combine{axis=?e, degree=?j}(combine{axis=?d, degree=?k}(?x))
  if ?d < ?e
  proved "erasure"
rule combine_past_batch
  combine{axis=?d, degree=?k}(batch{axis=?e, steps=?j}(?x)) == batch{axis=?e, steps=?j}(combine{axis=?d, degree=?k}(?x))
  proved "erasure"
rule combine_past_pipeline
  combine{axis=?d, degree=?k}(pipeline{axis=?e, steps=?j}(?x)) == pipeline{axis=?e, steps=?j}(combine{axis=?d, degree=?k}(?x))
  proved "erasure"
rule combine_past_partition
  combine{axis=?d, degree=?k}(partition{axis=?e, degree=?j}(?x)) == partition{axis=?e, degree=?j}(combine{axis=?d, degree=?k}(?x))
  proved "erasure"
rule combine_past_replicate
  combine{axis=?d, degree=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j}(combine{axis=?d, degree=?k}(?x))
  proved "erasure"
rule combine_past_inject
  combine{axis=?d, degree=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(combine{axis=?d, degree=?k}(?x))
  proved "erasure"
rule batch_past_batch
  batch{axis=?d, steps=?k}(batch{axis=?e, steps=?j}(?x)) == batch{axis=?e, steps=?j}(batch{axis=?d, steps=?k}(?x))
  if ?d < ?e
  proved "erasure"
rule batch_past_pipeline
  batch{axis=?d, steps=?k}(pipeline{axis=?e, steps=?j}(?x)) == pipeline{axis=?e, steps=?j}(batch{axis=?d, steps=?k}(?x))
  proved "erasure"
rule batch_past_partition
  batch{axis=?d, steps=?k}(partition{axis=?e, degree=?j}(?x)) == partition{axis=?e, degree=?j}(batch{axis=?d, steps=?k}(?x))
  proved "erasure"
rule batch_past_replicate
  batch{axis=?d, steps=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j}(batch{axis=?d, steps=?k}(?x))
  proved "erasure"
rule batch_past_inject
  batch{axis=?d, steps=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(batch{axis=?d, steps=?k}(?x))
  proved "erasure"
rule pipeline_past_pipeline
  pipeline{axis=?d, steps=?k}(pipeline{axis=?e, steps=?j}(?x)) == pipeline{axis=?e, steps=?j}(pipeline{axis=?d, steps=?k}(?x))
  if ?d < ?e
  proved "erasure"
rule pipeline_past_partition
  pipeline{axis=?d, steps=?k}(partition{axis=?e, degree=?j}(?x)) == partition{axis=?e, degree=?j}(pipeline{axis=?d, steps=?k}(?x))
  proved "erasure"
rule pipeline_past_replicate
  pipeline{axis=?d, steps=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j}(pipeline{axis=?d, steps=?k}(?x))
  proved "erasure"
rule pipeline_past_inject
  pipeline{axis=?d, steps=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(pipeline{axis=?d, steps=?k}(?x))
  proved "erasure"
rule partition_past_partition
  partition{axis=?d, degree=?k}(partition{axis=?e, degree=?j}(?x)) == partition{axis=?e, degree=?j}(partition{axis=?d, degree=?k}(?x))
  if ?d < ?e
  proved "erasure"
rule partition_past_replicate
  partition{axis=?d, degree=?k}(replicate{degree=?j}(?x)) == replicate{degree=?j}(partition{axis=?d, degree=?k}(?x))
  proved "erasure"
rule partition_past_inject
  partition{axis=?d, degree=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(partition{axis=?d, degree=?k}(?x))
  proved "erasure"
rule replicate_past_inject
  replicate{degree=?k}(inject{degree=?j}(?x)) == inject{degree=?j}(replicate{degree=?k}(?x))
  proved "erasure"

# 2. Operators, divided along each axis of their grids.
rule matmul_over_m
  matmul{activation=?activation}(?x, ?y) == combine{axis=rank(?x) - 2, degree=?k}(matmul{activation=?activation}(partition{axis=rank(?x) - 2, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule matmul_over_k
  matmul{activation=?activation}(?x, ?y) == reduce{degree=?k}(matmul{activation=?activation}(partition{axis=rank(?x) - 1, degree=?k}(?x), partition{axis=rank(?y) - 2, degree=?k}(?y)))
  proved "erasure"
rule matmul_over_n
  matmul{activation=?activation}(?x, ?y) == combine{axis=rank(?x) - 1, degree=?k}(matmul{activation=?activation}(replicate{degree=?k}(?x), partition{axis=rank(?y) - 1, degree=?k}(?y)))
  proved "erasure"
rule matmul_repeated
  matmul{activation=?activation}(?x, ?y) == discard{degree=?k}(matmul{activation=?activation}(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule matmul_of_terms_in_y
  matmul{activation=?activation}(?x, ?y) == reduce{degree=?k}(matmul{activation=?activation}(replicate{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule matmul_of_terms_in_x
  matmul{activation=?activation}(?x, ?y) == reduce{degree=?k}(matmul{activation=?activation}(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule matmul_in_steps_over_n
  matmul{activation=?activation}(?x, ?y) == batch{axis=rank(?x) - 1, steps=?k}(matmul{activation=?activation}(?x, pipeline{axis=rank(?y) - 1, steps=?k}(?y)))
  proved "erasure"
rule matmul_in_steps_over_m
  matmul{activation=?activation}(?x, ?y) == batch{axis=rank(?x) - 2, steps=?k}(matmul{activation=?activation}(pipeline{axis=rank(?x) - 2, steps=?k}(?x), ?y))
  proved "erasure"
rule matmul_in_steps_over_k
  matmul{activation=?activation}(?x, ?y) == matmul{activation=?activation}(pipeline{axis=rank(?x) - 1, steps=?k}(?x), pipeline{axis=rank(?y) - 2, steps=?k}(?y))
  proved "erasure"
rule matmul_over_d_with_whole_y
  matmul{activation=?activation}(?x, ?y) == combine{axis=?d, degree=?k}(matmul{activation=?activation}(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule matmul_in_steps_over_d_with_whole_y
  matmul{activation=?activation}(?x, ?y) == batch{axis=?d, steps=?k}(matmul{activation=?activation}(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule matmul_over_d
  matmul{activation=?activation}(?x, ?y) == combine{axis=?d, degree=?k}(matmul{activation=?activation}(partition{axis=?d, degree=?k}(?x), partition{axis=?d, degree=?k}(?y)))
  proved "erasure"
rule matmul_in_steps_over_d
  matmul{activation=?activation}(?x, ?y) == batch{axis=?d, steps=?k}(matmul{activation=?activation}(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d, steps=?k}(?y)))
  proved "erasure"
rule linear_over_d
  linear{activation=?activation}(?x, ?y) == combine{axis=?d, degree=?k}(linear{activation=?activation}(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule linear_over_k
  linear{activation=?activation}(?x, ?y) == reduce{degree=?k}(linear{activation=?activation}(partition{axis=rank(?x) - 1, degree=?k}(?x), partition{axis=0, degree=?k}(?y)))
  proved "erasure"
rule linear_over_n
  linear{activation=?activation}(?x, ?y) == combine{axis=rank(?x) - 1, degree=?k}(linear{activation=?activation}(replicate{degree=?k}(?x), partition{axis=1, degree=?k}(?y)))
  proved "erasure"
rule linear_repeated
  linear{activation=?activation}(?x, ?y) == discard{degree=?k}(linear{activation=?activation}(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule linear_of_terms_in_y
  linear{activation=?activation}(?x, ?y) == reduce{degree=?k}(linear{activation=?activation}(replicate{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule linear_of_terms_in_x
  linear{activation=?activation}(?x, ?y) == reduce{degree=?k}(linear{activation=?activation}(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule linear_in_steps_over_n
  linear{activation=?activation}(?x, ?y) == batch{axis=rank(?x) - 1, steps=?k}(linear{activation=?activation}(?x, pipeline{axis=1, steps=?k}(?y)))
  proved "erasure"
rule linear_in_steps_over_d
  linear{activation=?activation}(?x, ?y) == batch{axis=?d, steps=?k}(linear{activation=?activation}(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule linear_in_steps_over_k
  linear{activation=?activation}(?x, ?y) == linear{activation=?activation}(pipeline{axis=rank(?x) - 1, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y))
  proved "erasure"
rule linear_with_bias_over_d
  linear{activation=?activation}(?x, ?y, ?z) == combine{axis=?d, degree=?k}(linear{activation=?activation}(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule linear_with_bias_over_k
  linear{activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(linear{activation=?activation}(partition{axis=rank(?x) - 1, degree=?k}(?x), partition{axis=0, degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule linear_with_bias_over_n
  linear{activation=?activation}(?x, ?y, ?z) == combine{axis=rank(?x) - 1, degree=?k}(linear{activation=?activation}(replicate{degree=?k}(?x), partition{axis=1, degree=?k}(?y), partition{axis=0, degree=?k}(?z)))
  proved "erasure"
rule linear_with_bias_repeated
  linear{activation=?activation}(?x, ?y, ?z) == discard{degree=?k}(linear{activation=?activation}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule linear_with_bias_of_terms_in_y_z
  linear{activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(linear{activation=?activation}(replicate{degree=?k}(?x), inject{degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule linear_with_bias_of_terms_in_x_z
  linear{activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(linear{activation=?activation}(inject{degree=?k}(?x), replicate{degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule linear_with_bias_in_steps_over_n
  linear{activation=?activation}(?x, ?y, ?z) == batch{axis=rank(?x) - 1, steps=?k}(linear{activation=?activation}(?x, pipeline{axis=1, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z)))
  proved "erasure"
rule linear_with_bias_in_steps_over_d
  linear{activation=?activation}(?x, ?y, ?z) == batch{axis=?d, steps=?k}(linear{activation=?activation}(pipeline{axis=?d, steps=?k}(?x), ?y, ?z))
  proved "erasure"
rule conv2d_over_n
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == combine{axis=0, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=0, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule conv2d_over_ic
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=1, degree=?k}(?x), partition{axis=1, degree=?k}(?y)))
  proved "erasure"
rule conv2d_over_oh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == combine{axis=2, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=2, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule conv2d_over_ow
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == combine{axis=3, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=3, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule conv2d_over_oc
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == combine{axis=1, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), partition{axis=0, degree=?k}(?y)))
  proved "erasure"
rule conv2d_over_kh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), partition{axis=2, degree=?k}(?y)))
  proved "erasure"
rule conv2d_over_kw
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), partition{axis=3, degree=?k}(?y)))
  proved "erasure"
rule conv2d_repeated
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == discard{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule conv2d_of_terms_in_y
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule conv2d_of_terms_in_x
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule conv2d_in_steps_over_oc
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == batch{axis=1, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, pipeline{axis=0, steps=?k}(?y)))
  proved "erasure"
rule conv2d_in_steps_over_kh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, pipeline{axis=2, steps=?k}(?y))
  proved "erasure"
rule conv2d_in_steps_over_kw
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, pipeline{axis=3, steps=?k}(?y))
  proved "erasure"
rule conv2d_in_steps_over_n
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == batch{axis=0, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=0, steps=?k}(?x), ?y))
  proved "erasure"
rule conv2d_in_steps_over_ic
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=1, steps=?k}(?x), pipeline{axis=1, steps=?k}(?y))
  proved "erasure"
rule conv2d_in_steps_over_oh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == batch{axis=2, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=2, steps=?k}(?x), ?y))
  proved "erasure"
rule conv2d_in_steps_over_ow
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == batch{axis=3, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=3, steps=?k}(?x), ?y))
  proved "erasure"
rule conv2d_over_g
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == combine{axis=1, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=1, degree=?k}(?x), partition{axis=0, degree=?k}(?y)))
  proved "erasure"
rule conv2d_in_steps_over_g
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y) == batch{axis=1, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=1, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y)))
  proved "erasure"
rule conv2d_with_bias_over_n
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == combine{axis=0, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=0, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_over_ic
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=1, degree=?k}(?x), partition{axis=1, degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_over_oh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == combine{axis=2, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=2, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_over_ow
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == combine{axis=3, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=3, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_over_oc
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == combine{axis=1, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_over_kh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), partition{axis=2, degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_over_kw
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), partition{axis=3, degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_repeated
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == discard{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_of_terms_in_y_z
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(replicate{degree=?k}(?x), inject{degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_of_terms_in_x_z
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == reduce{degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(inject{degree=?k}(?x), replicate{degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_in_steps_over_oc
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == batch{axis=1, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, pipeline{axis=0, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_in_steps_over_n
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == batch{axis=0, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=0, steps=?k}(?x), ?y, ?z))
  proved "erasure"
rule conv2d_with_bias_in_steps_over_oh
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == batch{axis=2, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=2, steps=?k}(?x), ?y, ?z))
  proved "erasure"
rule conv2d_with_bias_in_steps_over_ow
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == batch{axis=3, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=3, steps=?k}(?x), ?y, ?z))
  proved "erasure"
rule conv2d_with_bias_over_g
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == combine{axis=1, degree=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(partition{axis=1, degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z)))
  proved "erasure"
rule conv2d_with_bias_in_steps_over_g
  conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(?x, ?y, ?z) == batch{axis=1, steps=?k}(conv2d{stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, groups=?groups, activation=?activation}(pipeline{axis=1, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z)))
  proved "erasure"
rule attention_over_samples
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == combine{axis=0, degree=?k}(attention{heads=?heads}(partition{axis=0, degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w), replicate{degree=?k}(?s)))
  proved "erasure"
rule attention_over_queries
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == combine{axis=1, degree=?k}(attention{heads=?heads}(partition{axis=1, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w), replicate{degree=?k}(?s)))
  proved "erasure"
rule attention_over_features
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == reduce{degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), partition{axis=2, degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), partition{axis=0, degree=?k}(?w), replicate{degree=?k}(?s)))
  proved "erasure"
rule attention_over_heads
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == reduce{degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), partition{axis=1, degree=?k}(?u), partition{axis=1, degree=?k}(?v), partition{axis=1, degree=?k}(?w), partition{axis=0, degree=?k}(?s)))
  proved "erasure"
rule attention_over_outputs
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == combine{axis=2, degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w), partition{axis=1, degree=?k}(?s)))
  proved "erasure"
rule attention_repeated
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == discard{degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w), replicate{degree=?k}(?s)))
  proved "erasure"
rule attention_of_terms_in_s
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == reduce{degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w), inject{degree=?k}(?s)))
  proved "erasure"
rule attention_of_terms_in_w
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == reduce{degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), inject{degree=?k}(?w), replicate{degree=?k}(?s)))
  proved "erasure"
rule attention_of_terms_in_z
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == reduce{degree=?k}(attention{heads=?heads}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), inject{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w), replicate{degree=?k}(?s)))
  proved "erasure"
rule attention_in_steps_over_outputs
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == batch{axis=2, steps=?k}(attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, pipeline{axis=1, steps=?k}(?s)))
  proved "erasure"
rule attention_in_steps_over_heads
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == attention{heads=?heads}(?x, ?y, ?z, pipeline{axis=1, steps=?k}(?u), pipeline{axis=1, steps=?k}(?v), pipeline{axis=1, steps=?k}(?w), pipeline{axis=0, steps=?k}(?s))
  proved "erasure"
rule attention_in_steps_over_features
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == attention{heads=?heads}(?x, ?y, pipeline{axis=2, steps=?k}(?z), ?u, ?v, pipeline{axis=0, steps=?k}(?w), ?s)
  proved "erasure"
rule attention_in_steps_over_samples
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == batch{axis=0, steps=?k}(attention{heads=?heads}(pipeline{axis=0, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z), ?u, ?v, ?w, ?s))
  proved "erasure"
rule attention_in_steps_over_queries
  attention{heads=?heads}(?x, ?y, ?z, ?u, ?v, ?w, ?s) == batch{axis=1, steps=?k}(attention{heads=?heads}(pipeline{axis=1, steps=?k}(?x), ?y, ?z, ?u, ?v, ?w, ?s))
  proved "erasure"
rule relu_over_d
  relu(?x) == combine{axis=?d, degree=?k}(relu(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule relu_repeated
  relu(?x) == discard{degree=?k}(relu(replicate{degree=?k}(?x)))
  proved "erasure"
rule relu_in_steps_over_d
  relu(?x) == batch{axis=?d, steps=?k}(relu(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule gelu_over_d
  gelu(?x) == combine{axis=?d, degree=?k}(gelu(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule gelu_repeated
  gelu(?x) == discard{degree=?k}(gelu(replicate{degree=?k}(?x)))
  proved "erasure"
rule gelu_in_steps_over_d
  gelu(?x) == batch{axis=?d, steps=?k}(gelu(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule tanh_over_d
  tanh(?x) == combine{axis=?d, degree=?k}(tanh(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule tanh_repeated
  tanh(?x) == discard{degree=?k}(tanh(replicate{degree=?k}(?x)))
  proved "erasure"
rule tanh_in_steps_over_d
  tanh(?x) == batch{axis=?d, steps=?k}(tanh(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule sigmoid_over_d
  sigmoid(?x) == combine{axis=?d, degree=?k}(sigmoid(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule sigmoid_repeated
  sigmoid(?x) == discard{degree=?k}(sigmoid(replicate{degree=?k}(?x)))
  proved "erasure"
rule sigmoid_in_steps_over_d
  sigmoid(?x) == batch{axis=?d, steps=?k}(sigmoid(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule exp_over_d
  exp(?x) == combine{axis=?d, degree=?k}(exp(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule exp_repeated
  exp(?x) == discard{degree=?k}(exp(replicate{degree=?k}(?x)))
  proved "erasure"
rule exp_in_steps_over_d
  exp(?x) == batch{axis=?d, steps=?k}(exp(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule identity_over_d
  identity(?x) == combine{axis=?d, degree=?k}(identity(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule identity_repeated
  identity(?x) == discard{degree=?k}(identity(replicate{degree=?k}(?x)))
  proved "erasure"
rule identity_of_terms_in_x
  identity(?x) == reduce{degree=?k}(identity(inject{degree=?k}(?x)))
  proved "erasure"
rule identity_in_steps_over_d
  identity(?x) == batch{axis=?d, steps=?k}(identity(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule negate_over_d
  negate(?x) == combine{axis=?d, degree=?k}(negate(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule negate_repeated
  negate(?x) == discard{degree=?k}(negate(replicate{degree=?k}(?x)))
  proved "erasure"
rule negate_of_terms_in_x
  negate(?x) == reduce{degree=?k}(negate(inject{degree=?k}(?x)))
  proved "erasure"
rule negate_in_steps_over_d
  negate(?x) == batch{axis=?d, steps=?k}(negate(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule log_over_d
  log(?x) == combine{axis=?d, degree=?k}(log(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule log_repeated
  log(?x) == discard{degree=?k}(log(replicate{degree=?k}(?x)))
  proved "erasure"
rule log_in_steps_over_d
  log(?x) == batch{axis=?d, steps=?k}(log(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule erf_over_d
  erf(?x) == combine{axis=?d, degree=?k}(erf(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule erf_repeated
  erf(?x) == discard{degree=?k}(erf(replicate{degree=?k}(?x)))
  proved "erasure"
rule erf_in_steps_over_d
  erf(?x) == batch{axis=?d, steps=?k}(erf(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule sqrt_over_d
  sqrt(?x) == combine{axis=?d, degree=?k}(sqrt(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule sqrt_repeated
  sqrt(?x) == discard{degree=?k}(sqrt(replicate{degree=?k}(?x)))
  proved "erasure"
rule sqrt_in_steps_over_d
  sqrt(?x) == batch{axis=?d, steps=?k}(sqrt(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule reciprocal_over_d
  reciprocal(?x) == combine{axis=?d, degree=?k}(reciprocal(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule reciprocal_repeated
  reciprocal(?x) == discard{degree=?k}(reciprocal(replicate{degree=?k}(?x)))
  proved "erasure"
rule reciprocal_in_steps_over_d
  reciprocal(?x) == batch{axis=?d, steps=?k}(reciprocal(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule abs_over_d
  abs(?x) == combine{axis=?d, degree=?k}(abs(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule abs_repeated
  abs(?x) == discard{degree=?k}(abs(replicate{degree=?k}(?x)))
  proved "erasure"
rule abs_in_steps_over_d
  abs(?x) == batch{axis=?d, steps=?k}(abs(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule dropout_over_d
  dropout{rate=?rate, seed=?seed}(?x) == combine{axis=?d, degree=?k}(dropout{rate=?rate, seed=?seed}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule dropout_repeated
  dropout{rate=?rate, seed=?seed}(?x) == discard{degree=?k}(dropout{rate=?rate, seed=?seed}(replicate{degree=?k}(?x)))
  proved "erasure"
rule dropout_of_terms_in_x
  dropout{rate=?rate, seed=?seed}(?x) == reduce{degree=?k}(dropout{rate=?rate, seed=?seed}(inject{degree=?k}(?x)))
  proved "erasure"
rule dropout_in_steps_over_d
  dropout{rate=?rate, seed=?seed}(?x) == batch{axis=?d, steps=?k}(dropout{rate=?rate, seed=?seed}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule cast_over_d
  cast{element=?element}(?x) == combine{axis=?d, degree=?k}(cast{element=?element}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule cast_repeated
  cast{element=?element}(?x) == discard{degree=?k}(cast{element=?element}(replicate{degree=?k}(?x)))
  proved "erasure"
rule cast_in_steps_over_d
  cast{element=?element}(?x) == batch{axis=?d, steps=?k}(cast{element=?element}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule add_over_d
  add(?x, ?y) == combine{axis=?d, degree=?k}(add(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule add_repeated
  add(?x, ?y) == discard{degree=?k}(add(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule add_of_terms_in_x_y
  add(?x, ?y) == reduce{degree=?k}(add(inject{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule add_in_steps_over_d
  add(?x, ?y) == batch{axis=?d, steps=?k}(add(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule add_over_d_with_whole_y
  add(?x, ?y) == combine{axis=?d, degree=?k}(add(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule add_in_steps_over_d_with_whole_y
  add(?x, ?y) == batch{axis=?d, steps=?k}(add(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule sub_over_d
  sub(?x, ?y) == combine{axis=?d, degree=?k}(sub(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule sub_repeated
  sub(?x, ?y) == discard{degree=?k}(sub(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule sub_of_terms_in_x_y
  sub(?x, ?y) == reduce{degree=?k}(sub(inject{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule sub_in_steps_over_d
  sub(?x, ?y) == batch{axis=?d, steps=?k}(sub(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule sub_over_d_with_whole_y
  sub(?x, ?y) == combine{axis=?d, degree=?k}(sub(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule sub_in_steps_over_d_with_whole_y
  sub(?x, ?y) == batch{axis=?d, steps=?k}(sub(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule mul_over_d
  mul(?x, ?y) == combine{axis=?d, degree=?k}(mul(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule mul_repeated
  mul(?x, ?y) == discard{degree=?k}(mul(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule mul_of_terms_in_y
  mul(?x, ?y) == reduce{degree=?k}(mul(replicate{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule mul_of_terms_in_x
  mul(?x, ?y) == reduce{degree=?k}(mul(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule mul_in_steps_over_d
  mul(?x, ?y) == batch{axis=?d, steps=?k}(mul(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule mul_over_d_with_whole_y
  mul(?x, ?y) == combine{axis=?d, degree=?k}(mul(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule mul_in_steps_over_d_with_whole_y
  mul(?x, ?y) == batch{axis=?d, steps=?k}(mul(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule div_over_d
  div(?x, ?y) == combine{axis=?d, degree=?k}(div(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule div_repeated
  div(?x, ?y) == discard{degree=?k}(div(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule div_of_terms_in_x
  div(?x, ?y) == reduce{degree=?k}(div(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule div_in_steps_over_d
  div(?x, ?y) == batch{axis=?d, steps=?k}(div(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule div_over_d_with_whole_y
  div(?x, ?y) == combine{axis=?d, degree=?k}(div(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule div_in_steps_over_d_with_whole_y
  div(?x, ?y) == batch{axis=?d, steps=?k}(div(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule maximum_over_d
  maximum(?x, ?y) == combine{axis=?d, degree=?k}(maximum(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule maximum_repeated
  maximum(?x, ?y) == discard{degree=?k}(maximum(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule maximum_in_steps_over_d
  maximum(?x, ?y) == batch{axis=?d, steps=?k}(maximum(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule maximum_over_d_with_whole_y
  maximum(?x, ?y) == combine{axis=?d, degree=?k}(maximum(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule maximum_in_steps_over_d_with_whole_y
  maximum(?x, ?y) == batch{axis=?d, steps=?k}(maximum(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule minimum_over_d
  minimum(?x, ?y) == combine{axis=?d, degree=?k}(minimum(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule minimum_repeated
  minimum(?x, ?y) == discard{degree=?k}(minimum(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule minimum_in_steps_over_d
  minimum(?x, ?y) == batch{axis=?d, steps=?k}(minimum(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule minimum_over_d_with_whole_y
  minimum(?x, ?y) == combine{axis=?d, degree=?k}(minimum(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule minimum_in_steps_over_d_with_whole_y
  minimum(?x, ?y) == batch{axis=?d, steps=?k}(minimum(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule pow_over_d
  pow(?x, ?y) == combine{axis=?d, degree=?k}(pow(partition{axis=?d, degree=?k}(?x), partition{axis=?d + rank(?y) - rank(?x), degree=?k}(?y)))
  proved "erasure"
rule pow_repeated
  pow(?x, ?y) == discard{degree=?k}(pow(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule pow_in_steps_over_d
  pow(?x, ?y) == batch{axis=?d, steps=?k}(pow(pipeline{axis=?d, steps=?k}(?x), pipeline{axis=?d + rank(?y) - rank(?x), steps=?k}(?y)))
  proved "erasure"
rule pow_over_d_with_whole_y
  pow(?x, ?y) == combine{axis=?d, degree=?k}(pow(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule pow_in_steps_over_d_with_whole_y
  pow(?x, ?y) == batch{axis=?d, steps=?k}(pow(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule scalar_multiply_over_d
  scalar_multiply(?x, ?y) == combine{axis=?d, degree=?k}(scalar_multiply(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule scalar_multiply_repeated
  scalar_multiply(?x, ?y) == discard{degree=?k}(scalar_multiply(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule scalar_multiply_of_terms_in_y
  scalar_multiply(?x, ?y) == reduce{degree=?k}(scalar_multiply(replicate{degree=?k}(?x), inject{degree=?k}(?y)))
  proved "erasure"
rule scalar_multiply_of_terms_in_x
  scalar_multiply(?x, ?y) == reduce{degree=?k}(scalar_multiply(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule scalar_multiply_in_steps_over_d
  scalar_multiply(?x, ?y) == batch{axis=?d, steps=?k}(scalar_multiply(pipeline{axis=?d, steps=?k}(?x), ?y))
  proved "erasure"
rule reduce_sum_over_d
  reduce_sum{axes=?axes, keep_dims=?keep_dims}(?x) == combine{axis=?d, degree=?k}(reduce_sum{axes=?axes, keep_dims=?keep_dims}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule reduce_sum_over_r
  reduce_sum{axes=?axes, keep_dims=?keep_dims}(?x) == reduce{degree=?k}(reduce_sum{axes=?axes, keep_dims=?keep_dims}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule reduce_sum_repeated
  reduce_sum{axes=?axes, keep_dims=?keep_dims}(?x) == discard{degree=?k}(reduce_sum{axes=?axes, keep_dims=?keep_dims}(replicate{degree=?k}(?x)))
  proved "erasure"
rule reduce_sum_of_terms_in_x
  reduce_sum{axes=?axes, keep_dims=?keep_dims}(?x) == reduce{degree=?k}(reduce_sum{axes=?axes, keep_dims=?keep_dims}(inject{degree=?k}(?x)))
  proved "erasure"
rule reduce_sum_in_steps_over_d
  reduce_sum{axes=?axes, keep_dims=?keep_dims}(?x) == batch{axis=?d, steps=?k}(reduce_sum{axes=?axes, keep_dims=?keep_dims}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule reduce_sum_in_steps_over_r
  reduce_sum{axes=?axes, keep_dims=?keep_dims}(?x) == reduce_sum{axes=?axes, keep_dims=?keep_dims}(pipeline{axis=?d, steps=?k}(?x))
  proved "erasure"
rule reduce_mean_over_d
  reduce_mean{axes=?axes, keep_dims=?keep_dims}(?x) == combine{axis=?d, degree=?k}(reduce_mean{axes=?axes, keep_dims=?keep_dims}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule reduce_mean_over_r
  reduce_mean{axes=?axes, keep_dims=?keep_dims}(?x) == reduce{degree=?k}(reduce_mean{axes=?axes, keep_dims=?keep_dims}(partition{axis=rank(?x) - 1, degree=?k}(?x)))
  proved "erasure"
rule reduce_mean_repeated
  reduce_mean{axes=?axes, keep_dims=?keep_dims}(?x) == discard{degree=?k}(reduce_mean{axes=?axes, keep_dims=?keep_dims}(replicate{degree=?k}(?x)))
  proved "erasure"
rule reduce_mean_of_terms_in_x
  reduce_mean{axes=?axes, keep_dims=?keep_dims}(?x) == reduce{degree=?k}(reduce_mean{axes=?axes, keep_dims=?keep_dims}(inject{degree=?k}(?x)))
  proved "erasure"
rule reduce_mean_in_steps_over_d
  reduce_mean{axes=?axes, keep_dims=?keep_dims}(?x) == batch{axis=?d, steps=?k}(reduce_mean{axes=?axes, keep_dims=?keep_dims}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule reduce_mean_in_steps_over_r
  reduce_mean{axes=?axes, keep_dims=?keep_dims}(?x) == reduce_mean{axes=?axes, keep_dims=?keep_dims}(pipeline{axis=rank(?x) - 1, steps=?k}(?x))
  proved "erasure"
rule reduce_max_over_d
  reduce_max{axes=?axes, keep_dims=?keep_dims}(?x) == combine{axis=?d, degree=?k}(reduce_max{axes=?axes, keep_dims=?keep_dims}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule reduce_max_repeated
  reduce_max{axes=?axes, keep_dims=?keep_dims}(?x) == discard{degree=?k}(reduce_max{axes=?axes, keep_dims=?keep_dims}(replicate{degree=?k}(?x)))
  proved "erasure"
rule reduce_max_in_steps_over_d
  reduce_max{axes=?axes, keep_dims=?keep_dims}(?x) == batch{axis=?d, steps=?k}(reduce_max{axes=?axes, keep_dims=?keep_dims}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule softmax_over_d
  softmax{axis=?axis}(?x) == combine{axis=?d, degree=?k}(softmax{axis=?axis}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule softmax_repeated
  softmax{axis=?axis}(?x) == discard{degree=?k}(softmax{axis=?axis}(replicate{degree=?k}(?x)))
  proved "erasure"
rule softmax_in_steps_over_d
  softmax{axis=?axis}(?x) == batch{axis=?d, steps=?k}(softmax{axis=?axis}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule layer_norm_over_d_with_whole_y_z
  layer_norm{axis=?axis, epsilon=?epsilon}(?x, ?y, ?z) == combine{axis=?d, degree=?k}(layer_norm{axis=?axis, epsilon=?epsilon}(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule layer_norm_over_d
  layer_norm{axis=?axis, epsilon=?epsilon}(?x, ?y, ?z) == combine{axis=?d, degree=?k}(layer_norm{axis=?axis, epsilon=?epsilon}(partition{axis=?d, degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z)))
  proved "erasure"
rule layer_norm_repeated
  layer_norm{axis=?axis, epsilon=?epsilon}(?x, ?y, ?z) == discard{degree=?k}(layer_norm{axis=?axis, epsilon=?epsilon}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z)))
  proved "erasure"
rule layer_norm_of_terms_in_y_z
  layer_norm{axis=?axis, epsilon=?epsilon}(?x, ?y, ?z) == reduce{degree=?k}(layer_norm{axis=?axis, epsilon=?epsilon}(replicate{degree=?k}(?x), inject{degree=?k}(?y), inject{degree=?k}(?z)))
  proved "erasure"
rule layer_norm_in_steps_over_d
  layer_norm{axis=?axis, epsilon=?epsilon}(?x, ?y, ?z) == batch{axis=?d, steps=?k}(layer_norm{axis=?axis, epsilon=?epsilon}(pipeline{axis=?d, steps=?k}(?x), ?y, ?z))
  proved "erasure"
rule batch_norm_over_d_with_whole_y_z_u_v
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == combine{axis=?d, degree=?k}(batch_norm{epsilon=?epsilon}(partition{axis=?d, degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v)))
  proved "erasure"
rule batch_norm_over_d
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == combine{axis=1, degree=?k}(batch_norm{epsilon=?epsilon}(partition{axis=1, degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z), partition{axis=0, degree=?k}(?u), partition{axis=0, degree=?k}(?v)))
  proved "erasure"
rule batch_norm_repeated
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == discard{degree=?k}(batch_norm{epsilon=?epsilon}(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v)))
  proved "erasure"
rule batch_norm_of_terms_in_y_z
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == reduce{degree=?k}(batch_norm{epsilon=?epsilon}(replicate{degree=?k}(?x), inject{degree=?k}(?y), inject{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v)))
  proved "erasure"
rule batch_norm_of_terms_in_x_z_u
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == reduce{degree=?k}(batch_norm{epsilon=?epsilon}(inject{degree=?k}(?x), replicate{degree=?k}(?y), inject{degree=?k}(?z), inject{degree=?k}(?u), replicate{degree=?k}(?v)))
  proved "erasure"
rule batch_norm_in_steps_over_d_with_whole_y_z_u_v
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == batch{axis=?d, steps=?k}(batch_norm{epsilon=?epsilon}(pipeline{axis=?d, steps=?k}(?x), ?y, ?z, ?u, ?v))
  proved "erasure"
rule batch_norm_in_steps_over_d
  batch_norm{epsilon=?epsilon}(?x, ?y, ?z, ?u, ?v) == batch{axis=1, steps=?k}(batch_norm{epsilon=?epsilon}(pipeline{axis=1, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z), pipeline{axis=0, steps=?k}(?u), pipeline{axis=0, steps=?k}(?v)))
  proved "erasure"
rule max_pool_over_n
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == combine{axis=0, degree=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(partition{axis=0, degree=?k}(?x)))
  proved "erasure"
rule max_pool_over_c
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == combine{axis=1, degree=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(partition{axis=1, degree=?k}(?x)))
  proved "erasure"
rule max_pool_over_oh
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == combine{axis=2, degree=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(partition{axis=2, degree=?k}(?x)))
  proved "erasure"
rule max_pool_over_ow
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == combine{axis=3, degree=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(partition{axis=3, degree=?k}(?x)))
  proved "erasure"
rule max_pool_repeated
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == discard{degree=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(replicate{degree=?k}(?x)))
  proved "erasure"
rule max_pool_in_steps_over_n
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == batch{axis=0, steps=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(pipeline{axis=0, steps=?k}(?x)))
  proved "erasure"
rule max_pool_in_steps_over_c
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == batch{axis=1, steps=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(pipeline{axis=1, steps=?k}(?x)))
  proved "erasure"
rule max_pool_in_steps_over_oh
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == batch{axis=2, steps=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(pipeline{axis=2, steps=?k}(?x)))
  proved "erasure"
rule max_pool_in_steps_over_ow
  max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(?x) == batch{axis=3, steps=?k}(max_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, dilation=?dilation, ceil_mode=?ceil_mode}(pipeline{axis=3, steps=?k}(?x)))
  proved "erasure"
rule average_pool_over_n
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == combine{axis=0, degree=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(partition{axis=0, degree=?k}(?x)))
  proved "erasure"
rule average_pool_over_c
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == combine{axis=1, degree=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(partition{axis=1, degree=?k}(?x)))
  proved "erasure"
rule average_pool_over_oh
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == combine{axis=2, degree=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(partition{axis=2, degree=?k}(?x)))
  proved "erasure"
rule average_pool_over_ow
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == combine{axis=3, degree=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(partition{axis=3, degree=?k}(?x)))
  proved "erasure"
rule average_pool_repeated
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == discard{degree=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(replicate{degree=?k}(?x)))
  proved "erasure"
rule average_pool_of_terms_in_x
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == reduce{degree=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(inject{degree=?k}(?x)))
  proved "erasure"
rule average_pool_in_steps_over_n
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == batch{axis=0, steps=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(pipeline{axis=0, steps=?k}(?x)))
  proved "erasure"
rule average_pool_in_steps_over_c
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == batch{axis=1, steps=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(pipeline{axis=1, steps=?k}(?x)))
  proved "erasure"
rule average_pool_in_steps_over_oh
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == batch{axis=2, steps=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(pipeline{axis=2, steps=?k}(?x)))
  proved "erasure"
rule average_pool_in_steps_over_ow
  average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(?x) == batch{axis=3, steps=?k}(average_pool{kernel=?kernel, stride=?stride, padding=?padding, pads=?pads, ceil_mode=?ceil_mode, count_include_pad=?count_include_pad}(pipeline{axis=3, steps=?k}(?x)))
  proved "erasure"
rule global_average_pool_over_n
  global_average_pool(?x) == combine{axis=0, degree=?k}(global_average_pool(partition{axis=0, degree=?k}(?x)))
  proved "erasure"
rule global_average_pool_over_c
  global_average_pool(?x) == combine{axis=1, degree=?k}(global_average_pool(partition{axis=1, degree=?k}(?x)))
  proved "erasure"
rule global_average_pool_over_h
  global_average_pool(?x) == reduce{degree=?k}(global_average_pool(partition{axis=2, degree=?k}(?x)))
  proved "erasure"
rule global_average_pool_over_w
  global_average_pool(?x) == reduce{degree=?k}(global_average_pool(partition{axis=3, degree=?k}(?x)))
  proved "erasure"
rule global_average_pool_repeated
  global_average_pool(?x) == discard{degree=?k}(global_average_pool(replicate{degree=?k}(?x)))
  proved "erasure"
rule global_average_pool_of_terms_in_x
  global_average_pool(?x) == reduce{degree=?k}(global_average_pool(inject{degree=?k}(?x)))
  proved "erasure"
rule global_average_pool_in_steps_over_n
  global_average_pool(?x) == batch{axis=0, steps=?k}(global_average_pool(pipeline{axis=0, steps=?k}(?x)))
  proved "erasure"
rule global_average_pool_in_steps_over_c
  global_average_pool(?x) == batch{axis=1, steps=?k}(global_average_pool(pipeline{axis=1, steps=?k}(?x)))
  proved "erasure"
rule global_average_pool_in_steps_over_h
  global_average_pool(?x) == global_average_pool(pipeline{axis=2, steps=?k}(?x))
  proved "erasure"
rule global_average_pool_in_steps_over_w
  global_average_pool(?x) == global_average_pool(pipeline{axis=3, steps=?k}(?x))
  proved "erasure"
rule global_max_pool_over_n
  global_max_pool(?x) == combine{axis=0, degree=?k}(global_max_pool(partition{axis=0, degree=?k}(?x)))
  proved "erasure"
rule global_max_pool_over_c
  global_max_pool(?x) == combine{axis=1, degree=?k}(global_max_pool(partition{axis=1, degree=?k}(?x)))
  proved "erasure"
rule global_max_pool_repeated
  global_max_pool(?x) == discard{degree=?k}(global_max_pool(replicate{degree=?k}(?x)))
  proved "erasure"
rule global_max_pool_in_steps_over_n
  global_max_pool(?x) == batch{axis=0, steps=?k}(global_max_pool(pipeline{axis=0, steps=?k}(?x)))
  proved "erasure"
rule global_max_pool_in_steps_over_c
  global_max_pool(?x) == batch{axis=1, steps=?k}(global_max_pool(pipeline{axis=1, steps=?k}(?x)))
  proved "erasure"
rule transpose_over_d
  transpose{permutation=?permutation}(?x) == combine{axis=at(inverse(?permutation), ?d), degree=?k}(transpose{permutation=?permutation}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule transpose_repeated
  transpose{permutation=?permutation}(?x) == discard{degree=?k}(transpose{permutation=?permutation}(replicate{degree=?k}(?x)))
  proved "erasure"
rule transpose_of_terms_in_x
  transpose{permutation=?permutation}(?x) == reduce{degree=?k}(transpose{permutation=?permutation}(inject{degree=?k}(?x)))
  proved "erasure"
rule transpose_in_steps_over_d
  transpose{permutation=?permutation}(?x) == batch{axis=at(inverse(?permutation), ?d), steps=?k}(transpose{permutation=?permutation}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule reshape_over_d
  reshape{dims=?dims}(?x) == combine{axis=?d, degree=?k}(reshape{dims=?dims}(partition{axis=?e, degree=?k}(?x)))
  proved "erasure"
rule reshape_repeated
  reshape{dims=?dims}(?x) == discard{degree=?k}(reshape{dims=?dims}(replicate{degree=?k}(?x)))
  proved "erasure"
rule reshape_of_terms_in_x
  reshape{dims=?dims}(?x) == reduce{degree=?k}(reshape{dims=?dims}(inject{degree=?k}(?x)))
  proved "erasure"
rule reshape_in_steps_over_d
  reshape{dims=?dims}(?x) == batch{axis=?d, steps=?k}(reshape{dims=?dims}(pipeline{axis=?e, steps=?k}(?x)))
  proved "erasure"
rule squeeze_over_d
  squeeze{axes=?axes}(?x) == combine{axis=?d, degree=?k}(squeeze{axes=?axes}(partition{axis=?e, degree=?k}(?x)))
  proved "erasure"
rule squeeze_repeated
  squeeze{axes=?axes}(?x) == discard{degree=?k}(squeeze{axes=?axes}(replicate{degree=?k}(?x)))
  proved "erasure"
rule squeeze_of_terms_in_x
  squeeze{axes=?axes}(?x) == reduce{degree=?k}(squeeze{axes=?axes}(inject{degree=?k}(?x)))
  proved "erasure"
rule squeeze_in_steps_over_d
  squeeze{axes=?axes}(?x) == batch{axis=?d, steps=?k}(squeeze{axes=?axes}(pipeline{axis=?e, steps=?k}(?x)))
  proved "erasure"
rule unsqueeze_over_d
  unsqueeze{axes=?axes}(?x) == combine{axis=?d, degree=?k}(unsqueeze{axes=?axes}(partition{axis=?e, degree=?k}(?x)))
  proved "erasure"
rule unsqueeze_repeated
  unsqueeze{axes=?axes}(?x) == discard{degree=?k}(unsqueeze{axes=?axes}(replicate{degree=?k}(?x)))
  proved "erasure"
rule unsqueeze_of_terms_in_x
  unsqueeze{axes=?axes}(?x) == reduce{degree=?k}(unsqueeze{axes=?axes}(inject{degree=?k}(?x)))
  proved "erasure"
rule unsqueeze_in_steps_over_d
  unsqueeze{axes=?axes}(?x) == batch{axis=?d, steps=?k}(unsqueeze{axes=?axes}(pipeline{axis=?e, steps=?k}(?x)))
  proved "erasure"
rule concat_over_d
  concat{axis=?axis}(??x...) == combine{axis=?d, degree=?k}(concat{axis=?axis}(partition{axis=?d, degree=?k}(??x)...))
  proved "erasure"
rule concat_repeated
  concat{axis=?axis}(??x...) == discard{degree=?k}(concat{axis=?axis}(replicate{degree=?k}(??x)...))
  proved "erasure"
rule concat_of_terms
  concat{axis=?axis}(??x...) == reduce{degree=?k}(concat{axis=?axis}(inject{degree=?k}(??x)...))
  proved "erasure"
rule concat_in_steps_over_d
  concat{axis=?axis}(??x...) == batch{axis=?d, steps=?k}(concat{axis=?axis}(pipeline{axis=?d, steps=?k}(??x)...))
  proved "erasure"
rule split_in_two_over_d
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1) == (combine{axis=?d, degree=?k}(split{axis=?axis, sizes=?sizes}(partition{axis=?d, degree=?k}(?x)).0), combine{axis=?d, degree=?k}(split{axis=?axis, sizes=?sizes}(partition{axis=?d, degree=?k}(?x)).1))
  proved "erasure"
rule split_in_two_repeated
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1) == (discard{degree=?k}(split{axis=?axis, sizes=?sizes}(replicate{degree=?k}(?x)).0), discard{degree=?k}(split{axis=?axis, sizes=?sizes}(replicate{degree=?k}(?x)).1))
  proved "erasure"
rule split_in_two_of_terms_in_x
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1) == (reduce{degree=?k}(split{axis=?axis, sizes=?sizes}(inject{degree=?k}(?x)).0), reduce{degree=?k}(split{axis=?axis, sizes=?sizes}(inject{degree=?k}(?x)).1))
  proved "erasure"
rule split_in_two_in_steps_over_d
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1) == (batch{axis=?d, steps=?k}(split{axis=?axis, sizes=?sizes}(pipeline{axis=?d, steps=?k}(?x)).0), batch{axis=?d, steps=?k}(split{axis=?axis, sizes=?sizes}(pipeline{axis=?d, steps=?k}(?x)).1))
  proved "erasure"
rule split_in_three_over_d
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1, split{axis=?axis, sizes=?sizes}(?x).2) == (combine{axis=?d, degree=?k}(split{axis=?axis, sizes=?sizes}(partition{axis=?d, degree=?k}(?x)).0), combine{axis=?d, degree=?k}(split{axis=?axis, sizes=?sizes}(partition{axis=?d, degree=?k}(?x)).1), combine{axis=?d, degree=?k}(split{axis=?axis, sizes=?sizes}(partition{axis=?d, degree=?k}(?x)).2))
  proved "erasure"
rule split_in_three_repeated
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1, split{axis=?axis, sizes=?sizes}(?x).2) == (discard{degree=?k}(split{axis=?axis, sizes=?sizes}(replicate{degree=?k}(?x)).0), discard{degree=?k}(split{axis=?axis, sizes=?sizes}(replicate{degree=?k}(?x)).1), discard{degree=?k}(split{axis=?axis, sizes=?sizes}(replicate{degree=?k}(?x)).2))
  proved "erasure"
rule split_in_three_of_terms_in_x
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1, split{axis=?axis, sizes=?sizes}(?x).2) == (reduce{degree=?k}(split{axis=?axis, sizes=?sizes}(inject{degree=?k}(?x)).0), reduce{degree=?k}(split{axis=?axis, sizes=?sizes}(inject{degree=?k}(?x)).1), reduce{degree=?k}(split{axis=?axis, sizes=?sizes}(inject{degree=?k}(?x)).2))
  proved "erasure"
rule split_in_three_in_steps_over_d
  (split{axis=?axis, sizes=?sizes}(?x).0, split{axis=?axis, sizes=?sizes}(?x).1, split{axis=?axis, sizes=?sizes}(?x).2) == (batch{axis=?d, steps=?k}(split{axis=?axis, sizes=?sizes}(pipeline{axis=?d, steps=?k}(?x)).0), batch{axis=?d, steps=?k}(split{axis=?axis, sizes=?sizes}(pipeline{axis=?d, steps=?k}(?x)).1), batch{axis=?d, steps=?k}(split{axis=?axis, sizes=?sizes}(pipeline{axis=?d, steps=?k}(?x)).2))
  proved "erasure"
rule slice_over_d
  slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(?x) == combine{axis=?d, degree=?k}(slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule slice_repeated
  slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(?x) == discard{degree=?k}(slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(replicate{degree=?k}(?x)))
  proved "erasure"
rule slice_of_terms_in_x
  slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(?x) == reduce{degree=?k}(slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(inject{degree=?k}(?x)))
  proved "erasure"
rule slice_in_steps_over_d
  slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(?x) == batch{axis=?d, steps=?k}(slice{axes=?axes, starts=?starts, ends=?ends, steps=?steps}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule pad_over_d
  pad{pads=?pads, value=?value}(?x) == combine{axis=?d, degree=?k}(pad{pads=?pads, value=?value}(partition{axis=?d, degree=?k}(?x)))
  proved "erasure"
rule pad_repeated
  pad{pads=?pads, value=?value}(?x) == discard{degree=?k}(pad{pads=?pads, value=?value}(replicate{degree=?k}(?x)))
  proved "erasure"
rule pad_of_terms_in_x
  pad{pads=?pads, value=?value}(?x) == reduce{degree=?k}(pad{pads=?pads, value=?value}(inject{degree=?k}(?x)))
  proved "erasure"
rule pad_in_steps_over_d
  pad{pads=?pads, value=?value}(?x) == batch{axis=?d, steps=?k}(pad{pads=?pads, value=?value}(pipeline{axis=?d, steps=?k}(?x)))
  proved "erasure"
rule embedding_over_v
  embedding(?x, ?y) == reduce{degree=?k}(embedding(partition{axis=0, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_over_e
  embedding(?x, ?y) == combine{axis=rank(?y), degree=?k}(embedding(partition{axis=1, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_over_d
  embedding(?x, ?y) == combine{axis=?d, degree=?k}(embedding(replicate{degree=?k}(?x), partition{axis=?d, degree=?k}(?y)))
  proved "erasure"
rule embedding_repeated
  embedding(?x, ?y) == discard{degree=?k}(embedding(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_of_terms_in_x
  embedding(?x, ?y) == reduce{degree=?k}(embedding(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_in_steps_over_d
  embedding(?x, ?y) == batch{axis=?d, steps=?k}(embedding(?x, pipeline{axis=?d, steps=?k}(?y)))
  proved "erasure"
rule embedding_in_steps_over_v
  embedding(?x, ?y) == embedding(pipeline{axis=0, steps=?k}(?x), ?y)
  proved "erasure"
rule embedding_in_steps_over_e
  embedding(?x, ?y) == batch{axis=rank(?y), steps=?k}(embedding(pipeline{axis=1, steps=?k}(?x), ?y))
  proved "erasure"
rule embedding_bag_over_v
  embedding_bag(?x, ?y) == reduce{degree=?k}(embedding_bag(partition{axis=0, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_bag_over_e
  embedding_bag(?x, ?y) == combine{axis=1, degree=?k}(embedding_bag(partition{axis=1, degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_bag_over_d
  embedding_bag(?x, ?y) == combine{axis=0, degree=?k}(embedding_bag(replicate{degree=?k}(?x), partition{axis=0, degree=?k}(?y)))
  proved "erasure"
rule embedding_bag_over_s
  embedding_bag(?x, ?y) == reduce{degree=?k}(embedding_bag(replicate{degree=?k}(?x), partition{axis=1, degree=?k}(?y)))
  proved "erasure"
rule embedding_bag_repeated
  embedding_bag(?x, ?y) == discard{degree=?k}(embedding_bag(replicate{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_bag_of_terms_in_x
  embedding_bag(?x, ?y) == reduce{degree=?k}(embedding_bag(inject{degree=?k}(?x), replicate{degree=?k}(?y)))
  proved "erasure"
rule embedding_bag_in_steps_over_d
  embedding_bag(?x, ?y) == batch{axis=0, steps=?k}(embedding_bag(?x, pipeline{axis=0, steps=?k}(?y)))
  proved "erasure"
rule embedding_bag_in_steps_over_s
  embedding_bag(?x, ?y) == embedding_bag(?x, pipeline{axis=1, steps=?k}(?y))
  proved "erasure"
rule embedding_bag_in_steps_over_v
  embedding_bag(?x, ?y) == embedding_bag(pipeline{axis=0, steps=?k}(?x), ?y)
  proved "erasure"
rule embedding_bag_in_steps_over_e
  embedding_bag(?x, ?y) == batch{axis=1, steps=?k}(embedding_bag(pipeline{axis=1, steps=?k}(?x), ?y))
  proved "erasure"
rule lstm_cell_over_samples
  (lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).0, lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).1) == (combine{axis=0, degree=?k}(lstm_cell(partition{axis=0, degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w)).0), combine{axis=0, degree=?k}(lstm_cell(partition{axis=0, degree=?k}(?x), partition{axis=0, degree=?k}(?y), partition{axis=0, degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w)).1))
  proved "erasure"
rule lstm_cell_over_cells
  (lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).0, lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).1) == (combine{axis=1, degree=?k}(lstm_cell(replicate{degree=?k}(?x), replicate{degree=?k}(?y), partition{axis=1, degree=?k}(?z), partition{axis=1, degree=?k}(?u), partition{axis=1, degree=?k}(?v), partition{axis=1, degree=?k}(?w)).0), combine{axis=1, degree=?k}(lstm_cell(replicate{degree=?k}(?x), replicate{degree=?k}(?y), partition{axis=1, degree=?k}(?z), partition{axis=1, degree=?k}(?u), partition{axis=1, degree=?k}(?v), partition{axis=1, degree=?k}(?w)).1))
  proved "erasure"
rule lstm_cell_repeated
  (lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).0, lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).1) == (discard{degree=?k}(lstm_cell(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w)).0), discard{degree=?k}(lstm_cell(replicate{degree=?k}(?x), replicate{degree=?k}(?y), replicate{degree=?k}(?z), replicate{degree=?k}(?u), replicate{degree=?k}(?v), replicate{degree=?k}(?w)).1))
  proved "erasure"
rule lstm_cell_in_steps_over_cells
  (lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).0, lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).1) == (batch{axis=1, steps=?k}(lstm_cell(?x, ?y, pipeline{axis=1, steps=?k}(?z), pipeline{axis=1, steps=?k}(?u), pipeline{axis=1, steps=?k}(?v), pipeline{axis=1, steps=?k}(?w)).0), batch{axis=1, steps=?k}(lstm_cell(?x, ?y, pipeline{axis=1, steps=?k}(?z), pipeline{axis=1, steps=?k}(?u), pipeline{axis=1, steps=?k}(?v), pipeline{axis=1, steps=?k}(?w)).1))
  proved "erasure"
rule lstm_cell_in_steps_over_samples
  (lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).0, lstm_cell(?x, ?y, ?z, ?u, ?v, ?w).1) == (batch{axis=0, steps=?k}(lstm_cell(pipeline{axis=0, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z), ?u, ?v, ?w).0), batch{axis=0, steps=?k}(lstm_cell(pipeline{axis=0, steps=?k}(?x), pipeline{axis=0, steps=?k}(?y), pipeline{axis=0, steps=?k}(?z), ?u, ?v, ?w).1))
  proved "erasure"

# 3. Hybrids: what an operator does becomes, in part, how tensors lie. Source: Unity (OSDI 2022), figures 11 and 16.
rule add_is_reduce_of_terms
  add(?x, ?y) == reduce{degree=2}(terms(?x, ?y))
  proved "erasure"
rule concat_is_combine_of_blocks
  concat{axis=?axis}(??x...) == combine{axis=?axis, degree=length([rank(??x)...])}(blocks{axis=?axis}(??x...))
  proved "erasure"
rule terms_are_added_parts
  terms(?x, ?y) == add(inject{degree=2}(?x), inject{degree=2}(?y))
  proved "erasure"
rule reduce_of_terms
  reduce{degree=?k}(terms(?x, ?y)) == terms(reduce{degree=?k}(?x), reduce{degree=?k}(?y))
  proved "erasure"
rule reduce_of_blocks
  reduce{degree=?k}(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(reduce{degree=?k}(??x)...)
  proved "erasure"
rule discard_of_terms
  discard{degree=?k}(terms(?x, ?y)) == terms(discard{degree=?k}(?x), discard{degree=?k}(?y))
  proved "erasure"
rule discard_of_blocks
  discard{degree=?k}(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(discard{degree=?k}(??x)...)
  proved "erasure"
rule combine_of_terms
  combine{axis=?d, degree=?k}(terms(?x, ?y)) == terms(combine{axis=?d, degree=?k}(?x), combine{axis=?d, degree=?k}(?y))
  proved "erasure"
rule combine_of_blocks
  combine{axis=?d, degree=?k}(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(combine{axis=?d, degree=?k}(??x)...)
  proved "erasure"
rule partition_of_terms
  partition{axis=?d, degree=?k}(terms(?x, ?y)) == terms(partition{axis=?d, degree=?k}(?x), partition{axis=?d, degree=?k}(?y))
  proved "erasure"
rule partition_of_blocks
  partition{axis=?d, degree=?k}(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(partition{axis=?d, degree=?k}(??x)...)
  proved "erasure"
rule replicate_of_terms
  replicate{degree=?k}(terms(?x, ?y)) == terms(replicate{degree=?k}(?x), replicate{degree=?k}(?y))
  proved "erasure"
rule replicate_of_blocks
  replicate{degree=?k}(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(replicate{degree=?k}(??x)...)
  proved "erasure"
rule inject_of_terms
  inject{degree=?k}(terms(?x, ?y)) == terms(inject{degree=?k}(?x), inject{degree=?k}(?y))
  proved "erasure"
rule inject_of_blocks
  inject{degree=?k}(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(inject{degree=?k}(??x)...)
  proved "erasure"
rule relu_of_blocks
  relu(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(relu(??x)...)
  proved "congruence closure 1" by combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_relu, partition_of_blocks, partition_of_combine, relu_over_d
rule gelu_of_blocks
  gelu(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(gelu(??x)...)
  proved "congruence closure 1" by combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_gelu, gelu_over_d, partition_of_blocks, partition_of_combine
rule tanh_of_blocks
  tanh(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(tanh(??x)...)
  proved "congruence closure 1" by combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_tanh, partition_of_blocks, partition_of_combine, tanh_over_d
rule sigmoid_of_blocks
  sigmoid(blocks{axis=?axis}(??x...)) == blocks{axis=?axis}(sigmoid(??x)...)
  proved "congruence closure 1" by combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_sigmoid, partition_of_blocks, partition_of_combine, sigmoid_over_d
rule add_of_blocks
  add(blocks{axis=?axis}(?x, ?y), blocks{axis=?axis}(?u, ?v)) == blocks{axis=?axis}(add(?x, ?u), add(?y, ?v))
  proved "congruence closure 1" by add_over_d, combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_sums, partition_of_blocks, partition_of_combine
rule mul_of_blocks
  mul(blocks{axis=?axis}(?x, ?y), blocks{axis=?axis}(?u, ?v)) == blocks{axis=?axis}(mul(?x, ?u), mul(?y, ?v))
  proved "congruence closure 1" by combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_products, mul_over_d, partition_of_blocks, partition_of_combine
rule blocks_of_terms
  blocks{axis=?axis}(terms(?x, ?y), terms(?u, ?v)) == terms(blocks{axis=?axis}(?x, ?u), blocks{axis=?axis}(?y, ?v))
  proved "congruence closure 1" by add_over_d, combine_of_blocks, combine_of_partition, combine_past_partition, concat_is_combine_of_blocks, concat_of_sums, inject_of_blocks, partition_of_blocks, partition_of_combine, terms_are_added_parts
rule partition_is_blocks_of_split
  partition{axis=?d, degree=2}(?x)
    == blocks{axis=?d}(split{axis=?d, sizes=[size(?x, ?d) / 2, size(?x, ?d) / 2]}(?x).0,
        split{axis=?d, sizes=[size(?x, ?d) / 2, size(?x, ?d) / 2]}(?x).1)
  proved "congruence closure 1" by concat_is_combine_of_blocks, concat_of_split, partition_of_combine
rule matmul_of_blocks
  matmul(blocks{axis=rank(?x) - 1}(?x, ?y), blocks{axis=rank(?u) - 2}(?u, ?v)) == terms(matmul(?x, ?u), matmul(?y, ?v))
  proved "congruence closure 1" by combine_of_partition, combine_past_inject, combine_past_partition, combine_past_replicate, concat_is_combine_of_blocks, inject_of_blocks, inject_of_reduce, matmul_of_concat, matmul_of_terms_in_y, matmul_over_k, partition_past_inject, partition_past_replicate, replicate_of_blocks, terms_are_added_parts
rule matmul_of_concats_is_sum
  matmul(concat{axis=?a}(?x, ?y), concat{axis=?b}(?u, ?v)) => reduce{degree=2}(terms(matmul(?x, ?u), matmul(?y, ?v)))
  if ?a == rank(?x) - 1, ?b == rank(?u) - 2, size(?x, -1) == size(?u, -2)
  proved "congruence closure 1" by add_is_reduce_of_terms, matmul_of_concat
rule matmul_of_concat_is_sum
  matmul(concat{axis=?a}(?x, ?y), ?w)
    => reduce{degree=2}(terms(matmul(?x, split{axis=rank(?w) - 2, sizes=[size(?x, -1), size(?y, -1)]}(?w).0),
        matmul(?y, split{axis=rank(?w) - 2, sizes=[size(?x, -1), size(?y, -1)]}(?w).1)))
  if ?a == rank(?x) - 1
  proved "congruence closure 1" by add_is_reduce_of_terms, concat_of_split, matmul_of_concat
rule embedding_bag_is_sum
  embedding_bag(?x, ?y) == reduce_sum{axes=[rank(?y) - 1], keep_dims=0}(embedding(?x, ?y))
  proved "congruence closure 1" by embedding_bag_is_sum
rule embedding_bag_is_sum_over_bags
  embedding_bag(?x, ?y)
    == reduce{degree=?k}(reduce_sum{axes=[rank(?y) - 1], keep_dims=0}(embedding(replicate{degree=?k}(?x),
        partition{axis=rank(?y) - 1, degree=?k}(?y))))
  proved "congruence closure 1" by embedding_bag_is_sum, embedding_bag_over_s
)rules";
#pragma GCC diagnostic pop

}  // namespace unity::parallel
