#!/usr/bin/env bash
# consumer.sh WAY SOURCE BUILD LIBDIR: builds and runs a program outside of the tree. The installed tree is moved first,
# so a path that was built in would be found missing.
set -euo pipefail
way=$1 source=$2 build=$3 libdir=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install_and_move() {
  cmake --install "$build" --prefix "$work/first" > "$work/log" || { cat "$work/log"; exit 1; }
  mkdir "$work/a b"
  mv "$work/first" "$work/a b/moved"
  prefix="$work/a b/moved"
  export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig" LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  check_libraries "$prefix/$libdir"
  cmp "$source/LICENSE" "$prefix/share/doc/trl/LICENSE"
  test -s "$prefix/$libdir/pkgconfig/trl.pc" -a -s "$prefix/$libdir/cmake/trl/trlConfig.cmake" -a -s "$prefix/include/trl/trl.h"
  if [ -e "$prefix/bin/trl" ]; then
    for file in man/man1/trl.1 man/man1/trl-sft.1 bash-completion/completions/trl zsh/site-functions/_trl \
                fish/vendor_completions.d/trl.fish; do
      test -s "$prefix/share/$file" || { echo "share/$file is not installed"; exit 1; }
    done
  fi
  if grep -rlF -e "$build" -e "$source" "$prefix/$libdir/pkgconfig" "$prefix/$libdir/cmake"; then
    echo "an installed file holds a path of the build"; exit 1
  fi
  for library in "$prefix/$libdir"/libtrl.so "$prefix/$libdir"/libtrl_serve.so "$prefix/$libdir"/trl/*.so; do
    [ -e "$library" ] || continue
    if readelf -d "$library" | grep -E 'R(UN)?PATH' | grep -F "$build"; then echo "$library: a path of the build"; exit 1; fi
  done
}

check_program() {
  "$1"
  readelf -d "$1" | grep NEEDED | sed 's/.*\[\(.*\)\]/\1/' > "$work/needed"
  grep -q '^libtrl.so.0$' "$work/needed"
  if grep -vE '^(libtrl|libc|libm|ld-linux.*)\.so' "$work/needed"; then
    echo "the program needs more than libtrl"; exit 1
  fi
}

serves() { grep -q '^TRL_SERVE:BOOL=ON' "$build/CMakeCache.txt"; }

check_server() {
  "$1"
  readelf -d "$1" | grep NEEDED > "$work/needed"
  grep -qF '[libtrl_serve.so.0]' "$work/needed"
}

# Whether the libraries that the build has made are all in a folder of an install or a package.
check_libraries() {
  local library
  for library in "$build"/lib/libtrl*.so "$build"/lib/trl/*.so; do
    [ -e "$library" ] || continue
    [ -e "$1/${library#"$build/lib/"}" ] || { echo "$1 lacks ${library#"$build/lib/"}"; exit 1; }
  done
}

project() {  # the CMakeLists.txt of a consumer
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(consumer C%s)\n%s\nadd_executable(consumer main.c)\ntarget_link_libraries(consumer PRIVATE trl::trl)\n' "${2:-}" "$1" > "$work/consumer/CMakeLists.txt"
  cp "$source/tests/consumer/main.c" "$work/consumer/"
}

mkdir "$work/consumer"
case "$way" in
  pkg_config)
    install_and_move
    # pkg-config escapes the blank of the path, which only a shell that reads the line again understands
    eval "cc -Wall -Wextra -Werror '$source/tests/consumer/main.c' $(pkg-config --cflags --libs trl) -o '$work/program'"
    check_program "$work/program"
    cp -r "$source/examples/c/attention_plugin" "$work/plugin"  # needs no engine: the header alone
    make -C "$work/plugin" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    nm -D --defined-only "$work/plugin/attention.so" | grep -q ' T trl_kernel_attention$'
    if serves; then
      eval "cc -Wall -Wextra -Werror '$source/tests/consumer/serve.c' $(pkg-config --cflags --libs trl_serve) -o '$work/server'"
      check_server "$work/server"
    fi
    [ "$(pkg-config --variable=abi trl)" = 0 ]
    features=$("$work/program" | grep -o '"features":\[[^]]*\]' | cut -d[ -f2 | tr -d '"]' | tr , ' ')
    [ -n "$features" ] && [ "$(pkg-config --variable=features trl)" = "$features" ] || { echo "trl.pc and trl_build_info name other features"; exit 1; }
    pkg-config --variable=torch_version trl
    [ "$(pkg-config --static --libs trl)" = "$(pkg-config --libs trl)" ] || { echo "there is no static library"; exit 1; }
    ;;
  find_package)
    install_and_move
    project 'find_package(trl 0.1 REQUIRED)'
    cmake -S "$work/consumer" -B "$work/out" -DCMAKE_PREFIX_PATH="$prefix" > "$work/log" || { cat "$work/log"; exit 1; }
    cmake --build "$work/out" > "$work/log" || { cat "$work/log"; exit 1; }
    check_program "$work/out/consumer"
    if serves; then
      sed -i 's/main\.c/serve.c/; s/trl::trl/trl::serve/' "$work/consumer/CMakeLists.txt"
      cp "$source/tests/consumer/serve.c" "$work/consumer/"
      cmake -S "$work/consumer" -B "$work/out" -DCMAKE_PREFIX_PATH="$prefix" > "$work/log" || { cat "$work/log"; exit 1; }
      cmake --build "$work/out" > "$work/log" || { cat "$work/log"; exit 1; }
      check_server "$work/out/consumer"
    fi
    cmake -S "$source/examples/c/attention_plugin" -B "$work/plugin" -DCMAKE_PREFIX_PATH="$prefix" > "$work/log" || { cat "$work/log"; exit 1; }
    cmake --build "$work/plugin" > "$work/log" || { cat "$work/log"; exit 1; }
    nm -D --defined-only "$work/plugin/attention.so" | grep -q ' T trl_kernel_attention$'
    ;;
  add_subdirectory | add_subdirectory_whole)
    project "add_subdirectory($source trl)" ' CXX'
    cmake -G Ninja -S "$work/consumer" -B "$work/out" -DTRL_ENGINE=OFF -DTRL_BUILD_CLI=OFF > "$work/log" || { cat "$work/log"; exit 1; }
    if [ "$way" = add_subdirectory ]; then
      ninja -C "$work/out" CMakeFiles/consumer.dir/main.c.o > "$work/log" || { cat "$work/log"; exit 1; }
    else
      ninja -C "$work/out" consumer > "$work/log" || { tail -40 "$work/log"; exit 1; }
      "$work/out/consumer"
    fi
    if ninja -C "$work/out" -t targets all | grep -q _test; then echo "a subdirectory builds tests"; exit 1; fi
    ;;
  command_name)  # configured and not built: the build makes, and the install copies, a command of that name alone
    configure() { cmake -G Ninja -S "$source" -B "$work/out" -DTRL_ENGINE=OFF -DTRL_BUILD_TESTS=OFF -DTRL_BUILD_BENCH=OFF "$@"; }
    configure -DTRL_COMMAND_NAME=ltrl > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    ninja -C "$work/out" -t targets all > "$work/targets"
    grep -q '^bin/ltrl: ' "$work/targets"
    if grep -q '^bin/trl: ' "$work/targets"; then echo "the command is still called trl"; exit 1; fi
    grep -rqF '/bin/ltrl"' "$work/out" --include=cmake_install.cmake
    if configure -DTRL_COMMAND_NAME=a/b > "$work/log" 2>&1; then echo "a/b is accepted as a name"; exit 1; fi
    grep -q 'TRL_COMMAND_NAME=a/b: give a file name' "$work/log"
    ;;
  uninstall)
    cmake --install "$build" --prefix "$work/trl" > "$work/log" || { cat "$work/log"; exit 1; }
    touch "$work/trl/include/other.h"
    find "$work/trl" ! -type d ! -name other.h > "$work/manifest"
    [ "$(wc -l < "$work/manifest")" -gt 10 ]
    cmake -DMANIFEST="$work/manifest" -P "$source/pkgconfig/uninstall.cmake"
    [ "$(find "$work/trl" ! -type d)" = "$work/trl/include/other.h" ] || { find "$work/trl"; exit 1; }
    [ ! -e "$work/trl/$libdir" ] && [ ! -e "$work/trl/include/trl" ]
    if cmake -DMANIFEST="$work/none" -P "$source/pkgconfig/uninstall.cmake" 2> "$work/log"; then echo "there was nothing to remove"; exit 1; fi
    grep -q 'nothing has been installed' "$work/log"
    ;;
  tarball)  # unpacked anywhere, and found by pkg-config from its own place
    (cd "$build" && cpack -G TGZ -B "$work/pack") > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    mkdir "$work/a b"
    tar -xzf "$work"/pack/libtrl-*.tar.gz -C "$work/a b"
    prefix=$(echo "$work/a b"/libtrl-*)
    export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig" LD_LIBRARY_PATH="$prefix/$libdir"
    check_libraries "$prefix/$libdir"
    eval "cc '$source/tests/consumer/main.c' $(pkg-config --cflags --libs trl) -o '$work/program'"
    check_program "$work/program"
    ;;
  deb)
    command -v dpkg-shlibdeps > /dev/null || { echo "dpkg-dev is not installed"; exit 77; }
    grep -q '^TRL_BUNDLE:BOOL=OFF' "$build/CMakeCache.txt" || { echo "a bundle is packed as a tarball alone"; exit 77; }
    (cd "$build" && cpack -G DEB -B "$work/pack") > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    dpkg-deb -f "$work"/pack/*.deb Depends | tee "$work/depends"
    for package in libc6 libstdc++6 $(grep -qs '^TRL_ENGINE:BOOL=ON' "$build/CMakeCache.txt" && echo libtorch); do grep -qF "$package" "$work/depends"; done
    dpkg-deb -x "$work"/pack/*.deb "$work/root"
    folder=$(dirname "$(find "$work/root/usr" -name libtrl.so)")
    check_libraries "$folder"
    cc -I"$work/root/usr/include" "$source/tests/consumer/main.c" -L"$folder" -ltrl -o "$work/program"
    LD_LIBRARY_PATH=$folder "$work/program"
    ;;
  example)
    install_and_move
    cp -r "$source/examples/c/sft" "$work/sft"
    make -C "$work/sft" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    "$work/sft/sft" "$source/tests/golden/models/qwen2" "$work/sft/rows.jsonl" "$work/out" > "$work/said" || { cat "$work/said"; exit 1; }
    cat "$work/said"
    grep -q 'saved' "$work/said"
    test -s "$work/out/model.safetensors" -a -s "$work/out/trainer_state.json"
    ;;
  *) echo "unknown way $way"; exit 2 ;;
esac
