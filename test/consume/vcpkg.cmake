# cmake -D ROOT=... -D SCRATCH=... -D GENERATOR=... -D COMPILER=... -P vcpkg.cmake: what the port asks of vcpkg, done by
# functions that do what vcpkg's of the same names do with a port of headers. vcpkg itself would be fetched.
file(REMOVE_RECURSE "${SCRATCH}")
set(CURRENT_PACKAGES_DIR "${SCRATCH}/packages")

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "SOURCE_PATH" "OPTIONS")
  if(given_UNPARSED_ARGUMENTS OR NOT VCPKG_BUILD_TYPE STREQUAL "release")
    message(FATAL_ERROR "vcpkg_cmake_configure(${ARGN}) of a ${VCPKG_BUILD_TYPE} build, "
                        "expected SOURCE_PATH and OPTIONS")
  endif()
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${given_SOURCE_PATH}" -B "${SCRATCH}/build" -G "${GENERATOR}"
                          -D "CMAKE_CXX_COMPILER=${COMPILER}" -D "CMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}"
                          ${given_OPTIONS}
                  OUTPUT_QUIET ERROR_VARIABLE complaint COMMAND_ERROR_IS_FATAL ANY)
  # Also what it says of options that it does not have.
  if(complaint)
    message(FATAL_ERROR "unity complains: ${complaint}")
  endif()
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/build" --target install
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Moves the package files to where vcpkg has those of all packages, a folder nearer to the prefix.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "CONFIG_PATH" "")
  file(GLOB files "${CURRENT_PACKAGES_DIR}/${given_CONFIG_PATH}/*")
  file(COPY ${files} DESTINATION "${CURRENT_PACKAGES_DIR}/share/unity")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/cmake")
  file(READ "${CURRENT_PACKAGES_DIR}/share/unity/unityTargets.cmake" text)
  string(REPLACE [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
]] [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
]] text "${text}")
  file(WRITE "${CURRENT_PACKAGES_DIR}/share/unity/unityTargets.cmake" "${text}")
endfunction()

function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/share/pkgconfig/unity.pc")
    message(FATAL_ERROR "no share/pkgconfig/unity.pc to mend")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "" "FILE_LIST")
  configure_file("${given_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/unity/copyright" COPYONLY)
endfunction()

set(port "${ROOT}/cmake/packaging/vcpkg")
include("${port}/portfile.cmake")
foreach(file IN ITEMS include/unity/search.hpp share/unity/copyright share/unity/unityConfig.cmake)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${file}")
    message(FATAL_ERROR "the port installs no ${file}")
  endif()
endforeach()
# vcpkg asks a port of headers to install no empty folders, no libraries and nothing for debugging.
file(GLOB folders RELATIVE "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}/*")
if(NOT folders STREQUAL "include;share")
  message(FATAL_ERROR "the port installs ${folders}, expected include;share")
endif()

file(READ "${port}/vcpkg.json" manifest)
string(JSON version GET "${manifest}" version)
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/project" -B "${SCRATCH}/consumer"
                        -G "${GENERATOR}" -D "CMAKE_CXX_COMPILER=${COMPILER}"
                        -D "CMAKE_PREFIX_PATH=${CURRENT_PACKAGES_DIR}" -D "VERSION=${version}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/consumer" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${SCRATCH}/consumer/consumer" COMMAND_ERROR_IS_FATAL ANY)
