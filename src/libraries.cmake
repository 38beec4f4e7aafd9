# The two libraries and the command, from the rooms' objects.
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

function(trl_objects out)
  set(objects "")
  foreach(room ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:${room}>)
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# Exports the names that the map lists and hides all others. Nothing that is linked in reads environment variables: getenv is
# another function here.
function(trl_export target map)
  set(map ${PROJECT_SOURCE_DIR}/src/${map})
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--exclude-libs,ALL -Wl,-z,nodelete -Wl,--as-needed
    -Wl,--defsym=getenv=trl_no_variable -Wl,--defsym=secure_getenv=trl_no_variable)
  set_property(TARGET ${target} PROPERTY LINK_DEPENDS ${map})
endfunction()

trl_objects(face_objects ${TRL_FACE_ROOMS})
add_library(trl SHARED ${face_objects})
add_library(trl::trl ALIAS trl)
target_include_directories(trl INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(trl PRIVATE trl_torch_free)
trl_export(trl capi/trl.map)
if(NOT TRL_SANITIZE)
  target_link_options(trl PRIVATE -Wl,-z,defs)
endif()
# A bundle has its libraries in the folder trl (src/bundle).
set_target_properties(trl PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN/trl"
  BUILD_WITH_INSTALL_RPATH ON)

if(TRL_ENGINE)
  trl_objects(engine_objects ${TRL_TORCH_FREE_ROOMS} ${TRL_ENGINE_ROOMS})
  add_library(trl_engine_library SHARED ${engine_objects})
  target_link_libraries(trl_engine_library PRIVATE trl_torch)
  trl_export(trl_engine_library entry/engine.map)
  set_target_properties(trl_engine_library PROPERTIES OUTPUT_NAME trl_engine
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/trl)
  add_dependencies(trl trl_engine_library)
endif()

# The server: it reaches models through the C API, and has its own copies of what it takes from other rooms.
if(TRL_SERVE)
  file(GLOB response CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/text/response/*.cc)
  trl_objects(serve_objects trl_serve trl_base)
  list(APPEND response ${CMAKE_CURRENT_SOURCE_DIR}/text/chat_template/unicode.cc
    ${CMAKE_CURRENT_SOURCE_DIR}/text/tokenizer/characters.cc)
  add_library(trl_serve_library SHARED ${serve_objects} ${response})
  set_property(TARGET trl_serve_library PROPERTY SOURCES_OF_OTHER_ROOMS ${response})  # tests link them, too
  add_library(trl::serve ALIAS trl_serve_library)
  target_include_directories(trl_serve_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(trl_serve_library PRIVATE trl_torch_free INTERFACE trl)
  target_link_libraries(trl_serve_library PRIVATE trl)
  trl_export(trl_serve_library serve/serve.map)
  if(NOT TRL_SANITIZE)
    target_link_options(trl_serve_library PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(trl_serve_library PROPERTIES OUTPUT_NAME trl_serve EXPORT_NAME serve VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
endif()

# SentencePiece's library brings Protocol Buffers whose names collide with those that libtorch loads: it lies in a module of
# its own, which is opened when a tokenizer.model is read.
pkg_check_modules(SENTENCEPIECE IMPORTED_TARGET sentencepiece)
if(SENTENCEPIECE_FOUND)
  add_library(trl_sentencepiece MODULE sentencepiece/module.cc)
  target_include_directories(trl_sentencepiece PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(trl_sentencepiece PRIVATE trl_flags PkgConfig::SENTENCEPIECE)
  target_link_options(trl_sentencepiece PRIVATE -Wl,--as-needed)
  set_target_properties(trl_sentencepiece PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/trl)
  add_dependencies(trl trl_sentencepiece)
  install(TARGETS trl_sentencepiece LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/trl)
else()
  message(STATUS "libsentencepiece-dev is not installed: a tokenizer.model without a tokenizer.json is refused")
endif()

# vllm_mode: server asks over HTTP by libcurl, in a module that no other run opens.
pkg_check_modules(TRL_CURL IMPORTED_TARGET libcurl)
if(TRL_CURL_FOUND)
  add_library(trl_http MODULE http/module.cc)
  target_include_directories(trl_http PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(trl_http PRIVATE trl_flags PkgConfig::TRL_CURL)
  target_link_options(trl_http PRIVATE -Wl,--as-needed)
  set_target_properties(trl_http PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/trl)
  add_dependencies(trl trl_http)
  install(TARGETS trl_http LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/trl)
else()
  message(STATUS "libcurl4-openssl-dev is not installed: vllm_mode: server is refused")
endif()

if(TRL_BUILD_CLI AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/cli/main.cc)
  find_package(spdlog REQUIRED)
  find_package(CLI11 REQUIRED)
  pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
  file(GLOB cli_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cli/*.cc)
  # cli/hub: names of the hub. Without libcurl only its local cache is read.
  file(GLOB hub_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cli/hub/*.cc)
  if(TRL_HUB)
    pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
  else()
    list(FILTER hub_sources EXCLUDE REGEX "/(api|download|request|transfer)\\.cc$")
    list(APPEND hub_sources ${CMAKE_CURRENT_SOURCE_DIR}/cli/hub/without/network.cc)
  endif()
  list(APPEND cli_sources ${hub_sources})
  # Alone: base/json/json.h comes before anything uses JSON, which other files of the command do without it.
  set_source_files_properties(base/text/message_text.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_executable(trl_command ${cli_sources} base/text/message_text.cc base/text/nearest.cc config/method.cc
    reward/command_entry.cc)
  target_include_directories(trl_command PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(trl_command PRIVATE trl trl_flags spdlog::spdlog CLI11::CLI11 nlohmann_json::nlohmann_json
    PkgConfig::LIBEDIT yaml-cpp)
  if(TRL_HUB)
    target_link_libraries(trl_command PRIVATE PkgConfig::CURL PkgConfig::MD)
  endif()
  if(TRL_SERVE)
    target_link_libraries(trl_command PRIVATE trl_serve_library)
    target_compile_definitions(trl_command PRIVATE TRL_SERVE)
  endif()
  # -O1 takes the compiler a third of the time, and the command has no loop that matters.
  target_compile_options(trl_command PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(trl_command PRIVATE <string> <vector> <spdlog/spdlog.h> <nlohmann/json.hpp>)
  set_target_properties(trl_command PROPERTIES OUTPUT_NAME ${TRL_COMMAND_NAME} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
    UNITY_BUILD ${TRL_JOIN_SOURCES} UNITY_BUILD_BATCH_SIZE 6 BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../lib;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/trl")
  install(TARGETS trl_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(NOT CMAKE_CROSSCOMPILING)  # the command prints its manual pages and completion scripts itself
    set(pages ${PROJECT_BINARY_DIR}/pages)
    add_custom_command(OUTPUT ${pages}/made
      COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man1
      COMMAND trl_command man --output ${pages}/man1
      COMMAND trl_command completion bash > ${pages}/trl
      COMMAND trl_command completion zsh > ${pages}/_trl
      COMMAND trl_command completion fish > ${pages}/trl.fish
      COMMAND ${CMAKE_COMMAND} -E touch ${pages}/made
      DEPENDS trl_command trl COMMENT "Manual pages and completion scripts" VERBATIM)
    add_custom_target(trl_pages ALL DEPENDS ${pages}/made)
    install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
    install(FILES ${pages}/trl DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
    install(FILES ${pages}/_trl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
    install(FILES ${pages}/trl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
  endif()
endif()
