# Build settings of unity's own tests, examples, benchmarks and fuzzers. Users are not affected.

set(UNITY_TEST_OPTIMIZATION "-O1" CACHE STRING "Optimization of tests where no build type is chosen")
set(UNITY_PROGRAM_OPTIMIZATION "-O2" CACHE STRING "Optimization of examples where no build type is chosen")

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(UNITY_CCACHE ccache)
  mark_as_advanced(UNITY_CCACHE)
  if(UNITY_CCACHE)
    # Paths below the project are hashed as relative ones, so that another checkout can reuse compiled files.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
        "${UNITY_CCACHE}")
  endif()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

# Sanitizer builds have large programs; lld links them in a sixth of the time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  check_linker_flag(CXX "-fuse-ld=lld" UNITY_LINKER_IS_LLD)
  if(UNITY_LINKER_IS_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

add_library(unity_warnings INTERFACE)
target_compile_options(unity_warnings INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>
  $<$<AND:$<BOOL:${UNITY_WARNINGS_AS_ERRORS}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)

# unity_optimize(<target> <flag>): adds the flag unless a build type was chosen at configuration.
function(unity_optimize target flag)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${target} PRIVATE ${flag})
  endif()
endfunction()

find_package(CLI11 QUIET)

# unity_leave_out(<what is missing> <name>): notes for the summary that `name` is left out.
function(unity_leave_out missing name)
  set_property(GLOBAL APPEND PROPERTY unity_missing "${missing}")
  set_property(GLOBAL APPEND PROPERTY "unity_left_out_${missing}" "${name}")
endfunction()

# unity_can_build(<variable> <name> <file>...): whether all libraries that the files need were found. If not, notes for
# the summary why `name` is left out.
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

# unity_granted(<variable> <file>...): the optional needs of the files (`// if found`) that were found.
function(unity_granted variable)
  unity_needs(ignored ${ARGN})  # sets the property unity_wishes_of_<file>
  set(granted "")
  foreach(file IN LISTS ARGN)
    get_property(wishes GLOBAL PROPERTY "unity_wishes_of_${file}")
    foreach(wish IN LISTS wishes)
      if(TARGET ${wish} AND NOT wish IN_LIST granted)
        list(APPEND granted ${wish})
      endif()
    endforeach()
  endforeach()
  list(SORT granted)
  set(${variable} "${granted}" PARENT_SCOPE)
endfunction()

# unity_build_with(<target> <optimization> <file>...): links the libraries that the files include, and enables warnings.
function(unity_build_with target optimization)
  unity_needs(needs ${ARGN})
  target_link_libraries(${target} PRIVATE ${unity_library} ${needs} unity_warnings)
  unity_granted(granted ${ARGN})
  foreach(wish IN LISTS granted)
    target_link_libraries(${target} PRIVATE ${wish})
    string(REPLACE "unity::" "" part "${wish}")
    string(TOUPPER "${part}" part)
    target_compile_definitions(${target} PRIVATE UNITY_HAS_${part})
  endforeach()
  unity_optimize(${target} ${optimization})
endfunction()

# What programs link: the headers alone, or with the compiled library. Targets that test the headers link unity::unity.
if(UNITY_COMPILED)
  unity_component_compiled()
  target_link_libraries(unity_compiled PRIVATE unity_warnings)
  if(UNITY_BUILD_TESTS)
    unity_optimize(unity_compiled "${UNITY_TEST_OPTIMIZATION}")
  else()
    unity_optimize(unity_compiled "${UNITY_PROGRAM_OPTIMIZATION}")
  endif()
  set(unity_library unity::compiled)
else()
  set(unity_library unity::unity)
endif()

# unity_add_program(<kind> <name> <optimization> <file>...): an executable of these files. `kind` (tests, examples, ...)
# is its list in the summary.
function(unity_add_program kind name optimization)
  add_executable(${name} ${ARGN})
  unity_finish_program(${kind} ${name} ${optimization} ${ARGN})
endfunction()

# unity_finish_program(<kind> <name> <optimization> <file>...): the same for an executable that already exists.
function(unity_finish_program kind name optimization)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  unity_build_with(${name} ${optimization} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY unity_${kind} ${name})
endfunction()

# unity_add_programs(<kind> <prefix> <optimization> <file>...): for each file whose needs were found, an executable in
# bin, named after the file with the prefix. If the file includes a header with a .cpp beside it, this .cpp is part of
# the program (smaller units fit in the memory of a small machine that runs two jobs). Such a .cpp is compiled once for
# all programs that use it and have the same optional needs: headers test for these, and must agree within a program.
function(unity_add_programs kind prefix optimization)
  foreach(file IN LISTS ARGN)
    get_filename_component(stem "${file}" NAME_WE)
    set(parts "")
    get_filename_component(folder "${file}" DIRECTORY)
    file(STRINGS "${file}" includes REGEX "^#include \"[^\"]+\\.hpp\"")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include \"([^\"]+)\\.hpp\".*" "${folder}/\\1.cpp" source "${line}")
      if(EXISTS "${source}")
        list(APPEND parts "${source}")
      endif()
    endforeach()
    unity_can_build(possible "${prefix}${stem}" "${file}" ${parts})
    if(possible)
      add_executable(${prefix}${stem} "${file}")
      unity_finish_program(${kind} ${prefix}${stem} ${optimization} "${file}" ${parts})
      unity_granted(granted "${file}" ${parts})
      string(REPLACE "unity::" "_" granted "${granted}")
      string(REPLACE ";" "" granted "${granted}")
      foreach(source IN LISTS parts)
        get_filename_component(part "${source}" NAME_WE)
        set(part "unity_${kind}_${part}${granted}")
        if(NOT TARGET ${part})
          add_library(${part} OBJECT "${source}")
          set_target_properties(${part} PROPERTIES UNITY_BUILD OFF)
          unity_build_with(${part} ${optimization} "${file}" ${parts})
        endif()
        target_sources(${prefix}${stem} PRIVATE $<TARGET_OBJECTS:${part}>)
      endforeach()
      set_target_properties(${prefix}${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
    endif()
  endforeach()
endfunction()
