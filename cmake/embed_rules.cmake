# cmake -P cmake/embed_rules.cmake: writes the shipped rule files into headers beside them, so that programs have the
# rules without a file. The headers are kept under version control, since the library must be usable without a build;
# tests compare the two (test/tensor/standard_rules.cpp, test/tensor/axioms.cpp, test/parallel/parallel_rules.cpp).
cmake_minimum_required(VERSION 3.25)

get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

# embed(<room> <rule file> <header> <what it holds> <name of the constant>)
function(embed room file header what name)
  file(READ "${root}/include/unity/${room}/${file}" text)
  file(WRITE "${root}/include/unity/${room}/${header}"
"// ${what}, as text. Over 500 lines because of so many rules.
// Made from ${file} by cmake/embed_rules.cmake. Change it there.
#pragma once

#include <string_view>

namespace unity::${room} {

// Longer than what every compiler has to take; those that the library supports do.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \"-Woverlength-strings\"
// Read with parse_rules (rewrite/parse.hpp), compile for an algebra with compile_rules (rewrite/compile.hpp).
inline constexpr std::string_view ${name} = R\"rules(${text})rules\";
#pragma GCC diagnostic pop

}  // namespace unity::${room}
")
endfunction()

embed(tensor standard.rules standard_rules.hpp "The shipped rules of tensor graphs" standard_rules)
embed(tensor generated.rules generated_rules.hpp "Rules of tensor graphs that were generated" generated_rules)
embed(tensor axioms.rules axioms.hpp "Properties of tensor operators" standard_axioms)
embed(parallel parallel.rules parallel_rules.hpp "Rules that divide operators, and chains of divisions" parallel_rules)
