# The optional compiled mode: unity::compiled, a static library of the functions that are not templates. Code that links
# it compiles only their declarations. It is built in the build tree of the project that uses it, with that project's
# flags.
#
# A header that takes part ends in definitions that UNITY_DEFINE_<PATH> enables (core/config.hpp). The headers of a
# folder that need the same third-party libraries are compiled as one unit, so that a program links only the libraries
# of the functions that it calls. A header whose needs were not found is left out of the library.
#
# UNITY_COMPILED_BATCH_SIZE: how many of these units are compiled as one. Larger batches shorten the build, but then a
# program may link libraries that it does not need.

include(CheckLinkerFlag)

if(NOT DEFINED UNITY_COMPILED_BATCH_SIZE)
  set(UNITY_COMPILED_BATCH_SIZE 1)
endif()

# unity_compiled_units(<variable>): the sources of the library; rewrites those that have changed.
function(unity_compiled_units variable)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${unity_include_dir}" "${unity_include_dir}/unity/*.hpp")
  set(names "")
  foreach(header IN LISTS headers)
    file(STRINGS "${unity_include_dir}/${header}" line REGEX "defined\\(UNITY_DEFINE_[A-Z0-9_]+\\)$")
    if(NOT line)
      continue()
    endif()
    string(REGEX MATCH "UNITY_DEFINE_[A-Z0-9_]+" macro "${line}")
    unity_needs(needs "${unity_include_dir}/${header}")
    set(possible TRUE)
    foreach(target IN LISTS needs)
      if(NOT TARGET ${target} OR target MATCHES "cuda|mpi|nccl")
        set(possible FALSE)
      endif()
    endforeach()
    if(possible)
      cmake_path(GET header PARENT_PATH name)
      string(JOIN "_" name ${name} ${needs})
      string(REGEX REPLACE "^unity/|unity::" "" name "${name}")
      string(REPLACE "/" "_" name "${name}")
      list(APPEND names "${name}")
      string(APPEND macros_${name} "#define ${macro}\n")
      string(APPEND includes_${name} "#include <${header}>\n")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(units "")
  while(names)
    list(SUBLIST names 0 ${UNITY_COMPILED_BATCH_SIZE} batch)
    list(REMOVE_ITEM names ${batch})
    list(GET batch 0 name)
    set(macros "")
    set(includes "")
    foreach(part IN LISTS batch)
      string(APPEND macros "${macros_${part}}")
      string(APPEND includes "${includes_${part}}")
    endforeach()
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/unity_compiled/${name}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "${macros}\n${includes}" @ONLY)
    list(APPEND units "${unit}")
  endwhile()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()

function(unity_component_compiled)
  unity_compiled_units(units)
  add_library(unity_compiled STATIC EXCLUDE_FROM_ALL ${units})
  add_library(unity::compiled ALIAS unity_compiled)
  set_target_properties(unity_compiled PROPERTIES UNITY_BUILD OFF)
  target_compile_definitions(unity_compiled PUBLIC UNITY_COMPILED)
  target_link_libraries(unity_compiled PUBLIC unity::unity)
  foreach(part IN ITEMS json simdjson archive yaml onnx z3 eigen metis onednn)
    if(TARGET unity::${part})
      target_link_libraries(unity_compiled PRIVATE unity::${part})
    endif()
  endforeach()
  # A program loads only the third-party libraries of the functions that it calls.
  check_linker_flag(CXX "LINKER:--as-needed" UNITY_LINKER_HAS_AS_NEEDED)
  if(UNITY_LINKER_HAS_AS_NEEDED)
    target_link_options(unity_compiled INTERFACE "LINKER:--as-needed")
  endif()
endfunction()
