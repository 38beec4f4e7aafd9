# The same with Python: -X dev finds what is not closed, and warnings are errors.
function(trl_python_test name label)
  if(NOT Python3_FOUND)
    trl_binding_test(${name} ${label} sh -c "echo 'there is no Python of version 3.11 or later' && exit 77")
    return()
  endif()
  trl_binding_test(${name} ${label} ${ARGN})
  set_property(TEST bindings.${name} PROPERTY ENVIRONMENT "TRL_LIBRARY=$<TARGET_FILE:trl>"
    "PYTHONPATH=${PROJECT_SOURCE_DIR}/bindings/python" PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error PYTHONDEVMODE=1)
endfunction()

trl_python_test(api fast ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bindings/generate.py --check)
file(GLOB python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bindings/python/libtrl/*.py)
list(FILTER python_sources EXCLUDE REGEX /_api.py$)
trl_binding_test(python_coverage fast bash ${CMAKE_CURRENT_SOURCE_DIR}/coverage.sh ${PROJECT_SOURCE_DIR}/bindings/api.json
  ${PROJECT_SOURCE_DIR}/bindings/python/uncovered.txt ${python_sources})
if(TRL_SANITIZE)
  return()  # an instrumented library can only be opened by a program that is, too
endif()
trl_python_test(python_install fast bash ${CMAKE_CURRENT_SOURCE_DIR}/python/install.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:trl>
  ${Python3_EXECUTABLE})
if(NOT TRL_ENGINE)
  trl_python_test(python_host fast ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/python/host_test.py)
else()  # with the tests of the other one
  trl_python_test(python_engine full ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/python/engine_test.py)
  if(TRL_SERVE)
    trl_python_test(python_server full ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/python/server_test.py)
  endif()
  foreach(example ${examples})
    trl_python_test(${example}_example_python full ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/examples/python/${example}/main.py
      ${${example}_arguments})
  endforeach()
  foreach(kind ${kinds})
    trl_python_test(${kind}_python full ${run_${kind}} python ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bindings/python/${kind}.py)
  endforeach()
endif()
