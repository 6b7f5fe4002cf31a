# Finds the third-party libraries that a C++ file needs, from its includes. Reads ${unity_include_dir}, the folder of
# unity's headers.

# How the name of an included header begins, and the target to link for it.
set(unity_third_party
  "nlohmann/" unity::json
  "simdjson" unity::simdjson
  "archive" unity::archive
  "yaml-cpp/" unity::yaml
  "onnx/" unity::onnx
  "google/protobuf/" unity::onnx
  "z3" unity::z3
  "Eigen/" unity::eigen
  "metis.h" unity::metis
  "dnnl" unity::onednn
  "cuda_device.hpp" unity::cuda_device
  "mpi.h" unity::mpi
  "nccl.h" unity::nccl
  "catch2/" Catch2::Catch2WithMain
  "benchmark/" benchmark::benchmark
  "CLI/" CLI11::CLI11)

# unity_needs(<variable> <file>...): the third-party targets that the files include, directly or through headers of this
# library or beside them. This is evaluated at configure time, so no separate list is needed: a program links the
# libraries whose headers it includes, and is left out with a reason if one is missing. An include is optional if it
# ends in `// if found` and is within an #ifdef of UNITY_HAS_<PART>: unity_build_with links unity::<part> and defines
# that macro if the part was found.
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
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  get_filename_component(folder "${file}" DIRECTORY)
  set(needs "")
  set(wishes "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "${include}" ignored "${line}")
    set(name "${CMAKE_MATCH_1}")
    set(of_line "")
    foreach(candidate IN ITEMS "${unity_include_dir}/${name}" "${folder}/${name}")
      cmake_path(NORMAL_PATH candidate)
      if(EXISTS "${candidate}")
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
