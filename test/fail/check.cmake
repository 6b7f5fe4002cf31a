# cmake -D COMPILER=... -D INCLUDE=... -D SOURCE=... -P check.cmake: the source must be refused with the expected words.
file(STRINGS "${SOURCE}" first LIMIT_COUNT 1)
if(NOT first MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE}:1: '${first}'; expected '// expect: REGEX'")
endif()
set(expected "${CMAKE_MATCH_1}")
execute_process(COMMAND "${COMPILER}" -std=c++20 -fsyntax-only "-I${INCLUDE}" "${SOURCE}"
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles; expected an error that matches '${expected}'")
endif()
if(NOT output MATCHES "${expected}")
  message(FATAL_ERROR "expected an error that matches '${expected}', found\n${output}")
endif()
