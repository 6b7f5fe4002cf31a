// Rules that pay off only if operators are divided.
#pragma once

#include <string_view>

namespace unity::systems {

// Replaces a product with concatenated columns by a sum of products, without the concatenation. One device gains
// nothing from that. But if the columns are divided, concatenating divided parts moves the operands, whereas the
// separate products read them in place. Not among tensor::standard_rules, which are for searches on one device.
// Source: Unger et al., Unity (OSDI 2022), figure 16b.
inline constexpr std::string_view joint_rules = R"rules(
rule matmul_of_concat_is_sum
  matmul(concat{axis=?a}(?x, ?y), ?w)
    => add(matmul(?x, split{axis=rank(?w) - 2, sizes=[size(?x, -1), size(?y, -1)]}(?w).0),
        matmul(?y, split{axis=rank(?w) - 2, sizes=[size(?x, -1), size(?y, -1)]}(?w).1))
  if ?a == rank(?x) - 1
  proved "congruence closure 1" by concat_of_split, matmul_of_concat
rule linear_of_concat_is_sum
  linear(concat{axis=?a}(?x, ?y), ?w, ?b)
    => add(linear(?x, split{axis=0, sizes=[size(?x, -1), size(?y, -1)]}(?w).0, ?b),
        matmul(?y, split{axis=0, sizes=[size(?x, -1), size(?y, -1)]}(?w).1))
  if ?a == rank(?x) - 1
  proved "congruence closure 1" by add_associates, concat_of_split, linear_bias, linear_is_matmul, matmul_of_concat,
    single_in_sum
)rules";

}  // namespace unity::systems
