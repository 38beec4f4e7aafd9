# Tests of bindings/rust: skipped without cargo and rustc 1.63 or later. Nothing is built in the source tree, and nothing fetched.
set(crates ${PROJECT_SOURCE_DIR}/bindings/rust)
find_program(TRL_CARGO cargo)
find_program(TRL_RUSTC rustc)
mark_as_advanced(TRL_CARGO TRL_RUSTC)
set(rust_version 0)
if(TRL_CARGO AND TRL_RUSTC)
  execute_process(COMMAND ${TRL_RUSTC} --version OUTPUT_VARIABLE rust_version ERROR_QUIET)
  string(REGEX MATCH "[0-9]+[.][0-9]+" rust_version "${rust_version}")
endif()

function(trl_rust_test name label)
  if(rust_version VERSION_LESS 1.63)
    trl_binding_test(${name} ${label} sh -c "echo 'there is no Rust of version 1.63 or later' && exit 77")
    return()
  endif()
  trl_binding_test(${name} ${label} ${ARGN})
  set(target ${CMAKE_CURRENT_BINARY_DIR}/rust)
  set_tests_properties(bindings.${name} PROPERTIES RESOURCE_LOCK cargo TIMEOUT 900 ENVIRONMENT "TRL_LIBRARY_DIR=$<TARGET_FILE_DIR:trl>;\
LD_LIBRARY_PATH=$<TARGET_FILE_DIR:trl>;CARGO_TARGET_DIR=${target};CARGO_HOME=${target}/home;CARGO_PROFILE_DEV_DEBUG=0;\
CARGO_INCREMENTAL=0")
endfunction()

file(GLOB rust_sources CONFIGURE_DEPENDS ${crates}/trl/src/*.rs)
trl_binding_test(rust_coverage fast bash ${CMAKE_CURRENT_SOURCE_DIR}/coverage.sh ${PROJECT_SOURCE_DIR}/bindings/api.json
  ${crates}/uncovered.txt ${rust_sources})
if(TRL_SANITIZE)
  return()
endif()
set(cargo_arguments --offline --locked --quiet --manifest-path ${crates}/Cargo.toml)
trl_rust_test(rust_declarations fast ${TRL_CARGO} test ${cargo_arguments} -p trl-sys)
if(NOT TRL_ENGINE)
  trl_rust_test(rust_host fast ${TRL_CARGO} test ${cargo_arguments} -p trl --test host --test process)
else()
  trl_rust_test(rust_engine full ${TRL_CARGO} test ${cargo_arguments} -p trl)
  trl_rust_test(scenario_rust full bash ${CMAKE_CURRENT_SOURCE_DIR}/scenario.sh ${PROJECT_SOURCE_DIR} ${scenarios} rust
    ${TRL_CARGO} run ${cargo_arguments} -p trl --example scenario --)
  set_tests_properties(bindings.scenario_rust PROPERTIES FIXTURES_SETUP scenarios)
endif()
