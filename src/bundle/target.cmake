# TRL_BUNDLE: the build copies the libraries that the engine takes something from beside it. The program that does so is built
# for the tests, too.
if(TRL_BUNDLE)
  if(NOT TRL_ENGINE)
    message(FATAL_ERROR "TRL_BUNDLE=ON: there is no engine to bundle libtorch for; give TRL_ENGINE=ON")
  elseif(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR CMAKE_CROSSCOMPILING OR TRL_SANITIZE)
    message(FATAL_ERROR "TRL_BUNDLE=ON: accepted on Linux, for the machine that builds, without TRL_SANITIZE")
  elseif(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_DOCDIR})
    message(FATAL_ERROR "TRL_BUNDLE=ON: give CMAKE_INSTALL_LIBDIR and CMAKE_INSTALL_DOCDIR relative to the prefix")
  endif()
endif()
if(TRL_ENGINE AND NOT CMAKE_CROSSCOMPILING AND (TRL_BUNDLE OR TRL_BUILD_TESTS))
  add_executable(trl_bundle bundle/bound_relocations.cc bundle/compact.cc bundle/elf.cc bundle/elf_file.cc bundle/kept_symbols.cc
    bundle/library_tables.cc bundle/main.cc bundle/plan.cc bundle/relocations.cc bundle/shorter_file.cc bundle/symbol_table.cc
    bundle/symbol_versions.cc bundle/table_places.cc)
  target_include_directories(trl_bundle PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(trl_bundle PRIVATE trl_flags)
  target_compile_options(trl_bundle PRIVATE $<$<CONFIG:Release>:-O1>)
endif()
if(TRL_BUNDLE)
  set(TRL_BUNDLE_DIR ${PROJECT_BINARY_DIR}/bundle)
  set(bundled trl trl_engine_library)
  set(command "")
  if(TARGET trl_sentencepiece)
    list(APPEND bundled trl_sentencepiece)
  endif()
  foreach(target trl_http trl_serve_library)
    if(TARGET ${target})
      list(APPEND bundled ${target})
    endif()
  endforeach()
  if(TARGET trl_command)
    list(APPEND bundled trl_command)
    set(command -DCOMMAND=$<TARGET_FILE:trl_command>)
  endif()
  file(GLOB scripts ${CMAKE_CURRENT_SOURCE_DIR}/bundle/*.cmake ${CMAKE_CURRENT_SOURCE_DIR}/bundle/*.txt
    ${CMAKE_CURRENT_SOURCE_DIR}/bundle/blas.cc)
  add_custom_command(OUTPUT ${TRL_BUNDLE_DIR}.made
    COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:trl_bundle> -DCXX=${CMAKE_CXX_COMPILER} -DFROM=${PROJECT_BINARY_DIR}/lib ${command}
      $<$<CONFIG:Release>:-DSTRIP=${CMAKE_STRIP}> -DTO=${TRL_BUNDLE_DIR} -DLIBDIR=${CMAKE_INSTALL_LIBDIR} -DDOCDIR=${CMAKE_INSTALL_DOCDIR} -P ${CMAKE_CURRENT_SOURCE_DIR}/bundle/bundle.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${TRL_BUNDLE_DIR}.made
    DEPENDS trl_bundle ${bundled} ${scripts} COMMENT "A libtorch of its own" COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(trl_bundled ALL DEPENDS ${TRL_BUNDLE_DIR}.made)
endif()
