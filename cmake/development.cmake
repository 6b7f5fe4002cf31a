# What unity's own tests, examples, benchmarks and fuzzers are built with. None of it reaches users.

set(UNITY_TEST_OPTIMIZATION "-O1" CACHE STRING "Optimization of tests where no build type is chosen")
set(UNITY_PROGRAM_OPTIMIZATION "-O2" CACHE STRING "Optimization of examples where no build type is chosen")

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(UNITY_CCACHE ccache)
  mark_as_advanced(UNITY_CCACHE)
  if(UNITY_CCACHE)
    # Paths below the project are hashed as relative ones: another checkout finds what this one compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
        "${UNITY_CCACHE}")
  endif()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

add_library(unity_warnings INTERFACE)
target_compile_options(unity_warnings INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>
  $<$<AND:$<BOOL:${UNITY_WARNINGS_AS_ERRORS}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)

# unity_optimize(<target> <flag>): only where the person who configures has not chosen a build type.
function(unity_optimize target flag)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${target} PRIVATE ${flag})
  endif()
endfunction()

find_package(CLI11 QUIET)

# How an include names a library: the directory that it starts with, and the target to link.
set(unity_third_party
  "nlohmann/" unity::json
  "yaml-cpp/" unity::yaml
  "onnx/" unity::onnx
  "google/protobuf/" unity::onnx
  "z3" unity::z3
  "dnnl" unity::onednn
  "cuda_device.hpp" unity::cuda_device
  "mpi.h" unity::mpi
  "nccl.h" unity::nccl
  "catch2/" Catch2::Catch2WithMain
  "benchmark/" benchmark::benchmark
  "CLI/" CLI11::CLI11)

# unity_needs(<variable> <file>...): the third-party targets that the files include, directly or through headers of this
# library or beside them. Read at configure time: a program links what it includes, and is left out with a reason where
# that is missing, without a second list to keep. An include that ends in `// if found`, within an #ifdef of
# UNITY_HAS_<PART>, is no need but a wish: unity_build_with links unity::<part> and defines that where it is there.
function(unity_needs variable)
  set(needs "")
  foreach(file IN LISTS ARGN)
    get_property(known GLOBAL PROPERTY "unity_needs_of_${file}" SET)
    if(NOT known)
      set_property(GLOBAL PROPERTY "unity_needs_of_${file}" "")
      unity_read_needs("${file}")
    endif()
    get_property(of_file GLOBAL PROPERTY "unity_needs_of_${file}")
    list(APPEND needs ${of_file})
  endforeach()
  list(REMOVE_DUPLICATES needs)
  set(${variable} "${needs}" PARENT_SCOPE)
endfunction()

function(unity_read_needs file)
  set(include "^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]")
  file(STRINGS "${file}" lines REGEX "${include}")
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  get_filename_component(folder "${file}" DIRECTORY)
  set(needs "")
  set(wishes "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "${include}" ignored "${line}")
    set(name "${CMAKE_MATCH_1}")
    set(of_line "")
    # What is generated (cmake/batch.cmake) names files by their whole path.
    foreach(candidate IN ITEMS "${PROJECT_SOURCE_DIR}/include/${name}" "${folder}/${name}" "${name}")
      cmake_path(NORMAL_PATH candidate)
      if(IS_ABSOLUTE "${candidate}" AND EXISTS "${candidate}")
        unity_needs(of_header "${candidate}")
        list(APPEND of_line ${of_header})
        get_property(of_header GLOBAL PROPERTY "unity_wishes_of_${candidate}")
        list(APPEND wishes ${of_header})
        break()
      endif()
    endforeach()
    unity_third_party_target(target "${name}")
    list(APPEND of_line ${target})
    if(line MATCHES "// if found$")
      list(APPEND wishes ${of_line})
    else()
      list(APPEND needs ${of_line})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES needs)
  list(REMOVE_DUPLICATES wishes)
  set_property(GLOBAL PROPERTY "unity_needs_of_${file}" "${needs}")
  set_property(GLOBAL PROPERTY "unity_wishes_of_${file}" "${wishes}")
endfunction()

function(unity_third_party_target variable name)
  set(table "${unity_third_party}")
  set(${variable} "" PARENT_SCOPE)
  while(table)
    list(POP_FRONT table prefix target)
    string(FIND "${name}" "${prefix}" position)
    if(position EQUAL 0)
      set(${variable} "${target}" PARENT_SCOPE)
      return()
    endif()
  endwhile()
endfunction()

# unity_leave_out(<what is missing> <name>): for the summary.
function(unity_leave_out missing name)
  set_property(GLOBAL APPEND PROPERTY unity_missing "${missing}")
  set_property(GLOBAL APPEND PROPERTY "unity_left_out_${missing}" "${name}")
endfunction()

# unity_can_build(<variable> <name> <file>...): whether all that the files need was found; if not, notes why `name`
# is left out.
function(unity_can_build variable name)
  unity_needs(needs ${ARGN})
  set(missing "")
  foreach(target IN LISTS needs)
    if(NOT TARGET ${target})
      list(APPEND missing ${target})
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    unity_leave_out("${missing}" "${name}")
    set(${variable} FALSE PARENT_SCOPE)
  else()
    set(${variable} TRUE PARENT_SCOPE)
  endif()
endfunction()

# unity_build_with(<target> <optimization> <file>...): what the files include is linked, warnings are on.
function(unity_build_with target optimization)
  unity_needs(needs ${ARGN})
  target_link_libraries(${target} PRIVATE unity::unity ${needs} unity_warnings)
  foreach(file IN LISTS ARGN)
    get_property(wishes GLOBAL PROPERTY "unity_wishes_of_${file}")
    foreach(wish IN LISTS wishes)
      if(TARGET ${wish} AND NOT wish IN_LIST needs)
        list(APPEND needs ${wish})
        target_link_libraries(${target} PRIVATE ${wish})
        string(REPLACE "unity::" "" part "${wish}")
        string(TOUPPER "${part}" part)
        target_compile_definitions(${target} PRIVATE UNITY_HAS_${part})
      endif()
    endforeach()
  endforeach()
  unity_optimize(${target} ${optimization})
endfunction()

# unity_add_program(<kind> <name> <optimization> <file>...): an executable of these files. `kind` (tests, examples, ...)
# is the list of the summary that it is counted in.
function(unity_add_program kind name optimization)
  add_executable(${name} ${ARGN})
  unity_build_with(${name} ${optimization} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY unity_${kind} ${name})
endfunction()
