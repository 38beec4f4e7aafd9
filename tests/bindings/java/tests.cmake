# Java's, skipped without a JDK 17 or JNA.
set(java_binding ${PROJECT_SOURCE_DIR}/bindings/java)
file(GLOB java_sources CONFIGURE_DEPENDS ${java_binding}/src/libtrl/*.java)
list(FILTER java_sources EXCLUDE REGEX "Abi.java$")
trl_binding_test(java_coverage fast bash ${CMAKE_CURRENT_SOURCE_DIR}/coverage.sh ${PROJECT_SOURCE_DIR}/bindings/api.json
  ${java_binding}/uncovered.txt ${java_sources})
if(TRL_SANITIZE)
  return()  # an instrumented library can only be opened by a program that is, too
endif()
# trl_java_test(NAME LABEL PROGRAM [BEFORE COMMAND...] [ARGUMENTS ARGUMENT...]): BEFORE is a command that runs it.
function(trl_java_test name label program)
  cmake_parse_arguments(T "" "" "BEFORE;ARGUMENTS" ${ARGN})
  trl_binding_test(${name} ${label} ${T_BEFORE} bash ${CMAKE_CURRENT_SOURCE_DIR}/java/run.sh ${PROJECT_SOURCE_DIR}
    ${CMAKE_CURRENT_BINARY_DIR}/java/${name} ${program} ${T_ARGUMENTS})
  set_property(TEST bindings.${name} PROPERTY ENVIRONMENT "TRL_LIBRARY=$<TARGET_FILE:trl>")
endfunction()

if(NOT TRL_ENGINE)
  trl_java_test(java_host fast ${CMAKE_CURRENT_SOURCE_DIR}/java/HostTest.java)
else()  # with the tests of the other one
  trl_java_test(java_engine full ${CMAKE_CURRENT_SOURCE_DIR}/java/EngineTest.java)
  foreach(example ${examples})
    trl_java_test(${example}_example_java full ${PROJECT_SOURCE_DIR}/examples/java/${example}/Main.java
      ARGUMENTS ${${example}_arguments})
  endforeach()
  trl_java_test(scenario_java full ${java_binding}/Scenario.java BEFORE ${run_scenario} java)
  if(TRL_SERVE)
    trl_java_test(java_server full ${CMAKE_CURRENT_SOURCE_DIR}/java/ServerTest.java)
    trl_java_test(serve_scenario_java full ${java_binding}/ServeScenario.java BEFORE ${run_serve_scenario} java)
  endif()
endif()
