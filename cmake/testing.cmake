# What tests need besides a compiler: data, models, and functions that register tests.

set(UNITY_SHARED_DIR "${PROJECT_SOURCE_DIR}/../shared" CACHE PATH "Published files that some tests read, if there")
set(UNITY_TEST_TIMEOUT 1500 CACHE STRING "Seconds after which a test has failed")
set(unity_model_dir "${PROJECT_BINARY_DIR}/models")

# unity_add_test(<name> <label> COMMAND <command>...)
function(unity_add_test name label)
  add_test(NAME ${name} ${ARGN})
  # Results must not depend on whether an inference engine is installed.
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${UNITY_TEST_TIMEOUT}
                       ENVIRONMENT "UNITY_TARGET=none")
endfunction()

# Debian's Python makes the models, because python3-onnx is installed for it. Another Python in PATH is not used.
find_program(UNITY_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
mark_as_advanced(UNITY_PYTHON)
set(unity_has_models FALSE)
set(model_script "${PROJECT_SOURCE_DIR}/examples/models/make_models.py")
if(UNITY_PYTHON AND EXISTS "${model_script}")
  execute_process(COMMAND "${UNITY_PYTHON}" -c "import numpy, onnx" RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result EQUAL 0)
    set(unity_has_models TRUE)
    unity_add_test(models/make models COMMAND "${UNITY_PYTHON}" "${model_script}" "${unity_model_dir}")
    set_tests_properties(models/make PROPERTIES FIXTURES_SETUP models)
  endif()
endif()

# unity_may_test(<variable> <name> <whether it reads the models>): false if the test reads models that cannot be made
# here; then the summary lists it as left out.
function(unity_may_test variable name reads_models)
  set(${variable} TRUE PARENT_SCOPE)
  if(reads_models AND NOT unity_has_models)
    unity_leave_out("/usr/bin/python3 with onnx and numpy, or examples/models/make_models.py" "${name}")
    set(${variable} FALSE PARENT_SCOPE)
  endif()
endfunction()

# unity_add_runs(<program> <file>): a test for each line `// run: ARGUMENTS` of an example.
function(unity_add_runs program file)
  file(STRINGS "${file}" lines REGEX "^// run:")
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    set(name "example/${program}")
    if(number GREATER 1)
      string(APPEND name "_${number}")
    endif()
    string(REGEX REPLACE "^// run:" "" line "${line}")
    string(FIND "${line}" "{models}" reads_models)
    math(EXPR reads_models "${reads_models} + 1")
    unity_may_test(possible "${name}" ${reads_models})
    if(possible)
      set(out "${PROJECT_BINARY_DIR}/out/${program}_${number}")
      string(REPLACE "{out}" "${out}" line "${line}")
      string(REPLACE "{models}" "${unity_model_dir}" line "${line}")
      string(REPLACE "{source}" "${PROJECT_SOURCE_DIR}" line "${line}")
      separate_arguments(arguments UNIX_COMMAND "${line}")
      unity_add_test(${name} example COMMAND "${CMAKE_COMMAND}" -D "OUT=${out}"
                     -P "${PROJECT_SOURCE_DIR}/cmake/run_example.cmake" -- $<TARGET_FILE:${program}> ${arguments})
      if(reads_models)
        set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED models)
      endif()
    endif()
  endforeach()
endfunction()
