file(GLOB node_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bindings/node/lib/*.js)
list(FILTER node_sources EXCLUDE REGEX /api.js$)
trl_binding_test(node_coverage fast bash ${CMAKE_CURRENT_SOURCE_DIR}/coverage.sh ${PROJECT_SOURCE_DIR}/bindings/api.json
  ${PROJECT_SOURCE_DIR}/bindings/node/uncovered.txt ${node_sources})
if(TRL_SANITIZE)
  return()  # an instrumented library can only be opened by a program that is, too
endif()
# Node's, skipped where Node 18 or koffi is missing.
function(trl_node_test name label)
  trl_binding_test(${name} ${label} bash ${CMAKE_CURRENT_SOURCE_DIR}/node/run.sh ${PROJECT_SOURCE_DIR} ${ARGN})
  set_property(TEST bindings.${name} PROPERTY ENVIRONMENT "TRL_LIBRARY=$<TARGET_FILE:trl>")
endfunction()
set(node_tests ${CMAKE_CURRENT_SOURCE_DIR}/node)

trl_node_test(node_install fast bash ${node_tests}/install.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:trl>)
trl_node_test(node_host fast node --expose-gc --test ${node_tests}/host_test.mjs)
if(TRL_ENGINE)
  trl_node_test(node_engine full node --expose-gc --test ${node_tests}/engine_test.mjs)
  foreach(kind ${kinds})
    trl_node_test(${kind}_node full ${run_${kind}} node node ${PROJECT_SOURCE_DIR}/bindings/node/${kind}.mjs)
  endforeach()
endif()
