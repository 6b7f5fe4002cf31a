// Rewrites for inference engines, which fuse operators and choose kernels by size, so sums of times of single operators
// do not show what a rewrite gains. Therefore `optimize --target` applies each rule wherever it matches, and times
// whole models. The rules are tested, not proved; each result is compared with the original.
#pragma once

#include <string_view>

namespace unity::tensor {

// Read with parse_rules and compile with compile_rules.
inline constexpr std::string_view engine_rules = R"rules(
# onnxruntime fuses a sum of rank 3 and the layer norm after it into one kernel, which takes several times as long as
# both of them.
rule norm_of_flat_sum
  layer_norm{axis=2, epsilon=?e}(add(?x, ?y), ?g, ?b)
    => reshape{dims=shape(?x)}(layer_norm{axis=1, epsilon=?e}(
         reshape{dims=[size(?x, 0) * size(?x, 1), size(?x, 2)]}(add(?x, ?y)), ?g, ?b))

# Kernels of grouped convolutions work on 8 or 16 channels at once. Groups of fewer are joined, with zeros between.
rule groups_of_16_channels
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?n, activation=?a}(?x, ?w, ?b)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?n * size(?w, 1) / 16, activation=?a}(?x,
         reshape{dims=concat([size(?w, 0), 16], suffix(shape(?w), 2))}(mul(
           reshape{dims=concat([?n * size(?w, 1) / 16, 16 / size(?w, 1), size(?w, 0) / ?n, 1, size(?w, 1)],
                               suffix(shape(?w), 2))}(?w),
           reshape{dims=[1, 16 / size(?w, 1), 1, 16 / size(?w, 1), 1, 1, 1]}(
             identity_matrix{size=16 / size(?w, 1)}()))), ?b)
  if size(?w, 1) > 1, size(?w, 1) < 16, 16 % size(?w, 1) == 0, ?n * size(?w, 1) % 16 == 0, constant(?w) == 1,
     dtype(?w) == 0
rule groups_of_8_channels
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?n, activation=?a}(?x, ?w, ?b)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?n * size(?w, 1) / 8, activation=?a}(?x,
         reshape{dims=concat([size(?w, 0), 8], suffix(shape(?w), 2))}(mul(
           reshape{dims=concat([?n * size(?w, 1) / 8, 8 / size(?w, 1), size(?w, 0) / ?n, 1, size(?w, 1)],
                               suffix(shape(?w), 2))}(?w),
           reshape{dims=[1, 8 / size(?w, 1), 1, 8 / size(?w, 1), 1, 1, 1]}(
             identity_matrix{size=8 / size(?w, 1)}()))), ?b)
  if size(?w, 1) > 1, size(?w, 1) < 8, 8 % size(?w, 1) == 0, ?n * size(?w, 1) % 8 == 0, constant(?w) == 1,
     dtype(?w) == 0

# The same for depthwise convolutions between two others: channels of zeros that nothing reads.
rule depthwise_of_16_channels
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(
    conv2d{stride=?t, padding=?m, pads=?r, dilation=?e, groups=?n, activation=?f}(
      conv2d{stride=?u, padding=?o, pads=?k, dilation=?g, activation=?h}(?x, ?w, ?b), ?v, ?c), ?z, ?y)
    => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(
         conv2d{stride=?t, padding=?m, pads=?r, dilation=?e, groups=(?n + 15) / 16 * 16, activation=?f}(
           conv2d{stride=?u, padding=?o, pads=?k, dilation=?g, activation=?h}(?x,
             pad{pads=[0, 0, 0, 0, (?n + 15) / 16 * 16 - ?n, 0, 0, 0]}(?w),
             pad{pads=[0, (?n + 15) / 16 * 16 - ?n]}(?b)),
           pad{pads=[0, 0, 0, 0, (?n + 15) / 16 * 16 - ?n, 0, 0, 0]}(?v),
           pad{pads=[0, (?n + 15) / 16 * 16 - ?n]}(?c)),
         pad{pads=[0, 0, 0, 0, 0, (?n + 15) / 16 * 16 - ?n, 0, 0]}(?z), ?y)
  if size(?v, 0) == ?n, size(?v, 1) == 1, ?n > 16, ?n % 16 != 0, constant(?w) == 1, constant(?b) == 1,
     constant(?v) == 1, constant(?c) == 1, constant(?z) == 1
)rules";

}  // namespace unity::tensor
