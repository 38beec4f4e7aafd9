# Go, skipped where it is missing.
file(GLOB go_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bindings/go/*.go)
list(FILTER go_sources EXCLUDE REGEX _test.go$)
trl_binding_test(go_coverage fast bash ${CMAKE_CURRENT_SOURCE_DIR}/coverage.sh ${PROJECT_SOURCE_DIR}/bindings/api.json
  ${PROJECT_SOURCE_DIR}/bindings/go/uncovered.txt ${go_sources} ${PROJECT_SOURCE_DIR}/bindings/go/shim.c)
if(TRL_SANITIZE)
  return()  # an instrumented library can only be opened by a program that is, too
endif()
set(go bash ${CMAKE_CURRENT_SOURCE_DIR}/go/run.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:trl> ${CMAKE_CURRENT_BINARY_DIR}/go)
trl_binding_test(go_host fast ${go} test ^TestHost)
if(TRL_ENGINE)
  trl_binding_test(go_engine full ${go} test ^TestEngine)
  set(go_tests bindings.go_host bindings.go_engine)
  foreach(kind ${kinds})
    trl_binding_test(${kind}_go full ${run_${kind}} go ${go} ${kind})
    list(APPEND go_tests bindings.${kind}_go)
  endforeach()
  set_tests_properties(${go_tests} PROPERTIES RESOURCE_LOCK go_cache TIMEOUT 600)
endif()
