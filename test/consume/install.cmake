# cmake -D BUILD=... -D PREFIX=... -P install.cmake: a fresh install, which must name no folder of this machine.
file(REMOVE_RECURSE "${PREFIX}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PREFIX}" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE files "${PREFIX}/*.cmake")
if(NOT files)
  message(FATAL_ERROR "${PREFIX}: no package files, expected unityConfig.cmake and its like")
endif()
foreach(file IN LISTS files)
  file(STRINGS "${file}" leaks REGEX "${BUILD}")
  if(leaks)
    message(FATAL_ERROR "${file} names the build folder: ${leaks}")
  endif()
endforeach()
