# cmake -P cmake/embed_rules.cmake: writes include/unity/tensor/standard.rules into standard_rules.hpp beside it, so
# that programs have the shipped rules without a file. The header is kept under version control, since the library must be
# usable without a build; a test compares the two (test/tensor/standard_rules.cpp).
cmake_minimum_required(VERSION 3.25)

get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
file(READ "${root}/include/unity/tensor/standard.rules" text)
file(WRITE "${root}/include/unity/tensor/standard_rules.hpp"
"// The shipped rules of tensor graphs, as text. Made from standard.rules by cmake/embed_rules.cmake.
// Change it there.
#pragma once

#include <string_view>

namespace unity::tensor {

// Read with parse_rules (rewrite/parse.hpp), compile for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view standard_rules = R\"rules(${text})rules\";

}  // namespace unity::tensor
")
